/* SPDX-License-Identifier: Apache-2.0 */
/* Searches that outlive a request (api/search.h): one list, one lock. Expired ones are passed over
 * by every call and freed once a second by the housekeeping thread: closing a snapshot may be the
 * end of an index that was deleted meanwhile. */
#include "api/search.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#define NS_PER_MS 1000000ull

/* Elasticsearch's search.max_open_scroll_context, OpenSearch's search.max_open_pit_context. */
static const struct {
    size_t max;
    const char *text;
} limits[CONTEXT_KINDS] = {
    [CONTEXT_SCROLL] = {500,
                        "Trying to create too many scroll contexts. Must be less than or equal to: "
                        "[500]. This limit can't be changed; scrolls that are not needed any more "
                        "should be cleared."},
    [CONTEXT_PIT] = {300,
                     "Trying to create too many Point In Time contexts. Must be less than or equal "
                     "to: [300]. This limit can't be changed; those that are not needed any more "
                     "should be deleted."},
};

struct contexts {
    pthread_mutex_t lock;
    /* guarded by lock */
    struct context *first;
    size_t count[CONTEXT_KINDS];
};

enum rc contexts_create(struct contexts **out, struct err *err)
{
    struct contexts *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return RC_OK;
}

static void context_free(struct context *context)
{
    scan_close(&context->scan);
    search_spec_done(&context->spec);
    free(context);
}

static void free_list(struct context *list)
{
    while (list != NULL) {
        struct context *next = list->next;
        context_free(list);
        list = next;
    }
}

void contexts_destroy(struct contexts *contexts)
{
    if (contexts == NULL)
        return;
    free_list(contexts->first);
    pthread_mutex_destroy(&contexts->lock);
    free(contexts);
}

/* ---- under the lock */

static void touch(struct context *context)
{
    context->deadline_ns = clock_ns() + context->keep_ms * NS_PER_MS;
}

static bool expired(const struct context *context, uint64_t now)
{
    return context->refs == 0 && context->deadline_ns <= now;
}

/* Take a context out of the list: it goes now, or with its last reference. True: now. */
static bool unlink_at(struct contexts *c, struct context **at)
{
    struct context *context = *at;
    *at = context->next;
    context->next = NULL;
    context->removed = true;
    c->count[context->kind]--;
    return context->refs == 0;
}

/* Everything that has expired, as a list of the caller's. */
static struct context *take_expired(struct contexts *c)
{
    struct context *gone = NULL;
    uint64_t now = clock_ns();
    for (struct context **at = &c->first; *at != NULL;) {
        struct context *context = *at;
        if (!expired(context, now)) {
            at = &context->next;
        } else if (unlink_at(c, at)) {
            context->next = gone;
            gone = context;
        }
    }
    return gone;
}

static struct context **find(struct contexts *c, enum context_kind kind, struct slice id)
{
    uint64_t now = clock_ns();
    for (struct context **at = &c->first; *at != NULL; at = &(*at)->next)
        if ((*at)->kind == kind && slice_is(id, (*at)->id))
            return expired(*at, now) ? NULL : at;
    return NULL;
}

/* ---- */

static bool make_id(char id[CONTEXT_ID_LEN + 1])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t random[CONTEXT_ID_LEN];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    for (size_t i = 0; i < CONTEXT_ID_LEN; i++)
        id[i] = digits[random[i] & 63];
    id[CONTEXT_ID_LEN] = '\0';
    return true;
}

enum rc contexts_add(struct contexts *contexts, struct context *context, struct err *err)
{
    if (!make_id(context->id))
        return err_set(err, RC_IO, 0, "no random numbers for an id");
    context->created_ms = clock_ms();
    context->refs = 1;
    context->removed = false;
    context->busy = context->kind == CONTEXT_SCROLL;
    pthread_mutex_lock(&contexts->lock);
    struct context *gone = take_expired(contexts);
    bool full = contexts->count[context->kind] >= limits[context->kind].max;
    if (!full) {
        contexts->count[context->kind]++;
        context->next = contexts->first;
        contexts->first = context;
    }
    pthread_mutex_unlock(&contexts->lock);
    free_list(gone);
    return full ? err_set(err, RC_BUSY, 0, "%s", limits[context->kind].text) : RC_OK;
}

enum rc contexts_get(struct contexts *contexts, enum context_kind kind, struct slice id,
                     struct context **out)
{
    enum rc rc = RC_NOT_FOUND;
    pthread_mutex_lock(&contexts->lock);
    struct context **at = find(contexts, kind, id);
    if (at != NULL && (*at)->busy) {
        rc = RC_CONFLICT;
    } else if (at != NULL) {
        (*at)->refs++;
        (*at)->busy = kind == CONTEXT_SCROLL;
        *out = *at;
        rc = RC_OK;
    }
    pthread_mutex_unlock(&contexts->lock);
    return rc;
}

void contexts_put(struct contexts *contexts, struct context *context, uint64_t keep_ms)
{
    pthread_mutex_lock(&contexts->lock);
    context->busy = false;
    if (keep_ms != 0)
        context->keep_ms = keep_ms;
    touch(context);
    bool last = --context->refs == 0 && context->removed;
    pthread_mutex_unlock(&contexts->lock);
    if (last)
        context_free(context);
}

bool contexts_remove(struct contexts *contexts, enum context_kind kind, struct slice id)
{
    struct context *context = NULL;
    bool now = false;
    pthread_mutex_lock(&contexts->lock);
    struct context **at = find(contexts, kind, id);
    if (at != NULL) {
        context = *at;
        now = unlink_at(contexts, at);
    }
    pthread_mutex_unlock(&contexts->lock);
    if (now)
        context_free(context);
    return context != NULL;
}

size_t contexts_each(struct contexts *contexts, enum context_kind kind, bool remove,
                     void (*fn)(const struct context *context, void *arg), void *arg)
{
    struct context *gone = NULL;
    size_t count = 0;
    pthread_mutex_lock(&contexts->lock);
    uint64_t now = clock_ns();
    for (struct context **at = &contexts->first; *at != NULL;) {
        struct context *context = *at;
        if (context->kind != kind || expired(context, now)) {
            at = &context->next;
            continue;
        }
        count++;
        if (fn != NULL)
            fn(context, arg);
        if (!remove) {
            at = &context->next;
        } else if (unlink_at(contexts, at)) {
            context->next = gone;
            gone = context;
        }
    }
    pthread_mutex_unlock(&contexts->lock);
    free_list(gone);
    return count;
}

/* ---- expiry */

void contexts_expire(void *contexts)
{
    struct contexts *c = contexts;
    pthread_mutex_lock(&c->lock);
    struct context *gone = take_expired(c);
    pthread_mutex_unlock(&c->lock);
    free_list(gone);
}
