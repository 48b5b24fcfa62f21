/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of large bodies, kept for the next request: fresh memory costs a page fault for each 4
 * KB, which was an eighth of all CPU of a bulk load. Bounded; small buffers are not worth it. */
#ifndef STOWD_POOL_H
#define STOWD_POOL_H

#include "config/buf.h"

#include <pthread.h>

#define POOL_SLOTS 16

struct pool {
    pthread_mutex_t lock;
    uint64_t limit, held; /* bytes */
    struct buf slot[POOL_SLOTS];
};

void pool_init(struct pool *pool, uint64_t limit_bytes);
void pool_done(struct pool *pool);
/* An empty buffer of at least cap bytes that was given back before, or one without memory. */
struct buf pool_take(struct pool *pool, size_t cap);
/* Give a buffer back; it is empty afterwards. Frees what the pool has no room for. */
void pool_give(struct pool *pool, struct buf *buf);

#endif
