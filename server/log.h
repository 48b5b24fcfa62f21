/* SPDX-License-Identifier: Apache-2.0 */
/* One line per event on stderr: time (UTC), level, text. Only this room logs. */
#ifndef STOWD_LOG_H
#define STOWD_LOG_H

#include "config/base.h"

/* 0, 1 and 2 are the severities that storage/ and api/ report. */
enum log_level { LOG_DEBUG = -1, LOG_INFO = 0, LOG_WARN = 1, LOG_ERROR = 2 };

/* Least level that is written: "debug", "info", "warn", "error". Before there are threads. */
void log_set_level(const char *name);
/* "text" or "json". Before there are threads. */
void log_set_format(const char *name);
/* From any thread. Control bytes in the text become spaces, a long text is cut. */
void log_event(int level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
