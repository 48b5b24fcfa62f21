/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of the strict checker of json.h, for walks that check as they go: json.c, shape.c.
 *
 * All time goes into strings. Their scan stops only at bytes that need a look: '"', '\\', control
 * bytes and bytes of 0x80 and above. `simd` is a constant in each use. */
#ifndef STOWD_JSON_PARTS_H
#define STOWD_JSON_PARTS_H

#include "storage/bytes.h"
#include "storage/json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        ++p;
    return p;
}

static inline bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

#ifdef __SSE2__
/* A bit for each of 16 bytes, set where it is not plain: '"' changes places with ' ', which puts it
 * beside the control bytes, and one subtraction makes all but '\\' negative. */
ALWAYS_INLINE uint32_t not_plain_16(const uint8_t *p)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i low = _mm_subs_epi8(_mm_xor_si128(x, _mm_set1_epi8('"' ^ ' ')), _mm_set1_epi8(0x21));
    __m128i escape = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(low, escape));
}
#endif

/* To the first byte of a string that is not plain: '"', '\\', below 0x20, above 0x7f. */
ALWAYS_INLINE const uint8_t *skip_plain(const uint8_t *p, const uint8_t *end, const bool simd)
{
#ifdef __SSE2__
    /* Most strings are shorter and end in the first step, of whatever length. */
    while (simd && end - p >= 32) {
        uint32_t mask = not_plain_16(p) | not_plain_16(p + 16) << 16;
        if (mask != 0)
            return p + (unsigned)__builtin_ctz(mask);
        p += 32;
    }
    if (simd && end - p >= 16) {
        uint32_t mask = not_plain_16(p);
        if (mask != 0)
            return p + (unsigned)__builtin_ctz(mask);
        p += 16;
    }
#else
    (void)simd;
#endif
    while (p < end && *p != '"' && *p != '\\' && (uint8_t)(*p - 0x20) < 0x60)
        ++p;
    return p;
}

/* Length of the UTF-8 sequence of two bytes and more at p, 0 when it is not one. */
static inline size_t utf8_length(const uint8_t *p, const uint8_t *end)
{
    uint8_t c = p[0];
    size_t n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (c < 0xc2 || c > 0xf4 || (size_t)(end - p) < n)
        return 0;
    uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;  /* overlong below */
    uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf; /* surrogates, > U+10FFFF above */
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

/* The pieces return the place behind what they have read, or NULL with the fault filled in: its
 * place as a pointer, which json.c turns into an offset. */
struct json_stop {
    const uint8_t *at;
    const char *what;
};

static inline const uint8_t *stop_at(struct json_stop *stop, const uint8_t *at, const char *what)
{
    stop->at = at;
    stop->what = what;
    return NULL;
}

#define JSON_CUT_SHORT "unexpected end of the text"

static inline int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* p at a backslash. */
ALWAYS_INLINE const uint8_t *check_escape(const uint8_t *p, const uint8_t *end,
                                          struct json_stop *stop)
{
    if (end - p < 2)
        return stop_at(stop, end, JSON_CUT_SHORT);
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 2;
    case 'u':
        for (int i = 2; i < 6; i++) {
            if (p + i == end)
                return stop_at(stop, end, JSON_CUT_SHORT);
            if (hex_digit(p[i]) < 0)
                return stop_at(stop, p, "invalid escape in a string");
        }
        return p + 6;
    default:
        return stop_at(stop, p, "invalid escape in a string");
    }
}

/* p behind the opening quote. */
ALWAYS_INLINE const uint8_t *check_string(const uint8_t *p, const uint8_t *end, const bool simd,
                                          struct json_stop *stop)
{
    for (;;) {
        p = skip_plain(p, end, simd);
        if (p == end)
            return stop_at(stop, end, JSON_CUT_SHORT);
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            p = check_escape(p, end, stop);
            if (p == NULL)
                return NULL;
            continue;
        }
        if (*p < 0x20)
            return stop_at(stop, p, "control byte in a string");
        do {
            size_t n = utf8_length(p, end);
            if (n == 0)
                return stop_at(stop, p, "invalid UTF-8");
            p += n;
        } while (p < end && *p >= 0x80);
    }
}

/* To the first byte that is no digit. */
ALWAYS_INLINE const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end)
{
    /* Eight at once: with the zero taken off, a digit is below ten, which 0x76 does not lift over
     * 0x7f. What it carries to bytes behind one that is no digit does not matter. */
    for (; end - p >= 8; p += 8) {
        uint64_t x = get_u64(p) ^ UINT64_C(0x3030303030303030);
        uint64_t hit = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
        if (hit != 0)
            return p + (unsigned)__builtin_ctzll(hit) / 8;
    }
    while (p < end && is_digit(*p))
        ++p;
    return p;
}

ALWAYS_INLINE const uint8_t *check_digits(const uint8_t *p, const uint8_t *end,
                                          struct json_stop *stop)
{
    if (p == end)
        return stop_at(stop, end, JSON_CUT_SHORT);
    if (!is_digit(*p))
        return stop_at(stop, p, "invalid number");
    return skip_digits(p + 1, end);
}

ALWAYS_INLINE const uint8_t *check_number(const uint8_t *p, const uint8_t *end,
                                          struct json_stop *stop)
{
    if (*p == '-')
        ++p;
    const uint8_t *first = p;
    p = check_digits(p, end, stop);
    if (p == NULL)
        return NULL;
    if (*first == '0' && p - first > 1)
        return stop_at(stop, first, "number with a leading zero");
    if (p < end && *p == '.') {
        p = check_digits(p + 1, end, stop);
        if (p == NULL)
            return NULL;
    }
    if (p < end && (*p | 0x20) == 'e') {
        ++p;
        if (p < end && (*p == '+' || *p == '-'))
            ++p;
        p = check_digits(p, end, stop);
    }
    return p;
}

static inline const uint8_t *check_word(const uint8_t *p, const uint8_t *end, const char *word,
                                        struct json_stop *stop)
{
    for (; *word != '\0'; ++word, ++p) {
        if (p == end)
            return stop_at(stop, end, JSON_CUT_SHORT);
        if (*p != (uint8_t)*word)
            return stop_at(stop, p, "unexpected byte");
    }
    return p;
}

ALWAYS_INLINE const uint8_t *check_scalar(const uint8_t *p, const uint8_t *end, const bool simd,
                                          struct json_stop *stop)
{
    if (p == end)
        return stop_at(stop, end, JSON_CUT_SHORT);
    if (*p == '"')
        return check_string(p + 1, end, simd, stop);
    if (*p == '-' || is_digit(*p))
        return check_number(p, end, stop);
    switch (*p) {
    case 't':
        return check_word(p, end, "true", stop);
    case 'f':
        return check_word(p, end, "false", stop);
    case 'n':
        return check_word(p, end, "null", stop);
    default:
        return stop_at(stop, p, "unexpected byte where a value should begin");
    }
}

/* Behind the array that begins at p and nests at most depth_max deep, or NULL: there is none. */
const uint8_t *json_array_end(const uint8_t *p, const uint8_t *end, unsigned depth_max);

#endif
