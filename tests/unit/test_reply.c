/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: JSON pieces, error bodies, filter_path, pretty, gzip. */
#include "api/call.h"
#include "api/gzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct api api = {.o = {.max_content_length = 1000000}, .major = 8};

static struct api_call call_for(const char *query)
{
    struct api_call call = {
        .method = API_GET, .path = SLICE_LIT("/i/_doc/1"), .query = slice_str(query)};
    assert_true(api_admit(&api, &call));
    return call;
}

static void assert_body(const struct buf *b, const char *expected)
{
    if (b->len != strlen(expected) || memcmp(b->ptr, expected, b->len) != 0)
        fail_msg("got %.*s, expected %s", (int)b->len, (const char *)b->ptr, expected);
}

static void test_json(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_put_byte(&b, '{');
    json_int(&b, "min", INT64_MIN);
    json_uint(&b, "max", UINT64_MAX);
    json_bool(&b, "yes", true);
    json_cstr(&b, "text", "a\"b\\\n\x01");
    json_key(&b, "in");
    buf_put_byte(&b, '{');
    json_bool(&b, "no", false);
    json_raw(&b, "raw", SLICE_LIT("[1, 2]"));
    BUF_PUT_LIT(&b, "}}");
    assert_body(&b, "{\"min\":-9223372036854775808,\"max\":18446744073709551615,\"yes\":true,"
                    "\"text\":\"a\\\"b\\\\\\n\\u0001\",\"in\":{\"no\":false,\"raw\":[1, 2]}}");
    buf_done(&b);
}

static void test_pretty(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"{}", "{ }\n"},
        {"[]", "[ ]\n"},
        {"1", "1\n"},
        {"{\"a\":1}", "{\n  \"a\" : 1\n}\n"},
        {" { \"a\" : [ 1 , {} ] ,\n\"b\":\"x:,{\\\"}\" } ",
         "{\n  \"a\" : [\n    1,\n    { }\n  ],\n  \"b\" : \"x:,{\\\"}\"\n}\n"},
        {"[[[]]]", "[\n  [\n    [ ]\n  ]\n]\n"},
        {"\"a\\\\\"", "\"a\\\\\"\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b = {0};
        json_pretty(slice_str(rows[i].in), &b);
        assert_body(&b, rows[i].out);
        buf_done(&b);
    }
}

static void test_errors(void **state)
{
    (void)state;
    struct api_call call = call_for("filter_path=nothing");
    reply_error(&call, 400, "illegal_argument_exception", "bad [%s]", "\"x\"");
    assert_int_equal(call.reply.status, 400);
    assert_string_equal(call.reply.content_type, "application/json");
    assert_body(&call.reply.body,
                "{\"error\":{\"root_cause\":[{\"type\":\"illegal_argument_exception\",\"reason\":"
                "\"bad [\\\"x\\\"]\"}],\"type\":\"illegal_argument_exception\",\"reason\":"
                "\"bad [\\\"x\\\"]\"},\"status\":400}");
    reply_no_index(&call, SLICE_LIT("logs"));
    assert_body(&call.reply.body,
                "{\"error\":{\"root_cause\":[{\"type\":\"index_not_found_exception\",\"reason\":"
                "\"no such index [logs]\",\"resource.type\":\"index_or_alias\",\"resource.id\":"
                "\"logs\",\"index_uuid\":\"_na_\",\"index\":\"logs\"}],\"type\":"
                "\"index_not_found_exception\",\"reason\":\"no such index [logs]\","
                "\"resource.type\":\"index_or_alias\",\"resource.id\":\"logs\",\"index_uuid\":"
                "\"_na_\",\"index\":\"logs\"},\"status\":404}");
    api_call_done(&call);
}

static void test_codes(void **state)
{
    (void)state;
    static const struct {
        enum rc rc;
        int status;
        const char *type;
    } rows[] = {
        {RC_NOT_FOUND, 404, "resource_not_found_exception"},
        {RC_CONFLICT, 409, "version_conflict_engine_exception"},
        {RC_INVALID, 400, "illegal_argument_exception"},
        {RC_TOO_LARGE, 413, "content_too_long_exception"},
        {RC_BUSY, 429, "es_rejected_execution_exception"},
        {RC_FULL, 429, "cluster_block_exception"},
        {RC_NOMEM, 429, "circuit_breaking_exception"},
        {RC_IO, 503, "i_o_exception"},
        {RC_CORRUPT, 500, "corrupt_index_exception"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_call call = call_for("");
        struct err err = {0};
        err_set(&err, rows[i].rc, 0, "why");
        reply_rc(&call, rows[i].rc, &err);
        assert_int_equal(call.reply.status, rows[i].status);
        assert_int_equal(error_status(rows[i].rc), rows[i].status);
        assert_string_equal(error_type(&api, rows[i].rc), rows[i].type);
        assert_non_null(memmem(call.reply.body.ptr, call.reply.body.len, "\"why\"", 5));
        reply_rc(&call, rows[i].rc, NULL); /* a text of its own */
        assert_null(memmem(call.reply.body.ptr, call.reply.body.len, "\"reason\":\"\"", 11));
        api_call_done(&call);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct api_call call = call_for("");
    struct buf *b = reply_json(&call, 200);
    BUF_PUT_LIT(b, "{\"half\":");
    b->failed = true;
    api_finish(&call);
    assert_int_equal(call.reply.status, 429);
    assert_non_null(
        memmem(call.reply.body.ptr, call.reply.body.len, "circuit_breaking_exception", 26));
    api_call_done(&call);
}

static void test_finish(void **state)
{
    (void)state;
    static const struct {
        const char *query, *expected;
    } rows[] = {
        {"", "{\"a\":{\"b\":1,\"c\":2},\"d\":3}"},
        {"filter_path=a.b", "{\"a\":{\"b\":1}}"},
        {"filter_path=d&pretty", "{\n  \"d\" : 3\n}\n"},
        {"filter_path=none", "{}"},
        {"pretty=false", "{\"a\":{\"b\":1,\"c\":2},\"d\":3}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_call call = call_for(rows[i].query);
        BUF_PUT_LIT(reply_json(&call, 200), "{\"a\":{\"b\":1,\"c\":2},\"d\":3}");
        api_finish(&call);
        assert_body(&call.reply.body, rows[i].expected);
        api_call_done(&call);
    }
}

static void test_wants_gzip(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        bool wants;
    } rows[] = {
        {"", false},
        {"gzip", true},
        {"GZip", true},
        {"gzip,deflate", true},
        {"deflate, gzip;q=1.0, *;q=0.5", true},
        {"gzip;q=0.2", true},
        {"gzip;q=0", false},
        {"gzip;q=0.0", false},
        {"identity", false},
        {"gzipped", false},
        {"br,", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_call call = {.accept_encoding = slice_str(rows[i].header)};
        if (reply_wants_gzip(&call) != rows[i].wants)
            fail_msg("%s", rows[i].header);
    }
}

static unsigned finished;

static void on_finished(struct api_call *call)
{
    (void)call;
    finished++;
}

static void test_gzip(void **state)
{
    (void)state;
    for (int head = 0; head < 2; head++) {
        struct api_call call = call_for("");
        call.accept_encoding = SLICE_LIT("gzip");
        call.finished = on_finished;
        call.queued = true;
        call.method = head ? API_HEAD : API_GET;
        finished = 0;
        struct buf *b = reply_json(&call, 200), back = {0};
        BUF_PUT_LIT(b, "[1");
        for (int i = 0; i < 2000; i++)
            BUF_PUT_LIT(b, ",1");
        buf_put_byte(b, ']');
        size_t len = b->len;
        api_finish(&call);
        assert_int_equal(finished, 1);
        assert_int_equal(call.reply.gzipped, !head); /* no Content-Encoding with HEAD */
        if (!head) {
            assert_int_equal(gunzip(buf_slice(&call.reply.body), len, &back, NULL), RC_OK);
            assert_int_equal(back.len, len);
        }
        buf_done(&back);
        api_call_done(&call);
    }
}

static unsigned windows;

static enum rc three_windows(struct api_call *call)
{
    struct buf *b = &call->reply.body;
    b->len = 0;
    for (unsigned i = 0; i < 1000 * windows; i++)
        buf_printf(b, "%u,", i);
    if (++windows == 3)
        call->reply.more = NULL;
    return RC_OK;
}

/* What a client gets of an answer in windows is the same with gzip and without. */
static void test_gzip_streamed(void **state)
{
    (void)state;
    struct buf sent[2] = {{0}, {0}}, back = {0};
    for (int gzip = 0; gzip < 2; gzip++) {
        struct api_call call = call_for("");
        call.accept_encoding = gzip ? SLICE_LIT("gzip") : SLICE_NONE;
        call.finished = on_finished;
        call.queued = true;
        windows = 0;
        BUF_PUT_LIT(reply_json(&call, 200), "first,");
        call.reply.more = three_windows;
        api_finish(&call);
        assert_int_equal(call.reply.gzipped, gzip);
        buf_put_slice(&sent[gzip], buf_slice(&call.reply.body));
        while (call.reply.more != NULL) {
            assert_int_equal(call.reply.more(&call), RC_OK);
            buf_put_slice(&sent[gzip], buf_slice(&call.reply.body));
        }
        assert_int_equal(windows, 3);
        api_call_done(&call);
    }
    assert_int_equal(gunzip(buf_slice(&sent[1]), sent[0].len, &back, NULL), RC_OK);
    assert_true(sent[0].len > 6 && slice_eq(buf_slice(&back), buf_slice(&sent[0])));
    buf_done(&sent[0]);
    buf_done(&sent[1]);
    buf_done(&back);
}

static void test_headers(void **state)
{
    (void)state;
    struct api_call call = call_for("");
    char large[200];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    reply_header(&call, "Location", "/%s", large); /* rather none than half */
    assert_int_equal(call.reply.header_count, 0);
    for (size_t i = 0; i < 2 * ARRAY_LEN(call.reply.headers); i++)
        reply_header(&call, "X-N", "%zu", i);
    assert_int_equal(call.reply.header_count, ARRAY_LEN(call.reply.headers));
    assert_string_equal(call.reply.headers[0].value, "0");
    api_call_done(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),          cmocka_unit_test(test_pretty),
        cmocka_unit_test(test_errors),        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_finish),
        cmocka_unit_test(test_wants_gzip),    cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_gzip_streamed), cmocka_unit_test(test_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
