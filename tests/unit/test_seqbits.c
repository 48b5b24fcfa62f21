/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of seqs: what was added is there and nothing else, in lists and in bitmaps, after joining,
 * and within the memory that seqbits.h promises (B1). */
#include "storage/seqbits.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEQS (40 * SEQBITS_CHUNK)

static void check(const struct seqbits *set, const bool *want)
{
    uint64_t n = 0;
    for (uint64_t seq = 0; seq < SEQS; seq++) {
        assert_int_equal(seqbits_has(set, seq), want[seq]);
        n += want[seq];
    }
    assert_int_equal(set->count, n);
    assert_false(seqbits_has(set, SEQS));
    assert_false(seqbits_has(set, UINT64_MAX));
}

/* One in so many of the seqs below end. */
static void fill(struct seqbits *set, bool *want, unsigned *seed, uint64_t end, unsigned one_in)
{
    for (uint64_t i = 0; i < end / one_in; i++) {
        uint64_t seq = (uint64_t)rand_r(seed) % end;
        assert_true(seqbits_add(set, seq));
        want[seq] = true;
    }
}

static void test_adding(void **state)
{
    static const unsigned densities[] = {1, 3, 30, 300, 3000};
    unsigned seed = 1;
    (void)state;
    for (size_t d = 0; d < ARRAY_LEN(densities); d++) {
        struct seqbits set = {0};
        bool *want = calloc(SEQS, sizeof *want);
        check(&set, want);
        fill(&set, want, &seed, SEQS, densities[d]);
        check(&set, want);
        seqbits_done(&set);
        assert_int_equal(set.memory, 0);
        free(want);
    }
}

static void test_memory(void **state)
{
    struct seqbits all = {0}, few = {0};
    const uint64_t n = 1000 * SEQBITS_CHUNK;
    (void)state;
    for (uint64_t seq = n; seq-- > 0;)
        assert_true(seqbits_add(&all, seq));
    assert_true(all.memory <= n / 8 + 1000 * (8 + 8));
    for (uint64_t seq = 0; seq < n; seq += SEQBITS_CHUNK / 16) {
        assert_true(seqbits_add(&few, seq));
        assert_true(few.memory <= few.count * 4 + (few.count / 16 + 1) * 24 + few.chunks * 8);
    }
    seqbits_done(&all);
    seqbits_done(&few);
}

static void test_joining(void **state)
{
    unsigned seed = 2;
    (void)state;
    for (unsigned round = 0; round < 16; round++) {
        struct seqbits a = {0}, b = {0};
        bool *in_a = calloc(SEQS, sizeof *in_a), *in_b = calloc(SEQS, sizeof *in_b);
        uint64_t limit = (uint64_t)rand_r(&seed) % (SEQS + SEQBITS_CHUNK);
        fill(&a, in_a, &seed, SEQS / 2, round % 4 == 0 ? 2 : 100);
        fill(&b, in_b, &seed, SEQS, round % 3 == 0 ? 2 : 500);
        assert_true(seqbits_join(&a, &b, limit));
        assert_int_equal(b.count + b.memory, 0);
        for (uint64_t seq = 0; seq < SEQS; seq++)
            in_a[seq] = in_a[seq] || (in_b[seq] && seq / SEQBITS_CHUNK <= limit / SEQBITS_CHUNK);
        check(&a, in_a);
        seqbits_done(&a);
        free(in_a);
        free(in_b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adding),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_joining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
