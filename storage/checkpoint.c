/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: what is in the log and in memory goes to segments and catalog, then the log's space
 * is free again.
 *
 * For each index: cut (freeze ids and dead rows, note which blocks are sealed), wait until every
 * write that the cut contains is in the log, write the blocks to the segment, sync it. Then, in
 * transactions of bounded size: dead rows, ids, and last the blocks together with packed_seq (E2).
 * Last of all the node's value with the log position from which replay must begin.
 *
 *   K1  nothing reaches the catalog before it is in the log (ids and dead rows) or synced in a
 *       segment (blocks).
 *   K2  within an index dead rows and ids are committed no later than the blocks they belong to.
 *   K3  a failed attempt keeps its cut and is repeated. What it wrote to segments is taken back at
 *       once, so that attempts on a full disk leave nothing; a segment that failed gets no more. */
#include "config/limits.h"
#include "storage/engine.h"
#include "storage/metadata.h"

#include <stdlib.h>
#include <time.h>

/* Segments kept open for appending, over all indices. */
#define WRITERS_MAX 64
/* How often the thread looks at the log while there is something to carry over. */
#define LOOK_MS  200
#define RETRY_MS 1000
/* Without any write: open blocks that are idle are looked for at least this often. */
#define QUIET_MS       30000
#define SPACE_CHECK_MS 100
/* A piece of an id run counts as one key of a transaction for each so many bytes. */
#define PIECE_KEY_BYTES 1024

/* Half of the budget: the other half is for what comes while that is carried over. */
static bool ids_pressed(struct store *store)
{
    return atomic_load(&store->id_memory) > store->o.id_memory_bytes / 2;
}

bool store_ids_ok(struct store *store)
{
    return atomic_load(&store->id_memory) <= store->o.id_memory_bytes;
}

/* ---- cut */

static bool wants_seal(struct index *ix, bool seal, uint64_t now, uint64_t head, uint64_t capacity)
{
    if (ix->open == NULL || rows_count(ix->open) == 0)
        return false;
    return seal || now - ix->written_ms >= ix->store->o.idle_seal_ms ||
           (head > ix->open_at && head - ix->open_at > capacity / 4); /* it must not pin the log */
}

/* False: nothing to carry over. Then tables that have been made ready for ids that did not come go:
 * else those of many indices would use up the budget (E4). */
static bool cut(struct index *ix, bool seal, uint64_t head, uint64_t capacity, enum rc *rc)
{
    struct pending *sealed = NULL;
    if (ix->cut)
        return true;
    pthread_mutex_lock(&ix->write);
    if (wants_seal(ix, seal, mono_ms(), head, capacity))
        *rc = index_seal_locked(ix, &sealed);
    pthread_mutex_lock(&ix->table);
    bool work = ix->pending_count != 0 || ix->ids.active.count != 0 || ix->dead.count != 0;
    if (*rc == RC_OK && work) {
        idmap_freeze(&ix->ids); /* no memory comes or goes */
        seqset_done(&ix->dead_frozen);
        ix->dead_frozen = ix->dead;
        ix->dead = (struct seqset){0};
        ix->cut = true;
        ix->cut_tickets = ix->ticket_next;
        ix->cut_pending = ix->pending_count;
        ix->cut_packed =
            ix->open != NULL && rows_count(ix->open) != 0 ? rows_first_seq(ix->open) : ix->next_seq;
        ix->cut_next = ix->next_seq;
    } else if (!work && ix->id_memory != 0) {
        idmap_done(&ix->ids);
        seqset_done(&ix->dead);
        index_count_ids_locked(ix);
    }
    pthread_mutex_unlock(&ix->table);
    pthread_mutex_unlock(&ix->write);
    pending_release(sealed);
    return *rc == RC_OK && work;
}

static enum rc wait_logged(struct index *ix, struct err *err)
{
    pthread_mutex_lock(&ix->table);
    while (ix->ticket_low < ix->cut_tickets && !atomic_load(&ix->store->failed)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1; /* a failed log wakes nobody */
        pthread_cond_timedwait(&ix->packed, &ix->table, &until);
    }
    pthread_mutex_unlock(&ix->table);
    return atomic_load(&ix->store->failed)
               ? err_set(err, RC_IO, 0, "the write-ahead log has failed")
               : RC_OK;
}

/* ---- segments */

enum rc checkpoint_finish_segment(struct index *ix, struct err *err)
{
    struct segment_writer *w = ix->segment;
    enum rc rc = RC_OK;
    if (w != NULL) {
        rc = segment_seal(w, err);
        if (rc == RC_OK)
            rc = segment_sync(w, err);
        segment_writer_close(w);
        ix->segment = NULL;
        if (rc != RC_OK)
            ix->dict_copies = 0; /* what stands in it may not be synced */
    }
    return rc;
}

enum rc checkpoint_segment(struct index *index, struct segment_writer **out, struct err *err)
{
    char dir[512];
    struct buf text = {0};
    if (index->segment != NULL && segment_len(index->segment) >= index->store->o.segment_bytes)
        TRY(checkpoint_finish_segment(index, err));
    if (index->segment != NULL) {
        *out = index->segment;
        return RC_OK;
    }
    index_dir(index, dir, sizeof dir);
    metadata_describe(index, &text);
    struct segment_owner owner = {
        .index_no = index->number,
        .created_ms = index->created_ms,
        .describe = buf_slice(&text),
    };
    memcpy(owner.uuid, index->uuid, 16);
    enum rc rc = text.failed ? RC_NOMEM : RC_EXISTS;
    while (rc == RC_EXISTS) { /* one that a crash left behind keeps its number (G2) */
        struct err why = {0};
        rc = segment_create(dir, index->next_segment++, &owner, &index->segment, &why);
        if (rc != RC_OK && rc != RC_EXISTS)
            (void)err_set(err, rc, why.os_errno, "%s", why.msg);
    }
    buf_done(&text);
    if (rc == RC_OK)
        rc = io_sync_dir(dir, err);
    if (rc != RC_OK) {
        segment_writer_close(index->segment);
        index->segment = NULL;
        return rc;
    }
    pthread_mutex_lock(&index->table);
    index->segments++;
    index->disk_bytes += segment_len(index->segment);
    pthread_mutex_unlock(&index->table);
    *out = index->segment;
    return RC_OK;
}

void checkpoint_abandon_segment(struct index *index)
{
    if (index->segment != NULL)
        index->strays = true;
    segment_writer_close(index->segment);
    index->segment = NULL;
    index->dict_copies = 0; /* those that stand in it */
}

void checkpoint_mark(struct index *index, struct segment_mark *mark)
{
    const struct segment_writer *w = index->segment;
    *mark = (struct segment_mark){.next = index->next_segment,
                                  .any_open = w != NULL,
                                  .open = w == NULL ? 0 : segment_number(w),
                                  .open_len = w == NULL ? 0 : segment_len(w)};
    pthread_mutex_lock(&index->table);
    mark->segments = index->segments;
    mark->disk_bytes = index->disk_bytes;
    pthread_mutex_unlock(&index->table);
    index->maybe_named = false;
}

void checkpoint_undo(struct index *index, const struct segment_mark *mark)
{
    char dir[512], path[600];
    bool strays = index->strays, gone = true;
    checkpoint_abandon_segment(index);
    if (index->maybe_named) /* what nothing names is swept by compaction */
        return;
    index_dir(index, dir, sizeof dir);
    for (uint32_t n = mark->next; n != index->next_segment; n++) {
        enum rc rc;
        segment_path(path, sizeof path, dir, n);
        rc = io_unlink(path, NULL);
        gone = gone && (rc == RC_OK || rc == RC_NOT_FOUND);
    }
    if (mark->any_open)
        gone = segment_cut(dir, mark->open, mark->open_len, NULL) == RC_OK && gone;
    gone = io_sync_dir(dir, NULL) == RC_OK && gone;
    index->strays = strays || !gone;
    pthread_mutex_lock(&index->table);
    index->segments = mark->segments;
    index->disk_bytes = mark->disk_bytes;
    pthread_mutex_unlock(&index->table);
}

static enum rc write_block(struct index *ix, const struct pending *p, struct place *place,
                           struct err *err)
{
    struct segment_writer *w = NULL;
    struct block_header head;
    uint64_t at = 0;
    TRY(checkpoint_segment(ix, &w, err));
    TRY(block_header_read(buf_slice(&p->record), &head, err));
    TRY(index_dict_to_segment(ix, w, head.dictionary, err));
    struct segment_entry entry = {
        .first_seq = p->first_seq, .last_seq = p->last_seq, .rows = p->rows_count};
    TRY(segment_append(w, buf_slice(&p->record), &entry, &at, err));
    *place = (struct place){
        .first_seq = p->first_seq,
        .last_seq = p->last_seq,
        .segment = segment_number(w),
        .len = (uint32_t)p->record.len,
        .at = at,
        .rows = p->rows_count,
        .raw_bytes = p->raw_bytes,
    };
    return RC_OK;
}

/* Write the cut's blocks; *places_out has one entry a block. All are synced on return. */
static enum rc write_blocks(struct index *ix, struct place **places_out, struct err *err)
{
    struct place *places = malloc((ix->cut_pending + 1) * sizeof *places);
    enum rc rc = RC_OK;
    struct segment_writer *w = ix->segment;
    if (places == NULL)
        return RC_NOMEM;
    for (size_t i = 0; i < ix->cut_pending; i++) {
        pthread_mutex_lock(&ix->table); /* the list may move, its entries stay */
        struct pending *p = ix->pending[i];
        pthread_mutex_unlock(&ix->table);
        TRY_OUT(pending_pack(ix, p, err));
        TRY_OUT(write_block(ix, p, &places[i], err));
        if (w != ix->segment)
            w = ix->segment; /* the full one was sealed and synced */
    }
    if (w != NULL && ix->cut_pending != 0)
        rc = segment_sync(w, err);
out:
    if (rc == RC_OK)
        *places_out = places;
    else
        free(places);
    return rc;
}

/* ---- carrying over to the catalog */

struct carrier {
    struct store *store;
    struct index *index;
    struct catalog_txn *txn;
    size_t keys;
    struct idrun idrun;   /* being written … */
    uint64_t piece_bytes; /* … with so many bytes */
    bool names;           /* what is committed from now on may name blocks of this attempt */
    bool packs;           /* the transaction has a packed_seq … */
    uint64_t packed_seq;  /* … that is the index' once it is committed */
};

static void carrier_abort(struct carrier *c)
{
    catalog_abort(c->txn);
    c->txn = NULL;
    c->keys = 0;
    c->packs = false;
}

static enum rc carrier_commit(struct carrier *c, struct err *err)
{
    struct catalog_txn *txn = c->txn;
    bool packs = c->packs;
    c->txn = NULL;
    c->keys = 0;
    c->packs = false;
    if (txn == NULL)
        return RC_OK;
    enum rc rc = catalog_commit(txn, err);
    if (c->names)
        index_note_commit(c->index, rc);
    TRY(rc);
    /* Not before: whoever saves the state after a failed commit must not go past it (E2). */
    if (packs)
        c->index->packed_seq = c->packed_seq;
    return RC_OK;
}

static enum rc carrier_room(struct carrier *c, struct err *err)
{
    if (c->keys >= LIMIT_CATALOG_TXN_KEYS)
        TRY(carrier_commit(c, err));
    c->keys++;
    return c->txn != NULL ? RC_OK : catalog_begin(c->store->catalog, &c->txn, err);
}

static int u64_order(const void *a, const void *b)
{
    uint64_t x, y; /* the first member of what is sorted */
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static enum rc carry_dead(struct carrier *c, struct index *ix, struct err *err)
{
    const struct seqset *set = &ix->dead_frozen; /* frozen: only this thread changes it */
    uint8_t bits[CATALOG_DEAD_BYTES];
    enum rc rc = RC_OK;
    size_t n = 0;
    if (set->count == 0)
        return RC_OK;
    uint64_t *seqs = malloc(set->count * sizeof *seqs);
    if (seqs == NULL)
        return RC_NOMEM;
    for (size_t i = 0; i <= set->mask; i++)
        if (set->slot[i] != IDMAP_NONE)
            seqs[n++] = set->slot[i];
    qsort(seqs, n, sizeof *seqs, u64_order);
    for (size_t i = 0; i < n;) {
        uint64_t chunk = seqs[i] / CATALOG_DEAD_SEQS;
        TRY_OUT(carrier_room(c, err));
        TRY_OUT(catalog_txn_get_dead(c->txn, ix->number, chunk, bits, err));
        for (; i < n && seqs[i] / CATALOG_DEAD_SEQS == chunk; i++) {
            uint64_t bit = seqs[i] % CATALOG_DEAD_SEQS;
            bits[bit / 8] = (uint8_t)(bits[bit / 8] | 1u << (bit % 8));
        }
        TRY_OUT(catalog_put_dead(c->txn, ix->number, chunk, bits, err));
    }
out:
    free(seqs);
    return rc;
}

static enum rc carry_piece(void *arg, uint32_t piece, struct slice value, struct err *err)
{
    struct carrier *c = arg;
    TRY(carrier_room(c, err));
    c->keys += value.len / PIECE_KEY_BYTES;
    c->piece_bytes += value.len;
    return catalog_put_piece(c->txn, c->index->number, c->idrun.number, piece, value, err);
}

/* The frozen ids become a run; *list_out, if it is made, is the list with it. A repeated attempt
 * writes the same pieces again. */
static enum rc carry_ids(struct carrier *c, struct index *ix, struct idrun_list **list_out,
                         struct err *err)
{
    const struct idmap_table *t = &ix->ids.frozen; /* frozen: only this thread changes it */
    size_t n = 0;
    if (t->count == 0)
        return RC_OK;
    struct idrun_entry *list = malloc(t->count * sizeof *list);
    if (list == NULL)
        return RC_NOMEM;
    for (size_t i = 0; i <= t->mask; i++)
        if (t->slot[i].place != IDMAP_NONE)
            list[n++] = (struct idrun_entry){t->slot[i].hash, idmap_seq(&t->slot[i]),
                                             idmap_tombstone(&t->slot[i])};
    idrun_sort(list, n);
    c->idrun = (struct idrun){ix->next_idrun, idrun_bits(n), n};
    c->piece_bytes = 0;
    enum rc rc = idrun_write(list, n, c->idrun.bits, carry_piece, c, err);
    free(list);
    if (rc == RC_OK) {
        *list_out = idrun_list_make(ix->idruns, NULL, 0, &c->idrun);
        rc = *list_out == NULL ? RC_NOMEM : RC_OK;
    }
    return rc;
}

static enum rc carry_state(struct carrier *c, struct index *ix, uint64_t packed_seq,
                           const struct idrun_list *idruns, struct err *err)
{
    c->packs = true;
    /* A repeated attempt begins with blocks that an earlier one may have committed. */
    c->packed_seq = packed_seq > ix->packed_seq ? packed_seq : ix->packed_seq;
    return index_save_state(c->txn, ix, c->packed_seq, idruns, err);
}

static enum rc carry_blocks(struct carrier *c, struct index *ix, const struct place *places,
                            const struct idrun_list *idruns, struct err *err)
{
    /* A block is committed with its dictionary and the state: there must be room for all three. */
    if (c->keys + 3 >= LIMIT_CATALOG_TXN_KEYS)
        TRY(carrier_commit(c, err));
    c->names = true;
    for (size_t i = 0; i < ix->cut_pending; i++) {
        if (c->keys + 2 >= LIMIT_CATALOG_TXN_KEYS && c->txn != NULL) {
            TRY(index_dict_carry(ix, c->txn, err));
            TRY(carry_state(c, ix, places[i].first_seq, idruns, err));
            TRY(carrier_commit(c, err));
        }
        TRY(carrier_room(c, err));
        TRY(catalog_put_block(c->txn, ix->number, &places[i], err));
    }
    TRY(carrier_room(c, err));
    TRY(index_dict_carry(ix, c->txn, err));
    return carry_state(c, ix, ix->cut_packed, idruns, err);
}

/* The catalog has it all: memory may let go. */
static void drop_carried(struct index *ix, const struct place *places, struct idrun_list *idruns)
{
    struct idrun_list *old = NULL;
    uint64_t bytes = 0;
    size_t n = ix->cut_pending;
    struct pending **gone = malloc((n + 1) * sizeof(struct pending *));
    pthread_mutex_lock(&ix->table);
    idmap_drop_frozen(&ix->ids);
    if (idruns != NULL) {
        old = ix->idruns;
        ix->idruns = idruns;
        ix->next_idrun++;
    }
    ix->ids_epoch++;
    ix->ids_carried = ix->cut_next;
    seqset_done(&ix->dead_frozen);
    index_count_ids_locked(ix);
    for (size_t i = 0; i < n; i++) {
        const struct pending *p = ix->pending[i];
        bytes += p->record.len;
        ix->block_raw_bytes += p->raw_bytes;
        ix->disk_bytes += places[i].len;
        ix->short_blocks += index_block_short(ix, p->raw_bytes, p->rows_count);
        if (gone != NULL)
            gone[i] = ix->pending[i];
        else
            pending_release(ix->pending[i]);
    }
    ix->block_bytes += bytes;
    ix->blocks += n;
    if (n != 0)
        memmove(ix->pending, ix->pending + n, (ix->pending_count - n) * sizeof(struct pending *));
    ix->pending_count -= n;
    ix->cut = false;
    pthread_mutex_unlock(&ix->table);
    for (size_t i = 0; gone != NULL && i < n; i++)
        pending_release(gone[i]);
    free(gone);
    idrun_list_release(old);
    atomic_fetch_sub(&ix->store->pending_bytes, bytes);
    cache_forget(ix->store->cache, ix->number, SEGMENT_IN_MEMORY);
}

static enum rc carry_index(struct carrier *c, struct index *ix, struct err *err)
{
    struct place *places = NULL;
    struct idrun_list *idruns = NULL;
    struct segment_mark mark;
    enum rc rc = wait_logged(ix, err);
    c->index = ix;
    checkpoint_mark(ix, &mark);
    TRY_OUT(rc);
    /* A full catalog is noticed before blocks are written that each attempt would write again. */
    TRY_OUT(carrier_room(c, err));
    carrier_abort(c);
    TRY_OUT(write_blocks(ix, &places, err));
    TRY_OUT(carry_dead(c, ix, err));
    TRY_OUT(carry_ids(c, ix, &idruns, err));
    TRY_OUT(carry_blocks(c, ix, places, idruns == NULL ? ix->idruns : idruns, err));
    TRY_OUT(carrier_commit(c, err));
    index_dict_carried(ix);
    if (idruns != NULL)
        atomic_fetch_add(&ix->ids_flushed_bytes, c->piece_bytes);
    drop_carried(ix, places, idruns);
    idruns = NULL;
out:
    idrun_list_release(idruns);
    carrier_abort(c);
    c->names = false;
    if (rc != RC_OK)
        checkpoint_undo(ix, &mark); /* K3 */
    free(places);
    return rc;
}

/* ---- the whole */

/* Lowest log position that some index' rows in memory need. */
static uint64_t lowest_needed(struct index **list, size_t n, uint64_t head)
{
    uint64_t low = head;
    for (size_t i = 0; i < n; i++) {
        struct index *ix = list[i];
        pthread_mutex_lock(&ix->write);
        if (ix->open != NULL && rows_count(ix->open) != 0 && ix->open_at < low)
            low = ix->open_at;
        pthread_mutex_lock(&ix->table);
        for (size_t k = 0; k < ix->pending_count; k++)
            if (ix->pending[k]->wal_at < low)
                low = ix->pending[k]->wal_at;
        pthread_mutex_unlock(&ix->table);
        pthread_mutex_unlock(&ix->write);
    }
    return low;
}

static enum rc release_log(struct store *store, struct index **list, size_t n, uint64_t head,
                           struct err *err)
{
    struct catalog_txn *txn = NULL;
    struct wal_start start = wal_start_at(store->wal, lowest_needed(list, n, head));
    TRY(catalog_begin_removal(store->catalog, &txn, err)); /* a full map must not pin the log */
    enum rc rc = store_save_node(txn, store, &start, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    TRY(catalog_commit(txn, err));
    wal_release(store->wal, start.position);
    return RC_OK;
}

static void limit_writers(struct index **list, size_t n)
{
    size_t open = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i]->segment != NULL && ++open > WRITERS_MAX) {
            struct err ignored = {0};
            /* The footer is for reading the segment alone; the catalog has its blocks. */
            (void)!checkpoint_finish_segment(list[i], &ignored);
        }
}

/* Those that hold the most memory for ids come first: it is free the soonest. */
static int by_id_memory(const void *a, const void *b)
{
    const struct index *x = *(struct index *const *)a, *y = *(struct index *const *)b;
    return x->id_memory_cut > y->id_memory_cut ? -1 : x->id_memory_cut < y->id_memory_cut;
}

static void biggest_first(struct index **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&list[i]->table);
        list[i]->id_memory_cut = list[i]->id_memory;
        pthread_mutex_unlock(&list[i]->table);
    }
    qsort(list, n, sizeof(struct index *), by_id_memory);
}

/* What a failed attempt has cut (K3) is older than this checkpoint: once that is carried over, what
 * has come since is cut, too. */
static enum rc run_index(struct carrier *c, struct index *ix, bool seal, uint64_t head,
                         uint64_t capacity, struct err *err)
{
    enum rc rc = RC_OK;
    bool had = true;
    while (rc == RC_OK && had) {
        had = ix->cut;
        if (atomic_load(&ix->deleted) || !cut(ix, seal, head, capacity, &rc))
            return rc;
        rc = carry_index(c, ix, err);
    }
    return rc;
}

enum rc checkpoint_run(struct store *store, bool seal, uint64_t until_ms, struct err *err)
{
    struct index **list = NULL;
    size_t n = 0;
    struct wal_stats ws;
    struct carrier c = {.store = store};
    enum rc rc = RC_OK;
    bool all = true;
    pthread_mutex_lock(&store->layout);
    bool logged = store->wal != NULL; /* not yet while recovering */
    /* Before the list: an index that is made later has no record before head. */
    uint64_t head = logged ? wal_head(store->wal) : 0;
    rc = store_all(store, &list, &n);
    if (n != 0 && ids_pressed(store))
        biggest_first(list, n);
    if (logged)
        wal_stats(store->wal, &ws);
    else
        ws.capacity = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        struct err why = {0};
        if (until_ms != 0 && mono_ms() > until_ms) {
            all = false;
            break;
        }
        enum rc one = run_index(&c, list[i], seal, head, ws.capacity, &why);
        /* One that fails keeps the log, but not the others in memory; or it went away under us. */
        if (one != RC_OK && rc == RC_OK && !atomic_load(&list[i]->deleted)) {
            rc = one;
            *err = why;
        }
    }
    if (rc == RC_OK && all && logged)
        rc = release_log(store, list, n, head, err);
    limit_writers(list, n);
    if (until_ms != 0)
        for (size_t i = 0; i < n; i++) {
            struct err ignored = {0};
            (void)!checkpoint_finish_segment(list[i], &ignored);
        }
    pthread_mutex_unlock(&store->layout);
    for (size_t i = 0; i < n; i++)
        index_release(list[i]);
    free(list);
    atomic_fetch_add(rc == RC_OK ? &store->checkpoints : &store->checkpoint_failures, 1);
    return rc;
}

/* ---- the thread */

void checkpoint_poke(struct store *store)
{
    pthread_mutex_lock(&store->wake);
    store->checkpoint_now = true;
    pthread_cond_signal(&store->wake_checkpoint);
    pthread_mutex_unlock(&store->wake);
}

bool store_space_ok(struct store *store)
{
    uint64_t now = mono_ms(), free_bytes = 0, total = 0;
    uint64_t last = atomic_load(&store->space_checked_ms);
    if (last == 0 || now - last >= SPACE_CHECK_MS) {
        struct err ignored = {0};
        atomic_store(&store->space_checked_ms, now);
        if (io_space(store->path, &free_bytes, &total, &ignored) == RC_OK) {
            atomic_store(&store->space_free, free_bytes);
            atomic_store(&store->space_total, total);
            bool low = free_bytes < store->o.reserve_bytes + atomic_load(&store->pending_bytes);
            if (low != atomic_exchange(&store->space_low, low))
                store_event(store, low ? 1 : 0,
                            low ? "disk space below storage.reserve: writes are refused"
                                : "disk space is back: writes resume");
        }
    }
    return !atomic_load(&store->space_low);
}

static void wait_ms(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(cond, mutex, &until);
}

static bool due(struct store *store, uint64_t last_ms)
{
    struct wal_stats ws;
    uint64_t quiet_ms = store->o.idle_seal_ms < QUIET_MS ? store->o.idle_seal_ms : QUIET_MS;
    if (store->checkpoint_now || store->flushes != NULL || mono_ms() - last_ms >= quiet_ms)
        return true;
    if (store->dirty_since_ms == 0)
        return false;
    if (ids_pressed(store))
        return true;
    if (mono_ms() - store->dirty_since_ms >= store->o.checkpoint_ms)
        return true;
    wal_stats(store->wal, &ws);
    return ws.used > ws.capacity / 8;
}

static void flush_done_run(struct task *task)
{
    struct flush_request *f =
        (struct flush_request *)((char *)task - offsetof(struct flush_request, task));
    f->done(f->arg, f->rc, &f->err);
    free(f);
}

void flush_answer(struct store *store, struct flush_request *request, enum rc rc,
                  const struct err *err)
{
    request->rc = rc;
    request->err = *err;
    request->task.run = flush_done_run;
    work_submit(store->o.work, WORK_GET, &request->task);
}

/* Report to those who asked for the flush; those who asked for a merge wait for compaction. */
static void answer_flushes(struct store *store, struct flush_request *list, enum rc rc,
                           const struct err *err)
{
    while (list != NULL) {
        struct flush_request *f = list;
        list = f->next;
        if (f->merge && rc == RC_OK) {
            pthread_mutex_lock(&store->wake);
            f->next = store->merges;
            store->merges = f;
            pthread_cond_signal(&store->wake_compact);
            pthread_mutex_unlock(&store->wake);
            continue;
        }
        flush_answer(store, f, rc, err);
    }
}

void *checkpoint_main(void *arg)
{
    struct store *store = arg;
    bool complaining = false;
    pthread_setname_np(pthread_self(), "checkpoint");
    uint64_t last_ms = mono_ms();
    pthread_mutex_lock(&store->wake);
    while (!store->stopping) {
        if (atomic_load(&store->metadata_dirty)) {
            pthread_mutex_unlock(&store->wake);
            metadata_tend(store, false);
            pthread_mutex_lock(&store->wake);
            if (store->stopping)
                break;
        }
        if (!due(store, last_ms)) {
            wait_ms(&store->wake_checkpoint, &store->wake, LOOK_MS);
            continue;
        }
        struct flush_request *flushes = store->flushes;
        struct err err = {0};
        store->flushes = NULL;
        store->checkpoint_now = false;
        store->dirty_since_ms = 0;
        pthread_mutex_unlock(&store->wake);
        last_ms = mono_ms();
        enum rc rc = checkpoint_run(store, flushes != NULL, 0, &err);
        store_check_catalog(store, &err);
        if (rc != RC_OK && !complaining)
            store_event(store, 2, "checkpoint failed, will be repeated: %s", err.msg);
        else if (rc == RC_OK && complaining)
            store_event(store, 0, "checkpoints work again");
        complaining = rc != RC_OK;
        answer_flushes(store, flushes, rc, &err);
        compact_poke(store);
        pthread_mutex_lock(&store->wake);
        if (rc != RC_OK && !store->stopping) {
            store->dirty_since_ms = mono_ms();
            /* Each write that finds the log full pokes: that must not make it try at full speed. */
            while (!store->stopping && mono_ms() - store->dirty_since_ms < RETRY_MS)
                wait_ms(&store->wake_checkpoint, &store->wake, RETRY_MS);
        }
    }
    pthread_mutex_unlock(&store->wake);
    return NULL;
}
