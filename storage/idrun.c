/* SPDX-License-Identifier: Apache-2.0 */
/* A piece: header, directory of 2^buckets cumulative counts, then two arrays of bit fields: the
 * bits of the hash that neither the piece nor the bucket implies, and seq - base with the tombstone
 * flag in the lowest bit. A look-up reads one directory entry and compares the few fields of a
 * bucket. */
#include "storage/idrun.h"

#include "storage/bytes.h"

#include <stdlib.h>

#define PIECE_FORMAT   1
#define PIECE_HEADER   16
#define PIECE_ENTRIES  8192 /* at most, on average */
#define BUCKET_ENTRIES 16   /* likewise */
#define FIELD_BITS_MAX 56   /* a field and its first bit fit in one 8-byte load */

struct piece {
    unsigned buckets; /* log2 */
    unsigned hash_bits, seq_bits;
    uint32_t count;
    uint64_t base;
    const uint8_t *directory, *hashes, *seqs, *end;
};

uint8_t idrun_bits(uint64_t count)
{
    uint8_t bits = 0;
    while (count >> bits > PIECE_ENTRIES && bits < 24)
        bits++;
    return bits;
}

/* The kept bits of a hash, right-aligned. */
static uint64_t kept(uint64_t hash)
{
    return hash >> (64 - IDRUN_HASH_BITS);
}

static int entry_order(const void *a, const void *b)
{
    const struct idrun_entry *x = a, *y = b;
    uint64_t hx = kept(x->hash), hy = kept(y->hash);
    if (hx != hy)
        return hx < hy ? -1 : 1;
    return x->seq > y->seq ? -1 : x->seq < y->seq;
}

#define GROUP_SHORT 16 /* entries that an insertion sort is best for */
#define DIGIT_BITS  8

static size_t digit(const struct idrun_entry *entry, unsigned shift)
{
    return entry->hash >> shift & ((1u << DIGIT_BITS) - 1);
}

/* Entries by one digit of the hash, in place (American flag sort: McIlroy, Bostic, McIlroy,
 * "Engineering Radix Sort", 1993). Those of digit d come to end at entries + end[d]. */
static void sort_digit(struct idrun_entry *entries, size_t count, unsigned shift, size_t *end)
{
    size_t next[1u << DIGIT_BITS], sum = 0;
    memset(end, 0, sizeof next);
    for (size_t i = 0; i < count; i++)
        end[digit(&entries[i], shift)]++;
    for (size_t d = 0; d < ARRAY_LEN(next); d++) {
        next[d] = sum;
        end[d] = sum += end[d];
    }
    for (size_t d = 0; d < ARRAY_LEN(next); d++) {
        while (next[d] < end[d]) {
            struct idrun_entry e = entries[next[d]];
            for (size_t to; (to = digit(&e, shift)) != d;) {
                struct idrun_entry other = entries[next[to]];
                entries[next[to]++] = e;
                e = other;
            }
            entries[next[d]++] = e;
        }
    }
}

static void insertion_sort(struct idrun_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct idrun_entry e = entries[i];
        size_t to = i;
        for (; to != 0 && entry_order(&entries[to - 1], &e) > 0; to--)
            entries[to] = entries[to - 1];
        entries[to] = e;
    }
}

/* The digits from shift + DIGIT_BITS on are equal already. */
static void sort_from(struct idrun_entry *entries, size_t count, unsigned shift)
{
    size_t end[1u << DIGIT_BITS];
    sort_digit(entries, count, shift, end);
    for (size_t d = 0, from = 0; d < ARRAY_LEN(end); from = end[d++]) {
        size_t n = end[d] - from;
        if (n <= GROUP_SHORT)
            insertion_sort(entries + from, n);
        else if (shift > 64 - IDRUN_HASH_BITS)
            sort_from(entries + from, n, shift - DIGIT_BITS);
        else /* one id as often as a request has items */
            qsort(entries + from, n, sizeof *entries, entry_order);
    }
}

/* In place, as a checkpoint sorts what fills the memory for ids. */
void idrun_sort(struct idrun_entry *entries, size_t count)
{
    if (count <= GROUP_SHORT)
        insertion_sort(entries, count);
    else
        sort_from(entries, count, 64 - DIGIT_BITS);
}

/* ---- bit fields */

static uint64_t field_get(const uint8_t *p, size_t i, unsigned bits)
{
    size_t at = i * bits;
    return get_u64(p + at / 8) >> (at % 8) & ((UINT64_C(1) << bits) - 1);
}

static void field_put(uint8_t *p, size_t i, unsigned bits, uint64_t v)
{
    size_t at = i * bits;
    put_u64(p + at / 8, get_u64(p + at / 8) | v << (at % 8));
}

/* Bytes of an array of fields, with the slack that an 8-byte load at its end needs. */
static size_t field_bytes(size_t count, unsigned bits)
{
    return (count * bits + 7) / 8 + 8;
}

static unsigned bits_for(uint64_t v)
{
    unsigned n = 1;
    while (n < 64 && v >> n != 0)
        n++;
    return n;
}

/* ---- encoding */

bool idrun_encode(const struct idrun_entry *entries, size_t count, uint8_t bits, struct buf *out)
{
    uint64_t base = UINT64_MAX, top = 0;
    unsigned buckets = 0;
    assert(count != 0 && count <= UINT32_MAX);
    while (count >> buckets > BUCKET_ENTRIES && buckets < 16)
        buckets++;
    for (size_t i = 0; i < count; i++) {
        base = entries[i].seq < base ? entries[i].seq : base;
        top = entries[i].seq > top ? entries[i].seq : top;
    }
    unsigned hash_bits = IDRUN_HASH_BITS - bits - buckets;
    unsigned seq_bits = bits_for((top - base) << 1 | 1);
    size_t directory = ((size_t)1 << buckets) * 4;
    size_t size =
        PIECE_HEADER + directory + field_bytes(count, hash_bits) + field_bytes(count, seq_bits);
    if (seq_bits > FIELD_BITS_MAX || !buf_reserve(out, size))
        return false;
    uint8_t *p = out->ptr + out->len;
    memset(p, 0, size);
    p[0] = PIECE_FORMAT;
    p[1] = (uint8_t)buckets;
    p[2] = (uint8_t)seq_bits;
    put_u32(p + 4, (uint32_t)count);
    put_u64(p + 8, base);
    uint8_t *dir = p + PIECE_HEADER, *hashes = dir + directory;
    uint8_t *seqs = hashes + field_bytes(count, hash_bits);
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = kept(entries[i].hash) & ((UINT64_C(1) << (IDRUN_HASH_BITS - bits)) - 1);
        size_t bucket = (size_t)(rest >> hash_bits);
        put_u32(dir + 4 * bucket, (uint32_t)(i + 1)); /* end of the bucket */
        field_put(hashes, i, hash_bits, rest & ((UINT64_C(1) << hash_bits) - 1));
        field_put(seqs, i, seq_bits, (entries[i].seq - base) << 1 | entries[i].tombstone);
    }
    for (size_t b = 1; b < (size_t)1 << buckets; b++)
        if (get_u32(dir + 4 * b) == 0)
            put_u32(dir + 4 * b, get_u32(dir + 4 * (b - 1)));
    out->len += size;
    return true;
}

/* ---- decoding */

static bool piece_open(struct slice s, uint8_t bits, struct piece *out)
{
    if (s.len < PIECE_HEADER || s.ptr[0] != PIECE_FORMAT || s.ptr[1] > 16 || s.ptr[2] == 0 ||
        s.ptr[2] > FIELD_BITS_MAX || bits + s.ptr[1] >= IDRUN_HASH_BITS)
        return false;
    out->buckets = s.ptr[1];
    out->seq_bits = s.ptr[2];
    out->hash_bits = IDRUN_HASH_BITS - bits - out->buckets;
    out->count = get_u32(s.ptr + 4);
    out->base = get_u64(s.ptr + 8);
    out->directory = s.ptr + PIECE_HEADER;
    out->hashes = out->directory + ((size_t)4 << out->buckets);
    out->seqs = out->hashes + field_bytes(out->count, out->hash_bits);
    out->end = out->seqs + field_bytes(out->count, out->seq_bits);
    return s.len == (size_t)PIECE_HEADER + ((size_t)4 << out->buckets) +
                        field_bytes(out->count, out->hash_bits) +
                        field_bytes(out->count, out->seq_bits);
}

static bool bucket_range(const struct piece *p, size_t bucket, size_t *from, size_t *to)
{
    *from = bucket == 0 ? 0 : get_u32(p->directory + 4 * (bucket - 1));
    *to = get_u32(p->directory + 4 * bucket);
    return *from <= *to && *to <= p->count;
}

enum rc idrun_find(struct slice piece, uint8_t bits, uint64_t hash, uint64_t *seqs,
                   size_t *count_io, size_t max)
{
    struct piece p;
    size_t from, to;
    if (!piece_open(piece, bits, &p))
        return RC_CORRUPT;
    uint64_t rest = kept(hash) & ((UINT64_C(1) << (IDRUN_HASH_BITS - bits)) - 1);
    uint64_t want = rest & ((UINT64_C(1) << p.hash_bits) - 1);
    if (!bucket_range(&p, (size_t)(rest >> p.hash_bits), &from, &to))
        return RC_CORRUPT;
    for (size_t i = from; i < to; i++) {
        if (field_get(p.hashes, i, p.hash_bits) != want)
            continue;
        if (*count_io == max)
            return RC_TOO_LARGE;
        seqs[(*count_io)++] = p.base + (field_get(p.seqs, i, p.seq_bits) >> 1);
    }
    return RC_OK;
}

size_t idrun_piece_count(struct slice piece)
{
    return piece.len >= PIECE_HEADER && piece.ptr[0] == PIECE_FORMAT ? get_u32(piece.ptr + 4) : 0;
}

enum rc idrun_decode(struct slice piece, uint8_t bits, uint32_t piece_no, struct idrun_entry *out)
{
    struct piece p;
    if (!piece_open(piece, bits, &p))
        return RC_CORRUPT;
    for (size_t b = 0; b < (size_t)1 << p.buckets; b++) {
        size_t from, to;
        if (!bucket_range(&p, b, &from, &to))
            return RC_CORRUPT;
        for (size_t i = from; i < to; i++) {
            uint64_t seq = field_get(p.seqs, i, p.seq_bits);
            uint64_t hash = (uint64_t)piece_no << (IDRUN_HASH_BITS - bits) |
                            (uint64_t)b << p.hash_bits | field_get(p.hashes, i, p.hash_bits);
            out[i] = (struct idrun_entry){hash << (64 - IDRUN_HASH_BITS), p.base + (seq >> 1),
                                          (seq & 1) != 0};
        }
    }
    return RC_OK;
}
