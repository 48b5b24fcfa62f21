/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"

#include "api/aliases.h"
#include "api/date_math.h"
#include "api/mapping.h"
#include "api/settings.h"
#include "api/templates.h"
#include "config/limits.h"

#include <stdlib.h>

/* ---- one name */
/* Has the text an upper-case letter? ASCII and the two-byte letters of Latin-1, Greek and Cyrillic;
 * other scripts with case are let through. */
static bool has_upper(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned c = name.ptr[i];
        if (c >= 'A' && c <= 'Z')
            return true;
        if (c < 0xc3 || c > 0xd0 || i + 1 == name.len)
            continue;
        unsigned u = (c & 0x1f) << 6 | (name.ptr[i + 1] & 0x3f);
        if ((u >= 0xc0 && u <= 0xde && u != 0xd7) || (u >= 0x391 && u <= 0x3a9) ||
            (u >= 0x400 && u <= 0x42f))
            return true;
    }
    return false;
}

/* The first rule that a name of an index or alias breaks, in Elasticsearch's order; NULL: none. */
static const char *name_fault(struct slice name)
{
    if (name.len == 0)
        return "must not be empty";
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] < 0x20 || name.ptr[i] == 0x7f ||
            strchr(" \"*\\<|,>/?", name.ptr[i]) != NULL)
            return "must not contain the following characters "
                   "[ , \", *, \\, <, |, ,, >, /, ?] or control characters";
    if (memchr(name.ptr, '#', name.len) != NULL)
        return "must not contain '#'";
    if (memchr(name.ptr, ':', name.len) != NULL)
        return "must not contain ':'";
    if (strchr("_-+", name.ptr[0]) != NULL)
        return "must not start with '_', '-', or '+'";
    if (name.len > LIMIT_INDEX_NAME_BYTES)
        return "index name is too long, (more than 255 bytes)";
    if (slice_is(name, ".") || slice_is(name, ".."))
        return "must not be '.' or '..'";
    return NULL;
}

enum rc names_check(struct slice name, struct err *err)
{
    const char *fault = name_fault(name);
    if (fault == NULL && has_upper(name))
        fault = "must be lowercase";
    return fault == NULL
               ? RC_OK
               : err_set(err, RC_INVALID, 0, "Invalid index name [%.*s], %s",
                         (int)(name.len > 100 ? 100 : name.len), (const char *)name.ptr, fault);
}

enum rc aliases_check_name(struct slice name, struct err *err)
{
    const char *fault = name_fault(name);
    return fault == NULL
               ? RC_OK
               : err_set(err, RC_INVALID, 0, "Invalid alias name [%.*s]: %s",
                         (int)(name.len > 100 ? 100 : name.len), (const char *)name.ptr, fault);
}

bool names_match(struct slice pattern, struct slice name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, mark = 0;
    while (n < name.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = p++;
            mark = n;
        } else if (p < pattern.len && pattern.ptr[p] == name.ptr[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

static struct slice name_of(const struct index *index)
{
    return slice_of(index_name(index), index_name_len(index));
}

/* ---- metadata */
static bool setting_u64(struct json_value settings, const char *key, uint64_t *out)
{
    struct json_value value;
    struct slice text;
    return json_find(settings, key, &value) && value.type == JSON_STRING &&
           json_plain(value.text, &text) && json_u64(text, out);
}

void names_info_get(const struct index_meta *meta, struct names_info *out)
{
    struct json_value settings = json_value_of(meta->settings), value;
    *out = (struct names_info){.shards = 1};
    (void)setting_u64(settings, "index.number_of_shards", &out->shards);
    (void)setting_u64(settings, "index.number_of_replicas", &out->replicas);
    out->hidden = json_find(settings, "index.hidden", &value) && slice_is(value.text, "\"true\"");
    out->closed =
        json_find(json_value_of(meta->extra), "state", &value) && slice_is(value.text, "\"close\"");
}

static bool is_true(struct json_value object, const char *key)
{
    struct json_value value;
    return json_find(object, key, &value) && value.type == JSON_TRUE;
}

/* ---- one consistent view (N1) */
struct view {
    struct index **index;
    const struct index_meta **meta;
    struct names_info *info;
    bool *chosen;
    size_t count;
};

static void view_close(struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        if (view->meta != NULL && view->meta[i] != NULL)
            index_meta_release(view->meta[i]);
        index_release(view->index[i]);
    }
    free(view->index);
    free(view->meta);
    free(view->info);
    free(view->chosen);
    *view = (struct view){NULL, NULL, NULL, NULL, 0};
}

static enum rc view_open(struct api *api, struct view *view, struct err *err)
{
    *view = (struct view){NULL, NULL, NULL, NULL, 0};
    TRY(store_index_list(api->o.store, &view->index, &view->count, err));
    view->meta = calloc(view->count + 1, sizeof *view->meta);
    view->info = calloc(view->count + 1, sizeof *view->info);
    view->chosen = calloc(view->count + 1, sizeof *view->chosen);
    if (view->meta == NULL || view->info == NULL || view->chosen == NULL) {
        view_close(view);
        return err_set(err, RC_NOMEM, 0, "out of memory for a list of indices");
    }
    for (size_t i = 0; i < view->count; i++) {
        view->meta[i] = index_meta_acquire(view->index[i]);
        names_info_get(view->meta[i], &view->info[i]);
    }
    return RC_OK;
}

/* Does an alias of this metadata match the glob? Gives its properties. */
static bool alias_match(const struct index_meta *meta, struct slice glob, bool with_hidden,
                        struct json_value *properties_out)
{
    struct slice key;
    struct json_value value, aliases = json_value_of(meta->aliases);
    bool found = false;
    if (aliases.type != JSON_OBJECT)
        return false;
    struct json_scan scan = json_enter(aliases);
    while (!found && json_member(&scan, &key, &value)) {
        struct buf name = {NULL, 0, 0, false};
        json_unquote(key, &name);
        bool dots = glob.len != 0 && glob.ptr[0] == '.' && name.len != 0 && name.ptr[0] == '.';
        found = names_match(glob, buf_slice(&name)) &&
                (with_hidden || dots || !is_true(value, "is_hidden"));
        buf_done(&name);
    }
    if (found && properties_out != NULL)
        *properties_out = value;
    return found;
}

/* ---- expressions */
static bool state_wanted(const struct view *view, size_t i, unsigned expand)
{
    return (expand & (view->info[i].closed ? EXPAND_CLOSED : EXPAND_OPEN)) != 0;
}

/* Set chosen to `to` for what a wildcard names; how many it named. */
static size_t choose_wildcard(struct view *view, struct slice glob,
                              const struct names_options *options, bool to)
{
    size_t named = 0;
    bool hidden = (options->expand & EXPAND_HIDDEN) != 0 || !to;
    for (size_t i = 0; i < view->count; i++) {
        struct slice name = name_of(view->index[i]);
        bool dots = glob.ptr[0] == '.' && name.ptr[0] == '.';
        bool match = names_match(glob, name) && (hidden || dots || !view->info[i].hidden);
        if (!match && !options->forbid_aliases)
            match = alias_match(view->meta[i], glob, hidden, NULL) && glob.len > 1;
        if (match && (!to || state_wanted(view, i, options->expand))) {
            view->chosen[i] = to;
            named++;
        }
    }
    return named;
}

static enum rc choose_name(struct view *view, struct slice name,
                           const struct names_options *options, size_t *named_out, struct err *err)
{
    *named_out = 0;
    if (name.len != 0 && name.ptr[0] == '_')
        return err_set(err, RC_INVALID, 0, "Invalid index name [%.*s], must not start with '_'.",
                       SLICE_FMT(name));
    for (size_t i = 0; i < view->count; i++) {
        bool self = slice_eq(name_of(view->index[i]), name);
        if (self || alias_match(view->meta[i], name, true, NULL)) {
            if (!self && options->forbid_aliases && options->ignore_unavailable)
                continue;
            if (!self && options->forbid_aliases)
                return err_set(err, RC_INVALID, 0,
                               "The provided expression [%.*s] matches an alias, specify the "
                               "corresponding concrete indices instead.",
                               SLICE_FMT(name));
            view->chosen[i] = true;
            ++*named_out;
        }
    }
    return RC_OK;
}

static enum rc choose_token(struct view *view, struct slice token, bool *wildcard_seen,
                            const struct names_options *options, struct err *err)
{
    struct buf name = {NULL, 0, 0, false};
    size_t named = 0;
    enum rc rc = RC_OK;
    bool exclude = token.ptr[0] == '-' && *wildcard_seen;
    struct slice glob = exclude ? slice_of(token.ptr + 1, token.len - 1) : token;
    if (slice_is(glob, "_all"))
        glob = SLICE_LIT("*");
    if (glob.len == 0)
        return RC_OK;
    if (exclude) {
        (void)choose_wildcard(view, glob, options, false);
    } else if (memchr(glob.ptr, '*', glob.len) != NULL) {
        *wildcard_seen = true;
        if (choose_wildcard(view, glob, options, true) == 0 && !options->allow_no_indices)
            rc = RC_NOT_FOUND;
    } else {
        TRY_OUT(date_math_resolve(glob, clock_ms(), &name, err));
        TRY_OUT(choose_name(view, buf_slice(&name), options, &named, err));
        if (named == 0 && !options->ignore_unavailable)
            rc = RC_NOT_FOUND;
    }
out:
    buf_done(&name);
    return rc;
}

static enum rc choose(struct view *view, struct slice expression,
                      const struct names_options *options, struct slice *missing_out,
                      struct err *err)
{
    bool wildcard_seen = false, any = false;
    if (expression.len == 0)
        expression = SLICE_LIT("_all");
    for (size_t at = 0; at < expression.len;) {
        const uint8_t *comma = memchr(expression.ptr + at, ',', expression.len - at);
        size_t end = comma == NULL ? expression.len : (size_t)(comma - expression.ptr);
        size_t from = at, to = end;
        while (from < to && expression.ptr[from] == ' ')
            from++;
        while (from < to && expression.ptr[to - 1] == ' ')
            to--;
        struct slice token = slice_of(expression.ptr + from, to - from);
        at = end + 1;
        if (token.len == 0)
            continue;
        enum rc rc = choose_token(view, token, &wildcard_seen, options, err);
        if (rc == RC_NOT_FOUND)
            *missing_out = token;
        TRY(rc);
    }
    for (size_t i = 0; i < view->count; i++)
        any = any || view->chosen[i];
    if (!any && !options->allow_no_indices) {
        *missing_out = expression;
        return RC_NOT_FOUND;
    }
    return RC_OK;
}

enum rc names_resolve(struct api *api, struct slice expression, const struct names_options *options,
                      struct names_list *out, struct slice *missing_out, struct err *err)
{
    struct view view;
    TRY(view_open(api, &view, err));
    enum rc rc = choose(&view, expression, options, missing_out, err);
    if (rc == RC_OK) {
        size_t count = 0;
        struct index **list = calloc(view.count + 1, sizeof *list);
        for (size_t i = 0; list != NULL && i < view.count; i++)
            if (view.chosen[i])
                list[count++] = index_retain(view.index[i]);
        if (list == NULL)
            rc = err_set(err, RC_NOMEM, 0, "out of memory for a list of indices");
        else
            *out = (struct names_list){list, count};
    }
    view_close(&view);
    return rc;
}

void names_list_done(struct names_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        index_release(list->index[i]);
    free(list->index);
    *list = (struct names_list){NULL, 0};
}

static bool expand_read(struct slice list, unsigned *expand_out)
{
    static const struct {
        const char *word;
        unsigned expand;
    } words[] = {{"open", EXPAND_OPEN},
                 {"closed", EXPAND_CLOSED},
                 {"hidden", EXPAND_HIDDEN},
                 {"none", 0},
                 {"all", EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN}};
    unsigned expand = 0;
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr), w = 0;
        while (w < ARRAY_LEN(words) && !slice_is(slice_of(list.ptr + at, end - at), words[w].word))
            w++;
        if (w == ARRAY_LEN(words))
            return false;
        expand = words[w].expand == 0 ? 0 : expand | words[w].expand;
        at = end + 1;
    }
    *expand_out = expand;
    return true;
}

bool names_options_read(struct api_call *call, struct names_options *options)
{
    struct slice expand = call_param(call, "expand_wildcards");
    if (!call_bool(call, "ignore_unavailable", options->ignore_unavailable,
                   &options->ignore_unavailable) ||
        !call_bool(call, "allow_no_indices", options->allow_no_indices, &options->allow_no_indices))
        return false;
    if (expand.len != 0 && !expand_read(expand, &options->expand)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "No valid expand wildcard value [%.*s]", SLICE_FMT(expand));
        return false;
    }
    return true;
}

/* ---- targets of single documents */
static enum rc pick_write_index(const struct view *view, struct slice name, size_t hits, size_t *at,
                                struct err *err)
{
    struct json_value properties, flag;
    for (size_t i = 0; i < view->count; i++) {
        if (!view->chosen[i] || !alias_match(view->meta[i], name, true, &properties))
            continue;
        bool given = json_find(properties, "is_write_index", &flag) && flag.type != JSON_NULL;
        if (given ? flag.type == JSON_TRUE : hits == 1) {
            *at = i;
            return RC_OK;
        }
    }
    return err_set(err, RC_INVALID, 0,
                   "no write index is defined for alias [%.*s]. The write index may be explicitly "
                   "disabled using is_write_index=false or the alias points to multiple indices "
                   "without one being designated as a write index",
                   (int)(name.len > 40 ? 40 : name.len), (const char *)name.ptr);
}

static enum rc many_indices(const struct view *view, struct slice name, struct err *err)
{
    char list[120];
    size_t n = 0;
    for (size_t i = 0; i < view->count && n < sizeof list; i++)
        if (view->chosen[i])
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n == 0 ? "" : ", ",
                                  index_name(view->index[i]));
    return err_set(err, RC_INVALID, 0,
                   "alias [%.*s] has more than one index associated with it [%s], can't execute a "
                   "single index op",
                   (int)(name.len > 40 ? 40 : name.len), (const char *)name.ptr, list);
}

static enum rc target_alias(struct api *api, struct slice name, enum names_need need,
                            struct index **out, struct err *err)
{
    struct view view;
    struct names_options options = {.expand = EXPAND_OPEN};
    size_t hits = 0, at = 0;
    enum rc rc;
    TRY(view_open(api, &view, err));
    TRY_OUT(choose_name(&view, name, &options, &hits, err));
    rc = hits == 0 ? RC_NOT_FOUND : RC_OK;
    if (hits != 0 && need != NAMES_READ)
        rc = pick_write_index(&view, name, hits, &at, err);
    else if (hits > 1)
        rc = many_indices(&view, name, err);
    while (rc == RC_OK && need == NAMES_READ && !view.chosen[at])
        at++;
    if (rc == RC_OK)
        *out = index_retain(view.index[at]);
out:
    view_close(&view);
    return rc;
}

static enum rc check_open(struct index *index, struct err *err)
{
    const struct index_meta *meta = index_meta_acquire(index);
    struct names_info info;
    enum rc rc = RC_OK;
    /* Nearly always there is nothing in `extra`: then there is nothing to scan. */
    if (meta->extra.len > 2) {
        names_info_get(meta, &info);
        if (info.closed)
            rc = err_set(err, RC_INVALID, 0, "index [%s] is closed", index_name(index));
    }
    index_meta_release(meta);
    return rc;
}

enum rc names_target(struct api *api, struct slice name, enum names_need need, bool require_alias,
                     struct names_target *out, struct err *err)
{
    struct buf real = {NULL, 0, 0, false};
    struct index *index = NULL;
    bool is_alias = false;
    enum rc rc;
    TRY_OUT(date_math_resolve(name, clock_ms(), &real, err));
    rc = store_index_acquire(api->o.store, buf_slice(&real), &index);
    if (rc == RC_NOT_FOUND) {
        rc = target_alias(api, buf_slice(&real), need, &index, err);
        is_alias = rc == RC_OK;
    }
    if (require_alias && !is_alias && (rc == RC_OK || rc == RC_NOT_FOUND)) {
        rc = err_set(err, RC_NOT_FOUND, 0,
                     "[require_alias] request flag is [true] and [%.*s] is not an alias",
                     SLICE_FMT(name));
        goto out;
    }
    if (rc == RC_NOT_FOUND && need == NAMES_WRITE_CREATE) {
        rc = names_create(api, buf_slice(&real), SLICE_NONE, &index, err);
        if (rc == RC_EXISTS) { /* N2: somebody else was faster */
            if (err != NULL)
                err->rc = RC_OK;
            rc = store_index_acquire(api->o.store, buf_slice(&real), &index);
        }
    }
    TRY_OUT(rc);
    TRY_OUT(check_open(index, err));
    *out = (struct names_target){index, is_alias};
    index = NULL;
out:
    index_release(index);
    buf_done(&real);
    return rc;
}

/* ---- creation */
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

/* Under the naming lock: an index and an alias never share a name. */
static enum rc check_taken(struct api *api, struct slice name, struct slice aliases,
                           struct err *err)
{
    struct view view;
    struct slice key;
    struct json_value value, list = json_value_of(aliases);
    enum rc rc = RC_OK;
    TRY(view_open(api, &view, err));
    for (size_t i = 0; rc == RC_OK && i < view.count; i++) {
        struct slice other = name_of(view.index[i]);
        if (slice_eq(other, name))
            rc = err_set(err, RC_EXISTS, 0, "index [%.*s/%s] already exists", SLICE_FMT(name),
                         index_uuid(view.index[i]));
        else if (alias_match(view.meta[i], name, true, NULL))
            rc = err_set(err, RC_INVALID, 0, "Invalid index name [%.*s], already exists as alias",
                         SLICE_FMT(name));
        struct json_scan scan = json_enter(list);
        while (rc == RC_OK && list.type == JSON_OBJECT && json_member(&scan, &key, &value))
            if (json_string_is(key, index_name(view.index[i])))
                rc = err_set(err, RC_INVALID, 0,
                             "Invalid alias name [%.*s]: an index or data stream exists with the "
                             "same name as the alias",
                             SLICE_FMT(other));
    }
    view_close(&view);
    return rc;
}

static enum rc create(struct api *api, struct slice name, const struct draft *draft,
                      struct index **out, struct err *err)
{
    struct buf settings = {NULL, 0, 0, false};
    struct index_create request = {.name = name};
    enum rc rc;
    TRY_OUT(settings_resolve(&draft->settings, &request.spec, err));
    settings_print(&draft->settings, true, SLICE_NONE, &settings);
    if (settings.failed || draft->mappings.failed || draft->aliases.failed)
        TRY_OUT(err_set(err, RC_NOMEM, 0, "out of memory for a new index"));
    request.meta = (struct index_meta){
        .settings = buf_slice(&settings),
        .mappings = draft->mappings.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft->mappings),
        .aliases = draft->aliases.len == 0 ? SLICE_LIT("{}") : buf_slice(&draft->aliases),
        .extra = SLICE_LIT("{}"),
    };
    registry_lock(api->names);
    rc = check_taken(api, name, request.meta.aliases, err);
    if (rc == RC_OK)
        rc = store_index_create(api->o.store, &request, out, err);
    registry_unlock(api->names);
out:
    buf_done(&settings);
    return rc;
}

enum rc names_create(struct api *api, struct slice name, struct slice body, struct index **out,
                     struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct settings asked = {NULL, 0, 0};
    struct buf real = {NULL, 0, 0, false};
    struct names_body parts;
    const char *type;
    enum rc rc;
    TRY_OUT(date_math_resolve(name, clock_ms(), &real, err));
    TRY_OUT(names_check(buf_slice(&real), err));
    TRY_OUT(names_body_read(body, &parts, &type, err));
    TRY_OUT(templates_apply(api, buf_slice(&real), &draft, err));
    if (parts.settings.type == JSON_OBJECT) {
        TRY_OUT(settings_read(&asked, parts.settings, err));
        TRY_OUT(settings_check(&asked, SETTINGS_CREATE, NULL, err));
    }
    TRY_OUT(draft_add(&draft, &parts, buf_slice(&real), err));
    if (!slice_eq(name, buf_slice(&real)))
        TRY_OUT(settings_set(&draft.settings, "index.provided_name", name, err));
    rc = create(api, buf_slice(&real), &draft, out, err);
out:
    settings_done(&asked);
    draft_done(&draft);
    buf_done(&real);
    return rc;
}

const char *names_error_type(const struct api *api, enum rc rc, const struct err *err)
{
    if (rc == RC_EXISTS)
        return "resource_already_exists_exception";
    if (rc == RC_NOT_FOUND)
        return "index_not_found_exception";
    if (rc == RC_INVALID && strncmp(err->msg, "Invalid index name", 18) == 0)
        return "invalid_index_name_exception";
    if (rc == RC_INVALID && strncmp(err->msg, "Invalid alias name", 18) == 0)
        return "invalid_alias_name_exception";
    if (rc == RC_INVALID && strncmp(err->msg, "index [", 7) == 0)
        return "index_closed_exception";
    return error_type(api, rc);
}

void names_reply_error(struct api_call *call, struct slice name, enum rc rc, const struct err *err)
{
    struct buf members = {NULL, 0, 0, false};
    if (rc == RC_NOT_FOUND && err->rc == RC_OK) {
        reply_no_index(call, name);
        return;
    }
    if (rc != RC_INVALID && rc != RC_EXISTS && rc != RC_NOT_FOUND) {
        reply_rc(call, rc, err);
        return;
    }
    const char *type = names_error_type(call->api, rc, err);
    int status = rc == RC_NOT_FOUND ? 404 : 400;
    const char *uuid = strchr(err->msg, '/'), *end = uuid == NULL ? NULL : strchr(uuid, ']');
    if (strcmp(type, "illegal_argument_exception") != 0) {
        BUF_PUT_LIT(&members, "\"index\":");
        json_quote(name, &members);
        if (rc == RC_EXISTS && end != NULL)
            buf_printf(&members, ",\"index_uuid\":\"%.*s\"", (int)(end - uuid - 1), uuid + 1);
        else
            BUF_PUT_LIT(&members, ",\"index_uuid\":\"_na_\"");
    }
    reply_error_with(call, status, type, buf_slice(&members), "%s", err->msg);
    buf_done(&members);
}

/* ---- for handlers */
bool names_resolve_or_reply(struct api_call *call, struct names_options *options,
                            struct names_list *out)
{
    struct err err = {RC_OK, 0, ""};
    struct slice missing = SLICE_NONE;
    if (!names_options_read(call, options))
        return false;
    enum rc rc = names_resolve(call->api, call_part(call, "index"), options, out, &missing, &err);
    if (rc == RC_NOT_FOUND)
        reply_no_index(call, missing);
    else if (rc != RC_OK)
        names_reply_error(call, call_part(call, "index"), rc, &err);
    return rc == RC_OK;
}

bool names_body_object(struct api_call *call, struct json_value *out)
{
    struct json_fault fault;
    enum json_type type;
    struct slice body = buf_slice(&call->body);
    if (body.len == 0) {
        reply_error(call, 400, "parse_exception", "request body is required");
        return false;
    }
    if (!json_check(body, &type, &fault)) {
        reply_error(call, 400, "json_parse_exception", "invalid JSON at byte %zu of the body: %s",
                    fault.at, fault.what);
        return false;
    }
    if (type != JSON_OBJECT) {
        reply_error(call, 400, "parse_exception", "the body must be a JSON object");
        return false;
    }
    *out = json_root(body);
    return true;
}

enum rc names_change_meta(struct api *api, struct index *index,
                          enum rc (*fn)(struct index_meta *meta, void *arg, struct buf *scratch,
                                        struct err *err),
                          void *arg, struct err *err)
{
    enum rc rc;
    do {
        struct buf scratch = {NULL, 0, 0, false};
        const struct index_meta *now = index_meta_acquire(index);
        struct index_meta next = *now;
        rc = fn(&next, arg, &scratch, err);
        if (rc == RC_OK && scratch.failed)
            rc = err_set(err, RC_NOMEM, 0, "out of memory for metadata");
        if (rc == RC_OK)
            rc = store_index_set_meta(api->o.store, index, &next, now->revision, err);
        if (rc == RC_CONFLICT && err != NULL)
            err->rc = RC_OK;
        index_meta_release(now);
        buf_done(&scratch);
    } while (rc == RC_CONFLICT);
    return rc;
}
