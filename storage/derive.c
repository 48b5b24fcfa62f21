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

static const struct cell *cell_behind(struct derive_column *column, uint32_t row)
{
    uint32_t i = column->cursor;
    while (i < column->n && column->cells[i].row < row)
        i++;
    column->cursor = i;
    return i < column->n && column->cells[i].row == row ? &column->cells[i] : NULL;
}

/* The value of a column in a row; rows are asked for in rising order. */
ALWAYS_INLINE const struct cell *cell_of(struct derive_column *column, uint32_t row)
{
    const struct cell *cells = column->cells;
    /* Most columns have a value in every row. */
    return row < column->n && cells[row].row == row ? &cells[row] : cell_behind(column, row);
}

/* ---- learning */

static const bool in_word[256] = {['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true};

#define SOURCE_NONE UINT32_MAX

struct source {
    uint32_t column;
    uint32_t next; /* that begins with the same byte */
    struct cell cell;
};

struct sources {
    uint32_t count;
    uint32_t first[256], last[256]; /* by the byte that they begin with */
    struct source list[];
};

/* Other values of the row that may be referred to. */
static void gather(struct sources *s, struct derive_column *columns, size_t count, size_t target,
                   uint32_t row)
{
    s->count = 0;
    memset(s->first, 0xff, sizeof s->first);
    for (size_t i = 0; i < count; i++) {
        if (i == target || columns[i].derived)
            continue;
        const struct cell *cell = cell_of(&columns[i], row);
        if (cell == NULL || cell->len == 0)
            continue;
        uint8_t c = cell->ptr[0];
        if (s->first[c] == SOURCE_NONE)
            s->first[c] = s->count;
        else
            s->list[s->last[c]].next = s->count;
        s->last[c] = s->count;
        s->list[s->count++] = (struct source){(uint32_t)i, SOURCE_NONE, *cell};
    }
}

/* The longest source that stands at text + at as whole words, or NULL. */
static const struct source *longest_at(const struct sources *s, struct slice text, size_t at)
{
    const struct source *best = NULL;
    const uint8_t *p = text.ptr + at;
    uint32_t i = s->first[*p];
    if (i == SOURCE_NONE || (at > 0 && in_word[p[-1]] && in_word[*p]))
        return NULL;
    for (; i != SOURCE_NONE; i = s->list[i].next) {
        const struct cell *c = &s->list[i].cell;
        if (c->len > text.len - at || (best != NULL && c->len <= best->cell.len) ||
            !bytes_eq(c->ptr, p, c->len))
            continue;
        if (c->len < text.len - at && in_word[p[c->len]] && in_word[p[c->len - 1]])
            continue;
        best = &s->list[i];
    }
    return best;
}

/* False when less than half of the text comes from other columns. */
static bool learn(const struct sources *s, struct slice text, struct template *out)
{
    size_t literal = 0, most = text.len / 2 < LITERALS_MAX ? text.len / 2 : LITERALS_MAX;
    out->parts = 0;
    out->literals_len = 0;
    for (size_t i = 0; i < text.len;) {
        const struct source *source = out->parts == PARTS_MAX ? NULL : longest_at(s, text, i);
        if (source == NULL) {
            if (out->literals_len == most)
                return false;
            out->literals[out->literals_len++] = text.ptr[i++];
            literal++;
            continue;
        }
        out->literal_len[out->parts] = (uint16_t)literal;
        out->column[out->parts++] = source->column;
        i += source->cell.len;
        literal = 0;
    }
    out->literal_len[out->parts] = (uint16_t)literal;
    return true;
}

static bool gives(const struct template *t, struct derive_column *columns, struct slice text,
                  uint32_t row)
{
    const uint8_t *literal = t->literals, *p = text.ptr, *end = p + text.len;
    for (uint32_t i = 0; i < t->parts; i++) {
        const struct cell *cell = cell_of(&columns[t->column[i]], row);
        uint32_t before = t->literal_len[i];
        if (cell == NULL || (size_t)(end - p) < (size_t)before + cell->len)
            return false;
        /* Most are single bytes. */
        for (; before > 0; before--)
            if (*p++ != *literal++)
                return false;
        if (!bytes_eq(p, cell->ptr, cell->len))
            return false;
        p += cell->len;
    }
    size_t tail = t->literal_len[t->parts];
    return (size_t)(end - p) == tail && bytes_eq(p, literal, tail);
}

/* ---- packing */

static bool worth_trying(const struct derive_column *column)
{
    size_t len = 0, n = column->n;
    if (!column->text || column->referred || n < 4)
        return false;
    for (size_t i = 0; i < n && len < n * LENGTH_MIN; i++)
        len += column->cells[i].len;
    return len >= n * LENGTH_MIN && !cells_all_eq(column->cells, n);
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

/* The last eight bytes of a text, or as many as there are: the last one highest. */
static uint64_t ending_of(struct slice text)
{
    uint64_t ending = 0;
    if (text.len >= sizeof ending)
        return get_u64(text.ptr + text.len - sizeof ending);
    for (size_t i = 0; i < text.len; i++)
        ending = ending >> 8 | (uint64_t)text.ptr[i] << 56;
    return ending;
}

struct search {
    struct template list[DERIVE_TEMPLATES_MAX];
    /* By template: a text that it gives ends in these bytes, as far as the mask goes. Most
     * templates that do not fit are told by that, without a look into them. */
    struct {
        uint64_t bytes, mask;
    } ending[DERIVE_TEMPLATES_MAX];
    size_t count, failures, exceptions;
    struct sources sources; /* ends in an array */
};

/* Number of a template for a value, a new one if need be; NUMBER_NONE. */
static unsigned number_for(struct search *s, struct derive_column *columns, size_t count,
                           size_t target, const struct cell *value)
{
    struct slice text = cell_slice(value);
    uint64_t ending = ending_of(text);
    for (size_t t = 0; t < s->count; t++)
        if (((ending ^ s->ending[t].bytes) & s->ending[t].mask) == 0 &&
            gives(&s->list[t], columns, text, value->row))
            return (unsigned)t;
    if (s->count == DERIVE_TEMPLATES_MAX || s->failures == FAILURES_MAX)
        return NUMBER_NONE;
    gather(&s->sources, columns, count, target, value->row);
    struct template *t = &s->list[s->count];
    if (!learn(&s->sources, text, t)) {
        s->failures++;
        return NUMBER_NONE;
    }
    size_t tail = t->literal_len[t->parts];
    s->ending[s->count].bytes = ending;
    s->ending[s->count].mask = tail >= 8 ? UINT64_MAX : ~(UINT64_MAX >> 8 * tail);
    return (unsigned)s->count++;
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
    if (!buf_reserve(&scratch->work, sizeof(struct search) + count * sizeof(struct source)))
        return false;
    void *work = scratch->work.ptr; /* as aligned as memory comes */
    struct search *s = work;
    s->count = s->failures = s->exceptions = 0;
    bool found = find_templates(s, columns, count, target, scratch);
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
