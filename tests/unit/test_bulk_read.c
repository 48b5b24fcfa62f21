/* SPDX-License-Identifier: Apache-2.0 */
/* api/bulk_read.[ch] */
#include "api/bulk_read.h"

#include "config/limits.h"

#include <setjmp.h>

#include <cmocka.h>

struct run {
    struct buf scratch;
    struct bulk_reader reader;
    struct shape_reader shapes; /* that only check */
    struct bulk_item item;
    const char *type;
    struct err err;
};

static void run_init(struct run *run, const char *body)
{
    *run = (struct run){.type = NULL};
    assert_true(buf_reserve(&run->scratch, strlen(body)));
    shape_reader_init(&run->shapes, NULL);
    bulk_reader_init(&run->reader, slice_str(body), &run->shapes, &run->scratch);
}

static enum rc run_next(struct run *run)
{
    return bulk_next(&run->reader, &run->item, &run->type, &run->err);
}

static void test_items(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"v\":1}\n"
                   "\n \t\r\n"
                   "{\"create\":{}}\r\n {\"v\":2} \r\n"
                   "{\"delete\":{\"_id\":5}}\n"
                   "{\"update\":{\"_id\":true,\"_index\":null}}\n{\"doc\":{}}\n");
    assert_int_equal(run_next(&run), RC_OK);
    assert_int_equal(run.item.op, WRITE_INDEX);
    assert_int_equal(run.item.line, 1);
    assert_true(slice_is(run.item.index, "a") && slice_is(run.item.id, "1") && run.item.has_id);
    assert_true(slice_is(run.item.source, "{\"v\":1}") && run.item.source_ok);
    assert_true(run.item.if_seq_no == SEQ_NONE && run.item.if_primary_term == 0);
    assert_int_equal(run_next(&run), RC_OK);
    assert_int_equal(run.item.op, WRITE_CREATE);
    assert_int_equal(run.item.line, 5);
    assert_true(run.item.index.len == 0 && !run.item.has_id && !run.item.has_version);
    assert_true(slice_is(run.item.source, " {\"v\":2} "));
    assert_int_equal(run_next(&run), RC_OK);
    assert_int_equal(run.item.op, WRITE_DELETE);
    assert_true(slice_is(run.item.id, "5") && run.item.source.len == 0);
    assert_int_equal(run_next(&run), RC_OK);
    assert_int_equal(run.item.op, WRITE_UPDATE);
    assert_int_equal(run.item.line, 8);
    assert_true(slice_is(run.item.id, "true") && run.item.index.len == 0);
    assert_int_equal(run_next(&run), RC_NOT_FOUND);
    assert_int_equal(run_next(&run), RC_NOT_FOUND);
    buf_done(&run.scratch);
}

static void test_metadata(void **state)
{
    (void)state;
    struct run run;
    run_init(&run,
             "{ \"index\" : { \"_id\":\"\\u0061\\n\", \"_type\":\"_doc\", \"type\":\"t\","
             "\"routing\":\"r\\u00e4\", \"pipeline\":\"p\", \"version\":\"3\","
             "\"version_type\":\"external_gt\", \"if_seq_no\":7, \"if_primary_term\":2,"
             "\"retry_on_conflict\":4, \"require_alias\":true, \"require_data_stream\":\"false\","
             "\"dynamic_templates\":{\"a\":\"b\"}, \"list_executed_pipelines\":false,"
             "\"op_type\":\"create\", \"_source\":[\"x\", \"y\"], \"parent\":\"q\","
             "\"_parent\":1 } }\n{}\n"
             "{\"index\":{\"_id\":null,\"_routing\":null,\"version\":null,\"version_type\":null,"
             "\"_parent\":null,\"require_alias\":null,\"_version\":null,\"_source\":null,"
             "\"op_type\":null,\"if_seq_no\":null}}\n{}\n"
             "{\"index\":{\"_routing\":5,\"_version\":1,\"_version_type\":\"external_gte\","
             "\"_retry_on_conflict\":0,\"_id\":\"\"}}\n{}\n"
             "{\"update\":{\"_source_includes\":\"a\",\"_source_excludes\":[\"b\"]}}\n{}\n"
             "{\"\\u0069ndex\":{\"_source_\\u0065xcludes\":\"a\",\"\\u005fid\":\"z\"}}\n{}\n");
    assert_int_equal(run_next(&run), RC_OK);
    struct bulk_item *item = &run.item;
    assert_int_equal(item->op, WRITE_CREATE);
    assert_true(slice_is(item->id, "a\n") && slice_is(item->routing, "r\xc3\xa4"));
    assert_true(slice_is(item->pipeline, "p") && slice_is(item->source_filter, "[\"x\", \"y\"]"));
    assert_true(item->has_version && item->version == 3);
    assert_int_equal(item->versioning, VERSION_EXTERNAL);
    assert_true(item->if_seq_no == 7 && item->if_primary_term == 2 && item->retry_on_conflict == 4);
    assert_true(item->require_alias && item->has_require_alias && !item->require_data_stream);
    assert_int_equal(run_next(&run), RC_OK);
    assert_true(!item->has_id && !item->has_version && !item->has_require_alias);
    assert_true(item->op == WRITE_INDEX && item->versioning == VERSION_INTERNAL);
    assert_true(item->routing.len == 0 && item->if_seq_no == SEQ_NONE);
    assert_int_equal(run_next(&run), RC_OK);
    assert_true(slice_is(item->routing, "5") && item->version == 1);
    assert_true(item->has_id && item->id.len == 0 && item->versioning == VERSION_EXTERNAL_GTE);
    assert_int_equal(run_next(&run), RC_OK);
    assert_true(slice_is(item->source_filter, "{\"includes\":\"a\",\"excludes\":[\"b\"]}"));
    assert_int_equal(run_next(&run), RC_OK);
    assert_true(slice_is(item->source_filter, "{\"excludes\":\"a\"}") && slice_is(item->id, "z"));
    assert_int_equal(run_next(&run), RC_NOT_FOUND);
    buf_done(&run.scratch);
}

#define MALFORMED "Malformed action/metadata line [1], "

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *reason;
    } row[] = {
        {"{\"index\":{}}\n{\"v\":1}", "The bulk request must be terminated by a newline [\\n]"},
        {"x", "The bulk request must be terminated by a newline [\\n]"},
        {"[1]\n{}\n", MALFORMED "expected START_OBJECT but found [START_ARRAY]"},
        {"5\n{}\n", MALFORMED "expected START_OBJECT but found [VALUE_NUMBER]"},
        {"{}\n{}\n", MALFORMED "expected FIELD_NAME but found [END_OBJECT]"},
        {"{\"index\":5}\n{}\n",
         MALFORMED "expected START_OBJECT or END_OBJECT but found [VALUE_NUMBER]"},
        {"{\"del\":{}}\n",
         MALFORMED "expected one of [create, delete, index, update] but found [del]"},
        {"{\"index\":{},\"create\":{}}\n{}\n",
         MALFORMED "expected END_OBJECT but found [FIELD_NAME]"},
        {"{\"index\":{}}{\"v\":1}\n", MALFORMED "bytes behind the value at byte [12]"},
        {"\xef\xbb\xbf{\"index\":{}}\n{}\n",
         MALFORMED "unexpected byte where a value should begin at byte [0]"},
        {"{\"index\":{\"_id\":\"a\x01z\"}}\n{}\n",
         MALFORMED "control byte in a string at byte [18]"},
        {"{\"index\":{\"_id\":[1]}}\n{}\n",
         MALFORMED "expected a simple value for field [_id] but found [START_ARRAY]"},
        {"{\"index\":{\"bogus\":{}}}\n{}\n",
         MALFORMED "expected a simple value for field [bogus] but found [START_OBJECT]"},
        {"{\"index\":{\"bo\\u0067us\":1}}\n{}\n",
         "Action/metadata line [1] contains an unknown parameter [bogus]"},
        {"{\"index\":{\"_ID\":1}}\n{}\n",
         "Action/metadata line [1] contains an unknown parameter [_ID]"},
        {"{\"update\":{\"_routing\":\"r\"}}\n{}\n",
         "Action/metadata line [1] contains an unknown parameter [_routing]"},
        {"{\"update\":{\"_version\":1}}\n{}\n",
         "Update requests do not support versioning. Please use `if_seq_no` and "
         "`if_primary_term` instead"},
        {"{\"index\":{\"if_seq_no\":-1}}\n{}\n",
         "Action/metadata line [1] has a bad value [-1] for parameter [if_seq_no]"},
        {"{\"index\":{\"version\":true}}\n{}\n",
         "Action/metadata line [1] has a bad value [true] for parameter [version]"},
        {"{\"index\":{\"version\":9223372036854775808}}\n{}\n",
         "Action/metadata line [1] has a bad value [9223372036854775808] for parameter [version]"},
        {"{\"index\":{\"require_alias\":\"yes\"}}\n{}\n",
         "Action/metadata line [1] has a bad value [yes] for parameter [require_alias]"},
        {"{\"index\":{\"version_type\":\"force\"}}\n{}\n", "No version type match [force]"},
        {"{\"index\":{\"op_type\":\"delete\"}}\n{}\n",
         "opType must be 'create' or 'index', found: [delete]"},
        {"\n{\"delete\":{}}\n{\"index\":{}}\n{}\n\nnot json\n",
         "Malformed action/metadata line [6], unexpected byte at byte [1]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct run run;
        run_init(&run, row[i].body);
        enum rc rc;
        while ((rc = run_next(&run)) == RC_OK)
            ;
        if (rc != RC_INVALID || strcmp(run.err.msg, row[i].reason) != 0)
            fail_msg("row %zu: %d %s", i, (int)rc, run.err.msg);
        assert_string_equal(run.type, "illegal_argument_exception");
        buf_done(&run.scratch);
    }
}

static void test_sources(void **state)
{
    (void)state;
    static const struct {
        const char *line, *what; /* NULL: good */
    } row[] = {
        {"{}", NULL},
        {" { } ", NULL},
        {"{\"v\":}", "unexpected byte where a value should begin"},
        {"[1]", "not an object"},
        {"", "unexpected end of the text"},
        {"{} x", "bytes behind the value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char body[100];
        snprintf(body, sizeof body, "{\"index\":{}}\n%s\r\n{\"delete\":{}}\n", row[i].line);
        struct run run;
        run_init(&run, body);
        assert_int_equal(run_next(&run), RC_OK);
        assert_true(slice_is(run.item.source, row[i].line));
        assert_int_equal(run.item.source_ok, row[i].what == NULL);
        if (row[i].what != NULL)
            assert_string_equal(run.item.fault.what, row[i].what);
        assert_int_equal(run_next(&run), RC_OK);
        assert_int_equal(run.item.op, WRITE_DELETE);
        buf_done(&run.scratch);
    }
}

/* Lines that differ in the id alone are not walked again; whatever else differs is seen. */
static void test_lines_alike(void **state)
{
    (void)state;
    char body[8192], long_id[LIMIT_ID_BYTES + 2];
    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = 0;
    const struct {
        const char *line;
        const char *id; /* NULL: none */
        bool same;
        const char *routing;
    } lines[] = {
        {"{\"index\":{\"_id\":\"a\",\"routing\":\"r\"}}", "a", false, "r"},
        {"{\"index\":{\"_id\":\"bcdefghijklmnopqrstuv\",\"routing\":\"r\"}}",
         "bcdefghijklmnopqrstuv", true, "r"},
        {"{\"index\":{\"_id\":\"c\",\"routing\":\"s\"}}", "c", false, "s"},
        {"{\"index\":{\"_id\":\"c\",\"routing\":\"s\"}}", "c", true, "s"},
        {"{\"index\":{\"_id\":\"d\\u0065\",\"routing\":\"s\"}}", "de", false, "s"},
        {"{\"index\":{\"_id\":\"d\\u0065\",\"routing\":\"s\"}}", "de", true, "s"},
        {"{\"index\":{\"_id\":\"f\",\"routing\":\"s\"}}", "f", false, "s"},
        {"{\"index\":{\"_id\":\"g\xc3\xa4\",\"routing\":\"s\"}}", "g\xc3\xa4", false, "s"},
        {"{\"index\":{\"_id\":\"\",\"routing\":\"s\"}}", "", false, "s"},
        {"{\"index\":{\"_id\":7,\"routing\":\"s\"}}", "7", false, "s"},
        {"{\"index\":{\"_id\":8,\"routing\":\"s\"}}", "8", false, "s"},
        {"{\"index\":{\"_id\":\"i\"}}", "i", false, ""},
        {"{\"index\":{\"_id\":\"j\",\"_id\":\"k\"}}", "k", false, ""},
        {"{\"index\":{\"_id\":\"j\",\"_id\":\"l\"}}", "l", true, ""},
        {"{\"index\":{\"routing\":\"\\u0072\",\"_id\":\"m\"}}", "m", false, "r"},
        {"{\"index\":{\"routing\":\"\\u0072\",\"_id\":\"n\"}}", "n", false, "r"},
        {"{\"index\":{}}", NULL, false, ""},
        {"{\"index\":{}}", NULL, true, ""},
        {"{\"index\":{\"_id\":\"o\"}}", "o", false, ""},
        {NULL, long_id, false, ""},
        {"{\"index\":{\"_id\":\"p\"}}", "p", true, ""},
    };
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (lines[i].line == NULL)
            len += (size_t)snprintf(body + len, sizeof body - len,
                                    "{\"index\":{\"_id\":\"%s\"}}\n{\"n\":%zu}\n", long_id, i);
        else
            len += (size_t)snprintf(body + len, sizeof body - len, "%s\n{\"n\":%zu}\n",
                                    lines[i].line, i);
    }
    assert_true(len < sizeof body);
    struct run run;
    run_init(&run, body);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char source[32];
        snprintf(source, sizeof source, "{\"n\":%zu}", i);
        assert_int_equal(run_next(&run), RC_OK);
        assert_int_equal(run.item.has_id, lines[i].id != NULL);
        assert_true(slice_is(run.item.id, lines[i].id != NULL ? lines[i].id : ""));
        assert_true(slice_is(run.item.routing, lines[i].routing));
        assert_true(slice_is(run.item.source, source));
        assert_int_equal(run.item.line, 2 * i + 1);
        assert_int_equal(run.item.same, lines[i].same);
    }
    assert_int_equal(run_next(&run), RC_NOT_FOUND);
    buf_done(&run.scratch);
}

static void test_ends(void **state)
{
    (void)state;
    static const char *const nothing[] = {"", "\n", " \n\r\n", "{\"index\":{\"_id\":\"1\"}}\n"};
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        struct run run;
        run_init(&run, nothing[i]);
        assert_int_equal(run_next(&run), RC_NOT_FOUND);
        assert_int_equal(run_next(&run), RC_NOT_FOUND);
        buf_done(&run.scratch);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),   cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_sources),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_lines_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
