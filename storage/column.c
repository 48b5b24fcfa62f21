/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a column and reading one of its values; K1 and K2 in column.h. */
#include "storage/column.h"

#define RESTART_EVERY 32u

static int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

/* ---- opening */

uint8_t *take_planes(struct stream_readers *in, uint64_t len)
{
    if (len > (uint64_t)(in->planes_end - in->planes))
        return NULL;
    uint8_t *p = in->planes;
    in->planes += len;
    return p;
}

static unsigned take_byte(struct reader *r)
{
    struct slice s = take_bytes(r, 1);
    return s.len == 1 ? *s.ptr : 0;
}

static bool open_exceptions(struct sequence *s, struct stream_readers *in)
{
    uint64_t count = take_varint(&in->directory);
    if (count > s->n)
        return false;
    s->exceptions = (uint32_t)count;
    if (count == 0)
        return true;
    s->text = take_bytes(&in->text, take_varint(&in->directory));
    s->exception_width = (uint8_t)bytes_for(s->n - 1);
    s->exception_at = take_planes(in, count * s->exception_width);
    return s->exception_at != NULL;
}

static uint64_t step_at(const struct sequence *s, uint32_t typed, uint32_t i)
{
    return (uint64_t)unzigzag(plane_get(s->planes, s->width, typed, i));
}

/* The sum of RESTART_EVERY steps of one byte, or of two when there is a high one: without anything
 * that is not known before, so that compilers add many at once. */
ALWAYS_INLINE int32_t sum_steps(const uint8_t *low, const uint8_t *high)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < RESTART_EVERY; i++) {
        uint32_t v = high == NULL ? low[i] : (uint32_t)low[i] | (uint32_t)high[i] << 8;
        sum += (int32_t)(v >> 1) ^ -(int32_t)(v & 1);
    }
    return sum;
}

static uint64_t sum_run(const struct sequence *s, uint32_t typed, uint32_t from)
{
    const uint8_t *low = s->planes + from;
    uint64_t sum = 0;
    if (s->width == 1)
        return (uint64_t)sum_steps(low, NULL);
    if (s->width == 2)
        return (uint64_t)sum_steps(low, low + typed);
    for (uint32_t i = from; i < from + RESTART_EVERY; i++)
        sum += step_at(s, typed, i);
    return sum;
}

static enum rc open_numbers(struct sequence *s, struct stream_readers *in, struct arena *arena)
{
    uint32_t typed = s->n - s->exceptions;
    unsigned shape = take_byte(&in->directory);
    s->width = shape & 0x7f;
    s->delta = (shape & 0x80) != 0;
    s->base = unzigzag(take_varint(&in->directory));
    if (s->width > 8 || (s->delta && s->width == 0) ||
        (s->planes = take_planes(in, (uint64_t)s->width * typed)) == NULL)
        return RC_CORRUPT;
    if (!s->delta)
        return RC_OK;
    int64_t *restart = arena_get(arena, typed / RESTART_EVERY + 1, sizeof *restart);
    if (restart == NULL)
        return RC_NOMEM;
    uint64_t v = (uint64_t)s->base + (typed == 0 ? 0 : step_at(s, typed, 0));
    restart[0] = (int64_t)v;
    for (uint32_t i = 1; typed > i && typed - i >= RESTART_EVERY; i += RESTART_EVERY) {
        v += sum_run(s, typed, i);
        restart[i / RESTART_EVERY + 1] = (int64_t)v;
    }
    s->restart = restart;
    return RC_OK;
}

static enum rc open_fixed(struct sequence *s, struct stream_readers *in)
{
    uint32_t typed = s->n - s->exceptions;
    size_t size = value_bytes(&s->form);
    uint64_t steps = take_varint(&in->directory);
    uint8_t *planes = take_planes(in, (uint64_t)size * typed);
    if (planes == NULL || (size < 64 && steps >> size != 0))
        return RC_CORRUPT;
    s->planes = planes;
    for (; steps != 0; steps >>= 1, planes += typed)
        if (steps & 1)
            for (uint32_t i = 1; i < typed; i++)
                planes[i] = (uint8_t)(planes[i] + planes[i - 1]);
    return RC_OK;
}

static enum rc open_typed(struct sequence *s, struct stream_readers *in, struct arena *arena)
{
    uint64_t a = take_varint(&in->directory), b = take_varint(&in->directory);
    s->form = (struct value_form){.type = s->coder, .a = (uint32_t)a, .b = (uint32_t)b};
    if (s->coder == VALUE_NUMBERED)
        s->form.prefix = take_bytes(&in->directory, take_varint(&in->directory));
    if (in->directory.bad || a > UINT32_MAX || b > UINT32_MAX || !value_form_sound(&s->form) ||
        !open_exceptions(s, in))
        return RC_CORRUPT;
    return value_is_number(s->form.type) ? open_numbers(s, in, arena) : open_fixed(s, in);
}

/* Where the texts begin, if they are all there. */
static enum rc note_texts(struct sequence *s, struct arena *arena)
{
    uint32_t n = s->coder == SEQUENCE_TEXT || s->coder == SEQUENCE_COUNTED ? s->n : s->exceptions;
    uint32_t *at = arena_get(arena, (size_t)n + 1, sizeof *at);
    uint64_t next = 0;
    if (at == NULL)
        return RC_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (next > s->text.len)
            return RC_CORRUPT;
        at[i] = (uint32_t)next;
        if (s->coder == SEQUENCE_COUNTED) {
            next += plane_get(s->planes, s->width, n, i);
        } else {
            const uint8_t *from = s->text.ptr + next;
            const uint8_t *zero =
                next == s->text.len ? NULL : memchr(from, 0, s->text.len - (size_t)next);
            if (zero == NULL)
                return RC_CORRUPT;
            next += (uint64_t)(zero - from) + 1;
        }
    }
    if (next > s->text.len)
        return RC_CORRUPT;
    at[n] = (uint32_t)next;
    s->text_at = at;
    return RC_OK;
}

enum rc sequence_open(struct sequence *out, uint64_t n, struct stream_readers *in,
                      struct arena *arena, const char **what_out)
{
    enum rc rc = RC_OK;
    if (n == 0 || n > UINT32_MAX)
        return RC_CORRUPT;
    *out = (struct sequence){.n = (uint32_t)n, .coder = (uint8_t)take_byte(&in->directory)};
    if (out->coder == SEQUENCE_TEXT || out->coder == SEQUENCE_COUNTED) {
        out->text = take_bytes(&in->text, take_varint(&in->directory));
        if (out->coder == SEQUENCE_COUNTED) {
            out->width = (uint8_t)take_byte(&in->directory);
            out->planes = out->width > 4 ? NULL : take_planes(in, n * out->width);
            rc = out->planes == NULL ? RC_CORRUPT : RC_OK;
        }
    } else if (out->coder < VALUE_TYPE_END) {
        rc = open_typed(out, in, arena);
    } else {
        *what_out = "coder of values";
        return RC_UNSUPPORTED;
    }
    if (rc == RC_OK && (in->directory.bad || in->text.bad))
        rc = RC_CORRUPT;
    return rc == RC_OK && in->scan && out->text.len != 0 ? note_texts(out, arena) : rc;
}

enum rc column_open(struct column *out, uint64_t n, enum column_form form,
                    struct stream_readers *in, struct arena *arena, const char **what_out)
{
    if (n == 0 || n > UINT32_MAX)
        return RC_CORRUPT;
    out->form = form; /* what the form does not have is not read, and so not cleared */
    out->n = (uint32_t)n;
    switch (form) {
    case COLUMN_CONSTANT:
        out->constant = take_bytes(&in->text, take_varint(&in->directory));
        return in->directory.bad || in->text.bad ? RC_CORRUPT : RC_OK;
    case COLUMN_SEQUENCE:
        return sequence_open(&out->values, n, in, arena, what_out);
    case COLUMN_DICTIONARY: {
        uint64_t uniques = take_varint(&in->directory);
        if (uniques == 0 || uniques > n)
            return RC_CORRUPT;
        out->place_width = (uint8_t)bytes_for(uniques - 1);
        out->places = take_planes(in, n * out->place_width);
        return out->places == NULL ? RC_CORRUPT
                                   : sequence_open(&out->values, uniques, in, arena, what_out);
    }
    default:
        *what_out = "form of a column";
        return RC_UNSUPPORTED;
    }
}

/* ---- reading a value */

/* Sixteen bytes as lanes, whatever the machine calls them. */
typedef uint8_t lanes __attribute__((vector_size(16)));
#define LANES_RUN 8u

/* 255 for each zero of sixteen bytes. */
ALWAYS_INLINE lanes zeros_of(const uint8_t *p)
{
    lanes x;
    memcpy(&x, p, sizeof x);
    return (lanes)(x == 0);
}

/* Zeros in LANES_RUN * 16 bytes. */
static size_t count_zeros(const uint8_t *p)
{
    lanes sum = {0};
    uint64_t half[2];
    sum -= zeros_of(p) + zeros_of(p + 16) + zeros_of(p + 32) + zeros_of(p + 48);
    sum -= zeros_of(p + 64) + zeros_of(p + 80) + zeros_of(p + 96) + zeros_of(p + 112);
    memcpy(half, &sum, sizeof half);
    /* Each byte is at most LANES_RUN; their sum comes out in the top byte. */
    return (half[0] + half[1]) * UINT64_C(0x0101010101010101) >> 56;
}

/* The k-th of the texts that end in zeros. */
static bool find_text(const struct sequence *s, uint32_t k, struct slice *out)
{
    const uint8_t *p = s->text.ptr, *end = s->text.ptr + s->text.len;
    if (s->text_at != NULL) {
        *out = slice_of(p + s->text_at[k], s->text_at[k + 1] - s->text_at[k] - 1);
        return true;
    }
    while ((size_t)(end - p) >= LANES_RUN * sizeof(lanes)) {
        size_t zeros = count_zeros(p);
        if (zeros > k || k == 0)
            break;
        k -= (uint32_t)zeros;
        p += LANES_RUN * sizeof(lanes);
        if (k == 0 && zeros != 0) {
            /* The last zero of this run ends the text before. */
            while (p[-1] != 0)
                p--;
            break;
        }
    }
    for (; k > 0; k--) {
        p = p == end ? NULL : memchr(p, 0, (size_t)(end - p));
        if (p == NULL)
            return false;
        p++;
    }
    const uint8_t *zero = p == end ? NULL : memchr(p, 0, (size_t)(end - p));
    if (zero == NULL)
        return false;
    *out = slice_of(p, (size_t)(zero - p));
    return true;
}

static bool find_counted(const struct sequence *s, uint32_t k, struct slice *out)
{
    uint64_t at = s->text_at != NULL ? s->text_at[k] : 0;
    for (uint32_t i = 0; i < k && s->text_at == NULL; i++)
        at += plane_get(s->planes, s->width, s->n, i);
    uint64_t len = plane_get(s->planes, s->width, s->n, k);
    if (at > s->text.len || len > s->text.len - at)
        return false;
    *out = slice_of(s->text.ptr + at, (size_t)len);
    return true;
}

/* Exceptions before value k; *is_out: is k one itself? */
static uint32_t exceptions_before(const struct sequence *s, uint32_t k, bool *is_out)
{
    uint32_t low = 0, high = s->exceptions;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (plane_get(s->exception_at, s->exception_width, s->exceptions, mid) < k)
            low = mid + 1;
        else
            high = mid;
    }
    *is_out = low < s->exceptions &&
              plane_get(s->exception_at, s->exception_width, s->exceptions, low) == k;
    return low;
}

static int64_t number_at(const struct sequence *s, uint32_t typed, uint32_t i)
{
    if (!s->delta)
        return (int64_t)((uint64_t)s->base + plane_get(s->planes, s->width, typed, i));
    uint64_t v = (uint64_t)s->restart[i / RESTART_EVERY];
    for (uint32_t j = i / RESTART_EVERY * RESTART_EVERY + 1; j <= i; j++)
        v += step_at(s, typed, j);
    return (int64_t)v;
}

static bool put_value(const struct sequence *s, uint32_t typed, uint32_t i, struct buf *out)
{
    uint8_t bytes[VALUE_BYTES_MAX];
    size_t size, len;
    if (!buf_reserve(out, VALUE_TEXT_MAX))
        return true;
    uint8_t *dst = out->ptr + out->len;
    if (value_is_number(s->form.type)) {
        len = value_format(&s->form, number_at(s, typed, i), dst);
    } else {
        size = value_bytes(&s->form);
        for (size_t b = 0; b < size; b++)
            bytes[b] = s->planes[b * typed + i];
        len = value_unpack(&s->form, bytes, dst);
    }
    out->len += len;
    return len != 0;
}

bool sequence_get(const struct sequence *sequence, uint32_t k, struct buf *out)
{
    const struct sequence *s = sequence;
    struct slice text;
    bool found, exception = false;
    if (k >= s->n)
        return false;
    if (s->coder == SEQUENCE_TEXT) {
        found = find_text(s, k, &text);
    } else if (s->coder == SEQUENCE_COUNTED) {
        found = find_counted(s, k, &text);
    } else {
        uint32_t before = s->exceptions == 0 ? 0 : exceptions_before(s, k, &exception);
        uint32_t typed = s->n - s->exceptions;
        if (!exception)
            return before <= k && k - before < typed && put_value(s, typed, k - before, out);
        found = find_text(s, before, &text);
    }
    if (found)
        buf_put_slice(out, text);
    return found;
}

bool column_get(const struct column *column, uint32_t k, struct buf *out)
{
    if (k >= column->n)
        return false;
    switch (column->form) {
    case COLUMN_CONSTANT:
        buf_put_slice(out, column->constant);
        return true;
    case COLUMN_SEQUENCE:
        return sequence_get(&column->values, k, out);
    case COLUMN_DICTIONARY: {
        uint64_t place = plane_get(column->places, column->place_width, column->n, k);
        return place < column->values.n && sequence_get(&column->values, (uint32_t)place, out);
    }
    default:
        return false;
    }
}
