/* SPDX-License-Identifier: Apache-2.0 */
/* _nodes: the one node, for clients that look for addresses (sniffing) and for monitoring. */
#include "api/nodes.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/node_stats.h"
#include "api/process.h"
#include "api/suggest.h"

#include <sys/utsname.h>
#include <unistd.h>

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

/* ---- sections of GET _nodes */

static void put_settings(const struct api_call *call, struct buf *out)
{
    const struct api *api = call->api;
    bool flat = slice_is(call_param(call, "flat_settings"), "true");
    buf_put_str(out, flat ? "" : "\"client\":{\"type\":\"node\"},\"cluster\":{");
    json_cstr(out, flat ? "cluster.name" : "name", api->o.cluster_name);
    buf_put_str(out, flat ? ",\"client.type\":\"node\"" : "},\"node\":{");
    json_cstr(out, flat ? "node.name" : "name", api->o.node_name);
    buf_put_str(out, flat ? "" : "}");
}

static void put_os(const struct api_call *call, struct buf *out)
{
    struct machine_figures machine;
    struct utsname name = {0};
    (void)call;
    machine_figures_get(&machine);
    (void)uname(&name);
    json_cstr(out, "name", name.sysname);
    json_cstr(out, "pretty_name", name.sysname);
    json_cstr(out, "arch", name.machine);
    json_cstr(out, "version", name.release);
    json_uint(out, "available_processors", machine.processors);
    json_uint(out, "allocated_processors", machine.processors);
}

static void put_process(const struct api_call *call, struct buf *out)
{
    (void)call;
    json_uint(out, "id", (uint64_t)getpid());
    json_bool(out, "mlockall", false);
}

/* There is none; collectors of figures ask for version and heap. */
static void put_jvm(const struct api_call *call, struct buf *out)
{
    json_uint(out, "pid", (uint64_t)getpid());
    json_cstr(out, "version", "0");
    json_cstr(out, "vm_name", "none");
    json_uint(out, "start_time_in_millis",
              clock_ms() - (clock_ns() - call->api->started_ns) / 1000000);
    BUF_PUT_LIT(out, ",\"mem\":{\"heap_init_in_bytes\":0,\"heap_max_in_bytes\":0,"
                     "\"non_heap_init_in_bytes\":0,\"non_heap_max_in_bytes\":0,"
                     "\"direct_max_in_bytes\":0},\"gc_collectors\":[],\"memory_pools\":[]");
}

static void put_addresses(const struct api_call *call, struct buf *out)
{
    struct slice address = node_address(call);
    BUF_PUT_LIT(out, "\"bound_address\":[");
    json_quote(address, out);
    buf_put_byte(out, ']');
    json_str(out, "publish_address", address);
}

static void put_transport(const struct api_call *call, struct buf *out)
{
    put_addresses(call, out);
    json_raw(out, "profiles", SLICE_LIT("{}"));
}

static void put_http(const struct api_call *call, struct buf *out)
{
    put_addresses(call, out);
    json_uint(out, "max_content_length_in_bytes", call->api->o.max_content_length);
}

static void put_ingest(const struct api_call *call, struct buf *out)
{
    (void)call;
    json_raw(out, "processors", SLICE_LIT("[]"));
}

static const struct {
    const char *name;
    void (*put)(const struct api_call *call, struct buf *out); /* NULL: an empty list */
} INFO[] = {
    {"settings", put_settings},   {"os", put_os},     {"process", put_process}, {"jvm", put_jvm},
    {"transport", put_transport}, {"http", put_http}, {"plugins", NULL},        {"modules", NULL},
    {"ingest", put_ingest},
};

/* Known to others, and without anything to show here. */
static const char *const INFO_EMPTY[] = {"thread_pool", "aggregations", "indices",
                                         "remote_cluster_server", "_none"};

/* Bits of INFO that a list names. *all_known_out: each word is one of them. */
static unsigned read_info(struct slice list, bool *all_known_out)
{
    unsigned bits = 0;
    *all_known_out = true;
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr), i = 0, e = 0;
        struct slice one = slice_of(list.ptr + at, end - at);
        at = end + 1;
        while (i < ARRAY_LEN(INFO) && !slice_is(one, INFO[i].name))
            i++;
        while (e < ARRAY_LEN(INFO_EMPTY) && !slice_is(one, INFO_EMPTY[e]))
            e++;
        if (slice_is(one, "_all"))
            bits = ~0u;
        else if (i < ARRAY_LEN(INFO))
            bits |= 1u << i;
        else if (e == ARRAY_LEN(INFO_EMPTY))
            *all_known_out = false;
    }
    return bits;
}

/* ---- reading the path: _nodes[/node][/stats][/metric[/index metric]] */
struct asked {
    bool stats;
    struct slice nodes;
    unsigned info;
    struct node_stats_view view;
};

/* False: replied. */
static bool read_sections(struct api_call *call, struct slice list, unsigned *sections_out)
{
    const char *names[33];
    size_t count = 0;
    unsigned sections = 0;
    while (count < 32 && (names[count] = node_stats_name(count)) != NULL)
        count++;
    if (list.len == 0)
        sections = ~0u;
    for (size_t at = 0; list.len != 0 && at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr), i = 0;
        struct slice one = slice_of(list.ptr + at, end - at);
        at = end + 1;
        while (i < count && !slice_is(one, names[i]))
            i++;
        if (i == count && !slice_is(one, "_all")) {
            struct buf hint = {0};
            suggest(one, names, count, &hint);
            reply_error(call, 400, "illegal_argument_exception",
                        "request [%.*s] contains unrecognized metric: [%.*s]%.*s",
                        SLICE_FMT(call->path), SLICE_FMT(one), (int)hint.len,
                        (const char *)hint.ptr);
            buf_done(&hint);
            return false;
        }
        sections |= i == count ? ~0u : 1u << i;
    }
    *sections_out = sections;
    return true;
}

/* part[at] and what follows belong to the statistics. False: replied. */
static bool read_stats(struct api_call *call, size_t at, struct asked *asked)
{
    struct slice metric = at < call->part_count ? call->part[at] : SLICE_NONE;
    struct slice index_metric = at + 1 < call->part_count ? call->part[at + 1] : SLICE_NONE;
    struct slice level = call_param(call, "level");
    asked->stats = true;
    asked->view.by_index = slice_is(level, "indices") || slice_is(level, "shards");
    if (level.len != 0 && !asked->view.by_index && !slice_is(level, "node")) {
        reply_error(call, 400, "illegal_argument_exception",
                    "level parameter must be one of [node] or [indices] or [shards] but was [%.*s]",
                    SLICE_FMT(level));
        return false;
    }
    if (!read_sections(call, metric, &asked->view.sections))
        return false;
    if (index_metric.len != 0 && (asked->view.sections & 1u) == 0) {
        reply_error(call, 400, "illegal_argument_exception",
                    "request [%.*s] contains index metrics [%.*s] but indices stats not requested",
                    SLICE_FMT(call->path), SLICE_FMT(index_metric));
        return false;
    }
    return stats_metrics_read(call, index_metric, &asked->view.metrics);
}

/* False: replied. */
static bool read_path(struct api_call *call, struct asked *asked)
{
    struct slice one = call->part_count > 1 ? call->part[1] : SLICE_NONE;
    struct slice two = call->part_count > 2 ? call->part[2] : SLICE_NONE;
    bool known;
    if (slice_is(one, "stats"))
        return read_stats(call, 2, asked);
    if (slice_is(two, "stats")) {
        asked->nodes = one;
        return read_stats(call, 3, asked);
    }
    asked->info = one.len == 0 ? ~0u : read_info(one, &known);
    if (one.len != 0 && (two.len != 0 || !known)) { /* it is a node */
        asked->nodes = one;
        asked->info = two.len == 0 ? ~0u : read_info(two, &known);
    }
    return true;
}

static void put_node(const struct api_call *call, const struct asked *asked, struct buf *out)
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
    if (asked->stats) {
        node_stats_put(call, &asked->view, out);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(INFO); i++) {
        if ((asked->info & 1u << i) == 0)
            continue;
        json_key(out, INFO[i].name);
        buf_put_byte(out, INFO[i].put != NULL ? '{' : '[');
        if (INFO[i].put != NULL)
            INFO[i].put(call, out);
        buf_put_byte(out, INFO[i].put != NULL ? '}' : ']');
    }
}

void nodes_info(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct asked asked = {.stats = false};
    struct names_list list;
    bool flat;
    if (!call_bool(call, "flat_settings", false, &flat) || !read_path(call, &asked) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    asked.view.list = &list;
    bool here = node_named(call->api, asked.nodes);
    struct buf *out = reply_json(call, 200);
    buf_printf(out, "{\"_nodes\":{\"total\":%d,\"successful\":%d,\"failed\":0}", here, here);
    json_cstr(out, "cluster_name", call->api->o.cluster_name);
    json_key(out, "nodes");
    buf_put_byte(out, '{');
    if (here) {
        json_key(out, store_node_id(call->api->o.store));
        buf_put_byte(out, '{');
        put_node(call, &asked, out);
        buf_put_byte(out, '}');
    }
    BUF_PUT_LIT(out, "}}");
    names_list_done(&list);
    api_finish(call);
}
