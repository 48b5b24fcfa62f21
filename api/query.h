/* SPDX-License-Identifier: Apache-2.0 */
/* The queries there are: everything, or documents by their ids. stowd has no query engine; whatever
 * else a client asks for is refused by a text that says so (QUERY_KNOWN).
 *
 *   Q1  a query is read whole or refused: nothing of it is passed over in silence.
 *   Q2  ids are sorted and each is there once.
 * match_all, match_none, ids {values}, term and terms on _id; bool (filter, must) and
 * constant_score around these, meaning what they have in common. */
#ifndef STOWD_QUERY_H
#define STOWD_QUERY_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/json.h"

#define QUERY_KNOWN "[match_all], [ids], and [term] and [terms] on [_id]"
/* Elasticsearch's index.max_terms_count. */
#define QUERY_IDS_MAX 65536

/* { .all = true } is a valid query of everything. */
struct query {
    bool all;         /* every document; else those of the ids */
    struct slice *id; /* point into the JSON that was read, or into text */
    size_t count;
    struct buf text; /* ids that had escapes */
};

/* From the value of "query". RC_INVALID with *type_out the error type. The JSON outlives *out. */
MUST_CHECK enum rc query_read(struct json_value value, struct query *out, const char **type_out,
                              struct err *err);
/* From the query parameter q: "*" and "*:*" only. */
MUST_CHECK enum rc query_read_text(struct slice q, struct query *out, const char **type_out,
                                   struct err *err);
void query_done(struct query *query);

#endif
