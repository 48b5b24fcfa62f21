/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP: sockets to api_call and back, by libmicrohttpd. What it adds to that library: raw paths,
 * bounded bodies and memory, refusals that arrive, deadlines, streamed answers, an orderly stop. */
#ifndef STOWD_HTTP_H
#define STOWD_HTTP_H

#include "api/api.h"
#include "config/config.h"

struct http;

struct http_options {
    const struct config *config; /* outlives http */
    struct api *api;
    struct work *work;  /* makes the windows of streamed answers */
    void *tls_callback; /* of server/tls.h; NULL: no TLS */
    int listen_fd;      /* from listen_bind; http_start takes it over, also when it fails */
    /* Set from any thread when nothing can be made durable any more: from then on no 2xx goes out,
     * connections that would get one are closed. */
    const _Atomic bool *failed;
};

/* Listen and serve. */
MUST_CHECK enum rc http_start(const struct http_options *options, struct http **out,
                              struct err *err);
/* "127.0.0.1:9200": what is listened on. */
const char *http_address(const struct http *http);
/* What is going on, for _metrics. Any thread. */
void http_gauges(struct http *http, struct api_gauges *out);
/* Stop listening; let requests in flight end: uploads for 2 s, calls and answers for 8 s; close the
 * rest and free. Gives the number of calls that are still at a worker then: unless it is 0, http is
 * not freed and the process must end without tearing down what such a call uses. */
MUST_CHECK size_t http_stop(struct http *http);

#endif
