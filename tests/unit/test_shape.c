/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: documents of one kind share one, and pieces with values between them are the document. */
#include "storage/shape.h"

#include "config/buf.h"

#include <setjmp.h>

#include <cmocka.h>

static const struct shape *shape_for(struct shape_table *t, struct slice doc, struct slice *values)
{
    uint32_t number;
    assert_true(shape_of(t, doc, 1000, 10000, values, &number));
    const struct shape *shape = shape_at(t, number);
    /* H1 */
    struct buf again = {0};
    uint32_t slot = 0;
    for (size_t i = 0; i < shape->skeleton.len; i++) {
        if (shape_is_slot(shape->skeleton.ptr[i]))
            buf_put_slice(&again, values[slot++]);
        else
            buf_put_byte(&again, shape->skeleton.ptr[i]);
    }
    assert_int_equal(slot, shape->slots);
    assert_true(slice_eq(buf_slice(&again), doc));
    buf_done(&again);
    return shape;
}

static void test_documents(void **state)
{
    (void)state;
    static const struct {
        const char *doc, *skeleton;
    } cases[] = {
        {"{}", "{}"},
        {"{\"a\":1}", "{\"a\":\2}"},
        {" {\n\"a\" : true ,\t\"b\":\"x\\\"y\"\r} ", " {\n\"a\" : \2 ,\t\"b\":\"\1\"\r} "},
        {"{\"a\":{\"b\":null,\"c\":{}}}", "{\"a\":{\"b\":\2,\"c\":{}}}"},
        {"{\"a\":[1,-2.5e3]}", "{\"a\":[\2,\2]}"},
        {"{\"a\":[1,2,3,4]}", "{\"a\":[\2,\2,\2,\2]}"},
        {"{\"a\":[1,2,3,4,5]}", "{\"a\":\3}"},
        {"{\"a\":[1, 2]}", "{\"a\":\3}"},
        {"{\"a\":[]}", "{\"a\":\3}"},
        {"{\"a\":[\"]\",{\"b\":[1]}]}", "{\"a\":\3}"},
        {"{\"a\":\"\",\"a\":\"\"}", "{\"a\":\"\1\",\"a\":\"\1\"}"},
        {"17", "\2"},
        {"\"s\"", "\"\1\""},
        {"[1]", "[\2]"},
        /* not JSON: one value */
        {"", "\3"},
        {"{", "\3"},
        {"{\"a\"}", "\3"},
        {"{\"a\":1}}", "\3"},
        {"{\"a\":1,}", "\3"},
        {"{\"a\":\"\x01\"}", "\3"},
        {"{\"a\":\"\\", "\3"},
        {"{\"a\":[1}", "\3"},
        {"{\"a\":[1,]}", "\3"},
        {"\1\2\3", "\3"},
    };
    struct slice values[SHAPE_SLOTS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct shape_table *t = shape_table_create();
        const struct shape *shape = shape_for(t, slice_str(cases[i].doc), values);
        if (!slice_is(shape->skeleton, cases[i].skeleton))
            fail_msg("%s became %.*s", cases[i].doc, (int)shape->skeleton.len,
                     (const char *)shape->skeleton.ptr);
        /* Known from now on. */
        assert_ptr_equal(shape_for(t, slice_str(cases[i].doc), values), shape);
        assert_int_equal(shape_count(t), 1);
        shape_table_release(t);
    }
}

static void test_values(void **state)
{
    (void)state;
    struct shape_table *t = shape_table_create();
    struct slice values[SHAPE_SLOTS_MAX];
    const struct shape *first =
        shape_for(t, SLICE_LIT("{\"a\":\"x\",\"b\":1,\"c\":[\"y\"]}"), values);
    const struct shape *same = shape_for(
        t, SLICE_LIT("{\"a\":\"a longer text, \\\\ \\u0041\",\"b\":-12,\"c\":[]}"), values);
    assert_ptr_equal(first, same);
    assert_true(slice_is(values[0], "a longer text, \\\\ \\u0041"));
    assert_true(slice_is(values[1], "-12"));
    assert_true(slice_is(values[2], "[]"));
    /* Values of another kind, or bytes behind, are no match. */
    assert_true(shape_for(t, SLICE_LIT("{\"a\":1,\"b\":1,\"c\":[]}"), values) != first);
    assert_true(shape_for(t, SLICE_LIT("{\"a\":\"x\",\"b\":{},\"c\":[]}"), values) != first);
    assert_true(shape_for(t, SLICE_LIT("{\"a\":\"x\",\"b\":1,\"c\":{}}"), values) != first);
    assert_true(shape_for(t, SLICE_LIT("{\"a\":\"x\",\"b\":1,\"c\":[]} "), values) != first);
    shape_table_release(t);
}

/* The same path in two shapes is the same; slots of one shape never are. */
static void test_paths(void **state)
{
    (void)state;
    struct shape_table *t = shape_table_create();
    struct slice values[SHAPE_SLOTS_MAX];
    const struct shape *a =
        shape_for(t, SLICE_LIT("{\"x\":{\"y\":1},\"y\":2,\"x\":{\"y\":3}}"), values);
    const struct shape *b = shape_for(t, SLICE_LIT("{\"y\":2,\"x\":{\"y\":1}}"), values);
    assert_int_equal(a->slot[0].path, b->slot[1].path);
    assert_int_equal(a->slot[1].path, b->slot[0].path);
    assert_true(a->slot[2].path != a->slot[0].path && a->slot[2].path != a->slot[1].path);
    shape_table_release(t);
}

static void test_limits(void **state)
{
    (void)state;
    struct shape_table *t = shape_table_create();
    struct slice values[SHAPE_SLOTS_MAX];
    struct buf doc = {0};
    char text[64];
    for (int i = 0; i < 20; i++) {
        int n = snprintf(text, sizeof text, "{\"k%d\":1,\"l\":2}", i);
        uint32_t number;
        assert_true(shape_of(t, slice_of(text, (size_t)n), 5, 1000, values, &number));
        assert_int_equal(shape_at(t, number)->slots, i < 5 ? 2 : 1);
        assert_int_equal(number, i < 5 ? i : 5);
    }
    shape_table_release(t);
    /* As many slots as there may be, and one more. */
    for (unsigned n = SHAPE_SLOTS_MAX; n <= SHAPE_SLOTS_MAX + 1; n++) {
        t = shape_table_create();
        doc.len = 0;
        for (unsigned i = 0; i < n; i++)
            buf_printf(&doc, "%s\"%u\":%u", i == 0 ? "{" : ",", i, i);
        buf_put_byte(&doc, '}');
        assert_int_equal(shape_for(t, buf_slice(&doc), values)->slots,
                         n == SHAPE_SLOTS_MAX ? n : 1);
        shape_table_release(t);
    }
    /* Deep, and with a long key. */
    t = shape_table_create();
    doc.len = 0;
    for (int i = 0; i < 1000; i++)
        buf_put_str(&doc, "{\"a\":");
    buf_put_str(&doc, "1");
    for (int i = 0; i < 1000; i++)
        buf_put_str(&doc, "}");
    assert_int_equal(shape_for(t, buf_slice(&doc), values)->skeleton.len, 1);
    doc.len = 0;
    buf_printf(&doc, "{\"%0*d\":1}", SHAPE_BYTES_MAX, 0);
    assert_int_equal(shape_for(t, buf_slice(&doc), values)->skeleton.len, 1);
    shape_table_release(t);
    buf_done(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
