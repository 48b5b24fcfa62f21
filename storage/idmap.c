/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing, at most 3/4 full; keys are mixed by a multiplication.
 * Nothing is ever removed: generations are dropped whole. */
#include "storage/idmap.h"

#include <stdlib.h>

#define SLOTS_MIN 64

static size_t slot_of(uint64_t key, size_t mask)
{
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 24) & mask;
}

static bool table_reserve(struct idmap_table *t, size_t more)
{
    size_t slots = t->slot == NULL ? 0 : t->mask + 1;
    if ((t->count + more) * 4 <= slots * 3)
        return true;
    size_t want = slots == 0 ? SLOTS_MIN : slots * 2;
    while (want * 3 < (t->count + more) * 4)
        want *= 2;
    struct idmap_entry *slot = malloc(want * sizeof *slot);
    if (slot == NULL)
        return false;
    for (size_t i = 0; i < want; i++)
        slot[i].place = IDMAP_NONE;
    for (size_t i = 0; i < slots; i++) {
        if (t->slot[i].place == IDMAP_NONE)
            continue;
        size_t at = slot_of(t->slot[i].hash, want - 1);
        while (slot[at].place != IDMAP_NONE)
            at = (at + 1) & (want - 1);
        slot[at] = t->slot[i];
    }
    free(t->slot);
    t->slot = slot;
    t->mask = want - 1;
    return true;
}

void idmap_done(struct idmap *map)
{
    free(map->active.slot);
    free(map->frozen.slot);
    *map = (struct idmap){0};
}

bool idmap_reserve(struct idmap *map, size_t more)
{
    return table_reserve(&map->active, more);
}

void idmap_set(struct idmap *map, uint64_t hash, uint64_t seq, uint64_t old, bool tombstone)
{
    struct idmap_table *t = &map->active;
    assert(t->slot != NULL && t->count <= t->mask);
    size_t at = slot_of(hash, t->mask);
    for (; t->slot[at].place != IDMAP_NONE; at = (at + 1) & t->mask) {
        struct idmap_entry *e = &t->slot[at];
        if (e->hash == hash && (idmap_seq(e) == old || idmap_seq(e) == seq)) {
            e->place = seq << 1 | tombstone;
            return;
        }
    }
    t->slot[at] = (struct idmap_entry){hash, seq << 1 | tombstone};
    t->count++;
}

bool idmap_find(const struct idmap *map, uint64_t hash, uint64_t *seqs, size_t *count_io,
                size_t max)
{
    const struct idmap_table *levels[2] = {&map->active, &map->frozen};
    for (size_t l = 0; l < 2; l++) {
        const struct idmap_table *t = levels[l];
        if (t->count == 0)
            continue;
        for (size_t at = slot_of(hash, t->mask); t->slot[at].place != IDMAP_NONE;
             at = (at + 1) & t->mask) {
            if (t->slot[at].hash != hash)
                continue;
            if (*count_io == max)
                return false;
            seqs[(*count_io)++] = idmap_seq(&t->slot[at]);
        }
    }
    return true;
}

void idmap_prefetch(const struct idmap *map, uint64_t hash)
{
    if (map->active.count != 0)
        __builtin_prefetch(&map->active.slot[slot_of(hash, map->active.mask)]);
    if (map->frozen.count != 0)
        __builtin_prefetch(&map->frozen.slot[slot_of(hash, map->frozen.mask)]);
}

void idmap_freeze(struct idmap *map)
{
    assert(map->frozen.count == 0);
    free(map->frozen.slot);
    map->frozen = map->active;
    map->active = (struct idmap_table){0};
}

void idmap_drop_frozen(struct idmap *map)
{
    free(map->frozen.slot);
    map->frozen = (struct idmap_table){0};
}

size_t idmap_memory(const struct idmap *map)
{
    size_t n = (map->active.slot == NULL ? 0 : map->active.mask + 1) +
               (map->frozen.slot == NULL ? 0 : map->frozen.mask + 1);
    return n * sizeof(struct idmap_entry);
}

void seqset_done(struct seqset *set)
{
    free(set->slot);
    *set = (struct seqset){0};
}

bool seqset_reserve(struct seqset *set, size_t more)
{
    size_t slots = set->slot == NULL ? 0 : set->mask + 1;
    if ((set->count + more) * 4 <= slots * 3)
        return true;
    size_t want = slots == 0 ? SLOTS_MIN : slots * 2;
    while (want * 3 < (set->count + more) * 4)
        want *= 2;
    struct seqset bigger = {malloc(want * sizeof *bigger.slot), want - 1, 0};
    if (bigger.slot == NULL)
        return false;
    memset(bigger.slot, 0xff, want * sizeof *bigger.slot);
    for (size_t i = 0; i < slots; i++)
        if (set->slot[i] != IDMAP_NONE)
            seqset_add(&bigger, set->slot[i]);
    free(set->slot);
    *set = bigger;
    return true;
}

bool seqset_add(struct seqset *set, uint64_t seq)
{
    assert(set->slot != NULL && set->count <= set->mask);
    size_t at = slot_of(seq, set->mask);
    for (; set->slot[at] != IDMAP_NONE; at = (at + 1) & set->mask)
        if (set->slot[at] == seq)
            return false;
    set->slot[at] = seq;
    set->count++;
    return true;
}

bool seqset_has(const struct seqset *set, uint64_t seq)
{
    if (set->count == 0)
        return false;
    for (size_t at = slot_of(seq, set->mask); set->slot[at] != IDMAP_NONE;
         at = (at + 1) & set->mask)
        if (set->slot[at] == seq)
            return true;
    return false;
}

size_t seqset_memory(const struct seqset *set)
{
    return set->slot == NULL ? 0 : (set->mask + 1) * sizeof *set->slot;
}
