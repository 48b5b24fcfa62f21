/* SPDX-License-Identifier: Apache-2.0 */
/* Elasticsearch's language without sockets: a call (method, raw path, raw query, headers, body) and
 * its reply. server/ makes calls from HTTP, tests make them from plain structs.
 *
 * Life of a call
 *   received   server has headers:  api_admit() may refuse at once (405, 413, 415, auth …)
 *   complete   server has the body: api_try_inline() answers cheap reads on the calling thread,
 *              else api_submit() queues the call for a worker
 *   running    the handler of the route runs on a worker; it ends in api_finish(), at once or from
 *              the callback of a store_write
 *   finished   call->finished(call), on a worker: server takes reply and sends it
 *   streaming  while reply.more is set the server calls it on a worker for the next window
 *   done       server calls api_call_done(): everything the call owns is freed
 *
 *   A1  the path is split on '/' before it is decoded; a segment is decoded once.
 *   A2  nothing of a refused or incomplete request is applied.
 *   A3  a handler never blocks and never waits for another task.
 *   A4  memory of a call is bounded: body and reply windows are counted by the server's budget. */
#ifndef STOWD_API_H
#define STOWD_API_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/store.h"

struct api;
struct api_call;

struct api_user {
    const char *name, *password;
};

struct api_gauges {
    uint64_t connections, connections_max; /* open, allowed */
    uint64_t requests;                     /* being received, worked on or answered */
    uint64_t in_flight, in_flight_max;     /* bytes of bodies and answers */
    uint64_t cut;                          /* connections ended by a deadline, since start */
};

struct api_options {
    struct store *store;
    struct work *work;
    const char *path_data; /* shown by _nodes/stats; may be NULL */
    const char *cluster_name;
    const char *node_name;
    const char *identity_version;     /* "8.19.2": GET /, dialect by its major */
    const char *identity_product;     /* "elasticsearch" or "opensearch" */
    bool product_header;              /* X-Elastic-Product on every answer */
    const char *http_address;         /* publish address "host:port", or NULL: the Host header */
    uint64_t max_content_length;      /* bytes, also after inflating */
    const char *reindex_whitelist;    /* hosts that source.remote may name: globs of host:port */
    const char *reindex_certificates; /* file of authorities for https, or NULL */
    /* Security: off without users_file. Beside the users in the file there are fixed ones, who may
     * do all. */
    const char *users_file;
    const struct api_user *fixed_users;
    size_t fixed_user_count;
    /* What the server knows of itself, for _metrics. May be NULL. */
    void (*gauges)(void *arg, struct api_gauges *out);
    uint64_t retention_ms; /* how often old indices are looked for; 0: never */
    void (*event)(void *arg, int severity, const char *text); /* log line, any thread */
    void *arg;
};

MUST_CHECK enum rc api_create(const struct api_options *options, struct api **out, struct err *err);
/* The node is about to stop: jobs end at their next step, new ones are refused. */
void api_stop(struct api *api);
/* Calls have ended. Waits for jobs that nobody waits for. */
void api_destroy(struct api *api);

enum api_method { API_GET, API_HEAD, API_POST, API_PUT, API_DELETE, API_OPTIONS, API_OTHER };

/* A header of an answer beyond those the server adds itself. */
struct api_header {
    const char *name; /* static */
    char value[128];
};

struct api_reply {
    int status;               /* HTTP */
    const char *content_type; /* static: "application/json" … */
    bool gzipped;             /* body is Content-Encoding: gzip */
    struct buf body;          /* complete, or the first window */
    struct api_header headers[4];
    size_t header_count;
    /* Set: the body goes on. Called on a worker when the last window has been sent: empties
     * reply.body, appends the next window, clears itself with the last one. Not RC_OK breaks the
     * connection off (the client must not take a cut answer for a whole one). */
    enum rc (*more)(struct api_call *call);
};

struct api_call {
    /* in: set by the server before api_admit / api_submit; slices live until api_call_done */
    enum api_method method;
    const char *method_text; /* as sent, for API_OTHER */
    struct slice path;       /* raw, starts with '/' */
    struct slice query;      /* raw, without '?' */
    struct slice content_type, content_encoding, accept, accept_encoding, authorization, host,
        user_agent, opaque_id; /* header values, empty when absent */
    bool has_length, chunked;
    uint64_t content_length;
    struct buf body; /* as received; owned by the call */
    void (*finished)(struct api_call *call);
    void *server; /* server's own */
    /* Change of bytes held for this call beyond body.cap (inflated body, item tables, windows):
     * the server accounts them. May be NULL. */
    void (*charge)(struct api_call *call, int64_t bytes);
    const uint8_t *peer; /* 16 bytes: IPv6 address, or IPv4 mapped into it; NULL: unknown */
    /* After api_wait, on any thread: to call api_admit_again() on the server's own. */
    void (*admitted)(struct api_call *call);
    /* out */
    struct api_reply reply;
    /* internal to api/ */
    struct api *api;
    struct task task;
    const struct route *route;
    struct slice part[8]; /* decoded variable segments, in arena */
    size_t part_count;
    struct param *params; /* decoded query parameters, in arena */
    size_t param_count;
    struct call_arena *arena; /* freed by api_call_done */
    void *state;              /* handler's own, freed by state_free */
    void (*state_free)(struct api_call *call);
    uint64_t started_ns;
    bool queued;                  /* on a worker: api_finish hands the call back by finished() */
    const struct principal *user; /* api/access.h; NULL: security is off */
    const struct api_key *key;    /* with user: the key that came in its place */
    struct door_visit *visit;     /* while the password is verified */
    unsigned needs;               /* not 0: indices without one of these privileges are left out */
    struct packed *packed;        /* gzip of a streamed answer; freed by api_call_done */
};

enum api_admission {
    API_REFUSED,  /* reply is set; the server sends it at once when the client waits for
                     100-continue, else reads and throws the body away first */
    API_ADMITTED, /* go on and read the body */
    API_WAITS,    /* a password must be verified first: api_wait; nothing is read meanwhile */
};
/* Headers are there. */
MUST_CHECK enum api_admission api_admit(struct api *api, struct api_call *call);
/* After API_WAITS: call->admitted() follows, from another thread or before this returns. */
void api_wait(struct api *api, struct api_call *call);
/* After call->admitted(): never API_WAITS. */
MUST_CHECK enum api_admission api_admit_again(struct api *api, struct api_call *call);
/* Read the users file again (SIGHUP). Does nothing with security off. */
MUST_CHECK enum rc api_reload(struct api *api, struct err *err);
/* For _metrics: the reply is set, and about to go out. */
void api_count(struct api *api, const struct api_call *call);
/* Body complete. True: answered on this thread without waiting for anything (reply is set). */
MUST_CHECK bool api_try_inline(struct api *api, struct api_call *call);
/* Queue for a worker. call->finished is called there. */
void api_submit(struct api *api, struct api_call *call);
/* A whole-request refusal in ES form, for the server's own limits: 413, 429, 408 … */
void api_refuse(struct api *api, struct api_call *call, int status, const char *type,
                const char *fmt, ...) PRINTF_LIKE(5, 6);
void api_call_done(struct api_call *call);

#endif
