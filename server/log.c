/* SPDX-License-Identifier: Apache-2.0 */
/* The log; see log.h. A line is one write(2), so that lines of threads do not mix. */
#include "server/log.h"

#include <time.h>
#include <unistd.h>

static const char *const NAMES[] = {"debug", "info", "warn", "error"};
static int least = LOG_INFO;
static bool json;

void log_set_level(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (strcmp(NAMES[i], name) == 0)
            least = (int)i + LOG_DEBUG;
}

void log_set_format(const char *name)
{
    json = strcmp(name, "json") == 0;
}

/* Length of the UTF-8 character at s, 0 when there is none. */
static size_t character(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;
    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (n >= 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
                   (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)))
        return 0;
    return n;
}

/* The text as the inside of a JSON string, or as it is; control bytes become spaces, and in JSON
 * what is not UTF-8 becomes '?'. */
static size_t put_text(char *out, size_t size, const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        const unsigned char *s = (const unsigned char *)text + i;
        size_t step = json ? character(s, len - i) : 1;
        if (n + 4 > size)
            break;
        if (step == 0) {
            out[n++] = '?';
            step = 1;
        } else if (s[0] < 0x20 || s[0] == 0x7f) {
            out[n++] = ' ';
        } else {
            if (json && (s[0] == '"' || s[0] == '\\'))
                out[n++] = '\\';
            memcpy(out + n, s, step);
            n += step;
        }
        i += step;
    }
    return n;
}

void log_event(int level, const char *fmt, ...)
{
    char text[1024], line[2 * sizeof text + 128], when[32];
    struct timespec now;
    struct tm tm;
    va_list ap;

    if (level < least)
        return;
    if (level > LOG_ERROR)
        level = LOG_ERROR;
    const char *name = NAMES[level - LOG_DEBUG];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(when + n, sizeof when - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
    va_start(ap, fmt);
    int made = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = made < 0 ? 0 : (size_t)made < sizeof text ? (size_t)made : sizeof text - 1;
    n = (size_t)snprintf(line, sizeof line,
                         json ? "{\"@timestamp\":\"%s\",\"log.level\":\"%s\",\"service.name\":"
                                "\"stowd\",\"message\":\""
                              : "%s %-5s ",
                         when, name);
    n += put_text(line + n, sizeof line - n - 4, text, len);
    if (json)
        n += (size_t)snprintf(line + n, sizeof line - n, "\"}");
    line[n++] = '\n';
    /* Nobody to tell when stderr is gone. */
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
