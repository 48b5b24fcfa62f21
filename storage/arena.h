/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one piece of work: cut off in order, given back at once. { .chunk = NULL } is a valid
 * empty arena. */
#ifndef STOWD_ARENA_H
#define STOWD_ARENA_H

#include "config/base.h"

#include <stdalign.h>
#include <stdlib.h>

#define ARENA_CHUNK_BYTES (32u * 1024u)

struct arena_chunk {
    struct arena_chunk *next;
    alignas(max_align_t) uint8_t bytes[];
};

struct arena {
    struct arena_chunk *chunk; /* the newest first */
    uint8_t *at, *end;
    size_t memory; /* of all chunks */
};

/* count * size bytes, aligned for anything, not cleared; NULL when memory is out. */
static inline void *arena_get(struct arena *arena, size_t count, size_t size)
{
    const size_t align = alignof(max_align_t);
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + align - 1) & ~(align - 1);
    if (bytes > (size_t)(arena->end - arena->at)) {
        size_t room = bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES;
        struct arena_chunk *chunk = (struct arena_chunk *)malloc(sizeof *chunk + room);
        if (chunk == NULL)
            return NULL;
        chunk->next = arena->chunk;
        arena->chunk = chunk;
        arena->memory += sizeof *chunk + room;
        arena->at = chunk->bytes;
        arena->end = chunk->bytes + room;
    }
    void *p = arena->at;
    arena->at += bytes;
    return p;
}

static inline void arena_done(struct arena *arena)
{
    for (struct arena_chunk *chunk = arena->chunk, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    *arena = (struct arena){NULL, NULL, NULL, 0};
}

#endif
