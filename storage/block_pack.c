/* SPDX-License-Identifier: Apache-2.0 */
/* Packing rows into a block record; B1 to B4 in block.h. */
#include "storage/block_format.h"
#include "storage/column.h"
#include "storage/columnar.h"
#include "storage/dict.h"
#include "storage/shape.h"

/* Fewer ids are listed as they are. */
#define PACKED_IDS_MIN 8u
/* A meta frame this short is not worth a compressor's call. */
#define META_RAW_MAX 64u

/* Binary streams hold few matches, and what else there is to gain is in the statistics of their
 * bytes, which any level takes: instead of levels 2 to 4, level 1 packs them in three quarters of
 * the time, to 0.1 to 2 % more. */
#define BINARY_LEVEL    1
#define BINARY_LEVEL_OF 4

/* What a look over the rows tells before anything is written. */
struct survey {
    unsigned features;
    size_t runs, ids;
    uint64_t names_len; /* ids and routings */
    uint64_t docs_len;
    size_t doc_min, doc_max; /* shortest and longest document */
    uint64_t varints_len;    /* of the lengths, as varints */
    const uint8_t *docs;     /* of the first document */
    bool contiguous;
};

static bool same_run(const struct row *a, const struct row *b)
{
    return a->nonce == b->nonce && a->term == b->term;
}

static unsigned bits_of(uint64_t v)
{
    return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

static struct survey survey_rows(const struct row *rows, size_t count)
{
    struct survey s = {.contiguous = true, .doc_min = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        assert(row->version >= 1 && row->term >= 1 && row->nonce < NONCE_MAX);
        assert(row->kind == ROW_MADE ? row->id.len == 0
                                     : row->id.len >= 1 && row->id.len <= LIMIT_ID_BYTES);
        assert(row->kind != ROW_TOMBSTONE || row->doc.len == 0);
        if (i > 0) {
            assert(row->seq > rows[i - 1].seq);
            if (row->seq != rows[i - 1].seq + 1)
                s.features |= HAS_SEQS;
        }
        if (i == 0 || !same_run(row, &rows[i - 1]))
            s.runs++;
        if (row->kind != ROW_MADE) {
            s.features |= HAS_KINDS;
            s.ids++;
        }
        if (row->version != 1)
            s.features |= HAS_VERSIONS;
        if (row->routing.len != 0)
            s.features |= HAS_ROUTINGS;
        s.names_len += row->id.len + row->routing.len;
        s.doc_min = row->doc.len < s.doc_min ? row->doc.len : s.doc_min;
        s.doc_max = row->doc.len > s.doc_max ? row->doc.len : s.doc_max;
        s.varints_len += (bits_of(row->doc.len | 1) + 6) / 7;
        if (row->doc.len != 0) {
            if (s.docs == NULL)
                s.docs = row->doc.ptr;
            else if (row->doc.ptr != s.docs + s.docs_len)
                s.contiguous = false;
            s.docs_len += row->doc.len;
        }
    }
    /* Most documents of a log differ little in length: a few bits each instead of two bytes. */
    if (packed_bytes(count, bits_of(s.doc_max - s.doc_min)) + VARINT_BYTES_MAX < s.varints_len)
        s.features |= PACKED_LENGTHS;
    if (s.ids >= PACKED_IDS_MIN)
        s.features |= PACKED_IDS;
    return s;
}

static void put_runs(struct buf *meta, const struct row *rows, size_t count, size_t runs)
{
    buf_put_varint(meta, runs);
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && same_run(&rows[i], &rows[i + n]);)
            n++;
        uint8_t nonce[8];
        put_be64(nonce, rows[i].nonce << 8);
        buf_put(meta, nonce, NONCE_BYTES);
        buf_put_varint(meta, rows[i].term);
        buf_put_varint(meta, n);
    }
}

static void put_lengths(struct buf *meta, const struct survey *s, const struct row *rows,
                        size_t count)
{
    if (!(s->features & PACKED_LENGTHS)) {
        for (size_t i = 0; i < count; i++)
            buf_put_varint(meta, rows[i].doc.len);
        return;
    }
    unsigned width = bits_of(s->doc_max - s->doc_min), held = 0;
    uint64_t bits = 0;
    buf_put_varint(meta, s->doc_min);
    buf_put_byte(meta, (uint8_t)width);
    for (size_t i = 0; i < count; i++) {
        bits |= (uint64_t)(rows[i].doc.len - s->doc_min) << held;
        for (held += width; held >= 8; held -= 8, bits >>= 8)
            buf_put_byte(meta, (uint8_t)bits);
    }
    if (held > 0)
        buf_put_byte(meta, (uint8_t)bits);
}

/* The ids as one column: its three streams and their lengths. */
static enum rc put_id_column(struct buf *meta, const struct survey *s, const struct row *rows,
                             size_t count)
{
    struct cell *cells = malloc(s->ids * sizeof *cells);
    struct column_scratch scratch = {0};
    struct streams streams = {0};
    enum rc rc = RC_NOMEM;
    size_t n = 0;
    if (cells == NULL || !column_scratch_init(&scratch, s->ids))
        goto out;
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind != ROW_MADE)
            cells[n++] = (struct cell){rows[i].id.ptr, (uint32_t)rows[i].id.len, (uint32_t)i};
    column_put(&streams, cells, n, COLUMN_IDS | COLUMN_ANY_BYTES, &scratch);
    buf_put_varint(meta, streams.directory.len);
    buf_put_varint(meta, streams.text.len);
    buf_put_varint(meta, streams.planes.len);
    buf_put_slice(meta, buf_slice(&streams.directory));
    buf_put_slice(meta, buf_slice(&streams.text));
    buf_put_slice(meta, buf_slice(&streams.planes));
    if (!streams.directory.failed && !streams.text.failed && !streams.planes.failed &&
        !scratch.bytes.failed)
        rc = RC_OK;
out:
    free(cells);
    column_scratch_done(&scratch);
    streams_done(&streams);
    return rc;
}

static enum rc put_ids(struct buf *meta, const struct survey *s, const struct row *rows,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_put_byte(meta, (uint8_t)rows[i].kind);
    if (s->features & PACKED_IDS)
        return put_id_column(meta, s, rows, count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind != ROW_MADE)
            buf_put_varint(meta, rows[i].id.len);
    for (size_t i = 0; i < count; i++)
        buf_put_slice(meta, rows[i].id);
    return RC_OK;
}

static enum rc put_meta(struct buf *meta, const struct survey *s, enum block_layout layout,
                        const struct row *rows, size_t count)
{
    buf_put_varint(meta, s->features);
    put_runs(meta, rows, count, s->runs);
    if (layout == LAYOUT_PLAIN)
        put_lengths(meta, s, rows, count);
    else
        buf_put_varint(meta, s->docs_len);
    if (s->features & HAS_SEQS)
        for (size_t i = 1; i < count; i++)
            buf_put_varint(meta, rows[i].seq - rows[i - 1].seq);
    if (s->features & HAS_KINDS)
        TRY(put_ids(meta, s, rows, count));
    if (s->features & HAS_VERSIONS)
        for (size_t i = 0; i < count; i++)
            buf_put_varint(meta, rows[i].version);
    if (s->features & HAS_ROUTINGS) {
        for (size_t i = 0; i < count; i++)
            buf_put_varint(meta, rows[i].routing.len);
        for (size_t i = 0; i < count; i++)
            buf_put_slice(meta, rows[i].routing);
    }
    return meta->failed ? RC_NOMEM : RC_OK;
}

/* Append a frame; false in *raw_out when it is compressed. out has the room. */
static enum rc put_frame(enum codec codec, int level, struct dict *dict, struct slice raw,
                         struct buf *out, uint32_t *len_out, bool *raw_out)
{
    size_t len = 0, room = out->cap - out->len;
    uint8_t *dst = out->ptr + out->len;
    enum rc rc = dict != NULL ? dict_compress(dict, level, raw, dst, room, &len)
                              : codec_compress(codec, level, raw, dst, room, &len);
    if (rc != RC_OK && rc != RC_TOO_LARGE)
        return rc;
    *raw_out = rc == RC_TOO_LARGE;
    if (*raw_out) {
        buf_put_slice(out, raw);
        len = raw.len;
    } else {
        out->len += len;
    }
    *len_out = (uint32_t)len;
    return RC_OK;
}

static void put_header(uint8_t *p, const struct block_header *head, unsigned flags)
{
    memset(p, 0, BLOCK_HEADER_BYTES);
    memcpy(p, "SBLK", 4);
    p[4] = head->format;
    p[5] = (uint8_t)head->layout;
    p[6] = (uint8_t)head->codec;
    p[7] = (uint8_t)head->level;
    put_u32(p + 8, head->index_no);
    put_u32(p + 12, head->dictionary);
    put_u64(p + 16, head->first_seq);
    put_u32(p + 24, head->rows);
    put_u32(p + 28, head->meta_len);
    put_u32(p + 32, head->meta_raw);
    put_u32(p + 36, head->data_len);
    put_u32(p + 40, head->data_raw);
    put_u32(p + 44, head->aux_len);
    put_u32(p + 48, head->aux_raw);
    put_u32(p + 52, flags);
    put_u64(p + BLOCK_CHECKSUM_AT,
            block_checksum(p, (size_t)head->meta_len + head->data_len + head->aux_len));
}

static int binary_level(enum codec codec, int level)
{
    return codec == CODEC_ZSTD && level <= BINARY_LEVEL_OF ? BINARY_LEVEL : level;
}

/* What goes into a record besides its header. */
struct frames {
    struct slice meta, data, aux;
    enum codec meta_codec;
    struct dict *dict; /* of the data frame */
};

/* Header and frames behind what out holds. */
static enum rc put_record(struct block_header *head, const struct frames *f, struct buf *out)
{
    size_t start = out->len;
    bool meta_raw = false, data_raw = false, aux_raw = false;
    if (!buf_reserve(out, BLOCK_HEADER_BYTES + BLOCK_ALIGN + codec_bound(head->codec, f->meta.len) +
                              codec_bound(head->codec, f->data.len) +
                              codec_bound(head->codec, f->aux.len)))
        return RC_NOMEM;
    out->len += BLOCK_HEADER_BYTES;
    head->meta_raw = (uint32_t)f->meta.len;
    head->data_raw = (uint32_t)f->data.len;
    head->aux_raw = (uint32_t)f->aux.len;
    TRY(put_frame(f->meta_codec, head->level, NULL, f->meta, out, &head->meta_len, &meta_raw));
    TRY(put_frame(head->codec, head->level, f->dict, f->data, out, &head->data_len, &data_raw));
    if (f->aux.len != 0)
        TRY(put_frame(head->codec, binary_level(head->codec, head->level), NULL, f->aux, out,
                      &head->aux_len, &aux_raw));
    put_header(out->ptr + start, head,
               (meta_raw ? META_RAW : 0u) | (data_raw ? DATA_RAW : 0u) | (aux_raw ? AUX_RAW : 0u));
    size_t padding = align_up(out->len - start, BLOCK_ALIGN) - (out->len - start);
    memset(out->ptr + out->len, 0, padding);
    out->len += padding;
    return RC_OK;
}

/* The rows in layout plain, appended. */
static enum rc pack_plain(struct block_header *head, const struct survey *s, struct dict *dict,
                          const struct row *rows, struct buf *out)
{
    struct buf meta = {0}, copy = {0};
    struct frames f = {
        .data = {s->docs, (size_t)s->docs_len}, .meta_codec = head->codec, .dict = dict};
    enum rc rc = put_meta(&meta, s, LAYOUT_PLAIN, rows, head->rows);
    if (rc == RC_OK && !s->contiguous) {
        for (size_t i = 0; i < head->rows; i++)
            buf_put_slice(&copy, rows[i].doc);
        f.data = buf_slice(&copy);
        rc = copy.failed ? RC_NOMEM : RC_OK;
    }
    if (rc == RC_OK) {
        /* Packed lengths alone do not compress; trying would cost a tenth of the block's time. */
        if (s->features == PACKED_LENGTHS)
            f.meta_codec = CODEC_NONE;
        f.meta = buf_slice(&meta);
        head->layout = LAYOUT_PLAIN;
        rc = put_record(head, &f, out);
    }
    buf_done(&meta);
    buf_done(&copy);
    return rc;
}

/* The same in layout columnar. *doubtful_out: plain may be smaller. */
static enum rc pack_columnar(struct block_header *head, const struct survey *s, struct dict *dict,
                             const struct row *rows, struct buf *out, bool *doubtful_out)
{
    struct survey without = *s; /* lengths: documents tell their own */
    struct buf meta = {0}, data = {0}, aux = {0};
    struct slice *docs = malloc(head->rows * sizeof *docs);
    struct fit *fits = malloc(head->rows * sizeof *fits);
    enum rc rc = docs == NULL || fits == NULL ? RC_NOMEM : RC_OK;
    without.features &= ~(unsigned)PACKED_LENGTHS;
    for (size_t i = 0; rc == RC_OK && i < head->rows; i++) {
        docs[i] = rows[i].doc;
        fits[i] = rows[i].fit != NULL ? *rows[i].fit : (struct fit){NULL, NULL, NULL};
    }
    if (rc == RC_OK)
        rc = put_meta(&meta, &without, LAYOUT_COLUMNAR, rows, head->rows);
    if (rc == RC_OK)
        rc = columnar_pack(docs, fits, head->rows, &data, &aux);
    if (rc == RC_OK && (data.len > FRAME_RAW_MAX || aux.len > FRAME_RAW_MAX))
        rc = RC_TOO_LARGE;
    if (rc == RC_OK) {
        struct frames f = {buf_slice(&meta), buf_slice(&data), buf_slice(&aux), head->codec, dict};
        if (meta.len <= META_RAW_MAX)
            f.meta_codec = CODEC_NONE;
        head->layout = LAYOUT_COLUMNAR;
        *doubtful_out = (data.len + aux.len) * 10 >= s->docs_len * 9;
        rc = put_record(head, &f, out);
    }
    free(docs);
    free(fits);
    buf_done(&meta);
    buf_done(&data);
    buf_done(&aux);
    return rc;
}

/* Columnar, unless plain is smaller. Both are tried only where taking the documents apart saved
 * less than a tenth before compression: then the documents have little in common, or are few. */
static enum rc pack_smaller(struct block_header *head, const struct survey *s, struct dict *dict,
                            const struct row *rows, struct buf *out)
{
    struct block_header plain = *head;
    size_t start = out->len;
    bool doubtful = false;
    enum rc rc = pack_columnar(head, s, dict, rows, out, &doubtful);
    if (rc == RC_TOO_LARGE) {
        out->len = start;
        return pack_plain(head, s, dict, rows, out);
    }
    if (rc != RC_OK || !doubtful)
        return rc;
    size_t middle = out->len;
    TRY(pack_plain(&plain, s, dict, rows, out));
    size_t columnar_len = middle - start, plain_len = out->len - middle;
    out->len = middle;
    if (plain_len <= columnar_len) {
        memmove(out->ptr + start, out->ptr + middle, plain_len);
        out->len = start + plain_len;
    }
    return RC_OK;
}

enum rc block_pack(uint32_t index_no, const struct codec_spec *spec, struct dict *dict,
                   const struct row *rows, size_t count, struct buf *out, struct err *err)
{
    assert(count >= 1);
    struct survey s = survey_rows(rows, count);
    size_t start = out->len;
    /* A row costs at most 5 + 10 + 1 + 2 + 10 + 5 bytes of numbers, and 17 for a run of its own;
     * 64 leaves room for what is there once. */
    if (count > ROWS_MAX || s.docs_len > FRAME_RAW_MAX ||
        s.names_len > FRAME_RAW_MAX - (uint64_t)ROWS_MAX * 64)
        return err_set(err, RC_TOO_LARGE, 0, "index %u: a block over 2 GiB or %u rows", index_no,
                       ROWS_MAX);
    struct block_header head = {
        .format = BLOCK_FORMAT_VERSION,
        .codec = spec->codec,
        .level = spec->level,
        .index_no = index_no,
        .dictionary = dict == NULL ? 0 : dict_number(dict),
        .first_seq = rows[0].seq,
        .rows = (uint32_t)count,
    };
    enum rc rc = spec->layout == LAYOUT_COLUMNAR ? pack_smaller(&head, &s, dict, rows, out)
                                                 : pack_plain(&head, &s, dict, rows, out);
    if (rc != RC_OK) {
        out->len = start;
        err_set(err, rc, 0, "index %u: packing a block at seq %llu: out of memory", index_no,
                (unsigned long long)rows[0].seq);
    }
    return rc;
}
