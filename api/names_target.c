/* SPDX-License-Identifier: Apache-2.0 */
/* Where the reads and writes of one document go, what may keep them from it, and how such failures
 * are answered. */
#include "api/date_math.h"
#include "api/names_view.h"
#include "api/pipelines.h"
#include "api/settings.h"

/* ---- the write index of an alias */
static bool flag_is(struct json_value properties, enum json_type type)
{
    struct json_value flag;
    return json_find(properties, "is_write_index", &flag) && flag.type == type;
}

/* Newest first, where more than one says so: while an alias is rolled over two do for a moment. */
static bool pick_marked(const struct names_view *view, struct slice name, size_t *at)
{
    struct json_value properties;
    bool found = false;
    for (size_t i = 0; i < view->count; i++) {
        if (!view->chosen[i] || !names_alias_match(view->meta[i], name, true, &properties) ||
            !flag_is(properties, JSON_TRUE))
            continue;
        if (found && index_created_ms(view->index[i]) < index_created_ms(view->index[*at]))
            continue;
        found = true;
        *at = i;
    }
    return found;
}

/* An alias of one index, or of one data stream, needs no mark. */
static bool pick_only(const struct names_view *view, struct slice name, size_t hits, size_t *at)
{
    struct json_value properties;
    size_t first = 0;
    while (!view->chosen[first])
        first++;
    if (!names_alias_match(view->meta[first], name, true, &properties) ||
        flag_is(properties, JSON_FALSE))
        return false;
    if (hits == 1) {
        *at = first;
        return true;
    }
    for (size_t i = first; i < view->count; i++)
        if (view->chosen[i] && !slice_eq(view->info[i].stream, view->info[first].stream))
            return false;
    return names_view_stream(view, view->info[first].stream, at);
}

enum rc names_write_index(const struct names_view *view, struct slice name, size_t hits, size_t *at,
                          struct err *err)
{
    if (pick_marked(view, name, at) || pick_only(view, name, hits, at))
        return RC_OK;
    return err_set(err, RC_INVALID, 0,
                   "no write index is defined for alias [%.*s]. The write index may be explicitly "
                   "disabled using is_write_index=false or the alias points to multiple indices "
                   "without one being designated as a write index",
                   (int)(name.len > 40 ? 40 : name.len), (const char *)name.ptr);
}

static enum rc many_indices(const struct names_view *view, struct slice name, struct err *err)
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

/* ---- targets of single documents */
/* An alias or a data stream. */
static enum rc target_alias(struct api *api, struct slice name, enum names_need need,
                            struct names_target *out, struct err *err)
{
    struct names_view view;
    struct names_options options = {.expand = EXPAND_OPEN};
    size_t hits = 0, at = 0;
    bool stream = false;
    enum rc rc;
    TRY(names_view_open(api, &view, err));
    TRY_OUT(names_view_choose(&view, name, &options, &hits, err));
    rc = hits == 0 ? RC_NOT_FOUND : RC_OK;
    stream = hits != 0 && names_view_stream(&view, name, &at);
    if (hits > 1 && need == NAMES_READ)
        rc = many_indices(&view, name, err);
    else if (hits != 0 && need != NAMES_READ && !stream)
        rc = names_write_index(&view, name, hits, &at, err);
    while (rc == RC_OK && need == NAMES_READ && !view.chosen[at])
        at++;
    if (rc == RC_OK)
        *out = (struct names_target){index_retain(view.index[at]), !stream, stream};
out:
    names_view_close(&view);
    return rc;
}

/* Data streams are appended to (streams.h, D2). */
static enum rc check_append(const struct names_target *target, const struct names_info *info,
                            enum names_need need, unsigned flags, struct err *err)
{
    if (need == NAMES_READ || info->stream.len == 0)
        return RC_OK;
    if (target->is_stream || target->is_alias)
        return need == NAMES_APPEND
                   ? RC_OK
                   : err_set(
                         err, RC_INVALID, 0,
                         "only write ops with an op_type of create are allowed in data streams");
    if (need == NAMES_APPEND)
        return err_set(err, RC_INVALID, 0,
                       "index request with op_type=create targeting backing indices is disallowed, "
                       "target corresponding data stream [%.*s] instead",
                       SLICE_FMT(info->stream));
    if ((flags & NAMES_CHANGES) == 0)
        return err_set(err, RC_INVALID, 0,
                       "index request with op_type=index and no if_primary_term and if_seq_no set "
                       "targeting backing indices is disallowed, target corresponding data stream "
                       "[%.*s] instead",
                       SLICE_FMT(info->stream));
    return RC_OK;
}

/* Documents of an index whose pipelines are not there are refused, as in Elasticsearch. */
static enum rc check_pipelines(struct api *api, const struct names_info *info, enum names_need need,
                               unsigned flags, struct err *err)
{
    if (need == NAMES_READ || (flags & NAMES_CHANGES) != 0)
        return RC_OK;
    for (size_t i = (flags & NAMES_PIPELINE) != 0 ? 1 : 0; i < ARRAY_LEN(info->pipelines); i++)
        if (!pipeline_known(api, info->pipelines[i]))
            return err_set(err, RC_INVALID, 0, "pipeline with id [%.*s] does not exist",
                           SLICE_FMT(info->pipelines[i]));
    return RC_OK;
}

static bool mentions(struct slice text, const char *word)
{
    return memmem(text.ptr, text.len, word, strlen(word)) != NULL;
}

/* May the documents of an index be read or written? */
static enum rc check_use(struct api *api, const struct names_target *target, enum names_need need,
                         unsigned flags, struct err *err)
{
    const struct index_meta *meta = index_meta_acquire(target->index);
    struct names_info info;
    enum rc rc = RC_OK;
    /* Nearly always nothing of it is there: then nothing is parsed. */
    if (meta->extra.len > 2 || mentions(meta->settings, "\"index.blocks.") ||
        mentions(meta->settings, "_pipeline\"")) {
        names_info_get(meta, &info);
        if (info.closed)
            rc = err_set(err, RC_INVALID, 0, "index [%s] is closed", index_name(target->index));
        else
            rc =
                names_blocked(target->index, &info, need == NAMES_READ ? USE_READ : USE_WRITE, err);
        if (rc == RC_OK)
            rc = check_append(target, &info, need, flags, err);
        if (rc == RC_OK)
            rc = check_pipelines(api, &info, need, flags, err);
    }
    index_meta_release(meta);
    return rc;
}

/* What the request requires of the name. */
static enum rc check_required(struct slice name, unsigned flags, const struct names_target *target,
                              enum rc rc, struct err *err)
{
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if ((flags & NAMES_REQUIRE_ALIAS) != 0 && !target->is_alias)
        return err_set(err, RC_NOT_FOUND, 0,
                       "[require_alias] request flag is [true] and [%.*s] is not an alias",
                       SLICE_FMT(name));
    if ((flags & NAMES_REQUIRE_STREAM) != 0 && !target->is_stream)
        return err_set(err, RC_NOT_FOUND, 0,
                       "[require_data_stream] request flag is [true] and [%.*s] is not a data "
                       "stream",
                       SLICE_FMT(name));
    return rc;
}

static enum rc target_find(struct api *api, struct slice name, enum names_need need,
                           struct names_target *out, struct err *err)
{
    enum rc rc = store_index_acquire(api->o.store, name, &out->index);
    return rc == RC_NOT_FOUND ? target_alias(api, name, need, out, err) : rc;
}

static enum rc target_make(struct api *api, struct slice name, enum names_need need,
                           struct names_target *out, struct err *err)
{
    bool stream = false;
    enum rc rc = names_autocreate(api, name, need == NAMES_APPEND, &out->index, &stream, err);
    out->is_stream = rc == RC_OK && stream;
    if (rc != RC_EXISTS)
        return rc;
    if (err != NULL) /* N2: somebody else was faster */
        err->rc = RC_OK;
    return target_find(api, name, need, out, err);
}

enum rc names_target(struct api *api, struct slice name, enum names_need need, unsigned flags,
                     struct names_target *out, struct err *err)
{
    struct buf real = {NULL, 0, 0, false};
    struct names_target found = {NULL, false, false};
    bool make =
        (need == NAMES_WRITE_CREATE || need == NAMES_APPEND) && (flags & NAMES_REQUIRE_ALIAS) == 0;
    enum rc rc;
    TRY_OUT(date_math_resolve(name, clock_ms(), &real, err));
    rc = target_find(api, buf_slice(&real), need, &found, err);
    if (rc == RC_NOT_FOUND && make &&
        ((flags & NAMES_REQUIRE_STREAM) == 0 || names_makes_stream(api, buf_slice(&real))))
        rc = target_make(api, buf_slice(&real), need, &found, err);
    TRY_OUT(check_required(name, flags, &found, rc, err));
    TRY_OUT(check_use(api, &found, need, flags, err));
    *out = found;
    found.index = NULL;
out:
    index_release(found.index);
    buf_done(&real);
    return rc;
}

/* ---- blocks */
/* Elasticsearch's blocks: what they are called in errors, and which uses they refuse. */
static const struct {
    unsigned block;
    const char *text;
    unsigned refuses;  /* bits of enum names_use */
    const char *state; /* in the cluster's state */
} refusals[] = {
    {BLOCK_READ_ONLY, "FORBIDDEN/5/index read-only (api)", USE_WRITE | USE_CHANGE | USE_DELETE,
     "\"5\":{\"description\":\"index read-only (api)\",\"retryable\":false,"
     "\"levels\":[\"write\",\"metadata_write\"]}"},
    {BLOCK_READ, "FORBIDDEN/7/index read (api)", USE_READ,
     "\"7\":{\"description\":\"index read (api)\",\"retryable\":false,\"levels\":[\"read\"]}"},
    {BLOCK_WRITE, "FORBIDDEN/8/index write (api)", USE_WRITE,
     "\"8\":{\"description\":\"index write (api)\",\"retryable\":false,\"levels\":[\"write\"]}"},
    {BLOCK_METADATA, "FORBIDDEN/9/index metadata (api)", USE_SHOW | USE_CHANGE | USE_DELETE,
     "\"9\":{\"description\":\"index metadata (api)\",\"retryable\":false,"
     "\"levels\":[\"metadata_read\",\"metadata_write\"]}"},
    {BLOCK_READ_ONLY_ALLOW_DELETE,
     "TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has "
     "read-only-allow-delete block",
     USE_WRITE | USE_CHANGE,
     "\"12\":{\"description\":\"index read-only / allow delete (api)\",\"retryable\":false,"
     "\"levels\":[\"write\",\"metadata_write\"]}"},
};

void names_put_blocks(const struct names_info *info, struct buf *out)
{
    size_t n = 0;
    if (info->closed) {
        n++;
        BUF_PUT_LIT(out, "\"4\":{\"description\":\"index closed\",\"retryable\":false,"
                         "\"levels\":[\"read\",\"write\"]}");
    }
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if ((info->blocks & refusals[i].block) != 0)
            buf_printf(out, "%s%s", n++ == 0 ? "" : ",", refusals[i].state);
}

enum rc names_blocked(const struct index *index, const struct names_info *info, enum names_use use,
                      struct err *err)
{
    struct buf text = {NULL, 0, 0, false};
    for (size_t i = 0; info->blocks != 0 && i < ARRAY_LEN(refusals); i++)
        if ((info->blocks & refusals[i].block) != 0 && (refusals[i].refuses & use) != 0)
            buf_printf(&text, "%s[%s];", text.len == 0 ? "" : " ", refusals[i].text);
    if (text.len == 0)
        return RC_OK;
    enum rc rc = err_set(err, RC_INVALID, 0, "index [%.100s] blocked by: %.*s", index_name(index),
                         SLICE_FMT(buf_slice(&text)));
    buf_done(&text);
    return rc;
}

enum rc names_list_blocked(const struct names_list *list, enum names_use use, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < list->count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list->index[i]);
        names_info_get(meta, &info);
        rc = names_blocked(list->index[i], &info, use, err);
        index_meta_release(meta);
    }
    return rc;
}

bool names_usable(struct api_call *call, struct names_list *list, enum names_use use)
{
    struct err err = {RC_OK, 0, ""};
    enum rc rc = names_list_blocked(list, use, &err);
    if (rc == RC_OK)
        return true;
    names_list_done(list);
    names_reply_error(call, SLICE_NONE, rc, &err);
    return false;
}

/* ---- errors */
static bool is_blocked(enum rc rc, const struct err *err)
{
    return rc == RC_INVALID && strncmp(err->msg, "index [", 7) == 0 &&
           strstr(err->msg, "] blocked by: [") != NULL;
}

int names_error_status(enum rc rc, const struct err *err)
{
    if (!is_blocked(rc, err))
        return error_status(rc);
    return strstr(err->msg, "[FORBIDDEN/") != NULL ? 403 : 429;
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
    if (is_blocked(rc, err))
        return "cluster_block_exception";
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
    const char *uuid = strchr(err->msg, '/'), *end = uuid == NULL ? NULL : strchr(uuid, ']');
    if (strcmp(type, "illegal_argument_exception") != 0 && !is_blocked(rc, err)) {
        BUF_PUT_LIT(&members, "\"index\":");
        json_quote(name, &members);
        if (rc == RC_EXISTS && end != NULL)
            buf_printf(&members, ",\"index_uuid\":\"%.*s\"", (int)(end - uuid - 1), uuid + 1);
        else
            BUF_PUT_LIT(&members, ",\"index_uuid\":\"_na_\"");
    }
    reply_error_with(call, names_error_status(rc, err), type, buf_slice(&members), "%s", err->msg);
    buf_done(&members);
}
