/* SPDX-License-Identifier: Apache-2.0 */
/* Inside names: all indices with their metadata as of one moment (N1), for those who judge names
 * against each other. */
#ifndef STOWD_NAMES_VIEW_H
#define STOWD_NAMES_VIEW_H

#include "api/names.h"

struct names_view {
    struct index **index; /* acquired, by name */
    const struct index_meta **meta;
    struct names_info *info;
    bool *chosen; /* the caller's */
    size_t count;
};

MUST_CHECK enum rc names_view_open(struct api *api, struct names_view *view, struct err *err);
void names_view_close(struct names_view *view);
/* Does an alias of this metadata match the glob? Gives its properties (out may be NULL). */
bool names_alias_match(const struct index_meta *meta, struct slice glob, bool with_hidden,
                       struct json_value *properties_out);
/* Choose what a name without wildcards stands for: an index, an alias or a data stream. */
MUST_CHECK enum rc names_view_choose(struct names_view *view, struct slice name,
                                     const struct names_options *options, size_t *named_out,
                                     struct err *err);
/* Position of the write index of an alias, its indices (hits of them) being chosen. RC_INVALID:
 * it has none. */
MUST_CHECK enum rc names_write_index(const struct names_view *view, struct slice name, size_t hits,
                                     size_t *at, struct err *err);
/* Position of the newest backing index of a data stream; false: there is no such stream. */
bool names_view_stream(const struct names_view *view, struct slice stream, size_t *at_out);

#endif
