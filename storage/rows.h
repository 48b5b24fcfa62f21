/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are not packed yet: the open block of an index, and the same rows once sealed.
 *
 *   O1  rows are only appended, by the holder of index.write; their bytes never move.
 *   O2  readers see the rows below the published count, without a lock, while they hold a
 * reference. O3  documents lie one behind the other, so that packing compresses them where they
 * are. O4  seqs are consecutive except where recovery found gaps. When a batch outgrows its memory,
 * rows_grow makes a larger copy; readers of the old one keep it. */
#ifndef STOWD_ROWS_H
#define STOWD_ROWS_H

#include "config/base.h"
#include "storage/block.h"
#include "storage/shape.h"

#include <stdatomic.h>

struct rows;

/* Room for `bytes` of documents, `count` rows, and fits of `values` values in all. References: 1.
 * NULL when memory is out. */
struct rows *rows_create(size_t bytes, size_t count, size_t values);
/* A copy with room for at least bytes more and one row more. References: 1. */
struct rows *rows_grow(const struct rows *rows, size_t bytes);
struct rows *rows_retain(struct rows *rows);
void rows_release(struct rows *rows); /* accepts NULL */

/* How a document was taken apart, *out.shape NULL where that was not kept: no more room for values,
 * or another generation of shapes than the first row's. Valid as long as the rows. */
void rows_fit(const struct rows *rows, size_t i, struct fit *out);
/* False when the row does not fit in the memory there is. Copies everything; row->fit may be NULL.
 */
MUST_CHECK bool rows_append(struct rows *rows, const struct row *row);

size_t rows_count(const struct rows *rows); /* published */
size_t rows_raw_bytes(const struct rows *rows);
size_t rows_memory(const struct rows *rows);
uint64_t rows_first_seq(const struct rows *rows); /* count >= 1 */
uint64_t rows_last_seq(const struct rows *rows);
void rows_get(const struct rows *rows, size_t i, struct row *out); /* without fit */
/* Position of a seq, or RC_NOT_FOUND. */
MUST_CHECK enum rc rows_find(const struct rows *rows, uint64_t seq, size_t *i_out);

#endif
