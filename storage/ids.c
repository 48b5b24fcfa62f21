/* SPDX-License-Identifier: Apache-2.0 */
/* The id index of an index: memory tables (idmap.h) over sorted runs in the catalog (idrun.h).
 * A look-up gathers candidates from all levels; the highest seq whose row has the id is the newest.
 *
 * Runs of one size class (a factor of FAN_OUT) are merged when there are FAN_OUT of them, range of
 * hashes by range: the new run is in the list from the start and takes over piece by piece, so
 * merging needs little more than one transaction's space. An entry may be in both for a while,
 * never in neither.
 *
 *   L1  ids_epoch rises whenever an entry leaves a level. A look-up that found nothing and sees
 *       another epoch than at its beginning is repeated.
 *   L2  merging leaves out entries of dead documents: a newer entry of that id exists. It leaves
 *       out a tombstone's once its row has been rewritten away (P2: older than index.gc_deletes and
 *       without an older row of any id on disk) and no run that is not merged has an older entry of
 *       the hash, which a block that a reader has pinned could bring back to life. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

#define FAN_OUT 8
/* Catalog keys that a piece counts for, by its size, in a transaction; and opening a block, by its
 * time. */
#define PIECE_KEYS 64
#define BLOCK_KEYS 16
/* A forced merge makes a single run anew when it has so many entries beyond the live documents. */
#define FORCE_EXCESS(docs) ((docs) / 8 + 64)

/* ---- lists of runs */

void idrun_list_release(struct idrun_list *list)
{
    if (list != NULL && atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) == 1)
        free(list);
}

struct idrun_list *idrun_list_make(const struct idrun_list *from, const uint32_t *without,
                                   size_t without_count, const struct idrun *add)
{
    size_t old = from == NULL ? 0 : from->count;
    struct idrun_list *list = malloc(sizeof *list + (old + 1) * sizeof(struct idrun));
    if (list == NULL)
        return NULL;
    atomic_init(&list->refs, 1);
    list->count = 0;
    for (size_t i = 0; i < old; i++) {
        bool gone = false;
        for (size_t k = 0; k < without_count; k++)
            gone = gone || without[k] == from->run[i].number;
        if (!gone)
            list->run[list->count++] = from->run[i];
    }
    if (add != NULL)
        list->run[list->count++] = *add;
    return list;
}

/* ---- look-ups */

/* What a look-up looks at: what memory has of a hash (if seqs is given), the list of runs, and a
 * view of the catalog that has all pieces of that list. The view is begun while the list stays the
 * same: older than the list it could lack pieces that have moved to a run of it, younger it could
 * lack those that have moved away. */
struct levels {
    struct idrun_list *runs; /* NULL: none */
    struct catalog_view *view;
    uint64_t epoch;
    bool fits;
};

static uint64_t epoch_of(struct index *index)
{
    pthread_mutex_lock(&index->table);
    uint64_t epoch = index->ids_epoch;
    pthread_mutex_unlock(&index->table);
    return epoch;
}

static void levels_done(struct levels *l)
{
    if (l->view != NULL)
        catalog_view_end(l->view);
    idrun_list_release(l->runs);
    *l = (struct levels){0};
}

static enum rc levels_take(struct index *index, uint64_t hash, uint64_t *seqs, size_t *count_io,
                           struct levels *l, struct err *err)
{
    for (;;) {
        uint64_t before = epoch_of(index);
        size_t n = 0;
        *l = (struct levels){.fits = true};
        TRY(catalog_view_begin(index->store->catalog, &l->view, err));
        pthread_mutex_lock(&index->table);
        l->epoch = index->ids_epoch;
        if (seqs != NULL)
            l->fits = idmap_find(&index->ids, hash, seqs, &n, CANDIDATES_MAX);
        l->runs = index->idruns;
        if (l->runs != NULL)
            atomic_fetch_add_explicit(&l->runs->refs, 1, memory_order_relaxed);
        pthread_mutex_unlock(&index->table);
        if (l->epoch == before) {
            if (seqs != NULL)
                *count_io = n;
            return RC_OK;
        }
        levels_done(l);
    }
}

static int seq_desc(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

static enum rc too_many(const struct index *index, struct err *err)
{
    return err_set(err, RC_TOO_LARGE, 0, "index %s: more than %d ids share one hash", index->name,
                   CANDIDATES_MAX);
}

static enum rc find_in_run(struct catalog_view *view, const struct index *index,
                           const struct idrun *run, uint64_t hash, uint64_t *seqs, size_t *count_io,
                           struct err *err)
{
    struct slice piece;
    enum rc rc = catalog_view_piece(view, index->number, run->number,
                                    idrun_piece_of(hash, run->bits), &piece, err);
    if (rc == RC_OK)
        rc = idrun_find(piece, run->bits, hash, seqs, count_io, CANDIDATES_MAX);
    if (rc == RC_TOO_LARGE)
        return too_many(index, err);
    if (rc == RC_CORRUPT)
        return err_set(err, rc, 0, "catalog: id run %u of index %s is damaged; run stowctl rebuild",
                       run->number, index->name);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc index_candidates(struct index *index, uint64_t hash, uint64_t *seqs, size_t *count_out,
                         uint64_t *epoch_out, struct err *err)
{
    struct levels l;
    size_t n = 0, kept = 0;
    TRY(levels_take(index, hash, seqs, &n, &l, err));
    *epoch_out = l.epoch;
    enum rc rc = l.fits ? RC_OK : too_many(index, err);
    for (size_t i = 0; rc == RC_OK && l.runs != NULL && i < l.runs->count; i++)
        rc = find_in_run(l.view, index, &l.runs->run[i], hash, seqs, &n, err);
    levels_done(&l);
    TRY(rc);
    qsort(seqs, n, sizeof *seqs, seq_desc);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || seqs[i] != seqs[i - 1])
            seqs[kept++] = seqs[i];
    *count_out = kept;
    return RC_OK;
}

enum rc index_candidates_deep(struct index *index, const uint64_t *hashes, size_t count,
                              uint64_t *seqs_out, uint64_t *epoch_out, struct err *err)
{
    struct levels l;
    enum rc rc = RC_OK;
    TRY(levels_take(index, 0, NULL, NULL, &l, err));
    *epoch_out = l.epoch;
    for (size_t i = 0; i < count; i++)
        seqs_out[i] = SEQ_NONE;
    /* Run by run in order of the hashes: each piece is looked up once. */
    for (size_t r = 0; rc == RC_OK && l.runs != NULL && r < l.runs->count; r++) {
        const struct idrun *run = &l.runs->run[r];
        uint32_t at = UINT32_MAX;
        struct slice piece = SLICE_NONE;
        for (size_t i = 0; i < count && rc == RC_OK; i++) {
            uint64_t seqs[CANDIDATES_MAX];
            size_t n = 0;
            if (idrun_piece_of(hashes[i], run->bits) != at) {
                at = idrun_piece_of(hashes[i], run->bits);
                rc = catalog_view_piece(l.view, index->number, run->number, at, &piece, err);
                if (rc == RC_NOT_FOUND) {
                    piece = SLICE_NONE;
                    rc = RC_OK;
                }
            }
            if (rc != RC_OK || piece.len == 0)
                continue;
            rc = idrun_find(piece, run->bits, hashes[i], seqs, &n, CANDIDATES_MAX);
            for (size_t k = 0; k < n; k++)
                if (seqs_out[i] == SEQ_NONE || seqs[k] > seqs_out[i])
                    seqs_out[i] = seqs[k];
            if (rc == RC_TOO_LARGE) /* the highest come first, and no more are wanted here */
                rc = RC_OK;
            if (rc != RC_OK)
                err_set(err, rc, 0,
                        "catalog: id run %u of index %s is damaged; run stowctl rebuild",
                        run->number, index->name);
        }
    }
    levels_done(&l);
    return rc;
}

/* ---- writing runs */

enum rc idrun_write(const struct idrun_entry *entries, size_t count, uint8_t bits,
                    enum rc (*put)(void *arg, uint32_t piece, struct slice value, struct err *err),
                    void *arg, struct err *err)
{
    struct buf b = {0};
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && rc == RC_OK;) {
        uint32_t piece = idrun_piece_of(entries[i].hash, bits);
        size_t to = i;
        while (to < count && idrun_piece_of(entries[to].hash, bits) == piece)
            to++;
        b.len = 0;
        if (!idrun_encode(entries + i, to - i, bits, &b))
            rc = err_set(err, RC_NOMEM, 0, "no memory for a piece of an id run");
        else
            rc = put(arg, piece, buf_slice(&b), err);
        i = to;
    }
    buf_done(&b);
    return rc;
}

/* ---- merging */

struct merge {
    struct index *index;
    size_t keys;
    struct buf pieces; /* read and merged, to be written: number and length (u32 each), bytes */
    struct idrun in[64];
    size_t in_count;
    struct idrun other[64]; /* runs that are not merged, which may have older entries … */
    size_t other_count;
    bool others_known; /* … and they are all of them */
    struct row_reader reader;
    struct idrun out;
    uint8_t bits_min; /* of the inputs: a step takes one piece of the coarsest */
    struct idrun_entry *entry;
    size_t count, cap;
    uint64_t written;
    uint64_t piece_bytes;
    bool any_dead;
};

static unsigned size_class(uint64_t count)
{
    unsigned c = 0;
    while (count >= FAN_OUT) {
        count /= FAN_OUT;
        c++;
    }
    return c;
}

/* Runs of this size class and below take part. False: none is due. The smallest class that is full;
 * force: everything, when that is more than one run or one with much that is gone. */
static bool class_due(const struct idrun_list *list, bool force, uint64_t docs, unsigned *out)
{
    unsigned in_class[32] = {0};
    *out = 31;
    if (force)
        return list->count > 1 ||
               (list->count == 1 && list->run[0].count > docs + FORCE_EXCESS(docs));
    for (size_t i = 0; i < list->count; i++)
        in_class[size_class(list->run[i].count)]++;
    for (*out = 0; *out < 32; ++*out)
        if (in_class[*out] >= FAN_OUT)
            return true;
    return false;
}

static bool choose(struct merge *m, const struct idrun_list *list, bool force, uint64_t docs)
{
    unsigned last;
    if (!class_due(list, force, docs, &last))
        return false;
    m->bits_min = 32;
    m->others_known = true;
    for (size_t i = 0; i < list->count; i++) {
        if (size_class(list->run[i].count) > last || m->in_count == ARRAY_LEN(m->in)) {
            m->others_known = m->others_known && m->other_count < ARRAY_LEN(m->other);
            if (m->others_known)
                m->other[m->other_count++] = list->run[i];
            continue;
        }
        m->in[m->in_count++] = list->run[i];
        m->out.count += list->run[i].count;
        if (list->run[i].bits < m->bits_min)
            m->bits_min = list->run[i].bits;
    }
    m->out.bits = idrun_bits(m->out.count);
    if (m->out.bits < m->bits_min)
        m->out.bits = m->bits_min;
    return true;
}

static enum rc load_piece(struct merge *m, struct catalog_view *view, const struct idrun *run,
                          uint32_t piece, struct err *err)
{
    struct slice value;
    enum rc rc = catalog_view_piece(view, m->index->number, run->number, piece, &value, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    TRY(rc);
    size_t n = idrun_piece_count(value);
    if (m->count + n > m->cap) {
        size_t cap = (m->count + n) * 2;
        struct idrun_entry *list = realloc(m->entry, cap * sizeof *list);
        if (list == NULL)
            return err_set(err, RC_NOMEM, 0, "no memory to merge id runs");
        m->entry = list;
        m->cap = cap;
    }
    rc = idrun_decode(value, run->bits, piece, m->entry + m->count);
    if (rc != RC_OK)
        return err_set(err, rc, 0, "catalog: id run %u of index %s is damaged; run stowctl rebuild",
                       run->number, m->index->name);
    m->count += n;
    return RC_OK;
}

/* The entries of all inputs in one piece of the coarsest. */
static enum rc load_range(struct merge *m, uint32_t range, struct err *err)
{
    struct catalog_view *view = NULL;
    m->count = 0;
    TRY(catalog_view_begin(m->index->store->catalog, &view, err));
    enum rc rc = RC_OK;
    for (size_t i = 0; i < m->in_count && rc == RC_OK; i++) {
        uint32_t wide = 1u << (m->in[i].bits - m->bits_min);
        for (uint32_t k = 0; k < wide && rc == RC_OK; k++)
            rc = load_piece(m, view, &m->in[i], range * wide + k, err);
    }
    catalog_view_end(view);
    return rc;
}

/* Has a run that is not merged an entry of the hash that is older? */
static enum rc older_elsewhere(struct merge *m, const struct idrun_entry *e, bool *out,
                               struct err *err)
{
    struct catalog_view *view = NULL;
    enum rc rc = RC_OK;
    *out = !m->others_known;
    if (*out || m->other_count == 0)
        return RC_OK;
    TRY(catalog_view_begin(m->index->store->catalog, &view, err));
    for (size_t r = 0; r < m->other_count && rc == RC_OK && !*out; r++) {
        uint64_t seqs[CANDIDATES_MAX];
        size_t n = 0;
        rc = find_in_run(view, m->index, &m->other[r], e->hash, seqs, &n, err);
        for (size_t i = 0; i < n; i++)
            *out = *out || seqs[i] < e->seq;
    }
    catalog_view_end(view);
    return rc;
}

/* May the entry of a tombstone, dead as they all are, go? (L2) */
static enum rc tombstone_gone(struct merge *m, const struct idrun_entry *e, bool *out,
                              struct err *err)
{
    struct index *ix = m->index;
    struct place place;
    struct row row;
    struct err unread = {0};
    bool older = false;
    *out = false;
    if (e->seq >= ix->packed_seq) /* not in a block yet */
        return RC_OK;
    enum rc rc = catalog_find_block(ix->store->catalog, ix->number, e->seq, &place, err);
    if (rc == RC_OK && place.rows == place.last_seq - place.first_seq + 1)
        return RC_OK; /* it has all of its seqs */
    if (rc == RC_OK) {
        m->keys += BLOCK_KEYS;
        rc = row_reader_get(&m->reader, ix, e->seq, &row, &unread);
        if (rc != RC_NOT_FOUND) /* there, or in a block that does not read: keep it */
            return RC_OK;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    TRY(older_elsewhere(m, e, &older, err));
    *out = !older;
    return RC_OK;
}

/* May the entry be left out? What only memory calls dead may come back to life by a crash. */
static enum rc entry_gone(struct merge *m, const struct idrun_entry *e, bool *out, struct err *err)
{
    uint8_t bits[CATALOG_DEAD_BYTES];
    uint64_t bit = e->seq % CATALOG_DEAD_SEQS;
    *out = false;
    if (!m->any_dead)
        return RC_OK;
    TRY(catalog_get_dead(m->index->store->catalog, m->index->number, e->seq / CATALOG_DEAD_SEQS,
                         bits, err));
    *out = (bits[bit / 8] >> (bit % 8) & 1) != 0;
    return *out && e->tombstone ? tombstone_gone(m, e, out, err) : RC_OK;
}

static enum rc drop_gone(struct merge *m, struct err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct idrun_entry *e = &m->entry[i];
        bool gone = false;
        if (kept != 0 && e->seq == m->entry[kept - 1].seq && e->hash == m->entry[kept - 1].hash)
            continue;
        TRY(entry_gone(m, e, &gone, err));
        if (!gone)
            m->entry[kept++] = *e;
    }
    m->count = kept;
    return RC_OK;
}

static enum rc keep_piece(void *arg, uint32_t piece, struct slice value, struct err *err)
{
    struct merge *m = arg;
    uint8_t head[8];
    put_u32(head, piece);
    put_u32(head + 4, (uint32_t)value.len);
    buf_put(&m->pieces, head, sizeof head);
    buf_put_slice(&m->pieces, value);
    m->keys += PIECE_KEYS;
    m->piece_bytes += value.len;
    return m->pieces.failed ? err_set(err, RC_NOMEM, 0, "no memory to merge id runs") : RC_OK;
}

/* A range of the new run. It takes blocks from disk: not within a transaction, which would keep all
 * other writers of the catalog waiting. */
static enum rc read_range(struct merge *m, uint32_t range, struct err *err)
{
    TRY(load_range(m, range, err));
    idrun_sort(m->entry, m->count);
    TRY(drop_gone(m, err));
    m->written += m->count;
    for (size_t i = 0; i < m->in_count; i++)
        m->keys += (size_t)1 << (m->in[i].bits - m->bits_min);
    return idrun_write(m->entry, m->count, m->out.bits, keep_piece, m, err);
}

/* What was read of ranges [from, to) moves to the new run. */
static enum rc move_ranges(struct merge *m, struct catalog_txn *txn, uint32_t from, uint32_t to,
                           struct err *err)
{
    uint32_t index_no = m->index->number;
    for (size_t at = 0; at < m->pieces.len;) {
        const uint8_t *p = m->pieces.ptr + at;
        struct slice value = slice_of(p + 8, get_u32(p + 4));
        TRY(catalog_put_piece(txn, index_no, m->out.number, get_u32(p), value, err));
        at += 8 + value.len;
    }
    for (size_t i = 0; i < m->in_count; i++) {
        uint32_t wide = 1u << (m->in[i].bits - m->bits_min);
        for (uint32_t piece = from * wide; piece != to * wide; piece++)
            TRY(catalog_delete_piece(txn, index_no, m->in[i].number, piece, err));
    }
    return RC_OK;
}

/* Put a list in place of the current one. Caller holds store.layout. */
static void publish(struct index *index, struct idrun_list *list)
{
    pthread_mutex_lock(&index->table);
    struct idrun_list *old = index->idruns;
    index->idruns = list;
    index->ids_epoch++;
    pthread_mutex_unlock(&index->table);
    idrun_list_release(old);
}

/* The new run joins the list (before anything is moved to it), or takes the place of the inputs. */
static enum rc change_list(struct merge *m, bool finished, struct err *err)
{
    struct index *ix = m->index;
    struct catalog_txn *txn = NULL;
    uint32_t gone[ARRAY_LEN(m->in) + 1];
    size_t n = 0;
    if (finished) {
        for (; n < m->in_count; n++)
            gone[n] = m->in[n].number;
        gone[n++] = m->out.number; /* comes back with its true count */
        m->out.count = m->written;
    }
    bool keep = !finished || m->written != 0;
    struct idrun_list *list = idrun_list_make(ix->idruns, gone, n, keep ? &m->out : NULL);
    if (list == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory to merge id runs");
    enum rc rc = catalog_begin_removal(ix->store->catalog, &txn, err);
    if (rc == RC_OK) {
        rc = index_save_state(txn, ix, ix->packed_seq, list, err);
        if (rc == RC_OK)
            rc = catalog_commit(txn, err);
        else
            catalog_abort(txn);
    }
    if (rc == RC_OK)
        publish(ix, list);
    else
        idrun_list_release(list);
    return rc;
}

/* Is the list of runs ours to change? While a checkpoint's cut is half carried over, the catalog's
 * state names a run that memory's list does not have: saving that list would lose its ids (K2). */
static bool may_change(const struct index *ix)
{
    return !atomic_load(&ix->deleted) && !ix->cut;
}

/* A merge that failed before it moved anything takes its run back: else each attempt on a full
 * catalog would add one. */
static void take_back(struct merge *m)
{
    struct index *ix = m->index;
    struct err ignored = {0};
    m->in_count = 0;
    m->written = 0;
    pthread_mutex_lock(&ix->store->layout);
    if (may_change(ix))
        (void)!change_list(m, true, &ignored);
    pthread_mutex_unlock(&ix->store->layout);
}

/* Move as many ranges as a transaction takes. Layout, which the caller holds, keeps what was read
 * true until it is committed. */
static enum rc merge_step(struct merge *m, uint32_t *range, struct err *err)
{
    struct catalog_txn *txn = NULL;
    uint32_t to = *range;
    m->keys = 0;
    m->piece_bytes = 0;
    m->pieces.len = 0;
    for (; to < 1u << m->bits_min && m->keys < LIMIT_CATALOG_TXN_KEYS; to++)
        TRY(read_range(m, to, err));
    TRY(catalog_begin(m->index->store->catalog, &txn, err));
    enum rc rc = move_ranges(m, txn, *range, to, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    TRY(catalog_commit(txn, err));
    *range = to;
    atomic_fetch_add(&m->index->ids_merged_bytes, m->piece_bytes);
    pthread_mutex_lock(&m->index->table);
    m->index->ids_epoch++;
    pthread_mutex_unlock(&m->index->table);
    return RC_OK;
}

/* Has the index rows that are dead or gone, and how many are live? */
static uint64_t live_documents(struct index *index, bool *any_dead_out)
{
    pthread_mutex_lock(&index->write);
    uint64_t seqs = index->next_seq;
    pthread_mutex_lock(&index->table);
    uint64_t docs = index->docs;
    pthread_mutex_unlock(&index->table);
    pthread_mutex_unlock(&index->write);
    *any_dead_out = docs != seqs;
    return docs;
}

static enum rc merge_ranges(struct merge *m, bool *moved_out, struct err *err)
{
    struct index *ix = m->index;
    uint32_t range = 0;
    enum rc rc = RC_OK;
    row_reader_init(&m->reader, ix->store, BLOCK_META, false);
    while (rc == RC_OK && range < 1u << m->bits_min) {
        pthread_mutex_lock(&ix->store->layout);
        rc = may_change(ix) ? merge_step(m, &range, err) : RC_NOT_FOUND;
        pthread_mutex_unlock(&ix->store->layout);
        *moved_out = *moved_out || rc == RC_OK;
    }
    row_reader_done(&m->reader);
    return rc;
}

enum rc index_merge_ids(struct index *index, bool force, struct err *err)
{
    struct merge *m = calloc(1, sizeof *m);
    bool begun = false, moved = false;
    enum rc rc = RC_OK;
    if (m == NULL)
        return RC_NOMEM;
    m->index = index;
    uint64_t docs = live_documents(index, &m->any_dead);
    pthread_mutex_lock(&index->store->layout);
    if (index->idruns != NULL && may_change(index) && choose(m, index->idruns, force, docs)) {
        m->out.number = index->next_idrun++;
        rc = change_list(m, false, err);
        begun = rc == RC_OK;
    }
    pthread_mutex_unlock(&index->store->layout);
    if (begun)
        rc = merge_ranges(m, &moved, err);
    if (begun && !moved)
        take_back(m);
    if (begun && rc == RC_OK) {
        pthread_mutex_lock(&index->store->layout);
        rc = may_change(index) ? change_list(m, true, err) : RC_NOT_FOUND;
        pthread_mutex_unlock(&index->store->layout);
    }
    buf_done(&m->pieces);
    free(m->entry);
    free(m);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Pieces of runs that no list names: a crash came between them and the list. */
enum rc index_sweep_ids(struct index *index, struct err *err)
{
    uint32_t run = 0;
    for (uint32_t from = 0;; from = run + 1) {
        bool named = false;
        enum rc rc = catalog_next_run(index->store->catalog, index->number, from, &run, err);
        if (rc != RC_OK)
            return rc == RC_NOT_FOUND ? RC_OK : rc;
        for (size_t i = 0; index->idruns != NULL && i < index->idruns->count; i++)
            named = named || index->idruns->run[i].number == run;
        if (named)
            continue;
        struct catalog_txn *txn = NULL;
        TRY(catalog_begin_removal(index->store->catalog, &txn, err));
        rc = catalog_drop_run(txn, index->number, run, err);
        if (rc != RC_OK) {
            catalog_abort(txn);
            return rc;
        }
        TRY(catalog_commit(txn, err));
    }
}
