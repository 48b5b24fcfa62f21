/* SPDX-License-Identifier: Apache-2.0 */
/* The id index over time: entries of what is gone leave it, and not too early; its memory stays in
 * its budget over many indices; what merging writes is reported. */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

#define BATCH 200

/* Ids "<prefix><n>" of [from, to), in requests of BATCH. */
static void batch(struct bench *b, struct index *ix, enum write_op op, const char *prefix,
                  size_t from, size_t to)
{
    struct write_item items[BATCH];
    char ids[BATCH][24];
    for (size_t at = from; at < to;) {
        size_t n = 0;
        for (; n < BATCH && at < to; n++, at++) {
            snprintf(ids[n], sizeof ids[n], "%s%zu", prefix, at);
            items[n] = item(ix, op, ids[n], op == WRITE_DELETE ? NULL : "{\"some\":\"text\"}");
        }
        assert_int_equal(write_items(b, items, n), RC_OK);
    }
}

static void check(struct bench *b, struct index *ix, const char *prefix, size_t from, size_t to,
                  bool there)
{
    char id[24];
    for (size_t i = from; i < to; i++) {
        snprintf(id, sizeof id, "%s%zu", prefix, i);
        assert_string_equal(get(b, ix, id, NULL), there ? "{\"some\":\"text\"}" : "-");
    }
}

/* Background work is done when what it changes says so; at most a minute. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        int tries_ = 0;                                                                            \
        while (!(condition)) {                                                                     \
            if (++tries_ == 6000)                                                                  \
                fail_msg("never: %s", #condition);                                                 \
            usleep(10000);                                                                         \
        }                                                                                          \
    } while (0)

static void test_entries_of_what_is_gone_leave(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    batch(&b, ix, WRITE_INDEX, "a", 0, 3000);
    flush(&b);
    assert_int_equal(stats(ix).ids, 3000);
    batch(&b, ix, WRITE_DELETE, "a", 10, 3000);
    flush(&b);
    for (int i = 0; i < 5; i++)
        merge(&b);
    assert_int_equal(stats(ix).deleted, 0);
    assert_int_equal(stats(ix).id_runs, 1);
    assert_true(stats(ix).ids <= 10 + 10 / 8 + 64);
    for (int round = 0; round < 2; round++) {
        check(&b, ix, "a", 0, 10, true);
        check(&b, ix, "a", 10, 3000, false);
        index_release(ix);
        bench_reopen(&b);
        ix = get_index(&b, "i");
    }
    assert_int_equal(put(&b, ix, "a10", "{}").version_out, 1);
    index_release(ix);
    bench_done(&b);
}

/* Deleted ids whose rows have gone from the blocks, in a run that is merged without the one that
 * has their older entries: the tombstones' entries stay until both are merged (L2). */
static void test_tombstone_outlives_older_entries(void **state)
{
    (void)state;
    enum { N = 100, GONE = 60, RUNS = 7, NEW = 8 };
    struct bench b;
    bench_init(&b);
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    batch(&b, ix, WRITE_INDEX, "a", 0, N);
    flush(&b);
    batch(&b, ix, WRITE_DELETE, "a", 0, GONE);
    flush(&b);
    size_t more = 0;
    for (; more < 50 && stats(ix).deleted != 0; more++) { /* each flush is a look */
        put(&b, ix, more % 2 == 0 ? "x" : "y", "{}");
        flush(&b);
        usleep(20000);
    }
    WAIT_UNTIL(stats(ix).deleted <= more);
    for (size_t r = 0; r < RUNS; r++) {
        batch(&b, ix, WRITE_INDEX, "b", r * NEW, (r + 1) * NEW);
        flush(&b);
    }
    WAIT_UNTIL(stats(ix).id_runs <= 2);
    assert_true(stats(ix).ids >= N + GONE + RUNS * NEW);
    check(&b, ix, "a", 0, GONE, false);
    for (int i = 0; i < 3; i++)
        merge(&b);
    assert_int_equal(stats(ix).ids, N - GONE + RUNS * NEW + (more > 1 ? 2 : more));
    check(&b, ix, "a", 0, GONE, false);
    check(&b, ix, "a", GONE, N, true);
    check(&b, ix, "b", 0, (size_t)RUNS * NEW, true);
    index_release(ix);
    bench_done(&b);
}

/* As long as the tombstone is there, so is its entry: the version counts, the id stays deleted. */
static void test_tombstone_is_kept_while_it_counts(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b); /* index.gc_deletes: an hour */
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    batch(&b, ix, WRITE_INDEX, "a", 0, 1000);
    flush(&b);
    batch(&b, ix, WRITE_DELETE, "a", 0, 1000);
    for (int i = 0; i < 3; i++)
        merge(&b);
    assert_int_equal(stats(ix).ids, 1000); /* the documents' own have gone */
    check(&b, ix, "a", 0, 1000, false);
    assert_int_equal(put(&b, ix, "a7", "{}").version_out, 3);
    index_release(ix);
    bench_done(&b);
}

/* What is written again by merging, over what was written first. */
static void test_write_amplification(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (size_t i = 0; i < 16; i++) {
        batch(&b, ix, WRITE_INDEX, "a", i * 500, (i + 1) * 500);
        flush(&b);
    }
    struct index_stats s = stats(ix);
    /* 500 entries of 5 to 6 bytes and their directory. */
    assert_in_range(s.ids_flushed_bytes, 8000 * 4, 8000 * 8);
    merge(&b);
    s = stats(ix);
    assert_int_equal(s.id_runs, 1);
    assert_in_range(s.ids_merged_bytes, s.ids_flushed_bytes / 2, s.ids_flushed_bytes * 3);
    index_release(ix);
    bench_done(&b);
}

/* Where syncs cost nothing, if there is such a place: a checkpoint of so many indices has
 * thousands. */
static void in_memory(struct bench *b)
{
    char dir[sizeof b->dir] = "/dev/shm/stowd-test-store-XXXXXX";
    if (mkdtemp(dir) == NULL)
        return;
    rmdir(b->dir);
    memcpy(b->dir, dir, sizeof dir);
}

/* 1,000 indices that all get ids: their memory together stays within the budget, and what one
 * request brings (E4). Without it they would need 4.5 MB here. */
static void test_memory_budget(void **state)
{
    (void)state;
    enum { INDICES = 1000, EACH = 10, REQUESTS = 12, BUDGET = 2 * MIB, REQUEST = INDICES * 1536 };
    struct bench b;
    struct index **ix = calloc(INDICES, sizeof *ix);
    struct write_item *items = calloc((size_t)INDICES * EACH, sizeof *items);
    char(*ids)[16] = calloc((size_t)INDICES * EACH, sizeof *ids), name[16];
    size_t most = 0;
    bench_init(&b);
    in_memory(&b);
    b.o.id_memory_bytes = BUDGET;
    b.o.wal_bytes = 64 * MIB;
    bench_open(&b);
    for (size_t i = 0; i < INDICES; i++) {
        snprintf(name, sizeof name, "i%zu", i);
        ix[i] = make_index(&b, name);
    }
    for (size_t r = 0; r < REQUESTS; r++) {
        for (size_t k = 0; k < (size_t)INDICES * EACH; k++) {
            snprintf(ids[k], sizeof ids[k], "%zu", r * EACH + k % EACH);
            items[k] = item(ix[k / EACH], WRITE_INDEX, ids[k], "{}");
        }
        enum rc rc;
        while ((rc = write_items(&b, items, (size_t)INDICES * EACH)) == RC_BUSY)
            usleep(10000);
        assert_int_equal(rc, RC_OK);
        struct store_stats s;
        store_stats_get(b.store, &s);
        assert_int_equal(s.id_memory_budget, BUDGET);
        most = s.id_memory > most ? s.id_memory : most;
    }
    assert_in_range(most, INDICES, BUDGET + REQUEST);
    flush(&b);
    struct store_stats s;
    store_stats_get(b.store, &s);
    assert_int_equal(s.id_memory, 0);
    for (size_t i = 0; i < INDICES; i++) {
        assert_int_equal(docs(ix[i]), REQUESTS * EACH);
        assert_string_equal(get(&b, ix[i], "7", NULL), "{}");
        index_release(ix[i]);
    }
    bench_done(&b);
    free(ix);
    free(items);
    free(ids);
}

/* What a deleted index holds while somebody still has it is nobody's to wait for. */
static void test_deleted_index_leaves_the_budget(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    struct store_stats s;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    batch(&b, ix, WRITE_INDEX, "a", 0, 2000);
    store_stats_get(b.store, &s);
    assert_in_range(s.id_memory, 2000, 1 * MIB);
    assert_int_equal(store_index_delete(b.store, ix, &err), RC_OK);
    store_stats_get(b.store, &s);
    assert_int_equal(s.id_memory, 0);
    index_release(ix);
    store_stats_get(b.store, &s);
    assert_int_equal(s.id_memory, 0);
    bench_done(&b);
}

/* Room that was made for ids that are not there is given back by the next checkpoint. */
static void test_room_without_ids_is_given_back(void **state)
{
    (void)state;
    enum { INDICES = 70 };
    struct bench b;
    struct store_stats s;
    struct index *ix[INDICES];
    char name[16];
    bench_init(&b);
    b.o.id_memory_bytes = 4 * MIB;
    bench_open(&b);
    for (size_t i = 0; i < INDICES; i++) {
        snprintf(name, sizeof name, "i%zu", i);
        ix[i] = make_index(&b, name);
        batch(&b, ix[i], WRITE_DELETE, "not there ", 0, BATCH);
    }
    store_stats_get(b.store, &s);
    assert_in_range(s.id_memory, 1 * MIB, 2 * MIB);
    flush(&b);
    store_stats_get(b.store, &s);
    assert_int_equal(s.id_memory, 0);
    for (size_t i = 0; i < INDICES; i++) {
        batch(&b, ix[i], WRITE_INDEX, "a", 0, 3);
        check(&b, ix[i], "a", 0, 3, true);
        index_release(ix[i]);
    }
    bench_done(&b);
}

/* A damaged piece of the id index fails a write before any of it is applied, not the node. */
static void test_damaged_run_fails_the_write_alone(void **state)
{
    (void)state;
    struct bench b;
    struct catalog_txn *txn = NULL;
    bench_init(&b);
    bench_open(&b);
    struct index *first = make_index(&b, "a"), *second = make_index(&b, "b");
    batch(&b, first, WRITE_INDEX, "a", 0, 10);
    batch(&b, second, WRITE_INDEX, "a", 0, 10);
    flush(&b);
    assert_int_equal(second->idruns->count, 1);
    assert_int_equal(catalog_begin(b.store->catalog, &txn, NULL), RC_OK);
    assert_int_equal(catalog_put_piece(txn, second->number, second->idruns->run[0].number, 0,
                                       SLICE_LIT("?"), NULL),
                     RC_OK);
    assert_int_equal(catalog_commit(txn, NULL), RC_OK);
    struct write_item items[] = {item(first, WRITE_INDEX, "new", "{}"),
                                 item(second, WRITE_INDEX, "a3", "{}")};
    assert_int_equal(write_items(&b, items, 2), RC_CORRUPT);
    assert_false(atomic_load(&b.store->failed));
    assert_int_equal(docs(first), 10);
    put(&b, first, "new", "{}");
    assert_int_equal(docs(first), 11);
    index_release(first);
    index_release(second);
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_of_what_is_gone_leave),
        cmocka_unit_test(test_tombstone_outlives_older_entries),
        cmocka_unit_test(test_tombstone_is_kept_while_it_counts),
        cmocka_unit_test(test_write_amplification),
        cmocka_unit_test(test_memory_budget),
        cmocka_unit_test(test_deleted_index_leaves_the_budget),
        cmocka_unit_test(test_room_without_ids_is_given_back),
        cmocka_unit_test(test_damaged_run_fails_the_write_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
