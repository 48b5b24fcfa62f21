/* SPDX-License-Identifier: Apache-2.0 */
/* Packing a column's values; K1 in column.h.
 *
 * What a column becomes is chosen by estimates of its entropy in eighths of bits, as the streams
 * are compressed afterwards: small numbers at fixed widths cost a compressor little. */
#include "storage/column.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Values looked at to find a type's form. */
#define SAMPLES_MAX 32u
/* A column with more different values than this share is no dictionary: none of the first
 * NOVEL_LOOK, or no more than 2 of 3 in all, come again. */
#define NOVEL_LOOK 64u

void streams_done(struct streams *streams)
{
    buf_done(&streams->directory);
    buf_done(&streams->text);
    buf_done(&streams->planes);
}

bool column_scratch_init(struct column_scratch *scratch, size_t most)
{
    size_t hashed = 64;
    while (hashed < 2 * most)
        hashed *= 2;
    *scratch = (struct column_scratch){
        .most = most,
        .numbers = malloc((most + 1) * sizeof *scratch->numbers),
        .places = malloc((most + 1) * sizeof *scratch->places),
        .hashed = calloc(hashed, sizeof *scratch->hashed),
        .exceptions = malloc((most + 1) * sizeof *scratch->exceptions),
        .uniques = malloc((most + 1) * sizeof *scratch->uniques),
    };
    if (scratch->numbers != NULL && scratch->places != NULL && scratch->hashed != NULL &&
        scratch->exceptions != NULL && scratch->uniques != NULL)
        return true;
    column_scratch_done(scratch);
    return false;
}

void column_scratch_done(struct column_scratch *scratch)
{
    free(scratch->numbers);
    free(scratch->places);
    free(scratch->hashed);
    free(scratch->exceptions);
    free(scratch->uniques);
    buf_done(&scratch->bytes);
    buf_done(&scratch->work);
    *scratch = (struct column_scratch){0};
}

/* ---- writing planes */

/* Without a branch: zeros come and go. */
static unsigned bits_of(uint64_t v)
{
    return ((unsigned)__builtin_clzll(v | 1) ^ 63) + (v != 0);
}

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

/* Numbers of `size` bytes, a constant in each use. */
ALWAYS_INLINE void put_planes(struct buf *planes, const void *numbers, const size_t size, size_t n,
                              unsigned width)
{
    const uint32_t *narrow = numbers;
    const uint64_t *wide = numbers;
    if (width == 0 || !buf_reserve(planes, n * width))
        return;
    uint8_t *restrict p = planes->ptr + planes->len;
    for (unsigned b = 0; b < width; b++, p += n)
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(size == sizeof *narrow ? narrow[i] >> (8 * b) : wide[i] >> (8 * b));
    planes->len += n * width;
}

void planes_put_u32(struct buf *planes, const uint32_t *v, size_t n, unsigned width)
{
    put_planes(planes, v, sizeof *v, n, width);
}

static void planes_put_u64(struct buf *planes, const uint64_t *v, size_t n, unsigned width)
{
    put_planes(planes, v, sizeof *v, n, width);
}

/* ---- texts */

static size_t texts_length(const struct cell *cells, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += cells[i].len;
    return len;
}

/* n texts, each ended by a zero. */
static void put_texts(struct streams *out, const struct cell *cells, size_t n)
{
    size_t len = texts_length(cells, n) + n;
    buf_put_varint(&out->directory, len);
    if (!buf_reserve(&out->text, len))
        return;
    uint8_t *p = out->text.ptr + out->text.len;
    for (size_t i = 0; cells_ahead(cells, i, n); i++) {
        bytes_copy(p, cells[i].ptr, cells[i].len);
        p += cells[i].len;
        *p++ = 0;
    }
    out->text.len += len;
}

void sequence_put_text(struct streams *out, const struct cell *cells, size_t n)
{
    buf_put_byte(&out->directory, SEQUENCE_TEXT);
    put_texts(out, cells, n);
}

/* n texts that may hold zeros, and their lengths. */
static void put_counted(struct streams *out, const struct cell *cells, size_t n,
                        struct column_scratch *scratch)
{
    uint32_t most = 0;
    size_t len = texts_length(cells, n);
    if (!buf_reserve(&out->text, len))
        return;
    uint8_t *p = out->text.ptr + out->text.len;
    for (size_t i = 0; i < n; i++) {
        scratch->exceptions[i] = cells[i].len;
        most = cells[i].len > most ? cells[i].len : most;
        bytes_copy(p, cells[i].ptr, cells[i].len);
        p += cells[i].len;
    }
    out->text.len += len;
    unsigned width = bytes_for(most);
    buf_put_byte(&out->directory, SEQUENCE_COUNTED);
    buf_put_varint(&out->directory, len);
    buf_put_byte(&out->directory, (uint8_t)width);
    planes_put_u32(&out->planes, scratch->exceptions, n, width);
}

/* ---- typed sequences */

/* A type that fits most of the values, and what it costs. */
struct typed {
    struct value_form form;
    size_t exceptions; /* their places are in scratch->exceptions */
    bool delta;
    uint64_t cost; /* eighths of bits */
};

static uint64_t text_cost(const struct cell *cells, size_t n)
{
    return (texts_length(cells, n) + n) * 24;
}

static uint64_t number_cost(const int64_t *v, size_t n, bool *delta_out)
{
    int64_t min = v[0], before = v[0];
    uint64_t plain = 0, steps = 0;
    for (size_t i = 1; i < n; i++)
        min = v[i] < min ? v[i] : min;
    for (size_t i = 0; i < n; i++) {
        plain += bits_of((uint64_t)v[i] - (uint64_t)min);
        steps += bits_of(zigzag((int64_t)((uint64_t)v[i] - (uint64_t)before)));
        before = v[i];
    }
    *delta_out = steps * 20 < plain * 17;
    return (*delta_out ? steps : plain) * 8 + 64;
}

/* convert, of the different values only, which find_uniques found; false if one is an exception. */
static bool convert_uniques(const struct value_form *form, size_t count, size_t n, size_t size,
                            struct column_scratch *scratch)
{
    const uint32_t *places = scratch->places;
    int64_t *v = scratch->numbers;
    uint8_t *bytes = scratch->bytes.ptr;
    size_t done = size == 0 ? value_parse_run(form, scratch->uniques, count, v)
                            : value_pack_run(form, scratch->uniques, count, bytes);
    if (done != count)
        return false;
    /* To each value from its place, which is never behind it: the last ones first, in place. */
    for (size_t i = n; i-- > 0;) {
        if (size == 0)
            v[i] = v[places[i]];
        else if (places[i] != i)
            bytes_copy(bytes + i * size, bytes + places[i] * size, size);
    }
    return true;
}

/* Bring all values into a form: numbers or fixed bytes and the places of exceptions, in scratch.
 * False when there are too many of them. uniques: how many different values find_uniques found
 * among these, 0: not known. */
static bool convert(const struct value_form *form, const struct cell *cells, size_t n,
                    size_t uniques, struct column_scratch *scratch, struct typed *out)
{
    size_t typed = 0, size = value_is_number(form->type) ? 0 : value_bytes(form);
    uint64_t exception_cost = 0;
    out->form = *form;
    out->exceptions = 0;
    scratch->bytes.len = 0;
    if (size != 0 && !buf_reserve(&scratch->bytes, n * size + VALUE_BYTES_MAX))
        return false;
    if (uniques != 0 && convert_uniques(form, uniques, n, size, scratch))
        typed = n;
    for (size_t i = typed; i < n; i++) {
        size_t run =
            size == 0 ? value_parse_run(form, cells + i, n - i, scratch->numbers + typed)
                      : value_pack_run(form, cells + i, n - i, scratch->bytes.ptr + typed * size);
        typed += run;
        i += run;
        if (i == n)
            break;
        if (out->exceptions >= n / 8)
            return false;
        scratch->exceptions[out->exceptions++] = (uint32_t)i;
        exception_cost += (uint64_t)cells[i].len * 24 + 128;
    }
    if (typed == 0)
        return false;
    out->delta = false;
    out->cost = exception_cost +
                (size == 0 ? number_cost(scratch->numbers, typed, &out->delta) : typed * size * 24);
    return true;
}

/* Cells from all over the column, from `start` on. */
static void take_samples(const struct cell *cells, size_t n, size_t start, struct slice *samples,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = start + i * n / count;
        samples[i] = cell_slice(&cells[at < n ? at : at - n]);
    }
}

static bool find_type(const struct cell *cells, size_t n, size_t uniques, unsigned flags,
                      struct column_scratch *scratch, struct typed *out)
{
    struct slice samples[SAMPLES_MAX];
    size_t count = n < SAMPLES_MAX ? n : SAMPLES_MAX;
    /* Floats before decimals, which they look like. */
    static const uint8_t types[] = {VALUE_INTEGER, VALUE_FLOAT32,  VALUE_DECIMAL, VALUE_IPV4,
                                    VALUE_CLF,     VALUE_NUMBERED, VALUE_UUID,    VALUE_TIMESTAMP,
                                    VALUE_HEX,     VALUE_BASE64URL};
    /* The first value may be an exception: then another one has its turn. */
    for (size_t turn = 0; turn < 3; turn++) {
        size_t start = turn * (n / 3 | 1) % n;
        if (cells[start].len == 0 || cells[start].len >= VALUE_TEXT_MAX)
            continue;
        unsigned candidates = value_candidates(cell_slice(&cells[start]));
        if (!(flags & COLUMN_IDS))
            candidates &= ~(1u << VALUE_BASE64URL);
        if (candidates != 0)
            take_samples(cells, n, start, samples, count);
        for (size_t i = 0; candidates != 0 && i < ARRAY_LEN(types); i++) {
            struct value_form form;
            if ((candidates >> types[i] & 1) == 0)
                continue;
            if (value_guess((enum value_type)types[i], samples, count, &form) &&
                convert(&form, cells, n, uniques, scratch, out))
                return true;
        }
        if (n < 8)
            break; /* no exceptions among so few */
    }
    return false;
}

static void put_numbers(struct streams *out, int64_t *v, size_t n, bool delta)
{
    int64_t base = v[0];
    uint64_t most = 0, *u = (uint64_t *)v; /* in place: the same type but for its sign */
    if (delta) {
        uint64_t before = u[0];
        for (size_t i = 0; i < n; i++) {
            uint64_t this = u[i];
            u[i] = zigzag((int64_t)(this - before));
            before = this;
            most |= u[i];
        }
    } else {
        for (size_t i = 1; i < n; i++)
            base = v[i] < base ? v[i] : base;
        for (size_t i = 0; i < n; i++) {
            u[i] -= (uint64_t)base;
            most |= u[i];
        }
    }
    unsigned width = bytes_for(most);
    buf_put_byte(&out->directory, (uint8_t)(width | (delta && width != 0 ? 0x80u : 0)));
    buf_put_varint(&out->directory, zigzag(base));
    planes_put_u64(&out->planes, u, n, width);
}

/* Sixteen bytes as lanes, and so many of them that their counts fit in a byte. */
typedef uint8_t lanes __attribute__((vector_size(16)));
#define LANES_RUN 15u

static lanes lanes_at(const uint8_t *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static size_t lanes_sum(lanes v)
{
    uint64_t half[2];
    memcpy(half, &v, sizeof half);
    return (half[0] + half[1]) * UINT64_C(0x0101010101010101) >> 56;
}

/* Is a plane better kept as differences: do more of them repeat than of the bytes? */
static bool steps_repeat(const uint8_t *plane, size_t n)
{
    size_t same = 0, same_step = 0, i = 0;
    uint8_t before = 0, step_before = 0;
    for (; i < n && i < 2; i++) {
        uint8_t step = (uint8_t)(plane[i] - before);
        same += plane[i] == before;
        same_step += step == step_before;
        before = plane[i];
        step_before = step;
    }
    while (i + sizeof(lanes) <= n) {
        lanes sums = {0}, step_sums = {0};
        for (unsigned k = 0; k < LANES_RUN && i + sizeof(lanes) <= n; k++, i += sizeof(lanes)) {
            lanes v = lanes_at(plane + i), one = lanes_at(plane + i - 1);
            sums -= (lanes)(v == one);
            step_sums -= (lanes)(v - one == one - lanes_at(plane + i - 2));
        }
        same += lanes_sum(sums);
        same_step += lanes_sum(step_sums);
        before = plane[i - 1];
        step_before = (uint8_t)(before - plane[i - 2]);
    }
    for (; i < n; i++) {
        uint8_t v = plane[i], step = (uint8_t)(v - before);
        same += v == before;
        same_step += step == step_before;
        before = v;
        step_before = step;
    }
    return same_step > same + n / 8;
}

static void put_fixed(struct streams *out, const uint8_t *bytes, size_t n, size_t size)
{
    uint64_t steps = 0;
    if (!buf_reserve(&out->planes, n * size))
        return;
    uint8_t *restrict p = out->planes.ptr + out->planes.len;
    for (size_t b = 0; b < size; b++, p += n) {
        const uint8_t *from = bytes + b;
        for (size_t i = 0; i < n; i++, from += size)
            p[i] = *from;
        if (!steps_repeat(p, n))
            continue;
        steps |= UINT64_C(1) << b;
        for (size_t i = n - 1; i > 0; i--)
            p[i] = (uint8_t)(p[i] - p[i - 1]);
    }
    buf_put_varint(&out->directory, steps);
    out->planes.len += n * size;
}

static void put_typed(struct streams *out, const struct cell *cells, size_t n,
                      const struct typed *typed, struct column_scratch *scratch)
{
    const struct value_form *form = &typed->form;
    buf_put_byte(&out->directory, (uint8_t)form->type);
    buf_put_varint(&out->directory, form->a);
    buf_put_varint(&out->directory, form->b);
    if (form->type == VALUE_NUMBERED) {
        buf_put_varint(&out->directory, form->prefix.len);
        buf_put_slice(&out->directory, form->prefix);
    }
    buf_put_varint(&out->directory, typed->exceptions);
    if (typed->exceptions != 0) {
        /* Their texts one after another, as put_texts would. */
        size_t len = typed->exceptions;
        for (size_t i = 0; i < typed->exceptions; i++)
            len += cells[scratch->exceptions[i]].len;
        buf_put_varint(&out->directory, len);
        for (size_t i = 0; i < typed->exceptions; i++) {
            buf_put_slice(&out->text, cell_slice(&cells[scratch->exceptions[i]]));
            buf_put_byte(&out->text, 0);
        }
        planes_put_u32(&out->planes, scratch->exceptions, typed->exceptions, bytes_for(n - 1));
    }
    if (value_is_number(form->type))
        put_numbers(out, scratch->numbers, n - typed->exceptions, typed->delta);
    else
        put_fixed(out, scratch->bytes.ptr, n - typed->exceptions, value_bytes(form));
}

static void put_sequence(struct streams *out, const struct cell *cells, size_t n, unsigned flags,
                         struct column_scratch *scratch)
{
    struct typed typed;
    if (flags & COLUMN_ANY_BYTES)
        put_counted(out, cells, n, scratch);
    else if (n >= 4 && find_type(cells, n, 0, flags, scratch, &typed) &&
             typed.cost < text_cost(cells, n))
        put_typed(out, cells, n, &typed, scratch);
    else
        sequence_put_text(out, cells, n);
}

/* ---- columns */

/* Some bytes from all over a value, multiplied so that each tells in the highest bits: that tells
 * most values of a column apart for a fraction of what a hash of all their bytes costs. */
ALWAYS_INLINE uint64_t sketch_of(const struct cell *cell)
{
    const uint8_t *p = cell->ptr;
    size_t n = cell->len;
    uint64_t first = 0, middle = 0, last = 0;
    if (n >= 8) {
        size_t end = n - 8;
        first = get_u64(p) ^ get_u64(p + end / 4) * 7;
        middle = get_u64(p + end / 2) ^ get_u64(p + end - end / 4) * 11;
        last = get_u64(p + end);
    } else if (n >= 4) {
        first = get_u32(p);
        last = get_u32(p + n - 4);
    } else if (n != 0) {
        first = p[0];
        middle = p[n / 2];
        last = p[n - 1];
    }
    return first * UINT64_C(0x9e3779b97f4a7c15) + middle * UINT64_C(0xc2b2ae3d27d4eb4f) +
           last * UINT64_C(0x165667b19e3779f9) + n * UINT64_C(0xd6e8feb86659fd93);
}

/* Different values into scratch->uniques, places of all in scratch->places. 0: hardly any value
 * comes twice. A value is looked for by its sketch; only where that is another one's place, all its
 * bytes are hashed. Steps grow, so that sketches side by side are in nobody's way for long. */
static size_t find_uniques(const struct cell *cells, size_t n, struct column_scratch *scratch)
{
    unsigned bits = 6;
    uint32_t count = 0;
    assert(scratch->hashed_from <= UINT32_MAX - n);
    while ((size_t)1 << bits < 2 * n)
        bits++;
    /* A number above those of the columns before: the table needs no clearing between them. */
    uint32_t *hashed = scratch->hashed, *places = scratch->places, from = scratch->hashed_from;
    struct cell *uniques = scratch->uniques;
    const size_t mask = ((size_t)1 << bits) - 1;
    for (size_t i = 0; cells_ahead(cells, i, n); i++) {
        if (i > 0 && cells_eq(&cells[i], &cells[i - 1])) {
            places[i] = places[i - 1];
            continue;
        }
        size_t at = (size_t)(sketch_of(&cells[i]) >> (64 - bits));
        for (size_t step = 0; hashed[at] > from; step++) {
            if (cells_eq(&cells[i], &uniques[hashed[at] - from - 1]))
                break;
            at = (step == 0 ? XXH3_64bits(cells[i].ptr, cells[i].len) : at + step) & mask;
        }
        if (hashed[at] <= from) {
            uniques[count++] = cells[i];
            hashed[at] = from + count;
        }
        places[i] = hashed[at] - from - 1;
        scratch->hashed_from = from + count;
        if (i == NOVEL_LOOK - 1 && count == NOVEL_LOOK)
            return 0;
    }
    return (size_t)count * 3 <= n * 2 ? count : 0;
}

static uint64_t dictionary_cost(const struct cell *uniques, size_t count, size_t n)
{
    unsigned bits = count <= 2 ? 1 : bits_of(count - 1);
    return n * bits * 6 + texts_length(uniques, count) * 20;
}

static void put_dictionary(struct streams *out, size_t n, size_t uniques, unsigned flags,
                           struct column_scratch *scratch)
{
    buf_put_byte(&out->directory, COLUMN_DICTIONARY);
    buf_put_varint(&out->directory, uniques);
    planes_put_u32(&out->planes, scratch->places, n, bytes_for(uniques - 1));
    put_sequence(out, scratch->uniques, uniques, flags, scratch);
}

static bool any_zero_byte(const struct cell *cells, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cells[i].len != 0 && memchr(cells[i].ptr, 0, cells[i].len) != NULL)
            return true;
    return false;
}

void column_put(struct streams *out, const struct cell *cells, size_t n, unsigned flags,
                struct column_scratch *scratch)
{
    struct typed typed;
    assert(n >= 1 && n <= scratch->most);
    if (cells_all_eq(cells, n)) {
        buf_put_byte(&out->directory, COLUMN_CONSTANT);
        buf_put_varint(&out->directory, cells[0].len);
        buf_put(&out->text, cells[0].ptr, cells[0].len);
        return;
    }
    if ((flags & COLUMN_ANY_BYTES) && !any_zero_byte(cells, n))
        flags &= ~(unsigned)COLUMN_ANY_BYTES;
    size_t uniques = find_uniques(cells, n, scratch);
    if (uniques == 0) {
        buf_put_byte(&out->directory, COLUMN_SEQUENCE);
        put_sequence(out, cells, n, flags, scratch);
        return;
    }
    if (uniques > 16 && !(flags & COLUMN_ANY_BYTES) &&
        find_type(cells, n, uniques, flags, scratch, &typed) &&
        typed.cost < dictionary_cost(scratch->uniques, uniques, n)) {
        buf_put_byte(&out->directory, COLUMN_SEQUENCE);
        put_typed(out, cells, n, &typed, scratch);
        return;
    }
    put_dictionary(out, n, uniques, flags, scratch);
}
