/* SPDX-License-Identifier: Apache-2.0 */
/* /_search/scroll: the next page, and giving scrolls up. Ids and times come in the body, in the
 * query or in the path (clients of version 7 and OpenSearch's use all three); the body wins. */
#include "api/access.h"
#include "api/handlers.h"
#include "api/search.h"
#include "api/settings.h"

/* The text of a string member, decoded; empty when it is not there. False: replied. */
static bool member_text(struct api_call *call, struct json_value body, const char *name,
                        struct slice *out)
{
    struct json_value v;
    if (!json_find(body, name, &v) || v.type == JSON_NULL)
        return true;
    if (v.type != JSON_STRING) {
        reply_error(call, 400, "illegal_argument_exception", "[%s] must be a string", name);
        return false;
    }
    struct buf text = {0};
    json_unquote(v.text, &text);
    *out = call_dup(call, buf_slice(&text));
    buf_done(&text);
    return true;
}

static bool read_body(struct api_call *call, struct json_value *body)
{
    *body = (struct json_value){JSON_END, SLICE_NONE};
    return call->body.len == 0 || names_body_object(call, body);
}

static struct slice default_id(const struct api_call *call)
{
    struct slice id = call_part(call, "scroll_id");
    return id.len != 0 ? id : call_param(call, "scroll_id");
}

void scroll_get(struct api_call *call)
{
    struct slice id = default_id(call), time = call_param(call, "scroll");
    struct json_value body;
    struct context *context;
    uint64_t keep_ms;
    if (!read_body(call, &body) || !member_text(call, body, "scroll_id", &id) ||
        !member_text(call, body, "scroll", &time) ||
        !search_keep_alive(call, "scroll", time, 0, &keep_ms))
        return;
    if (id.len == 0) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: scrollId is missing;");
        return;
    }
    enum rc rc = contexts_get(call->api->contexts, CONTEXT_SCROLL, id, &context);
    if (rc == RC_OK)
        search_scroll_page(call, context, keep_ms);
    else if (rc == RC_CONFLICT)
        reply_error(call, 400, "illegal_argument_exception",
                    "a page of this scroll is being read: its pages come one after the other");
    else
        search_reply_missing(call, id);
}

/* ---- */

struct clearing {
    struct api_call *call;
    uint64_t freed;
    bool denied;
};

static void clear_one(struct clearing *c, struct slice id)
{
    struct contexts *contexts = c->call->api->contexts;
    if (slice_is(id, "_all") && !access_may_all(c->call, USERS_MANAGE))
        c->denied = true; /* an id is a capability, "all" is none */
    else if (slice_is(id, "_all"))
        c->freed += contexts_each(contexts, CONTEXT_SCROLL, true, NULL, NULL);
    else
        c->freed += contexts_remove(contexts, CONTEXT_SCROLL, id);
}

static void clear_list(struct clearing *c, struct slice list)
{
    for (size_t at = 0; at < list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        clear_one(c, slice_of(list.ptr + at, end - at));
        at = end + 1;
    }
}

/* A string or an array of strings. False: neither. */
static bool clear_value(struct clearing *c, struct json_value value)
{
    struct json_scan scan = json_enter(value);
    struct json_value one = value;
    bool list = value.type == JSON_ARRAY;
    while (!list || json_element(&scan, &one)) {
        struct buf text = {0};
        if (one.type != JSON_STRING)
            return false;
        json_unquote(one.text, &text);
        clear_one(c, buf_slice(&text));
        buf_done(&text);
        if (!list)
            break;
    }
    return true;
}

void scroll_clear(struct api_call *call)
{
    struct clearing c = {call, 0, false};
    struct json_value body, ids;
    if (!read_body(call, &body))
        return;
    if (json_find(body, "scroll_id", &ids)) {
        if (!clear_value(&c, ids)) {
            reply_error(call, 400, "illegal_argument_exception",
                        "scroll_id element should only contain scroll_id");
            return;
        }
    } else if (default_id(call).len != 0) {
        clear_list(&c, default_id(call));
    } else {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: no scroll ids specified;");
        return;
    }
    if (c.denied) {
        access_reply_403(call, SLICE_LIT("*"), USERS_MANAGE);
        return;
    }
    struct buf *out = reply_json(call, c.freed == 0 ? 404 : 200);
    buf_put_byte(out, '{');
    json_bool(out, "succeeded", true);
    json_uint(out, "num_freed", c.freed);
    buf_put_byte(out, '}');
    api_finish(call);
}
