/* SPDX-License-Identifier: Apache-2.0 */
/* Deciding writes. A step takes a bounded number of items: what they need of existing rows is
 * read outside locks (prepare); then, under index.write, each is checked to be still true, is
 * decided, gets its seq and goes to the open block. An item whose id was written meanwhile is
 * prepared again, alone, unless the newer row lies in the open block, where it can be read at once;
 * after a checkpoint all that are left are. */
#include "config/limits.h"
#include "storage/txn.h"

#include <stdlib.h>

/* Blocks begun with so many bytes keep how their documents were taken apart; with so many bytes to
 * come one is begun in its full size. */
#define FITS_FROM (64 * KIB)
/* Items between asking for the memory that an id's look-up begins with and looking there. */
#define PREFETCH_AHEAD 8

/* ---- refusing one item */

static void refuse(struct write_item *item, const struct err *err)
{
    item->result = WRITE_REFUSED;
    item->err = malloc(sizeof *item->err);
    if (item->err != NULL)
        *item->err = *err;
}

/* ---- preparing */

static void plan_old(struct plan *plan, const struct write_item *item, const struct row *row)
{
    plan->old_seq = row->seq;
    plan->old_version = row->version;
    plan->old_term = row->term;
    plan->old_live = row->kind != ROW_TOMBSTONE;
    plan->elsewhere = plan->old_live && !slice_eq(row->routing, write_extra(item)->routing);
}

/* Make the new document of an update from the current one. */
static void plan_update(struct txn *txn, struct write_item *item, struct plan *plan,
                        const struct row *row)
{
    struct err err = {0};
    struct slice current =
        row != NULL && plan->old_live && !plan->elsewhere ? row->doc : SLICE_NONE;
    plan->merged.len = 0;
    enum rc rc = item->extra->update(item, current, &plan->merged, &plan->action, &err);
    if (rc == RC_OK && plan->merged.failed)
        rc = err_set(&err, RC_NOMEM, 0, "no memory for the updated document");
    /* The log's space was reserved for the bytes of the request; a merged document is longer. */
    if (rc == RC_OK && plan->action == UPDATE_STORE && plan->merged.len > item->source.len) {
        uint64_t more = plan->merged.len - item->source.len;
        rc = wal_reserve_more(txn->store->wal, txn->reserved, more);
        if (rc == RC_OK)
            txn->reserved += more;
        else
            err_set(&err, rc, 0, "no room in the write-ahead log for the updated document");
    }
    if (rc == RC_OK && plan->action == UPDATE_NOOP && item->extra->want_source &&
        current.len != 0) {
        plan->merged.len = 0;
        buf_put_slice(&plan->merged, current);
    }
    if (rc != RC_OK)
        refuse(item, &err);
}

static void prepare_item(struct txn *txn, struct index *ix, struct row_reader *reader,
                         const struct candidate *c)
{
    struct write_item *item = &txn->write->items[c->item];
    struct plan *plan = &txn->plan[c->item];
    struct row row;
    struct err err = {0};
    enum rc rc = RC_NOT_FOUND;
    if (c->newest)
        rc = index_find_at(reader, ix, item->id, c->seq, &row, &err);
    if (rc == RC_NOT_FOUND)
        rc = index_find(reader, ix, item->id, plan->hash, &row, &err);
    if (atomic_load(&ix->deleted))
        return; /* that will be said of the item when it is decided */
    if (rc == RC_OK)
        plan_old(plan, item, &row);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        refuse(item, &err);
    else if (item->op == WRITE_UPDATE)
        plan_update(txn, item, plan, rc == RC_OK ? &row : NULL);
}

static int by_seq(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->seq != y->seq ? (x->seq < y->seq ? -1 : 1) : (x->item < y->item ? -1 : 1);
}

/* What the runs of the id index have of a touch's ids, in order of the hashes; its neighbours there
 * tell an item that it may have a twin. */
static enum rc look_deep(struct txn *txn, struct touch *touch, struct idrun_entry *list, size_t n)
{
    uint64_t *hash = malloc((n + 1) * 2 * sizeof *hash);
    if (hash == NULL)
        return RC_NOMEM;
    idrun_sort(list, n);
    for (size_t i = 0; i < n; i++) {
        hash[i] = list[i].hash;
        if (i != 0 && idrun_same_hash(hash[i], hash[i - 1]))
            txn->plan[list[i].seq].twin = txn->plan[list[i - 1].seq].twin = true;
    }
    enum rc rc = index_candidates_deep(touch->index, hash, n, hash + n, &touch->epoch, &txn->err);
    for (size_t i = 0; i < n; i++)
        txn->plan[list[i].seq].deep_seq = hash[n + i];
    free(hash);
    return rc;
}

enum rc touch_look(struct txn *txn, struct touch *touch)
{
    size_t n = 0, all = touch->to - touch->from;
    if (!txn->keyed)
        return RC_OK;
    struct idrun_entry *list = malloc((all + 1) * sizeof *list); /* .seq: the item */
    size_t most = all < LIMIT_PREPARE_ITEMS ? all : LIMIT_PREPARE_ITEMS;
    touch->candidate = malloc(most * sizeof *touch->candidate);
    enum rc rc = list == NULL || touch->candidate == NULL ? RC_NOMEM : RC_OK;
    for (size_t i = touch->from; rc == RC_OK && i < touch->to; i++) {
        uint32_t at = txn->order[i];
        struct plan *plan = &txn->plan[at];
        plan->keyed = txn->write->items[at].id.len != 0;
        plan->deep_seq = SEQ_NONE;
        if (plan->keyed) {
            plan->hash = index_hash(touch->index, txn->write->items[at].id);
            list[n++] = (struct idrun_entry){.hash = plan->hash, .seq = at};
        }
    }
    if (rc == RC_OK && n != 0)
        rc = look_deep(txn, touch, list, n);
    free(list);
    return rc;
}

/* The highest seq that memory and the runs have of an item's id goes to *c. False: there is none,
 * the item is new. */
static bool find_candidate(const struct txn *txn, const struct touch *touch, uint32_t at,
                           bool moved, struct candidate *c)
{
    const struct write_item *item = &txn->write->items[at];
    const struct plan *plan = &txn->plan[at];
    uint64_t seqs[CANDIDATES_MAX], nonce, seq = plan->deep_seq;
    size_t n = 0;
    bool fits = idmap_find(&touch->index->ids, plan->hash, seqs, &n, CANDIDATES_MAX);
    for (size_t i = 0; i < n; i++)
        if (seq == SEQ_NONE || seqs[i] > seq)
            seq = seqs[i];
    *c = (struct candidate){seq, at, seq != SEQ_NONE && fits && !moved};
    return seq != SEQ_NONE || made_id_parse(item->id, &nonce, &c->seq) ||
           item->op == WRITE_UPDATE || !fits || moved;
}

/* Which rows have to be read for order[from .. to)? */
static size_t find_candidates(const struct txn *txn, struct touch *touch, size_t from, size_t to)
{
    struct index *ix = touch->index;
    size_t found = 0;
    for (size_t i = from, end; i < to;) {
        end = to - i < LIMIT_DECIDE_ITEMS ? to : i + LIMIT_DECIDE_ITEMS;
        pthread_mutex_lock(&ix->table);
        /* Ids that have moved since may be past both look-ups: then all are looked up again. */
        bool moved = ix->ids_epoch != touch->epoch;
        for (; i < end; i++) {
            uint32_t at = txn->order[i];
            if (end - i > PREFETCH_AHEAD)
                idmap_prefetch(&ix->ids, txn->plan[txn->order[i + PREFETCH_AHEAD]].hash);
            if (txn->plan[at].keyed && txn->write->items[at].result == WRITE_PENDING)
                found += find_candidate(txn, touch, at, moved, &touch->candidate[found]);
        }
        pthread_mutex_unlock(&ix->table);
    }
    return found;
}

/* index.next_seq: rows below it are in the id index. */
static uint64_t next_seq(struct index *ix)
{
    pthread_mutex_lock(&ix->write);
    uint64_t seq = ix->next_seq;
    pthread_mutex_unlock(&ix->write);
    return seq;
}

/* Plan order[from .. to): rows are read in order of seq, so that each block is opened once. Returns
 * the next_seq that the plans know of. */
static uint64_t prepare(struct txn *txn, struct touch *touch, size_t from, size_t to)
{
    uint64_t seen = next_seq(touch->index);
    bool documents = false;
    for (size_t i = from; i < to; i++) {
        struct plan *plan = &txn->plan[txn->order[i]];
        plan->seen_seq = seen;
        plan->old_seq = SEQ_NONE;
        plan->old_version = 0;
        plan->old_live = plan->elsewhere = false;
        documents = documents || txn->write->items[txn->order[i]].op == WRITE_UPDATE;
    }
    size_t n = find_candidates(txn, touch, from, to);
    qsort(touch->candidate, n, sizeof *touch->candidate, by_seq);
    struct row_reader reader;
    row_reader_init(&reader, txn->store, documents ? BLOCK_ALL : BLOCK_META, false);
    for (size_t i = 0; i < n; i++)
        prepare_item(txn, touch->index, &reader, &touch->candidate[i]);
    row_reader_done(&reader);
    return seen;
}

/* ---- deciding; the caller holds index.write */

/* Is the plan still true? RC_AGAIN: prepare again. A newer row in the open block is taken over. */
static enum rc recheck(struct index *ix, const struct write_item *item, struct plan *plan)
{
    uint64_t seqs[CANDIDATES_MAX];
    size_t n = 0;
    if (ix->next_seq == plan->seen_seq)
        return RC_OK;
    pthread_mutex_lock(&ix->table);
    bool fits = idmap_find(&ix->ids, plan->hash, seqs, &n, CANDIDATES_MAX);
    bool here = ix->ids_carried <= plan->seen_seq;
    pthread_mutex_unlock(&ix->table);
    if (!fits || !here)
        return RC_AGAIN;
    for (size_t i = 0; i < n; i++) {
        size_t at;
        struct row row;
        if (seqs[i] < plan->seen_seq)
            continue;
        if (item->op == WRITE_UPDATE || ix->open == NULL ||
            rows_find(ix->open, seqs[i], &at) != RC_OK)
            return RC_AGAIN;
        rows_get(ix->open, at, &row);
        /* The table's older generation may have an older one of the id. */
        if (slice_eq(row.id, item->id) && (plan->old_seq == SEQ_NONE || row.seq > plan->old_seq))
            plan_old(plan, item, &row);
    }
    return RC_OK;
}

static void conflict(struct write_item *item, const struct plan *plan, enum write_result result)
{
    item->result = result;
    item->seq = plan->old_live ? plan->old_seq : SEQ_NONE;
    item->version_out = plan->old_live ? plan->old_version : 0;
    item->term = plan->old_term;
}

/* Conditions of the write. True: it goes on, *version_out is the new row's. */
static bool conditions_hold(struct write_item *item, const struct plan *plan, uint64_t *version_out)
{
    const struct write_extra *extra = write_extra(item);
    bool there = plan->old_seq != SEQ_NONE;
    *version_out = there ? plan->old_version + 1 : 1;
    if (extra->if_seq_no != SEQ_NONE && (!plan->old_live || plan->old_seq != extra->if_seq_no ||
                                         plan->old_term != extra->if_primary_term)) {
        conflict(item, plan, WRITE_CONFLICT);
        return false;
    }
    if (extra->versioning != VERSION_INTERNAL) {
        /* A tombstone's version counts, as in Elasticsearch within index.gc_deletes. */
        bool gte = extra->versioning == VERSION_EXTERNAL_GTE;
        if (there &&
            (gte ? plan->old_version > extra->version : plan->old_version >= extra->version)) {
            conflict(item, plan, WRITE_CONFLICT);
            item->version_out = plan->old_version;
            return false;
        }
        *version_out = extra->version;
    }
    if (item->op == WRITE_CREATE && plan->old_live) {
        conflict(item, plan, WRITE_EXISTS);
        return false;
    }
    return true;
}

static void nothing_to_do(struct write_item *item, struct plan *plan, enum write_result result)
{
    item->result = result;
    item->seq = plan->old_seq;
    item->version_out = plan->old_version == 0 ? 1 : plan->old_version;
    item->term = plan->old_term;
    if (result == WRITE_NOOP && item->extra->want_source && plan->merged.len != 0) {
        item->extra->source_out = buf_slice(&plan->merged);
        plan->merged = (struct buf){0};
    }
}

/* The row that an item writes; false when it writes none (its result is set). */
static bool make_row(struct write_item *item, struct plan *plan, struct row *row)
{
    bool tombstone = item->op == WRITE_DELETE;
    /* As in Elasticsearch, where another routing is another shard: it is not there. */
    if (plan->elsewhere && item->op == WRITE_DELETE) {
        nothing_to_do(item, plan, WRITE_NOT_FOUND);
        return false;
    }
    if (!conditions_hold(item, plan, &row->version))
        return false;
    if (item->op == WRITE_UPDATE) {
        if (plan->action == UPDATE_MISSING)
            nothing_to_do(item, plan, WRITE_NOT_FOUND);
        if (plan->action == UPDATE_NOOP)
            nothing_to_do(item, plan, WRITE_NOOP);
        if (plan->action == UPDATE_MISSING || plan->action == UPDATE_NOOP)
            return false;
        tombstone = plan->action == UPDATE_DELETE;
    }
    /* A delete of nothing is only worth a row when it carries a version to remember. */
    if (tombstone && !plan->old_live && write_extra(item)->versioning == VERSION_INTERNAL) {
        nothing_to_do(item, plan, WRITE_NOT_FOUND);
        return false;
    }
    row->kind = tombstone ? ROW_TOMBSTONE : plan->keyed ? ROW_CLIENT : ROW_MADE;
    row->id = plan->keyed ? item->id : SLICE_NONE;
    row->routing = write_extra(item)->routing;
    row->doc = tombstone                  ? SLICE_NONE
               : item->op == WRITE_UPDATE ? buf_slice(&plan->merged)
                                          : item->source;
    row->fit = tombstone || item->op == WRITE_UPDATE ? NULL : &item->fit;
    item->result = tombstone        ? (plan->old_live ? WRITE_DELETED : WRITE_NOT_FOUND)
                   : plan->old_live ? WRITE_UPDATED
                                    : WRITE_CREATED;
    return true;
}

static bool push_u32(uint32_t **list, size_t *count, size_t *cap, uint32_t v)
{
    if (*count == *cap) {
        size_t more = *cap == 0 ? 64 : *cap * 2;
        uint32_t *p = realloc(*list, more * sizeof *p);
        if (p == NULL)
            return false;
        *list = p;
        *cap = more;
    }
    (*list)[(*count)++] = v;
    return true;
}

struct background_pack {
    struct task task;
    struct index *index;
    struct pending *pending;
};

static void background_pack_run(struct task *task)
{
    struct background_pack *b = (struct background_pack *)task;
    struct err err = {0};
    /* A failure is no loss: the rows are in the log, and the checkpoint packs again. */
    (void)!pending_pack(b->index, b->pending, &err);
    struct store *store = b->index->store;
    pending_release(b->pending);
    index_release(b->index);
    free(b);
    atomic_fetch_sub(&store->packs, 1);
}

/* A shared block is nobody's to wait for: it is packed in the background. */
static void pack_later(struct index *ix, struct pending *p)
{
    struct background_pack *b = malloc(sizeof *b);
    if (b == NULL) { /* the checkpoint will pack it */
        pending_release(p);
        return;
    }
    b->task.run = background_pack_run;
    b->index = index_retain(ix);
    b->pending = p;
    atomic_fetch_add(&ix->store->packs, 1);
    work_submit(ix->store->o.work, WORK_BACKGROUND, &b->task);
}

/* Seal the open block. If all its rows are this write's, they go to the log as that block. */
static enum rc seal(struct txn *txn, struct touch *touch)
{
    struct index *ix = touch->index;
    bool own = ix->owner == txn->number && !ix->mixed;
    struct pending *p = NULL;
    if (own && touch->block_count == touch->block_cap) {
        size_t cap = touch->block_cap == 0 ? 16 : touch->block_cap * 2;
        struct pending **list = realloc(touch->block, cap * sizeof(struct pending *));
        if (list == NULL)
            return RC_NOMEM;
        touch->block = list;
        touch->block_cap = cap;
    }
    TRY(index_seal_locked(ix, &p));
    if (own) {
        touch->block[touch->block_count++] = p;
        touch->loose_count = touch->loose_fixed;
    } else {
        touch->loose_fixed = touch->loose_count;
        pack_later(ix, p);
    }
    touch->open_first = SEQ_NONE;
    return RC_OK;
}

/* Has the open block no more room for a document? */
static bool is_full(const struct index *ix, size_t doc_len)
{
    return ix->open != NULL && rows_count(ix->open) != 0 &&
           (rows_raw_bytes(ix->open) + doc_len > index_block_target(ix) ||
            rows_count(ix->open) >= LIMIT_BLOCK_ROWS);
}

/* How many documents of that length a block of so many bytes takes. */
static size_t rows_of(size_t bytes, size_t doc_len)
{
    return bytes / doc_len < LIMIT_BLOCK_ROWS ? bytes / doc_len : LIMIT_BLOCK_ROWS;
}

/* Make the open block one that takes this row: seal a full one, begin or enlarge. */
static enum rc make_room(struct txn *txn, struct touch *touch, const struct row *row)
{
    struct index *ix = touch->index;
    size_t target = index_block_target(ix);
    if (is_full(ix, row->doc.len))
        TRY(seal(txn, touch));
    if (ix->open != NULL)
        return RC_OK;
    /* Where much is to come the block will be filled, if not by this write. */
    size_t bytes = touch->ahead < FITS_FROM && touch->ahead < target ? touch->ahead : target;
    size_t values = 0;
    if (bytes < row->doc.len)
        bytes = row->doc.len;
    /* Those to come will be like it, more or less. A small open block keeps no fits: they hold a
     * generation of shapes, which may be larger, until it is sealed. */
    if (bytes >= FITS_FROM && row->fit != NULL && row->fit->shape != NULL)
        values = (rows_of(bytes, row->doc.len) + 4) * (row->fit->shape->slots + 4);
    /* A block that this step will fill need not copy what the request holds (O3). With ids a step
     * is shorter than a block. */
    struct rows *rows = !txn->keyed && touch->ahead >= target
                            ? rows_create_borrowing(bytes / 256 + 4)
                            : rows_create(bytes, bytes / 256 + 4, values);
    if (rows == NULL)
        return RC_NOMEM;
    pthread_mutex_lock(&ix->table);
    ix->open = rows;
    pthread_mutex_unlock(&ix->table);
    ix->open_at = wal_head(ix->store->wal);
    ix->owner = txn->number;
    ix->mixed = false;
    return RC_OK;
}

/* The open block goes on in a copy, or there is none any more. */
static void move_open(struct index *ix, struct rows *copy)
{
    struct rows *old = ix->open;
    pthread_mutex_lock(&ix->table);
    ix->open = copy;
    pthread_mutex_unlock(&ix->table);
    rows_release(old);
}

/* A step ends: its request may be over before the open block is packed. */
static enum rc own_open(struct index *ix)
{
    struct rows *copy = NULL;
    if (ix->open == NULL || !rows_borrow(ix->open))
        return RC_OK;
    if (rows_count(ix->open) != 0 && (copy = rows_own(ix->open, index_block_target(ix))) == NULL)
        return RC_NOMEM;
    move_open(ix, copy);
    return RC_OK;
}

static enum rc append(struct index *ix, const struct row *row)
{
    while (!rows_append(ix->open, row)) {
        struct rows *bigger = rows_grow(ix->open, row->doc.len);
        if (bigger == NULL)
            return RC_NOMEM;
        move_open(ix, bigger);
    }
    return RC_OK;
}

/* Give the row its seq and write it. */
static enum rc write_row(struct txn *txn, struct touch *touch, uint32_t at, struct row *row)
{
    struct index *ix = touch->index;
    struct write_item *item = &txn->write->items[at];
    struct plan *plan = plan_at(txn, at);
    TRY(make_room(txn, touch, row));
    if (touch->open_first != SEQ_NONE &&
        (rows_count(ix->open) == 0 || rows_first_seq(ix->open) != touch->open_first))
        touch->loose_fixed = touch->loose_count; /* somebody else sealed the block of our rows */
    if (!push_u32(&touch->loose, &touch->loose_count, &touch->loose_cap, at))
        return RC_NOMEM;
    row->seq = ix->next_seq;
    row->nonce = index_nonce_locked(ix);
    row->term = index_term_locked(ix);
    TRY(append(ix, row));
    ix->next_seq++;
    ix->mixed = ix->mixed || ix->owner != txn->number;
    touch->open_first = rows_first_seq(ix->open);
    if (row->kind == ROW_MADE) { /* has no effect on ids or other rows */
        touch->made_rows++;
        touch->made_bytes += row->doc.len;
    } else {
        pthread_mutex_lock(&ix->table);
        index_apply_locked(ix, row, plan->hash, plan->old_seq, plan->old_live);
        pthread_mutex_unlock(&ix->table);
    }
    plan->wrote = true;
    plan->kind = (uint8_t)row->kind;
    item->seq = row->seq;
    item->version_out = row->version;
    item->term = row->term;
    item->nonce = row->nonce;
    return RC_OK;
}

/* A made-form id of this run that was not given out is a mistake, not an id. */
static bool foreign_made(struct index *ix, struct write_item *item)
{
    uint64_t nonce, seq;
    bool given_out = true;
    if (!made_id_parse(item->id, &nonce, &seq))
        return false;
    bool own = index_owns_made_locked(ix, nonce, seq, &given_out);
    if (!own || (given_out && seq < ix->next_seq))
        return false;
    struct err err = {0};
    err_set(&err, RC_INVALID, 0,
            "id [%.*s] has the form of an id made by this index but was not "
            "given out",
            SLICE_FMT(item->id));
    refuse(item, &err);
    return true;
}

static enum rc decide_item(struct txn *txn, struct touch *touch, uint32_t at)
{
    struct write_item *item = &txn->write->items[at];
    struct plan *plan = plan_at(txn, at);
    struct row row; /* all of it is set before it is written */
    if (item->result != WRITE_PENDING)
        return RC_OK;
    if (atomic_load_explicit(&touch->index->deleted, memory_order_relaxed)) {
        struct err err = {0};
        err_set(&err, RC_NOT_FOUND, 0, "no such index [%s]", touch->index->name);
        refuse(item, &err);
        return RC_OK;
    }
    if (plan->keyed) {
        if (plan->twin || touch->seen_seq == SEQ_NONE)
            TRY(recheck(touch->index, item, plan));
        if (plan->old_seq == SEQ_NONE && item->op != WRITE_DELETE &&
            foreign_made(touch->index, item))
            return RC_OK;
    }
    if (!make_row(item, plan, &row))
        return RC_OK;
    return write_row(txn, touch, at, &row);
}

/* The item has its result. */
static void tally(struct touch *touch, const struct write_item *item)
{
    touch->indexed += item->result == WRITE_CREATED || item->result == WRITE_UPDATED;
    touch->deletes += item->result == WRITE_DELETED;
    touch->failed += item->result == WRITE_REFUSED;
    touch->ahead -= item->source.len;
}

/* One step: as many of order[from .. to) as stay true. *next_out: where to go on.
 * Without ids a step ends with its block, so that writes at the same time take turns by blocks: one
 * that two share goes to the log as rows and is packed once more. */
static enum rc step(struct txn *txn, struct touch *touch, size_t from, size_t to, size_t *next_out)
{
    struct index *ix = touch->index;
    enum rc rc = RC_OK;
    size_t i = from, ids = txn->keyed ? to - from : 0;
    pthread_mutex_lock(&ix->write);
    if (touch->seen_seq != ix->next_seq)
        touch->seen_seq = SEQ_NONE;
    pthread_mutex_lock(&ix->table);
    if (!touch->ticketed)
        touch->ticketed = index_ticket_locked(ix, &touch->ticket);
    bool ready = touch->ticketed && index_reserve_locked(ix, ids);
    pthread_mutex_unlock(&ix->table);
    rc = ready ? index_begin_run_locked(ix) : RC_NOMEM;
    for (; i < to && rc == RC_OK; i++) {
        rc = decide_item(txn, touch, txn->order[i]);
        if (rc == RC_AGAIN)
            break;
        tally(touch, &txn->write->items[txn->order[i]]);
        if (rc == RC_OK && !txn->keyed && i + 1 < touch->to &&
            is_full(ix, txn->write->items[txn->order[i + 1]].source.len)) {
            rc = seal(txn, touch);
            i++;
            break;
        }
    }
    if (own_open(ix) != RC_OK)
        rc = RC_NOMEM;
    ix->written_ms = mono_ms();
    if (touch->seen_seq != SEQ_NONE)
        touch->seen_seq = ix->next_seq;
    pthread_mutex_lock(&ix->table);
    touch->wait.need = ix->ticket_next; /* everything issued so far must pass */
    ix->rows_total += touch->made_rows;
    ix->docs += touch->made_rows;
    ix->raw_bytes += touch->made_bytes;
    touch->made_rows = touch->made_bytes = 0;
    pthread_mutex_unlock(&ix->table);
    pthread_mutex_unlock(&ix->write);
    *next_out = i;
    return rc == RC_AGAIN ? RC_OK : rc;
}

/* Where a step that begins at order[from] ends at the latest; last: what is prepared ends there. */
static size_t step_end(const struct txn *txn, size_t from, size_t last)
{
    size_t max = txn->keyed ? LIMIT_DECIDE_ITEMS : LIMIT_DECIDE_MADE, bytes = 0;
    size_t to = from, end = last - from < max ? last : from + max;
    if (!txn->keyed) /* it ends with its block */
        return end;
    while (to < end && bytes < LIMIT_DECIDE_BYTES)
        bytes += txn->write->items[txn->order[to++]].source.len;
    return to;
}

/* Has a checkpoint carried over what was written since the plan was made? Then recheck no longer
 * sees it, for this item and for all behind it. */
static bool is_carried(const struct touch *touch, const struct plan *plan)
{
    pthread_mutex_lock(&touch->index->table);
    bool carried = touch->index->ids_carried > plan->seen_seq;
    pthread_mutex_unlock(&touch->index->table);
    return carried;
}

enum rc touch_decide(struct txn *txn, struct touch *touch)
{
    touch->open_first = SEQ_NONE;
    size_t prepared = txn->keyed ? touch->from : touch->to;
    for (size_t from = touch->from, to; from < touch->to;) {
        if (from == prepared) {
            prepared = touch->to;
            if (touch->to - from > LIMIT_PREPARE_ITEMS)
                prepared = from + LIMIT_PREPARE_ITEMS;
            touch->seen_seq = prepare(txn, touch, from, prepared);
        }
        to = step_end(txn, from, prepared);
        TRY(step(txn, touch, from, to, &from));
        if (!txn->keyed || from == to)
            continue;
        /* It stopped at an item whose plan is no longer true. */
        if (is_carried(touch, &txn->plan[txn->order[from]]))
            touch->seen_seq = prepare(txn, touch, from, prepared);
        else
            (void)prepare(txn, touch, from, from + 1);
    }
    return RC_OK;
}
