/* SPDX-License-Identifier: Apache-2.0 */
/* _template, _index_template, _component_template: put, get, delete. */
#include "api/aliases.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/retention.h"
#include "api/streams.h"
#include "api/templates.h"

/* What differs between the three. */
struct kind {
    char kind;              /* of store_meta_put */
    const char *word;       /* in errors */
    const char *list, *one; /* members of a GET; NULL: legacy form */
    const char *missing;    /* error type */
    const char *keys;       /* members a body may have, space separated */
};

static const struct kind legacy = {
    't',
    "index_template",
    NULL,
    NULL,
    "index_template_missing_exception",
    " index_patterns template order version settings mappings aliases "};
static const struct kind composable = {
    'i',
    "index template",
    "index_templates",
    "index_template",
    "resource_not_found_exception",
    " index_patterns template composed_of priority version _meta data_stream allow_auto_create "
    "ignore_missing_component_templates deprecated "};
static const struct kind component = {'c',
                                      "component template",
                                      "component_templates",
                                      "component_template",
                                      "resource_not_found_exception",
                                      " template version _meta allow_auto_create deprecated "};

/* ---- put */
static bool listed(const char *list, struct slice word)
{
    for (const char *p = list + 1; *p != 0; p += strcspn(p, " ") + 1)
        if (slice_eq(word, slice_of(p, strcspn(p, " "))))
            return true;
    return false;
}

static enum rc put_patterns(struct json_value patterns, struct buf *out, struct err *err)
{
    struct json_value one;
    if (patterns.type == JSON_STRING) {
        json_key(out, "index_patterns");
        buf_put_byte(out, '[');
        buf_put_slice(out, patterns.text);
        buf_put_byte(out, ']');
        return RC_OK;
    }
    struct json_scan scan = json_enter(patterns);
    if (patterns.type != JSON_ARRAY || !json_element(&scan, &one))
        return err_set(err, RC_INVALID, 0, "index patterns are missing");
    json_raw(out, "index_patterns", patterns.text);
    return RC_OK;
}

/* Append settings, mappings and aliases as they will be kept, after judging them. all: print the
 * ones that are not there as {}. */
static enum rc put_parts(const struct names_body *parts, bool all, struct buf *out, struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct settings sent = {NULL, 0, 0};
    enum rc rc;
    TRY_OUT(draft_add(&draft, parts, SLICE_NONE, err));
    if (parts->settings.type == JSON_OBJECT)
        TRY_OUT(settings_read(&sent, parts->settings, err));
    TRY_OUT(settings_check(&sent, SETTINGS_TEMPLATE, NULL, err));
    if (all || parts->settings.type == JSON_OBJECT) {
        json_key(out, "settings");
        settings_print(&sent, true, SLICE_NONE, out);
    }
    if (all || draft.mappings.len != 0)
        json_raw(out, "mappings",
                 draft.mappings.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft.mappings));
    if (all || draft.aliases.len != 0)
        json_raw(out, "aliases",
                 draft.aliases.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft.aliases));
out:
    settings_done(&sent);
    draft_done(&draft);
    return rc;
}

/* What a template says about data streams. */
static enum rc check_stream(struct json_value body, struct json_value own, struct buf *out,
                            struct err *err)
{
    struct json_value stream, lifecycle;
    if (json_find(body, "data_stream", &stream) && stream.type != JSON_OBJECT &&
        stream.type != JSON_NULL)
        return err_set(err, RC_INVALID, 0, "[data_stream] must be an object");
    if (!json_find(own, "lifecycle", &lifecycle) || lifecycle.type == JSON_NULL)
        return RC_OK;
    TRY(retention_lifecycle_check(lifecycle, err));
    json_raw(out, "lifecycle", lifecycle.text);
    return RC_OK;
}

static enum rc put_legacy(struct json_value body, struct buf *out, struct err *err)
{
    struct names_body parts = templates_parts(body);
    struct json_value patterns = {JSON_END, SLICE_NONE}, version;
    buf_put_byte(out, '{');
    json_int(out, "order", templates_rank(body, "order"));
    if (json_find(body, "version", &version) && version.type == JSON_NUMBER)
        json_raw(out, "version", version.text);
    if (!json_find(body, "index_patterns", &patterns))
        (void)json_find(body, "template", &patterns);
    TRY(put_patterns(patterns, out, err));
    TRY(put_parts(&parts, true, out, err));
    buf_put_byte(out, '}');
    return RC_OK;
}

static enum rc check_components(struct api *api, struct json_value body, struct slice name,
                                struct err *err)
{
    struct json_value list, one;
    if (!json_find(body, "composed_of", &list) || list.type != JSON_ARRAY)
        return RC_OK;
    struct json_scan scan = json_enter(list);
    while (json_element(&scan, &one)) {
        struct buf text = {NULL, 0, 0, false}, found = text;
        json_plain_text(one, &text);
        enum rc rc = store_meta_get(api->o.store, 'c', buf_slice(&text), &found, err);
        if (rc == RC_NOT_FOUND)
            rc = err_set(err, RC_INVALID, 0,
                         "index_template [%.*s] invalid, cause [index template [%.*s] specifies "
                         "component templates [%.*s] that do not exist]",
                         (int)(name.len > 40 ? 40 : name.len), (const char *)name.ptr,
                         (int)(name.len > 40 ? 40 : name.len), (const char *)name.ptr,
                         (int)(text.len > 40 ? 40 : text.len), (const char *)text.ptr);
        buf_done(&text);
        buf_done(&found);
        TRY(rc);
    }
    return RC_OK;
}

/* A composable or component template in the form in which it is kept. */
static enum rc put_composable(struct api *api, const struct kind *kind, struct json_value body,
                              struct slice name, struct buf *out, struct err *err)
{
    struct json_value own = {JSON_END, SLICE_NONE}, value;
    struct slice key;
    bool given = json_find(body, "template", &own) && own.type != JSON_NULL;
    buf_put_byte(out, '{');
    if (kind == &composable) {
        struct json_value patterns = {JSON_END, SLICE_NONE};
        (void)json_find(body, "index_patterns", &patterns);
        TRY(put_patterns(patterns, out, err));
        TRY(check_components(api, body, name, err));
    }
    if (given ? own.type != JSON_OBJECT : kind == &component)
        return err_set(err, RC_INVALID, 0, "[template] must be an object");
    if (given) {
        struct names_body parts = templates_parts(own);
        json_key(out, "template");
        buf_put_byte(out, '{');
        TRY(put_parts(&parts, false, out, err));
        TRY(check_stream(body, own, out, err));
        buf_put_byte(out, '}');
    } else {
        TRY(check_stream(body, own, out, err));
    }
    struct json_scan scan = json_enter(body);
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "template") || json_string_is(key, "index_patterns") ||
            value.type == JSON_NULL)
            continue;
        buf_put_byte(out, ',');
        buf_put_slice(out, key);
        buf_put_byte(out, ':');
        buf_put_slice(out, value.text);
    }
    if (kind == &composable && !json_find(body, "composed_of", &value))
        json_raw(out, "composed_of", SLICE_LIT("[]"));
    buf_put_byte(out, '}');
    return RC_OK;
}

static enum rc normalise(struct api *api, const struct kind *kind, struct json_value body,
                         struct slice name, struct buf *out, struct err *err)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(body);
    while (json_member(&scan, &key, &value)) {
        struct slice plain;
        if (!json_plain(key, &plain) || !listed(kind->keys, plain))
            return err_set(err, RC_INVALID, 0, "unknown key [%.*s] in the template",
                           SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
    }
    TRY(kind == &legacy ? put_legacy(body, out, err)
                        : put_composable(api, kind, body, name, out, err));
    return out->failed ? err_set(err, RC_NOMEM, 0, "out of memory for a template") : RC_OK;
}

/* How much of a text goes into an error. */
static int cut(struct slice text)
{
    return text.len > 32 ? 32 : (int)text.len;
}

/* Another index template of the same priority that matches names which this one matches. */
struct rival {
    struct slice name, text;
    int64_t priority;
    struct err *err;
};

static enum rc check_rival(struct slice name, struct slice value, void *arg)
{
    const struct rival *rival = arg;
    struct json_value theirs = json_root(value), ours = json_root(rival->text), a, b;
    if (slice_eq(name, rival->name) || templates_rank(theirs, "priority") != rival->priority ||
        !json_find(theirs, "index_patterns", &a) || !json_find(ours, "index_patterns", &b) ||
        !templates_overlap(a, b))
        return RC_OK;
    return err_set(rival->err, RC_INVALID, 0,
                   "index template [%.*s] has index patterns %.*s matching patterns from existing "
                   "templates [%.*s] that have the same priority [%lld], multiple index templates "
                   "may not match during index creation, please use a different priority",
                   cut(rival->name), rival->name.ptr, cut(b.text), b.text.ptr, cut(name), name.ptr,
                   (long long)rival->priority);
}

static enum rc store_template(struct api *api, const struct kind *kind, struct slice name,
                              struct slice text, bool create, struct err *err)
{
    struct buf old = {NULL, 0, 0, false};
    struct rival rival = {name, text, templates_rank(json_root(text), "priority"), err};
    registry_lock(api->names);
    enum rc rc = create ? store_meta_get(api->o.store, kind->kind, name, &old, err) : RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = err_set(err, RC_INVALID, 0, "%s [%.*s] already exists", kind->word, SLICE_FMT(name));
    else if (rc == RC_NOT_FOUND)
        rc = kind == &composable
                 ? store_meta_each(api->o.store, kind->kind, check_rival, &rival, err)
                 : RC_OK;
    if (rc == RC_OK)
        rc = store_meta_put(api->o.store, kind->kind, name, text, err);
    registry_unlock(api->names);
    buf_done(&old);
    return rc;
}

static void template_put(struct api_call *call, const struct kind *kind)
{
    struct slice name = call_part(call, "name");
    struct buf text = {NULL, 0, 0, false};
    struct err err = {RC_OK, 0, ""};
    struct json_value body;
    bool create;
    if (!call_bool(call, "create", false, &create) || !names_body_object(call, &body) ||
        !names_untyped(call, &body))
        return;
    enum rc rc = normalise(call->api, kind, body, name, &text, &err);
    if (rc == RC_OK)
        rc = store_template(call->api, kind, name, buf_slice(&text), create, &err);
    buf_done(&text);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        reply_ack(call);
}

/* ---- get */
struct walk {
    struct api_call *call;
    const struct kind *kind;
    struct slice names; /* comma-separated globs; empty: all */
    bool flat;
    struct buf *out;
    size_t found;
};

/* Copy an object with its flat "settings" printed as asked for; also one level down, below
 * "template". */
static enum rc put_shown(struct api_call *call, struct json_value object, bool flat, bool below,
                         struct buf *out, struct err *err)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(object);
    buf_put_byte(out, '{');
    while (json_member(&scan, &key, &value)) {
        if (!below && json_string_is(key, "mappings")) {
            names_put_mapping(call, value.text, out);
            continue;
        }
        if (out->len != 0 && out->ptr[out->len - 1] != '{')
            buf_put_byte(out, ',');
        buf_put_slice(out, key);
        buf_put_byte(out, ':');
        if (json_string_is(key, "settings") && value.type == JSON_OBJECT) {
            struct settings settings = {NULL, 0, 0};
            enum rc rc = settings_read(&settings, value, err);
            settings_print(&settings, flat, SLICE_NONE, out);
            settings_done(&settings);
            TRY(rc);
        } else if (below && json_string_is(key, "template") && value.type == JSON_OBJECT) {
            TRY(put_shown(call, value, flat, false, out, err));
        } else {
            buf_put_slice(out, value.text);
        }
    }
    buf_put_byte(out, '}');
    return RC_OK;
}

static enum rc show_one(struct slice name, struct slice value, void *arg)
{
    struct walk *walk = arg;
    struct buf *out = walk->out;
    enum rc rc;
    if (!names_in_list(walk->names, name))
        return RC_OK;
    if (walk->found++ != 0)
        buf_put_byte(out, ',');
    if (walk->kind->list == NULL) {
        json_quote(name, out);
        buf_put_byte(out, ':');
        return put_shown(walk->call, json_root(value), walk->flat, false, out, NULL);
    }
    buf_put_byte(out, '{');
    json_str(out, "name", name);
    json_key(out, walk->kind->one);
    rc = put_shown(walk->call, json_root(value), walk->flat, true, out, NULL);
    buf_put_byte(out, '}');
    return rc;
}

static void reply_missing(struct api_call *call, const struct kind *kind, struct slice name)
{
    if (kind->list == NULL) { /* as Elasticsearch: nothing found, said by the status */
        BUF_PUT_LIT(reply_json(call, 404), "{}");
        api_finish(call);
    } else {
        reply_error(call, 404, kind->missing, "%s matching [%.*s] not found", kind->word,
                    SLICE_FMT(name));
    }
}

static void template_get(struct api_call *call, const struct kind *kind)
{
    struct slice names = call_part(call, "name");
    struct walk walk = {.call = call, .kind = kind, .names = names};
    struct err err = {RC_OK, 0, ""};
    if (!call_bool(call, "flat_settings", false, &walk.flat))
        return;
    walk.out = reply_json(call, 200);
    buf_put_byte(walk.out, '{');
    if (kind->list != NULL) {
        json_key(walk.out, kind->list);
        buf_put_byte(walk.out, '[');
    }
    enum rc rc = store_meta_each(call->api->o.store, kind->kind, show_one, &walk, &err);
    buf_put_str(walk.out, kind->list != NULL ? "]}" : "}");
    bool one = names.len != 0 && memchr(names.ptr, '*', names.len) == NULL;
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else if (walk.found == 0 && one)
        reply_missing(call, kind, names);
    else
        api_finish(call);
}

/* ---- delete */
/* Names to delete are gathered first, each behind its length: nothing is changed during the walk.
 */
struct doomed {
    struct slice names;
    struct buf list;
};

static enum rc doom_one(struct slice name, struct slice value, void *arg)
{
    struct doomed *doomed = arg;
    (void)value;
    if (names_in_list(doomed->names, name)) {
        buf_put(&doomed->list, &name.len, sizeof name.len);
        buf_put_slice(&doomed->list, name);
    }
    return doomed->list.failed ? RC_NOMEM : RC_OK;
}

/* ---- what keeps a template from being deleted */
struct in_use {
    struct slice names; /* globs to delete */
    struct err *err;
};

/* An index template: is it composed of one of them? */
static enum rc check_composed(struct slice name, struct slice value, void *arg)
{
    const struct in_use *use = arg;
    struct json_value list, one;
    if (!json_find(json_root(value), "composed_of", &list) || list.type != JSON_ARRAY)
        return RC_OK;
    struct json_scan scan = json_enter(list);
    while (json_element(&scan, &one)) {
        struct buf text = {NULL, 0, 0, false};
        json_plain_text(one, &text);
        bool doomed = names_in_list(use->names, buf_slice(&text));
        enum rc rc = doomed
                         ? err_set(use->err, RC_INVALID, 0,
                                   "component templates [%.*s] cannot be removed as they are still "
                                   "in use by index templates [%.*s]",
                                   cut(buf_slice(&text)), text.ptr, cut(name), name.ptr)
                         : RC_OK;
        buf_done(&text);
        TRY(rc);
    }
    return RC_OK;
}

static enum rc check_unused(struct api *api, const struct kind *kind, struct slice names,
                            struct err *err)
{
    struct in_use use = {names, err};
    struct names_view view;
    enum rc rc = RC_OK;
    if (kind == &component)
        return store_meta_each(api->o.store, 'i', check_composed, &use, err);
    if (kind != &composable)
        return RC_OK;
    TRY(names_view_open(api, &view, err));
    for (size_t i = 0, at; rc == RC_OK && i < view.count; i++) {
        struct stream_info stream;
        struct slice template;
        if (!names_view_stream(&view, view.info[i].stream, &at) || at != i)
            continue;
        stream_info_get(view.meta[i], &stream);
        if (json_plain(stream.template, &template) && names_in_list(names, template))
            rc = err_set(err, RC_INVALID, 0,
                         "unable to remove composable templates [%.*s] as they are in use by a "
                         "data streams [%.*s]",
                         cut(template), template.ptr, cut(stream.name), stream.name.ptr);
    }
    names_view_close(&view);
    return rc;
}

static void template_delete(struct api_call *call, const struct kind *kind)
{
    struct slice names = call_part(call, "name");
    struct doomed doomed = {.names = names};
    struct store *store = call->api->o.store;
    struct err err = {RC_OK, 0, ""};
    registry_lock(call->api->names);
    enum rc rc = check_unused(call->api, kind, names, &err);
    if (rc == RC_OK)
        rc = store_meta_each(store, kind->kind, doom_one, &doomed, &err);
    bool one = memchr(names.ptr, '*', names.len) == NULL, none = doomed.list.len == 0;
    for (size_t at = 0, len; rc == RC_OK && at < doomed.list.len; at += len) {
        memcpy(&len, doomed.list.ptr + at, sizeof len);
        at += sizeof len;
        rc = store_meta_delete(store, kind->kind, slice_of(doomed.list.ptr + at, len), &err);
        if (rc == RC_NOT_FOUND) /* somebody else was faster */
            rc = RC_OK;
    }
    registry_unlock(call->api->names);
    buf_done(&doomed.list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else if (none && one)
        reply_error(call, 404, kind->missing, "%s [%.*s] missing", kind->word, SLICE_FMT(names));
    else
        reply_ack(call);
}

/* ---- one handler for each row */
void template_legacy_put(struct api_call *call)
{
    template_put(call, &legacy);
}

void template_legacy_get(struct api_call *call)
{
    template_get(call, &legacy);
}

void template_legacy_delete(struct api_call *call)
{
    template_delete(call, &legacy);
}

void template_index_put(struct api_call *call)
{
    template_put(call, &composable);
}

void template_index_get(struct api_call *call)
{
    template_get(call, &composable);
}

void template_index_delete(struct api_call *call)
{
    template_delete(call, &composable);
}

void template_component_put(struct api_call *call)
{
    template_put(call, &component);
}

void template_component_get(struct api_call *call)
{
    template_get(call, &component);
}

void template_component_delete(struct api_call *call)
{
    template_delete(call, &component);
}
