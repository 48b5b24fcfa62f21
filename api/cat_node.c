/* SPDX-License-Identifier: Apache-2.0 */
/* _cat/nodes, master, allocation: the one node. */
#include "api/cat.h"
#include "api/handlers.h"
#include "api/names.h"
#include "api/nodes.h"
#include "api/process.h"

#include <unistd.h>

static const struct cat_column node_columns[] = {
    {"id", "nodeId", "unique node id", true, false},
    {"pid", "p", "process id", true, true},
    {"ip", "i", "ip address", false, false},
    {"port", "po", "bound transport port", true, true},
    {"http_address", "http", "bound http address", true, false},
    {"version", "v", "es version", true, false},
    {"flavor", "f", "es distribution flavor", true, false},
    {"type", "t", "es distribution type", true, false},
    {"build", "b", "es build hash", true, false},
    {"jdk", "j", "jdk version", true, false},
    {"disk.total", "dt,diskTotal", "total disk space", true, true},
    {"disk.used", "du,diskUsed", "used disk space", true, true},
    {"disk.avail", "d,da,disk,diskAvail", "available disk space", true, true},
    {"disk.used_percent", "dup,diskUsedPercent", "used disk space percentage", true, true},
    {"heap.current", "hc,heapCurrent", "used heap", true, true},
    {"heap.percent", "hp,heapPercent", "used heap ratio", false, true},
    {"heap.max", "hm,heapMax", "max configured heap", true, true},
    {"ram.current", "rc,ramCurrent", "used machine memory", true, true},
    {"ram.percent", "rp,ramPercent", "used machine memory ratio", false, true},
    {"ram.max", "rm,ramMax", "total machine memory", true, true},
    {"file_desc.current", "fdc,fileDescriptorCurrent", "used file descriptors", true, true},
    {"file_desc.percent", "fdp,fileDescriptorPercent", "used file descriptor ratio", true, true},
    {"file_desc.max", "fdm,fileDescriptorMax", "max file descriptors", true, true},
    {"cpu", "", "recent cpu usage", false, true},
    {"load_1m", "l", "1m load avg", false, true},
    {"load_5m", "l", "5m load avg", false, true},
    {"load_15m", "l", "15m load avg", false, true},
    {"uptime", "u", "node uptime", true, true},
    {"node.role", "r,role,nodeRole", "roles of the node", false, false},
    {"master", "m", "*:current master", false, false},
    {"name", "n", "node name", false, false},
};

static void put_disk(struct cat_table *table, const struct store_stats *store)
{
    char text[16];
    uint64_t used = store->disk_total - store->disk_free;
    double share = store->disk_total == 0 ? 0 : 100.0 * (double)used / (double)store->disk_total;
    cat_bytes(table, store->disk_total);
    cat_bytes(table, used);
    cat_bytes(table, store->disk_free);
    snprintf(text, sizeof text, "%.2f", share);
    cat_text(table, text);
}

static void put_memory(struct cat_table *table, const struct machine_figures *machine)
{
    struct process_figures process;
    uint64_t used = machine->memory - machine->memory_free;
    process_figures_get(&process);
    cat_bytes(table, process.resident);
    cat_number(table, percent_of(process.resident, machine->memory));
    cat_bytes(table, machine->memory);
    cat_bytes(table, used);
    cat_number(table, percent_of(used, machine->memory));
    cat_bytes(table, machine->memory);
    cat_number(table, process.files);
    cat_number(table, percent_of(process.files, process.files_max));
    cat_number(table, process.files_max);
}

static void put_load(struct cat_table *table, const struct machine_figures *machine)
{
    char text[32];
    uint64_t busy = percent_of((uint64_t)(machine->load[0] * 100), 100 * machine->processors);
    cat_number(table, busy > 100 ? 100 : busy);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%.2f", machine->load[i]);
        cat_text(table, text);
    }
}

static void put_name(struct cat_table *table, struct slice text)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%.*s", SLICE_FMT(text));
    cat_text(table, copy);
}

/* Tables show addresses, not names. */
static struct slice shown_ip(const struct api_call *call)
{
    struct slice host = node_host(node_address(call));
    for (size_t i = 0; i < host.len; i++)
        if (strchr("0123456789.", host.ptr[i]) == NULL)
            return SLICE_LIT("127.0.0.1");
    return host.len == 0 ? SLICE_LIT("127.0.0.1") : host;
}

void cat_nodes(struct api_call *call)
{
    const struct api *api = call->api;
    struct cat_table table;
    struct machine_figures machine;
    struct store_stats store;
    char id[32], address[300], up[32];
    bool full;
    if (!call_bool(call, "full_id", false, &full))
        return;
    machine_figures_get(&machine);
    store_stats_get(api->o.store, &store);
    cat_begin(&table, node_columns, ARRAY_LEN(node_columns));
    snprintf(id, sizeof id, "%.*s", full ? 22 : 4, store_node_id(api->o.store));
    cat_text(&table, id);
    cat_number(&table, (uint64_t)getpid());
    put_name(&table, shown_ip(call));
    cat_empty(&table);
    struct slice port = node_port(node_address(call)), ip = shown_ip(call);
    snprintf(address, sizeof address, "%.*s:%.*s", SLICE_FMT(ip), SLICE_FMT(port));
    cat_text(&table, address);
    cat_text(&table, api->o.identity_version);
    cat_text(&table, "default");
    cat_text(&table, "deb");
    cat_empty(&table);
    cat_empty(&table);
    put_disk(&table, &store);
    put_memory(&table, &machine);
    put_load(&table, &machine);
    snprintf(up, sizeof up, "%llus",
             (unsigned long long)((clock_ns() - api->started_ns) / 1000000000));
    cat_text(&table, up);
    cat_text(&table, "dim");
    cat_text(&table, "*");
    cat_text(&table, api->o.node_name);
    cat_reply(call, &table);
}

/* ---- _cat/master */
static const struct cat_column master_columns[] = {
    {"id", "", "node id", false, false},
    {"host", "h", "host name", false, false},
    {"ip", "", "ip address", false, false},
    {"node", "n", "node name", false, false},
};

void cat_master(struct api_call *call)
{
    struct cat_table table;
    cat_begin(&table, master_columns, ARRAY_LEN(master_columns));
    cat_text(&table, store_node_id(call->api->o.store));
    put_name(&table, shown_ip(call));
    put_name(&table, shown_ip(call));
    cat_text(&table, call->api->o.node_name);
    cat_reply(call, &table);
}

/* ---- _cat/allocation */
static const struct cat_column allocation_columns[] = {
    {"shards", "s", "number of shards on node", false, true},
    {"disk.indices", "di,diskIndices", "disk used by ES indices", false, true},
    {"disk.used", "du,diskUsed", "disk used (total, not just ES)", false, true},
    {"disk.avail", "da,diskAvail", "disk available", false, true},
    {"disk.total", "dt,diskTotal", "total capacity of all volumes", false, true},
    {"disk.percent", "dp,diskPercent", "percent disk used", false, true},
    {"host", "h", "host of node", false, false},
    {"ip", "", "ip of node", false, false},
    {"node", "n", "name of node", false, false},
};

void cat_allocation(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct slice node = call_part(call, "node");
    struct cat_table table;
    struct names_list list;
    struct store_stats store;
    uint64_t bytes = 0;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct index_stats stats;
        index_stats_get(list.index[i], &stats);
        bytes += stats.disk_bytes + stats.catalog_bytes;
    }
    store_stats_get(call->api->o.store, &store);
    cat_begin(&table, allocation_columns, ARRAY_LEN(allocation_columns));
    if (node_named(call->api, node)) {
        uint64_t used = store.disk_total - store.disk_free;
        cat_number(&table, list.count);
        cat_bytes(&table, bytes);
        cat_bytes(&table, used);
        cat_bytes(&table, store.disk_free);
        cat_bytes(&table, store.disk_total);
        cat_number(&table, percent_of(used, store.disk_total));
        put_name(&table, shown_ip(call));
        put_name(&table, shown_ip(call));
        cat_text(&table, call->api->o.node_name);
    }
    names_list_done(&list);
    cat_reply(call, &table);
}
