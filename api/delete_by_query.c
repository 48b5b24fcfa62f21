/* SPDX-License-Identifier: Apache-2.0 */
/* _delete_by_query for everything or for ids: each document is deleted if it is still the one that
 * the scan saw. _update_by_query is refused: stowd never changes a document. */
#include "api/copy.h"
#include "api/handlers.h"
#include "api/search.h"
#include "api/settings.h"

struct asked {
    struct query query;
    bool has_query, has_max;
    uint64_t max;
};

/* False: replied. */
static bool read_member(struct api_call *call, struct slice key, struct json_value v,
                        struct asked *asked)
{
    struct err err = {0};
    const char *type = "parsing_exception";
    enum rc rc = RC_OK;
    struct slice name = slice_of(key.ptr + 1, key.len - 2);
    int64_t number = 0;
    if (json_string_is(key, "query")) {
        query_done(&asked->query);
        asked->has_query = v.type != JSON_NULL;
        rc = v.type == JSON_NULL ? RC_OK : query_read(v, &asked->query, &type, &err);
    } else if (json_string_is(key, "max_docs")) {
        asked->has_max = true;
        asked->max = SEQ_NONE;
        if (!json_u64(v.text, &asked->max) && !(json_i64(v.text, &number) && number == -1)) {
            type = "illegal_argument_exception";
            rc =
                err_set(&err, RC_INVALID, 0,
                        "[max_docs] parameter cannot be negative, found [%.*s]", SLICE_FMT(v.text));
        }
    } else if (json_string_is(key, "_source") || json_string_is(key, "stored_fields") ||
               json_string_is(key, "from")) {
        type = "action_request_validation_exception";
        rc = err_set(&err, RC_INVALID, 0,
                     "Validation Failed: 1: %.*s is not supported in this context;",
                     SLICE_FMT(name));
    } else if (!json_string_is(key, "sort") && !json_string_is(key, "size") &&
               !json_string_is(key, "timeout") && !json_string_is(key, "conflicts")) {
        rc =
            err_set(&err, RC_INVALID, 0,
                    "stowd has no query engine: [%.*s] is not supported; _delete_by_query may have "
                    "[query] (" QUERY_KNOWN ") and [max_docs]",
                    SLICE_FMT(name));
    }
    if (rc != RC_OK)
        reply_error(call, error_status(rc), rc == RC_INVALID ? type : error_type(call->api, rc),
                    "%s", err.msg);
    return rc == RC_OK;
}

static bool read_request(struct api_call *call, struct asked *asked)
{
    struct json_value body, v;
    struct slice key;
    struct err err = {0};
    const char *type;
    if (call_has(call, "q")) {
        asked->has_query = true;
        if (query_read_text(call_param(call, "q"), &asked->query, &type, &err) != RC_OK) {
            reply_error(call, 400, type, "%s", err.msg);
            return false;
        }
        if (call->body.len == 0)
            return true;
    }
    if (!names_body_object(call, &body))
        return false;
    struct json_scan scan = json_enter(body);
    while (json_member(&scan, &key, &v))
        if (!read_member(call, key, v, asked))
            return false;
    if (!asked->has_query)
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: query is missing;");
    return asked->has_query;
}

static bool read_params(struct api_call *call, struct copy *copy)
{
    struct slice conflicts = call_param(call, "conflicts"), size = call_param(call, "scroll_size");
    uint64_t docs = COPY_DOCS;
    copy->proceed = slice_is(conflicts, "proceed");
    if (conflicts.len != 0 && !copy->proceed && !slice_is(conflicts, "abort")) {
        reply_error(call, 400, "illegal_argument_exception",
                    "conflicts may only be \"proceed\" or \"abort\" but was [%.*s]",
                    SLICE_FMT(conflicts));
        return false;
    }
    if (size.len != 0 && (!json_u64(size, &docs) || docs == 0 || docs > SEARCH_WINDOW_MAX)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "Failed to parse int parameter [scroll_size] with value [%.*s]",
                    SLICE_FMT(size));
        return false;
    }
    copy->batch_docs = (size_t)docs;
    return true;
}

void delete_by_query_post(struct api_call *call)
{
    struct asked asked = {.query = {.all = true}, .max = SEQ_NONE};
    struct copy *copy = copy_create(call->api);
    struct names_list list;
    struct err err = {0};
    struct buf text = {0};
    if (copy == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    bool ok = read_request(call, &asked) && read_params(call, copy) &&
              copy_read_limits(call, copy, asked.max, asked.has_max) &&
              search_indices(call, USE_WRITE, &list);
    if (ok) {
        enum rc rc = scan_open(call->api->o.store, &list, &asked.query, &copy->scan, &err);
        names_list_done(&list);
        ok = rc == RC_OK;
        if (!ok)
            reply_rc(call, rc, &err);
    }
    query_done(&asked.query);
    if (!ok) {
        copy_destroy(copy);
        return;
    }
    BUF_PUT_LIT(&text, "delete-by-query [");
    buf_put_slice(&text, call_part(call, "index"));
    buf_put_byte(&text, ']');
    copy_start(call, copy, JOB_DELETE_BY_QUERY, buf_slice(&text));
    buf_done(&text);
}

void update_by_query_post(struct api_call *call)
{
    reply_error(call, 400, "illegal_argument_exception",
                "_update_by_query is not supported: stowd has no query engine and no scripts, and "
                "never changes a document by itself; _reindex copies documents");
}
