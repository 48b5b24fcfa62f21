/* SPDX-License-Identifier: Apache-2.0 */
/* Trained dictionaries: what the blocks of one index have in common, kept once. zstd only.
 *
 *   T1  a dictionary never changes; blocks name it by its number, which is never used twice within
 *       an index.
 *   T2  training may find nothing worth keeping (few, equal or random samples): that is an answer.
 *   T3  digesting costs milliseconds and memory, so it is done once, on first use of each side. A
 *       thread that decompresses with one dictionary again and again keeps a copy of its own.
 * Thread safety: all functions; a struct dict is counted. <zstd.h> only here and in codec.c. */
#ifndef STOWD_DICT_H
#define STOWD_DICT_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/codec.h"

/* Sizes tried in training: more than the largest no longer pays on logs (facts: codec.md, section
 * 3). */
#define DICT_BYTES_MAX (112 * 1024)
#define DICT_BYTES_MIN (4 * 1024)
/* Bytes of samples that training takes for each byte of the dictionary. */
#define DICT_SAMPLES_MIN 4

struct dict;

/* Train on samples that lie one behind the other.
 *   spec     of the blocks that it is for: zstd
 *   out      appended to
 *   errors   RC_NOT_FOUND: nothing worth keeping (T2); RC_AGAIN: too few samples, or too little in
 *            them for that size; RC_NOMEM */
MUST_CHECK enum rc dict_train(struct slice samples, const size_t *sizes, size_t count,
                              const struct codec_spec *spec, size_t dict_bytes, struct buf *out);

/* A dictionary from its bytes (copied). References: 1. NULL when memory is out. */
struct dict *dict_make(uint32_t number, struct slice bytes);
struct dict *dict_retain(struct dict *dict); /* accepts NULL */
void dict_release(struct dict *dict);        /* accepts NULL */
uint32_t dict_number(const struct dict *dict);
struct slice dict_bytes(const struct dict *dict);

/* As codec_compress and codec_decompress with CODEC_ZSTD. */
MUST_CHECK enum rc dict_compress(struct dict *dict, int level, struct slice src, uint8_t *dst,
                                 size_t cap, size_t *len_out);
MUST_CHECK enum rc dict_decompress(struct dict *dict, struct slice src, uint8_t *dst,
                                   size_t raw_len, struct err *err);

#endif
