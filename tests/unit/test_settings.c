/* SPDX-License-Identifier: Apache-2.0 */
/* api/settings.c: every spelling, every refusal, printing. */
#include "api/settings.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static enum rc read_json(struct settings *settings, const char *json, struct err *err)
{
    assert_true(json_check(slice_str(json), NULL, &(struct json_fault){0, NULL}));
    return settings_read(settings, json_root(slice_str(json)), err);
}

static char *print(const struct settings *settings, bool flat, const char *patterns)
{
    struct buf out = {NULL, 0, 0, false};
    settings_print(settings, flat, slice_str(patterns), &out);
    buf_put_byte(&out, 0);
    assert_false(out.failed);
    return (char *)out.ptr;
}

static void assert_printed(const char *json, bool flat, const char *patterns, const char *want)
{
    struct settings settings = {NULL, 0, 0};
    struct err err = {RC_OK, 0, ""};
    assert_int_equal(read_json(&settings, json, &err), RC_OK);
    char *text = print(&settings, flat, patterns);
    assert_string_equal(text, want);
    free(text);
    settings_done(&settings);
}

static void spellings(void **state)
{
    static const char *const same[] = {
        "{\"index\":{\"codec\":\"zstd\",\"codec.compression_level\":3}}",
        "{\"index.codec\":\"zstd\",\"index.codec.compression_level\":\"3\"}",
        "{\"codec\":\"zstd\",\"index\":{\"codec\":{\"compression_level\":3}}}",
        "{\"codec.compression_level\":3,\"codec\":\"zstd\"}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_printed(same[i], true, "",
                       "{\"index.codec\":\"zstd\",\"index.codec.compression_level\":\"3\"}");
}

static void values(void **state)
{
    (void)state;
    assert_printed("{\"a\":true,\"b\":1.50,\"c\":null,\"d\":[1,\"x\",false],\"e\":[]}", true, "",
                   "{\"index.a\":\"true\",\"index.b\":\"1.50\",\"index.c\":null,"
                   "\"index.d\":[\"1\",\"x\",\"false\"],\"index.e\":[]}");
    assert_printed("{\"big\":9007199254740993,\"u\":\"\\u00e9\"}", true, "",
                   "{\"index.big\":\"9007199254740993\",\"index.u\":\"\\u00e9\"}");
}

static void nested(void **state)
{
    (void)state;
    /* '-' sorts before '.' as a byte, but not between a key and its children */
    assert_printed("{\"codec\":\"zstd\",\"codec-x\":1,\"codec.compression_level\":3,\"a.b\":1,"
                   "\"a.c.d\":2}",
                   false, "",
                   "{\"index\":{\"a\":{\"b\":\"1\",\"c\":{\"d\":\"2\"}},\"codec\":\"zstd\","
                   "\"codec.compression_level\":\"3\",\"codec-x\":\"1\"}}");
    assert_printed("{\"a\":1,\"a.b.c\":2,\"a.b.d\":3}", false, "",
                   "{\"index\":{\"a\":\"1\",\"a.b\":{\"c\":\"2\",\"d\":\"3\"}}}");
    assert_printed("{}", false, "", "{}");
}

static void patterns(void **state)
{
    const char *json = "{\"number_of_shards\":5,\"number_of_replicas\":1,\"codec\":\"lz4\"}";
    (void)state;
    assert_printed(json, true, "index.number_of_s*", "{\"index.number_of_shards\":\"5\"}");
    assert_printed(json, true, "x,index.codec", "{\"index.codec\":\"lz4\"}");
    assert_printed(json, false, "_all",
                   "{\"index\":{\"codec\":\"lz4\",\"number_of_replicas\":\"1\","
                   "\"number_of_shards\":\"5\"}}");
    assert_printed(json, false, "nothing", "{}");
}

static void unreadable(void **state)
{
    char longest[1200];
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"index.codec\":\"zstd\",\"codec\":\"lz4\"}", "duplicate settings key [index.codec]"},
        {"{\"a\":[{\"b\":1}]}", "only value lists"},
        {"{\"a\":[null]}", "only value lists"},
        {"{\"a\\u0000b\":1}", "without NUL"},
        {"[1]", "must be an object"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct settings settings = {NULL, 0, 0};
        struct err err = {RC_OK, 0, ""};
        assert_int_equal(read_json(&settings, cases[i].json, &err), RC_INVALID);
        assert_non_null(strstr(err.msg, cases[i].text));
        settings_done(&settings);
    }
    struct settings settings = {NULL, 0, 0};
    struct err err = {RC_OK, 0, ""};
    snprintf(longest, sizeof longest, "{\"%01000d\":1}", 1);
    assert_int_equal(read_json(&settings, longest, &err), RC_INVALID);
    settings_done(&settings);
}

static enum rc check_and_resolve(const char *json, struct codec_spec *spec, struct err *err)
{
    struct settings settings = {NULL, 0, 0};
    enum rc rc = read_json(&settings, json, err);
    if (rc == RC_OK)
        rc = settings_check(&settings, SETTINGS_CREATE, NULL, err);
    if (rc == RC_OK)
        rc = settings_resolve(&settings, spec, err);
    settings_done(&settings);
    return rc;
}

static void resolved(void **state)
{
    static const struct {
        const char *json;
        enum codec codec;
        int level;
        uint32_t block_bytes; /* 0: not looked at */
    } cases[] = {
        {"{}", CODEC_ZSTD, 3, 512 * 1024},
        {"{\"codec\":null}", CODEC_ZSTD, 3, 0},
        {"{\"codec\":\"DEFAULT\"}", CODEC_ZSTD, 3, 0},
        {"{\"codec\":\"zstd\"}", CODEC_ZSTD, 3, 0},
        {"{\"codec\":\"Zstd\",\"codec.compression_level\":1}", CODEC_ZSTD, 1, 0},
        {"{\"codec\":\"zstd_no_dict\",\"codec.compression_level\":\"9\"}", CODEC_ZSTD, 9, 0},
        {"{\"codec\":\"ZSTD\",\"compression.zstd.level\":7,\"compression.zstd.jni\":true,"
         "\"compression.zstd.dict\":false}",
         CODEC_ZSTD, 7, 0},
        {"{\"codec\":\"zstd\",\"compression.zstd.level\":7,\"codec.compression_level\":\"7\"}",
         CODEC_ZSTD, 7, 0},
        {"{\"codec\":\"jd_zstd_6\"}", CODEC_ZSTD, 6, 0},
        {"{\"codec\":\"best_compression\"}", CODEC_ZSTD, 9, 1024 * 1024},
        {"{\"codec\":\"best_speed\"}", CODEC_LZ4, 0, 0},
        {"{\"codec\":\"lz4\"}", CODEC_LZ4, 0, 0},
        {"{\"codec\":\"zlib\",\"codec.compression_level\":9}", CODEC_ZLIB, 9, 0},
        {"{\"codec\":\"deflate\"}", CODEC_ZLIB, 6, 0},
        {"{\"codec\":\"none\",\"block.size\":\"4kb\"}", CODEC_NONE, 0, 4096},
        {"{\"block\":{\"size\":\"4MB\",\"layout\":\"plain\"}}", CODEC_ZSTD, 3, 4 << 20},
        {"{\"block.size\":\"65536b\"}", CODEC_ZSTD, 3, 65536},
        {"{\"block.layout\":\"plain\"}", CODEC_ZSTD, 3, 64 * 1024},
        {"{\"block.layout\":\"columnar\"}", CODEC_ZSTD, 3, 512 * 1024},
        {"{\"codec\":\"best_compression\",\"block.layout\":\"plain\"}", CODEC_ZSTD, 9, 256 * 1024},
        {"{\"codec\":\"none\"}", CODEC_NONE, 0, 64 * 1024},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct codec_spec spec = {.level = -1};
        struct err err = {RC_OK, 0, ""};
        enum rc rc = check_and_resolve(cases[i].json, &spec, &err);
        if (rc != RC_OK)
            print_error("%s: %s\n", cases[i].json, err.msg);
        assert_int_equal(rc, RC_OK);
        assert_int_equal(spec.codec, cases[i].codec);
        assert_int_equal(spec.level, cases[i].level);
        if (cases[i].block_bytes != 0)
            assert_int_equal(spec.block_bytes, cases[i].block_bytes);
    }
}

static void refused(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"codec\":\"best_compression1\"}",
         "unknown value for [index.codec] must be one of [default"},
        {"{\"codec\":\"best_compression1\"}", "but was: best_compression1"},
        {"{\"codec\":[\"zstd\"]}", "unknown value for [index.codec]"},
        {"{\"codec\":\"default\",\"codec.compression_level\":3}",
         "[index.codec.compression_level]"},
        {"{\"codec.compression_level\":3}", "cannot be set without [index.codec]"},
        {"{\"compression.zstd.level\":3}", "cannot be set without [index.codec]"},
        {"{\"codec\":\"best_compression\",\"codec.compression_level\":3}", "cannot be set for the"},
        {"{\"codec\":\"lz4\",\"codec.compression_level\":1}", "cannot be set for the [lz4]"},
        {"{\"codec\":\"zlib\",\"compression.zstd.level\":1}", "cannot be set for the [zlib]"},
        {"{\"codec\":\"zstd\",\"codec.compression_level\":0}",
         "[index.codec.compression_level] must be from 1 to "},
        {"{\"codec\":\"zstd\",\"codec.compression_level\":-1}", "value [-1]"},
        {"{\"codec\":\"zstd\",\"codec.compression_level\":99}", "value [99]"},
        {"{\"codec\":\"zstd\",\"codec.compression_level\":3.5}", "value [3.5]"},
        {"{\"codec\":\"zstd\",\"codec.compression_level\":\"\"}", "value []"},
        {"{\"codec\":\"zlib\",\"codec.compression_level\":10}", "must be from 1 to 9"},
        {"{\"codec\":\"zstd\",\"compression.zstd.level\":7,\"codec.compression_level\":6}",
         "contradict"},
        {"{\"codec\":\"zstd\",\"compression.zstd.jni\":\"maybe\"}", "only [true] or [false]"},
        {"{\"block.size\":65536}", "unit is missing"},
        {"{\"block.size\":\"4095b\"}", "from [4kb] to [4mb]"},
        {"{\"block.size\":\"4097kb\"}", "from [4kb] to [4mb]"},
        {"{\"block.size\":\"99999999999999999999gb\"}", "index.block.size"},
        {"{\"block.layout\":\"Columnar\"}", "must be one of [plain, columnar] but was: Columnar"},
        {"{\"block.layout\":\"rows\"}", "[index.block.layout]"},
        {"{\"bogus\":1}", "unknown setting [index.bogus] please check that any required plugins"},
        {"{\"codek\":\"zstd\"}", "unknown setting [index.codek]"},
        {"{\"codec.level\":3}", "unknown setting [index.codec.level]"},
        {"{\"merge\":1}", "unknown setting [index.merge]"},
        {"{\"uuid\":\"x\"}", "private index setting [index.uuid]"},
        {"{\"version.created\":1}", "private index setting [index.version.created]"},
        {"{\"number_of_shards\":0}", "[index.number_of_shards] must be >= 1"},
        {"{\"number_of_shards\":2000}", "[index.number_of_shards] must be <= 1024"},
        {"{\"number_of_replicas\":-1}", "[index.number_of_replicas] must be >= 0"},
        {"{\"number_of_replicas\":\"many\"}", "Failed to parse value [many]"},
        {"{\"hidden\":\"no\"}", "only [true] or [false]"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct codec_spec spec = {.codec = CODEC_LZ4, .level = 42, .block_bytes = 1};
        struct err err = {RC_OK, 0, ""};
        enum rc rc = check_and_resolve(cases[i].json, &spec, &err);
        if (rc != RC_INVALID || strstr(err.msg, cases[i].text) == NULL)
            print_error("%s: %d %s\n", cases[i].json, rc, err.msg);
        assert_int_equal(rc, RC_INVALID);
        assert_non_null(strstr(err.msg, cases[i].text));
        assert_int_equal(spec.level, 42); /* outputs are untouched on failure */
    }
}

static void known(void **state)
{
    static const char *const cases[] = {
        "{\"number_of_shards\":5,\"number_of_replicas\":1,\"refresh_interval\":\"5s\","
        "\"index\":{\"mapping\":{\"total_fields\":{\"limit\":10000}},"
        "\"lifecycle\":{\"name\":\"p\"}}}",
        "{\"analysis\":{\"analyzer\":{\"a\":{\"type\":\"custom\",\"filter\":[\"x\",\"y\"]}}}}",
        "{\"auto_expand_replicas\":\"0-1\",\"translog.durability\":\"async\","
        "\"query.default_field\":[\"message\",\"tags\"],\"max_docvalue_fields_search\":200,"
        "\"sort.field\":[\"a\"],\"unassigned.node_left.delayed_timeout\":\"5m\",\"knn\":true,"
        "\"routing.allocation.include._tier_preference\":\"data_content\","
        "\"blocks.read_only_allow_delete\":null,\"soft_deletes.enabled\":true}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct codec_spec spec;
        struct err err = {RC_OK, 0, ""};
        enum rc rc = check_and_resolve(cases[i], &spec, &err);
        if (rc != RC_OK)
            print_error("%s\n", err.msg);
        assert_int_equal(rc, RC_OK);
    }
}

static void updates(void **state)
{
    static const struct {
        const char *json;
        enum settings_use use;
        const char *text; /* NULL: fine */
    } cases[] = {
        {"{\"refresh_interval\":\"1s\"}", SETTINGS_UPDATE_OPEN, NULL},
        {"{\"number_of_replicas\":2}", SETTINGS_UPDATE_OPEN, NULL},
        {"{\"codec\":\"zstd\"}", SETTINGS_UPDATE_OPEN,
         "Can't update non dynamic settings [[index.codec]] for open indices [[d5/uuid]]"},
        {"{\"codec\":null}", SETTINGS_UPDATE_OPEN, "[[index.codec]]"},
        {"{\"codec\":\"zstd\"}", SETTINGS_UPDATE_CLOSED,
         "final d5/uuid setting [index.codec], not updateable"},
        {"{\"block.size\":\"64kb\"}", SETTINGS_UPDATE_CLOSED, "not updateable"},
        {"{\"number_of_shards\":2}", SETTINGS_UPDATE_CLOSED, "not updateable"},
        {"{\"analysis.analyzer.a.type\":\"x\"}", SETTINGS_UPDATE_OPEN, "non dynamic"},
        {"{\"analysis.analyzer.a.type\":\"x\"}", SETTINGS_UPDATE_CLOSED, NULL},
        {"{\"bogus\":1}", SETTINGS_UPDATE_OPEN, "unknown setting [index.bogus]"},
        {"{\"codec\":\"bogus\"}", SETTINGS_TEMPLATE, "unknown value for [index.codec]"},
        {"{\"codec.compression_level\":3}", SETTINGS_TEMPLATE, NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct settings settings = {NULL, 0, 0};
        struct err err = {RC_OK, 0, ""};
        assert_int_equal(read_json(&settings, cases[i].json, &err), RC_OK);
        enum rc rc = settings_check(&settings, cases[i].use, "d5/uuid", &err);
        assert_int_equal(rc, cases[i].text == NULL ? RC_OK : RC_INVALID);
        if (cases[i].text != NULL)
            assert_non_null(strstr(err.msg, cases[i].text));
        settings_done(&settings);
    }
}

static void overlay(void **state)
{
    struct settings base = {NULL, 0, 0}, over = {NULL, 0, 0};
    struct err err = {RC_OK, 0, ""};
    (void)state;
    assert_int_equal(read_json(&base, "{\"a\":1,\"b\":2,\"c\":3}", &err), RC_OK);
    assert_int_equal(read_json(&over, "{\"a\":null,\"b\":20,\"d\":40,\"e\":null}", &err), RC_OK);
    assert_int_equal(settings_overlay(&base, &over, false, &err), RC_OK);
    char *text = print(&base, true, "");
    assert_string_equal(text, "{\"index.b\":\"20\",\"index.c\":\"3\",\"index.d\":\"40\"}");
    free(text);
    settings_done(&over);
    assert_int_equal(read_json(&over, "{\"b\":7,\"c\":null,\"f\":8}", &err), RC_OK);
    assert_int_equal(settings_overlay(&base, &over, true, &err), RC_OK);
    text = print(&base, true, "");
    assert_string_equal(text, "{\"index.b\":\"20\",\"index.c\":\"3\",\"index.d\":\"40\","
                              "\"index.f\":\"8\"}");
    free(text);
    settings_done(&over);
    settings_done(&base);
}

static void bytes(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t bytes;
    } cases[] = {
        {"0b", true, 0},          {"1kb", true, 1024}, {"2MB", true, 2 << 20},
        {"3g", true, 3ull << 30}, {"1", false, 0},     {"kb", false, 0},
        {"1.5kb", false, 0},      {"", false, 0},      {"18446744073709551615kb", false, 0},
        {"1 kb", false, 0},       {"1kbx", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t n = 0;
        assert_int_equal(settings_bytes(slice_str(cases[i].text), &n), cases[i].ok);
        assert_int_equal(n, cases[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings), cmocka_unit_test(values),     cmocka_unit_test(nested),
        cmocka_unit_test(patterns),  cmocka_unit_test(unreadable), cmocka_unit_test(resolved),
        cmocka_unit_test(refused),   cmocka_unit_test(known),      cmocka_unit_test(updates),
        cmocka_unit_test(overlay),   cmocka_unit_test(bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
