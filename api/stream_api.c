/* SPDX-License-Identifier: Apache-2.0 */
/* _data_stream: make, show, count, delete, and lifecycles. */
#include "api/aliases.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/retention.h"
#include "api/settings.h"
#include "api/streams.h"

#include <stdlib.h>

/* ---- the streams of a request: newest backing index of each that is named, by name */
struct chosen {
    struct names_view view;
    size_t *newest;
    size_t count;
};

static void chosen_done(struct chosen *chosen)
{
    names_view_close(&chosen->view);
    free(chosen->newest);
}

static bool is_glob(struct slice list)
{
    return list.len == 0 || memchr(list.ptr, '*', list.len) != NULL || slice_is(list, "_all");
}

/* Names of the list without a wildcard that are no stream; empty: all are. */
static struct slice missing_of(const struct names_view *view, struct slice list)
{
    size_t at, end;
    for (size_t from = 0; from < list.len; from = end + 1) {
        const uint8_t *comma = memchr(list.ptr + from, ',', list.len - from);
        end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice one = slice_of(list.ptr + from, end - from);
        if (!is_glob(one) && !names_view_stream(view, one, &at))
            return one;
    }
    return SLICE_NONE;
}

static bool shown(const struct names_info *info, struct slice list, bool hidden)
{
    return names_in_list(list, info->stream) && (hidden || !info->stream_hidden || !is_glob(list));
}

static int by_stream(const void *a, const void *b, void *arg)
{
    const struct names_view *view = arg;
    return slice_cmp(view->info[*(const size_t *)a].stream, view->info[*(const size_t *)b].stream);
}

/* RC_NOT_FOUND with *missing_out. */
static enum rc choose(struct api_call *call, struct chosen *chosen, struct slice *missing_out,
                      struct err *err)
{
    struct slice list = call_part(call, "name");
    struct names_view *view = &chosen->view;
    bool hidden = names_wants_hidden(call, false) || (list.len != 0 && list.ptr[0] == '.');
    *chosen = (struct chosen){.newest = NULL};
    TRY(names_view_open(call->api, view, err));
    *missing_out = missing_of(view, list);
    if (missing_out->len != 0)
        return RC_NOT_FOUND;
    chosen->newest = calloc(view->count + 1, sizeof *chosen->newest);
    if (chosen->newest == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for a list of data streams");
    for (size_t i = 0, at; i < view->count; i++)
        if (names_view_stream(view, view->info[i].stream, &at) && at == i &&
            shown(&view->info[i], list, hidden))
            chosen->newest[chosen->count++] = i;
    qsort_r(chosen->newest, chosen->count, sizeof *chosen->newest, by_stream, view);
    return RC_OK;
}

static bool choose_or_reply(struct api_call *call, struct chosen *chosen)
{
    struct err err = {RC_OK, 0, ""};
    struct slice missing = SLICE_NONE;
    enum rc rc = choose(call, chosen, &missing, &err);
    if (rc == RC_OK)
        return true;
    if (rc == RC_NOT_FOUND)
        reply_no_index(call, missing);
    else
        reply_rc(call, rc, &err);
    chosen_done(chosen);
    return false;
}

/* The backing index of the stream that comes next behind a generation; false: none. */
static bool next_backing(const struct names_view *view, struct slice stream, uint64_t behind,
                         size_t *at_out)
{
    bool found = false;
    for (size_t i = 0; i < view->count; i++) {
        if (!slice_eq(view->info[i].stream, stream) || view->info[i].generation <= behind ||
            (found && view->info[i].generation > view->info[*at_out].generation))
            continue;
        found = true;
        *at_out = i;
    }
    return found;
}

/* ---- PUT */
static enum rc create(struct api *api, struct slice name, struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct index *index = NULL;
    enum rc rc;
    TRY_OUT(names_check(name, err));
    if (name.len > 4 && memcmp(name.ptr, ".ds-", 4) == 0)
        TRY_OUT(err_set(err, RC_INVALID, 0, "data_stream [%.*s] must not start with '.ds-'",
                        SLICE_FMT(name)));
    TRY_OUT(templates_apply(api, name, &draft, err));
    if (!draft.stream)
        TRY_OUT(err_set(err, RC_INVALID, 0,
                        "no matching index template found for data stream [%.*s]",
                        SLICE_FMT(name)));
    rc = stream_create(api, name, &draft, &index, err);
out:
    index_release(index);
    draft_done(&draft);
    return rc;
}

void stream_put(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    enum rc rc = create(call->api, call_part(call, "name"), &err);
    if (rc == RC_EXISTS)
        reply_error(call, 400, "resource_already_exists_exception", "%s", err.msg);
    else if (rc == RC_INVALID && strncmp(err.msg, "Invalid index name [", 20) == 0)
        reply_error(call, 400, "illegal_argument_exception", "data_stream [%s", err.msg + 20);
    else if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- GET */
static void put_lifecycle(struct json_value lifecycle, struct buf *out)
{
    struct json_value value;
    json_key(out, "lifecycle");
    BUF_PUT_LIT(out, "{\"enabled\":");
    bool off = json_find(lifecycle, "enabled", &value) && value.type == JSON_FALSE;
    buf_put_str(out, off ? "false" : "true");
    if (json_find(lifecycle, "data_retention", &value) && value.type == JSON_STRING) {
        json_raw(out, "data_retention", value.text);
        json_raw(out, "effective_data_retention", value.text);
        json_cstr(out, "retention_determined_by", "data_stream_configuration");
    }
    buf_put_byte(out, '}');
}

static void put_stream(const struct names_view *view, size_t newest, struct buf *out)
{
    struct stream_info info;
    struct json_value policy;
    uint64_t generation = 0;
    stream_info_get(view->meta[newest], &info);
    buf_put_byte(out, '{');
    json_str(out, "name", info.name);
    BUF_PUT_LIT(out, ",\"timestamp_field\":{\"name\":\"@timestamp\"},\"indices\":[");
    for (size_t i = 0; next_backing(view, info.name, generation, &i);
         generation = view->info[i].generation) {
        buf_put_str(out, generation == 0 ? "{" : ",{");
        json_cstr(out, "index_name", index_name(view->index[i]));
        json_cstr(out, "index_uuid", index_uuid(view->index[i]));
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
    json_uint(out, "generation", info.generation);
    json_cstr(out, "status", view->info[newest].replicas == 0 ? "GREEN" : "YELLOW");
    if (info.template.len != 0)
        json_raw(out, "template", info.template);
    if (json_find(json_value_of(view->meta[newest]->settings), "index.lifecycle.name", &policy))
        json_raw(out, "ilm_policy", policy.text);
    if (info.lifecycle.type == JSON_OBJECT)
        put_lifecycle(info.lifecycle, out);
    json_bool(out, "hidden", info.hidden);
    BUF_PUT_LIT(out, ",\"system\":false,\"allow_custom_routing\":false,\"replicated\":false}");
}

void stream_get(struct api_call *call)
{
    struct chosen chosen;
    if (!choose_or_reply(call, &chosen))
        return;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"data_streams\":[");
    for (size_t i = 0; i < chosen.count; i++) {
        if (i != 0)
            buf_put_byte(out, ',');
        put_stream(&chosen.view, chosen.newest[i], out);
    }
    BUF_PUT_LIT(out, "]}");
    chosen_done(&chosen);
    api_finish(call);
}

/* ---- _stats */
static uint64_t put_stats(const struct names_view *view, size_t newest, struct buf *out,
                          uint64_t *indices)
{
    struct slice name = view->info[newest].stream;
    uint64_t bytes = 0, generation = 0, count = 0;
    for (size_t i = 0; next_backing(view, name, generation, &i);
         generation = view->info[i].generation) {
        struct index_stats stats;
        index_stats_get(view->index[i], &stats);
        bytes += stats.disk_bytes + stats.catalog_bytes;
        count++;
    }
    buf_put_byte(out, '{');
    json_str(out, "data_stream", name);
    json_uint(out, "backing_indices", count);
    json_uint(out, "store_size_bytes", bytes);
    json_uint(out, "maximum_timestamp", 0);
    buf_put_byte(out, '}');
    *indices += count;
    return bytes;
}

void stream_stats(struct api_call *call)
{
    struct chosen chosen;
    struct buf list = {NULL, 0, 0, false};
    uint64_t bytes = 0, indices = 0;
    bool human;
    if (!call_bool(call, "human", false, &human) || !choose_or_reply(call, &chosen))
        return;
    for (size_t i = 0; i < chosen.count; i++) {
        if (i != 0)
            buf_put_byte(&list, ',');
        bytes += put_stats(&chosen.view, chosen.newest[i], &list, &indices);
    }
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_key(out, "_shards");
    buf_printf(out, "{\"total\":%llu,\"successful\":%llu,\"failed\":0}",
               (unsigned long long)indices, (unsigned long long)indices);
    json_uint(out, "data_stream_count", chosen.count);
    json_uint(out, "backing_indices", indices);
    if (human)
        buf_printf(out, ",\"total_store_size\":\"%llub\"", (unsigned long long)bytes);
    json_uint(out, "total_store_size_bytes", bytes);
    BUF_PUT_LIT(out, ",\"data_streams\":[");
    buf_put_slice(out, buf_slice(&list));
    BUF_PUT_LIT(out, "]}");
    buf_done(&list);
    chosen_done(&chosen);
    api_finish(call);
}

/* ---- DELETE */
/* Oldest first: what is left after a crash is still the stream. */
static enum rc delete_stream(struct api *api, const struct names_view *view, size_t newest,
                             struct err *err)
{
    struct slice name = view->info[newest].stream;
    uint64_t generation = 0;
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && next_backing(view, name, generation, &i);
         generation = view->info[i].generation) {
        rc = store_index_delete(api->o.store, view->index[i], err);
        if (rc == RC_NOT_FOUND) /* somebody else was faster */
            rc = RC_OK;
    }
    return rc;
}

void stream_delete(struct api_call *call)
{
    struct chosen chosen;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    registry_lock(call->api->names);
    struct slice missing = SLICE_NONE;
    rc = choose(call, &chosen, &missing, &err);
    for (size_t i = 0; rc == RC_OK && i < chosen.count; i++)
        rc = delete_stream(call->api, &chosen.view, chosen.newest[i], &err);
    registry_unlock(call->api->names);
    chosen_done(&chosen);
    if (rc == RC_NOT_FOUND)
        reply_no_index(call, missing);
    else if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- lifecycles */
/* arg: the new lifecycle's text; empty: it goes. */
static enum rc set_lifecycle(struct index_meta *meta, void *arg, struct buf *scratch,
                             struct err *err)
{
    const struct slice *lifecycle = arg;
    struct buf stream = {NULL, 0, 0, false};
    struct json_value old;
    (void)err;
    if (!json_find(json_value_of(meta->extra), "data_stream", &old))
        return RC_OK;
    buf_put_slice(&stream, old.text);
    json_put(&stream, SLICE_LIT("\"lifecycle\""), *lifecycle);
    buf_put_slice(scratch, meta->extra);
    json_put(scratch, SLICE_LIT("\"data_stream\""), buf_slice(&stream));
    scratch->failed = scratch->failed || stream.failed;
    buf_done(&stream);
    meta->extra = buf_slice(scratch);
    return RC_OK;
}

static void change_lifecycle(struct api_call *call, struct slice lifecycle)
{
    struct chosen chosen;
    struct err err = {RC_OK, 0, ""};
    struct slice missing = SLICE_NONE;
    registry_lock(call->api->names);
    enum rc rc = choose(call, &chosen, &missing, &err);
    for (size_t i = 0; rc == RC_OK && i < chosen.count; i++)
        rc = names_change_meta(call->api, chosen.view.index[chosen.newest[i]], set_lifecycle,
                               &lifecycle, &err);
    registry_unlock(call->api->names);
    chosen_done(&chosen);
    if (rc == RC_NOT_FOUND)
        reply_no_index(call, missing);
    else if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

void stream_lifecycle_put(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    struct json_value body = {JSON_OBJECT, SLICE_LIT("{}")};
    if (call->body.len != 0 && !names_body_object(call, &body))
        return;
    enum rc rc = retention_lifecycle_check(body, &err);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        change_lifecycle(call, body.text);
}

void stream_lifecycle_delete(struct api_call *call)
{
    change_lifecycle(call, SLICE_NONE);
}

void stream_lifecycle_get(struct api_call *call)
{
    struct chosen chosen;
    if (!choose_or_reply(call, &chosen))
        return;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"data_streams\":[");
    for (size_t i = 0; i < chosen.count; i++) {
        struct stream_info info;
        stream_info_get(chosen.view.meta[chosen.newest[i]], &info);
        buf_put_str(out, i == 0 ? "{" : ",{");
        json_str(out, "name", info.name);
        if (info.lifecycle.type == JSON_OBJECT)
            put_lifecycle(info.lifecycle, out);
        buf_put_byte(out, '}');
    }
    BUF_PUT_LIT(out, "]}");
    chosen_done(&chosen);
    api_finish(call);
}
