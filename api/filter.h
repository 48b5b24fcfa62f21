/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing parts of a JSON value by dotted paths: _source filtering and filter_path. The kept
 * members' bytes are copied, never re-printed; what is left out leaves with its comma.
 * Patterns as in Elasticsearch: "a.b", "a.*", "*.id", "c*"; filter_path also "**" and a leading "-"
 * for exclusion; in _source '*' spans dots, too. A pattern that names an object keeps all of it.
 * The elements of an array have the path of their array. */
#ifndef STOWD_FILTER_H
#define STOWD_FILTER_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/json.h"

struct filter; /* compiled; NULL means: keep everything */

/* Includes and excludes are comma separated lists (may be empty). NULL for nothing to filter or no
 * memory. */
struct filter *filter_create(struct slice includes, struct slice excludes);
/* filter_path syntax: exclusions are the patterns with '-'. */
struct filter *filter_create_path(struct slice patterns);
void filter_destroy(struct filter *filter);

/* Append the filtered value. An object of which nothing is left is {} at the top. */
void filter_apply(const struct filter *filter, struct json_value value, struct buf *out);
/* Would a value at this dotted path (no wildcards) be kept at least in part? For streamed answers:
 * "items" */
bool filter_wants(const struct filter *filter, const char *path);
/* Filter a value that lies at `path` ("items", an array element of it) of the whole answer; false
 * when nothing of it is kept (nothing appended). */
bool filter_apply_at(const struct filter *filter, const char *path, struct json_value value,
                     struct buf *out);

#endif
