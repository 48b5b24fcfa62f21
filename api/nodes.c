/* SPDX-License-Identifier: Apache-2.0 */
/* _nodes: the one node, for clients that look for addresses (sniffing) and for monitoring. */
#include "api/nodes.h"
#include "api/handlers.h"
#include "api/names.h"

struct slice node_address(const struct api_call *call)
{
    if (call->api->o.http_address != NULL)
        return slice_str(call->api->o.http_address);
    return call->host.len != 0 ? call->host : SLICE_LIT("127.0.0.1:9200");
}

struct slice node_host(struct slice address)
{
    size_t n = address.len;
    while (n != 0 && address.ptr[n - 1] != ':' && address.ptr[n - 1] != ']')
        n--;
    if (n == 0 || address.ptr[n - 1] == ']')
        return address;
    return slice_of(address.ptr, n - 1);
}

struct slice node_port(struct slice address)
{
    struct slice host = node_host(address);
    return host.len == address.len
               ? SLICE_LIT("9200")
               : slice_of(address.ptr + host.len + 1, address.len - host.len - 1);
}

static bool node_is(const struct api *api, struct slice word)
{
    static const char *const words[] = {
        "_all", "_local", "_master", "master:true", "data:true", "ingest:true", "_cluster_manager"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (slice_is(word, words[i]))
            return true;
    return names_match(word, slice_str(store_node_id(api->o.store))) ||
           names_match(word, slice_str(api->o.node_name));
}

bool node_named(const struct api *api, struct slice list)
{
    if (list.len == 0)
        return true;
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        if (node_is(api, slice_of(list.ptr + at, end - at)))
            return true;
        at = end + 1;
    }
    return false;
}

static void put_settings(const struct api *api, bool flat, struct buf *out)
{
    json_key(out, "settings");
    buf_put_str(out, flat ? "{" : "{\"client\":{\"type\":\"node\"},\"cluster\":{");
    json_cstr(out, flat ? "cluster.name" : "name", api->o.cluster_name);
    buf_put_str(out, flat ? ",\"client.type\":\"node\"" : "},\"node\":{");
    json_cstr(out, flat ? "node.name" : "name", api->o.node_name);
    buf_put_str(out, flat ? "}" : "}}");
}

static void put_stats(struct api_call *call, const struct names_list *list, struct buf *out)
{
    struct store_stats store;
    uint64_t docs = 0, deleted = 0, bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct index_stats stats;
        index_stats_get(list->index[i], &stats);
        docs += stats.docs;
        deleted += stats.deleted;
        bytes += stats.disk_bytes + stats.catalog_bytes;
    }
    store_stats_get(call->api->o.store, &store);
    json_uint(out, "timestamp", clock_ms());
    json_key(out, "indices");
    BUF_PUT_LIT(out, "{\"docs\":{");
    json_uint(out, "count", docs);
    json_uint(out, "deleted", deleted);
    BUF_PUT_LIT(out, "},\"store\":{");
    json_uint(out, "size_in_bytes", bytes);
    BUF_PUT_LIT(out, "}},\"fs\":{\"total\":{");
    json_uint(out, "total_in_bytes", store.disk_total);
    json_uint(out, "free_in_bytes", store.disk_free);
    json_uint(out, "available_in_bytes", store.disk_free);
    BUF_PUT_LIT(out, "}},\"stow\":{");
    json_uint(out, "wal_capacity_bytes", store.wal_capacity);
    json_uint(out, "wal_used_bytes", store.wal_used);
    json_uint(out, "wal_written_bytes", store.wal_bytes);
    json_uint(out, "wal_batches", store.wal_batches);
    json_uint(out, "wal_commits", store.wal_commits);
    json_uint(out, "wal_sync_nanos", store.wal_sync_ns);
    json_uint(out, "cache_budget_bytes", store.cache_budget);
    json_uint(out, "cache_bytes", store.cache_bytes);
    json_uint(out, "cache_hits", store.cache_hits);
    json_uint(out, "cache_misses", store.cache_misses);
    json_uint(out, "cache_evictions", store.cache_evictions);
    json_uint(out, "catalog_file_bytes", store.catalog_file);
    json_uint(out, "catalog_used_bytes", store.catalog_used);
    json_uint(out, "catalog_map_bytes", store.catalog_map);
    json_uint(out, "checkpoints", store.checkpoints);
    json_uint(out, "checkpoint_failures", store.checkpoint_failures);
    json_uint(out, "rewrites", store.rewrites);
    buf_put_byte(out, '}');
}

static void put_node(struct api_call *call, bool flat, struct buf *out)
{
    const struct api *api = call->api;
    struct slice address = node_address(call);
    struct slice host = node_host(address);
    json_cstr(out, "name", api->o.node_name);
    json_str(out, "transport_address", address);
    json_str(out, "host", host);
    json_str(out, "ip", host);
    json_cstr(out, "version", api->o.identity_version);
    json_cstr(out, "build_flavor", "default");
    json_cstr(out, "build_type", "deb");
    json_raw(out, "roles", SLICE_LIT("[\"data\",\"ingest\",\"master\",\"remote_cluster_client\"]"));
    json_raw(out, "attributes", SLICE_LIT("{}"));
    put_settings(api, flat, out);
    json_key(out, "http");
    BUF_PUT_LIT(out, "{\"bound_address\":[");
    json_quote(address, out);
    buf_put_byte(out, ']');
    json_str(out, "publish_address", address);
    json_uint(out, "max_content_length_in_bytes", api->o.max_content_length);
    buf_put_byte(out, '}');
}

void nodes_info(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct names_list list;
    bool flat, stats = slice_is(call_part(call, "metric"), "stats") ||
                       slice_is(call_part(call, "node"), "stats");
    if (!call_bool(call, "flat_settings", false, &flat) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"_nodes\":{\"total\":1,\"successful\":1,\"failed\":0}");
    json_cstr(out, "cluster_name", call->api->o.cluster_name);
    json_key(out, "nodes");
    buf_put_byte(out, '{');
    json_key(out, store_node_id(call->api->o.store));
    buf_put_byte(out, '{');
    put_node(call, flat, out);
    if (stats)
        put_stats(call, &list, out);
    BUF_PUT_LIT(out, "}}}");
    names_list_done(&list);
    api_finish(call);
}
