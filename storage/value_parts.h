/* SPDX-License-Identifier: Apache-2.0 */
/* Inside typed values: what value.c, value_time.c and value_float.c share. */
#ifndef STOWD_VALUE_PARTS_H
#define STOWD_VALUE_PARTS_H

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

/* Digits to a number of at most 18 of them; false when there is something else. */
static inline bool take_digits(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (n == 0 || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(p[i]))
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = v;
    return true;
}

/* Each type has these; the value_ functions choose. */
bool stamp_guess(struct slice text, struct value_form *form);
bool stamp_sound(const struct value_form *form);
bool stamp_parse(const struct value_form *form, struct slice text, int64_t *out);
size_t stamp_format(const struct value_form *form, int64_t v, uint8_t *dst);
bool clf_guess(struct slice text, struct value_form *form);
bool clf_sound(const struct value_form *form);
bool clf_parse(const struct value_form *form, struct slice text, int64_t *out);
size_t clf_format(const struct value_form *form, int64_t v, uint8_t *dst);
bool float_guess(const struct slice *samples, size_t count);
bool float_parse(struct slice text, int64_t *out);
size_t float_format(uint32_t bits, uint8_t *dst);

#endif
