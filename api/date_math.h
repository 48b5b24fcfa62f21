/* SPDX-License-Identifier: Apache-2.0 */
/* Date math in names: <logstash-{now/d{yyyy.MM.dd|+01:00}}-000001>. */
#ifndef STOWD_DATE_MATH_H
#define STOWD_DATE_MATH_H

#include "config/base.h"
#include "config/buf.h"

/* Append the name that an expression stands for at now_ms (since 1970, UTC); a name without '<' in
 * front stays as it is. RC_INVALID with Elasticsearch's words. */
MUST_CHECK enum rc date_math_resolve(struct slice name, uint64_t now_ms, struct buf *out,
                                     struct err *err);

#endif
