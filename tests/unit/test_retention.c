/* SPDX-License-Identifier: Apache-2.0 */
/* Times, policies and lifecycles of retention; the housekeeping thread. What retention does to
 * indices is in tests/http/test_retention.py. */
#include "api/every.h"
#include "api/retention.h"
#include "api/settings.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms; /* UINT64_MAX: refused */
    } cases[] = {
        {"30d", 2592000000},
        {"12h", 43200000},
        {"5m", 300000},
        {"10s", 10000},
        {"0ms", 0},
        {"500ms", 500},
        {"1500micros", 1},
        {"2000000nanos", 2},
        {"10675199d", 922337193600000},
        {"", UINT64_MAX},
        {"30", UINT64_MAX},
        {"d", UINT64_MAX},
        {"-1d", UINT64_MAX},
        {"1.5h", UINT64_MAX},
        {"1 d", UINT64_MAX},
        {"1w", UINT64_MAX},
        {"1D", UINT64_MAX},
        {"99999999999999999999d", UINT64_MAX},
        {"213503982335d", UINT64_MAX},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t ms = UINT64_MAX;
        bool ok = retention_time(slice_str(cases[i].text), &ms);
        if (ok != (cases[i].ms != UINT64_MAX) || ms != cases[i].ms)
            print_error("%s: %d %llu\n", cases[i].text, ok, (unsigned long long)ms);
        assert_int_equal(ok, cases[i].ms != UINT64_MAX);
        assert_true(ms == cases[i].ms);
    }
}

static void policies(void **state)
{
    static const struct {
        const char *text;
        bool deletes;
        uint64_t ms;
    } cases[] = {
        {"{\"policy\":{\"phases\":{\"delete\":{\"min_age\":\"3d\",\"actions\":{\"delete\":{}}}}}}",
         true, 259200000},
        {"{\"policy\":{\"phases\":{\"delete\":{\"actions\":{\"delete\":{}}}}}}", true, 0},
        {"{\"policy\":{\"phases\":{\"delete\":{\"min_age\":\"3d\",\"actions\":{}}}}}", false, 0},
        {"{\"policy\":{\"phases\":{\"hot\":{\"actions\":{\"delete\":{}}}}}}", false, 0},
        {"{\"policy\":{}}", false, 0},
        {"{}", false, 0},
        {"", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t ms = 0;
        assert_int_equal(retention_policy(slice_str(cases[i].text), &ms), cases[i].deletes);
        assert_true(ms == cases[i].ms);
    }
}

static void lifecycles(void **state)
{
    static const struct {
        const char *text;
        enum rc rc;
        bool given;
    } cases[] = {
        {"{\"data_retention\":\"1s\"}", RC_OK, true},
        {"{\"data_retention\":\"1s\",\"enabled\":false}", RC_OK, false},
        {"{\"enabled\":true}", RC_OK, false},
        {"{\"data_retention\":null}", RC_OK, false},
        {"{}", RC_OK, false},
        {"[]", RC_INVALID, false},
        {"{\"data_retention\":7}", RC_INVALID, false},
        {"{\"data_retention\":\"soon\"}", RC_INVALID, false},
        {"{\"enabled\":\"yes\"}", RC_INVALID, false},
        {"{\"downsampling\":[]}", RC_INVALID, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_value value = json_root(slice_str(cases[i].text));
        uint64_t ms = 0;
        assert_int_equal(retention_lifecycle_check(value, NULL), cases[i].rc);
        if (cases[i].rc == RC_OK)
            assert_int_equal(retention_lifecycle(value, &ms), cases[i].given);
    }
}

static atomic_int ticks[2];

static void tick(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Jobs run at their own pace, and never again after every_stop. */
static void housekeeping(void **state)
{
    struct every *every;
    struct err err = {RC_OK, 0, ""};
    (void)state;
    every_stop(NULL);
    assert_int_equal(every_start(&every, &err), RC_OK);
    assert_int_equal(every_add(every, 10000, tick, &ticks[0], &err), RC_OK);
    assert_int_equal(every_add(every, 5, tick, &ticks[1], &err), RC_OK);
    for (int i = 0; i < 1000 && atomic_load(&ticks[1]) < 3; i++)
        usleep(5000);
    every_stop(every);
    int seen = atomic_load(&ticks[1]);
    assert_true(seen >= 3);
    assert_int_equal(atomic_load(&ticks[0]), 0);
    usleep(30000);
    assert_int_equal(atomic_load(&ticks[1]), seen);
    assert_int_equal(every_start(&every, &err), RC_OK);
    enum rc rc = RC_OK;
    for (int i = 0; rc == RC_OK && i < 100; i++)
        rc = every_add(every, 10000, tick, &ticks[0], &err);
    assert_int_equal(rc, RC_NOMEM);
    every_stop(every);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times),
        cmocka_unit_test(policies),
        cmocka_unit_test(lifecycles),
        cmocka_unit_test(housekeeping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
