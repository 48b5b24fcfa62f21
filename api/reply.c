/* SPDX-License-Identifier: Apache-2.0 */
/* Writing replies: JSON pieces, error bodies in Elasticsearch's form, and the last steps of a
 * finished body (filter_path, pretty, gzip). The table below is the only place that says which
 * status and type a result code has. */
#include "api/call.h"

#include "api/filter.h"
#include "api/gzip.h"
#include "config/limits.h"

#include <strings.h>

#define JSON_TYPE "application/json"
/* Below this a gzip body costs more than it saves. */
#define GZIP_BYTES_MIN 1024

static const struct {
    int status;
    const char *type;
    const char *text; /* when there is no better one */
} errors[] = {
    [RC_OK] = {500, "exception", "no answer"},
    [RC_NOT_FOUND] = {404, "resource_not_found_exception", "not found"},
    [RC_EXISTS] = {400, "resource_already_exists_exception", "already exists"},
    [RC_CONFLICT] = {409, "version_conflict_engine_exception", "version conflict"},
    [RC_INVALID] = {400, "illegal_argument_exception", "invalid request"},
    [RC_TOO_LARGE] = {413, "content_too_long_exception", "request too large"},
    [RC_UNSUPPORTED] = {400, "illegal_argument_exception", "not supported"},
    [RC_BUSY] = {429, "es_rejected_execution_exception", "too many requests, try again later"},
    [RC_AGAIN] = {503, "unavailable_exception", "try again later"},
    [RC_NOMEM] = {429, "circuit_breaking_exception", "out of memory, try again later"},
    [RC_FULL] = {429, "cluster_block_exception",
                 "blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded the reserve, writes are "
                 "refused until there is space again];"},
    [RC_IO] = {503, "i_o_exception", "input/output error"},
    [RC_CORRUPT] = {500, "corrupt_index_exception", "stored data is damaged"},
    [RC_FORBIDDEN] = {403, "security_exception", "not allowed"},
};

int error_status(enum rc rc)
{
    return errors[rc].status;
}

const char *error_type(const struct api *api, enum rc rc)
{
    (void)api;
    return errors[rc].type;
}

/* ---- JSON */

void json_key(struct buf *b, const char *key)
{
    if (b->len != 0 && b->ptr[b->len - 1] != '{' && b->ptr[b->len - 1] != '[')
        buf_put_byte(b, ',');
    json_quote(slice_str(key), b);
    buf_put_byte(b, ':');
}

void json_str(struct buf *b, const char *key, struct slice value)
{
    json_key(b, key);
    json_quote(value, b);
}

void json_cstr(struct buf *b, const char *key, const char *value)
{
    json_str(b, key, slice_str(value));
}

void json_int(struct buf *b, const char *key, int64_t value)
{
    json_key(b, key);
    if (value < 0)
        buf_put_byte(b, '-');
    buf_put_u64(b, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_uint(struct buf *b, const char *key, uint64_t value)
{
    json_key(b, key);
    buf_put_u64(b, value);
}

void json_bool(struct buf *b, const char *key, bool value)
{
    json_key(b, key);
    buf_put_str(b, value ? "true" : "false");
}

void json_raw(struct buf *b, const char *key, struct slice json)
{
    json_key(b, key);
    buf_put_slice(b, json);
}

static void put_line(struct buf *out, size_t depth)
{
    buf_put_byte(out, '\n');
    for (size_t i = 0; i < depth; i++)
        BUF_PUT_LIT(out, "  ");
}

/* Length of the string that starts at s[0], quotes included. */
static size_t string_len(struct slice s)
{
    size_t i = 1;
    while (i < s.len && s.ptr[i] != '"')
        i += s.ptr[i] == '\\' ? 2 : 1;
    return i < s.len ? i + 1 : s.len;
}

void json_pretty(struct slice json, struct buf *out)
{
    size_t depth = 0;
    bool fresh = false; /* a container was just opened */
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.ptr[i];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            continue;
        bool closing = c == '}' || c == ']';
        if (closing)
            depth--;
        if (fresh && closing)
            buf_put_byte(out, ' ');
        else if (fresh || closing)
            put_line(out, depth);
        fresh = c == '{' || c == '[';
        if (c == '"') {
            size_t len = string_len(slice_of(json.ptr + i, json.len - i));
            buf_put(out, json.ptr + i, len);
            i += len - 1;
        } else if (c == ':') {
            BUF_PUT_LIT(out, " : ");
        } else {
            buf_put_byte(out, c);
            depth += fresh;
            if (c == ',')
                put_line(out, depth);
        }
    }
    buf_put_byte(out, '\n');
}

static void put_members(struct buf *out, const char *type, struct slice reason,
                        struct slice members)
{
    json_cstr(out, "type", type);
    json_str(out, "reason", reason);
    if (members.len != 0) {
        buf_put_byte(out, ',');
        buf_put_slice(out, members);
    }
    buf_put_byte(out, '}');
}

void error_object(struct buf *out, const char *type, struct slice reason, struct slice members)
{
    buf_put_byte(out, '{');
    put_members(out, type, reason, members);
}

void error_tree(struct buf *out, const char *type, struct slice reason, struct slice members)
{
    BUF_PUT_LIT(out, "{\"root_cause\":[");
    error_object(out, type, reason, members);
    buf_put_byte(out, ']');
    put_members(out, type, reason, members);
}

static void put_error(struct buf *b, int status, const char *type, struct slice reason,
                      struct slice members)
{
    buf_put_byte(b, '{');
    json_key(b, "error");
    error_tree(b, type, reason, members);
    json_int(b, "status", status);
    buf_put_byte(b, '}');
}

/* ---- bodies */

struct buf *reply_json(struct api_call *call, int status)
{
    call->reply.status = status;
    call->reply.content_type = JSON_TYPE;
    call->reply.body.len = 0;
    return &call->reply.body;
}

void reply_header(struct api_call *call, const char *name, const char *fmt, ...)
{
    struct api_reply *r = &call->reply;
    if (r->header_count == ARRAY_LEN(r->headers))
        return;
    struct api_header *h = &r->headers[r->header_count];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(h->value, sizeof h->value, fmt, ap);
    va_end(ap);
    /* A cut header would be a lie: rather none. */
    if (n >= 0 && (size_t)n < sizeof h->value) {
        h->name = name;
        r->header_count++;
    }
}

/* Is gzip listed with a weight other than 0? */
bool reply_wants_gzip(const struct api_call *call)
{
    struct slice rest = call->accept_encoding;
    while (rest.len != 0) {
        const uint8_t *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.ptr);
        struct slice one = slice_of(rest.ptr, len);
        size_t skip = comma == NULL ? len : len + 1;
        rest = slice_of(rest.ptr + skip, rest.len - skip);
        while (one.len != 0 && one.ptr[0] == ' ')
            one = slice_of(one.ptr + 1, one.len - 1);
        if (one.len < 4 || strncasecmp((const char *)one.ptr, "gzip", 4) != 0 ||
            (one.len > 4 && one.ptr[4] != ';' && one.ptr[4] != ' '))
            continue;
        const uint8_t *q = memchr(one.ptr, '=', one.len);
        if (q == NULL)
            return true;
        for (q++; q < one.ptr + one.len; q++)
            if (*q >= '1' && *q <= '9')
                return true;
    }
    return false;
}

/* Replace the body by what a step made of it; a step that failed leaves the body as it was. */
static void body_swap(struct api_reply *reply, struct buf *made)
{
    if (made->failed) {
        buf_done(made);
        return;
    }
    buf_done(&reply->body);
    reply->body = *made;
}

static void body_filter(struct api_call *call)
{
    struct filter *filter = filter_create_path(call_param(call, "filter_path"));
    struct buf made = {0};
    if (filter == NULL)
        return;
    filter_apply(filter, json_root(buf_slice(&call->reply.body)), &made);
    filter_destroy(filter);
    body_swap(&call->reply, &made);
}

static void body_gzip(struct api_call *call)
{
    struct buf made = {0};
    if (gzip_deflate(buf_slice(&call->reply.body), &made) != RC_OK) {
        buf_done(&made);
        return;
    }
    body_swap(&call->reply, &made);
    call->reply.gzipped = true;
}

/* ---- gzip of a streamed answer: window by window into one member */

/* What the stream costs: zlib's window and tables. */
#define PACKED_BYTES (256 * KIB)

struct packed {
    struct gzip_stream *stream;
    enum rc (*more)(struct api_call *call); /* the handler's */
};

/* Pack the window that reply.body holds; the last one when the handler has no more. */
static enum rc pack_window(struct api_call *call, bool last)
{
    struct buf made = {0};
    enum rc rc = gzip_stream_put(call->packed->stream, buf_slice(&call->reply.body), last, &made);
    if (rc != RC_OK || made.failed) {
        buf_done(&made);
        return RC_NOMEM;
    }
    body_swap(&call->reply, &made);
    return RC_OK;
}

static enum rc packed_more(struct api_call *call)
{
    struct api_reply *r = &call->reply;
    do {
        r->more = call->packed->more;
        TRY(r->more(call));
        call->packed->more = r->more;
        TRY(pack_window(call, r->more == NULL));
    } while (r->body.len == 0 && r->more != NULL);
    if (r->more != NULL)
        r->more = packed_more;
    return RC_OK;
}

/* Without memory for it the answer goes out as it is. */
static void pack_stream(struct api_call *call)
{
    struct packed *p = call_alloc(call, sizeof *p);
    if (p == NULL || gzip_stream_open(&p->stream) != RC_OK)
        return;
    p->more = call->reply.more;
    call->packed = p;
    if (pack_window(call, false) != RC_OK) {
        reply_done(call);
        return;
    }
    call_charge(call, PACKED_BYTES);
    call->reply.more = packed_more;
    call->reply.gzipped = true;
}

void reply_done(struct api_call *call)
{
    if (call->packed != NULL)
        gzip_stream_close(call->packed->stream);
    call->packed = NULL;
}

void reply_complete(struct api_call *call, unsigned steps)
{
    struct api_reply *r = &call->reply;
    if (r->body.failed) {
        buf_done(&r->body);
        r->more = NULL;
        put_error(reply_json(call, errors[RC_NOMEM].status), errors[RC_NOMEM].status,
                  errors[RC_NOMEM].type, slice_str(errors[RC_NOMEM].text), SLICE_NONE);
    } else if (r->more != NULL) {
        if ((steps & REPLY_GZIP) != 0 && call->method != API_HEAD && reply_wants_gzip(call))
            pack_stream(call);
    } else if (r->content_type != NULL && r->body.len != 0) {
        bool json = strcmp(r->content_type, JSON_TYPE) == 0, pretty = false;
        if (json && (steps & REPLY_FILTER) != 0 && call_param(call, "filter_path").len != 0)
            body_filter(call);
        if (json && (steps & REPLY_PRETTY) != 0 && call_has(call, "pretty"))
            pretty = !slice_is(call_param(call, "pretty"), "false");
        if (pretty) {
            struct buf made = {0};
            json_pretty(buf_slice(&r->body), &made);
            body_swap(r, &made);
        }
        if ((steps & REPLY_GZIP) != 0 && call->method != API_HEAD &&
            r->body.len >= GZIP_BYTES_MIN && reply_wants_gzip(call))
            body_gzip(call);
    }
}

void api_finish_with(struct api_call *call, unsigned steps)
{
    /* Off a worker nothing is compressed. */
    reply_complete(call, call->queued ? steps | REPLY_GZIP : steps);
    if (call->queued)
        call->finished(call);
}

void api_finish(struct api_call *call)
{
    api_finish_with(call, REPLY_FILTER | REPLY_PRETTY);
}

/* ---- errors */

static PRINTF_LIKE(2, 0) void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && buf_reserve(b, (size_t)n + 1)) {
        vsnprintf((char *)b->ptr + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void reply_error_body(struct api_call *call, int status, const char *type, struct slice members,
                      const char *fmt, va_list ap)
{
    struct buf reason = {0};
    buf_vprintf(&reason, fmt, ap);
    put_error(reply_json(call, status), status, type, buf_slice(&reason), members);
    buf_done(&reason);
}

void reply_error(struct api_call *call, int status, const char *type, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    reply_error_body(call, status, type, SLICE_NONE, fmt, ap);
    va_end(ap);
    api_finish_with(call, REPLY_PRETTY);
}

void reply_error_with(struct api_call *call, int status, const char *type, struct slice members,
                      const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    reply_error_body(call, status, type, members, fmt, ap);
    va_end(ap);
    api_finish_with(call, REPLY_PRETTY);
}

void reply_no_index(struct api_call *call, struct slice name)
{
    struct buf members = {0};
    BUF_PUT_LIT(&members, "\"resource.type\":\"index_or_alias\",\"resource.id\":");
    json_quote(name, &members);
    BUF_PUT_LIT(&members, ",\"index_uuid\":\"_na_\",\"index\":");
    json_quote(name, &members);
    reply_error_with(call, 404, "index_not_found_exception", buf_slice(&members),
                     "no such index [%.*s]", SLICE_FMT(name));
    buf_done(&members);
}

void reply_rc(struct api_call *call, enum rc rc, const struct err *err)
{
    bool text = err != NULL && err->msg[0] != '\0';
    reply_error(call, errors[rc].status, errors[rc].type, "%s", text ? err->msg : errors[rc].text);
}

void reply_ack(struct api_call *call)
{
    BUF_PUT_LIT(reply_json(call, 200), "{\"acknowledged\":true}");
    api_finish(call);
}
