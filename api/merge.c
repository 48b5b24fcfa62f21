/* SPDX-License-Identifier: Apache-2.0 */
/* Partial update by splicing; see merge.h. One sorted table of the update's members per object
 * that merges, so that the work is n log m. Recursion is bounded by J1 (storage/json.h). */
#include "api/merge.h"

#include "storage/json.h"
#include "storage/json_tree.h"

struct merge {
    struct buf *out;
    const uint8_t *copied; /* the current document is in out up to here */
    bool changed;
};

/* Append the current document up to `to`. */
static void copy_to(struct merge *merge, const uint8_t *to)
{
    buf_put(merge->out, merge->copied, (size_t)(to - merge->copied));
    merge->copied = to;
}

static const uint8_t *end_of(const struct json_node *node)
{
    return node->value.text.ptr + node->value.text.len;
}

static enum rc merge_objects(struct merge *merge, const struct json_node *current,
                             const struct json_node *update);

/* The value `old` of the current document gives way to `new`. */
static enum rc merge_value(struct merge *merge, const struct json_node *old,
                           const struct json_node *new)
{
    if (old->value.type == JSON_OBJECT && new->value.type == JSON_OBJECT)
        return merge_objects(merge, old, new);
    if (!merge->changed) {
        bool same;
        TRY(json_tree_same(old, new, &same));
        merge->changed = !same;
    }
    copy_to(merge, old->value.text.ptr);
    buf_put_slice(merge->out, new->value.text);
    merge->copied = end_of(old);
    return RC_OK;
}

/* Members of the update that no member of the current object has taken, in the update's order. */
static void append_new(struct merge *merge, const struct json_node *current,
                       const struct json_node *update, const struct json_members *members)
{
    const struct json_node *end = json_tree_next(current);
    const struct json_node *last = NULL;
    for (const struct json_node *key = current + 1; key < end; key = json_tree_next(key + 1))
        last = key + 1;
    copy_to(merge, last != NULL ? end_of(last) : current->value.text.ptr + 1);
    bool comma = last != NULL;
    end = json_tree_next(update);
    for (const struct json_node *key = update + 1; key < end; key = json_tree_next(key + 1)) {
        const struct json_entry *entry = json_members_find(members, key->value.text);
        if (entry->mark != NULL || entry->key != key)
            continue;
        if (comma)
            BUF_PUT_LIT(merge->out, ",");
        const uint8_t *from = key->value.text.ptr;
        buf_put(merge->out, from, (size_t)(end_of(key + 1) - from));
        comma = true;
        merge->changed = true;
    }
}

static enum rc merge_objects(struct merge *merge, const struct json_node *current,
                             const struct json_node *update)
{
    struct json_members members;
    const struct json_node *end = json_tree_next(current);
    enum rc rc;
    TRY_OUT(json_members_init(&members, update));
    /* The last of equal keys takes the update (M1): mark it first. */
    for (const struct json_node *key = current + 1; key < end; key = json_tree_next(key + 1)) {
        struct json_entry *entry = json_members_find(&members, key->value.text);
        if (entry != NULL)
            entry->mark = key;
    }
    for (const struct json_node *key = current + 1; key < end; key = json_tree_next(key + 1)) {
        const struct json_entry *entry = json_members_find(&members, key->value.text);
        if (entry != NULL && entry->mark == key)
            TRY_OUT(merge_value(merge, key + 1, entry->key + 1));
    }
    append_new(merge, current, update, &members);
    copy_to(merge, end_of(current));
out:
    json_members_done(&members);
    return rc;
}

enum rc merge_documents(struct slice current, struct slice update, struct buf *out, bool *noop_out)
{
    struct json_tree old = {NULL, 0, 0}, new = {NULL, 0, 0};
    size_t out_len = out->len;
    enum rc rc;
    TRY_OUT(json_tree_init(&old, current));
    TRY_OUT(json_tree_init(&new, update));
    assert(old.node->value.type == JSON_OBJECT && new.node->value.type == JSON_OBJECT);
    struct merge merge = {.out = out, .copied = current.ptr, .changed = false};
    TRY_OUT(merge_objects(&merge, old.node, new.node));
    copy_to(&merge, current.ptr + current.len);
    if (out->failed)
        rc = RC_NOMEM;
    else
        *noop_out = !merge.changed;
out:
    if (rc != RC_OK)
        out->len = out_len;
    json_tree_done(&old);
    json_tree_done(&new);
    return rc;
}
