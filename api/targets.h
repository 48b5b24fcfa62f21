/* SPDX-License-Identifier: Apache-2.0 */
/* The indices that one request names: each name is resolved once, the index stays acquired until
 * the request is done. Memory is the call's. */
#ifndef STOWD_TARGETS_H
#define STOWD_TARGETS_H

#include "api/names.h"

struct target {
    struct target *next;   /* of the same bucket */
    struct target *before; /* of all */
    struct slice name;     /* as asked for */
    enum names_need need;
    unsigned flags;      /* of enum names_flags */
    struct index *index; /* NULL when rc is not RC_OK */
    enum rc rc;
    const struct err *err; /* with rc */
};

struct targets {
    struct target **bucket;
    size_t buckets; /* a power of two, or 0 */
    size_t count;
    struct target *all, *last;
};

/* The target of a name, whatever came of it; NULL when memory is out. name must outlive it. */
struct target *targets_get(struct api_call *call, struct targets *targets, struct slice name,
                           enum names_need need, unsigned flags);
void targets_done(struct targets *targets); /* releases the indices; the memory is the call's */
/* The text of a failed target. */
struct slice target_reason(const struct target *target, struct buf *scratch);

#endif
