/* SPDX-License-Identifier: Apache-2.0 */
/* Data streams. A stream is the set of its backing indices (".ds-NAME-2026.11.30-000001"): each
 * names its stream in index_meta.extra, the newest one also holds what the stream has of its own.
 *
 *   D1  there is no record beside the indices: making a stream, rolling it over and deleting its
 *       last index are each one change of the catalog.
 *   D2  documents are appended (op create) to the newest backing index; nothing else goes through
 *       the stream's name.
 *   D3  the newest backing index is deleted with the stream only. */
#ifndef STOWD_STREAMS_H
#define STOWD_STREAMS_H

#include "api/names.h"
#include "api/templates.h"

/* Of index_meta.extra: {"data_stream":{"name","generation","template","hidden","lifecycle"}}. */
struct stream_info {
    struct slice name; /* empty: not a backing index */
    uint64_t generation;
    struct json_value lifecycle; /* JSON_END: none */
    struct slice template;       /* name, quoted */
    bool hidden;
};
void stream_info_get(const struct index_meta *meta, struct stream_info *out);

/* Make a stream whose template was laid into the draft (draft->stream), with its first backing
 * index. RC_EXISTS. Takes the naming lock. */
MUST_CHECK enum rc stream_create(struct api *api, struct slice name, struct draft *draft,
                                 struct index **out, struct err *err);
/* Make the next backing index of a stream; the naming lock is held. RC_NOT_FOUND: no stream;
 * RC_INVALID: its template is gone. */
MUST_CHECK enum rc stream_roll_locked(struct api *api, struct slice name, struct index **out,
                                      struct err *err);
/* Name of the backing index of a generation as of now. */
void stream_backing_name(struct slice stream, uint64_t generation, struct buf *out);

#endif
