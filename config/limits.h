/* SPDX-License-Identifier: Apache-2.0 */
/* Every bound and default number on one page. Sizes are bytes, times milliseconds, unless the name
 * says otherwise. Settings of the process have their defaults in options.def. */
#ifndef STOWD_LIMITS_H
#define STOWD_LIMITS_H

#define KIB (1024u)
#define MIB (1024u * 1024u)
#define GIB (1024ull * 1024ull * 1024ull)

/* Elasticsearch's limits (ES 8: IndexRequest, MetadataCreateIndexService). */
#define LIMIT_ID_BYTES         512
#define LIMIT_INDEX_NAME_BYTES 255

/* JSON accepted in documents: containers open at once. ES allows 1000 (StreamReadConstraints). */
#define LIMIT_JSON_DEPTH 1000

/* Documents in one block; block sizes a user may ask for (index.block.size). */
#define LIMIT_BLOCK_ROWS      4096
#define LIMIT_BLOCK_BYTES_MIN (4 * KIB)
#define LIMIT_BLOCK_BYTES_MAX (4 * MIB)
/* A columnar block closes by what it is packed to before compression, as a get takes as long as
 * that is to decompress, within bounds of its raw bytes. A twelfth less, from 48 and 64 KB, made
 * gets out of the page cache some 4 % cheaper (products 12 %) and indices up to 1.9 % larger. */
#define DEFAULT_PACKED_BYTES      (44 * KIB)
#define DEFAULT_PACKED_BYTES_BEST (192 * KIB)
#define DEFAULT_BLOCK_BYTES_MIN   (56 * KIB)
#define DEFAULT_BLOCK_BYTES       (512 * KIB)
#define DEFAULT_BLOCK_BYTES_BEST  (1 * MIB)
/* The same for layout plain, where raw bytes are all there is to go by. */
#define DEFAULT_PLAIN_BYTES      (64 * KIB)
#define DEFAULT_PLAIN_BYTES_BEST (256 * KIB)

/* Items of a bulk whose rows are looked up in one go, by seq: each block is opened once for them.
 */
#define LIMIT_PREPARE_ITEMS 8192
/* One step under an index lock. */
#define LIMIT_DECIDE_ITEMS 256
#define LIMIT_DECIDE_MADE  4096 /* … whose ids are made */
#define LIMIT_DECIDE_BYTES (256 * KIB)

/* Bodies of control requests (settings, templates, aliases). */
#define LIMIT_CONTROL_BYTES (16 * MIB)

/* Answers: larger ones are streamed in windows of this size. */
#define LIMIT_ANSWER_WINDOW     (1 * MIB)
#define LIMIT_MGET_WINDOW_DOCS  1000
#define LIMIT_MGET_WINDOW_BYTES (8 * MIB)

/* Highest zstd level: libzstd before 1.5.5 has a corruption fault at the levels above 15
 * (release notes of zstd 1.5.5). */
#define LIMIT_ZSTD_LEVEL_OLD 15
#define LIMIT_ZSTD_LEVEL     19

/* LMDB: work of one write transaction, so that none holds the writer longer than some 50 ms. */
#define LIMIT_CATALOG_TXN_KEYS 10000

#endif
