/* SPDX-License-Identifier: Apache-2.0 */
/* api/names.c, api/date_math.c, api/mapping.c, api/aliases.c: first what needs no
 * store, then names against a real one in a directory of its own. */
#include "api/aliases.h"
#include "api/date_math.h"
#include "api/mapping.h"
#include "api/names.h"
#include "api/settings.h"

#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

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
        {"*", "", true},          {"*", "abc", true},       {"a*", "abc", true},
        {"a*", "ba", false},      {"*c", "abc", true},      {"*b*", "abc", true},
        {"a*c*e", "abcde", true}, {"a*c*e", "abcd", false}, {"abc", "abc", true},
        {"abc", "abcd", false},   {"abcd", "abc", false},   {"", "", true},
        {"", "a", false},         {"**a**", "a", true},     {"*ab*ab*", "aab", false},
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
        .settings =
            SLICE_LIT("{\"index.number_of_shards\":\"5\",\"index.number_of_replicas\":\"2\","
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
    assert_int_equal(
        mapping_merge(json_root(SLICE_LIT("{\"properties\":{\".a\":{}}}")), &mapping, &err),
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
    assert_int_equal(
        aliases_read(json_root(SLICE_LIT("{\"a\":{\"bogus\":1}}")), SLICE_NONE, &list, &err),
        RC_INVALID);
    buf_done(&list);
}

/* ---- with a store */
static char dir[] = "/tmp/test_names.XXXXXX";
static struct work *work;
static struct api *api;

static void fatal(void *arg, const char *text)
{
    (void)arg;
    fail_msg("%s", text);
}

static void make(const char *name, const char *body)
{
    struct err err = {RC_OK, 0, ""};
    enum rc rc = names_create(api, slice_str(name), slice_str(body), NULL, &err);
    if (rc != RC_OK)
        print_error("%s: %s\n", name, err.msg);
    assert_int_equal(rc, RC_OK);
}

static int start(void **state)
{
    struct err err = {RC_OK, 0, ""};
    struct store_options options = {
        .wal_bytes = 8 << 20,
        .segment_bytes = 8 << 20,
        .cache_bytes = 1 << 20,
        .catalog_map_bytes = 64 << 20,
        .checkpoint_ms = 1000,
        .gc_deletes_ms = 1000,
        .idle_seal_ms = 1000,
        .fatal = fatal,
    };
    struct api_options api_options = {.identity_version = "8.19.2"};
    (void)state;
    if (mkdtemp(dir) == NULL || work_start(2, &work, &err) != RC_OK)
        return -1;
    options.path_data = dir;
    options.work = work;
    if (store_open(&options, &api_options.store, &err) != RC_OK ||
        api_create(&api_options, &api, &err) != RC_OK) {
        print_error("%s\n", err.msg);
        return -1;
    }
    make("a1", "{\"aliases\":{\"both\":{},\"one\":{}}}");
    make("a2", "{\"aliases\":{\"both\":{\"is_write_index\":true},\"shy\":{\"is_hidden\":true}}}");
    make("b1", "{\"settings\":{\"index.hidden\":true},\"aliases\":{\"seen\":{}}}");
    make(".c", "{\"settings\":{\"hidden\":true}}");
    return 0;
}

static int stop(void **state)
{
    char command[64];
    struct store *store = api->o.store;
    (void)state;
    api_destroy(api);
    store_close(store);
    work_stop(work);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void resolved(void **state)
{
    enum { UNAVAILABLE = 1, SOME = 2, HIDDEN = 4, NO_ALIASES = 8 };
    static const struct {
        const char *expression;
        unsigned flags;
        enum rc rc;
        const char *want; /* names, or what is missing */
    } cases[] = {
        {"a1", 0, RC_OK, "a1"},
        {"a2,a1", 0, RC_OK, "a1,a2"},
        {"*", 0, RC_OK, "a1,a2"},
        {"", 0, RC_OK, "a1,a2"},
        {"_all", HIDDEN, RC_OK, ".c,a1,a2,b1"},
        {"a*,-a1", 0, RC_OK, "a2"},
        {"*,-both", 0, RC_OK, ""},
        {"both", 0, RC_OK, "a1,a2"},
        {"on*", 0, RC_OK, "a1"},
        {"sh*", 0, RC_NOT_FOUND, "sh*"},
        {"sh*", HIDDEN, RC_OK, "a2"},
        {"shy", 0, RC_OK, "a2"},
        {"b*", 0, RC_OK, "a1,a2"}, /* by the alias */
        {"see*", 0, RC_OK, "b1"},  /* a visible alias of a hidden index */
        {".*", 0, RC_OK, ".c"},
        {"b1", 0, RC_OK, "b1"},
        {"x*", 0, RC_NOT_FOUND, "x*"},
        {"x*", SOME, RC_OK, ""},
        {"a1,x", 0, RC_NOT_FOUND, "x"},
        {"a1, x", UNAVAILABLE, RC_OK, "a1"},
        {"x", UNAVAILABLE, RC_NOT_FOUND, "x"},
        {"x", UNAVAILABLE | SOME, RC_OK, ""},
        {"both", NO_ALIASES, RC_INVALID, ""},
        {"bo*", NO_ALIASES | SOME, RC_OK, ""},
        {"_x", SOME, RC_INVALID, ""},
        {"<a{now/d{", SOME, RC_INVALID, ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct names_options options = {
            .ignore_unavailable = (cases[i].flags & UNAVAILABLE) != 0,
            .allow_no_indices = (cases[i].flags & SOME) != 0 || strchr(cases[i].expression, '-'),
            .expand = EXPAND_OPEN | ((cases[i].flags & HIDDEN) != 0 ? EXPAND_HIDDEN : 0u),
            .forbid_aliases = (cases[i].flags & NO_ALIASES) != 0,
        };
        struct names_list list = {NULL, 0};
        struct slice missing = SLICE_NONE;
        struct err err = {RC_OK, 0, ""};
        struct buf got = {NULL, 0, 0, false};
        enum rc rc =
            names_resolve(api, slice_str(cases[i].expression), &options, &list, &missing, &err);
        for (size_t k = 0; k < list.count; k++)
            buf_printf(&got, "%s%s", k == 0 ? "" : ",", index_name(list.index[k]));
        buf_put_slice(&got, missing);
        buf_put_byte(&got, 0);
        if (rc != cases[i].rc || strcmp((char *)got.ptr, cases[i].want) != 0)
            print_error("%s: %d %s %s\n", cases[i].expression, rc, got.ptr, err.msg);
        assert_int_equal(rc, cases[i].rc);
        assert_string_equal((char *)got.ptr, cases[i].want);
        buf_done(&got);
        names_list_done(&list);
    }
}

static void template(char kind, const char *name, const char *body)
{
    struct err err = {RC_OK, 0, ""};
    assert_int_equal(store_meta_put(api->o.store, kind, slice_str(name), slice_str(body), &err),
                     RC_OK);
}

static void targets(void **state)
{
    static const struct {
        const char *name;
        enum names_need need;
        unsigned flags;
        enum rc rc;
        const char *want; /* index, or part of the text */
    } cases[] = {
        {"a1", NAMES_READ, false, RC_OK, "a1"},
        {"a1", NAMES_WRITE_CREATE, false, RC_OK, "a1"},
        {"one", NAMES_READ, false, RC_OK, "a1"},
        {"one", NAMES_WRITE, true, RC_OK, "a1"},
        {"both", NAMES_WRITE_CREATE, false, RC_OK, "a2"},
        {"both", NAMES_READ, false, RC_INVALID, "[a1, a2], can't execute a single index op"},
        {"a1", NAMES_WRITE, true, RC_NOT_FOUND, "is not an alias"},
        {"new", NAMES_READ, false, RC_NOT_FOUND, ""},
        {"new", NAMES_WRITE, false, RC_NOT_FOUND, ""},
        {"new", NAMES_WRITE_CREATE, true, RC_NOT_FOUND, "is not an alias"},
        {"new", NAMES_WRITE_CREATE, false, RC_OK, "new"},
        {"New", NAMES_WRITE_CREATE, false, RC_INVALID, "must be lowercase"},
        {"blocked", NAMES_READ, false, RC_OK, "blocked"},
        {"blocked", NAMES_APPEND, false, RC_INVALID,
         "blocked by: [FORBIDDEN/8/index write (api)];"},
        {"flow-1", NAMES_WRITE_CREATE, false, RC_INVALID, "op_type of create are allowed"},
        {"flow-1", NAMES_APPEND, false, RC_OK, "000001"},
        {"flow-1", NAMES_APPEND, NAMES_REQUIRE_STREAM, RC_OK, "000001"},
        {"flow-1", NAMES_WRITE, NAMES_CHANGES, RC_INVALID, "op_type of create are allowed"},
        {"flow-1", NAMES_READ, 0, RC_OK, "000001"},
        {"a1", NAMES_APPEND, NAMES_REQUIRE_STREAM, RC_NOT_FOUND, "is not a data stream"},
        {"other", NAMES_APPEND, NAMES_REQUIRE_STREAM, RC_NOT_FOUND, "is not a data stream"},
        {"flow-2", NAMES_APPEND, NAMES_REQUIRE_STREAM, RC_OK, "000001"},
    };
    (void)state;
    make("blocked", "{\"settings\":{\"index.blocks.write\":true}}");
    template('i', "flow", "{\"index_patterns\":[\"flow-*\"],\"data_stream\":{}}");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct names_target target = {NULL, false, false};
        struct err err = {RC_OK, 0, ""};
        enum rc rc = names_target(api, slice_str(cases[i].name), cases[i].need, cases[i].flags,
                                  &target, &err);
        assert_int_equal(rc, cases[i].rc);
        if (rc == RC_OK)
            assert_non_null(strstr(index_name(target.index), cases[i].want));
        else
            assert_non_null(strstr(err.msg, cases[i].want));
        index_release(target.index);
    }
}

static void created(void **state)
{
    static const struct {
        const char *name, *body;
        enum rc rc;
        const char *text;
    } cases[] = {
        {"a1", "", RC_EXISTS, "index [a1/"},
        {"both", "", RC_INVALID, "Invalid index name [both], already exists as alias"},
        {"z", "{\"aliases\":{\"a1\":{}}}", RC_INVALID, "Invalid alias name [a1]"},
        {"z", "{\"settings\":{\"bogus\":1}}", RC_INVALID, "unknown setting [index.bogus]"},
        {"z", "{\"settings\":{\"codec\":\"x\"}}", RC_INVALID, "unknown value for [index.codec]"},
        {"z", "{\"mappings\":{\"_doc\":{}}}", RC_INVALID, "[_doc]"},
    };
    struct index *index;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {RC_OK, 0, ""};
        assert_int_equal(
            names_create(api, slice_str(cases[i].name), slice_str(cases[i].body), NULL, &err),
            cases[i].rc);
        assert_non_null(strstr(err.msg, cases[i].text));
        assert_int_equal(store_index_acquire(api->o.store, SLICE_LIT("z"), &index), RC_NOT_FOUND);
    }
}

static void from_templates(void **state)
{
    struct index *index;
    (void)state;
    template('t', "low",
             "{\"index_patterns\":[\"t-*\"],\"order\":1,\"settings\":"
             "{\"index.codec\":\"lz4\",\"index.priority\":\"1\"}}");
    template('t', "high",
             "{\"index_patterns\":\"t-*\",\"order\":2,\"settings\":"
             "{\"index.codec\":\"none\"},\"aliases\":{\"al-{index}\":{}}}");
    make("t-1", "{\"settings\":{\"index.priority\":null}}");
    assert_int_equal(store_index_acquire(api->o.store, SLICE_LIT("t-1"), &index), RC_OK);
    const struct index_meta *meta = index_meta_acquire(index);
    assert_true(slice_is(meta->settings, "{\"index.codec\":\"none\"}"));
    assert_true(slice_is(meta->aliases, "{\"al-t-1\":{}}"));
    assert_int_equal(index_spec(index)->codec, CODEC_NONE);
    index_meta_release(meta);
    index_release(index);
    /* a composable one puts the legacy ones out of use */
    template('c', "part",
             "{\"template\":{\"settings\":{\"index.codec.compression_level\":\"4\"}}}");
    template('i', "weak", "{\"index_patterns\":[\"t-*\"],\"priority\":1,\"template\":{}}");
    template('i', "strong",
             "{\"index_patterns\":[\"t-*\"],\"priority\":9,\"composed_of\":[\"part\"],"
             "\"template\":{\"settings\":{\"index.codec\":\"zstd\"}}}");
    make("t-2", "");
    assert_int_equal(store_index_acquire(api->o.store, SLICE_LIT("t-2"), &index), RC_OK);
    assert_int_equal(index_spec(index)->codec, CODEC_ZSTD);
    assert_int_equal(index_spec(index)->level, 4);
    index_release(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks),  cmocka_unit_test(globs),          cmocka_unit_test(dates),
        cmocka_unit_test(bodies),  cmocka_unit_test(infos),          cmocka_unit_test(mappings),
        cmocka_unit_test(aliases), cmocka_unit_test(resolved),       cmocka_unit_test(targets),
        cmocka_unit_test(created), cmocka_unit_test(from_templates),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
