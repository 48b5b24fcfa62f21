/* SPDX-License-Identifier: Apache-2.0 */
/* _reindex: documents of indices here, or of another node, into an index here. This is how a codec
 * is changed: the bytes of the documents stay. */
#include "api/access.h"
#include "api/copy.h"
#include "api/handlers.h"
#include "api/search.h"
#include "api/settings.h"

#include <stdlib.h>
#include <strings.h>

#define PAGE_DOCS_MAX 10000

/* What the body says. Slices into it, unless said otherwise. */
struct asked {
    struct api_call *call;
    struct json_value source, dest, remote;
    struct buf indices;   /* expression */
    struct buf dest_name; /* decoded */
    struct query query;
    struct json_value query_json, source_json;
    uint64_t max, size;
    bool has_max;
};

static void asked_done(struct asked *asked)
{
    buf_done(&asked->indices);
    buf_done(&asked->dest_name);
    query_done(&asked->query);
}

/* ---- small steps; false: replied */

static PRINTF_LIKE(3, 4) bool refuse(struct asked *asked, const char *type, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    reply_error(asked->call, 400, type, "%s", text);
    return false;
}

static struct slice bare(struct slice key)
{
    return slice_of(key.ptr + 1, key.len - 2);
}

static bool is_text(struct json_value v, const char *text)
{
    return v.type == JSON_STRING && json_string_is(v.text, text);
}

static bool read_max(struct asked *asked, struct json_value v)
{
    uint64_t max = SEQ_NONE;
    int64_t number = 0;
    if (!json_u64(v.text, &max) && !(json_i64(v.text, &number) && number == -1))
        return refuse(asked, "illegal_argument_exception",
                      "[max_docs] parameter cannot be negative, found [%.*s]", SLICE_FMT(v.text));
    if (asked->has_max && asked->max != max)
        return refuse(asked, "illegal_argument_exception",
                      "[max_docs] set to two different values [%llu] and [%llu]",
                      (unsigned long long)(max < asked->max ? max : asked->max),
                      (unsigned long long)(max < asked->max ? asked->max : max));
    asked->max = max;
    asked->has_max = true;
    return true;
}

/* A name or a list of names, as one expression. */
static bool read_indices(struct asked *asked, struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value one = v;
    bool list = v.type == JSON_ARRAY;
    asked->indices.len = 0;
    while (!list || json_element(&scan, &one)) {
        if (one.type != JSON_STRING)
            return refuse(asked, "parsing_exception", "[source] [index] must be a name or a list");
        if (asked->indices.len != 0)
            buf_put_byte(&asked->indices, ',');
        json_unquote(one.text, &asked->indices);
        if (!list)
            break;
    }
    return true;
}

static bool read_size(struct asked *asked, struct json_value v)
{
    struct slice text = v.type == JSON_STRING ? bare(v.text) : v.text;
    if (!json_u64(text, &asked->size))
        return refuse(asked, "number_format_exception", "For input string: \"%.*s\"",
                      SLICE_FMT(text));
    if (asked->size == 0 || asked->size > PAGE_DOCS_MAX)
        return refuse(asked, "illegal_argument_exception",
                      "Batch size is too large, size must be less than or equal to: [%d] but was "
                      "[%llu].",
                      PAGE_DOCS_MAX, (unsigned long long)asked->size);
    return true;
}

static bool read_source_filter(struct asked *asked, struct copy *copy, struct json_value v)
{
    struct err err = {0};
    if (v.type == JSON_FALSE)
        return refuse(asked, "action_request_validation_exception",
                      "Validation Failed: 1: _source:false is not supported in this context;");
    source_done(&copy->source);
    asked->source_json = v;
    if (source_from_json(v, &copy->source, &err) == RC_OK)
        return true;
    return refuse(asked, "parsing_exception", "%s", err.msg);
}

static bool read_source_member(struct asked *asked, struct copy *copy, struct slice key,
                               struct json_value v)
{
    const char *type;
    struct err err = {0};
    if (json_string_is(key, "index"))
        return read_indices(asked, v);
    if (json_string_is(key, "size"))
        return read_size(asked, v);
    if (json_string_is(key, "_source"))
        return read_source_filter(asked, copy, v);
    if (json_string_is(key, "remote")) {
        asked->remote = v;
        return v.type == JSON_OBJECT ||
               refuse(asked, "parsing_exception", "[source] [remote] must be an object");
    }
    if (json_string_is(key, "query")) {
        asked->query_json = v;
        return true;
    }
    if (json_string_is(key, "sort")) {
        struct search_spec spec;
        struct buf body = {0};
        search_spec_init(&spec);
        BUF_PUT_LIT(&body, "{\"sort\":");
        buf_put_slice(&body, v.text);
        buf_put_byte(&body, '}');
        enum rc rc = search_spec_read(&spec, json_root(buf_slice(&body)), &type, &err);
        if (rc == RC_OK && spec.desc)
            rc = err_set(&err, RC_INVALID, 0, "_reindex goes in storage order, not down");
        search_spec_done(&spec);
        buf_done(&body);
        return rc == RC_OK || refuse(asked, "illegal_argument_exception", "%s", err.msg);
    }
    if (json_string_is(key, "from") || json_string_is(key, "stored_fields"))
        return refuse(asked, "action_request_validation_exception",
                      "Validation Failed: 1: %.*s is not supported in this context;",
                      SLICE_FMT(bare(key)));
    if (json_string_is(key, "type") || json_string_is(key, "timeout"))
        return true;
    return refuse(asked, "parsing_exception",
                  "Unknown key for a %s in [%.*s]. stowd has no query engine: [source] may have "
                  "[index], [query] (" QUERY_KNOWN "), [size], [_source], [remote]",
                  v.type == JSON_OBJECT  ? "START_OBJECT"
                  : v.type == JSON_ARRAY ? "START_ARRAY"
                                         : "VALUE",
                  SLICE_FMT(bare(key)));
}

static bool read_routing(struct asked *asked, struct copy *copy, struct json_value v)
{
    if (v.type == JSON_NULL || is_text(v, "keep"))
        return true;
    copy->text.len = 0;
    if (v.type == JSON_STRING)
        json_unquote(v.text, &copy->text);
    if (is_text(v, "discard")) {
        copy->routing = ROUTING_DISCARD;
    } else if (copy->text.len > 1 && copy->text.ptr[0] == '=') {
        copy->routing = ROUTING_SET;
        copy->routing_text = slice_of(copy->text.ptr + 1, copy->text.len - 1);
    } else {
        return refuse(asked, "illegal_argument_exception",
                      "Unsupported routing command: it must be [keep], [discard] or [=<text>]");
    }
    return true;
}

static bool read_dest_member(struct asked *asked, struct copy *copy, struct slice key,
                             struct json_value v)
{
    if (json_string_is(key, "index") && v.type == JSON_STRING) {
        asked->dest_name.len = 0;
        json_unquote(v.text, &asked->dest_name);
        return true;
    }
    if (json_string_is(key, "routing"))
        return read_routing(asked, copy, v);
    if (json_string_is(key, "op_type")) {
        copy->create = is_text(v, "create");
        return copy->create || is_text(v, "index") ||
               refuse(asked, "illegal_argument_exception", "opType must be 'create' or 'index'");
    }
    if (json_string_is(key, "version_type")) {
        bool gte = is_text(v, "external_gte");
        if (gte || is_text(v, "external") || is_text(v, "external_gt"))
            copy->versioning = gte ? VERSION_EXTERNAL_GTE : VERSION_EXTERNAL;
        else if (!is_text(v, "internal"))
            return refuse(asked, "illegal_argument_exception", "No version type match [%.*s]",
                          SLICE_FMT(v.text));
        return true;
    }
    if (json_string_is(key, "pipeline"))
        return v.type == JSON_NULL || is_text(v, "_none") ||
               refuse(asked, "illegal_argument_exception", "pipeline with id [%.*s] does not exist",
                      SLICE_FMT(v.type == JSON_STRING ? bare(v.text) : v.text));
    if (json_string_is(key, "type"))
        return true;
    return refuse(asked, "x_content_parse_exception", "[dest] unknown field [%.*s]",
                  SLICE_FMT(bare(key)));
}

static bool read_object(struct asked *asked, struct copy *copy, struct json_value object,
                        bool (*read)(struct asked *, struct copy *, struct slice,
                                     struct json_value))
{
    struct json_scan scan = json_enter(object);
    struct json_value v;
    struct slice key;
    if (object.type == JSON_END)
        return true;
    if (object.type != JSON_OBJECT)
        return refuse(asked, "parsing_exception", "[source] and [dest] must be objects");
    while (json_member(&scan, &key, &v))
        if (!read(asked, copy, key, v))
            return false;
    return true;
}

static bool read_member(struct asked *asked, struct copy *copy, struct slice key,
                        struct json_value v)
{
    if (json_string_is(key, "source")) {
        asked->source = v;
        return true;
    }
    if (json_string_is(key, "dest")) {
        asked->dest = v;
        return true;
    }
    if (json_string_is(key, "size") || json_string_is(key, "max_docs"))
        return read_max(asked, v);
    if (json_string_is(key, "conflicts")) {
        copy->proceed = is_text(v, "proceed");
        return copy->proceed || is_text(v, "abort") ||
               refuse(asked, "illegal_argument_exception",
                      "conflicts may only be \"proceed\" or \"abort\" but was [%.*s]",
                      SLICE_FMT(v.type == JSON_STRING ? bare(v.text) : v.text));
    }
    if (json_string_is(key, "script"))
        return v.type == JSON_NULL ||
               refuse(asked, "illegal_argument_exception",
                      "[script] is not supported: stowd never changes a document");
    return refuse(asked, "x_content_parse_exception", "[reindex] unknown field [%.*s]",
                  SLICE_FMT(bare(key)));
}

static bool validate(struct asked *asked)
{
    struct buf text = {0};
    unsigned n = 0;
    if (asked->indices.len == 0)
        buf_printf(&text, "%u: use _all if you really want to copy from all existing indexes;",
                   ++n);
    if (asked->dest_name.len == 0)
        buf_printf(&text, "%u: index must be specified;", ++n);
    if (n != 0)
        (void)refuse(asked, "action_request_validation_exception", "Validation Failed: %.*s",
                     (int)text.len, (const char *)text.ptr);
    buf_done(&text);
    return n == 0;
}

static bool read_query(struct asked *asked)
{
    const char *type;
    struct err err = {0};
    if (asked->query_json.type == JSON_END || asked->query_json.type == JSON_NULL ||
        asked->remote.type == JSON_OBJECT) /* the other node reads it */
        return true;
    enum rc rc = query_read(asked->query_json, &asked->query, &type, &err);
    if (rc != RC_OK)
        reply_error(asked->call, error_status(rc),
                    rc == RC_INVALID ? type : error_type(asked->call->api, rc), "%s", err.msg);
    return rc == RC_OK;
}

static bool read_request(struct asked *asked, struct copy *copy)
{
    struct json_value body;
    if (!names_body_object(asked->call, &body) || !read_object(asked, copy, body, read_member) ||
        !read_object(asked, copy, asked->source, read_source_member) ||
        !read_object(asked, copy, asked->dest, read_dest_member) || !validate(asked) ||
        !read_query(asked))
        return false;
    copy->batch_docs = (size_t)asked->size;
    return copy_read_limits(asked->call, copy, asked->max, asked->has_max);
}

/* ---- source and destination; false: replied */

static bool is_source(const struct names_list *sources, const struct index *index)
{
    for (size_t i = 0; i < sources->count; i++)
        if (sources->index[i] == index)
            return true;
    return false;
}

/* The index to write to, made when it is missing. */
static bool take_dest(struct asked *asked, struct copy *copy, const struct names_list *sources)
{
    struct api_call *call = asked->call;
    struct slice name = buf_slice(&asked->dest_name);
    struct names_target target = {.index = NULL};
    unsigned needs = copy->create ? USERS_ADD | USERS_PUT : USERS_PUT;
    struct err err = {0};
    bool require_alias;
    if (!call_bool(call, "require_alias", false, &require_alias))
        return false;
    if (!access_may(call, name, needs)) {
        access_reply_403(call, name, needs);
        return false;
    }
    enum rc rc = names_target(call->api, name, copy->create ? NAMES_APPEND : NAMES_WRITE_CREATE,
                              require_alias ? NAMES_REQUIRE_ALIAS : 0, &target, &err);
    if (rc != RC_OK) {
        names_reply_error(call, name, rc, &err);
        return false;
    }
    copy->dest = target.index;
    if (!is_source(sources, target.index))
        return true;
    return refuse(asked, "action_request_validation_exception",
                  "Validation Failed: 1: reindex cannot write into an index its reading from [%s];",
                  index_name(target.index));
}

/* May the caller read what is named? Wildcards leave out by themselves what they may not. */
static bool check_sources(struct asked *asked)
{
    struct slice list = buf_slice(&asked->indices);
    for (size_t at = 0; at < list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice name = slice_of(list.ptr + at, end - at);
        at = end + 1;
        bool wild = name.len == 0 || memchr(name.ptr, '*', name.len) != NULL ||
                    name.ptr[0] == '-' || slice_is(name, "_all");
        if (!wild && !access_may(asked->call, name, USERS_READ)) {
            access_reply_403(asked->call, name, USERS_READ);
            return false;
        }
    }
    return true;
}

static bool open_local(struct asked *asked, struct copy *copy)
{
    struct api_call *call = asked->call;
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN,
                                    .forbid_closed = true,
                                    .caller = call,
                                    .needs = call->user == NULL ? 0 : USERS_READ};
    struct names_list list;
    struct slice missing = SLICE_NONE, expression = buf_slice(&asked->indices);
    struct err err = {0};
    if (!check_sources(asked))
        return false;
    enum rc rc = names_resolve(call->api, expression, &options, &list, &missing, &err);
    if (rc == RC_NOT_FOUND) {
        reply_no_index(call, missing);
        return false;
    }
    if (rc != RC_OK) {
        names_reply_error(call, expression, rc, &err);
        return false;
    }
    if (!names_usable(call, &list, USE_READ))
        return false;
    bool ok = take_dest(asked, copy, &list);
    if (ok) {
        rc = scan_open(call->api->o.store, &list, &asked->query, &copy->scan, &err);
        ok = rc == RC_OK;
        if (!ok)
            reply_rc(call, rc, &err);
    }
    names_list_done(&list);
    return ok;
}

/* ---- another node */

static struct slice text_of(struct asked *asked, struct json_value object, const char *name)
{
    struct json_value v;
    struct buf text = {0};
    if (!json_find(object, name, &v) || v.type != JSON_STRING)
        return SLICE_NONE;
    json_unquote(v.text, &text);
    struct slice copy = call_dup(asked->call, buf_slice(&text));
    buf_done(&text);
    return copy;
}

/* The host:port of an address, lower-case bytes left as they are. */
static struct slice authority(struct slice host)
{
    const uint8_t *colon = memmem(host.ptr, host.len, "://", 3);
    if (colon != NULL)
        host = slice_of(colon + 3, (size_t)(host.ptr + host.len - colon - 3));
    const uint8_t *slash = memchr(host.ptr, '/', host.len);
    return slash == NULL ? host : slice_of(host.ptr, (size_t)(slash - host.ptr));
}

static bool host_allowed(const struct api *api, struct slice host)
{
    struct slice list = slice_str(api->o.reindex_whitelist != NULL ? api->o.reindex_whitelist : "");
    for (size_t at = 0; at < list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        while (at < end && list.ptr[at] == ' ')
            at++;
        if (names_match(slice_of(list.ptr + at, end - at), host))
            return true;
        at = end + 1;
    }
    return false;
}

static bool read_time(struct asked *asked, const char *name, uint64_t *ms)
{
    struct slice text = text_of(asked, asked->remote, name);
    return text.len == 0 || search_time(text, ms) ||
           refuse(asked, "number_format_exception",
                  "failed to parse setting [%s] with value [%.*s] as a time value", name,
                  SLICE_FMT(text));
}

static bool check_remote(struct asked *asked)
{
    static const char *const known[] = {"host",    "username",       "password",
                                        "headers", "socket_timeout", "connect_timeout"};
    struct json_scan scan = json_enter(asked->remote);
    struct slice host = text_of(asked, asked->remote, "host");
    struct buf unknown = {0};
    struct json_value v;
    struct slice key;
    if (memmem(host.ptr, host.len, "://", 3) == NULL)
        return refuse(asked, "illegal_argument_exception",
                      "[host] must be of the form [scheme]://[host]:[port](/[pathPrefix])? but was "
                      "[%.*s]",
                      SLICE_FMT(host));
    while (json_member(&scan, &key, &v)) {
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !json_string_is(key, known[k]))
            k++;
        if (k < ARRAY_LEN(known))
            continue;
        if (unknown.len != 0)
            buf_put_byte(&unknown, ',');
        buf_put_slice(&unknown, bare(key));
    }
    bool ok = unknown.len == 0 ||
              refuse(asked, "illegal_argument_exception", "Unsupported fields in [remote]. [%.*s]",
                     SLICE_FMT(buf_slice(&unknown)));
    buf_done(&unknown);
    return ok;
}

static bool open_remote(struct asked *asked, struct copy *copy)
{
    struct api_call *call = asked->call;
    struct names_list none = {NULL, 0};
    struct err err = {0};
    struct json_value headers;
    struct remote_options o = {
        .host = text_of(asked, asked->remote, "host"),
        .username = text_of(asked, asked->remote, "username"),
        .password = text_of(asked, asked->remote, "password"),
        .index = buf_slice(&asked->indices),
        .query = asked->query_json.text,
        .source = asked->source_json.text,
        .size = asked->size,
        .connect_ms = 30000,
        .socket_ms = 30000,
        .certificates = call->api->o.reindex_certificates,
    };
    if (!access_may_all(call, USERS_ALL)) { /* it speaks to other hosts in the node's name */
        access_reply_403(call, SLICE_LIT("*"), USERS_ALL);
        return false;
    }
    if (json_find(asked->remote, "headers", &headers) && headers.type == JSON_OBJECT)
        o.headers = headers.text;
    if (!check_remote(asked) || !read_time(asked, "socket_timeout", &o.socket_ms) ||
        !read_time(asked, "connect_timeout", &o.connect_ms))
        return false;
    if (!host_allowed(call->api, authority(o.host)))
        return refuse(
            asked, "illegal_argument_exception",
            "[%.*s] not whitelisted in reindex.remote.whitelist (a setting of the daemon)",
            SLICE_FMT(authority(o.host)));
    enum rc rc = remote_open(&o, call->api->o.work, &copy->remote, &err);
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
        return false;
    }
    return take_dest(asked, copy, &none);
}

void reindex_post(struct api_call *call)
{
    struct json_value none = {JSON_END, SLICE_NONE};
    struct asked asked = {.call = call,
                          .source = none,
                          .dest = none,
                          .remote = none,
                          .query = {.all = true},
                          .query_json = none,
                          .source_json = none,
                          .max = SEQ_NONE,
                          .size = COPY_DOCS};
    struct copy *copy = copy_create(call->api);
    struct buf text = {0};
    if (copy == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    bool ok = read_request(&asked, copy);
    if (ok)
        ok =
            asked.remote.type == JSON_OBJECT ? open_remote(&asked, copy) : open_local(&asked, copy);
    if (ok) {
        BUF_PUT_LIT(&text, "reindex from [");
        buf_put_slice(&text, buf_slice(&asked.indices));
        BUF_PUT_LIT(&text, "] to [");
        buf_put_slice(&text, buf_slice(&asked.dest_name));
        buf_put_byte(&text, ']');
        copy_start(call, copy, JOB_REINDEX, buf_slice(&text));
    } else {
        copy_destroy(copy);
    }
    buf_done(&text);
    asked_done(&asked);
}
