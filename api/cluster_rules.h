/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of _cluster/settings that this daemon obeys: whether writing makes an index
 * (action.auto_create_index) and whether a wildcard may delete or close indices
 * (action.destructive_requires_name). A transient one goes before a persistent one. */
#ifndef STOWD_CLUSTER_RULES_H
#define STOWD_CLUSTER_RULES_H

#include "api/call.h"

/* May a write make an index of this name? RC_NOT_FOUND with a text: no. */
MUST_CHECK enum rc rules_auto_create(struct api *api, struct slice name, struct err *err);
/* Does the path's {index} name what is to go, as far as it must? False: replied 400. */
MUST_CHECK bool rules_destructive(struct api_call *call);
/* Is the value of such a setting well-formed? RC_INVALID names it. */
MUST_CHECK enum rc rules_check(const char *key, struct json_value value, struct err *err);

#endif
