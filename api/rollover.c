/* SPDX-License-Identifier: Apache-2.0 */
/* _rollover of aliases and data streams.
 *
 * Of an alias: the next index is made as its write index, then the old one loses the alias, or its
 * mark where it had one. Whatever comes in between (a crash), the alias has a write index: the
 * newest that is marked. */
#include "api/aliases.h"
#include "api/create.h"
#include "api/date_math.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/retention.h"
#include "api/settings.h"
#include "api/streams.h"

#include <stdlib.h>

struct rollover {
    struct names_body body;
    struct json_value conditions;
    bool dry, streams;
    struct slice target, old, given; /* old: its index; given: name of the new one, or empty */
    struct names_view view;
    size_t at;       /* of the old index */
    struct buf next; /* name of the new one */
    bool met;
};

/* ---- reading */
static bool read_body(struct api_call *call, struct rollover *r)
{
    struct json_value none = {JSON_END, SLICE_NONE}, body, value;
    struct slice key;
    r->body = (struct names_body){none, none, none};
    r->conditions = none;
    if (call->body.len == 0)
        return true;
    if (!names_body_object(call, &body) || !names_untyped(call, &body))
        return false;
    struct json_scan scan = json_enter(body);
    while (json_member(&scan, &key, &value)) {
        struct json_value *part = json_string_is(key, "conditions") ? &r->conditions
                                  : json_string_is(key, "settings") ? &r->body.settings
                                  : json_string_is(key, "mappings") ? &r->body.mappings
                                  : json_string_is(key, "aliases")  ? &r->body.aliases
                                                                    : NULL;
        if (part == NULL || (value.type != JSON_OBJECT && value.type != JSON_NULL)) {
            reply_error(call, 400, "parsing_exception", "unknown key [%.*s] for rollover",
                        SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
            return false;
        }
        *part = value.type == JSON_NULL ? none : value;
    }
    struct json_value type;
    if (!json_find(r->body.mappings, "_doc", &type))
        return true;
    reply_error_with(call, 400, "x_content_parse_exception",
                     SLICE_LIT("\"caused_by\":{\"type\":\"illegal_argument_exception\",\"reason\":"
                               "\"The mapping definition cannot be nested under a type [_doc] "
                               "unless include_type_name is set to true.\"}"),
                     "[rollover_request] failed to parse field [mappings]");
    return false;
}

/* ---- conditions */
enum measure { MEASURE_AGE, MEASURE_DOCS, MEASURE_BYTES };
static const struct {
    const char *name;
    enum measure measure;
} kinds[] = {{"age", MEASURE_AGE},
             {"docs", MEASURE_DOCS},
             {"size", MEASURE_BYTES},
             {"primary_shard_size", MEASURE_BYTES},
             {"primary_shard_docs", MEASURE_DOCS}};

/* What is stored of the documents: blocks, and raw what is not packed yet. */
static uint64_t measured(const struct index *index, const struct index_stats *stats,
                         enum measure measure)
{
    uint64_t now = clock_ms(), created = index_created_ms(index);
    switch (measure) {
    case MEASURE_AGE:
        return now > created ? now - created : 0;
    case MEASURE_DOCS:
        return stats->docs;
    default:
        return stats->block_bytes + stats->raw_bytes - stats->block_raw_bytes;
    }
}

static bool limit_read(enum measure measure, struct slice text, uint64_t *out)
{
    return measure == MEASURE_AGE     ? retention_time(text, out)
           : measure == MEASURE_BYTES ? settings_bytes(text, out)
                                      : json_u64(text, out);
}

/* One condition, printed with what came of it. */
static enum rc judge(const struct rollover *r, struct slice key, struct json_value value,
                     struct buf *out, bool *min_out, bool *met_out, struct err *err)
{
    struct buf text = {NULL, 0, 0, false}, label = text;
    struct index_stats stats;
    struct slice name = slice_of(key.ptr + 1, key.len - 2);
    uint64_t limit = 0;
    size_t k = ARRAY_LEN(kinds);
    enum rc rc = RC_OK;
    bool min = name.len > 4 && memcmp(name.ptr, "min_", 4) == 0;
    if (min || (name.len > 4 && memcmp(name.ptr, "max_", 4) == 0))
        for (k = 0;
             k < ARRAY_LEN(kinds) && !slice_is(slice_of(name.ptr + 4, name.len - 4), kinds[k].name);
             k++)
            ;
    if (k == ARRAY_LEN(kinds))
        return err_set(err, RC_INVALID, 0, "[conditions] unknown field [%.*s]", SLICE_FMT(name));
    json_plain_text(value, &text);
    if (!limit_read(kinds[k].measure, buf_slice(&text), &limit)) {
        rc = err_set(err, RC_INVALID, 0, "failed to parse setting [%.*s] with value [%.*s]",
                     SLICE_FMT(name), SLICE_FMT(buf_slice(&text)));
    } else {
        index_stats_get(r->view.index[r->at], &stats);
        uint64_t now = measured(r->view.index[r->at], &stats, kinds[k].measure);
        *min_out = min;
        *met_out = now >= limit;
        buf_printf(&label, "[%.*s: %.*s]", SLICE_FMT(name), SLICE_FMT(buf_slice(&text)));
        buf_put_byte(&label, 0);
        json_bool(out, (const char *)label.ptr, *met_out);
    }
    buf_done(&text);
    buf_done(&label);
    return rc;
}

/* Any max and every min must hold; without conditions all is well. */
static enum rc judge_all(struct rollover *r, struct buf *out, struct err *err)
{
    struct slice key;
    struct json_value value;
    bool any = false, max = false, every = true, min = false, met = false;
    struct json_scan scan = json_enter(r->conditions);
    buf_put_byte(out, '{');
    while (r->conditions.type == JSON_OBJECT && json_member(&scan, &key, &value)) {
        TRY(judge(r, key, value, out, &min, &met, err));
        any = true;
        max = max || (!min && met);
        every = every && (!min || met);
    }
    buf_put_byte(out, '}');
    r->met = !any || (max && every);
    return RC_OK;
}

/* ---- names */
/* "logs-1" -> "logs-000002", "<logs-{now/d}-1>" -> "<logs-{now/d}-000002>". */
static enum rc count_up(struct slice name, struct buf *out, struct err *err)
{
    bool math = name.len > 2 && name.ptr[0] == '<' && name.ptr[name.len - 1] == '>';
    size_t end = name.len - (math ? 1 : 0), at = end;
    uint64_t n = 0;
    while (at > 0 && name.ptr[at - 1] >= '0' && name.ptr[at - 1] <= '9')
        at--;
    if (at == end || at == 0 || name.ptr[at - 1] != '-')
        return err_set(err, RC_INVALID, 0, "index name [%.*s] does not match pattern '^.*-\\d+$'",
                       SLICE_FMT(name));
    for (size_t i = at; i < end && n < UINT64_MAX / 100; i++)
        n = n * 10 + (uint64_t)(name.ptr[i] - '0');
    buf_printf(out, "%.*s%06llu%s", (int)at, (const char *)name.ptr, (unsigned long long)(n + 1),
               math ? ">" : "");
    return RC_OK;
}

static enum rc next_alias_name(struct rollover *r, struct err *err)
{
    struct json_value provided;
    struct buf source = {NULL, 0, 0, false};
    enum rc rc = RC_OK;
    if (r->given.len != 0) {
        buf_put_slice(&r->next, r->given);
        return RC_OK;
    }
    if (json_find(json_value_of(r->view.meta[r->at]->settings), "index.provided_name", &provided))
        json_unquote(provided.text, &source);
    else
        buf_put_slice(&source, r->old);
    rc = count_up(buf_slice(&source), &r->next, err);
    buf_done(&source);
    return rc;
}

/* The old index, and the name of the new one. */
static enum rc find_target(struct api *api, struct rollover *r, struct err *err)
{
    struct names_options options = {.expand = EXPAND_OPEN};
    size_t hits = 0;
    TRY(names_view_open(api, &r->view, err));
    TRY(names_view_choose(&r->view, r->target, &options, &hits, err));
    r->streams = names_view_stream(&r->view, r->target, &r->at);
    if (hits == 0)
        return err_set(err, RC_INVALID, 0, "rollover target [%.*s] does not exist",
                       SLICE_FMT(r->target));
    for (size_t i = 0; i < r->view.count; i++)
        if (slice_is(r->target, index_name(r->view.index[i])))
            return err_set(err, RC_INVALID, 0,
                           "rollover target is a [concrete index] but one of [alias,data_stream] "
                           "was expected");
    if (r->streams) {
        if (r->given.len != 0)
            return err_set(err, RC_INVALID, 0,
                           "new index name may not be specified when rolling over a data stream");
        if (r->body.settings.type != JSON_END || r->body.mappings.type != JSON_END ||
            r->body.aliases.type != JSON_END)
            return err_set(err, RC_INVALID, 0,
                           "aliases, mappings, and index settings may not be specified when "
                           "rolling over a data stream");
        stream_backing_name(r->target, r->view.info[r->at].generation + 1, &r->next);
    } else if (names_write_index(&r->view, r->target, hits, &r->at, NULL) != RC_OK) {
        return err_set(err, RC_INVALID, 0, "rollover target [%.*s] does not point to a write index",
                       SLICE_FMT(r->target));
    }
    r->old = slice_str(index_name(r->view.index[r->at]));
    return r->streams ? RC_OK : next_alias_name(r, err);
}

/* ---- the alias */
struct handover {
    struct slice alias; /* quoted */
    bool marked;        /* it has a mark: the old index keeps the alias, marked false */
};

/* The properties of an alias with another mark; mark NULL: without one. */
static void put_mark(struct json_value properties, const char *mark, struct buf *out)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(properties);
    buf_put_byte(out, '{');
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "is_write_index"))
            continue;
        if (out->ptr[out->len - 1] != '{')
            buf_put_byte(out, ',');
        buf_put_slice(out, key);
        buf_put_byte(out, ':');
        buf_put_slice(out, value.text);
    }
    if (mark != NULL)
        json_raw(out, "is_write_index", slice_str(mark));
    buf_put_byte(out, '}');
}

static bool alias_of(const struct index_meta *meta, struct slice quoted, struct json_value *out)
{
    struct slice key;
    struct json_value aliases = json_value_of(meta->aliases);
    struct json_scan scan = json_enter(aliases);
    while (aliases.type == JSON_OBJECT && json_member(&scan, &key, out))
        if (json_string_eq(key, quoted))
            return true;
    return false;
}

/* The old index: its alias, and when it was rolled over. Both texts stay in one scratch buffer. */
static enum rc hand_over(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct handover *h = arg;
    struct buf aliases = {NULL, 0, 0, false}, extra = aliases, one = aliases;
    struct json_value properties;
    (void)err;
    buf_put_slice(&aliases, meta->aliases);
    buf_put_slice(&extra, meta->extra);
    if (alias_of(meta, h->alias, &properties)) {
        if (h->marked)
            put_mark(properties, "false", &one);
        json_put(&aliases, h->alias, buf_slice(&one));
    }
    one.len = 0;
    BUF_PUT_LIT(&one, "{\"alias\":");
    buf_put_slice(&one, h->alias);
    json_uint(&one, "at", clock_ms());
    buf_put_byte(&one, '}');
    json_put(&extra, SLICE_LIT("\"rolled_over\""), buf_slice(&one));
    size_t len = aliases.len;
    buf_put_slice(scratch, buf_slice(&aliases));
    buf_put_slice(scratch, buf_slice(&extra));
    scratch->failed = scratch->failed || aliases.failed || extra.failed || one.failed;
    if (!scratch->failed) {
        meta->aliases = slice_of(scratch->ptr, len);
        meta->extra = slice_of(scratch->ptr + len, scratch->len - len);
    }
    buf_done(&aliases);
    buf_done(&extra);
    buf_done(&one);
    return RC_OK;
}

/* The new index' mark goes where the old one had none. */
static enum rc unmark(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct handover *h = arg;
    struct buf one = {NULL, 0, 0, false};
    struct json_value properties;
    (void)err;
    buf_put_slice(scratch, meta->aliases);
    if (alias_of(meta, h->alias, &properties)) {
        put_mark(properties, NULL, &one);
        json_put(scratch, h->alias, buf_slice(&one));
    }
    scratch->failed = scratch->failed || one.failed;
    meta->aliases = buf_slice(scratch);
    buf_done(&one);
    return RC_OK;
}

static enum rc roll_alias(struct api *api, struct rollover *r, struct err *err)
{
    struct buf quoted = {NULL, 0, 0, false}, aliases = quoted;
    struct json_value properties, flag;
    struct index *next = NULL;
    enum rc rc;
    json_quote(r->target, &quoted);
    if (!alias_of(r->view.meta[r->at], buf_slice(&quoted), &properties))
        TRY_OUT(err_set(err, RC_INVALID, 0, "rollover target [%.*s] does not exist",
                        SLICE_FMT(r->target)));
    struct handover h = {buf_slice(&quoted),
                         json_find(properties, "is_write_index", &flag) && flag.type != JSON_NULL};
    buf_put_byte(&aliases, '{');
    buf_put_slice(&aliases, h.alias);
    buf_put_byte(&aliases, ':');
    put_mark(properties, "true", &aliases);
    buf_put_byte(&aliases, '}');
    if (aliases.failed || quoted.failed)
        TRY_OUT(err_set(err, RC_NOMEM, 0, "out of memory for an alias"));
    TRY_OUT(names_create_locked(api, buf_slice(&r->next), &r->body, buf_slice(&aliases),
                                r->view.index[r->at], &next, err));
    TRY_OUT(names_change_meta(api, r->view.index[r->at], hand_over, &h, err));
    if (!h.marked)
        rc = names_change_meta(api, next, unmark, &h, err);
out:
    index_release(next);
    buf_done(&quoted);
    buf_done(&aliases);
    return rc;
}

/* ---- the request */
/* The name of the new index, resolved, if it could be made. */
static enum rc check_next(struct api *api, const struct rollover *r, struct buf *real,
                          struct err *err)
{
    TRY(date_math_resolve(buf_slice(&r->next), clock_ms(), real, err));
    TRY(names_check(buf_slice(real), err));
    return create_check_taken(api, buf_slice(real), SLICE_NONE, true, err);
}

static enum rc run(struct api *api, struct rollover *r, struct buf *real, struct buf *conditions,
                   struct err *err)
{
    struct index *next = NULL;
    TRY(find_target(api, r, err));
    TRY(check_next(api, r, real, err));
    TRY(judge_all(r, conditions, err));
    if (!r->met || r->dry)
        return RC_OK;
    TRY(names_blocked(r->view.index[r->at], &r->view.info[r->at], USE_CHANGE, err));
    if (!r->streams)
        return roll_alias(api, r, err);
    enum rc rc = stream_roll_locked(api, r->target, &next, err);
    index_release(next);
    return rc;
}

void rollover_post(struct api_call *call)
{
    struct rollover r = {.target = call_part(call, "index"), .given = call_part(call, "name")};
    struct buf real = {NULL, 0, 0, false}, conditions = real;
    struct err err = {RC_OK, 0, ""};
    if (!call_bool(call, "dry_run", false, &r.dry) || !read_body(call, &r))
        return;
    registry_lock(call->api->names);
    enum rc rc = run(call->api, &r, &real, &conditions, &err);
    registry_unlock(call->api->names);
    if (rc != RC_OK) {
        names_reply_error(call, real.len == 0 ? buf_slice(&r.next) : buf_slice(&real), rc, &err);
    } else {
        bool done = r.met && !r.dry;
        struct buf *out = reply_json(call, 200);
        buf_put_byte(out, '{');
        json_bool(out, "acknowledged", done);
        json_bool(out, "shards_acknowledged", done);
        json_str(out, "old_index", r.old);
        json_str(out, "new_index", buf_slice(&real));
        json_bool(out, "rolled_over", done);
        json_bool(out, "dry_run", r.dry);
        json_raw(out, "conditions", buf_slice(&conditions));
        buf_put_byte(out, '}');
        api_finish(call);
    }
    names_view_close(&r.view);
    buf_done(&r.next);
    buf_done(&real);
    buf_done(&conditions);
}
