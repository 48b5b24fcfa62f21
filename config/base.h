/* SPDX-License-Identifier: Apache-2.0 */
/* Ground floor: what every room may rely on. Includes only libc.
 *
 * Errors. A function that can fail returns enum rc and, where there is text to give, fills
 * struct err where the failure happened (object and place: "index logs: segment 7 at 8192:
 * checksum"). RC_NOT_FOUND is an answer and carries no text. Outputs are untouched on failure.
 * Disk formats and answers never carry the numbers of enum rc.
 * Two kinds of wrong: the world (rc) and us (assert, kept in release builds). Bytes from disk or
 * network are never asserted. */
#ifndef STOWD_BASE_H
#define STOWD_BASE_H

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MUST_CHECK              __attribute__((warn_unused_result))
#define ALWAYS_INLINE           static inline __attribute__((always_inline))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#define ARRAY_LEN(a)            (sizeof(a) / sizeof((a)[0]))

enum rc {
    RC_OK = 0,
    RC_NOT_FOUND,   /* an answer, not a failure */
    RC_EXISTS,      /* something of that name is there already */
    RC_CONFLICT,    /* the condition of a write does not hold */
    RC_INVALID,     /* the caller's input is wrong; the text names what */
    RC_TOO_LARGE,   /* over a limit; the text names it */
    RC_UNSUPPORTED, /* well formed, but not built here */
    RC_BUSY,        /* try again later: queue, log or memory budget is full */
    RC_AGAIN,       /* would block: only from calls that promise not to */
    RC_NOMEM,
    RC_FULL,      /* no space on the device, or below the reserve */
    RC_IO,        /* the operating system refused; os_errno says how */
    RC_CORRUPT,   /* bytes from disk are not what was written */
    RC_FORBIDDEN, /* the caller may not */
};

struct err {
    enum rc rc;
    int os_errno; /* 0 when no system call was involved */
    char msg[256];
};

/* Fill err (may be NULL) and return rc. The first error wins: an err that already holds one keeps
 * it. A formatted text that does not fit is cut. */
static inline PRINTF_LIKE(4, 5) enum rc
    err_set(struct err *err, enum rc rc, int os_errno, const char *fmt, ...)
{
    if (err != NULL && err->rc == RC_OK) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        err->rc = rc;
        err->os_errno = os_errno;
    }
    return rc;
}

/* Return, or jump to the one `out:` label, when x is not RC_OK. TRY_OUT expects a local `rc`. */
#define TRY(x)                                                                                     \
    do {                                                                                           \
        enum rc try_rc_ = (x);                                                                     \
        if (try_rc_ != RC_OK)                                                                      \
            return try_rc_;                                                                        \
    } while (0)
#define TRY_OUT(x)                                                                                 \
    do {                                                                                           \
        rc = (x);                                                                                  \
        if (rc != RC_OK)                                                                           \
            goto out;                                                                              \
    } while (0)

/* Bytes that belong to somebody else; not terminated by a zero. */
struct slice {
    const uint8_t *ptr;
    size_t len;
};

#define SLICE_NONE   ((struct slice){NULL, 0})
#define SLICE_LIT(s) ((struct slice){(const uint8_t *)(s), sizeof(s) - 1})
/* For "%.*s". */
#define SLICE_FMT(s) (int)((s).len > 200 ? 200 : (s).len), (const char *)(s).ptr

static inline struct slice slice_of(const void *ptr, size_t len)
{
    return (struct slice){(const uint8_t *)ptr, len};
}

static inline struct slice slice_str(const char *s)
{
    return (struct slice){(const uint8_t *)s, strlen(s)};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *s)
{
    return slice_eq(a, slice_str(s));
}

/* Order of bytes, a prefix first. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.ptr, b.ptr, n);
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

#endif
