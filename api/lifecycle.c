/* SPDX-License-Identifier: Apache-2.0 */
/* _ilm: lifecycle policies are kept (store_meta_put kind 'p') and echoed. Of their phases only
 * delete does something (api/retention.h); the others are named in the log when a policy is put. */
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/retention.h"
#include "api/settings.h"

#include <time.h>

#define KIND 'p'

static void put_time(struct buf *out, const char *key, uint64_t ms)
{
    char text[32];
    struct tm tm;
    time_t s = (time_t)(ms / 1000);
    gmtime_r(&s, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03uZ", (unsigned)(ms % 1000));
    json_cstr(out, key, text);
}

/* ---- PUT */
static bool check_ages(struct api_call *call, struct json_value phases, struct buf *idle)
{
    struct slice key, text;
    struct json_value phase, age;
    uint64_t ms;
    struct json_scan scan = json_enter(phases);
    while (json_member(&scan, &key, &phase)) {
        bool ok =
            !json_find(phase, "min_age", &age) ||
            (age.type == JSON_STRING && json_plain(age.text, &text) && retention_time(text, &ms));
        if (phase.type != JSON_OBJECT || !ok) {
            reply_error(call, 400, "illegal_argument_exception",
                        "phase [%.*s]: [min_age] must be a time such as 30d",
                        SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
            return false;
        }
        if (!json_string_is(key, "delete"))
            buf_printf(idle, "%s%.*s", idle->len == 0 ? "" : ", ",
                       SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
    }
    return true;
}

/* Say once that most phases do nothing here. */
static void say_idle(const struct api *api, struct slice name, const struct buf *idle)
{
    char text[512];
    if (idle->len == 0 || api->o.event == NULL)
        return;
    snprintf(text, sizeof text,
             "lifecycle policy [%.*s]: phases [%.*s] have no effect here, only delete has",
             (int)(name.len > 100 ? 100 : name.len), (const char *)name.ptr,
             (int)(idle->len > 100 ? 100 : idle->len), (const char *)idle->ptr);
    api->o.event(api->o.arg, 0, text);
}

static enum rc store_policy(struct api *api, struct slice name, struct slice policy,
                            struct err *err)
{
    struct buf old = {NULL, 0, 0, false}, text = old;
    struct json_value value;
    uint64_t version = 0;
    registry_lock(api->names);
    enum rc rc = store_meta_get(api->o.store, KIND, name, &old, err);
    if (rc == RC_OK && json_find(json_root(buf_slice(&old)), "version", &value))
        (void)json_u64(value.text, &version);
    if (rc == RC_OK || rc == RC_NOT_FOUND) {
        buf_put_byte(&text, '{');
        json_uint(&text, "version", version + 1);
        put_time(&text, "modified_date", clock_ms());
        json_raw(&text, "policy", policy);
        buf_put_byte(&text, '}');
        rc = text.failed ? err_set(err, RC_NOMEM, 0, "out of memory for a policy")
                         : store_meta_put(api->o.store, KIND, name, buf_slice(&text), err);
    }
    registry_unlock(api->names);
    buf_done(&old);
    buf_done(&text);
    return rc;
}

void policy_put(struct api_call *call)
{
    struct slice name = call_part(call, "name");
    struct buf idle = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    struct json_value body, policy, phases;
    if (!names_body_object(call, &body))
        return;
    if (!json_find(body, "policy", &policy) || policy.type != JSON_OBJECT) {
        reply_error(call, 400, "illegal_argument_exception", "Required [policy]");
        return;
    }
    if (!json_find(policy, "phases", &phases) || phases.type != JSON_OBJECT) {
        reply_error(call, 400, "illegal_argument_exception", "Required [phases]");
        return;
    }
    if (check_ages(call, phases, &idle)) {
        enum rc rc = store_policy(call->api, name, policy.text, &err);
        if (rc == RC_OK)
            say_idle(call->api, name, &idle);
        if (rc != RC_OK)
            reply_rc(call, rc, &err);
        else
            reply_ack(call);
    }
    buf_done(&idle);
}

/* ---- GET */
struct walk {
    struct slice names;
    struct buf *out;
    size_t found;
};

static enum rc show_one(struct slice name, struct slice value, void *arg)
{
    struct walk *walk = arg;
    struct json_value stored = json_root(value), part;
    if (!names_in_list(walk->names, name))
        return RC_OK;
    if (walk->found++ != 0)
        buf_put_byte(walk->out, ',');
    json_quote(name, walk->out);
    BUF_PUT_LIT(walk->out, ":{");
    json_raw(walk->out, "version",
             json_find(stored, "version", &part) ? part.text : SLICE_LIT("1"));
    if (json_find(stored, "modified_date", &part))
        json_raw(walk->out, "modified_date", part.text);
    else
        put_time(walk->out, "modified_date", 0);
    json_raw(walk->out, "policy", json_find(stored, "policy", &part) ? part.text : SLICE_LIT("{}"));
    BUF_PUT_LIT(walk->out, ",\"in_use_by\":{\"indices\":[],\"data_streams\":[],"
                           "\"composable_templates\":[]}}");
    return RC_OK;
}

static void reply_missing(struct api_call *call)
{
    reply_error(call, 404, "resource_not_found_exception", "Lifecycle policy not found: %.*s",
                SLICE_FMT(call_part(call, "name")));
}

void policy_get(struct api_call *call)
{
    struct walk walk = {.names = call_part(call, "name")};
    struct err err = {RC_OK, 0, ""};
    walk.out = reply_json(call, 200);
    buf_put_byte(walk.out, '{');
    enum rc rc = store_meta_each(call->api->o.store, KIND, show_one, &walk, &err);
    buf_put_byte(walk.out, '}');
    bool glob = walk.names.len == 0 || memchr(walk.names.ptr, '*', walk.names.len) != NULL;
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else if (walk.found == 0 && !glob)
        reply_missing(call);
    else
        api_finish(call);
}

/* ---- DELETE */
static bool names_policy(const struct index_meta *meta, struct slice name)
{
    struct json_value value;
    struct buf text = {NULL, 0, 0, false};
    if (!json_find(json_value_of(meta->settings), "index.lifecycle.name", &value))
        return false;
    json_plain_text(value, &text);
    bool same = slice_eq(buf_slice(&text), name);
    buf_done(&text);
    return same;
}

/* Not while indices name it. */
static enum rc delete_policy(struct api *api, struct slice name, struct err *err)
{
    struct names_view view;
    TRY(names_view_open(api, &view, err));
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < view.count; i++)
        if (names_policy(view.meta[i], name))
            rc = err_set(err, RC_INVALID, 0,
                         "Cannot delete policy [%.*s]. It is in use by one or more indices: [%s]",
                         (int)(name.len > 80 ? 80 : name.len), (const char *)name.ptr,
                         index_name(view.index[i]));
    names_view_close(&view);
    return rc == RC_OK ? store_meta_delete(api->o.store, KIND, name, err) : rc;
}

void policy_delete(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    enum rc rc = delete_policy(call->api, call_part(call, "name"), &err);
    if (rc == RC_NOT_FOUND)
        reply_missing(call);
    else if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- the rest of _ilm */
void policy_status(struct api_call *call)
{
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_cstr(out, "operation_mode", call->api->o.retention_ms != 0 ? "RUNNING" : "STOPPED");
    buf_put_byte(out, '}');
    api_finish(call);
}

/* It runs, or the settings of the daemon say that it does not. */
void policy_start(struct api_call *call)
{
    if (call->api->o.retention_ms != 0)
        reply_ack(call);
    else
        refused_get(call);
}

static void explain_one(struct api *api, struct index *index, struct buf *out)
{
    const struct index_meta *meta = index_meta_acquire(index);
    struct json_value name, rolled, at;
    struct buf policy = {NULL, 0, 0, false}, text = policy;
    uint64_t ms = 0, since = index_created_ms(index), now = clock_ms();
    bool managed = json_find(json_value_of(meta->settings), "index.lifecycle.name", &name);
    if (json_find(json_value_of(meta->extra), "rolled_over", &rolled) &&
        json_find(rolled, "at", &at))
        (void)json_u64(at.text, &since);
    json_key(out, index_name(index));
    buf_put_byte(out, '{');
    json_cstr(out, "index", index_name(index));
    json_bool(out, "managed", managed);
    if (managed) {
        json_raw(out, "policy", name.text);
        json_plain_text(name, &text);
        bool deletes =
            store_meta_get(api->o.store, KIND, buf_slice(&text), &policy, NULL) == RC_OK &&
            retention_policy(buf_slice(&policy), &ms);
        json_uint(out, "index_creation_date_millis", index_created_ms(index));
        json_uint(out, "lifecycle_date_millis", since);
        buf_printf(out, ",\"age\":\"%llus\"",
                   (unsigned long long)(now > since ? (now - since) / 1000 : 0));
        json_cstr(out, "phase", deletes && now >= since && now - since >= ms ? "delete" : "hot");
        json_cstr(out, "action", "complete");
        json_cstr(out, "step", "complete");
    }
    buf_put_byte(out, '}');
    buf_done(&policy);
    buf_done(&text);
    index_meta_release(meta);
}

void policy_explain(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"indices\":{");
    for (size_t i = 0; i < list.count; i++)
        explain_one(call->api, list.index[i], out);
    BUF_PUT_LIT(out, "}}");
    names_list_done(&list);
    api_finish(call);
}
