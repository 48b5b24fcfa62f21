/* SPDX-License-Identifier: Apache-2.0 */
/* Admission of a call: routes, decoding of path and query, refusals by the headers. */
#include "api/call.h"
#include "api/routes.h"
#include "config/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct api test_api(void)
{
    return (struct api){.o = {.max_content_length = MIB}, .major = 8};
}

static struct api_call call_for(enum api_method method, const char *path, const char *query)
{
    return (struct api_call){.method = method, .path = slice_str(path), .query = slice_str(query)};
}

static void assert_slice(struct slice s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    if (s.len != 0)
        assert_memory_equal(s.ptr, expected, s.len);
}

static bool body_has(const struct api_call *call, const char *text)
{
    const struct buf *b = &call->reply.body;
    return b->len != 0 && memmem(b->ptr, b->len, text, strlen(text)) != NULL;
}

static void test_decode(void **state)
{
    (void)state;
    static const struct {
        const char *raw;
        bool plus;
        const char *expected; /* NULL: refused */
    } rows[] = {
        {"", false, ""},
        {"abc", false, "abc"},
        {"a%2Fb", false, "a/b"},
        {"%2525", false, "%25"}, /* once */
        {"a+b", false, "a+b"},
        {"a+b", true, "a b"},
        {"a%2Bb", true, "a+b"},
        {"%c3%A9", false, "\xc3\xa9"},
        {"%F0%9F%98%80", false, "\xf0\x9f\x98\x80"},
        {"%00", false, NULL},
        {"a%00b", true, NULL},
        {"%", false, NULL},
        {"%4", false, NULL},
        {"a%4", false, NULL},
        {"%zz", false, NULL},
        {"%ff", false, NULL},
        {"%C0%AF", false, NULL},       /* overlong */
        {"%ED%A0%80", false, NULL},    /* surrogate */
        {"%F4%90%80%80", false, NULL}, /* over 10FFFF */
        {"%E2%82", false, NULL},
        {"\xc3", false, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_call call = call_for(API_GET, "/", "");
        struct slice out = SLICE_NONE;
        bool ok = call_decode(&call, slice_str(rows[i].raw), rows[i].plus, &out);
        if (ok != (rows[i].expected != NULL))
            fail_msg("row %zu: %s", i, rows[i].raw);
        if (ok)
            assert_slice(out, rows[i].expected);
        api_call_done(&call);
    }
}

static void test_routes(void **state)
{
    (void)state;
    static const struct {
        enum api_method method;
        const char *path, *pattern; /* NULL: none */
        bool allowed;               /* when none: does the path exist? */
    } rows[] = {
        {API_GET, "/", "/", true},
        {API_HEAD, "/", "/", true},
        {API_POST, "/_bulk", "/_bulk", true},
        {API_PUT, "/_bulk/", "/_bulk", true},
        {API_POST, "/logs/_bulk", "/{index}/_bulk", true},
        {API_GET, "/_bulk", NULL, true},
        {API_DELETE, "/_bulk", NULL, true},
        {API_OTHER, "/logs", NULL, true},
        {API_GET, "/logs/_doc/1", "/{index}/_doc/{id}", true},
        {API_GET, "/logs/_doc/_doc", "/{index}/_doc/{id}", true},
        {API_POST, "/logs/_doc/", "/{index}/_doc", true},
        {API_PUT, "/logs/_doc", NULL, true},
        {API_PUT, "/logs", "/{index}", true},
        {API_GET, "/%3Clogs-%7Bnow%2Fd%7D%3E", "/{index}", true},
        {API_GET, "/_all", "/{index}", true},
        {API_GET, "/_nosuchapi", NULL, false},
        {API_PUT, "/_nosuchapi", NULL, false},
        {API_GET, "/_cat/indices", "/_cat/indices", true},
        {API_GET, "/_cat/indices/logs", "/_cat/indices/{index}", true},
        {API_GET, "/_settings", "/_settings", true},
        {API_HEAD, "/_cat/indices", "/_cat/indices", true},
        {API_HEAD, "/logs/_stats", "/{index}/_stats", true},
        {API_HEAD, "/_data_stream/_stats", "/_data_stream/_stats", true},
        {API_HEAD, "/_search", NULL, true},
        {API_HEAD, "/_flush", NULL, true},
        {API_GET, "/a/b/c/d/e", NULL, false},
        {API_GET, "/a/b/c/d/e/f/g/h/i/j", NULL, false},
        {API_GET, "//", NULL, false},
        {API_GET, "/logs//1", NULL, false},
        {API_OPTIONS, "*", NULL, false},
        {API_GET, "", NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct route_path path;
        unsigned allowed = 0;
        const struct route *route = NULL;
        if (route_split(slice_str(rows[i].path), &path))
            route = route_find(&path, rows[i].method, &allowed);
        if ((route == NULL) != (rows[i].pattern == NULL))
            fail_msg("row %zu: %s", i, rows[i].path);
        if (route != NULL)
            assert_string_equal(route->pattern, rows[i].pattern);
        else
            assert_int_equal(allowed != 0, rows[i].allowed);
    }
}

static void test_table(void **state)
{
    (void)state;
    size_t count;
    const struct route *table = route_table(&count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(table[i].handler);
        assert_true(table[i].text[0] != '\0' && table[i].pattern[0] == '/');
        for (size_t j = 0; j < i; j++) /* no method of a pattern twice */
            assert_false(strcmp(table[i].pattern, table[j].pattern) == 0 &&
                         (table[i].methods & table[j].methods) != 0);
    }
}

static void test_parts_and_params(void **state)
{
    (void)state;
    struct api api = test_api();
    struct api_call call = call_for(
        API_GET, "/logs-%C3%A9/_doc/a%2Fb+c",
        "routing=x%20y+z&&preference=_local&_source=a%2Cb&refresh&realtime=false&routing=last");
    bool flag;
    uint64_t number;
    assert_true(api_admit(&api, &call));
    assert_slice(call_part(&call, "index"), "logs-\xc3\xa9");
    assert_slice(call_part(&call, "id"), "a/b+c");
    assert_slice(call_part(&call, "none"), "");
    assert_slice(call_param(&call, "_source"), "a,b");
    assert_slice(call_param(&call, "routing"), "last");
    assert_true(call_has(&call, "refresh"));
    assert_false(call_has(&call, "version"));
    assert_true(call_bool(&call, "refresh", false, &flag) && flag);
    assert_true(call_bool(&call, "realtime", true, &flag) && !flag);
    assert_true(call_bool(&call, "pretty", true, &flag) && flag);
    assert_true(call_u64(&call, "version", 7, &number) && number == 7);
    assert_false(call_bool(&call, "preference", true, &flag));
    assert_int_equal(call.reply.status, 400);
    assert_true(body_has(&call, "Failed to parse value [_local]"));
    api_call_done(&call);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        bool ok;
        uint64_t expected;
    } rows[] = {
        {"version=0", true, 0},
        {"version=18446744073709551615", true, UINT64_MAX},
        {"version=18446744073709551616", false, 0},
        {"version=-1", false, 0},
        {"version=1e3", false, 0},
        {"version=", false, 0},
        {"version=1%20", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api api = test_api();
        struct api_call call = call_for(API_GET, "/i/_doc/1", rows[i].query);
        uint64_t v = 99;
        assert_true(api_admit(&api, &call));
        assert_int_equal(call_u64(&call, "version", 1, &v), rows[i].ok);
        assert_true(v == (rows[i].ok ? rows[i].expected : 99));
        assert_int_equal(call.reply.status, rows[i].ok ? 0 : 400);
        api_call_done(&call);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        enum api_method method;
        const char *path, *query, *type, *encoding;
        uint64_t length;
        int status; /* 0: admitted */
        const char *text;
    } rows[] = {
        {API_GET, "/_bulk", "", "", "", 0, 405,
         "{\"error\":\"Incorrect HTTP method for uri [/_bulk] and method [GET], allowed: [POST, "
         "PUT]\",\"status\":405}"},
        {API_GET, "/_nosuch", "", "", "", 0, 400,
         "no handler found for uri [/_nosuch] and method [GET]"},
        {API_PUT, "/_nosuch", "", "", "", 0, 400, "\"type\":\"invalid_index_name_exception\""},
        {API_PUT, "/_nosuch/x", "", "", "", 0, 400, "no handler found for uri"},
        {API_OPTIONS, "/_bulk", "", "", "", 0, 200, NULL},
        {API_GET, "/i%00/_doc/1", "", "", "", 0, 400, "malformed escape"},
        {API_GET, "/i/_doc/1", "a%ff=1", "", "", 0, 400, "malformed escape"},
        {API_GET, "/i/_doc/1", "bogus=1", "", "", 0, 400,
         "request [/i/_doc/1] contains unrecognized parameter: [bogus]"},
        {API_GET, "/i/_doc/1", "x=1&y&pretty", "", "", 0, 400,
         "contains unrecognized parameters: [x], [y]"},
        {API_POST, "/_bulk", "timeout=1m&refresh=wait_for", "application/x-ndjson", "", 9, 0, NULL},
        {API_POST, "/_bulk", "", "application/json; charset=UTF-8", "GZIP", 9, 0, NULL},
        {API_POST, "/_bulk", "", "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
         "identity", 9, 0, NULL},
        {API_POST, "/_bulk", "", "", "", 9, 0, NULL},
        {API_POST, "/_bulk", "", "text/plain", "", 9, 406,
         "Content-Type header [text/plain] is not supported"},
        {API_POST, "/_bulk", "", "application/x-www-form-urlencoded", "", 0, 0, NULL},
        {API_GET, "/i/_doc/1", "", "text/plain", "", 9, 0, NULL},
        {API_POST, "/_bulk", "", "", "zstd", 9, 415, "Content-Encoding header [zstd]"},
        {API_POST, "/_bulk", "", "", "", MIB, 0, NULL},
        {API_POST, "/_bulk", "", "", "", MIB + 1, 413, "[1048576] bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api api = test_api();
        struct api_call call = call_for(rows[i].method, rows[i].path, rows[i].query);
        call.content_type = slice_str(rows[i].type);
        call.content_encoding = slice_str(rows[i].encoding);
        call.has_length = true;
        call.content_length = rows[i].length;
        bool admitted = api_admit(&api, &call);
        if (admitted != (rows[i].status == 0) || call.reply.status != rows[i].status)
            fail_msg("row %zu: %s: status %d", i, rows[i].path, call.reply.status);
        if (rows[i].text != NULL && !body_has(&call, rows[i].text))
            fail_msg("row %zu: %.*s", i, (int)call.reply.body.len,
                     (const char *)call.reply.body.ptr);
        if (rows[i].status == 405 || rows[i].method == API_OPTIONS)
            assert_string_equal(call.reply.headers[0].value, "POST, PUT");
        api_call_done(&call);
    }
}

static int64_t charged;

static void count_charge(struct api_call *call, int64_t bytes)
{
    (void)call;
    charged += bytes;
}

static void test_memory(void **state)
{
    (void)state;
    struct api_call call = call_for(API_GET, "/", "");
    call.charge = count_charge;
    charged = 0;
    uint8_t *kept[300];
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        size_t n = i * 37 % 5000;
        kept[i] = call_alloc(&call, n + 1);
        assert_non_null(kept[i]);
        assert_int_equal((uintptr_t)kept[i] % _Alignof(max_align_t), 0);
        memset(kept[i], (int)(i & 0xff), n + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        for (size_t n = i * 37 % 5000 + 1; n-- > 0;)
            assert_int_equal(kept[i][n], i & 0xff);
    assert_slice(call_dup(&call, SLICE_LIT("text")), "text");
    call_charge(&call, 1000);
    call_charge(&call, -400);
    assert_int_equal(charged, 600);
    api_call_done(&call);
    assert_int_equal(charged, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),  cmocka_unit_test(test_routes),
        cmocka_unit_test(test_table),   cmocka_unit_test(test_parts_and_params),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
