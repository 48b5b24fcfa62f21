/* SPDX-License-Identifier: Apache-2.0 */
#include "api/templates.h"

#include "api/aliases.h"
#include "api/handlers.h"
#include "api/mapping.h"

#include <stdlib.h>

/* ---- drafts */
void draft_done(struct draft *draft)
{
    settings_done(&draft->settings);
    buf_done(&draft->mappings);
    buf_done(&draft->aliases);
    buf_done(&draft->template);
    buf_done(&draft->from);
    buf_done(&draft->lifecycle);
}

enum rc draft_add(struct draft *draft, const struct names_body *body, struct slice index,
                  struct err *err)
{
    struct settings over = {NULL, 0, 0};
    enum rc rc = RC_OK;
    if (body->settings.type == JSON_OBJECT) {
        TRY_OUT(settings_read(&over, body->settings, err));
        TRY_OUT(settings_overlay(&draft->settings, &over, false, err));
    }
    if (body->mappings.type == JSON_OBJECT)
        TRY_OUT(mapping_merge(body->mappings, &draft->mappings, err));
    if (body->aliases.type == JSON_OBJECT)
        TRY_OUT(aliases_read(body->aliases, index, &draft->aliases, err));
out:
    settings_done(&over);
    return rc;
}

/* ---- reading stored templates */
struct names_body templates_parts(struct json_value object)
{
    struct json_value none = {JSON_END, SLICE_NONE};
    struct names_body parts = {none, none, none};
    (void)json_find(object, "settings", &parts.settings);
    (void)json_find(object, "mappings", &parts.mappings);
    (void)json_find(object, "aliases", &parts.aliases);
    return parts;
}

int64_t templates_rank(struct json_value object, const char *key)
{
    struct json_value value;
    struct slice text = SLICE_NONE;
    int64_t n = 0;
    if (!json_find(object, key, &value))
        return 0;
    if (value.type == JSON_NUMBER)
        text = value.text;
    else if (value.type == JSON_STRING)
        (void)json_plain(value.text, &text);
    return text.len != 0 && json_i64(text, &n) ? n : 0;
}

static bool pattern_matches(struct json_value pattern, struct slice index)
{
    struct buf text = {NULL, 0, 0, false};
    bool match = false;
    if (pattern.type == JSON_STRING) {
        json_unquote(pattern.text, &text);
        match = !text.failed && names_match(buf_slice(&text), index);
        buf_done(&text);
    }
    return match;
}

/* index_patterns: a string or a list; Elasticsearch before 6 called it "template". */
bool templates_match(struct json_value object, struct slice index)
{
    struct json_value patterns, one;
    if (!json_find(object, "index_patterns", &patterns) &&
        !json_find(object, "template", &patterns))
        return false;
    if (patterns.type != JSON_ARRAY)
        return pattern_matches(patterns, index);
    struct json_scan scan = json_enter(patterns);
    while (json_element(&scan, &one))
        if (pattern_matches(one, index))
            return true;
    return false;
}

/* ---- overlaps */
/* Is there a name that both globs match? f[j] for a[i..] and b[j..], from the ends. */
static bool globs_overlap(struct slice a, struct slice b)
{
    bool *f = calloc(b.len + 1, sizeof *f);
    if (f == NULL)
        return false;
    for (size_t i = a.len + 1; i-- > 0;) {
        bool corner = false; /* of (i + 1, j + 1) */
        for (size_t j = b.len + 1; j-- > 0;) {
            bool below = f[j], right = j < b.len && f[j + 1], now;
            if (i == a.len && j == b.len)
                now = true;
            else if (i < a.len && a.ptr[i] == '*')
                now = below || right;
            else if (j < b.len && b.ptr[j] == '*')
                now = right || (i < a.len && below);
            else
                now = i < a.len && j < b.len && a.ptr[i] == b.ptr[j] && corner;
            corner = below;
            f[j] = now;
        }
    }
    bool overlap = f[0];
    free(f);
    return overlap;
}

/* The text between the n-th wildcard and the next one; false: there are no two such. */
static bool segment_between(struct slice glob, size_t n, struct slice *out)
{
    const uint8_t *p = glob.ptr, *end = glob.ptr + glob.len, *next;
    for (;; n--) {
        p = memchr(p, '*', (size_t)(end - p));
        if (p == NULL)
            return false;
        p++;
        if (n == 0)
            break;
    }
    next = memchr(p, '*', (size_t)(end - p));
    if (next == NULL)
        return false;
    *out = slice_of(p, (size_t)(next - p));
    return true;
}

/* "app-*-some-*" and "app-*-other-*" are meant to be told apart, though a name with both words
 * matches both: a word between wildcards decides, as in OpenSearch. */
static bool told_apart(struct slice a, struct slice b)
{
    struct slice x, y;
    bool apart = false;
    size_t n = 0;
    for (;; n++) {
        bool in_a = segment_between(a, n, &x), in_b = segment_between(b, n, &y);
        if (in_a != in_b)
            return false;
        if (!in_a)
            return apart;
        apart = apart || (memmem(x.ptr, x.len, y.ptr, y.len) == NULL &&
                          memmem(y.ptr, y.len, x.ptr, x.len) == NULL);
    }
}

bool templates_overlap(struct json_value a, struct json_value b)
{
    struct json_value x, y;
    struct slice px, py;
    struct json_scan left = json_enter(a);
    while (a.type == JSON_ARRAY && json_element(&left, &x)) {
        struct json_scan right = json_enter(b);
        while (b.type == JSON_ARRAY && json_element(&right, &y))
            if (json_plain(x.text, &px) && json_plain(y.text, &py) && globs_overlap(px, py) &&
                !told_apart(px, py))
                return true;
    }
    return false;
}

/* ---- applying */
struct pick {
    struct slice index;
    bool found, first;
    int64_t rank;  /* best so far, or with `after` the one to be found next */
    int64_t after; /* legacy: rank of the last one applied */
    struct buf name_after;
    struct buf name, body;
};

static void pick_done(struct pick *pick)
{
    buf_done(&pick->name_after);
    buf_done(&pick->name);
    buf_done(&pick->body);
}

static void pick_take(struct pick *pick, struct slice name, struct slice body, int64_t rank)
{
    pick->found = true;
    pick->rank = rank;
    pick->name.len = pick->body.len = 0;
    buf_put_slice(&pick->name, name);
    buf_put_slice(&pick->body, body);
}

static enum rc pick_index_template(struct slice name, struct slice body, void *arg)
{
    struct pick *pick = arg;
    struct json_value object = json_root(body);
    int64_t rank = templates_rank(object, "priority");
    if (templates_match(object, pick->index) && (!pick->found || rank > pick->rank))
        pick_take(pick, name, body, rank);
    return pick->body.failed ? RC_NOMEM : RC_OK;
}

/* The matching one that comes next behind (after, name_after) in order and name. */
static enum rc pick_legacy(struct slice name, struct slice body, void *arg)
{
    struct pick *pick = arg;
    struct json_value object = json_root(body);
    int64_t rank = templates_rank(object, "order");
    if (!templates_match(object, pick->index))
        return RC_OK;
    if (!pick->first &&
        (rank < pick->after ||
         (rank == pick->after && slice_cmp(name, buf_slice(&pick->name_after)) <= 0)))
        return RC_OK;
    if (!pick->found || rank < pick->rank)
        pick_take(pick, name, body, rank);
    return pick->body.failed ? RC_NOMEM : RC_OK;
}

/* A template's "template" object. The lifecycle is replaced as a whole; null takes it away. */
static enum rc add_parts(struct json_value object, struct slice index, struct draft *draft,
                         struct err *err)
{
    struct names_body parts = templates_parts(object);
    struct json_value lifecycle;
    if (json_find(object, "lifecycle", &lifecycle)) {
        draft->lifecycle.len = 0;
        if (lifecycle.type == JSON_OBJECT)
            buf_put_slice(&draft->lifecycle, lifecycle.text);
    }
    return draft_add(draft, &parts, index, err);
}

static enum rc add_component(struct api *api, struct json_value name, struct slice index,
                             struct draft *draft, struct err *err)
{
    struct buf text = {NULL, 0, 0, false}, body = text;
    struct json_value object;
    json_plain_text(name, &text);
    enum rc rc = store_meta_get(api->o.store, 'c', buf_slice(&text), &body, err);
    if (rc == RC_NOT_FOUND) /* deleted since: what is left counts */
        rc = RC_OK;
    else if (rc == RC_OK && json_find(json_root(buf_slice(&body)), "template", &object))
        rc = add_parts(object, index, draft, err);
    buf_done(&text);
    buf_done(&body);
    return rc;
}

enum rc templates_compose(struct api *api, struct json_value index_template, struct slice index,
                          struct draft *draft, struct err *err)
{
    struct json_value list, name, own, stream, hidden;
    if (json_find(index_template, "data_stream", &stream) && stream.type == JSON_OBJECT) {
        draft->stream = true;
        draft->stream_hidden = json_find(stream, "hidden", &hidden) && hidden.type == JSON_TRUE;
    }
    if (json_find(index_template, "composed_of", &list) && list.type == JSON_ARRAY) {
        struct json_scan scan = json_enter(list);
        while (json_element(&scan, &name))
            TRY(add_component(api, name, index, draft, err));
    }
    if (!json_find(index_template, "template", &own))
        return RC_OK;
    return add_parts(own, index, draft, err);
}

enum rc templates_apply(struct api *api, struct slice index, struct draft *draft, struct err *err)
{
    struct pick pick = {.index = index, .first = true};
    enum rc rc;
    TRY_OUT(store_meta_each(api->o.store, 'i', pick_index_template, &pick, err));
    if (pick.found) {
        buf_put_slice(&draft->template, buf_slice(&pick.name));
        buf_put_slice(&draft->from, buf_slice(&pick.body));
        rc = templates_compose(api, json_root(buf_slice(&pick.body)), index, draft, err);
        goto out;
    }
    for (;;) {
        TRY_OUT(store_meta_each(api->o.store, 't', pick_legacy, &pick, err));
        if (!pick.found)
            break;
        struct names_body parts = templates_parts(json_root(buf_slice(&pick.body)));
        TRY_OUT(draft_add(draft, &parts, index, err));
        draft->from.len = 0;
        buf_put_slice(&draft->from, buf_slice(&pick.body));
        pick.after = pick.rank;
        pick.name_after.len = 0;
        buf_put_slice(&pick.name_after, buf_slice(&pick.name));
        pick.found = pick.first = false;
    }
out:
    pick_done(&pick);
    return rc;
}
