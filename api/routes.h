/* SPDX-License-Identifier: Apache-2.0 */
/* The table of endpoints and the match of a request against it.
 *
 *   T1  segments are matched raw, before anything is decoded; a literal beats a variable.
 *   T2  "/{index}" alone never takes a segment that starts with '_' (but _all): that is an endpoint
 *       that is not there.
 *   T3  HEAD goes where GET goes, but not where a body is read or something is changed. */
#ifndef STOWD_ROUTES_H
#define STOWD_ROUTES_H

#include "api/call.h"

#define ROUTE_SEGMENTS 8 /* of a path; more match nothing */

struct route_path {
    struct slice segment[ROUTE_SEGMENTS]; /* raw */
    size_t count;
};

/* Split a raw path; one slash at the end is passed over. False: no route can match. */
bool route_split(struct slice path, struct route_path *out);
/* The row for path and method, or NULL: then *allowed_out has the methods (bits of enum api_method)
 * that the path takes, 0 when it is unknown. */
const struct route *route_find(const struct route_path *path, enum api_method method,
                               unsigned *allowed_out);
/* Name of the variable that segment i of a pattern is ("index"), empty for a literal. */
struct slice route_variable(const struct route *route, size_t i);
/* Does the route take this query parameter? */
bool route_takes(const struct route *route, struct slice param);
/* Append " -> did you mean [x]?" for one that it does not take, or nothing. */
void route_suggest(const struct route *route, struct slice param, struct buf *out);
/* The whole table, for documentation and tests. */
const struct route *route_table(size_t *count_out);

#endif
