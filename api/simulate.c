/* SPDX-License-Identifier: Apache-2.0 */
/* _simulate and _simulate_index: what an index would get from the templates, without making it. */
#include "api/handlers.h"
#include "api/templates.h"

struct simulation {
    struct json_value patterns; /* what others must not overlap: a JSON array */
    struct slice name;          /* of the template itself, or empty */
    int64_t rank;
    struct buf best, best_name; /* the stored template of highest priority that overlaps */
    bool found;
    struct buf *out;
    size_t overlapping;
};

static struct json_value patterns_of(struct json_value object)
{
    struct json_value patterns = {JSON_END, SLICE_NONE};
    (void)json_find(object, "index_patterns", &patterns);
    return patterns;
}

static enum rc find_best(struct slice name, struct slice value, void *arg)
{
    struct simulation *s = arg;
    struct json_value object = json_root(value);
    int64_t rank = templates_rank(object, "priority");
    if (!templates_overlap(patterns_of(object), s->patterns) || (s->found && rank <= s->rank))
        return RC_OK;
    s->found = true;
    s->rank = rank;
    s->best.len = s->best_name.len = 0;
    buf_put_slice(&s->best, value);
    buf_put_slice(&s->best_name, name);
    return s->best.failed || s->best_name.failed ? RC_NOMEM : RC_OK;
}

static enum rc put_overlapping(struct slice name, struct slice value, void *arg)
{
    struct simulation *s = arg;
    struct json_value patterns = patterns_of(json_root(value));
    if (slice_eq(name, s->name) || !templates_overlap(patterns, s->patterns))
        return RC_OK;
    buf_put_str(s->out, s->overlapping++ == 0 ? "{" : ",{");
    json_str(s->out, "name", name);
    json_raw(s->out, "index_patterns", patterns.text);
    buf_put_byte(s->out, '}');
    return RC_OK;
}

static enum rc put_result(struct api *api, struct simulation *s, struct json_value chosen,
                          struct slice index, struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct codec_spec spec;
    enum rc rc;
    TRY_OUT(templates_compose(api, chosen, index, &draft, err));
    TRY_OUT(settings_check(&draft.settings, SETTINGS_CREATE, NULL, err));
    TRY_OUT(settings_resolve(&draft.settings, &spec, err));
    BUF_PUT_LIT(s->out, "{\"template\":{\"settings\":");
    settings_print(&draft.settings, false, SLICE_NONE, s->out);
    json_raw(s->out, "mappings",
             draft.mappings.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft.mappings));
    json_raw(s->out, "aliases",
             draft.aliases.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft.aliases));
    BUF_PUT_LIT(s->out, "},\"overlapping\":[");
    TRY_OUT(store_meta_each(api->o.store, 't', put_overlapping, s, err));
    /* The template that is simulated, and what it replaces, is not its own competitor. */
    TRY_OUT(store_meta_each(api->o.store, 'i', put_overlapping, s, err));
    BUF_PUT_LIT(s->out, "]}");
out:
    draft_done(&draft);
    return rc;
}

static void simulation_reply(struct api_call *call, struct simulation *s, struct json_value chosen,
                             struct slice index)
{
    struct err err = {RC_OK, 0, ""};
    s->out = reply_json(call, 200);
    enum rc rc = put_result(call->api, s, chosen, index, &err);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

/* The body as a template, its patterns as a list in `list`. False: replied. */
static bool read_body(struct api_call *call, struct json_value *body, struct buf *list)
{
    if (!names_body_object(call, body))
        return false;
    struct json_value patterns = patterns_of(*body);
    if (patterns.type != JSON_STRING && patterns.type != JSON_ARRAY) {
        reply_error(call, 400, "illegal_argument_exception", "index patterns are missing");
        return false;
    }
    if (patterns.type == JSON_STRING)
        buf_put_byte(list, '[');
    buf_put_slice(list, patterns.text);
    if (patterns.type == JSON_STRING)
        buf_put_byte(list, ']');
    return true;
}

/* POST /_index_template/_simulate/{name}: a stored template, or the one in the body. */
void template_simulate(struct api_call *call)
{
    struct slice name = call_part(call, "name");
    struct simulation s = {.name = name};
    struct buf stored = {NULL, 0, 0, false}, list = stored;
    struct json_value chosen;
    struct err err = {RC_OK, 0, ""};
    if (call->body.len != 0) {
        if (!read_body(call, &chosen, &list))
            goto out;
        s.patterns = json_root(buf_slice(&list));
    } else {
        enum rc rc = name.len == 0 ? RC_NOT_FOUND
                                   : store_meta_get(call->api->o.store, 'i', name, &stored, &err);
        if (rc != RC_OK) {
            reply_error(call, rc == RC_NOT_FOUND ? 400 : error_status(rc),
                        "illegal_argument_exception",
                        "unable to simulate template [%.*s] that does not exist", SLICE_FMT(name));
            goto out;
        }
        chosen = json_root(buf_slice(&stored));
        s.patterns = patterns_of(chosen);
    }
    simulation_reply(call, &s, chosen, SLICE_NONE);
out:
    buf_done(&stored);
    buf_done(&list);
}

/* POST /_index_template/_simulate_index/{name}: an index name, with one more template in the body.
 */
void template_simulate_index(struct api_call *call)
{
    struct slice index = call_part(call, "name");
    struct simulation s = {.rank = 0};
    struct buf list = {NULL, 0, 0, false}, own = list;
    struct json_value body = {JSON_END, SLICE_NONE}, chosen;
    struct err err = {RC_OK, 0, ""};
    if (call->body.len != 0 && !read_body(call, &body, &own))
        goto out;
    buf_put_byte(&list, '[');
    json_quote(index, &list);
    buf_put_byte(&list, ']');
    s.patterns = json_root(buf_slice(&list));
    enum rc rc = store_meta_each(call->api->o.store, 'i', find_best, &s, &err);
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
        goto out;
    }
    bool mine = body.type == JSON_OBJECT &&
                templates_overlap(json_root(buf_slice(&own)), s.patterns) &&
                (!s.found || templates_rank(body, "priority") > s.rank);
    if (!mine && !s.found) {
        BUF_PUT_LIT(reply_json(call, 200), "{}");
        api_finish(call);
        goto out;
    }
    chosen = mine ? body : json_root(buf_slice(&s.best));
    s.name = mine ? SLICE_NONE : buf_slice(&s.best_name);
    simulation_reply(call, &s, chosen, index);
out:
    buf_done(&list);
    buf_done(&own);
    buf_done(&s.best);
    buf_done(&s.best_name);
}
