/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian loads and stores, varints, alignment. Everything on disk goes through here, so the
 * files are the same on every machine. A varint is LEB128: 7 bits a byte, low first, at most 10
 * bytes. */
#ifndef STOWD_BYTES_H
#define STOWD_BYTES_H

#include "config/base.h"
#include "config/buf.h"

static inline void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline void put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t get_u64(const uint8_t *p)
{
    return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

/* Big-endian, for keys that LMDB compares as bytes. */
static inline void put_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static inline void put_be64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static inline uint32_t get_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t get_be64(const uint8_t *p)
{
    return (uint64_t)get_be32(p) << 32 | get_be32(p + 4);
}

/* Most texts are short: a call of memcmp or memcpy costs more than what it does for them. */
#define BYTES_SHORT_MAX 32u

ALWAYS_INLINE bool bytes_eq(const uint8_t *a, const uint8_t *b, size_t n)
{
    if (n > BYTES_SHORT_MAX)
        return memcmp(a, b, n) == 0;
    if (n >= 16)
        return ((get_u64(a) ^ get_u64(b)) | (get_u64(a + 8) ^ get_u64(b + 8)) |
                (get_u64(a + n - 16) ^ get_u64(b + n - 16)) |
                (get_u64(a + n - 8) ^ get_u64(b + n - 8))) == 0;
    if (n >= 8)
        return ((get_u64(a) ^ get_u64(b)) | (get_u64(a + n - 8) ^ get_u64(b + n - 8))) == 0;
    if (n >= 4)
        return get_u32(a) == get_u32(b) && get_u32(a + n - 4) == get_u32(b + n - 4);
    return n == 0 || ((a[0] ^ b[0]) | (a[n - 1] ^ b[n - 1]) | (a[n / 2] ^ b[n / 2])) == 0;
}

ALWAYS_INLINE void bytes_copy(uint8_t *dst, const uint8_t *src, size_t n)
{
    if (n > BYTES_SHORT_MAX) {
        memcpy(dst, src, n);
    } else if (n >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + n - 16, src + n - 16, 16);
    } else if (n >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + n - 8, src + n - 8, 8);
    } else if (n >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + n - 4, src + n - 4, 4);
    } else if (n != 0) {
        dst[0] = src[0];
        dst[n / 2] = src[n / 2];
        dst[n - 1] = src[n - 1];
    }
}

#define VARINT_BYTES_MAX 10

static inline size_t varint_put(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

static inline void buf_put_varint(struct buf *b, uint64_t v)
{
    uint8_t tmp[VARINT_BYTES_MAX];
    buf_put(b, tmp, varint_put(tmp, v));
}

/* A reader over untrusted bytes: every take checks the end, the first failure sticks in `bad` and
 * later takes give zero or an empty slice. */
struct reader {
    const uint8_t *p;
    const uint8_t *end;
    bool bad;
};

static inline struct reader reader_of(struct slice s)
{
    return (struct reader){s.ptr, s.ptr + s.len, false};
}

static inline uint64_t take_varint(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end)
            break;
        uint8_t c = *r->p++;
        if (shift == 63 && c > 1)
            break;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return v;
    }
    r->bad = true;
    return 0;
}

static inline struct slice take_bytes(struct reader *r, uint64_t n)
{
    if (r->bad || n > (uint64_t)(r->end - r->p)) {
        r->bad = true;
        return SLICE_NONE;
    }
    struct slice s = {r->p, (size_t)n};
    r->p += n;
    return s;
}

static inline size_t align_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

#endif
