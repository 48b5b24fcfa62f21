/* SPDX-License-Identifier: Apache-2.0 */
/* What one forced merge leaves (P6 in storage/compact.c): full blocks in few segments, and nothing
 * for the next one to do. */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

static const struct codec_spec few_bytes = {
    .codec = CODEC_ZSTD, .level = 3, .dictionary = true, .block_bytes = 32 * KIB};

static struct index *make(struct bench *b, const struct codec_spec *spec)
{
    struct index_create create = {
        .name = SLICE_LIT("i"),
        .spec = *spec,
        .meta = {SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), 0},
    };
    struct index *ix = NULL;
    struct err err = {0};
    assert_int_equal(store_index_create(b->store, &create, &ix, &err), RC_OK);
    return ix;
}

#define AGENTS 120

/* A log of a web server, with ids of the client. Its agents recur in every block, and do not
 * compress by themselves: a dictionary pays. */
static void fill(struct bench *b, struct index *ix, size_t from, size_t count)
{
    struct write_item *items = calloc(count, sizeof *items);
    char(*text)[384] = calloc(count, sizeof *text), (*id)[24] = calloc(count, sizeof *id);
    unsigned seed = (unsigned)from + 1;
    assert_true(items != NULL && text != NULL && id != NULL);
    for (size_t i = 0; i < count; i++) {
        int r = rand_r(&seed);
        unsigned agent = (unsigned)(r % AGENTS);
        snprintf(id[i], sizeof id[i], "%08x-%zu", (unsigned)rand_r(&seed), from + i);
        int at = snprintf(text[i], sizeof text[i],
                          "{\"n\":%zu,\"client\":\"10.%d.%d.7\",\"request\":{\"method\":\"%s\","
                          "\"path\":\"/shop/%d/item-%d\"},\"bytes\":%d,\"agent\":\"",
                          from + i, r % 200, r % 31, r % 9 == 0 ? "POST" : "GET", r % 50, r % 977,
                          r % 90001);
        for (size_t k = 0; k < 20; k++)
            at += snprintf(text[i] + at, sizeof text[i] - (size_t)at, "%08x", rand_r(&agent));
        snprintf(text[i] + at, sizeof text[i] - (size_t)at, "\"}");
        items[i] = item(ix, WRITE_INDEX, id[i], text[i]);
    }
    assert_int_equal(write_items(b, items, count), RC_OK);
    free(items);
    free(text);
    free(id);
}

/* Another merge makes no blocks anew. */
static void nothing_left(struct bench *b, struct index *ix)
{
    uint64_t rewrites = atomic_load(&b->store->rewrites);
    struct index_stats before = stats(ix);
    merge(b);
    struct index_stats after = stats(ix);
    assert_int_equal(atomic_load(&b->store->rewrites), rewrites);
    assert_int_equal(after.blocks, before.blocks);
    assert_int_equal(after.segments, before.segments);
    assert_int_equal(after.disk_bytes, before.disk_bytes);
}

static void open_bench(struct bench *b)
{
    bench_init(b);
    b->o.segment_bytes = 64 * MIB;
    b->o.wal_bytes = 64 * MIB;
    bench_open(b);
}

/* Blocks from before the dictionary are made anew; those from after it, in the same segment, too,
 * so that what the old ones took is free at once. */
static void test_dictionary_in_the_middle(void **state)
{
    struct bench b;
    struct err err = {0};
    (void)state;
    open_bench(&b);
    struct index *ix = make(&b, &few_bytes);
    fill(&b, ix, 0, 8000);
    flush(&b);
    assert_int_equal(index_train(ix, true, &err), RC_OK);
    assert_int_equal(stats(ix).dictionary, 1);
    fill(&b, ix, 8000, 8000);
    merge(&b);
    struct index_stats s = stats(ix);
    assert_int_equal(s.segments, 1);
    assert_in_range(s.disk_bytes, s.block_bytes, s.block_bytes + s.dictionary_bytes + 4096);
    nothing_left(&b, ix);
    index_release(ix);
    bench_reopen(&b);
    ix = get_index(&b, "i");
    nothing_left(&b, ix);
    assert_int_equal(docs(ix), 16000);
    index_release(ix);
    bench_done(&b);
}

/* What was written while a dictionary was being published is made anew by the next merge, when it
 * was not on disk for this one. */
static void test_dictionary_before_the_rows_are_on_disk(void **state)
{
    struct bench b;
    struct err err = {0};
    (void)state;
    open_bench(&b);
    struct index *ix = make(&b, &few_bytes);
    fill(&b, ix, 0, 8000);
    flush(&b);
    fill(&b, ix, 8000, 8000); /* packed, and in no segment yet */
    assert_int_equal(index_train(ix, true, &err), RC_OK);
    assert_int_equal(stats(ix).dictionary, 1);
    struct wait w = WAIT_INIT; /* without the flush of store_merge */
    struct flush_request *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *f = (struct flush_request){.index = ix, .merge = true, .done = flush_done, .arg = &w};
    pthread_mutex_lock(&b.store->wake);
    f->next = b.store->merges;
    b.store->merges = f;
    pthread_cond_signal(&b.store->wake_compact);
    pthread_mutex_unlock(&b.store->wake);
    assert_int_equal(wait_for(&w), RC_OK);
    flush(&b);
    uint64_t before = stats(ix).block_bytes;
    merge(&b);
    assert_true(stats(ix).block_bytes < before * 95 / 100);
    nothing_left(&b, ix);
    index_release(ix);
    bench_done(&b);
}

/* A segment of each life is joined with the others. */
static void test_segments_of_many_lives(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b);
    struct index *ix = make(&b, &few_bytes);
    for (size_t life = 0; life < 4; life++) {
        fill(&b, ix, life * 2000, 2000);
        flush(&b);
        index_release(ix);
        bench_reopen(&b);
        ix = get_index(&b, "i");
    }
    assert_int_equal(stats(ix).segments, 4);
    merge(&b);
    assert_int_equal(stats(ix).segments, 1);
    nothing_left(&b, ix);
    index_release(ix);
    bench_reopen(&b); /* alone it stays where it is … */
    ix = get_index(&b, "i");
    nothing_left(&b, ix);
    fill(&b, ix, 8000, 2000); /* … until there is another one to go with */
    merge(&b);
    assert_int_equal(stats(ix).segments, 1);
    nothing_left(&b, ix);
    assert_int_equal(docs(ix), 10000);
    index_release(ix);
    bench_done(&b);
}

/* Blocks sealed early say nothing about how large the next ones may get: neither the last one of a
 * load, nor all of those of an index that is written little by little. */
static void test_short_blocks_do_not_make_small_ones(void **state)
{
    const struct codec_spec *spec = &codec_find(SLICE_LIT("zstd"))->spec;
    struct bench b;
    (void)state;
    open_bench(&b);
    struct index *ix = make(&b, spec);
    fill(&b, ix, 0, 20000);
    size_t target = index_block_target(ix);
    assert_in_range(target, DEFAULT_BLOCK_BYTES_MIN + 1, DEFAULT_BLOCK_BYTES - 1);
    for (size_t i = 20000; i < 20590; i += 59) {
        fill(&b, ix, i, 59);
        flush(&b);
    }
    /* Joined blocks may make larger ones: here, the more rows, the better they pack. */
    assert_true(index_block_target(ix) > target * 3 / 4);
    merge(&b);
    uint64_t at_once = stats(ix).blocks;
    struct err err = {0};
    assert_int_equal(store_index_delete(b.store, ix, &err), RC_OK);
    index_release(ix);
    ix = make(&b, spec);
    for (size_t i = 0; i < 20590; i += 59) {
        fill(&b, ix, i, 59);
        flush(&b);
    }
    merge(&b);
    assert_in_range(stats(ix).blocks, at_once * 3 / 4, at_once * 5 / 4 + 1);
    nothing_left(&b, ix);
    assert_int_equal(docs(ix), 20591);
    index_release(ix);
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dictionary_in_the_middle),
        cmocka_unit_test(test_dictionary_before_the_rows_are_on_disk),
        cmocka_unit_test(test_segments_of_many_lives),
        cmocka_unit_test(test_short_blocks_do_not_make_small_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
