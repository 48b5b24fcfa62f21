/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: what documents of one kind have in common. A shape is every byte of a document but its
 * values: literal pieces (keys, brackets, white space) with a slot between two of them.
 *
 *   H1  a document is exactly the pieces of its shape with its values between them, whatever it is:
 *       not valid JSON, or more than the limits below, is one value between two empty pieces.
 *   H2  a value of a SLOT_STRING or SLOT_ATOM holds no control byte.
 * Arrays of at most four numbers are expanded; any other is one value. A shape lives in the arena
 * of its table. */
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
    uint32_t number; /* in its table, from 0 */
    uint32_t slots;
    uint32_t tail_at, tail_len;
    struct shape_slot slot[];
};

/* Shapes met so far, numbered in the order of their coming. */
struct shape_table;

struct shape_table *shape_table_create(void); /* NULL: memory */
void shape_table_free(struct shape_table *table);
size_t shape_count(const struct shape_table *table);
const struct shape *shape_at(const struct shape_table *table, size_t number);

/* The shape of a document and its values, at most SHAPE_SLOTS_MAX. At most shapes_max shapes and
 * slots_max slots in all are learned; a document that would need more is one raw value.
 *   NULL     memory is out */
MUST_CHECK const struct shape *shape_of(struct shape_table *table, struct slice doc,
                                        size_t shapes_max, size_t slots_max, struct slice *values);

#endif
