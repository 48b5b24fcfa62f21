/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of requests, and GET /_metrics in Prometheus' text format. Counting is a few relaxed
 * additions for each request; everything else is read when somebody asks. */
#ifndef STOWD_METRICS_H
#define STOWD_METRICS_H

#include "api/call.h"

struct metrics;

MUST_CHECK enum rc metrics_create(struct metrics **out, struct err *err);
void metrics_destroy(struct metrics *metrics); /* accepts NULL */
/* A call's reply is set; its body is still there. Any thread. */
void metrics_count(struct metrics *metrics, const struct api_call *call);
/* Bytes of bodies received, and requests refused with 429, since start. */
void metrics_totals(const struct metrics *metrics, uint64_t *received_out, uint64_t *refused_out);

#endif
