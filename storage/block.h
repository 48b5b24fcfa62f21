/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: rows packed, compressed, checksummed. Pure functions on memory; layout in docs/format.md.
 *
 *   B1  a block never changes.
 *   B2  a record is verified (magic, version, lengths, checksum, index number, first seq) before
 *       anything of it is decompressed, every time it comes from disk.
 *   B3  a document comes back byte for byte.
 *   B4  a frame that would grow is stored raw.
 * Layout "plain": documents one after another in the data frame. Layout "columnar": taken apart
 * into the data and auxiliary frames (storage/columnar.h). All else is in the meta frame. */
#ifndef STOWD_BLOCK_H
#define STOWD_BLOCK_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/codec.h"

/* A row is one write: a document or a tombstone. Numbers are on disk. */
enum row_kind {
    ROW_MADE = 0,      /* document; its id is the run's nonce and the row's seq, not stored */
    ROW_CLIENT = 1,    /* document with a stored id */
    ROW_TOMBSTONE = 2, /* deletion of the stored id; no document */
};

/* One row. Slices are borrowed: from the caller when packing, from the block when reading. */
struct row {
    uint64_t seq;
    uint64_t version; /* >= 1 */
    uint64_t nonce;   /* of the run that wrote it, 56 bits */
    uint32_t term;    /* ordinal of that run for the index, >= 1: _primary_term */
    enum row_kind kind;
    struct slice id;       /* ROW_CLIENT, ROW_TOMBSTONE: 1 .. 512 bytes; else empty */
    struct slice routing;  /* empty: none */
    struct slice doc;      /* empty for tombstones */
    const struct fit *fit; /* how doc was taken apart (storage/shape.h), or NULL; packing only */
};

/* A made id: 15 bytes (nonce 56 bits big endian, seq 64 bits big endian) as 20 base64url
 * characters. */
#define MADE_ID_LEN 20
void made_id_format(uint64_t nonce, uint64_t seq, char out[MADE_ID_LEN]);
/* Ids of one run whose seqs have the same seq >> MADE_ID_LAST_BITS differ in their last two
 * characters only. Write those before `end`. */
#define MADE_ID_LAST_BITS 12
void made_id_last(uint64_t seq, char *end);
/* False when id has not that form. */
bool made_id_parse(struct slice id, uint64_t *nonce_out, uint64_t *seq_out);

#define BLOCK_HEADER_BYTES 64
#define BLOCK_ALIGN        64

struct block_header {
    uint8_t format;
    enum block_layout layout;
    enum codec codec;
    int level;
    uint32_t index_no;
    uint32_t dictionary;
    uint64_t first_seq;
    uint32_t rows;
    uint32_t meta_len, meta_raw;
    uint32_t data_len, data_raw; /* raw: the documents, or what became of them */
    uint32_t aux_len, aux_raw;   /* 0 in layout plain */
    size_t record_len;           /* header and frames, padded to BLOCK_ALIGN */
};

/* Pack rows into one record, appended to out (padded to BLOCK_ALIGN). Layout columnar becomes plain
 * where that is smaller.
 *   rows     count >= 1, seqs strictly rising; documents that lie one behind the other in memory
 *            are compressed without a copy
 *   errors   RC_NOMEM, RC_TOO_LARGE (a frame over 2 GiB) */
struct dict;
/*   dict     for the data frame, or NULL (zstd only) */
MUST_CHECK enum rc block_pack(uint32_t index_no, const struct codec_spec *spec, struct dict *dict,
                              const struct row *rows, size_t count, struct buf *out,
                              struct err *err);

/* Read the header only, from at least BLOCK_HEADER_BYTES; checks magic, version and that the
 * lengths are sane, not the checksum. RC_UNSUPPORTED names an unknown version or layout. */
MUST_CHECK enum rc block_header_read(struct slice record, struct block_header *out,
                                     struct err *err);
/* B2 in full. record may be longer than the block. */
MUST_CHECK enum rc block_check(struct slice record, uint32_t index_no, uint64_t first_seq,
                               struct block_header *out, struct err *err);

/* An opened block: decompressed (packed form for later layouts), rows addressable. Immutable;
 * the caller owns it and frees it with block_close. */
struct block;

enum block_want {
    BLOCK_META, /* ids, versions, routing, seqs */
    BLOCK_ALL,
    BLOCK_SCAN, /* all, and most documents will be read */
};

/* Check and decompress. The record is not needed afterwards.
 *   dict     the one that the header names; not needed with BLOCK_META */
MUST_CHECK enum rc block_open(struct slice record, uint32_t index_no, uint64_t first_seq,
                              enum block_want want, struct dict *dict, struct block **out,
                              struct err *err);
void block_close(struct block *block); /* accepts NULL */
const struct block_header *block_head(const struct block *block);
size_t block_rows(const struct block *block);
/* Bytes of memory it holds, for the cache's budget. */
size_t block_memory(const struct block *block);
/* The data frame as it was before compression (not BLOCK_META): what dictionaries are trained on.
 */
struct slice block_data_frame(const struct block *block);
/* Bytes of all documents together. */
uint64_t block_docs_bytes(const struct block *block);
/* Row by position, all but id and doc. Slices live as long as the block. */
void block_row(const struct block *block, size_t i, struct row *out);
/* Its id (empty for made rows) and document (not with BLOCK_META; empty for tombstones): in the
 * block, or put together in scratch, whose content goes. RC_CORRUPT, RC_NOMEM. */
MUST_CHECK enum rc block_id(const struct block *block, size_t i, struct buf *scratch,
                            struct slice *id_out, struct err *err);
MUST_CHECK enum rc block_doc(const struct block *block, size_t i, struct buf *scratch,
                             struct slice *doc_out, struct err *err);

/* What ids and documents are put together in. { 0 } is a valid empty one. */
struct block_scratch {
    struct buf id, doc;
};
void block_scratch_done(struct block_scratch *scratch);
/* The whole row, its document only in a block opened with more than BLOCK_META. */
MUST_CHECK enum rc block_row_all(const struct block *block, size_t i, struct block_scratch *scratch,
                                 struct row *out, struct err *err);
/* Position of a seq, or RC_NOT_FOUND. */
MUST_CHECK enum rc block_find(const struct block *block, uint64_t seq, size_t *i_out);

#endif
