/* SPDX-License-Identifier: Apache-2.0 */
/* What _bulk and the document API share: the rules that a write must keep before it runs, the body
 * of an update, and the words for what came of a write. */
#ifndef STOWD_OUTCOME_H
#define STOWD_OUTCOME_H

#include "api/source.h"

/* Routing values are stored with every row that has one. */
#define ROUTING_BYTES_MAX 512

/* A write as asked for. */
struct write_ask {
    enum write_op op;
    bool has_id;
    struct slice id;
    bool has_version;
    uint64_t version;
    enum write_versioning versioning;
    uint64_t if_seq_no, if_primary_term; /* SEQ_NONE, 0 */
};
/* The validation error of a write ("id is missing", …) appended to out; false when it is fine. */
bool write_invalid(const struct write_ask *ask, struct buf *out);

/* What an update asks for. Slices into the body. */
struct update_body {
    struct slice doc, upsert; /* JSON objects, empty when absent */
    struct json_value source; /* "_source", JSON_END when absent */
    bool doc_as_upsert, detect_noop;
    uint64_t if_seq_no, if_primary_term;
};
/* RC_INVALID with *type_out the error type. */
MUST_CHECK enum rc update_read(const struct api *api, struct slice body, struct update_body *out,
                               const char **type_out, struct err *err);
/* write_update_fn; update_arg is the struct update_body. */
enum rc update_apply(const struct write_item *item, struct slice current, struct buf *out,
                     enum update_action *action_out, struct err *err);

/* The error type of a document that is no JSON object, and its reason. */
const char *document_error_type(const struct api *api);
void document_error_reason(const struct json_fault *fault, struct buf *out);
/* Is it one? Else the reason is appended. */
bool document_check(struct slice doc, struct buf *reason);

/* ---- of a write that is done */
int outcome_status(const struct write_item *item);
/* Has it an error object? (A delete of nothing has none.) */
bool outcome_failed(const struct write_item *item);
/* Error type; reason and the error's own members are appended. */
const char *outcome_error(const struct api *api, const struct write_item *item, struct buf *reason,
                          struct buf *members);
/* Append "_index":…[,"_type":"_doc"], then "_id":… too. */
void outcome_index(const struct api *api, struct slice index, struct buf *out);
void outcome_names(const struct api *api, struct slice index, struct slice id, struct buf *out);
/* Append "result":… up to "_shards":…, of a write without error. */
void outcome_effect(const struct write_item *item, bool forced_refresh, struct buf *out);
/* The id that was given or made; made has room for one. */
struct slice outcome_id(const struct write_item *item, char made[MADE_ID_LEN]);
/* Append what a write without error answers: names, _version … _primary_term, and "get" when the
 * item has a source. */
void outcome_members(const struct api *api, const struct write_item *item, bool forced_refresh,
                     const struct source_spec *source, struct buf *out);

#endif
