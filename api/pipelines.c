/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pipelines.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/settings.h"

#define KIND 'g'

bool pipeline_known(struct api *api, struct slice name)
{
    struct buf text = {NULL, 0, 0, false};
    if (name.len == 0 || slice_is(name, "_none"))
        return true;
    bool known = store_meta_get(api->o.store, KIND, name, &text, NULL) == RC_OK;
    buf_done(&text);
    return known;
}

/* Is a list of processors there and not empty? */
static bool has_processors(struct json_value body, const char *key)
{
    struct json_value list, one;
    if (!json_find(body, key, &list) || list.type != JSON_ARRAY)
        return false;
    struct json_scan scan = json_enter(list);
    return json_element(&scan, &one);
}

void pipeline_put(struct api_call *call)
{
    struct slice name = call_part(call, "name");
    struct err err = {RC_OK, 0, ""};
    struct json_value body, list;
    if (!names_body_object(call, &body))
        return;
    if (!json_find(body, "processors", &list) || list.type != JSON_ARRAY) {
        reply_error(call, 400, "parse_exception", "[processors] required property is missing");
        return;
    }
    if (has_processors(body, "processors") || has_processors(body, "on_failure")) {
        reply_error(call, 400, "illegal_argument_exception",
                    "pipeline [%.*s] has processors: stowd stores documents as they come and runs "
                    "none; let the shipper change them",
                    SLICE_FMT(name));
        return;
    }
    enum rc rc = store_meta_put(call->api->o.store, KIND, name, body.text, &err);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

struct walk {
    struct slice names;
    struct buf *out; /* of a GET */
    struct buf list; /* of a DELETE: names, each behind its length */
    size_t found;
};

static enum rc show_one(struct slice name, struct slice value, void *arg)
{
    struct walk *walk = arg;
    if (walk->names.len != 0 && !names_in_list(walk->names, name))
        return RC_OK;
    if (walk->found++ != 0)
        buf_put_byte(walk->out, ',');
    json_quote(name, walk->out);
    buf_put_byte(walk->out, ':');
    buf_put_slice(walk->out, value);
    return RC_OK;
}

static bool is_glob(struct slice names)
{
    return names.len == 0 || memchr(names.ptr, '*', names.len) != NULL;
}

void pipeline_get(struct api_call *call)
{
    struct walk walk = {.names = call_part(call, "name")};
    struct err err = {RC_OK, 0, ""};
    walk.out = reply_json(call, 200);
    buf_put_byte(walk.out, '{');
    enum rc rc = store_meta_each(call->api->o.store, KIND, show_one, &walk, &err);
    buf_put_byte(walk.out, '}');
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
        return;
    }
    if (walk.found == 0 && !is_glob(walk.names)) /* as Elasticsearch: said by the status */
        call->reply.status = 404;
    api_finish(call);
}

static enum rc gather_one(struct slice name, struct slice value, void *arg)
{
    struct walk *walk = arg;
    (void)value;
    if (names_in_list(walk->names, name)) {
        buf_put(&walk->list, &name.len, sizeof name.len);
        buf_put_slice(&walk->list, name);
    }
    return walk->list.failed ? RC_NOMEM : RC_OK;
}

void pipeline_delete(struct api_call *call)
{
    struct walk walk = {.names = call_part(call, "name")};
    struct store *store = call->api->o.store;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = store_meta_each(store, KIND, gather_one, &walk, &err);
    bool none = walk.list.len == 0;
    for (size_t at = 0, len; rc == RC_OK && at < walk.list.len; at += len) {
        memcpy(&len, walk.list.ptr + at, sizeof len);
        at += sizeof len;
        rc = store_meta_delete(store, KIND, slice_of(walk.list.ptr + at, len), &err);
        if (rc == RC_NOT_FOUND) /* somebody else was faster */
            rc = RC_OK;
    }
    buf_done(&walk.list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else if (none && !is_glob(walk.names))
        reply_error(call, 404, "resource_not_found_exception", "pipeline [%.*s] is missing",
                    SLICE_FMT(walk.names));
    else
        reply_ack(call);
}
