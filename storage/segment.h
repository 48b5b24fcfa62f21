/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: append-only files of records of one index. A segment reads alone: its header names the
 * index, its footer (once sealed) is its block table. Layout in docs/format.md.
 *
 *   G1  bytes that the catalog does not name mean nothing. What a failed attempt appended is cut
 *       off; after a crash it stays, as garbage that rewriting counts, and nothing is appended to
 *       it.
 *   G2  a number that a catalog has named is not used again for another segment, not after a crash
 *       either: the next free one is saved with whatever names blocks. One that no catalog has
 *       named may come again.
 *   G3  records start on BLOCK_ALIGN, so that a scan finds the next one behind damage.
 *   G4  nothing outside segment.c assumes a local file: readers ask for (segment, offset, length).
 * Writing: one thread (checkpoints or rewriting) per segment. Reading: any thread. */
#ifndef STOWD_SEGMENT_H
#define STOWD_SEGMENT_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/block.h"

/* Who the segment belongs to: written in its header. */
struct segment_owner {
    uint32_t index_no;
    uint8_t uuid[16];
    uint64_t created_ms; /* of the index */
    struct slice describe; /* JSON: {"name":…,"settings":…,"mappings":…,"spec":…}, for rebuild */
};

/* One block of a segment's table. */
struct segment_entry {
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t at; /* bytes from start of file */
    uint32_t len;
    uint32_t rows;
};

/* ---- writing */
struct segment_writer;
/* Make the file dir/<number>.seg (8 hex digits) with its header. Not durable until segment_sync.
 * RC_EXISTS when there is one; on failure none is left behind. */
MUST_CHECK enum rc segment_create(const char *dir, uint32_t number,
                                  const struct segment_owner *owner, struct segment_writer **out,
                                  struct err *err);
/* Cut off what was appended behind a length, of one that nobody writes to any more. */
MUST_CHECK enum rc segment_cut(const char *dir, uint32_t number, uint64_t len, struct err *err);
/* Append one packed block record (multiple of BLOCK_ALIGN). */
MUST_CHECK enum rc segment_append(struct segment_writer *w, struct slice record,
                                  const struct segment_entry *entry /* at, len are filled */,
                                  uint64_t *at_out, struct err *err);
/* Append a dictionary: it must stand in a segment before the first block that uses it. */
MUST_CHECK enum rc segment_append_dict(struct segment_writer *w, uint32_t index_no, uint32_t number,
                                       struct slice bytes, uint64_t *at_out, uint32_t *len_out,
                                       struct err *err);
bool segment_has_dict(const struct segment_writer *w, uint32_t number);
/* Verify a dictionary's record; *bytes_out lies in it. */
MUST_CHECK enum rc segment_check_dict(struct slice record, uint32_t index_no, uint32_t number,
                                      struct slice *bytes_out, struct err *err);
/* Verify a block's record (B2), and that it is the one that the catalog names at that place. */
struct place;
MUST_CHECK enum rc segment_check_block(struct slice record, uint32_t index_no,
                                       const struct place *place, struct err *err);
/* Where the block table begins in a file of so many bytes that ends in the footer of that number;
 * 0: it has none. Its checksum is not verified. */
struct io_file;
MUST_CHECK enum rc segment_table_at(const struct io_file *file, uint64_t size, uint32_t number,
                                    uint64_t *at_out, struct err *err);
/* Make all that was appended durable, and the first time the entry in dir too (IO2). */
MUST_CHECK enum rc segment_sync(struct segment_writer *w, struct err *err);
/* Write the footer; the segment takes no more records. Sync afterwards. */
MUST_CHECK enum rc segment_seal(struct segment_writer *w, struct err *err);
uint64_t segment_len(const struct segment_writer *w); /* once sealed, with the footer */
uint32_t segment_number(const struct segment_writer *w);
void segment_writer_close(struct segment_writer *w); /* accepts NULL; writes nothing */

/* ---- reading: a bounded set of open files over all indices */
struct segment_files;
MUST_CHECK enum rc segment_files_create(const char *indices_dir, size_t open_max,
                                        struct segment_files **out, struct err *err);
void segment_files_destroy(struct segment_files *files);
/* Read one record: dst has len bytes. nowait: RC_AGAIN instead of waiting for the disk.
 * dir_name is the index' directory name (its uuid as 32 hex digits). A missing file is RC_CORRUPT
 * with os_errno ENOENT: look the place up again, the segment may have been rewritten meanwhile. */
MUST_CHECK enum rc segment_read(struct segment_files *files, uint32_t index_no,
                                const char *dir_name, uint32_t number, uint64_t at, void *dst,
                                size_t len, bool nowait, struct err *err);
/* Close what is open of a segment (number) or of a whole index (UINT32_MAX), before unlinking. */
void segment_files_forget(struct segment_files *files, uint32_t index_no, uint32_t number);

/* ---- scanning, for rebuild and check */
struct segment_scan_fn {
    /* The header, once, unless it is damaged; then every record that verifies. Not RC_OK ends the
     * scan with it. May be NULL. */
    enum rc (*owner)(const struct segment_owner *owner, uint32_t number, void *arg);
    enum rc (*block)(const struct block_header *head, uint64_t at, struct slice record, void *arg);
    /* Damage: bytes [at, at + len) hold nothing that verifies; why is of the first of them. May be
     * NULL. */
    void (*damage)(uint64_t at, uint64_t len, const char *why, void *arg);
    void *arg;
    /* A dictionary that verifies. May be NULL. */
    enum rc (*dict)(uint32_t number, uint64_t at, struct slice bytes, void *arg);
};
MUST_CHECK enum rc segment_scan(const char *path, const struct segment_scan_fn *fn,
                                struct err *err);

/* Bytes of a file, and of those that lie between its header and its footer. */
MUST_CHECK enum rc segment_measure(const char *path, uint64_t *file_bytes_out,
                                   uint64_t *content_bytes_out, struct err *err);

/* "<dir>/<8 hex digits>.seg" */
void segment_path(char *dst, size_t cap, const char *dir, uint32_t number);
/* Number of a file name of that form; false for others. */
bool segment_parse_name(const char *name, uint32_t *number_out);

#endif
