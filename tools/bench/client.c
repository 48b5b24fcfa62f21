/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/client.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (256u * 1024)
#define NS_PER_S   1000000000ull

struct conn {
    int fd;
    bool busy, watches_out;
    struct exchange exchange;
    size_t sent; /* of head and body */
    uint64_t began_ns;
    char *in;
    size_t in_len, in_cap;
    size_t head_len; /* of the answer; 0: not complete yet */
    bool chunked;
    size_t need;         /* length of head and body, when not chunked */
    size_t at, body_end; /* chunked: next chunk's line; end of the joined body */
};

struct run {
    const struct client_plan *plan;
    struct client_result *result;
    struct conn *conns;
    int epoll;
    unsigned busy;
    bool ended; /* next() said so */
    uint64_t started_ns, begun;
    size_t latency_cap;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void connect_to(struct conn *conn, uint16_t port, int epoll, unsigned number)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&to, sizeof to) != 0)
        err(1, "connect to port %u", port);
    if (setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0)
        err(1, "socket");
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event) != 0)
        err(1, "epoll_ctl");
    conn->exchange.connection = number;
}

static void watch(struct run *run, struct conn *conn, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0),
                                .data.u32 = conn->exchange.connection};
    if (conn->watches_out == out)
        return;
    if (epoll_ctl(run->epoll, EPOLL_CTL_MOD, conn->fd, &event) != 0)
        err(1, "epoll_ctl");
    conn->watches_out = out;
}

static void send_some(struct run *run, struct conn *conn)
{
    const struct exchange *x = &conn->exchange;
    size_t total = x->head_len + x->body_len;
    while (conn->sent < total) {
        struct iovec part[2];
        int parts = 0;
        if (conn->sent < x->head_len)
            part[parts++] =
                (struct iovec){(void *)(uintptr_t)(x->head + conn->sent), x->head_len - conn->sent};
        size_t body_sent = conn->sent < x->head_len ? 0 : conn->sent - x->head_len;
        if (x->body_len > body_sent)
            part[parts++] =
                (struct iovec){(void *)(uintptr_t)(x->body + body_sent), x->body_len - body_sent};
        ssize_t n = writev(conn->fd, part, parts);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            err(1, "send");
        conn->sent += (size_t)n;
    }
    watch(run, conn, conn->sent < total);
}

/* ---- answers */

/* Value of a header of the answer, up to the end of its line. */
static const char *header(const struct conn *conn, const char *name)
{
    size_t len = strlen(name);
    const char *line = conn->in, *end = conn->in + conn->head_len;
    while ((line = (const char *)memchr(line, '\n', (size_t)(end - line))) != NULL) {
        line++;
        if ((size_t)(end - line) > len && strncasecmp(line, name, len) == 0)
            return line + len;
    }
    return NULL;
}

static void read_head(struct conn *conn)
{
    const char *end = (const char *)memmem(conn->in, conn->in_len, "\r\n\r\n", 4);
    if (end == NULL)
        return;
    conn->head_len = (size_t)(end - conn->in) + 4;
    if (conn->head_len < 16 || memcmp(conn->in, "HTTP/1.1 ", 9) != 0)
        errx(1, "answer is not HTTP/1.1");
    conn->exchange.status = atoi(conn->in + 9);
    const char *length = header(conn, "content-length: ");
    conn->chunked = length == NULL;
    if (length != NULL)
        conn->need = conn->head_len + strtoull(length, NULL, 10);
    else if (header(conn, "transfer-encoding: chunked") == NULL)
        errx(1, "answer without a length");
    conn->at = conn->body_end = conn->head_len;
}

/* Join the chunks that are complete. True: that was the last one. */
static bool join_chunks(struct conn *conn)
{
    for (;;) {
        const char *line = conn->in + conn->at;
        const char *end = (const char *)memmem(line, conn->in_len - conn->at, "\r\n", 2);
        if (end == NULL)
            return false;
        size_t len = strtoull(line, NULL, 16), data = (size_t)(end - conn->in) + 2;
        if (conn->in_len - data < len + 2)
            return false;
        memmove(conn->in + conn->body_end, conn->in + data, len);
        conn->body_end += len;
        conn->at = data + len + 2;
        if (len == 0)
            return true;
    }
}

static bool answer_complete(struct conn *conn)
{
    if (conn->head_len == 0)
        read_head(conn);
    if (conn->head_len == 0)
        return false;
    if (conn->chunked)
        return join_chunks(conn);
    conn->body_end = conn->need;
    return conn->in_len >= conn->need;
}

static void receive(struct conn *conn)
{
    if (conn->in_cap - conn->in_len < READ_BYTES) {
        conn->in_cap = conn->in_cap * 2 + 2 * READ_BYTES;
        conn->in = (char *)realloc(conn->in, conn->in_cap);
        if (conn->in == NULL)
            err(1, "answer");
    }
    ssize_t n = recv(conn->fd, conn->in + conn->in_len, READ_BYTES, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        errx(1, "connection closed by the server");
    conn->in_len += (size_t)n;
}

static void note(struct run *run, struct conn *conn)
{
    struct client_result *result = run->result;
    struct exchange *x = &conn->exchange;
    if (result->requests == run->latency_cap) {
        run->latency_cap = run->latency_cap * 2 + 1024;
        result->latency_ns =
            (uint64_t *)realloc(result->latency_ns, run->latency_cap * sizeof *result->latency_ns);
        if (result->latency_ns == NULL)
            err(1, "latencies");
    }
    result->latency_ns[result->requests++] = now_ns() - conn->began_ns;
    x->answer = conn->in + conn->head_len;
    x->answer_len = conn->body_end - conn->head_len;
    result->received_bytes += x->answer_len;
    if (x->status / 100 != 2 && result->failed++ == 0)
        warnx("status %d: %.*s", x->status, (int)(x->answer_len < 300 ? x->answer_len : 300),
              x->answer);
    if (run->plan->done != NULL)
        run->plan->done(run->plan->arg, x);
}

/* ---- the loop */

static uint64_t due_ns(const struct run *run)
{
    return run->started_ns + (uint64_t)((double)run->begun / run->plan->rate * 1e9);
}

static void begin(struct run *run, struct conn *conn)
{
    uint64_t now = now_ns(), due = run->plan->rate > 0 ? due_ns(run) : now;
    if (run->ended || due > now)
        return;
    conn->exchange.body_len = 0;
    if (!run->plan->next(run->plan->arg, &conn->exchange)) {
        run->ended = true;
        return;
    }
    run->begun++;
    run->busy++;
    conn->busy = true;
    conn->began_ns = due;
    conn->sent = conn->in_len = conn->head_len = 0;
    send_some(run, conn);
}

static void on_event(struct run *run, struct conn *conn, uint32_t events)
{
    if (conn->watches_out && (events & EPOLLOUT) != 0)
        send_some(run, conn);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
        return;
    if (!conn->busy)
        errx(1, "connection closed by the server");
    receive(conn);
    if (!answer_complete(conn))
        return;
    note(run, conn);
    conn->busy = false;
    run->busy--;
    begin(run, conn);
}

static void loop(struct run *run)
{
    struct epoll_event events[64];
    for (;;) {
        for (unsigned i = 0; i < run->plan->connections; i++) {
            if (!run->conns[i].busy)
                begin(run, &run->conns[i]);
        }
        if (run->ended && run->busy == 0)
            return;
        struct timespec wait = {.tv_sec = 60};
        if (run->plan->rate > 0 && !run->ended && run->busy < run->plan->connections) {
            uint64_t now = now_ns(), due = due_ns(run), ns = due > now ? due - now : 0;
            wait = (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
        }
        int n = epoll_pwait2(run->epoll, events, 64, &wait, NULL);
        if (n < 0 && errno != EINTR)
            err(1, "epoll");
        if (n == 0 && wait.tv_sec == 60)
            errx(1, "no answer for 60 s");
        for (int i = 0; i < n; i++)
            on_event(run, &run->conns[events[i].data.u32], events[i].events);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void client_run(const struct client_plan *plan, struct client_result *out)
{
    memset(out, 0, sizeof *out);
    struct run run = {.plan = plan, .result = out, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    run.conns = (struct conn *)calloc(plan->connections, sizeof *run.conns);
    if (run.epoll < 0 || run.conns == NULL)
        err(1, "client");
    for (unsigned i = 0; i < plan->connections; i++)
        connect_to(&run.conns[i], plan->port, run.epoll, i);
    double cpu = cpu_seconds();
    run.started_ns = now_ns();
    loop(&run);
    out->seconds = (double)(now_ns() - run.started_ns) / 1e9;
    out->client_cpu_seconds = cpu_seconds() - cpu;
    for (unsigned i = 0; i < plan->connections; i++) {
        close(run.conns[i].fd);
        free(run.conns[i].in);
    }
    free(run.conns);
    close(run.epoll);
    if (out->requests > 0)
        qsort(out->latency_ns, out->requests, sizeof *out->latency_ns, compare);
}

double client_percentile_us(const struct client_result *result, double percent)
{
    if (result->requests == 0)
        return 0;
    size_t at = (size_t)(percent / 100 * (double)result->requests);
    return (double)result->latency_ns[at < result->requests ? at : result->requests - 1] / 1e3;
}
