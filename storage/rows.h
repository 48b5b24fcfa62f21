/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are not packed yet: the open block of an index, and the same rows once sealed.
 *
 *   O1  rows are only appended, by the holder of index.write; their bytes never move.
 *   O2  readers see the rows below the published count, without a lock, while they hold a
 *       reference.
 *   O3  a batch has copies of its documents, one behind the other (so that packing may compress
 *       them where they are), or borrows them all, with their fits, from the request that brings
 *       them. One that borrows is packed before that request is answered, or gives way to a copy
 *       at the end of the step that began it; others get copies of it (rows_share).
 *   O4  seqs are consecutive except where recovery found gaps.
 * When a batch outgrows its memory, rows_grow makes a larger one; readers of the old one keep it.
 */
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
/* The same for rows that borrow their documents and fits. */
struct rows *rows_create_borrowing(size_t count);
bool rows_borrow(const struct rows *rows);
/* A copy with room for at least bytes more and one row more; it borrows where the old one does.
 * References: 1. */
struct rows *rows_grow(const struct rows *rows, size_t bytes);
/* A copy that borrows nothing, with room for `bytes` of documents or what there is of them; there
 * is a row. For the holder of index.write. References: 1. */
struct rows *rows_own(const struct rows *rows, size_t bytes);
/* What a reader may keep: the batch itself, or where it borrows a copy without fits. The caller
 * holds index.table, under which the batch was found. NULL when memory is out. */
struct rows *rows_share(struct rows *rows);
void rows_release(struct rows *rows); /* accepts NULL */

/* How a document was taken apart, *out.shape NULL where that was not kept: no more room for values,
 * or another generation of shapes than the first row's. Valid as long as the rows. */
void rows_fit(const struct rows *rows, size_t i, struct fit *out);
/* False when the row does not fit in the memory there is. Copies everything but a borrowed
 * document; row->fit may be NULL. */
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
