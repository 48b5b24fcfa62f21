/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the log back: rule W6 of wal.h. Every length is checked, a checksum notwithstanding.
 * At the end: reading what there is without knowing where the log starts, for rebuilding. */
#include "config/buf.h"
#include "storage/codec.h"
#include "storage/wal_ring.h"

#include <fcntl.h>
#include <stdlib.h>
#include <xxhash.h>

struct replay {
    struct wal_ring ring;
    uint64_t run;
    uint64_t limit; /* positions from here on belong to the next lap */
    struct buf raw; /* header's hashed bytes, then payload */
    struct buf plain;
    wal_replay_fn fn;
    void *arg;
};

/* Is there a whole batch of this run at a position, numbered `number` or higher? If so, its hashed
 * bytes are in replay->raw. */
static enum rc batch_read(struct replay *replay, uint64_t position, uint64_t number,
                          struct wal_batch_header *h, bool *whole_out, struct err *err)
{
    uint8_t raw[WAL_BATCH_HEADER_BYTES];
    *whole_out = false;
    if (position >= replay->limit)
        return RC_OK;
    TRY(wal_ring_read(&replay->ring, position, raw, sizeof raw, err));
    if (!wal_header_load(raw, h) || h->run != replay->run || h->position != position ||
        h->batch < number || h->payload > replay->limit - position - WAL_BATCH_HEADER_BYTES)
        return RC_OK;
    size_t payload = (size_t)h->payload;
    replay->raw.len = 0;
    if (payload > SIZE_MAX / 2 || !buf_reserve(&replay->raw, WAL_BATCH_HASHED_BYTES + payload))
        return err_set(err, RC_NOMEM, 0, "log: out of memory for a batch of %zu bytes", payload);
    memcpy(replay->raw.ptr, raw, WAL_BATCH_HASHED_BYTES);
    replay->raw.len = WAL_BATCH_HASHED_BYTES + payload;
    TRY(wal_ring_read(&replay->ring, position + WAL_BATCH_HEADER_BYTES,
                      replay->raw.ptr + WAL_BATCH_HASHED_BYTES, payload, err));
    *whole_out =
        XXH3_64bits(replay->raw.ptr, replay->raw.len) == get_u64(raw + WAL_BATCH_HASHED_BYTES);
    return RC_OK;
}

static struct reader batch_payload(const struct replay *replay)
{
    return reader_of(slice_of(replay->raw.ptr + WAL_BATCH_HASHED_BYTES,
                              replay->raw.len - WAL_BATCH_HASHED_BYTES));
}

static enum rc bad_batch(struct err *err, const struct wal_batch_header *h, const char *what)
{
    return err_set(err, RC_CORRUPT, 0, "log: batch %llu at %llu: %s", (unsigned long long)h->batch,
                   (unsigned long long)h->position, what);
}

/* The checksum held, so what is wrong here was written wrong: nothing of the batch is used (W2). */
static enum rc batch_check(const struct replay *replay, const struct wal_batch_header *h,
                           struct err *err)
{
    struct reader r = batch_payload(replay);
    for (uint32_t i = 0; i < h->records; i++) {
        struct wal_record record;
        if (!wal_record_load(&r, &record))
            return bad_batch(err, h, "a record ends behind it");
        if (record.kind < WAL_ROWS || record.kind > WAL_INDEX || record.codec > CODEC_ZSTD)
            return err_set(err, RC_UNSUPPORTED, 0,
                           "log: batch %llu at %llu: record of unknown kind %d or codec %d",
                           (unsigned long long)h->batch, (unsigned long long)h->position,
                           (int)record.kind, record.codec);
        if (record.codec == CODEC_NONE && record.raw_len != record.body.len)
            return bad_batch(err, h, "a record's two lengths differ");
    }
    return r.p == r.end ? RC_OK : bad_batch(err, h, "bytes behind the last record");
}

static enum rc batch_deliver(struct replay *replay, const struct wal_batch_header *h,
                             struct err *err)
{
    struct reader r = batch_payload(replay);
    struct wal_record record;
    for (uint32_t i = 0; i < h->records && wal_record_load(&r, &record); i++) {
        if (record.codec != CODEC_NONE) {
            replay->plain.len = 0;
            if (!buf_reserve(&replay->plain, (size_t)record.raw_len + 1))
                return err_set(err, RC_NOMEM, 0, "log: out of memory for a record of %u bytes",
                               record.raw_len);
            TRY(codec_decompress((enum codec)record.codec, record.body, replay->plain.ptr,
                                 record.raw_len, err));
            record.body = slice_of(replay->plain.ptr, record.raw_len);
        }
        TRY(replay->fn(&record, h->position, replay->arg, err));
    }
    return RC_OK;
}

/* W6: the log ends at `end`, or so it seems. Look for a later batch of this run and lap. */
static enum rc check_tail(struct replay *replay, const struct wal_start *end, struct err *err)
{
    for (uint64_t at = end->position; at < replay->limit; at += WAL_BATCH_ALIGN) {
        struct wal_batch_header h;
        bool whole;
        TRY(batch_read(replay, at, end->batch, &h, &whole, err));
        if (whole)
            return err_set(err, RC_CORRUPT, 0,
                           "log: batch %llu at %llu is damaged, but batch %llu at %llu is whole; "
                           "restore a backup, or lose all from there on with --accept-loss",
                           (unsigned long long)end->batch, (unsigned long long)end->position,
                           (unsigned long long)h.batch, (unsigned long long)at);
    }
    return RC_OK;
}

enum rc wal_replay(const char *dir, const struct wal_start *start, bool accept_loss,
                   wal_replay_fn fn, void *arg, struct wal_start *end_out, struct err *err)
{
    struct wal_start end = *start;
    struct replay *replay = calloc(1, sizeof *replay);
    enum rc rc;
    if (replay == NULL)
        return err_set(err, RC_NOMEM, 0, "log: out of memory");
    TRY_OUT(wal_ring_init(&replay->ring, dir, start, err));
    TRY_OUT(wal_ring_open(&replay->ring, IO_READ, err));
    replay->run = start->run;
    replay->limit = start->position + replay->ring.capacity;
    replay->fn = fn;
    replay->arg = arg;
    for (;;) {
        struct wal_batch_header h;
        bool whole;
        TRY_OUT(batch_read(replay, end.position, end.batch, &h, &whole, err));
        if (!whole || h.batch != end.batch)
            break;
        struct err bad = {0};
        rc = batch_check(replay, &h, &bad);
        if (rc == RC_CORRUPT && accept_loss)
            break;
        if (rc != RC_OK) {
            (void)err_set(err, rc, 0, "%s", bad.msg);
            goto out;
        }
        TRY_OUT(batch_deliver(replay, &h, err));
        end.batch++;
        end.position += wal_batch_bytes(h.payload);
    }
    if (!accept_loss)
        TRY_OUT(check_tail(replay, &end, err));
    rc = RC_OK;
    *end_out = end;
out:
    wal_ring_close(&replay->ring);
    buf_done(&replay->raw);
    buf_done(&replay->plain);
    free(replay);
    return rc;
}

/* ---- copying a log that another process may be writing */

static enum rc ring_write(struct wal_ring *to, uint64_t position, const uint8_t *src, size_t len,
                          struct err *err)
{
    while (len > 0) {
        uint32_t no = wal_ring_file_no(to, position);
        uint64_t at = position % to->file_bytes;
        size_t n = len < to->file_bytes - at ? len : (size_t)(to->file_bytes - at);
        if (to->files[no].fd < 0) {
            char path[512];
            wal_ring_path(to, no, path, sizeof path);
            TRY(io_open(path, IO_CREATE, &to->files[no], err));
        }
        TRY(io_write(&to->files[no], at, src, n, err));
        position += n;
        src += n;
        len -= n;
    }
    return RC_OK;
}

/* Whole batches from *end on, which moves. */
static enum rc copy_batches(struct replay *replay, struct wal_ring *to, struct wal_start *end,
                            struct err *err)
{
    for (;;) {
        uint8_t sum[WAL_BATCH_HEADER_BYTES - WAL_BATCH_HASHED_BYTES];
        const uint8_t *raw;
        struct wal_batch_header h;
        bool whole;
        TRY(batch_read(replay, end->position, end->batch, &h, &whole, err));
        if (!whole || h.batch != end->batch)
            return RC_OK;
        raw = replay->raw.ptr;
        put_u64(sum, XXH3_64bits(raw, replay->raw.len));
        TRY(ring_write(to, h.position, raw, WAL_BATCH_HASHED_BYTES, err));
        TRY(ring_write(to, h.position + WAL_BATCH_HASHED_BYTES, sum, sizeof sum, err));
        TRY(ring_write(to, h.position + WAL_BATCH_HEADER_BYTES, raw + WAL_BATCH_HASHED_BYTES,
                       replay->raw.len - WAL_BATCH_HASHED_BYTES, err));
        end->batch++;
        end->position += wal_batch_bytes(h.payload);
    }
}

/* Does the log go on behind what one lap from the start can hold? */
static enum rc check_lap(const struct replay *replay, const struct wal_start *end, struct err *err)
{
    uint8_t raw[WAL_BATCH_HEADER_BYTES];
    struct wal_batch_header h;
    TRY(wal_ring_read(&replay->ring, end->position, raw, sizeof raw, err));
    bool next = wal_header_load(raw, &h) && h.run == replay->run && h.position == end->position &&
                h.batch == end->batch;
    return next && end->position + wal_batch_bytes(h.payload) > replay->limit
               ? err_set(err, RC_BUSY, 0, "the log moves on faster than it is copied")
               : RC_OK;
}

/* One look: what was whole before it began is found. */
static enum rc copy_look(struct replay *replay, struct wal_ring *to, struct wal_start *end,
                         struct err *err)
{
    memset(replay->ring.sizes, 0, sizeof replay->ring.sizes);
    enum rc rc = wal_ring_open(&replay->ring, IO_READ, err);
    if (rc == RC_OK)
        rc = copy_batches(replay, to, end, err);
    if (rc == RC_OK)
        rc = check_lap(replay, end, err);
    if (rc == RC_OK)
        rc = check_tail(replay, end, err);
    wal_ring_close(&replay->ring);
    return rc;
}

enum rc wal_copy(const char *dir, const struct wal_start *start, const char *to_dir,
                 struct wal_start *end_out, struct err *err)
{
    struct wal_start end = *start;
    struct wal_ring to;
    struct err why = {0};
    struct replay *replay = calloc(1, sizeof *replay);
    enum rc rc;
    memset(&to, 0, sizeof to);
    for (size_t i = 0; i < WAL_FILES_MAX; i++)
        to.files[i].fd = -1;
    if (replay == NULL)
        return err_set(err, RC_NOMEM, 0, "log: out of memory");
    TRY_OUT(wal_ring_init(&to, to_dir, start, err));
    TRY_OUT(wal_ring_init(&replay->ring, dir, start, err));
    replay->run = start->run;
    replay->limit = start->position + replay->ring.capacity;
    rc = copy_look(replay, &to, &end, &why);
    uint64_t batch = end.batch;
    if (rc == RC_CORRUPT) {
        /* The end may have become whole while what follows was looked at. Then it is not damaged,
         * and all that was whole before the first look is copied. */
        struct err again = {0};
        enum rc second = copy_look(replay, &to, &end, &again);
        rc = second == RC_CORRUPT && end.batch != batch ? RC_OK : second;
        why = again;
    }
    if (rc != RC_OK)
        (void)err_set(err, rc, why.os_errno, "%s", why.msg);
    for (size_t i = 0; rc == RC_OK && i < WAL_FILES_MAX; i++)
        if (to.files[i].fd >= 0) {
            rc = io_sync(&to.files[i], err);
            /* Who reads it back sees what the disk has. */
            (void)posix_fadvise(to.files[i].fd, 0, 0, POSIX_FADV_DONTNEED);
        }
    if (rc == RC_OK)
        *end_out = end;
out:
    wal_ring_close(&to);
    buf_done(&replay->raw);
    free(replay);
    return rc;
}

/* ---- without a start */

static void note_size(const char *name, void *arg)
{
    unsigned no;
    char same[16];
    if (sscanf(name, "%9u", &no) != 1)
        return;
    snprintf(same, sizeof same, "%u.wal", no);
    if (strcmp(name, same) == 0 && no < WAL_FILES)
        *(bool *)arg = true;
}

/* The geometry, from the files: they are of equal size and there are WAL_FILES places for them. */
static enum rc open_found(struct replay *replay, const char *dir, struct err *err)
{
    struct wal_start start = {.file_bytes = WAL_BATCH_ALIGN, .file_count = WAL_FILES};
    bool any = false;
    TRY(io_list(dir, note_size, &any, err));
    if (!any)
        return RC_NOT_FOUND;
    TRY(wal_ring_init(&replay->ring, dir, &start, err));
    TRY(wal_ring_open(&replay->ring, IO_READ, err));
    for (size_t i = 0; i < WAL_FILES; i++)
        if (replay->ring.sizes[i] > start.file_bytes)
            start.file_bytes = replay->ring.sizes[i] / WAL_BATCH_ALIGN * WAL_BATCH_ALIGN;
    replay->ring.file_bytes = start.file_bytes;
    replay->ring.capacity = start.file_bytes * WAL_FILES;
    return RC_OK;
}

static enum rc list_file(struct replay *replay, uint32_t no,
                         enum rc (*fn)(const struct wal_start *at, uint64_t payload,
                                       uint32_t records, void *arg),
                         void *arg, struct err *err)
{
    struct wal_ring *ring = &replay->ring;
    for (uint64_t at = 0; at + WAL_BATCH_ALIGN <= ring->sizes[no]; at += WAL_BATCH_ALIGN) {
        uint8_t raw[WAL_BATCH_HEADER_BYTES];
        struct wal_batch_header h;
        bool whole;
        TRY(io_read(&ring->files[no], at, raw, sizeof raw, err));
        if (!wal_header_load(raw, &h) || h.position > INT64_MAX / 2 ||
            wal_ring_file_no(ring, h.position) != no || h.position % ring->file_bytes != at)
            continue;
        replay->run = h.run;
        replay->limit = h.position + ring->capacity;
        TRY(batch_read(replay, h.position, h.batch, &h, &whole, err));
        if (!whole)
            continue;
        struct wal_start found = {h.run, h.batch, h.position, ring->file_bytes, ring->file_count};
        TRY(fn(&found, h.payload, h.records, arg));
    }
    return RC_OK;
}

static void replay_free(struct replay *replay)
{
    wal_ring_close(&replay->ring);
    buf_done(&replay->raw);
    buf_done(&replay->plain);
    free(replay);
}

static enum rc replay_new(const char *dir, struct replay **out, struct err *err)
{
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL)
        return err_set(err, RC_NOMEM, 0, "log: out of memory");
    for (size_t i = 0; i < WAL_FILES_MAX; i++)
        replay->ring.files[i].fd = -1;
    enum rc rc = open_found(replay, dir, err);
    if (rc == RC_OK)
        *out = replay;
    else
        replay_free(replay);
    return rc;
}

enum rc wal_list(const char *dir,
                 enum rc (*fn)(const struct wal_start *at, uint64_t payload, uint32_t records,
                               void *arg),
                 void *arg, struct err *err)
{
    struct replay *replay = NULL;
    enum rc rc = replay_new(dir, &replay, err);
    for (uint32_t no = 0; rc == RC_OK && no < WAL_FILES; no++)
        rc = list_file(replay, no, fn, arg, err);
    if (replay != NULL)
        replay_free(replay);
    return rc;
}

struct found_batches {
    struct wal_start *batch;
    size_t count, cap;
};

static enum rc keep_batch(const struct wal_start *at, uint64_t payload, uint32_t records, void *arg)
{
    struct found_batches *f = arg;
    (void)payload;
    (void)records;
    if (f->count != 0 && at->run < f->batch[0].run)
        return RC_OK;
    if (f->count != 0 && at->run > f->batch[0].run)
        f->count = 0;
    if (f->count == f->cap) {
        size_t cap = f->cap == 0 ? 256 : f->cap * 2;
        struct wal_start *list = realloc(f->batch, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        f->batch = list;
        f->cap = cap;
    }
    f->batch[f->count++] = *at;
    return RC_OK;
}

static int by_batch(const void *a, const void *b)
{
    const struct wal_start *x = a, *y = b;
    return x->batch < y->batch ? -1 : x->batch > y->batch;
}

static enum rc salvage_batch(struct replay *replay, const struct wal_start *at,
                             struct wal_start *end, struct err *err)
{
    struct wal_batch_header h;
    bool whole;
    replay->run = at->run;
    replay->limit = at->position + replay->ring.capacity;
    TRY(batch_read(replay, at->position, at->batch, &h, &whole, err));
    if (!whole)
        return err_set(err, RC_CORRUPT, 0, "log: it changes while it is read");
    TRY(batch_check(replay, &h, err));
    *end = *at;
    end->batch = h.batch + 1;
    end->position = at->position + wal_batch_bytes(h.payload);
    return batch_deliver(replay, &h, err);
}

enum rc wal_salvage(const char *dir, wal_replay_fn fn, void *arg, struct wal_start *end_out,
                    uint64_t *gaps_out, struct err *err)
{
    struct replay *replay = NULL;
    struct found_batches found = {0};
    struct wal_start end = {0};
    uint64_t gaps = 0;
    enum rc rc = wal_list(dir, keep_batch, &found, err);
    TRY_OUT(rc);
    TRY_OUT(found.count == 0 ? RC_NOT_FOUND : replay_new(dir, &replay, err));
    qsort(found.batch, found.count, sizeof *found.batch, by_batch);
    replay->fn = fn;
    replay->arg = arg;
    for (size_t i = 0; i < found.count; i++) {
        gaps += i != 0 && found.batch[i].batch != end.batch;
        TRY_OUT(salvage_batch(replay, &found.batch[i], &end, err));
    }
    *end_out = end;
    *gaps_out = gaps;
out:
    if (replay != NULL)
        replay_free(replay);
    free(found.batch);
    return rc;
}
