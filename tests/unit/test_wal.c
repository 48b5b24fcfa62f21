/* SPDX-License-Identifier: Apache-2.0 */
/* The write-ahead log: what comes back, in which order, and what never does. */
#include "config/limits.h"
#include "storage/codec.h"
#include "storage/io.h"
#include "storage/wal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define COMMITS_MAX 4096

static char dir[64];
static char wal_dir[80];
static const uint8_t zeros[6000];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/test_wal.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(wal_dir, sizeof wal_dir, "%s/wal", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_fault_hook = NULL;
    return io_remove_dir(wal_dir, NULL) == RC_OK && rmdir(dir) == 0 ? 0 : -1;
}

/* ---- commits whose content tells their number */

struct put {
    struct wal_commit commit; /* first */
    struct wal_record records[2];
    uint8_t *body;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    enum rc rc;
};

static atomic_uint failures;

static void on_failed(void *arg, const struct err *err)
{
    (void)arg;
    assert_true(err->rc != RC_OK && err->msg[0] != 0);
    failures++;
}

static void on_done(struct wal_commit *commit, enum rc rc)
{
    struct put *put = (struct put *)commit;
    pthread_mutex_lock(&put->mutex);
    put->done = true;
    put->rc = rc;
    pthread_cond_signal(&put->changed);
    pthread_mutex_unlock(&put->mutex);
}

static void body_fill(uint8_t *body, size_t len, uint32_t number)
{
    for (size_t i = 0; i < len; i++)
        body[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

/* Two records: an empty one and one of `len` bytes. */
static struct put *put_make(uint32_t number, size_t len)
{
    struct put *put = calloc(1, sizeof *put);
    assert_non_null(put);
    put->body = malloc(len + 1);
    body_fill(put->body, len, number);
    put->records[0] = (struct wal_record){number, WAL_INDEX, CODEC_NONE, 0, SLICE_NONE};
    put->records[1] =
        (struct wal_record){number, WAL_ROWS, CODEC_NONE, (uint32_t)len, slice_of(put->body, len)};
    put->commit = (struct wal_commit){put->records, 2, on_done, NULL};
    pthread_mutex_init(&put->mutex, NULL);
    pthread_cond_init(&put->changed, NULL);
    return put;
}

static enum rc put_wait(struct put *put)
{
    pthread_mutex_lock(&put->mutex);
    while (!put->done)
        pthread_cond_wait(&put->changed, &put->mutex);
    pthread_mutex_unlock(&put->mutex);
    enum rc rc = put->rc;
    free(put->body);
    free(put);
    return rc;
}

/* Reserve, submit, wait, give back. */
static enum rc put_sync(struct wal *wal, uint32_t number, size_t len)
{
    enum rc rc = wal_reserve(wal, len);
    if (rc != RC_OK)
        return rc;
    struct put *put = put_make(number, len);
    wal_submit(wal, &put->commit);
    rc = put_wait(put);
    wal_unreserve(wal, len);
    return rc;
}

static struct wal *open_at(const struct wal_start *start)
{
    struct wal *wal = NULL;
    struct err err = {0};
    enum rc rc = wal_open(&(struct wal_options){wal_dir, on_failed, NULL}, start, &wal, &err);
    if (rc != RC_OK)
        fail_msg("wal_open: %s", err.msg);
    return wal;
}

static struct wal_start start_of(uint64_t bytes)
{
    struct wal_start start = {.run = 7, .batch = 100};
    wal_geometry(bytes, &start);
    return start;
}

/* ---- replay, checked */

struct seen {
    uint32_t numbers[COMMITS_MAX]; /* of the rows, in order */
    size_t count;
    uint64_t at; /* of the last record */
    uint32_t pending;
};

static enum rc on_record(const struct wal_record *record, uint64_t at, void *arg, struct err *err)
{
    struct seen *seen = arg;
    (void)err;
    assert_true(at >= seen->at && at % 4096 == 0);
    seen->at = at;
    if (record->kind == WAL_INDEX) {
        assert_int_equal(record->body.len, 0);
        seen->pending = record->index_no;
        return RC_OK;
    }
    assert_int_equal(record->index_no, seen->pending); /* W2: both or none */
    uint8_t *want = malloc(record->body.len + 1);
    body_fill(want, record->body.len, record->index_no);
    assert_true(record->body.len == 0 || memcmp(want, record->body.ptr, record->body.len) == 0);
    free(want);
    assert_in_range(seen->count, 0, COMMITS_MAX - 1);
    seen->numbers[seen->count++] = record->index_no;
    return RC_OK;
}

static enum rc replay_into(const struct wal_start *start, bool accept_loss, struct seen *seen,
                           struct wal_start *end, struct err *err)
{
    *seen = (struct seen){.at = start->position};
    return wal_replay(wal_dir, start, accept_loss, on_record, seen, end, err);
}

static struct seen replay_ok(const struct wal_start *start, struct wal_start *end)
{
    static struct seen seen;
    struct err err = {0};
    if (replay_into(start, false, &seen, end, &err) != RC_OK)
        fail_msg("wal_replay: %s", err.msg);
    return seen;
}

/* ---- files by position */

static void poke(const struct wal_start *geometry, uint64_t position, uint8_t *bytes, size_t len,
                 bool write)
{
    char path[128];
    struct io_file file = {.fd = -1};
    snprintf(path, sizeof path, "%s/%u.wal", wal_dir,
             (unsigned)(position / geometry->file_bytes % geometry->file_count));
    assert_int_equal(io_open(path, IO_WRITE, &file, NULL), RC_OK);
    uint64_t at = position % geometry->file_bytes;
    assert_int_equal(write ? io_write(&file, at, bytes, len, NULL)
                           : io_read(&file, at, bytes, len, NULL),
                     RC_OK);
    io_close(&file);
}

static void flip(const struct wal_start *geometry, uint64_t position)
{
    uint8_t byte;
    poke(geometry, position, &byte, 1, false);
    byte ^= 0x10;
    poke(geometry, position, &byte, 1, true);
}

/* ---- tests */

static void test_geometry(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, file_bytes;
    } rows[] = {
        {256 * MIB, 32 * MIB}, {1 * MIB, 128 * KIB},        {0, 64 * KIB},
        {1 * KIB, 64 * KIB},   {8 * (MIB + 4095), 1 * MIB},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct wal_start start = {0};
        wal_geometry(rows[i].bytes, &start);
        assert_int_equal(start.file_bytes, rows[i].file_bytes);
        assert_int_equal(start.file_count, 8);
    }
}

static void test_roundtrip(void **state)
{
    (void)state;
    struct wal_start start = start_of(1 * MIB), end;
    struct seen seen = {0};
    assert_int_equal(replay_into(&start, false, &seen, &end, NULL), RC_OK); /* no directory yet */
    assert_int_equal(end.position, 0);

    /* Sizes around the borders of records, pages, the staging buffer and files. */
    static const size_t sizes[] = {0,    1,    7,     8,      9,      1024,   1025,
                                   4000, 4096, 65536, 131072, 200000, 300000, 5};
    struct wal *wal = open_at(&start);
    assert_int_equal(access(wal_dir, F_OK), 0);
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(put_sync(wal, i, sizes[i]), RC_OK);
    struct put *barrier = put_make(0, 0);
    barrier->commit.count = 0;
    wal_submit(wal, &barrier->commit);
    assert_int_equal(put_wait(barrier), RC_OK);
    struct wal_stats stats;
    wal_stats(wal, &stats);
    assert_int_equal(stats.batches, ARRAY_LEN(sizes));
    assert_int_equal(stats.commits, ARRAY_LEN(sizes) + 1);
    assert_int_equal(stats.used, stats.bytes_written);
    assert_int_equal(stats.reserved, 0);
    uint64_t head = wal_head(wal);
    wal_close(wal);

    seen = replay_ok(&start, &end);
    assert_int_equal(seen.count, ARRAY_LEN(sizes));
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(seen.numbers[i], i);
    assert_int_equal(end.position, head);
    assert_int_equal(end.batch, 100 + ARRAY_LEN(sizes));
    assert_int_equal(end.run, 7);

    /* A new run goes on there; nothing of the old one continues it. */
    end.run = 8;
    wal = open_at(&end);
    assert_int_equal(put_sync(wal, 500, 10), RC_OK);
    wal_close(wal);
    struct wal_start end2;
    seen = replay_ok(&end, &end2);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.numbers[0], 500);
    seen = replay_ok(&start, &end2);
    assert_int_equal(seen.count, ARRAY_LEN(sizes));
}

static enum rc on_packed(const struct wal_record *record, uint64_t at, void *arg, struct err *err)
{
    (void)at;
    (void)err;
    if (record->kind == WAL_BLOCK)
        *(bool *)arg = slice_eq(record->body, slice_of(zeros, sizeof zeros));
    return RC_OK;
}

static void test_compressed_body(void **state)
{
    (void)state;
    struct wal_start start = start_of(1 * MIB), end;
    struct wal *wal = open_at(&start);
    uint8_t packed[sizeof zeros];
    size_t len;
    bool same = false;
    struct put *put = put_make(3, 0);
    assert_int_equal(
        codec_compress(CODEC_LZ4, 0, slice_of(zeros, sizeof zeros), packed, sizeof packed, &len),
        RC_OK);
    put->records[1] =
        (struct wal_record){3, WAL_BLOCK, CODEC_LZ4, sizeof zeros, slice_of(packed, len)};
    wal_submit(wal, &put->commit);
    assert_int_equal(put_wait(put), RC_OK);
    /* A whole batch whose body does not unpack is an error, not an end. */
    put = put_make(4, 0);
    put->records[1] =
        (struct wal_record){3, WAL_BLOCK, CODEC_LZ4, sizeof zeros - 1, slice_of(packed, len)};
    wal_submit(wal, &put->commit);
    assert_int_equal(put_wait(put), RC_OK);
    wal_close(wal);
    struct err err = {0};
    assert_int_equal(wal_replay(wal_dir, &start, false, on_packed, &same, &end, &err), RC_CORRUPT);
    assert_true(same);
    codec_thread_done();
}

/* Only what is needed is made, and made again when the geometry changes. */
static void test_files(void **state)
{
    (void)state;
    struct wal_start start = start_of(1 * MIB), end;
    char path[128];
    struct wal *wal = open_at(&start);
    assert_int_equal(put_sync(wal, 1, 100), RC_OK);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%u.wal", wal_dir, i);
        assert_int_equal(access(path, F_OK) == 0, i == 0);
    }
    assert_int_equal(put_sync(wal, 2, 300 * KIB), RC_OK);
    wal_close(wal);
    snprintf(path, sizeof path, "%s/2.wal", wal_dir);
    assert_int_equal(truncate(path, 5000), 0); /* as if the process had died while making it */

    start.position = 64 * MIB; /* another file of the same geometry */
    start.run++;
    wal = open_at(&start);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(put_sync(wal, 3, 300 * KIB), RC_OK);
    assert_int_equal(access(path, F_OK), 0);
    wal_close(wal);

    wal_geometry(4 * MIB, &start);
    start.run++;
    wal = open_at(&start);
    assert_int_equal(put_sync(wal, 4, 100), RC_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    wal_close(wal);
    assert_int_equal(replay_ok(&start, &end).count, 1);
}

static void test_torn_tail(void **state)
{
    (void)state;
    struct wal_start start = start_of(512 * KIB), end;
    struct wal *wal = open_at(&start);
    assert_int_equal(put_sync(wal, 1, 60000), RC_OK);
    uint64_t last = wal_head(wal);
    assert_int_equal(put_sync(wal, 2, 20000), RC_OK); /* lies across a border of files */
    uint64_t head = wal_head(wal);
    wal_close(wal);
    assert_true(last < 64 * KIB && head > 64 * KIB);

    /* Tear from the end: sector by sector becomes what it was before. */
    uint8_t sector[512] = {0};
    for (uint64_t at = head; at > last;) {
        at -= 512;
        poke(&start, at, sector, sizeof sector, true);
        bool padding = at >= last + 64 + 2 * 16 + 20000;
        struct seen seen = replay_ok(&start, &end);
        assert_int_equal(seen.count, padding ? 2 : 1);
        assert_int_equal(end.position, padding ? head : last);
        assert_int_equal(end.batch, padding ? 102 : 101);
    }
}

static void test_damage(void **state)
{
    (void)state;
    struct wal_start start = start_of(512 * KIB), end;
    uint64_t at[6];
    struct wal *wal = open_at(&start);
    for (uint32_t i = 0; i < 5; i++) {
        at[i] = wal_head(wal);
        assert_int_equal(put_sync(wal, i, 30000), RC_OK);
    }
    at[5] = wal_head(wal);
    wal_close(wal);
    static const uint64_t places[] = {0, 8, 16, 24, 32, 40, 44, 56, 64, 80, 100, 30000};
    for (size_t b = 0; b < 5; b++) {
        for (size_t p = 0; p < ARRAY_LEN(places); p++) {
            struct seen seen;
            struct err err = {0};
            flip(&start, at[b] + places[p]);
            enum rc rc = replay_into(&start, false, &seen, &end, &err);
            assert_int_equal(seen.count, b);
            if (b == 4) {
                assert_int_equal(rc, RC_OK); /* nothing behind: a torn tail */
            } else {
                assert_int_equal(rc, RC_CORRUPT);
                assert_non_null(strstr(err.msg, "--accept-loss"));
                assert_int_equal(replay_into(&start, true, &seen, &end, NULL), RC_OK);
            }
            assert_int_equal(seen.count, b);
            assert_int_equal(end.position, at[b]);
            assert_int_equal(end.batch, 100 + b);
            flip(&start, at[b] + places[p]);
        }
    }
    assert_int_equal(replay_ok(&start, &end).count, 5);
    assert_int_equal(end.position, at[5]);
}

/* Many laps; each time the catalog keeps a start a few batches back. */
static void test_laps(void **state)
{
    (void)state;
    struct wal_start start = start_of(512 * KIB), kept = start, end;
    struct wal *wal = open_at(&start);
    uint64_t at[600];
    for (uint32_t i = 0; i < 600; i++) {
        at[i] = wal_head(wal);
        assert_int_equal(put_sync(wal, i, (i * 977) % 30000), RC_OK);
        if (i < 8)
            continue;
        kept = wal_start_at(wal, at[i - 8]);
        assert_int_equal(kept.position, at[i - 8]);
        assert_int_equal(kept.batch, 100 + i - 8);
        wal_release(wal, kept.position);
        if (i % 37 == 0) {
            struct seen seen = replay_ok(&kept, &end);
            assert_int_equal(seen.count, 9);
            for (uint32_t k = 0; k < 9; k++)
                assert_int_equal(seen.numbers[k], i - 8 + k);
            assert_int_equal(end.position, wal_head(wal));
        }
    }
    assert_true(wal_head(wal) > 10 * 512 * KIB);
    struct wal_start next = wal_start_at(wal, wal_head(wal));
    assert_int_equal(next.position, wal_head(wal));
    assert_int_equal(next.batch, 700);
    /* Damage is told from batches of the lap before. */
    flip(&kept, at[599] + 64);
    assert_int_equal(replay_ok(&kept, &end).count, 8);
    flip(&kept, at[598] + 64);
    assert_int_equal(replay_ok(&kept, &end).count, 7);
    flip(&kept, at[599] + 64);
    struct seen seen;
    assert_int_equal(replay_into(&kept, false, &seen, &end, NULL), RC_CORRUPT);
    wal_close(wal);
}

static void test_reserve(void **state)
{
    (void)state;
    struct wal_start start = start_of(512 * KIB);
    struct wal *wal = open_at(&start);
    assert_int_equal(wal_reserve(wal, 256 * KIB + 1), RC_TOO_LARGE);
    assert_int_equal(wal_reserve(wal, 256 * KIB), RC_OK);
    assert_int_equal(wal_reserve(wal, 256 * KIB), RC_BUSY);
    assert_int_equal(wal_reserve(wal, 100 * KIB), RC_OK);
    wal_unreserve(wal, 256 * KIB);
    wal_unreserve(wal, 100 * KIB);
    assert_int_equal(wal_reserve(wal, 0), RC_OK);
    assert_int_equal(wal_reserve_more(wal, 0, 1000), RC_OK);
    for (uint64_t had = 1000; had < 200000; had += 500)
        assert_int_equal(wal_reserve_more(wal, had, 500), RC_OK);
    assert_int_equal(wal_reserve_more(wal, 200000, 256 * KIB - 200000 + 1), RC_TOO_LARGE);
    assert_int_equal(wal_reserve(wal, 256 * KIB), RC_OK);
    assert_int_equal(wal_reserve_more(wal, 200000, 20000), RC_BUSY);
    wal_unreserve(wal, 256 * KIB);
    wal_unreserve(wal, 200000);

    uint32_t count = 0;
    enum rc rc;
    while ((rc = put_sync(wal, count, 10000)) == RC_OK)
        count++;
    assert_int_equal(rc, RC_BUSY);
    assert_in_range(count, 30, 43);
    struct wal_stats stats;
    wal_stats(wal, &stats);
    assert_true(stats.used <= stats.capacity);
    assert_int_equal(stats.reserved, 0);
    wal_release(wal, wal_head(wal));
    assert_int_equal(put_sync(wal, count, 200 * KIB), RC_OK);

    /* Commits that did not reserve wait for space and overwrite nothing (W5). */
    struct wal_start kept = wal_start_at(wal, 0);
    struct put *puts[8];
    for (uint32_t i = 0; i < ARRAY_LEN(puts); i++) {
        puts[i] = put_make(1000 + i, 100 * KIB);
        wal_submit(wal, &puts[i]->commit);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(put_wait(puts[i]), RC_OK);
    usleep(20000);
    struct wal_start end;
    assert_in_range(replay_ok(&kept, &end).count, 3, 4);
    for (uint32_t i = 2; i < ARRAY_LEN(puts); i++) {
        wal_release(wal, wal_head(wal));
        assert_int_equal(put_wait(puts[i]), RC_OK);
    }
    wal_close(wal);
}

/* ---- group commit */

struct writer {
    struct wal *wal;
    uint32_t first;
    pthread_t thread;
};

static void *writer_run(void *arg)
{
    struct writer *writer = arg;
    for (uint32_t i = 0; i < 100; i++) {
        enum rc rc = put_sync(writer->wal, writer->first + i, (i * 131) % 5000);
        if (rc != RC_OK)
            return writer;
    }
    return NULL;
}

static void test_group_commit(void **state)
{
    (void)state;
    struct wal_start start = start_of(16 * MIB), end;
    struct wal *wal = open_at(&start);
    struct writer writers[8];
    for (uint32_t i = 0; i < 8; i++) {
        writers[i] = (struct writer){.wal = wal, .first = i * 100};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]), 0);
    }
    for (uint32_t i = 0; i < 8; i++) {
        void *failed;
        pthread_join(writers[i].thread, &failed);
        assert_null(failed);
    }
    struct wal_stats stats;
    wal_stats(wal, &stats);
    assert_int_equal(stats.commits, 800);
    assert_int_equal(stats.reserved, 0);
    assert_true(stats.batches <= 800);
    wal_close(wal);
    struct seen seen = replay_ok(&start, &end);
    assert_int_equal(seen.count, 800);
    uint32_t next[8] = {0};
    for (size_t i = 0; i < 800; i++) /* each writer's own are in order */
        assert_int_equal(seen.numbers[i] % 100, next[seen.numbers[i] / 100]++);
}

/* What is queued at once goes into one batch, and close drains. */
static void test_close_drains(void **state)
{
    (void)state;
    struct wal_start start = start_of(4 * MIB), end;
    struct wal *wal = open_at(&start);
    struct put *puts[100];
    for (uint32_t i = 0; i < 100; i++) {
        puts[i] = put_make(i, 100);
        wal_submit(wal, &puts[i]->commit);
    }
    wal_close(wal);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(put_wait(puts[i]), RC_OK);
    assert_int_equal(replay_ok(&start, &end).count, 100);
    assert_in_range(end.batch, 101, 200);
}

/* ---- the disk breaks */

static int fault_at;
static enum io_fault fault_kind;
static atomic_int fault_ops;
static atomic_bool fault_hit;

static enum io_fault fault_hook(enum io_op op, const char *path)
{
    (void)path;
    if (op == IO_OP_OTHER || fault_ops++ != fault_at)
        return IO_FAULT_NONE;
    fault_hit = true;
    return fault_kind;
}

/* Ten commits over two files. Returns how many were told durable; *refused_out: by reservation. */
static uint32_t faulty_run(const struct wal_start *start, uint32_t *refused_out)
{
    uint32_t good = 0;
    *refused_out = 0;
    struct wal *wal;
    if (wal_open(&(struct wal_options){wal_dir, on_failed, NULL}, start, &wal, NULL) != RC_OK)
        return 0;
    for (uint32_t i = 0; i < 10; i++) {
        enum rc rc = wal_reserve(wal, 10000);
        if (rc != RC_OK) {
            assert_true(rc == RC_IO || rc == RC_FULL);
            ++*refused_out;
            continue;
        }
        struct put *put = put_make(i, 10000);
        wal_submit(wal, &put->commit);
        rc = put_wait(put);
        wal_unreserve(wal, 10000);
        assert_true(rc == RC_OK || rc == RC_IO);
        if (failures > 0)
            assert_int_equal(rc, RC_IO); /* W4: nothing after it */
        good += rc == RC_OK;
    }
    wal_close(wal);
    return good;
}

static void test_faults(void **state)
{
    (void)state;
    static const enum io_fault kinds[] = {IO_FAULT_FAIL, IO_FAULT_SHORT, IO_FAULT_FULL};
    struct wal_start start = start_of(512 * KIB);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        fault_kind = kinds[k];
        fault_hit = true;
        for (fault_at = 0; fault_hit; fault_at++) {
            uint32_t refused;
            struct wal_start end;
            struct err err = {0};
            failures = 0;
            fault_ops = 0;
            fault_hit = false;
            io_fault_hook = fault_hook;
            uint32_t good = faulty_run(&start, &refused);
            io_fault_hook = NULL;
            assert_in_range(failures, 0, 1);
            if (!fault_hit)
                assert_int_equal(good, 10);
            else if (failures == 0 && good > 0)
                assert_int_equal(good + refused, 10); /* a new file: refused, then it went on */
            struct seen seen;
            if (replay_into(&start, false, &seen, &end, &err) != RC_OK)
                fail_msg("fault %d of kind %zu: %s", fault_at, k, err.msg);
            /* Everything acknowledged is there; the batch that failed may be. */
            assert_in_range(seen.count, good, good + failures);
            assert_int_equal(io_remove_dir(wal_dir, NULL), RC_OK);
        }
        assert_in_range(fault_at, 25, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry),
#define IN_DIR(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
        IN_DIR(test_roundtrip),
        IN_DIR(test_compressed_body),
        IN_DIR(test_files),
        IN_DIR(test_torn_tail),
        IN_DIR(test_damage),
        IN_DIR(test_laps),
        IN_DIR(test_reserve),
        IN_DIR(test_group_commit),
        IN_DIR(test_close_drains),
        IN_DIR(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
