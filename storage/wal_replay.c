/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the log back: rule W6 of wal.h. Every length is checked, a checksum notwithstanding. */
#include "config/buf.h"
#include "storage/codec.h"
#include "storage/wal_ring.h"

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
