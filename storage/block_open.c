/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a block record and reading its rows; B1 to B4 in block.h.
 *
 * An opened block is one allocation: struct block, then columns, then ids, routings and the frames
 * of the documents. A column that a block does not need (seqs that run on, versions that are all 1,
 * ids that are all made) is NULL and costs nothing. Nothing of the meta frame is used before all of
 * it has been checked. Packed ids and columnar documents stay packed, with a few words beside them
 * that tell where things are. */
#include "storage/block_format.h"
#include "storage/column.h"
#include "storage/columnar.h"
#include "storage/dict.h"

#include <stdlib.h>

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
    uint32_t *id_no; /* packed ids: how many rows before have one */
    uint8_t *kinds;
    uint8_t *ids; /* as they are, or the column's streams */
    uint8_t *routings;
    uint8_t *docs;             /* data frame, then auxiliary frame; NULL: BLOCK_META */
    uint64_t docs_bytes;       /* of all documents together */
    struct columnar *columnar; /* NULL: layout plain, or BLOCK_META */
    bool scan;                 /* opened with BLOCK_SCAN */
    struct column id_column;
    struct arena id_arena;
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
    b->doc_at = carve(base, &used, b->head.layout == LAYOUT_PLAIN, rows + 1, sizeof *b->doc_at);
    b->id_at = carve(base, &used, (features & HAS_KINDS) && !(features & PACKED_IDS), rows + 1,
                     sizeof *b->id_at);
    b->id_no = carve(base, &used, (features & HAS_KINDS) && (features & PACKED_IDS), rows,
                     sizeof *b->id_no);
    b->routing_at = carve(base, &used, features & HAS_ROUTINGS, rows + 1, sizeof *b->routing_at);
    b->kinds = carve(base, &used, features & HAS_KINDS, rows, sizeof *b->kinds);
    /* ids and routings share one piece, in the order in which they are read */
    b->ids = carve(base, &used, true, names_len, 1);
    b->docs = carve(base, &used, docs, (size_t)b->head.data_raw + b->head.aux_raw, 1);
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

static bool read_kinds(struct reader *r, struct block *b)
{
    struct slice kinds = take_bytes(r, b->head.rows);
    if (r->bad)
        return false;
    memcpy(b->kinds, kinds.ptr, kinds.len);
    for (size_t i = 0; i < b->head.rows; i++) {
        if (b->kinds[i] > ROW_TOMBSTONE)
            return false;
        if (b->kinds[i] == ROW_TOMBSTONE && b->doc_at != NULL && b->doc_at[i] != b->doc_at[i + 1])
            return false;
    }
    return true;
}

static bool read_ids(struct reader *r, struct block *b)
{
    uint32_t at = 0;
    for (size_t i = 0; i < b->head.rows; i++) {
        b->id_at[i] = at;
        if (b->kinds[i] == ROW_MADE)
            continue;
        uint64_t len = take_varint(r);
        if (len == 0 || len > LIMIT_ID_BYTES || len > UINT32_MAX - at)
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

/* The column's streams are kept, as the column borrows from them. */
static enum rc read_id_column(struct reader *r, struct block *b, size_t *used_out)
{
    uint64_t directory_len = take_varint(r), text_len = take_varint(r), planes_len = take_varint(r);
    struct slice directory = take_bytes(r, directory_len);
    struct slice text = take_bytes(r, text_len), planes = take_bytes(r, planes_len);
    const char *what;
    uint32_t count = 0;
    if (r->bad || directory.len == 0)
        return RC_CORRUPT;
    for (size_t i = 0; i < b->head.rows; i++) {
        b->id_no[i] = count;
        count += b->kinds[i] != ROW_MADE;
    }
    *used_out = directory.len + text.len + planes.len;
    memcpy(b->ids, directory.ptr, *used_out);
    const uint8_t *p = b->ids + directory.len;
    struct stream_readers in = {
        reader_of(slice_of(b->ids + 1, directory.len - 1)),
        reader_of(slice_of(p, text.len)),
        b->ids + directory.len + text.len,
        b->ids + *used_out,
        b->scan,
    };
    enum rc rc = column_open(&b->id_column, count, b->ids[0], &in, &b->id_arena, &what);
    if (rc == RC_OK && (in.directory.p != in.directory.end || in.text.p != in.text.end ||
                        in.planes != in.planes_end))
        rc = RC_CORRUPT;
    return rc;
}

static bool read_versions(struct reader *r, struct block *b)
{
    for (size_t i = 0; i < b->head.rows; i++)
        if ((b->versions[i] = take_varint(r)) == 0)
            return false;
    return !r->bad;
}

static bool read_routings(struct reader *r, struct block *b, size_t ids_len)
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
    b->routings = b->ids + ids_len;
    if (bytes.len != 0)
        memcpy(b->routings, bytes.ptr, bytes.len);
    return true;
}

/* RC_OK when the meta frame is sound, else *part_out is what is not. */
static enum rc read_meta(struct reader *r, uint64_t features, struct block *b,
                         const char **part_out)
{
    size_t ids_len = 0;
    *part_out = "runs";
    if (!read_runs(r, b))
        return RC_CORRUPT;
    *part_out = "lengths of documents";
    if (b->head.layout == LAYOUT_COLUMNAR)
        b->docs_bytes = take_varint(r);
    else if (!(features & PACKED_LENGTHS ? read_packed_lengths(r, b) : read_lengths(r, b)))
        return RC_CORRUPT;
    if (r->bad || b->docs_bytes > FRAME_RAW_MAX)
        return RC_CORRUPT;
    *part_out = "seqs";
    if (b->seqs != NULL && !read_seqs(r, b))
        return RC_CORRUPT;
    *part_out = "ids";
    if (b->kinds != NULL && !read_kinds(r, b))
        return RC_CORRUPT;
    if (b->id_at != NULL) {
        if (!read_ids(r, b))
            return RC_CORRUPT;
        ids_len = b->id_at[b->head.rows];
    }
    if (b->id_no != NULL)
        TRY(read_id_column(r, b, &ids_len));
    *part_out = "versions";
    if (b->versions != NULL && !read_versions(r, b))
        return RC_CORRUPT;
    *part_out = "routings";
    if (b->routing_at != NULL && !read_routings(r, b, ids_len))
        return RC_CORRUPT;
    *part_out = "bytes behind its end";
    return r->p == r->end ? RC_OK : RC_CORRUPT;
}

/* Decompress a frame into dst, naming the block when that fails. */
static enum rc open_frame(const struct block_header *head, const char *name, struct slice frame,
                          uint8_t *dst, size_t raw_len, struct err *err)
{
    struct err why = {0};
    enum rc rc = codec_decompress(head->codec, frame, dst, raw_len, &why);
    return rc == RC_OK
               ? RC_OK
               : block_bad(err, rc, head->index_no, head->first_seq, "%s frame: %s", name, why.msg);
}

/* Make the block from its raw meta frame, columns filled, documents not yet there. */
static enum rc build(const struct block_header *head, struct slice meta, enum block_want want,
                     struct block **out, struct err *err)
{
    bool docs = want != BLOCK_META;
    struct reader r = reader_of(meta);
    uint64_t features = take_varint(&r), run_count = take_varint(&r);
    if (r.bad || run_count == 0 || run_count > head->rows)
        return block_bad(err, RC_CORRUPT, head->index_no, head->first_seq, "meta frame: runs");
    if ((features & ~(uint64_t)FEATURES_KNOWN) != 0)
        return block_bad(err, RC_UNSUPPORTED, head->index_no, head->first_seq,
                         "features %llu are unknown to this release", (unsigned long long)features);
    struct block plan = {.head = *head,
                         .run_count = (size_t)run_count,
                         .docs_bytes = head->data_raw,
                         .scan = want == BLOCK_SCAN};
    /* Bytes of names are among what is left to read. */
    size_t names_len = features & (HAS_KINDS | HAS_ROUTINGS) ? (size_t)(r.end - r.p) : 0;
    size_t memory = place_columns(&plan, NULL, features, names_len, docs);
    struct block *b = malloc(memory);
    if (b == NULL)
        return block_bad(err, RC_NOMEM, head->index_no, head->first_seq, "out of memory");
    *b = plan;
    b->memory = memory;
    place_columns(b, (uint8_t *)b, features, names_len, docs);
    const char *part;
    enum rc rc = read_meta(&r, features, b, &part);
    if (rc == RC_OK) {
        b->memory += b->id_arena.memory;
        *out = b;
        return RC_OK;
    }
    block_close(b);
    return block_bad(err, rc, head->index_no, head->first_seq, "meta frame: %s%s", part,
                     rc == RC_UNSUPPORTED ? " in a form unknown to this release" : "");
}

/* The data frame, which may need the dictionary. */
static enum rc take_data(const struct block_header *head, struct dict *dict, struct slice frame,
                         uint8_t *dst, struct err *err)
{
    struct err why = {0};
    if (head->dictionary == 0)
        return open_frame(head, "data", frame, dst, head->data_raw, err);
    if (dict == NULL || dict_number(dict) != head->dictionary)
        return block_bad(err, RC_CORRUPT, head->index_no, head->first_seq,
                         "its dictionary %u is missing", head->dictionary);
    enum rc rc = dict_decompress(dict, frame, dst, head->data_raw, &why);
    return rc == RC_OK
               ? RC_OK
               : block_bad(err, rc, head->index_no, head->first_seq, "data frame: %s", why.msg);
}

/* A frame in its raw form, to dst. */
static enum rc take_frame(const struct block_header *head, const char *name, struct slice frame,
                          bool raw, uint8_t *dst, size_t raw_len, struct err *err)
{
    if (!raw)
        return open_frame(head, name, frame, dst, raw_len, err);
    if (frame.len != 0)
        memcpy(dst, frame.ptr, frame.len);
    return RC_OK;
}

static enum rc open_columns(struct block *b, struct err *err)
{
    const struct block_header *head = &b->head;
    const char *what = "something";
    enum rc rc =
        columnar_open(slice_of(b->docs, head->data_raw), b->docs + head->data_raw, head->aux_raw,
                      head->rows, b->docs_bytes, b->scan, &b->columnar, &what);
    if (rc == RC_UNSUPPORTED)
        return block_bad(err, rc, head->index_no, head->first_seq,
                         "a %s is unknown to this release", what);
    if (rc != RC_OK)
        return block_bad(err, rc, head->index_no, head->first_seq, "columns%s",
                         rc == RC_NOMEM ? ": out of memory" : "");
    b->memory += columnar_memory(b->columnar);
    return RC_OK;
}

static enum rc open_checked(struct slice record, const struct block_header *head,
                            enum block_want want, struct dict *dict, struct block **out,
                            struct err *err)
{
    unsigned flags = block_flags(record.ptr);
    struct slice meta = {record.ptr + BLOCK_HEADER_BYTES, head->meta_len};
    struct slice data = {meta.ptr + meta.len, head->data_len};
    struct slice aux = {data.ptr + data.len, head->aux_len};
    struct block *b = NULL;
    uint8_t small[4096], *large = NULL;
    enum rc rc;
    if (!(flags & META_RAW)) {
        uint8_t *raw = small;
        if (head->meta_raw > sizeof small && (raw = large = malloc(head->meta_raw)) == NULL)
            return block_bad(err, RC_NOMEM, head->index_no, head->first_seq, "out of memory");
        TRY_OUT(open_frame(head, "meta", meta, raw, head->meta_raw, err));
        meta = slice_of(raw, head->meta_raw);
    }
    TRY_OUT(build(head, meta, want, &b, err));
    if (want != BLOCK_META) {
        if (flags & DATA_RAW)
            TRY_OUT(take_frame(head, "data", data, true, b->docs, head->data_raw, err));
        else
            TRY_OUT(take_data(head, dict, data, b->docs, err));
        if (head->aux_raw != 0)
            TRY_OUT(take_frame(head, "auxiliary", aux, flags & AUX_RAW, b->docs + head->data_raw,
                               head->aux_raw, err));
        if (head->layout == LAYOUT_COLUMNAR)
            TRY_OUT(open_columns(b, err));
    }
    *out = b;
    b = NULL;
out:
    block_close(b);
    free(large);
    return rc;
}

enum rc block_open(struct slice record, uint32_t index_no, uint64_t first_seq, enum block_want want,
                   struct dict *dict, struct block **out, struct err *err)
{
    struct block_header head;
    TRY(block_check(record, index_no, first_seq, &head, err));
    return open_checked(record, &head, want, dict, out, err);
}

void block_close(struct block *block)
{
    if (block == NULL)
        return;
    columnar_close(block->columnar);
    arena_done(&block->id_arena);
    free(block);
}

struct slice block_data_frame(const struct block *block)
{
    return block->docs == NULL ? SLICE_NONE : slice_of(block->docs, block->head.data_raw);
}

uint64_t block_docs_bytes(const struct block *block)
{
    return block->docs_bytes;
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
        .routing = piece(b->routings, b->routing_at, i),
    };
}

static enum rc unreadable(const struct block *b, size_t i, enum rc rc, const char *what,
                          struct err *err)
{
    return block_bad(err, rc, b->head.index_no, b->head.first_seq, "%s of row %zu%s", what, i,
                     rc == RC_NOMEM ? ": out of memory" : "");
}

enum rc block_id(const struct block *block, size_t i, struct buf *scratch, struct slice *id_out,
                 struct err *err)
{
    const struct block *b = block;
    assert(i < b->head.rows);
    if (b->kinds == NULL || b->kinds[i] == ROW_MADE) {
        *id_out = SLICE_NONE;
        return RC_OK;
    }
    if (b->id_at != NULL) {
        *id_out = piece(b->ids, b->id_at, i);
        return RC_OK;
    }
    scratch->len = 0;
    bool found = column_get(&b->id_column, b->id_no[i], scratch);
    if (scratch->failed)
        return unreadable(b, i, RC_NOMEM, "id", err);
    if (!found || scratch->len == 0 || scratch->len > LIMIT_ID_BYTES)
        return unreadable(b, i, RC_CORRUPT, "id", err);
    *id_out = buf_slice(scratch);
    return RC_OK;
}

enum rc block_doc(const struct block *block, size_t i, struct buf *scratch, struct slice *doc_out,
                  struct err *err)
{
    const struct block *b = block;
    assert(i < b->head.rows && b->docs != NULL);
    if (b->kinds != NULL && b->kinds[i] == ROW_TOMBSTONE) {
        *doc_out = SLICE_NONE;
        return RC_OK;
    }
    if (b->columnar == NULL) {
        *doc_out = piece(b->docs, b->doc_at, i);
        return RC_OK;
    }
    scratch->len = 0;
    enum rc rc = columnar_doc(b->columnar, i, scratch);
    if (rc != RC_OK)
        return unreadable(b, i, rc, "document", err);
    *doc_out = buf_slice(scratch);
    return RC_OK;
}

void block_scratch_done(struct block_scratch *scratch)
{
    buf_done(&scratch->id);
    buf_done(&scratch->doc);
}

enum rc block_row_all(const struct block *block, size_t i, struct block_scratch *scratch,
                      struct row *out, struct err *err)
{
    block_row(block, i, out);
    TRY(block_id(block, i, &scratch->id, &out->id, err));
    return block->docs == NULL ? RC_OK : block_doc(block, i, &scratch->doc, &out->doc, err);
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
