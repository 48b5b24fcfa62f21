/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a call through the room: admitted by its headers, run inline or on a worker. */
#include "api/call.h"

#include "api/access.h"
#include "api/door.h"
#include "api/every.h"
#include "api/gzip.h"
#include "api/handlers.h"
#include "api/metrics.h"
#include "api/names.h"
#include "api/refused.h"
#include "api/retention.h"
#include "api/routes.h"
#include "api/search.h"
#include "api/tasks.h"
#include "config/limits.h"

#include <strings.h>

/* An inline answer larger than this is given to a worker when the client wants gzip: I/O threads
 * do not compress. */
#define INLINE_IDENTITY_MAX (16 * KIB)

enum rc api_create(const struct api_options *options, struct api **out, struct err *err)
{
    struct api *api = calloc(1, sizeof *api);
    if (api == NULL)
        return err_set(err, RC_NOMEM, 0, "api: out of memory");
    api->o = *options;
    api->major = atoi(options->identity_version);
    api->started_ns = clock_ns();
    enum rc rc = registry_create(&api->names, err);
    if (rc == RC_OK)
        rc = contexts_create(&api->contexts, err);
    if (rc == RC_OK)
        rc = jobs_create(options->store, &api->jobs, err);
    if (rc == RC_OK)
        rc = metrics_create(&api->metrics, err);
    if (rc == RC_OK && options->users_file != NULL)
        rc = access_create(api, &api->access, err);
    if (rc == RC_OK)
        rc = every_start(&api->every, err);
    if (rc == RC_OK)
        rc = api_every(api, 1000, contexts_expire, api->contexts, err);
    if (rc == RC_OK)
        rc = retention_start(api, err);
    if (rc != RC_OK) {
        api_destroy(api);
        return rc;
    }
    *out = api;
    return RC_OK;
}

enum rc api_every(struct api *api, uint64_t ms, void (*fn)(void *arg), void *arg, struct err *err)
{
    return every_add(api->every, ms, fn, arg, err);
}

void api_stop(struct api *api)
{
    jobs_stop(api->jobs);
    if (api->access != NULL)
        door_stop(api->access->door);
}

enum rc api_reload(struct api *api, struct err *err)
{
    return api->access == NULL ? RC_OK : access_reload(api->access, err);
}

void api_destroy(struct api *api)
{
    if (api == NULL)
        return;
    every_stop(api->every); /* first: its jobs use the rest */
    jobs_destroy(api->jobs);
    contexts_destroy(api->contexts);
    access_destroy(api->access);
    metrics_destroy(api->metrics);
    registry_destroy(api->names);
    free(api);
}

/* ---- by the headers */

static const char *const method_names[] = {
    [API_GET] = "GET", [API_HEAD] = "HEAD",     [API_POST] = "POST",
    [API_PUT] = "PUT", [API_DELETE] = "DELETE", [API_OPTIONS] = "OPTIONS",
};

static const char *method_text(const struct api_call *call)
{
    return call->method < ARRAY_LEN(method_names) ? method_names[call->method]
           : call->method_text != NULL            ? call->method_text
                                                  : "?";
}

static void allowed_list(unsigned allowed, char out[static 64])
{
    size_t n = 0;
    out[0] = '\0';
    for (unsigned m = 0; m < ARRAY_LEN(method_names); m++)
        if ((allowed & 1u << m) != 0)
            n += (size_t)snprintf(out + n, 64 - n, "%s%s", n == 0 ? "" : ", ", method_names[m]);
}

/* "/_something", which would be the name of an index if it could. */
static bool is_lone_name(struct slice path)
{
    return path.len > 2 && path.ptr[1] == '_' && memchr(path.ptr + 1, '/', path.len - 1) == NULL;
}

/* "/logs/event/1", "/logs/event/_search": an index, and a type as releases before 7 had it. */
static bool has_type(struct slice path)
{
    struct route_path p;
    return route_split(path, &p) && (p.count == 2 || p.count == 3) && p.segment[0].ptr[0] != '_' &&
           p.segment[1].ptr[0] != '_';
}

/* No row takes the call: an unknown path, or a method that the path does not take. */
static void refuse_route(struct api_call *call, unsigned allowed)
{
    char list[64];
    if (call->method != API_OPTIONS && refused_reason(call->path) != NULL) {
        refused_get(call);
        return;
    }
    if (allowed == 0 && call->method == API_PUT && is_lone_name(call->path)) {
        struct slice name = slice_of(call->path.ptr + 1, call->path.len - 1);
        struct buf members = {0};
        json_str(&members, "index", name);
        json_cstr(&members, "index_uuid", "_na_");
        reply_error_with(call, 400, "invalid_index_name_exception", buf_slice(&members),
                         "Invalid index name [%.*s], must not start with '_', '-', or '+'",
                         SLICE_FMT(name));
        buf_done(&members);
        return;
    }
    if (allowed == 0) {
        /* Elasticsearch sends the error as a string; shippers look for error.type (facts of their
         * sources: Fluentd, Vector, OpenTelemetry), so it is an object here. */
        reply_error(call, 400, "illegal_argument_exception",
                    "no handler found for uri [%.*s] and method [%s]%s", SLICE_FMT(call->path),
                    method_text(call),
                    has_type(call->path)
                        ? ": there are no types, use /{index}/_doc/{id} and the like"
                        : "");
        return;
    }
    allowed_list(allowed, list);
    reply_header(call, "Allow", "%s", list);
    if (call->method == API_OPTIONS) {
        call->reply.status = 200;
        call->reply.content_type = "text/plain; charset=UTF-8";
        call->reply.body.len = 0;
        api_finish(call);
        return;
    }
    struct buf text = {0};
    buf_printf(&text, "Incorrect HTTP method for uri [%.*s] and method [%s], allowed: [%s]",
               SLICE_FMT(call->path), method_text(call), list);
    struct buf *b = reply_json(call, 405);
    buf_put_byte(b, '{');
    json_str(b, "error", buf_slice(&text));
    json_int(b, "status", 405);
    buf_put_byte(b, '}');
    buf_done(&text);
    api_finish_with(call, REPLY_PRETTY);
}

static bool is_nocase(struct slice s, const char *text)
{
    return s.len == strlen(text) && strncasecmp((const char *)s.ptr, text, s.len) == 0;
}

/* "application/json; charset=utf-8": the type alone. */
static struct slice media_type(struct slice header)
{
    size_t len = 0;
    while (len < header.len && header.ptr[len] != ';')
        len++;
    while (len > 0 && header.ptr[len - 1] == ' ')
        len--;
    return slice_of(header.ptr, len);
}

static bool media_known(struct slice type)
{
    static const char *const known[] = {
        "application/json",
        "application/x-ndjson",
        "application/vnd.elasticsearch+json",
        "application/vnd.elasticsearch+x-ndjson",
        "text/json", /* rsyslog's omelasticsearch, older releases */
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (is_nocase(type, known[i]))
            return true;
    return false;
}

static bool is_gzip(const struct api_call *call)
{
    return is_nocase(call->content_encoding, "gzip") || is_nocase(call->content_encoding, "x-gzip");
}

/* Most bytes that the body may have, as received and inflated. */
static uint64_t body_limit(const struct api_call *call)
{
    uint64_t max = call->api->o.max_content_length;
    bool documents = (call->route->flags & ROUTE_DOCUMENT) != 0;
    return documents || max < LIMIT_CONTROL_BYTES ? max : LIMIT_CONTROL_BYTES;
}

static void refuse_length(struct api_call *call, uint64_t limit)
{
    bool set = limit == call->api->o.max_content_length;
    reply_error(call, 413, error_type(call->api, RC_TOO_LARGE),
                "entity content is too long: the maximum is [%llu] bytes (%s)",
                (unsigned long long)limit, set ? "http.max_content_length" : "control requests");
}

static bool admit_body(struct api_call *call)
{
    if (call->has_length && call->content_length > call->api->o.max_content_length) {
        refuse_length(call, call->api->o.max_content_length);
        return false;
    }
    bool body = call->chunked || (call->has_length && call->content_length != 0);
    if (!body || (call->route->flags & ROUTE_BODY) == 0)
        return true;
    if (call->has_length && call->content_length > body_limit(call)) {
        refuse_length(call, body_limit(call));
        return false;
    }
    if (call->content_encoding.len != 0 && !is_gzip(call) &&
        !is_nocase(call->content_encoding, "identity")) {
        reply_error(call, 415, "media_type_header_exception",
                    "Content-Encoding header [%.*s] is not supported, use gzip or none",
                    SLICE_FMT(call->content_encoding));
        return false;
    }
    if (call->content_type.len != 0 && !media_known(media_type(call->content_type))) {
        reply_error(call, 406, "media_type_header_exception",
                    "Content-Type header [%.*s] is not supported", SLICE_FMT(call->content_type));
        return false;
    }
    return true;
}

/* Who calls is known, or need not be. */
static enum api_admission admit_known(struct api_call *call)
{
    struct route_path path;
    unsigned allowed = 0;
    if (route_split(call->path, &path))
        call->route = route_find(&path, call->method, &allowed);
    if (call->route == NULL) {
        refuse_route(call, allowed);
        return API_REFUSED;
    }
    return call_read(call) && access_authorize(call) && admit_body(call) ? API_ADMITTED
                                                                         : API_REFUSED;
}

enum api_admission api_admit(struct api *api, struct api_call *call)
{
    call->api = api;
    call->started_ns = clock_ns();
    call->queued = false;
    call->route = NULL;
    if (api->access != NULL) {
        enum api_admission known = access_identify(call);
        if (known != API_ADMITTED)
            return known;
    }
    return admit_known(call);
}

void api_wait(struct api *api, struct api_call *call)
{
    if (!door_knock(api->access->door, call->visit))
        call->admitted(call);
}

enum api_admission api_admit_again(struct api *api, struct api_call *call)
{
    assert(api == call->api);
    return access_identified(call) ? admit_known(call) : API_REFUSED;
}

void api_count(struct api *api, const struct api_call *call)
{
    metrics_count(api->metrics, call);
}

void api_refuse(struct api *api, struct api_call *call, int status, const char *type,
                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    call->api = api;
    call->reply.header_count = 0;
    call->reply.more = NULL;
    reply_error_body(call, status, type, SLICE_NONE, fmt, ap);
    va_end(ap);
    reply_complete(call, REPLY_PRETTY);
}

/* ---- complete */

bool api_try_inline(struct api *api, struct api_call *call)
{
    struct api_reply *r = &call->reply;
    assert(api == call->api && call->route != NULL);
    if ((call->route->flags & ROUTE_INLINE) == 0)
        return false;
    call->route->handler(call);
    if (r->status == 0)
        return false;
    if (r->body.len > INLINE_IDENTITY_MAX && reply_wants_gzip(call)) {
        buf_done(&r->body);
        *r = (struct api_reply){0};
        return false;
    }
    return true;
}

/* Swap the body as received for what it inflates to. False: replied. */
static bool inflate_body(struct api_call *call)
{
    struct buf plain = {0};
    struct err err = {0};
    enum rc rc = gunzip(buf_slice(&call->body), body_limit(call), &plain, &err);
    if (rc == RC_TOO_LARGE) {
        buf_done(&plain);
        refuse_length(call, body_limit(call));
        return false;
    }
    if (rc != RC_OK) {
        buf_done(&plain);
        reply_rc(call, rc, &err);
        return false;
    }
    call_charge(call, (int64_t)plain.cap - (int64_t)call->body.cap);
    buf_done(&call->body);
    call->body = plain;
    return true;
}

static void run_call(struct task *task)
{
    struct api_call *call = (struct api_call *)((char *)task - offsetof(struct api_call, task));
    if ((call->route->flags & ROUTE_BODY) != 0) {
        if (call->body.len > body_limit(call)) {
            refuse_length(call, body_limit(call));
            return;
        }
        if (call->body.len != 0 && is_gzip(call) && !inflate_body(call))
            return;
        /* Clients that cannot send a body with GET put it there. */
        if (call->body.len == 0)
            buf_put_slice(&call->body, call_param(call, "source"));
    }
    call->route->handler(call);
}

void api_submit(struct api *api, struct api_call *call)
{
    bool write = (call->route->flags & ROUTE_WRITE) != 0;
    assert(api == call->api);
    call->queued = true;
    call->task.run = run_call;
    work_submit(api->o.work, write ? WORK_WRITE : WORK_GET, &call->task);
}
