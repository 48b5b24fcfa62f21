/* SPDX-License-Identifier: Apache-2.0 */
/* Flat index of a JSON text, and equality by value on it; see json_tree.h. Recursion is bounded by
 * J1 (json.h). */
#include "storage/json_tree.h"

#include <stdlib.h>

static bool add(struct json_tree *tree, struct json_value value)
{
    if (tree->count == tree->cap) {
        size_t cap = tree->cap < 32 ? 32 : tree->cap * 2;
        struct json_node *node = realloc(tree->node, cap * sizeof *node);
        if (node == NULL)
            return false;
        tree->node = node;
        tree->cap = cap;
    }
    tree->node[tree->count++] = (struct json_node){.value = value, .inside = 0};
    return true;
}

static bool add_value(struct json_tree *tree, struct json_scan *scan)
{
    enum json_type type = json_peek(scan);
    if (type != JSON_OBJECT && type != JSON_ARRAY)
        return add(tree, json_take(scan));
    size_t at = tree->count;
    const uint8_t *from = scan->p++;
    if (!add(tree, (struct json_value){type, slice_of(from, 0)}))
        return false;
    struct slice key;
    while (type == JSON_OBJECT ? json_next_key(scan, &key) : json_next_element(scan)) {
        if (type == JSON_OBJECT && !add(tree, (struct json_value){JSON_STRING, key}))
            return false;
        if (!add_value(tree, scan))
            return false;
    }
    if (scan->p < scan->end)
        ++scan->p; /* the closing bracket */
    tree->node[at].value.text.len = (size_t)(scan->p - from);
    tree->node[at].inside = tree->count - at - 1;
    return true;
}

enum rc json_tree_init(struct json_tree *tree, struct slice text)
{
    *tree = (struct json_tree){NULL, 0, 0};
    struct json_value root = json_root(text);
    struct json_scan scan = {root.text.ptr, root.text.ptr + root.text.len};
    if (add_value(tree, &scan))
        return RC_OK;
    json_tree_done(tree);
    return RC_NOMEM;
}

void json_tree_done(struct json_tree *tree)
{
    free(tree->node);
    *tree = (struct json_tree){NULL, 0, 0};
}

const struct json_node *json_tree_next(const struct json_node *node)
{
    return node + 1 + node->inside;
}

/* ---- members */

static int entry_cmp(const void *a, const void *b)
{
    const struct json_entry *x = a, *y = b;
    int c = json_string_cmp(x->key->value.text, y->key->value.text);
    return c != 0 ? c : (x->key > y->key) - (x->key < y->key);
}

enum rc json_members_init(struct json_members *members, const struct json_node *object)
{
    const struct json_node *end = json_tree_next(object);
    size_t n = 0, kept = 0;
    *members = (struct json_members){NULL, 0};
    for (const struct json_node *key = object + 1; key < end; key = json_tree_next(key + 1))
        ++n;
    if (n == 0)
        return RC_OK;
    struct json_entry *entry = malloc(n * sizeof *entry);
    if (entry == NULL)
        return RC_NOMEM;
    n = 0;
    for (const struct json_node *key = object + 1; key < end; key = json_tree_next(key + 1))
        entry[n++] = (struct json_entry){.key = key, .mark = NULL};
    qsort(entry, n, sizeof *entry, entry_cmp);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || !json_string_eq(entry[i].key->value.text, entry[i + 1].key->value.text))
            entry[kept++] = entry[i];
    }
    *members = (struct json_members){entry, kept};
    return RC_OK;
}

void json_members_done(struct json_members *members)
{
    free(members->entry);
    *members = (struct json_members){NULL, 0};
}

struct json_entry *json_members_find(const struct json_members *members, struct slice key)
{
    size_t low = 0, high = members->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = json_string_cmp(members->entry[middle].key->value.text, key);
        if (c == 0)
            return &members->entry[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- equality */

/* A number as 0.DDD × 10^exponent: its digits without leading and trailing zeros; the point may
 * still lie among them. */
struct decimal {
    bool negative, integer;
    struct slice digits;
    int64_t exponent;
};

/* Saturates: an exponent of 17 digits is beyond every number of digits in memory. */
static int64_t read_exponent(const uint8_t *p, const uint8_t *end)
{
    bool negative = p < end && *p == '-';
    int64_t v = 0;
    for (p += p < end && (*p == '-' || *p == '+'); p < end; ++p)
        v = v < 10000000000000000 ? v * 10 + (*p - '0') : v;
    return negative ? -v : v;
}

static struct decimal decimal_of(struct slice number)
{
    const uint8_t *p = number.ptr, *end = p + number.len;
    struct decimal d = {.negative = *p == '-', .integer = true};
    p += d.negative;
    const uint8_t *first = p, *mantissa_end = p, *point = NULL;
    for (; mantissa_end < end && (*mantissa_end | 0x20) != 'e'; ++mantissa_end) {
        if (*mantissa_end == '.')
            point = mantissa_end;
    }
    d.integer = point == NULL && mantissa_end == end;
    if (mantissa_end < end)
        d.exponent = read_exponent(mantissa_end + 1, end);
    end = mantissa_end;
    while (first < end && (*first == '0' || *first == '.'))
        ++first;
    if (point == NULL)
        point = end;
    d.exponent += point - first + (first > point); /* the point itself is no digit */
    while (end > first && (end[-1] == '0' || end[-1] == '.'))
        --end;
    d.digits = slice_of(first, (size_t)(end - first));
    if (d.digits.len == 0)
        d.exponent = 0;
    return d;
}

static bool digits_same(struct slice a, struct slice b)
{
    size_t i = 0, j = 0;
    for (;; ++i, ++j) {
        i += i < a.len && a.ptr[i] == '.';
        j += j < b.len && b.ptr[j] == '.';
        if (i == a.len || j == b.len)
            return i == a.len && j == b.len;
        if (a.ptr[i] != b.ptr[j])
            return false;
    }
}

static bool numbers_same(struct slice a, struct slice b)
{
    if (slice_eq(a, b))
        return true;
    struct decimal x = decimal_of(a), y = decimal_of(b);
    if (x.integer != y.integer || x.exponent != y.exponent || !digits_same(x.digits, y.digits))
        return false;
    return x.negative == y.negative || (x.integer && x.digits.len == 0); /* -0 is 0, -0.0 not 0.0 */
}

static enum rc arrays_same(const struct json_node *a, const struct json_node *b, bool *same_out)
{
    const struct json_node *x = a + 1, *x_end = json_tree_next(a);
    const struct json_node *y = b + 1, *y_end = json_tree_next(b);
    bool same = true;
    for (; same && x < x_end && y < y_end; x = json_tree_next(x), y = json_tree_next(y))
        TRY(json_tree_same(x, y, &same));
    *same_out = same && x == x_end && y == y_end;
    return RC_OK;
}

static enum rc objects_same(const struct json_node *a, const struct json_node *b, bool *same_out)
{
    struct json_members x = {NULL, 0}, y = {NULL, 0};
    enum rc rc;
    TRY_OUT(json_members_init(&x, a));
    TRY_OUT(json_members_init(&y, b));
    bool same = x.count == y.count;
    for (size_t i = 0; same && i < x.count; i++) {
        const struct json_node *key = x.entry[i].key, *other = y.entry[i].key;
        same = json_string_eq(key->value.text, other->value.text);
        if (same)
            TRY_OUT(json_tree_same(key + 1, other + 1, &same));
    }
    *same_out = same;
out:
    json_members_done(&x);
    json_members_done(&y);
    return rc;
}

enum rc json_tree_same(const struct json_node *a, const struct json_node *b, bool *same_out)
{
    if (a->value.type != b->value.type) {
        *same_out = false;
        return RC_OK;
    }
    switch (a->value.type) {
    case JSON_OBJECT:
        return objects_same(a, b, same_out);
    case JSON_ARRAY:
        return arrays_same(a, b, same_out);
    case JSON_STRING:
        *same_out = json_string_eq(a->value.text, b->value.text);
        return RC_OK;
    case JSON_NUMBER:
        *same_out = numbers_same(a->value.text, b->value.text);
        return RC_OK;
    default:
        *same_out = true;
        return RC_OK;
    }
}

bool json_same(struct json_value a, struct json_value b)
{
    struct json_tree x = {NULL, 0, 0}, y = {NULL, 0, 0};
    bool same = false;
    enum rc rc;
    if (slice_eq(a.text, b.text))
        return true;
    TRY_OUT(json_tree_init(&x, a.text));
    TRY_OUT(json_tree_init(&y, b.text));
    TRY_OUT(json_tree_same(x.node, y.node, &same));
out:
    json_tree_done(&x);
    json_tree_done(&y);
    return rc == RC_OK && same;
}
