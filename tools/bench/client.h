/* SPDX-License-Identifier: Apache-2.0 */
/* A cheap HTTP/1.1 client: one thread, epoll, keep-alive connections, one request in flight on
 * each. It reads of an answer what it must to find the end. A connection that breaks ends the
 * program. */
#ifndef STOWD_BENCH_CLIENT_H
#define STOWD_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request and its answer. What head and body point to must stay until done(). */
struct exchange {
    unsigned connection; /* 0 … connections - 1 */
    const char *head;    /* request line and headers with the empty line */
    size_t head_len;
    const char *body;
    size_t body_len;
    uint64_t tag; /* the caller's */
    /* For done(): */
    int status;
    const char *answer;
    size_t answer_len;
};

struct client_plan {
    uint16_t port; /* on 127.0.0.1 */
    unsigned connections;
    double rate; /* requests a second, all connections together; 0: as fast as answers come */
    /* Fill in the next request; false: there are no more. */
    bool (*next)(void *arg, struct exchange *exchange);
    void (*done)(void *arg, const struct exchange *exchange); /* may be NULL */
    void *arg;
};

/* With a rate, latency counts from when the request was due, not from when it could be sent. */
struct client_result {
    uint64_t requests, failed; /* failed: of them, with a status other than 2xx */
    uint64_t received_bytes;   /* bodies of answers */
    double seconds, client_cpu_seconds;
    uint64_t *latency_ns; /* sorted; the caller frees it */
};

void client_run(const struct client_plan *plan, struct client_result *out);
double client_percentile_us(const struct client_result *result, double percent);

#endif
