/* SPDX-License-Identifier: Apache-2.0 */
/* The node about itself: who it is, its licence, its health. */
#include "api/handlers.h"
#include "api/indices.h"
#include "api/settings.h"

#include <stdlib.h>

#define BUILD_DATE "2026-11-30T00:00:00.000000000Z"
#define BUILD_HASH "0000000000000000000000000000000000000000"

static bool is_opensearch(const struct api *api)
{
    return strcmp(api->o.identity_product, "opensearch") == 0;
}

/* Lucene of the release line that is claimed; clients only look that it is there. */
static const char *lucene_version(int major)
{
    return major == 7 ? "8.11.3" : major == 8 ? "9.12.2" : "10.2.2";
}

void info_root(struct api_call *call)
{
    const struct api *api = call->api;
    bool opensearch = is_opensearch(api);
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_cstr(out, "name", api->o.node_name);
    json_cstr(out, "cluster_name", api->o.cluster_name);
    json_cstr(out, "cluster_uuid", store_cluster_uuid(api->o.store));
    json_key(out, "version");
    buf_put_byte(out, '{');
    if (opensearch)
        json_cstr(out, "distribution", "opensearch");
    json_cstr(out, "number", api->o.identity_version);
    if (!opensearch)
        json_cstr(out, "build_flavor", "default");
    json_cstr(out, "build_type", "deb");
    json_cstr(out, "build_hash", BUILD_HASH);
    json_cstr(out, "build_date", BUILD_DATE);
    json_bool(out, "build_snapshot", false);
    json_cstr(out, "lucene_version", lucene_version(api->major));
    json_cstr(out, "minimum_wire_compatibility_version",
              api->major == 7   ? "6.8.0"
              : api->major == 8 ? "7.17.0"
                                : "8.19.0");
    json_cstr(out, "minimum_index_compatibility_version",
              api->major == 7   ? "6.0.0-beta1"
              : api->major == 8 ? "7.0.0"
                                : "8.0.0");
    buf_put_byte(out, '}');
    json_cstr(out, "tagline",
              opensearch ? "The OpenSearch Project: https://opensearch.org/"
                         : "You Know, for Search");
    buf_put_byte(out, '}');
    api_finish(call);
}

void info_license(struct api_call *call)
{
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"license\":{\"status\":\"active\"");
    json_cstr(out, "uid", store_cluster_uuid(call->api->o.store));
    BUF_PUT_LIT(out, ",\"type\":\"basic\",\"issue_date\":\"2026-11-30T00:00:00.000Z\","
                     "\"issue_date_in_millis\":1795996800000,\"max_nodes\":1000");
    json_cstr(out, "issued_to", call->api->o.cluster_name);
    BUF_PUT_LIT(out, ",\"issuer\":\"stowd\",\"start_date_in_millis\":-1}}");
    api_finish(call);
}

/* ---- health
 * An index that asks for replicas is yellow: this node never makes any. The node as a whole is
 * green: no document is missing anywhere. */
struct health {
    bool yellow;
    uint64_t shards, unassigned;
};

static void health_add(struct health *health, struct index *index)
{
    struct names_info info;
    const struct index_meta *meta = index_meta_acquire(index);
    names_info_get(meta, &info);
    index_meta_release(meta);
    health->shards += info.shards;
    health->unassigned += info.shards * info.replicas;
    health->yellow = health->yellow || info.replicas != 0;
}

static const char *color(const struct health *health)
{
    return health->yellow ? "yellow" : "green";
}

static void put_shard_counts(struct buf *out, const struct health *health)
{
    json_uint(out, "active_primary_shards", health->shards);
    json_uint(out, "active_shards", health->shards);
    json_uint(out, "relocating_shards", 0);
    json_uint(out, "initializing_shards", 0);
    json_uint(out, "unassigned_shards", health->unassigned);
    json_uint(out, "unassigned_primary_shards", 0);
}

static void put_shards(struct buf *out, uint64_t shards, uint64_t replicas)
{
    json_key(out, "shards");
    buf_put_byte(out, '{');
    for (uint64_t i = 0; i < shards; i++) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)i);
        json_key(out, number);
        buf_put_byte(out, '{');
        json_cstr(out, "status", replicas == 0 ? "green" : "yellow");
        BUF_PUT_LIT(out, ",\"primary_active\":true,\"active_shards\":1,\"relocating_shards\":0,"
                         "\"initializing_shards\":0");
        json_uint(out, "unassigned_shards", replicas);
        json_uint(out, "unassigned_primary_shards", 0);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
}

static void put_indices(struct buf *out, const struct names_list *list, bool shards)
{
    json_key(out, "indices");
    buf_put_byte(out, '{');
    for (size_t i = 0; i < list->count; i++) {
        struct health one = {false, 0, 0};
        health_add(&one, list->index[i]);
        uint64_t replicas = one.shards == 0 ? 0 : one.unassigned / one.shards;
        json_key(out, index_name(list->index[i]));
        buf_put_byte(out, '{');
        json_cstr(out, "status", color(&one));
        json_uint(out, "number_of_shards", one.shards);
        json_uint(out, "number_of_replicas", replicas);
        put_shard_counts(out, &one);
        if (shards)
            put_shards(out, one.shards, replicas);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
}

static bool number_read(struct slice text, uint64_t *out)
{
    return text.len != 0 && json_u64(text, out);
}

/* wait_for_nodes: "2", ">=2", "<2", "ge(2)" …; can a cluster of one meet it? */
static bool nodes_ok(struct slice text)
{
    static const struct {
        const char *word;
        int op; /* -2 <, -1 <=, 0 =, 1 >=, 2 > */
    } ops[] = {{">=", 1},   {"<=", -1}, {">", 2},    {"<", -2}, {"ge(", 1},
               {"le(", -1}, {"gt(", 2}, {"lt(", -2}, {"", 0}};
    uint64_t n;
    size_t i = 0, len;
    while (len = strlen(ops[i].word), text.len < len || memcmp(text.ptr, ops[i].word, len) != 0)
        i++;
    struct slice digits = slice_of(text.ptr + len, text.len - len);
    if (digits.len != 0 && digits.ptr[digits.len - 1] == ')')
        digits.len--;
    if (!number_read(digits, &n))
        return true;
    switch (ops[i].op) {
    case -2:
        return 1 < n;
    case -1:
        return 1 <= n;
    case 1:
        return 1 >= n;
    case 2:
        return 1 > n;
    default:
        return n == 1;
    }
}

/* Are the conditions met? They are judged once: nothing here would change by waiting. */
static bool conditions_met(struct api_call *call, const struct health *health)
{
    struct slice status = call_param(call, "wait_for_status");
    struct slice shards = call_param(call, "wait_for_active_shards");
    struct slice nodes = call_param(call, "wait_for_nodes");
    uint64_t n;
    if (slice_is(status, "green") && health->yellow)
        return false;
    if (slice_is(shards, "all") && health->unassigned != 0)
        return false;
    if (number_read(shards, &n) && n > health->shards)
        return false;
    return nodes.len == 0 || nodes_ok(nodes);
}

static bool level_read(struct api_call *call, bool *indices, bool *shards)
{
    struct slice level = call_param(call, "level");
    *shards = slice_is(level, "shards");
    *indices = *shards || slice_is(level, "indices");
    if (*indices || level.len == 0 || slice_is(level, "cluster"))
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "level parameter must be one of [cluster] or [indices] or [shards] but was "
                "[%.*s]",
                SLICE_FMT(level));
    return false;
}

void cluster_health(struct api_call *call)
{
    struct names_options options = {.ignore_unavailable = true,
                                    .allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct health health = {false, 0, 0};
    struct names_list list;
    bool indices, shards;
    if (!level_read(call, &indices, &shards) || !names_resolve_or_reply(call, &options, &list))
        return;
    for (size_t i = 0; i < list.count; i++)
        health_add(&health, list.index[i]);
    struct slice name = call_part(call, "index");
    bool missing = name.len != 0 && list.count == 0 && memchr(name.ptr, '*', name.len) == NULL;
    if (name.len == 0) {
        health.yellow = false;
        health.unassigned = 0;
    }
    bool met = !missing && conditions_met(call, &health);
    struct buf *out = reply_json(call, met ? 200 : 408);
    buf_put_byte(out, '{');
    json_cstr(out, "cluster_name", call->api->o.cluster_name);
    json_cstr(out, "status", missing ? "red" : color(&health));
    json_bool(out, "timed_out", !met);
    json_uint(out, "number_of_nodes", 1);
    json_uint(out, "number_of_data_nodes", 1);
    if (is_opensearch(call->api)) {
        json_bool(out, "discovered_master", true);
        json_bool(out, "discovered_cluster_manager", true);
    }
    put_shard_counts(out, &health);
    BUF_PUT_LIT(out, ",\"delayed_unassigned_shards\":0,\"number_of_pending_tasks\":0,"
                     "\"number_of_in_flight_fetch\":0,\"task_max_waiting_in_queue_millis\":0");
    double percent = health.shards == 0 ? 100.0
                                        : 100.0 * (double)health.shards /
                                              (double)(health.shards + health.unassigned);
    buf_printf(out, ",\"active_shards_percent_as_number\":%.1f", percent);
    if (indices)
        put_indices(out, &list, shards);
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}
