/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values that are dates with times; V1 to V3 in value.h. Days are counted since 1970 in the
 * Gregorian calendar, extended both ways (the algorithms of H. Hinnant, "chrono-compatible
 * low-level date algorithms"). */
#include "storage/value_parts.h"

static int64_t days_of(unsigned year, unsigned month, unsigned day)
{
    unsigned y = year - (month <= 2) + 400; /* years 0 and -1 stay positive */
    unsigned era = y / 400, yoe = y % 400;
    unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return ((int64_t)era - 1) * 146097 + doe - 719468;
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
    uint64_t x;
    if (!take_bytes8(p, UINT64_C(0x30303a30303a3030), UINT64_C(0x76767f76767f7676), &x))
        return false;
    x = pairs_of(x);
    unsigned h = x & 255, m = x >> 24 & 255, s = x >> 48 & 255;
    if (h > 23 || m > 59 || s > 59)
        return false;
    *out = (h * 60 + m) * 60 + s;
    return true;
}

/* The date before, as the next one is most often the same. */
struct date_memo {
    bool known;
    uint32_t tail; /* its last and first bytes */
    uint64_t head;
    int64_t seconds;
};

static inline bool memo_has(const struct date_memo *memo, uint64_t head, uint32_t tail)
{
    return memo->known && memo->head == head && memo->tail == tail;
}

/* YYYY-MM-DD at p */
static bool take_date(const uint8_t *p, int64_t *days_out)
{
    uint64_t x;
    unsigned day;
    if (!take_bytes8(p, UINT64_C(0x2d30302d30303030), UINT64_C(0x7f76767f76767676), &x) ||
        !take2(p + 8, 31, &day))
        return false;
    x = pairs_of(x);
    unsigned year = (unsigned)(x & 255) * 100 + (unsigned)(x >> 16 & 255), month = x >> 40 & 255;
    if (!day_exists(year, month, day))
        return false;
    *days_out = days_of(year, month, day);
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

/* ---- 2024-03-05T12:00:00.612Z and its relatives
 * The form: a = digits of the fraction (0 to 9) and these. */
enum { STAMP_SPACE = 16, STAMP_COMMA = 32, STAMP_ZONE = 64, STAMP_KNOWN = 255 };
enum { ZONE_NONE, ZONE_Z, ZONE_COLON, ZONE_PLAIN };
#define STAMP_SECONDS_LEN 19
#define ZONE_LEN_MAX      6

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

bool stamp_guess(struct slice text, struct value_form *form)
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

static uint8_t *put_stamp_zone(uint8_t *dst, const struct value_form *form)
{
    unsigned kind = form->a / STAMP_ZONE;
    if (kind == ZONE_NONE)
        return dst;
    if (kind != ZONE_Z)
        return put_zone(dst, form->b, kind == ZONE_COLON);
    *dst++ = 'Z';
    return dst;
}

static inline bool stamp_parse(const struct value_form *form, struct slice zone, const uint8_t *p,
                               struct date_memo *memo, int64_t *out)
{
    unsigned digits = stamp_digits(form);
    int64_t time, v;
    uint64_t head = get_u64(p), fraction = 0;
    uint32_t tail = get_u32(p + 6);
    if (p[10] != (form->a & STAMP_SPACE ? ' ' : 'T') || !take_time(p + 11, &time))
        return false;
    if (!memo_has(memo, head, tail)) {
        int64_t days;
        if (!take_date(p, &days))
            return false;
        *memo = (struct date_memo){true, tail, head, days * 86400};
    }
    p += STAMP_SECONDS_LEN;
    if (digits != 0) {
        if (*p++ != (form->a & STAMP_COMMA ? ',' : '.') || !take_digits(p, digits, &fraction))
            return false;
        p += digits;
    }
    for (size_t i = 0; i < zone.len; i++)
        if (p[i] != zone.ptr[i])
            return false;
    v = memo->seconds + time;
    return !__builtin_mul_overflow(v, (int64_t)power10[digits], &v) &&
           !__builtin_add_overflow(v, (int64_t)fraction, out);
}

size_t stamp_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                       int64_t *out)
{
    struct date_memo memo = {0};
    uint8_t zone_text[ZONE_LEN_MAX];
    struct slice zone = slice_of(zone_text, (size_t)(put_stamp_zone(zone_text, form) - zone_text));
    size_t i = 0, len = stamp_length(form);
    while (cells_ahead(cells, i, n) && cells[i].len == len &&
           stamp_parse(form, zone, cells[i].ptr, &memo, &out[i]))
        i++;
    return i;
}

/* Floor division. */
static int64_t split(int64_t v, int64_t by, uint64_t *rest_out)
{
    int64_t q = v / by - (v % by < 0);
    *rest_out = (uint64_t)v - (uint64_t)q * (uint64_t)by;
    return q;
}

size_t stamp_format(const struct value_form *form, int64_t v, uint8_t *dst)
{
    unsigned year, month, day, digits = stamp_digits(form);
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
    return (size_t)(put_stamp_zone(p, form) - dst);
}

bool stamp_sound(const struct value_form *form)
{
    return form->a <= STAMP_KNOWN && stamp_digits(form) <= 9 && zone_sound(form->b);
}

/* ---- 17/May/2015:10:05:03 +0000 */

#define CLF_LEN 26
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* /Mon/ at p; 0: none */
static unsigned take_month(const uint8_t *p)
{
    if (p[0] != '/' || p[4] != '/')
        return 0;
    for (unsigned i = 0; i < 12; i++) {
        const char *name = months + (size_t)3 * i;
        if (p[3] == (uint8_t)name[2] && p[2] == (uint8_t)name[1] && p[1] == (uint8_t)name[0])
            return i + 1;
    }
    return 0;
}

bool clf_guess(struct slice text, struct value_form *form)
{
    return text.len == CLF_LEN && take_zone(text.ptr + 21, false, &form->b);
}

bool clf_sound(const struct value_form *form)
{
    return form->a == 0 && zone_sound(form->b);
}

/* 17/May/2015 at p */
static bool take_clf_date(const uint8_t *p, int64_t *days_out)
{
    unsigned century, year, month = take_month(p + 2), day;
    if (!take2(p, 31, &day) || !take2(p + 7, 99, &century) || !take2(p + 9, 99, &year))
        return false;
    year += century * 100;
    if (!day_exists(year, month, day))
        return false;
    *days_out = days_of(year, month, day);
    return true;
}

static inline bool clf_parse(const uint8_t *zone, const uint8_t *p, struct date_memo *memo,
                             int64_t *out)
{
    int64_t time;
    uint64_t head = get_u64(p);
    uint32_t tail = get_u32(p + 8);
    if (!bytes_eq(p + 20, zone, CLF_LEN - 20) || !take_time(p + 12, &time))
        return false;
    if (!memo_has(memo, head, tail)) {
        int64_t days;
        if (p[11] != ':' || !take_clf_date(p, &days))
            return false;
        *memo = (struct date_memo){true, tail, head, days * 86400};
    }
    *out = memo->seconds + time;
    return true;
}

size_t clf_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                     int64_t *out)
{
    struct date_memo memo = {0};
    uint8_t zone[CLF_LEN - 20] = {' '};
    size_t i = 0;
    put_zone(zone + 1, form->b, false);
    while (cells_ahead(cells, i, n) && cells[i].len == CLF_LEN &&
           clf_parse(zone, cells[i].ptr, &memo, &out[i]))
        i++;
    return i;
}

size_t clf_format(const struct value_form *form, int64_t v, uint8_t *dst)
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
