/* SPDX-License-Identifier: Apache-2.0 */
/* Inside typed values: what value.c, value_time.c and value_float.c share. */
#ifndef STOWD_VALUE_PARTS_H
#define STOWD_VALUE_PARTS_H

#include "storage/bytes.h"
#include "storage/value.h"

extern const uint64_t power10[20];

static inline bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

static inline uint8_t *put_digits(uint8_t *dst, uint64_t v, unsigned width)
{
    uint8_t tmp[20];
    unsigned n = 0;
    do
        tmp[n++] = (uint8_t)('0' + v % 10);
    while ((v /= 10) != 0);
    while (n < width)
        tmp[n++] = '0';
    while (n > 0)
        *dst++ = tmp[--n];
    return dst;
}

/* Eight bytes are looked at at once, the first one lowest: without branches on lengths, which
 * differ from value to value. In a pattern '0' is where a digit is to be, else the byte that is to
 * be there; the room takes what is above it (9, 0) to its highest bit. */
#define DIGITS8      UINT64_C(0x3030303030303030)
#define DIGITS8_ROOM UINT64_C(0x7676767676767676)
#define HIGH_BITS    UINT64_C(0x8080808080808080)

static inline bool take_bytes8(const uint8_t *p, uint64_t pattern, uint64_t room, uint64_t *out)
{
    uint64_t x = get_u64(p) ^ pattern;
    *out = x;
    return (((x + room) | x) & HIGH_BITS) == 0;
}

/* The first eight bytes of a text of n >= 1; zeros behind them where there are fewer. */
static inline uint64_t load_short(const uint8_t *p, size_t n)
{
    if (n >= 8)
        return get_u64(p);
    if (n >= 4)
        return get_u32(p) | (uint64_t)get_u32(p + n - 4) << 8 * (n - 4);
    return p[0] | (uint64_t)p[n / 2] << 8 * (n / 2) | (uint64_t)p[n - 1] << 8 * (n - 1);
}

/* How many digits a text begins with; 8: or more. */
static inline size_t digits_before(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    uint64_t x = load_short(p, n) ^ DIGITS8, other = ((x + DIGITS8_ROOM) | x) & HIGH_BITS;
    return other == 0 ? 8 : (size_t)__builtin_ctzll(other) / 8;
}

/* Numbers of two digits, where their first one was. */
static inline uint64_t pairs_of(uint64_t digits)
{
    return digits * 10 + (digits >> 8);
}

/* Eight digits, the first one lowest, and without what makes them text (^ DIGITS8). */
static inline bool value_of8(uint64_t x, uint64_t *out)
{
    if ((((x + DIGITS8_ROOM) | x) & HIGH_BITS) != 0)
        return false;
    x = pairs_of(x) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x * 100 + (x >> 16)) & UINT64_C(0x0000ffff0000ffff);
    *out = (x * 10000 + (x >> 32)) & UINT32_MAX;
    return true;
}

/* Digits to a number of at most 18 of them; false when there is something else. */
static inline bool take_digits(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v, part;
    if (n == 0 || n > 18)
        return false;
    /* First those that are no whole eight; what is behind them is shifted out. */
    size_t head = (n - 1) % 8 + 1;
    if (!value_of8((load_short(p, n) ^ DIGITS8) << 8 * (8 - head), &v))
        return false;
    for (p += head, n -= head; n > 0; p += 8, n -= 8) {
        if (!value_of8(get_u64(p) ^ DIGITS8, &part))
            return false;
        v = v * 100000000 + part;
    }
    *out = v;
    return true;
}

/* Lengths of the times of day with dates, of both types. */
#define STAMP_LEN_MIN 19
#define STAMP_LEN_MAX 35

/* Each type has these; the value_ functions choose. */
bool stamp_guess(struct slice text, struct value_form *form);
bool stamp_sound(const struct value_form *form);
size_t stamp_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                       int64_t *out);
size_t stamp_format(const struct value_form *form, int64_t v, uint8_t *dst);
bool clf_guess(struct slice text, struct value_form *form);
bool clf_sound(const struct value_form *form);
size_t clf_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                     int64_t *out);
size_t clf_format(const struct value_form *form, int64_t v, uint8_t *dst);
bool float_guess(const struct slice *samples, size_t count);
bool float_parse(struct slice text, int64_t *out);
size_t float_format(uint32_t bits, uint8_t *dst);

#endif
