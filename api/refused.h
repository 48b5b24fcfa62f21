/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints of Elasticsearch and OpenSearch that are refused on purpose: each says why, and what to
 * do instead. Asked only when no route takes a call. */
#ifndef STOWD_REFUSED_H
#define STOWD_REFUSED_H

#include "config/base.h"
#include "config/buf.h"

/* The text for a raw path, or NULL when it is not one of them. */
const char *refused_reason(struct slice path);

#endif
