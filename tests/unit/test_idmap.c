/* SPDX-License-Identifier: Apache-2.0 */
/* The id table in memory and the set of dead rows: generations, collisions, growth. */
#include "storage/idmap.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void set(struct idmap *map, uint64_t hash, uint64_t seq, uint64_t old)
{
    assert_true(idmap_reserve(map, 1));
    idmap_set(map, hash, seq, old, false);
}

/* What is found for a hash, newest generation first, as text. */
static const char *found(const struct idmap *map, uint64_t hash, size_t max)
{
    static char text[256];
    uint64_t seqs[16];
    size_t n = 0;
    if (!idmap_find(map, hash, seqs, &n, max))
        return "more";
    text[0] = 0;
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu", i == 0 ? "" : " ",
                 (unsigned long long)seqs[i]);
    return text;
}

static void test_generations(void **state)
{
    (void)state;
    struct idmap map = {0};
    assert_string_equal(found(&map, 7, 16), "");
    set(&map, 7, 1, IDMAP_NONE);
    set(&map, 7, 2, 1);
    assert_string_equal(found(&map, 7, 16), "2");
    idmap_freeze(&map);
    assert_string_equal(found(&map, 7, 16), "2");
    set(&map, 7, 3, 2);
    assert_string_equal(found(&map, 7, 16), "3 2");
    idmap_drop_frozen(&map);
    assert_string_equal(found(&map, 7, 16), "3");
    idmap_freeze(&map);
    idmap_drop_frozen(&map);
    assert_string_equal(found(&map, 7, 16), "");
    assert_int_equal(idmap_memory(&map), 0);
    idmap_done(&map);
}

static void test_collisions(void **state)
{
    (void)state;
    struct idmap map = {0};
    for (uint64_t id = 0; id < 4; id++)
        set(&map, 7, 10 * id, IDMAP_NONE);
    set(&map, 7, 11, 10);
    set(&map, 7, 12, 11);
    set(&map, 8, 5, IDMAP_NONE);
    assert_string_equal(found(&map, 7, 16), "0 12 20 30");
    assert_string_equal(found(&map, 7, 4), "0 12 20 30");
    assert_string_equal(found(&map, 7, 3), "more");
    assert_string_equal(found(&map, 8, 16), "5");
    /* The same row once more (replay): no second entry. */
    set(&map, 7, 12, 11);
    assert_string_equal(found(&map, 7, 16), "0 12 20 30");
    idmap_done(&map);
}

/* Hashes that fall on one slot, over several growths. */
static void test_growth(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct idmap map = {0};
    for (uint64_t i = 0; i < N; i++)
        set(&map, i << 50 | i % 3, i, IDMAP_NONE);
    for (uint64_t i = 0; i < N; i++) {
        char want[32];
        snprintf(want, sizeof want, "%llu", (unsigned long long)i);
        assert_string_equal(found(&map, i << 50 | i % 3, 16), want);
    }
    assert_true(idmap_memory(&map) < N * 3 * sizeof(struct idmap_entry));
    idmap_done(&map);
}

static void test_seqset(void **state)
{
    (void)state;
    struct seqset set = {0};
    assert_false(seqset_has(&set, 0));
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(seqset_reserve(&set, 1));
        assert_true(seqset_add(&set, i * i));
        assert_false(seqset_add(&set, i * i));
    }
    assert_int_equal(set.count, 10000);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(seqset_has(&set, i * i));
        assert_false(seqset_has(&set, i * i + 1 + (i == 0)));
    }
    seqset_done(&set);
    assert_false(seqset_has(&set, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_seqset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
