/* SPDX-License-Identifier: Apache-2.0 */
/* _mget: the body becomes a table of wanted documents; they are read in windows, each block once,
 * and answered in request order. What a window holds is bounded by documents and by bytes: when its
 * bytes run over, the documents not copied yet come again in the next, smaller window. */
#include "api/docs.h"
#include "api/handlers.h"
#include "api/targets.h"
#include "config/limits.h"

#define VALIDATION_TEXT_MAX (64 * KIB)

struct wanted {
    struct slice index, id, routing;
    struct slice source; /* raw JSON "_source", or empty */
    const struct target *target;
    uint64_t version; /* with has_version */
    bool has_version, no_source;
    /* of the window that is being read */
    bool copied;
    size_t at, len; /* in mget.copies */
};

struct mget {
    struct api_call *call;
    struct buf wanted;  /* struct wanted */
    struct buf scratch; /* decoded strings */
    size_t count, next;
    struct slice index, routing; /* defaults */
    struct source_spec source;
    struct targets targets;
    struct filter *filter;
    bool docs_wanted, docs_open;
    struct buf copies; /* answers of a window, in storage order */
    struct buf gets;   /* struct get_item */
    size_t window;     /* documents of the next window */
    int64_t charged;   /* for copies */
};

static struct wanted *wanted_at(const struct mget *m, size_t i)
{
    return (struct wanted *)(void *)m->wanted.ptr + i;
}

static void mget_free(struct api_call *call)
{
    struct mget *m = call->state;
    targets_done(&m->targets);
    source_done(&m->source);
    if (m->filter != NULL)
        filter_destroy(m->filter);
    buf_done(&m->wanted);
    buf_done(&m->scratch);
    buf_done(&m->copies);
    buf_done(&m->gets);
}

/* ---- reading the body; RC_INVALID is a parse_exception */

/* A string, or a number or boolean as its text, decoded into scratch (reserved: never moves). */
static bool text_value(struct mget *m, struct json_value v, struct slice *out)
{
    if (v.type == JSON_STRING) {
        if (json_plain(v.text, out))
            return true;
        size_t at = m->scratch.len;
        json_unquote(v.text, &m->scratch);
        *out = slice_of(m->scratch.ptr + at, m->scratch.len - at);
        return true;
    }
    *out = v.text;
    return v.type == JSON_NUMBER || v.type == JSON_TRUE || v.type == JSON_FALSE;
}

static bool key_is(struct slice key, const char *name)
{
    /* Elasticsearch takes most keys with and without an underscore. */
    return json_string_is(key, name) || (name[0] == '_' && json_string_is(key, name + 1));
}

/* Does a stored_fields list name _source? */
static bool names_source(struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value one;
    if (v.type == JSON_STRING)
        return memmem(v.text.ptr, v.text.len, "_source", 7) != NULL;
    while (v.type == JSON_ARRAY && json_element(&scan, &one))
        if (one.type == JSON_STRING && json_string_is(one.text, "_source"))
            return true;
    return false;
}

static enum rc read_member(struct mget *m, struct slice key, struct json_value v, struct wanted *w,
                           struct err *err)
{
    struct source_spec spec;
    if (v.type == JSON_NULL)
        return RC_OK;
    if (key_is(key, "_index") && v.type == JSON_STRING && text_value(m, v, &w->index))
        return RC_OK;
    if (key_is(key, "_id") && text_value(m, v, &w->id))
        return RC_OK;
    if (key_is(key, "_routing") && text_value(m, v, &w->routing))
        return RC_OK;
    if (key_is(key, "_version") && v.type == JSON_NUMBER && json_u64(v.text, &w->version)) {
        w->has_version = true;
        return RC_OK;
    }
    if (key_is(key, "_type") || key_is(key, "_version_type"))
        return RC_OK;
    if (key_is(key, "_stored_fields")) {
        w->no_source = !names_source(v);
        return RC_OK;
    }
    if (json_string_is(key, "_source")) {
        w->source = v.text;
        enum rc rc = source_from_json(v, &spec, err);
        source_done(&spec);
        return rc;
    }
    return err_set(err, RC_INVALID, 0,
                   "failed to parse multi get request. unknown or malformed field [%.*s]",
                   SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
}

static enum rc add_wanted(struct mget *m, const struct wanted *w)
{
    buf_put(&m->wanted, w, sizeof *w);
    m->count += !m->wanted.failed;
    return m->wanted.failed ? RC_NOMEM : RC_OK;
}

static enum rc read_docs(struct mget *m, struct json_value docs, struct err *err)
{
    struct json_scan scan = json_enter(docs);
    struct json_value one;
    while (json_element(&scan, &one)) {
        struct wanted w = {.index = m->index, .routing = m->routing};
        struct slice key;
        struct json_value v;
        if (one.type != JSON_OBJECT)
            return err_set(err, RC_INVALID, 0, "docs array element should include an object");
        struct json_scan members = json_enter(one);
        while (json_member(&members, &key, &v))
            TRY(read_member(m, key, v, &w, err));
        TRY(add_wanted(m, &w));
    }
    return RC_OK;
}

static enum rc read_ids(struct mget *m, struct json_value ids, struct err *err)
{
    struct json_scan scan = json_enter(ids);
    struct json_value one;
    while (json_element(&scan, &one)) {
        struct wanted w = {.index = m->index, .routing = m->routing};
        if (!text_value(m, one, &w.id))
            return err_set(err, RC_INVALID, 0, "ids array element should only contain ids");
        TRY(add_wanted(m, &w));
    }
    return RC_OK;
}

static enum rc read_body(struct mget *m, struct err *err)
{
    struct slice body = buf_slice(&m->call->body), key;
    struct json_fault fault;
    enum json_type type;
    struct json_value v;
    if (!json_check(body, &type, &fault))
        return err_set(err, RC_INVALID, 0, "failed to parse multi get request: %s at byte %zu",
                       fault.what, fault.at);
    if (type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "unexpected token, expected [START_OBJECT]");
    if (!buf_reserve(&m->scratch, body.len))
        return err_set(err, RC_NOMEM, 0, "_mget: out of memory");
    struct json_scan scan = json_enter(json_root(body));
    while (json_member(&scan, &key, &v)) {
        bool docs = json_string_is(key, "docs");
        if (v.type != JSON_ARRAY || (!docs && !json_string_is(key, "ids")))
            return err_set(err, RC_INVALID, 0, "unexpected token [%.*s], expected [docs] or [ids]",
                           SLICE_FMT(key));
        TRY(docs ? read_docs(m, v, err) : read_ids(m, v, err));
    }
    return RC_OK;
}

/* Elasticsearch's validation texts; empty when all is well. */
static void validate(const struct mget *m, struct buf *out)
{
    size_t n = 0;
    if (m->count == 0)
        BUF_PUT_LIT(out, "Validation Failed: 1: no documents to get;");
    for (size_t i = 0; i < m->count && out->len < VALIDATION_TEXT_MAX; i++) {
        const struct wanted *w = wanted_at(m, i);
        const char *what[] = {w->index.len == 0 ? "index" : NULL, w->id.len == 0 ? "id" : NULL};
        for (size_t k = 0; k < ARRAY_LEN(what); k++) {
            if (what[k] == NULL)
                continue;
            if (n++ == 0)
                BUF_PUT_LIT(out, "Validation Failed: ");
            buf_printf(out, "%zu: %s is missing for doc %zu;", n, what[k], i);
        }
    }
}

/* ---- answering */

static void put_error(const struct mget *m, const struct wanted *w, const char *type,
                      struct slice reason, struct slice members, struct buf *out)
{
    buf_put_byte(out, '{');
    json_str(out, "_index", w->index);
    if (m->call->api->major < 8)
        json_raw(out, "_type", SLICE_LIT("null"));
    json_str(out, "_id", w->id);
    json_key(out, "error");
    error_tree(out, type, reason, members);
    buf_put_byte(out, '}');
}

static void put_target_error(const struct mget *m, const struct wanted *w, struct buf *out)
{
    struct buf scratch = {0}, members = {0};
    const struct target *t = w->target;
    if (t->rc == RC_NOT_FOUND) {
        json_cstr(&members, "resource.type", "index_or_alias");
        json_str(&members, "resource.id", w->index);
        json_cstr(&members, "index_uuid", "_na_");
        json_str(&members, "index", w->index);
    }
    put_error(m, w, names_error_type(m->call->api, t->rc, t->err), target_reason(t, &scratch),
              buf_slice(&members), out);
    buf_done(&scratch);
    buf_done(&members);
}

static void put_conflict(const struct mget *m, const struct wanted *w, uint64_t current,
                         struct buf *out)
{
    struct buf reason = {0};
    buf_put_byte(&reason, '[');
    buf_put_slice(&reason, w->id);
    buf_printf(&reason,
               "]: version conflict, current version [%llu] is different than the one provided "
               "[%llu]",
               (unsigned long long)current, (unsigned long long)w->version);
    put_error(m, w, "version_conflict_engine_exception", buf_slice(&reason), SLICE_NONE, out);
    buf_done(&reason);
}

static void put_found(const struct mget *m, const struct wanted *w, const struct row *row,
                      struct buf *out)
{
    struct source_spec own = {true, true, NULL};
    const struct source_spec *spec = &m->source;
    struct err err = {0};
    if (w->source.len != 0) {
        spec = &own;
        if (source_from_json(json_root(w->source), &own, &err) != RC_OK)
            own.want = false;
    } else if (w->no_source) {
        spec = &own;
        own.want = false;
    }
    doc_put_found(m->call->api, w->target->index, w->id, row, spec, out);
    source_done(&own);
}

/* The answer of one document, as it comes from storage (not in request order). */
static void copy_one(struct get_item *item, enum rc rc, const struct got *got,
                     const struct err *err, void *arg)
{
    struct mget *m = arg;
    struct wanted *w = item->arg;
    struct buf *out = &m->copies;
    bool first = out->len == 0;
    bool found = rc == RC_OK && slice_eq(got->row.routing, w->routing);
    if (found && !first && out->len + got->row.doc.len > LIMIT_MGET_WINDOW_BYTES)
        return;
    w->at = out->len;
    if (found && w->has_version && w->version != got->row.version)
        put_conflict(m, w, got->row.version, out);
    else if (found)
        put_found(m, w, &got->row, out);
    else if (rc == RC_OK || rc == RC_NOT_FOUND)
        doc_put_miss(m->call->api, w->target->index, w->id, out);
    else
        put_error(m, w, error_type(m->call->api, rc), slice_str(err->msg), SLICE_NONE, out);
    w->len = out->len - w->at;
    w->copied = true;
}

/* Read documents next … next + count - 1 into copies. */
static enum rc read_window(struct mget *m, size_t count)
{
    size_t gets = 0;
    m->copies.len = m->gets.len = 0;
    if (!buf_reserve(&m->gets, count * sizeof(struct get_item)))
        return RC_NOMEM;
    struct get_item *get = (struct get_item *)(void *)m->gets.ptr;
    for (size_t i = m->next; i < m->next + count; i++) {
        struct wanted *w = wanted_at(m, i);
        w->copied = false;
        if (w->target->index != NULL && w->id.len <= LIMIT_ID_BYTES) {
            get[gets++] = (struct get_item){w->target->index, w->id, w};
            continue;
        }
        w->at = m->copies.len;
        if (w->target->index != NULL)
            doc_put_miss(m->call->api, w->target->index, w->id, &m->copies);
        else
            put_target_error(m, w, &m->copies);
        w->len = m->copies.len - w->at;
        w->copied = true;
    }
    store_get_many(m->call->api->o.store, get, gets, copy_one, m);
    call_charge(m->call, (int64_t)m->copies.cap - m->charged);
    m->charged = (int64_t)m->copies.cap;
    return m->copies.failed ? RC_NOMEM : RC_OK;
}

static void put_doc(struct mget *m, const struct wanted *w, struct buf *out)
{
    struct slice doc = slice_of(m->copies.ptr + w->at, w->len);
    size_t before = out->len;
    if (m->docs_open)
        buf_put_byte(out, ',');
    else
        json_raw(out, "docs", SLICE_LIT("["));
    if (m->filter == NULL)
        buf_put_slice(out, doc);
    else if (!filter_apply_at(m->filter, "docs", json_root(doc), out)) {
        out->len = out->failed ? out->len : before;
        return;
    }
    m->docs_open = true;
}

/* Append one window; reply.more stays set while documents are left. */
static enum rc put_window(struct api_call *call)
{
    struct mget *m = call->state;
    struct buf *out = &call->reply.body;
    size_t start = out->len;
    while (m->docs_wanted && m->next < m->count && out->len == start) {
        size_t left = m->count - m->next;
        size_t count = m->window < left ? m->window : left, put = 0;
        TRY(read_window(m, count));
        while (put < count && wanted_at(m, m->next)->copied) {
            put_doc(m, wanted_at(m, m->next++), out);
            put++;
        }
        /* Cut short by bytes: a smaller one (a window of one always fits); else more again. */
        if (put < count)
            m->window = m->window == 1 ? 1 : m->window / 2;
        else if (m->window < LIMIT_MGET_WINDOW_DOCS)
            m->window *= 2;
    }
    bool last = !m->docs_wanted || m->next == m->count;
    if (last) {
        if (m->docs_open)
            buf_put_byte(out, ']');
        buf_put_byte(out, '}');
        call->reply.more = NULL;
    }
    return out->failed ? RC_NOMEM : RC_OK;
}

static enum rc next_window(struct api_call *call)
{
    call->reply.body.len = 0;
    return put_window(call);
}

/* ---- */

static bool prepare(struct mget *m)
{
    struct api_call *call = m->call;
    struct err err = {0};
    enum rc rc = read_body(m, &err);
    if (rc != RC_OK) {
        reply_error(call, error_status(rc),
                    rc == RC_INVALID ? "parse_exception" : error_type(call->api, rc), "%s",
                    err.msg);
        return false;
    }
    struct buf invalid = {0};
    validate(m, &invalid);
    if (invalid.len != 0)
        reply_error(call, 400, "action_request_validation_exception", "%.*s", (int)invalid.len,
                    (const char *)invalid.ptr);
    bool valid = invalid.len == 0;
    buf_done(&invalid);
    if (!valid)
        return false;
    call_charge(call, (int64_t)(m->wanted.cap + m->scratch.len));
    for (size_t i = 0; i < m->count; i++) {
        struct wanted *w = wanted_at(m, i);
        w->target = targets_get(call, &m->targets, w->index, NAMES_READ, 0);
        if (w->target == NULL) {
            reply_rc(call, RC_NOMEM, NULL);
            return false;
        }
    }
    return true;
}

void mget_get(struct api_call *call)
{
    if (call->body.len == 0) {
        reply_error(call, 400, "parse_exception", "request body is required");
        return;
    }
    struct mget *m = call_alloc(call, sizeof *m);
    if (m == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    *m = (struct mget){.call = call, .window = LIMIT_MGET_WINDOW_DOCS};
    m->index = call_part(call, "index");
    m->routing = call_param(call, "routing");
    source_from_query(call, &m->source);
    call->state = m;
    call->state_free = mget_free;
    if (!prepare(m))
        return;
    m->filter = filter_create_path(call_param(call, "filter_path"));
    m->docs_wanted = m->filter == NULL || filter_wants(m->filter, "docs");
    buf_put_byte(reply_json(call, 200), '{');
    call->reply.more = next_window;
    if (put_window(call) != RC_OK) {
        call->reply.more = NULL;
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    api_finish_with(call, REPLY_PRETTY);
}
