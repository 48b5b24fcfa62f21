/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler reads of a call: memory, path segments, query parameters. */
#include "api/call.h"

#include "api/access.h"
#include "api/routes.h"

#include <time.h>

#define ARENA_CHUNK 4000
#define ALIGN       _Alignof(max_align_t)

struct chunk {
    struct chunk *next;
    size_t used, cap;
    max_align_t bytes[];
};

struct call_arena {
    struct chunk *chunks; /* the newest first */
    int64_t charged;      /* told to the server and not given back */
};

static struct call_arena *arena_of(struct api_call *call)
{
    if (call->arena == NULL)
        call->arena = calloc(1, sizeof *call->arena);
    return call->arena;
}

void *call_alloc(struct api_call *call, size_t bytes)
{
    struct call_arena *arena = arena_of(call);
    if (arena == NULL || bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct chunk *c = arena->chunks;
    if (c == NULL || need > c->cap - c->used) {
        size_t cap = need > ARENA_CHUNK / 2 ? need : ARENA_CHUNK;
        c = malloc(sizeof *c + cap);
        if (c == NULL)
            return NULL;
        c->used = 0;
        c->cap = cap;
        /* A large piece must not end the use of the chunk that is being filled. */
        if (cap != ARENA_CHUNK && arena->chunks != NULL) {
            c->next = arena->chunks->next;
            arena->chunks->next = c;
        } else {
            c->next = arena->chunks;
            arena->chunks = c;
        }
    }
    void *p = (uint8_t *)c->bytes + c->used;
    c->used += need;
    return p;
}

struct slice call_dup(struct api_call *call, struct slice s)
{
    uint8_t *p = call_alloc(call, s.len);
    if (p == NULL)
        return SLICE_NONE;
    if (s.len != 0)
        memcpy(p, s.ptr, s.len);
    return slice_of(p, s.len);
}

void call_charge(struct api_call *call, int64_t bytes)
{
    struct call_arena *arena = arena_of(call);
    if (call->charge == NULL || arena == NULL || bytes == 0)
        return;
    arena->charged += bytes;
    call->charge(call, bytes);
}

void api_call_done(struct api_call *call)
{
    if (call->state_free != NULL)
        call->state_free(call);
    call->state_free = NULL;
    call->state = NULL;
    reply_done(call);
    if (call->user != NULL)
        access_call_done(call);
    if (call->arena != NULL) {
        call_charge(call, -call->arena->charged);
        for (struct chunk *c = call->arena->chunks, *next; c != NULL; c = next) {
            next = c->next;
            free(c);
        }
        free(call->arena);
        call->arena = NULL;
    }
    buf_done(&call->body);
    buf_done(&call->reply.body);
}

/* ---- decoding */

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool utf8_valid(struct slice s)
{
    for (size_t i = 0; i < s.len;) {
        uint8_t c = s.ptr[i++];
        size_t more = c < 0x80 ? 0 : c < 0xc2 ? 9 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 9;
        if (more > s.len - i)
            return false;
        /* The first byte behind these leads has a narrower range: overlong, surrogates, > 10FFFF.
         */
        uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        for (; more > 0; more--, low = 0x80, high = 0xbf, i++)
            if (s.ptr[i] < low || s.ptr[i] > high)
                return false;
    }
    return true;
}

bool call_decode(struct api_call *call, struct slice raw, bool plus, struct slice *out)
{
    uint8_t *p = call_alloc(call, raw.len + 1);
    if (p == NULL)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < raw.len; i++) {
        uint8_t c = raw.ptr[i];
        if (c == '%') {
            int high = raw.len - i > 2 ? hex(raw.ptr[i + 1]) : -1;
            int low = raw.len - i > 2 ? hex(raw.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        p[n++] = c;
    }
    *out = slice_of(p, n);
    return utf8_valid(*out);
}

/* The next name=value of a query; false at the end. */
static bool query_next(struct slice *rest, struct slice *name_out, struct slice *value_out)
{
    while (rest->len > 0) {
        const uint8_t *amp = memchr(rest->ptr, '&', rest->len);
        size_t len = amp == NULL ? rest->len : (size_t)(amp - rest->ptr);
        struct slice pair = slice_of(rest->ptr, len);
        size_t skip = amp == NULL ? len : len + 1;
        *rest = slice_of(rest->ptr + skip, rest->len - skip);
        if (len == 0)
            continue;
        const uint8_t *eq = memchr(pair.ptr, '=', len);
        size_t name = eq == NULL ? len : (size_t)(eq - pair.ptr);
        *name_out = slice_of(pair.ptr, name);
        *value_out = eq == NULL ? SLICE_NONE : slice_of(eq + 1, len - name - 1);
        return true;
    }
    return false;
}

static bool params_read(struct api_call *call)
{
    struct slice rest = call->query, name, value;
    size_t count = 0;
    while (query_next(&rest, &name, &value))
        count++;
    call->params = call_alloc(call, (count + 1) * sizeof *call->params);
    if (call->params == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return false;
    }
    call->param_count = 0;
    for (rest = call->query; query_next(&rest, &name, &value);) {
        struct param *p = &call->params[call->param_count];
        if (!call_decode(call, name, true, &p->name) ||
            !call_decode(call, value, true, &p->value)) {
            reply_error(call, 400, "illegal_argument_exception",
                        "malformed escape, NUL or invalid UTF-8 in query [%.*s]",
                        SLICE_FMT(call->query));
            return false;
        }
        call->param_count++;
    }
    return true;
}

/* Elasticsearch refuses what a route does not know, all of it in one text. */
static bool params_known(struct api_call *call)
{
    struct buf unknown = {0};
    size_t count = 0;
    for (size_t i = 0; i < call->param_count; i++)
        if (!route_takes(call->route, call->params[i].name)) {
            buf_put_str(&unknown, count++ == 0 ? "[" : ", [");
            buf_put_slice(&unknown, call->params[i].name);
            buf_put_byte(&unknown, ']');
            route_suggest(call->route, call->params[i].name, &unknown);
        }
    if (count != 0)
        reply_error(call, 400, "illegal_argument_exception",
                    "request [%.*s] contains unrecognized parameter%s: %.*s", SLICE_FMT(call->path),
                    count > 1 ? "s" : "", SLICE_FMT(buf_slice(&unknown)));
    buf_done(&unknown);
    return count == 0;
}

/* Answers are JSON, those of _cat also text: a client that asks for another form could not read
 * them. */
static bool format_known(struct api_call *call)
{
    struct slice format = call_param(call, "format");
    if (format.len == 0 || slice_is(format, "json") || slice_is(format, "text") ||
        slice_is(format, "txt"))
        return true;
    reply_error(call, 406, "media_type_header_exception",
                "format [%.*s] is not supported: answers are json, those of _cat text by default",
                SLICE_FMT(format));
    return false;
}

bool call_read(struct api_call *call)
{
    struct route_path path;
    bool split = route_split(call->path, &path);
    assert(split && path.count <= ARRAY_LEN(call->part));
    call->part_count = path.count;
    for (size_t i = 0; i < path.count; i++)
        if (!call_decode(call, path.segment[i], false, &call->part[i])) {
            reply_error(call, 400, "illegal_argument_exception",
                        "malformed escape, NUL or invalid UTF-8 in path [%.*s]",
                        SLICE_FMT(call->path));
            return false;
        }
    return params_read(call) && params_known(call) && format_known(call);
}

/* ---- asking */

struct slice call_part(const struct api_call *call, const char *name)
{
    for (size_t i = 0; i < call->part_count; i++)
        if (slice_is(route_variable(call->route, i), name))
            return call->part[i];
    return SLICE_NONE;
}

static const struct param *find_param(const struct api_call *call, const char *name)
{
    /* Of a repeated one the last counts. */
    for (size_t i = call->param_count; i-- > 0;)
        if (slice_is(call->params[i].name, name))
            return &call->params[i];
    return NULL;
}

bool call_has(const struct api_call *call, const char *name)
{
    return find_param(call, name) != NULL;
}

struct slice call_param(const struct api_call *call, const char *name)
{
    const struct param *p = find_param(call, name);
    return p == NULL ? SLICE_NONE : p->value;
}

bool call_bool(struct api_call *call, const char *name, bool unset, bool *out)
{
    const struct param *p = find_param(call, name);
    if (p == NULL) {
        *out = unset;
    } else if (p->value.len == 0 || slice_is(p->value, "true")) {
        *out = true;
    } else if (slice_is(p->value, "false")) {
        *out = false;
    } else {
        reply_error(call, 400, "illegal_argument_exception",
                    "Failed to parse value [%.*s] as only [true] or [false] are allowed.",
                    SLICE_FMT(p->value));
        return false;
    }
    return true;
}

bool call_u64(struct api_call *call, const char *name, uint64_t unset, uint64_t *out)
{
    const struct param *p = find_param(call, name);
    if (p == NULL) {
        *out = unset;
        return true;
    }
    uint64_t v;
    bool digits = p->value.len != 0;
    for (size_t i = 0; i < p->value.len; i++)
        digits = digits && p->value.ptr[i] >= '0' && p->value.ptr[i] <= '9';
    if (!digits || !json_u64(p->value, &v)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "Failed to parse long parameter [%s] with value [%.*s]", name,
                    SLICE_FMT(p->value));
        return false;
    }
    *out = v;
    return true;
}

/* ---- clocks */

uint64_t clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t call_took_ms(const struct api_call *call)
{
    return (clock_ns() - call->started_ns) / 1000000;
}
