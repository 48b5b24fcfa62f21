/* SPDX-License-Identifier: Apache-2.0 */
/* Finding templates and applying them; D1 and D2 in derive.h. A template is learned from one value:
 * from left to right, the longest value of the same row that stands there as whole words becomes a
 * reference, everything else literal. A value that no template gives is one more to learn from. */
#include "storage/derive.h"

#define PARTS_MAX    32u
#define LITERALS_MAX 512u
/* Shorter strings are left alone: a dictionary of them is small. */
#define LENGTH_MIN 16u
/* Values that could not be learned from, after which a column is given up. */
#define FAILURES_MAX 4u
/* No template: the value is an exception. */
#define NUMBER_NONE 255

struct template
{
    uint32_t parts;
    uint32_t column[PARTS_MAX];
    uint16_t literal_len[PARTS_MAX + 1]; /* before each reference; the last: behind them */
    uint32_t literals_len;
    uint8_t literals[LITERALS_MAX];
};

/* The value of a column in a row; rows are asked for in rising order. */
static const struct cell *cell_of(struct derive_column *column, uint32_t row)
{
    uint32_t i = column->cursor;
    while (i < column->n && column->cells[i].row < row)
        i++;
    column->cursor = i;
    return i < column->n && column->cells[i].row == row ? &column->cells[i] : NULL;
}

/* ---- learning */

static bool in_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct sources {
    size_t count;
    uint32_t *column;
    struct cell *cell;
    uint64_t first[4]; /* set of the bytes that one begins with */
};

/* Other values of the row that may be referred to. */
static void gather(struct sources *s, struct derive_column *columns, size_t count, size_t target,
                   uint32_t row)
{
    s->count = 0;
    memset(s->first, 0, sizeof s->first);
    for (size_t i = 0; i < count; i++) {
        if (i == target || columns[i].derived)
            continue;
        const struct cell *cell = cell_of(&columns[i], row);
        if (cell == NULL || cell->len == 0)
            continue;
        s->first[cell->ptr[0] / 64] |= UINT64_C(1) << cell->ptr[0] % 64;
        s->column[s->count] = (uint32_t)i;
        s->cell[s->count++] = *cell;
    }
}

/* The longest source that stands at text + at as whole words; SIZE_MAX: none. */
static size_t longest_at(const struct sources *s, struct slice text, size_t at)
{
    size_t best = SIZE_MAX, best_len = 0;
    const uint8_t *p = text.ptr + at;
    if ((s->first[*p / 64] >> *p % 64 & 1) == 0 || (at > 0 && in_word(p[-1]) && in_word(*p)))
        return SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        const struct cell *c = &s->cell[i];
        if (c->len <= best_len || c->len > text.len - at || c->ptr[0] != *p ||
            memcmp(c->ptr, p, c->len) != 0)
            continue;
        if (c->len < text.len - at && in_word(p[c->len]) && in_word(p[c->len - 1]))
            continue;
        best = i;
        best_len = c->len;
    }
    return best;
}

/* False when less than half of the text comes from other columns. */
static bool learn(const struct sources *s, struct slice text, struct template *out)
{
    size_t covered = 0, literal = 0;
    out->parts = 0;
    out->literals_len = 0;
    for (size_t i = 0; i < text.len;) {
        size_t source = out->parts == PARTS_MAX ? SIZE_MAX : longest_at(s, text, i);
        if (source == SIZE_MAX) {
            if (out->literals_len == LITERALS_MAX)
                return false;
            out->literals[out->literals_len++] = text.ptr[i++];
            literal++;
            continue;
        }
        out->literal_len[out->parts] = (uint16_t)literal;
        out->column[out->parts++] = s->column[source];
        covered += s->cell[source].len;
        i += s->cell[source].len;
        literal = 0;
    }
    out->literal_len[out->parts] = (uint16_t)literal;
    return covered * 2 >= text.len;
}

static bool gives(const struct template *t, struct derive_column *columns, struct slice text,
                  uint32_t row)
{
    const uint8_t *literal = t->literals, *p = text.ptr, *end = text.ptr + text.len;
    for (uint32_t i = 0; i <= t->parts; i++) {
        size_t len = t->literal_len[i];
        if ((size_t)(end - p) < len || memcmp(p, literal, len) != 0)
            return false;
        p += len;
        literal += len;
        if (i == t->parts)
            break;
        const struct cell *cell = cell_of(&columns[t->column[i]], row);
        if (cell == NULL || (size_t)(end - p) < cell->len || memcmp(p, cell->ptr, cell->len) != 0)
            return false;
        p += cell->len;
    }
    return p == end;
}

/* ---- packing */

static bool worth_trying(const struct derive_column *column)
{
    size_t len = 0, n = column->n;
    const struct cell *first = &column->cells[0];
    bool constant = true;
    if (!column->text || column->referred || n < 4)
        return false;
    for (size_t i = 0; i < n; i++) {
        len += column->cells[i].len;
        constant = constant && column->cells[i].len == first->len &&
                   memcmp(column->cells[i].ptr, first->ptr, first->len) == 0;
    }
    return !constant && len >= n * LENGTH_MIN;
}

static void put_templates(struct streams *out, const struct template *list, size_t count)
{
    buf_put_varint(&out->directory, count);
    for (size_t i = 0; i < count; i++) {
        buf_put_varint(&out->directory, list[i].parts);
        for (uint32_t k = 0; k < list[i].parts; k++) {
            buf_put_varint(&out->directory, list[i].literal_len[k]);
            buf_put_varint(&out->directory, list[i].column[k]);
        }
        buf_put_varint(&out->directory, list[i].literal_len[list[i].parts]);
        buf_put(&out->text, list[i].literals, list[i].literals_len);
    }
}

struct search {
    struct template list[DERIVE_TEMPLATES_MAX];
    size_t count, failures, exceptions;
    struct sources sources;
};

/* Number of a template for a value, a new one if need be; NUMBER_NONE. */
static unsigned number_for(struct search *s, struct derive_column *columns, size_t count,
                           size_t target, const struct cell *value)
{
    struct slice text = cell_slice(value);
    for (size_t t = 0; t < s->count; t++)
        if (gives(&s->list[t], columns, text, value->row))
            return (unsigned)t;
    if (s->count == DERIVE_TEMPLATES_MAX || s->failures == FAILURES_MAX)
        return NUMBER_NONE;
    gather(&s->sources, columns, count, target, value->row);
    if (learn(&s->sources, text, &s->list[s->count]))
        return (unsigned)s->count++;
    s->failures++;
    return NUMBER_NONE;
}

static bool find_templates(struct search *s, struct derive_column *columns, size_t count,
                           size_t target, struct column_scratch *scratch)
{
    const struct derive_column *column = &columns[target];
    for (size_t i = 0; i < count; i++)
        columns[i].cursor = 0;
    scratch->bytes.len = 0;
    for (uint32_t k = 0; k < column->n; k++) {
        unsigned number = number_for(s, columns, count, target, &column->cells[k]);
        buf_put_byte(&scratch->bytes, (uint8_t)number);
        if (number != NUMBER_NONE)
            continue;
        if (s->count == 0 && s->failures == 2)
            return false; /* not this kind of column */
        scratch->uniques[s->exceptions++] = column->cells[k];
        if (s->exceptions > column->n / 4)
            return false;
    }
    return !scratch->bytes.failed;
}

bool derive_put(struct streams *out, struct derive_column *columns, size_t count, size_t target,
                struct column_scratch *scratch)
{
    struct derive_column *column = &columns[target];
    if (!worth_trying(column))
        return false;
    struct search *s = malloc(sizeof *s);
    uint32_t *source_column = malloc(count * sizeof *source_column);
    struct cell *source_cell = malloc(count * sizeof *source_cell);
    bool found = false;
    if (s != NULL && source_column != NULL && source_cell != NULL) {
        s->count = s->failures = s->exceptions = 0;
        s->sources.column = source_column;
        s->sources.cell = source_cell;
        found = find_templates(s, columns, count, target, scratch);
    }
    if (found) {
        put_templates(out, s->list, s->count);
        buf_put_varint(&out->directory, s->exceptions);
        if (s->count > 1 || s->exceptions > 0)
            buf_put_slice(&out->planes, buf_slice(&scratch->bytes));
        if (s->exceptions > 0)
            sequence_put_text(out, scratch->uniques, s->exceptions);
        for (size_t t = 0; t < s->count; t++)
            for (uint32_t i = 0; i < s->list[t].parts; i++)
                columns[s->list[t].column[i]].referred = true;
        column->derived = true;
    }
    free(s);
    free(source_column);
    free(source_cell);
    return found;
}

/* ---- reading */

enum rc derive_open(struct derived **out, uint64_t n, struct stream_readers *in,
                    struct arena *arena, const char **what_out)
{
    uint64_t count = take_varint(&in->directory);
    if (count == 0 || count > DERIVE_TEMPLATES_MAX || n == 0 || n > UINT32_MAX)
        return RC_CORRUPT;
    struct derived *d = arena_get(arena, 1, sizeof *d + (size_t)count * sizeof d->template[0]);
    if (d == NULL)
        return RC_NOMEM;
    *d = (struct derived){.n = (uint32_t)n, .templates = (uint32_t)count};
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *from = in->directory.p;
        uint64_t parts = take_varint(&in->directory), len = 0;
        if (parts > PARTS_MAX)
            return RC_CORRUPT;
        for (uint64_t k = 0; k <= parts; k++) {
            uint64_t literal = take_varint(&in->directory);
            if (literal > LITERALS_MAX)
                return RC_CORRUPT;
            len += literal;
            if (k < parts)
                take_varint(&in->directory);
        }
        d->template[i].parts = slice_of(from, (size_t)(in->directory.p - from));
        d->template[i].literals = take_bytes(&in->text, len);
    }
    uint64_t exceptions = take_varint(&in->directory);
    if (in->directory.bad || in->text.bad || exceptions > n)
        return RC_CORRUPT;
    if ((count > 1 || exceptions > 0) && (d->numbers = take_planes(in, n)) == NULL)
        return RC_CORRUPT;
    *out = d;
    return exceptions == 0 ? RC_OK : sequence_open(&d->exceptions, exceptions, in, arena, what_out);
}

bool derive_get(const struct derived *derived, uint32_t k,
                bool (*refer)(void *arg, uint64_t column, struct buf *out), void *arg,
                struct buf *out)
{
    unsigned number = 0;
    if (k >= derived->n)
        return false;
    if (derived->numbers != NULL)
        number = derived->numbers[k];
    if (number == NUMBER_NONE) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < k; i++)
            before += derived->numbers[i] == NUMBER_NONE;
        return sequence_get(&derived->exceptions, before, out);
    }
    if (number >= derived->templates)
        return false;
    struct reader parts = reader_of(derived->template[number].parts);
    struct reader literals = reader_of(derived->template[number].literals);
    uint64_t count = take_varint(&parts);
    for (uint64_t i = 0; i <= count; i++) {
        buf_put_slice(out, take_bytes(&literals, take_varint(&parts)));
        if (i < count && !refer(arg, take_varint(&parts), out))
            return false;
    }
    return !parts.bad && !literals.bad;
}
