/* SPDX-License-Identifier: Apache-2.0 */
/* Layout "columnar": the documents of a block taken apart into shapes and columns, and put together
 * again one at a time. Pure functions on memory; docs/format.md section 1.4.
 *
 *   C1  a document comes back byte for byte, whatever its bytes are.
 *   C2  opening and reading are in bounds for any bytes, and a document is never longer than all
 *       were together when they were packed.
 *   C3  all that a block needs is in the block. */
#ifndef STOWD_COLUMNAR_H
#define STOWD_COLUMNAR_H

#include "config/base.h"
#include "config/buf.h"

struct fit; /* storage/shape.h */

/* Append the raw forms of a block's two frames: data (directory and texts) and aux (planes).
 *   fits     how each document was taken apart, or NULL
 * RC_NOMEM only. */
MUST_CHECK enum rc columnar_pack(const struct slice *docs, const struct fit *fits, size_t count,
                                 struct buf *data, struct buf *aux);

/* A block's documents, ready to be read one by one. Immutable once opened. */
struct columnar;

/* docs_bytes: length of all documents together. scan: most of them will be read. data and aux are
 * borrowed until columnar_close; aux is changed in place. RC_CORRUPT; RC_UNSUPPORTED: *what_out
 * names the unknown thing; RC_NOMEM. */
MUST_CHECK enum rc columnar_open(struct slice data, uint8_t *aux, size_t aux_len, size_t rows,
                                 uint64_t docs_bytes, bool scan, struct columnar **out,
                                 const char **what_out);
void columnar_close(struct columnar *columnar); /* accepts NULL */
/* Bytes it holds besides the frames. */
size_t columnar_memory(const struct columnar *columnar);
/* Append document i. RC_CORRUPT, RC_NOMEM: out then holds a part of it. */
MUST_CHECK enum rc columnar_doc(const struct columnar *columnar, size_t i, struct buf *out);

#endif
