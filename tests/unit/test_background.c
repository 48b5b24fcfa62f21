/* SPDX-License-Identifier: Apache-2.0 */
/* Background work whose disk fails: what an attempt wrote is taken back, nothing is lost, and it is
 * repeated by itself. Snapshots: what they see, what they cost, what they give back. */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* ---- breaking the disk */

static const char *_Atomic failing_thread; /* only operations of this thread fail; NULL: none */
static const char *_Atomic failing_path;   /* … on paths with this in them */
static atomic_int failing_op;
static atomic_uint failures;

static enum io_fault hook(enum io_op op, const char *path)
{
    const char *thread = atomic_load(&failing_thread), *part = atomic_load(&failing_path);
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (thread == NULL || strcmp(name, thread) != 0 || (int)op != atomic_load(&failing_op) ||
        strstr(path, part) == NULL)
        return IO_FAULT_NONE;
    atomic_fetch_add(&failures, 1);
    return IO_FAULT_FULL;
}

static void break_disk(const char *thread, enum io_op op, const char *path)
{
    atomic_store(&failing_path, path);
    atomic_store(&failing_op, (int)op);
    atomic_store(&failures, 0);
    atomic_store(&failing_thread, thread);
}

static void heal_disk(void)
{
    atomic_store(&failing_thread, NULL);
}

/* Failed checkpoints are events of severity 2 here. */
static void quiet_event(void *arg, int severity, const char *text)
{
    (void)arg;
    (void)severity;
    (void)text;
}

/* In LMDB's place. While failing_commit is set, the last step of a commit, which makes it the
 * newest, fails for want of a disk that works; after commits_left of them (-1: no end) the disk is
 * full. */
static atomic_bool failing_commit;
static atomic_int commits_left = -1;

static int catalog_fault(int fd, bool last_step)
{
    char link[40], path[200] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) <= 0 || strstr(path, "/data.mdb") == NULL)
        return 0;
    if (!last_step)
        return atomic_load(&commits_left) == 0 ? ENOSPC : 0;
    if (atomic_load(&commits_left) > 0)
        atomic_fetch_sub(&commits_left, 1);
    return atomic_load(&failing_commit) ? EIO : 0;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    int fault = catalog_fault(fd, at < 2 * 4096 && n < 4096);
    if (fault == 0)
        return syscall(SYS_pwrite64, fd, bytes, n, at);
    errno = fault;
    return -1;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    int fault = catalog_fault(fd, false);
    if (fault == 0)
        return syscall(SYS_writev, fd, parts, count);
    errno = fault;
    return -1;
}

static atomic_uint fatals;

static void note_fatal(void *arg, const char *text)
{
    (void)arg;
    (void)text;
    atomic_fetch_add(&fatals, 1);
}

static void open_quietly(struct bench *b)
{
    bench_init(b);
    heal_disk();
    atomic_store(&failing_commit, false);
    atomic_store(&commits_left, -1);
    io_fault_hook = hook;
    bench_open(b);
    b->store->o.event = quiet_event;
}

static void close_all(struct bench *b)
{
    bench_done(b);
    io_fault_hook = NULL;
}

static enum rc try_flush(struct bench *b)
{
    struct wait w = WAIT_INIT;
    store_flush(b->store, NULL, flush_done, &w);
    return wait_for(&w);
}

/* Background work is done when what it changes says so. Shorter than the 30 s after which a quiet
 * node looks at all indices anyway. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t end_ = mono_ms() + 15000;                                                         \
        while (!(condition)) {                                                                     \
            if (mono_ms() > end_)                                                                  \
                fail_msg("never: %s", #condition);                                                 \
            usleep(10000);                                                                         \
        }                                                                                          \
    } while (0)

/* Files and bytes of the only index' directory. */
static void measure(const struct bench *b, unsigned *files, uint64_t *bytes)
{
    char text[200];
    snprintf(
        text, sizeof text,
        "cd %s/indices/*/ && stat -c %%s *.seg 2>/dev/null | awk '{s+=$1} END {print NR, s+0}'",
        b->dir);
    FILE *p = popen(text, "r");
    unsigned long long n = 0;
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%u %llu", files, &n), 2);
    *bytes = n;
    pclose(p);
}

/* Documents with ids n of [from, to), not compressible; deletes without a document. */
static void load(struct bench *b, struct index *ix, size_t from, size_t to, bool delete)
{
    enum { BATCH = 100, DOC = 600 };
    static struct write_item items[BATCH];
    static char ids[BATCH][24], docs[BATCH][DOC];
    unsigned seed = (unsigned)from;
    for (size_t at = from; at < to;) {
        size_t n = 0;
        for (; n < BATCH && at < to; n++, at++) {
            snprintf(ids[n], sizeof ids[n], "%zu", at);
            int len = snprintf(docs[n], DOC, "{\"n\":%zu,\"p\":\"", at);
            for (; len < DOC - 3; len++)
                docs[n][len] = (char)('a' + rand_r(&seed) % 26);
            memcpy(docs[n] + len, "\"}", 3);
            items[n] =
                item(ix, delete ? WRITE_DELETE : WRITE_INDEX, ids[n], delete ? NULL : docs[n]);
        }
        assert_int_equal(write_items(b, items, n), RC_OK);
    }
}

/* ---- what a failed attempt leaves */

/* Checkpoints whose segments cannot be written or synced, again and again: their files do not pile
 * up, an older segment is as long as it was, and once the disk is well everything is there. */
static void test_failed_checkpoints_leave_nothing(void **state)
{
    static const enum io_op ops[] = {IO_OP_WRITE, IO_OP_SYNC};
    (void)state;
    for (size_t o = 0; o < ARRAY_LEN(ops); o++) {
        struct bench b;
        unsigned files = 0, files_now = 0;
        uint64_t bytes = 0, bytes_now = 0;
        open_quietly(&b);
        struct index *ix = make_index(&b, "i");
        load(&b, ix, 0, 300, false);
        assert_int_equal(try_flush(&b), RC_OK);
        measure(&b, &files, &bytes);
        struct index_stats before = stats(ix);
        load(&b, ix, 300, 900, false); /* more than a segment of 256 KiB */
        break_disk("checkpoint", ops[o], ".seg");
        for (int i = 0; i < 3; i++) {
            assert_int_equal(try_flush(&b), RC_FULL);
            measure(&b, &files_now, &bytes_now);
            assert_int_equal(files_now, files);
            assert_int_equal(bytes_now, bytes);
            assert_int_equal(stats(ix).segments, before.segments);
            assert_int_equal(stats(ix).disk_bytes, before.disk_bytes);
        }
        assert_true(atomic_load(&failures) >= 3);
        heal_disk();
        assert_int_equal(try_flush(&b), RC_OK);
        index_release(ix);
        bench_reopen(&b);
        ix = get_index(&b, "i");
        assert_int_equal(docs(ix), 900);
        for (size_t i = 0; i < 900; i += 7) {
            char id[16];
            snprintf(id, sizeof id, "%zu", i);
            assert_string_not_equal(get(&b, ix, id, NULL), "-");
        }
        index_release(ix);
        close_all(&b);
    }
}

/* The catalog cannot commit what names the blocks: the disk knows, so nothing is unlinked at once,
 * but nothing piles up once it can. */
static void test_strays_are_swept(void **state)
{
    (void)state;
    struct bench b;
    unsigned files = 0;
    uint64_t bytes = 0;
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 100, false);
    assert_int_equal(try_flush(&b), RC_OK);
    /* As if an attempt had written these and could not say whether the catalog names them. */
    run(&b, "cd indices/*/ && cp *.seg 00000040.seg && cp 00000040.seg 00000041.seg");
    pthread_mutex_lock(&b.store->layout);
    ix->strays = true;
    pthread_mutex_unlock(&b.store->layout);
    load(&b, ix, 100, 200, false);
    assert_int_equal(try_flush(&b), RC_OK);
    WAIT_UNTIL((measure(&b, &files, &bytes), files == stats(ix).segments));
    assert_int_equal(docs(ix), 200);
    run(&b, "cd indices/*/ && test ! -e 00000040.seg && test ! -e 00000041.seg");
    index_release(ix);
    close_all(&b);
}

/* One that cannot be removed stays one, and is tried again; so long tombstones stay: it may have
 * older rows of theirs. */
static void test_stray_that_stays_is_tried_again(void **state)
{
    (void)state;
    struct bench b;
    open_quietly(&b);
    b.store->o.gc_deletes_ms = 0;
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 300, false);
    assert_int_equal(try_flush(&b), RC_OK);
    run(&b, "cd indices/*/ && cp *0.seg 00000040.seg");
    break_disk("compaction", IO_OP_OTHER, "00000040.seg");
    pthread_mutex_lock(&b.store->layout);
    ix->strays = true;
    pthread_mutex_unlock(&b.store->layout);
    load(&b, ix, 0, 300, true);
    assert_int_equal(try_flush(&b), RC_OK);
    WAIT_UNTIL(atomic_load(&failures) >= 3);
    assert_int_equal(stats(ix).deleted, 300); /* the tombstones; the rows have gone */
    heal_disk();
    WAIT_UNTIL(shell(&b, "cd indices/*/ && test ! -e 00000040.seg") == 0);
    WAIT_UNTIL(stats(ix).deleted == 0);
    index_release(ix);
    close_all(&b);
}

/* ---- trying again */

/* Compaction fails; nothing else happens to the index; it is repeated. */
static void test_failed_rewriting_is_repeated(void **state)
{
    (void)state;
    struct bench b;
    unsigned files = 0;
    uint64_t bytes = 0, before = 0;
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 1000, false);
    assert_int_equal(try_flush(&b), RC_OK);
    measure(&b, &files, &before);
    break_disk("compaction", IO_OP_WRITE, ".seg");
    load(&b, ix, 100, 1000, true);
    assert_int_equal(try_flush(&b), RC_OK);
    WAIT_UNTIL(atomic_load(&failures) >= 1);
    assert_true(stats(ix).deleted >= 900);
    heal_disk();
    WAIT_UNTIL((measure(&b, &files, &bytes), bytes < before / 2));
    assert_int_equal(docs(ix), 100);
    index_release(ix);
    close_all(&b);
}

/* A flush after a checkpoint that failed carries over what came since, too. */
static void test_flush_after_a_failed_one_is_whole(void **state)
{
    (void)state;
    struct bench b;
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 100, false);
    break_disk("checkpoint", IO_OP_WRITE, ".seg");
    assert_int_equal(try_flush(&b), RC_FULL);
    heal_disk();
    load(&b, ix, 100, 200, false);
    assert_int_equal(try_flush(&b), RC_OK);
    pthread_mutex_lock(&ix->table);
    assert_null(ix->open);
    assert_int_equal(ix->pending_count, 0);
    assert_int_equal(ix->ids.active.count, 0);
    pthread_mutex_unlock(&ix->table);
    index_release(ix);
    close_all(&b);
}

/* A checkpoint of about as many keys as a transaction takes, and a disk that is full after its
 * first one: a block is named together with the state that goes with it, or not at all and taken
 * back. */
static void test_block_and_state_are_committed_together(void **state)
{
    (void)state;
    for (size_t keys = LIMIT_CATALOG_TXN_KEYS - 4; keys <= LIMIT_CATALOG_TXN_KEYS; keys++) {
        struct bench b;
        open_quietly(&b);
        struct index *ix = make_index(&b, "i");
        put(&b, ix, NULL, "{}");
        pthread_mutex_lock(&ix->write);
        pthread_mutex_lock(&ix->table);
        assert_true(seqset_reserve(&ix->dead, keys)); /* far behind: of no row */
        for (size_t i = 1; i <= keys; i++)
            seqset_add(&ix->dead, i * CATALOG_DEAD_SEQS);
        pthread_mutex_unlock(&ix->table);
        pthread_mutex_unlock(&ix->write);
        atomic_store(&commits_left, 1);
        assert_int_equal(try_flush(&b), RC_FULL);
        atomic_store(&commits_left, -1);
        index_release(ix);
        bench_crash(&b);
        ix = get_index(&b, "i");
        assert_int_equal(docs(ix), 1);
        index_release(ix);
        close_all(&b);
    }
}

/* Once LMDB does not know what the disk has, the node ends; what the catalog may name stays. */
static void test_lost_catalog_is_fatal(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    struct index *ix = NULL;
    struct index_create create = {
        .name = SLICE_LIT("second"),
        .spec = {.codec = CODEC_ZSTD, .level = 1, .block_bytes = 8 * KIB},
        .meta = {SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), 0},
    };
    open_quietly(&b);
    b.store->o.fatal = note_fatal;
    index_release(make_index(&b, "i"));
    atomic_store(&fatals, 0);
    atomic_store(&failing_commit, true);
    assert_int_equal(store_index_create(b.store, &create, &ix, &err), RC_IO);
    run(&b, "test $(ls indices | wc -l) = 2");
    assert_int_equal(try_flush(&b), RC_IO);
    assert_int_equal(atomic_load(&fatals), 1);
    atomic_store(&failing_commit, false);
    bench_reopen(&b);
    index_release(get_index(&b, "i"));
    close_all(&b);
}

static bool removal_failed(struct store *store)
{
    pthread_mutex_lock(&store->wake);
    bool failed = store->drops != NULL && store->drops->retry.wait_ms != 0;
    pthread_mutex_unlock(&store->wake);
    return failed;
}

static void test_failed_removal_is_repeated(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 100, false);
    assert_int_equal(try_flush(&b), RC_OK);
    break_disk("compaction", IO_OP_OTHER, "indices/");
    assert_int_equal(store_index_delete(b.store, ix, &err), RC_OK);
    index_release(ix);
    WAIT_UNTIL(removal_failed(b.store));
    assert_int_equal(shell(&b, "test -n \"$(ls indices)\""), 0);
    heal_disk();
    WAIT_UNTIL(shell(&b, "test -z \"$(ls indices)\"") == 0);
    close_all(&b);
}

static enum rc count_row(const struct row *row, void *arg)
{
    (void)row;
    ++*(size_t *)arg;
    return RC_OK;
}

/* Between its files and its keys: an index that goes is not a damaged one. */
static void test_deleted_index_is_not_damaged(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    struct got got = {0};
    struct snapshot *snapshot = NULL;
    uint64_t cursor = 0;
    size_t rows = 0;
    bool done = false;
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 100, false);
    assert_int_equal(try_flush(&b), RC_OK);
    assert_int_equal(store_snapshot_open(b.store, ix, &snapshot, &err), RC_OK);
    pthread_mutex_lock(&b.store->layout); /* its removal waits for this */
    assert_int_equal(store_index_delete(b.store, ix, &err), RC_OK);
    run(&b, "rm indices/*/*.seg");
    segment_files_forget(b.store->files, ix->number, UINT32_MAX);
    cache_forget(b.store->cache, ix->number, UINT32_MAX);
    assert_int_equal(store_get(b.store, ix, SLICE_LIT("7"), GET_ANY, &got, &err), RC_NOT_FOUND);
    assert_int_equal(
        store_snapshot_next(b.store, snapshot, &cursor, 100, &done, count_row, &rows, &err), RC_OK);
    assert_true(done && rows == 0);
    struct write_item it = item(ix, WRITE_INDEX, "7", "{}");
    assert_int_equal(write_items(&b, &it, 1), RC_OK);
    assert_int_equal(it.result, WRITE_REFUSED);
    assert_string_equal(it.err->msg, "no such index [i]");
    free(it.err);
    pthread_mutex_unlock(&b.store->layout);
    store_snapshot_close(b.store, snapshot);
    index_release(ix);
    close_all(&b);
}

/* Deleting everything gives everything back, tombstones too, without being asked to. */
static void test_tombstones_go_by_themselves(void **state)
{
    (void)state;
    struct bench b;
    open_quietly(&b);
    b.store->o.gc_deletes_ms = 100;
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, 1000, false);
    assert_int_equal(try_flush(&b), RC_OK);
    load(&b, ix, 0, 1000, true);
    assert_int_equal(try_flush(&b), RC_OK);
    WAIT_UNTIL((compact_poke(b.store), stats(ix).deleted == 0));
    assert_int_equal(docs(ix), 0);
    index_release(ix);
    close_all(&b);
}

/* ---- snapshots */

struct sees {
    size_t count;
    uint64_t from; /* documents below it are deleted */
};

static enum rc see(const struct row *row, void *arg)
{
    struct sees *s = arg;
    assert_true(row->seq >= s->from);
    s->count++;
    return RC_OK;
}

static void check_snapshot(struct bench *b, struct snapshot *snapshot, uint64_t from, size_t count)
{
    struct sees s = {0, from};
    struct err err = {0};
    uint64_t cursor = 0;
    bool done = false;
    assert_int_equal(store_snapshot_docs(snapshot), count);
    while (!done)
        assert_int_equal(
            store_snapshot_next(b->store, snapshot, &cursor, 1000, &done, see, &s, &err), RC_OK);
    assert_int_equal(s.count, count);
}

static size_t snapshot_memory(struct index *ix)
{
    pthread_mutex_lock(&ix->table);
    size_t n = snapshots_memory_locked(ix);
    pthread_mutex_unlock(&ix->table);
    return n;
}

/* Many are open while everything dies; each sees its moment, whatever the order in which they are
 * closed. A death is noted once for all of them, in a bit or a few bytes. */
static void test_snapshots_share_their_notes(void **state)
{
    enum { N = 10000, OPEN = 20, STEP = N / OPEN };
    struct snapshot *s[OPEN];
    struct bench b;
    struct err err = {0};
    unsigned seed = 11;
    (void)state;
    open_quietly(&b);
    b.store->o.gc_deletes_ms = 0;
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, N, false);
    for (size_t i = 0; i < OPEN; i++) {
        assert_int_equal(store_snapshot_open(b.store, ix, &s[i], &err), RC_OK);
        load(&b, ix, i * STEP, (i + 1) * STEP, true);
        if (i % 5 == 4)
            assert_int_equal(try_flush(&b), RC_OK);
    }
    assert_true(snapshot_memory(ix) <= N * 4 + OPEN * (sizeof(struct snapshot) + 3 * (24 + 8)));
    for (int i = 0; i < 2; i++)
        merge(&b);
    assert_int_equal(stats(ix).docs, 0);
    for (size_t left = OPEN; left != 0; left--) {
        size_t k = (size_t)rand_r(&seed) % left;
        size_t step = 0; /* which one it was: by what it sees */
        step = (N - (size_t)store_snapshot_docs(s[k])) / STEP;
        check_snapshot(&b, s[k], step * STEP, N - step * STEP);
        store_snapshot_close(b.store, s[k]);
        s[k] = s[left - 1];
        if (left == OPEN / 2) { /* rows that only closed ones saw may go, no others */
            merge(&b);
            for (size_t i = 0; i + 1 < left; i++) {
                step = (N - (size_t)store_snapshot_docs(s[i])) / STEP;
                check_snapshot(&b, s[i], step * STEP, N - step * STEP);
            }
        }
    }
    assert_int_equal(snapshot_memory(ix), 0);
    /* What they held back goes when the last one is closed. */
    WAIT_UNTIL((compact_poke(b.store), stats(ix).deleted == 0));
    index_release(ix);
    close_all(&b);
}

/* Heavy updates under one long snapshot: rows that it does not see cost nothing. */
static void test_snapshot_memory_is_bounded(void **state)
{
    enum { N = 5000 };
    struct snapshot *s = NULL;
    struct bench b;
    struct err err = {0};
    (void)state;
    open_quietly(&b);
    struct index *ix = make_index(&b, "i");
    load(&b, ix, 0, N, false);
    assert_int_equal(store_snapshot_open(b.store, ix, &s, &err), RC_OK);
    for (int round = 0; round < 5; round++) {
        load(&b, ix, 0, N, false);
        assert_int_equal(try_flush(&b), RC_OK);
        assert_true(snapshot_memory(ix) <= sizeof *s + (N / 4096 + 1) * 540);
    }
    merge(&b); /* compaction has looked, and nothing new will make it look again … */
    assert_true(stats(ix).deleted >= N);
    check_snapshot(&b, s, 0, N);
    store_snapshot_close(b.store, s);
    WAIT_UNTIL(stats(ix).deleted < N / 2); /* … but what the snapshot held back */
    assert_int_equal(docs(ix), N);
    index_release(ix);
    close_all(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_checkpoints_leave_nothing),
        cmocka_unit_test(test_strays_are_swept),
        cmocka_unit_test(test_stray_that_stays_is_tried_again),
        cmocka_unit_test(test_flush_after_a_failed_one_is_whole),
        cmocka_unit_test(test_block_and_state_are_committed_together),
        cmocka_unit_test(test_lost_catalog_is_fatal),
        cmocka_unit_test(test_deleted_index_is_not_damaged),
        cmocka_unit_test(test_failed_rewriting_is_repeated),
        cmocka_unit_test(test_failed_removal_is_repeated),
        cmocka_unit_test(test_tombstones_go_by_themselves),
        cmocka_unit_test(test_snapshots_share_their_notes),
        cmocka_unit_test(test_snapshot_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
