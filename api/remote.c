/* SPDX-License-Identifier: Apache-2.0 */
#include "api/remote.h"

#include "api/call.h"
#include "api/settings.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A node that answers 429 or 503 is asked again, later. */
#define TRIES_MAX     6
#define FIRST_WAIT_MS 500
#define CLOSE_MS      5000l /* most that giving the scroll up may take */
#define KEEP_ALIVE    "5m"

struct remote {
    struct work *work;
    struct buf base, user, index, query, source, certificates;
    struct curl_slist *headers;
    uint64_t size;
    long connect_ms, socket_ms;
    bool (*cancelled)(const void *arg);
    const void *arg;
    /* the thread's */
    CURL *curl;
    struct buf scroll; /* id */
    struct buf page;
    bool oversized;
    /* handed over with a page */
    enum rc rc;
    struct err err;
    uint64_t total, retries;
    struct json_scan hits;
    bool has_hits;
    struct buf id, routing; /* of the hit that was read last */
    /* guarded by lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool started, closing;
    struct task *then;
};

/* ---- life */

static void init_once(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static enum rc add_headers(struct remote *r, struct slice json)
{
    struct json_scan scan = json_enter(json_value_of(json));
    struct json_value v;
    struct slice key;
    r->headers = curl_slist_append(NULL, "Content-Type: application/json");
    while (json.len != 0 && json_member(&scan, &key, &v)) {
        struct buf line = {0};
        json_unquote(key, &line);
        BUF_PUT_LIT(&line, ": ");
        json_plain_text(v, &line);
        bool sane = !line.failed && memchr(line.ptr, '\n', line.len) == NULL &&
                    memchr(line.ptr, '\r', line.len) == NULL &&
                    memchr(line.ptr, '\0', line.len) == NULL;
        buf_put_byte(&line, 0);
        if (sane)
            r->headers = curl_slist_append(r->headers, (const char *)line.ptr);
        buf_done(&line);
        if (!sane)
            return RC_INVALID;
    }
    return RC_OK;
}

static bool is_address(struct slice host)
{
    bool http = host.len > 7 && memcmp(host.ptr, "http://", 7) == 0;
    bool https = host.len > 8 && memcmp(host.ptr, "https://", 8) == 0;
    for (size_t i = 0; i < host.len; i++)
        if (host.ptr[i] <= ' ' || host.ptr[i] == 0x7f || strchr("?#@\\", host.ptr[i]) != NULL)
            return false;
    return http || https;
}

static void put_text(struct buf *b, struct slice s)
{
    buf_put_slice(b, s);
    buf_put_byte(b, 0);
}

enum rc remote_open(const struct remote_options *o, struct work *work, struct remote **out,
                    struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct slice host = o->host;
    if (!is_address(host))
        return err_set(
            err, RC_INVALID, 0,
            "[host] must be of the form [scheme]://[host]:[port](/[pathPrefix])? but was "
            "[%.*s]",
            SLICE_FMT(host));
    pthread_once(&once, init_once);
    struct remote *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for a remote source");
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    while (host.len != 0 && host.ptr[host.len - 1] == '/')
        host.len--;
    put_text(&r->base, host);
    buf_put_slice(&r->index, o->index);
    buf_put_slice(&r->query, o->query);
    buf_put_slice(&r->source, o->source);
    if (o->certificates != NULL)
        put_text(&r->certificates, slice_str(o->certificates));
    if (o->username.len != 0) {
        buf_put_slice(&r->user, o->username);
        buf_put_byte(&r->user, ':');
        put_text(&r->user, o->password);
    }
    r->work = work;
    r->size = o->size;
    r->connect_ms = (long)o->connect_ms;
    r->socket_ms = (long)o->socket_ms;
    enum rc rc = add_headers(r, o->headers);
    r->curl = curl_easy_init();
    if (rc != RC_OK)
        (void)err_set(err, rc, 0, "[remote] [headers] may not hold line ends");
    else if (r->curl == NULL || r->base.failed || r->user.failed || r->headers == NULL)
        rc = err_set(err, RC_NOMEM, 0, "out of memory for a remote source");
    if (rc == RC_OK)
        *out = r;
    else
        remote_free(r);
    return rc;
}

void remote_watch(struct remote *remote, bool (*cancelled)(const void *arg), const void *arg)
{
    remote->cancelled = cancelled;
    remote->arg = arg;
}

void remote_free(struct remote *r)
{
    if (r->started)
        pthread_join(r->thread, NULL);
    curl_easy_cleanup(r->curl);
    curl_slist_free_all(r->headers);
    struct buf *bufs[] = {&r->base,         &r->user, &r->index,  &r->query, &r->source,
                          &r->certificates, &r->page, &r->scroll, &r->id,    &r->routing};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++) {
        if (bufs[i] == &r->user && r->user.ptr != NULL)
            explicit_bzero(r->user.ptr, r->user.cap);
        buf_done(bufs[i]);
    }
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- one request, on the thread */

static size_t receive(char *data, size_t size, size_t count, void *arg)
{
    struct remote *r = arg;
    size_t n = size * count;
    if (r->page.len + n > REMOTE_PAGE_BYTES) {
        r->oversized = true;
        return 0;
    }
    buf_put(&r->page, data, n);
    return r->page.failed ? 0 : n;
}

static int progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct remote *r = arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return !r->closing && r->cancelled != NULL && r->cancelled(r->arg);
}

static void set_options(struct remote *r, const char *method, const struct buf *url,
                        const struct buf *body)
{
    CURL *c = r->curl;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, (const char *)url->ptr);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, (const char *)body->ptr);
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, r->headers);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1l);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, r->connect_ms);
    /* No byte for socket_timeout: given up. */
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1l);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (r->socket_ms + 999) / 1000);
    if (r->closing)
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, CLOSE_MS);
    if (r->user.len != 0) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        curl_easy_setopt(c, CURLOPT_USERPWD, (const char *)r->user.ptr);
    }
    if (r->certificates.len != 0)
        curl_easy_setopt(c, CURLOPT_CAINFO, (const char *)r->certificates.ptr);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0l);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, r);
}

/* The reason that an error body of the other node names, or nothing. */
static struct slice reason_of(const struct remote *r)
{
    struct json_value error, reason;
    enum json_type type;
    struct json_fault fault;
    if (json_check(buf_slice(&r->page), &type, &fault) &&
        json_find(json_root(buf_slice(&r->page)), "error", &error) &&
        json_find(error, "reason", &reason) && reason.type == JSON_STRING)
        return slice_of(reason.text.ptr + 1, reason.text.len - 2);
    return SLICE_NONE;
}

static enum rc request_once(struct remote *r, const char *method, const struct buf *url,
                            const struct buf *body, long *status)
{
    struct err *err = &r->err;
    const char *host = (const char *)r->base.ptr;
    r->page.len = 0;
    r->page.failed = false;
    r->oversized = false;
    *status = 0;
    if (url->failed || body->failed)
        return err_set(err, RC_NOMEM, 0, "out of memory for a request to %.100s", host);
    set_options(r, method, url, body);
    CURLcode code = curl_easy_perform(r->curl);
    if (r->oversized)
        return err_set(err, RC_INVALID, 0,
                       "a page of %.60s is larger than %u bytes: use a smaller [source] [size]",
                       host, REMOTE_PAGE_BYTES);
    if (code != CURLE_OK)
        return err_set(err, RC_AGAIN, 0, "%.100s: %s", host, curl_easy_strerror(code));
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, status);
    if (*status == 200)
        return RC_OK;
    struct slice reason = reason_of(r);
    if (reason.len > 100)
        reason.len = 100;
    return err_set(err, *status >= 500 ? RC_AGAIN : RC_INVALID, 0, "%.80s answered %ld: %.*s", host,
                   *status, SLICE_FMT(reason));
}

static bool stopped(const struct remote *r)
{
    return r->cancelled != NULL && r->cancelled(r->arg);
}

/* Wait, but not past the end of the job. */
static void pause_ms(const struct remote *r, uint64_t ms)
{
    for (; ms > 0 && !stopped(r); ms -= ms < 100 ? ms : 100)
        nanosleep(&(struct timespec){0, 100 * 1000000l}, NULL);
}

/* Again while the other node says that it is busy: such a request was not carried out. */
static enum rc request(struct remote *r, const char *method, const struct buf *url,
                       const struct buf *body)
{
    enum rc rc = RC_OK;
    uint64_t wait = FIRST_WAIT_MS;
    for (int i = 0; i < TRIES_MAX; i++, wait *= 2) {
        long status;
        r->err = (struct err){0};
        rc = request_once(r, method, url, body, &status);
        if (rc == RC_OK || (status != 429 && status != 503) || stopped(r))
            break;
        r->retries++;
        pause_ms(r, wait);
    }
    return rc;
}

/* ---- pages */

/* The expression as one path segment; commas and stars may stay. */
static void put_segment(struct buf *url, struct slice s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.ptr[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     (c != '\0' && strchr("-_.~,*", c) != NULL);
        if (plain)
            buf_put_byte(url, c);
        else
            buf_put(url, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

static void put_base(const struct remote *r, struct buf *url)
{
    buf_put(url, r->base.ptr, r->base.len - 1);
}

static enum rc first_page(struct remote *r)
{
    struct buf url = {0}, body = {0};
    put_base(r, &url);
    buf_put_byte(&url, '/');
    put_segment(&url, buf_slice(&r->index));
    BUF_PUT_LIT(&url, "/_search?scroll=" KEEP_ALIVE);
    buf_put_byte(&url, 0);
    buf_put_byte(&body, '{');
    json_uint(&body, "size", r->size);
    json_raw(&body, "sort", SLICE_LIT("[\"_doc\"]"));
    json_bool(&body, "version", true);
    json_bool(&body, "track_total_hits", true);
    json_raw(&body, "query",
             r->query.len != 0 ? buf_slice(&r->query) : SLICE_LIT("{\"match_all\":{}}"));
    if (r->source.len != 0)
        json_raw(&body, "_source", buf_slice(&r->source));
    buf_put_byte(&body, '}');
    enum rc rc = request(r, "POST", &url, &body);
    buf_done(&url);
    buf_done(&body);
    return rc;
}

static enum rc later_page(struct remote *r)
{
    struct buf url = {0}, body = {0};
    put_base(r, &url);
    BUF_PUT_LIT(&url, "/_search/scroll");
    buf_put_byte(&url, 0);
    buf_put_byte(&body, '{');
    json_cstr(&body, "scroll", KEEP_ALIVE);
    json_str(&body, "scroll_id", buf_slice(&r->scroll));
    buf_put_byte(&body, '}');
    enum rc rc = request(r, "POST", &url, &body);
    buf_done(&url);
    buf_done(&body);
    return rc;
}

static enum rc bad_answer(struct remote *r, const char *what)
{
    return err_set(&r->err, RC_INVALID, 0, "%.100s: the answer %s", (const char *)r->base.ptr,
                   what);
}

static enum rc read_answer(struct remote *r)
{
    struct json_value root, hits, list, v, count;
    struct json_fault fault;
    enum json_type type;
    if (!json_check(buf_slice(&r->page), &type, &fault))
        return bad_answer(r, "is not valid JSON");
    root = json_root(buf_slice(&r->page));
    if (!json_find(root, "hits", &hits) || !json_find(hits, "hits", &list) ||
        list.type != JSON_ARRAY)
        return bad_answer(r, "has no hits");
    if (json_find(root, "timed_out", &v) && v.type == JSON_TRUE)
        return bad_answer(r, "timed out");
    if (json_find(root, "_shards", &v) && json_find(v, "failed", &count) &&
        !slice_is(count.text, "0"))
        return bad_answer(r, "lacks shards that failed");
    if (json_find(root, "_scroll_id", &v) && v.type == JSON_STRING) {
        r->scroll.len = 0;
        json_unquote(v.text, &r->scroll);
    }
    if (json_find(hits, "total", &v)) {
        if (v.type == JSON_OBJECT && json_find(v, "value", &count))
            v = count;
        (void)json_u64(v.text, &r->total);
    }
    r->hits = json_enter(list);
    r->has_hits = true;
    return RC_OK;
}

static void clear_scroll(struct remote *r)
{
    struct buf url = {0}, body = {0};
    long status;
    if (r->scroll.len == 0)
        return;
    put_base(r, &url);
    BUF_PUT_LIT(&url, "/_search/scroll");
    buf_put_byte(&url, 0);
    BUF_PUT_LIT(&body, "{\"scroll_id\":[");
    json_quote(buf_slice(&r->scroll), &body);
    BUF_PUT_LIT(&body, "]}");
    (void)request_once(r, "DELETE", &url, &body, &status);
    buf_done(&url);
    buf_done(&body);
}

/* ---- the thread */

static void *run(void *arg)
{
    struct remote *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->then == NULL)
            pthread_cond_wait(&r->wake, &r->lock);
        struct task *then = r->then;
        bool closing = r->closing;
        r->then = NULL;
        pthread_mutex_unlock(&r->lock);
        if (closing) {
            clear_scroll(r);
            work_submit(r->work, WORK_BACKGROUND, then); /* which joins us */
            return NULL;
        }
        r->has_hits = false;
        r->rc = r->scroll.len == 0 ? first_page(r) : later_page(r);
        if (r->rc == RC_OK)
            r->rc = read_answer(r);
        work_submit(r->work, WORK_BACKGROUND, then);
        pthread_mutex_lock(&r->lock);
    }
}

/* Wake the thread; it is made when it is needed first. False: no thread. */
static bool hand_over(struct remote *r, struct task *then)
{
    pthread_mutex_lock(&r->lock);
    if (!r->started && pthread_create(&r->thread, NULL, run, r) == 0) {
        pthread_setname_np(r->thread, "reindex");
        r->started = true;
    }
    bool started = r->started;
    if (started) {
        r->then = then;
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    return started;
}

void remote_next(struct remote *remote, struct task *then)
{
    if (hand_over(remote, then))
        return;
    remote->rc = err_set(&remote->err, RC_NOMEM, 0, "no thread for a remote source");
    work_submit(remote->work, WORK_BACKGROUND, then);
}

void remote_close(struct remote *remote, struct task *then)
{
    pthread_mutex_lock(&remote->lock);
    bool started = remote->started;
    remote->closing = true;
    pthread_mutex_unlock(&remote->lock);
    if (!started || !hand_over(remote, then))
        work_submit(remote->work, WORK_BACKGROUND, then);
}

/* ---- what came */

enum rc remote_result(const struct remote *remote, struct err *err)
{
    if (remote->rc != RC_OK)
        return err_set(err, remote->rc, 0, "%s", remote->err.msg);
    return RC_OK;
}

uint64_t remote_total(const struct remote *remote)
{
    return remote->total;
}

uint64_t remote_retries(const struct remote *remote)
{
    return remote->retries;
}

static struct slice decode(struct buf *into, struct json_value v)
{
    into->len = 0;
    json_plain_text(v, into);
    return buf_slice(into);
}

enum rc remote_hit(struct remote *r, struct remote_hit *out, struct err *err)
{
    struct json_value hit, v;
    struct slice key;
    struct remote_hit read = {.version = 0};
    if (!r->has_hits || !json_element(&r->hits, &hit))
        return RC_NOT_FOUND;
    if (hit.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "%.100s: a hit is no object", (const char *)r->base.ptr);
    struct json_scan members = json_enter(hit);
    while (json_member(&members, &key, &v)) {
        if (json_string_is(key, "_id"))
            read.id = decode(&r->id, v);
        else if (json_string_is(key, "_routing") && v.type != JSON_NULL)
            read.routing = decode(&r->routing, v);
        else if (json_string_is(key, "_version"))
            (void)json_u64(v.text, &read.version);
        else if (json_string_is(key, "_source") && v.type == JSON_OBJECT)
            read.source = v.text;
    }
    if (read.id.len == 0 || read.id.len > LIMIT_ID_BYTES)
        return err_set(err, RC_INVALID, 0, "%.100s: a hit has no usable _id",
                       (const char *)r->base.ptr);
    *out = read;
    return RC_OK;
}
