/* SPDX-License-Identifier: Apache-2.0 */
/* _stats, in Elasticsearch's shape with a section "stow" of our own for each index: what the codec
 * makes of the documents, and what the index costs. */
#include "api/stats.h"

#include "api/handlers.h"
#include "api/indices.h"
#include "api/suggest.h"

/* Sections of an answer, by the name that the path may ask for. */
enum metric {
    METRIC_DOCS,
    METRIC_STORE,
    METRIC_INDEXING,
    METRIC_GET,
    METRIC_SEARCH,
    METRIC_MERGE,
    METRIC_REFRESH,
    METRIC_FLUSH,
    METRIC_WARMER,
    METRIC_QUERY_CACHE,
    METRIC_FIELDDATA,
    METRIC_COMPLETION,
    METRIC_SEGMENTS,
    METRIC_TRANSLOG,
    METRIC_REQUEST_CACHE,
    METRIC_RECOVERY,
    METRIC_BULK,
    METRIC_STOW,
    METRICS
};
#define METRICS_ALL ((1u << METRICS) - 1)

static const char *const metric_names[METRICS] = {
    "docs",     "store",    "indexing",      "get",         "search",    "merge",
    "refresh",  "flush",    "warmer",        "query_cache", "fielddata", "completion",
    "segments", "translog", "request_cache", "recovery",    "bulk",      "stow",
};

/* One index, or the sum of many. */
struct totals {
    struct index_stats s;
    uint64_t ops[REGISTRY_OPS];
};

static void totals_get(const struct api *api, struct index *index, struct totals *out)
{
    index_stats_get(index, &out->s);
    registry_counts(api->names, index, out->ops);
}

static void totals_add(struct totals *sum, const struct totals *one)
{
    sum->s.docs += one->s.docs;
    sum->s.deleted += one->s.deleted;
    sum->s.disk_bytes += one->s.disk_bytes;
    sum->s.catalog_bytes += one->s.catalog_bytes;
    sum->s.memory_bytes += one->s.memory_bytes;
    sum->s.raw_bytes += one->s.raw_bytes;
    sum->s.block_raw_bytes += one->s.block_raw_bytes;
    sum->s.block_bytes += one->s.block_bytes;
    sum->s.ids += one->s.ids;
    sum->s.id_runs += one->s.id_runs;
    sum->s.ids_flushed_bytes += one->s.ids_flushed_bytes;
    sum->s.ids_merged_bytes += one->s.ids_merged_bytes;
    sum->s.blocks += one->s.blocks;
    sum->s.segments += one->s.segments;
    sum->s.indexed += one->s.indexed;
    sum->s.index_failed += one->s.index_failed;
    sum->s.deletes += one->s.deletes;
    sum->s.gets += one->s.gets;
    sum->s.get_missing += one->s.get_missing;
    sum->s.scrubbed_bytes += one->s.scrubbed_bytes;
    sum->s.scrub_damaged += one->s.scrub_damaged;
    sum->s.dictionary_bytes += one->s.dictionary_bytes;
    for (int i = 0; i < REGISTRY_OPS; i++)
        sum->ops[i] += one->ops[i];
}

/* ---- sections */
static void put_section(struct buf *out, enum metric metric, const struct totals *t)
{
    uint64_t store = t->s.disk_bytes + t->s.catalog_bytes;
    switch (metric) {
    case METRIC_DOCS:
        json_uint(out, "count", t->s.docs);
        json_uint(out, "deleted", t->s.deleted);
        break;
    case METRIC_STORE:
        json_uint(out, "size_in_bytes", store);
        json_uint(out, "total_data_set_size_in_bytes", store);
        json_uint(out, "reserved_in_bytes", 0);
        break;
    case METRIC_INDEXING:
        json_uint(out, "index_total", t->s.indexed);
        json_uint(out, "index_time_in_millis", 0);
        json_uint(out, "index_current", 0);
        json_uint(out, "index_failed", t->s.index_failed);
        json_uint(out, "delete_total", t->s.deletes);
        json_uint(out, "delete_time_in_millis", 0);
        json_uint(out, "delete_current", 0);
        json_uint(out, "noop_update_total", 0);
        json_bool(out, "is_throttled", false);
        json_uint(out, "throttle_time_in_millis", 0);
        break;
    case METRIC_GET:
        json_uint(out, "total", t->s.gets);
        json_uint(out, "time_in_millis", 0);
        json_uint(out, "exists_total", t->s.gets - t->s.get_missing);
        json_uint(out, "exists_time_in_millis", 0);
        json_uint(out, "missing_total", t->s.get_missing);
        json_uint(out, "missing_time_in_millis", 0);
        json_uint(out, "current", 0);
        break;
    case METRIC_MERGE:
        json_uint(out, "current", 0);
        json_uint(out, "total", t->ops[REGISTRY_MERGE]);
        json_uint(out, "total_time_in_millis", 0);
        break;
    case METRIC_REFRESH:
        json_uint(out, "total", t->ops[REGISTRY_REFRESH]);
        json_uint(out, "total_time_in_millis", 0);
        json_uint(out, "listeners", 0);
        break;
    case METRIC_FLUSH:
        json_uint(out, "total", t->ops[REGISTRY_FLUSH]);
        json_uint(out, "periodic", 0);
        json_uint(out, "total_time_in_millis", 0);
        break;
    case METRIC_SEGMENTS:
        json_uint(out, "count", t->s.segments);
        json_uint(out, "memory_in_bytes", t->s.memory_bytes);
        json_raw(out, "file_sizes", SLICE_LIT("{}"));
        break;
    default: /* what a store without search has none of */
        json_uint(out, "total", 0);
        break;
    }
}

static void put_sections(struct buf *out, unsigned metrics, const struct totals *t)
{
    static const char *const zeros[METRICS] = {
        [METRIC_SEARCH] = "{\"open_contexts\":0,\"query_total\":0,\"query_time_in_millis\":0,"
                          "\"query_current\":0,\"fetch_total\":0,\"fetch_time_in_millis\":0,"
                          "\"fetch_current\":0,\"scroll_total\":0,\"scroll_current\":0}",
        [METRIC_WARMER] = "{\"current\":0,\"total\":0,\"total_time_in_millis\":0}",
        [METRIC_QUERY_CACHE] = "{\"memory_size_in_bytes\":0,\"total_count\":0,\"hit_count\":0,"
                               "\"miss_count\":0,\"cache_size\":0,\"cache_count\":0,"
                               "\"evictions\":0}",
        [METRIC_FIELDDATA] = "{\"memory_size_in_bytes\":0,\"evictions\":0}",
        [METRIC_COMPLETION] = "{\"size_in_bytes\":0}",
        [METRIC_TRANSLOG] = "{\"operations\":0,\"size_in_bytes\":0,\"uncommitted_operations\":0,"
                            "\"uncommitted_size_in_bytes\":0,\"earliest_last_modified_age\":0}",
        [METRIC_REQUEST_CACHE] = "{\"memory_size_in_bytes\":0,\"evictions\":0,\"hit_count\":0,"
                                 "\"miss_count\":0}",
        [METRIC_RECOVERY] = "{\"current_as_source\":0,\"current_as_target\":0,"
                            "\"throttle_time_in_millis\":0}",
        [METRIC_BULK] = "{\"total_operations\":0,\"total_time_in_millis\":0,"
                        "\"total_size_in_bytes\":0}",
    };
    for (unsigned m = 0; m < METRIC_STOW; m++) {
        if ((metrics & 1u << m) == 0)
            continue;
        json_key(out, m == METRIC_MERGE ? "merges" : metric_names[m]);
        if (zeros[m] != NULL) {
            buf_put_str(out, zeros[m]);
            continue;
        }
        buf_put_byte(out, '{');
        put_section(out, (enum metric)m, t);
        buf_put_byte(out, '}');
    }
}

/* How an index stands with a dictionary, and why it has none. */
static void put_dictionary(struct buf *out, const struct index_stats *s,
                           const struct codec_spec *spec)
{
    static const char *const reasons[] = {
        [DICT_TOO_LITTLE] = "too few samples",
        [DICT_NOTHING] = "nothing to learn: the samples are equal or random",
        [DICT_NO_GAIN] = "it would be larger than what it saves",
    };
    const char *state = "learning";
    if (spec->codec != CODEC_ZSTD || !spec->dictionary)
        state = "none";
    else if (s->dictionary != 0)
        state = "active";
    else if (s->dictionary_outcome < ARRAY_LEN(reasons) && reasons[s->dictionary_outcome] != NULL)
        state = "failed";
    json_cstr(out, "dictionary_state", state);
    if (strcmp(state, "failed") == 0)
        json_cstr(out, "dictionary_reason", reasons[s->dictionary_outcome]);
    if (strcmp(state, "active") == 0)
        json_cstr(out, "dictionary_origin",
                  s->dictionary_outcome == DICT_FOLLOWED ? "predecessor" : "trained");
}

/* The id index. Write amplification: bytes written to runs, over those of their first writing. */
static void put_ids(struct buf *out, const struct index_stats *s)
{
    double written = (double)s->ids_flushed_bytes + (double)s->ids_merged_bytes;
    json_key(out, "ids");
    buf_put_byte(out, '{');
    json_uint(out, "entries", s->ids);
    json_uint(out, "runs", s->id_runs);
    json_uint(out, "flushed_bytes", s->ids_flushed_bytes);
    json_uint(out, "merged_bytes", s->ids_merged_bytes);
    buf_printf(out, ",\"write_amplification\":%.3f}",
               s->ids_flushed_bytes == 0 ? 1.0 : written / (double)s->ids_flushed_bytes);
}

static void put_stow(struct buf *out, const struct totals *t, const struct codec_spec *spec)
{
    double ratio =
        t->s.block_bytes == 0 ? 1.0 : (double)t->s.block_raw_bytes / (double)t->s.block_bytes;
    json_key(out, "stow");
    buf_put_byte(out, '{');
    if (spec != NULL) {
        json_cstr(out, "codec", codec_text(spec->codec));
        json_int(out, "level", spec->level);
        json_uint(out, "block_target_bytes", spec->block_bytes);
    }
    json_uint(out, "raw_bytes", t->s.raw_bytes);
    json_uint(out, "packed_raw_bytes", t->s.block_raw_bytes);
    json_uint(out, "compressed_bytes", t->s.block_bytes);
    json_uint(out, "dictionary", t->s.dictionary);
    json_uint(out, "dictionary_bytes", t->s.dictionary_bytes);
    if (spec != NULL)
        put_dictionary(out, &t->s, spec);
    buf_printf(out, ",\"ratio\":%.3f", ratio);
    json_uint(out, "disk_bytes", t->s.disk_bytes);
    json_uint(out, "catalog_bytes", t->s.catalog_bytes);
    json_uint(out, "memory_bytes", t->s.memory_bytes);
    json_uint(out, "blocks", t->s.blocks);
    json_uint(out, "segments", t->s.segments);
    put_ids(out, &t->s);
    json_key(out, "scrub");
    buf_put_byte(out, '{');
    json_uint(out, "verified_bytes", t->s.scrubbed_bytes);
    json_uint(out, "damaged_blocks", t->s.scrub_damaged);
    if (spec != NULL) {
        json_uint(out, "passes", t->s.scrub_passes);
        json_uint(out, "last_pass_in_millis", t->s.scrub_passed_s * 1000);
    }
    buf_put_byte(out, '}');
    buf_put_byte(out, '}');
}

static void put_pair(struct buf *out, unsigned metrics, const struct totals *t,
                     const struct codec_spec *spec)
{
    json_key(out, "primaries");
    buf_put_byte(out, '{');
    put_sections(out, metrics, t);
    buf_put_byte(out, '}');
    json_key(out, "total");
    buf_put_byte(out, '{');
    put_sections(out, metrics, t);
    buf_put_byte(out, '}');
    if ((metrics & 1u << METRIC_STOW) != 0)
        put_stow(out, t, spec);
}

/* The one place where the documents are, whatever number_of_shards says. */
static void put_shard(struct buf *out, const struct api *api, unsigned metrics, struct index *index,
                      const struct totals *t)
{
    BUF_PUT_LIT(out, ",\"shards\":{\"0\":[{\"routing\":{\"state\":\"STARTED\",\"primary\":true");
    json_cstr(out, "node", store_node_id(api->o.store));
    BUF_PUT_LIT(out, ",\"relocating_node\":null}");
    put_sections(out, metrics, t);
    json_key(out, "commit");
    buf_put_byte(out, '{');
    json_cstr(out, "id", index_uuid(index));
    json_uint(out, "generation", t->s.primary_term);
    json_raw(out, "user_data", SLICE_LIT("{}"));
    json_uint(out, "num_docs", t->s.docs);
    buf_put_byte(out, '}');
    json_key(out, "seq_no");
    buf_printf(out, "{\"max_seq_no\":%lld,\"local_checkpoint\":%lld,\"global_checkpoint\":%lld}",
               (long long)t->s.next_seq - 1, (long long)t->s.next_seq - 1,
               (long long)t->s.next_seq - 1);
    BUF_PUT_LIT(out, "}]}");
}

static void put_index(struct buf *out, const struct api *api, unsigned metrics, struct index *index,
                      bool shards)
{
    struct names_info info;
    struct totals t;
    const struct index_meta *meta = index_meta_acquire(index);
    names_info_get(meta, &info);
    index_meta_release(meta);
    totals_get(api, index, &t);
    json_key(out, index_name(index));
    buf_put_byte(out, '{');
    json_cstr(out, "uuid", index_uuid(index));
    json_cstr(out, "health", info.replicas == 0 ? "green" : "yellow");
    json_cstr(out, "status", info.closed ? "close" : "open");
    put_pair(out, metrics, &t, index_spec(index));
    if (shards)
        put_shard(out, api, metrics, index, &t);
    buf_put_byte(out, '}');
}

/* ---- reading the request */
static void reply_metric(struct api_call *call, struct slice metric)
{
    struct buf hint = {0};
    suggest(metric, metric_names, METRICS, &hint);
    reply_error(call, 400, "illegal_argument_exception",
                "request [%.*s] contains unrecognized metric: [%.*s]%.*s", SLICE_FMT(call->path),
                SLICE_FMT(metric), (int)hint.len, (const char *)hint.ptr);
    buf_done(&hint);
}

bool stats_metrics_read(struct api_call *call, struct slice list, unsigned *metrics_out)
{
    unsigned metrics = 0;
    if (list.len == 0)
        list = SLICE_LIT("_all");
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice one = slice_of(list.ptr + at, end - at);
        unsigned m = 0;
        while (m < METRICS && !slice_is(one, metric_names[m]))
            m++;
        if (m == METRICS && !slice_is(one, "_all")) {
            reply_metric(call, one);
            return false;
        }
        metrics |= m == METRICS ? METRICS_ALL : 1u << m;
        at = end + 1;
    }
    *metrics_out = metrics;
    return true;
}

void stats_put_node(const struct api *api, const struct names_list *list, unsigned metrics,
                    bool indices, struct buf *out)
{
    struct totals sum, one;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < list->count; i++) {
        totals_get(api, list->index[i], &one);
        totals_add(&sum, &one);
    }
    put_sections(out, metrics, &sum);
    if (!indices)
        return;
    json_key(out, "indices");
    buf_put_byte(out, '{');
    for (size_t i = 0; i < list->count; i++) {
        totals_get(api, list->index[i], &one);
        json_key(out, index_name(list->index[i]));
        buf_put_byte(out, '{');
        put_sections(out, metrics, &one);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
}

static bool read_level(struct api_call *call, bool *indices, bool *shards)
{
    struct slice level = call_param(call, "level");
    *shards = slice_is(level, "shards");
    *indices = !slice_is(level, "cluster");
    if (level.len == 0 || *shards || !*indices || slice_is(level, "indices"))
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "level parameter must be one of [cluster] or [indices] or [shards] but was "
                "[%.*s]",
                SLICE_FMT(level));
    return false;
}

void stats_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct totals sum, one;
    struct slice asked = call_part(call, "metric");
    struct names_list list;
    bool indices, shards;
    unsigned metrics;
    if (asked.len == 0)
        asked = call_param(call, "metric");
    if (!call_bool(call, "forbid_closed_indices", true, &options.forbid_closed) ||
        !stats_metrics_read(call, asked, &metrics) || !read_level(call, &indices, &shards) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < list.count; i++) {
        totals_get(call->api, list.index[i], &one);
        totals_add(&sum, &one);
    }
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    shards_put(&list, true, false, out);
    json_key(out, "_all");
    buf_put_byte(out, '{');
    put_pair(out, metrics, &sum, NULL);
    buf_put_byte(out, '}');
    if (indices) {
        json_key(out, "indices");
        buf_put_byte(out, '{');
        for (size_t i = 0; i < list.count; i++)
            put_index(out, call->api, metrics, list.index[i], shards);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}
