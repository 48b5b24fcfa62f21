/* SPDX-License-Identifier: Apache-2.0 */
/* The block cache: pins keep blocks alive, everything else stays within the budget. */
#include "storage/cache.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define DOC_BYTES 1000

static struct cache_key key_of(uint64_t seq)
{
    return (struct cache_key){.index_no = 1, .segment = (uint32_t)(seq / 10), .at = seq * 64};
}

static struct block *make_block(uint64_t seq)
{
    static const struct codec_spec spec = {.codec = CODEC_NONE, .block_bytes = 65536};
    static const uint8_t doc[DOC_BYTES];
    struct row row = {.seq = seq, .version = 1, .term = 1, .doc = {doc, sizeof doc}};
    struct buf record = {0};
    struct block *block = NULL;
    assert_int_equal(block_pack(1, &spec, NULL, &row, 1, &record, NULL), RC_OK);
    assert_int_equal(block_open(buf_slice(&record), 1, seq, BLOCK_ALL, NULL, &block, NULL), RC_OK);
    buf_done(&record);
    return block;
}

static struct cache_entry *get(struct cache *cache, uint64_t seq)
{
    struct cache_key key = key_of(seq);
    return cache_get(cache, &key);
}

static struct cache_entry *put(struct cache *cache, uint64_t seq)
{
    struct cache_key key = key_of(seq);
    return cache_put(cache, &key, make_block(seq));
}

static bool has(struct cache *cache, uint64_t seq)
{
    struct cache_entry *e = get(cache, seq);
    if (e != NULL)
        assert_int_equal(block_head(cache_block(e))->first_seq, seq);
    cache_release(cache, e);
    return e != NULL;
}

static struct cache_stats stats(struct cache *cache)
{
    struct cache_stats s;
    cache_stats(cache, &s);
    return s;
}

static void test_budget(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    assert_int_equal(cache_create(20000, &cache, NULL), RC_OK);
    for (uint64_t seq = 0; seq < 100; seq++) {
        cache_release(cache, put(cache, seq));
        assert_true(stats(cache).bytes <= 20000);
        assert_true(has(cache, seq));
    }
    struct cache_stats s = stats(cache);
    assert_in_range(s.entries, 12, 20);
    assert_int_equal(s.evictions, 100 - s.entries);
    assert_int_equal(s.hits, 100);
    assert_int_equal(s.misses, 0);
    assert_int_equal(s.budget, 20000);
    assert_false(has(cache, 0));
    assert_int_equal(stats(cache).misses, 1);
    cache_destroy(cache);
}

/* What is used again and again stays while a scan goes through. */
static void test_used_stays(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    assert_int_equal(cache_create(20000, &cache, NULL), RC_OK);
    cache_release(cache, put(cache, 0));
    for (uint64_t seq = 1; seq < 200; seq++) {
        assert_true(has(cache, 0));
        cache_release(cache, put(cache, seq));
    }
    assert_true(has(cache, 0));
    cache_destroy(cache);
}

static void test_pins(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    struct cache_entry *pins[40];
    assert_int_equal(cache_create(5000, &cache, NULL), RC_OK);
    for (uint64_t seq = 0; seq < ARRAY_LEN(pins); seq++)
        pins[seq] = put(cache, seq);
    assert_true(stats(cache).bytes > 40000); /* pinned: over the budget for that long */
    for (uint64_t seq = 0; seq < ARRAY_LEN(pins); seq++) {
        assert_int_equal(block_head(cache_block(pins[seq]))->first_seq, seq);
        cache_release(cache, pins[seq]);
    }
    assert_true(stats(cache).bytes <= 5000);
    cache_release(cache, NULL);

    /* One block over the whole budget is served and leaves. */
    struct cache *tiny = NULL;
    assert_int_equal(cache_create(0, &tiny, NULL), RC_OK);
    struct cache_entry *e = put(tiny, 3);
    assert_int_equal(block_head(cache_block(e))->first_seq, 3);
    cache_release(tiny, e);
    assert_int_equal(stats(tiny).entries, 0);
    assert_int_equal(stats(tiny).bytes, 0);
    cache_destroy(tiny);
    cache_destroy(cache);
}

static void test_second_put_joins_the_first(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    assert_int_equal(cache_create(100000, &cache, NULL), RC_OK);
    struct cache_entry *a = put(cache, 3), *b = put(cache, 3);
    assert_ptr_equal(a, b);
    assert_int_equal(stats(cache).entries, 1);
    cache_release(cache, a);
    cache_release(cache, b);
    cache_destroy(cache);
}

static void test_forget(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    assert_int_equal(cache_create(1000000, &cache, NULL), RC_OK);
    for (uint64_t seq = 0; seq < 40; seq++)
        cache_release(cache, put(cache, seq));
    struct cache_entry *pinned = get(cache, 15);
    cache_forget(cache, 1, 1); /* seqs 10 to 19 */
    for (uint64_t seq = 0; seq < 40; seq++)
        assert_int_equal(has(cache, seq), seq < 10 || seq >= 20);
    assert_int_equal(block_head(cache_block(pinned))->first_seq, 15);
    /* Another of that key may come while the forgotten one is still held. */
    cache_release(cache, put(cache, 15));
    assert_int_equal(stats(cache).entries, 31);
    cache_release(cache, pinned);
    cache_forget(cache, 2, UINT32_MAX);
    assert_int_equal(stats(cache).entries, 31);
    cache_forget(cache, 1, UINT32_MAX);
    assert_int_equal(stats(cache).entries, 0);
    assert_int_equal(stats(cache).bytes, 0);
    cache_destroy(cache);
}

static void *use(void *arg)
{
    struct cache *cache = arg;
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    for (int i = 0; i < 5000; i++) {
        seed = seed * 1103515245u + 12345;
        uint64_t seq = seed >> 16 & 63;
        struct cache_entry *e = get(cache, seq);
        if (e == NULL)
            e = put(cache, seq);
        if (block_head(cache_block(e))->first_seq != seq)
            return "another block";
        cache_release(cache, e);
        if (i % 500 == 0)
            cache_forget(cache, 1, seed >> 24 & 7);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    pthread_t threads[3];
    assert_int_equal(cache_create(30000, &cache, NULL), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, cache), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *why = NULL;
        pthread_join(threads[i], &why);
        assert_null(why);
    }
    assert_true(stats(cache).bytes <= 30000);
    cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget), cmocka_unit_test(test_used_stays),
        cmocka_unit_test(test_pins),   cmocka_unit_test(test_second_put_joins_the_first),
        cmocka_unit_test(test_forget), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
