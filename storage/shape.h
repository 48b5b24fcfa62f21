/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: what documents of one kind have in common. A shape is every byte of a document but its
 * values: literal pieces (keys, brackets, white space) with a slot between two of them.
 *
 *   H1  a document is exactly the pieces of its shape with its values between them, whatever it is:
 *       not valid JSON, or more than the limits below, is one value between two empty pieces.
 *   H2  a value of a SLOT_STRING or SLOT_ATOM holds no control byte.
 *   H3  a document that matches a shape is valid JSON: shapes come of valid documents, and values
 *       are checked as strictly as json_check does.
 * Arrays of at most four numbers are expanded; any other is one value. A shape lives in the arena
 * of the table that learned it. */
#ifndef STOWD_SHAPE_H
#define STOWD_SHAPE_H

#include "storage/arena.h"

#define SHAPE_SLOTS_MAX 512
#define SHAPE_BYTES_MAX 16384
#define SHAPE_DEPTH_MAX 32

/* Numbers are on disk: in a skeleton, the byte of that value stands for the slot. No literal piece
 * holds one, as JSON allows control bytes only as white space. */
enum slot_kind {
    SLOT_STRING = 1, /* text of a string, without its quotes */
    SLOT_ATOM = 2,   /* number, true, false, null */
    SLOT_RAW = 3,    /* an array as written, or anything */
};

static inline bool shape_is_slot(uint8_t c)
{
    return c >= SLOT_STRING && c <= SLOT_RAW;
}

struct shape_slot {
    uint64_t path; /* hash of the keys that lead there; differs for each slot of a shape */
    enum slot_kind kind;
    uint32_t piece_at, piece_len; /* the piece before it, in the skeleton */
};

struct shape {
    struct slice skeleton;
    uint64_t hash;   /* of the skeleton */
    uint32_t number; /* in the table that learned it */
    uint32_t slots;
    uint32_t tail_at, tail_len;
    struct shape_slot slot[];
};

/* How a document was taken apart: its shape and the length of each value. shape NULL: not known. */
struct fit {
    const struct shape *shape;
    const uint16_t *lens;      /* one a slot */
    struct shape_table *table; /* whose shape it is: to be retained for as long as it is needed */
};

/* The values of a document that fits: slices of it. */
void fit_values(const struct fit *fit, struct slice doc, struct slice *values);

/* Shapes met so far, numbered in the order of their coming. References: 1. Not for several threads
 * at once but for the shapes themselves, which never change (see shapes.h). */
struct shape_table;

struct shape_table *shape_table_create(void); /* NULL: memory */
struct shape_table *shape_table_retain(struct shape_table *table);
void shape_table_release(struct shape_table *table); /* accepts NULL */
size_t shape_count(const struct shape_table *table);
size_t shape_memory(const struct shape_table *table); /* of all shapes */
const struct shape *shape_at(const struct shape_table *table, size_t number);

/* The shape in the table that a document has, and its values; NULL: it has none of them, or is no
 * valid JSON. May run while another thread learns. */
const struct shape *shape_find(const struct shape_table *table, struct slice doc,
                               struct slice *values);
/* The same for the line that text begins with, whose length is not known before: *line_out is it,
 * without the "\n" or "\r\n" at its end. Only of a table that has learned no document with a line
 * feed. */
const struct shape *shape_find_line(const struct shape_table *table, struct slice text,
                                    struct slice *values, struct slice *line_out);

/* The number of a document's shape, and its values, at most SHAPE_SLOTS_MAX. At most shapes_max
 * shapes and slots_max slots in all are learned; a document that would need more is one raw value.
 * False: memory is out. */
MUST_CHECK bool shape_of(struct shape_table *table, struct slice doc, size_t shapes_max,
                         size_t slots_max, struct slice *values, uint32_t *number_out);
/* The same for a document whose shape is known from elsewhere; the shape must outlive the table.
 * SHAPE_NONE: it would be one too many. */
#define SHAPE_NONE UINT32_MAX
MUST_CHECK bool shape_adopt(struct shape_table *table, const struct shape *shape, size_t shapes_max,
                            size_t slots_max, uint32_t *number_out);
/* Learn the shape of a document that fitted none; *shape_out is NULL where it has none. False:
 * memory is out. */
MUST_CHECK bool shape_learn(struct shape_table *table, struct slice doc, struct slice *values,
                            const struct shape **shape_out);

#endif
