/* SPDX-License-Identifier: Apache-2.0 */
/* Inside api/: what handlers use to read a call and to write its reply. Not for server/.
 *
 * A handler is void handler(struct api_call *call); it runs on a worker and ends in api_finish(),
 * directly or from a callback. Until then it may be the only one to touch the call. */
#ifndef STOWD_CALL_H
#define STOWD_CALL_H

#include "api/api.h"
#include "storage/json.h"

/* ---- routes: one row each, in routes.c */
enum route_flags {
    ROUTE_READ = 0,
    ROUTE_WRITE = 1 << 0,    /* changes something */
    ROUTE_NDJSON = 1 << 1,   /* the body may be NDJSON (bulk) */
    ROUTE_BODY = 1 << 2,     /* takes a body; others ignore one */
    ROUTE_INLINE = 1 << 3,   /* api_try_inline may serve it: docs_try_inline */
    ROUTE_DOCUMENT = 1 << 4, /* body up to http.max_content_length; else LIMIT_CONTROL_BYTES */
};

struct route {
    unsigned methods;    /* bits 1 << enum api_method */
    const char *pattern; /* "/{index}/_doc/{id}" */
    void (*handler)(struct api_call *call);
    unsigned flags;
    const char *params; /* query parameters beyond the common ones, space separated; an unknown one
                           is 400 as in Elasticsearch */
    const char *text;   /* for docs/api.md */
};

/* ---- memory that lives as long as the call; NULL when out */
void *call_alloc(struct api_call *call, size_t bytes);
struct slice call_dup(struct api_call *call, struct slice s);
/* Tell the server's budget of more (or less) memory; what is still held is given back by
 * api_call_done. */
void call_charge(struct api_call *call, int64_t bytes);

/* ---- path and query, decoded */
struct param {
    struct slice name, value;
};
/* %XX once, and '+' as a space where asked for (query). False: a bad escape, a NUL byte or invalid
 * UTF-8; or no memory. */
MUST_CHECK bool call_decode(struct api_call *call, struct slice raw, bool plus, struct slice *out);
/* Fill part[] and params from the raw path and query (route set). False: replied 400. */
MUST_CHECK bool call_read(struct api_call *call);
/* Variable segment of the route: "index", "id" …; empty when the route has none of that name. */
struct slice call_part(const struct api_call *call, const char *name);
bool call_has(const struct api_call *call, const char *name);
/* Value, or an empty slice. A parameter without value is empty, too. */
struct slice call_param(const struct api_call *call, const char *name);
/* true, false, empty (= true); anything else replies 400 and gives false. */
MUST_CHECK bool call_bool(struct api_call *call, const char *name, bool unset, bool *out);
MUST_CHECK bool call_u64(struct api_call *call, const char *name, uint64_t unset, uint64_t *out);

/* ---- ending */
/* Apply filter_path and pretty (JSON bodies that are not streamed), gzip when asked for, and hand
 * the call back to the server. */
void api_finish(struct api_call *call);
/* The same with fewer of these steps (gzip is always tried): for bodies that a handler filtered
 * itself, or that are a document's bytes. Errors are never filtered. */
enum reply_steps { REPLY_FILTER = 1, REPLY_PRETTY = 2, REPLY_GZIP = 4 };
void api_finish_with(struct api_call *call, unsigned steps);
void reply_complete(struct api_call *call, unsigned steps);
bool reply_wants_gzip(const struct api_call *call);
void reply_done(struct api_call *call); /* what reply_complete keeps with the call */
/* {"error":{"root_cause":[{…}],"type":…,"reason":…},"status":N} and api_finish. */
void reply_error(struct api_call *call, int status, const char *type, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The same with members for the error object, JSON text such as "\"index\":\"logs\"" */
void reply_error_with(struct api_call *call, int status, const char *type, struct slice members,
                      const char *fmt, ...) PRINTF_LIKE(5, 6);
/* index_not_found_exception with its index members, 404. */
void reply_no_index(struct api_call *call, struct slice name);
/* From the table rc -> HTTP status and ES type, with err's text. */
void reply_rc(struct api_call *call, enum rc rc, const struct err *err);
/* {"acknowledged":true} */
void reply_ack(struct api_call *call);
/* Status 200 application/json, empty body to append to: */
struct buf *reply_json(struct api_call *call, int status);
void reply_header(struct api_call *call, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The row of the table, for item-level errors (bulk, mget). */
int error_status(enum rc rc);
const char *error_type(const struct api *api, enum rc rc);
/* {"error":{…},"status":N} alone, without finishing: for answers that are made off a worker. */
void reply_error_body(struct api_call *call, int status, const char *type, struct slice members,
                      const char *fmt, va_list ap) __attribute__((format(printf, 5, 0)));
/* Append {"type":…,"reason":…} */
void error_object(struct buf *out, const char *type, struct slice reason, struct slice members);
/* Append {"root_cause":[{…}],"type":…,"reason":…} */
void error_tree(struct buf *out, const char *type, struct slice reason, struct slice members);

/* ---- JSON writing: append ,"key": (the comma unless the last byte opens a container) and values
 */
void json_key(struct buf *b, const char *key);
void json_str(struct buf *b, const char *key, struct slice value);
void json_cstr(struct buf *b, const char *key, const char *value);
void json_int(struct buf *b, const char *key, int64_t value);
void json_uint(struct buf *b, const char *key, uint64_t value);
void json_bool(struct buf *b, const char *key, bool value);
void json_raw(struct buf *b, const char *key, struct slice json);
/* The bytes of valid JSON with new white space: two blanks a level, as Elasticsearch prints. */
void json_pretty(struct slice json, struct buf *out);
#define JSON_SHARDS "\"_shards\":{\"total\":1,\"successful\":1,\"failed\":0}"

/* ---- the api object */
struct api {
    struct api_options o;
    int major;                 /* of identity_version: 7 adds _type */
    struct access *access;     /* api/access.h; NULL: security is off */
    struct metrics *metrics;   /* api/metrics.h */
    uint64_t started_ns;       /* monotonic */
    struct registry *names;    /* api/names.h */
    struct every *every;       /* api/every.h: the housekeeping thread */
    struct contexts *contexts; /* api/search.h */
    struct jobs *jobs;         /* api/tasks.h */
};
/* Call fn(arg) about every `ms` milliseconds on the housekeeping thread, until api_destroy. */
MUST_CHECK enum rc api_every(struct api *api, uint64_t ms, void (*fn)(void *arg), void *arg,
                             struct err *err);
uint64_t clock_ms(void); /* wall clock, ms since 1970 */
uint64_t clock_ns(void); /* monotonic */
uint64_t call_took_ms(const struct api_call *call);

#endif
