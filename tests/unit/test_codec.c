/* SPDX-License-Identifier: Apache-2.0 */
/* The table of codec names, and every codec both ways, on good bytes and on bad ones. */
#include "storage/codec.h"

#include "config/limits.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum codec codec;
        int level;
        uint32_t block_bytes;
        bool dictionary, takes_level;
    } want[] = {
        {"default", CODEC_ZSTD, 3, 512 * KIB, true, false},
        {"zstd", CODEC_ZSTD, 3, 512 * KIB, true, true},
        {"zstd_no_dict", CODEC_ZSTD, 3, 512 * KIB, false, true},
        {"jd_zstd", CODEC_ZSTD, 3, 512 * KIB, true, false},
        {"jd_zstd_6", CODEC_ZSTD, 6, 512 * KIB, true, false},
        {"best_compression", CODEC_ZSTD, 9, 1024 * KIB, true, false},
        {"best_speed", CODEC_LZ4, 0, 512 * KIB, false, false},
        {"lz4", CODEC_LZ4, 0, 512 * KIB, false, false},
        {"zlib", CODEC_ZLIB, 6, 512 * KIB, false, true},
        {"deflate", CODEC_ZLIB, 6, 512 * KIB, false, true},
        {"none", CODEC_NONE, 0, 64 * KIB, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const struct codec_name *name = codec_find(slice_str(want[i].name));
        assert_ptr_equal(name, codec_name_at(i));
        assert_int_equal(name->spec.codec, want[i].codec);
        assert_int_equal(name->spec.level, want[i].level);
        assert_int_equal(name->spec.block_bytes, want[i].block_bytes);
        assert_int_equal(name->spec.dictionary, want[i].dictionary);
        assert_int_equal(name->takes_level, want[i].takes_level);
    }
    assert_null(codec_name_at(ARRAY_LEN(want)));
    assert_ptr_equal(codec_find(SLICE_LIT("Best_COMPRESSION")),
                     codec_find(SLICE_LIT("best_compression")));
    static const char *unknown[] = {"", "zst", "zstd ", "zstd_", "lz5", "jd_zstd_66"};
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
        assert_null(codec_find(slice_str(unknown[i])));
    assert_null(codec_find(SLICE_LIT("zstd\0")));
    assert_null(codec_find(SLICE_LIT("zstd\0_no_dict")));
}

static void test_levels(void **state)
{
    (void)state;
    int min = -1, max = -1;
    codec_levels(CODEC_ZLIB, &min, &max);
    assert_true(min == 1 && max == 9);
    codec_levels(CODEC_ZSTD, &min, &max);
    assert_true(min == 1 && (max == 15 || max == 19));
    codec_levels(CODEC_LZ4, &min, &max);
    assert_true(min == 0 && max == 0);
    assert_string_equal(codec_text(CODEC_ZSTD), "zstd");
}

/* Text that compresses, different for every seed. */
static void fill_text(uint8_t *dst, size_t len, unsigned seed)
{
    static const char words[] = "{\"status\":200,\"path\":\"/index.html\"}\n";
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1103515245u + 12345;
        dst[i] = seed >> 28 == 0 ? (uint8_t)(seed >> 20) : (uint8_t)words[i % (sizeof words - 1)];
    }
}

static void fill_noise(uint8_t *dst, size_t len)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        dst[i] = (uint8_t)x;
    }
}

static const struct {
    enum codec codec;
    int level;
} all[] = {{CODEC_ZSTD, 1}, {CODEC_ZSTD, 3}, {CODEC_ZSTD, 9}, {CODEC_ZSTD, 15}, {CODEC_LZ4, 0},
           {CODEC_ZLIB, 1}, {CODEC_ZLIB, 6}, {CODEC_ZLIB, 9}, {CODEC_ZLIB, 6}};

static void round_trip(enum codec codec, int level, size_t len, unsigned seed)
{
    uint8_t *raw = malloc(len), *back = malloc(len);
    size_t cap = codec_bound(codec, len), n = 0;
    uint8_t *packed = malloc(cap);
    fill_text(raw, len, seed);
    assert_int_equal(codec_compress(codec, level, slice_of(raw, len), packed, cap, &n), RC_OK);
    assert_true(n < len);
    assert_int_equal(codec_decompress(codec, slice_of(packed, n), back, len, NULL), RC_OK);
    assert_memory_equal(raw, back, len);
    /* Cut, with a byte more, or of another length than was kept: never taken. */
    struct err err = {0};
    assert_int_equal(codec_decompress(codec, slice_of(packed, n - 1), back, len, &err), RC_CORRUPT);
    assert_non_null(strstr(err.msg, codec_text(codec)));
    assert_int_equal(codec_decompress(codec, slice_of(packed, n), back, len - 1, NULL), RC_CORRUPT);
    uint8_t *larger = malloc(len + 1);
    assert_int_equal(codec_decompress(codec, slice_of(packed, n), larger, len + 1, NULL),
                     RC_CORRUPT);
    free(larger);
    /* And good again with the same context. */
    assert_int_equal(codec_decompress(codec, slice_of(packed, n), back, len, NULL), RC_OK);
    assert_memory_equal(raw, back, len);
    free(raw);
    free(back);
    free(packed);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const size_t lens[] = {500, 4096, 65536, 300000};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (size_t j = 0; j < ARRAY_LEN(lens); j++)
            round_trip(all[i].codec, all[i].level, lens[j], (unsigned)(i + j));
    codec_thread_done();
    codec_thread_done();
    round_trip(CODEC_ZLIB, 6, 1000, 1);
}

static void test_growth_is_refused(void **state)
{
    (void)state;
    static uint8_t noise[10000], dst[20000];
    fill_noise(noise, sizeof noise);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        size_t n = 77;
        assert_int_equal(codec_compress(all[i].codec, all[i].level, slice_of(noise, sizeof noise),
                                        dst, sizeof dst, &n),
                         RC_TOO_LARGE);
        assert_int_equal(
            codec_compress(all[i].codec, all[i].level, slice_of(noise, 1), dst, sizeof dst, &n),
            RC_TOO_LARGE);
        assert_int_equal(
            codec_compress(all[i].codec, all[i].level, SLICE_NONE, dst, sizeof dst, &n),
            RC_TOO_LARGE);
        assert_int_equal(n, 77);
    }
}

static void test_none(void **state)
{
    (void)state;
    uint8_t dst[4];
    size_t n = 0;
    assert_int_equal(codec_compress(CODEC_NONE, 0, SLICE_LIT("aaaa"), dst, 4, &n), RC_TOO_LARGE);
    assert_int_equal(codec_decompress(CODEC_NONE, SLICE_LIT("abcd"), dst, 4, NULL), RC_OK);
    assert_memory_equal(dst, "abcd", 4);
    assert_int_equal(codec_decompress(CODEC_NONE, SLICE_LIT("abc"), dst, 4, NULL), RC_CORRUPT);
    assert_int_equal(codec_decompress((enum codec)9, SLICE_LIT("abc"), dst, 4, NULL),
                     RC_UNSUPPORTED);
}

static void *thread(void *arg)
{
    for (unsigned i = 0; i < 20; i++)
        for (size_t j = 0; j < ARRAY_LEN(all); j++)
            round_trip(all[j].codec, all[j].level, 5000 + i, i);
    return arg;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[3];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_levels),
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_growth_is_refused),
        cmocka_unit_test(test_none),        cmocka_unit_test(test_threads),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    codec_thread_done();
    return failed;
}
