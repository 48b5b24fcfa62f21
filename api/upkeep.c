/* SPDX-License-Identifier: Apache-2.0 */
/* _refresh, _flush, _forcemerge and _count of indices. */
#include "api/handlers.h"
#include "api/indices.h"
#include "api/search.h"

#include <stdlib.h>

static bool resolve(struct api_call *call, struct names_list *list)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN, .forbid_closed = true};
    return names_resolve_or_reply(call, &options, list);
}

static void reply_shards(struct api_call *call, const struct names_list *list)
{
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    shards_put(list, true, false, out);
    buf_put_byte(out, '}');
}

/* Writes are visible when they are answered: there is nothing to do. */
void refresh_post(struct api_call *call)
{
    struct names_list list;
    if (!resolve(call, &list))
        return;
    for (size_t i = 0; i < list.count; i++)
        registry_count(call->api->names, list.index[i], REGISTRY_REFRESH);
    reply_shards(call, &list);
    names_list_done(&list);
    api_finish(call);
}

/* ---- flush and merge: one index after the other, answered when the last one is done */
struct round {
    struct names_list list;
    size_t at;
    bool merge;
};

static void round_free(struct api_call *call)
{
    struct round *round = call->state;
    names_list_done(&round->list);
    free(round);
}

static void round_step(void *arg, enum rc rc, const struct err *err)
{
    struct api_call *call = arg;
    struct round *round = call->state;
    if (rc == RC_NOT_FOUND) /* deleted meanwhile */
        rc = RC_OK;
    if (rc != RC_OK) {
        reply_rc(call, rc, err);
        return;
    }
    if (round->at == round->list.count) {
        reply_shards(call, &round->list);
        api_finish(call);
        return;
    }
    struct index *index = round->list.index[round->at++];
    registry_count(call->api->names, index, round->merge ? REGISTRY_MERGE : REGISTRY_FLUSH);
    if (round->merge)
        store_merge(call->api->o.store, index, round_step, call);
    else
        store_flush(call->api->o.store, index, round_step, call);
}

static void round_start(struct api_call *call, bool merge)
{
    struct round *round = calloc(1, sizeof *round);
    if (round == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    if (!resolve(call, &round->list)) {
        free(round);
        return;
    }
    round->merge = merge;
    call->state = round;
    call->state_free = round_free;
    round_step(call, RC_OK, NULL);
}

void flush_post(struct api_call *call)
{
    bool force, wait;
    if (!call_bool(call, "force", false, &force) ||
        !call_bool(call, "wait_if_ongoing", true, &wait))
        return;
    if (force && !wait)
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: wait_if_ongoing must be true for a force flush;");
    else
        round_start(call, false);
}

void forcemerge_post(struct api_call *call)
{
    bool expunge;
    if (!call_bool(call, "only_expunge_deletes", false, &expunge))
        return;
    if (expunge && call_has(call, "max_num_segments"))
        reply_header(call, "Warning", "299 - \"%s\"",
                     "setting only_expunge_deletes and max_num_segments at the same time is "
                     "deprecated and will be rejected in a future version");
    round_start(call, true);
}

/* ---- count */
static void reply_count(struct api_call *call, const struct names_list *list, uint64_t docs)
{
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_uint(out, "count", docs);
    shards_put(list, false, true, out);
    buf_put_byte(out, '}');
}

void count_get(struct api_call *call)
{
    struct names_list list;
    struct query query;
    struct scan scan = {0};
    struct err err = {RC_OK, 0, ""};
    uint64_t docs = 0;
    enum rc rc = RC_OK;
    if (!search_query(call, &query))
        return;
    if (!search_indices(call, USE_READ, &list)) {
        query_done(&query);
        return;
    }
    for (size_t i = 0; query.all && i < list.count; i++) {
        struct index_stats stats;
        index_stats_get(list.index[i], &stats);
        docs += stats.docs;
    }
    if (!query.all)
        rc = scan_open(call->api->o.store, &list, &query, &scan, &err);
    if (!query.all && rc == RC_OK) {
        docs = scan.total;
        scan_close(&scan);
    }
    if (rc == RC_OK)
        reply_count(call, &list, docs);
    names_list_done(&list);
    query_done(&query);
    if (rc == RC_OK)
        api_finish(call);
    else
        reply_rc(call, rc, &err);
}
