/* SPDX-License-Identifier: Apache-2.0 */
/* Points in time, in both dialects: Elasticsearch's _pit and OpenSearch's _search/point_in_time. */
#include "api/handlers.h"
#include "api/indices.h"
#include "api/search.h"
#include "api/settings.h"

#include <stdlib.h>

/* Make one. The reference is the caller's. NULL: replied. */
static struct context *make(struct api_call *call, struct names_list *list)
{
    struct err err = {0};
    const struct query all = {.all = true};
    uint64_t keep_ms;
    struct slice keep = call_param(call, "keep_alive");
    if (keep.len == 0) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: [keep_alive] is not specified;");
        return NULL;
    }
    if (!search_keep_alive(call, "keep_alive", keep, 0, &keep_ms))
        return NULL;
    if (keep_ms == 0) {
        reply_error(call, 400, "illegal_argument_exception",
                    "[keep_alive] must be a time greater than zero");
        return NULL;
    }
    struct context *c = calloc(1, sizeof *c);
    if (c == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return NULL;
    }
    search_spec_init(&c->spec);
    c->kind = CONTEXT_PIT;
    c->keep_ms = keep_ms;
    enum rc rc = scan_open(call->api->o.store, list, &all, &c->scan, &err);
    if (rc == RC_OK)
        rc = contexts_add(call->api->contexts, c, &err);
    if (rc == RC_OK)
        return c;
    scan_close(&c->scan);
    free(c);
    reply_rc(call, rc, &err);
    return NULL;
}

static void open_pit(struct api_call *call, const char *key, bool created)
{
    struct names_list list;
    if (!search_indices(call, USE_READ, &list))
        return;
    struct context *c = make(call, &list);
    if (c != NULL) {
        struct buf *out = reply_json(call, 200);
        buf_put_byte(out, '{');
        json_cstr(out, key, c->id);
        shards_put(&list, false, true, out);
        if (created)
            json_uint(out, "creation_time", c->created_ms);
        buf_put_byte(out, '}');
        contexts_put(call->api->contexts, c, 0);
    }
    names_list_done(&list);
    if (c != NULL)
        api_finish(call);
}

void pit_open(struct api_call *call)
{
    open_pit(call, "id", false);
}

void pit_open_os(struct api_call *call)
{
    open_pit(call, "pit_id", true);
}

void pit_close(struct api_call *call)
{
    struct json_value body, id;
    struct buf text = {0};
    if (!names_body_object(call, &body))
        return;
    if (!json_find(body, "id", &id) || id.type != JSON_STRING) {
        reply_error(call, 400, "illegal_argument_exception", "[id] must be a string");
        return;
    }
    json_unquote(id.text, &text);
    bool freed = contexts_remove(call->api->contexts, CONTEXT_PIT, buf_slice(&text));
    buf_done(&text);
    struct buf *out = reply_json(call, freed ? 200 : 404);
    buf_printf(out, "{\"succeeded\":true,\"num_freed\":%d}", freed);
    api_finish(call);
}

/* ---- OpenSearch's */

static void put_closed(const struct context *context, void *arg)
{
    struct buf *out = arg;
    if (out->ptr[out->len - 1] != '[')
        buf_put_byte(out, ',');
    BUF_PUT_LIT(out, "{\"successful\":true");
    json_cstr(out, "pit_id", context->id);
    buf_put_byte(out, '}');
}

static void put_open(const struct context *context, void *arg)
{
    struct buf *out = arg;
    if (out->ptr[out->len - 1] != '[')
        buf_put_byte(out, ',');
    buf_put_byte(out, '{');
    json_cstr(out, "pit_id", context->id);
    json_uint(out, "creation_time", context->created_ms);
    json_uint(out, "keep_alive", context->keep_ms);
    buf_put_byte(out, '}');
}

static void answer_all(struct api_call *call, bool remove)
{
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"pits\":[");
    if (!out->failed)
        contexts_each(call->api->contexts, CONTEXT_PIT, remove, remove ? put_closed : put_open,
                      out);
    BUF_PUT_LIT(out, "]}");
    api_finish(call);
}

void pit_list_os(struct api_call *call)
{
    answer_all(call, false);
}

void pit_close_all_os(struct api_call *call)
{
    answer_all(call, true);
}

void pit_close_os(struct api_call *call)
{
    struct json_value body, ids, one;
    if (!names_body_object(call, &body))
        return;
    if (!json_find(body, "pit_id", &ids) || (ids.type != JSON_ARRAY && ids.type != JSON_STRING)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "[pit_id] must be a string or an array of strings");
        return;
    }
    struct json_scan scan = json_enter(ids);
    struct buf *out = reply_json(call, 200);
    bool list = ids.type == JSON_ARRAY, missing = false;
    BUF_PUT_LIT(out, "{\"pits\":[");
    for (one = ids; !list || json_element(&scan, &one);) {
        struct buf text = {0};
        if (one.type == JSON_STRING)
            json_unquote(one.text, &text);
        bool freed = contexts_remove(call->api->contexts, CONTEXT_PIT, buf_slice(&text));
        missing = missing || !freed;
        if (!out->failed && out->ptr[out->len - 1] != '[')
            buf_put_byte(out, ',');
        buf_printf(out, "{\"successful\":%s", freed ? "true" : "false");
        json_str(out, "pit_id", buf_slice(&text));
        buf_put_byte(out, '}');
        buf_done(&text);
        if (!list)
            break;
    }
    BUF_PUT_LIT(out, "]}");
    if (missing)
        call->reply.status = 404;
    api_finish(call);
}
