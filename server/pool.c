/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pool.h"

/* Smaller buffers come from the allocator's lists as fast. */
#define POOLED_MIN (256 * 1024)

void pool_init(struct pool *pool, uint64_t limit_bytes)
{
    *pool = (struct pool){.limit = limit_bytes};
    pthread_mutex_init(&pool->lock, NULL);
}

void pool_done(struct pool *pool)
{
    for (size_t i = 0; i < POOL_SLOTS; i++)
        buf_done(&pool->slot[i]);
    pthread_mutex_destroy(&pool->lock);
}

struct buf pool_take(struct pool *pool, size_t cap)
{
    struct buf found = {0};
    struct buf *best = NULL;
    if (cap < POOLED_MIN)
        return found;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < POOL_SLOTS; i++) {
        struct buf *b = &pool->slot[i];
        /* Twice what is asked for would be counted against the budget for nothing. */
        if (b->cap >= cap && b->cap / 2 <= cap && (best == NULL || b->cap < best->cap))
            best = b;
    }
    if (best != NULL) {
        found = *best;
        *best = (struct buf){0};
        pool->held -= found.cap;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void pool_give(struct pool *pool, struct buf *buf)
{
    struct buf old = *buf;
    *buf = (struct buf){0};
    if (old.cap >= POOLED_MIN && old.cap <= pool->limit) {
        pthread_mutex_lock(&pool->lock);
        /* The oldest ones make room: sizes of today's requests are the ones that come back. */
        for (size_t i = 0; i < POOL_SLOTS; i++) {
            struct buf *b = &pool->slot[i];
            if (b->cap != 0 && pool->held + old.cap > pool->limit) {
                pool->held -= b->cap;
                buf_done(b);
            }
            if (old.cap != 0 && b->cap == 0 && pool->held + old.cap <= pool->limit) {
                *b = old;
                b->len = 0;
                pool->held += b->cap;
                old = (struct buf){0};
            }
        }
        pthread_mutex_unlock(&pool->lock);
    }
    buf_done(&old);
}
