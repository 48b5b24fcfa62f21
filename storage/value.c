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
    const uint8_t *p = text.ptr + negative;
    size_t n = text.len - negative, digits = digits_before(p, n), decimals = 0;
    uint64_t v, part;
    while (digits >= 8 && digits < n && is_digit(p[digits]))
        digits++;
    if (digits == 0 || digits + form->a > 18 || (*p == '0' && digits > 1))
        return false;
    if (digits < n) {
        decimals = n - digits - 1;
        if (p[digits] != '.' || decimals == 0 || decimals > form->a)
            return false;
    }
    if (decimals < form->b || (decimals > form->b && p[n - 1] == '0'))
        return false;
    if (decimals != 0 && n <= 8) {
        /* Most are short: all digits together, without the point. */
        uint64_t x = load_short(p, n) ^ DIGITS8, low = (UINT64_C(1) << 8 * digits) - 1;
        if (!value_of8(((x & low) | (x >> 8 & ~low)) << 8 * (9 - n), &v))
            return false;
    } else {
        if (!take_digits(p, digits, &v))
            return false;
        if (decimals != 0) {
            if (!take_digits(p + digits + 1, decimals, &part))
                return false;
            v = v * power10[decimals] + part;
        }
    }
    v *= power10[form->a - decimals];
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
        size_t decimals = 0;
        while (decimals < samples[i].len && samples[i].ptr[samples[i].len - 1 - decimals] != '.')
            decimals++;
        if (decimals == samples[i].len)
            decimals = 0;
        struct value_form one = {VALUE_DECIMAL, (uint32_t)decimals, (uint32_t)decimals, SLICE_NONE};
        if (decimals > DECIMAL_SCALE_MAX || !parse_decimal(&one, samples[i], &v)) {
            if (i == 0)
                return false; /* nor will the first sample have the form of the others */
            continue;
        }
        most = decimals > most ? (uint32_t)decimals : most;
        fewest = decimals < fewest ? (uint32_t)decimals : fewest;
    }
    form->a = most;
    form->b = most == fewest ? most : fewest < 1 ? 0 : 1;
    return most != 0;
}

/* ---- IPv4 */

#define IPV4_LEN_MIN 7
#define IPV4_LEN_MAX 15

static bool parse_ipv4(struct slice text, int64_t *out)
{
    uint8_t copy[IPV4_LEN_MAX + 5] = {0}; /* bytes that are no digits behind the text */
    const uint8_t *p = copy;
    uint32_t v = 0;
    if (text.len < IPV4_LEN_MIN || text.len > IPV4_LEN_MAX)
        return false;
    bytes_copy(copy, text.ptr, text.len);
    copy[text.len] = '.';
    for (int part = 0; part < 4; part++) {
        uint32_t x = get_u32(p) ^ 0x30303030u;
        uint32_t other = ((x + 0x76767676u) | x) & 0x80808080u; /* the bytes that are no digits */
        unsigned n = other == 0 ? 4 : (unsigned)__builtin_ctz(other) / 8;
        if (n == 0 || n > 3 || p[n] != '.' || (n > 1 && *p == '0'))
            return false;
        x <<= 32 - 8 * n; /* the last digit in the highest byte */
        unsigned byte = (x >> 8 & 255) * 100 + (x >> 16 & 255) * 10 + (x >> 24);
        if (byte > 255)
            return false;
        v = v << 8 | byte;
        p += n + 1;
    }
    *out = v;
    return p == copy + text.len + 1;
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
    if (text.len <= prefix || !bytes_eq(text.ptr, form->prefix.ptr, prefix))
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

/* Value of a hex digit, and in which case it is one; 0: in none. */
#define HEX_LOWER 0x10
#define HEX_UPPER 0x20
#define HEX_BOTH  (HEX_LOWER | HEX_UPPER)
static const uint8_t hex_digit[256] = {
    ['0'] = HEX_BOTH | 0,   ['1'] = HEX_BOTH | 1,   ['2'] = HEX_BOTH | 2,   ['3'] = HEX_BOTH | 3,
    ['4'] = HEX_BOTH | 4,   ['5'] = HEX_BOTH | 5,   ['6'] = HEX_BOTH | 6,   ['7'] = HEX_BOTH | 7,
    ['8'] = HEX_BOTH | 8,   ['9'] = HEX_BOTH | 9,   ['a'] = HEX_LOWER | 10, ['b'] = HEX_LOWER | 11,
    ['c'] = HEX_LOWER | 12, ['d'] = HEX_LOWER | 13, ['e'] = HEX_LOWER | 14, ['f'] = HEX_LOWER | 15,
    ['A'] = HEX_UPPER | 10, ['B'] = HEX_UPPER | 11, ['C'] = HEX_UPPER | 12, ['D'] = HEX_UPPER | 13,
    ['E'] = HEX_UPPER | 14, ['F'] = HEX_UPPER | 15,
};

static bool pack_hex(struct slice text, bool upper, uint8_t *dst)
{
    unsigned mark = upper ? HEX_UPPER : HEX_LOWER;
    for (size_t i = 0; i + 1 < text.len; i += 2) {
        unsigned high = hex_digit[text.ptr[i]], low = hex_digit[text.ptr[i + 1]];
        if ((high & low & mark) == 0)
            return false;
        *dst++ = (uint8_t)(high << 4 | (low & 15));
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

#define TYPE(type) (1u << (type))

unsigned value_candidates(struct slice first)
{
    assert(first.len != 0);
    uint8_t c = first.ptr[0], last = first.ptr[first.len - 1];
    size_t len = first.len;
    unsigned out = 0;
    if (is_digit(last) && len <= VALUE_PREFIX_MAX + 18)
        out |= TYPE(VALUE_NUMBERED);
    if (is_digit(last) && (is_digit(c) || c == '-') && len <= 22)
        out |= TYPE(VALUE_INTEGER) | TYPE(VALUE_DECIMAL) | TYPE(VALUE_FLOAT32);
    if (is_digit(last) && is_digit(c) && len >= IPV4_LEN_MIN && len <= IPV4_LEN_MAX)
        out |= TYPE(VALUE_IPV4);
    if (is_digit(c) && len >= STAMP_LEN_MIN && len <= STAMP_LEN_MAX)
        out |= TYPE(VALUE_TIMESTAMP) | TYPE(VALUE_CLF);
    if (len == UUID_LEN)
        out |= TYPE(VALUE_UUID);
    if (len >= 8 && len <= 2 * VALUE_BYTES_MAX && len % 2 == 0)
        out |= TYPE(VALUE_HEX);
    if (len <= VALUE_BYTES_MAX)
        out |= TYPE(VALUE_BASE64URL);
    return out;
}

/* Is it hexadecimal but for dashes, with capitals (form->b 1) or without? */
static bool guess_case(struct slice text, struct value_form *form)
{
    for (size_t i = 0; i < text.len; i++)
        if (!(hex_digit[text.ptr[i]] & HEX_LOWER) && text.ptr[i] != '-') {
            form->b = 1;
            return (hex_digit[text.ptr[i]] & HEX_UPPER) != 0;
        }
    return true;
}

bool value_guess(enum value_type type, const struct slice *samples, size_t count,
                 struct value_form *out)
{
    struct value_form form = {.type = type};
    struct slice first = samples[0];
    int64_t v;
    uint8_t bytes[VALUE_BYTES_MAX];
    switch (type) {
    case VALUE_DECIMAL:
        if (!guess_decimal(samples, count, &form))
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
        if (!guess_case(first, &form))
            return false;
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

size_t value_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                       int64_t *out)
{
    size_t i = 0;
    switch (form->type) {
    case VALUE_INTEGER:
        while (cells_ahead(cells, i, n) && parse_integer(cell_slice(&cells[i]), &out[i]))
            i++;
        return i;
    case VALUE_DECIMAL:
        while (cells_ahead(cells, i, n) && parse_decimal(form, cell_slice(&cells[i]), &out[i]))
            i++;
        return i;
    case VALUE_IPV4:
        while (cells_ahead(cells, i, n) && parse_ipv4(cell_slice(&cells[i]), &out[i]))
            i++;
        return i;
    case VALUE_TIMESTAMP:
        return stamp_parse_run(form, cells, n, out);
    case VALUE_CLF:
        return clf_parse_run(form, cells, n, out);
    case VALUE_FLOAT32:
        while (cells_ahead(cells, i, n) && float_parse(cell_slice(&cells[i]), &out[i]))
            i++;
        return i;
    case VALUE_NUMBERED:
        while (cells_ahead(cells, i, n) && parse_numbered(form, cell_slice(&cells[i]), &out[i]))
            i++;
        return i;
    default:
        return 0;
    }
}

bool value_parse(const struct value_form *form, struct slice text, int64_t *out)
{
    struct cell cell = {text.ptr, (uint32_t)text.len, 0};
    return text.len <= UINT32_MAX && value_parse_run(form, &cell, 1, out) == 1;
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

size_t value_pack_run(const struct value_form *form, const struct cell *cells, size_t n,
                      uint8_t *dst)
{
    size_t i = 0, size = value_bytes(form);
    bool upper = form->b != 0;
    switch (form->type) {
    case VALUE_UUID:
        while (cells_ahead(cells, i, n) && pack_uuid(cell_slice(&cells[i]), upper, dst + i * size))
            i++;
        return i;
    case VALUE_HEX:
        while (cells_ahead(cells, i, n) && cells[i].len == form->a &&
               pack_hex(cell_slice(&cells[i]), upper, dst + i * size))
            i++;
        return i;
    case VALUE_BASE64URL:
        while (cells_ahead(cells, i, n) && cells[i].len == form->a &&
               pack_base64(cell_slice(&cells[i]), dst + i * size))
            i++;
        return i;
    default:
        return 0;
    }
}

bool value_pack(const struct value_form *form, struct slice text, uint8_t dst[VALUE_BYTES_MAX])
{
    struct cell cell = {text.ptr, (uint32_t)text.len, 0};
    return text.len <= UINT32_MAX && value_pack_run(form, &cell, 1, dst) == 1;
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
