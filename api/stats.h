/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of _stats that _nodes/stats shows, too. */
#ifndef STOWD_STATS_H
#define STOWD_STATS_H

#include "api/names.h"

/* Bits of the sections that a comma separated list names (empty or _all: every one). False: replied
 * 400. */
MUST_CHECK bool stats_metrics_read(struct api_call *call, struct slice list, unsigned *metrics_out);
/* Append the sections as members: the sum of all indices, and of each with level indices. */
void stats_put_node(const struct api *api, const struct names_list *list, unsigned metrics,
                    bool indices, struct buf *out);

#endif
