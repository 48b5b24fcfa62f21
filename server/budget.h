/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that requests may hold together: bodies, what they inflate to, answers.
 *
 *   G1  a request that must wait holds no thread: it is woken by a callback, exactly once.
 *   G2  who holds memory already goes before who has none yet; within these two, first come first
 *       served. So requests that have begun end, and give back.
 *   G3  when everybody who holds memory waits for more, the first of them gets it over the limit:
 *       one request alone is always admitted, and nobody waits for ever.
 *   G4  budget_force never waits: what is on its way to an answer is counted, not held up. */
#ifndef STOWD_BUDGET_H
#define STOWD_BUDGET_H

#include "config/base.h"

#include <pthread.h>

/* One request's part. All zero is a valid one that holds nothing. */
struct budget_share {
    uint64_t held;
    /* while waiting */
    bool waiting;
    uint64_t wanted;
    uint64_t deadline_ns;
    struct budget_share *next, *prev;
};

struct budget_queue {
    struct budget_share *head, *tail;
};

struct budget {
    pthread_mutex_t lock;
    uint64_t limit, used;
    size_t active; /* shares that hold something and do not wait */
    bool closed;
    struct budget_queue queues[2]; /* those who hold something, those who do not */
    /* Wanted bytes are held now, or were refused: waited too long, or closed. Under the lock: must
     * only pass it on. */
    void (*wake)(struct budget_share *share, bool granted);
};

void budget_init(struct budget *budget, uint64_t limit,
                 void (*wake)(struct budget_share *share, bool granted));
void budget_done(struct budget *budget);

/* Take bytes now, or nothing. */
MUST_CHECK bool budget_try(struct budget *budget, struct budget_share *share, uint64_t bytes);
/* The same, where `bytes` is what will be needed later: only out of a half-empty budget. */
MUST_CHECK bool budget_try_ahead(struct budget *budget, struct budget_share *share, uint64_t bytes);
/* Queue up for bytes; wake() may be called before this returns. */
void budget_wait(struct budget *budget, struct budget_share *share, uint64_t bytes,
                 uint64_t deadline_ns);
/* Take (bytes > 0) or give back (bytes < 0; at most what is held). */
void budget_force(struct budget *budget, struct budget_share *share, int64_t bytes);
void budget_release(struct budget *budget, struct budget_share *share); /* all of it */

uint64_t budget_used(struct budget *budget);

/* Refuse those who waited past their deadline. */
void budget_expire(struct budget *budget, uint64_t now_ns);
/* Refuse all who wait, now and later. */
void budget_close(struct budget *budget);

#endif
