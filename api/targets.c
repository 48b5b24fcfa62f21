/* SPDX-License-Identifier: Apache-2.0 */
#include "api/targets.h"

#include "api/access.h"

#include <xxhash.h>

static struct target *find(const struct targets *t, struct slice name, enum names_need need,
                           unsigned flags)
{
    if (t->buckets == 0)
        return NULL;
    struct target *one = t->bucket[XXH3_64bits(name.ptr, name.len) & (t->buckets - 1)];
    while (one != NULL && !(one->need == need && one->flags == flags && slice_eq(one->name, name)))
        one = one->next;
    return one;
}

/* Twice the buckets; the old array stays in the call's memory (together less than the new one). */
static bool grow(struct api_call *call, struct targets *t)
{
    size_t buckets = t->buckets == 0 ? 16 : t->buckets * 2;
    struct target **bucket = call_alloc(call, buckets * sizeof *bucket);
    if (bucket == NULL)
        return false;
    memset(bucket, 0, buckets * sizeof *bucket);
    for (struct target *one = t->all; one != NULL; one = one->before) {
        size_t at = XXH3_64bits(one->name.ptr, one->name.len) & (buckets - 1);
        one->next = bucket[at];
        bucket[at] = one;
    }
    t->bucket = bucket;
    t->buckets = buckets;
    return true;
}

static bool resolve(struct api_call *call, struct target *one)
{
    struct names_target found = {NULL, false, false};
    struct err err = {0};
    if (one->need == NAMES_READ && !access_may(call, one->name, USERS_READ))
        one->rc = err_set(&err, RC_FORBIDDEN, 0,
                          "action [indices:data/read] is unauthorized for user [%.64s] on indices "
                          "[%.*s]",
                          call->user->name, (int)(one->name.len > 100 ? 100 : one->name.len),
                          (const char *)one->name.ptr);
    else
        one->rc = names_target(call->api, one->name, one->need, one->flags, &found, &err);
    if (one->rc == RC_OK) {
        one->index = found.index;
        return true;
    }
    struct slice copy = call_dup(call, slice_of(&err, sizeof err));
    one->err = (const struct err *)(const void *)copy.ptr;
    return copy.ptr != NULL;
}

struct target *targets_get(struct api_call *call, struct targets *t, struct slice name,
                           enum names_need need, unsigned flags)
{
    struct target *one = t->last;
    if (one != NULL && one->need == need && one->flags == flags && slice_eq(one->name, name))
        return one;
    one = find(t, name, need, flags);
    if (one == NULL) {
        if (t->count >= t->buckets && !grow(call, t))
            return NULL;
        one = call_alloc(call, sizeof *one);
        if (one == NULL)
            return NULL;
        *one = (struct target){.name = name, .need = need, .flags = flags};
        if (!resolve(call, one))
            return NULL;
        size_t at = XXH3_64bits(name.ptr, name.len) & (t->buckets - 1);
        one->next = t->bucket[at];
        t->bucket[at] = one;
        one->before = t->all;
        t->all = one;
        t->count++;
    }
    t->last = one;
    return one;
}

void targets_done(struct targets *t)
{
    for (struct target *one = t->all; one != NULL; one = one->before)
        index_release(one->index);
    *t = (struct targets){NULL, 0, 0, NULL, NULL};
}

struct slice target_reason(const struct target *target, struct buf *scratch)
{
    static const char missing[] = "no such index [";
    const char *msg = target->err->msg;
    if (target->rc != RC_NOT_FOUND || strncmp(msg, missing, sizeof missing - 1) == 0)
        return slice_str(msg);
    scratch->len = 0;
    BUF_PUT_LIT(scratch, missing);
    buf_put_slice(scratch, target->name);
    buf_put_str(scratch, msg[0] == '\0' ? "]" : "] and ");
    buf_put_str(scratch, msg);
    return buf_slice(scratch);
}
