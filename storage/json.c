/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON over bytes in memory; see json.h.
 *
 * The checker is written once and instantiated twice, with the scan of strings in SSE2 and byte by
 * byte; as both stop at the same bytes, they report the same faults (J2). */
#include "storage/json_parts.h"

#include "config/limits.h"

/* ---- checking */

/* Key and colon. */
ALWAYS_INLINE const uint8_t *check_key(const uint8_t *p, const uint8_t *end, const bool simd,
                                       struct json_stop *stop)
{
    p = skip_space(p, end);
    if (p == end)
        return stop_at(stop, end, JSON_CUT_SHORT);
    if (*p != '"')
        return stop_at(stop, p, "unexpected byte where a key should begin");
    p = check_string(p + 1, end, simd, stop);
    if (p == NULL)
        return NULL;
    p = skip_space(p, end);
    if (p == end)
        return stop_at(stop, end, JSON_CUT_SHORT);
    if (*p != ':')
        return stop_at(stop, p, "unexpected byte where ':' should be");
    return p + 1;
}

/* The containers around the one that is open: a bit each, set for an object. */
struct nesting {
    uint64_t outer[(LIMIT_JSON_DEPTH + 63) / 64];
    unsigned depth;
    bool in_object;
};

ALWAYS_INLINE void nesting_push(struct nesting *n, bool object)
{
    uint64_t bit = (uint64_t)1 << (n->depth % 64);
    uint64_t *word = &n->outer[n->depth / 64];
    *word = n->in_object ? *word | bit : *word & ~bit;
    ++n->depth;
    n->in_object = object;
}

ALWAYS_INLINE void nesting_pop(struct nesting *n)
{
    --n->depth;
    n->in_object = (n->outer[n->depth / 64] >> (n->depth % 64) & 1) != 0;
}

/* A value is complete before p: so are the containers that end here. To the next value's first
 * byte or key, or behind the whole value with depth 0. */
ALWAYS_INLINE const uint8_t *check_closing(const uint8_t *p, const uint8_t *end, struct nesting *n,
                                           struct json_stop *stop)
{
    for (;; ++p, nesting_pop(n)) {
        if (n->depth == 0)
            return p;
        p = skip_space(p, end);
        if (p == end)
            return stop_at(stop, end, JSON_CUT_SHORT);
        if (*p == ',')
            return p + 1;
        if (*p != (n->in_object ? '}' : ']'))
            return stop_at(stop, p,
                           n->in_object ? "unexpected byte where ',' or '}' should be"
                                        : "unexpected byte where ',' or ']' should be");
    }
}

/* From the value that begins at p, or behind white space, to behind it. */
ALWAYS_INLINE const uint8_t *check_value(const uint8_t *p, const uint8_t *end, unsigned depth_max,
                                         const bool simd, struct json_stop *stop)
{
    struct nesting n = {.depth = 0, .in_object = false};
    do {
        p = skip_space(p, end);
        if (p < end && (*p == '{' || *p == '[')) {
            if (n.depth == depth_max)
                return stop_at(stop, p, "containers nested too deeply");
            nesting_push(&n, *p == '{');
            p = skip_space(p + 1, end);
            if (p < end && *p == (n.in_object ? '}' : ']')) {
                nesting_pop(&n);
                p = check_closing(p + 1, end, &n, stop);
            } else {
                if (n.in_object && (p = check_key(p, end, simd, stop)) == NULL)
                    return NULL;
                continue;
            }
        } else {
            p = check_scalar(p, end, simd, stop);
            if (p != NULL)
                p = check_closing(p, end, &n, stop);
        }
        if (p != NULL && n.in_object)
            p = check_key(p, end, simd, stop);
        if (p == NULL)
            return NULL;
    } while (n.depth != 0);
    return p;
}

static enum json_type type_of(uint8_t c)
{
    switch (c) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    case '}':
    case ']':
        return JSON_END;
    default:
        return JSON_NUMBER;
    }
}

enum json_type json_type_of(struct slice text)
{
    return type_of(*skip_space(text.ptr, text.ptr + text.len));
}

ALWAYS_INLINE bool check(struct slice text, const bool simd, enum json_type *type_out,
                         struct json_fault *fault)
{
    if (text.len == 0) {
        *fault = (struct json_fault){0, JSON_CUT_SHORT};
        return false;
    }
    const uint8_t *end = text.ptr + text.len;
    struct json_stop stop = {NULL, NULL};
    const uint8_t *p = check_value(text.ptr, end, LIMIT_JSON_DEPTH, simd, &stop);
    if (p != NULL && (p = skip_space(p, end)) != end)
        p = stop_at(&stop, p, "bytes behind the value");
    if (p == NULL) {
        *fault = (struct json_fault){(size_t)(stop.at - text.ptr), stop.what};
        return false;
    }
    if (type_out != NULL)
        *type_out = json_type_of(text);
    return true;
}

bool json_check(struct slice text, enum json_type *type_out, struct json_fault *fault)
{
    return check(text, true, type_out, fault);
}

bool json_check_scalar(struct slice text, enum json_type *type_out, struct json_fault *fault)
{
    return check(text, false, type_out, fault);
}

const uint8_t *json_array_end(const uint8_t *p, const uint8_t *end, unsigned depth_max)
{
    struct json_stop stop;
    return p < end && *p == '[' ? check_value(p, end, depth_max, true, &stop) : NULL;
}

/* ---- walking: the text is valid JSON; the bounds are checked all the same */

static const uint8_t *pass_string(const uint8_t *p, const uint8_t *end)
{
    for (++p; p < end; ++p) {
        p = skip_plain(p, end, true);
        if (p < end && *p == '"')
            return p + 1;
        if (p < end && *p == '\\')
            ++p;
    }
    return end;
}

/* To the next quote or bracket. */
static const uint8_t *find_structure(const uint8_t *p, const uint8_t *end)
{
#ifdef __SSE2__
    /* '[' and '{', ']' and '}' differ in bit 0x20 only. */
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i fold = _mm_set1_epi8(0x20);
    const __m128i opening = _mm_set1_epi8('{');
    const __m128i closing = _mm_set1_epi8('}');
    while (end - p >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i y = _mm_or_si128(x, fold);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(y, opening), _mm_cmpeq_epi8(y, closing));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(x, quote));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask != 0)
            return p + __builtin_ctz(mask);
        p += 16;
    }
#endif
    while (p < end && *p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}')
        ++p;
    return p;
}

static const uint8_t *pass_container(const uint8_t *p, const uint8_t *end)
{
    size_t depth = 0;
    while ((p = find_structure(p, end)) < end) {
        if (*p == '"') {
            p = pass_string(p, end);
        } else if ((*p++ | 0x20) == '{') {
            ++depth;
        } else if (--depth == 0) {
            return p;
        }
    }
    return end;
}

static const uint8_t *pass_word(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p != ',' && (*p | 0x20) != '}' && *p > ' ')
        ++p;
    return p;
}

enum json_type json_peek(const struct json_scan *scan)
{
    return scan->p < scan->end ? type_of(*scan->p) : JSON_END;
}

struct json_value json_take(struct json_scan *scan)
{
    const uint8_t *from = scan->p;
    enum json_type type = json_peek(scan);
    if (type == JSON_OBJECT || type == JSON_ARRAY)
        scan->p = pass_container(from, scan->end);
    else if (type == JSON_STRING)
        scan->p = pass_string(from, scan->end);
    else if (type != JSON_END)
        scan->p = pass_word(from, scan->end);
    return (struct json_value){type, slice_of(from, (size_t)(scan->p - from))};
}

bool json_next_element(struct json_scan *scan)
{
    scan->p = skip_space(scan->p, scan->end);
    if (scan->p < scan->end && *scan->p == ',')
        scan->p = skip_space(scan->p + 1, scan->end);
    return json_peek(scan) != JSON_END;
}

bool json_next_key(struct json_scan *scan, struct slice *key_out)
{
    if (!json_next_element(scan) || json_peek(scan) != JSON_STRING)
        return false;
    *key_out = json_take(scan).text;
    scan->p = skip_space(scan->p, scan->end);
    if (scan->p < scan->end)
        scan->p = skip_space(scan->p + 1, scan->end); /* the colon */
    return json_peek(scan) != JSON_END;
}

struct json_value json_root(struct slice text)
{
    if (text.len == 0)
        return (struct json_value){JSON_END, text};
    struct json_scan scan = {text.ptr, text.ptr + text.len};
    scan.p = skip_space(scan.p, scan.end);
    return json_take(&scan);
}

struct json_scan json_enter(struct json_value container)
{
    const uint8_t *p = container.text.ptr;
    if (container.text.len < 2)
        return (struct json_scan){p, p};
    return (struct json_scan){p + 1, p + container.text.len - 1};
}

bool json_member(struct json_scan *scan, struct slice *key_out, struct json_value *value_out)
{
    if (!json_next_key(scan, key_out))
        return false;
    *value_out = json_take(scan);
    return true;
}

bool json_element(struct json_scan *scan, struct json_value *value_out)
{
    if (!json_next_element(scan))
        return false;
    *value_out = json_take(scan);
    return true;
}

/* ---- strings */

static struct slice unquoted(struct slice quoted)
{
    return quoted.len < 2 ? SLICE_NONE : slice_of(quoted.ptr + 1, quoted.len - 2);
}

/* The four digits behind \u; -1 when they are not all there. */
static int32_t hex4(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 4)
        return -1;
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* The code point of the escape at *p, which moves behind it. A surrogate is one only when it is
 * alone. */
static int32_t take_escape(const uint8_t **p, const uint8_t *end)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (end - *p < 2) {
        *p = end;
        return 0xfffd;
    }
    uint8_t c = (*p)[1];
    *p += 2;
    if (c != 'u') {
        const char *simple = memchr(from, c, sizeof from - 1);
        return simple != NULL ? to[simple - from] : c;
    }
    int32_t v = hex4(*p, end);
    if (v < 0)
        return 0xfffd;
    *p += 4;
    if (v >= 0xd800 && v < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int32_t low = hex4(*p + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            *p += 6;
            return 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return v;
}

/* The next code point of a JSON string's inside (or of plain text: escaped is false); -1 at its
 * end. Bytes that are not UTF-8 are U+FFFD. */
static int32_t take_point(const uint8_t **p, const uint8_t *end, bool escaped)
{
    if (*p == end)
        return -1;
    uint8_t c = **p;
    if (c == '\\' && escaped)
        return take_escape(p, end);
    if (c < 0x80) {
        ++*p;
        return c;
    }
    size_t n = utf8_length(*p, end);
    int32_t v = 0xfffd;
    if (n != 0) {
        v = c & (0x7f >> n);
        for (size_t i = 1; i < n; i++)
            v = v << 6 | ((*p)[i] & 0x3f);
    }
    *p += n != 0 ? n : 1;
    return v;
}

static int compare_points(struct slice a, struct slice b, bool b_escaped)
{
    if (a.len == 0 || b.len == 0)
        return (a.len != 0) - (b.len != 0);
    const uint8_t *p = a.ptr, *p_end = p + a.len;
    const uint8_t *q = b.ptr, *q_end = q + b.len;
    int32_t x, y;
    do {
        x = take_point(&p, p_end, true);
        y = take_point(&q, q_end, b_escaped);
    } while (x == y && x >= 0);
    return (x > y) - (x < y);
}

static bool has_escape(struct slice s)
{
    return s.len != 0 && memchr(s.ptr, '\\', s.len) != NULL;
}

bool json_string_is(struct slice quoted, const char *text)
{
    struct slice inside = unquoted(quoted);
    if (!has_escape(inside))
        return slice_is(inside, text);
    return compare_points(inside, slice_str(text), false) == 0;
}

int json_string_cmp(struct slice quoted_a, struct slice quoted_b)
{
    struct slice a = unquoted(quoted_a), b = unquoted(quoted_b);
    if (!has_escape(a) && !has_escape(b))
        return slice_cmp(a, b);
    return compare_points(a, b, true);
}

bool json_string_eq(struct slice quoted_a, struct slice quoted_b)
{
    return slice_eq(quoted_a, quoted_b) || json_string_cmp(quoted_a, quoted_b) == 0;
}

bool json_plain(struct slice quoted, struct slice *plain_out)
{
    struct slice inside = unquoted(quoted);
    if (has_escape(inside))
        return false;
    *plain_out = inside;
    return true;
}

static void put_utf8(struct buf *out, int32_t point)
{
    uint32_t v = point >= 0xd800 && point < 0xe000 ? 0xfffd : (uint32_t)point;
    if (v < 0x80) {
        buf_put_byte(out, (uint8_t)v);
        return;
    }
    uint8_t tmp[4];
    size_t n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, v >>= 6)
        tmp[i] = (uint8_t)(0x80 | (v & 0x3f));
    tmp[0] = (uint8_t)(0xf00 >> n | v);
    buf_put(out, tmp, n);
}

void json_unquote(struct slice quoted, struct buf *out)
{
    struct slice inside = unquoted(quoted);
    if (inside.len == 0)
        return;
    const uint8_t *p = inside.ptr, *end = p + inside.len;
    while (p < end) {
        const uint8_t *escape = memchr(p, '\\', (size_t)(end - p));
        const uint8_t *plain_end = escape != NULL ? escape : end;
        buf_put(out, p, (size_t)(plain_end - p));
        p = plain_end;
        if (escape != NULL)
            put_utf8(out, take_escape(&p, end));
    }
}

size_t json_plain_len(struct slice text)
{
    return text.len == 0 ? 0 : (size_t)(skip_plain(text.ptr, text.ptr + text.len, true) - text.ptr);
}

/* Names and ids have nothing to escape. */
static bool quote_plain(struct slice text, struct buf *out)
{
    if (json_plain_len(text) != text.len || !buf_reserve(out, text.len + 2))
        return false;
    uint8_t *to = out->ptr + out->len;
    *to++ = '"';
    if (text.len != 0)
        memcpy(to, text.ptr, text.len);
    to[text.len] = '"';
    out->len += text.len + 2;
    return true;
}

void json_quote(struct slice text, struct buf *out)
{
    if (quote_plain(text, out))
        return;
    static const char hex[] = "0123456789abcdef", from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    buf_put_byte(out, '"');
    const uint8_t *p = text.ptr, *end = text.len != 0 ? p + text.len : p;
    while (p < end) {
        const uint8_t *plain_end = skip_plain(p, end, true);
        buf_put(out, p, (size_t)(plain_end - p));
        p = plain_end;
        if (p == end)
            break;
        if (*p >= 0x80) {
            size_t n = utf8_length(p, end);
            buf_put(out, n != 0 ? (const void *)p : "\xef\xbf\xbd", n != 0 ? n : 3);
            p += n != 0 ? n : 1;
            continue;
        }
        const char *simple = memchr(from, *p, sizeof from - 1);
        if (simple != NULL)
            buf_put(out, (char[]){'\\', to[simple - from]}, 2);
        else
            buf_put(out, (char[]){'\\', 'u', '0', '0', hex[*p >> 4], hex[*p & 15]}, 6);
        ++p;
    }
    buf_put_byte(out, '"');
}

/* ---- numbers */

bool json_u64(struct slice number, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < number.len; i++) {
        if (!is_digit(number.ptr[i]) || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(number.ptr[i] - '0'), &v))
            return false;
    }
    if (number.len == 0)
        return false;
    *out = v;
    return true;
}

bool json_i64(struct slice number, int64_t *out)
{
    bool negative = number.len != 0 && number.ptr[0] == '-';
    struct slice digits = negative ? slice_of(number.ptr + 1, number.len - 1) : number;
    uint64_t v;
    if (!json_u64(digits, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}
