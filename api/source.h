/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a document an answer shows: _source, _source_includes, _source_excludes. */
#ifndef STOWD_SOURCE_H
#define STOWD_SOURCE_H

#include "api/call.h"
#include "api/filter.h"

struct source_spec {
    bool given;            /* the request says something about it */
    bool want;             /* show _source at all */
    struct filter *filter; /* NULL: the whole document, byte for byte */
};

/* From the query. Without a word there: given false, want true. */
void source_from_query(const struct api_call *call, struct source_spec *out);
/* From JSON: true, false, "a.*", ["a", "b"], {"includes": …, "excludes": …}. RC_INVALID. */
MUST_CHECK enum rc source_from_json(struct json_value value, struct source_spec *out,
                                    struct err *err);
void source_done(struct source_spec *spec);
/* Append ,"_source":… when wanted. */
void source_put(const struct source_spec *spec, struct slice doc, struct buf *out);

#endif
