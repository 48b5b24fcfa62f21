/* SPDX-License-Identifier: Apache-2.0 */
/* Retention: indices older than they may be are deleted, one mechanism reached in three ways. For
 * each index the first of these that is there counts:
 *   1. the setting index.lifecycle.data_retention of the index (its own or of its templates)
 *   2. the lifecycle of its data stream (data_retention)
 *   3. the delete phase (min_age) of the ILM policy that index.lifecycle.name names
 * Age counts from the moment the index was rolled over, else from its creation.
 *
 *   R1  the index that a data stream or an alias (is_write_index) writes to is never deleted. A
 * data stream with a retention is rolled over by age, so that its old indices can go. R2  a pass
 * judges and deletes under the naming lock. */
#ifndef STOWD_RETENTION_H
#define STOWD_RETENTION_H

#include "api/call.h"

/* "30d", "12h", "5m", "10s", "500ms" -> milliseconds; also micros and nanos, rounded down. */
bool retention_time(struct slice text, uint64_t *ms_out);
/* min_age of the delete phase of a policy ({"policy":{"phases":…}}); false: it deletes nothing. */
bool retention_policy(struct slice policy, uint64_t *ms_out);
/* Judge a lifecycle of a data stream: {"enabled","data_retention"}. RC_INVALID. */
MUST_CHECK enum rc retention_lifecycle_check(struct json_value lifecycle, struct err *err);
/* Its data_retention; false: none, or it is switched off. */
bool retention_lifecycle(struct json_value lifecycle, uint64_t *ms_out);
/* Start passes on the housekeeping thread, every api_options.retention_ms (0: never). */
MUST_CHECK enum rc retention_start(struct api *api, struct err *err);

#endif
