/* SPDX-License-Identifier: Apache-2.0 */
/* api/cat_table.c: the printer, through calls made by hand. */
#include "api/cat.h"
#include "api/routes.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct cat_column columns[] = {
    {"name", "n,nm", "a name", false, false},   {"docs.count", "dc", "how many", false, true},
    {"size", "s", "bytes", false, true},        {"extra", "", "only when asked for", true, false},
    {"last", "", "left-aligned", false, false},
};

static void finished(struct api_call *call)
{
    (void)call;
}

/* Rows: (beta, 10, 2048, x, -), (a, 9, -, y, zz). */
static char *reply(const char *query, const char *accept, int *status)
{
    struct api api = {.o = {.cluster_name = "c"}};
    struct api_call call = {
        .method = API_GET,
        .path = SLICE_LIT("/_cat/indices"),
        .query = slice_str(query),
        .accept = slice_str(accept),
        .finished = finished,
    };
    struct cat_table table;
    assert_true(api_admit(&api, &call));
    cat_begin(&table, columns, ARRAY_LEN(columns));
    cat_text(&table, "beta");
    cat_number(&table, 10);
    cat_bytes(&table, 2048);
    cat_text(&table, "x");
    cat_text(&table, "-");
    cat_text(&table, "a");
    cat_number(&table, 9);
    cat_empty(&table);
    cat_text(&table, "y");
    cat_text(&table, "zz");
    cat_reply(&call, &table);
    buf_put_byte(&call.reply.body, 0);
    char *text = strdup((const char *)call.reply.body.ptr);
    *status = call.reply.status;
    api_call_done(&call);
    return text;
}

static void printed(void **state)
{
    static const struct {
        const char *query, *accept, *want;
    } cases[] = {
        {"", "", "beta 10 2kb -\na     9     zz\n"},
        {"v", "", "name docs.count size last\nbeta         10  2kb -\na             9      zz\n"},
        {"v=false", "*/*", "beta 10 2kb -\na     9     zz\n"},
        {"h=dc,n", "", "10 beta\n 9 a\n"},
        {"h=dc,n&v=true", "", "dc n\n10 beta\n 9 a\n"},
        {"h=nothing", "", ""},
        {"h=d*,extra", "", "10 x\n 9 y\n"},
        {"h=n&s=dc", "", "a\nbeta\n"},
        {"h=n&s=name", "", "a\nbeta\n"},
        {"h=n&s=name:desc", "", "beta\na\n"},
        {"h=n&s=extra:asc,n", "", "beta\na\n"},
        {"h=s&bytes=b", "", "2048\n    \n"},
        {"h=s&bytes=kb", "", "2\n \n"},
        {"h=n,s&format=json", "", "[{\"n\":\"beta\",\"s\":\"2kb\"},{\"n\":\"a\",\"s\":null}]"},
        {"h=n", "application/json", "[{\"n\":\"beta\"},{\"n\":\"a\"}]"},
        {"h=n", "text/plain,application/json", "beta\na\n"},
        {"h=n&format=text", "application/json", "beta\na\n"},
        {"help", "",
         "name       | n,nm | a name\ndocs.count | dc   | how many\nsize       | s    | bytes\n"
         "extra      |      | only when asked for\nlast       |      | left-aligned\n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int status;
        char *text = reply(cases[i].query, cases[i].accept, &status);
        assert_int_equal(status, 200);
        assert_string_equal(text, cases[i].want);
        free(text);
    }
}

static void refused(void **state)
{
    static const char *const cases[] = {"s=bogus", "bytes=x", "bytes=bb", "v=maybe", "bytes=kbb"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int status;
        char *text = reply(cases[i], "", &status);
        assert_int_equal(status, 400);
        assert_non_null(strstr(text, "illegal_argument_exception"));
        free(text);
    }
}

static void sizes(void **state)
{
    static const struct {
        uint64_t bytes;
        char unit;
        const char *want;
    } cases[] = {
        {0, 0, "0b"},
        {225, 0, "225b"},
        {1023, 0, "1023b"},
        {1024, 0, "1kb"},
        {1126, 0, "1kb"},
        {1127, 0, "1.1kb"},
        {1536, 0, "1.5kb"},
        {1048575, 0, "1023.9kb"},
        {1048576, 0, "1mb"},
        {5ull << 30, 0, "5gb"},
        {1536, 'k', "1"},
        {1536, 'b', "1536"},
        {3ull << 40, 'g', "3072"},
        {UINT64_MAX, 0, "16383.9pb"},
    };
    char text[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cat_size(cases[i].bytes, cases[i].unit, text);
        assert_string_equal(text, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed),
        cmocka_unit_test(refused),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
