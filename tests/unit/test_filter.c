/* SPDX-License-Identifier: Apache-2.0 */
/* api/filter.[ch] */
#include "api/filter.h"
#include "config/limits.h"

#include <setjmp.h>

#include <cmocka.h>

static void expect(struct filter *filter, size_t row, const char *value, const char *kept)
{
    struct buf out = {.ptr = NULL};
    filter_apply(filter, json_root(slice_str(value)), &out);
    if (!slice_is(buf_slice(&out), kept))
        fail_msg("row %zu: %.*s", row, SLICE_FMT(buf_slice(&out)));
    buf_done(&out);
    filter_destroy(filter);
}

static void test_source(void **state)
{
    (void)state;
    static const struct {
        const char *includes, *excludes, *value, *kept;
    } row[] = {
        {"", "", "{ \"a\" : 1 }", "{ \"a\" : 1 }"},
        {",  ,", "", "{\"a\":1}", "{\"a\":1}"},
        {"a", "", "{\"a\":1.0,\"b\":2}", "{\"a\":1.0}"},
        {"b", "", "{\"a\":1,\"b\":2}", "{\"b\":2}"},
        {"a,c", "", "{ \"a\" : 1 ,\n \"b\" : 2 ,\n \"c\" : 3\n}", "{ \"a\" : 1,\n \"c\" : 3\n}"},
        {"x", "", "{ \"a\":1 }", "{}"},
        {"a", "", "{\"a\":{ \"b\" : [1, {}] }}", "{\"a\":{ \"b\" : [1, {}] }}"},
        {"a.b", "", "{\"a\":{\"b\":1,\"c\":2},\"b\":3}", "{\"a\":{\"b\":1}}"},
        {"a.b", "", "{\"a\":1,\"aa\":{\"b\":1}}", "{}"},
        {"a.b", "", "{\"a\":{\"c\":1},\"d\":1}", "{}"},
        {"a.b", "", "{\"a.b\":1,\"a\":{\"b.c\":2,\"b\":3}}", "{\"a.b\":1,\"a\":{\"b\":3}}"},
        {"a.b.c", "", "{\"a.b\":{\"c\":1,\"d\":2},\"a\":{\"b.c\":3}}",
         "{\"a.b\":{\"c\":1},\"a\":{\"b.c\":3}}"},
        {"a.*", "", "{\"a\":{\"b\":1,\"c\":{\"d\":2}},\"ab\":1}",
         "{\"a\":{\"b\":1,\"c\":{\"d\":2}}}"},
        {"a.*", "", "{\"a\":{}}", "{}"},
        {"a", "", "{\"a\":{}}", "{\"a\":{}}"},
        {"*.id", "", "{\"id\":1,\"a\":{\"id\":2,\"b\":{\"id\":3,\"x\":0}}}",
         "{\"a\":{\"id\":2,\"b\":{\"id\":3}}}"},
        {"*", "", "{\"a\":1}", "{\"a\":1}"},
        {"c*", "", "{\"count\":1,\"car\":{\"x\":1},\"d\":1}", "{\"count\":1,\"car\":{\"x\":1}}"},
        {"*a*b", "", "{\"xaxb\":1,\"ab\":2,\"abx\":3}", "{\"xaxb\":1,\"ab\":2}"},
        {"a.b", "", "{\"a\":[{\"b\":1,\"c\":2},{\"c\":3},5,[{\"b\":4}]]}",
         "{\"a\":[{\"b\":1},[{\"b\":4}]]}"},
        {"a.b", "", "{\"a\":[1,2]}", "{}"},
        {"\xc3\xa4,q\"", "", "{\"\\u00e4\":1,\"q\\\"\":2,\"q\":3}", "{\"\\u00e4\":1,\"q\\\"\":2}"},
        {"", "a", "{\"a\":1,\"b\":2}", "{\"b\":2}"},
        {"", "b", "{ \"a\" : 1, \"b\" : 2 }", "{ \"a\" : 1 }"},
        {"", "*", "{\"a\":1}", "{}"},
        {"", "a.b", "{\"a\":{\"b\":1}}", "{\"a\":{}}"},
        {"", "a.b", "{\"a\":[{\"b\":1},{\"b\":1,\"c\":[ ]}],\"d\":[ ]}",
         "{\"a\":[{\"c\":[ ]}],\"d\":[ ]}"},
        {"", "*.field2", "{\"include\":{\"field1\":1,\"field2\":2},\"field2\":3}",
         "{\"include\":{\"field1\":1},\"field2\":3}"},
        {"include", "*.field2", "{\"include\":{\"field1\":1,\"field2\":2},\"count\":1}",
         "{\"include\":{\"field1\":1}}"},
        {"a,b", "a", "{\"a\":1,\"b\":2}", "{\"b\":2}"},
        {"a", "a.b.c", "{\"a\":{\"b\":{\"c\":1,\"d\":2},\"e\":[1]}}",
         "{\"a\":{\"b\":{\"d\":2},\"e\":[1]}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        expect(filter_create(slice_str(row[i].includes), slice_str(row[i].excludes)), i,
               row[i].value, row[i].kept);
}

static void test_path(void **state)
{
    (void)state;
    static const char bulk[] =
        "{\"took\":3,\"errors\":true,\"items\":[{\"index\":{\"_id\":\"1\",\"status\":201}},"
        "{\"create\":{\"status\":409,\"error\":{\"type\":\"t\",\"reason\":\"r\"}}}]}";
    static const char hits[] = "{\"hits\":{\"total\":1,\"hits\":[{\"_source\":{\"name\":\"n\","
                               "\"properties\":{\"size\":1,\"meta\":{\"foo\":2}}}}]}}";
    static const struct {
        const char *patterns, *value, *kept;
    } row[] = {
        {"", "[1]", "[1]"},
        {"errors", bulk, "{\"errors\":true}"},
        {"errors,items.*.error,items.*.status", bulk,
         "{\"errors\":true,\"items\":[{\"index\":{\"status\":201}},"
         "{\"create\":{\"status\":409,\"error\":{\"type\":\"t\",\"reason\":\"r\"}}}]}"},
        {"items.*.error.type", bulk, "{\"items\":[{\"create\":{\"error\":{\"type\":\"t\"}}}]}"},
        {"items.error", bulk, "{}"},
        {"**.type", bulk, "{\"items\":[{\"create\":{\"error\":{\"type\":\"t\"}}}]}"},
        {"**.took,t**k", bulk, "{\"took\":3}"},
        {"**.**.**.took", bulk, "{\"took\":3}"},
        {"items.**.status", bulk,
         "{\"items\":[{\"index\":{\"status\":201}},{\"create\":{\"status\":409}}]}"},
        {"items.**.**.reason", bulk, "{\"items\":[{\"create\":{\"error\":{\"reason\":\"r\"}}}]}"},
        {"**.*.**.reason", bulk, "{\"items\":[{\"create\":{\"error\":{\"reason\":\"r\"}}}]}"},
        {"it*.index.**", bulk, "{\"items\":[{\"index\":{\"_id\":\"1\",\"status\":201}}]}"},
        {"-items", bulk, "{\"took\":3,\"errors\":true}"},
        {"-*", bulk, "{}"},
        {"-items.*.status,-took,-items.*._id", bulk,
         "{\"errors\":true,\"items\":[{\"create\":{\"error\":{\"type\":\"t\",\"reason\":\"r\"}}}]"
         "}"},
        {"-**._source.properties,**._source", hits,
         "{\"hits\":{\"hits\":[{\"_source\":{\"name\":\"n\"}}]}}"},
        {"**.properties,-hits.hits._source.properties.meta", hits,
         "{\"hits\":{\"hits\":[{\"_source\":{\"properties\":{\"size\":1}}}]}}"},
        {"**._source,-**.meta.foo", hits,
         "{\"hits\":{\"hits\":[{\"_source\":{\"name\":\"n\",\"properties\":{\"size\":1}}}]}}"},
        {"**.total", hits, "{\"hits\":{\"total\":1}}"},
        {"*.index", "[{\"index\":1}]", "[]"},
        {"index", "[{\"index\":1,\"b\":2},{\"b\":2}]", "[{\"index\":1}]"},
        {"a\\.b", "{\"a.b\":1,\"c\":2}", "{\"a.b\":1}"},
        {"*.s.n", "{\"log-2026.11.30\":{\"s\":{\"n\":1,\"m\":2}}}",
         "{\"log-2026.11.30\":{\"s\":{\"n\":1}}}"},
        {"log-2026.*.s,-*.s.m", "{\"log-2026.11.30\":{\"s\":{\"n\":1,\"m\":2}},\"x\":1}",
         "{\"log-2026.11.30\":{\"s\":{\"n\":1}}}"},
        {"*.n", "{\"a.b\":{\"n\":1},\"a\":{\"b\":{\"n\":1}}}", "{\"a.b\":{\"n\":1}}"},
        {" a , b ", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        expect(filter_create_path(slice_str(row[i].patterns)), i, row[i].value, row[i].kept);
}

/* Patterns over many words of state, each with its own position in the word. */
static void test_long_lists(void **state)
{
    (void)state;
    struct buf list = {.ptr = NULL}, path = {.ptr = NULL};
    for (unsigned i = 0; i < 300; i++) {
        buf_printf(&list, "f%u.*x,", i);
        buf_printf(&path, "**.g%u.**.x*,", i);
    }
    for (unsigned i = 0; i < 300; i += 7) {
        char value[120], kept[120];
        snprintf(value, sizeof value, "{\"f%u\":{\"abcx\":1,\"abc\":2},\"f\":{\"x\":1}}", i);
        snprintf(kept, sizeof kept, "{\"f%u\":{\"abcx\":1}}", i);
        expect(filter_create(buf_slice(&list), SLICE_NONE), i, value, kept);
        snprintf(value, sizeof value, "{\"g%u\":{\"x\":1,\"y\":{\"xy\":2}},\"x\":3}", i);
        snprintf(kept, sizeof kept, "{\"g%u\":{\"x\":1,\"y\":{\"xy\":2}}}", i);
        expect(filter_create_path(buf_slice(&path)), i, value, kept);
    }
    buf_done(&list);
    buf_done(&path);
}

static void test_deep(void **state)
{
    (void)state;
    struct buf b = {.ptr = NULL};
    for (unsigned i = 0; i < LIMIT_JSON_DEPTH; i++)
        buf_put_str(&b, "{\"k\":");
    buf_put_str(&b, "1");
    for (unsigned i = 0; i < LIMIT_JSON_DEPTH; i++)
        buf_put_str(&b, "}");
    buf_put_byte(&b, 0);
    expect(filter_create(SLICE_LIT("*.x,*k"), SLICE_LIT("*.y")), 0, (const char *)b.ptr,
           (const char *)b.ptr);
    expect(filter_create_path(SLICE_LIT("**.x")), 1, (const char *)b.ptr, "{}");
    buf_done(&b);
}

static void test_streamed(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *path;
        bool wanted;
        const char *value, *kept; /* NULL: nothing */
    } row[] = {
        {"items.*.status", "items", true, "{\"index\":{\"status\":1,\"_id\":2}}",
         "{\"index\":{\"status\":1}}"},
        {"items.*.error", "items", true, "{\"index\":{\"status\":1}}", NULL},
        {"items", "items", true, "{\"index\":{}}", "{\"index\":{}}"},
        {"errors", "items", false, "{\"index\":{}}", NULL},
        {"item", "items", false, "{\"index\":{}}", NULL},
        {"errors", "errors", true, "false", "false"},
        {"-items", "items", false, "{\"index\":{}}", NULL},
        {"-items.index", "items", true, "{\"index\":{}}", NULL},
        {"-items.index", "items", true, "{\"index\":{},\"x\":1}", "{\"x\":1}"},
        {"a.*", "a.b", true, "7", "7"},
        {"a", "a.b", true, "7", "7"},
        {"a.b.c", "a.b", true, "7", NULL},
        {"**.status", "items", true, "{\"index\":{\"status\":1}}", "{\"index\":{\"status\":1}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct filter *filter = filter_create_path(slice_str(row[i].patterns));
        struct buf out = {.ptr = NULL};
        assert_non_null(filter);
        if (filter_wants(filter, row[i].path) != row[i].wanted)
            fail_msg("row %zu: wants", i);
        bool kept = filter_apply_at(filter, row[i].path, json_root(slice_str(row[i].value)), &out);
        const char *text = row[i].kept != NULL ? row[i].kept : "";
        if (kept != (row[i].kept != NULL) || !slice_is(buf_slice(&out), text))
            fail_msg("row %zu: %.*s", i, SLICE_FMT(buf_slice(&out)));
        buf_done(&out);
        filter_destroy(filter);
    }
    assert_true(filter_wants(NULL, "x"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source),     cmocka_unit_test(test_path),
        cmocka_unit_test(test_long_lists), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
