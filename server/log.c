/* SPDX-License-Identifier: Apache-2.0 */
/* The log; see log.h. A line is one write(2), so that lines of threads do not mix. */
#include "server/log.h"

#include <time.h>
#include <unistd.h>

static const char *const NAMES[] = {"debug", "info", "warn", "error"};
static int least = LOG_INFO;

void log_set_level(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (strcmp(NAMES[i], name) == 0)
            least = (int)i + LOG_DEBUG;
}

void log_event(int level, const char *fmt, ...)
{
    char line[1024];
    struct timespec now;
    struct tm tm;

    if (level < least)
        return;
    if (level > LOG_ERROR)
        level = LOG_ERROR;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03dZ %-5s ", (int)(now.tv_nsec / 1000000),
                          NAMES[level - LOG_DEBUG]);
    va_list ap;
    va_start(ap, fmt);
    int text = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    size_t end = text < 0 ? n : n + (size_t)text;
    if (end > sizeof line - 2)
        end = sizeof line - 2;
    for (size_t i = n; i < end; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[end++] = '\n';
    /* Nobody to tell when stderr is gone. */
    ssize_t written = write(STDERR_FILENO, line, end);
    (void)written;
}
