/* SPDX-License-Identifier: Apache-2.0 */
/* _cat/indices, _cat/count, _cat/health: the rows. How they are printed is in cat_table.c. */
#include "api/cat.h"

#include "api/handlers.h"
#include "api/names.h"

#include <time.h>

void cat_help(struct api_call *call)
{
    struct buf *out = reply_json(call, 200);
    call->reply.content_type = "text/plain; charset=UTF-8";
    BUF_PUT_LIT(out, "=^.^=\n/_cat/aliases\n/_cat/aliases/{alias}\n/_cat/allocation\n"
                     "/_cat/component_templates\n/_cat/count\n/_cat/count/{index}\n"
                     "/_cat/fielddata\n/_cat/health\n/_cat/indices\n/_cat/indices/{index}\n"
                     "/_cat/master\n/_cat/nodeattrs\n/_cat/nodes\n/_cat/pending_tasks\n"
                     "/_cat/plugins\n/_cat/recovery\n/_cat/recovery/{index}\n"
                     "/_cat/repositories\n/_cat/segments\n/_cat/segments/{index}\n/_cat/shards\n"
                     "/_cat/shards/{index}\n/_cat/tasks\n/_cat/templates\n/_cat/thread_pool\n");
    api_finish(call);
}

static bool resolve(struct api_call *call, struct names_list *list)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED};
    return names_resolve_or_reply(call, &options, list);
}

static void put_time(struct cat_table *table)
{
    char text[16];
    struct tm tm;
    time_t now = (time_t)(clock_ms() / 1000);
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%H:%M:%S", &tm);
    cat_number(table, (uint64_t)now);
    cat_text(table, text);
}

/* ---- _cat/count */
static const struct cat_column count_columns[] = {
    {"epoch", "t,time", "seconds since 1970-01-01 00:00:00", false, false},
    {"timestamp", "ts,hms,hhmmss", "time in HH:MM:SS", false, false},
    {"count", "dc,docs.count,docsCount", "the document count", false, false},
};

void cat_count(struct api_call *call)
{
    struct cat_table table;
    struct names_list list;
    uint64_t docs = 0;
    if (!resolve(call, &list))
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct index_stats stats;
        index_stats_get(list.index[i], &stats);
        docs += stats.docs;
    }
    names_list_done(&list);
    cat_begin(&table, count_columns, ARRAY_LEN(count_columns));
    put_time(&table);
    cat_number(&table, docs);
    cat_reply(call, &table);
}

/* ---- _cat/health */
static const struct cat_column health_columns[] = {
    {"epoch", "t,time", "seconds since 1970-01-01 00:00:00", false, false},
    {"timestamp", "ts,hms,hhmmss", "time in HH:MM:SS", false, false},
    {"cluster", "cl", "cluster name", false, false},
    {"status", "st", "health status", false, false},
    {"node.total", "nt,nodeTotal", "total number of nodes", false, true},
    {"node.data", "nd,nodeData", "number of nodes that can store data", false, true},
    {"shards", "t,sh,shards.total,shardsTotal", "total number of shards", false, true},
    {"pri", "p,shards.primary,shardsPrimary", "number of primary shards", false, true},
    {"relo", "r,shards.relocating,shardsRelocating", "number of relocating nodes", false, true},
    {"init", "i,shards.initializing,shardsInitializing", "number of initializing nodes", false,
     true},
    {"unassign", "u,shards.unassigned,shardsUnassigned", "number of unassigned shards", false,
     true},
    {"pending_tasks", "pt,pendingTasks", "number of pending tasks", false, true},
    {"max_task_wait_time", "mtwt,maxTaskWaitTime", "wait time of longest task pending", false,
     true},
    {"active_shards_percent", "asp,activeShardsPercent", "active number of shards in percent",
     false, true},
};

void cat_health(struct api_call *call)
{
    struct cat_table table;
    struct names_list list;
    uint64_t shards = 0;
    bool ts;
    if (!call_bool(call, "ts", true, &ts) || !resolve(call, &list))
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        names_info_get(meta, &info);
        index_meta_release(meta);
        shards += info.shards;
    }
    names_list_done(&list);
    size_t skip = ts ? 0 : 2;
    cat_begin(&table, health_columns + skip, ARRAY_LEN(health_columns) - skip);
    if (ts)
        put_time(&table);
    cat_text(&table, call->api->o.cluster_name);
    cat_text(&table, "green");
    cat_number(&table, 1);
    cat_number(&table, 1);
    cat_number(&table, shards);
    cat_number(&table, shards);
    for (int i = 0; i < 4; i++)
        cat_number(&table, 0);
    cat_text(&table, "-");
    cat_text(&table, "100.0%");
    cat_reply(call, &table);
}

/* ---- _cat/indices */
static const struct cat_column indices_columns[] = {
    {"health", "h", "current health status", false, false},
    {"status", "s", "open/close status", false, false},
    {"index", "i,idx", "index name", false, false},
    {"uuid", "id,uuid", "index uuid", false, false},
    {"pri", "p,shards.primary,shardsPrimary", "number of primary shards", false, true},
    {"rep", "r,shards.replica,shardsReplica", "number of replica shards", false, true},
    {"docs.count", "dc,docsCount", "available docs", false, true},
    {"docs.deleted", "dd,docsDeleted", "deleted docs", false, true},
    {"creation.date", "cd", "index creation date (millisecond value)", true, false},
    {"creation.date.string", "cds", "index creation date (as string)", true, false},
    {"store.size", "ss,storeSize", "store size of primaries & replicas", false, true},
    {"pri.store.size", "", "store size of primaries", false, true},
    {"raw.size", "rs,rawSize", "size of the documents as JSON", true, true},
    {"codec", "", "codec of the index", true, false},
    {"level", "", "compression level of the index", true, true},
    {"ratio", "", "raw size of the packed documents by what they take", true, true},
};

static void put_created(struct cat_table *table, const struct index *index)
{
    uint64_t ms = index_created_ms(index);
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];
    gmtime_r(&s, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03uZ", (unsigned)(ms % 1000));
    cat_number(table, ms);
    cat_text(table, text);
}

static void put_index(struct cat_table *table, struct index *index, const struct names_info *info)
{
    const struct codec_spec *spec = index_spec(index);
    struct index_stats stats;
    char ratio[32];
    index_stats_get(index, &stats);
    cat_text(table, info->replicas == 0 ? "green" : "yellow");
    cat_text(table, info->closed ? "close" : "open");
    cat_text(table, index_name(index));
    cat_text(table, index_uuid(index));
    cat_number(table, info->shards);
    cat_number(table, info->replicas);
    info->closed ? cat_empty(table) : cat_number(table, stats.docs);
    info->closed ? cat_empty(table) : cat_number(table, stats.deleted);
    put_created(table, index);
    for (int i = 0; i < 2; i++)
        info->closed ? cat_empty(table) : cat_bytes(table, stats.disk_bytes + stats.catalog_bytes);
    cat_bytes(table, stats.raw_bytes);
    cat_text(table, codec_text(spec->codec));
    cat_number(table, (uint64_t)spec->level);
    snprintf(ratio, sizeof ratio, "%.2f",
             stats.block_bytes == 0 ? 1.0
                                    : (double)stats.block_raw_bytes / (double)stats.block_bytes);
    cat_text(table, ratio);
}

void cat_indices(struct api_call *call)
{
    struct slice health = call_param(call, "health");
    struct cat_table table;
    struct names_list list;
    if (health.len != 0 && !slice_is(health, "green") && !slice_is(health, "yellow") &&
        !slice_is(health, "red")) {
        reply_error(call, 400, "illegal_argument_exception", "unknown cluster health status [%.*s]",
                    SLICE_FMT(health));
        return;
    }
    if (!resolve(call, &list))
        return;
    cat_begin(&table, indices_columns, ARRAY_LEN(indices_columns));
    for (size_t i = 0; i < list.count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        names_info_get(meta, &info);
        index_meta_release(meta);
        if (health.len == 0 || slice_is(health, info.replicas == 0 ? "green" : "yellow"))
            put_index(&table, list.index[i], &info);
    }
    names_list_done(&list);
    cat_reply(call, &table);
}
