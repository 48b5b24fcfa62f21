/* SPDX-License-Identifier: Apache-2.0 */
/* _segments and _recovery: what there is of files, in the shape that curator and people read. */
#include "api/handlers.h"
#include "api/indices.h"

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

/* Nothing is being recovered while requests are answered. */
void recovery_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    names_list_done(&list);
    BUF_PUT_LIT(reply_json(call, 200), "{}");
    api_finish(call);
}
