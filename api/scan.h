/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of several indices as of one moment, in storage order: what searches, scrolls, points
 * in time and reindexing read.
 *
 *   C1  each index is a snapshot (storage/snapshot.c): writes, deletes and merges go on and change
 *       nothing of what the scan sees.
 *   C2  a document's place is its seq plus the rows of the indices before its own: places rise over
 *       the whole scan, are fixed for its life, and for a single index are the _seq_no.
 *   C3  an index that is deleted ends a scan with RC_NOT_FOUND, never with fewer documents.
 * A scan may be read by several threads at once. */
#ifndef STOWD_SCAN_H
#define STOWD_SCAN_H

#include "api/names.h"
#include "api/query.h"

struct scan_part {
    struct snapshot *snapshot;
    struct index *index; /* the snapshot's */
    uint64_t base;       /* place of its seq 0 */
};

struct scan {
    struct store *store;
    struct scan_part *part;
    size_t count;
    uint64_t end;   /* no place is higher */
    uint64_t total; /* documents */
    bool listed;    /* a query of ids: only the places found */
    uint64_t *found;
};

struct scan_doc {
    const struct row *row;
    struct index *index;
    struct slice id; /* as clients know it */
    uint64_t place;
};

/* Snapshots of all indices in the list, in its order. */
MUST_CHECK enum rc scan_open(struct store *store, const struct names_list *list,
                             const struct query *query, struct scan *out, struct err *err);
void scan_close(struct scan *scan); /* also of an empty one */
/* At most max documents from *place on; advances it. fn's RC_AGAIN ends the call in front of that
 * document; other failures end it with them. Slices of a document are valid during fn. Not for I/O
 * threads. */
MUST_CHECK enum rc scan_next(const struct scan *scan, uint64_t *place, size_t max, bool *done_out,
                             enum rc (*fn)(const struct scan_doc *doc, void *arg), void *arg,
                             struct err *err);
/* RC_NOT_FOUND when an index that somebody holds has been deleted. */
MUST_CHECK enum rc scan_index_there(struct store *store, struct index *index, struct err *err);
/* Places of the last documents in front of `before`, the highest first: at most `want`. */
MUST_CHECK enum rc scan_last(const struct scan *scan, uint64_t before, size_t want,
                             uint64_t *places, size_t *count_out, struct err *err);

#endif
