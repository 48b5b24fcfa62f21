/* SPDX-License-Identifier: Apache-2.0 */
/* Indices as a whole: make, show, delete, close and open. */
#include "api/indices.h"
#include "api/access.h"

#include "api/aliases.h"
#include "api/cluster_rules.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/settings.h"
#include "api/streams.h"

void indices_create(struct api_call *call)
{
    struct slice name = call_part(call, "index"), body = buf_slice(&call->body);
    struct err err = {RC_OK, 0, ""};
    struct names_body parts;
    struct index *index = NULL;
    const char *type;
    if (names_body_read(body, &parts, &type, &err) != RC_OK) {
        reply_error(call, 400, type, "%s", err.msg);
        return;
    }
    if (body.len != 0) {
        struct json_value object = json_root(body);
        if (!names_untyped(call, &object))
            return;
        body = object.text;
    }
    if (!access_aliases(call, parts.aliases))
        return;
    enum rc rc = names_create(call->api, name, body, &index, &err);
    if (rc != RC_OK) {
        names_reply_error(call, name, rc, &err);
        return;
    }
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"acknowledged\":true,\"shards_acknowledged\":true");
    json_cstr(out, "index", index_name(index));
    buf_put_byte(out, '}');
    index_release(index);
    api_finish(call);
}

static enum rc put_index(struct api_call *call, struct index *index,
                         const struct settings_view *view, struct buf *out, struct err *err)
{
    const struct index_meta *meta = index_meta_acquire(index);
    json_key(out, index_name(index));
    buf_put_byte(out, '{');
    json_raw(out, "aliases", meta->aliases.len == 0 ? SLICE_LIT("{}") : meta->aliases);
    names_put_mapping(call, meta->mappings, out);
    struct stream_info stream;
    stream_info_get(meta, &stream);
    enum rc rc = index_settings_put(call->api, index, view, out, err);
    if (stream.name.len != 0)
        json_str(out, "data_stream", stream.name);
    index_meta_release(meta);
    TRY(rc);
    buf_put_byte(out, '}');
    return RC_OK;
}

void indices_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct settings_view view;
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if (!settings_view_read(call, &view) || !names_resolve_or_reply(call, &options, &list) ||
        !names_usable(call, &list, USE_SHOW))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    for (size_t i = 0; rc == RC_OK && i < list.count; i++)
        rc = put_index(call, list.index[i], &view, out, &err);
    buf_put_byte(out, '}');
    names_list_done(&list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

void indices_exists(struct api_call *call)
{
    struct names_options options = {.expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    names_list_done(&list);
    (void)reply_json(call, 200);
    api_finish(call);
}

enum rc indices_check_streams(struct api *api, const struct names_list *list, const char *verb,
                              struct err *err)
{
    struct names_view view;
    enum rc rc = RC_OK;
    size_t at;
    TRY(names_view_open(api, &view, err));
    for (size_t i = 0; rc == RC_OK && i < list->count; i++)
        for (size_t k = 0; rc == RC_OK && k < view.count; k++)
            if (view.index[k] == list->index[i] &&
                names_view_stream(&view, view.info[k].stream, &at) && at == k)
                rc = err_set(err, RC_INVALID, 0,
                             "index [%s] is the write index for data stream [%.*s] and cannot be "
                             "%s",
                             index_name(view.index[k]), SLICE_FMT(view.info[k].stream), verb);
    names_view_close(&view);
    return rc;
}

static void reply_refused(struct api_call *call, enum rc rc, const struct err *err)
{
    if (strstr(err->msg, "is the write index for") != NULL)
        reply_error(call, 400, "illegal_argument_exception", "%s", err->msg);
    else
        names_reply_error(call, call_part(call, "index"), rc, err);
}

static enum rc delete_all(struct api *api, const struct names_list *list, struct err *err)
{
    TRY(names_list_blocked(list, USE_DELETE, err));
    TRY(indices_check_streams(api, list, "deleted", err));
    for (size_t i = 0; i < list->count; i++) {
        enum rc rc = store_index_delete(api->o.store, list->index[i], err);
        if (rc != RC_NOT_FOUND) /* somebody else was faster: gone is what was asked for */
            TRY(rc);
    }
    return RC_OK;
}

void indices_delete(struct api_call *call)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN | EXPAND_CLOSED, .forbid_aliases = true};
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    if (!rules_destructive(call) || !names_resolve_or_reply(call, &options, &list))
        return;
    registry_lock(call->api->names);
    enum rc rc = delete_all(call->api, &list, &err);
    registry_unlock(call->api->names);
    names_list_done(&list);
    if (rc != RC_OK)
        reply_refused(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- state */
static enum rc set_state(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const bool *closed = arg;
    (void)err;
    buf_put_slice(scratch, meta->extra);
    json_put(scratch, SLICE_LIT("\"state\""), *closed ? SLICE_LIT("\"close\"") : SLICE_NONE);
    meta->extra = buf_slice(scratch);
    return RC_OK;
}

/* The index that a data stream writes to stays open. */
static enum rc check_close(struct api *api, const struct names_list *list, bool closed,
                           struct err *err)
{
    TRY(names_list_blocked(list, USE_CHANGE, err));
    return closed ? indices_check_streams(api, list, "closed", err) : RC_OK;
}

static void change_state(struct api_call *call, bool closed)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = closed ? EXPAND_OPEN : EXPAND_CLOSED};
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if ((closed && !rules_destructive(call)) || !names_resolve_or_reply(call, &options, &list))
        return;
    rc = check_close(call->api, &list, closed, &err);
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"acknowledged\":true,\"shards_acknowledged\":true");
    if (closed)
        BUF_PUT_LIT(out, ",\"indices\":{");
    for (size_t i = 0; rc == RC_OK && i < list.count; i++) {
        rc = names_change_meta(call->api, list.index[i], set_state, &closed, &err);
        if (closed)
            json_raw(out, index_name(list.index[i]), SLICE_LIT("{\"closed\":true}"));
    }
    buf_put_str(out, closed ? "}}" : "}");
    names_list_done(&list);
    if (rc != RC_OK)
        reply_refused(call, rc, &err);
    else
        api_finish(call);
}

void indices_close(struct api_call *call)
{
    change_state(call, true);
}

void indices_open(struct api_call *call)
{
    change_state(call, false);
}

/* ---- PUT /{index}/_block/{block} */
struct block {
    char key[64]; /* of the setting */
    bool on;
};

static enum rc set_block(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct block *block = arg;
    struct settings settings = {NULL, 0, 0};
    enum rc rc;
    TRY_OUT(settings_load(&settings, meta->settings, err));
    TRY_OUT(settings_set(&settings, block->key, block->on ? SLICE_LIT("true") : SLICE_LIT("false"),
                         err));
    settings_print(&settings, true, SLICE_NONE, scratch);
    meta->settings = buf_slice(scratch);
out:
    settings_done(&settings);
    return rc;
}

static bool block_key(struct api_call *call, char *key, size_t cap)
{
    static const char *const blocks[] = {"metadata", "read", "read_only", "write"};
    struct slice block = call_part(call, "block");
    size_t i = 0;
    while (i < ARRAY_LEN(blocks) && !slice_is(block, blocks[i]))
        i++;
    if (i < ARRAY_LEN(blocks)) {
        snprintf(key, cap, "index.blocks.%s", blocks[i]);
        return true;
    }
    if (slice_is(block, "read_only_allow_delete"))
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: read_only_allow_delete block is for internal use only;");
    else
        reply_error(call, 400, "illegal_argument_exception", "No block found with name %.*s",
                    SLICE_FMT(block));
    return false;
}

void indices_block(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    struct block block = {.on = call->method == API_PUT};
    if (!block_key(call, block.key, sizeof block.key) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    enum rc rc = RC_OK;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"acknowledged\":true,\"shards_acknowledged\":true,\"indices\":[");
    for (size_t i = 0; rc == RC_OK && i < list.count; i++) {
        rc = names_change_meta(call->api, list.index[i], set_block, &block, &err);
        buf_put_str(out, i == 0 ? "{" : ",{");
        json_cstr(out, "name", index_name(list.index[i]));
        json_bool(out, block.on ? "blocked" : "unblocked", true);
        buf_put_byte(out, '}');
    }
    BUF_PUT_LIT(out, "]}");
    names_list_done(&list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

void shards_put(const struct names_list *list, bool copies, bool skipped, struct buf *out)
{
    uint64_t total = 0, successful = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list->index[i]);
        names_info_get(meta, &info);
        index_meta_release(meta);
        total += info.shards * (copies ? 1 + info.replicas : 1);
        successful += info.shards;
    }
    json_key(out, "_shards");
    buf_put_byte(out, '{');
    json_uint(out, "total", total);
    json_uint(out, "successful", successful);
    if (skipped)
        json_uint(out, "skipped", 0);
    json_uint(out, "failed", 0);
    buf_put_byte(out, '}');
}
