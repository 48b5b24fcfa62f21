/* SPDX-License-Identifier: Apache-2.0 */
/* Inside blocks: what block.c, block_pack.c and block_open.c share. Numbers are those of
 * docs/format.md, section 1. */
#ifndef STOWD_BLOCK_FORMAT_H
#define STOWD_BLOCK_FORMAT_H

#include "config/limits.h"
#include "storage/block.h"
#include "storage/bytes.h"

#define BLOCK_FORMAT_VERSION 1
#define BLOCK_CHECKSUM_AT    56

/* Longest raw form of a frame: offsets in it fit 32 bits with room. */
#define FRAME_RAW_MAX (2 * GIB)
/* Most rows of a block, far above LIMIT_BLOCK_ROWS: bounds the columns of an opened one. */
#define ROWS_MAX (1u << 20)

#define NONCE_BYTES 7
#define NONCE_MAX   (UINT64_C(1) << (8 * NONCE_BYTES))

enum { META_RAW = 1, DATA_RAW = 2, AUX_RAW = 4, FLAGS_KNOWN = 7 };
enum {
    HAS_SEQS = 1,
    HAS_KINDS = 2,
    HAS_VERSIONS = 4,
    HAS_ROUTINGS = 8,
    PACKED_LENGTHS = 16,
    PACKED_IDS = 32,
    FEATURES_KNOWN = 63,
};

/* Checksum of a record whose frames are frames_len long together. */
uint64_t block_checksum(const uint8_t *record, size_t frames_len);
/* Flags of a record's header. */
unsigned block_flags(const uint8_t *record);
/* Fill err with what is wrong about a block, and return rc. */
PRINTF_LIKE(5, 6)
enum rc block_bad(struct err *err, enum rc rc, uint32_t index_no, uint64_t first_seq,
                  const char *fmt, ...);

static inline size_t packed_bytes(size_t count, unsigned width)
{
    return (count * width + 7) / 8;
}

#endif
