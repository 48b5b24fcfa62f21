/* SPDX-License-Identifier: Apache-2.0 */
/* _cluster/settings, state, stats, pending_tasks. Settings are kept (store_meta_put kind 'z', names
 * "persistent" and "transient") and echoed; what the node does is changed by those of
 * api/cluster_rules.h alone. */
#include "api/cluster_rules.h"
#include "api/handlers.h"
#include "api/indices.h"
#include "api/nodes.h"
#include "api/process.h"
#include "api/settings.h"

#define KIND 'z'

/* ---- _cluster/settings */
static const char *const levels[] = {"persistent", "transient"};

/* A level as a flat set without the prefix "index." that settings_read puts before every key. */
static enum rc load(struct api *api, const char *level, struct settings *out, struct err *err)
{
    struct buf text = {NULL, 0, 0, false};
    enum rc rc = store_meta_get(api->o.store, KIND, slice_str(level), &text, err);
    if (rc == RC_OK)
        rc = settings_load(out, buf_slice(&text), err);
    else if (rc == RC_NOT_FOUND)
        rc = RC_OK;
    buf_done(&text);
    return rc;
}

static void strip(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        memmove(settings->item[i].key, settings->item[i].key + 6,
                strlen(settings->item[i].key + 6) + 1);
}

static enum rc put_level(struct api *api, const char *level, bool flat, struct buf *out,
                         struct err *err)
{
    struct settings settings = {NULL, 0, 0};
    enum rc rc = load(api, level, &settings, err);
    strip(&settings);
    json_key(out, level);
    settings_print(&settings, flat, SLICE_NONE, out);
    settings_done(&settings);
    return rc;
}

void cluster_settings_get(struct api_call *call)
{
    struct err err = {RC_OK, 0, ""};
    bool flat, defaults;
    enum rc rc = RC_OK;
    if (!call_bool(call, "flat_settings", false, &flat) ||
        !call_bool(call, "include_defaults", false, &defaults))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(levels); i++)
        rc = put_level(call->api, levels[i], flat, out, &err);
    if (defaults)
        json_raw(out, "defaults", SLICE_LIT("{}"));
    buf_put_byte(out, '}');
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

/* What other daemons know; everything else is a slip of the pen. */
static enum rc check_keys(const struct settings *settings, struct err *err)
{
    static const char *const known[] = {
        "action.",           "archived.",  "bootstrap.", "cluster.",      "compatibility.",
        "data_streams.",     "discovery.", "gateway.",   "http.",         "indices.",
        "ingest.",           "logger.",    "network.",   "node.",         "opensearch.",
        "persistent_tasks.", "plugins.",   "reindex.",   "repositories.", "resource.",
        "script.",           "search.",    "segrep.",    "slm.",          "stack.",
        "thread_pool.",      "tracing.",   "transport.", "xpack.",
    };
    for (size_t i = 0; i < settings->count; i++) {
        const char *key = settings->item[i].key + 6; /* behind "index." */
        size_t k = 0;
        while (k < ARRAY_LEN(known) && strncmp(key, known[k], strlen(known[k])) != 0)
            k++;
        if (k == ARRAY_LEN(known))
            return err_set(err, RC_INVALID, 0, "%s setting [%.100s], not recognized",
                           "persistent or transient", key);
        TRY(rules_check(key, json_root(settings->item[i].value), err));
    }
    return RC_OK;
}

/* null takes a setting away, and "a.*" all that begin so. */
static enum rc overlay(struct settings *base, const struct settings *over, struct err *err)
{
    for (size_t i = 0; i < over->count; i++) {
        const char *key = over->item[i].key;
        size_t n = strlen(key);
        if (json_root(over->item[i].value).type != JSON_NULL || key[n - 1] != '*')
            continue;
        struct settings gone = {NULL, 0, 0};
        enum rc rc = RC_OK;
        for (size_t k = 0; rc == RC_OK && k < base->count; k++)
            if (strncmp(base->item[k].key, key, n - 1) == 0)
                rc = settings_null(&gone, base->item[k].key, err);
        if (rc == RC_OK)
            rc = settings_overlay(base, &gone, false, err);
        settings_done(&gone);
        TRY(rc);
    }
    return settings_overlay(base, over, false, err);
}

static enum rc change(struct api *api, const char *level, struct json_value sent, struct buf *shown,
                      bool flat, struct err *err)
{
    struct settings now = {NULL, 0, 0}, over = now;
    struct buf text = {NULL, 0, 0, false};
    enum rc rc;
    TRY_OUT(settings_read(&over, sent, err));
    TRY_OUT(check_keys(&over, err));
    TRY_OUT(load(api, level, &now, err));
    TRY_OUT(overlay(&now, &over, err));
    settings_print(&now, true, SLICE_NONE, &text);
    rc = text.failed ? err_set(err, RC_NOMEM, 0, "out of memory for settings")
                     : store_meta_put(api->o.store, KIND, slice_str(level), buf_slice(&text), err);
    struct settings set = {NULL, 0, 0}; /* what is shown is what was set: no nulls */
    if (rc == RC_OK)
        rc = settings_overlay(&set, &over, false, err);
    strip(&set);
    settings_print(&set, flat, SLICE_NONE, shown);
    settings_done(&set);
out:
    settings_done(&now);
    settings_done(&over);
    buf_done(&text);
    return rc;
}

void cluster_settings_put(struct api_call *call)
{
    struct buf shown[2] = {{NULL, 0, 0, false}, {NULL, 0, 0, false}};
    struct err err = {RC_OK, 0, ""};
    struct json_value body, sent;
    bool flat;
    enum rc rc = RC_OK;
    size_t given = 0;
    if (!names_body_object(call, &body) || !call_bool(call, "flat_settings", false, &flat))
        return;
    registry_lock(call->api->names);
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(levels); i++) {
        if (!json_find(body, levels[i], &sent) || sent.type == JSON_NULL)
            continue;
        given++;
        rc = change(call->api, levels[i], sent, &shown[i], flat, &err);
    }
    registry_unlock(call->api->names);
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
    } else if (given == 0) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: no settings to update;");
    } else {
        struct buf *out = reply_json(call, 200);
        BUF_PUT_LIT(out, "{\"acknowledged\":true");
        for (size_t i = 0; i < ARRAY_LEN(levels); i++)
            json_raw(out, levels[i], shown[i].len == 0 ? SLICE_LIT("{}") : buf_slice(&shown[i]));
        buf_put_byte(out, '}');
        api_finish(call);
    }
    buf_done(&shown[0]);
    buf_done(&shown[1]);
}

/* ---- _cluster/state */
static bool wants(struct slice metrics, const char *name)
{
    return metrics.len == 0 || names_in_list(metrics, slice_str(name));
}

/* The names of aliases, as the state lists them. */
static void put_alias_names(const struct index_meta *meta, struct buf *out)
{
    struct slice key;
    struct json_value value, aliases = json_value_of(meta->aliases);
    struct json_scan scan = json_enter(aliases);
    json_key(out, "aliases");
    buf_put_byte(out, '[');
    for (size_t n = 0; aliases.type == JSON_OBJECT && json_member(&scan, &key, &value); n++) {
        if (n != 0)
            buf_put_byte(out, ',');
        buf_put_slice(out, key);
    }
    buf_put_byte(out, ']');
}

static enum rc put_index(struct api_call *call, struct index *index, struct buf *out,
                         struct err *err)
{
    const struct settings_view view = {false, false, SLICE_NONE};
    const struct index_meta *meta = index_meta_acquire(index);
    struct index_stats stats;
    struct names_info info;
    names_info_get(meta, &info);
    index_stats_get(index, &stats);
    json_key(out, index_name(index));
    buf_put_byte(out, '{');
    json_uint(out, "version", meta->revision + 1);
    json_cstr(out, "state", info.closed ? "close" : "open");
    enum rc rc = index_settings_put(call->api, index, &view, out, err);
    json_key(out, "mappings");
    BUF_PUT_LIT(out, "{\"_doc\":");
    buf_put_slice(out, meta->mappings.len == 0 ? SLICE_LIT("{}") : meta->mappings);
    buf_put_byte(out, '}');
    put_alias_names(meta, out);
    json_key(out, "primary_terms");
    buf_printf(out, "{\"0\":%llu}", (unsigned long long)stats.primary_term);
    json_raw(out, "in_sync_allocations", SLICE_LIT("{\"0\":[]}"));
    buf_put_byte(out, '}');
    index_meta_release(meta);
    return rc;
}

static enum rc put_template(struct slice name, struct slice value, void *arg)
{
    struct buf *out = arg;
    if (out->ptr[out->len - 1] != '{')
        buf_put_byte(out, ',');
    json_quote(name, out);
    buf_put_byte(out, ':');
    buf_put_slice(out, value);
    return RC_OK;
}

static enum rc put_metadata(struct api_call *call, const struct names_list *list, struct buf *out,
                            struct err *err)
{
    enum rc rc = RC_OK;
    json_key(out, "metadata");
    buf_put_byte(out, '{');
    json_cstr(out, "cluster_uuid", store_cluster_uuid(call->api->o.store));
    json_raw(out, "cluster_coordination",
             SLICE_LIT("{\"term\":1,\"last_committed_config\":[],\"last_accepted_config\":[],"
                       "\"voting_config_exclusions\":[]}"));
    json_raw(out, "templates", SLICE_LIT("{"));
    TRY(store_meta_each(call->api->o.store, 't', put_template, out, err));
    buf_put_byte(out, '}');
    json_raw(out, "indices", SLICE_LIT("{"));
    for (size_t i = 0; rc == RC_OK && i < list->count; i++)
        rc = put_index(call, list->index[i], out, err);
    BUF_PUT_LIT(out, "},\"index-graveyard\":{\"tombstones\":[]}}");
    return rc;
}

static void put_blocks(const struct names_list *list, struct buf *out)
{
    struct buf indices = {NULL, 0, 0, false};
    for (size_t i = 0; i < list->count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list->index[i]);
        names_info_get(meta, &info);
        if (info.blocks != 0 || info.closed) {
            if (indices.len != 0)
                buf_put_byte(&indices, ',');
            json_quote(slice_str(index_name(list->index[i])), &indices);
            BUF_PUT_LIT(&indices, ":{");
            names_put_blocks(&info, &indices);
            buf_put_byte(&indices, '}');
        }
        index_meta_release(meta);
    }
    json_key(out, "blocks");
    buf_put_byte(out, '{');
    if (indices.len != 0) {
        BUF_PUT_LIT(out, "\"indices\":{");
        buf_put_slice(out, buf_slice(&indices));
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
    buf_done(&indices);
}

static void put_routing_shard(const struct api *api, const char *index, struct buf *out)
{
    BUF_PUT_LIT(out, "{\"state\":\"STARTED\",\"primary\":true");
    json_cstr(out, "node", store_node_id(api->o.store));
    BUF_PUT_LIT(out, ",\"relocating_node\":null,\"shard\":0");
    json_cstr(out, "index", index);
    buf_put_byte(out, '}');
}

static void put_routing(struct api_call *call, const struct names_list *list, struct buf *out)
{
    json_key(out, "routing_table");
    BUF_PUT_LIT(out, "{\"indices\":{");
    for (size_t i = 0; i < list->count; i++) {
        json_key(out, index_name(list->index[i]));
        BUF_PUT_LIT(out, "{\"shards\":{\"0\":[");
        put_routing_shard(call->api, index_name(list->index[i]), out);
        BUF_PUT_LIT(out, "]}}");
    }
    BUF_PUT_LIT(out, "}}");
}

static void put_nodes(struct api_call *call, struct buf *out)
{
    json_key(out, "nodes");
    buf_put_byte(out, '{');
    json_key(out, store_node_id(call->api->o.store));
    buf_put_byte(out, '{');
    json_cstr(out, "name", call->api->o.node_name);
    json_cstr(out, "ephemeral_id", store_node_id(call->api->o.store));
    json_str(out, "transport_address", node_address(call));
    BUF_PUT_LIT(out, ",\"attributes\":{}}}");
}

static bool known_metrics(struct api_call *call, struct slice metrics)
{
    static const char *const known[] = {
        "_all",   "*",     "version",  "master_node",   "cluster_manager_node",
        "blocks", "nodes", "metadata", "routing_table", "routing_nodes",
        "customs"};
    for (size_t at = 0; metrics.len != 0 && at <= metrics.len;) {
        const uint8_t *comma = memchr(metrics.ptr + at, ',', metrics.len - at);
        size_t end = comma == NULL ? metrics.len : (size_t)(comma - metrics.ptr), k = 0;
        struct slice one = slice_of(metrics.ptr + at, end - at);
        while (k < ARRAY_LEN(known) && !slice_is(one, known[k]))
            k++;
        if (k == ARRAY_LEN(known)) {
            reply_error(call, 400, "illegal_argument_exception",
                        "request [%.*s] contains unrecognized metric: [%.*s]",
                        SLICE_FMT(call->path), SLICE_FMT(one));
            return false;
        }
        at = end + 1;
    }
    return true;
}

void cluster_state(struct api_call *call)
{
    struct names_options options = {.ignore_unavailable = true,
                                    .allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct slice metrics = call_part(call, "metric");
    struct api *api = call->api;
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if (!known_metrics(call, metrics) || !names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_cstr(out, "cluster_name", api->o.cluster_name);
    json_cstr(out, "cluster_uuid", store_cluster_uuid(api->o.store));
    if (wants(metrics, "version")) {
        json_uint(out, "version", 1);
        json_cstr(out, "state_uuid", store_cluster_uuid(api->o.store));
    }
    if (wants(metrics, "master_node"))
        json_cstr(out, "master_node", store_node_id(api->o.store));
    if (wants(metrics, "cluster_manager_node") &&
        strcmp(api->o.identity_product, "opensearch") == 0)
        json_cstr(out, "cluster_manager_node", store_node_id(api->o.store));
    if (wants(metrics, "blocks"))
        put_blocks(&list, out);
    if (wants(metrics, "nodes"))
        put_nodes(call, out);
    if (wants(metrics, "metadata"))
        rc = put_metadata(call, &list, out, &err);
    if (wants(metrics, "routing_table"))
        put_routing(call, &list, out);
    if (wants(metrics, "routing_nodes"))
        json_raw(out, "routing_nodes", SLICE_LIT("{\"unassigned\":[],\"nodes\":{}}"));
    buf_put_byte(out, '}');
    names_list_done(&list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

/* ---- _cluster/stats */
static void put_stats_indices(const struct names_list *list, struct buf *out)
{
    uint64_t docs = 0, deleted = 0, bytes = 0, segments = 0, shards = 0, memory = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct index_stats stats;
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list->index[i]);
        names_info_get(meta, &info);
        index_meta_release(meta);
        index_stats_get(list->index[i], &stats);
        docs += stats.docs;
        deleted += stats.deleted;
        bytes += stats.disk_bytes + stats.catalog_bytes;
        memory += stats.memory_bytes;
        segments += stats.segments;
        shards += info.shards;
    }
    json_key(out, "indices");
    buf_put_byte(out, '{');
    json_uint(out, "count", list->count);
    json_key(out, "shards");
    buf_printf(out, "{\"total\":%llu,\"primaries\":%llu,\"replication\":0.0}",
               (unsigned long long)shards, (unsigned long long)shards);
    json_key(out, "docs");
    buf_printf(out, "{\"count\":%llu,\"deleted\":%llu}", (unsigned long long)docs,
               (unsigned long long)deleted);
    json_key(out, "store");
    buf_printf(out, "{\"size_in_bytes\":%llu,\"reserved_in_bytes\":0}", (unsigned long long)bytes);
    BUF_PUT_LIT(out, ",\"fielddata\":{\"memory_size_in_bytes\":0,\"evictions\":0},"
                     "\"query_cache\":{\"memory_size_in_bytes\":0,\"total_count\":0,"
                     "\"hit_count\":0,\"miss_count\":0,\"cache_size\":0,\"cache_count\":0,"
                     "\"evictions\":0},\"completion\":{\"size_in_bytes\":0},\"segments\":{");
    json_uint(out, "count", segments);
    json_uint(out, "memory_in_bytes", memory);
    BUF_PUT_LIT(out, ",\"file_sizes\":{}},\"mappings\":{\"field_types\":[]},"
                     "\"analysis\":{},\"versions\":[]}");
}

static void put_stats_os(struct buf *out)
{
    struct machine_figures m;
    machine_figures_get(&m);
    uint64_t used = m.memory - m.memory_free;
    json_key(out, "os");
    buf_printf(out,
               "{\"available_processors\":%u,\"allocated_processors\":%u,\"names\":[],"
               "\"mem\":{",
               m.processors, m.processors);
    json_uint(out, "total_in_bytes", m.memory);
    json_uint(out, "free_in_bytes", m.memory_free);
    json_uint(out, "used_in_bytes", used);
    json_uint(out, "free_percent", 100 - percent_of(used, m.memory));
    json_uint(out, "used_percent", percent_of(used, m.memory));
    BUF_PUT_LIT(out, "}}");
}

static void put_stats_nodes(struct api_call *call, struct buf *out)
{
    struct process_figures process;
    struct store_stats store;
    store_stats_get(call->api->o.store, &store);
    json_key(out, "nodes");
    BUF_PUT_LIT(out, "{\"count\":{\"total\":1,\"coordinating_only\":0,\"data\":1,\"ingest\":1,"
                     "\"master\":1,\"remote_cluster_client\":0,\"voting_only\":0},\"versions\":[");
    json_quote(slice_str(call->api->o.identity_version), out);
    buf_put_byte(out, ']');
    put_stats_os(out);
    process_figures_get(&process);
    unsigned long long files = process.files;
    buf_printf(out,
               ",\"process\":{\"cpu\":{\"percent\":0},\"open_file_descriptors\":{\"min\":%llu,"
               "\"max\":%llu,\"avg\":%llu}},\"jvm\":{\"max_uptime_in_millis\":%llu",
               files, files, files,
               (unsigned long long)((clock_ns() - call->api->started_ns) / 1000000));
    buf_printf(out,
               ",\"versions\":[],\"mem\":{\"heap_used_in_bytes\":0,\"heap_max_in_bytes\":0},"
               "\"threads\":%llu},\"fs\":{",
               (unsigned long long)process.threads);
    json_uint(out, "total_in_bytes", store.disk_total);
    json_uint(out, "free_in_bytes", store.disk_free);
    json_uint(out, "available_in_bytes", store.disk_free);
    BUF_PUT_LIT(out, "},\"plugins\":[],\"network_types\":{\"transport_types\":{},\"http_types\":"
                     "{\"stowd\":1}},\"discovery_types\":{\"single-node\":1},\"packaging_types\":"
                     "[{\"flavor\":\"default\",\"type\":\"deb\",\"count\":1}],\"ingest\":"
                     "{\"number_of_pipelines\":0,\"processor_stats\":{}}}");
}

void cluster_stats(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    bool here = node_named(call->api, call_part(call, "node"));
    struct names_list none = {NULL, 0};
    struct buf *out = reply_json(call, 200);
    buf_printf(out, "{\"_nodes\":{\"total\":%d,\"successful\":%d,\"failed\":0}", here, here);
    json_cstr(out, "cluster_name", call->api->o.cluster_name);
    json_cstr(out, "cluster_uuid", store_cluster_uuid(call->api->o.store));
    json_uint(out, "timestamp", clock_ms());
    json_cstr(out, "status", "green");
    put_stats_indices(here ? &list : &none, out);
    put_stats_nodes(call, out);
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}

void cluster_pending(struct api_call *call)
{
    BUF_PUT_LIT(reply_json(call, 200), "{\"tasks\":[]}");
    api_finish(call);
}
