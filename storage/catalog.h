/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog: what is durable beside the segments, in one LMDB environment per node. Only
 * catalog.c and catalog_records.c include <lmdb.h>. Keys and values in docs/format.md.
 *
 *   C1  every commit is synced (never MDB_NOSYNC). One that failed with RC_FULL has changed
 *       nothing; of any other only the next start knows. When LMDB cannot tell what the disk has,
 *       every later call fails with err.os_errno CATALOG_LOST: the process must end.
 *   C2  every value ends in a checksum over key and value: a flipped byte is RC_CORRUPT with a text
 *       that names `stowctl rebuild`, never a wrong answer.
 *   C3  no read transaction outlives a call; no slice into the map does.
 *   C4  a full map is refused before a transaction begins (RC_FULL), with room left for those that
 *       only remove: a quarter of the map, at most 16 MiB.
 * Writers: one transaction at a time (LMDB's own lock); keep them short (LIMIT_CATALOG_TXN_KEYS).
 * Readers: any thread, any number of calls. */
#ifndef STOWD_CATALOG_H
#define STOWD_CATALOG_H

#include "config/base.h"
#include "config/buf.h"

#include <errno.h>

#define CATALOG_LOST ENOTRECOVERABLE /* C1 */

struct catalog;
struct catalog_txn; /* one write transaction; used by the thread that began it */

/* Makes dir when it is missing; one environment per directory and process. One whose tables are
 * there is opened without a write transaction.
 * map_bytes 0: max(64 GiB, 4 x file), less where address space is limited (at least 256 MiB more
 * than the file). A given size is rounded up to whole MiB, and to 1 MiB more than a file that is
 * larger. */
MUST_CHECK enum rc catalog_open(const char *dir, uint64_t map_bytes, struct catalog **out,
                                struct err *err);
void catalog_close(struct catalog *catalog);
/* Bytes used and mapped; used counts pages in use, file what the file takes. */
void catalog_space(struct catalog *catalog, uint64_t *used_out, uint64_t *file_out,
                   uint64_t *map_out);
/* Copy the live pages to a new environment in dir (compacting); durable when it returns. */
MUST_CHECK enum rc catalog_copy(struct catalog *catalog, const char *dir, struct err *err);
/* Read all of it and verify every value (C2). */
MUST_CHECK enum rc catalog_verify(struct catalog *catalog, struct err *err);

MUST_CHECK enum rc catalog_begin(struct catalog *catalog, struct catalog_txn **out,
                                 struct err *err);
/* For transactions that only remove (C4). */
MUST_CHECK enum rc catalog_begin_removal(struct catalog *catalog, struct catalog_txn **out,
                                         struct err *err);
/* Commit is synced. The transaction is gone afterwards, whatever it returns. One in which a write
 * failed is aborted and gives that failure again. */
MUST_CHECK enum rc catalog_commit(struct catalog_txn *txn, struct err *err);
void catalog_abort(struct catalog_txn *txn); /* accepts NULL */

/* ---- named values: node state, index records, templates, aliases, mappings …
 * kind is one byte chosen by the caller (printable), name 1 .. 500 bytes. */
MUST_CHECK enum rc catalog_put(struct catalog_txn *txn, char kind, struct slice name,
                               struct slice value, struct err *err);
MUST_CHECK enum rc catalog_delete(struct catalog_txn *txn, char kind, struct slice name,
                                  struct err *err); /* RC_NOT_FOUND without text */
/* Appends the value to out. RC_NOT_FOUND without text. */
MUST_CHECK enum rc catalog_get(struct catalog *catalog, char kind, struct slice name,
                               struct buf *out, struct err *err);
/* All names of a kind that begin with `under` (at most 8 bytes) in byte order; fn's first failure
 * ends the walk. Slices live for the call. */
MUST_CHECK enum rc catalog_each_under(struct catalog *catalog, char kind, struct slice under,
                                      enum rc (*fn)(struct slice name, struct slice value,
                                                    void *arg),
                                      void *arg, struct err *err);
MUST_CHECK static inline enum rc catalog_each(struct catalog *catalog, char kind,
                                              enum rc (*fn)(struct slice name, struct slice value,
                                                            void *arg),
                                              void *arg, struct err *err)
{
    return catalog_each_under(catalog, kind, SLICE_NONE, fn, arg, err);
}

/* ---- block table of an index: where the rows of a seq range lie */
struct place {
    uint64_t first_seq;
    uint64_t last_seq;
    uint32_t segment;
    uint32_t len; /* bytes of the record */
    uint64_t at;  /* offset in the segment */
    uint32_t rows;
    uint32_t raw_bytes; /* of the documents, before compression */
};
MUST_CHECK enum rc catalog_put_block(struct catalog_txn *txn, uint32_t index_no,
                                     const struct place *place, struct err *err);
MUST_CHECK enum rc catalog_delete_block(struct catalog_txn *txn, uint32_t index_no,
                                        uint64_t first_seq, struct err *err);
/* The block with the greatest first_seq <= seq whose last_seq >= seq; else RC_NOT_FOUND. */
MUST_CHECK enum rc catalog_find_block(struct catalog *catalog, uint32_t index_no, uint64_t seq,
                                      struct place *out, struct err *err);
/* The same, else the first block behind seq. One look: a block that is replaced meanwhile is seen
 * as it was or as it is, never missed. */
MUST_CHECK enum rc catalog_seek_block(struct catalog *catalog, uint32_t index_no, uint64_t seq,
                                      struct place *out, struct err *err);
/* Blocks with first_seq >= from, in order, at most max: *count_out of them. For scans, joining and
 * rewriting; call again with the last first_seq + 1. */
MUST_CHECK enum rc catalog_list_blocks(struct catalog *catalog, uint32_t index_no, uint64_t from,
                                       struct place *out, size_t max, size_t *count_out,
                                       struct err *err);

/* ---- id index, version 1: pieces of sorted runs (idrun.h), immutable values */
#define CATALOG_ID_INDEX_VERSION 1
MUST_CHECK enum rc catalog_put_piece(struct catalog_txn *txn, uint32_t index_no, uint32_t run,
                                     uint32_t piece, struct slice value, struct err *err);
/* A missing one is fine. */
MUST_CHECK enum rc catalog_delete_piece(struct catalog_txn *txn, uint32_t index_no, uint32_t run,
                                        uint32_t piece, struct err *err);
/* A view: one read transaction over many pieces. Short, and given back by the thread that has it.
 * A piece is verified when the process sees it first (C2): it is up to 50 KB and never changes. */
struct catalog_view;
MUST_CHECK enum rc catalog_view_begin(struct catalog *catalog, struct catalog_view **out,
                                      struct err *err);
void catalog_view_end(struct catalog_view *view);
/* Valid until the view ends. RC_NOT_FOUND without text. */
MUST_CHECK enum rc catalog_view_piece(struct catalog_view *view, uint32_t index_no, uint32_t run,
                                      uint32_t piece, struct slice *out, struct err *err);
/* Delete all pieces of a run. */
MUST_CHECK enum rc catalog_drop_run(struct catalog_txn *txn, uint32_t index_no, uint32_t run,
                                    struct err *err);
/* Lowest run number >= from of which an index has pieces; RC_NOT_FOUND. For sweeping. */
MUST_CHECK enum rc catalog_next_run(struct catalog *catalog, uint32_t index_no, uint32_t from,
                                    uint32_t *out, struct err *err);

/* ---- dead rows: bitmaps of 4,096 seqs */
#define CATALOG_DEAD_SEQS  4096
#define CATALOG_DEAD_BYTES (CATALOG_DEAD_SEQS / 8)
MUST_CHECK enum rc catalog_put_dead(struct catalog_txn *txn, uint32_t index_no, uint64_t chunk,
                                    const uint8_t bits[CATALOG_DEAD_BYTES], struct err *err);
/* All zero when there is none. chunk = seq / CATALOG_DEAD_SEQS. An all-zero put deletes. */
MUST_CHECK enum rc catalog_get_dead(struct catalog *catalog, uint32_t index_no, uint64_t chunk,
                                    uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err);

/* ---- within a write transaction: reads that see what it has written */
MUST_CHECK enum rc catalog_txn_get_dead(struct catalog_txn *txn, uint32_t index_no, uint64_t chunk,
                                        uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err);

/* Remove keys of an index number (blocks, ids, dead), at most max keys; *more_out while some are
 * left. */
MUST_CHECK enum rc catalog_drop_index(struct catalog_txn *txn, uint32_t index_no, size_t max,
                                      bool *more_out, struct err *err);
/* Bytes of keys and values that an index has in the catalog (for _stats): blocks, ids, dead.
 * Counted by a walk over all of them. */
MUST_CHECK enum rc catalog_index_bytes(struct catalog *catalog, uint32_t index_no,
                                       uint64_t *bytes_out, struct err *err);

#endif
