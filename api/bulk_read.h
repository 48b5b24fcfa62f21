/* SPDX-License-Identifier: Apache-2.0 */
/* NDJSON reader of _bulk: a pure iterator over a body, slices only. Facts: clients' contract traps
 * 15, 16, 17.
 *   R1  framing errors (no final newline, malformed action line, missing document) refuse the whole
 *       request, with Elasticsearch's words and the number of the line.
 *   R2  a source line is validated here; a bad one marks its item, not the request.
 *   R3  null metadata values mean absent; numbers and booleans as _id are taken as text. */
#ifndef STOWD_BULK_READ_H
#define STOWD_BULK_READ_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/json.h"
#include "storage/shapes.h"
#include "storage/store.h"

struct bulk_item {
    enum write_op op;
    struct slice index; /* decoded; empty: absent */
    struct slice id;    /* decoded */
    bool has_id;        /* also true for "" */
    struct slice routing;
    struct slice pipeline;
    bool require_alias, has_require_alias;
    bool require_data_stream;
    bool has_version;
    uint64_t version;
    enum write_versioning versioning;
    uint64_t if_seq_no, if_primary_term; /* SEQ_NONE, 0 */
    uint64_t retry_on_conflict;
    struct slice source_filter; /* "_source" of the metadata: raw JSON value; empty: absent */
    struct slice source;        /* the document line, without line end; empty for delete */
    bool source_ok;             /* valid JSON object */
    struct fit fit;             /* … taken apart by the reader's shapes */
    struct json_fault fault;    /* when not */
    uint32_t line;              /* of the action, from 1 */
    bool same;                  /* its action line is that of the item before, but for the id */
};

struct bulk_reader {
    struct slice body;
    size_t at;
    uint32_t line;
    struct shape_reader *shapes; /* the caller's */
    /* The action line before, with its newline: what stands before its id and, from the quote on,
     * behind it. Without an id, or with one that isn't a plain string, all of it is the head. */
    struct slice known_head, known_tail;
    struct buf *scratch; /* ids and names with escapes are decoded into it; slices may move:      */
                         /* reserve body.len before the first call so that it never grows         */
};

/* scratch must have body.len bytes reserved. */
void bulk_reader_init(struct bulk_reader *reader, struct slice body, struct shape_reader *shapes,
                      struct buf *scratch);
/* The next item; RC_NOT_FOUND at the end; RC_INVALID with Elasticsearch's reason and *type_out its
 * error type (R1). *item is the one before, and untouched: most action lines are like the one
 * before but for the id, and then it keeps what that says. */
MUST_CHECK enum rc bulk_next(struct bulk_reader *reader, struct bulk_item *item,
                             const char **type_out, struct err *err);

#endif
