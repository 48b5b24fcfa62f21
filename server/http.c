/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP by libmicrohttpd (0.9.75 and later). Only file with <microhttpd.h>.
 *
 * A connection has one struct conn from accept to close; its api_call is used again for each
 * request. Stages of a request:
 *   IDLE → HEADERS (request line seen) → BODY → WORK (suspended, at a worker) → READY → SEND → IDLE
 *                        ↕ DOOR (suspended until a password is verified)
 *                                      ↘ DISCARD (refused, the body is read and thrown away) ↗
 *                                                          SEND ↔ MORE (suspended, next window)
 *   H1  a conn belongs to one thread at a time: to its I/O thread, or, while suspended, to the
 *       worker or the budget that resumes it. Only deadline_ns and the list links are shared.
 *   H2  a connection is suspended before its job is queued, and is resumed exactly once; whoever
 *       resumes it does not touch it afterwards.
 *   H3  libmicrohttpd takes an answer in the first call of the handler (then it closes) and in the
 *       last one, not between: a refusal waits for the end of the body unless the client waits for
 *       100-continue.
 *   H4  it calls the handler on, in a suspended connection, for the next chunk of an upload when
 *       all of this one was taken: suspend only with bytes left over.
 *   H5  every stage that waits for the client has a deadline; the sweeper shuts the socket down.
 *   H6  the library takes a short read for the end of what has come, and so misses an end of stream
 *       that came with the data (edge-triggered epoll): the sweeper looks for it.
 *   H7  it reads from a connection that was resumed before it goes on with it, and when the client
 *       has sent all it will, the end of stream costs it the answer. Connections with a timeout of
 *       their own it goes on with first: suspended ones have one, others don't, as it looks at all
 *       of them each time. (0.9.75) */
#include "server/http.h"

#include "server/budget.h"
#include "server/listen.h"
#include "server/log.h"
#include "server/pool.h"
#include "server/request.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define URI_BYTES_MAX     (16u * 1024) /* longer ones: 414 */
#define CONNECTION_MEMORY (64u * 1024) /* headers, and the piece of a body that is read */
#define LISTEN_BACKLOG    1024
#define BODY_STEP_MIN     (64u * 1024)       /* a body's buffer grows by this … */
#define BODY_STEP_MAX     (4u * 1024 * 1024) /* … to this at a time */
#define PROGRESS_BYTES    (64u * 1024)       /* due each http.body_timeout */
#define SMALL_ANSWER      (16u * 1024) /* not counted: less than the connection costs itself */
#define STREAM_BLOCK      (16u * 1024)
#define DISCARD_BYTES     (64u * 1024 * 1024) /* of a refused body, or twice the limit if more */
#define DISCARD_NS        (30 * NS_PER_S)
#define STOP_UPLOADS_NS   (2 * NS_PER_S)
#define STOP_CALLS_NS     (8 * NS_PER_S)
#define HELD_MORE_S       3600u /* on top of the timeout of others: any but 0 would do */
#define TICK_NS           (NS_PER_S / 4)
#define SWEEP_NS          (NS_PER_S / 2)
#define NS_PER_S          1000000000ull
#define NS_PER_MS         1000000ull

enum stage {
    STAGE_IDLE,
    STAGE_HEADERS,
    STAGE_DOOR,
    STAGE_BODY,
    STAGE_DISCARD,
    STAGE_WORK,
    STAGE_READY,
    STAGE_SEND,
    STAGE_MORE,
};

struct conn {
    struct api_call call;
    struct http *http;
    struct MHD_Connection *mhd;
    int fd;
    enum stage stage;
    bool has_call;   /* call is to be given to api_call_done */
    bool busy;       /* counted in http->busy */
    bool at_headers; /* suspended in the first call, which will be repeated */
    bool held;       /* suspended, or resumed and not yet met again (H7) */
    bool asked;      /* waited for memory: `granted` says how that ended */
    bool granted;
    bool uri_too_long;
    bool broken; /* the answer can't be continued */
    struct request_marks marks;
    uint8_t peer[16]; /* address of the client, as struct api_call has it */
    char *uri;
    size_t uri_len, uri_cap;
    uint64_t received; /* body bytes, also of one thrown away */
    uint64_t mark;     /* of them, at the last move of the deadline */
    size_t sent;       /* of the window of a streamed answer */
    uint64_t counted;  /* bytes of body and answer that are in share */
    struct budget_share share;
    struct task task;             /* makes the next window */
    _Atomic uint64_t deadline_ns; /* 0: none; the lowest two bits are enum waits */
    uint64_t acked;               /* the sweeper's: bytes the client had at the last look */
    struct conn *next, *prev;
};

struct http {
    struct http_options o;
    struct MHD_Daemon *daemon;
    struct budget budget;
    struct pool pool;
    uint64_t idle_ns, header_ns, body_ns, wait_ns, body_max, discard_max;
    char address[80];
    _Atomic bool stopping;  /* new requests are refused */
    _Atomic bool closing;   /* nothing is handed to workers any more */
    _Atomic size_t open;    /* requests from headers to the end of the answer */
    _Atomic size_t busy;    /* of them, with a complete body */
    _Atomic size_t at_work; /* of them, suspended for a worker or the door */
    _Atomic size_t cut;     /* connections that a deadline ended */
    _Atomic size_t connections;
    unsigned connections_max;
    pthread_mutex_t lock; /* conns, sweeper_stop */
    pthread_cond_t wake_sweeper;
    bool sweeper_stop;
    struct conn *conns;
    pthread_t sweeper;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* What a deadline waits for. Odd: the client sends. */
enum waits { TO_WRITE = 0, TO_READ = 1, AT_END = 2, TO_BEGIN = 3 };

static void set_deadline(struct conn *conn, uint64_t in_ns, enum waits waits)
{
    atomic_store_explicit(&conn->deadline_ns, ((now_ns() + in_ns) & ~3ull) | waits,
                          memory_order_relaxed);
}

static void no_deadline(struct conn *conn)
{
    atomic_store_explicit(&conn->deadline_ns, 0, memory_order_relaxed);
}

/* ---- H7 */

static void set_timeout(struct conn *conn, unsigned more_s)
{
    unsigned idle_s = (unsigned)(conn->http->o.config->http_idle_timeout / 1000);
    MHD_set_connection_option(conn->mhd, MHD_CONNECTION_OPTION_TIMEOUT, idle_s + more_s);
}

static void suspend(struct conn *conn)
{
    conn->held = true;
    set_timeout(conn, HELD_MORE_S);
    MHD_suspend_connection(conn->mhd);
}

/* The library calls for a connection. */
static void met(struct conn *conn)
{
    if (conn->held)
        set_timeout(conn, 0);
    conn->held = false;
}

/* ---- connections */

static void keep_peer(struct conn *conn)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info == NULL ? NULL : info->client_addr;
    if (address != NULL && address->sa_family == AF_INET6) {
        memcpy(conn->peer, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    } else if (address != NULL && address->sa_family == AF_INET) {
        memcpy(conn->peer, mapped, sizeof mapped);
        memcpy(conn->peer + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    }
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = (struct http *)cls;
    struct conn *conn = (struct conn *)*context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        conn = (struct conn *)calloc(1, sizeof *conn);
        *context = conn; /* NULL: the handler closes */
        if (conn == NULL)
            return;
        conn->http = http;
        conn->mhd = mhd;
        conn->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        keep_peer(conn);
        atomic_fetch_add(&http->connections, 1);
        int on = 1;
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        set_deadline(conn, http->idle_ns + http->header_ns, TO_BEGIN);
        pthread_mutex_lock(&http->lock);
        conn->next = http->conns;
        if (conn->next != NULL)
            conn->next->prev = conn;
        http->conns = conn;
        pthread_mutex_unlock(&http->lock);
    } else if (conn != NULL) {
        /* Before the descriptor is closed: the sweeper never meets one of somebody else. */
        pthread_mutex_lock(&http->lock);
        *(conn->prev != NULL ? &conn->prev->next : &http->conns) = conn->next;
        if (conn->next != NULL)
            conn->next->prev = conn->prev;
        pthread_mutex_unlock(&http->lock);
        atomic_fetch_sub(&http->connections, 1);
        free(conn->uri);
        free(conn);
        *context = NULL;
    }
}

/* Has the client taken enough of its answer since the last look? */
static bool takes_answer(struct conn *conn)
{
    uint64_t acked = socket_acked(conn->fd), before = conn->acked;
    conn->acked = acked;
    return acked - before >= PROGRESS_BYTES;
}

static void sweep_conn(struct conn *conn, uint64_t now)
{
    char byte;
    uint64_t deadline = atomic_load_explicit(&conn->deadline_ns, memory_order_relaxed);
    if (deadline == 0)
        return;
    enum waits waits = (enum waits)(deadline & 3);
    if (deadline <= now && waits == TO_WRITE && takes_answer(conn)) {
        atomic_compare_exchange_strong(&conn->deadline_ns, &deadline,
                                       (now + conn->http->body_ns) & ~3ull);
    } else if (deadline <= now) {
        no_deadline(conn);
        if (waits == TO_READ || waits == TO_WRITE)
            atomic_fetch_add(&conn->http->cut, 1);
        shutdown(conn->fd, SHUT_RDWR);
    } else if ((waits & 1) != 0 && recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        /* H6. The last bytes may be on their way through the library: whoever moves the deadline
         * in the meantime is not cut. */
        atomic_compare_exchange_strong(&conn->deadline_ns, &deadline,
                                       ((now + SWEEP_NS) & ~3ull) | AT_END);
    }
}

static void *sweep(void *arg)
{
    struct http *http = (struct http *)arg;
    uint64_t next_sweep = 0;

    pthread_mutex_lock(&http->lock);
    while (!http->sweeper_stop) {
        uint64_t now = now_ns(), until = now + TICK_NS;
        struct timespec t = {(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
        budget_expire(&http->budget, now);
        if (now >= next_sweep) {
            next_sweep = now + SWEEP_NS;
            for (struct conn *c = http->conns; c != NULL; c = c->next)
                sweep_conn(c, now);
        }
        pthread_cond_timedwait(&http->wake_sweeper, &http->lock, &t);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* ---- memory */

static void on_budget(struct budget_share *share, bool granted)
{
    struct conn *conn = (struct conn *)(void *)((char *)share - offsetof(struct conn, share));
    conn->granted = granted;
    MHD_resume_connection(conn->mhd);
}

static void charge(struct api_call *call, int64_t bytes)
{
    struct conn *conn = (struct conn *)call->server;
    budget_force(&conn->http->budget, &conn->share, bytes);
}

/* Count what body and answer really take now. */
static void settle(struct conn *conn)
{
    uint64_t answer = conn->call.reply.body.cap;
    uint64_t bytes = conn->call.body.cap + (answer > SMALL_ANSWER ? answer : 0);
    if (bytes == conn->counted)
        return;
    budget_force(&conn->http->budget, &conn->share, (int64_t)(bytes - conn->counted));
    conn->counted = bytes;
}

/* Give the body's buffer `cap` bytes, which the budget has granted. */
static bool body_resize(struct conn *conn, uint64_t cap)
{
    struct buf *body = &conn->call.body;
    if (body->ptr == NULL)
        *body = pool_take(&conn->http->pool, cap);
    if (body->cap >= cap)
        return true; /* what it has beyond cap is counted when the body is complete */
    uint8_t *p = (uint8_t *)realloc(body->ptr, cap);
    if (p != NULL) {
        body->ptr = p;
        body->cap = cap;
    }
    return p != NULL;
}

/* Room for `more` bytes of body. False: not yet, the connection is suspended. */
static bool body_room(struct conn *conn, size_t more, bool *no_memory_out)
{
    struct http *http = conn->http;
    struct api_call *call = &conn->call;
    struct buf *body = &call->body;
    uint64_t cap;

    if (conn->asked) { /* counted was raised when asking */
        conn->asked = false;
        if (!conn->granted) {
            conn->counted = body->cap;
            *no_memory_out = true;
            return true;
        }
        *no_memory_out = !body_resize(conn, conn->counted);
    }
    if (*no_memory_out || body->cap - body->len >= more)
        return true;
    if (call->has_length && body->cap == 0 &&
        budget_try_ahead(&http->budget, &conn->share, call->content_length)) {
        cap = call->content_length;
    } else {
        uint64_t step = body->cap < BODY_STEP_MIN ? BODY_STEP_MIN : body->cap;
        step = step > BODY_STEP_MAX ? BODY_STEP_MAX : step;
        cap = body->cap + (step > more ? step : more);
        if (call->has_length && cap > call->content_length)
            cap = call->content_length;
        uint64_t grow = cap - body->cap;
        if (!budget_try(&http->budget, &conn->share, grow)) {
            conn->counted = cap;
            conn->asked = true;
            no_deadline(conn);
            suspend(conn);
            budget_wait(&http->budget, &conn->share, grow, now_ns() + http->wait_ns);
            return false;
        }
    }
    conn->counted = cap;
    *no_memory_out = !body_resize(conn, cap);
    return true;
}

/* ---- answers */

static struct MHD_Response *make_response(struct conn *conn);

/* An answer must be taken at the rate that a body must come: the sweeper looks and goes on waiting.
 */
static void answer_deadline(struct conn *conn)
{
    set_deadline(conn, conn->http->body_ns, TO_WRITE);
}

static enum MHD_Result add_headers(struct conn *conn, struct MHD_Response *response)
{
    const struct http *http = conn->http;
    const struct api_call *call = &conn->call;
    const struct api_reply *reply = &call->reply;
    enum MHD_Result ok = MHD_YES;

    if (reply->content_type != NULL)
        ok &= MHD_add_response_header(response, "Content-Type", reply->content_type);
    if (http->o.config->http_product_header)
        ok &= MHD_add_response_header(response, "X-Elastic-Product", "Elasticsearch");
    if (reply->gzipped && call->method != API_HEAD)
        ok &= MHD_add_response_header(response, "Content-Encoding", "gzip");
    if (call->opaque_id.len != 0) /* zero-terminated, as all values of the library */
        ok &= MHD_add_response_header(response, "X-Opaque-Id", (const char *)call->opaque_id.ptr);
    for (size_t i = 0; i < reply->header_count; i++)
        ok &= MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    if (atomic_load_explicit(&http->stopping, memory_order_relaxed))
        ok &= MHD_add_response_header(response, "Connection", "close");
    return ok;
}

static void set_busy(struct conn *conn)
{
    if (!conn->busy)
        atomic_fetch_add(&conn->http->busy, 1);
    conn->busy = true;
}

static enum MHD_Result send_reply(struct conn *conn)
{
    struct http *http = conn->http;
    const struct api_reply *reply = &conn->call.reply;

    set_busy(conn);
    if (atomic_load(http->o.failed) && reply->status < 300)
        return MHD_NO;
    api_count(http->o.api, &conn->call);
    struct MHD_Response *response = make_response(conn);
    if (response == NULL)
        return MHD_NO;
    conn->stage = STAGE_SEND;
    answer_deadline(conn);
    enum MHD_Result ok = add_headers(conn, response);
    if (ok == MHD_YES)
        ok = MHD_queue_response(conn->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return ok;
}

/* On a worker: the next window. */
static void run_more(struct task *task)
{
    struct conn *conn = (struct conn *)(void *)((char *)task - offsetof(struct conn, task));
    struct http *http = conn->http;

    conn->broken = conn->call.reply.more(&conn->call) != RC_OK;
    conn->sent = 0;
    conn->stage = STAGE_SEND;
    settle(conn);
    answer_deadline(conn);
    MHD_resume_connection(conn->mhd);
    atomic_fetch_sub(&http->at_work, 1); /* last: http_stop waits for it */
}

static ssize_t on_stream(void *cls, uint64_t at, char *out, size_t max)
{
    struct conn *conn = (struct conn *)cls;
    struct http *http = conn->http;
    const struct api_reply *reply = &conn->call.reply;
    size_t left = reply->body.len - conn->sent;

    (void)at;
    met(conn);
    if (conn->broken || reply->body.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (left > 0) {
        size_t n = left < max ? left : max;
        memcpy(out, reply->body.ptr + conn->sent, n);
        conn->sent += n;
        return (ssize_t)n;
    }
    if (reply->more == NULL)
        return MHD_CONTENT_READER_END_OF_STREAM;
    atomic_fetch_add(&http->at_work, 1);
    if (atomic_load(&http->closing)) {
        atomic_fetch_sub(&http->at_work, 1);
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    conn->stage = STAGE_MORE;
    no_deadline(conn);
    suspend(conn);
    work_submit(http->o.work, WORK_GET, &conn->task);
    return 0;
}

static struct MHD_Response *make_response(struct conn *conn)
{
    struct api_reply *reply = &conn->call.reply;

    if (reply->body.failed)
        return NULL;
    if (reply->more == NULL)
        return MHD_create_response_from_buffer(reply->body.len, reply->body.ptr,
                                               MHD_RESPMEM_PERSISTENT);
    conn->sent = 0;
    conn->broken = false;
    conn->task.run = run_more;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, on_stream, conn, NULL);
    /* The library would end the empty body of a chunked answer to HEAD with a chunk of 0. */
    if (response != NULL && conn->call.method == API_HEAD)
        MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
    return response;
}

/* ---- requests */

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t len,
                                 const char *value, size_t value_len)
{
    struct conn *conn = (struct conn *)cls;
    (void)kind;
    request_header(&conn->call, &conn->marks, slice_of(name, len), slice_of(value, value_len));
    return MHD_YES;
}

/* The request line is there: keep the URI before the library takes it apart. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    (void)cls;
    struct conn *conn =
        (struct conn *)MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
            ->socket_context;
    if (conn == NULL)
        return NULL;
    conn->uri_len = uri == NULL ? 0 : strlen(uri);
    conn->uri_too_long = conn->uri_len > URI_BYTES_MAX;
    if (conn->uri_too_long)
        conn->uri_len = 0;
    if (conn->uri_len > conn->uri_cap) {
        size_t cap = conn->uri_len < 256 ? 256 : conn->uri_len;
        free(conn->uri);
        conn->uri = (char *)malloc(cap);
        conn->uri_cap = conn->uri == NULL ? 0 : cap;
        if (conn->uri == NULL)
            return NULL;
    }
    if (conn->uri_len > 0)
        memcpy(conn->uri, uri, conn->uri_len);
    conn->stage = STAGE_HEADERS;
    set_deadline(conn, conn->http->header_ns, TO_READ);
    return conn;
}

static void refuse_too_long(struct conn *conn, uint64_t bytes)
{
    struct http *http = conn->http;
    api_refuse(http->o.api, &conn->call, 413, "content_too_long_exception",
               "entity content is too long [%llu] for the configured buffer limit [%llu]",
               (unsigned long long)bytes, (unsigned long long)http->body_max);
}

/* All that can be refused by the headers alone. */
static enum api_admission admit(struct conn *conn, bool uri_ok)
{
    struct http *http = conn->http;
    struct api_call *call = &conn->call;

    if (atomic_load(&http->stopping)) {
        api_refuse(http->o.api, call, 503, "node_closed_exception", "node is shutting down");
    } else if (conn->uri_too_long) {
        api_refuse(http->o.api, call, 414, "too_long_http_line_exception",
                   "the URI is longer than [%u] bytes", URI_BYTES_MAX);
    } else if (!uri_ok) {
        api_refuse(http->o.api, call, 400, "illegal_argument_exception",
                   "the URI must begin with a slash");
    } else if (conn->marks.host_wrong) {
        api_refuse(http->o.api, call, 400, "illegal_argument_exception",
                   "a request in HTTP/1.1 has exactly one Host header");
    } else if (call->has_length && call->content_length > http->body_max) {
        refuse_too_long(conn, call->content_length);
    } else {
        return api_admit(http->o.api, call);
    }
    return API_REFUSED;
}

static void discard_body(struct conn *conn)
{
    conn->stage = STAGE_DISCARD;
    pool_give(&conn->http->pool, &conn->call.body);
    settle(conn);
    set_deadline(conn, DISCARD_NS, TO_READ);
}

static enum MHD_Result refuse_busy(struct conn *conn)
{
    struct http *http = conn->http;
    api_refuse(http->o.api, &conn->call, 429, "es_rejected_execution_exception",
               "rejected execution: requests in flight hold http.max_in_flight [%llu] bytes",
               (unsigned long long)http->budget.limit);
    discard_body(conn);
    return MHD_YES;
}

static void finished(struct api_call *call);
static void admitted(struct api_call *call);
static enum MHD_Result enter(struct conn *conn, enum api_admission how);

/* First call of the handler: headers are there. */
static enum MHD_Result begin(struct conn *conn, const char *method, const char *version)
{
    struct http *http = conn->http;
    struct api_call *call = &conn->call;

    memset(call, 0, sizeof *call);
    memset(&conn->marks, 0, sizeof conn->marks);
    conn->asked = false;
    conn->received = conn->mark = 0;
    call->method = request_method(method);
    call->method_text = method;
    call->server = conn;
    call->finished = finished;
    call->charge = charge;
    call->admitted = admitted;
    call->peer = conn->peer;
    conn->has_call = true;
    atomic_fetch_add(&http->open, 1);
    struct slice uri = conn->uri_too_long ? SLICE_LIT("/") : slice_of(conn->uri, conn->uri_len);
    bool uri_ok = request_uri(call, uri);
    MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, on_header, conn);
    request_version(&conn->marks, version);

    if (!request_framed(call, &conn->marks)) {
        api_refuse(http->o.api, call, 400, "illegal_argument_exception",
                   "exactly one of Content-Length and Transfer-Encoding: chunked is allowed");
        return send_reply(conn);
    }
    return enter(conn, admit(conn, uri_ok));
}

/* Suspend until the door has an answer; then the first call is repeated. */
static enum MHD_Result wait_at_door(struct conn *conn)
{
    struct http *http = conn->http;

    atomic_fetch_add(&http->at_work, 1);
    if (atomic_load(&http->closing)) {
        atomic_fetch_sub(&http->at_work, 1);
        return MHD_NO;
    }
    conn->stage = STAGE_DOOR;
    no_deadline(conn);
    suspend(conn);
    api_wait(http->o.api, &conn->call);
    return MHD_YES;
}

/* On the door's thread. */
static void admitted(struct api_call *call)
{
    struct conn *conn = (struct conn *)call->server;
    struct http *http = conn->http;

    MHD_resume_connection(conn->mhd);
    atomic_fetch_sub(&http->at_work, 1); /* last: http_stop waits for it */
}

/* What the headers decided. */
static enum MHD_Result enter(struct conn *conn, enum api_admission how)
{
    struct http *http = conn->http;
    struct api_call *call = &conn->call;
    bool has_body = call->chunked || call->content_length > 0;

    if (how == API_WAITS)
        return wait_at_door(conn);
    if (how == API_REFUSED) {
        if (has_body && (conn->marks.expects || call->content_length > http->discard_max))
            return send_reply(conn);
        discard_body(conn);
        return MHD_YES;
    }
    conn->stage = STAGE_BODY;
    set_deadline(conn, http->body_ns, TO_READ);
    bool no_memory = false;
    if (has_body && !body_room(conn, 1, &no_memory)) {
        conn->at_headers = true;
        return MHD_YES;
    }
    return no_memory ? refuse_busy(conn) : MHD_YES;
}

/* The first call again, after waiting for memory. */
static enum MHD_Result begin_again(struct conn *conn)
{
    bool no_memory = false;
    conn->at_headers = false;
    set_deadline(conn, conn->http->body_ns, TO_READ);
    if (!body_room(conn, 1, &no_memory)) {
        conn->at_headers = true;
        return MHD_YES;
    }
    if (!no_memory)
        return MHD_YES;
    enum MHD_Result ok = refuse_busy(conn);
    return conn->marks.expects ? send_reply(conn) : ok;
}

static enum MHD_Result take(struct conn *conn, const char *data, size_t *size)
{
    struct http *http = conn->http;
    struct buf *body = &conn->call.body;
    bool no_memory = false;

    if (conn->stage == STAGE_BODY && body->len + *size > http->body_max) {
        refuse_too_long(conn, body->len + *size);
        discard_body(conn);
    }
    if (conn->stage == STAGE_BODY) {
        bool waited = conn->asked;
        if (!body_room(conn, *size, &no_memory))
            return MHD_YES; /* suspended, with all of this piece left over (H4) */
        if (waited)
            set_deadline(conn, http->body_ns, TO_READ);
        if (no_memory) {
            refuse_busy(conn);
        } else {
            memcpy(body->ptr + body->len, data, *size);
            body->len += *size;
        }
    }
    conn->received += *size;
    *size = 0;
    if (conn->stage == STAGE_DISCARD)
        return conn->received > http->discard_max ? MHD_NO : MHD_YES;
    if (conn->received - conn->mark >= PROGRESS_BYTES) {
        conn->mark = conn->received;
        set_deadline(conn, http->body_ns, TO_READ);
    }
    return MHD_YES;
}

/* Last call of the handler: the body is complete. */
static enum MHD_Result complete(struct conn *conn)
{
    struct http *http = conn->http;

    no_deadline(conn);
    conn->stage = STAGE_READY;
    set_busy(conn);
    if (api_try_inline(http->o.api, &conn->call)) {
        settle(conn);
        return send_reply(conn);
    }
    atomic_fetch_add(&http->at_work, 1);
    if (atomic_load(&http->closing)) {
        atomic_fetch_sub(&http->at_work, 1);
        return MHD_NO;
    }
    conn->stage = STAGE_WORK;
    suspend(conn);
    api_submit(http->o.api, &conn->call);
    return MHD_YES;
}

/* On a worker: reply is set. */
static void finished(struct api_call *call)
{
    struct conn *conn = (struct conn *)call->server;
    struct http *http = conn->http;

    if (conn->stage != STAGE_WORK)
        return; /* answered inline */
    if (call->reply.more == NULL)
        pool_give(&http->pool, &call->body);
    settle(conn);
    conn->stage = STAGE_READY;
    MHD_resume_connection(conn->mhd);
    atomic_fetch_sub(&http->at_work, 1); /* last: http_stop waits for it */
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    struct conn *conn = (struct conn *)*context;

    (void)cls, (void)mhd, (void)url;
    if (conn == NULL)
        return MHD_NO;
    met(conn);
    switch (conn->stage) {
    case STAGE_HEADERS:
        return begin(conn, method, version);
    case STAGE_DOOR:
        return enter(conn, api_admit_again(conn->http->o.api, &conn->call));
    case STAGE_BODY:
        if (conn->at_headers)
            return begin_again(conn);
        return *size > 0 ? take(conn, data, size) : complete(conn);
    case STAGE_DISCARD:
        if (*size > 0)
            return take(conn, data, size);
        return send_reply(conn);
    case STAGE_READY:
        return send_reply(conn);
    default:
        return MHD_NO;
    }
}

/* The request is over, answered or not. Never while the connection is suspended. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode how)
{
    struct conn *conn = (struct conn *)*context;

    (void)cls, (void)mhd, (void)how;
    if (conn == NULL)
        return;
    assert(conn->stage != STAGE_WORK && conn->stage != STAGE_MORE && !conn->share.waiting);
    if (conn->has_call) {
        struct buf body = conn->call.body; /* what ends with the call may still read it */
        conn->call.body = (struct buf){0};
        api_call_done(&conn->call);
        pool_give(&conn->http->pool, &body);
        budget_release(&conn->http->budget, &conn->share);
        conn->counted = 0;
        conn->has_call = false;
        if (conn->busy)
            atomic_fetch_sub(&conn->http->busy, 1);
        atomic_fetch_sub(&conn->http->open, 1);
        conn->busy = false;
    }
    conn->stage = STAGE_IDLE;
    set_deadline(conn, conn->http->idle_ns + conn->http->header_ns, TO_BEGIN);
    *context = NULL;
}

/* ---- life */

/* While stopping, new connections are closed at once. (MHD_quiesce_daemon takes the listening
 * socket out of the threads' epoll sets and aborts when a thread has just done so itself: 0.9.75.)
 */
static enum MHD_Result on_accept(void *cls, const struct sockaddr *address, socklen_t len)
{
    const struct http *http = (const struct http *)cls;
    (void)address, (void)len;
    return atomic_load(&http->stopping) ? MHD_NO : MHD_YES;
}

static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

static PRINTF_LIKE(2, 0) void on_log(void *cls, const char *fmt, va_list ap)
{
    char text[256];
    (void)cls;
    vsnprintf(text, sizeof text, fmt, ap);
    log_event(LOG_DEBUG, "http: %s", text);
}

static struct MHD_Daemon *start_daemon(struct http *http)
{
    const struct config *config = http->o.config;
    const struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)config->http_threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem one[] = {{MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, http->o.tls_callback},
        {MHD_OPTION_HTTPS_PRIORITIES, 0,
         (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned use_tls = http->o.tls_callback != NULL ? MHD_USE_TLS : 0;

    /* clang-format off */
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            use_tls,
        0, on_accept, http, on_request, http,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, http->o.listen_fd,
        MHD_OPTION_ARRAY, config->http_threads > 1 ? pool : one,
        MHD_OPTION_ARRAY, use_tls != 0 ? tls : one,
        MHD_OPTION_CONNECTION_LIMIT, http->connections_max,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(config->http_idle_timeout / 1000),
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, on_uri, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_END);
    /* clang-format on */
}

static void stop_sweeper(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    http->sweeper_stop = true;
    pthread_cond_signal(&http->wake_sweeper);
    pthread_mutex_unlock(&http->lock);
    pthread_join(http->sweeper, NULL);
}

static void http_free(struct http *http)
{
    budget_done(&http->budget);
    pool_done(&http->pool);
    pthread_cond_destroy(&http->wake_sweeper);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

enum rc http_start(const struct http_options *options, struct http **out, struct err *err)
{
    const struct config *config = options->config;
    struct http *http = (struct http *)calloc(1, sizeof *http);
    pthread_condattr_t monotonic;

    if (http == NULL) {
        close(options->listen_fd);
        return err_set(err, RC_NOMEM, 0, "http: out of memory");
    }
    http->o = *options;
    http->idle_ns = config->http_idle_timeout * NS_PER_MS;
    http->header_ns = config->http_header_timeout * NS_PER_MS;
    http->body_ns = config->http_body_timeout * NS_PER_MS;
    http->wait_ns = config->http_admission_wait * NS_PER_MS;
    http->body_max = config->http_max_content_length;
    http->discard_max = 2 * http->body_max > DISCARD_BYTES ? 2 * http->body_max : DISCARD_BYTES;
    budget_init(&http->budget, config->http_max_in_flight, on_budget);
    pool_init(&http->pool, config->http_max_in_flight / 4);
    pthread_mutex_init(&http->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&http->wake_sweeper, &monotonic);
    pthread_condattr_destroy(&monotonic);

    int failure = pthread_create(&http->sweeper, NULL, sweep, http);
    if (failure != 0) {
        close(options->listen_fd);
        http_free(http);
        return err_set(err, RC_IO, failure, "http: no thread: %s", strerror(failure));
    }
    uint64_t asked = config->http_max_connections;
    http->connections_max = listen_connections(asked);
    if (asked > http->connections_max)
        log_event(LOG_WARN, "http: http.max_connections [%llu] cut to [%u]: descriptor limit",
                  (unsigned long long)asked, http->connections_max);
    if (listen(options->listen_fd, LISTEN_BACKLOG) == 0)
        http->daemon = start_daemon(http);
    if (http->daemon == NULL) {
        failure = errno;
        stop_sweeper(http);
        close(options->listen_fd);
        http_free(http);
        return err_set(err, RC_IO, failure, "http: cannot start: %s", strerror(failure));
    }
    listen_address(options->listen_fd, http->address, sizeof http->address);
    *out = http;
    return RC_OK;
}

const char *http_address(const struct http *http)
{
    return http->address;
}

void http_gauges(struct http *http, struct api_gauges *out)
{
    *out = (struct api_gauges){.connections = atomic_load(&http->connections),
                               .connections_max = http->connections_max,
                               .requests = atomic_load(&http->open),
                               .in_flight = budget_used(&http->budget),
                               .in_flight_max = http->budget.limit,
                               .cut = atomic_load(&http->cut)};
}

/* Wait for a counter to become 0. */
static bool wait_zero(const _Atomic size_t *counter, uint64_t until_ns)
{
    while (atomic_load(counter) > 0) {
        if (now_ns() >= until_ns)
            return false;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return true;
}

size_t http_stop(struct http *http)
{
    uint64_t begun = now_ns();

    atomic_store(&http->stopping, true);
    if (!wait_zero(&http->open, begun + STOP_UPLOADS_NS))
        wait_zero(&http->busy, begun + STOP_CALLS_NS);
    budget_close(&http->budget);
    atomic_store(&http->closing, true);
    wait_zero(&http->at_work, begun + STOP_CALLS_NS);
    stop_sweeper(http);
    size_t left = atomic_load(&http->at_work);
    if (left > 0)
        return left; /* libmicrohttpd can't be stopped with suspended connections */
    MHD_stop_daemon(http->daemon);
    http_free(http);
    return 0;
}
