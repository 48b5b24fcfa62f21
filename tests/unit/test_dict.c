/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries: training, its refusals, and exact round trips with every level. */
#include "storage/codec.h"
#include "storage/dict.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct codec_spec texts = {.codec = CODEC_ZSTD, .level = 3, .layout = LAYOUT_COLUMNAR};
static const struct codec_spec documents = {
    .codec = CODEC_ZSTD, .level = 3, .layout = LAYOUT_PLAIN};

static uint64_t rnd_state = 11;

static unsigned rnd(unsigned below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(rnd_state >> 33) % below;
}

/* Some 2.7 KB. */
static void put_sample(struct buf *b)
{
    static const char *const agents[] = {"Mozilla/5.0 (X11; Linux x86_64)", "curl/7.88.1",
                                         "Googlebot/2.1 (+http://www.google.com/bot.html)"};
    for (int i = 0; i < 30; i++)
        buf_printf(
            b, "{\"client\":\"10.%u.%u.%u\",\"path\":\"/articles/%u/comments\",\"agent\":\"%s\"}\n",
            rnd(256), rnd(256), rnd(256), rnd(5000), agents[rnd(3)]);
}

static void make_samples(struct buf *samples, size_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t before = samples->len;
        put_sample(samples);
        sizes[i] = samples->len - before;
    }
}

/* A dictionary of 16 KB; its bytes go to *bytes. */
static struct dict *train(uint32_t number, const struct codec_spec *spec, struct buf *bytes)
{
    struct buf samples = {0};
    size_t sizes[200];
    make_samples(&samples, sizes, 200);
    assert_int_equal(dict_train(buf_slice(&samples), sizes, 200, spec, 16 * 1024, bytes), RC_OK);
    buf_done(&samples);
    struct dict *d = dict_make(number, buf_slice(bytes));
    assert_non_null(d);
    return d;
}

static void round_trip_and_gain(const struct codec_spec *spec)
{
    struct buf bytes = {0}, sample = {0};
    struct dict *d = train(7, spec, &bytes);
    assert_int_equal(dict_number(d), 7);
    assert_true(slice_eq(dict_bytes(d), buf_slice(&bytes)));
    put_sample(&sample);
    uint8_t *packed = malloc(codec_bound(CODEC_ZSTD, sample.len)), *back = malloc(sample.len);
    size_t with = 0, without = 0;
    for (int level = 1; level <= 15; level++) {
        size_t cap = codec_bound(CODEC_ZSTD, sample.len);
        assert_int_equal(dict_compress(d, level, buf_slice(&sample), packed, cap, &with), RC_OK);
        assert_int_equal(dict_decompress(d, slice_of(packed, with), back, sample.len, NULL), RC_OK);
        assert_memory_equal(back, sample.ptr, sample.len);
    }
    assert_int_equal(codec_compress(CODEC_ZSTD, 15, buf_slice(&sample), packed,
                                    codec_bound(CODEC_ZSTD, sample.len), &without),
                     RC_OK);
    assert_true(with < without);
    /* Another dictionary, or none, does not open it. */
    assert_int_equal(dict_compress(d, 3, buf_slice(&sample), packed, sample.len, &with), RC_OK);
    assert_int_equal(dict_decompress(d, slice_of(packed, with), back, sample.len - 1, NULL),
                     RC_CORRUPT);
    packed[with / 2] ^= 0xff;
    (void)!dict_decompress(d, slice_of(packed, with), back, sample.len, NULL);
    dict_release(dict_retain(d));
    dict_release(d);
    dict_release(NULL);
    free(packed);
    free(back);
    buf_done(&bytes);
    buf_done(&sample);
}

static void test_round_trip_and_gain(void **state)
{
    (void)state;
    round_trip_and_gain(&texts);
    round_trip_and_gain(&documents);
}

/* Around 16 and 64 KB the way into zstd is another one. What is too long for dst is said, and does
 * not spoil what comes after it. */
static void test_lengths(void **state)
{
    static const size_t lengths[] = {16384, 16385, 40000, 65536, 65537, 40000, 16000, 200000};
    struct buf bytes = {0}, text = {0};
    (void)state;
    struct dict *d = train(7, &texts, &bytes);
    while (text.len < 200000)
        put_sample(&text);
    size_t cap = codec_bound(CODEC_ZSTD, text.len);
    uint8_t *packed = malloc(cap), *back = malloc(text.len);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct slice src = slice_of(text.ptr, lengths[i]);
        for (int level = 1; level <= 9; level++) {
            size_t with = 0, without = 0;
            assert_int_equal(dict_compress(d, level, src, packed, 1000, &with), RC_TOO_LARGE);
            assert_int_equal(codec_compress(CODEC_ZSTD, level, src, packed, cap, &without), RC_OK);
            assert_int_equal(dict_compress(d, level, src, packed, cap, &with), RC_OK);
            assert_true(with < without + without / 10);
            assert_int_equal(dict_decompress(d, slice_of(packed, with), back, src.len, NULL),
                             RC_OK);
            assert_memory_equal(back, src.ptr, src.len);
        }
    }
    size_t none = 0;
    assert_int_equal(dict_compress(d, 3, slice_of(text.ptr, 1), packed, cap, &none), RC_TOO_LARGE);
    dict_release(d);
    free(packed);
    free(back);
    buf_done(&bytes);
    buf_done(&text);
}

/* A thread that stays with a dictionary, or goes from one to another: of the same number, at the
 * memory of one that is gone, for frames of a few bytes and of more than it keeps room for. */
static void test_stay_and_go(void **state)
{
    static const size_t lengths[] = {2000, 40000, 300000};
    struct buf bytes[2] = {{0}}, text = {0};
    struct dict *d[2] = {train(7, &texts, &bytes[0]), train(7, &documents, &bytes[1])};
    (void)state;
    while (text.len < lengths[2])
        put_sample(&text);
    size_t cap = codec_bound(CODEC_ZSTD, text.len), len = 0;
    uint8_t *packed = malloc(cap), *back = malloc(text.len);
    for (size_t i = 0; i < 300; i++) {
        size_t which = i / 24 % 2; /* each stays for a while, with a visit of the other's between */
        struct dict *one = d[i % 24 == 16 ? 1 - which : which];
        struct slice src = slice_of(text.ptr, lengths[i % 3]);
        assert_int_equal(dict_compress(one, 1, src, packed, cap, &len), RC_OK);
        memset(back, 0, src.len);
        assert_int_equal(dict_decompress(one, slice_of(packed, len), back, src.len, NULL), RC_OK);
        assert_memory_equal(back, src.ptr, src.len);
        assert_int_equal(dict_decompress(one, slice_of(packed, len), back, src.len - 1, NULL),
                         RC_CORRUPT);
        if (i % 60 == 59) {
            dict_release(d[which]);
            d[which] = dict_make(7, buf_slice(&bytes[1 - which]));
            assert_non_null(d[which]);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        dict_release(d[i]);
        buf_done(&bytes[i]);
    }
    free(packed);
    free(back);
    buf_done(&text);
}

/* Statistics are of the level that it is for. */
static void test_level(void **state)
{
    struct buf bytes = {0}, other = {0};
    struct codec_spec high = texts;
    (void)state;
    high.level = 9;
    rnd_state = 11;
    dict_release(train(1, &texts, &bytes));
    rnd_state = 11;
    dict_release(train(1, &high, &other));
    assert_false(slice_eq(buf_slice(&bytes), buf_slice(&other)));
    buf_done(&bytes);
    buf_done(&other);
}

static void test_nothing_to_learn(void **state)
{
    struct buf samples = {0}, bytes = {0};
    size_t sizes[100];
    (void)state;
    make_samples(&samples, sizes, 5);
    assert_int_equal(dict_train(buf_slice(&samples), sizes, 5, &texts, 4096, &bytes), RC_AGAIN);
    assert_int_equal(dict_train(SLICE_NONE, sizes, 0, &texts, 4096, &bytes), RC_AGAIN);
    samples.len = 0;
    make_samples(&samples, sizes, 10); /* less than four times the dictionary */
    assert_int_equal(dict_train(buf_slice(&samples), sizes, 10, &texts, 64 * 1024, &bytes),
                     RC_AGAIN);
    assert_int_equal(bytes.len, 0);
    /* Equal samples: whatever it answers, it does not fail otherwise. */
    samples.len = 0;
    for (size_t i = 0; i < 100; i++) {
        buf_put_str(&samples, "the same sample of forty-two bytes, always");
        sizes[i] = 42;
    }
    enum rc rc = dict_train(buf_slice(&samples), sizes, 100, &texts, 1024, &bytes);
    assert_true(rc == RC_OK || rc == RC_NOT_FOUND);
    buf_done(&samples);
    buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_and_gain), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_stay_and_go),         cmocka_unit_test(test_level),
        cmocka_unit_test(test_nothing_to_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
