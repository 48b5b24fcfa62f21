/* SPDX-License-Identifier: Apache-2.0 */
/* Starting: from catalog and log to indices in memory, and a first checkpoint into new segments.
 *
 * Replay never decides. It collects, per index, the rows from packed_seq on (E2): blocks as they
 * are, single rows packed anew in order of seq; then it repeats the rows' effects, which is
 * harmless where the catalog has them already (E3). Counts come from the catalog afterwards. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A row or a block out of the log. */
struct piece {
    uint64_t first_seq, last_seq;
    struct row row;     /* a row; its slices lie in a body that replay keeps … */
    struct buf record;  /* … or a block */
    uint32_t raw_bytes; /* of its documents */
};

struct replayed {
    struct index *index;
    uint64_t packed_seq;
    uint64_t nonce; /* of the records that follow; from WAL_INDEX */
    uint32_t term;
    bool known; /* the log's uuid is that of the index */
    struct piece *piece;
    size_t count, cap;
};

struct replay {
    struct store *store;
    struct replayed *list; /* sorted by index number */
    size_t count, cap;
    uint8_t **body;
    size_t body_count, body_cap;
    uint64_t records;
};

/* ---- loading the catalog */

static int by_number(const void *a, const void *b)
{
    const struct replayed *x = a, *y = b;
    return x->index->number < y->index->number ? -1 : x->index->number > y->index->number;
}

static enum rc load_one(struct slice key, struct slice value, void *arg)
{
    struct replay *rp = arg;
    struct err err = {0};
    struct index *ix = NULL;
    uint64_t packed = 0;
    if (rp->count == rp->cap) {
        size_t cap = rp->cap == 0 ? 64 : rp->cap * 2;
        struct replayed *list = realloc(rp->list, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        rp->list = list;
        rp->cap = cap;
    }
    enum rc rc = index_load(rp->store, key, value, &ix, &packed, &err);
    if (rc != RC_OK) {
        store_event(rp->store, 2, "%s", err.msg);
        return rc;
    }
    rp->list[rp->count++] = (struct replayed){.index = ix, .packed_seq = packed};
    return RC_OK;
}

/* ---- collecting */

static struct replayed *find_index(struct replay *rp, uint32_t number)
{
    size_t lo = 0, hi = rp->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rp->list[mid].index->number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < rp->count && rp->list[lo].index->number == number ? &rp->list[lo] : NULL;
}

static struct piece *add_piece(struct replayed *r, uint64_t first, uint64_t last)
{
    if (r->count == r->cap) {
        size_t cap = r->cap == 0 ? 64 : r->cap * 2;
        struct piece *list = realloc(r->piece, cap * sizeof *list);
        if (list == NULL)
            return NULL;
        r->piece = list;
        r->cap = cap;
    }
    struct piece *p = &r->piece[r->count++];
    *p = (struct piece){.first_seq = first, .last_seq = last};
    return p;
}

/* The log names the run of the records that follow; the catalog may not know it yet. */
static enum rc take_index(struct replayed *r, struct slice body, struct err *err)
{
    struct index *ix = r->index;
    r->known = body.len == 28 && memcmp(body.ptr, ix->uuid, 16) == 0;
    if (!r->known)
        return RC_OK;
    r->nonce = get_u64(body.ptr + 16);
    r->term = get_u32(body.ptr + 24);
    if (r->term == ix->run_count + 1) {
        struct index_run *runs = realloc(ix->runs, (ix->run_count + 1) * sizeof *runs);
        if (runs == NULL)
            return RC_NOMEM;
        ix->runs = runs;
        /* Lowered by its first row. */
        runs[ix->run_count++] = (struct index_run){r->nonce, UINT64_MAX};
    }
    if (r->term == 0 || r->term > ix->run_count || ix->runs[r->term - 1].nonce != r->nonce)
        return err_set(err, RC_CORRUPT, 0, "log: run %u of index %s is not the catalog's", r->term,
                       ix->name);
    return RC_OK;
}

static void note_first_seq(struct replayed *r, uint64_t seq)
{
    struct index_run *run = &r->index->runs[r->term - 1];
    if (seq < run->first_seq)
        run->first_seq = seq;
}

static enum rc keep_body(struct replay *rp, struct slice body, struct slice *copy_out)
{
    if (rp->body_count == rp->body_cap) {
        size_t cap = rp->body_cap == 0 ? 64 : rp->body_cap * 2;
        uint8_t **list = realloc(rp->body, cap * sizeof(uint8_t *));
        if (list == NULL)
            return RC_NOMEM;
        rp->body = list;
        rp->body_cap = cap;
    }
    uint8_t *copy = malloc(body.len + 1);
    if (copy == NULL)
        return RC_NOMEM;
    memcpy(copy, body.ptr, body.len);
    rp->body[rp->body_count++] = copy;
    *copy_out = slice_of(copy, body.len);
    return RC_OK;
}

static enum rc take_rows(struct replay *rp, struct replayed *r, struct slice body, struct err *err)
{
    struct slice copy;
    TRY(keep_body(rp, body, &copy));
    struct reader in = reader_of(copy);
    while (in.p != in.end) {
        struct row row = {.nonce = r->nonce, .term = r->term};
        if (!wal_row_take(&in, &row))
            return err_set(err, RC_CORRUPT, 0, "log: a row of index %s does not parse",
                           r->index->name);
        if (row.seq < r->packed_seq)
            continue;
        struct piece *p = add_piece(r, row.seq, row.seq);
        if (p == NULL)
            return RC_NOMEM;
        p->row = row;
        note_first_seq(r, row.seq);
    }
    return RC_OK;
}

static enum rc take_block(struct replayed *r, struct slice body, struct err *err)
{
    struct block_header head;
    struct block *block = NULL;
    struct row last;
    TRY(block_header_read(body, &head, err));
    TRY(block_open(body, r->index->number, head.first_seq, BLOCK_META, NULL, &block, err));
    block_row(block, block_rows(block) - 1, &last);
    uint64_t last_seq = last.seq, raw_bytes = block_docs_bytes(block);
    block_close(block);
    if (last_seq < r->packed_seq)
        return RC_OK;
    struct piece *p = add_piece(r, head.first_seq, last_seq);
    if (p == NULL)
        return RC_NOMEM;
    buf_put_slice(&p->record, body);
    p->raw_bytes = (uint32_t)raw_bytes;
    note_first_seq(r, head.first_seq);
    return p->record.failed ? RC_NOMEM : RC_OK;
}

static enum rc replay_record(const struct wal_record *record, uint64_t at, void *arg,
                             struct err *err)
{
    struct replay *rp = arg;
    struct replayed *r = find_index(rp, record->index_no);
    (void)at;
    rp->records++;
    if (r == NULL)
        return RC_OK; /* deleted since */
    if (record->kind == WAL_INDEX)
        return take_index(r, record->body, err);
    if (!r->known)
        return RC_OK;
    if (record->kind == WAL_ROWS)
        return take_rows(rp, r, record->body, err);
    if (record->kind == WAL_BLOCK)
        return take_block(r, record->body, err);
    return err_set(err, RC_UNSUPPORTED, 0, "log: a record of unknown kind %u", record->kind);
}

/* ---- putting together */

static int by_first_seq(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->first_seq < y->first_seq ? -1 : x->first_seq > y->first_seq;
}

static enum rc add_pending(struct index *ix, struct pending *p)
{
    pthread_mutex_lock(&ix->table);
    enum rc rc = index_add_pending_locked(ix, p);
    pthread_mutex_unlock(&ix->table);
    if (rc != RC_OK)
        pending_release(p);
    return rc;
}

static enum rc add_block(struct index *ix, struct piece *piece, struct err *err)
{
    struct block_header head;
    struct pending *p = calloc(1, sizeof *p);
    if (p == NULL)
        return RC_NOMEM;
    atomic_init(&p->refs, 1);
    p->first_seq = piece->first_seq;
    p->last_seq = piece->last_seq;
    p->state = PENDING_PACKED;
    p->record = piece->record;
    piece->record = (struct buf){0};
    enum rc rc = block_header_read(buf_slice(&p->record), &head, err);
    if (rc != RC_OK) {
        pending_release(p);
        return rc;
    }
    p->rows_count = head.rows;
    p->raw_bytes = piece->raw_bytes;
    rc = add_pending(ix, p);
    if (rc == RC_OK) /* what a packed block counts as */
        atomic_fetch_add(&ix->store->pending_bytes, p->record.len - p->raw_bytes);
    return rc;
}

/* Single rows from piece *at on, as one sealed block. */
static enum rc add_rows(struct index *ix, const struct replayed *r, size_t *at)
{
    size_t from = *at, to = from, bytes = 0, names = 0;
    const struct piece *list = r->piece;
    for (; to < r->count && list[to].record.len == 0 && to - from < LIMIT_BLOCK_ROWS &&
           list[to].row.nonce == list[from].row.nonce &&
           (to == from || bytes + list[to].row.doc.len <= index_block_target(ix));
         to++) {
        bytes += list[to].row.doc.len;
        names += list[to].row.id.len + list[to].row.routing.len;
    }
    *at = to;
    struct rows *rows = rows_create(bytes, to - from + names / 24 + 1, 0);
    struct pending *p = calloc(1, sizeof *p);
    if (rows == NULL || p == NULL) {
        rows_release(rows);
        free(p);
        return RC_NOMEM;
    }
    for (size_t i = from; i < to; i++)
        if (i == from || list[i].first_seq != list[i - 1].first_seq) {
            bool fits = rows_append(rows, &list[i].row);
            assert(fits);
        }
    atomic_init(&p->refs, 1);
    p->rows = rows;
    p->first_seq = rows_first_seq(rows);
    p->last_seq = rows_last_seq(rows);
    p->rows_count = (uint32_t)rows_count(rows);
    p->raw_bytes = (uint32_t)rows_raw_bytes(rows);
    return add_pending(ix, p);
}

/* Seqs that were given out and never logged count as dead rows (compact.c, P1). */
static enum rc mark_gaps(struct replayed *r)
{
    struct index *ix = r->index;
    uint64_t at = r->packed_seq;
    for (size_t i = 0; i < r->count; i++) {
        for (; at < r->piece[i].first_seq; at++) {
            if (!seqset_reserve(&ix->dead, 1))
                return RC_NOMEM;
            seqset_add(&ix->dead, at);
        }
        if (r->piece[i].last_seq >= at)
            at = r->piece[i].last_seq + 1;
    }
    return RC_OK;
}

static enum rc install(struct replayed *r, struct err *err)
{
    struct index *ix = r->index;
    if (r->count == 0)
        return RC_OK;
    qsort(r->piece, r->count, sizeof *r->piece, by_first_seq);
    for (size_t i = 0; i < r->count;) {
        struct piece *p = &r->piece[i];
        if (i != 0 && p->first_seq <= r->piece[i - 1].last_seq) {
            i++; /* logged twice */
            continue;
        }
        if (p->record.len != 0) {
            TRY(add_block(ix, p, err));
            i++;
        } else {
            TRY(add_rows(ix, r, &i));
        }
    }
    uint64_t next = ix->pending[ix->pending_count - 1]->last_seq + 1;
    if (next > ix->next_seq)
        ix->next_seq = next;
    return mark_gaps(r);
}

static enum rc effect(struct row_reader *look, struct index *ix, const struct row *row,
                      struct err *err)
{
    struct row old;
    uint64_t hash = 0, old_seq = SEQ_NONE;
    bool old_live = false;
    if (row->kind != ROW_MADE) {
        hash = index_hash(ix, row->id);
        enum rc rc = index_find(look, ix, row->id, hash, &old, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if (rc == RC_OK) {
            old_seq = old.seq;
            old_live = old.kind != ROW_TOMBSTONE && old.seq != row->seq;
        }
    }
    pthread_mutex_lock(&ix->table);
    bool room = index_reserve_locked(ix, 1);
    if (room)
        index_apply_locked(ix, row, hash, old_seq, old_live);
    pthread_mutex_unlock(&ix->table);
    return room ? RC_OK : RC_NOMEM;
}

static enum rc repeat_effects(struct store *store, struct index *ix, struct err *err)
{
    struct row_reader walk, look;
    enum rc rc = RC_OK;
    row_reader_init(&walk, store, BLOCK_META, false);
    row_reader_init(&look, store, BLOCK_META, false);
    for (size_t i = 0; i < ix->pending_count && rc == RC_OK; i++) {
        rc = row_reader_seek(&walk, ix, ix->pending[i]->first_seq, err);
        for (size_t k = 0; rc == RC_OK && k < row_reader_count(&walk); k++) {
            struct row row;
            rc = row_reader_row(&walk, k, &row, err);
            if (rc == RC_OK)
                rc = effect(&look, ix, &row, err);
        }
    }
    row_reader_done(&walk);
    row_reader_done(&look);
    return rc;
}

/* ---- orphans: what a crash left behind (S6) */

/* An index whose removal was under way. */
static enum rc take_drop(struct slice key, struct slice value, void *arg)
{
    struct store *store = arg;
    struct drop *d = calloc(1, sizeof *d);
    if (d == NULL)
        return RC_NOMEM;
    if (key.len != 4 || value.len >= sizeof d->dir_name) {
        free(d);
        return RC_CORRUPT;
    }
    d->index_no = get_be32(key.ptr);
    memcpy(d->dir_name, value.ptr, value.len);
    d->next = store->drops;
    store->drops = d;
    store->compact_now = true;
    return RC_OK;
}

struct sweep {
    struct store *store;
    const struct replay *replay;
};

/* A directory that no index of the catalog has: made for one whose creation was not committed, and
 * empty then. One with segments is left alone: if the catalog has lost its index, rebuilding brings
 * it back. */
static void sweep_dir(const char *name, void *arg)
{
    struct sweep *s = arg;
    char path[800];
    for (size_t i = 0; i < s->replay->count; i++)
        if (strcmp(s->replay->list[i].index->dir_name, name) == 0)
            return;
    for (const struct drop *d = s->store->drops; d != NULL; d = d->next)
        if (strcmp(d->dir_name, name) == 0)
            return;
    snprintf(path, sizeof path, "%s/indices/%s", s->store->path, name);
    if (rmdir(path) != 0)
        store_event(s->store, 1,
                    "%s belongs to no index of the catalog: stowctl rebuild brings it back, or "
                    "remove it",
                    path);
}

/* ---- the whole */

static enum rc publish(struct store *store, struct replay *rp)
{
    store->indices = malloc((rp->count + 1) * sizeof(struct index *));
    if (store->indices == NULL)
        return RC_NOMEM;
    store->index_cap = rp->count + 1;
    for (size_t i = 0; i < rp->count; i++) {
        store->indices[i] = index_retain(rp->list[i].index);
        store->index_count++;
    }
    return RC_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct index *x = *(struct index *const *)a, *y = *(struct index *const *)b;
    return slice_cmp(slice_of(x->name, x->name_len), slice_of(y->name, y->name_len));
}

static void replay_done(struct replay *rp)
{
    for (size_t i = 0; i < rp->count; i++) {
        for (size_t k = 0; k < rp->list[i].count; k++)
            buf_done(&rp->list[i].piece[k].record);
        free(rp->list[i].piece);
        index_release(rp->list[i].index);
    }
    for (size_t i = 0; i < rp->body_count; i++)
        free(rp->body[i]);
    free(rp->body);
    free(rp->list);
}

/* A run of which the log gave the name but no row is not begun. */
static void forget_empty_runs(struct index *ix)
{
    while (ix->run_count != 0 && ix->runs[ix->run_count - 1].first_seq == UINT64_MAX)
        ix->run_count--;
}

enum rc recover_store(struct store *store, struct wal_start *start, struct err *err)
{
    struct replay rp = {.store = store};
    struct wal_start end = *start;
    char path[512];
    bool torn = false;
    enum rc rc = catalog_each(store->catalog, KIND_INDEX, load_one, &rp, err);
    TRY_OUT(rc);
    if (rp.count != 0)
        qsort(rp.list, rp.count, sizeof *rp.list, by_number);
    TRY_OUT(publish(store, &rp));
    TRY_OUT(catalog_each(store->catalog, KIND_DROP, take_drop, store, err));
    snprintf(path, sizeof path, "%s/indices", store->path);
    struct sweep sweep = {store, &rp};
    TRY_OUT(io_list(path, sweep_dir, &sweep, err));
    for (size_t i = 0; i < rp.count; i++) {
        TRY_OUT(index_recount(rp.list[i].index, err));
        TRY_OUT(index_sweep_ids(rp.list[i].index, err));
    }
    snprintf(path, sizeof path, "%s/wal", store->path);
    TRY_OUT(wal_replay(path, start, store->o.accept_loss, replay_record, &rp, &end, err));
    for (size_t i = 0; i < rp.count; i++) {
        TRY_OUT(install(&rp.list[i], err));
        torn = torn || rp.list[i].count != 0;
    }
    for (size_t i = 0; i < rp.count; i++) {
        forget_empty_runs(rp.list[i].index);
        TRY_OUT(repeat_effects(store, rp.list[i].index, err));
    }
    if (torn) {
        store_event(store, 0, "replayed %llu log records", (unsigned long long)rp.records);
        TRY_OUT(checkpoint_run(store, true, 0, err));
        for (size_t i = 0; i < rp.count; i++)
            TRY_OUT(index_recount(rp.list[i].index, err));
    }
    if (store->index_count != 0)
        qsort(store->indices, store->index_count, sizeof(struct index *), by_name);
    *start = end;
out:
    replay_done(&rp);
    return rc;
}
