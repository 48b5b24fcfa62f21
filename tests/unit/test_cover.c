/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of a dictionary's content: what comes often is in it, once, the best at the end. */
#include "storage/cover.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define CAP 4096

static uint64_t rnd_state = 3;

static uint8_t rnd(void)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(rnd_state >> 56);
}

/* Noise with a phrase in it wherever a multiple of `every` is, an odd number: only some positions
 * are counted. */
static void make(uint8_t *dst, size_t len, const char *phrase, size_t every)
{
    for (size_t i = 0; i < len; i++)
        dst[i] = rnd();
    for (size_t i = 0; i + strlen(phrase) <= len; i += every)
        memcpy(dst + i, phrase, strlen(phrase));
}

static size_t occurrences(const uint8_t *text, size_t len, const char *phrase)
{
    size_t n = 0;
    for (size_t i = 0; i + strlen(phrase) <= len; i++)
        n += memcmp(text + i, phrase, strlen(phrase)) == 0;
    return n;
}

static void test_frequent_is_chosen_once(void **state)
{
    enum { LEN = 200000 };
    static const char often[] = "what every one of the samples has in it somewhere";
    static const char seldom[] = "what only some few of them have, here and there ..";
    uint8_t *text = malloc(LEN), content[CAP], again[CAP];
    size_t len = 0, len_again = 0;
    (void)state;
    make(text, LEN, often, 501);
    for (size_t i = 250; i + 100 < LEN; i += 5003)
        memcpy(text + i, seldom, sizeof seldom - 1);
    assert_true(cover_choose(slice_of(text, LEN), content, CAP, &len));
    assert_true(len > 0 && len <= CAP);
    const uint8_t *from = content + CAP - len;
    assert_int_equal(occurrences(from, len, often), 1);
    assert_int_equal(occurrences(from, len, seldom), 1);
    assert_int_equal(occurrences(content + CAP - 320, 320, often),
                     1); /* the first choice is last */
    assert_true(cover_choose(slice_of(text, LEN), again, CAP, &len_again));
    assert_int_equal(len_again, len);
    assert_memory_equal(again + CAP - len, from, len);
    free(text);
}

/* All of it is out of the samples, whatever the sizes. */
static void test_sizes(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 319, 320, 321, 5000};
    static const size_t caps[] = {1, 7, 8, 9, 320, 321, CAP};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (size_t k = 0; k < ARRAY_LEN(caps); k++) {
            uint8_t *text = malloc(lengths[i] + 1), *content = malloc(caps[k]);
            size_t len = SIZE_MAX;
            memset(text, 'x', lengths[i]);
            memset(content, '-', caps[k]);
            assert_true(cover_choose(slice_of(text, lengths[i]), content, caps[k], &len));
            assert_true(len <= caps[k]);
            for (size_t at = 0; at < caps[k]; at++)
                assert_int_equal(content[at], at < caps[k] - len ? '-' : 'x');
            free(text);
            free(content);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequent_is_chosen_once),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
