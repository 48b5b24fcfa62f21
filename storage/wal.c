/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the write-ahead log: rules W1 to W5 of wal.h. Replay is in wal_replay.c.
 *
 * Space. Everything counts positions: released <= head <= released + capacity. A reservation is
 * charged so much more than its bytes that any grouping of commits into batches fits into what they
 * have reserved, and only where the ring's files exist already. A batch that does not fit all the
 * same (nobody reserved) waits for wal_release instead of breaking W5.
 * Batches are gathered, not copied: one pass over the commits hashes, a second one writes. */
#include "storage/wal.h"

#include "config/limits.h"
#include "storage/wal_ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

/* A batch takes what is queued up to here, and at least one commit. */
#define BATCH_BYTES_MAX (64 * MIB)
/* Charged for each reservation: what alignment and headers of one commit take. */
#define RESERVE_EXTRA   (8 * KIB)
#define STAGE_BYTES     (64 * KIB)
#define STAGE_PIECE_MAX 1024 /* shorter pieces are copied together, longer ones gathered */
#define IOV_COUNT       256

static_assert(WAL_RECORD_BYTES >= WAL_RECORD_HEADER_BYTES + WAL_RECORD_ALIGN - 1, "padding");
static_assert(RESERVE_EXTRA >= WAL_BATCH_ALIGN + WAL_BATCH_HEADER_BYTES + 150 * WAL_RECORD_BYTES,
              "what wal_reserve promises");

static const uint8_t zeros[WAL_BATCH_ALIGN];

/* Pieces on their way to the files, in order; the committer's own. */
struct sink {
    uint64_t base; /* position of the first byte gathered */
    uint64_t position;
    int count;
    size_t staged;
    struct iovec iov[IOV_COUNT];
    uint8_t stage[STAGE_BYTES];
};

struct batch {
    struct wal_commit *first;
    uint64_t payload;
    uint64_t number;
    uint64_t position;
    uint32_t records;
    uint64_t commits;
};

struct wal {
    struct wal_options options;
    uint64_t run;
    uint64_t slack; /* never reserved: for commits larger than they said */
    pthread_t committer;
    pthread_mutex_t mutex;
    pthread_cond_t queued; /* the committer waits: commits, space, stop */
    pthread_cond_t made;   /* reservations wait: a file of the ring */
    XXH3_state_t *hash;    /* the committer's */
    struct sink sink;      /* the committer's */
    struct wal_ring ring;  /* files: opened under mutex, written by the committer */
    /* guarded by mutex */
    struct wal_commit *first, *last;
    uint64_t head;     /* where the next batch goes */
    uint64_t released; /* W5 */
    uint64_t reserved; /* as charged */
    uint64_t next_batch;
    /* Positions of the batches [first_mark, next_batch), each in the slot of its number modulo
     * mark_count. A batch takes WAL_BATCH_ALIGN at least, so that they never run out. */
    uint64_t first_mark;
    uint64_t mark_count;
    uint64_t *marks;
    bool making;
    bool failed;
    bool stopping;
    struct wal_stats stats;
};

/* Give each piece of the batch's payload to put. */
static enum rc batch_each(const struct batch *batch, struct wal *wal, struct err *err,
                          enum rc (*put)(struct wal *, const void *, size_t, struct err *))
{
    for (const struct wal_commit *c = batch->first; c != NULL; c = c->next) {
        for (size_t i = 0; i < c->count; i++) {
            const struct wal_record *record = &c->records[i];
            uint8_t raw[WAL_RECORD_HEADER_BYTES];
            wal_record_store(record, raw);
            TRY(put(wal, raw, sizeof raw, err));
            TRY(put(wal, record->body.ptr, record->body.len, err));
            TRY(put(wal, zeros, align_up(record->body.len, WAL_RECORD_ALIGN) - record->body.len,
                    err));
        }
    }
    return RC_OK;
}

static enum rc hash_put(struct wal *wal, const void *ptr, size_t len, struct err *err)
{
    (void)err;
    XXH3_64bits_update(wal->hash, ptr, len);
    return RC_OK;
}

static enum rc sink_flush(struct wal *wal, struct err *err)
{
    struct sink *sink = &wal->sink;
    const struct io_file *file = &wal->ring.files[wal_ring_file_no(&wal->ring, sink->base)];
    if (sink->count > 0)
        TRY(io_writev(file, sink->base % wal->ring.file_bytes, sink->iov, sink->count, err));
    sink->base = sink->position;
    sink->count = 0;
    sink->staged = 0;
    return RC_OK;
}

static enum rc sink_put(struct wal *wal, const void *ptr, size_t len, struct err *err)
{
    struct sink *sink = &wal->sink;
    const uint8_t *p = ptr;
    while (len > 0) {
        uint64_t room = wal->ring.file_bytes - sink->position % wal->ring.file_bytes;
        size_t n = len < room ? len : (size_t)room;
        bool stage = n <= STAGE_PIECE_MAX;
        if (sink->count == IOV_COUNT || (stage && sink->staged + n > STAGE_BYTES))
            TRY(sink_flush(wal, err));
        uint8_t *from = (uint8_t *)(uintptr_t)p;
        struct iovec *last = sink->count > 0 ? &sink->iov[sink->count - 1] : NULL;
        if (stage) {
            from = sink->stage + sink->staged;
            memcpy(from, p, n);
            sink->staged += n;
        }
        if (stage && last != NULL && (uint8_t *)last->iov_base + last->iov_len == from)
            last->iov_len += n;
        else
            sink->iov[sink->count++] = (struct iovec){from, n};
        sink->position += n;
        if (n == room)
            TRY(sink_flush(wal, err));
        p += n;
        len -= n;
    }
    return RC_OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Write and sync one batch whose place is taken (W1, W3). */
static enum rc batch_write(struct wal *wal, const struct batch *batch, uint64_t *syncs_out,
                           uint64_t *sync_ns_out, struct err *err)
{
    struct wal_ring *ring = &wal->ring;
    uint8_t raw[WAL_BATCH_HEADER_BYTES];
    uint64_t end = batch->position + wal_batch_bytes(batch->payload);
    size_t padding = (size_t)(end - batch->position - WAL_BATCH_HEADER_BYTES - batch->payload);
    wal_header_store(&(struct wal_batch_header){wal->run, batch->number, batch->position,
                                                batch->records, batch->payload},
                     raw);
    XXH3_64bits_reset(wal->hash);
    XXH3_64bits_update(wal->hash, raw, WAL_BATCH_HASHED_BYTES);
    TRY(batch_each(batch, wal, err, hash_put));
    put_u64(raw + WAL_BATCH_HASHED_BYTES, XXH3_64bits_digest(wal->hash));

    wal->sink.base = wal->sink.position = batch->position;
    wal->sink.count = 0;
    wal->sink.staged = 0;
    TRY(sink_put(wal, raw, sizeof raw, err));
    TRY(batch_each(batch, wal, err, sink_put));
    TRY(sink_put(wal, zeros, padding, err));
    TRY(sink_flush(wal, err));
    assert(wal->sink.position == end);

    uint64_t begin_ns = now_ns();
    uint64_t first = batch->position / ring->file_bytes, last = (end - 1) / ring->file_bytes;
    for (uint64_t i = first; i <= last; i++)
        TRY(io_sync(&ring->files[i % ring->file_count], err));
    *sync_ns_out = now_ns() - begin_ns;
    *syncs_out = last - first + 1;
    return RC_OK;
}

/* Take commits off the queue: all, but at most BATCH_BYTES_MAX or half a ring. */
static struct batch batch_take_locked(struct wal *wal)
{
    uint64_t max =
        wal->ring.capacity / 2 < BATCH_BYTES_MAX ? wal->ring.capacity / 2 : BATCH_BYTES_MAX;
    struct batch batch = {.first = wal->first};
    struct wal_commit *last = NULL;
    for (struct wal_commit *c = wal->first; c != NULL; c = c->next) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < c->count; i++)
            bytes += wal_record_bytes(&c->records[i]);
        if (last != NULL && batch.payload + bytes > max)
            break;
        batch.payload += bytes;
        assert(c->count <= UINT32_MAX - batch.records);
        batch.records += (uint32_t)c->count;
        batch.commits++;
        last = c;
    }
    assert(last != NULL); /* called with something queued */
    wal->first = last->next;
    if (wal->first == NULL)
        wal->last = NULL;
    last->next = NULL;
    assert(wal_batch_bytes(batch.payload) <= wal->ring.capacity);
    return batch;
}

/* Have the files of the ring up to `end`, made by this thread or another one. */
static enum rc make_files_locked(struct wal *wal, uint64_t end, struct err *err)
{
    for (;;) {
        uint64_t frontier = wal_ring_frontier(&wal->ring, wal->head);
        if (end <= frontier)
            return RC_OK;
        if (wal->making) {
            pthread_cond_wait(&wal->made, &wal->mutex);
            continue;
        }
        uint32_t no = wal_ring_file_no(&wal->ring, frontier);
        struct io_file file;
        wal->making = true;
        pthread_mutex_unlock(&wal->mutex);
        enum rc rc = wal_ring_make(&wal->ring, no, &file, err);
        pthread_mutex_lock(&wal->mutex);
        wal->making = false;
        pthread_cond_broadcast(&wal->made);
        TRY(rc);
        wal->ring.files[no] = file;
    }
}

/* Give the batch its number and place. Waits for space only when commits had not reserved it. */
static enum rc batch_place_locked(struct wal *wal, struct batch *batch, struct err *err)
{
    uint64_t bytes = wal_batch_bytes(batch->payload);
    while (wal->head + bytes > wal->released + wal->ring.capacity) {
        if (wal->stopping)
            return err_set(err, RC_BUSY, 0, "log: closed while full");
        pthread_cond_wait(&wal->queued, &wal->mutex);
    }
    TRY(make_files_locked(wal, wal->head + bytes, err));
    batch->number = wal->next_batch++;
    batch->position = wal->head;
    wal->marks[batch->number % wal->mark_count] = wal->head;
    wal->head += bytes;
    return RC_OK;
}

/* One round of the committer: with the mutex on entry and exit, without it in between. */
static void commit_round_locked(struct wal *wal)
{
    struct batch batch = batch_take_locked(wal);
    struct err err = {0};
    uint64_t syncs = 0, sync_ns = 0;
    bool failed_before = wal->failed;
    enum rc rc = failed_before ? RC_IO : RC_OK;
    if (rc == RC_OK && batch.records > 0) {
        rc = batch_place_locked(wal, &batch, &err);
        if (rc == RC_OK) {
            pthread_mutex_unlock(&wal->mutex);
            rc = batch_write(wal, &batch, &syncs, &sync_ns, &err);
            pthread_mutex_lock(&wal->mutex);
        }
    }
    if (rc != RC_OK) {
        wal->failed = true; /* W4 */
    } else {
        wal->stats.batches += batch.records > 0;
        wal->stats.commits += batch.commits;
        wal->stats.bytes_written += batch.records > 0 ? wal_batch_bytes(batch.payload) : 0;
        wal->stats.syncs += syncs;
        wal->stats.sync_ns += sync_ns;
    }
    pthread_mutex_unlock(&wal->mutex);
    for (struct wal_commit *c = batch.first, *next; c != NULL; c = next) {
        next = c->next; /* done may free c */
        c->done(c, rc == RC_OK ? RC_OK : RC_IO);
    }
    if (rc != RC_OK && !failed_before)
        wal->options.failed(wal->options.arg, &err);
    pthread_mutex_lock(&wal->mutex);
}

static void *committer(void *arg)
{
    struct wal *wal = arg;
    pthread_mutex_lock(&wal->mutex);
    for (;;) {
        if (wal->first != NULL)
            commit_round_locked(wal);
        else if (wal->stopping)
            break;
        else
            pthread_cond_wait(&wal->queued, &wal->mutex);
    }
    pthread_mutex_unlock(&wal->mutex);
    return NULL;
}

/* ---- open and close */

static enum rc dir_make(const char *dir, struct err *err)
{
    char parent[512];
    snprintf(parent, sizeof parent, "%s/..", dir);
    TRY(io_mkdir(dir, err));
    return io_sync_dir(parent, err);
}

static void wal_free(struct wal *wal)
{
    wal_ring_close(&wal->ring);
    XXH3_freeState(wal->hash);
    pthread_cond_destroy(&wal->queued);
    pthread_cond_destroy(&wal->made);
    pthread_mutex_destroy(&wal->mutex);
    free(wal->marks);
    free(wal);
}

enum rc wal_open(const struct wal_options *options, const struct wal_start *start, struct wal **out,
                 struct err *err)
{
    struct wal *wal = calloc(1, sizeof *wal);
    enum rc rc;
    if (wal == NULL)
        return err_set(err, RC_NOMEM, 0, "log: out of memory");
    wal->options = *options;
    wal->run = start->run;
    wal->head = wal->released = start->position;
    wal->next_batch = wal->first_mark = start->batch;
    pthread_mutex_init(&wal->mutex, NULL);
    pthread_cond_init(&wal->queued, NULL);
    pthread_cond_init(&wal->made, NULL);
    TRY_OUT(wal_ring_init(&wal->ring, options->dir, start, err));
    wal->slack = wal->ring.capacity / 16;
    wal->stats.capacity = wal->ring.capacity;
    wal->mark_count = wal->ring.capacity / WAL_BATCH_ALIGN;
    wal->marks = calloc((size_t)wal->mark_count, sizeof wal->marks[0]);
    wal->hash = XXH3_createState();
    if (wal->marks == NULL || wal->hash == NULL) {
        rc = err_set(err, RC_NOMEM, 0, "log: out of memory");
        goto out;
    }
    TRY_OUT(dir_make(options->dir, err));
    TRY_OUT(wal_ring_open(&wal->ring, IO_WRITE, err));
    TRY_OUT(wal_ring_clean(&wal->ring, err));
    pthread_mutex_lock(&wal->mutex);
    rc = make_files_locked(wal, wal->head + 1, err);
    pthread_mutex_unlock(&wal->mutex);
    TRY_OUT(rc);
    int e = pthread_create(&wal->committer, NULL, committer, wal);
    if (e != 0) {
        rc = err_set(err, RC_NOMEM, e, "log: cannot start its thread: %s", strerror(e));
        goto out;
    }
    pthread_setname_np(wal->committer, "committer");
    *out = wal;
    return RC_OK;
out:
    wal_free(wal);
    return rc;
}

void wal_close(struct wal *wal)
{
    pthread_mutex_lock(&wal->mutex);
    wal->stopping = true;
    pthread_cond_signal(&wal->queued);
    pthread_mutex_unlock(&wal->mutex);
    pthread_join(wal->committer, NULL);
    wal_free(wal);
}

/* ---- calls of any thread */

void wal_submit(struct wal *wal, struct wal_commit *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        assert(commit->records[i].body.len <= UINT32_MAX);
    commit->next = NULL;
    pthread_mutex_lock(&wal->mutex);
    bool refused = wal->stopping;
    if (!refused) {
        if (wal->last == NULL)
            wal->first = commit;
        else
            wal->last->next = commit;
        wal->last = commit;
        pthread_cond_signal(&wal->queued);
    }
    pthread_mutex_unlock(&wal->mutex);
    if (refused)
        commit->done(commit, RC_IO);
}

/* What a whole reservation of so many bytes takes from the ring. */
static uint64_t charge_of(uint64_t bytes)
{
    return bytes == 0 ? 0 : bytes + RESERVE_EXTRA;
}

static enum rc charge_take(struct wal *wal, uint64_t charge)
{
    enum rc rc = RC_OK;
    pthread_mutex_lock(&wal->mutex);
    /* Making a file lets go of the mutex: look again afterwards. */
    while (rc == RC_OK) {
        uint64_t end = wal->head + wal->reserved + charge;
        if (wal->failed)
            rc = RC_IO;
        else if (end > wal->released + wal->ring.capacity - wal->slack)
            rc = RC_BUSY;
        else if (end <= wal_ring_frontier(&wal->ring, wal->head))
            break;
        else
            rc = make_files_locked(wal, end, NULL);
    }
    if (rc == RC_OK)
        wal->reserved += charge;
    pthread_mutex_unlock(&wal->mutex);
    return rc;
}

enum rc wal_reserve(struct wal *wal, uint64_t bytes)
{
    if (bytes > wal->ring.capacity / 2)
        return RC_TOO_LARGE;
    return charge_take(wal, charge_of(bytes));
}

enum rc wal_reserve_more(struct wal *wal, uint64_t had, uint64_t more)
{
    if (more > wal->ring.capacity / 2 || had + more > wal->ring.capacity / 2)
        return RC_TOO_LARGE;
    return charge_take(wal, charge_of(had + more) - charge_of(had));
}

void wal_unreserve(struct wal *wal, uint64_t bytes)
{
    pthread_mutex_lock(&wal->mutex);
    assert(wal->reserved >= charge_of(bytes));
    wal->reserved -= charge_of(bytes);
    pthread_mutex_unlock(&wal->mutex);
}

uint64_t wal_head(struct wal *wal)
{
    /* What the committer has taken has its place before head; what is queued comes at it. */
    pthread_mutex_lock(&wal->mutex);
    uint64_t head = wal->head;
    pthread_mutex_unlock(&wal->mutex);
    return head;
}

struct wal_start wal_start_at(struct wal *wal, uint64_t position)
{
    pthread_mutex_lock(&wal->mutex);
    /* The last batch that begins at or before position, of [low, high). */
    uint64_t low = wal->first_mark, high = wal->next_batch;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (wal->marks[middle % wal->mark_count] <= position)
            low = middle;
        else
            high = middle;
    }
    bool none = low == wal->next_batch || position >= wal->head;
    struct wal_start start = {
        .run = wal->run,
        .batch = none ? wal->next_batch : low,
        .position = none ? wal->head : wal->marks[low % wal->mark_count],
        .file_bytes = wal->ring.file_bytes,
        .file_count = wal->ring.file_count,
    };
    pthread_mutex_unlock(&wal->mutex);
    return start;
}

void wal_release(struct wal *wal, uint64_t position)
{
    pthread_mutex_lock(&wal->mutex);
    assert(position <= wal->head);
    if (position > wal->released) {
        wal->released = position;
        while (wal->first_mark < wal->next_batch &&
               wal->marks[wal->first_mark % wal->mark_count] < position)
            wal->first_mark++;
        pthread_cond_signal(&wal->queued);
    }
    pthread_mutex_unlock(&wal->mutex);
}

void wal_stats(struct wal *wal, struct wal_stats *out)
{
    pthread_mutex_lock(&wal->mutex);
    *out = wal->stats;
    out->used = wal->head - wal->released;
    out->reserved = wal->reserved;
    pthread_mutex_unlock(&wal->mutex);
}
