/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: from an id to its newest row, from a seq to its bytes. Look-ups go through memory first
 * and the catalog second, the order in which rows move on, so a row on its way is found in one of
 * them. A row that was rewritten between two look-ups is looked up again. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

/* A block moved at most this often while one row is being read. */
#define MOVED_MAX 8

void row_reader_init(struct row_reader *reader, struct store *store, enum block_want want,
                     bool nowait)
{
    *reader = (struct row_reader){.store = store, .want = want, .nowait = nowait};
}

static void unpin(struct row_reader *r)
{
    rows_release(r->rows);
    cache_release(r->store->cache, r->entry);
    block_close(r->own);
    r->rows = NULL;
    r->entry = NULL;
    r->own = NULL;
    r->block = NULL;
    r->index = NULL;
}

void row_reader_done(struct row_reader *reader)
{
    unpin(reader);
    block_scratch_done(&reader->scratch);
}

static void pin_block(struct row_reader *r, struct index *index, uint64_t first, uint64_t last)
{
    r->index = index;
    r->first = first;
    r->last = last;
}

/* Pin an opened block: through the cache when it is whole, alone when only its ids are wanted. */
static enum rc pin_opened(struct row_reader *r, const struct cache_key *key, struct block *block)
{
    if (r->want == BLOCK_META) {
        r->own = block;
        r->block = block;
        return RC_OK;
    }
    r->entry = cache_put(r->store->cache, key, block);
    if (r->entry == NULL)
        return RC_NOMEM;
    r->block = cache_block(r->entry);
    return RC_OK;
}

/* Find seq (or with `next` the lowest row behind it) among the rows in memory. On RC_OK either
 * *rows_out or *pending_out is a reference of the caller's. */
static enum rc find_in_memory(struct index *index, uint64_t seq, bool next, struct rows **rows_out,
                              struct pending **pending_out)
{
    enum rc rc = RC_NOT_FOUND;
    pthread_mutex_lock(&index->table);
    size_t lo = 0, hi = index->pending_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (index->pending[mid]->last_seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < index->pending_count && (next || index->pending[lo]->first_seq <= seq)) {
        struct pending *p = index->pending[lo];
        if (p->rows != NULL) {
            *rows_out = rows_share(p->rows);
        } else {
            atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
            *pending_out = p;
        }
        rc = RC_OK;
    } else if (index->open != NULL && rows_count(index->open) != 0 &&
               rows_last_seq(index->open) >= seq && (next || rows_first_seq(index->open) <= seq)) {
        *rows_out = rows_share(index->open);
        rc = RC_OK;
    }
    pthread_mutex_unlock(&index->table);
    return rc == RC_OK && *rows_out == NULL && *pending_out == NULL ? RC_NOMEM : rc;
}

/* With the dictionary that its header names. */
static enum rc open_record(struct row_reader *r, struct index *index, struct slice record,
                           uint64_t first_seq, struct block **out, struct err *err)
{
    struct block_header head;
    struct dict *dict = NULL;
    TRY(block_header_read(record, &head, err));
    if (r->want != BLOCK_META)
        TRY(index_dict(index, head.dictionary, r->nowait, &dict, err));
    enum rc rc = block_open(record, index->number, first_seq, r->want, dict, out, err);
    dict_release(dict);
    return rc;
}

/* The files of a deleted index go before the catalog forgets what stood in them: what cannot be
 * read then is not damaged. */
static bool gone_with_index(const struct index *index, enum rc rc)
{
    return rc != RC_OK && rc != RC_AGAIN && rc != RC_NOMEM && atomic_load(&index->deleted);
}

static enum rc pin_memory(struct row_reader *r, struct index *index, uint64_t seq, bool next,
                          struct err *err)
{
    struct rows *rows = NULL;
    struct pending *p = NULL;
    enum rc rc = find_in_memory(index, seq, next, &rows, &p);
    if (rc != RC_OK)
        return rc;
    if (rows != NULL) {
        r->rows = rows;
        pin_block(r, index, rows_first_seq(rows), rows_last_seq(rows));
        return RC_OK;
    }
    struct cache_key key = {index->number, SEGMENT_IN_MEMORY, p->first_seq};
    r->entry = cache_get(r->store->cache, &key);
    if (r->entry != NULL) {
        r->block = cache_block(r->entry);
    } else {
        struct block *block = NULL;
        rc = open_record(r, index, buf_slice(&p->record), p->first_seq, &block, err);
        if (rc == RC_OK)
            rc = pin_opened(r, &key, block);
        else if (gone_with_index(index, rc)) /* its dictionary */
            rc = RC_NOT_FOUND;
    }
    if (rc == RC_OK)
        pin_block(r, index, p->first_seq, p->last_seq);
    pending_release(p);
    return rc;
}

static enum rc pin_place(struct row_reader *r, struct index *index, const struct place *place,
                         struct err *err)
{
    struct cache_key key = {index->number, place->segment, place->at};
    enum rc rc = RC_OK;
    r->entry = cache_get(r->store->cache, &key);
    if (r->entry != NULL) {
        r->block = cache_block(r->entry);
        goto out;
    }
    uint8_t *record = malloc(place->len);
    if (record == NULL)
        return RC_NOMEM;
    struct block *block = NULL;
    rc = segment_read(r->store->files, index->number, index->dir_name, place->segment, place->at,
                      record, place->len, r->nowait, err);
    if (rc == RC_OK)
        rc = open_record(r, index, slice_of(record, place->len), place->first_seq, &block, err);
    free(record);
    /* A header byte that was flipped, or a later release: whoever asks can't have it either way. */
    if (rc == RC_UNSUPPORTED) {
        struct err why = *err;
        *err = (struct err){0};
        rc = err_set(err, RC_CORRUPT, 0, "%.200s: damage, or a later release wrote it", why.msg);
    }
    if (rc == RC_OK)
        rc = pin_opened(r, &key, block);
out:
    if (rc == RC_OK)
        pin_block(r, index, place->first_seq, place->last_seq);
    return rc;
}

static bool same_place(const struct place *a, const struct place *b)
{
    return a->segment == b->segment && a->at == b->at;
}

static enum rc next_place(struct index *index, uint64_t seq, bool next, struct place *out,
                          struct err *err)
{
    struct catalog *catalog = index->store->catalog;
    return next ? catalog_seek_block(catalog, index->number, seq, out, err)
                : catalog_find_block(catalog, index->number, seq, out, err);
}

/* Pin what holds seq on disk. A read that fails because the block has just moved is repeated. */
static enum rc pin_disk(struct row_reader *r, struct index *index, uint64_t seq, bool next,
                        struct err *err)
{
    struct place place, before;
    TRY(next_place(index, seq, next, &place, err));
    for (int tries = 0; tries < MOVED_MAX; tries++) {
        struct err why = {0};
        enum rc rc = pin_place(r, index, &place, &why);
        if (rc == RC_OK || rc == RC_AGAIN || rc == RC_NOMEM)
            return rc;
        if (gone_with_index(index, rc))
            return RC_NOT_FOUND;
        before = place;
        struct err again = {0};
        if (next_place(index, seq, next, &place, &again) != RC_OK || same_place(&before, &place)) {
            if (err != NULL && err->rc == RC_OK)
                *err = why;
            return rc;
        }
    }
    return err_set(err, RC_BUSY, 0, "index %s: a block was moved %d times while it was read",
                   index->name, MOVED_MAX);
}

enum rc row_reader_seek(struct row_reader *reader, struct index *index, uint64_t seq,
                        struct err *err)
{
    if (reader->index == index && reader->first <= seq && seq <= reader->last)
        return RC_OK;
    unpin(reader);
    enum rc rc = pin_disk(reader, index, seq, true, err);
    uint64_t disk_first = rc == RC_OK ? reader->first : UINT64_MAX;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    /* What the catalog does not name yet lies behind what it names: memory is asked only when the
     * catalog has nothing, and then once more the catalog, for what moved meanwhile. */
    if (disk_first != UINT64_MAX)
        return RC_OK;
    rc = pin_memory(reader, index, seq, true, err);
    uint64_t memory_first = rc == RC_OK ? reader->first : UINT64_MAX;
    struct place place;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    enum rc moved = next_place(index, seq, true, &place, err);
    if (moved != RC_OK && moved != RC_NOT_FOUND)
        return moved;
    if (moved == RC_OK && place.first_seq < memory_first) {
        unpin(reader);
        return pin_disk(reader, index, seq, true, err);
    }
    return rc;
}

size_t row_reader_count(const struct row_reader *reader)
{
    return reader->rows != NULL ? rows_count(reader->rows) : block_rows(reader->block);
}

uint64_t row_reader_seq(const struct row_reader *reader, size_t i)
{
    struct row row;
    if (reader->rows != NULL)
        rows_get(reader->rows, i, &row);
    else
        block_row(reader->block, i, &row);
    return row.seq;
}

enum rc row_reader_row(struct row_reader *reader, size_t i, struct row *out, struct err *err)
{
    reader->at = i;
    if (reader->rows != NULL) {
        rows_get(reader->rows, i, out);
        return RC_OK;
    }
    block_row(reader->block, i, out);
    return block_id(reader->block, i, &reader->scratch.id, &out->id, err);
}

enum rc row_reader_doc(struct row_reader *reader, struct row *row, struct err *err)
{
    if (reader->rows != NULL || reader->want == BLOCK_META)
        return RC_OK; /* it is there; it is not wanted */
    return block_doc(reader->block, reader->at, &reader->scratch.doc, &row->doc, err);
}

static enum rc find_pinned(struct row_reader *r, uint64_t seq, struct row *out, struct err *err)
{
    size_t i;
    enum rc rc = r->rows != NULL ? rows_find(r->rows, seq, &i) : block_find(r->block, seq, &i);
    return rc == RC_OK ? row_reader_row(r, i, out, err) : rc;
}

enum rc row_reader_get(struct row_reader *reader, struct index *index, uint64_t seq,
                       struct row *out, struct err *err)
{
    if (reader->index == index && reader->first <= seq && seq <= reader->last) {
        enum rc rc = find_pinned(reader, seq, out, err);
        if (rc == RC_OK || reader->rows == NULL)
            return rc;
    }
    unpin(reader);
    enum rc rc = pin_memory(reader, index, seq, false, err);
    if (rc == RC_NOT_FOUND)
        rc = pin_disk(reader, index, seq, false, err);
    return rc == RC_OK ? find_pinned(reader, seq, out, err) : rc;
}

/* ---- ids */

enum rc index_is_dead(struct index *index, uint64_t seq, bool *out, struct err *err)
{
    pthread_mutex_lock(&index->table);
    *out = seqset_has(&index->dead, seq) || seqset_has(&index->dead_frozen, seq);
    pthread_mutex_unlock(&index->table);
    if (*out)
        return RC_OK;
    uint8_t bits[CATALOG_DEAD_BYTES];
    TRY(catalog_get_dead(index->store->catalog, index->number, seq / CATALOG_DEAD_SEQS, bits, err));
    uint64_t bit = seq % CATALOG_DEAD_SEQS;
    *out = (bits[bit / 8] >> (bit % 8) & 1) != 0;
    return RC_OK;
}

/* A made id: the row at its seq, if it is one of that run and not dead. *dead_out: another row of
 * the id may have come since the client's ids were searched. */
static enum rc find_made(struct row_reader *reader, struct index *index, struct slice id,
                         bool *dead_out, struct row *out, struct err *err)
{
    uint64_t nonce, seq;
    bool given_out = false;
    *dead_out = false;
    if (!made_id_parse(id, &nonce, &seq))
        return RC_NOT_FOUND;
    pthread_mutex_lock(&index->table);
    bool own = index_owns_made_locked(index, nonce, seq, &given_out);
    pthread_mutex_unlock(&index->table);
    if (!own || !given_out)
        return RC_NOT_FOUND;
    TRY(index_is_dead(index, seq, dead_out, err));
    if (*dead_out)
        return RC_NOT_FOUND;
    TRY(row_reader_get(reader, index, seq, out, err));
    return out->kind == ROW_MADE && out->nonce == nonce ? RC_OK : RC_NOT_FOUND;
}

static enum rc find_client(struct row_reader *reader, struct index *index, struct slice id,
                           uint64_t hash, uint64_t *epoch_out, struct row *out, struct err *err)
{
    uint64_t seqs[CANDIDATES_MAX];
    size_t n = 0;
    bool gone = false, dead = false;
    TRY(index_candidates(index, hash, seqs, &n, epoch_out, err));
    for (size_t i = 0; i < n; i++) {
        enum rc rc = row_reader_get(reader, index, seqs[i], out, err);
        if (rc == RC_NOT_FOUND) {
            gone = true; /* rewritten away: not the newest of any id, or a tombstone */
            continue;
        }
        if (rc != RC_OK)
            return rc;
        if (out->kind == ROW_MADE || !slice_eq(out->id, id))
            continue;
        /* A block that was pinned before has what went away together with its tombstone. */
        if (gone && out->kind == ROW_CLIENT)
            TRY(index_is_dead(index, out->seq, &dead, err));
        if (!dead)
            return RC_OK;
    }
    return RC_NOT_FOUND;
}

static enum rc find_row(struct row_reader *reader, struct index *index, struct slice id,
                        uint64_t hash, struct row *out, struct err *err)
{
    bool again = true;
    for (int tries = 0; again && tries < MOVED_MAX; tries++) {
        uint64_t epoch = 0;
        bool dead = false;
        pthread_mutex_lock(&index->table);
        bool client_ids = index->has_client_ids;
        pthread_mutex_unlock(&index->table);
        enum rc rc = RC_NOT_FOUND;
        if (client_ids)
            rc = find_client(reader, index, id, hash, &epoch, out, err);
        if (rc == RC_NOT_FOUND)
            rc = find_made(reader, index, id, &dead, out, err);
        if (rc != RC_NOT_FOUND)
            return rc;
        /* Did an id move past us from level to level, or from a made row to a client's? */
        pthread_mutex_lock(&index->table);
        again = (client_ids && index->ids_epoch != epoch) || (dead && tries == 0);
        pthread_mutex_unlock(&index->table);
    }
    return RC_NOT_FOUND;
}

enum rc index_find(struct row_reader *reader, struct index *index, struct slice id, uint64_t hash,
                   struct row *out, struct err *err)
{
    TRY(find_row(reader, index, id, hash, out, err));
    return row_reader_doc(reader, out, err);
}

enum rc index_find_at(struct row_reader *reader, struct index *index, struct slice id, uint64_t seq,
                      struct row *out, struct err *err)
{
    TRY(row_reader_get(reader, index, seq, out, err));
    if (out->kind == ROW_MADE || !slice_eq(out->id, id))
        return RC_NOT_FOUND;
    return row_reader_doc(reader, out, err);
}

/* ---- the API's reads */

/* The reader's pins become the caller's. */
static void hand_over(struct row_reader *reader, struct got *out)
{
    out->pin[0] = reader->rows;
    out->pin[1] = reader->entry;
    out->pin[2] = reader->own;
    out->scratch = reader->scratch;
    reader->scratch = (struct block_scratch){0};
    reader->rows = NULL;
    reader->entry = NULL;
    reader->own = NULL;
}

enum rc store_get(struct store *store, struct index *index, struct slice id, enum get_mode mode,
                  struct got *out, struct err *err)
{
    struct row_reader reader;
    struct row row = {0};
    row_reader_init(&reader, store, BLOCK_ALL, mode == GET_NOWAIT);
    enum rc rc = RC_NOT_FOUND;
    if (id.len != 0 && id.len <= LIMIT_ID_BYTES)
        rc = index_find(&reader, index, id, index_hash(index, id), &row, err);
    if (rc == RC_OK && row.kind == ROW_TOMBSTONE)
        rc = RC_NOT_FOUND;
    if (rc == RC_OK) {
        out->row = row;
        hand_over(&reader, out);
    }
    row_reader_done(&reader);
    if (rc != RC_AGAIN)
        atomic_fetch_add_explicit(rc == RC_NOT_FOUND ? &index->get_missing : &index->gets, 1,
                                  memory_order_relaxed);
    return rc;
}

void store_got_release(struct store *store, struct got *got)
{
    rows_release(got->pin[0]);
    cache_release(store->cache, got->pin[1]);
    block_close(got->pin[2]);
    got->pin[0] = got->pin[1] = got->pin[2] = NULL;
    block_scratch_done(&got->scratch);
}

/* ---- many: look seqs up first, then read in storage order */

struct lookup {
    struct get_item *item;
    uint64_t seq; /* a guess; the id decides when it is read */
};

static int lookup_order(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;
    uintptr_t ix = (uintptr_t)x->item->index, iy = (uintptr_t)y->item->index;
    if (ix != iy)
        return ix < iy ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static uint64_t guess_seq(struct index *index, struct slice id)
{
    uint64_t seqs[CANDIDATES_MAX], nonce, seq, epoch;
    size_t n = 0;
    struct err ignored = {0};
    if (id.len != 0 && id.len <= LIMIT_ID_BYTES &&
        index_candidates(index, index_hash(index, id), seqs, &n, &epoch, &ignored) == RC_OK &&
        n != 0)
        return seqs[0];
    return made_id_parse(id, &nonce, &seq) ? seq : SEQ_NONE;
}

void store_get_many(struct store *store, struct get_item *items, size_t count,
                    void (*fn)(struct get_item *item, enum rc rc, const struct got *got,
                               const struct err *err, void *arg),
                    void *arg)
{
    struct lookup *list = malloc((count + 1) * sizeof *list);
    struct err err = {0};
    struct got got = {0};
    struct row_reader reader;
    size_t n = 0;
    if (list == NULL) {
        err_set(&err, RC_NOMEM, 0, "no memory for %zu look-ups", count);
        for (size_t i = 0; i < count; i++)
            fn(&items[i], RC_NOMEM, NULL, &err, arg);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (items[i].index != NULL)
            list[n++] = (struct lookup){&items[i], guess_seq(items[i].index, items[i].id)};
    qsort(list, n, sizeof *list, lookup_order);
    row_reader_init(&reader, store, BLOCK_ALL, false);
    for (size_t i = 0; i < n; i++) {
        struct get_item *item = list[i].item;
        enum rc rc = RC_NOT_FOUND;
        err = (struct err){0};
        if (item->id.len != 0 && item->id.len <= LIMIT_ID_BYTES)
            rc = index_find(&reader, item->index, item->id, index_hash(item->index, item->id),
                            &got.row, &err);
        if (rc == RC_OK && got.row.kind == ROW_TOMBSTONE)
            rc = RC_NOT_FOUND;
        atomic_fetch_add_explicit(rc == RC_NOT_FOUND ? &item->index->get_missing
                                                     : &item->index->gets,
                                  1, memory_order_relaxed);
        fn(item, rc, rc == RC_OK ? &got : NULL, &err, arg);
    }
    row_reader_done(&reader);
    free(list);
}
