/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the log: the ring of files and the bytes of batches and records, for those who write it
 * (wal.c) and those who replay it (wal_replay.c). Layout in docs/format.md section 3. */
#ifndef STOWD_WAL_RING_H
#define STOWD_WAL_RING_H

#include "config/base.h"
#include "storage/bytes.h"
#include "storage/io.h"
#include "storage/wal.h"

#define WAL_FILES     8
#define WAL_FILES_MAX 64

/* On disk. */
#define WAL_BATCH_ALIGN         4096
#define WAL_BATCH_HEADER_BYTES  64
#define WAL_BATCH_HASHED_BYTES  56 /* of the header; then comes its checksum */
#define WAL_RECORD_HEADER_BYTES 16
#define WAL_RECORD_ALIGN        8

struct wal_ring {
    char dir[448];
    uint64_t file_bytes;
    uint32_t file_count;
    uint64_t capacity;
    struct io_file files[WAL_FILES_MAX]; /* fd -1: not made yet */
    uint64_t sizes[WAL_FILES_MAX];       /* as wal_ring_open found them */
};

/* No file is open yet. RC_CORRUPT: the geometry or position is impossible. */
MUST_CHECK enum rc wal_ring_init(struct wal_ring *ring, const char *dir,
                                 const struct wal_start *start, struct err *err);
/* Open the files that exist. */
MUST_CHECK enum rc wal_ring_open(struct wal_ring *ring, enum io_mode mode, struct err *err);
void wal_ring_close(struct wal_ring *ring);
uint32_t wal_ring_file_no(const struct wal_ring *ring, uint64_t position);
void wal_ring_path(const struct wal_ring *ring, uint32_t file_no, char *dst, size_t cap);
/* Make a file, filled with zeros: whole and durable when RC_OK is returned, else not there. */
MUST_CHECK enum rc wal_ring_make(const struct wal_ring *ring, uint32_t file_no,
                                 struct io_file *file_out, struct err *err);
/* Remove files of another geometry, and those that were not finished when the process died. */
MUST_CHECK enum rc wal_ring_clean(struct wal_ring *ring, struct err *err);
/* The position, seen from `head`, at which the first file is missing; UINT64_MAX: none is. */
uint64_t wal_ring_frontier(const struct wal_ring *ring, uint64_t head);
/* Read a range, over the borders of files; what is not there reads as zeros. */
MUST_CHECK enum rc wal_ring_read(const struct wal_ring *ring, uint64_t position, uint8_t *dst,
                                 size_t len, struct err *err);

struct wal_batch_header {
    uint64_t run;
    uint64_t batch;
    uint64_t position;
    uint32_t records;
    uint64_t payload; /* bytes */
};

/* The checksum's bytes are left zero. */
void wal_header_store(const struct wal_batch_header *h, uint8_t raw[WAL_BATCH_HEADER_BYTES]);
/* False when the magic is not there. */
bool wal_header_load(const uint8_t raw[WAL_BATCH_HEADER_BYTES], struct wal_batch_header *h);
/* Bytes of the ring that a batch takes. */
uint64_t wal_batch_bytes(uint64_t payload);
/* Bytes of a payload that a record takes. */
uint64_t wal_record_bytes(const struct wal_record *record);
void wal_record_store(const struct wal_record *record, uint8_t raw[WAL_RECORD_HEADER_BYTES]);
/* The next record of a payload, not judged. False when it does not fit. */
bool wal_record_load(struct reader *r, struct wal_record *out);

#endif
