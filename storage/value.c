/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values; V1 to V3 in value.h. Parsing accepts the canonical spelling only, most types by
 * construction; those where that is not plain (dates, floats) format what they read and compare. */
#include "storage/value.h"

#include <stdlib.h>

static bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

static uint8_t *put_digits(uint8_t *dst, uint64_t v, unsigned width)
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
static bool take_digits(const uint8_t *p, size_t n, uint64_t *out)
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

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static const uint64_t power10[20] = {
    1u,
    10u,
    100u,
    1000u,
    10000u,
    100000u,
    1000000u,
    10000000u,
    100000000u,
    1000000000u,
    10000000000u,
    100000000000u,
    1000000000000u,
    10000000000000u,
    100000000000000u,
    1000000000000000u,
    10000000000000000u,
    100000000000000000u,
    1000000000000000000u,
    10000000000000000000u,
};

/* ---- integers and decimals */

static bool parse_integer(struct slice text, int64_t *out)
{
    uint64_t v;
    bool negative = text.len != 0 && text.ptr[0] == '-';
    const uint8_t *p = text.ptr + negative;
    size_t n = text.len - negative;
    if (!take_digits(p, n, &v) || (p[0] == '0' && (n > 1 || negative)))
        return false;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

static uint8_t *put_integer(uint8_t *dst, int64_t v)
{
    if (v < 0)
        *dst++ = '-';
    return put_digits(dst, magnitude(v), 0);
}

/* a decimals, of which zeros at the end are left out down to b (b 0: then the point, too). */
#define DECIMAL_SCALE_MAX 15u

static bool parse_decimal(const struct value_form *form, struct slice text, int64_t *out)
{
    bool negative = text.len != 0 && text.ptr[0] == '-';
    const uint8_t *p = text.ptr + negative, *end = text.ptr + text.len;
    const uint8_t *dot = memchr(text.ptr, '.', text.len);
    const uint8_t *whole_end = dot == NULL ? end : dot;
    size_t decimals = dot == NULL ? 0 : (size_t)(end - dot) - 1;
    uint64_t whole, part = 0;
    if (decimals < form->b || decimals > form->a || (dot != NULL && decimals == 0) ||
        whole_end < p || (size_t)(whole_end - p) + form->a > 18)
        return false;
    if (!take_digits(p, (size_t)(whole_end - p), &whole) || (p[0] == '0' && whole_end - p > 1) ||
        (decimals != 0 && !take_digits(dot + 1, decimals, &part)))
        return false;
    if (decimals > form->b && end[-1] == '0')
        return false;
    uint64_t v = whole * power10[form->a] + part * power10[form->a - decimals];
    if (negative && v == 0)
        return false;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

static uint8_t *put_decimal(uint8_t *dst, int64_t v, unsigned scale, unsigned fewest)
{
    uint64_t m = magnitude(v);
    if (v < 0)
        *dst++ = '-';
    while (scale > fewest && m % 10 == 0) {
        m /= 10;
        scale--;
    }
    dst = put_digits(dst, m / power10[scale], 0);
    if (scale == 0)
        return dst;
    *dst++ = '.';
    return put_digits(dst, m % power10[scale], scale);
}

static bool guess_decimal(const struct slice *samples, size_t count, struct value_form *form)
{
    uint32_t most = 0, fewest = DECIMAL_SCALE_MAX;
    int64_t v;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *dot = memchr(samples[i].ptr, '.', samples[i].len);
        size_t decimals = dot == NULL ? 0 : samples[i].len - (size_t)(dot - samples[i].ptr) - 1;
        struct value_form one = {VALUE_DECIMAL, (uint32_t)decimals, (uint32_t)decimals, SLICE_NONE};
        if (decimals > DECIMAL_SCALE_MAX || !parse_decimal(&one, samples[i], &v))
            continue;
        most = decimals > most ? (uint32_t)decimals : most;
        fewest = decimals < fewest ? (uint32_t)decimals : fewest;
    }
    form->a = most;
    form->b = most == fewest ? most : fewest < 1 ? 0 : 1;
    return most != 0;
}

/* ---- IPv4 */

static bool parse_ipv4(struct slice text, int64_t *out)
{
    const uint8_t *p = text.ptr, *end = text.ptr + text.len;
    uint32_t v = 0;
    for (int part = 0; part < 4; part++) {
        unsigned byte = 0, n = 0;
        if (part > 0 && (p == end || *p++ != '.'))
            return false;
        for (; n < 3 && p < end && is_digit(*p); n++)
            byte = byte * 10 + (unsigned)(*p++ - '0');
        if (n == 0 || byte > 255 || (n > 1 && p[-(ptrdiff_t)n] == '0'))
            return false;
        v = v << 8 | byte;
    }
    *out = v;
    return p == end;
}

static uint8_t *put_ipv4(uint8_t *dst, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        dst = put_digits(dst, v >> shift & 255, 0);
        if (shift != 0)
            *dst++ = '.';
    }
    return dst;
}

/* ---- dates: days since 1970 in the Gregorian calendar, extended both ways (the algorithms of
 * H. Hinnant, "chrono-compatible low-level date algorithms") */

static int64_t days_of(unsigned year, unsigned month, unsigned day)
{
    unsigned y = year - (month <= 2) + 400; /* years 0 and -1 stay positive */
    unsigned era = y / 400, yoe = y % 400;
    unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return (int64_t)(era - 1) * 146097 + doe - 719468;
}

static void date_of(int64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t z = (uint64_t)(days + 719468 + 146097);
    unsigned doe = (unsigned)(z % 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    *day = doy - (153 * mp + 2) / 5 + 1;
    *month = mp < 10 ? mp + 3 : mp - 9;
    *year = (unsigned)(z / 146097 * 400) + yoe + (*month <= 2) - 400;
}

/* Seconds of the years 0 to 9999, which have four digits. */
#define SECONDS_MIN (-62167219200)
#define SECONDS_MAX 253402300799

static bool take2(const uint8_t *p, unsigned max, unsigned *out)
{
    unsigned tens = (unsigned)(p[0] - '0'), ones = (unsigned)(p[1] - '0');
    *out = tens * 10 + ones;
    return tens < 10 && ones < 10 && *out <= max;
}

static uint8_t *put2(uint8_t *dst, unsigned v)
{
    dst[0] = (uint8_t)('0' + v / 10 % 10);
    dst[1] = (uint8_t)('0' + v % 10);
    return dst + 2;
}

static bool day_exists(unsigned year, unsigned month, unsigned day)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (unsigned)(leap && month == 2);
}

/* HH:MM:SS at p */
static bool take_time(const uint8_t *p, int64_t *out)
{
    unsigned h, m, s;
    if (!take2(p, 23, &h) || !take2(p + 3, 59, &m) || !take2(p + 6, 59, &s) || p[2] != ':' ||
        p[5] != ':')
        return false;
    *out = (h * 60 + m) * 60 + s;
    return true;
}

static uint8_t *put_time(uint8_t *dst, unsigned seconds)
{
    dst = put2(dst, seconds / 3600);
    *dst++ = ':';
    dst = put2(dst, seconds / 60 % 60);
    *dst++ = ':';
    return put2(dst, seconds % 60);
}

/* A zone: hours * 100 + minutes, negative above. */
#define ZONE_NEGATIVE 0x10000u

static bool zone_sound(uint32_t zone)
{
    return (zone & ~ZONE_NEGATIVE) <= 9999;
}

/* +hhmm or, with colon, +hh:mm at p */
static bool take_zone(const uint8_t *p, bool colon, uint32_t *out)
{
    unsigned h, m;
    if ((p[0] != '+' && p[0] != '-') || !take2(p + 1, 99, &h) || (colon && p[3] != ':') ||
        !take2(p + 3 + colon, 99, &m))
        return false;
    *out = h * 100 + m + (p[0] == '-' ? ZONE_NEGATIVE : 0);
    return true;
}

static uint8_t *put_zone(uint8_t *dst, uint32_t zone, bool colon)
{
    unsigned v = zone & (ZONE_NEGATIVE - 1);
    *dst++ = zone & ZONE_NEGATIVE ? '-' : '+';
    dst = put2(dst, v / 100);
    if (colon)
        *dst++ = ':';
    return put2(dst, v % 100);
}

/* Form of a timestamp: a = digits of the fraction (0 to 9) and these. */
enum { STAMP_SPACE = 16, STAMP_COMMA = 32, STAMP_ZONE = 64, STAMP_KNOWN = 255 };
enum { ZONE_NONE, ZONE_Z, ZONE_COLON, ZONE_PLAIN };
#define STAMP_SECONDS_LEN 19

static unsigned stamp_digits(const struct value_form *form)
{
    return form->a & 15;
}

static size_t stamp_length(const struct value_form *form)
{
    static const uint8_t zone_len[] = {0, 1, 6, 5};
    unsigned digits = stamp_digits(form);
    return STAMP_SECONDS_LEN + (digits == 0 ? 0 : digits + 1) + zone_len[form->a / STAMP_ZONE];
}

static bool guess_timestamp(struct slice text, struct value_form *form)
{
    if (text.len < STAMP_SECONDS_LEN)
        return false;
    const uint8_t *p = text.ptr + STAMP_SECONDS_LEN, *end = text.ptr + text.len;
    form->a = text.ptr[10] == ' ' ? STAMP_SPACE : 0;
    if (p < end && (*p == '.' || *p == ',')) {
        form->a += *p++ == ',' ? STAMP_COMMA : 0;
        for (; p < end && is_digit(*p); p++)
            form->a++;
        if ((form->a & 15) > 9 || p - text.ptr > STAMP_SECONDS_LEN + 10)
            return false;
    }
    if (end - p == 1 && *p == 'Z')
        form->a += ZONE_Z * STAMP_ZONE;
    else if (end - p == 6 && take_zone(p, true, &form->b))
        form->a += ZONE_COLON * STAMP_ZONE;
    else if (end - p == 5 && take_zone(p, false, &form->b))
        form->a += ZONE_PLAIN * STAMP_ZONE;
    else if (p != end)
        return false;
    return true;
}

static bool parse_timestamp(const struct value_form *form, struct slice text, int64_t *out)
{
    const uint8_t *p = text.ptr;
    unsigned century, year, month, day, digits = stamp_digits(form);
    unsigned kind = form->a / STAMP_ZONE;
    int64_t time, v;
    uint64_t fraction = 0;
    uint32_t zone = form->b;
    if (text.len != stamp_length(form) || !take2(p, 99, &century) || !take2(p + 2, 99, &year) ||
        !take2(p + 5, 12, &month) || !take2(p + 8, 31, &day) || !take_time(p + 11, &time))
        return false;
    if (p[4] != '-' || p[7] != '-' || p[10] != (form->a & STAMP_SPACE ? ' ' : 'T'))
        return false;
    p += STAMP_SECONDS_LEN;
    if (digits != 0) {
        if (*p++ != (form->a & STAMP_COMMA ? ',' : '.') || !take_digits(p, digits, &fraction))
            return false;
        p += digits;
    }
    if (kind == ZONE_Z ? *p != 'Z'
                       : kind != ZONE_NONE &&
                             (!take_zone(p, kind == ZONE_COLON, &zone) || zone != form->b))
        return false;
    year += century * 100;
    if (!day_exists(year, month, day))
        return false;
    v = days_of(year, month, day) * 86400 + time;
    return !__builtin_mul_overflow(v, (int64_t)power10[digits], &v) &&
           !__builtin_add_overflow(v, (int64_t)fraction, out);
}

/* Floor division. */
static int64_t split(int64_t v, int64_t by, uint64_t *rest_out)
{
    int64_t q = v / by - (v % by < 0);
    *rest_out = (uint64_t)(v - q * by);
    return q;
}

static size_t format_timestamp(const struct value_form *form, int64_t v, uint8_t *dst)
{
    unsigned year, month, day, digits = stamp_digits(form), kind = form->a / STAMP_ZONE;
    uint64_t fraction, time;
    uint8_t *p = dst;
    int64_t seconds = v;
    fraction = 0;
    if (digits != 0)
        seconds = split(v, (int64_t)power10[digits], &fraction);
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX)
        return 0;
    date_of(split(seconds, 86400, &time), &year, &month, &day);
    p = put2(put2(p, year / 100), year % 100);
    *p++ = '-';
    p = put2(p, month);
    *p++ = '-';
    p = put2(p, day);
    *p++ = form->a & STAMP_SPACE ? ' ' : 'T';
    p = put_time(p, (unsigned)time);
    if (digits != 0) {
        *p++ = form->a & STAMP_COMMA ? ',' : '.';
        p = put_digits(p, fraction, digits);
    }
    if (kind == ZONE_Z)
        *p++ = 'Z';
    else if (kind != ZONE_NONE)
        p = put_zone(p, form->b, kind == ZONE_COLON);
    return (size_t)(p - dst);
}

#define CLF_LEN 26
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static bool parse_clf(const struct value_form *form, struct slice text, int64_t *out)
{
    const uint8_t *p = text.ptr;
    unsigned century, year, month = 1, day;
    uint32_t zone;
    int64_t time;
    if (text.len != CLF_LEN || !take2(p, 31, &day) || !take2(p + 7, 99, &century) ||
        !take2(p + 9, 99, &year) || !take_time(p + 12, &time) || !take_zone(p + 21, false, &zone))
        return false;
    if (zone != form->b || p[2] != '/' || p[6] != '/' || p[11] != ':' || p[20] != ' ')
        return false;
    while (month <= 12 && memcmp(months + (size_t)3 * (month - 1), p + 3, 3) != 0)
        month++;
    year += century * 100;
    if (!day_exists(year, month, day))
        return false;
    *out = days_of(year, month, day) * 86400 + time;
    return true;
}

static size_t format_clf(const struct value_form *form, int64_t v, uint8_t *dst)
{
    unsigned year, month, day;
    uint64_t time;
    uint8_t *p = dst;
    if (v < SECONDS_MIN || v > SECONDS_MAX)
        return 0;
    date_of(split(v, 86400, &time), &year, &month, &day);
    p = put2(p, day);
    *p++ = '/';
    memcpy(p, months + (size_t)3 * (month - 1), 3);
    p += 3;
    *p++ = '/';
    p = put2(put2(p, year / 100), year % 100);
    *p++ = ':';
    p = put_time(p, (unsigned)time);
    *p++ = ' ';
    return (size_t)(put_zone(p, form->b, false) - dst);
}

/* ---- floats
 * The number is the float's bits; the text is the shortest decimal that reads back as the double of
 * the same value, with a fraction of at least one digit. For a float of magnitude 2^-9 to 2^23,
 * m * 2^-s with m of 24 bits, a decimal n / 10^k reads back as that double when it lies within half
 * of the double's last place (2^-30 of the float's unit, half of that below a power of two):
 *     |n * 2^s - m * 10^k| * 2^30 <= 10^k
 * All of it fits 128 bits. Fifteen digits identify a double, so if they do, they are the shortest
 * with zeros at the end cut off; else sixteen or seventeen are needed. */
typedef unsigned __int128 wide;

#define FLOAT_EXPONENT_MIN 118u /* 2^-9 */
#define FLOAT_EXPONENT_MAX 149u /* below 2^23 */

static bool reads_back(wide product, unsigned s, uint64_t scale, uint32_t m, uint64_t *n_out)
{
    wide half = (wide)1 << (s - 1), rest = product & (((wide)1 << s) - 1);
    uint64_t n = (uint64_t)(product >> s);
    bool up = rest > half || (rest == half && (n & 1) != 0);
    wide off = up ? ((wide)1 << s) - rest : rest;
    *n_out = n + up;
    /* Below a power of two doubles lie twice as close. */
    return off << (30 + (!up && off != 0 && m == 1u << 23)) <= scale;
}

static size_t format_float(uint32_t bits, uint8_t *dst)
{
    uint32_t exponent = bits >> 23 & 255, m = (bits & 0x7fffff) | 1u << 23;
    uint8_t *p = dst;
    if (exponent < FLOAT_EXPONENT_MIN || exponent > FLOAT_EXPONENT_MAX)
        return 0;
    unsigned s = 150 - exponent;
    uint64_t n = 0;
    /* Digits before the point; below 1, zeros behind it count negative. */
    int before = 1;
    uint64_t whole = m >> s;
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
    if (bits >> 31 != 0)
        *p++ = '-';
    while (k > 1 && n % 10 == 0) {
        n /= 10;
        k--;
    }
    p = put_digits(p, n / power10[k], 0);
    *p++ = '.';
    return (size_t)(put_digits(p, n % power10[k], k) - dst);
}

static bool parse_float(struct slice text, int64_t *out)
{
    const uint8_t *p = text.ptr, *end = text.ptr + text.len, *dot = NULL;
    uint8_t again[VALUE_TEXT_MAX];
    uint64_t n = 0;
    if (text.len < 3 || text.len > 22)
        return false;
    if (*p == '-')
        p++;
    for (; p < end; p++) {
        if (*p == '.' && dot == NULL)
            dot = p;
        else if (is_digit(*p) && n < power10[17])
            n = n * 10 + (uint64_t)(*p - '0');
        else
            return false;
    }
    if (dot == NULL || end - dot > 20)
        return false;
    /* The guess may be off; formatting decides. */
    float f = (float)((double)n / (double)power10[end - dot - 1]);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= text.ptr[0] == '-' ? 1u << 31 : 0;
    *out = bits;
    return slice_eq(text, slice_of(again, format_float(bits, again)));
}

/* Short decimals are floats, too, but smaller as decimals: the samples must be long. */
static bool guess_float(const struct slice *samples, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += samples[i].len;
    return len >= 12 * count;
}

/* ---- a prefix and digits: a = their number, 0 as many as it takes */

static size_t digits_at_end(struct slice text)
{
    size_t n = 0;
    while (n < text.len && n < 18 && is_digit(text.ptr[text.len - 1 - n]))
        n++;
    return n;
}

static bool guess_numbered(const struct slice *samples, size_t count, struct value_form *form)
{
    size_t digits = digits_at_end(samples[0]), prefix = samples[0].len - digits;
    if (digits == 0 || prefix > VALUE_PREFIX_MAX)
        return false;
    /* Digits that all samples share belong to the prefix: its end is where they begin to differ. */
    form->prefix = slice_of(samples[0].ptr, prefix);
    form->a = 0;
    for (size_t i = 0; i < count; i++) {
        if (samples[i].len <= prefix + 1 || samples[i].ptr[prefix] != '0')
            continue;
        size_t width = samples[i].len - prefix;
        if (width > 18 || memcmp(samples[i].ptr, samples[0].ptr, prefix) != 0)
            continue;
        form->a = (uint32_t)width;
        break;
    }
    return true;
}

static bool parse_numbered(const struct value_form *form, struct slice text, int64_t *out)
{
    size_t prefix = form->prefix.len, digits = text.len - prefix;
    uint64_t v;
    if (text.len <= prefix || (prefix != 0 && memcmp(text.ptr, form->prefix.ptr, prefix) != 0))
        return false;
    if (!take_digits(text.ptr + prefix, digits, &v) ||
        (form->a != 0 ? digits != form->a : digits > 1 && text.ptr[prefix] == '0'))
        return false;
    *out = (int64_t)v;
    return true;
}

static size_t format_numbered(const struct value_form *form, int64_t v, uint8_t *dst)
{
    if (v < 0)
        return 0;
    if (form->prefix.len != 0)
        memcpy(dst, form->prefix.ptr, form->prefix.len);
    return (size_t)(put_digits(dst + form->prefix.len, (uint64_t)v, form->a) - dst);
}

/* ---- fixed bytes */

/* Of a hex digit; upper case when asked for; else above 15. */
static unsigned hex_value(uint8_t c, bool upper)
{
    unsigned letter = (unsigned)(c - (upper ? 'A' : 'a'));
    return is_digit(c) ? (unsigned)(c - '0') : letter < 6 ? letter + 10 : 16;
}

static bool pack_hex(struct slice text, bool upper, uint8_t *dst)
{
    for (size_t i = 0; i + 1 < text.len; i += 2) {
        unsigned high = hex_value(text.ptr[i], upper), low = hex_value(text.ptr[i + 1], upper);
        if (high > 15 || low > 15)
            return false;
        *dst++ = (uint8_t)(high << 4 | low);
    }
    return true;
}

static uint8_t *unpack_hex(const uint8_t *src, size_t n, bool upper, uint8_t *dst)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *dst++ = (uint8_t)digits[src[i] >> 4];
        *dst++ = (uint8_t)digits[src[i] & 15];
    }
    return dst;
}

/* Lengths of the groups of a UUID, in bytes. */
static const uint8_t uuid_groups[] = {4, 2, 2, 2, 6};
#define UUID_LEN 36

static bool pack_uuid(struct slice text, bool upper, uint8_t *dst)
{
    const uint8_t *p = text.ptr;
    if (text.len != UUID_LEN)
        return false;
    for (size_t i = 0; i < sizeof uuid_groups; i++) {
        size_t n = uuid_groups[i];
        if ((i > 0 && *p++ != '-') || !pack_hex(slice_of(p, 2 * n), upper, dst))
            return false;
        p += 2 * n;
        dst += n;
    }
    return true;
}

static size_t unpack_uuid(const uint8_t *src, bool upper, uint8_t *dst)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < sizeof uuid_groups; i++) {
        if (i > 0)
            *p++ = '-';
        p = unpack_hex(src, uuid_groups[i], upper, p);
        src += uuid_groups[i];
    }
    return (size_t)(p - dst);
}

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static unsigned base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (is_digit(c))
        return (unsigned)(c - '0') + 52;
    return c == '-' ? 62 : c == '_' ? 63 : 64;
}

static bool pack_base64(struct slice text, uint8_t *dst)
{
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned v = base64_value(text.ptr[i]);
        if (v > 63)
            return false;
        bits = bits << 6 | v;
        held += 6;
        if (held >= 8) {
            held -= 8;
            *dst++ = (uint8_t)(bits >> held);
        }
    }
    return (bits & ((1u << held) - 1)) == 0; /* bits that no byte holds */
}

static size_t unpack_base64(const uint8_t *src, size_t chars, uint8_t *dst)
{
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < chars; i++) {
        if (held < 6) {
            /* The last character's low bits may lie behind the last byte. */
            bits = bits << 8 | (i * 6 / 8 + (i * 6 % 8 != 0) < chars * 6 / 8 ? *src++ : 0);
            held += 8;
        }
        held -= 6;
        dst[i] = (uint8_t)base64url[bits >> held & 63];
    }
    return chars;
}

/* ---- by type */

bool value_guess(enum value_type type, const struct slice *samples, size_t count,
                 struct value_form *out)
{
    struct value_form form = {.type = type};
    struct slice first = samples[0];
    int64_t v;
    uint8_t bytes[VALUE_BYTES_MAX];
    switch (type) {
    case VALUE_DECIMAL:
        if (first.len == 0 || !(first.ptr[0] == '-' || is_digit(first.ptr[0])) ||
            !guess_decimal(samples, count, &form))
            return false;
        break;
    case VALUE_FLOAT32:
        if (!guess_float(samples, count))
            return false;
        break;
    case VALUE_TIMESTAMP:
        if (!guess_timestamp(first, &form))
            return false;
        break;
    case VALUE_CLF:
        if (first.len != CLF_LEN || !take_zone(first.ptr + 21, false, &form.b))
            return false;
        break;
    case VALUE_NUMBERED:
        if (!guess_numbered(samples, count, &form))
            return false;
        break;
    case VALUE_UUID:
    case VALUE_HEX:
        for (size_t i = 0; i < first.len; i++)
            if (hex_value(first.ptr[i], false) > 15 && first.ptr[i] != '-')
                form.b = 1;
        /* fall through */
    case VALUE_BASE64URL:
        form.a = type == VALUE_UUID ? 0 : (uint32_t)first.len;
        if (first.len > 2 * VALUE_BYTES_MAX || !value_form_sound(&form) ||
            value_bytes(&form) < 4)
            return false;
        break;
    default:
        break;
    }
    *out = form;
    return value_is_number(type) ? value_parse(&form, first, &v) : value_pack(&form, first, bytes);
}

bool value_form_sound(const struct value_form *form)
{
    switch (form->type) {
    case VALUE_INTEGER:
    case VALUE_IPV4:
    case VALUE_FLOAT32:
        return form->a == 0 && form->b == 0;
    case VALUE_DECIMAL:
        return form->a >= 1 && form->a <= DECIMAL_SCALE_MAX && form->b <= form->a;
    case VALUE_TIMESTAMP:
        return form->a <= STAMP_KNOWN && stamp_digits(form) <= 9 && zone_sound(form->b);
    case VALUE_CLF:
        return form->a == 0 && zone_sound(form->b);
    case VALUE_NUMBERED:
        return form->a <= 18 && form->b == 0 && form->prefix.len <= VALUE_PREFIX_MAX;
    case VALUE_UUID:
        return form->a == 0 && form->b <= 1;
    case VALUE_HEX:
        return form->a >= 2 && form->a <= 2 * VALUE_BYTES_MAX && form->a % 2 == 0 && form->b <= 1;
    case VALUE_BASE64URL:
        return form->a >= 2 && form->a <= VALUE_BYTES_MAX && form->a % 4 != 1 && form->b == 0;
    }
    return false;
}

size_t value_bytes(const struct value_form *form)
{
    return form->type == VALUE_UUID  ? 16
           : form->type == VALUE_HEX ? form->a / 2
                                     : (size_t)form->a * 6 / 8;
}

bool value_parse(const struct value_form *form, struct slice text, int64_t *out)
{
    switch (form->type) {
    case VALUE_INTEGER:
        return parse_integer(text, out);
    case VALUE_DECIMAL:
        return parse_decimal(form, text, out);
    case VALUE_IPV4:
        return parse_ipv4(text, out);
    case VALUE_TIMESTAMP:
        return parse_timestamp(form, text, out);
    case VALUE_CLF:
        return parse_clf(form, text, out);
    case VALUE_FLOAT32:
        return parse_float(text, out);
    case VALUE_NUMBERED:
        return parse_numbered(form, text, out);
    default:
        return false;
    }
}

size_t value_format(const struct value_form *form, int64_t v, uint8_t dst[VALUE_TEXT_MAX])
{
    switch (form->type) {
    case VALUE_INTEGER:
        return (size_t)(put_integer(dst, v) - dst);
    case VALUE_DECIMAL:
        return (size_t)(put_decimal(dst, v, form->a, form->b) - dst);
    case VALUE_IPV4:
        return v < 0 || v > UINT32_MAX ? 0 : (size_t)(put_ipv4(dst, (uint32_t)v) - dst);
    case VALUE_TIMESTAMP:
        return format_timestamp(form, v, dst);
    case VALUE_CLF:
        return format_clf(form, v, dst);
    case VALUE_FLOAT32:
        return v < 0 || v > UINT32_MAX ? 0 : format_float((uint32_t)v, dst);
    case VALUE_NUMBERED:
        return format_numbered(form, v, dst);
    default:
        return 0;
    }
}

bool value_pack(const struct value_form *form, struct slice text, uint8_t dst[VALUE_BYTES_MAX])
{
    switch (form->type) {
    case VALUE_UUID:
        return pack_uuid(text, form->b != 0, dst);
    case VALUE_HEX:
        return text.len == form->a && pack_hex(text, form->b != 0, dst);
    case VALUE_BASE64URL:
        return text.len == form->a && pack_base64(text, dst);
    default:
        return false;
    }
}

size_t value_unpack(const struct value_form *form, const uint8_t *bytes,
                    uint8_t dst[VALUE_TEXT_MAX])
{
    switch (form->type) {
    case VALUE_UUID:
        return unpack_uuid(bytes, form->b != 0, dst);
    case VALUE_HEX:
        return (size_t)(unpack_hex(bytes, form->a / 2, form->b != 0, dst) - dst);
    case VALUE_BASE64URL:
        return unpack_base64(bytes, form->a, dst);
    default:
        return 0;
    }
}
