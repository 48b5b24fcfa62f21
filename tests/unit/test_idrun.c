/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of id runs: what is put in is found, everything else is not, and any bytes are survived.
 */
#include "storage/idrun.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t rnd(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ *state >> 29;
}

static struct idrun_entry *make(size_t n, uint8_t bits, uint32_t piece, uint64_t seq0, uint64_t *st)
{
    struct idrun_entry *e = malloc(n * sizeof *e);
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = rnd(st) >> 1 << 1;
        if (bits != 0)
            hash = hash >> bits | (uint64_t)piece << (64 - bits);
        e[i] = (struct idrun_entry){hash, seq0 + rnd(st) % (8 * n), i % 7 == 0};
    }
    idrun_sort(e, n);
    return e;
}

/* Lists of all lengths, hashes that differ in dropped bits only, and many that are one. */
static void test_sort(void **state)
{
    (void)state;
    uint64_t st = 5;
    for (size_t n = 0; n < 30000; n = n * 3 / 2 + 1) {
        struct idrun_entry *e = malloc((n + 1) * sizeof *e);
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t hash = i % 3 != 0 ? rnd(&st) : (rnd(&st) % 5) << 40 | (rnd(&st) & 0xffffff);
            e[i] = (struct idrun_entry){hash, rnd(&st) % 1000, i % 2 == 0};
            sum += hash ^ e[i].seq ^ e[i].tombstone;
        }
        idrun_sort(e, n);
        for (size_t i = 0; i < n; i++) {
            sum -= e[i].hash ^ e[i].seq ^ e[i].tombstone;
            if (i != 0 && idrun_same_hash(e[i - 1].hash, e[i].hash))
                assert_true(e[i - 1].seq >= e[i].seq);
            else if (i != 0)
                assert_true(e[i - 1].hash < e[i].hash);
        }
        assert_int_equal(sum, 0);
        free(e);
    }
}

/* One id a million times, in the order that is the worst: with a quadratic sort this takes hours.
 */
static void test_sort_of_one_id(void **state)
{
    (void)state;
    enum { N = 1000000 };
    struct idrun_entry *e = malloc(N * sizeof *e);
    for (size_t i = 0; i < N; i++)
        e[i] = (struct idrun_entry){.hash = 7ull << 32, .seq = i};
    idrun_sort(e, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(e[i].seq, N - 1 - i);
    free(e);
}

static void test_round_trip(void **state)
{
    static const struct {
        size_t n;
        uint8_t bits;
        uint32_t piece;
        uint64_t seq0;
    } cases[] = {{1, 0, 0, 0},        {2, 0, 0, 1ull << 40}, {100, 3, 5, 7},
                 {8192, 0, 0, 12345}, {8192, 10, 1023, 0},   {20000, 1, 1, 1}};
    uint64_t st = 1;
    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        size_t n = cases[c].n;
        uint8_t bits = cases[c].bits;
        struct buf b = {0};
        struct idrun_entry *e = make(n, bits, cases[c].piece, cases[c].seq0, &st);
        struct idrun_entry *back = malloc(n * sizeof *back);
        assert_true(idrun_encode(e, n, bits, &b));
        assert_int_equal(idrun_piece_count(buf_slice(&b)), n);
        assert_int_equal(idrun_decode(buf_slice(&b), bits, cases[c].piece, back), RC_OK);
        for (size_t i = 0; i < n; i++) {
            uint64_t seqs[64];
            size_t found = 0;
            bool there = false;
            assert_int_equal(back[i].hash, e[i].hash >> 24 << 24);
            assert_int_equal(back[i].seq, e[i].seq);
            assert_int_equal(back[i].tombstone, e[i].tombstone);
            assert_int_equal(idrun_find(buf_slice(&b), bits, e[i].hash, seqs, &found, 64), RC_OK);
            for (size_t k = 0; k < found; k++)
                there = there || seqs[k] == e[i].seq;
            assert_true(there);
        }
        free(e);
        free(back);
        buf_done(&b);
    }
}

/* Some 5 to 6 bytes an entry, and few false candidates. */
static void test_size_and_misses(void **state)
{
    uint64_t st = 2, seqs[64];
    size_t n = 8192, found = 0;
    struct buf b = {0};
    (void)state;
    struct idrun_entry *e = make(n, 9, 300, 1000000, &st);
    assert_true(idrun_encode(e, n, 9, &b));
    assert_in_range(b.len, 4 * n, 6 * n);
    for (size_t i = 0; i < 100000; i++) {
        uint64_t hash = rnd(&st) >> 9 | UINT64_C(300) << 55;
        assert_int_equal(idrun_find(buf_slice(&b), 9, hash, seqs, &found, 64), RC_OK);
    }
    assert_in_range(found, 0, 5); /* 8192 entries in 2^31 values: 0.4 expected */
    free(e);
    buf_done(&b);
}

static void test_collisions(void **state)
{
    struct idrun_entry e[5] = {{7ull << 40, 1, false},
                               {7ull << 40, 9, true},
                               {7ull << 40, 5, false},
                               {8ull << 40, 2, false},
                               {7ull << 40 | 3, 4, false}};
    uint64_t seqs[4];
    size_t n = 0;
    struct buf b = {0};
    (void)state;
    idrun_sort(e, 5);
    assert_true(idrun_encode(e, 5, 0, &b));
    assert_int_equal(idrun_find(buf_slice(&b), 0, 7ull << 40, seqs, &n, 4), RC_OK);
    assert_int_equal(n, 4);
    assert_int_equal(seqs[0], 9); /* the highest first */
    n = 0;
    assert_int_equal(idrun_find(buf_slice(&b), 0, 7ull << 40, seqs, &n, 3), RC_TOO_LARGE);
    buf_done(&b);
}

static void test_damage(void **state)
{
    uint64_t st = 3, seqs[64];
    size_t n = 300;
    struct buf b = {0};
    struct idrun_entry back[300];
    (void)state;
    struct idrun_entry *e = make(n, 0, 0, 0, &st);
    assert_true(idrun_encode(e, n, 0, &b));
    for (size_t len = 0; len < b.len; len += 3) {
        size_t found = 0;
        uint8_t *copy = malloc(len + 1); /* exact, so that a sanitizer sees each step behind it */
        memcpy(copy, b.ptr, len);
        assert_int_equal(idrun_find(slice_of(copy, len), 0, e[0].hash, seqs, &found, 64),
                         RC_CORRUPT);
        free(copy);
    }
    for (size_t i = 0; i < 20000; i++) {
        size_t at = rnd(&st) % b.len, found = 0;
        uint8_t old = b.ptr[at];
        b.ptr[at] = (uint8_t)rnd(&st);
        (void)!idrun_find(buf_slice(&b), 0, e[i % n].hash, seqs, &found, 64);
        if (idrun_piece_count(buf_slice(&b)) == n)
            (void)!idrun_decode(buf_slice(&b), 0, 0, back);
        b.ptr[at] = old;
    }
    free(e);
    buf_done(&b);
}

static void test_bits(void **state)
{
    (void)state;
    assert_int_equal(idrun_bits(1), 0);
    assert_int_equal(idrun_bits(8192), 0);
    assert_int_equal(idrun_bits(8193 * 2), 2);
    assert_int_equal(idrun_bits(5000000), 10);
    assert_int_equal(idrun_piece_of(UINT64_MAX, 0), 0);
    assert_int_equal(idrun_piece_of(UINT64_MAX, 10), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),       cmocka_unit_test(test_sort_of_one_id),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_size_and_misses),
        cmocka_unit_test(test_collisions), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
