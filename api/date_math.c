/* SPDX-License-Identifier: Apache-2.0 */
#include "api/date_math.h"

#include <time.h>

/* Read "now-1d/M" into *t. Rounding goes down, in the zone of the format. */
static bool math_apply(struct slice math, struct tm *t)
{
    size_t i = 3;
    if (math.len < 3 || memcmp(math.ptr, "now", 3) != 0)
        return false;
    while (i < math.len) {
        uint8_t op = math.ptr[i++];
        int n = 0, digits = 0;
        for (; i < math.len && math.ptr[i] >= '0' && math.ptr[i] <= '9' && digits < 6;
             i++, digits++)
            n = n * 10 + (math.ptr[i] - '0');
        if (digits == 0)
            n = 1;
        if (i == math.len || (op != '+' && op != '-' && op != '/') || (op == '/' && n != 1))
            return false;
        uint8_t unit = math.ptr[i++];
        bool down = op == '/';
        if (op == '-')
            n = -n;
        if (memchr("yMwdhHms", unit, 8) == NULL)
            return false;
        if (!down) {
            t->tm_year += unit == 'y' ? n : 0;
            t->tm_mon += unit == 'M' ? n : 0;
            t->tm_mday += unit == 'w' ? 7 * n : unit == 'd' ? n : 0;
            t->tm_hour += unit == 'h' || unit == 'H' ? n : 0;
            t->tm_min += unit == 'm' ? n : 0;
            t->tm_sec += unit == 's' ? n : 0;
        } else {
            t->tm_sec = unit == 's' ? t->tm_sec : 0;
            t->tm_min = memchr("ms", unit, 2) != NULL ? t->tm_min : 0;
            t->tm_hour = memchr("hHms", unit, 4) != NULL ? t->tm_hour : 0;
            t->tm_mday = unit == 'M' || unit == 'y' ? 1 : t->tm_mday;
            t->tm_mon = unit == 'y' ? 0 : t->tm_mon;
            t->tm_mday -= unit == 'w' ? (t->tm_wday + 6) % 7 : 0;
        }
        time_t s = timegm(t); /* normalises */
        gmtime_r(&s, t);
    }
    return true;
}

static bool format_put(struct slice format, const struct tm *t, struct buf *out)
{
    for (size_t i = 0, n; i < format.len; i += n) {
        uint8_t c = format.ptr[i];
        for (n = 1; i + n < format.len && format.ptr[i + n] == c; n++)
            ;
        int width = n > 9 ? 9 : (int)n;
        int v = c == 'M'   ? t->tm_mon + 1
                : c == 'd' ? t->tm_mday
                : c == 'H' ? t->tm_hour
                : c == 'm' ? t->tm_min
                : c == 's' ? t->tm_sec
                           : t->tm_yday + 1;
        if (c == 'y' || c == 'u' || c == 'Y')
            buf_printf(out, "%0*d", width, n == 2 ? t->tm_year % 100 : t->tm_year + 1900);
        else if (memchr("MdHmsD", c, 6) != NULL)
            buf_printf(out, "%0*d", width, v);
        else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            return false;
        else if (c != '\'')
            buf_put(out, format.ptr + i, n);
    }
    return true;
}

/* "+01:00", "-0530", "UTC", "Z" as seconds. */
static bool zone_read(struct slice zone, int *seconds_out)
{
    int digit[4], count = 0;
    if (slice_is(zone, "UTC") || slice_is(zone, "Z")) {
        *seconds_out = 0;
        return true;
    }
    for (size_t i = 1; i < zone.len; i++) {
        if (zone.ptr[i] == ':' && i == 3)
            continue;
        if (zone.ptr[i] < '0' || zone.ptr[i] > '9' || count == 4)
            return false;
        digit[count++] = zone.ptr[i] - '0';
    }
    if (count != 4 || (zone.ptr[0] != '+' && zone.ptr[0] != '-'))
        return false;
    int s = ((digit[0] * 10 + digit[1]) * 60 + digit[2] * 10 + digit[3]) * 60;
    *seconds_out = zone.ptr[0] == '-' ? -s : s;
    return true;
}

static struct slice cut(struct slice s, size_t from, size_t to)
{
    return slice_of(s.ptr + from, to - from);
}

static size_t find_byte(struct slice s, char c)
{
    const uint8_t *p = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);
    return p == NULL ? s.len : (size_t)(p - s.ptr);
}

/* What stands between the braces: math, or math{format} or math{format|zone}. */
static bool placeholder_put(struct slice text, uint64_t now_ms, struct buf *out)
{
    struct slice math = text, format = SLICE_LIT("yyyy.MM.dd");
    size_t brace = find_byte(text, '{');
    int zone = 0;
    struct tm t;
    if (brace < text.len) {
        if (text.ptr[text.len - 1] != '}')
            return false;
        math = cut(text, 0, brace);
        format = cut(text, brace + 1, text.len - 1);
        size_t bar = find_byte(format, '|');
        if (bar < format.len && !zone_read(cut(format, bar + 1, format.len), &zone))
            return false;
        format = cut(format, 0, bar);
    }
    time_t s = (time_t)(now_ms / 1000) + zone;
    gmtime_r(&s, &t);
    return format.len != 0 && math_apply(math, &t) && format_put(format, &t, out);
}

enum rc date_math_resolve(struct slice name, uint64_t now_ms, struct buf *out, struct err *err)
{
    if (name.len == 0 || name.ptr[0] != '<') {
        buf_put_slice(out, name);
        return out->failed ? err_set(err, RC_NOMEM, 0, "out of memory for a name") : RC_OK;
    }
    if (name.len < 2 || name.ptr[name.len - 1] != '>')
        goto bad;
    for (size_t i = 1; i < name.len - 1; i++) {
        if (name.ptr[i] == '\\' && i + 2 < name.len) {
            buf_put_byte(out, name.ptr[++i]);
        } else if (name.ptr[i] == '{') {
            size_t depth = 1, end = i + 1;
            for (; end < name.len - 1; end++) {
                depth += name.ptr[end] == '{';
                depth -= name.ptr[end] == '}';
                if (depth == 0)
                    break;
            }
            if (depth != 0 || !placeholder_put(cut(name, i + 1, end), now_ms, out))
                goto bad;
            i = end;
        } else if (name.ptr[i] == '}') {
            goto bad;
        } else {
            buf_put_byte(out, name.ptr[i]);
        }
    }
    return out->failed ? err_set(err, RC_NOMEM, 0, "out of memory for a name") : RC_OK;
bad:
    return err_set(err, RC_INVALID, 0, "invalid dynamic name expression [%.*s]", SLICE_FMT(name));
}
