/* SPDX-License-Identifier: Apache-2.0 */
/* A growable run of bytes, owned by whoever declares it: { .ptr = NULL } is a valid empty one.
 * Growing that fails marks the buffer (`failed`) and drops what does not fit, so that a writer of
 * many pieces checks once, at the end. */
#ifndef STOWD_BUF_H
#define STOWD_BUF_H

#include "config/base.h"

#include <stdlib.h>

struct buf {
    uint8_t *ptr;
    size_t len;
    size_t cap;
    bool failed;
};

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->ptr, b->len};
}

static inline void buf_done(struct buf *b)
{
    free(b->ptr);
    *b = (struct buf){NULL, 0, 0, false};
}

/* Make room for `more` bytes behind len. False when memory is out; the buffer is then marked. */
static inline bool buf_reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more <= b->cap - b->len)
        return true;
    size_t cap = b->cap < 256 ? 256 : b->cap + b->cap / 2;
    if (cap < b->len + more)
        cap = b->len + more;
    uint8_t *p = (uint8_t *)realloc(b->ptr, cap);
    if (p == NULL) {
        b->failed = true;
        return false;
    }
    b->ptr = p;
    b->cap = cap;
    return true;
}

static inline void buf_put(struct buf *b, const void *src, size_t n)
{
    if (n != 0 && buf_reserve(b, n)) {
        memcpy(b->ptr + b->len, src, n);
        b->len += n;
    }
}

static inline void buf_put_slice(struct buf *b, struct slice s)
{
    buf_put(b, s.ptr, s.len);
}

static inline void buf_put_str(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

static inline void buf_put_byte(struct buf *b, uint8_t c)
{
    buf_put(b, &c, 1);
}

#define BUF_PUT_LIT(b, s) buf_put((b), (s), sizeof(s) - 1)

/* Decimal digits of v. */
static inline void buf_put_u64(struct buf *b, uint64_t v)
{
    char tmp[20];
    size_t at = sizeof tmp;
    do
        tmp[--at] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    buf_put(b, tmp + at, sizeof tmp - at);
}

static inline PRINTF_LIKE(2, 3) void buf_printf(struct buf *b, const char *fmt, ...)
{
    char tmp[512];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(tmp, sizeof tmp, fmt, ap);
    if (n >= 0 && (size_t)n < sizeof tmp)
        buf_put(b, tmp, (size_t)n);
    else if (n >= 0 && buf_reserve(b, (size_t)n + 1)) {
        vsnprintf((char *)b->ptr + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

#endif
