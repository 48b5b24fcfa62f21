/* SPDX-License-Identifier: Apache-2.0 */
/* storage/json.[ch], storage/json_tree.[ch] */
#include "config/limits.h"
#include "storage/json.h"
#include "storage/json_tree.h"

#include <setjmp.h>

#include <cmocka.h>

/* Both checkers, on a copy of exact size so that a sanitizer sees every byte read too many. */
static bool check_both(struct slice text, enum json_type *type, struct json_fault *fault)
{
    uint8_t *copy = malloc(text.len + 1);
    assert_non_null(copy);
    struct slice s = slice_of(text.len == 0 ? copy : copy + 1, text.len);
    copy[0] = '"';
    if (text.len != 0)
        memcpy(copy + 1, text.ptr, text.len);
    struct json_fault other = {0, NULL};
    enum json_type other_type = JSON_END;
    *fault = (struct json_fault){0, NULL};
    *type = JSON_END;
    bool ok = json_check(s, type, fault);
    assert_int_equal(ok, json_check_scalar(s, &other_type, &other));
    assert_int_equal(*type, other_type);
    assert_int_equal(fault->at, other.at);
    assert_ptr_equal(fault->what, other.what);
    free(copy);
    return ok;
}

#define T(s)                                                                                       \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        enum json_type type;
    } row[] = {
        {T("{}"), JSON_OBJECT},
        {T(" \t\r\n[ ] \t\r\n"), JSON_ARRAY},
        {T("\"\""), JSON_STRING},
        {T("0"), JSON_NUMBER},
        {T("-0"), JSON_NUMBER},
        {T("-0.0e-00"), JSON_NUMBER},
        {T("10E+5"), JSON_NUMBER},
        {T("true"), JSON_TRUE},
        {T("false"), JSON_FALSE},
        {T("null "), JSON_NULL},
        {T("{\"a\":{\"b\":[1,2,{\"c\":[]}]},\"a\" : null}"), JSON_OBJECT},
        {T("\"\\ud800 lone, \\udc00 \\uD83D\\ude00\""), JSON_STRING},
        {T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff\""), JSON_STRING},
        {T("\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"
           "\""),
         JSON_STRING},
        {T("\"0123456789012345678901234567890\x7f\""), JSON_STRING},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        enum json_type type;
        struct json_fault fault;
        if (!check_both(row[i].text, &type, &fault))
            fail_msg("row %zu: %s at %zu", i, fault.what, fault.at);
        assert_int_equal(type, row[i].type);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        size_t at;
        const char *what;
    } row[] = {
        {T(""), 0, "unexpected end"},
        {T("  "), 2, "unexpected end"},
        {T("{"), 1, "unexpected end"},
        {T("{\"a\""), 4, "unexpected end"},
        {T("{\"a\":"), 5, "unexpected end"},
        {T("{\"a\":1"), 6, "unexpected end"},
        {T("[1,"), 3, "unexpected end"},
        {T("\"abc"), 4, "unexpected end"},
        {T("\"abc\\"), 5, "unexpected end"},
        {T("\"\\u12"), 5, "unexpected end"},
        {T("-"), 1, "unexpected end"},
        {T("1."), 2, "unexpected end"},
        {T("1e+"), 3, "unexpected end"},
        {T("nul"), 3, "unexpected end"},
        {T("nulL"), 3, "unexpected byte"},
        {T("{} {}"), 3, "bytes behind"},
        {T("1 x"), 2, "bytes behind"},
        {T("{\"a\":1},"), 7, "bytes behind"},
        {T("\xef\xbb\xbf{}"), 0, "a value should begin"},
        {T("{\"v\":}"), 5, "a value should begin"},
        {T("[1,]"), 3, "a value should begin"},
        {T("{\"a\":1,}"), 7, "a key should begin"},
        {T("{a:1}"), 1, "a key should begin"},
        {T("{\"a\" 1}"), 5, "':'"},
        {T("{\"a\":1]"), 6, "'}'"},
        {T("[1}"), 2, "']'"},
        {T("[1 2]"), 3, "']'"},
        {T("01"), 0, "leading zero"},
        {T("-01"), 1, "leading zero"},
        {T("1.x"), 2, "invalid number"},
        {T(".5"), 0, "a value should begin"},
        {T("+1"), 0, "a value should begin"},
        {T("NaN"), 0, "a value should begin"},
        {T("'a'"), 0, "a value should begin"},
        {T("\"0123456789abcdef\x1f\""), 17, "control byte"},
        {T("\"a\0b\""), 2, "control byte"},
        {T("\"\\x\""), 1, "invalid escape"},
        {T("\"\\u12g4\""), 1, "invalid escape"},
        {T("\"\x80\""), 1, "UTF-8"},
        {T("\"\xc0\x80\""), 1, "UTF-8"},
        {T("\"\xc1\xbf\""), 1, "UTF-8"},
        {T("\"\xe0\x9f\xbf\""), 1, "UTF-8"},
        {T("\"\xed\xa0\x80\""), 1, "UTF-8"},
        {T("\"\xf0\x8f\xbf\xbf\""), 1, "UTF-8"},
        {T("\"\xf4\x90\x80\x80\""), 1, "UTF-8"},
        {T("\"\xf5\x80\x80\x80\""), 1, "UTF-8"},
        {T("\"\xc3\xa4\xe2\x82\""), 3, "UTF-8"},
        {T("\"\xc3"), 1, "UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        enum json_type type;
        struct json_fault fault;
        if (check_both(row[i].text, &type, &fault))
            fail_msg("row %zu accepted", i);
        if (fault.at != row[i].at || strstr(fault.what, row[i].what) == NULL)
            fail_msg("row %zu: %s at %zu", i, fault.what, fault.at);
    }
}

/* Every byte at every place of a number that is looked over in steps of 8. */
static void test_digits(void **state)
{
    (void)state;
    for (size_t len = 2; len < 20; len++) {
        for (size_t at = 1; at < len; at++) {
            for (unsigned c = 0; c < 256; c++) {
                uint8_t text[24];
                bool last = at == len - 1;
                bool digit = c >= '0' && c <= '9';
                bool between = c == '.' || c == 'e' || c == 'E' || c == ',';
                bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
                enum json_type type;
                struct json_fault fault;
                memset(text, '9', sizeof text);
                text[0] = '[';
                text[at + 1] = (uint8_t)c;
                text[len + 1] = ']';
                bool ok = check_both(slice_of(text, len + 2), &type, &fault);
                assert_int_equal(ok, digit || (last ? space : between));
            }
        }
    }
}

/* Every byte at every place of a text that is looked over in steps of 32 and 16. */
static void test_plain(void **state)
{
    (void)state;
    uint8_t text[70];
    memset(text, 'a', sizeof text);
    for (size_t at = 0; at < sizeof text; at++) {
        for (unsigned c = 0; c < 256; c++) {
            bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            text[at] = (uint8_t)c;
            assert_int_equal(json_plain_len(slice_of(text, sizeof text)), plain ? sizeof text : at);
        }
        text[at] = 'a';
    }
}

/* Every special byte at every place of the steps. */
static void test_alignment(void **state)
{
    (void)state;
    for (size_t len = 1; len < 70; len++) {
        for (size_t at = 0; at < len; at++) {
            static const uint8_t bad[] = {0x00, 0x1f, '"', 0x80, 0xff, '\\'};
            for (size_t k = 0; k < sizeof bad; k++) {
                uint8_t text[80];
                memset(text, 'a', sizeof text);
                text[0] = text[len + 1] = '"';
                enum json_type type;
                struct json_fault fault;
                assert_true(check_both(slice_of(text, len + 2), &type, &fault));
                text[at + 1] = bad[k];
                assert_false(check_both(slice_of(text, len + 2), &type, &fault));
                if (bad[k] != '\\' || at + 1 < len)
                    assert_int_equal(fault.at, at + 1 + (bad[k] == '"'));
            }
        }
    }
}

static void test_depth(void **state)
{
    (void)state;
    static const struct {
        unsigned depth;
        bool ok;
    } row[] = {{1, true},
               {63, true},
               {64, true},
               {65, true},
               {500, true},
               {LIMIT_JSON_DEPTH, true},
               {LIMIT_JSON_DEPTH + 1, false},
               {100000, false}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct buf b = {.ptr = NULL};
        for (unsigned d = 0; d < row[i].depth; d++)
            buf_put_str(&b, d % 3 == 0 ? "[" : "{\"k\":");
        buf_put_str(&b, "1");
        for (unsigned d = row[i].depth; d-- > 0;)
            buf_put_str(&b, d % 3 == 0 ? "]" : "}");
        enum json_type type;
        struct json_fault fault;
        assert_int_equal(check_both(buf_slice(&b), &type, &fault), row[i].ok);
        if (!row[i].ok)
            assert_string_equal(fault.what, "containers nested too deeply");
        else
            assert_true(json_same(json_root(buf_slice(&b)), json_root(buf_slice(&b))));
        buf_done(&b);
    }
}

static void test_walk(void **state)
{
    (void)state;
    struct slice text =
        SLICE_LIT(" {\"a\" : [1, \"]}\\\"\" ,{\"x\":[ ]}] , \"b\":-1.5e3,\"c\":{ } } ");
    struct json_value root = json_root(text), value;
    assert_int_equal(root.type, JSON_OBJECT);
    assert_int_equal(root.text.len, text.len - 2);
    struct json_scan scan = json_enter(root);
    struct slice key;
    assert_true(json_member(&scan, &key, &value));
    assert_true(slice_is(key, "\"a\""));
    assert_true(slice_is(value.text, "[1, \"]}\\\"\" ,{\"x\":[ ]}]"));
    struct json_scan inner = json_enter(value);
    static const char *const element[] = {"1", "\"]}\\\"\"", "{\"x\":[ ]}"};
    for (size_t i = 0; i < ARRAY_LEN(element); i++) {
        assert_true(json_element(&inner, &value));
        assert_true(slice_is(value.text, element[i]));
    }
    assert_false(json_element(&inner, &value));
    assert_false(json_element(&inner, &value));
    assert_true(json_member(&scan, &key, &value));
    assert_int_equal(value.type, JSON_NUMBER);
    assert_true(slice_is(value.text, "-1.5e3"));
    assert_true(json_member(&scan, &key, &value));
    assert_true(slice_is(key, "\"c\"") && slice_is(value.text, "{ }"));
    inner = json_enter(value);
    assert_false(json_member(&inner, &key, &value));
    assert_false(json_member(&scan, &key, &value));
    /* Not JSON: wrong answers are fine, reading outside is not. */
    static const char *const broken[] = {"{\"a", "{\"a\"", "{\"a\":", "[",
                                         "\"\\", "{}}",    "]",       "{1:2"};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        size_t n = strlen(broken[i]);
        uint8_t *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, broken[i], n);
        scan = json_enter(json_root(slice_of(copy, n)));
        while (json_member(&scan, &key, &value))
            ;
        scan = (struct json_scan){copy, copy + n};
        while (json_next_element(&scan) && json_take(&scan).text.len != 0)
            ;
        free(copy);
    }
}

static void test_strings(void **state)
{
    (void)state;
    static const struct {
        const char *quoted, *text;
    } row[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz"},
        {"\"\\u0041\\u00e4\\u20aC\"", "A\xc3\xa4\xe2\x82\xac"},
        {"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct buf b = {.ptr = NULL};
        struct slice quoted = slice_str(row[i].quoted), plain;
        json_unquote(quoted, &b);
        assert_true(slice_is(buf_slice(&b), row[i].text));
        assert_true(json_string_is(quoted, row[i].text));
        assert_false(json_string_is(quoted, "plain "));
        bool escaped = strchr(row[i].quoted, '\\') != NULL;
        assert_int_equal(json_plain(quoted, &plain), !escaped);
        b.len = 0;
        json_quote(slice_str(row[i].text), &b);
        assert_true(json_string_eq(buf_slice(&b), quoted));
        assert_int_equal(json_string_cmp(buf_slice(&b), quoted), 0);
        buf_done(&b);
    }
    assert_false(json_string_is(SLICE_LIT("\"a\\\\b\""), "a\\\\b"));
    assert_false(json_string_eq(SLICE_LIT("\"\\ud800\""), SLICE_LIT("\"\\ud801\"")));
    assert_true(json_string_cmp(SLICE_LIT("\"ab\""), SLICE_LIT("\"a\"")) > 0);
    assert_true(json_string_cmp(SLICE_LIT("\"\\u0061\""), SLICE_LIT("\"b\"")) < 0);
    assert_true(json_string_cmp(SLICE_LIT("\"\\uffff\""), SLICE_LIT("\"\\ud83d\\ude00\"")) < 0);
    struct buf b = {.ptr = NULL};
    json_unquote(SLICE_LIT("\"x\\ud800y\\udc00\\ud800\\u0041\""), &b);
    assert_true(slice_is(buf_slice(&b), "x\xef\xbf\xbdy\xef\xbf\xbd\xef\xbf\xbd"
                                        "A"));
    b.len = 0;
    json_quote(SLICE_LIT("\x01\x1f\x7f\n\xff\xc3\xa4\xed\xa0\x80"), &b);
    assert_true(slice_is(buf_slice(&b), "\"\\u0001\\u001f\x7f\\n\xef\xbf\xbd\xc3\xa4"
                                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""));
    buf_done(&b);
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t u = 7;
    int64_t i = 7;
    assert_true(json_u64(SLICE_LIT("18446744073709551615"), &u) && u == UINT64_MAX);
    static const char *const no_u[] = {"18446744073709551616", "-1", "1.0", "1e3", "", "-"};
    for (size_t k = 0; k < ARRAY_LEN(no_u); k++)
        assert_false(json_u64(slice_str(no_u[k]), &u));
    assert_true(u == UINT64_MAX);
    assert_true(json_i64(SLICE_LIT("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(json_i64(SLICE_LIT("9223372036854775807"), &i) && i == INT64_MAX);
    static const char *const no_i[] = {"9223372036854775808", "-9223372036854775809", "1.0", ""};
    for (size_t k = 0; k < ARRAY_LEN(no_i); k++)
        assert_false(json_i64(slice_str(no_i[k]), &i));
}

static void test_same(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } row[] = {
        {"1", "1", true},
        {"1", "1.0", false},
        {"1.0", "1e0", true},
        {"1.50", "15e-1", true},
        {"0.00150", "1.5E-3", true},
        {"100.0", "1e+2", true},
        {"10.01", "1.001e1", true},
        {"10.01", "1.01e1", false},
        {"0.0", "0e99", true},
        {"0", "-0", true},
        {"0.0", "-0.0", false},
        {"1e400", "1e401", false},
        {"1e99999999999999999999", "1e0", false},
        {"12345678901234567890", "12345678901234567891", false},
        {"0.1", "0.01", false},
        {"100", "10", false},
        {"true", "false", false},
        {"null", "null", true},
        {"\"a\\u0041\"", "\"aA\"", true},
        {"\"1\"", "1", false},
        {"[1,2]", "[ 1 , 2 ]", true},
        {"[1,2]", "[2,1]", false},
        {"[1]", "[1,2]", false},
        {"[]", "[[]]", false},
        {"{\"a\":1,\"b\":[{\"c\":2,\"d\":3}]}", "{\"b\":[{\"d\":3,\"c\":2}],\"\\u0061\":1}", true},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
        {"{\"a\":2,\"a\":1}", "{\"a\":1}", true},
        {"{}", "{ }", true},
        {"{}", "[]", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct json_value a = json_root(slice_str(row[i].a)), b = json_root(slice_str(row[i].b));
        if (json_same(a, b) != row[i].same || json_same(b, a) != row[i].same)
            fail_msg("row %zu: %s %s", i, row[i].a, row[i].b);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_digits),    cmocka_unit_test(test_plain),
        cmocka_unit_test(test_alignment), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_walk),      cmocka_unit_test(test_strings),
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
