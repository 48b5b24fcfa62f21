/* SPDX-License-Identifier: Apache-2.0 */
/* Which index a new one comes after: it begins with what was learnt there
 * (index_create.predecessor, store.h), so that the first blocks of a daily index need not be early
 * ones.
 *
 *   1. Of a rollover: the index that is rolled over.
 *   2. Else the newest of those whose name differs in a date or a number at its end only; of a
 *      backing index the name is its data stream's.
 *   3. Else the newest of those that the same template would have made: the composable one, or of
 *      the legacy ones the last in order. One for all names ("*") says nothing.
 *   An index with a dictionary to give goes before one without, those of another codec or layout
 * have none (index_bequest). Newest: by creation, then by name. A wrong guess costs little: a
 *   dictionary is taken over only after it was tried on the index' own blocks (train.c). */
#ifndef STOWD_PREDECESSOR_H
#define STOWD_PREDECESSOR_H

#include "api/names.h"

/* Part 2 of the rule, over names alone: logs-2026.12.01 and logs-2026.12.02, app-000001 and app. */
bool predecessor_same_series(struct slice a, struct slice b);
/* The caller releases it. NULL: there is none.
 *   name    of the index, or of the data stream
 *   from    body of the template, or empty
 *   rolled  the index that is rolled over, or NULL */
struct index *predecessor_find(struct api *api, struct slice name, struct slice from,
                               const struct codec_spec *spec, struct index *rolled);

#endif
