/* SPDX-License-Identifier: Apache-2.0 */
/* Indices as a whole: make, show, delete, close and open. */
#include "api/indices.h"

#include "api/handlers.h"
#include "api/settings.h"

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
    json_raw(out, "mappings", meta->mappings.len == 0 ? SLICE_LIT("{}") : meta->mappings);
    index_meta_release(meta);
    TRY(index_settings_put(call->api, index, view, out, err));
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
    if (!settings_view_read(call, &view) || !names_resolve_or_reply(call, &options, &list))
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

void indices_delete(struct api_call *call)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN | EXPAND_CLOSED, .forbid_aliases = true};
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    for (size_t i = 0; rc == RC_OK && i < list.count; i++) {
        rc = store_index_delete(call->api->o.store, list.index[i], &err);
        if (rc == RC_NOT_FOUND) /* somebody else was faster: gone is what was asked for */
            rc = RC_OK;
    }
    names_list_done(&list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- state */
static enum rc set_state(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const bool *closed = arg;
    (void)scratch;
    (void)err;
    meta->extra = *closed ? SLICE_LIT("{\"state\":\"close\"}") : SLICE_LIT("{}");
    return RC_OK;
}

static void change_state(struct api_call *call, bool closed)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = closed ? EXPAND_OPEN : EXPAND_CLOSED};
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
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
        reply_rc(call, rc, &err);
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
