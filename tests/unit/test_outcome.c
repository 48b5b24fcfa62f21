/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of writes, update bodies, and the words for conflicts. */
#include "api/outcome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct api api7 = {.major = 7}, api8 = {.major = 8};

static void test_rules(void **state)
{
    (void)state;
#define ID    true, SLICE_LIT("1")
#define NO_ID false, SLICE_NONE
    static const struct {
        struct write_ask ask;
        const char *text; /* NULL: fine */
    } rows[] = {
        {{WRITE_INDEX, NO_ID, false, 0, VERSION_INTERNAL, SEQ_NONE, 0}, NULL},
        {{WRITE_INDEX, ID, false, 0, VERSION_INTERNAL, 3, 1}, NULL},
        {{WRITE_INDEX, ID, true, 0, VERSION_EXTERNAL_GTE, SEQ_NONE, 0}, NULL},
        {{WRITE_CREATE, NO_ID, false, 0, VERSION_INTERNAL, SEQ_NONE, 0}, NULL},
        {{WRITE_CREATE, ID, true, 5, VERSION_EXTERNAL, SEQ_NONE, 0},
         "create operations only support internal versioning. use index instead"},
        {{WRITE_CREATE, ID, false, 0, VERSION_INTERNAL, 0, 1},
         "create operations do not support compare and set. use index instead"},
        {{WRITE_DELETE, NO_ID, false, 0, VERSION_INTERNAL, SEQ_NONE, 0}, "id is missing"},
        {{WRITE_UPDATE, NO_ID, false, 0, VERSION_INTERNAL, SEQ_NONE, 0}, "id is missing"},
        {{WRITE_UPDATE, ID, true, 5, VERSION_EXTERNAL, SEQ_NONE, 0}, "internal versioning"},
        {{WRITE_INDEX, NO_ID, true, 5, VERSION_EXTERNAL, SEQ_NONE, 0}, "an id must be provided"},
        {{WRITE_INDEX, ID, true, 5, VERSION_INTERNAL, SEQ_NONE, 0}, "internal versioning"},
        {{WRITE_INDEX, ID, false, 0, VERSION_EXTERNAL, SEQ_NONE, 0},
         "illegal version value [-3] for version type [EXTERNAL]"},
        {{WRITE_INDEX, ID, true, UINT64_MAX, VERSION_EXTERNAL_GTE, SEQ_NONE, 0},
         "illegal version value [-1] for version type [EXTERNAL_GTE]"},
        {{WRITE_INDEX, ID, true, 5, VERSION_EXTERNAL, 1, 1},
         "compare and write operations can not use versioning"},
        {{WRITE_INDEX, ID, false, 0, VERSION_INTERNAL, 1, 0},
         "ifSeqNo is set, but primary term is [0]"},
        {{WRITE_DELETE, ID, false, 0, VERSION_INTERNAL, SEQ_NONE, 2},
         "ifSeqNo is unassigned, but primary term is [2]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b = {0};
        bool invalid = write_invalid(&rows[i].ask, &b);
        const char *want = rows[i].text;
        if (invalid != (want != NULL) ||
            (invalid && (b.len < strlen(want) || memcmp(b.ptr, want, strlen(want)) != 0)))
            fail_msg("row %zu: %.*s", i, (int)b.len, (const char *)b.ptr);
        buf_done(&b);
    }
}

static void test_update_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *body, *type, *text; /* NULL: fine */
    } rows[] = {
        {"{\"doc\":{}}", NULL, NULL},
        {"{\"doc\":{\"a\":1},\"upsert\":{},\"detect_noop\":false,\"scripted_upsert\":false}", NULL,
         NULL},
        {"{\"doc\":{\"a\":1},\"doc_as_upsert\":\"true\",\"_source\":[\"a\"]}", NULL, NULL},
        {"{\"dac\":{}}", "x_content_parse_exception",
         "[1:2] [UpdateRequest] unknown field [dac] did you mean [doc]?"},
        {"{\"upsrt\":{}}", "x_content_parse_exception", "did you mean [upsert]?"},
        {"{\"zzzzzzzz\":{}}", "x_content_parse_exception", "unknown field [zzzzzzzz]"},
        {"{\"doc\":5}", "x_content_parse_exception", "failed to parse field [doc]"},
        {"{\"doc\":{},\"detect_noop\":1}", "x_content_parse_exception", "[detect_noop]"},
        {"{\"doc\":{},\"_source\":5}", "x_content_parse_exception", "[_source]"},
        {"{\"script\":\"ctx._source.v=1\"}", "illegal_argument_exception",
         "scripts are not supported"},
        {"{}", "action_request_validation_exception", "script or doc is missing"},
        {"{\"upsert\":{}}", "action_request_validation_exception", "script or doc is missing"},
        {"{\"doc_as_upsert\":true}", "action_request_validation_exception",
         "doc must be specified if doc_as_upsert is enabled"},
        {"{\"doc\":{},\"upsert\":{},\"if_seq_no\":1,\"if_primary_term\":1}",
         "action_request_validation_exception", "upsert requests don't support `if_seq_no`"},
        {"[1]", "document_parsing_exception", "not a JSON object"},
        {"{\"doc\":", "document_parsing_exception", "failed to parse"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct update_body body;
        struct err err = {0};
        const char *type = "";
        enum rc rc = update_read(&api8, slice_str(rows[i].body), &body, &type, &err);
        if (rc != (rows[i].type == NULL ? RC_OK : RC_INVALID))
            fail_msg("row %zu: %s", i, rows[i].body);
        if (rc != RC_OK) {
            assert_string_equal(type, rows[i].type);
            if (strstr(err.msg, rows[i].text) == NULL)
                fail_msg("row %zu: %s", i, err.msg);
        }
    }
}

static void test_update_apply(void **state)
{
    (void)state;
    static const struct {
        const char *body, *current; /* NULL: no document */
        enum update_action action;
        const char *stored;
    } rows[] = {
        {"{\"doc\":{\"a\":2}}", "{ \"a\":1 , \"b\":1.0}", UPDATE_STORE, "{ \"a\":2 , \"b\":1.0}"},
        {"{\"doc\":{\"a\":1}}", "{\"a\":1}", UPDATE_NOOP, NULL},
        {"{\"doc\":{\"a\":1},\"detect_noop\":false}", "{\"a\":1}", UPDATE_STORE, "{\"a\":1}"},
        {"{\"doc\":{\"a\":1}}", NULL, UPDATE_MISSING, NULL},
        {"{\"doc\":{\"a\":1},\"upsert\":{ \"u\":1}}", NULL, UPDATE_STORE, "{ \"u\":1}"},
        {"{\"doc\":{\"a\": 1},\"doc_as_upsert\":true}", NULL, UPDATE_STORE, "{\"a\": 1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct update_body body;
        struct err err = {0};
        struct buf out = {0};
        const char *type;
        enum update_action action;
        assert_int_equal(update_read(&api8, slice_str(rows[i].body), &body, &type, &err), RC_OK);
        struct write_extra extra = {.update_arg = &body};
        struct write_item item = {.op = WRITE_UPDATE, .extra = &extra};
        struct slice current = rows[i].current == NULL ? SLICE_NONE : slice_str(rows[i].current);
        assert_int_equal(update_apply(&item, current, &out, &action, &err), RC_OK);
        assert_int_equal(action, rows[i].action);
        if (rows[i].stored != NULL && !slice_is(buf_slice(&out), rows[i].stored))
            fail_msg("row %zu: %.*s", i, (int)out.len, (const char *)out.ptr);
        buf_done(&out);
    }
}

static void test_statuses(void **state)
{
    (void)state;
    static const struct {
        enum write_op op;
        enum write_result result;
        int status;
        bool failed;
    } rows[] = {
        {WRITE_INDEX, WRITE_CREATED, 201, false},   {WRITE_INDEX, WRITE_UPDATED, 200, false},
        {WRITE_DELETE, WRITE_DELETED, 200, false},  {WRITE_DELETE, WRITE_NOT_FOUND, 404, false},
        {WRITE_UPDATE, WRITE_NOT_FOUND, 404, true}, {WRITE_UPDATE, WRITE_NOOP, 200, false},
        {WRITE_CREATE, WRITE_EXISTS, 409, true},    {WRITE_INDEX, WRITE_CONFLICT, 409, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct write_item item = {.op = rows[i].op, .result = rows[i].result};
        assert_int_equal(outcome_status(&item), rows[i].status);
        assert_int_equal(outcome_failed(&item), rows[i].failed);
    }
    struct err err = {.rc = RC_INVALID, .msg = "why"};
    struct write_item item = {.op = WRITE_UPDATE, .result = WRITE_REFUSED, .err = &err};
    struct buf reason = {0}, members = {0};
    assert_int_equal(outcome_status(&item), 400);
    assert_string_equal(outcome_error(&api8, &item, &reason, &members),
                        "illegal_argument_exception");
    assert_true(slice_is(buf_slice(&reason), "why") && members.len == 0);
    buf_done(&reason);
}

static void test_documents(void **state)
{
    (void)state;
    struct buf reason = {0};
    assert_true(document_check(SLICE_LIT(" {\"a\":1}\n"), &reason));
    assert_int_equal(reason.len, 0);
    assert_false(document_check(SLICE_LIT("[1]"), &reason));
    assert_false(document_check(SLICE_LIT("{\"a\":}"), &reason));
    assert_non_null(memmem(reason.ptr, reason.len, "byte offset 5", 13));
    assert_string_equal(document_error_type(&api7), "mapper_parsing_exception");
    assert_string_equal(document_error_type(&api8), "document_parsing_exception");
    buf_done(&reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_update_bodies),
        cmocka_unit_test(test_update_apply), cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
