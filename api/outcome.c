/* SPDX-License-Identifier: Apache-2.0 */
/* Texts are Elasticsearch's (IndexRequest.validate, UpdateRequest.validate, VersionType,
 * VersionConflictEngineException): programs and people look for them. */
#include "api/outcome.h"

#include "api/merge.h"
#include "api/suggest.h"
#include "config/limits.h"

/* ---- before */

static const char *versioning_name(enum write_versioning v)
{
    return v == VERSION_EXTERNAL       ? "EXTERNAL"
           : v == VERSION_EXTERNAL_GTE ? "EXTERNAL_GTE"
                                       : "INTERNAL";
}

static bool create_invalid(const struct write_ask *a, struct buf *out)
{
    if (a->has_version || a->versioning != VERSION_INTERNAL)
        BUF_PUT_LIT(out, "create operations only support internal versioning. use index instead");
    else if (a->if_seq_no != SEQ_NONE || a->if_primary_term != 0)
        BUF_PUT_LIT(out, "create operations do not support compare and set. use index instead");
    else
        return false;
    return true;
}

bool write_invalid(const struct write_ask *a, struct buf *out)
{
    bool cas = a->if_seq_no != SEQ_NONE || a->if_primary_term != 0;
    if (a->op == WRITE_CREATE)
        return create_invalid(a, out);
    if (a->id.len == 0 && (a->op == WRITE_DELETE || a->op == WRITE_UPDATE))
        BUF_PUT_LIT(out, "id is missing");
    else if (a->op == WRITE_UPDATE && (a->has_version || a->versioning != VERSION_INTERNAL))
        BUF_PUT_LIT(out, "internal versioning can not be used for optimistic concurrency control. "
                         "Please use `if_seq_no` and `if_primary_term` instead");
    else if (!a->has_id && (cas || a->has_version || a->versioning != VERSION_INTERNAL))
        BUF_PUT_LIT(out, "an id must be provided if version type or value are set");
    else if (a->versioning != VERSION_INTERNAL && (!a->has_version || a->version > INT64_MAX))
        buf_printf(out, "illegal version value [%lld] for version type [%s]",
                   a->has_version ? (long long)a->version : -3LL, versioning_name(a->versioning));
    else if (a->versioning == VERSION_INTERNAL && a->has_version)
        BUF_PUT_LIT(out, "internal versioning can not be used for optimistic concurrency control. "
                         "Please use `if_seq_no` and `if_primary_term` instead");
    else if (cas && a->versioning != VERSION_INTERNAL)
        BUF_PUT_LIT(out, "compare and write operations can not use versioning");
    else if (a->if_seq_no != SEQ_NONE && a->if_primary_term == 0)
        BUF_PUT_LIT(out, "ifSeqNo is set, but primary term is [0]");
    else if (a->if_seq_no == SEQ_NONE && a->if_primary_term != 0)
        buf_printf(out, "ifSeqNo is unassigned, but primary term is [%llu]",
                   (unsigned long long)a->if_primary_term);
    else
        return false;
    return true;
}

const char *document_error_type(const struct api *api)
{
    return api->major >= 8 ? "document_parsing_exception" : "mapper_parsing_exception";
}

void document_error_reason(const struct json_fault *fault, struct buf *out)
{
    buf_printf(out, "[1:%zu] failed to parse: %s at byte offset %zu", fault->at + 1, fault->what,
               fault->at);
}

bool document_check(struct slice doc, struct buf *reason)
{
    struct json_fault fault = {0, "the document is not a JSON object"};
    enum json_type type;
    if (json_check(doc, &type, &fault) && type == JSON_OBJECT)
        return true;
    document_error_reason(&fault, reason);
    return false;
}

/* ---- updates */

static const char *const update_fields =
    "script scripted_upsert upsert doc doc_as_upsert detect_noop _source if_seq_no if_primary_term";

static enum rc unknown_field(struct slice body, struct slice key, struct err *err)
{
    struct slice name = slice_of(key.ptr + 1, key.len - 2);
    size_t at = (size_t)(key.ptr - body.ptr) + 1;
    struct slice near = suggest_word(name, &update_fields, 1);
    return near.len == 0
               ? err_set(err, RC_INVALID, 0, "[1:%zu] [UpdateRequest] unknown field [%.*s]", at,
                         SLICE_FMT(name))
               : err_set(err, RC_INVALID, 0,
                         "[1:%zu] [UpdateRequest] unknown field [%.*s] did you mean [%.*s]?", at,
                         SLICE_FMT(name), SLICE_FMT(near));
}

static enum rc want_type(struct slice key, bool fits, struct err *err)
{
    return fits ? RC_OK
                : err_set(err, RC_INVALID, 0, "[UpdateRequest] failed to parse field [%.*s]",
                          SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
}

static bool bool_value(struct json_value v, bool *out)
{
    *out = v.type == JSON_TRUE || (v.type == JSON_STRING && json_string_is(v.text, "true"));
    return v.type == JSON_TRUE || v.type == JSON_FALSE ||
           (v.type == JSON_STRING && (*out || json_string_is(v.text, "false")));
}

static enum rc update_member(struct slice body, struct slice key, struct json_value v,
                             struct update_body *u, struct err *err)
{
    bool flag = false;
    if (json_string_is(key, "doc")) {
        u->doc = v.text;
        return want_type(key, v.type == JSON_OBJECT, err);
    }
    if (json_string_is(key, "upsert")) {
        u->upsert = v.text;
        return want_type(key, v.type == JSON_OBJECT, err);
    }
    if (json_string_is(key, "doc_as_upsert"))
        return want_type(key, bool_value(v, &u->doc_as_upsert), err);
    if (json_string_is(key, "detect_noop"))
        return want_type(key, bool_value(v, &u->detect_noop), err);
    if (json_string_is(key, "scripted_upsert"))
        return want_type(key, bool_value(v, &flag), err);
    if (json_string_is(key, "if_seq_no"))
        return want_type(key, v.type == JSON_NUMBER && json_u64(v.text, &u->if_seq_no), err);
    if (json_string_is(key, "if_primary_term"))
        return want_type(key, v.type == JSON_NUMBER && json_u64(v.text, &u->if_primary_term), err);
    if (json_string_is(key, "_source")) {
        struct source_spec spec;
        u->source = v;
        enum rc rc = source_from_json(v, &spec, err);
        source_done(&spec);
        return rc;
    }
    return unknown_field(body, key, err);
}

static const char *update_incomplete(const struct update_body *u)
{
    if (u->doc.len == 0 && u->doc_as_upsert)
        return "Validation Failed: 1: doc must be specified if doc_as_upsert is enabled;";
    if (u->doc.len == 0)
        return "Validation Failed: 1: script or doc is missing;";
    if ((u->if_seq_no != SEQ_NONE || u->if_primary_term != 0) &&
        (u->upsert.len != 0 || u->doc_as_upsert))
        return "Validation Failed: 1: upsert requests don't support `if_seq_no` and "
               "`if_primary_term`;";
    return NULL;
}

enum rc update_read(const struct api *api, struct slice body, struct update_body *out,
                    const char **type_out, struct err *err)
{
    struct buf reason = {0};
    struct update_body u = {.detect_noop = true, .if_seq_no = SEQ_NONE};
    *type_out = "x_content_parse_exception";
    if (!document_check(body, &reason)) {
        *type_out = document_error_type(api);
        err_set(err, RC_INVALID, 0, "%.*s", SLICE_FMT(buf_slice(&reason)));
        buf_done(&reason);
        return RC_INVALID;
    }
    struct json_scan scan = json_enter(json_root(body));
    struct slice key;
    struct json_value value;
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "script")) {
            *type_out = "illegal_argument_exception";
            return err_set(err, RC_INVALID, 0,
                           "scripts are not supported: update with [doc] and [upsert]");
        }
        TRY(update_member(body, key, value, &u, err));
    }
    const char *missing = update_incomplete(&u);
    if (missing != NULL) {
        *type_out = "action_request_validation_exception";
        return err_set(err, RC_INVALID, 0, "%s", missing);
    }
    *out = u;
    return RC_OK;
}

enum rc update_apply(const struct write_item *item, struct slice current, struct buf *out,
                     enum update_action *action_out, struct err *err)
{
    const struct update_body *u = item->extra->update_arg;
    bool same = false;
    *action_out = UPDATE_STORE;
    if (current.ptr == NULL) {
        if (u->upsert.len == 0 && !u->doc_as_upsert)
            *action_out = UPDATE_MISSING;
        else
            buf_put_slice(out, u->doc_as_upsert ? u->doc : u->upsert);
    } else {
        enum rc rc = merge_documents(current, u->doc, out, &same);
        if (rc != RC_OK)
            return err_set(err, rc, 0, "update of [%.*s]: the documents do not merge",
                           SLICE_FMT(item->id));
        if (same && u->detect_noop)
            *action_out = UPDATE_NOOP;
    }
    return out->failed ? err_set(err, RC_NOMEM, 0, "update: out of memory") : RC_OK;
}

/* ---- after */

bool outcome_failed(const struct write_item *item)
{
    switch (item->result) {
    case WRITE_CREATED:
    case WRITE_UPDATED:
    case WRITE_DELETED:
    case WRITE_NOOP:
        return false;
    case WRITE_NOT_FOUND:
        return item->op != WRITE_DELETE;
    default:
        return true;
    }
}

int outcome_status(const struct write_item *item)
{
    switch (item->result) {
    case WRITE_CREATED:
        return 201;
    case WRITE_UPDATED:
    case WRITE_DELETED:
    case WRITE_NOOP:
        return 200;
    case WRITE_NOT_FOUND:
        return 404;
    case WRITE_EXISTS:
    case WRITE_CONFLICT:
        return 409;
    default:
        return error_status(item->err == NULL ? RC_NOMEM : item->err->rc);
    }
}

static const char *result_name(const struct write_item *item)
{
    static const char *const names[] = {
        [WRITE_CREATED] = "created", [WRITE_UPDATED] = "updated",     [WRITE_DELETED] = "deleted",
        [WRITE_NOOP] = "noop",       [WRITE_NOT_FOUND] = "not_found",
    };
    assert(!outcome_failed(item));
    return names[item->result];
}

static void conflict_reason(const struct write_item *item, struct buf *out)
{
    const struct write_extra *extra = write_extra(item);
    unsigned long long current = item->version_out;
    if (item->result == WRITE_EXISTS)
        buf_printf(out, "document already exists (current version [%llu])", current);
    else if (extra->versioning != VERSION_INTERNAL)
        buf_printf(out, "current version [%llu] is higher %s the one provided [%llu]", current,
                   extra->versioning == VERSION_EXTERNAL ? "or equal to" : "than",
                   (unsigned long long)extra->version);
    else {
        buf_printf(out, "required seqNo [%llu], primary term [%llu]. ",
                   (unsigned long long)extra->if_seq_no,
                   (unsigned long long)extra->if_primary_term);
        if (current == 0)
            BUF_PUT_LIT(out, "but no document was found");
        else
            buf_printf(out, "current document has seqNo [%llu] and primary term [%u]",
                       (unsigned long long)item->seq, item->term);
    }
}

const char *outcome_error(const struct api *api, const struct write_item *item, struct buf *reason,
                          struct buf *members)
{
    if (item->result == WRITE_REFUSED || item->result == WRITE_PENDING) {
        bool text = item->err != NULL && item->err->msg[0] != '\0';
        buf_put_str(reason, text ? item->err->msg : "the write was refused");
        return error_type(api, item->err == NULL ? RC_NOMEM : item->err->rc);
    }
    bool missing = item->result == WRITE_NOT_FOUND;
    if (missing && api->major < 8)
        BUF_PUT_LIT(reason, "[_doc]");
    buf_put_byte(reason, '[');
    buf_put_slice(reason, item->id);
    buf_put_str(reason, missing ? "]: document missing" : "]: version conflict, ");
    if (!missing)
        conflict_reason(item, reason);
    json_cstr(members, "index_uuid", index_uuid(item->index));
    json_cstr(members, "shard", "0");
    json_str(members, "index", slice_of(index_name(item->index), index_name_len(item->index)));
    return missing ? "document_missing_exception" : "version_conflict_engine_exception";
}

void outcome_index(const struct api *api, struct slice index, struct buf *out)
{
    json_str(out, "_index", index);
    if (api->major < 8)
        json_cstr(out, "_type", "_doc");
}

void outcome_names(const struct api *api, struct slice index, struct slice id, struct buf *out)
{
    outcome_index(api, index, out);
    if (id.ptr == NULL)
        json_raw(out, "_id", SLICE_LIT("null"));
    else
        json_str(out, "_id", id);
}

void outcome_effect(const struct write_item *item, bool forced_refresh, struct buf *out)
{
    json_cstr(out, "result", result_name(item));
    if (forced_refresh && item->result != WRITE_NOOP)
        json_bool(out, "forced_refresh", true);
    if (item->result == WRITE_NOOP)
        BUF_PUT_LIT(out, ",\"_shards\":{\"total\":0,\"successful\":0,\"failed\":0}");
    else
        BUF_PUT_LIT(out, "," JSON_SHARDS);
}

struct slice outcome_id(const struct write_item *item, char made[MADE_ID_LEN])
{
    if (item->id.len != 0)
        return item->id;
    made_id_format(item->nonce, item->seq, made);
    return slice_of(made, MADE_ID_LEN);
}

void outcome_members(const struct api *api, const struct write_item *item, bool forced_refresh,
                     const struct source_spec *source, struct buf *out)
{
    char made[MADE_ID_LEN];
    outcome_names(api, slice_of(index_name(item->index), index_name_len(item->index)),
                  outcome_id(item, made), out);
    /* A delete of what never was has no row: Elasticsearch gives such a one version 1. */
    bool row = item->result != WRITE_NOT_FOUND || (item->version_out != 0 && item->seq != SEQ_NONE);
    json_uint(out, "_version", row ? item->version_out : 1);
    outcome_effect(item, forced_refresh, out);
    json_int(out, "_seq_no", row ? (int64_t)item->seq : -2);
    json_uint(out, "_primary_term", row ? item->term : 0);
    struct slice document = write_extra(item)->source_out;
    if (source == NULL || document.ptr == NULL)
        return;
    json_key(out, "get");
    buf_put_byte(out, '{');
    json_int(out, "_seq_no", (int64_t)item->seq);
    json_uint(out, "_primary_term", item->term);
    json_bool(out, "found", true);
    source_put(source, document, out);
    buf_put_byte(out, '}');
}
