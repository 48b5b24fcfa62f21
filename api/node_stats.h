/* SPDX-License-Identifier: Apache-2.0 */
/* What _nodes/stats says of the node, section by section. */
#ifndef STOWD_NODE_STATS_H
#define STOWD_NODE_STATS_H

#include "api/stats.h"

struct node_stats_view {
    unsigned sections; /* bit i: node_stats_name(i) */
    unsigned metrics;  /* of the section "indices": bits of stats_metrics_read */
    bool by_index;     /* that section for each index, too */
    const struct names_list *list;
};
/* The name that asks for a section; NULL behind the last. */
const char *node_stats_name(size_t i);
/* Append the chosen sections as members. */
void node_stats_put(const struct api_call *call, const struct node_stats_view *view,
                    struct buf *out);

#endif
