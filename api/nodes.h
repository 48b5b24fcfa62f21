/* SPDX-License-Identifier: Apache-2.0 */
/* The node's addresses and names, for those who show it. Slices live as long as the call. */
#ifndef STOWD_NODES_H
#define STOWD_NODES_H

#include "api/call.h"

/* Where clients reach this node: as configured, else as this client reached it ("host:port"). */
struct slice node_address(const struct api_call *call);
struct slice node_host(struct slice address);
struct slice node_port(struct slice address);
/* Does a list of node ids, names and words (_all, _local, _master, *) mean this node? Empty does.
 */
bool node_named(const struct api *api, struct slice list);

#endif
