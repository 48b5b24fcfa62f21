/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted runs of the id index: from the hash of an id to the seqs of its rows, some 5 to 6 bytes an
 * entry. A run is immutable and cut by the leading bits of the hash into pieces of at most about
 * 50 KB, each a value in the catalog. Pure functions on memory; bytes in docs/format.md.
 *
 *   I1  only the leading IDRUN_HASH_BITS of a hash are kept; a candidate is verified against the id
 *       in its row, so a false one costs a look.
 *   I2  a run may hold several seqs of one id, and runs several entries of one id: the highest seq
 *       whose row has the id is the newest. Entries of rows that are gone are harmless.
 *   I3  which runs there are is the index' state; a run number is never used twice. */
#ifndef STOWD_IDRUN_H
#define STOWD_IDRUN_H

#include "config/base.h"
#include "config/buf.h"

#define IDRUN_HASH_BITS 40

struct idrun {
    uint32_t number;
    uint8_t bits;   /* 2^bits pieces */
    uint64_t count; /* entries */
};

struct idrun_entry {
    uint64_t hash; /* low 64 - IDRUN_HASH_BITS bits are ignored */
    uint64_t seq;
    bool tombstone;
};

/* Pieces for a run of so many entries, as a power of two. */
uint8_t idrun_bits(uint64_t count);
static inline uint32_t idrun_piece_of(uint64_t hash, uint8_t bits)
{
    return bits == 0 ? 0 : (uint32_t)(hash >> (64 - bits));
}

/* Are the kept bits the same? */
static inline bool idrun_same_hash(uint64_t a, uint64_t b)
{
    return (a ^ b) >> (64 - IDRUN_HASH_BITS) == 0;
}

/* By hash, then by seq, the highest first. */
void idrun_sort(struct idrun_entry *entries, size_t count);

/* Encode one piece: sorted entries, count >= 1, which all belong to it. */
MUST_CHECK bool idrun_encode(const struct idrun_entry *entries, size_t count, uint8_t bits,
                             struct buf *out);
/* Append the seqs of a hash: *count_io of at most max. RC_CORRUPT; RC_TOO_LARGE over max. */
MUST_CHECK enum rc idrun_find(struct slice piece, uint8_t bits, uint64_t hash, uint64_t *seqs,
                              size_t *count_io, size_t max);
/* Number of entries of a piece, 0 for bytes that are none. */
size_t idrun_piece_count(struct slice piece);
/* All of them, in order; the hashes have the bits that are kept. */
MUST_CHECK enum rc idrun_decode(struct slice piece, uint8_t bits, uint32_t piece_no,
                                struct idrun_entry *out);

#endif
