/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a data directory against itself. */
#include "storage/check.h"

#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

#define CACHE_BYTES (4 * (uint64_t)MIB)
#define FILES_MAX   16
#define LIST_BLOCKS 256

struct check {
    struct store *store;
    struct check_result result;
    void (*say)(void *arg, const char *text);
    void *arg;
    struct index **index;
    size_t count, cap;
};

/* Of one index. */
struct tally {
    struct check *check;
    struct index *index;
    uint64_t docs, rows, blocks, block_bytes, raw_bytes, file_bytes;
    uint64_t next_seq; /* of the rows seen */
    uint64_t chunk;    /* whose dead bits are here */
    uint8_t dead[CATALOG_DEAD_BYTES];
    bool *named; /* segments that some block lies in, by number */
    size_t named_cap;
};

static PRINTF_LIKE(2, 3) void note(struct check *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->say(c->arg, text);
}

static PRINTF_LIKE(2, 3) void damage(struct check *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    note(c, "damage: %s", text);
    c->result.damage++;
}

/* What may be wrong with the data is a finding; what is wrong with the machine ends the check. */
static enum rc finding(struct check *c, enum rc rc, const struct err *why, struct err *err)
{
    if (rc == RC_NOMEM || rc == RC_BUSY)
        return err_set(err, rc, why->os_errno, "%s", why->msg);
    damage(c, "%s", why->msg);
    return RC_OK;
}

/* ---- rows */

static enum rc is_dead(struct tally *t, uint64_t seq, bool *out, struct err *err)
{
    struct index *ix = t->index;
    if (seq / CATALOG_DEAD_SEQS != t->chunk) {
        struct err why = {0};
        t->chunk = seq / CATALOG_DEAD_SEQS;
        enum rc rc = catalog_get_dead(ix->store->catalog, ix->number, t->chunk, t->dead, &why);
        if (rc != RC_OK) {
            memset(t->dead, 0, sizeof t->dead);
            TRY(finding(t->check, rc, &why, err));
        }
    }
    *out = (t->dead[seq % CATALOG_DEAD_SEQS / 8] >> (seq % 8) & 1) != 0;
    return RC_OK;
}

static enum rc check_id(struct tally *t, const struct row *row, struct err *err)
{
    uint64_t seqs[CANDIDATES_MAX], epoch;
    size_t n = 0;
    struct err why = {0};
    enum rc rc = index_candidates(t->index, index_hash(t->index, row->id), seqs, &n, &epoch, &why);
    if (rc != RC_OK)
        return finding(t->check, rc, &why, err);
    for (size_t i = 0; i < n; i++)
        if (seqs[i] == row->seq)
            return RC_OK;
    damage(t->check, "index [%s]: the id of row %llu does not lead to it", t->index->name,
           (unsigned long long)row->seq);
    return RC_OK;
}

static enum rc check_row(struct tally *t, const struct row *row, struct err *err)
{
    bool dead = false;
    uint64_t lost = 0, first = t->next_seq;
    for (; t->next_seq < row->seq; t->next_seq++) {
        TRY(is_dead(t, t->next_seq, &dead, err));
        lost += !dead;
    }
    if (lost != 0)
        damage(t->check, "index [%s]: %llu of the rows %llu to %llu are missing", t->index->name,
               (unsigned long long)lost, (unsigned long long)first,
               (unsigned long long)row->seq - 1);
    t->next_seq = row->seq + 1;
    t->rows++;
    TRY(is_dead(t, row->seq, &dead, err));
    t->docs += !dead;
    if (row->kind == ROW_TOMBSTONE && !dead)
        damage(t->check, "index [%s]: tombstone %llu counts as a document", t->index->name,
               (unsigned long long)row->seq);
    return row->kind == ROW_CLIENT && !dead ? check_id(t, row, err) : RC_OK;
}

/* ---- blocks */

static enum rc open_record(struct index *ix, struct slice record, uint64_t first_seq,
                           struct block **out, struct err *err)
{
    struct block_header head;
    struct dict *dict = NULL;
    TRY(block_header_read(record, &head, err));
    TRY(index_dict(ix, head.dictionary, false, &dict, err));
    enum rc rc = block_open(record, ix->number, first_seq, BLOCK_SCAN, dict, out, err);
    dict_release(dict);
    return rc;
}

static enum rc open_block(struct index *ix, const struct place *place, struct block **out,
                          struct err *err)
{
    uint8_t *record = malloc(place->len);
    if (record == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    enum rc rc = segment_read(ix->store->files, ix->number, ix->dir_name, place->segment, place->at,
                              record, place->len, false, err);
    if (rc == RC_OK)
        rc = open_record(ix, slice_of(record, place->len), place->first_seq, out, err);
    free(record);
    return rc;
}

static enum rc name_segment(struct tally *t, uint32_t number)
{
    if (number >= t->named_cap) {
        size_t cap = (size_t)number * 2 + 64;
        bool *named = realloc(t->named, cap);
        if (named == NULL)
            return RC_NOMEM;
        memset(named + t->named_cap, 0, cap - t->named_cap);
        t->named = named;
        t->named_cap = cap;
    }
    t->named[number] = true;
    return RC_OK;
}

static enum rc check_block(struct tally *t, const struct place *place, struct err *err)
{
    struct block *block = NULL;
    struct err why = {0};
    struct row last;
    t->blocks++;
    t->block_bytes += place->len;
    TRY(name_segment(t, place->segment));
    if (place->first_seq < t->next_seq)
        damage(t->check, "index [%s]: block %llu overlaps the one before it", t->index->name,
               (unsigned long long)place->first_seq);
    enum rc rc = open_block(t->index, place, &block, &why);
    if (rc != RC_OK) {
        t->next_seq = place->last_seq + 1;
        return finding(t->check, rc, &why, err);
    }
    block_row(block, block_rows(block) - 1, &last);
    if (block_rows(block) != place->rows || last.seq != place->last_seq)
        damage(t->check, "index [%s]: block %llu is not as the catalog says", t->index->name,
               (unsigned long long)place->first_seq);
    struct block_scratch scratch = {0};
    t->raw_bytes += block_docs_bytes(block);
    for (size_t i = 0; i < block_rows(block) && rc == RC_OK; i++) {
        struct row row;
        rc = block_row_all(block, i, &scratch, &row, err);
        if (rc == RC_OK)
            rc = check_row(t, &row, err);
    }
    block_scratch_done(&scratch);
    block_close(block);
    return rc;
}

static enum rc check_blocks(struct tally *t, struct err *err)
{
    struct place list[LIST_BLOCKS];
    size_t n = LIST_BLOCKS;
    for (uint64_t from = 0; n == LIST_BLOCKS; from = list[n - 1].first_seq + 1) {
        struct err why = {0};
        enum rc rc = catalog_list_blocks(t->index->store->catalog, t->index->number, from, list,
                                         LIST_BLOCKS, &n, &why);
        if (rc != RC_OK)
            return finding(t->check, rc, &why, err);
        for (size_t i = 0; i < n; i++)
            TRY(check_block(t, &list[i], err));
        if (n == 0)
            break;
    }
    return RC_OK;
}

/* ---- segment files */

static enum rc count_owner(const struct segment_owner *owner, uint32_t number, void *arg)
{
    (void)owner;
    (void)number;
    *(bool *)arg = true;
    return RC_OK;
}

static void check_file(const char *name, void *arg)
{
    struct tally *t = arg;
    struct index *ix = t->index;
    struct io_file file = {.fd = -1};
    struct err why = {0};
    uint32_t number;
    uint64_t bytes = 0;
    char dir[512], path[600];
    bool owned = false;
    if (!segment_parse_name(name, &number))
        return;
    index_dir(ix, dir, sizeof dir);
    segment_path(path, sizeof path, dir, number);
    struct segment_scan_fn fn = {.owner = count_owner, .arg = &owned};
    enum rc rc = segment_scan(path, &fn, &why);
    if (rc == RC_OK)
        rc = io_open(path, IO_READ, &file, &why);
    if (rc == RC_OK)
        rc = io_size(&file, &bytes, &why);
    io_close(&file);
    if (rc != RC_OK)
        damage(t->check, "%s", why.msg);
    else if (!owned)
        damage(t->check, "segment %s: its header", path);
    t->file_bytes += bytes;
    if (number >= t->named_cap || !t->named[number])
        note(t->check, "index [%s]: segment %08x (%llu bytes) has no block in the catalog",
             ix->name, number, (unsigned long long)bytes);
}

/* ---- indices */

static enum rc check_index(struct check *c, struct index *ix, struct err *err)
{
    struct tally t = {.check = c, .index = ix, .chunk = UINT64_MAX};
    struct err why = {0};
    char dir[512];
    uint64_t catalog_bytes = 0;
    enum rc rc = check_blocks(&t, err);
    TRY_OUT(rc);
    index_dir(ix, dir, sizeof dir);
    rc = io_list(dir, check_file, &t, &why);
    if (rc == RC_NOT_FOUND)
        damage(c, "index [%s]: %s is missing", ix->name, dir);
    else if (rc != RC_OK)
        TRY_OUT(finding(c, rc, &why, err));
    if (t.next_seq < ix->packed_seq) {
        bool dead = false;
        uint64_t lost = 0;
        for (uint64_t seq = t.next_seq; seq < ix->packed_seq; seq++) {
            TRY_OUT(is_dead(&t, seq, &dead, err));
            lost += !dead;
        }
        if (lost != 0)
            damage(c, "index [%s]: the last %llu rows before %llu are missing", ix->name,
                   (unsigned long long)lost, (unsigned long long)ix->packed_seq);
    }
    why = (struct err){0};
    rc = catalog_index_bytes(ix->store->catalog, ix->number, &catalog_bytes, &why);
    if (rc != RC_OK)
        TRY_OUT(finding(c, rc, &why, err));
    note(
        c,
        "index [%s]: %llu documents, %llu rows in %llu blocks; %llu bytes of JSON, %llu in blocks, "
        "%llu in files, %llu in the catalog",
        ix->name, (unsigned long long)t.docs, (unsigned long long)t.rows,
        (unsigned long long)t.blocks, (unsigned long long)t.raw_bytes,
        (unsigned long long)t.block_bytes, (unsigned long long)t.file_bytes,
        (unsigned long long)catalog_bytes);
    c->result.indices++;
    c->result.docs += t.docs;
    c->result.rows += t.rows;
    c->result.blocks += t.blocks;
    c->result.segment_bytes += t.file_bytes;
    c->result.catalog_bytes += catalog_bytes;
    rc = RC_OK;
out:
    free(t.named);
    return rc;
}

static enum rc load_one(struct slice key, struct slice value, void *arg)
{
    struct check *c = arg;
    struct err why = {0};
    uint64_t packed = 0;
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? 64 : c->cap * 2;
        struct index **list = realloc(c->index, cap * sizeof(struct index *));
        if (list == NULL)
            return RC_NOMEM;
        c->index = list;
        c->cap = cap;
    }
    enum rc rc = index_load(c->store, key, value, &c->index[c->count], &packed, &why);
    if (rc == RC_NOMEM)
        return rc;
    if (rc == RC_OK)
        c->count++;
    else
        damage(c, "%s", why.msg[0] != 0 ? why.msg : "catalog: an index without a state");
    return RC_OK;
}

static enum rc pass_over(struct slice name, struct slice value, void *arg)
{
    (void)name;
    (void)value;
    (void)arg;
    return RC_OK;
}

static void check_dir(const char *name, void *arg)
{
    struct check *c = arg;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->index[i]->dir_name, name) == 0)
            return;
    note(c, "indices/%s belongs to no index of the catalog", name);
}

/* ---- the log */

static enum rc count_record(const struct wal_record *record, uint64_t at, void *arg,
                            struct err *err)
{
    (void)record;
    (void)at;
    (void)err;
    ++*(uint64_t *)arg;
    return RC_OK;
}

static enum rc check_log(struct check *c, const struct wal_start *start, struct err *err)
{
    struct err why = {0};
    struct wal_start end;
    char path[512];
    snprintf(path, sizeof path, "%s/wal", c->store->path);
    enum rc rc = wal_replay(path, start, false, count_record, &c->result.log_records, &end, &why);
    return rc == RC_OK ? RC_OK : finding(c, rc, &why, err);
}

/* ---- the whole */

static enum rc open_catalog(struct check *c, struct err *err)
{
    char path[512];
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/catalog/data.mdb", c->store->path);
    enum rc rc = io_allocated(path, &bytes, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_INVALID, 0,
                       "%s has no catalog; run stowctl rebuild if it is a data "
                       "directory",
                       c->store->path);
    TRY(rc);
    TRY(store_lock(c->store, err));
    snprintf(path, sizeof path, "%s/catalog", c->store->path);
    TRY(catalog_open(path, 0, &c->store->catalog, err));
    TRY(cache_create(CACHE_BYTES, &c->store->cache, err));
    snprintf(path, sizeof path, "%s/indices", c->store->path);
    return segment_files_create(path, FILES_MAX, &c->store->files, err);
}

static enum rc check_all(struct check *c, struct err *err)
{
    struct wal_start start = {0};
    struct err why = {0};
    char path[512];
    enum rc rc = store_load_node(c->store, &start, &why);
    if (rc == RC_NOT_FOUND)
        damage(c, "catalog: the node's value is missing");
    else if (rc != RC_OK)
        TRY(finding(c, rc, &why, err));
    else
        TRY(check_log(c, &start, err));
    for (char kind = '!'; kind <= '~'; kind++) {
        why = (struct err){0};
        rc = catalog_each(c->store->catalog, kind, kind == KIND_INDEX ? load_one : pass_over, c,
                          &why);
        if (rc != RC_OK)
            TRY(finding(c, rc, &why, err));
    }
    for (size_t i = 0; i < c->count; i++)
        TRY(check_index(c, c->index[i], err));
    snprintf(path, sizeof path, "%s/indices", c->store->path);
    return io_list(path, check_dir, c, err);
}

enum rc check_run(const char *path_data, void (*say)(void *arg, const char *text), void *arg,
                  struct check_result *out, struct err *err)
{
    struct store_options o = {.path_data = path_data};
    struct check c = {.say = say, .arg = arg};
    enum rc rc = store_new(&o, &c.store, err);
    TRY(rc);
    rc = open_catalog(&c, err);
    if (rc == RC_CORRUPT) { /* LMDB's own structure */
        damage(&c, "%s", err->msg);
        rc = RC_OK;
    } else if (rc == RC_OK) {
        rc = check_all(&c, err);
    }
    if (rc == RC_OK)
        *out = c.result;
    for (size_t i = 0; i < c.count; i++)
        index_release(c.index[i]);
    free(c.index);
    store_free(c.store);
    return rc;
}
