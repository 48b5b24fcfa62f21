/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing parts of a JSON value; see filter.h.
 *
 * All patterns of a list are one automaton whose state is a set of positions, a bit each; the bytes
 * of a path ".a.b" move the bits of all patterns at once. So the work is a step per byte of the
 * keys, whatever the patterns are, and the state of an object is kept while its members are tried.
 * Every byte of the value is passed over once. Recursion is bounded by J1 (storage/json.h).
 *
 * What is kept (Elasticsearch: XContentMapValues.filter, FilterPathBasedFilter): a value whose path
 * or that of a container around it is included, unless its path is excluded. Array elements have
 * the path of their array. A container of which nothing is left goes, too; only in _source it
 * stays, as {} or [], when it is a member that is included itself. */
#include "api/filter.h"

#include <stdlib.h>

/* ---- patterns */

enum position_kind {
    POSITION_BYTE,   /* one byte */
    POSITION_NAME,   /* any bytes of one key, a '.' in it, too */
    POSITION_ANY,    /* any bytes */
    POSITION_LEVELS, /* "**" before a '.': any bytes, or nothing and no '.' behind it */
    POSITION_END,
};

struct position {
    uint8_t kind, byte;
};

struct matcher {
    size_t words; /* 0: no patterns */
    uint64_t *bits;
    /* Vectors of `words` words inside bits: */
    uint64_t *start, *accept;
    uint64_t *loop_dot, *loop;     /* stay between two keys, or at a byte of one */
    uint64_t *skip_one, *skip_two; /* are also one or two positions further */
    uint64_t *by_byte;             /* go one further: a vector per class of bytes */
    uint8_t class_of[256];
};

struct filter {
    struct matcher includes, excludes;
    bool source; /* _source rules, else filter_path */
};

static void put_position(struct buf *code, enum position_kind kind, uint8_t byte)
{
    struct position position = {(uint8_t)kind, byte};
    buf_put(code, &position, sizeof position);
}

/* A run of '*' at pattern[at .. to). Returns where to go on. */
static size_t put_stars(struct buf *code, struct slice pattern, size_t at, size_t to, bool source)
{
    bool begins = at == 0 || pattern.ptr[at - 1] == '.';
    bool ends = to == pattern.len || pattern.ptr[to] == '.';
    if (source) {
        put_position(code, POSITION_ANY, 0);
    } else if (to - at == 1 || !begins || !ends) {
        put_position(code, POSITION_NAME, 0);
    } else if (to == pattern.len) {
        put_position(code, POSITION_ANY, 0);
    } else {
        put_position(code, POSITION_LEVELS, 0);
        put_position(code, POSITION_BYTE, '.');
        /* "**.**." says no more than "**." and would need a longer skip. */
        while (pattern.len - to > 3 && memcmp(pattern.ptr + to, ".**.", 4) == 0)
            to += 3;
        return to + 1;
    }
    return to;
}

static void put_pattern(struct buf *code, struct slice pattern, bool source)
{
    while (pattern.len != 0 && pattern.ptr[0] == ' ')
        pattern = slice_of(pattern.ptr + 1, pattern.len - 1);
    while (pattern.len != 0 && pattern.ptr[pattern.len - 1] == ' ')
        --pattern.len;
    if (pattern.len == 0)
        return;
    put_position(code, POSITION_BYTE, '.');
    for (size_t i = 0; i < pattern.len;) {
        size_t to = i;
        while (to < pattern.len && pattern.ptr[to] == '*')
            ++to;
        if (to > i) {
            i = put_stars(code, pattern, i, to, source);
            continue;
        }
        if (pattern.ptr[i] == '\\' && i + 1 < pattern.len && pattern.ptr[i + 1] == '.')
            ++i; /* a dot inside a name */
        put_position(code, POSITION_BYTE, pattern.ptr[i++]);
    }
    put_position(code, POSITION_END, 0);
}

static void set_bit(uint64_t *vector, size_t at)
{
    vector[at / 64] |= (uint64_t)1 << (at % 64);
}

static void place(struct matcher *m, struct position position, size_t at)
{
    switch ((enum position_kind)position.kind) {
    case POSITION_BYTE:
        set_bit(m->by_byte + m->class_of[position.byte] * m->words, at);
        return;
    case POSITION_LEVELS:
        set_bit(m->skip_two, at);
        /* fall through */
    case POSITION_ANY:
        set_bit(m->loop_dot, at);
        /* fall through */
    case POSITION_NAME:
        set_bit(m->loop, at);
        set_bit(m->skip_one, at);
        return;
    case POSITION_END:
        set_bit(m->accept, at);
        return;
    }
}

static bool matcher_init(struct matcher *m, const struct buf *code)
{
    size_t count = code->len / sizeof(struct position);
    const uint8_t *p = code->ptr;
    struct position position;
    size_t classes = 1; /* class 0: bytes that no pattern has */
    if (code->failed)
        return false;
    for (size_t i = 0; i < count; i++) {
        memcpy(&position, p + i * sizeof position, sizeof position);
        if (position.kind == POSITION_BYTE && m->class_of[position.byte] == 0)
            m->class_of[position.byte] = (uint8_t)classes++;
    }
    size_t words = (count + 63) / 64;
    m->words = words;
    if (words == 0)
        return true;
    m->bits = calloc((6 + classes) * words, sizeof *m->bits);
    if (m->bits == NULL)
        return false;
    uint64_t **vector[] = {&m->start,    &m->accept,   &m->loop_dot, &m->loop,
                           &m->skip_one, &m->skip_two, &m->by_byte};
    for (size_t i = 0; i < ARRAY_LEN(vector); i++)
        *vector[i] = m->bits + i * words;
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        memcpy(&position, p + i * sizeof position, sizeof position);
        place(m, position, i);
        if (first)
            set_bit(m->start, i);
        first = position.kind == POSITION_END;
    }
    return true;
}

/* Positions only move up, so one pass from the lowest word carries everything. A skip of two leads
 * to the first position of a name, which may skip one but not two. */
static bool step_byte(const struct matcher *m, uint64_t *state, uint8_t byte, bool between)
{
    const uint64_t *go = m->by_byte + m->class_of[byte] * m->words;
    const uint64_t *stay = between ? m->loop_dot : m->loop;
    uint64_t moved = 0, skipped_one = 0, skipped_two = 0, alive = 0;
    for (size_t i = 0; i < m->words; i++) {
        uint64_t going = state[i] & go[i];
        uint64_t x = going << 1 | moved | (state[i] & stay[i]);
        moved = going >> 63;
        x |= skipped_two;
        uint64_t two = x & m->skip_two[i];
        x |= two << 2 | skipped_one;
        skipped_two = two >> 62;
        uint64_t one = x & m->skip_one[i];
        x |= one << 1;
        skipped_one = one >> 63;
        state[i] = x;
        alive |= x;
    }
    return alive != 0;
}

/* to (which may be from) = the state behind a key, or with NULL behind the '.' between two; false
 * when no pattern can match any more. */
static bool step(const struct matcher *m, const uint64_t *from, uint64_t *to,
                 const struct slice *key)
{
    memmove(to, from, m->words * sizeof *to);
    bool alive = m->words != 0;
    if (key == NULL)
        return alive && step_byte(m, to, '.', true);
    for (size_t i = 0; alive && i < key->len; i++)
        alive = step_byte(m, to, key->ptr[i], false);
    return alive;
}

static bool accepts(const struct matcher *m, const uint64_t *state)
{
    for (size_t i = 0; i < m->words; i++) {
        if ((state[i] & m->accept[i]) != 0)
            return true;
    }
    return false;
}

/* ---- making filters */

static bool next_pattern(struct slice *list, struct slice *pattern_out)
{
    if (list->len == 0)
        return false;
    const uint8_t *comma = memchr(list->ptr, ',', list->len);
    size_t n = comma != NULL ? (size_t)(comma - list->ptr) : list->len;
    *pattern_out = slice_of(list->ptr, n);
    n += comma != NULL;
    *list = slice_of(list->ptr + n, list->len - n);
    return true;
}

static struct filter *make(struct buf *includes, struct buf *excludes, bool source)
{
    struct filter *filter = NULL;
    if (includes->len != 0 || excludes->len != 0)
        filter = calloc(1, sizeof *filter);
    if (filter != NULL) {
        filter->source = source;
        if (!matcher_init(&filter->includes, includes) ||
            !matcher_init(&filter->excludes, excludes)) {
            filter_destroy(filter);
            filter = NULL;
        }
    }
    buf_done(includes);
    buf_done(excludes);
    return filter;
}

struct filter *filter_create(struct slice includes, struct slice excludes)
{
    struct buf in = {.ptr = NULL}, out = {.ptr = NULL};
    struct slice pattern;
    while (next_pattern(&includes, &pattern))
        put_pattern(&in, pattern, true);
    while (next_pattern(&excludes, &pattern))
        put_pattern(&out, pattern, true);
    return make(&in, &out, true);
}

struct filter *filter_create_path(struct slice patterns)
{
    struct buf in = {.ptr = NULL}, out = {.ptr = NULL};
    struct slice pattern;
    while (next_pattern(&patterns, &pattern)) {
        if (pattern.len != 0 && pattern.ptr[0] == '-')
            put_pattern(&out, slice_of(pattern.ptr + 1, pattern.len - 1), false);
        else
            put_pattern(&in, pattern, false);
    }
    return make(&in, &out, false);
}

void filter_destroy(struct filter *filter)
{
    if (filter == NULL)
        return;
    free(filter->includes.bits);
    free(filter->excludes.bits);
    free(filter);
}

/* ---- applying */

struct walk {
    const struct filter *filter;
    struct buf *out;
    struct buf states; /* slots: a state of includes and one of excludes each */
    struct buf key;    /* a key without its escapes */
};

/* What a place in the value means. */
struct verdict {
    bool included, excluded;
    bool inside; /* something below may be included, */
    bool except; /* or excluded */
};

static uint64_t *slot_at(struct walk *walk, size_t slot)
{
    const struct filter *f = walk->filter;
    size_t bytes = (f->includes.words + f->excludes.words) * sizeof(uint64_t);
    size_t need = (slot + 1) * bytes;
    if (need > walk->states.cap) {
        walk->states.len = walk->states.cap;
        if (!buf_reserve(&walk->states, need - walk->states.cap))
            return NULL;
    }
    return (uint64_t *)(void *)walk->states.ptr + slot * (bytes / sizeof(uint64_t));
}

/* Slot `to` becomes the state behind slot `from` and a key, or the '.' between two (NULL). False
 * when memory is out. */
static bool advance(struct walk *walk, size_t from, size_t to, const struct slice *key,
                    struct verdict *verdict_out)
{
    const struct filter *f = walk->filter;
    uint64_t *y = slot_at(walk, to);
    if (y == NULL) {
        walk->out->failed = true;
        return false;
    }
    const uint64_t *x = slot_at(walk, from);
    verdict_out->inside = step(&f->includes, x, y, key);
    verdict_out->except = step(&f->excludes, x + f->includes.words, y + f->includes.words, key);
    verdict_out->included = verdict_out->inside && accepts(&f->includes, y);
    verdict_out->excluded = verdict_out->except && accepts(&f->excludes, y + f->includes.words);
    return true;
}

static struct slice key_text(struct walk *walk, struct slice key)
{
    struct slice text;
    if (json_plain(key, &text))
        return text;
    walk->key.len = 0;
    json_unquote(key, &walk->key);
    return buf_slice(&walk->key);
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool put_value(struct walk *walk, struct json_scan *scan, size_t slot, bool included);

/* The member or element whose value scan stands on: its bytes from `from`, its value filtered.
 * Nothing stays in out when nothing of it is kept. */
static bool put_part(struct walk *walk, struct json_scan *scan, const uint8_t *from,
                     const uint8_t *behind_last, bool comma, size_t slot, bool included,
                     bool keep_empty)
{
    size_t out_len = walk->out->len;
    while (from > behind_last && is_space(from[-1]))
        --from;
    if (comma)
        BUF_PUT_LIT(walk->out, ",");
    buf_put(walk->out, from, (size_t)(scan->p - from));
    if (put_value(walk, scan, slot, included) || (keep_empty && included))
        return true;
    walk->out->len = out_len;
    return false;
}

/* Slot + 1 holds the state behind the '.'. True unless nothing is left. */
static bool put_object(struct walk *walk, struct json_scan *scan, size_t slot, bool included)
{
    size_t kept = 0, dropped = 0;
    struct slice key;
    const uint8_t *last = ++scan->p;
    BUF_PUT_LIT(walk->out, "{");
    for (; json_next_key(scan, &key); last = scan->p) {
        struct verdict v;
        struct slice text = key_text(walk, key);
        if (!advance(walk, slot + 1, slot + 2, &text, &v))
            return false;
        v.included |= included;
        if (v.excluded || (!v.included && !v.inside)) {
            json_take(scan);
            ++dropped;
        } else if (put_part(walk, scan, key.ptr, last, kept != 0, slot + 2, v.included,
                            walk->filter->source)) {
            ++kept;
        } else {
            ++dropped;
        }
    }
    if (kept != 0)
        buf_put(walk->out, last, (size_t)(scan->p - last));
    BUF_PUT_LIT(walk->out, "}");
    scan->p += scan->p < scan->end;
    return kept != 0 || (included && dropped == 0);
}

static bool put_array(struct walk *walk, struct json_scan *scan, size_t slot, bool included)
{
    size_t kept = 0, dropped = 0;
    const uint8_t *last = ++scan->p;
    BUF_PUT_LIT(walk->out, "[");
    for (; !walk->out->failed && json_next_element(scan); last = scan->p) {
        if (put_part(walk, scan, scan->p, last, kept != 0, slot, included, false))
            ++kept;
        else
            ++dropped;
    }
    if (kept != 0)
        buf_put(walk->out, last, (size_t)(scan->p - last));
    BUF_PUT_LIT(walk->out, "]");
    scan->p += scan->p < scan->end;
    return kept != 0 || (included && dropped == 0);
}

/* Append what is kept of the value that scan stands on, and pass over it. Slot holds the state
 * behind its path. False when nothing is kept: out then ends in {}, [] or nothing. */
static bool put_value(struct walk *walk, struct json_scan *scan, size_t slot, bool included)
{
    enum json_type type = json_peek(scan);
    bool container = type == JSON_OBJECT || type == JSON_ARRAY;
    struct verdict below = {.inside = false};
    if (container && !advance(walk, slot, slot + 1, NULL, &below))
        return false;
    if (included && !below.except) {
        buf_put_slice(walk->out, json_take(scan).text);
        return true;
    }
    if (!included && !below.inside) {
        json_take(scan);
        return false;
    }
    return type == JSON_OBJECT ? put_object(walk, scan, slot, included)
                               : put_array(walk, scan, slot, included);
}

/* Slot 0 becomes the state behind path (empty: the root); a part of path may have decided. */
static bool walk_begin(struct walk *walk, const struct filter *filter, const char *path,
                       struct buf *out, bool *included_out, bool *excluded_out)
{
    *walk = (struct walk){.filter = filter, .out = out};
    uint64_t *state = slot_at(walk, 0);
    if (state == NULL) {
        out->failed = true;
        return false;
    }
    const struct matcher *in = &filter->includes, *ex = &filter->excludes;
    if (in->words != 0)
        memcpy(state, in->start, in->words * sizeof *state);
    if (ex->words != 0)
        memcpy(state + in->words, ex->start, ex->words * sizeof *state);
    bool included = in->words == 0, excluded = false;
    while (*path != '\0') {
        size_t n = strcspn(path, ".");
        struct slice key = slice_of(path, n);
        struct verdict v;
        if (!advance(walk, 0, 0, NULL, &v) || !advance(walk, 0, 0, &key, &v))
            return false;
        included |= v.included;
        excluded |= v.excluded;
        path += n + (path[n] == '.');
    }
    *included_out = included;
    *excluded_out = excluded;
    return true;
}

static void walk_done(struct walk *walk)
{
    walk->out->failed |= walk->key.failed;
    buf_done(&walk->states);
    buf_done(&walk->key);
}

void filter_apply(const struct filter *filter, struct json_value value, struct buf *out)
{
    struct walk walk;
    bool included, excluded;
    if (filter == NULL) {
        buf_put_slice(out, value.text);
        return;
    }
    size_t out_len = out->len;
    if (walk_begin(&walk, filter, "", out, &included, &excluded)) {
        struct json_scan scan = {value.text.ptr, value.text.ptr + value.text.len};
        bool kept = put_value(&walk, &scan, 0, included);
        if (!kept && value.type == JSON_OBJECT && !out->failed) {
            out->len = out_len;
            BUF_PUT_LIT(out, "{}");
        }
    }
    walk_done(&walk);
}

bool filter_wants(const struct filter *filter, const char *path)
{
    if (filter == NULL)
        return true;
    struct buf none = {.ptr = NULL};
    struct walk walk;
    struct verdict below;
    bool included, excluded;
    /* Without memory the value itself will say so. */
    bool wants = true;
    if (walk_begin(&walk, filter, path, &none, &included, &excluded) &&
        advance(&walk, 0, 0, NULL, &below))
        wants = !excluded && (included || below.inside);
    walk_done(&walk);
    return wants;
}

bool filter_apply_at(const struct filter *filter, const char *path, struct json_value value,
                     struct buf *out)
{
    if (filter == NULL) {
        buf_put_slice(out, value.text);
        return true;
    }
    size_t out_len = out->len;
    struct walk walk;
    bool included, excluded, kept = false;
    if (walk_begin(&walk, filter, path, out, &included, &excluded) && !excluded) {
        struct json_scan scan = {value.text.ptr, value.text.ptr + value.text.len};
        kept = put_value(&walk, &scan, 0, included);
    }
    if (!kept)
        out->len = out_len;
    walk_done(&walk);
    return kept;
}
