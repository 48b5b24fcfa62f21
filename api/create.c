/* SPDX-License-Identifier: Apache-2.0 */
/* New indices: of a request, of a first write, of a rollover (names.h, N2 and N3). */
#include "api/create.h"

#include "api/aliases.h"
#include "api/cluster_rules.h"
#include "api/date_math.h"
#include "api/names_view.h"
#include "api/predecessor.h"
#include "api/settings.h"
#include "api/streams.h"

/* ---- bodies */
enum rc names_body_read(struct slice body, struct names_body *out, const char **type_out,
                        struct err *err)
{
    struct json_value none = {JSON_END, SLICE_NONE}, value;
    struct names_body parts = {none, none, none};
    struct json_fault fault;
    enum json_type type;
    struct slice key;
    *type_out = "parse_exception";
    if (body.len != 0 && !json_check(body, &type, &fault)) {
        *type_out = "json_parse_exception";
        return err_set(err, RC_INVALID, 0, "invalid JSON at byte %zu of the body: %s", fault.at,
                       fault.what);
    }
    if (body.len != 0 && type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "the body must be a JSON object");
    struct json_scan scan =
        json_enter(body.len == 0 ? json_root(SLICE_LIT("{}")) : json_root(body));
    while (json_member(&scan, &key, &value)) {
        struct json_value *part = json_string_is(key, "settings")   ? &parts.settings
                                  : json_string_is(key, "mappings") ? &parts.mappings
                                  : json_string_is(key, "aliases")  ? &parts.aliases
                                                                    : NULL;
        struct slice name = slice_of(key.ptr + 1, key.len - 2);
        if (part == NULL)
            return err_set(err, RC_INVALID, 0, "unknown key [%.*s] for create index",
                           SLICE_FMT(name));
        if (value.type != JSON_OBJECT && value.type != JSON_NULL)
            return err_set(err, RC_INVALID, 0, "key [%.*s] must be an object", SLICE_FMT(name));
        *part = value.type == JSON_NULL ? none : value;
    }
    *out = parts;
    return RC_OK;
}

enum rc create_add(struct draft *draft, const struct names_body *body, struct slice index,
                   struct err *err)
{
    struct settings asked = {NULL, 0, 0};
    enum rc rc = RC_OK;
    if (body->settings.type == JSON_OBJECT) {
        TRY_OUT(settings_read(&asked, body->settings, err));
        TRY_OUT(settings_check(&asked, SETTINGS_CREATE, NULL, err));
    }
    rc = draft_add(draft, body, index, err);
out:
    settings_done(&asked);
    return rc;
}

/* ---- names that are taken */
static bool writes_there(struct json_value properties)
{
    struct json_value flag;
    return json_find(properties, "is_write_index", &flag) && flag.type == JSON_TRUE;
}

/* One alias of a new index against one that is there. */
static enum rc check_alias(const struct names_view *view, size_t at, struct slice key,
                           struct json_value value, bool follows, struct err *err)
{
    struct buf name = {NULL, 0, 0, false};
    struct json_value other;
    const char *index = index_name(view->index[at]);
    enum rc rc = RC_OK;
    json_unquote(key, &name);
    if (slice_is(buf_slice(&name), index) || slice_eq(buf_slice(&name), view->info[at].stream))
        rc = err_set(err, RC_INVALID, 0,
                     "Invalid alias name [%.*s]: an index or data stream exists with the same name "
                     "as the alias",
                     SLICE_FMT(buf_slice(&name)));
    else if (!follows && writes_there(value) &&
             names_alias_match(view->meta[at], buf_slice(&name), true, &other) &&
             writes_there(other))
        rc = err_set(err, RC_INVALID, 0, "alias [%.*s] has more than one write index [%s, …]",
                     SLICE_FMT(buf_slice(&name)), index);
    buf_done(&name);
    return rc;
}

enum rc create_check_taken(struct api *api, struct slice name, struct slice aliases, bool follows,
                           struct err *err)
{
    struct names_view view;
    struct slice key;
    struct json_value value, list = json_value_of(aliases);
    enum rc rc = RC_OK;
    TRY(names_view_open(api, &view, err));
    for (size_t i = 0; rc == RC_OK && i < view.count; i++) {
        if (slice_is(name, index_name(view.index[i])))
            rc = err_set(err, RC_EXISTS, 0, "index [%.*s/%s] already exists", SLICE_FMT(name),
                         index_uuid(view.index[i]));
        else if (slice_eq(view.info[i].stream, name))
            rc = err_set(err, RC_EXISTS, 0, "data_stream [%.*s] already exists", SLICE_FMT(name));
        else if (names_alias_match(view.meta[i], name, true, NULL))
            rc = err_set(err, RC_INVALID, 0, "Invalid index name [%.*s], already exists as alias",
                         SLICE_FMT(name));
        struct json_scan scan = json_enter(list);
        while (rc == RC_OK && list.type == JSON_OBJECT && json_member(&scan, &key, &value))
            rc = check_alias(&view, i, key, value, follows, err);
    }
    names_view_close(&view);
    return rc;
}

/* ---- making */
enum rc create_locked(struct api *api, const struct creation *creation, const struct draft *draft,
                      struct index **out, struct err *err)
{
    struct buf settings = {NULL, 0, 0, false};
    struct index_create request = {.name = creation->name};
    enum rc rc;
    TRY_OUT(settings_resolve(&draft->settings, &request.spec, err));
    settings_print(&draft->settings, true, SLICE_NONE, &settings);
    if (settings.failed || draft->mappings.failed || draft->aliases.failed)
        TRY_OUT(err_set(err, RC_NOMEM, 0, "out of memory for a new index"));
    request.meta = (struct index_meta){
        .settings = buf_slice(&settings),
        .mappings = draft->mappings.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft->mappings),
        .aliases = draft->aliases.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft->aliases),
        .extra = creation->extra.len == 0 ? SLICE_LIT("{}") : creation->extra,
    };
    TRY_OUT(create_check_taken(api, creation->name, request.meta.aliases, creation->follows, err));
    request.predecessor =
        predecessor_find(api, creation->stream.len != 0 ? creation->stream : creation->name,
                         buf_slice(&draft->from), &request.spec, creation->rolled);
    rc = store_index_create(api->o.store, &request, out, err);
    index_release(request.predecessor);
out:
    buf_done(&settings);
    return rc;
}

/* A name that makes data streams makes no index. */
static enum rc refuse_stream(const struct draft *draft, struct slice name, struct err *err)
{
    if (!draft->stream)
        return RC_OK;
    return err_set(err, RC_INVALID, 0,
                   "cannot create index with name [%.*s], because it matches with template [%.*s] "
                   "that creates data streams only, use create data stream api instead",
                   (int)(name.len > 60 ? 60 : name.len), (const char *)name.ptr,
                   (int)(draft->template.len > 40 ? 40 : draft->template.len),
                   (const char *)draft->template.ptr);
}

/* sent: the name as the request gave it, perhaps with date math. */
static enum rc finish(struct api *api, struct slice sent, const struct creation *creation,
                      struct draft *draft, struct index **out, struct err *err)
{
    if (!slice_eq(sent, creation->name))
        TRY(settings_set(&draft->settings, "index.provided_name", sent, err));
    return create_locked(api, creation, draft, out, err);
}

enum rc names_create(struct api *api, struct slice name, struct slice body, struct index **out,
                     struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct buf real = {NULL, 0, 0, false};
    struct creation creation = {.follows = false};
    struct names_body parts;
    const char *type;
    enum rc rc;
    TRY_OUT(date_math_resolve(name, clock_ms(), &real, err));
    creation.name = buf_slice(&real);
    TRY_OUT(names_check(creation.name, err));
    TRY_OUT(names_body_read(body, &parts, &type, err));
    TRY_OUT(templates_apply(api, creation.name, &draft, err));
    TRY_OUT(refuse_stream(&draft, creation.name, err));
    TRY_OUT(create_add(&draft, &parts, creation.name, err));
    registry_lock(api->names);
    rc = finish(api, name, &creation, &draft, out, err);
    registry_unlock(api->names);
out:
    draft_done(&draft);
    buf_done(&real);
    return rc;
}

enum rc names_create_locked(struct api *api, struct slice name, const struct names_body *body,
                            struct slice aliases, struct index *rolled, struct index **out,
                            struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct buf real = {NULL, 0, 0, false};
    struct creation creation = {.follows = true, .rolled = rolled};
    struct slice key;
    struct json_value value;
    enum rc rc;
    TRY_OUT(date_math_resolve(name, clock_ms(), &real, err));
    creation.name = buf_slice(&real);
    TRY_OUT(names_check(creation.name, err));
    TRY_OUT(templates_apply(api, creation.name, &draft, err));
    TRY_OUT(refuse_stream(&draft, creation.name, err));
    TRY_OUT(create_add(&draft, body, creation.name, err));
    struct json_scan scan = json_enter(json_root(aliases));
    while (json_member(&scan, &key, &value))
        json_put(&draft.aliases, key, value.text);
    rc = finish(api, name, &creation, &draft, out, err);
out:
    draft_done(&draft);
    buf_done(&real);
    return rc;
}

enum rc names_autocreate(struct api *api, struct slice name, bool append, struct index **out,
                         bool *stream_out, struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct creation creation = {.name = name};
    enum rc rc;
    TRY_OUT(names_check(name, err));
    TRY_OUT(rules_auto_create(api, name, err));
    TRY_OUT(templates_apply(api, name, &draft, err));
    *stream_out = draft.stream;
    if (draft.stream && append) {
        rc = stream_create(api, name, &draft, out, err);
    } else if (draft.stream) {
        rc = err_set(err, RC_INVALID, 0,
                     "only write ops with an op_type of create are allowed in data streams");
    } else {
        registry_lock(api->names);
        rc = create_locked(api, &creation, &draft, out, err);
        registry_unlock(api->names);
    }
out:
    draft_done(&draft);
    return rc;
}

bool names_makes_stream(struct api *api, struct slice name)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    bool stream = templates_apply(api, name, &draft, NULL) == RC_OK && draft.stream;
    draft_done(&draft);
    return stream;
}
