/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of entries and a ring over which the hand of CLOCK goes: an entry that was used
 * since the hand last came by gets another round. Blocks are closed after the mutex is let go.
 *
 *   1. Every entry that can be found is in table and ring; a forgotten one that is pinned is in
 *      neither and dies with its last pin.
 *   2. Bytes over the budget are pinned bytes only, whenever the mutex is free. */
#include "storage/cache.h"

#include "config/limits.h"

#include <pthread.h>
#include <stdlib.h>

/* A bucket for each so many bytes of the budget: about one for a block. */
#define BYTES_PER_BUCKET (32 * KIB)
#define BUCKETS_MIN      64u
#define BUCKETS_MAX      (1u << 20)

struct cache_entry {
    struct cache_key key;
    struct block *block;
    size_t bytes;
    /* guarded by cache.mutex */
    unsigned pins;
    bool used;  /* since the hand last came by */
    bool found; /* in table and ring */
    struct cache_entry *chain;
    struct cache_entry *next, *prev; /* ring */
};

struct cache {
    size_t budget;
    size_t bucket_mask;
    pthread_mutex_t mutex;
    /* guarded by mutex */
    struct cache_entry *hand; /* NULL: empty ring */
    struct cache_entry **buckets;
    size_t bytes, entries; /* in the ring */
    uint64_t hits, misses, evictions;
};

enum rc cache_create(size_t budget_bytes, struct cache **out, struct err *err)
{
    struct cache *cache = calloc(1, sizeof *cache);
    size_t buckets = BUCKETS_MIN;
    while (buckets < BUCKETS_MAX && buckets < budget_bytes / BYTES_PER_BUCKET)
        buckets *= 2;
    if (cache != NULL)
        cache->buckets = calloc(buckets, sizeof *cache->buckets);
    if (cache == NULL || cache->buckets == NULL) {
        free(cache);
        return err_set(err, RC_NOMEM, 0, "block cache: out of memory");
    }
    cache->budget = budget_bytes;
    cache->bucket_mask = buckets - 1;
    pthread_mutex_init(&cache->mutex, NULL);
    *out = cache;
    return RC_OK;
}

static struct cache_entry **bucket(struct cache *cache, const struct cache_key *key)
{
    uint64_t h = (uint64_t)key->index_no << 32 | key->segment;
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ key->at) * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->buckets[(h >> 40) & cache->bucket_mask];
}

static struct cache_entry *find_locked(struct cache *cache, const struct cache_key *key)
{
    struct cache_entry *e = *bucket(cache, key);
    while (e != NULL && (e->key.index_no != key->index_no || e->key.segment != key->segment ||
                         e->key.at != key->at))
        e = e->chain;
    return e;
}

static void insert_locked(struct cache *cache, struct cache_entry *e)
{
    struct cache_entry **head = bucket(cache, &e->key);
    e->chain = *head;
    *head = e;
    if (cache->hand == NULL) {
        e->next = e->prev = e;
        cache->hand = e;
    } else { /* behind the hand: the last to be looked at */
        e->next = cache->hand;
        e->prev = cache->hand->prev;
        e->prev->next = e->next->prev = e;
    }
    e->found = true;
    cache->bytes += e->bytes;
    cache->entries++;
}

/* Out of table and ring; onto *doomed (chained) when nobody holds it. */
static void remove_locked(struct cache *cache, struct cache_entry *e, struct cache_entry **doomed)
{
    struct cache_entry **link = bucket(cache, &e->key);
    while (*link != e)
        link = &(*link)->chain;
    *link = e->chain;
    if (cache->hand == e)
        cache->hand = e->next == e ? NULL : e->next;
    e->prev->next = e->next;
    e->next->prev = e->prev;
    e->found = false;
    cache->bytes -= e->bytes;
    cache->entries--;
    if (e->pins == 0) {
        e->chain = *doomed;
        *doomed = e;
    }
}

static void evict_locked(struct cache *cache, struct cache_entry **doomed)
{
    /* Two rounds look at everything twice: what is left then is pinned. */
    for (size_t steps = 2 * cache->entries; steps > 0 && cache->bytes > cache->budget; steps--) {
        struct cache_entry *e = cache->hand;
        cache->hand = e->next;
        if (e->pins > 0)
            continue;
        if (e->used) {
            e->used = false;
            continue;
        }
        remove_locked(cache, e, doomed);
        cache->evictions++;
    }
}

static void close_all(struct cache_entry *doomed)
{
    while (doomed != NULL) {
        struct cache_entry *next = doomed->chain;
        block_close(doomed->block);
        free(doomed);
        doomed = next;
    }
}

void cache_destroy(struct cache *cache)
{
    if (cache == NULL)
        return;
    struct cache_entry *doomed = NULL;
    while (cache->hand != NULL) {
        assert(cache->hand->pins == 0);
        remove_locked(cache, cache->hand, &doomed);
    }
    close_all(doomed);
    pthread_mutex_destroy(&cache->mutex);
    free(cache->buckets);
    free(cache);
}

struct cache_entry *cache_get(struct cache *cache, const struct cache_key *key)
{
    pthread_mutex_lock(&cache->mutex);
    struct cache_entry *e = find_locked(cache, key);
    if (e != NULL) {
        e->pins++;
        e->used = true;
        cache->hits++;
    } else {
        cache->misses++;
    }
    pthread_mutex_unlock(&cache->mutex);
    return e;
}

struct cache_entry *cache_put(struct cache *cache, const struct cache_key *key, struct block *block)
{
    struct cache_entry *e = malloc(sizeof *e), *doomed = NULL;
    if (e == NULL) {
        block_close(block);
        return NULL;
    }
    *e = (struct cache_entry){
        .key = *key, .block = block, .bytes = sizeof *e + block_memory(block), .pins = 1};
    pthread_mutex_lock(&cache->mutex);
    struct cache_entry *there = find_locked(cache, key);
    if (there != NULL) {
        there->pins++;
        there->used = true;
        doomed = e;
        e = there;
    } else {
        insert_locked(cache, e);
        evict_locked(cache, &doomed);
    }
    pthread_mutex_unlock(&cache->mutex);
    close_all(doomed);
    return e;
}

const struct block *cache_block(const struct cache_entry *entry)
{
    return entry->block;
}

void cache_release(struct cache *cache, struct cache_entry *entry)
{
    if (entry == NULL)
        return;
    struct cache_entry *doomed = NULL;
    pthread_mutex_lock(&cache->mutex);
    assert(entry->pins > 0);
    if (--entry->pins == 0) {
        if (!entry->found) {
            entry->chain = NULL;
            doomed = entry;
        } else if (cache->bytes > cache->budget) {
            evict_locked(cache, &doomed);
        }
    }
    pthread_mutex_unlock(&cache->mutex);
    close_all(doomed);
}

void cache_forget(struct cache *cache, uint32_t index_no, uint32_t segment)
{
    struct cache_entry *doomed = NULL;
    pthread_mutex_lock(&cache->mutex);
    struct cache_entry *e = cache->hand;
    for (size_t left = cache->entries; left > 0; left--) {
        struct cache_entry *next = e->next;
        if (e->key.index_no == index_no && (segment == UINT32_MAX || e->key.segment == segment))
            remove_locked(cache, e, &doomed);
        e = next;
    }
    pthread_mutex_unlock(&cache->mutex);
    close_all(doomed);
}

void cache_stats(struct cache *cache, struct cache_stats *out)
{
    pthread_mutex_lock(&cache->mutex);
    *out = (struct cache_stats){
        .hits = cache->hits,
        .misses = cache->misses,
        .evictions = cache->evictions,
        .bytes = cache->bytes,
        .entries = cache->entries,
        .budget = cache->budget,
    };
    pthread_mutex_unlock(&cache->mutex);
}
