/* SPDX-License-Identifier: Apache-2.0 */
/* Aliases live in index_meta.aliases of the indices they point to: {"name":{properties}},
 * properties as Elasticsearch prints them ("routing" split into index_routing and search_routing).
 */
#ifndef STOWD_ALIASES_H
#define STOWD_ALIASES_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/json.h"

/* An alias name, by the rules of index names without the one on upper case. */
MUST_CHECK enum rc aliases_check_name(struct slice name, struct err *err);
/* Put aliases of a body ({"name":{…}}) into *aliases, a JSON object or empty. "{index}" in a name
 * is replaced by `index`. Of one name the last stays. */
MUST_CHECK enum rc aliases_read(struct json_value object, struct slice index, struct buf *aliases,
                                struct err *err);
/* Replace a member of *object (a JSON object or empty), or remove it when value is empty. */
void json_put(struct buf *object, struct slice quoted_key, struct slice value);

#endif
