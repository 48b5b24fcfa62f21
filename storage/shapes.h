/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes met lately by requests of all indices, so that a document is checked and taken apart in
 * one pass, which also finds its end: one that matches a known shape is valid JSON (H3 of shape.h),
 * and what is found out about it stays with its row until the block is packed. Documents are lines,
 * as in _bulk.
 *
 *   G1  shapes come in generations: a full table is left for a new one, and goes with the last that
 *       holds it (a reader, rows that are not packed yet).
 *   G2  a table is full with SHAPES_SHARED_MAX shapes or SHAPES_SHARED_BYTES of memory.
 *   G3  a document is accepted and refused as json_check would, with the same fault. */
#ifndef STOWD_SHAPES_H
#define STOWD_SHAPES_H

#include "storage/json.h"
#include "storage/shape.h"

#define SHAPES_SHARED_MAX   1024u
#define SHAPES_SHARED_BYTES (1024u * 1024u)

/* For all threads. */
struct shapes;
struct shapes *shapes_create(void); /* NULL: memory */
void shapes_destroy(struct shapes *shapes);

/* One request's view: no lock while its documents have shapes that are known. */
struct shape_reader {
    struct shapes *shapes;
    struct shape_table *table; /* the generation; NULL: documents are only checked */
    unsigned taken, missed;    /* documents */
    struct arena lens;         /* what fits point to */
};

/* shapes NULL: documents are only checked. */
void shape_reader_init(struct shape_reader *reader, struct shapes *shapes);
/* json_check of the line that *text begins with, and *fit_out says how the document was taken apart
 * if it was. *text holds a line feed and goes on behind it; *doc_out is the line without that or
 * "\r\n". Fits are valid until shape_reader_done. */
MUST_CHECK bool shape_reader_line(struct shape_reader *reader, struct slice *text,
                                  struct slice *doc_out, enum json_type *type_out,
                                  struct json_fault *fault, struct fit *fit_out);
void shape_reader_done(struct shape_reader *reader);

#endif
