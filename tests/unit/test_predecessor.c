/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are of one series. */
#include "api/predecessor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool same(const char *a, const char *b)
{
    bool forth = predecessor_same_series(slice_str(a), slice_str(b));
    assert_int_equal(forth, predecessor_same_series(slice_str(b), slice_str(a)));
    return forth;
}

static void test_series(void **state)
{
    (void)state;
    assert_true(same("logs-2026.12.01", "logs-2026.12.02"));
    assert_true(same("logs-2026.12.01", "logs-2027.01"));
    assert_true(same("app-000001", "app-000002"));
    assert_true(same("app_9", "app"));
    assert_true(same("logs-nginx-prod", "logs-nginx-prod"));
    assert_false(same("logs-nginx-1", "logs-apache-1"));
    assert_false(same("logs-1", "log-1"));
    assert_false(same("logs-1", "logs-1a"));
    assert_false(same("2026.12.01", "2026.12.02")); /* nothing is left to go by */
    assert_false(same("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_series)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
