/* SPDX-License-Identifier: Apache-2.0 */
/* Writes from the API to the log and back: admission, the order of items, packing of the blocks
 * that are a write's own, its log records, and the answer once everything it has seen is durable
 * (S7). */
#include "config/limits.h"
#include "storage/txn.h"

#include <stdlib.h>

/* Rows bodies shorter than this are not worth compressing. */
#define COMPRESS_FROM 256
/* What a row, a record and a batch need beyond the bytes of id, routing and document. */
#define ROW_OVERHEAD   48
#define TOUCH_OVERHEAD 256

/* ---- rows in the log */

void wal_row_put(struct buf *out, const struct row *row)
{
    uint8_t head[1 + 2 * VARINT_BYTES_MAX];
    size_t n = 0;
    head[n++] = (uint8_t)row->kind;
    n += varint_put(head + n, row->seq);
    n += varint_put(head + n, row->version);
    buf_put(out, head, n);
    buf_put_varint(out, row->id.len);
    buf_put_slice(out, row->id);
    buf_put_varint(out, row->routing.len);
    buf_put_slice(out, row->routing);
    buf_put_varint(out, row->doc.len);
    buf_put_slice(out, row->doc);
}

bool wal_row_take(struct reader *in, struct row *out)
{
    struct slice kind = take_bytes(in, 1);
    out->kind = kind.len == 1 ? (enum row_kind)kind.ptr[0] : ROW_MADE;
    out->seq = take_varint(in);
    out->version = take_varint(in);
    out->id = take_bytes(in, take_varint(in));
    out->routing = take_bytes(in, take_varint(in));
    out->doc = take_bytes(in, take_varint(in));
    out->fit = NULL;
    return !in->bad && out->kind <= ROW_TOMBSTONE && out->version != 0 &&
           (out->kind == ROW_MADE) == (out->id.len == 0) && out->id.len <= LIMIT_ID_BYTES;
}

/* ---- ending */

static void txn_unref(struct txn *txn)
{
    if (atomic_fetch_sub(&txn->refs, 1) != 1)
        return;
    for (size_t i = 0; i < txn->touch_count; i++) {
        struct touch *t = &txn->touch[i];
        for (size_t k = 0; k < t->block_count; k++)
            pending_release(t->block[k]);
        free(t->block);
        free(t->loose);
        free(t->candidate);
        buf_done(&t->rows);
        index_release(t->index);
    }
    free(txn->touch);
    free(txn->order);
    free(txn->plan);
    free(txn->block);
    free(txn->record);
    free(txn);
}

static void count_results(const struct txn *txn)
{
    for (size_t t = 0; t < txn->touch_count; t++) {
        const struct touch *touch = &txn->touch[t];
        atomic_fetch_add_explicit(&touch->index->indexed, touch->indexed, memory_order_relaxed);
        atomic_fetch_add_explicit(&touch->index->deletes, touch->deletes, memory_order_relaxed);
        atomic_fetch_add_explicit(&touch->index->index_failed, touch->failed, memory_order_relaxed);
    }
}

/* On a worker: the write is durable, or refused, or the log has failed. */
static void finish_run(struct task *task)
{
    struct txn *txn = (struct txn *)task;
    struct write *write = txn->write;
    if (txn->reserved != 0)
        wal_unreserve(txn->store->wal, txn->reserved);
    for (size_t i = 0; txn->updates && i < write->count && txn->plan != NULL; i++) {
        struct write_item *item = &write->items[i];
        if (item->op == WRITE_UPDATE && txn->plan[i].wrote && item->extra->want_source) {
            item->extra->source_out = buf_slice(&txn->plan[i].merged);
            txn->plan[i].merged = (struct buf){0};
        }
        buf_done(&txn->plan[i].merged);
    }
    if (txn->rc == RC_OK) {
        count_results(txn);
        store_dirty(txn->store);
    }
    enum rc rc = txn->rc;
    struct err err = txn->err;
    txn_unref(txn);
    write->done(write, rc, &err);
}

static void finish(struct txn *txn)
{
    txn->task.run = finish_run;
    work_submit(txn->store->o.work, WORK_WRITE, &txn->task);
}

static void wait_passed(struct txn *txn)
{
    if (atomic_fetch_sub(&txn->waits, 1) == 1)
        finish(txn);
}

static void ticket_ready(struct ticket_wait *wait)
{
    wait_passed(((struct touch *)wait)->txn);
}

/* The records are in the log (or there are none): pass our tickets, then wait for those before. */
static void committed(struct txn *txn, enum rc rc)
{
    if (rc != RC_OK) {
        txn->rc = rc;
        err_set(&txn->err, rc, 0, "the write-ahead log failed");
        finish(txn); /* tickets stay: nobody who saw this write is answered any more */
        return;
    }
    atomic_store(&txn->waits, txn->touch_count + 1);
    for (size_t i = 0; i < txn->touch_count; i++)
        if (txn->touch[i].ticketed)
            index_ticket_pass(txn->touch[i].index, txn->touch[i].ticket);
    for (size_t i = 0; i < txn->touch_count; i++) {
        struct touch *t = &txn->touch[i];
        t->wait.ready = ticket_ready;
        if (!t->ticketed || !index_ticket_wait(t->index, &t->wait))
            wait_passed(txn);
    }
    wait_passed(txn);
}

static void commit_done(struct wal_commit *commit, enum rc rc)
{
    committed((struct txn *)((char *)commit - offsetof(struct txn, commit)), rc);
}

/* ---- log records */

/* The rows of this write that lie in blocks shared with others, in order of seq. */
static bool encode_loose(struct txn *txn, struct touch *t)
{
    struct buf raw = {0};
    for (size_t i = 0; i < t->loose_count; i++) {
        const struct write_item *item = &txn->write->items[t->loose[i]];
        const struct plan *plan = plan_at(txn, t->loose[i]);
        struct row row = {
            .seq = item->seq,
            .version = item->version_out,
            .kind = (enum row_kind)plan->kind,
            .id = plan->kind == ROW_MADE ? SLICE_NONE : item->id,
            .routing = write_extra(item)->routing,
            .doc = plan->kind == ROW_TOMBSTONE ? SLICE_NONE
                   : item->op == WRITE_UPDATE  ? buf_slice(&plan->merged)
                                               : item->source,
        };
        wal_row_put(&raw, &row);
    }
    if (raw.failed) {
        buf_done(&raw);
        return false;
    }
    t->rows = raw;
    t->rows_codec = CODEC_NONE;
    t->rows_raw = (uint32_t)raw.len;
    struct buf packed = {0};
    size_t len = 0;
    if (raw.len >= COMPRESS_FROM && buf_reserve(&packed, codec_bound(CODEC_LZ4, raw.len)) &&
        codec_compress(CODEC_LZ4, 0, buf_slice(&raw), packed.ptr, packed.cap, &len) == RC_OK) {
        packed.len = len;
        t->rows = packed;
        t->rows_codec = CODEC_LZ4;
        buf_done(&raw);
    } else {
        buf_done(&packed);
    }
    return true;
}

static void index_record(struct touch *t)
{
    memcpy(t->index_record, t->index->uuid, 16);
    pthread_mutex_lock(&t->index->table);
    put_u64(t->index_record + 16, index_nonce_locked(t->index));
    put_u32(t->index_record + 24, index_term_locked(t->index));
    pthread_mutex_unlock(&t->index->table);
}

static bool make_records(struct txn *txn)
{
    size_t n = 0;
    txn->record = malloc((2 * txn->touch_count + txn->block_count + 1) * sizeof *txn->record);
    if (txn->record == NULL)
        return false;
    for (size_t i = 0; i < txn->touch_count; i++) {
        struct touch *t = &txn->touch[i];
        uint32_t no = t->index->number;
        if (t->loose_count == 0 && t->block_count == 0)
            continue;
        index_record(t);
        txn->record[n++] = (struct wal_record){no, WAL_INDEX, CODEC_NONE, sizeof t->index_record,
                                               slice_of(t->index_record, sizeof t->index_record)};
        for (size_t k = 0; k < t->block_count; k++) {
            struct slice body = buf_slice(&t->block[k]->record);
            txn->record[n++] =
                (struct wal_record){no, WAL_BLOCK, CODEC_NONE, (uint32_t)body.len, body};
        }
        if (t->loose_count == 0)
            continue;
        if (!encode_loose(txn, t))
            return false;
        txn->record[n++] =
            (struct wal_record){no, WAL_ROWS, t->rows_codec, t->rows_raw, buf_slice(&t->rows)};
    }
    txn->commit.records = txn->record;
    txn->commit.count = n;
    txn->commit.done = commit_done;
    return true;
}

/* All blocks are packed. */
static void commit(struct txn *txn)
{
    if (!make_records(txn))
        store_fail(txn->store, "out of memory while a write was under way");
    if (atomic_load(&txn->store->failed)) {
        committed(txn, RC_IO);
        return;
    }
    if (txn->commit.count == 0)
        committed(txn, RC_OK);
    else
        wal_submit(txn->store->wal, &txn->commit);
}

/* ---- packing */

/* Memory ran out between deciding and packing: the store is lost. The request is never answered, as
 * rows that others see may borrow what it holds (O3 in rows.h); the process is about to end. */
static void write_lost(struct txn *txn, const char *text)
{
    store_fail(txn->store, text);
}

struct helper {
    struct task task;
    struct txn *txn;
};

/* Take blocks one by one until none is left; whoever packs the last one commits. */
static void pack_blocks(struct txn *txn)
{
    size_t i;
    while ((i = atomic_fetch_add(&txn->block_next, 1)) < txn->block_count) {
        struct err err = {0};
        struct index *ix = NULL;
        for (size_t k = 0, seen = 0; ix == NULL; seen += txn->touch[k++].block_count)
            if (i < seen + txn->touch[k].block_count)
                ix = txn->touch[k].index;
        if (pending_pack(ix, txn->block[i], &err) != RC_OK) {
            write_lost(txn, "out of memory while a block was packed");
            return;
        }
        if (atomic_fetch_sub(&txn->block_left, 1) == 1)
            commit(txn);
    }
}

static void helper_run(struct task *task)
{
    struct helper *h = (struct helper *)task;
    pack_blocks(h->txn);
    txn_unref(h->txn);
    free(h);
}

static bool collect_blocks(struct txn *txn)
{
    size_t n = 0;
    for (size_t i = 0; i < txn->touch_count; i++)
        n += txn->touch[i].block_count;
    txn->block = malloc((n + 1) * sizeof(struct pending *));
    if (txn->block == NULL)
        return false;
    for (size_t i = 0; i < txn->touch_count; i++)
        for (size_t k = 0; k < txn->touch[i].block_count; k++)
            txn->block[txn->block_count++] = txn->touch[i].block[k];
    return true;
}

static void pack_and_commit(struct txn *txn)
{
    if (!collect_blocks(txn)) {
        write_lost(txn, "out of memory while a write was under way");
        return;
    }
    if (txn->block_count == 0) {
        commit(txn);
        return;
    }
    atomic_store(&txn->block_left, txn->block_count);
    atomic_fetch_add(&txn->refs, 1); /* ours, until pack_blocks is through */
    struct helper *h = txn->block_count > 1 ? malloc(sizeof *h) : NULL;
    if (h != NULL) {
        h->task.run = helper_run;
        h->txn = txn;
        atomic_fetch_add(&txn->refs, 1);
        work_submit(txn->store->o.work, WORK_GET, &h->task);
    }
    pack_blocks(txn);
    txn_unref(txn);
}

/* ---- admission and order */

static int by_index(const void *a, const void *b, void *arg)
{
    const struct write_item *items = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t ix = items[x].index->number, iy = items[y].index->number;
    return ix != iy ? (ix < iy ? -1 : 1) : (x < y ? -1 : x > y);
}

/* Which items are to be applied, and what all of them need: in one pass, as a request's table is
 * larger than a processor's cache. *one_out: all are of one index. */
static size_t take_items(struct txn *txn, bool *one_out)
{
    const struct write *w = txn->write;
    const struct index *before = NULL;
    size_t n = 0;
    *one_out = true;
    for (size_t i = 0; i < w->count; i++) {
        const struct write_item *item = &w->items[i];
        if (item->index == NULL || item->result != WRITE_PENDING)
            continue;
        *one_out = *one_out && (before == NULL || before == item->index);
        before = item->index;
        txn->keyed = txn->keyed || item->id.len != 0;
        txn->updates = txn->updates || item->op == WRITE_UPDATE;
        txn->bytes += item->source.len + item->id.len + ROW_OVERHEAD;
        txn->bytes += write_extra(item)->routing.len;
        assert(item->id.len != 0 || item->op == WRITE_INDEX || item->op == WRITE_CREATE);
        assert(item->extra != NULL || item->op != WRITE_UPDATE);
        txn->order[n++] = (uint32_t)i;
    }
    return n;
}

/* The touches of items that are sorted by index. */
static void divide_items(struct txn *txn, size_t n)
{
    const struct write_item *items = txn->write->items;
    struct touch *t = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct write_item *item = &items[txn->order[i]];
        if (t == NULL || item->index != t->index) {
            t = &txn->touch[txn->touch_count++];
            t->txn = txn;
            t->index = index_retain(item->index);
            t->from = i;
        }
        t->to = i + 1;
        t->ahead += item->source.len;
    }
}

static enum rc plan_order(struct txn *txn)
{
    const struct write *w = txn->write;
    size_t touches = 1;
    bool one;
    txn->order = malloc((w->count + 1) * sizeof *txn->order);
    if (txn->order == NULL)
        return RC_NOMEM;
    size_t n = take_items(txn, &one);
    txn->plan = calloc(txn->keyed ? w->count + 1 : 1, sizeof *txn->plan);
    if (txn->plan == NULL)
        return RC_NOMEM;
    txn->plan->old_seq = SEQ_NONE;
    if (!one)
        qsort_r(txn->order, n, sizeof *txn->order, by_index, w->items);
    for (size_t i = 1; !one && i < n; i++)
        touches += w->items[txn->order[i]].index != w->items[txn->order[i - 1]].index;
    txn->touch = calloc(touches, sizeof *txn->touch);
    if (txn->touch == NULL)
        return RC_NOMEM;
    if (!one) {
        divide_items(txn, n);
    } else if (n != 0) {
        struct index *ix = w->items[txn->order[0]].index;
        txn->touch[txn->touch_count++] =
            (struct touch){.txn = txn, .index = index_retain(ix), .to = n, .ahead = txn->bytes};
    }
    txn->bytes += txn->touch_count * TOUCH_OVERHEAD;
    return RC_OK;
}

static enum rc admit(struct txn *txn)
{
    uint64_t bytes = txn->bytes;
    if (!store_space_ok(txn->store))
        return err_set(&txn->err, RC_FULL, 0,
                       "disk usage exceeded: less than storage.reserve is free under path.data; "
                       "writes resume when space is back");
    if (!store_ids_ok(txn->store)) {
        checkpoint_poke(txn->store);
        return err_set(&txn->err, RC_BUSY, 0,
                       "storage.ids.memory is used up, waiting for a checkpoint");
    }
    enum rc rc = wal_reserve(txn->store->wal, bytes);
    if (rc == RC_OK)
        txn->reserved = bytes;
    else if (rc == RC_TOO_LARGE)
        err_set(&txn->err, rc, 0,
                "a request of %llu bytes does not fit in half of storage.wal.size",
                (unsigned long long)bytes);
    else if (rc == RC_FULL)
        err_set(&txn->err, rc, 0, "no space left on device for the write-ahead log");
    else if (rc == RC_BUSY)
        err_set(&txn->err, rc, 0, "the write-ahead log is full, waiting for a checkpoint");
    else
        err_set(&txn->err, rc, 0, "the write-ahead log takes no writes");
    if (rc == RC_BUSY)
        checkpoint_poke(txn->store);
    return rc;
}

/* Some of it was applied and cannot be logged any more. */
static bool applied_any(const struct txn *txn)
{
    for (size_t i = 0; i < (txn->keyed ? txn->write->count : 1); i++)
        if (txn->plan[i].wrote)
            return true;
    return false;
}

void store_write(struct store *store, struct write *write)
{
    static atomic_uint_fast64_t numbers;
    struct txn *txn = calloc(1, sizeof *txn);
    if (txn == NULL) {
        struct err err = {0};
        err_set(&err, RC_NOMEM, 0, "no memory for a write");
        write->done(write, RC_NOMEM, &err);
        return;
    }
    txn->store = store;
    txn->write = write;
    txn->number = atomic_fetch_add(&numbers, 1) + 1;
    atomic_init(&txn->refs, 1);
    txn->rc = atomic_load(&store->failed) ? RC_IO : RC_OK;
    if (txn->rc == RC_OK)
        txn->rc = plan_order(txn);
    if (txn->rc == RC_OK)
        txn->rc = admit(txn);
    for (size_t i = 0; txn->rc == RC_OK && i < txn->touch_count; i++)
        txn->rc = touch_look(txn, &txn->touch[i]);
    for (size_t i = 0; txn->rc == RC_OK && i < txn->touch_count; i++)
        txn->rc = touch_decide(txn, &txn->touch[i]);
    if (txn->rc == RC_OK) {
        pack_and_commit(txn);
        return;
    }
    err_set(&txn->err, txn->rc, 0, "out of memory, or the write-ahead log failed");
    if (txn->plan != NULL && applied_any(txn)) {
        write_lost(txn, txn->err.msg);
        return;
    }
    /* Tickets taken for nothing must not hold others up. */
    for (size_t i = 0; i < txn->touch_count; i++)
        if (txn->touch[i].ticketed)
            index_ticket_pass(txn->touch[i].index, txn->touch[i].ticket);
    finish(txn);
}
