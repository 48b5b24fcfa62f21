/* SPDX-License-Identifier: Apache-2.0 */
/* Partial update by splicing: the bytes of untouched members stay as they are, replaced values and
 * new members take the bytes of the update. Objects merge member by member, everything else
 * replaces (Elasticsearch: XContentHelper.update).
 *   M1  keys are compared by value, escapes considered; of duplicate keys in the document the last
 *       one is the member.
 *   M2  noop: no value differs (json_same). */
#ifndef STOWD_MERGE_H
#define STOWD_MERGE_H

#include "config/base.h"
#include "config/buf.h"

/* Both are valid JSON objects. Appends the merged document. */
MUST_CHECK enum rc merge_documents(struct slice current, struct slice update, struct buf *out,
                                   bool *noop_out);

#endif
