/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries of an index: the last copy of one that a block in the log needs, what stays in
 * memory, what a state keeps, and beginning where the predecessor is. */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

#define WORDS 120
#define DOCS  6000

static struct index *make(struct bench *b, const char *name, struct index *predecessor)
{
    struct index_create create = {
        .name = slice_str(name),
        .spec = {.codec = CODEC_ZSTD, .level = 3, .dictionary = true, .block_bytes = 32 * KIB},
        .meta = {SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), 0},
        .predecessor = predecessor,
    };
    struct index *ix = NULL;
    struct err err = {0};
    assert_int_equal(store_index_create(b->store, &create, &ix, &err), RC_OK);
    return ix;
}

/* Few words that recur in every block, and do not compress by themselves: a dictionary pays. With
 * noise no word recurs. */
static void fill(struct bench *b, struct index *ix, size_t from, size_t count, bool noise)
{
    struct write_item *items = calloc(count, sizeof *items);
    char(*text)[224] = calloc(count, sizeof *text);
    assert_non_null(items);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        uint64_t x = noise ? from + i + 1000000 : (from + i) % WORDS;
        int at = snprintf(text[i], sizeof text[i], "{\"n\":%zu,\"w\":\"", from + i);
        for (size_t k = 0; k < 10; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            at += snprintf(text[i] + at, sizeof text[i] - (size_t)at, "%016llx",
                           (unsigned long long)(x ^ x >> 29));
        }
        snprintf(text[i] + at, sizeof text[i] - (size_t)at, "\"}");
        items[i] = item(ix, WRITE_INDEX, NULL, text[i]);
    }
    assert_int_equal(write_items(b, items, count), RC_OK);
    free(items);
    free(text);
}

static struct index *trained(struct bench *b, const char *name)
{
    struct index *ix = make(b, name, NULL);
    fill(b, ix, 0, DOCS, false);
    merge(b);
    assert_int_equal(stats(ix).dictionary, 1);
    assert_int_equal(stats(ix).dictionary_outcome, DICT_TRAINED);
    assert_true(stats(ix).dictionary_bytes > 4096);
    return ix;
}

struct copies_seen {
    struct dict_copy first;
    size_t count;
};

static enum rc see(const struct dict_copy *copy, void *arg)
{
    struct copies_seen *seen = arg;
    if (seen->count++ == 0)
        seen->first = *copy;
    return RC_OK;
}

static struct copies_seen copies(struct index *ix)
{
    struct copies_seen seen = {.count = 0};
    struct err err = {0};
    assert_int_equal(index_dict_each(ix, see, &seen, &err), RC_OK);
    return seen;
}

static void leave(struct index *ix, uint32_t segment)
{
    struct err err = {0};
    pthread_mutex_lock(&ix->store->layout);
    assert_int_equal(checkpoint_finish_segment(ix, &err), RC_OK);
    enum rc rc = index_dict_leave(ix, segment, &err);
    pthread_mutex_unlock(&ix->store->layout);
    if (rc != RC_OK)
        fail_msg("index_dict_leave: %s", err.msg);
}

static size_t packed_pending(struct index *ix)
{
    size_t n = 0;
    pthread_mutex_lock(&ix->table);
    for (size_t i = 0; i < ix->pending_count; i++)
        n += ix->pending[i]->state == PENDING_PACKED;
    pthread_mutex_unlock(&ix->table);
    return n;
}

/* Q3: the dictionary has been replaced, but the log has blocks made with it. */
static void test_last_copy_of_what_the_log_needs(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = trained(&b, "a");
    fill(&b, ix, DOCS, 2000, false); /* blocks of one write are packed before it is answered */
    assert_true(packed_pending(ix) > 3);
    struct copies_seen seen = copies(ix);
    assert_int_equal(seen.count, 1);
    pthread_mutex_lock(&ix->table);
    ix->dict_current = 0; /* as if another had come, and gone */
    pthread_mutex_unlock(&ix->table);
    leave(ix, seen.first.segment);
    struct copies_seen after = copies(ix);
    assert_int_equal(after.count, 1);
    assert_int_equal(after.first.number, 1);
    assert_true(after.first.segment != seen.first.segment);
    /* Once they are in segments with copies of their own, the extra one may go. */
    flush(&b);
    assert_int_equal(packed_pending(ix), 0);
    for (seen = copies(ix); seen.count != 0; seen = copies(ix))
        leave(ix, seen.first.segment);
    index_release(ix);
    bench_close(&b); /* what the blocks need is gone: not to be opened any more */
    run(&b, "rm -rf \"$PWD\"");
}

static void test_current_one_stays(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = trained(&b, "a");
    uint32_t segment = copies(ix).first.segment;
    for (int i = 0; i < 3; i++) { /* also when it is in memory no more */
        index_dicts_rest(ix);
        index_dicts_rest(ix);
        assert_int_equal(ix->dict_count, 0);
        leave(ix, segment);
        struct copies_seen after = copies(ix);
        assert_int_equal(after.count, 1);
        assert_true(after.first.segment != segment);
        segment = after.first.segment;
    }
    index_release(ix);
    bench_done(&b);
}

static atomic_bool disk_full; /* for segments, to compaction */
static atomic_uint refused;

static enum io_fault hook(enum io_op op, const char *path)
{
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (!atomic_load(&disk_full) || op != IO_OP_WRITE || strcmp(name, "compaction") != 0 ||
        strstr(path, ".seg") == NULL)
        return IO_FAULT_NONE;
    atomic_fetch_add(&refused, 1);
    return IO_FAULT_FULL;
}

/* A segment that has nothing but the current dictionary any more goes, and when that cannot be
 * written anywhere else, later. */
static void test_leaving_is_repeated(void **state)
{
    struct bench b;
    struct wait w = WAIT_INIT;
    (void)state;
    bench_init(&b);
    io_fault_hook = hook;
    bench_open(&b);
    struct index *ix = trained(&b, "a");
    leave(ix, copies(ix).first.segment);
    index_release(ix);
    bench_reopen(&b); /* now it is not written to any more */
    ix = get_index(&b, "a");
    uint32_t segment = copies(ix).first.segment;
    char path[300];
    snprintf(path, sizeof path, "%s/indices/%s/%08x.seg", b.dir, ix->dir_name, segment);
    assert_int_equal(access(path, F_OK), 0);
    atomic_store(&disk_full, true);
    store_merge(b.store, ix, flush_done, &w);
    assert_int_equal(wait_for(&w), RC_FULL);
    for (int tries = 0; atomic_load(&refused) < 3; tries++) {
        assert_true(tries < 1500);
        usleep(10000);
    }
    assert_int_equal(copies(ix).first.segment, segment);
    atomic_store(&disk_full, false);
    for (int tries = 0; access(path, F_OK) == 0; tries++) {
        assert_true(tries < 1500);
        usleep(10000);
    }
    assert_int_equal(copies(ix).count, 1);
    assert_true(copies(ix).first.segment != segment);
    assert_int_equal(docs(ix), DOCS);
    index_release(ix);
    bench_done(&b);
    io_fault_hook = NULL;
}

/* Blocks are made without the dictionary when it cannot be read, new ones and rewritten ones. */
static void test_unreadable(void **state)
{
    struct bench b;
    struct err err = {0};
    char path[300];
    uint8_t garbage[64] = {1, 2, 3};
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make(&b, "a", NULL);
    fill(&b, ix, 0, DOCS, false);
    flush(&b);
    assert_int_equal(index_train(ix, true, &err), RC_OK);
    assert_int_equal(stats(ix).dictionary, 1);
    struct dict_copy copy = copies(ix).first;
    snprintf(path, sizeof path, "%s/indices/%s/%08x.seg", b.dir, ix->dir_name, copy.segment);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)copy.at + 128, SEEK_SET), 0);
    assert_int_equal(fwrite(garbage, 1, sizeof garbage, f), sizeof garbage);
    assert_int_equal(fclose(f), 0);
    index_dicts_rest(ix);
    index_dicts_rest(ix);
    uint64_t rewrites = atomic_load(&b.store->rewrites), bytes = stats(ix).block_bytes;
    merge(&b); /* all are older than the dictionary: made anew */
    assert_true(atomic_load(&b.store->rewrites) > rewrites);
    assert_in_range(stats(ix).block_bytes, bytes * 9 / 10, bytes * 11 / 10);
    fill(&b, ix, DOCS, 500, false);
    flush(&b);
    assert_int_equal(docs(ix), DOCS + 500);
    index_release(ix);
    bench_done(&b);
}

static void test_state_is_kept(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make(&b, "noise", NULL);
    fill(&b, ix, 0, 3000, true);
    merge(&b);
    struct index_stats s = stats(ix);
    assert_int_equal(s.dictionary, 0);
    assert_true(s.dictionary_outcome == DICT_NOTHING || s.dictionary_outcome == DICT_NO_GAIN);
    uint64_t try_raw = ix->dict_judged.try_raw;
    assert_int_equal(try_raw, 2 * s.raw_bytes);
    unsigned ratio = atomic_load(&ix->packed_ratio);
    assert_true(ratio > 1000);
    index_release(ix);
    bench_crash(&b);
    ix = get_index(&b, "noise");
    assert_int_equal(stats(ix).dictionary_outcome, s.dictionary_outcome);
    assert_int_equal(ix->dict_judged.try_raw, try_raw);
    assert_int_equal(atomic_load(&ix->packed_ratio), ratio);
    /* Something to learn from now, but not twice as much yet: no second try. */
    fill(&b, ix, 0, 2000, false);
    merge(&b);
    assert_int_equal(stats(ix).dictionary, 0);
    assert_int_equal(ix->dict_judged.try_raw, try_raw);
    fill(&b, ix, 2000, DOCS, false);
    merge(&b);
    assert_int_equal(stats(ix).dictionary, 1);
    index_release(ix);
    bench_done(&b);
}

/* Samples are of newer blocks, too, however short the first one is: what recurs is only there. */
static void test_samples_of_all(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make(&b, "a", NULL);
    fill(&b, ix, 0, 10, true);
    flush(&b);
    for (size_t i = 0; i < 9; i++)
        fill(&b, ix, 10 + i * DOCS, DOCS, i < 5);
    merge(&b);
    assert_int_equal(stats(ix).dictionary_outcome, DICT_TRAINED);
    index_release(ix);
    bench_done(&b);
}

static void test_too_little(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make(&b, "little", NULL);
    fill(&b, ix, 0, 100, false);
    merge(&b);
    assert_int_equal(stats(ix).dictionary, 0);
    assert_int_equal(stats(ix).dictionary_outcome, DICT_TOO_LITTLE);
    index_release(ix);
    bench_done(&b);
}

static void wait_for_dictionary(struct index *ix)
{
    for (int i = 0; i < 2000 && stats(ix).dictionary == 0; i++)
        usleep(5000);
}

/* The next of a series: nothing while it is small, then the predecessor's, before any checkpoint;
 * and it does without the predecessor then. */
static void test_follows(void **state)
{
    struct bench b;
    struct err err = {0};
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *first = trained(&b, "day-1");
    struct index *small = make(&b, "day-2", first);
    assert_int_equal(atomic_load(&small->packed_ratio), atomic_load(&first->packed_ratio));
    fill(&b, small, 0, 100, false);
    flush(&b);
    assert_int_equal(stats(small).dictionary, 0);
    assert_int_equal(stats(small).dictionary_outcome, DICT_UNTRIED);
    assert_int_equal(copies(small).count, 0);
    /* What it did not take over itself it passes on, over a restart, too. */
    index_release(first);
    index_release(small);
    bench_crash(&b);
    first = get_index(&b, "day-1");
    small = get_index(&b, "day-2");
    assert_int_equal(small->dict_from, first->number);
    struct index *ix = make(&b, "day-3", small);
    assert_int_equal(ix->dict_from, first->number);
    fill(&b, ix, 0, DOCS / 2, false);
    fill(&b, ix, DOCS / 2, DOCS / 2, false);
    wait_for_dictionary(ix);
    assert_int_equal(stats(ix).dictionary, 1);
    assert_int_equal(stats(ix).dictionary_outcome, DICT_FOLLOWED);
    fill(&b, ix, DOCS, 2000, false);
    assert_int_equal(store_index_delete(b.store, first, &err), RC_OK);
    index_release(first);
    index_release(small);
    uint64_t want = docs(ix);
    index_release(ix);
    bench_crash(&b); /* its blocks are in the log */
    ix = get_index(&b, "day-3");
    assert_int_equal(docs(ix), want);
    assert_int_equal(stats(ix).dictionary, 1);
    assert_int_equal(stats(ix).dictionary_outcome, DICT_FOLLOWED);
    merge(&b); /* opens every block */
    assert_int_equal(docs(ix), want);
    index_release(ix);
    bench_done(&b);
}

static void test_bequest(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = trained(&b, "a");
    struct codec_spec spec = ix->spec;
    assert_int_equal(index_bequest(ix, &spec), BEQUEST_DICTIONARY);
    spec.dictionary = false;
    assert_int_equal(index_bequest(ix, &spec), BEQUEST_RATIO);
    spec.codec = CODEC_LZ4;
    assert_int_equal(index_bequest(ix, &spec), BEQUEST_RATIO);
    spec = ix->spec;
    spec.layout = LAYOUT_COLUMNAR;
    assert_int_equal(index_bequest(ix, &spec), BEQUEST_NOTHING);
    struct index *fresh = make(&b, "b", NULL);
    assert_int_equal(index_bequest(fresh, &ix->spec), BEQUEST_NOTHING);
    index_release(fresh);
    index_release(ix);
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_copy_of_what_the_log_needs),
        cmocka_unit_test(test_current_one_stays),
        cmocka_unit_test(test_leaving_is_repeated),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_state_is_kept),
        cmocka_unit_test(test_samples_of_all),
        cmocka_unit_test(test_too_little),
        cmocka_unit_test(test_follows),
        cmocka_unit_test(test_bequest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
