/* SPDX-License-Identifier: Apache-2.0 */
/* api/merge.[ch] */
#include "api/merge.h"
#include "config/limits.h"
#include "storage/json.h"

#include <setjmp.h>

#include <cmocka.h>

static void test_table(void **state)
{
    (void)state;
    static const struct {
        const char *current, *update, *merged;
        bool noop;
    } row[] = {
        {"{}", "{}", "{}", true},
        {"{}", "{\"a\":1}", "{\"a\":1}", false},
        {" { } ", "{ \"a\" : 1 , \"b\":[2] }", " {\"a\" : 1,\"b\":[2] } ", false},
        {"{\"a\":1}", "{}", "{\"a\":1}", true},
        {"{ \"a\" : 1.50 , \"b\" : 2 }", "{\"b\":3}", "{ \"a\" : 1.50 , \"b\" : 3 }", false},
        {"{ \"a\" : 1\n}", "{\"b\":3,\"c\":4}", "{ \"a\" : 1,\"b\":3,\"c\":4\n}", false},
        {"{\"a\":1}", "{\"a\":1}", "{\"a\":1}", true},
        {"{\"a\":1.0}", "{\"a\":10e-1}", "{\"a\":10e-1}", true},
        {"{\"a\":1}", "{\"a\":1.0}", "{\"a\":1.0}", false},
        {"{\"a\":1}", "{\"a\":null}", "{\"a\":null}", false},
        {"{\"a\":1}", "{\"\\u0061\":2}", "{\"a\":2}", false},
        {"{\"a\":1,\"b\":0,\"a\":2}", "{\"a\":3}", "{\"a\":1,\"b\":0,\"a\":3}", false},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}", "{\"a\":1,\"a\":2}", true},
        {"{}", "{\"a\":1,\"b\":0,\"a\":2}", "{\"b\":0,\"a\":2}", false},
        {"{\"a\":9}", "{\"a\":1,\"a\":9}", "{\"a\":9}", true},
        {"{\"o\":{\"x\":1,\"y\":[1]},\"z\":0}", "{\"o\":{\"y\":[2],\"n\":{}}}",
         "{\"o\":{\"x\":1,\"y\":[2],\"n\":{}},\"z\":0}", false},
        {"{\"o\":{\"x\":{}}}", "{\"o\":{\"x\":{\"y\":{\"z\":1}}}}",
         "{\"o\":{\"x\":{\"y\":{\"z\":1}}}}", false},
        {"{\"o\":{\"x\":1}}", "{\"o\":{}}", "{\"o\":{\"x\":1}}", true},
        {"{\"o\":{\"x\":1}}", "{\"o\":5}", "{\"o\":5}", false},
        {"{\"o\":5}", "{\"o\":{\"x\":1}}", "{\"o\":{\"x\":1}}", false},
        {"{\"a\":[{\"x\":1,\"y\":2}]}", "{\"a\":[{\"y\":2,\"x\":1}]}",
         "{\"a\":[{\"y\":2,\"x\":1}]}", true},
        {"{\"a\":[{\"x\":1}]}", "{\"a\":[{\"y\":2}]}", "{\"a\":[{\"y\":2}]}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":0,\"b\":2}", "{\"a\":0,\"b\":2}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct buf out = {.ptr = NULL};
        bool noop = !row[i].noop;
        buf_put_str(&out, "<");
        assert_int_equal(
            merge_documents(slice_str(row[i].current), slice_str(row[i].update), &out, &noop),
            RC_OK);
        struct slice merged = slice_of(out.ptr + 1, out.len - 1);
        if (!slice_is(merged, row[i].merged) || noop != row[i].noop)
            fail_msg("row %zu: noop %d, %.*s", i, noop, SLICE_FMT(merged));
        buf_done(&out);
    }
}

static void nest(struct buf *b, unsigned depth, const char *inside)
{
    for (unsigned i = 0; i < depth; i++)
        BUF_PUT_LIT(b, "{\"k\":");
    buf_put_str(b, inside);
    for (unsigned i = 0; i < depth; i++)
        BUF_PUT_LIT(b, "}");
}

static void test_deep(void **state)
{
    (void)state;
    struct buf current = {.ptr = NULL}, update = {.ptr = NULL}, out = {.ptr = NULL};
    nest(&current, LIMIT_JSON_DEPTH, "1");
    nest(&update, LIMIT_JSON_DEPTH, "2");
    bool noop = true;
    assert_int_equal(merge_documents(buf_slice(&current), buf_slice(&update), &out, &noop), RC_OK);
    assert_false(noop);
    assert_true(slice_eq(buf_slice(&out), buf_slice(&update)));
    buf_done(&current);
    buf_done(&update);
    buf_done(&out);
}

/* Many members in opposite orders: must not take quadratic time. */
static void test_wide(void **state)
{
    (void)state;
    enum { N = 50000 };
    struct buf current = {.ptr = NULL}, update = {.ptr = NULL}, out = {.ptr = NULL};
    for (unsigned i = 0; i < N; i++) {
        buf_printf(&current, "%s\"key%u\":%u", i == 0 ? "{" : ",", i, i);
        buf_printf(&update, "%s\"key%u\":%u", i == 0 ? "{" : ",", N + N / 2 - i, i);
    }
    BUF_PUT_LIT(&current, "}");
    BUF_PUT_LIT(&update, "}");
    bool noop = true;
    assert_int_equal(merge_documents(buf_slice(&current), buf_slice(&update), &out, &noop), RC_OK);
    struct json_fault fault;
    assert_true(json_check(buf_slice(&out), NULL, &fault));
    struct json_scan scan = json_enter(json_root(buf_slice(&out)));
    struct slice key;
    struct json_value value;
    size_t count = 0;
    while (json_member(&scan, &key, &value))
        ++count;
    assert_int_equal(count, N + N / 2 + 1); /* key0 … keyN+N/2 */
    buf_done(&current);
    buf_done(&update);
    buf_done(&out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
