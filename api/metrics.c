/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by what they do. The answer goes out family by family, as the format wants it, in
 * windows: with thousands of indices it is megabytes. */
#include "api/metrics.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/process.h"
#include "config/limits.h"

#include <stdatomic.h>
#include <stdlib.h>

enum class_ {
    CLASS_BULK,
    CLASS_WRITE, /* one document */
    CLASS_GET,   /* one document */
    CLASS_MGET,
    CLASS_SEARCH,
    CLASS_OTHER,
    CLASSES
};
static const char *const CLASS_NAMES[CLASSES] = {"bulk", "write", "get", "mget", "search", "other"};

/* Upper bounds of the buckets; one more without a bound. */
static const uint64_t BOUNDS_NS[] = {50000,      100000,      250000,     500000,     1000000,
                                     2500000,    5000000,     10000000,   25000000,   50000000,
                                     100000000,  250000000,   500000000,  1000000000, 2500000000,
                                     5000000000, 10000000000, 30000000000};
static const char *const BOUND_TEXTS[] = {
    "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
    "0.05",    "0.1",    "0.25",    "0.5",    "1",     "2.5",    "5",     "10",   "30"};
_Static_assert(ARRAY_LEN(BOUNDS_NS) == ARRAY_LEN(BOUND_TEXTS), "a text for each bound");
#define BUCKETS (ARRAY_LEN(BOUNDS_NS) + 1)

/* Answers that refuse a request as a whole, told one by one. */
static const int REFUSALS[] = {400, 401, 403, 405, 406, 413, 414, 415, 429, 503};

struct class_counts {
    _Atomic uint64_t bucket[BUCKETS];
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t answers[5]; /* 1xx … 5xx */
};

struct metrics {
    uint64_t started_ms;
    _Atomic uint64_t received_bytes, answered_bytes;
    _Atomic uint64_t refused[ARRAY_LEN(REFUSALS)];
    struct class_counts class_[CLASSES] __attribute__((aligned(64)));
};

enum rc metrics_create(struct metrics **out, struct err *err)
{
    struct metrics *metrics = aligned_alloc(64, (sizeof *metrics + 63) / 64 * 64);
    if (metrics == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for metrics");
    memset(metrics, 0, sizeof *metrics);
    metrics->started_ms = clock_ms();
    *out = metrics;
    return RC_OK;
}

void metrics_destroy(struct metrics *metrics)
{
    free(metrics);
}

/* ---- counting */

static enum class_ class_of(const struct route *route)
{
    if (route == NULL)
        return CLASS_OTHER;
    if ((route->flags & ROUTE_NDJSON) != 0)
        return CLASS_BULK;
    if ((route->flags & ROUTE_INLINE) != 0)
        return CLASS_GET;
    if (route->handler == mget_get)
        return CLASS_MGET;
    if (route->handler == search_get || route->handler == scroll_get)
        return CLASS_SEARCH;
    return (route->flags & ROUTE_DOCUMENT) != 0 || route->handler == docs_delete ? CLASS_WRITE
                                                                                 : CLASS_OTHER;
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_count(struct metrics *metrics, const struct api_call *call)
{
    struct class_counts *c = &metrics->class_[class_of(call->route)];
    /* What was refused before it was admitted has not begun. */
    uint64_t ns = call->started_ns == 0 ? 0 : clock_ns() - call->started_ns;
    int status = call->reply.status;
    size_t bucket = 0;
    while (bucket < ARRAY_LEN(BOUNDS_NS) && ns > BOUNDS_NS[bucket])
        bucket++;
    add(&c->bucket[bucket], 1);
    add(&c->sum_ns, ns);
    if (status >= 100 && status < 600)
        add(&c->answers[status / 100 - 1], 1);
    if (call->has_length && call->content_length > 0)
        add(&metrics->received_bytes, call->content_length);
    add(&metrics->answered_bytes, call->reply.body.len);
    if (status < 400)
        return;
    for (size_t i = 0; i < ARRAY_LEN(REFUSALS); i++)
        if (REFUSALS[i] == status)
            add(&metrics->refused[i], 1);
}

void metrics_totals(const struct metrics *metrics, uint64_t *received_out, uint64_t *refused_out)
{
    *received_out = value(&metrics->received_bytes);
    *refused_out = 0;
    for (size_t i = 0; i < ARRAY_LEN(REFUSALS); i++)
        if (REFUSALS[i] == 429)
            *refused_out = value(&metrics->refused[i]);
}

/* ---- writing */

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP stowd_%s %s\n# TYPE stowd_%s %s\n", name, help, name, type);
}

static void single(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t n)
{
    family(out, name, type, help);
    buf_printf(out, "stowd_%s %llu\n", name, (unsigned long long)n);
}

static void seconds(struct buf *out, const char *name, const char *type, const char *help,
                    uint64_t ns)
{
    family(out, name, type, help);
    buf_printf(out, "stowd_%s %.9g\n", name, (double)ns / 1e9);
}

static void put_requests(const struct metrics *m, struct buf *out)
{
    family(out, "http_requests_total", "counter", "Answers by what was asked and kind of status.");
    for (size_t k = 0; k < CLASSES; k++)
        for (size_t i = 0; i < 5; i++)
            if (i != 0)
                buf_printf(out, "stowd_http_requests_total{class=\"%s\",status=\"%zuxx\"} %llu\n",
                           CLASS_NAMES[k], i + 1,
                           (unsigned long long)value(&m->class_[k].answers[i]));
    family(out, "http_refused_total", "counter",
           "Requests that were refused as a whole, by status.");
    for (size_t i = 0; i < ARRAY_LEN(REFUSALS); i++)
        buf_printf(out, "stowd_http_refused_total{status=\"%d\"} %llu\n", REFUSALS[i],
                   (unsigned long long)value(&m->refused[i]));
    family(out, "http_request_duration_seconds", "histogram",
           "From the headers to the answer (its first byte, when it is streamed).");
    for (size_t k = 0; k < CLASSES; k++) {
        uint64_t count = 0;
        for (size_t i = 0; i < BUCKETS; i++) {
            count += value(&m->class_[k].bucket[i]);
            buf_printf(out,
                       "stowd_http_request_duration_seconds_bucket{class=\"%s\",le=\"%s\"} %llu\n",
                       CLASS_NAMES[k], i < ARRAY_LEN(BOUND_TEXTS) ? BOUND_TEXTS[i] : "+Inf",
                       (unsigned long long)count);
        }
        buf_printf(out, "stowd_http_request_duration_seconds_sum{class=\"%s\"} %.9g\n",
                   CLASS_NAMES[k], (double)value(&m->class_[k].sum_ns) / 1e9);
        buf_printf(out, "stowd_http_request_duration_seconds_count{class=\"%s\"} %llu\n",
                   CLASS_NAMES[k], (unsigned long long)count);
    }
    single(out, "http_received_bytes_total", "counter", "Bodies with a Content-Length, as sent.",
           value(&m->received_bytes));
    single(out, "http_answered_bytes_total", "counter",
           "Bodies of answers (first windows of streamed ones).", value(&m->answered_bytes));
}

static void put_server(const struct api *api, struct buf *out)
{
    struct api_gauges g = {0};
    if (api->o.gauges == NULL)
        return;
    api->o.gauges(api->o.arg, &g);
    single(out, "http_connections", "gauge", "Open connections.", g.connections);
    single(out, "http_connections_max", "gauge", "Connections that may be open.",
           g.connections_max);
    single(out, "http_requests_open", "gauge", "Requests being received, worked on or answered.",
           g.requests);
    single(out, "http_in_flight_bytes", "gauge", "Memory of bodies and answers.", g.in_flight);
    single(out, "http_in_flight_max_bytes", "gauge", "http.max_in_flight.", g.in_flight_max);
    single(out, "http_connections_cut_total", "counter", "Connections ended by a deadline.", g.cut);
    single(out, "work_waiting_gets", "gauge", "Reads that wait for a worker.",
           work_waiting(api->o.work, WORK_GET));
    single(out, "work_waiting_writes", "gauge", "Writes that wait for a worker.",
           work_waiting(api->o.work, WORK_WRITE));
    single(out, "work_waiting_background", "gauge", "Background tasks that wait for a worker.",
           work_waiting(api->o.work, WORK_BACKGROUND));
}

static void put_store(const struct api *api, struct buf *out)
{
    struct store_stats s;
    store_stats_get(api->o.store, &s);
    single(out, "wal_capacity_bytes", "gauge", "Size of the write-ahead log.", s.wal_capacity);
    single(out, "wal_used_bytes", "gauge", "Of it, not covered by a checkpoint yet.", s.wal_used);
    single(out, "wal_written_bytes_total", "counter", "Bytes written to the log.", s.wal_bytes);
    single(out, "wal_batches_total", "counter", "Batches: one write and one sync each.",
           s.wal_batches);
    single(out, "wal_commits_total", "counter", "Requests made durable by them.", s.wal_commits);
    seconds(out, "wal_sync_seconds_total", "counter", "Time in the log's fdatasync.",
            s.wal_sync_ns);
    single(out, "checkpoints_total", "counter", "Checkpoints made.", s.checkpoints);
    single(out, "checkpoint_failures_total", "counter", "Checkpoints that failed.",
           s.checkpoint_failures);
    single(out, "rewrites_total", "counter", "Segments rewritten to drop dead rows.", s.rewrites);
    single(out, "cache_hits_total", "counter", "Blocks found unpacked.", s.cache_hits);
    single(out, "cache_misses_total", "counter", "Blocks read and unpacked.", s.cache_misses);
    single(out, "cache_evictions_total", "counter", "Blocks dropped for others.",
           s.cache_evictions);
    single(out, "cache_bytes", "gauge", "Memory of the block cache.", s.cache_bytes);
    single(out, "cache_max_bytes", "gauge", "storage.cache.size.", s.cache_budget);
    single(out, "ids_memory_bytes", "gauge", "Ids and dead rows that no run has yet.", s.id_memory);
    single(out, "ids_memory_max_bytes", "gauge", "storage.ids.memory.", s.id_memory_budget);
    single(out, "catalog_used_bytes", "gauge", "Pages of the catalog in use.", s.catalog_used);
    single(out, "catalog_file_bytes", "gauge", "Size of the catalog's file.", s.catalog_file);
    single(out, "disk_free_bytes", "gauge", "Free space where the data lies.", s.disk_free);
    single(out, "disk_total_bytes", "gauge", "Size of that file system.", s.disk_total);
}

static void put_process(const struct api *api, struct buf *out)
{
    struct process_figures p;
    process_figures_get(&p);
    BUF_PUT_LIT(out, "# HELP process_cpu_seconds_total User and system time.\n"
                     "# TYPE process_cpu_seconds_total counter\n");
    buf_printf(out, "process_cpu_seconds_total %.3f\n", (double)p.cpu_ms / 1e3);
    BUF_PUT_LIT(out, "# HELP process_resident_memory_bytes Resident memory.\n"
                     "# TYPE process_resident_memory_bytes gauge\n");
    buf_printf(out, "process_resident_memory_bytes %llu\n", (unsigned long long)p.resident);
    BUF_PUT_LIT(out, "# HELP process_open_fds Open file descriptors.\n"
                     "# TYPE process_open_fds gauge\n");
    buf_printf(out, "process_open_fds %llu\n", (unsigned long long)p.files);
    BUF_PUT_LIT(out, "# HELP process_start_time_seconds Start, since 1970.\n"
                     "# TYPE process_start_time_seconds gauge\n");
    buf_printf(out, "process_start_time_seconds %.3f\n", (double)api->metrics->started_ms / 1e3);
}

/* ---- one value for each index */

static const struct {
    const char *name, *type, *help;
    size_t field; /* of struct index_stats */
} INDEX_FAMILIES[] = {
#define ROW(field, name, type, help)                                                               \
    {                                                                                              \
        name, type, help, offsetof(struct index_stats, field)                                      \
    }
    ROW(docs, "index_documents", "gauge", "Live documents."),
    ROW(deleted, "index_dead_rows", "gauge", "Dead rows and tombstones not rewritten away yet."),
    ROW(raw_bytes, "index_raw_bytes", "gauge", "JSON bytes of the rows."),
    ROW(block_raw_bytes, "index_packed_raw_bytes", "gauge", "JSON bytes of the rows in blocks."),
    ROW(block_bytes, "index_compressed_bytes", "gauge", "The blocks that hold them."),
    ROW(disk_bytes, "index_disk_bytes", "gauge", "Segment files."),
    ROW(catalog_bytes, "index_catalog_bytes", "gauge", "Keys and values in the catalog."),
    ROW(memory_bytes, "index_memory_bytes", "gauge", "Open block, id table, blocks not on disk."),
    ROW(ids, "index_ids", "gauge", "Entries of the runs of client ids."),
    ROW(id_runs, "index_id_runs", "gauge", "Those runs."),
    ROW(ids_flushed_bytes, "index_ids_flushed_bytes_total", "counter",
        "Bytes of runs that checkpoints wrote."),
    ROW(ids_merged_bytes, "index_ids_merged_bytes_total", "counter",
        "Bytes of runs that merging wrote again."),
    ROW(blocks, "index_blocks", "gauge", "Blocks."),
    ROW(segments, "index_segments", "gauge", "Segment files."),
    ROW(indexed, "index_written_total", "counter", "Documents written since start."),
    ROW(index_failed, "index_failed_total", "counter", "Writes refused one by one since start."),
    ROW(deletes, "index_deletes_total", "counter", "Documents deleted since start."),
    ROW(gets, "index_gets_total", "counter", "Reads by id since start."),
    ROW(get_missing, "index_gets_missing_total", "counter", "Of them, nothing was found."),
    ROW(scrubbed_bytes, "index_scrubbed_bytes_total", "counter",
        "Bytes of blocks that the background scrub has verified since start."),
    ROW(scrub_passed_s, "index_scrub_pass_timestamp_seconds", "gauge",
        "When its last pass over the index ended, since 1970; 0: none since start."),
    ROW(scrub_damaged, "index_damaged_blocks", "gauge", "Blocks that it found damaged."),
#undef ROW
};

struct metrics_state {
    struct names_list list;
    struct index_stats *stats; /* one look, so that families agree */
    size_t family;
};

static void put_family(const struct metrics_state *state, struct buf *out)
{
    size_t f = state->family;
    family(out, INDEX_FAMILIES[f].name, INDEX_FAMILIES[f].type, INDEX_FAMILIES[f].help);
    for (size_t i = 0; i < state->list.count; i++) {
        uint64_t n;
        memcpy(&n, (const char *)&state->stats[i] + INDEX_FAMILIES[f].field, sizeof n);
        /* Names of indices hold neither quotes nor backslashes. */
        buf_printf(out, "stowd_%s{index=\"%s\"} %llu\n", INDEX_FAMILIES[f].name,
                   index_name(state->list.index[i]), (unsigned long long)n);
    }
}

static enum rc metrics_more(struct api_call *call)
{
    struct metrics_state *state = (struct metrics_state *)call->state;
    struct buf *out = &call->reply.body;
    out->len = 0;
    while (state->family < ARRAY_LEN(INDEX_FAMILIES) && out->len < LIMIT_ANSWER_WINDOW / 2)
        put_family(state, out), state->family++;
    if (state->family == ARRAY_LEN(INDEX_FAMILIES))
        call->reply.more = NULL;
    return out->failed ? RC_NOMEM : RC_OK;
}

static void state_free(struct api_call *call)
{
    struct metrics_state *state = (struct metrics_state *)call->state;
    names_list_done(&state->list);
    free(state->stats);
}

void metrics_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct metrics_state *state = call_alloc(call, sizeof *state);
    if (state == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    *state = (struct metrics_state){{NULL, 0}, NULL, 0};
    if (!names_resolve_or_reply(call, &options, &state->list))
        return;
    call->state = state;
    call->state_free = state_free;
    state->stats = calloc(state->list.count + 1, sizeof *state->stats);
    if (state->stats == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    for (size_t i = 0; i < state->list.count; i++)
        index_stats_get(state->list.index[i], &state->stats[i]);
    struct buf *out = reply_json(call, 200);
    call->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    single(out, "indices", "gauge", "Indices.", state->list.count);
    put_requests(call->api->metrics, out);
    put_server(call->api, out);
    put_store(call->api, out);
    put_process(call->api, out);
    while (state->family < ARRAY_LEN(INDEX_FAMILIES) && out->len < LIMIT_ANSWER_WINDOW)
        put_family(state, out), state->family++;
    if (state->family < ARRAY_LEN(INDEX_FAMILIES))
        call->reply.more = metrics_more;
    api_finish(call);
}
