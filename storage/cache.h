/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded cache of opened blocks, by (index number, segment, offset). A block in use is pinned and
 * may keep the cache over its budget for that long; everything else leaves by CLOCK.
 * Locks: one internal mutex, held for a look-up; opening and closing blocks happens outside. */
#ifndef STOWD_CACHE_H
#define STOWD_CACHE_H

#include "config/base.h"
#include "storage/block.h"

struct cache_key {
    uint32_t index_no;
    uint32_t segment;
    uint64_t at;
};

struct cache;
struct cache_entry; /* one pin */

MUST_CHECK enum rc cache_create(size_t budget_bytes, struct cache **out, struct err *err);
void cache_destroy(struct cache *cache); /* nothing may be pinned */

/* Pin what is there, or NULL. */
struct cache_entry *cache_get(struct cache *cache, const struct cache_key *key);
/* Hand over an opened block and pin it. If another thread was faster, its block is pinned and this
 * one closed. NULL when memory is out (the block is then closed too). */
struct cache_entry *cache_put(struct cache *cache, const struct cache_key *key,
                              struct block *block);
const struct block *cache_block(const struct cache_entry *entry);
void cache_release(struct cache *cache, struct cache_entry *entry); /* accepts NULL */
/* Drop what is not pinned of a segment, or of a whole index (segment UINT32_MAX). Pinned entries
 * leave when released. */
void cache_forget(struct cache *cache, uint32_t index_no, uint32_t segment);

struct cache_stats {
    uint64_t hits, misses, evictions, bytes, entries, budget;
};
void cache_stats(struct cache *cache, struct cache_stats *out);

#endif
