/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values that are floats printed as doubles; V1 to V3 in value.h.
 *
 * The number is the float's bits; the text is the shortest decimal that reads back as the double of
 * the same value, with a fraction of at least one digit. For a float of magnitude 2^-9 to 2^23,
 * m * 2^-s with m of 24 bits, a decimal n / 10^k reads back as that double when it lies within half
 * of the double's last place (2^-30 of the float's unit, half of that below a power of two):
 *     |n * 2^s - m * 10^k| * 2^30 <= 10^k
 * All of it fits 128 bits. Fifteen digits identify a double, so if they do, they are the shortest
 * with zeros at the end cut off; else sixteen or seventeen are needed. */
#include "storage/value_parts.h"

typedef unsigned __int128 wide;

#define FLOAT_EXPONENT_MIN 118u /* 2^-9 */
#define FLOAT_EXPONENT_MAX 149u /* below 2^23 */

static bool reads_back(wide product, unsigned s, uint64_t scale, uint32_t m, uint64_t *n_out)
{
    /* s is at most 32: only the product needs more than 64 bits. */
    uint64_t one = UINT64_C(1) << s, half = one >> 1, rest = (uint64_t)product & (one - 1);
    uint64_t n = (uint64_t)(product >> s);
    bool up = rest > half || (rest == half && (n & 1) != 0);
    uint64_t off = up ? one - rest : rest;
    *n_out = n + up;
    /* Below a power of two doubles lie twice as close. */
    return off << (30 + (!up && off != 0 && m == 1u << 23)) <= scale;
}

/* The text's digits without the point, *k_out of them behind it; false: out of range. */
static bool digits_of(uint32_t bits, uint64_t *n_out, unsigned *k_out)
{
    uint32_t exponent = bits >> 23 & 255, m = (bits & 0x7fffff) | 1u << 23;
    if (exponent < FLOAT_EXPONENT_MIN || exponent > FLOAT_EXPONENT_MAX)
        return false;
    unsigned s = 150 - exponent;
    uint64_t n = 0;
    /* Digits before the point; below 1, zeros behind it count negative. */
    int before = 1;
    uint64_t whole = (uint64_t)m >> s;
    while (before < 8 && whole >= power10[before])
        before++;
    if (whole == 0)
        for (before = 0; (wide)m * power10[1 - before] < (wide)1 << s; before--)
            ;
    unsigned k = 0;
    for (unsigned digits = 15; digits <= 17; digits++) {
        k = (unsigned)((int)digits - before);
        if (reads_back((wide)m * power10[k], s, power10[k], m, &n))
            break;
    }
    while (k > 1 && n % 10 == 0) {
        n /= 10;
        k--;
    }
    *n_out = n;
    *k_out = k;
    return true;
}

size_t float_format(uint32_t bits, uint8_t *dst)
{
    uint8_t *p = dst;
    uint64_t n;
    unsigned k;
    if (!digits_of(bits, &n, &k))
        return 0;
    if (bits >> 31 != 0)
        *p++ = '-';
    p = put_digits(p, n / power10[k], 0);
    *p++ = '.';
    return (size_t)(put_digits(p, n % power10[k], k) - dst);
}

bool float_parse(struct slice text, int64_t *out)
{
    const uint8_t *p = text.ptr, *end = text.ptr + text.len, *from;
    uint64_t whole = 0, part, n;
    unsigned k;
    if (text.len < 3 || text.len > 22)
        return false;
    if (*p == '-')
        p++;
    for (from = p; p < end && is_digit(*p); p++)
        whole = whole * 10 + (uint64_t)(*p - '0');
    size_t digits = (size_t)(p - from), decimals = (size_t)(end - p) - 1;
    /* Seventeen digits at most are written, and below 1 up to three zeros more. */
    if (digits == 0 || p == end || *p++ != '.' || (*from == '0' && digits > 1) ||
        (whole != 0 && digits + decimals > 17) || decimals > 19)
        return false;
    if (decimals == 19 && *p++ != '0')
        return false;
    if (!take_digits(p, (size_t)(end - p), &part))
        return false;
    uint64_t all = whole == 0 ? part : whole * power10[decimals] + part;
    /* The guess may be off; the digits it would be written with decide. */
    float f = (float)((double)all / (double)power10[decimals]);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= text.ptr[0] == '-' ? 1u << 31 : 0;
    *out = bits;
    return digits_of(bits, &n, &k) && n == all && k == decimals;
}

/* Short decimals are floats, too, but smaller as decimals: the samples must be long. */
bool float_guess(const struct slice *samples, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += samples[i].len;
    return len >= 12 * count;
}
