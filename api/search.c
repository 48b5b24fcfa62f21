/* SPDX-License-Identifier: Apache-2.0 */
/* _search: pages of hits out of a scan, in storage order or from its end. See search.h. */
#include "api/search.h"

#include "api/handlers.h"
#include "api/indices.h"
#include "api/outcome.h"
#include "api/settings.h"
#include "config/limits.h"

#include <stdlib.h>

#define SCROLL_MAX_MS (24 * 3600 * 1000ull) /* Elasticsearch's search.max_keep_alive */

/* A page on its way out; the call's state. */
struct page {
    struct api_call *call;
    struct search_spec own_spec;
    struct scan own_scan;
    const struct search_spec *spec; /* the own one, or the context's */
    const struct scan *scan;
    struct context *context; /* until the page is complete */
    uint64_t keep_ms;
    enum sort_key sort[SEARCH_SORT_MAX + 1]; /* with what is implied */
    size_t sort_count;
    uint64_t place; /* next */
    uint64_t left;  /* hits still to come */
    uint64_t *down; /* places of a page that goes down, or NULL */
    size_t down_at, down_count;
    struct filter *filter;
    struct buf one; /* a hit before it is filtered */
    size_t window;  /* where this window began in the body */
    bool hits_open, list_open, list_begun, int_totals;
};

static void page_free(struct api_call *call)
{
    struct page *p = call->state;
    if (p->context != NULL)
        contexts_put(call->api->contexts, p->context, p->keep_ms);
    search_spec_done(&p->own_spec);
    scan_close(&p->own_scan);
    filter_destroy(p->filter);
    buf_done(&p->one);
    free(p->down);
}

static struct page *page_begin(struct api_call *call)
{
    struct page *p = call_alloc(call, sizeof *p);
    if (p == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return NULL;
    }
    *p = (struct page){.call = call};
    search_spec_init(&p->own_spec);
    call->state = p;
    call->state_free = page_free;
    return p;
}

/* ---- writing */

static void put_sort(const struct page *p, const struct scan_doc *doc, struct buf *out)
{
    BUF_PUT_LIT(out, ",\"sort\":[");
    for (size_t i = 0; i < p->sort_count; i++) {
        if (i != 0)
            buf_put_byte(out, ',');
        if (p->sort[i] == SORT_SCORE)
            BUF_PUT_LIT(out, "1.0");
        else
            buf_put_u64(out, p->sort[i] == SORT_SEQ_NO ? doc->row->seq : doc->place);
    }
    buf_put_byte(out, ']');
}

static bool scored(const struct page *p)
{
    bool asked = p->sort_count == 0;
    for (size_t i = 0; i < p->sort_count; i++)
        asked = asked || p->sort[i] == SORT_SCORE;
    return asked;
}

static void put_hit(const struct page *p, const struct scan_doc *doc, struct buf *out)
{
    const struct search_spec *spec = p->spec;
    struct slice name = slice_of(index_name(doc->index), index_name_len(doc->index));
    buf_reserve(out, doc->row->doc.len + doc->id.len + 256);
    buf_put_byte(out, '{');
    if (spec->no_fields)
        json_str(out, "_index", name);
    else
        outcome_names(p->call->api, name, doc->id, out);
    if (spec->version)
        json_uint(out, "_version", doc->row->version);
    if (spec->seq_no) {
        json_uint(out, "_seq_no", doc->row->seq);
        json_uint(out, "_primary_term", doc->row->term);
    }
    json_raw(out, "_score", scored(p) ? SLICE_LIT("1.0") : SLICE_LIT("null"));
    if (doc->row->routing.len != 0 && !spec->no_fields)
        json_str(out, "_routing", doc->row->routing);
    if (!spec->no_fields)
        source_put(&spec->source, doc->row->doc, out);
    if (p->sort_count != 0)
        put_sort(p, doc, out);
    buf_put_byte(out, '}');
}

static void open_hits(struct page *p, struct buf *out)
{
    if (!p->hits_open)
        json_raw(out, "hits", SLICE_LIT("{"));
    p->hits_open = true;
}

static void open_list(struct page *p, struct buf *out)
{
    open_hits(p, out);
    if (!p->list_open)
        json_raw(out, "hits", SLICE_LIT("["));
    p->list_open = true;
}

/* scan_next's fn: a hit behind what is there, or "no more" when the window is full. */
static enum rc add_hit(const struct scan_doc *doc, void *arg)
{
    struct page *p = arg;
    struct buf *out = &p->call->reply.body;
    size_t before = out->len;
    if (before - p->window >= LIMIT_ANSWER_WINDOW)
        return RC_AGAIN;
    p->left--;
    if (p->filter != NULL) {
        p->one.len = 0;
        put_hit(p, doc, &p->one);
        bool hits = p->hits_open, list = p->list_open, begun = p->list_begun;
        open_list(p, out);
        if (begun)
            buf_put_byte(out, ',');
        p->list_begun = true;
        if (!filter_apply_at(p->filter, "hits.hits", json_root(buf_slice(&p->one)), out)) {
            out->len = out->failed ? out->len : before;
            p->hits_open = hits;
            p->list_open = list;
            p->list_begun = begun;
        }
        return out->failed || p->one.failed ? RC_NOMEM : RC_OK;
    }
    if (p->list_begun)
        buf_put_byte(out, ',');
    p->list_begun = true;
    put_hit(p, doc, out);
    return out->failed ? RC_NOMEM : RC_OK;
}

static enum rc read_hits(struct page *p, bool *done, struct err *err)
{
    if (p->down == NULL)
        return scan_next(p->scan, &p->place, (size_t)p->left, done, add_hit, p, err);
    while (p->left != 0 && p->down_at < p->down_count) {
        uint64_t place = p->down[p->down_at], left = p->left;
        bool end;
        TRY(scan_next(p->scan, &place, 1, &end, add_hit, p, err));
        if (p->left == left) /* the window is full */
            return RC_OK;
        p->down_at++;
    }
    *done = p->down_at == p->down_count;
    return RC_OK;
}

/* The context goes back before the last bytes leave: the client may ask for the next page then. */
static void page_complete(struct page *p)
{
    if (p->context == NULL)
        return;
    if (p->context->kind == CONTEXT_SCROLL)
        p->context->place = p->place;
    contexts_put(p->call->api->contexts, p->context, p->keep_ms);
    p->context = NULL;
    p->spec = &p->own_spec;
    p->scan = NULL;
}

/* Append one window; reply.more stays set while hits are left. */
static enum rc put_window(struct page *p, struct err *err)
{
    struct api_call *call = p->call;
    struct buf *out = &call->reply.body;
    bool done = p->scan->count == 0 || (p->filter != NULL && !filter_wants(p->filter, "hits.hits"));
    p->window = out->len;
    if (done && p->filter != NULL && p->context != NULL && p->context->kind == CONTEXT_SCROLL)
        done = false; /* the scroll moves on although nothing of it is shown */
    while (!done && p->left != 0 && out->len - p->window < LIMIT_ANSWER_WINDOW)
        TRY(read_hits(p, &done, err));
    if (done || p->left == 0) {
        if (p->list_open)
            buf_put_byte(out, ']');
        if (p->hits_open)
            buf_put_byte(out, '}');
        buf_put_byte(out, '}');
        call->reply.more = NULL;
        page_complete(p);
    }
    return out->failed ? RC_NOMEM : RC_OK;
}

static enum rc next_window(struct api_call *call)
{
    struct err err = {0};
    call->reply.body.len = 0;
    return put_window(call->state, &err);
}

/* ---- the head of an answer */

/* Append a member of the top or of "hits", if the filter keeps any of it. */
static void put_member(struct page *p, const char *key, const char *path, struct slice json,
                       struct buf *out)
{
    size_t before = out->len;
    bool hits = p->hits_open;
    if (strncmp(path, "hits.", 5) == 0)
        open_hits(p, out);
    json_key(out, key);
    if (!filter_apply_at(p->filter, path, json_root(json), out)) {
        out->len = out->failed ? out->len : before;
        p->hits_open = hits;
    }
}

static void put_total(struct page *p, struct buf *out)
{
    uint64_t total = p->scan->total, track = p->spec->track;
    struct buf text = {0};
    if (track == 0 && p->int_totals)
        BUF_PUT_LIT(&text, "-1");
    else if (track == 0)
        return;
    else if (p->int_totals)
        buf_put_u64(&text, total);
    else
        buf_printf(&text, "{\"value\":%llu,\"relation\":\"%s\"}",
                   (unsigned long long)(total < track ? total : track),
                   total <= track ? "eq" : "gte");
    put_member(p, "total", "hits.total", buf_slice(&text), out);
    buf_done(&text);
}

static void put_shards(struct page *p, struct buf *out)
{
    struct buf text = {0};
    struct names_list list = {call_alloc(p->call, (p->scan->count + 1) * sizeof *list.index), 0};
    if (list.index == NULL) {
        out->failed = true;
        return;
    }
    for (; list.count < p->scan->count; list.count++)
        list.index[list.count] = p->scan->part[list.count].index;
    shards_put(&list, false, true, &text);
    /* "_shards":{…} */
    struct slice json = slice_of(text.ptr + 10, text.len < 10 ? 0 : text.len - 10);
    put_member(p, "_shards", "_shards", json, out);
    buf_done(&text);
}

static void put_head(struct page *p, struct buf *out)
{
    struct buf text = {0};
    buf_put_byte(out, '{');
    if (p->context != NULL) {
        bool scroll = p->context->kind == CONTEXT_SCROLL;
        json_quote(slice_str(p->context->id), &text);
        put_member(p, scroll ? "_scroll_id" : "pit_id", scroll ? "_scroll_id" : "pit_id",
                   buf_slice(&text), out);
        text.len = 0;
    }
    buf_put_u64(&text, call_took_ms(p->call));
    put_member(p, "took", "took", buf_slice(&text), out);
    buf_done(&text);
    put_member(p, "timed_out", "timed_out", SLICE_LIT("false"), out);
    put_shards(p, out);
    put_total(p, out);
    bool score = scored(p) && p->scan->total != 0 && p->spec->size != 0;
    put_member(p, "max_score", "hits.max_score", score ? SLICE_LIT("1.0") : SLICE_LIT("null"), out);
    if (p->filter == NULL)
        open_list(p, out);
}

static void page_answer(struct page *p)
{
    struct api_call *call = p->call;
    struct err err = {0};
    p->filter = filter_create_path(call_param(call, "filter_path"));
    put_head(p, reply_json(call, 200));
    call->reply.more = next_window;
    enum rc rc = put_window(p, &err);
    if (rc != RC_OK) {
        call->reply.more = NULL;
        reply_rc(call, rc, &err);
        return;
    }
    api_finish_with(call, REPLY_PRETTY);
}

/* ---- what the request asks for; false: replied */

static bool refuse(struct api_call *call, const char *text)
{
    reply_error(call, 400, "illegal_argument_exception", "%s", text);
    return false;
}

static bool invalid(struct api_call *call, const char *text)
{
    reply_error(call, 400, "action_request_validation_exception", "Validation Failed: 1: %s;",
                text);
    return false;
}

bool search_keep_alive(struct api_call *call, const char *name, struct slice text, uint64_t empty,
                       uint64_t *ms_out)
{
    uint64_t ms = empty;
    if (text.len != 0 && !search_time(text, &ms)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "failed to parse setting [%s] with value [%.*s] as a time value: unit is "
                    "missing or unrecognized",
                    name, SLICE_FMT(text));
        return false;
    }
    if (ms > SCROLL_MAX_MS) {
        reply_error(call, 400, "illegal_argument_exception",
                    "Keep alive for request (%.*s) is too large. It must be less than (1d).",
                    SLICE_FMT(text));
        return false;
    }
    *ms_out = ms;
    return true;
}

static bool read_totals(struct page *p)
{
    struct api_call *call = p->call;
    struct search_spec *spec = &p->own_spec;
    struct slice track = call_param(call, "track_total_hits");
    if (slice_is(track, "false"))
        spec->track = 0;
    else if (slice_is(track, "true"))
        spec->track = SEQ_NONE;
    else if (track.len != 0 && !call_u64(call, "track_total_hits", 0, &spec->track))
        return false;
    if (p->int_totals && spec->track != 0 && spec->track != SEQ_NONE) {
        reply_error(call, 400, "illegal_argument_exception",
                    "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not "
                    "accurate, got %llu",
                    (unsigned long long)spec->track);
        return false;
    }
    return true;
}

static bool read_hits_param(struct api_call *call, const char *name, uint64_t *out)
{
    int64_t below;
    if (!json_i64(call_param(call, name), &below) || below >= 0)
        return call_u64(call, name, *out, out);
    reply_error(call, 400, "illegal_argument_exception",
                "[%s] parameter cannot be negative but was [%lld]", name, (long long)below);
    return false;
}

/* The query parameters, which win over the body. */
static bool read_params(struct page *p)
{
    struct api_call *call = p->call;
    struct search_spec *spec = &p->own_spec;
    struct slice stored = call_param(call, "stored_fields"), sort = call_param(call, "sort");
    struct source_spec source;
    const char *type;
    struct err err = {0};
    if (!read_hits_param(call, "from", &spec->from) ||
        !read_hits_param(call, "size", &spec->size) ||
        !call_bool(call, "version", spec->version, &spec->version) ||
        !call_bool(call, "seq_no_primary_term", spec->seq_no, &spec->seq_no) ||
        !call_bool(call, "rest_total_hits_as_int", false, &p->int_totals) || !read_totals(p))
        return false;
    source_from_query(call, &source);
    if (source.given || !source.want) {
        source_done(&spec->source);
        spec->source = source;
    }
    spec->no_fields = spec->no_fields || slice_is(stored, "_none_");
    if (sort.len != 0) {
        spec->sort_count = 0;
        if (search_sort_text(spec, sort, &type, &err) != RC_OK) {
            reply_error(call, 400, type, "%s", err.msg);
            return false;
        }
    }
    return true;
}

/* The query parameter q, over the query of the body. */
static bool read_q(struct api_call *call, struct query *query)
{
    const char *type;
    struct err err = {0};
    struct query read;
    if (!call_has(call, "q"))
        return true;
    if (query_read_text(call_param(call, "q"), &read, &type, &err) != RC_OK) {
        reply_error(call, 400, type, "%s", err.msg);
        return false;
    }
    query_done(query);
    *query = read;
    return true;
}

static bool read_request(struct page *p)
{
    struct api_call *call = p->call;
    struct json_value body;
    const char *type;
    struct err err = {0};
    if (call->body.len != 0) {
        if (!names_body_object(call, &body))
            return false;
        enum rc rc = search_spec_read(&p->own_spec, body, &type, &err);
        if (rc == RC_INVALID) {
            reply_error(call, 400, type, "%s", err.msg);
            return false;
        }
        if (rc != RC_OK) {
            reply_rc(call, rc, &err);
            return false;
        }
    }
    return read_params(p) && read_q(call, &p->own_spec.query);
}

static bool check_scroll(struct page *p)
{
    const struct search_spec *spec = &p->own_spec;
    struct api_call *call = p->call;
    if (p->keep_ms == 0)
        return refuse(call, "[scroll] must be a time greater than zero");
    if (spec->has_pit)
        return invalid(call, "using [point in time] is not allowed in a scroll context");
    if (spec->size == 0)
        return invalid(call, "[size] cannot be [0] in a scroll context");
    if (slice_is(call_param(call, "request_cache"), "true"))
        return invalid(call, "[request_cache] cannot be used in a scroll context");
    if (spec->from != 0)
        return invalid(call, "using [from] is not allowed in a scroll context");
    if (spec->has_after)
        return refuse(call, "`search_after` cannot be used in a scroll context.");
    if (spec->track != SEQ_NONE)
        return invalid(call, "disabling [track_total_hits] is not allowed in a scroll context");
    if (spec->desc)
        return refuse(call, "a scroll goes in storage order: [desc] is not possible, search_after "
                            "can go down by [_seq_no]");
    return true;
}

static bool check_window(struct page *p, bool scroll)
{
    const struct search_spec *spec = &p->own_spec;
    if (spec->from <= SEARCH_WINDOW_MAX && spec->size <= SEARCH_WINDOW_MAX &&
        spec->from + spec->size <= SEARCH_WINDOW_MAX)
        return true;
    unsigned long long sum = (unsigned long long)(spec->from + spec->size);
    if (scroll)
        reply_error(p->call, 400, "illegal_argument_exception",
                    "Batch size is too large, size must be less than or equal to: [%d] but was "
                    "[%llu]. Scroll batch sizes cost as much memory as result windows so they are "
                    "controlled by the [index.max_result_window] index level setting.",
                    SEARCH_WINDOW_MAX, (unsigned long long)spec->size);
    else
        reply_error(p->call, 400, "illegal_argument_exception",
                    "Result window is too large, from + size must be less than or equal to: [%d] "
                    "but was [%llu]. See the scroll api for a more efficient way to request large "
                    "data sets.",
                    SEARCH_WINDOW_MAX, sum);
    return false;
}

/* ---- order and beginning of a page; false: replied */

static void imply_sort(struct page *p)
{
    const struct search_spec *spec = p->spec;
    bool pit = p->context != NULL && p->context->kind == CONTEXT_PIT, has = false;
    memcpy(p->sort, spec->sort, sizeof spec->sort);
    p->sort_count = spec->sort_count;
    for (size_t i = 0; i < spec->sort_count; i++)
        has = has || spec->sort[i] == SORT_SHARD_DOC;
    if (pit && !has)
        p->sort[p->sort_count++] = SORT_SHARD_DOC;
}

static bool check_sort(struct page *p)
{
    const struct search_spec *spec = p->spec;
    struct api_call *call = p->call;
    size_t lead = search_sort_lead(spec);
    bool seq_no = lead < spec->sort_count && spec->sort[lead] == SORT_SEQ_NO;
    for (size_t i = 0; i < spec->sort_count; i++)
        if (spec->sort[i] == SORT_SHARD_DOC && !spec->has_pit)
            return refuse(call, "[_shard_doc] sort field cannot be used without [point in time]");
    if (p->scan->count > 1 && seq_no)
        return refuse(call, "documents of several indices can't be sorted by [_seq_no]: name one "
                            "index, or sort by [_doc]");
    if (p->scan->count > 1 && spec->desc)
        return refuse(call, "documents of several indices can't be sorted down: name one index");
    if (p->scan->count > 1 && spec->has_after && !spec->has_pit)
        return refuse(call, "[search_after] over several indices needs a point in time: use [pit]");
    return true;
}

/* The sort value that the page goes on behind. */
static bool read_after(struct page *p, uint64_t *after, bool *negative)
{
    struct json_scan scan = json_enter(json_root(p->spec->after));
    struct json_value v, wanted = {JSON_END, SLICE_NONE};
    size_t n = 0, lead = 0;
    int64_t below;
    while (lead < p->sort_count && p->sort[lead] == SORT_SCORE)
        lead++;
    while (json_element(&scan, &v)) {
        if (n == lead)
            wanted = v;
        n++;
    }
    if (p->sort_count == 0)
        return refuse(p->call, "Sort must contain at least one field.");
    bool fits = n == p->sort_count || (p->spec->has_pit && n + 1 == p->sort_count);
    if (!fits || wanted.type == JSON_END) {
        reply_error(p->call, 400, "illegal_argument_exception",
                    "search_after has %zu value(s) but sort has %zu.", n, p->sort_count);
        return false;
    }
    struct slice text = wanted.text;
    if (wanted.type == JSON_STRING)
        text = slice_of(text.ptr + 1, text.len - 2);
    *negative = json_i64(text, &below) && below < 0;
    if (*negative || json_u64(text, after))
        return true;
    return refuse(p->call, "search_after takes the numbers of [sort] of a hit");
}

static enum rc pass_over(const struct scan_doc *doc, void *arg)
{
    (void)doc;
    (void)arg;
    return RC_OK;
}

static bool begin_down(struct page *p, uint64_t before, struct err *err, enum rc *rc)
{
    size_t want = (size_t)(p->spec->from + p->spec->size), n = 0;
    p->down = malloc((want + 1) * sizeof *p->down);
    if (p->down == NULL)
        *rc = err_set(err, RC_NOMEM, 0, "out of memory for a search");
    else
        *rc = scan_last(p->scan, before, want, p->down, &n, err);
    p->down_count = n;
    p->down_at = p->spec->from < n ? (size_t)p->spec->from : n;
    return *rc == RC_OK;
}

static bool begin_page(struct page *p)
{
    const struct search_spec *spec = p->spec;
    struct err err = {0};
    uint64_t after = SEQ_NONE;
    bool negative = false, done;
    enum rc rc = RC_OK;
    imply_sort(p);
    if (!check_sort(p) || (spec->has_after && !read_after(p, &after, &negative)))
        return false;
    if (spec->has_after && spec->from != 0)
        return refuse(p->call, "`from` parameter must be set to 0 when `search_after` is used.");
    p->left = spec->size;
    if (spec->desc)
        (void)begin_down(p, negative ? 0 : after, &err, &rc);
    else if (spec->has_after)
        p->place = negative ? 0 : after < p->scan->end ? after + 1 : p->scan->end;
    else if (spec->from != 0)
        rc = scan_next(p->scan, &p->place, (size_t)spec->from, &done, pass_over, NULL, &err);
    if (rc != RC_OK)
        reply_rc(p->call, rc, &err);
    return rc == RC_OK;
}

/* ---- what is searched; false: replied */

bool search_indices(struct api_call *call, enum names_use use, struct names_list *out)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN, .forbid_closed = true};
    return names_resolve_or_reply(call, &options, out) && names_usable(call, out, use);
}

/* A page over a point in time. */
static bool take_pit(struct page *p)
{
    struct api_call *call = p->call;
    const struct search_spec *spec = &p->own_spec;
    if (call_has(call, "routing") || call_part(call, "index").len != 0)
        return invalid(call, "[indices] cannot be used with point in time. Do not specify any "
                             "index with point in time.");
    if (!spec->query.all)
        return refuse(call, "a point in time can be read by [match_all] only: search the index "
                            "itself for [ids] and [term] on [_id]");
    if (!search_keep_alive(call, "keep_alive", spec->pit_keep_alive, 0, &p->keep_ms))
        return false;
    enum rc rc = contexts_get(call->api->contexts, CONTEXT_PIT, spec->pit, &p->context);
    if (rc != RC_OK) {
        search_reply_missing(call, spec->pit);
        return false;
    }
    p->scan = &p->context->scan;
    return true;
}

/* The scroll of a first page: it takes the scan and what was asked for over. */
static bool make_scroll(struct page *p)
{
    struct err err = {0};
    struct context *c = calloc(1, sizeof *c);
    if (c == NULL) {
        reply_rc(p->call, RC_NOMEM, NULL);
        return false;
    }
    query_done(&p->own_spec.query); /* ids point into the body */
    p->own_spec.after = SLICE_NONE;
    *c = (struct context){
        .kind = CONTEXT_SCROLL, .scan = p->own_scan, .spec = p->own_spec, .keep_ms = p->keep_ms};
    enum rc rc = contexts_add(p->call->api->contexts, c, &err);
    if (rc != RC_OK) {
        free(c);
        reply_error(p->call, 429, "too_many_scroll_contexts_exception", "%s", err.msg);
        return false;
    }
    p->own_scan = (struct scan){.store = NULL};
    search_spec_init(&p->own_spec);
    p->context = c;
    p->spec = &c->spec;
    p->scan = &c->scan;
    return true;
}

static bool take_indices(struct page *p, bool scroll)
{
    struct api_call *call = p->call;
    struct names_list list;
    struct err err = {0};
    if (!search_indices(call, USE_READ, &list))
        return false;
    enum rc rc = scan_open(call->api->o.store, &list, &p->own_spec.query, &p->own_scan, &err);
    names_list_done(&list);
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
        return false;
    }
    p->scan = &p->own_scan;
    return !scroll || make_scroll(p);
}

void search_get(struct api_call *call)
{
    bool scroll = call_has(call, "scroll");
    struct page *p = page_begin(call);
    if (p == NULL)
        return;
    p->spec = &p->own_spec;
    if (!search_keep_alive(call, "scroll", call_param(call, "scroll"), 0, &p->keep_ms) ||
        !read_request(p) || (scroll && !check_scroll(p)) || !check_window(p, scroll))
        return;
    if (!(p->own_spec.has_pit ? take_pit(p) : take_indices(p, scroll)) || !begin_page(p))
        return;
    page_answer(p);
}

void search_scroll_page(struct api_call *call, struct context *context, uint64_t keep_ms)
{
    struct page *p = page_begin(call);
    if (p == NULL) {
        contexts_put(call->api->contexts, context, keep_ms);
        return;
    }
    p->context = context;
    p->keep_ms = keep_ms;
    p->spec = &context->spec;
    p->scan = &context->scan;
    p->place = context->place;
    p->left = context->spec.size;
    if (!call_bool(call, "rest_total_hits_as_int", false, &p->int_totals))
        return;
    imply_sort(p);
    page_answer(p);
}

void search_reply_missing(struct api_call *call, struct slice id)
{
    reply_error(call, 404, "search_context_missing_exception",
                "No search context found for id [%.*s]", SLICE_FMT(id));
}

bool search_query(struct api_call *call, struct query *out)
{
    struct json_value body, value;
    const char *type;
    struct slice key;
    struct err err = {0};
    struct query query = {.all = true};
    if (call->body.len != 0) {
        if (!names_body_object(call, &body))
            return false;
        struct json_scan scan = json_enter(body);
        while (json_member(&scan, &key, &value)) {
            enum rc rc = RC_OK;
            if (!json_string_is(key, "query")) {
                type = "parsing_exception";
                rc = err_set(&err, RC_INVALID, 0, "request does not support [%.*s]",
                             SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
            } else if (value.type != JSON_NULL) {
                query_done(&query);
                rc = query_read(value, &query, &type, &err);
            }
            if (rc != RC_OK) {
                query_done(&query);
                reply_error(call, error_status(rc), rc == RC_INVALID ? type : error_type(NULL, rc),
                            "%s", err.msg);
                return false;
            }
        }
    }
    if (!read_q(call, &query)) {
        query_done(&query);
        return false;
    }
    *out = query;
    return true;
}
