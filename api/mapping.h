/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings are stored and echoed; nothing is indexed by them. */
#ifndef STOWD_MAPPING_H
#define STOWD_MAPPING_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/json.h"

/* Merge a mapping as sent into *mapping (a JSON object, or empty). Names with dots in "properties"
 * become objects, as Elasticsearch shows them. RC_INVALID: no object, or a type name around it. */
MUST_CHECK enum rc mapping_merge(struct json_value sent, struct buf *mapping, struct err *err);

#endif
