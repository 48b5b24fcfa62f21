/* SPDX-License-Identifier: Apache-2.0 */
/* api/names.c, api/date_math.c, api/mapping.c, api/aliases.c: what needs no store. */
#include "api/aliases.h"
#include "api/date_math.h"
#include "api/mapping.h"
#include "api/names.h"
#include "api/settings.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void checks(void **state)
{
    static const struct {
        const char *name, *fault; /* NULL: fine */
    } cases[] = {
        {"logs", NULL},
        {"logstash-2026.11.30", NULL},
        {".hidden", NULL},
        {"a", NULL},
        {"\xc3\xa9t\xc3\xa9", NULL},
        {"", "must not be empty"},
        {"Logs", "must be lowercase"},
        {"\xc3\x89t\xc3\xa9", "must be lowercase"},
        {"_a", "must not start with"},
        {"-a", "must not start with"},
        {"+a", "must not start with"},
        {".", "must not be '.' or '..'"},
        {"..", "must not be '.' or '..'"},
        {"a b", "must not contain the following characters"},
        {"a/b", "must not contain the following characters"},
        {"a,b", "must not contain the following characters"},
        {"a*", "must not contain the following characters"},
        {"a\\", "must not contain the following characters"},
        {"a<", "must not contain the following characters"},
        {"a|", "must not contain the following characters"},
        {"a?", "must not contain the following characters"},
        {"a\"", "must not contain the following characters"},
        {"a\n", "must not contain the following characters"},
        {"a#", "must not contain '#'"},
        {"a:b", "must not contain ':'"},
    };
    char longest[300];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {RC_OK, 0, ""};
        enum rc rc = names_check(slice_str(cases[i].name), &err);
        assert_int_equal(rc, cases[i].fault == NULL ? RC_OK : RC_INVALID);
        if (cases[i].fault != NULL) {
            assert_non_null(strstr(err.msg, cases[i].fault));
            assert_non_null(strstr(err.msg, "Invalid index name ["));
            assert_string_equal(names_error_type(NULL, rc, &err), "invalid_index_name_exception");
        }
    }
    memset(longest, 'a', sizeof longest);
    assert_int_equal(names_check(slice_of(longest, 255), NULL), RC_OK);
    assert_int_equal(names_check(slice_of(longest, 256), NULL), RC_INVALID);
    assert_int_equal(names_check(slice_of("a\0b", 3), NULL), RC_INVALID);
    assert_int_equal(aliases_check_name(SLICE_LIT("Upper"), NULL), RC_OK);
    assert_int_equal(aliases_check_name(SLICE_LIT("a*"), NULL), RC_INVALID);
}

static void globs(void **state)
{
    static const struct {
        const char *glob, *name;
        bool match;
    } cases[] = {
        {"*", "", true},          {"*", "abc", true},      {"a*", "abc", true},
        {"a*", "ba", false},      {"*c", "abc", true},     {"*b*", "abc", true},
        {"a*c*e", "abcde", true}, {"a*c*e", "abcd", false}, {"abc", "abc", true},
        {"abc", "abcd", false},   {"abcd", "abc", false},  {"", "", true},
        {"", "a", false},         {"**a**", "a", true},    {"*ab*ab*", "aab", false},
        {"*aab", "aaab", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(names_match(slice_str(cases[i].glob), slice_str(cases[i].name)),
                         cases[i].match);
}

static void dates(void **state)
{
    static const struct {
        const char *name, *want; /* NULL: refused */
    } cases[] = {
        {"plain", "plain"},
        {"<logstash-{now/d}-000001>", "logstash-2026.11.30-000001"},
        {"<a-{now/M{yyyy.MM}}>", "a-2026.11"},
        {"<a-{now-1d}>", "a-2026.11.29"},
        {"<a-{now+1M/M{yyyy-MM-dd}}>", "a-2026-12-01"},
        {"<a-{now+1y/y{yy}}>", "a-27"},
        {"<a-{now/w{yyyy.MM.dd}}>", "a-2026.11.30"},
        {"<a-{now-1d/w{yyyy.MM.dd}}>", "a-2026.11.23"},
        {"<a-{now/h{yyyy.MM.dd.HH}}>", "a-2026.11.30.23"},
        {"<a-{now{yyyy.MM.dd|+12:00}}>", "a-2026.12.01"},
        {"<a-{now{HH:mm:ss|-01:30}}>", "a-21:35:07"},
        {"<a\\{b\\}>", "a{b}"},
        {"<{now/d}x{now/d{dd}}>", "2026.11.30x30"},
        {"<a-{now/d>", NULL},
        {"<a-now/d}>", NULL},
        {"<a-{tomorrow}>", NULL},
        {"<a-{now/2d}>", NULL},
        {"<a-{now+}>", NULL},
        {"<a-{now{}}>", NULL},
        {"<a-{now{yyyy|moon}}>", NULL},
        {"<", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out = {NULL, 0, 0, false};
        struct err err = {RC_OK, 0, ""};
        /* 2026-11-30T23:05:07Z, a Monday */
        enum rc rc = date_math_resolve(slice_str(cases[i].name), 1796079907000ull, &out, &err);
        assert_int_equal(rc, cases[i].want == NULL ? RC_INVALID : RC_OK);
        buf_put_byte(&out, 0);
        if (cases[i].want != NULL)
            assert_string_equal((char *)out.ptr, cases[i].want);
        buf_done(&out);
    }
}

static void bodies(void **state)
{
    static const struct {
        const char *body, *type, *text; /* NULL: fine */
    } cases[] = {
        {"", NULL, NULL},
        {"{}", NULL, NULL},
        {"{\"settings\":{},\"mappings\":null,\"aliases\":{\"a\":{}}}", NULL, NULL},
        {"{\"setting\":{}}", "parse_exception", "unknown key [setting] for create index"},
        {"{\"number_of_shards\":1}", "parse_exception", "unknown key [number_of_shards]"},
        {"{\"settings\":[]}", "parse_exception", "key [settings] must be an object"},
        {"{\"settings\":\"x\"}", "parse_exception", "key [settings] must be an object"},
        {"[]", "parse_exception", "must be a JSON object"},
        {"{", "json_parse_exception", "invalid JSON"},
        {"{} x", "json_parse_exception", "invalid JSON"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct names_body parts;
        struct err err = {RC_OK, 0, ""};
        const char *type = NULL;
        enum rc rc = names_body_read(slice_str(cases[i].body), &parts, &type, &err);
        assert_int_equal(rc, cases[i].type == NULL ? RC_OK : RC_INVALID);
        if (cases[i].type != NULL) {
            assert_string_equal(type, cases[i].type);
            assert_non_null(strstr(err.msg, cases[i].text));
        }
    }
}

static void infos(void **state)
{
    struct index_meta meta = {
        .settings = SLICE_LIT("{\"index.number_of_shards\":\"5\",\"index.number_of_replicas\":\"2\","
                              "\"index.hidden\":\"true\"}"),
        .extra = SLICE_LIT("{\"state\":\"close\"}"),
    };
    struct names_info info;
    (void)state;
    names_info_get(&meta, &info);
    assert_true(info.closed && info.hidden && info.shards == 5 && info.replicas == 2);
    meta = (struct index_meta){.settings = SLICE_NONE};
    names_info_get(&meta, &info);
    assert_true(!info.closed && !info.hidden && info.shards == 1 && info.replicas == 0);
}

static void assert_merged(const char *const *sent, const char *want)
{
    struct buf mapping = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    for (; *sent != NULL; sent++)
        assert_int_equal(mapping_merge(json_root(slice_str(*sent)), &mapping, &err), RC_OK);
    buf_put_byte(&mapping, 0);
    assert_string_equal((char *)mapping.ptr, want);
    buf_done(&mapping);
}

static void mappings(void **state)
{
    struct buf mapping = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    (void)state;
    assert_merged((const char *const[]){"{}", NULL}, "{}");
    assert_merged((const char *const[]){"{\"properties\":{\"a\":{\"type\":\"text\"}}}",
                                        "{\"properties\":{\"b\":{\"type\":\"long\"}}}", NULL},
                  "{\"properties\":{\"a\":{\"type\":\"text\"},\"b\":{\"type\":\"long\"}}}");
    assert_merged((const char *const[]){"{\"properties\":{\"a.b.c\":{\"type\":\"text\"},"
                                        "\"a.d\":{\"type\":\"date\"}}}",
                                        NULL},
                  "{\"properties\":{\"a\":{\"properties\":{\"b\":{\"properties\":{\"c\":"
                  "{\"type\":\"text\"}}},\"d\":{\"type\":\"date\"}}}}}");
    assert_merged((const char *const[]){"{\"dynamic_templates\":[{\"a.b\":{}}],"
                                        "\"_meta\":{\"x.y\":1}}",
                                        NULL},
                  "{\"dynamic_templates\":[{\"a.b\":{}}],\"_meta\":{\"x.y\":1}}");
    assert_int_equal(mapping_merge(json_root(SLICE_LIT("{\"_doc\":{}}")), &mapping, &err),
                     RC_INVALID);
    assert_int_equal(mapping_merge(json_root(SLICE_LIT("[]")), &mapping, &err), RC_INVALID);
    assert_int_equal(mapping_merge(json_root(SLICE_LIT("{\"properties\":{\".a\":{}}}")), &mapping,
                                   &err),
                     RC_INVALID);
    buf_done(&mapping);
    /* as deep as dots go: refused, not a crash */
    struct buf deep = {NULL, 0, 0, false};
    BUF_PUT_LIT(&deep, "{\"properties\":{\"a");
    for (int i = 0; i < 5000; i++)
        BUF_PUT_LIT(&deep, ".a");
    BUF_PUT_LIT(&deep, "\":{}}}");
    assert_int_equal(mapping_merge(json_root(buf_slice(&deep)), &mapping, &err), RC_INVALID);
    buf_done(&deep);
    buf_done(&mapping);
}

static void aliases(void **state)
{
    struct buf list = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    (void)state;
    assert_int_equal(aliases_read(json_root(SLICE_LIT(
                                      "{\"a\":{},\"b\":{\"routing\":5},\"{index}-x\":{\"filter\":"
                                      "{\"term\":{\"f\":1}},\"is_write_index\":true}}")),
                                  SLICE_LIT("logs"), &list, &err),
                     RC_OK);
    assert_int_equal(aliases_read(json_root(SLICE_LIT("{\"a\":{\"index_routing\":\"i\","
                                                      "\"routing\":\"r\"}}")),
                                  SLICE_NONE, &list, &err),
                     RC_OK);
    json_put(&list, SLICE_LIT("\"nothing\""), SLICE_NONE);
    buf_put_byte(&list, 0);
    assert_string_equal((char *)list.ptr,
                        "{\"b\":{\"index_routing\":\"5\",\"search_routing\":\"5\"},\"logs-x\":"
                        "{\"filter\":{\"term\":{\"f\":1}},\"is_write_index\":true},\"a\":"
                        "{\"index_routing\":\"i\",\"search_routing\":\"r\"}}");
    list.len--;
    assert_int_equal(aliases_read(json_root(SLICE_LIT("{\"a*\":{}}")), SLICE_NONE, &list, &err),
                     RC_INVALID);
    assert_int_equal(aliases_read(json_root(SLICE_LIT("{\"a\":{\"bogus\":1}}")), SLICE_NONE, &list,
                                  &err),
                     RC_INVALID);
    buf_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks), cmocka_unit_test(globs), cmocka_unit_test(dates),
        cmocka_unit_test(bodies), cmocka_unit_test(infos), cmocka_unit_test(mappings),
        cmocka_unit_test(aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
