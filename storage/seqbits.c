/* SPDX-License-Identifier: Apache-2.0 */
/* B1 in seqbits.h. A list doubles from 4 offsets up to 128, then the chunk becomes a bitmap: a list
 * of 256 would be as large. */
#include "storage/seqbits.h"

#include <stdlib.h>

#define LIST_MIN     4
#define LIST_MAX     128
#define BITMAP_BYTES (SEQBITS_CHUNK / 8)

struct seqbits_chunk {
    uint16_t count; /* at most 4096 */
    uint16_t cap;   /* 0: a bitmap */
    uint16_t offset[];
};

static size_t chunk_bytes(uint16_t cap)
{
    return sizeof(struct seqbits_chunk) + (cap == 0 ? BITMAP_BYTES : cap * sizeof(uint16_t));
}

static uint8_t *bitmap(struct seqbits_chunk *c)
{
    return (uint8_t *)c->offset;
}

void seqbits_done(struct seqbits *set)
{
    for (size_t i = 0; i < set->chunks; i++)
        free(set->chunk[i]);
    free(set->chunk);
    *set = (struct seqbits){0};
}

/* First entry of a list that is not below offset. */
static uint16_t place(const struct seqbits_chunk *c, uint16_t offset)
{
    uint16_t lo = 0, hi = c->count;
    while (lo < hi) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (c->offset[mid] < offset)
            lo = (uint16_t)(mid + 1);
        else
            hi = mid;
    }
    return lo;
}

static bool chunk_has(struct seqbits_chunk *c, uint16_t offset)
{
    if (c->cap == 0)
        return (bitmap(c)[offset / 8] >> (offset % 8) & 1) != 0;
    uint16_t at = place(c, offset);
    return at < c->count && c->offset[at] == offset;
}

bool seqbits_has(const struct seqbits *set, uint64_t seq)
{
    uint64_t no = seq / SEQBITS_CHUNK;
    return no < set->chunks && set->chunk[no] != NULL &&
           chunk_has(set->chunk[no], (uint16_t)(seq % SEQBITS_CHUNK));
}

static bool reserve_slots(struct seqbits *set, uint64_t no)
{
    if (no < set->chunks)
        return true;
    size_t want = set->chunks + set->chunks / 8;
    want = no < want ? want : (size_t)no + 1;
    struct seqbits_chunk **list = realloc(set->chunk, want * sizeof *list);
    if (list == NULL)
        return false;
    memset(list + set->chunks, 0, (want - set->chunks) * sizeof *list);
    set->memory += (want - set->chunks) * sizeof *list;
    set->chunk = list;
    set->chunks = want;
    return true;
}

static struct seqbits_chunk *larger(const struct seqbits_chunk *from)
{
    uint16_t cap = from == NULL ? LIST_MIN : from->cap == LIST_MAX ? 0 : (uint16_t)(from->cap * 2);
    struct seqbits_chunk *c = calloc(1, chunk_bytes(cap));
    if (c == NULL)
        return NULL;
    c->cap = cap;
    c->count = from == NULL ? 0 : from->count;
    for (uint16_t i = 0; i < c->count; i++) {
        uint16_t v = from->offset[i];
        if (cap != 0)
            c->offset[i] = v;
        else
            bitmap(c)[v / 8] = (uint8_t)(bitmap(c)[v / 8] | 1u << (v % 8));
    }
    return c;
}

static bool put(struct seqbits *set, uint64_t no, uint16_t offset)
{
    struct seqbits_chunk *c = set->chunk[no];
    if (c != NULL && chunk_has(c, offset))
        return true;
    if (c == NULL || (c->cap != 0 && c->count == c->cap)) {
        struct seqbits_chunk *more = larger(c);
        if (more == NULL)
            return false;
        set->memory += chunk_bytes(more->cap) - (c == NULL ? 0 : chunk_bytes(c->cap));
        free(c);
        c = set->chunk[no] = more;
    }
    if (c->cap == 0) {
        bitmap(c)[offset / 8] = (uint8_t)(bitmap(c)[offset / 8] | 1u << (offset % 8));
    } else {
        uint16_t at = place(c, offset);
        memmove(c->offset + at + 1, c->offset + at, (size_t)(c->count - at) * sizeof *c->offset);
        c->offset[at] = offset;
    }
    c->count++;
    set->count++;
    return true;
}

bool seqbits_add(struct seqbits *set, uint64_t seq)
{
    uint64_t no = seq / SEQBITS_CHUNK;
    return reserve_slots(set, no) && put(set, no, (uint16_t)(seq % SEQBITS_CHUNK));
}

static bool join_chunk(struct seqbits *into, uint64_t no, struct seqbits_chunk *from)
{
    bool all = true;
    if (into->chunk[no] == NULL) {
        into->chunk[no] = from;
        into->memory += chunk_bytes(from->cap);
        into->count += from->count;
        return true;
    }
    for (uint16_t i = 0; from->cap != 0 && i < from->count; i++)
        all = put(into, no, from->offset[i]) && all;
    for (uint16_t v = 0; from->cap == 0 && v < SEQBITS_CHUNK; v++)
        if (chunk_has(from, v))
            all = put(into, no, v) && all;
    free(from);
    return all;
}

bool seqbits_join(struct seqbits *into, struct seqbits *from, uint64_t limit)
{
    size_t end = from->chunks;
    bool all = true;
    if (limit / SEQBITS_CHUNK + 1 < end)
        end = (size_t)(limit / SEQBITS_CHUNK) + 1;
    while (end != 0 && from->chunk[end - 1] == NULL)
        end--;
    if (end != 0 && !reserve_slots(into, end - 1)) {
        seqbits_done(from);
        return false;
    }
    for (size_t i = 0; i < end; i++) {
        struct seqbits_chunk *c = from->chunk[i];
        from->chunk[i] = NULL;
        all = (c == NULL || join_chunk(into, i, c)) && all;
    }
    seqbits_done(from);
    return all;
}
