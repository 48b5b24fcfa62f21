/* SPDX-License-Identifier: Apache-2.0 */
/* Documents out of a scan, or of another node, into writes: what _reindex and _delete_by_query are
 * made of. Batch by batch, as a chain of worker tasks.
 *
 *   Y1  no thread waits: a step reads a batch and ends in store_write, whose callback queues the
 *       next step. (Another node is waited for by a thread of its own, api/remote.h.)
 *   Y2  what a copy holds is one batch: COPY_DOCS documents or COPY_BYTES, and at least one.
 *   Y3  a batch is one store_write, or several when the log is too small for it; a full log is
 *       waited for (a flush empties it), everything else that refuses a batch ends the copy. */
#ifndef STOWD_COPY_H
#define STOWD_COPY_H

#include "api/remote.h"
#include "api/scan.h"
#include "api/source.h"
#include "api/tasks.h"
#include "config/limits.h"

#define COPY_DOCS  1000
#define COPY_BYTES (4 * MIB)

enum copy_routing { ROUTING_KEEP, ROUTING_DISCARD, ROUTING_SET };

struct copy {
    /* set by the caller */
    struct api *api;
    struct job *job;
    struct scan scan;      /* owned; empty with remote */
    struct remote *remote; /* owned */
    struct index *dest;    /* owned; NULL: delete each document where it is */
    bool create;           /* op_type */
    enum write_versioning versioning;
    enum copy_routing routing;
    struct slice routing_text;
    struct source_spec source; /* owned */
    uint64_t max_docs;         /* SEQ_NONE: all */
    size_t batch_docs;
    bool proceed;          /* conflicts do not end it */
    struct buf text;       /* owned: what slices above point into */
    struct api_call *call; /* answered at the end; NULL: nobody waits */

    /* its own */
    struct job_counts counts;
    uint64_t place, read; /* documents read */
    bool drained;
    bool page_open;                          /* the other node's page has hits left */
    struct buf docs, bytes, items, filtered; /* of a batch */
    size_t at, part, part_max;               /* items that are being written */
    unsigned retries;
    struct buf failures; /* JSON, comma separated */
    size_t failure_count;
    int failure_status;
    enum rc rc;
    struct err err;
    struct write write;
    struct task task;
};

/* {0} with the defaults. */
struct copy *copy_create(struct api *api);
/* Free one that was not begun (its job ends, if it has one). */
void copy_destroy(struct copy *copy);
/* Run; from here on it belongs to itself. */
void copy_begin(struct copy *copy);

/* ---- reading what both endpoints take; false: replied */
MUST_CHECK bool copy_read_limits(struct api_call *call, struct copy *copy, uint64_t body_max,
                                 bool has_body_max);
/* Begin the job and the copy; answer {"task":…} when the client does not wait. */
void copy_start(struct api_call *call, struct copy *copy, enum job_kind kind,
                struct slice description);

#endif
