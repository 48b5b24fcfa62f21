/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values; V1 to V3 in value.h. Parsing accepts the canonical spelling only, most types by
 * construction; those where that is not plain (dates, floats) format what they read and compare. */
#include "storage/value_parts.h"

const uint64_t power10[20] = {
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

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

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
        if (!float_guess(samples, count))
            return false;
        break;
    case VALUE_TIMESTAMP:
        if (!stamp_guess(first, &form))
            return false;
        break;
    case VALUE_CLF:
        if (!clf_guess(first, &form))
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
        if (first.len > 2 * VALUE_BYTES_MAX || !value_form_sound(&form) || value_bytes(&form) < 4)
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
        return stamp_sound(form);
    case VALUE_CLF:
        return clf_sound(form);
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
        return stamp_parse(form, text, out);
    case VALUE_CLF:
        return clf_parse(form, text, out);
    case VALUE_FLOAT32:
        return float_parse(text, out);
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
        return stamp_format(form, v, dst);
    case VALUE_CLF:
        return clf_format(form, v, dst);
    case VALUE_FLOAT32:
        return v < 0 || v > UINT32_MAX ? 0 : float_format((uint32_t)v, dst);
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
