/* SPDX-License-Identifier: Apache-2.0 */
/* What shippers ask for at start and can do without: each gets the answer that makes it go on.
 * Lifecycle policies are stored (store_meta_put kind 'p') and echoed; nothing acts on them. */
#include "api/handlers.h"
#include "api/names.h"
#include "api/settings.h"

static void reply_text(struct api_call *call, struct slice json)
{
    buf_put_slice(reply_json(call, 200), json);
    api_finish(call);
}

void shipper_xpack(struct api_call *call)
{
    reply_text(call, SLICE_LIT("{\"features\":{\"ilm\":{\"available\":false,\"enabled\":false}}}"));
}

void shipper_cluster_settings(struct api_call *call)
{
    reply_text(call, SLICE_LIT("{\"persistent\":{},\"transient\":{}}"));
}

/* ---- lifecycle policies */
void shipper_policy_put(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    struct json_value body;
    if (!names_body_object(call, &body))
        return;
    enum rc rc = store_meta_put(call->api->o.store, 'p', call_part(call, "name"), body.text, &err);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

static void reply_no_policy(struct api_call *call)
{
    reply_error(call, 404, "resource_not_found_exception", "Lifecycle policy not found: %.*s",
                SLICE_FMT(call_part(call, "name")));
}

void shipper_policy_get(struct api_call *call)
{
    struct buf text = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    struct slice name = call_part(call, "name");
    struct json_value policy = json_root(SLICE_LIT("{}"));
    enum rc rc = store_meta_get(call->api->o.store, 'p', name, &text, &err);
    if (rc == RC_OK) {
        struct buf *out = reply_json(call, 200);
        (void)json_find(json_root(buf_slice(&text)), "policy", &policy);
        buf_put_byte(out, '{');
        json_quote(name, out);
        BUF_PUT_LIT(out, ":{\"version\":1,\"modified_date\":\"1970-01-01T00:00:00.000Z\"");
        json_raw(out, "policy", policy.text);
        BUF_PUT_LIT(out, "}}");
        api_finish(call);
    } else if (rc == RC_NOT_FOUND) {
        reply_no_policy(call);
    } else {
        reply_rc(call, rc, &err);
    }
    buf_done(&text);
}

void shipper_policy_delete(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    enum rc rc = store_meta_delete(call->api->o.store, 'p', call_part(call, "name"), &err);
    if (rc == RC_NOT_FOUND)
        reply_no_policy(call);
    else if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- what there is none of */
void shipper_pipeline(struct api_call *call)
{
    reply_error(call, 404, "resource_not_found_exception",
                "pipeline [%.*s] is missing: stowd has no ingest pipelines, documents are stored "
                "as they come",
                SLICE_FMT(call_part(call, "name")));
}

void shipper_data_streams(struct api_call *call)
{
    reply_text(call, SLICE_LIT("{\"data_streams\":[]}"));
}

void shipper_data_stream(struct api_call *call)
{
    struct slice name = call_part(call, "name");
    if (memchr(name.ptr, '*', name.len) == NULL)
        reply_no_index(call, name);
    else if (call->method == API_DELETE)
        reply_ack(call);
    else
        shipper_data_streams(call);
}
