/* SPDX-License-Identifier: Apache-2.0 */
/* What of an index' id table and dead rows is newer than the catalog: two small hash tables in
 * memory, each in two generations. Writes go to the active one; a checkpoint freezes it, writes it
 * to the catalog as a sorted run (idrun.h) and drops it.
 *
 *   D1  an entry of the id table: hash -> seq of the newest row of one id. Ids whose hashes collide
 *       have an entry each.
 *   D2  freezing needs the frozen generation to be empty.
 *   D3  16 bytes a slot, at most 3/4 of them used: 21 to 43 bytes an id; 8 bytes a slot of dead
 * rows. Both count against storage.ids.memory (engine.h). No locks: the caller holds index.table.
 */
#ifndef STOWD_IDMAP_H
#define STOWD_IDMAP_H

#include "config/base.h"

#define IDMAP_NONE UINT64_MAX

struct idmap_entry {
    uint64_t hash;
    uint64_t place; /* seq * 2, + 1 for a tombstone; IDMAP_NONE: the slot is empty */
};
static inline uint64_t idmap_seq(const struct idmap_entry *entry)
{
    return entry->place >> 1;
}
static inline bool idmap_tombstone(const struct idmap_entry *entry)
{
    return (entry->place & 1) != 0;
}

struct idmap_table {
    struct idmap_entry *slot;
    size_t mask; /* slots - 1; 0 slots: slot is NULL */
    size_t count;
};

struct idmap {
    struct idmap_table active, frozen;
};

void idmap_done(struct idmap *map);
/* Make room for `more` entries, so that idmap_set cannot fail. */
MUST_CHECK bool idmap_reserve(struct idmap *map, size_t more);
/* The newest row of an id is seq now; old is the one before (IDMAP_NONE: none). */
void idmap_set(struct idmap *map, uint64_t hash, uint64_t seq, uint64_t old, bool tombstone);
/* Append the seqs that memory knows for a hash; false: more than max. */
MUST_CHECK bool idmap_find(const struct idmap *map, uint64_t hash, uint64_t *seqs, size_t *count_io,
                           size_t max);
/* Ask for the memory that setting and finding a hash begin with. */
void idmap_prefetch(const struct idmap *map, uint64_t hash);
void idmap_freeze(struct idmap *map);
void idmap_drop_frozen(struct idmap *map);
size_t idmap_memory(const struct idmap *map);

/* A set of seqs: dead rows. */
struct seqset {
    uint64_t *slot; /* IDMAP_NONE: empty */
    size_t mask;
    size_t count;
};
void seqset_done(struct seqset *set);
MUST_CHECK bool seqset_reserve(struct seqset *set, size_t more);
bool seqset_add(struct seqset *set, uint64_t seq); /* room was reserved; false: was there */
bool seqset_has(const struct seqset *set, uint64_t seq);
size_t seqset_memory(const struct seqset *set);

#endif
