/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of _nodes/stats. There is no JVM: its heap, pools and collectors are there because
 * collectors of figures ask for them, and are 0. What is not known is left out. */
#include "api/node_stats.h"

#include "api/metrics.h"
#include "api/process.h"

static void put_os(const struct api_call *call, struct buf *out)
{
    struct machine_figures m;
    uint64_t used;
    (void)call;
    machine_figures_get(&m);
    used = m.memory - m.memory_free;
    json_uint(out, "timestamp", clock_ms());
    buf_printf(out, ",\"cpu\":{\"load_average\":{\"1m\":%.2f,\"5m\":%.2f,\"15m\":%.2f}},\"mem\":{",
               m.load[0], m.load[1], m.load[2]);
    json_uint(out, "total_in_bytes", m.memory);
    json_uint(out, "free_in_bytes", m.memory_free);
    json_uint(out, "used_in_bytes", used);
    json_uint(out, "free_percent", 100 - percent_of(used, m.memory));
    json_uint(out, "used_percent", percent_of(used, m.memory));
    BUF_PUT_LIT(out, "},\"swap\":{");
    json_uint(out, "total_in_bytes", m.swap);
    json_uint(out, "free_in_bytes", m.swap_free);
    json_uint(out, "used_in_bytes", m.swap - m.swap_free);
    buf_put_byte(out, '}');
}

static void put_process(const struct api_call *call, struct buf *out)
{
    struct process_figures p;
    (void)call;
    process_figures_get(&p);
    json_uint(out, "timestamp", clock_ms());
    json_uint(out, "open_file_descriptors", p.files);
    json_uint(out, "max_file_descriptors", p.files_max);
    buf_printf(out, ",\"cpu\":{\"total_in_millis\":%llu}", (unsigned long long)p.cpu_ms);
    BUF_PUT_LIT(out, ",\"mem\":{");
    json_uint(out, "total_virtual_in_bytes", p.virtual_);
    json_uint(out, "resident_in_bytes", p.resident);
    buf_put_byte(out, '}');
}

#define NO_POOL                                                                                    \
    "{\"used_in_bytes\":0,\"max_in_bytes\":0,\"peak_used_in_bytes\":0,\"peak_max_in_bytes\":0}"

static void put_jvm(const struct api_call *call, struct buf *out)
{
    static const char none[] =
        "\"mem\":{\"heap_used_in_bytes\":0,\"heap_used_percent\":0,\"heap_committed_in_bytes\":0,"
        "\"heap_max_in_bytes\":0,\"non_heap_used_in_bytes\":0,\"non_heap_committed_in_bytes\":0,"
        "\"pools\":{\"young\":" NO_POOL ",\"survivor\":" NO_POOL ",\"old\":" NO_POOL "}},"
        "\"gc\":{\"collectors\":{\"young\":{\"collection_count\":0,"
        "\"collection_time_in_millis\":0},\"old\":{\"collection_count\":0,"
        "\"collection_time_in_millis\":0}}},\"buffer_pools\":{\"direct\":{\"count\":0,"
        "\"used_in_bytes\":0,\"total_capacity_in_bytes\":0},\"mapped\":{\"count\":0,"
        "\"used_in_bytes\":0,\"total_capacity_in_bytes\":0}},\"classes\":{"
        "\"current_loaded_count\":0,\"total_loaded_count\":0,\"total_unloaded_count\":0}";
    struct process_figures p;
    process_figures_get(&p);
    json_uint(out, "timestamp", clock_ms());
    json_uint(out, "uptime_in_millis", (clock_ns() - call->api->started_ns) / 1000000);
    buf_printf(out, ",\"threads\":{\"count\":%llu},%s", (unsigned long long)p.threads, none);
}

static void put_pool(const struct api *api, const char *name, enum work_class class_,
                     struct buf *out)
{
    json_key(out, name);
    buf_put_byte(out, '{');
    json_uint(out, "queue", work_waiting(api->o.work, class_));
    buf_put_byte(out, '}');
}

static void put_thread_pool(const struct api_call *call, struct buf *out)
{
    put_pool(call->api, "get", WORK_GET, out);
    put_pool(call->api, "write", WORK_WRITE, out);
    put_pool(call->api, "management", WORK_BACKGROUND, out);
}

static void put_fs(const struct api_call *call, struct buf *out)
{
    struct store_stats store;
    store_stats_get(call->api->o.store, &store);
    json_uint(out, "timestamp", clock_ms());
    for (int i = 0; i < 2; i++) {
        json_key(out, i == 0 ? "total" : "data");
        buf_put_str(out, i == 0 ? "{" : "[{");
        if (i != 0 && call->api->o.path_data != NULL)
            json_cstr(out, "path", call->api->o.path_data);
        json_uint(out, "total_in_bytes", store.disk_total);
        json_uint(out, "free_in_bytes", store.disk_free);
        json_uint(out, "available_in_bytes", store.disk_free);
        buf_put_str(out, i == 0 ? "}" : "}]");
    }
}

static void gauges(const struct api *api, struct api_gauges *out)
{
    memset(out, 0, sizeof *out);
    if (api->o.gauges != NULL)
        api->o.gauges(api->o.arg, out);
}

static void put_http(const struct api_call *call, struct buf *out)
{
    struct api_gauges g;
    gauges(call->api, &g);
    json_uint(out, "current_open", g.connections);
}

/* There are no other nodes to talk to. */
static void put_transport(const struct api_call *call, struct buf *out)
{
    (void)call;
    BUF_PUT_LIT(out, "\"server_open\":0,\"total_outbound_connections\":0,\"rx_count\":0,"
                     "\"rx_size_in_bytes\":0,\"tx_count\":0,\"tx_size_in_bytes\":0");
}

static void put_breakers(const struct api_call *call, struct buf *out)
{
    struct api_gauges g;
    uint64_t received, refused;
    gauges(call->api, &g);
    metrics_totals(call->api->metrics, &received, &refused);
    BUF_PUT_LIT(out, "\"in_flight_requests\":{");
    json_uint(out, "limit_size_in_bytes", g.in_flight_max);
    json_uint(out, "estimated_size_in_bytes", g.in_flight);
    buf_printf(out, ",\"overhead\":1.0,\"tripped\":%llu}", (unsigned long long)refused);
}

/* One budget is for bodies and answers alike: it is all counted as coordinating. */
static void put_pressure(const struct api_call *call, struct buf *out)
{
    struct api_gauges g;
    uint64_t total[2], refused;
    gauges(call->api, &g);
    total[0] = g.in_flight;
    metrics_totals(call->api->metrics, &total[1], &refused);
    BUF_PUT_LIT(out, "\"memory\":{");
    for (int i = 0; i < 2; i++) {
        json_key(out, i == 0 ? "current" : "total");
        buf_put_byte(out, '{');
        json_uint(out, "combined_coordinating_and_primary_in_bytes", total[i]);
        json_uint(out, "coordinating_in_bytes", total[i]);
        json_uint(out, "primary_in_bytes", 0);
        json_uint(out, "replica_in_bytes", 0);
        json_uint(out, "all_in_bytes", total[i]);
        if (i == 1) {
            json_uint(out, "coordinating_rejections", refused);
            json_uint(out, "primary_rejections", 0);
            json_uint(out, "replica_rejections", 0);
        }
        buf_put_byte(out, '}');
    }
    json_uint(out, "limit_in_bytes", g.in_flight_max);
    buf_put_byte(out, '}');
}

static void put_script(const struct api_call *call, struct buf *out)
{
    (void)call;
    BUF_PUT_LIT(out, "\"compilations\":0,\"cache_evictions\":0,\"compilation_limit_triggered\":0");
}

static void put_discovery(const struct api_call *call, struct buf *out)
{
    (void)call;
    BUF_PUT_LIT(out, "\"cluster_state_queue\":{\"total\":0,\"pending\":0,\"committed\":0},"
                     "\"published_cluster_states\":{\"full_states\":0,\"incompatible_diffs\":0,"
                     "\"compatible_diffs\":0}");
}

static void put_ingest(const struct api_call *call, struct buf *out)
{
    (void)call;
    BUF_PUT_LIT(out, "\"total\":{\"count\":0,\"time_in_millis\":0,\"current\":0,\"failed\":0},"
                     "\"pipelines\":{}");
}

static void put_nothing(const struct api_call *call, struct buf *out)
{
    (void)call;
    (void)out;
}

static void put_stow(const struct api_call *call, struct buf *out)
{
    struct store_stats store;
    store_stats_get(call->api->o.store, &store);
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
}

static const struct {
    const char *name;                                          /* as asked for */
    const char *key;                                           /* as shown, when it is another */
    void (*put)(const struct api_call *call, struct buf *out); /* NULL: of the indices */
} SECTIONS[] = {
    {"indices", NULL, NULL},
    {"os", NULL, put_os},
    {"process", NULL, put_process},
    {"jvm", NULL, put_jvm},
    {"thread_pool", NULL, put_thread_pool},
    {"fs", NULL, put_fs},
    {"transport", NULL, put_transport},
    {"http", NULL, put_http},
    {"breaker", "breakers", put_breakers},
    {"script", NULL, put_script},
    {"discovery", NULL, put_discovery},
    {"ingest", NULL, put_ingest},
    {"adaptive_selection", NULL, put_nothing},
    {"indexing_pressure", NULL, put_pressure},
    {"stow", NULL, put_stow},
};
_Static_assert(ARRAY_LEN(SECTIONS) <= 32, "a bit for each");

const char *node_stats_name(size_t i)
{
    return i < ARRAY_LEN(SECTIONS) ? SECTIONS[i].name : NULL;
}

void node_stats_put(const struct api_call *call, const struct node_stats_view *view,
                    struct buf *out)
{
    json_uint(out, "timestamp", clock_ms());
    for (size_t i = 0; i < ARRAY_LEN(SECTIONS); i++) {
        if ((view->sections & 1u << i) == 0)
            continue;
        json_key(out, SECTIONS[i].key != NULL ? SECTIONS[i].key : SECTIONS[i].name);
        buf_put_byte(out, '{');
        if (SECTIONS[i].put != NULL)
            SECTIONS[i].put(call, out);
        else
            stats_put_node(call->api, view->list, view->metrics, view->by_index, out);
        buf_put_byte(out, '}');
    }
}
