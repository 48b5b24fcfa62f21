/* SPDX-License-Identifier: Apache-2.0 */
/* What the API room keeps in memory (api/names.h). Counters are found by uuid. Those of deleted
 * indices stay until the table is full; then the oldest make room. */
#include "api/names.h"

#include <pthread.h>
#include <stdlib.h>

#define UUID_BYTES   22
#define COUNTERS_MAX 65536

struct counter {
    char uuid[UUID_BYTES];
    uint64_t count[REGISTRY_OPS];
};

struct registry {
    pthread_mutex_t naming; /* registry_lock: held over one synced metadata change */
    pthread_mutex_t mutex;  /* guards what follows */
    struct counter *counter;
    size_t counters, cap, next;
};

enum rc registry_create(struct registry **out, struct err *err)
{
    struct registry *registry = calloc(1, sizeof *registry);
    if (registry == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    pthread_mutex_init(&registry->naming, NULL);
    pthread_mutex_init(&registry->mutex, NULL);
    *out = registry;
    return RC_OK;
}

void registry_destroy(struct registry *registry)
{
    if (registry == NULL)
        return;
    pthread_mutex_destroy(&registry->naming);
    pthread_mutex_destroy(&registry->mutex);
    free(registry->counter);
    free(registry);
}

void registry_lock(struct registry *registry)
{
    pthread_mutex_lock(&registry->naming);
}

void registry_unlock(struct registry *registry)
{
    pthread_mutex_unlock(&registry->naming);
}

static struct counter *find_locked(struct registry *registry, const struct index *index)
{
    for (size_t i = 0; i < registry->counters; i++)
        if (memcmp(registry->counter[i].uuid, index_uuid(index), UUID_BYTES) == 0)
            return &registry->counter[i];
    return NULL;
}

static struct counter *make_locked(struct registry *registry, const struct index *index)
{
    struct counter *counter;
    if (registry->counters < COUNTERS_MAX && registry->counters == registry->cap) {
        size_t cap = registry->cap == 0 ? 16 : registry->cap * 2;
        struct counter *more = realloc(registry->counter, cap * sizeof *more);
        if (more == NULL)
            return NULL;
        registry->counter = more;
        registry->cap = cap;
    }
    if (registry->counters < registry->cap)
        counter = &registry->counter[registry->counters++];
    else
        counter = &registry->counter[registry->next++ % registry->cap];
    memset(counter, 0, sizeof *counter);
    memcpy(counter->uuid, index_uuid(index), UUID_BYTES);
    return counter;
}

void registry_count(struct registry *registry, const struct index *index, enum registry_op op)
{
    pthread_mutex_lock(&registry->mutex);
    struct counter *counter = find_locked(registry, index);
    if (counter == NULL)
        counter = make_locked(registry, index);
    if (counter != NULL) /* a count lost to memory is no reason to fail */
        counter->count[op]++;
    pthread_mutex_unlock(&registry->mutex);
}

void registry_counts(struct registry *registry, const struct index *index,
                     uint64_t counts_out[REGISTRY_OPS])
{
    memset(counts_out, 0, REGISTRY_OPS * sizeof *counts_out);
    pthread_mutex_lock(&registry->mutex);
    const struct counter *counter = find_locked(registry, index);
    if (counter != NULL)
        memcpy(counts_out, counter->count, sizeof counter->count);
    pthread_mutex_unlock(&registry->mutex);
}
