/* SPDX-License-Identifier: Apache-2.0 */
/* _segments and _recovery: what there is of files, in the shape that curator and people read. */
#include "api/handlers.h"
#include "api/indices.h"

#include <time.h>

/* All segments of an index as one: the engine does not count them singly. */
static void put_segments(const struct api *api, struct index *index, struct buf *out)
{
    struct index_stats stats;
    index_stats_get(index, &stats);
    json_key(out, index_name(index));
    BUF_PUT_LIT(out, "{\"shards\":{\"0\":[{\"routing\":{\"state\":\"STARTED\",\"primary\":true");
    json_cstr(out, "node", store_node_id(api->o.store));
    buf_put_byte(out, '}');
    json_uint(out, "num_committed_segments", stats.segments);
    json_uint(out, "num_search_segments", stats.segments);
    json_raw(out, "segments", SLICE_LIT("{"));
    if (stats.docs + stats.deleted != 0) {
        BUF_PUT_LIT(out, "\"_0\":{\"generation\":0");
        json_uint(out, "num_docs", stats.docs);
        json_uint(out, "deleted_docs", stats.deleted);
        json_uint(out, "size_in_bytes", stats.disk_bytes);
        json_uint(out, "memory_in_bytes", stats.memory_bytes);
        json_bool(out, "committed", stats.disk_bytes != 0);
        BUF_PUT_LIT(out, ",\"search\":true,\"version\":\"8.6.2\",\"compound\":false,"
                         "\"attributes\":{}}");
    }
    BUF_PUT_LIT(out, "}}]}}");
}

void segments_get(struct api_call *call)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN, .forbid_closed = true};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    shards_put(&list, true, false, out);
    json_raw(out, "indices", SLICE_LIT("{"));
    for (size_t i = 0; i < list.count; i++)
        put_segments(call->api, list.index[i], out);
    BUF_PUT_LIT(out, "}}");
    names_list_done(&list);
    api_finish(call);
}

/* ---- _recovery: nothing is being recovered while requests are answered. What is told is how the
 * index came: with the start of the node, or made since. */
void recovery_of(const struct api *api, struct index *index, struct recovery *out)
{
    uint64_t started = clock_ms() - (clock_ns() - api->started_ns) / 1000000;
    uint64_t made = index_created_ms(index);
    struct names_info info;
    const struct index_meta *meta = index_meta_acquire(index);
    names_info_get(meta, &info);
    index_meta_release(meta);
    out->existing = info.closed || made < started;
    out->at_ms = made < started ? started : made;
}

static void put_time(uint64_t ms, const char *name, bool human, struct buf *out)
{
    char key[48], text[32];
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    if (human) {
        gmtime_r(&s, &tm);
        size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, sizeof text - n, ".%03uZ", (unsigned)(ms % 1000));
        json_cstr(out, name, text);
    }
    snprintf(key, sizeof key, "%s_in_millis", name);
    json_uint(out, key, ms);
}

static void put_recovery(const struct api *api, struct index *index, bool human, bool detailed,
                         struct buf *out)
{
    struct recovery r;
    struct index_stats stats;
    recovery_of(api, index, &r);
    index_stats_get(index, &stats);
    json_key(out, index_name(index));
    BUF_PUT_LIT(out, "{\"shards\":[{\"id\":0");
    json_cstr(out, "type", r.existing ? "EXISTING_STORE" : "EMPTY_STORE");
    BUF_PUT_LIT(out, ",\"stage\":\"DONE\",\"primary\":true");
    put_time(r.at_ms, "start_time", human, out);
    put_time(r.at_ms, "stop_time", human, out);
    json_uint(out, "total_time_in_millis", 0);
    json_raw(out, "source", SLICE_LIT("{}"));
    BUF_PUT_LIT(out, ",\"target\":{");
    json_cstr(out, "id", store_node_id(api->o.store));
    BUF_PUT_LIT(out, ",\"host\":\"127.0.0.1\",\"ip\":\"127.0.0.1\"");
    json_cstr(out, "name", api->o.node_name);
    BUF_PUT_LIT(out, "},\"index\":{\"size\":{");
    json_uint(out, "total_in_bytes", r.existing ? stats.disk_bytes : 0);
    json_uint(out, "reused_in_bytes", r.existing ? stats.disk_bytes : 0);
    BUF_PUT_LIT(out, ",\"recovered_in_bytes\":0,\"percent\":\"100.0%\"},\"files\":{");
    json_uint(out, "total", r.existing ? stats.segments : 0);
    json_uint(out, "reused", r.existing ? stats.segments : 0);
    buf_put_str(out, ",\"recovered\":0,\"percent\":\"100.0%\"");
    if (detailed)
        json_raw(out, "details", SLICE_LIT("[]"));
    BUF_PUT_LIT(out, "},\"total_time_in_millis\":0,\"source_throttle_time_in_millis\":0,"
                     "\"target_throttle_time_in_millis\":0},\"translog\":{\"recovered\":0,"
                     "\"total\":0,\"percent\":\"100.0%\",\"total_on_start\":0,"
                     "\"total_time_in_millis\":0},\"verify_index\":{"
                     "\"check_index_time_in_millis\":0,\"total_time_in_millis\":0}}]}");
}

void recovery_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct names_list list;
    bool active, human, detailed;
    if (!call_bool(call, "active_only", false, &active) ||
        !call_bool(call, "human", false, &human) ||
        !call_bool(call, "detailed", false, &detailed) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    for (size_t i = 0; !active && i < list.count; i++)
        put_recovery(call->api, list.index[i], human, detailed, out);
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}
