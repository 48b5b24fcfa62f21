/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"

#include "api/access.h"

#include "api/aliases.h"
#include "api/date_math.h"
#include "api/names_view.h"
#include "api/settings.h"
#include "api/streams.h"
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

bool names_in_list(struct slice list, struct slice name)
{
    if (list.len == 0)
        return true;
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice one = slice_of(list.ptr + at, end - at);
        if (slice_is(one, "_all") || names_match(one, name))
            return true;
        at = end + 1;
    }
    return false;
}

static struct slice name_of(const struct index *index)
{
    return slice_of(index_name(index), index_name_len(index));
}

/* ---- metadata */
static void read_setting(struct slice key, struct json_value value, struct names_info *out)
{
    static const struct {
        const char *key;
        unsigned block;
    } blocks[] = {{"index.blocks.write", BLOCK_WRITE},
                  {"index.blocks.read_only", BLOCK_READ_ONLY},
                  {"index.blocks.read_only_allow_delete", BLOCK_READ_ONLY_ALLOW_DELETE},
                  {"index.blocks.read", BLOCK_READ},
                  {"index.blocks.metadata", BLOCK_METADATA}};
    struct slice text;
    if (value.type != JSON_STRING || !json_plain(value.text, &text))
        return;
    if (json_string_is(key, "index.number_of_shards"))
        (void)json_u64(text, &out->shards);
    else if (json_string_is(key, "index.number_of_replicas"))
        (void)json_u64(text, &out->replicas);
    else if (json_string_is(key, "index.hidden"))
        out->hidden = slice_is(text, "true");
    else if (json_string_is(key, "index.default_pipeline"))
        out->pipelines[0] = text;
    else if (json_string_is(key, "index.final_pipeline"))
        out->pipelines[1] = text;
    for (size_t i = 0; i < ARRAY_LEN(blocks) && slice_is(text, "true"); i++)
        if (json_string_is(key, blocks[i].key))
            out->blocks |= blocks[i].block;
}

void names_info_get(const struct index_meta *meta, struct names_info *out)
{
    struct json_value settings = json_value_of(meta->settings), value;
    struct stream_info stream;
    struct slice key;
    *out = (struct names_info){.shards = 1};
    struct json_scan scan = json_enter(settings);
    while (settings.type == JSON_OBJECT && json_member(&scan, &key, &value))
        read_setting(key, value, out);
    if (meta->extra.len <= 2) /* nearly always there is nothing in it */
        return;
    out->closed =
        json_find(json_value_of(meta->extra), "state", &value) && slice_is(value.text, "\"close\"");
    stream_info_get(meta, &stream);
    out->stream = stream.name;
    out->generation = stream.generation;
    out->stream_hidden = stream.hidden;
}

static bool is_true(struct json_value object, const char *key)
{
    struct json_value value;
    return json_find(object, key, &value) && value.type == JSON_TRUE;
}

/* ---- one consistent view (N1) */
void names_view_close(struct names_view *view)
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
    *view = (struct names_view){NULL, NULL, NULL, NULL, 0};
}

enum rc names_view_open(struct api *api, struct names_view *view, struct err *err)
{
    *view = (struct names_view){NULL, NULL, NULL, NULL, 0};
    TRY(store_index_list(api->o.store, &view->index, &view->count, err));
    view->meta = calloc(view->count + 1, sizeof *view->meta);
    view->info = calloc(view->count + 1, sizeof *view->info);
    view->chosen = calloc(view->count + 1, sizeof *view->chosen);
    if (view->meta == NULL || view->info == NULL || view->chosen == NULL) {
        names_view_close(view);
        return err_set(err, RC_NOMEM, 0, "out of memory for a list of indices");
    }
    for (size_t i = 0; i < view->count; i++) {
        view->meta[i] = index_meta_acquire(view->index[i]);
        names_info_get(view->meta[i], &view->info[i]);
    }
    return RC_OK;
}

bool names_view_stream(const struct names_view *view, struct slice stream, size_t *at_out)
{
    bool found = false;
    for (size_t i = 0; stream.len != 0 && i < view->count; i++) {
        if (!slice_eq(view->info[i].stream, stream) ||
            (found && view->info[i].generation < view->info[*at_out].generation))
            continue;
        found = true;
        *at_out = i;
    }
    return found;
}

bool names_alias_match(const struct index_meta *meta, struct slice glob, bool with_hidden,
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
static bool state_wanted(const struct names_view *view, size_t i, unsigned expand)
{
    return (expand & (view->info[i].closed ? EXPAND_CLOSED : EXPAND_OPEN)) != 0;
}

/* Does the glob match the data stream that an index belongs to? */
static bool stream_match(const struct names_info *info, struct slice glob, bool hidden)
{
    if (info->stream.len == 0)
        return false;
    bool dots = glob.ptr[0] == '.' && info->stream.ptr[0] == '.';
    return names_match(glob, info->stream) && (hidden || dots || !info->stream_hidden);
}

/* May the caller see index i by itself, by its data stream, or by an alias that the glob names? */
static bool may_see(const struct names_view *view, size_t i, struct slice glob,
                    const struct names_options *options)
{
    struct json_value value, aliases = json_value_of(view->meta[i]->aliases);
    struct slice key, stream = view->info[i].stream;
    if (options->needs == 0 ||
        access_may(options->caller, name_of(view->index[i]), options->needs) ||
        (stream.len != 0 && access_may(options->caller, stream, options->needs)))
        return true;
    if (aliases.type != JSON_OBJECT || options->forbid_aliases)
        return false;
    bool may = false;
    struct json_scan scan = json_enter(aliases);
    while (!may && json_member(&scan, &key, &value)) {
        struct buf name = {NULL, 0, 0, false};
        json_unquote(key, &name);
        may = names_match(glob, buf_slice(&name)) &&
              access_may(options->caller, buf_slice(&name), options->needs);
        buf_done(&name);
    }
    return may;
}

/* Set chosen to `to` for what a wildcard names; how many it named. */
static size_t choose_wildcard(struct names_view *view, struct slice glob,
                              const struct names_options *options, bool to)
{
    size_t named = 0;
    bool hidden = (options->expand & EXPAND_HIDDEN) != 0 || !to;
    for (size_t i = 0; i < view->count; i++) {
        struct slice name = name_of(view->index[i]);
        bool dots = glob.ptr[0] == '.' && name.ptr[0] == '.';
        bool match = names_match(glob, name) && (hidden || dots || !view->info[i].hidden);
        if (!match && !options->forbid_aliases)
            match = stream_match(&view->info[i], glob, hidden) ||
                    (names_alias_match(view->meta[i], glob, hidden, NULL) && glob.len > 1);
        if (match &&
            (!to || (state_wanted(view, i, options->expand) && may_see(view, i, glob, options)))) {
            view->chosen[i] = to;
            named++;
        }
    }
    return named;
}

enum rc names_view_choose(struct names_view *view, struct slice name,
                          const struct names_options *options, size_t *named_out, struct err *err)
{
    *named_out = 0;
    if (name.len != 0 && name.ptr[0] == '_')
        return err_set(err, RC_INVALID, 0, "Invalid index name [%.*s], must not start with '_'.",
                       SLICE_FMT(name));
    for (size_t i = 0; i < view->count; i++) {
        bool self = slice_eq(name_of(view->index[i]), name);
        bool stream = !self && name.len != 0 && slice_eq(view->info[i].stream, name);
        if (!self && !stream && !names_alias_match(view->meta[i], name, true, NULL))
            continue;
        if (!self && options->forbid_aliases && options->ignore_unavailable)
            continue;
        if (!self && options->forbid_aliases)
            return err_set(err, RC_INVALID, 0,
                           "The provided expression [%.*s] matches %s, specify the corresponding "
                           "concrete indices instead.",
                           SLICE_FMT(name), stream ? "a data stream" : "an alias");
        if (options->forbid_closed && view->info[i].closed && !options->ignore_unavailable)
            return err_set(err, RC_INVALID, 0, "index [%s] is closed", index_name(view->index[i]));
        view->chosen[i] = !options->forbid_closed || !view->info[i].closed;
        ++*named_out;
    }
    return RC_OK;
}

static enum rc choose_token(struct names_view *view, struct slice token, bool *wildcard_seen,
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
        TRY_OUT(names_view_choose(view, buf_slice(&name), options, &named, err));
        if (named == 0 && !options->ignore_unavailable)
            rc = RC_NOT_FOUND;
    }
out:
    buf_done(&name);
    return rc;
}

static enum rc choose(struct names_view *view, struct slice expression,
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
    struct names_view view;
    TRY(names_view_open(api, &view, err));
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
    names_view_close(&view);
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

bool names_wants_hidden(const struct api_call *call, bool unset)
{
    struct slice expand = call_param(call, "expand_wildcards");
    unsigned wanted = 0;
    if (expand.len == 0)
        return unset;
    return expand_read(expand, &wanted) && (wanted & EXPAND_HIDDEN) != 0;
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

/* ---- for handlers */
bool names_resolve_or_reply(struct api_call *call, struct names_options *options,
                            struct names_list *out)
{
    struct err err = {RC_OK, 0, ""};
    struct slice missing = SLICE_NONE;
    if (!names_options_read(call, options))
        return false;
    options->caller = call;
    options->needs = call->needs;
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
