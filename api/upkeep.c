/* SPDX-License-Identifier: Apache-2.0 */
/* _refresh, _flush, _forcemerge and _count of indices. */
#include "api/handlers.h"
#include "api/indices.h"
#include "api/search.h"
#include "api/tasks.h"

#include <stdlib.h>

static bool resolve(struct api_call *call, struct names_list *list)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN, .forbid_closed = true};
    return names_resolve_or_reply(call, &options, list);
}

static void put_answer(const struct names_list *list, struct buf *out)
{
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
    put_answer(&list, reply_json(call, 200));
    names_list_done(&list);
    api_finish(call);
}

/* Nothing of what other daemons cache for queries is there; the cache of blocks stays. */
void cache_clear_post(struct api_call *call)
{
    struct names_list list;
    if (!resolve(call, &list))
        return;
    put_answer(&list, reply_json(call, 200));
    names_list_done(&list);
    api_finish(call);
}

/* ---- flush and merge: one index after the other, answered when the last one is done. A merge is a
 * job, and its client need not wait. */
struct round {
    struct api *api;
    struct api_call *call; /* NULL: nobody waits */
    struct job *job;       /* NULL: a flush */
    struct names_list list;
    size_t at;
};

static void round_end(struct round *round, enum rc rc, const struct err *err)
{
    struct api_call *call = round->call;
    struct buf text = {0};
    if (rc != RC_OK) {
        error_object(&text, error_type(round->api, rc), slice_str(err->msg), SLICE_NONE);
    } else {
        put_answer(&round->list, &text);
        if (round->at < round->list.count) {
            text.len--;
            json_cstr(&text, "canceled", "by user request");
            buf_put_byte(&text, '}');
        }
    }
    if (round->job != NULL)
        job_end(round->job, buf_slice(&text), rc != RC_OK);
    names_list_done(&round->list);
    free(round);
    if (call != NULL && rc == RC_OK) {
        buf_put_slice(reply_json(call, 200), buf_slice(&text));
        api_finish(call);
    } else if (call != NULL) {
        reply_rc(call, rc, err);
    }
    buf_done(&text);
}

static void round_step(void *arg, enum rc rc, const struct err *err)
{
    struct round *round = (struct round *)arg;
    struct job *job = round->job;
    struct api *api = round->api;
    struct job_counts counts = {.total = round->list.count, .updated = round->at};
    if (rc == RC_NOT_FOUND) /* deleted meanwhile */
        rc = RC_OK;
    if (job != NULL)
        job_set(job, &counts);
    if (rc != RC_OK || round->at == round->list.count || (job != NULL && job_cancelled(job))) {
        round_end(round, rc, err);
        return;
    }
    struct index *index = round->list.index[round->at++];
    registry_count(api->names, index, job != NULL ? REGISTRY_MERGE : REGISTRY_FLUSH);
    if (job != NULL)
        store_merge(api->o.store, index, round_step, round);
    else
        store_flush(api->o.store, index, round_step, round);
}

/* Neither call nor job yet. NULL: replied. */
static struct round *round_of(struct api_call *call)
{
    struct round *round = calloc(1, sizeof *round);
    if (round == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return NULL;
    }
    round->api = call->api;
    if (resolve(call, &round->list))
        return round;
    free(round);
    return NULL;
}

void flush_post(struct api_call *call)
{
    struct round *round;
    bool force, wait;
    if (!call_bool(call, "force", false, &force) ||
        !call_bool(call, "wait_if_ongoing", true, &wait))
        return;
    if (force && !wait)
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: wait_if_ongoing must be true for a force flush;");
    else if ((round = round_of(call)) != NULL) {
        round->call = call;
        round_step(round, RC_OK, NULL);
    }
}

void forcemerge_post(struct api_call *call)
{
    struct buf text = {0};
    struct err err = {RC_OK, 0, ""};
    char name[48];
    bool expunge, wait;
    if (!call_bool(call, "only_expunge_deletes", false, &expunge) ||
        !call_bool(call, "wait_for_completion", true, &wait))
        return;
    if (expunge && call_has(call, "max_num_segments"))
        reply_header(call, "Warning", "299 - \"%s\"",
                     "setting only_expunge_deletes and max_num_segments at the same time is "
                     "deprecated and will be rejected in a future version");
    struct round *round = round_of(call);
    if (round == NULL)
        return;
    struct slice index = call_part(call, "index");
    BUF_PUT_LIT(&text, "Force-merge indices [");
    buf_put_slice(&text, index.len == 0 ? SLICE_LIT("_all") : index);
    buf_put_byte(&text, ']');
    enum rc rc = job_begin(call, JOB_FORCEMERGE, buf_slice(&text), &round->job, &err);
    buf_done(&text);
    if (rc != RC_OK) {
        names_list_done(&round->list);
        free(round);
        reply_rc(call, rc, &err);
        return;
    }
    job_name(round->job, name);
    if (wait)
        round->call = call;
    round_step(round, RC_OK, NULL);
    if (!wait)
        job_reply_name(call, name);
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
