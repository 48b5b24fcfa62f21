/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of answers about indices that several handlers print. */
#ifndef STOWD_INDICES_H
#define STOWD_INDICES_H

#include "api/names.h"

struct settings_view {
    bool flat;             /* flat_settings */
    bool defaults;         /* include_defaults: also ,"defaults":{…} with what was resolved */
    struct slice patterns; /* globs of keys, or empty */
};
/* flat_settings and include_defaults of a call. False: replied 400. */
MUST_CHECK bool settings_view_read(struct api_call *call, struct settings_view *out);
/* Append ,"settings":{…}: what was asked, and what every index has (uuid, creation_date …). */
MUST_CHECK enum rc index_settings_put(const struct api *api, struct index *index,
                                      const struct settings_view *view, struct buf *out,
                                      struct err *err);
/* RC_INVALID when one of the indices is the newest of a data stream, which goes with the stream
 * only. verb: "deleted" … The naming lock is held, so that no stream is rolled over meanwhile. */
MUST_CHECK enum rc indices_check_streams(struct api *api, const struct names_list *list,
                                         const char *verb, struct err *err);
/* Append ,"_shards":{…}. copies: replicas count in the total, as in Elasticsearch's broadcasts. */
void shards_put(const struct names_list *list, bool copies, bool skipped, struct buf *out);
/* How an index came to be open: found at the start of the node, or made since. */
struct recovery {
    bool existing;
    uint64_t at_ms;
};
void recovery_of(const struct api *api, struct index *index, struct recovery *out);

#endif
