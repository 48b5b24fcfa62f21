/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of requests; see budget.h. */
#include "server/budget.h"

void budget_init(struct budget *budget, uint64_t limit,
                 void (*wake)(struct budget_share *share, bool granted))
{
    memset(budget, 0, sizeof *budget);
    pthread_mutex_init(&budget->lock, NULL);
    budget->limit = limit;
    budget->wake = wake;
}

void budget_done(struct budget *budget)
{
    assert(budget->used == 0 && budget->queues[0].head == NULL && budget->queues[1].head == NULL);
    pthread_mutex_destroy(&budget->lock);
}

static void hold_locked(struct budget *budget, struct budget_share *share, int64_t bytes)
{
    bool before = share->held > 0;
    assert(!share->waiting);
    assert(bytes >= 0 || (uint64_t)-bytes <= share->held);
    share->held += (uint64_t)bytes;
    budget->used += (uint64_t)bytes;
    budget->active = budget->active + (share->held > 0) - before;
}

static bool fits_locked(const struct budget *budget, const struct budget_share *share,
                        uint64_t bytes)
{
    if (budget->used + bytes <= budget->limit)
        return true;
    /* G3: nobody but this one could ever give something back. */
    bool self = share->held > 0 && !share->waiting;
    return budget->active == (self ? 1 : 0);
}

static struct budget_queue *queue_of(struct budget *budget, const struct budget_share *share)
{
    return &budget->queues[share->held > 0 ? 0 : 1];
}

static void unlink_locked(struct budget *budget, struct budget_share *share)
{
    struct budget_queue *q = queue_of(budget, share);
    *(share->prev != NULL ? &share->prev->next : &q->head) = share->next;
    *(share->next != NULL ? &share->next->prev : &q->tail) = share->prev;
    share->waiting = false;
    budget->active += share->held > 0;
}

/* Serve the queues as far as it goes (G2). */
static void serve_locked(struct budget *budget)
{
    for (;;) {
        struct budget_share *first = budget->queues[0].head;
        if (first == NULL)
            first = budget->queues[1].head;
        if (first == NULL || !fits_locked(budget, first, first->wanted))
            return;
        unlink_locked(budget, first);
        hold_locked(budget, first, (int64_t)first->wanted);
        budget->wake(first, true);
    }
}

bool budget_try(struct budget *budget, struct budget_share *share, uint64_t bytes)
{
    pthread_mutex_lock(&budget->lock);
    bool first =
        budget->queues[0].head == NULL && (share->held > 0 || budget->queues[1].head == NULL);
    bool ok = first && !budget->closed && fits_locked(budget, share, bytes);
    if (ok)
        hold_locked(budget, share, (int64_t)bytes);
    pthread_mutex_unlock(&budget->lock);
    return ok;
}

bool budget_try_ahead(struct budget *budget, struct budget_share *share, uint64_t bytes)
{
    pthread_mutex_lock(&budget->lock);
    bool ok = !budget->closed && budget->used + bytes <= budget->limit / 2;
    if (ok)
        hold_locked(budget, share, (int64_t)bytes);
    pthread_mutex_unlock(&budget->lock);
    return ok;
}

void budget_wait(struct budget *budget, struct budget_share *share, uint64_t bytes,
                 uint64_t deadline_ns)
{
    pthread_mutex_lock(&budget->lock);
    if (budget->closed) {
        budget->wake(share, false);
    } else {
        struct budget_queue *q = queue_of(budget, share);
        share->wanted = bytes;
        share->deadline_ns = deadline_ns;
        share->prev = q->tail;
        share->next = NULL;
        *(q->tail != NULL ? &q->tail->next : &q->head) = share;
        q->tail = share;
        share->waiting = true;
        budget->active -= share->held > 0;
        serve_locked(budget);
    }
    pthread_mutex_unlock(&budget->lock);
}

void budget_force(struct budget *budget, struct budget_share *share, int64_t bytes)
{
    if (bytes == 0)
        return;
    pthread_mutex_lock(&budget->lock);
    if (bytes < 0 && (uint64_t)-bytes > share->held)
        bytes = -(int64_t)share->held;
    hold_locked(budget, share, bytes);
    if (bytes < 0)
        serve_locked(budget);
    pthread_mutex_unlock(&budget->lock);
}

void budget_release(struct budget *budget, struct budget_share *share)
{
    budget_force(budget, share, -INT64_MAX);
}

static void refuse_locked(struct budget *budget, uint64_t now_ns)
{
    for (size_t i = 0; i < ARRAY_LEN(budget->queues); i++)
        for (struct budget_share *s; (s = budget->queues[i].head) != NULL;) {
            if (s->deadline_ns > now_ns)
                break;
            unlink_locked(budget, s);
            budget->wake(s, false);
        }
}

uint64_t budget_used(struct budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    uint64_t used = budget->used;
    pthread_mutex_unlock(&budget->lock);
    return used;
}

void budget_expire(struct budget *budget, uint64_t now_ns)
{
    pthread_mutex_lock(&budget->lock);
    refuse_locked(budget, now_ns);
    serve_locked(budget);
    pthread_mutex_unlock(&budget->lock);
}

void budget_close(struct budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    budget->closed = true;
    refuse_locked(budget, UINT64_MAX);
    pthread_mutex_unlock(&budget->lock);
}
