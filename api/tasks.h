/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: work that a request began and that goes on in steps, perhaps after its answer (_reindex,
 * _delete_by_query, _forcemerge). _tasks shows and cancels them; what came of the last ones is
 * kept.
 *
 *   J1  a job belongs to whoever began it until job_end; the registry frees it.
 *   J2  cancelling is a wish: the job sees it at its next step and ends by itself.
 *   J3  memory is bounded: running jobs are limited, of ended ones the last are kept.
 *   J4  with security on a job is seen and cancelled by the user who began it, by a key if that
 * very key began it, and by those who may manage every index; to others it is not there. */
#ifndef STOWD_TASKS_H
#define STOWD_TASKS_H

#include "api/call.h"

struct job_counts {
    uint64_t total, created, updated, deleted, batches, conflicts, noops;
    uint64_t bulk_retries, search_retries;
};

struct job;
struct jobs;
MUST_CHECK enum rc jobs_create(struct store *store, struct jobs **out, struct err *err);
/* Cancel what runs and refuse what comes. */
void jobs_stop(struct jobs *jobs);
/* Wait until the last one has ended, then free. */
void jobs_destroy(struct jobs *jobs); /* accepts NULL */

enum job_kind { JOB_REINDEX, JOB_DELETE_BY_QUERY, JOB_FORCEMERGE, JOB_KINDS };
/* The caller's job; the call may end before it. RC_BUSY when too many run or the node is stopping.
 */
MUST_CHECK enum rc job_begin(const struct api_call *call, enum job_kind kind,
                             struct slice description, struct job **out, struct err *err);
bool job_cancelled(const struct job *job);
void job_set(struct job *job, const struct job_counts *counts);
/* {"task":"node:N"}'s text; room for 48 bytes. */
void job_name(const struct job *job, char name[static 48]);
/* Answer that text (the call ends, the job does not). */
void job_reply_name(struct api_call *call, const char *name);
uint64_t job_took_ms(const struct job *job);
/* Append the members that statuses and answers share: "total":… to "throttled_until_millis". */
void job_put_counts(const struct job_counts *counts, bool created, struct buf *out);
/* It is over: text is the JSON object to keep as "response", or as "error". On a worker: calls that
 * wait for it are answered. The job is gone. */
void job_end(struct job *job, struct slice text, bool error);

#endif
