/* SPDX-License-Identifier: Apache-2.0 */
/* A scroll on another Elasticsearch or OpenSearch, for _reindex with source.remote. libcurl waits,
 * so it has a thread of its own from remote_open to remote_free; pages are handed over as tasks.
 *
 *   R1  one page is held at a time, at most REMOTE_PAGE_BYTES of it.
 *   R2  _source is the bytes that the other node sent.
 *   R3  http and https only, certificates checked, no redirects, no proxies. */
#ifndef STOWD_REMOTE_H
#define STOWD_REMOTE_H

#include "config/limits.h"
#include "storage/json.h"
#include "storage/store.h"

#define REMOTE_PAGE_BYTES (64 * MIB)

struct remote_options {
    struct slice host;               /* "https://other:9200/prefix" */
    struct slice username, password; /* empty: none */
    struct slice headers;            /* JSON object, or empty */
    struct slice index;              /* expression, comma separated */
    struct slice query;              /* JSON, sent as it is */
    struct slice source;             /* JSON of _source, or empty */
    uint64_t size;                   /* documents of a page */
    uint64_t connect_ms, socket_ms;
    const char *certificates; /* file of authorities, or NULL: the system's */
};

struct remote;
/* Checks the address and starts the thread; RC_INVALID. Copies the options. */
MUST_CHECK enum rc remote_open(const struct remote_options *options, struct work *work,
                               struct remote **out, struct err *err);
/* Fetch the next page, then queue the task. */
void remote_next(struct remote *remote, struct task *then);
/* After that: what came of it. RC_OK: hits to be read by remote_hit; none: the end. */
MUST_CHECK enum rc remote_result(const struct remote *remote, struct err *err);
uint64_t remote_total(const struct remote *remote); /* documents, as the other node says */
uint64_t remote_retries(const struct remote *remote);

struct remote_hit {
    struct slice id, routing; /* decoded; routing may be empty */
    struct slice source;      /* JSON object; empty: the hit has none */
    uint64_t version;         /* 0: not told */
};
/* The next hit of the page; RC_NOT_FOUND at its end. Slices live until remote_next. */
MUST_CHECK enum rc remote_hit(struct remote *remote, struct remote_hit *out, struct err *err);
/* Before the first page: what says that nobody wants more. Asked about once a second. */
void remote_watch(struct remote *remote, bool (*cancelled)(const void *arg), const void *arg);
/* Give the scroll up and end the thread, then queue the task, which calls remote_free. */
void remote_close(struct remote *remote, struct task *then);
void remote_free(struct remote *remote);

#endif
