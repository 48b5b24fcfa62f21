/* SPDX-License-Identifier: Apache-2.0 */
/* Learning shapes and matching documents with them; H1 to H3 in shape.h.
 *
 * The shapes of a table are a tree: a node is a piece and the kind of value behind it, what can
 * come then are its children. A document goes down from the root, pieces by comparison, values by
 * looking for their end, which reads each byte about once, however many shapes there are. Only when
 * it comes to no leaf, it is taken apart key by key, and the skeleton that comes of it looked up or
 * learned.
 *
 * Nodes never change but for their first child, which is a newer one when a shape is added: who
 * walks down meanwhile sees the one or the other. */
#include "storage/shape.h"

#include "config/buf.h"
#include "config/limits.h"
#include "storage/bytes.h"
#include "storage/json_parts.h"

#include <stdatomic.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Nodes looked at, in all branches tried, before a document is given up. Two branches may begin
 * alike: an array is one value or a few numbers. */
#define STEPS_MAX (8 * SHAPE_SLOTS_MAX)
/* Numbers of an array that get slots of their own. */
#define EXPANDED_MAX 4
/* Whole documents that are one value share a path. */
#define PATH_RAW 0
/* How deep an array that is one value may nest, wherever it stands. */
#define ARRAY_DEPTH_MAX (LIMIT_JSON_DEPTH - SHAPE_DEPTH_MAX)

struct node {
    const struct node *next; /* sibling */
    _Atomic(const struct node *) child;
    const uint8_t *piece;
    uint32_t piece_len;
    uint8_t kind;              /* of the slot behind it; 0: it is the tail of … */
    const struct shape *shape; /* … this one */
};

struct shape_table {
    atomic_size_t refs;
    _Atomic(const struct node *) root; /* the first pieces */
    struct arena arena;
    const struct shape **list; /* by number */
    size_t count, cap;
    uint32_t *hashed; /* numbers + 1 by hash of the skeleton; 0 free; size a power of two */
    size_t hashed_size;
    size_t slots;
    uint32_t *adopted; /* by number in the other table: number here, or SHAPE_NONE */
    size_t adopted_count;
};

struct shape_table *shape_table_create(void)
{
    struct shape_table *table = calloc(1, sizeof *table);
    if (table != NULL)
        atomic_init(&table->refs, 1);
    return table;
}

struct shape_table *shape_table_retain(struct shape_table *table)
{
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

void shape_table_release(struct shape_table *table)
{
    if (table == NULL || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) != 1)
        return;
    arena_done(&table->arena);
    free(table->list);
    free(table->hashed);
    free(table->adopted);
    free(table);
}

size_t shape_count(const struct shape_table *table)
{
    return table->count;
}

size_t shape_memory(const struct shape_table *table)
{
    return table->arena.memory;
}

const struct shape *shape_at(const struct shape_table *table, size_t number)
{
    assert(number < table->count);
    return table->list[number];
}

void fit_values(const struct fit *fit, struct slice doc, struct slice *values)
{
    const struct shape *shape = fit->shape;
    const uint8_t *p = doc.ptr;
    for (uint32_t i = 0; i < shape->slots; i++) {
        p += shape->slot[i].piece_len;
        values[i] = slice_of(p, fit->lens[i]);
        p += fit->lens[i];
    }
    assert(p + shape->tail_len == doc.ptr + doc.len);
}

/* ---- the end of a value; NULL when there is none */

/* From behind the opening quote to the closing one. */
ALWAYS_INLINE const uint8_t *string_end(const uint8_t *p, const uint8_t *end)
{
    struct json_stop stop;
    const uint8_t *to = check_string(p, end, true, &stop);
    return to == NULL ? NULL : to - 1;
}

ALWAYS_INLINE const uint8_t *atom_end(const uint8_t *p, const uint8_t *end)
{
    struct json_stop stop;
    return p < end && *p == '"' ? NULL : check_scalar(p, end, true, &stop);
}

/* ---- matching */

/* Behind the value at p, NULL when there is none of that kind. */
ALWAYS_INLINE const uint8_t *value_end(unsigned kind, const uint8_t *p, const uint8_t *end)
{
    return kind == SLOT_STRING ? string_end(p, end)
           : kind == SLOT_ATOM ? atom_end(p, end)
                               : json_array_end(p, end, ARRAY_DEPTH_MAX);
}

/* Does a line end before p? A carriage return before its line feed is no part of it. */
ALWAYS_INLINE bool at_line_end(const uint8_t *p, const uint8_t *end)
{
    return p < end && (*p == '\n' ? p[-1] != '\r' : *p == '\r' && end - p > 1 && p[1] == '\n');
}

/* The shape of the text up to `end`, or with `line` of its first line; *end_out is where that
 * ends. A line feed ends strings and atoms as the end of the text does. */
ALWAYS_INLINE const struct shape *find(const struct shape_table *table, const uint8_t *begin,
                                       const uint8_t *end, const bool line, struct slice *values,
                                       const uint8_t **end_out)
{
    const struct node *way[SHAPE_SLOTS_MAX];
    const uint8_t *p = begin;
    const struct node *n = atomic_load_explicit(&table->root, memory_order_acquire);
    unsigned depth = 0, steps = 0;
    bool cut = !line;
    for (;;) {
        for (; n != NULL; n = n->next, steps++)
            if ((size_t)(end - p) >= n->piece_len && bytes_eq(p, n->piece, n->piece_len))
                break;
        if (n == NULL) { /* one up, and on with its sibling */
            if (depth == 0)
                return NULL;
            n = way[--depth]->next;
            p = depth == 0 ? begin : values[depth - 1].ptr + values[depth - 1].len;
            continue;
        }
        const uint8_t *from = p + n->piece_len, *to = NULL;
        if (n->kind == 0 && (line ? at_line_end(from, end) : from == end)) {
            *end_out = from;
            return n->shape;
        }
        if (n->kind == SLOT_RAW && !cut) { /* white space in an array must not lead farther */
            const uint8_t *newline = memchr(from, '\n', (size_t)(end - from));
            end = newline == NULL ? end : newline + 1;
            cut = true;
        }
        if (n->kind == 0 || (to = value_end(n->kind, from, end)) == NULL) {
            n = n->next;
            continue;
        }
        if (++steps > STEPS_MAX)
            return NULL;
        way[depth] = n;
        values[depth++] = slice_of(from, (size_t)(to - from));
        p = to;
        n = atomic_load_explicit(&n->child, memory_order_acquire);
    }
}

const struct shape *shape_find(const struct shape_table *table, struct slice doc,
                               struct slice *values)
{
    const uint8_t *end;
    return find(table, doc.ptr, doc.ptr + doc.len, false, values, &end);
}

const struct shape *shape_find_line(const struct shape_table *table, struct slice text,
                                    struct slice *values, struct slice *line_out)
{
    const uint8_t *end;
    const struct shape *shape = find(table, text.ptr, text.ptr + text.len, true, values, &end);
    if (shape != NULL)
        *line_out = slice_of(text.ptr, (size_t)(end - text.ptr));
    return shape;
}

/* The child of a node with that piece and kind, made if need be. */
static const struct node *grow(struct arena *arena, _Atomic(const struct node *) *first,
                               struct slice piece, uint8_t kind)
{
    const struct node *n = atomic_load_explicit(first, memory_order_relaxed);
    const struct node *newest = n;
    for (; n != NULL; n = n->next)
        if (n->kind == kind && slice_eq(slice_of(n->piece, n->piece_len), piece))
            return n;
    struct node *made = arena_get(arena, 1, sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (struct node){
        .next = newest, .piece = piece.ptr, .piece_len = (uint32_t)piece.len, .kind = kind};
    atomic_store_explicit(first, made, memory_order_release);
    return made;
}

/* A branch for a shape. False: memory is out, the shape is just not found by shape_find. */
static bool grow_branch(struct shape_table *t, const struct shape *shape)
{
    const uint8_t *skeleton = shape->skeleton.ptr;
    _Atomic(const struct node *) *first = &t->root;
    for (uint32_t i = 0; i < shape->slots; i++) {
        const struct shape_slot *slot = &shape->slot[i];
        const struct node *n =
            grow(&t->arena, first, slice_of(skeleton + slot->piece_at, slot->piece_len),
                 (uint8_t)slot->kind);
        if (n == NULL)
            return false;
        /* Only who adds shapes writes, one at a time. */
        first = &((struct node *)(uintptr_t)n)->child;
    }
    struct node *leaf = arena_get(&t->arena, 1, sizeof *leaf);
    if (leaf == NULL)
        return false;
    *leaf = (struct node){.next = atomic_load_explicit(first, memory_order_relaxed),
                          .piece = skeleton + shape->tail_at,
                          .piece_len = shape->tail_len,
                          .shape = shape};
    atomic_store_explicit(first, leaf, memory_order_release);
    return true;
}

/* ---- taking a document apart */

struct apart {
    const uint8_t *p, *end;
    struct slice *values;
    uint32_t slots;
    size_t len; /* of the skeleton */
    uint8_t skeleton[SHAPE_BYTES_MAX];
    struct shape_slot slot[SHAPE_SLOTS_MAX];
};

static uint64_t mix(uint64_t path, uint64_t with)
{
    path = (path ^ with) * UINT64_C(0x9e3779b97f4a7c15);
    return path ^ path >> 29;
}

/* Bytes of the document up to `to` become part of the skeleton. */
static bool keep(struct apart *a, const uint8_t *to)
{
    size_t n = (size_t)(to - a->p);
    if (n > sizeof a->skeleton - a->len)
        return false;
    memcpy(a->skeleton + a->len, a->p, n);
    a->len += n;
    a->p = to;
    return true;
}

static bool keep_space(struct apart *a)
{
    return keep(a, skip_space(a->p, a->end));
}

static bool keep_byte(struct apart *a, uint8_t c)
{
    return a->p < a->end && *a->p == c && keep(a, a->p + 1);
}

static bool cut_value(struct apart *a, const uint8_t *to, enum slot_kind kind, uint64_t path)
{
    if (to == NULL || a->slots == SHAPE_SLOTS_MAX || a->len == sizeof a->skeleton)
        return false;
    a->skeleton[a->len++] = (uint8_t)kind;
    a->slot[a->slots] = (struct shape_slot){.path = path, .kind = kind};
    a->values[a->slots++] = slice_of(a->p, (size_t)(to - a->p));
    a->p = to;
    return true;
}

/* How many elements, if the array is a few numbers without white space; else 0. */
static unsigned few_numbers(const uint8_t *p, const uint8_t *to)
{
    unsigned n = 1;
    for (p++; p < to - 1; p++) {
        if (*p == ',')
            n++;
        else if (!((*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == '.' || *p == 'e' ||
                   *p == 'E'))
            return 0;
    }
    return n <= EXPANDED_MAX && to[-2] != '[' ? n : 0;
}

static bool take_array(struct apart *a, uint64_t path)
{
    const uint8_t *to = json_array_end(a->p, a->end, ARRAY_DEPTH_MAX);
    unsigned n = to == NULL ? 0 : few_numbers(a->p, to);
    if (n == 0)
        return cut_value(a, to, SLOT_RAW, path);
    for (unsigned i = 0; i < n; i++)
        if (!keep(a, a->p + 1) ||
            !cut_value(a, atom_end(a->p, to), SLOT_ATOM, mix(path, UINT64_MAX - i)))
            return false;
    return keep_byte(a, ']');
}

static bool take_value(struct apart *a, uint64_t path, unsigned depth);

static bool take_object(struct apart *a, uint64_t path, unsigned depth)
{
    if (depth == SHAPE_DEPTH_MAX || !keep_byte(a, '{') || !keep_space(a))
        return false;
    if (keep_byte(a, '}'))
        return true;
    do {
        if (!keep_space(a) || !keep_byte(a, '"'))
            return false;
        const uint8_t *key = a->p, *quote = string_end(key, a->end);
        if (quote == NULL || !keep(a, quote + 1) || !keep_space(a) || !keep_byte(a, ':') ||
            !take_value(a, mix(path, XXH3_64bits(key, (size_t)(quote - key))), depth + 1) ||
            !keep_space(a))
            return false;
    } while (keep_byte(a, ','));
    return keep_byte(a, '}');
}

static bool take_value(struct apart *a, uint64_t path, unsigned depth)
{
    if (!keep_space(a) || a->p == a->end)
        return false;
    switch (*a->p) {
    case '{':
        return take_object(a, path, depth);
    case '[':
        return take_array(a, path);
    case '"':
        return keep(a, a->p + 1) &&
               cut_value(a, string_end(a->p, a->end), SLOT_STRING, mix(path, SLOT_STRING)) &&
               keep_byte(a, '"');
    default:
        return cut_value(a, atom_end(a->p, a->end), SLOT_ATOM, mix(path, SLOT_ATOM));
    }
}

static bool take_apart(struct apart *a, struct slice doc, struct slice *values)
{
    a->p = doc.ptr;
    a->end = doc.ptr + doc.len;
    a->values = values;
    a->slots = 0;
    a->len = 0;
    return take_value(a, 1, 0) && keep_space(a) && a->p == a->end;
}

/* ---- learning */

/* A path may come twice (duplicate keys; a collision): each slot gets one of its own. */
static void part_paths(struct apart *a)
{
    uint16_t seen[2 * SHAPE_SLOTS_MAX] = {0}; /* slot + 1 by path; 0 free */
    for (uint32_t i = 0; i < a->slots; i++) {
        size_t at = a->slot[i].path % ARRAY_LEN(seen);
        for (; seen[at] != 0; at = (at + 1) % ARRAY_LEN(seen))
            if (a->slot[seen[at] - 1].path == a->slot[i].path) {
                a->slot[i].path = mix(a->slot[i].path, i + 1);
                at = a->slot[i].path % ARRAY_LEN(seen) - 1; /* once more, from its new place */
            }
        seen[at] = (uint16_t)(i + 1);
    }
}

static bool table_room(struct shape_table *t)
{
    if (t->count == t->cap) {
        size_t cap = t->cap == 0 ? 16 : 2 * t->cap;
        const struct shape **list = realloc(t->list, cap * sizeof(struct shape *));
        if (list == NULL)
            return false;
        t->list = list;
        t->cap = cap;
    }
    if (2 * (t->count + 1) <= t->hashed_size)
        return true;
    size_t size = t->hashed_size == 0 ? 32 : 2 * t->hashed_size;
    uint32_t *hashed = calloc(size, sizeof *hashed);
    if (hashed == NULL)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        size_t at = t->list[i]->hash & (size - 1);
        while (hashed[at] != 0)
            at = (at + 1) & (size - 1);
        hashed[at] = (uint32_t)i + 1;
    }
    free(t->hashed);
    t->hashed = hashed;
    t->hashed_size = size;
    return true;
}

static const struct shape *make_shape(struct shape_table *t, struct apart *a, uint64_t hash)
{
    struct shape *shape = arena_get(&t->arena, 1, sizeof *shape + a->slots * sizeof *a->slot);
    uint8_t *skeleton = arena_get(&t->arena, a->len, 1);
    if (shape == NULL || skeleton == NULL)
        return NULL;
    part_paths(a);
    uint32_t at = 0;
    for (uint32_t i = 0; i < a->slots; i++) {
        a->slot[i].piece_at = at;
        while (!shape_is_slot(a->skeleton[at]))
            at++;
        a->slot[i].piece_len = at++ - a->slot[i].piece_at;
    }
    memcpy(skeleton, a->skeleton, a->len);
    *shape = (struct shape){
        .skeleton = slice_of(skeleton, a->len),
        .hash = hash,
        .number = (uint32_t)t->count,
        .slots = a->slots,
        .tail_at = at,
        .tail_len = (uint32_t)a->len - at,
    };
    memcpy(shape->slot, a->slot, a->slots * sizeof *a->slot);
    return shape;
}

/* Where a skeleton is among the hashed, or the free place for it. */
static size_t hashed_at(const struct shape_table *t, struct slice skeleton, uint64_t hash)
{
    size_t at = hash & (t->hashed_size - 1);
    for (; t->hashed[at] != 0; at = (at + 1) & (t->hashed_size - 1)) {
        const struct shape *shape = t->list[t->hashed[at] - 1];
        if (shape->hash == hash && slice_eq(shape->skeleton, skeleton))
            break;
    }
    return at;
}

static uint32_t add_shape(struct shape_table *t, const struct shape *shape, size_t at)
{
    uint32_t number = (uint32_t)t->count++;
    t->list[number] = shape;
    t->slots += shape->slots;
    t->hashed[at] = number + 1;
    return number;
}

static bool over(const struct shape_table *t, uint32_t slots, size_t shapes_max, size_t slots_max)
{
    return t->count >= shapes_max || t->slots + slots > slots_max;
}

/* Known, or learned within the limits; SHAPE_NONE when it would need more than they allow. */
static bool find_or_learn(struct shape_table *t, struct apart *a, size_t shapes_max,
                          size_t slots_max, uint32_t *number_out)
{
    if (!table_room(t))
        return false;
    struct slice skeleton = slice_of(a->skeleton, a->len);
    uint64_t hash = XXH3_64bits(skeleton.ptr, skeleton.len);
    size_t at = hashed_at(t, skeleton, hash);
    *number_out = SHAPE_NONE;
    if (t->hashed[at] != 0)
        *number_out = t->hashed[at] - 1;
    else if (!over(t, a->slots, shapes_max, slots_max)) {
        const struct shape *shape = make_shape(t, a, hash);
        if (shape == NULL)
            return false;
        *number_out = add_shape(t, shape, at);
        return grow_branch(t, shape);
    }
    return true;
}

/* The whole document as one value. */
static void take_whole(struct apart *a, struct slice doc, struct slice *values)
{
    a->slots = 1;
    a->len = 1;
    a->skeleton[0] = SLOT_RAW;
    a->slot[0] = (struct shape_slot){.path = PATH_RAW, .kind = SLOT_RAW};
    values[0] = doc;
}

bool shape_of(struct shape_table *table, struct slice doc, size_t shapes_max, size_t slots_max,
              struct slice *values, uint32_t *number_out)
{
    struct shape_table *t = table;
    if (doc.len == 0)
        doc = SLICE_LIT(""); /* a pointer that may be compared */
    const struct shape *shape = shape_find(t, doc, values);
    if (shape != NULL) {
        *number_out = shape->number;
        return true;
    }
    struct apart a;
    *number_out = SHAPE_NONE;
    if (take_apart(&a, doc, values) && !find_or_learn(t, &a, shapes_max, slots_max, number_out))
        return false;
    if (*number_out != SHAPE_NONE)
        return true;
    /* One more than the limit, at most: this one has no keys that could vary. */
    take_whole(&a, doc, values);
    return find_or_learn(t, &a, SIZE_MAX, SIZE_MAX, number_out);
}

/* Room to note what became of the other table's shape. */
static bool adopted_room(struct shape_table *t, uint32_t number)
{
    if (number < t->adopted_count)
        return true;
    size_t count = (size_t)number * 2 + 16;
    uint32_t *adopted = realloc(t->adopted, count * sizeof *adopted);
    if (adopted == NULL)
        return false;
    for (size_t i = t->adopted_count; i < count; i++)
        adopted[i] = SHAPE_NONE;
    t->adopted = adopted;
    t->adopted_count = count;
    return true;
}

bool shape_adopt(struct shape_table *table, const struct shape *shape, size_t shapes_max,
                 size_t slots_max, uint32_t *number_out)
{
    struct shape_table *t = table;
    if (!adopted_room(t, shape->number))
        return false;
    uint32_t *known = &t->adopted[shape->number];
    if (*known == SHAPE_NONE || t->list[*known] != shape) {
        if (!table_room(t))
            return false;
        size_t at = hashed_at(t, shape->skeleton, shape->hash);
        if (t->hashed[at] != 0)
            *known = t->hashed[at] - 1;
        else
            *known =
                over(t, shape->slots, shapes_max, slots_max) ? SHAPE_NONE : add_shape(t, shape, at);
    }
    *number_out = *known;
    return true;
}

bool shape_learn(struct shape_table *table, struct slice doc, struct slice *values,
                 const struct shape **shape_out)
{
    struct apart a;
    uint32_t number = SHAPE_NONE;
    if (take_apart(&a, doc, values) && !find_or_learn(table, &a, SIZE_MAX, SIZE_MAX, &number))
        return false;
    *shape_out = number == SHAPE_NONE ? NULL : table->list[number];
    return true;
}
