/* SPDX-License-Identifier: Apache-2.0 */
/* Packing rows into a block record and opening one. Layout in docs/format.md, section 1; B1 to B4
 * in block.h.
 *
 * An opened block is one allocation: struct block, then columns, then ids, routings and documents.
 * A column that a block does not need (seqs that run on, versions that are all 1, ids that are all
 * made) is NULL and costs nothing, so a log block costs four bytes a row. Nothing of the meta frame
 * is used before all of it has been checked. */
#include "storage/block.h"

#include "config/limits.h"
#include "storage/bytes.h"

#include <stdlib.h>

#define XXH_INLINE_ALL /* its streaming state on our stack, whatever version the library has */
#include <xxhash.h>

#define FORMAT_VERSION 1
#define CHECKSUM_AT    56

/* Longest raw form of a frame: offsets in it fit 32 bits with room. */
#define FRAME_RAW_MAX (2 * GIB)
/* Most rows of a block, far above LIMIT_BLOCK_ROWS: bounds the columns of an opened one. */
#define ROWS_MAX (1u << 20)

#define NONCE_BYTES 7
#define NONCE_MAX   (UINT64_C(1) << (8 * NONCE_BYTES))

enum { META_RAW = 1, DATA_RAW = 2, FLAGS_KNOWN = META_RAW | DATA_RAW };
enum {
    HAS_SEQS = 1,
    HAS_KINDS = 2,
    HAS_VERSIONS = 4,
    HAS_ROUTINGS = 8,
    PACKED_LENGTHS = 16,
    FEATURES_KNOWN = 31,
};

/* ---- made ids */
static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void made_id_format(uint64_t nonce, uint64_t seq, char out[MADE_ID_LEN])
{
    assert(nonce < NONCE_MAX);
    uint8_t raw[16];
    put_be64(raw, nonce << 8);
    put_be64(raw + NONCE_BYTES, seq);
    for (size_t i = 0; i < MADE_ID_LEN / 4; i++) {
        const uint8_t *p = raw + 3 * i;
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        for (size_t j = 0; j < 4; j++)
            out[4 * i + j] = base64url[v >> (18 - 6 * j) & 63];
    }
}

static int base64url_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool made_id_parse(struct slice id, uint64_t *nonce_out, uint64_t *seq_out)
{
    if (id.len != MADE_ID_LEN)
        return false;
    uint8_t raw[15];
    for (size_t i = 0; i < MADE_ID_LEN / 4; i++) {
        uint32_t v = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = base64url_value(id.ptr[4 * i + j]);
            if (value < 0)
                return false;
            v = v << 6 | (uint32_t)value;
        }
        raw[3 * i] = (uint8_t)(v >> 16);
        raw[3 * i + 1] = (uint8_t)(v >> 8);
        raw[3 * i + 2] = (uint8_t)v;
    }
    *nonce_out = get_be64(raw) >> 8;
    *seq_out = get_be64(raw + NONCE_BYTES);
    return true;
}

static uint64_t record_checksum(const uint8_t *record, size_t frames_len)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, record, CHECKSUM_AT);
    XXH3_64bits_update(&state, record + BLOCK_HEADER_BYTES, frames_len);
    return XXH3_64bits_digest(&state);
}

/* ---- packing */

/* What a look over the rows tells before anything is written. */
struct survey {
    unsigned features;
    size_t runs;
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

static size_t packed_bytes(size_t count, unsigned width)
{
    return (count * width + 7) / 8;
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
        if (row->kind != ROW_MADE)
            s.features |= HAS_KINDS;
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

static void put_meta(struct buf *meta, const struct survey *s, const struct row *rows, size_t count)
{
    buf_put_varint(meta, s->features);
    put_runs(meta, rows, count, s->runs);
    put_lengths(meta, s, rows, count);
    if (s->features & HAS_SEQS)
        for (size_t i = 1; i < count; i++)
            buf_put_varint(meta, rows[i].seq - rows[i - 1].seq);
    if (s->features & HAS_KINDS) {
        for (size_t i = 0; i < count; i++)
            buf_put_byte(meta, (uint8_t)rows[i].kind);
        for (size_t i = 0; i < count; i++)
            if (rows[i].kind != ROW_MADE)
                buf_put_varint(meta, rows[i].id.len);
        for (size_t i = 0; i < count; i++)
            buf_put_slice(meta, rows[i].id);
    }
    if (s->features & HAS_VERSIONS)
        for (size_t i = 0; i < count; i++)
            buf_put_varint(meta, rows[i].version);
    if (s->features & HAS_ROUTINGS) {
        for (size_t i = 0; i < count; i++)
            buf_put_varint(meta, rows[i].routing.len);
        for (size_t i = 0; i < count; i++)
            buf_put_slice(meta, rows[i].routing);
    }
}

/* Append a frame; false in *raw_out when it is compressed. out has the room. */
static enum rc put_frame(enum codec codec, int level, struct slice raw, struct buf *out,
                         uint32_t *len_out, bool *raw_out)
{
    size_t len = 0;
    enum rc rc = codec_compress(codec, level, raw, out->ptr + out->len, out->cap - out->len, &len);
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
    put_u32(p + 52, flags);
    put_u64(p + CHECKSUM_AT, record_checksum(p, (size_t)head->meta_len + head->data_len));
}

/* Header and frames behind what out holds. */
static enum rc put_record(struct block_header *head, enum codec meta_codec, struct slice meta,
                          struct slice data, struct buf *out)
{
    size_t start = out->len;
    if (!buf_reserve(out, BLOCK_HEADER_BYTES + BLOCK_ALIGN + codec_bound(head->codec, meta.len) +
                              codec_bound(head->codec, data.len)))
        return RC_NOMEM;
    bool meta_is_raw = false, data_is_raw = false;
    out->len += BLOCK_HEADER_BYTES;
    TRY(put_frame(meta_codec, head->level, meta, out, &head->meta_len, &meta_is_raw));
    TRY(put_frame(head->codec, head->level, data, out, &head->data_len, &data_is_raw));
    put_header(out->ptr + start, head,
               (meta_is_raw ? META_RAW : 0u) | (data_is_raw ? DATA_RAW : 0u));
    size_t padding = align_up(out->len - start, BLOCK_ALIGN) - (out->len - start);
    memset(out->ptr + out->len, 0, padding);
    out->len += padding;
    return RC_OK;
}

enum rc block_pack(uint32_t index_no, const struct codec_spec *spec, const struct row *rows,
                   size_t count, struct buf *out, struct err *err)
{
    assert(count >= 1);
    struct survey s = survey_rows(rows, count);
    /* A row costs at most 5 + 10 + 1 + 2 + 10 + 5 bytes of numbers, and 17 for a run of its own;
     * 64 leaves room for what is there once. */
    if (count > ROWS_MAX || s.docs_len > FRAME_RAW_MAX ||
        s.names_len > FRAME_RAW_MAX - (uint64_t)ROWS_MAX * 64)
        return err_set(err, RC_TOO_LARGE, 0, "index %u: a block over 2 GiB or %u rows", index_no,
                       ROWS_MAX);

    struct buf meta = {0}, copy = {0};
    size_t start = out->len;
    struct slice data = {s.docs, (size_t)s.docs_len};
    enum rc rc = RC_NOMEM;
    put_meta(&meta, &s, rows, count);
    if (!s.contiguous) {
        if (!buf_reserve(&copy, data.len))
            goto out;
        for (size_t i = 0; i < count; i++)
            buf_put_slice(&copy, rows[i].doc);
        data = buf_slice(&copy);
    }
    if (meta.failed)
        goto out;
    struct block_header head = {
        .format = FORMAT_VERSION,
        .layout = LAYOUT_PLAIN,
        .codec = spec->codec,
        .level = spec->level,
        .index_no = index_no,
        .first_seq = rows[0].seq,
        .rows = (uint32_t)count,
        .meta_raw = (uint32_t)meta.len,
        .data_raw = (uint32_t)data.len,
    };
    /* Packed lengths alone do not compress; trying would cost a tenth of the block's time. */
    enum codec meta_codec = s.features == PACKED_LENGTHS ? CODEC_NONE : spec->codec;
    rc = put_record(&head, meta_codec, buf_slice(&meta), data, out);
out:
    buf_done(&meta);
    buf_done(&copy);
    if (rc != RC_OK) {
        out->len = start;
        err_set(err, rc, 0, "index %u: packing a block at seq %llu: out of memory", index_no,
                (unsigned long long)rows[0].seq);
    }
    return rc;
}

/* ---- reading the header */
static PRINTF_LIKE(5, 6) enum rc
    bad(struct err *err, enum rc rc, uint32_t index_no, uint64_t first_seq, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(err, rc, 0, "index %u: block at seq %llu: %s", index_no,
                   (unsigned long long)first_seq, text);
}

static bool frame_sane(uint32_t len, uint32_t raw, bool stored_raw)
{
    if (raw > FRAME_RAW_MAX)
        return false;
    return stored_raw ? len == raw : len > 0 && len < raw;
}

static unsigned header_flags(const uint8_t *p)
{
    return get_u32(p + 52);
}

/* Fields and lengths as every version has them (docs/format.md): enough to check and skip a block.
 * False when they cannot be. */
static bool header_parse(const uint8_t *p, struct block_header *out)
{
    unsigned flags = header_flags(p);
    *out = (struct block_header){
        .format = p[4],
        .layout = p[5],
        .codec = p[6],
        .level = p[7],
        .index_no = get_u32(p + 8),
        .dictionary = get_u32(p + 12),
        .first_seq = get_u64(p + 16),
        .rows = get_u32(p + 24),
        .meta_len = get_u32(p + 28),
        .meta_raw = get_u32(p + 32),
        .data_len = get_u32(p + 36),
        .data_raw = get_u32(p + 40),
    };
    size_t frames = (size_t)out->meta_len + out->data_len + get_u32(p + 44);
    out->record_len = align_up(BLOCK_HEADER_BYTES + frames, BLOCK_ALIGN);
    return memcmp(p, "SBLK", 4) == 0 && out->rows >= 1 && out->rows <= ROWS_MAX &&
           out->first_seq <= UINT64_MAX - out->rows &&
           frame_sane(out->meta_len, out->meta_raw, flags & META_RAW) &&
           frame_sane(out->data_len, out->data_raw, flags & DATA_RAW);
}

/* Built here? Only of a header that parsed. */
static enum rc header_supported(const uint8_t *p, const struct block_header *head, struct err *err)
{
    struct {
        const char *what;
        unsigned value;
        bool known;
    } fields[] = {
        {"format version", p[4], p[4] == FORMAT_VERSION},
        {"layout", p[5], p[5] == LAYOUT_PLAIN},
        {"codec", p[6], p[6] <= CODEC_ZSTD},
        {"dictionary", head->dictionary, head->dictionary == 0},
        {"auxiliary frame of length", get_u32(p + 44), get_u32(p + 44) == 0},
        {"set of flags", header_flags(p), (header_flags(p) & ~(unsigned)FLAGS_KNOWN) == 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!fields[i].known)
            return bad(err, RC_UNSUPPORTED, head->index_no, head->first_seq,
                       "%s %u is unknown to this release", fields[i].what, fields[i].value);
    return RC_OK;
}

enum rc block_header_read(struct slice record, struct block_header *out, struct err *err)
{
    struct block_header head;
    if (record.len < BLOCK_HEADER_BYTES || memcmp(record.ptr, "SBLK", 4) != 0)
        return err_set(err, RC_CORRUPT, 0, "no block: magic");
    if (!header_parse(record.ptr, &head))
        return bad(err, RC_CORRUPT, head.index_no, head.first_seq, "lengths in the header");
    TRY(header_supported(record.ptr, &head, err));
    *out = head;
    return RC_OK;
}

enum rc block_check(struct slice record, uint32_t index_no, uint64_t first_seq,
                    struct block_header *out, struct err *err)
{
    struct block_header head;
    if (record.len < BLOCK_HEADER_BYTES || memcmp(record.ptr, "SBLK", 4) != 0)
        return bad(err, RC_CORRUPT, index_no, first_seq, "magic");
    if (!header_parse(record.ptr, &head))
        return bad(err, RC_CORRUPT, index_no, first_seq, "lengths in the header");
    if (head.record_len > record.len)
        return bad(err, RC_CORRUPT, index_no, first_seq, "ends early: %zu bytes of %zu", record.len,
                   head.record_len);
    size_t frames = (size_t)head.meta_len + head.data_len + get_u32(record.ptr + 44);
    if (record_checksum(record.ptr, frames) != get_u64(record.ptr + CHECKSUM_AT))
        return bad(err, RC_CORRUPT, index_no, first_seq, "checksum");
    if (head.index_no != index_no || head.first_seq != first_seq)
        return bad(err, RC_CORRUPT, index_no, first_seq,
                   "another block lies there: index %u, "
                   "seq %llu",
                   head.index_no, (unsigned long long)head.first_seq);
    TRY(header_supported(record.ptr, &head, err));
    *out = head;
    return RC_OK;
}

/* ---- opening */
struct run {
    uint64_t nonce;
    uint32_t term;
    uint32_t end; /* position behind its last row */
};

struct block {
    struct block_header head;
    size_t memory;
    /* Columns, by position; NULL where every row has the usual value. The _at have one more:
     * row i lies from [i] to [i + 1]. */
    uint64_t *seqs;
    uint64_t *versions;
    struct run *runs;
    size_t run_count;
    uint32_t *doc_at;
    uint32_t *id_at;
    uint32_t *routing_at;
    uint8_t *kinds;
    uint8_t *ids;
    uint8_t *routings;
    uint8_t *docs; /* NULL: BLOCK_META */
};

/* Cut the next piece of n * size bytes off the allocation; first with base NULL to count. */
static void *carve(uint8_t *base, size_t *used, bool wanted, size_t n, size_t size)
{
    if (!wanted)
        return NULL;
    void *p = base == NULL ? NULL : base + *used;
    *used += n * size;
    return p;
}

/* Place the columns; widest first, so that all are aligned. Returns the bytes needed. */
static size_t place_columns(struct block *b, uint8_t *base, uint64_t features, size_t names_len,
                            bool docs)
{
    size_t rows = b->head.rows, used = align_up(sizeof *b, 16);
    b->seqs = carve(base, &used, features & HAS_SEQS, rows, sizeof *b->seqs);
    b->versions = carve(base, &used, features & HAS_VERSIONS, rows, sizeof *b->versions);
    b->runs = carve(base, &used, true, b->run_count, sizeof *b->runs);
    b->doc_at = carve(base, &used, true, rows + 1, sizeof *b->doc_at);
    b->id_at = carve(base, &used, features & HAS_KINDS, rows + 1, sizeof *b->id_at);
    b->routing_at = carve(base, &used, features & HAS_ROUTINGS, rows + 1, sizeof *b->routing_at);
    b->kinds = carve(base, &used, features & HAS_KINDS, rows, sizeof *b->kinds);
    /* ids and routings share one piece, in the order in which they are read */
    b->ids = carve(base, &used, true, names_len, 1);
    b->docs = carve(base, &used, docs, b->head.data_raw, 1);
    return used;
}

/* Each of the following reads one part of the meta frame and tells whether it is sound. */
static bool read_runs(struct reader *r, struct block *b)
{
    uint64_t end = 0;
    for (size_t i = 0; i < b->run_count; i++) {
        struct slice nonce = take_bytes(r, NONCE_BYTES);
        uint64_t term = take_varint(r), rows = take_varint(r);
        if (r->bad || term == 0 || term > UINT32_MAX || rows == 0 || rows > b->head.rows - end)
            return false;
        uint8_t wide[8] = {0};
        memcpy(wide + 1, nonce.ptr, NONCE_BYTES);
        end += rows;
        b->runs[i] = (struct run){get_be64(wide), (uint32_t)term, (uint32_t)end};
    }
    return end == b->head.rows;
}

static bool read_packed_lengths(struct reader *r, struct block *b)
{
    uint64_t min = take_varint(r), bits = 0, at = 0;
    struct slice width_byte = take_bytes(r, 1);
    if (r->bad || min > b->head.data_raw || *width_byte.ptr > 32)
        return false;
    unsigned width = *width_byte.ptr, held = 0;
    struct slice packed = take_bytes(r, packed_bytes(b->head.rows, width));
    if (r->bad)
        return false;
    const uint8_t *p = packed.ptr;
    uint64_t mask = (UINT64_C(1) << width) - 1;
    for (size_t i = 0; i < b->head.rows; i++) {
        for (; held < width; held += 8)
            bits |= (uint64_t)*p++ << held;
        uint64_t len = min + (bits & mask);
        bits >>= width;
        held -= width;
        if (len > b->head.data_raw - at)
            return false;
        b->doc_at[i] = (uint32_t)at;
        at += len;
    }
    b->doc_at[b->head.rows] = (uint32_t)at;
    return bits == 0 && at == b->head.data_raw;
}

static bool read_lengths(struct reader *r, struct block *b)
{
    uint64_t at = 0;
    for (size_t i = 0; i < b->head.rows; i++) {
        uint64_t len = take_varint(r);
        if (len > b->head.data_raw - at)
            return false;
        b->doc_at[i] = (uint32_t)at;
        at += len;
    }
    b->doc_at[b->head.rows] = (uint32_t)at;
    return !r->bad && at == b->head.data_raw;
}

static bool read_seqs(struct reader *r, struct block *b)
{
    b->seqs[0] = b->head.first_seq;
    for (size_t i = 1; i < b->head.rows; i++) {
        uint64_t step = take_varint(r);
        if (step == 0 || step > UINT64_MAX - 1 - b->seqs[i - 1])
            return false;
        b->seqs[i] = b->seqs[i - 1] + step;
    }
    return !r->bad;
}

static bool read_ids(struct reader *r, struct block *b)
{
    struct slice kinds = take_bytes(r, b->head.rows);
    if (r->bad)
        return false;
    memcpy(b->kinds, kinds.ptr, kinds.len);
    uint32_t at = 0;
    for (size_t i = 0; i < b->head.rows; i++) {
        b->id_at[i] = at;
        if (b->kinds[i] == ROW_MADE)
            continue;
        uint64_t len = take_varint(r);
        if (b->kinds[i] > ROW_TOMBSTONE || len == 0 || len > LIMIT_ID_BYTES ||
            len > UINT32_MAX - at)
            return false;
        if (b->kinds[i] == ROW_TOMBSTONE && b->doc_at[i] != b->doc_at[i + 1])
            return false;
        at += (uint32_t)len;
    }
    b->id_at[b->head.rows] = at;
    struct slice bytes = take_bytes(r, at);
    if (r->bad)
        return false;
    if (bytes.len != 0)
        memcpy(b->ids, bytes.ptr, bytes.len);
    return true;
}

static bool read_versions(struct reader *r, struct block *b)
{
    for (size_t i = 0; i < b->head.rows; i++)
        if ((b->versions[i] = take_varint(r)) == 0)
            return false;
    return !r->bad;
}

static bool read_routings(struct reader *r, struct block *b)
{
    uint64_t at = 0;
    for (size_t i = 0; i < b->head.rows; i++) {
        b->routing_at[i] = (uint32_t)at;
        uint64_t len = take_varint(r);
        if (len > FRAME_RAW_MAX - at)
            return false;
        at += len;
    }
    b->routing_at[b->head.rows] = (uint32_t)at;
    struct slice bytes = take_bytes(r, at);
    if (r->bad)
        return false;
    b->routings = b->ids + (b->id_at == NULL ? 0 : b->id_at[b->head.rows]);
    if (bytes.len != 0)
        memcpy(b->routings, bytes.ptr, bytes.len);
    return true;
}

/* NULL when the meta frame is sound, else the part that is not. */
static const char *read_meta(struct reader *r, uint64_t features, struct block *b)
{
    if (!read_runs(r, b))
        return "runs";
    if (!(features & PACKED_LENGTHS ? read_packed_lengths(r, b) : read_lengths(r, b)))
        return "lengths of documents";
    if (b->seqs != NULL && !read_seqs(r, b))
        return "seqs";
    if (b->kinds != NULL && !read_ids(r, b))
        return "ids";
    if (b->versions != NULL && !read_versions(r, b))
        return "versions";
    if (b->routing_at != NULL && !read_routings(r, b))
        return "routings";
    return r->p == r->end ? NULL : "bytes behind its end";
}

/* Decompress a frame into dst, naming the block when that fails. */
static enum rc open_frame(const struct block_header *head, const char *name, struct slice frame,
                          uint8_t *dst, size_t raw_len, struct err *err)
{
    struct err why = {0};
    enum rc rc = codec_decompress(head->codec, frame, dst, raw_len, &why);
    return rc == RC_OK
               ? RC_OK
               : bad(err, rc, head->index_no, head->first_seq, "%s frame: %s", name, why.msg);
}

/* Make the block from its raw meta frame, columns filled, documents not yet there. */
static enum rc build(const struct block_header *head, struct slice meta, bool docs,
                     struct block **out, struct err *err)
{
    struct reader r = reader_of(meta);
    uint64_t features = take_varint(&r), run_count = take_varint(&r);
    if (r.bad || run_count == 0 || run_count > head->rows)
        return bad(err, RC_CORRUPT, head->index_no, head->first_seq, "meta frame: runs");
    if ((features & ~(uint64_t)FEATURES_KNOWN) != 0)
        return bad(err, RC_UNSUPPORTED, head->index_no, head->first_seq,
                   "features %llu are unknown to this release", (unsigned long long)features);
    struct block plan = {.head = *head, .run_count = (size_t)run_count};
    /* Bytes of names are among what is left to read. */
    size_t names_len = features & (HAS_KINDS | HAS_ROUTINGS) ? (size_t)(r.end - r.p) : 0;
    size_t memory = place_columns(&plan, NULL, features, names_len, docs);
    struct block *b = malloc(memory);
    if (b == NULL)
        return bad(err, RC_NOMEM, head->index_no, head->first_seq, "out of memory");
    *b = plan;
    b->memory = memory;
    place_columns(b, (uint8_t *)b, features, names_len, docs);
    const char *part = read_meta(&r, features, b);
    if (part != NULL) {
        free(b);
        return bad(err, RC_CORRUPT, head->index_no, head->first_seq, "meta frame: %s", part);
    }
    *out = b;
    return RC_OK;
}

enum rc block_open(struct slice record, uint32_t index_no, uint64_t first_seq, enum block_want want,
                   struct block **out, struct err *err)
{
    struct block_header head;
    TRY(block_check(record, index_no, first_seq, &head, err));
    unsigned flags = header_flags(record.ptr);
    struct slice meta = {record.ptr + BLOCK_HEADER_BYTES, head.meta_len};
    struct slice data = {meta.ptr + meta.len, head.data_len};
    struct block *b = NULL;
    uint8_t small[4096], *large = NULL;
    enum rc rc;
    if (!(flags & META_RAW)) {
        uint8_t *raw = small;
        if (head.meta_raw > sizeof small && (raw = large = malloc(head.meta_raw)) == NULL)
            return bad(err, RC_NOMEM, index_no, first_seq, "out of memory");
        TRY_OUT(open_frame(&head, "meta", meta, raw, head.meta_raw, err));
        meta = slice_of(raw, head.meta_raw);
    }
    TRY_OUT(build(&head, meta, want == BLOCK_ALL, &b, err));
    if (want == BLOCK_ALL) {
        if (!(flags & DATA_RAW))
            TRY_OUT(open_frame(&head, "data", data, b->docs, head.data_raw, err));
        else if (data.len != 0)
            memcpy(b->docs, data.ptr, data.len);
    }
    *out = b;
    b = NULL;
out:
    free(b);
    free(large);
    return rc;
}

void block_close(struct block *block)
{
    free(block);
}

const struct block_header *block_head(const struct block *block)
{
    return &block->head;
}

size_t block_rows(const struct block *block)
{
    return block->head.rows;
}

size_t block_memory(const struct block *block)
{
    return block->memory;
}

static const struct run *run_of(const struct block *b, size_t i)
{
    size_t low = 0, high = b->run_count - 1;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (i < b->runs[mid].end)
            high = mid;
        else
            low = mid + 1;
    }
    return &b->runs[low];
}

static struct slice piece(const uint8_t *bytes, const uint32_t *at, size_t i)
{
    if (bytes == NULL || at == NULL)
        return SLICE_NONE;
    return slice_of(bytes + at[i], at[i + 1] - at[i]);
}

void block_row(const struct block *block, size_t i, struct row *out)
{
    const struct block *b = block;
    assert(i < b->head.rows);
    const struct run *run = run_of(b, i);
    *out = (struct row){
        .seq = b->seqs != NULL ? b->seqs[i] : b->head.first_seq + i,
        .version = b->versions != NULL ? b->versions[i] : 1,
        .nonce = run->nonce,
        .term = run->term,
        .kind = b->kinds != NULL ? (enum row_kind)b->kinds[i] : ROW_MADE,
        .id = piece(b->ids, b->id_at, i),
        .routing = piece(b->routings, b->routing_at, i),
        .doc = piece(b->docs, b->doc_at, i),
    };
}

enum rc block_find(const struct block *block, uint64_t seq, size_t *i_out)
{
    const struct block_header *head = &block->head;
    if (seq < head->first_seq)
        return RC_NOT_FOUND;
    if (block->seqs == NULL) {
        if (seq - head->first_seq >= head->rows)
            return RC_NOT_FOUND;
        *i_out = (size_t)(seq - head->first_seq);
        return RC_OK;
    }
    size_t low = 0, high = head->rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (block->seqs[mid] < seq)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == head->rows || block->seqs[low] != seq)
        return RC_NOT_FOUND;
    *i_out = low;
    return RC_OK;
}
