/* SPDX-License-Identifier: Apache-2.0 */
/* The values of one text as a flat list in their order, made in one pass, for work that visits
 * values out of order: comparing and merging. Entering and leaving containers costs nothing here,
 * where the pull scanner reads a container's bytes once per level around it.
 *
 *   T1  a node is followed by the nodes inside it; `inside` counts them all. The nodes inside an
 *       object are its keys, each followed by its value.
 *   T2  nodes are slices of the text, which outlives the tree. */
#ifndef STOWD_JSON_TREE_H
#define STOWD_JSON_TREE_H

#include "storage/json.h"

struct json_node {
    struct json_value value;
    size_t inside;
};

struct json_tree {
    struct json_node *node; /* node[0] is the value of the text */
    size_t count;
    size_t cap;
};

/* text is valid JSON. RC_NOMEM only. */
MUST_CHECK enum rc json_tree_init(struct json_tree *tree, struct slice text);
void json_tree_done(struct json_tree *tree);
/* The node behind `node` and all inside it. */
const struct json_node *json_tree_next(const struct json_node *node);

/* The members of an object in the order of their keys; of equal keys the last member only. */
struct json_members {
    struct json_entry {
        const struct json_node *key; /* key + 1 is the value */
        const void *mark;            /* the caller's; NULL at first */
    } * entry;
    size_t count;
};

MUST_CHECK enum rc json_members_init(struct json_members *members, const struct json_node *object);
void json_members_done(struct json_members *members);
/* NULL when there is none. */
struct json_entry *json_members_find(const struct json_members *members, struct slice key);

/* json_same over nodes; RC_NOMEM leaves *same_out alone. */
MUST_CHECK enum rc json_tree_same(const struct json_node *a, const struct json_node *b,
                                  bool *same_out);

#endif
