/* SPDX-License-Identifier: Apache-2.0 */
/* _alias and _aliases. Under the naming lock a request is first planned (what will the aliases of
 * each index be?) and judged as a whole, then made, index by index: another request sees all of it
 * at one index or nothing. */
#include "api/aliases.h"
#include "api/handlers.h"
#include "api/indices.h"
#include "api/names_view.h"
#include "api/settings.h"

#include <stdlib.h>

/* ---- lists of names with globs and exclusions */
/* Cut the next element off a comma-separated list. */
static bool next_word(struct slice *list, struct slice *word_out)
{
    if (list->len == 0)
        return false;
    const uint8_t *comma = memchr(list->ptr, ',', list->len);
    size_t len = comma == NULL ? list->len : (size_t)(comma - list->ptr);
    size_t skip = comma == NULL ? len : len + 1;
    *word_out = slice_of(list->ptr, len);
    *list = slice_of(list->ptr + skip, list->len - skip);
    return true;
}

/* "-x" excludes once a wildcard or another name stands before it; in front it is a name. */
static bool is_exclusion(struct slice word, bool first_seen)
{
    return word.len > 1 && word.ptr[0] == '-' && first_seen;
}

static bool plain_name(struct slice word)
{
    return memchr(word.ptr, '*', word.len) == NULL && !slice_is(word, "_all");
}

static bool wanted(struct slice list, struct slice name)
{
    bool want = list.len == 0, seen = false;
    struct slice word;
    while (next_word(&list, &word)) {
        if (is_exclusion(word, seen)) {
            if (names_match(slice_of(word.ptr + 1, word.len - 1), name))
                want = false;
            continue;
        }
        seen = seen || word.len == 0 || word.ptr[0] != '-';
        if (slice_is(word, "_all") || names_match(word, name))
            want = true;
    }
    return want;
}

/* ---- get */
static size_t put_aliases(struct slice names, const struct index *index,
                          const struct index_meta *meta, struct buf *out)
{
    struct slice key;
    struct json_value value, aliases = json_value_of(meta->aliases);
    size_t shown = 0, keep = out->len;
    json_key(out, index_name(index));
    BUF_PUT_LIT(out, "{\"aliases\":{");
    struct json_scan scan = json_enter(aliases);
    while (aliases.type == JSON_OBJECT && json_member(&scan, &key, &value)) {
        struct buf name = {NULL, 0, 0, false};
        json_unquote(key, &name);
        bool want = wanted(names, buf_slice(&name));
        buf_done(&name);
        if (!want)
            continue;
        if (shown++ != 0)
            buf_put_byte(out, ',');
        buf_put_slice(out, key);
        buf_put_byte(out, ':');
        buf_put_slice(out, value.text);
    }
    BUF_PUT_LIT(out, "}}");
    if (shown == 0 && names.len != 0)
        out->len = keep;
    return shown;
}

static bool has_alias(const struct names_list *list, struct slice name)
{
    struct buf quoted = {NULL, 0, 0, false};
    bool found = false;
    json_quote(name, &quoted);
    for (size_t i = 0; !found && i < list->count; i++) {
        struct slice key;
        struct json_value value;
        const struct index_meta *meta = index_meta_acquire(list->index[i]);
        struct json_value aliases = json_value_of(meta->aliases);
        struct json_scan scan = json_enter(aliases);
        while (!found && aliases.type == JSON_OBJECT && json_member(&scan, &key, &value))
            found = json_string_eq(key, buf_slice(&quoted));
        index_meta_release(meta);
    }
    buf_done(&quoted);
    return found;
}

static int slice_order(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Names that were asked for without a wildcard and are not there, sorted: {"error":"alias [x]
 * missing"} as Elasticsearch says it. True when there are none. */
static bool none_missing(struct api_call *call, struct slice names, const struct names_list *list,
                         struct buf *text)
{
    struct slice word, rest = names;
    size_t count = 0;
    bool seen = false;
    struct slice *missing = call_alloc(call, (names.len + 1) * sizeof *missing);
    while (missing != NULL && next_word(&rest, &word)) {
        bool exclusion = is_exclusion(word, seen);
        seen = seen || word.len == 0 || word.ptr[0] != '-';
        if (!exclusion && plain_name(word) && word.len != 0 && !has_alias(list, word))
            missing[count++] = word;
    }
    if (count == 0)
        return true;
    qsort(missing, count, sizeof *missing, slice_order);
    buf_put_str(text, count == 1 ? "alias [" : "aliases [");
    for (size_t i = 0; i < count; i++) {
        if (i != 0)
            buf_put_byte(text, ',');
        buf_put_slice(text, missing[i]);
    }
    BUF_PUT_LIT(text, "] missing");
    return false;
}

void alias_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct slice names = call_part(call, "name");
    struct buf text = {NULL, 0, 0, false};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    bool all = none_missing(call, names, &list, &text);
    struct buf *out = reply_json(call, all ? 200 : 404);
    buf_put_byte(out, '{');
    if (!all) {
        json_str(out, "error", buf_slice(&text));
        json_uint(out, "status", 404);
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        (void)put_aliases(names, list.index[i], meta, out);
        index_meta_release(meta);
    }
    buf_put_byte(out, '}');
    buf_done(&text);
    names_list_done(&list);
    api_finish(call);
}

/* HEAD: is there one of the names? */
void alias_exists(struct api_call *call)
{
    struct names_options options = {.ignore_unavailable = true,
                                    .allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct names_list list;
    size_t found = 0;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    struct buf *out = reply_json(call, 200);
    for (size_t i = 0; i < list.count; i++) {
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        found += put_aliases(call_part(call, "name"), list.index[i], meta, out);
        index_meta_release(meta);
    }
    names_list_done(&list);
    (void)reply_json(call, found != 0 ? 200 : 404);
    api_finish(call);
}

/* ---- change */
enum change_kind { CHANGE_ADD, CHANGE_REMOVE, CHANGE_REMOVE_INDEX };

struct change {
    enum change_kind kind;
    struct buf indices;    /* expression */
    struct buf names;      /* comma separated; globs when removing */
    struct buf properties; /* of an added alias, as sent: JSON object */
    bool must_exist;
    size_t hits; /* aliases removed */
};

static void change_done(struct change *change)
{
    buf_done(&change->indices);
    buf_done(&change->names);
    buf_done(&change->properties);
}

/* What will be of each index of the view. */
struct plan {
    struct names_view view;
    struct buf *next; /* aliases of those that are touched */
    bool *touched, *gone;
};

static void plan_done(struct plan *plan)
{
    for (size_t i = 0; plan->next != NULL && i < plan->view.count; i++)
        buf_done(&plan->next[i]);
    free(plan->next);
    free(plan->touched);
    free(plan->gone);
    names_view_close(&plan->view);
}

static enum rc plan_open(struct api *api, struct plan *plan, struct err *err)
{
    *plan = (struct plan){.next = NULL};
    TRY(names_view_open(api, &plan->view, err));
    plan->next = calloc(plan->view.count + 1, sizeof *plan->next);
    plan->touched = calloc(plan->view.count + 1, sizeof *plan->touched);
    plan->gone = calloc(plan->view.count + 1, sizeof *plan->gone);
    return plan->next == NULL || plan->touched == NULL || plan->gone == NULL
               ? err_set(err, RC_NOMEM, 0, "out of memory for aliases")
               : RC_OK;
}

static enum rc add_names(const struct change *change, struct buf *aliases, struct err *err)
{
    struct slice list = buf_slice(&change->names), name;
    while (next_word(&list, &name)) {
        struct buf one = {NULL, 0, 0, false};
        buf_put_byte(&one, '{');
        json_quote(name, &one);
        buf_put_byte(&one, ':');
        buf_put_slice(&one, change->properties.len == 0 ? SLICE_LIT("{}")
                                                        : buf_slice(&change->properties));
        buf_put_byte(&one, '}');
        enum rc rc = one.failed
                         ? err_set(err, RC_NOMEM, 0, "out of memory for aliases")
                         : aliases_read(json_root(buf_slice(&one)), SLICE_NONE, aliases, err);
        buf_done(&one);
        TRY(rc);
    }
    return RC_OK;
}

static void remove_names(struct change *change, struct buf *aliases)
{
    struct slice key;
    struct json_value value;
    struct buf old = {NULL, 0, 0, false};
    buf_put_slice(&old, buf_slice(aliases));
    struct json_scan scan = json_enter(json_root(buf_slice(&old)));
    while (!old.failed && json_member(&scan, &key, &value)) {
        struct buf name = {NULL, 0, 0, false};
        json_unquote(key, &name);
        if (wanted(buf_slice(&change->names), buf_slice(&name))) {
            json_put(aliases, key, SLICE_NONE);
            change->hits++;
        }
        buf_done(&name);
    }
    aliases->failed = aliases->failed || old.failed;
    buf_done(&old);
}

static int by_name(const void *key, const void *item)
{
    return strcmp(index_name(key), index_name(*(struct index *const *)item));
}

static enum rc plan_index(struct plan *plan, struct change *change, const struct index *index,
                          struct err *err)
{
    struct index **found =
        bsearch(index, plan->view.index, plan->view.count, sizeof *plan->view.index, by_name);
    if (found == NULL) /* deleted meanwhile */
        return RC_OK;
    size_t i = (size_t)(found - plan->view.index);
    if (!plan->touched[i])
        buf_put_slice(&plan->next[i], plan->view.meta[i]->aliases.len == 0
                                          ? SLICE_LIT("{}")
                                          : plan->view.meta[i]->aliases);
    plan->touched[i] = true;
    if (change->kind == CHANGE_REMOVE_INDEX)
        plan->gone[i] = true;
    else if (change->kind == CHANGE_ADD)
        TRY(add_names(change, &plan->next[i], err));
    else
        remove_names(change, &plan->next[i]);
    return plan->next[i].failed ? err_set(err, RC_NOMEM, 0, "out of memory for aliases") : RC_OK;
}

/* No alias may have the name of an index or data stream; an index that this request removes does
 * not count. */
static enum rc check_names(struct api *api, const struct plan *plan, const struct change *change,
                           const struct change *all, size_t count, struct err *err)
{
    struct slice list = buf_slice(&change->names), name;
    while (change->kind == CHANGE_ADD && next_word(&list, &name)) {
        struct index *index;
        bool removed = false;
        size_t at;
        TRY(aliases_check_name(name, err));
        for (size_t i = 0; i < count; i++)
            removed = removed || (all[i].kind == CHANGE_REMOVE_INDEX &&
                                  wanted(buf_slice(&all[i].indices), name));
        if (store_index_acquire(api->o.store, name, &index) == RC_OK)
            index_release(index);
        else if (names_view_stream(&plan->view, name, &at))
            removed = false;
        else
            continue;
        if (removed)
            continue;
        return err_set(err, RC_INVALID, 0,
                       "Invalid alias name [%.*s]: an index or data stream exists with the same "
                       "name as the alias",
                       SLICE_FMT(name));
    }
    return RC_OK;
}

static enum rc plan_change(struct api *api, struct plan *plan, struct change *change,
                           struct slice *missing, struct err *err)
{
    bool index = change->kind == CHANGE_REMOVE_INDEX;
    struct names_options options = {.expand = EXPAND_OPEN | EXPAND_CLOSED, .forbid_aliases = index};
    struct names_list list;
    TRY(names_resolve(api, buf_slice(&change->indices), &options, &list, missing, err));
    enum rc rc = index ? indices_check_streams(api, &list, "deleted", err) : RC_OK;
    if (rc == RC_OK)
        rc = names_list_blocked(&list, index ? USE_DELETE : USE_CHANGE, err);
    for (size_t i = 0; rc == RC_OK && i < list.count; i++)
        rc = plan_index(plan, change, list.index[i], err);
    names_list_done(&list);
    return rc;
}

/* ---- one write index for each alias */
struct mark {
    struct buf alias;
    struct slice unit; /* the index, or its data stream */
};

static int mark_order(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    int c = slice_cmp(buf_slice(&x->alias), buf_slice(&y->alias));
    return c != 0 ? c : slice_cmp(x->unit, y->unit);
}

static bool gather_marks(const struct plan *plan, size_t i, struct buf *marks)
{
    struct slice key, stream = plan->view.info[i].stream;
    struct json_value properties, flag;
    struct json_value aliases =
        json_value_of(plan->touched[i] ? buf_slice(&plan->next[i]) : plan->view.meta[i]->aliases);
    struct json_scan scan = json_enter(aliases);
    while (!plan->gone[i] && aliases.type == JSON_OBJECT && json_member(&scan, &key, &properties)) {
        if (!json_find(properties, "is_write_index", &flag) || flag.type != JSON_TRUE)
            continue;
        struct mark mark = {{NULL, 0, 0, false},
                            stream.len != 0 ? stream : slice_str(index_name(plan->view.index[i]))};
        json_unquote(key, &mark.alias);
        buf_put(marks, &mark, sizeof mark);
        if (marks->failed || mark.alias.failed) {
            buf_done(&mark.alias);
            return false;
        }
    }
    return true;
}

static enum rc check_marks(const struct plan *plan, struct err *err)
{
    struct buf marks = {NULL, 0, 0, false};
    bool ok = true;
    enum rc rc = RC_OK;
    for (size_t i = 0; ok && i < plan->view.count; i++)
        ok = gather_marks(plan, i, &marks);
    struct mark *mark = (struct mark *)(void *)marks.ptr; /* malloc'ed: aligned */
    size_t count = marks.len / sizeof *mark;
    if (!ok)
        rc = err_set(err, RC_NOMEM, 0, "out of memory for aliases");
    if (count > 1)
        qsort(mark, count, sizeof *mark, mark_order);
    for (size_t i = 1; rc == RC_OK && i < count; i++)
        if (slice_eq(buf_slice(&mark[i - 1].alias), buf_slice(&mark[i].alias)) &&
            !slice_eq(mark[i - 1].unit, mark[i].unit))
            rc = err_set(err, RC_INVALID, 0,
                         "alias [%.*s] has more than one write index [%.*s,%.*s]",
                         SLICE_FMT(buf_slice(&mark[i].alias)), SLICE_FMT(mark[i - 1].unit),
                         SLICE_FMT(mark[i].unit));
    for (size_t i = 0; i < count; i++)
        buf_done(&mark[i].alias);
    buf_done(&marks);
    return rc;
}

/* ---- making */
static enum rc set_aliases(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct buf *next = arg;
    (void)scratch;
    (void)err;
    meta->aliases = buf_slice(next);
    return RC_OK;
}

/* Indices go first: their names may be wanted for aliases. */
static enum rc make(struct api *api, struct plan *plan, struct err *err)
{
    for (size_t i = 0; i < plan->view.count; i++) {
        if (!plan->gone[i])
            continue;
        enum rc rc = store_index_delete(api->o.store, plan->view.index[i], err);
        if (rc != RC_NOT_FOUND)
            TRY(rc);
    }
    for (size_t i = 0; i < plan->view.count; i++)
        if (plan->touched[i] && !plan->gone[i])
            TRY(names_change_meta(api, plan->view.index[i], set_aliases, &plan->next[i], err));
    return RC_OK;
}

static enum rc plan_all(struct api *api, struct plan *plan, struct change *changes, size_t count,
                        const struct change **idle, struct slice *missing, struct err *err)
{
    TRY(plan_open(api, plan, err));
    for (size_t i = 0; i < count; i++)
        TRY(check_names(api, plan, &changes[i], changes, count, err));
    for (size_t i = 0; i < count; i++) {
        TRY(plan_change(api, plan, &changes[i], missing, err));
        if (changes[i].kind == CHANGE_REMOVE && changes[i].hits == 0 && changes[i].must_exist)
            *idle = &changes[i];
    }
    return check_marks(plan, err);
}

static void apply(struct api_call *call, struct change *changes, size_t count)
{
    struct err err = {RC_OK, 0, ""};
    struct slice missing = SLICE_NONE;
    const struct change *idle = NULL;
    struct plan plan = {.next = NULL};
    registry_lock(call->api->names);
    enum rc rc = plan_all(call->api, &plan, changes, count, &idle, &missing, &err);
    if (rc == RC_OK && idle == NULL)
        rc = make(call->api, &plan, &err);
    registry_unlock(call->api->names);
    plan_done(&plan);
    if (rc == RC_NOT_FOUND)
        reply_no_index(call, missing);
    else if (rc != RC_OK)
        names_reply_error(call, SLICE_NONE, rc, &err);
    else if (idle != NULL)
        reply_error(call, 404, "aliases_not_found_exception", "aliases [%.*s] missing",
                    SLICE_FMT(buf_slice(&idle->names)));
    else
        reply_ack(call);
}

/* ---- reading changes */
static enum rc read_list(struct json_value value, struct buf *out, struct err *err)
{
    struct json_value one;
    if (value.type == JSON_STRING) {
        if (out->len != 0)
            buf_put_byte(out, ',');
        json_unquote(value.text, out);
        return RC_OK;
    }
    if (value.type != JSON_ARRAY)
        return err_set(err, RC_INVALID, 0, "a name or a list of names is expected");
    struct json_scan scan = json_enter(value);
    while (json_element(&scan, &one)) {
        if (one.type != JSON_STRING)
            return err_set(err, RC_INVALID, 0, "a list of names is expected");
        TRY(read_list(one, out, err));
    }
    return RC_OK;
}

/* index, indices, alias, aliases and must_exist are taken out of an object, the rest are the
 * alias' properties. */
static enum rc read_object(struct json_value object, struct change *change, struct err *err)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(object);
    buf_put_byte(&change->properties, '{');
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "index") || json_string_is(key, "indices")) {
            TRY(read_list(value, &change->indices, err));
        } else if (json_string_is(key, "alias") || json_string_is(key, "aliases")) {
            TRY(read_list(value, &change->names, err));
        } else if (json_string_is(key, "must_exist")) {
            change->must_exist = value.type == JSON_TRUE;
        } else {
            if (change->properties.len > 1)
                buf_put_byte(&change->properties, ',');
            buf_put_slice(&change->properties, key);
            buf_put_byte(&change->properties, ':');
            buf_put_slice(&change->properties, value.text);
        }
    }
    buf_put_byte(&change->properties, '}');
    return RC_OK;
}

static enum rc read_action(struct json_value action, struct change *change, struct err *err)
{
    struct slice key;
    struct json_value object;
    struct json_scan scan = json_enter(action);
    if (action.type != JSON_OBJECT || !json_member(&scan, &key, &object) ||
        object.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "an action must be an object with one action");
    if (json_string_is(key, "add"))
        change->kind = CHANGE_ADD;
    else if (json_string_is(key, "remove"))
        change->kind = CHANGE_REMOVE;
    else if (json_string_is(key, "remove_index"))
        change->kind = CHANGE_REMOVE_INDEX;
    else
        return err_set(err, RC_INVALID, 0, "[alias_action] unknown field [%.*s]",
                       SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
    change->must_exist = true;
    TRY(read_object(object, change, err));
    if (change->indices.len == 0)
        return err_set(err, RC_INVALID, 0, "One of [index] or [indices] is required");
    if (change->names.len == 0 && change->kind != CHANGE_REMOVE_INDEX)
        return err_set(err, RC_INVALID, 0, "One of [alias] or [aliases] is required");
    return RC_OK;
}

/* POST /_aliases */
void aliases_post(struct api_call *call)
{
    struct json_value body, list = {JSON_END, SLICE_NONE}, one;
    struct change *changes = NULL;
    struct err err = {RC_OK, 0, ""};
    size_t count = 0, at = 0;
    enum rc rc = RC_OK;
    if (!names_body_object(call, &body))
        return;
    (void)json_find(body, "actions", &list);
    struct json_scan scan = json_enter(list);
    while (list.type == JSON_ARRAY && json_element(&scan, &one))
        count++;
    if (count == 0) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: Must specify at least one action to perform;");
        return;
    }
    changes = calloc(count, sizeof *changes);
    if (changes == NULL)
        rc = err_set(&err, RC_NOMEM, 0, "out of memory for actions");
    scan = json_enter(list);
    while (rc == RC_OK && at < count && json_element(&scan, &one))
        rc = read_action(one, &changes[at++], &err);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        apply(call, changes, count);
    for (size_t i = 0; changes != NULL && i < count; i++)
        change_done(&changes[i]);
    free(changes);
}

/* Fluentd sends {"aliases":{NAME:{PROPERTIES}}} here, as for the creation of an index, and
 * Elasticsearch takes the properties out of it. */
static struct json_value unwrapped(struct json_value body)
{
    struct slice key;
    struct json_value aliases, own;
    if (!json_find(body, "aliases", &aliases) || aliases.type != JSON_OBJECT)
        return body;
    struct json_scan scan = json_enter(aliases);
    return json_member(&scan, &key, &own) && own.type == JSON_OBJECT ? own : body;
}

/* PUT /{index}/_alias/{name}; both may also stand in the body. */
void alias_put(struct api_call *call)
{
    struct change change = {.kind = CHANGE_ADD};
    struct err err = {RC_OK, 0, ""};
    struct json_value body;
    enum rc rc = RC_OK;
    buf_put_slice(&change.indices, call_part(call, "index"));
    buf_put_slice(&change.names, call_part(call, "name"));
    if (call->body.len != 0) {
        bool path_index = change.indices.len != 0, path_name = change.names.len != 0;
        size_t index_len = change.indices.len, name_len = change.names.len;
        if (!names_body_object(call, &body))
            goto out;
        rc = read_object(unwrapped(body), &change, &err);
        if (path_index)
            change.indices.len = index_len;
        if (path_name)
            change.names.len = name_len;
    }
    if (rc == RC_OK && (change.indices.len == 0 || change.names.len == 0))
        rc = err_set(&err, RC_INVALID, 0, "an alias needs a name and an index");
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        apply(call, &change, 1);
out:
    change_done(&change);
}

void alias_delete(struct api_call *call)
{
    struct change change = {.kind = CHANGE_REMOVE, .must_exist = true};
    buf_put_slice(&change.indices, call_part(call, "index"));
    buf_put_slice(&change.names, call_part(call, "name"));
    apply(call, &change, 1);
    change_done(&change);
}
