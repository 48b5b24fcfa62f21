/* SPDX-License-Identifier: Apache-2.0 */
/* Columns: values of one path of many rows, packed. Pure functions on memory; the coders are
 * numbered in docs/format.md section 1.4, an unknown number is RC_UNSUPPORTED.
 *
 *   K1  column_get gives back each value byte for byte; what a type does not reproduce is kept as
 *       text (an exception of that value alone).
 *   K2  opening checks every length against the streams; a value is read without touching the
 *       others' memory and in bounds for any bytes.
 * A column of n values is a constant, a sequence of n values, or a dictionary: a sequence of its
 * different values and n places in it. A sequence is text, or typed (storage/value.h). */
#ifndef STOWD_COLUMN_H
#define STOWD_COLUMN_H

#include "config/buf.h"
#include "storage/arena.h"
#include "storage/bytes.h"
#include "storage/value.h"

/* ---- packing */

ALWAYS_INLINE bool cells_eq(const struct cell *a, const struct cell *b)
{
    return a->len == b->len && bytes_eq(a->ptr, b->ptr, a->len);
}

static inline bool cells_all_eq(const struct cell *cells, size_t n)
{
    for (size_t i = 1; cells_ahead(cells, i, n); i++)
        if (!cells_eq(&cells[i], &cells[0]))
            return false;
    return true;
}

/* What packed columns go to: numbers that describe them, text, binary planes. */
struct streams {
    struct buf directory, text, planes;
};
void streams_done(struct streams *streams);

/* Working memory for columns of up to `most` values, less than 2^32 of them in all. */
struct column_scratch {
    size_t most;
    int64_t *numbers;
    uint32_t *places, *exceptions;
    uint32_t *hashed, hashed_from; /* what is not above that is free */
    struct cell *uniques;
    struct buf bytes;
    struct buf work; /* of derive_put, reserved and never put to */
};
MUST_CHECK bool column_scratch_init(struct column_scratch *scratch, size_t most);
void column_scratch_done(struct column_scratch *scratch);

/* Coders of sequences besides the types of value.h. These numbers, too, are on disk. */
enum { SEQUENCE_TEXT = 0, SEQUENCE_COUNTED = 1 };

enum column_form {
    COLUMN_CONSTANT = 0,
    COLUMN_SEQUENCE = 1,
    COLUMN_DICTIONARY = 2,
};

enum {
    COLUMN_ANY_BYTES = 1, /* values may hold zero bytes */
    COLUMN_IDS = 2,       /* look for the forms of ids, too */
};

/* Append n >= 1 values. Memory that runs out shows in the streams' buffers. */
void column_put(struct streams *out, const struct cell *cells, size_t n, unsigned flags,
                struct column_scratch *scratch);
/* Append a sequence of n >= 1 texts without zero bytes. */
void sequence_put_text(struct streams *out, const struct cell *cells, size_t n);

/* ---- reading */

/* The streams as they are read; planes are changed in place while they are opened. */
struct stream_readers {
    struct reader directory, text;
    uint8_t *planes, *planes_end;
    bool scan; /* most values will be read: note where each text begins */
};
/* The next len bytes of planes, or NULL when there are not so many. */
uint8_t *take_planes(struct stream_readers *in, uint64_t len);

struct sequence {
    uint32_t n;
    uint8_t coder; /* SEQUENCE_TEXT, SEQUENCE_COUNTED or an enum value_type */
    uint8_t width; /* bytes of a number in the planes */
    bool delta;
    uint8_t exception_width;
    uint32_t exceptions;
    struct value_form form;
    int64_t base;
    const uint8_t *planes;
    const uint8_t *exception_at;
    const int64_t *restart;  /* of deltas: every RESTART_EVERY-th number */
    struct slice text;       /* the texts, or those of the exceptions */
    const uint32_t *text_at; /* where each begins in it; NULL: it has to be looked for */
};

struct column {
    enum column_form form;
    uint8_t place_width;
    uint32_t n;
    const uint8_t *places;
    struct slice constant;
    struct sequence values;
};

/* RC_CORRUPT, RC_UNSUPPORTED (*what_out names the unknown thing), RC_NOMEM. Memory comes from the
 * arena; the streams' bytes must outlive the column. */
MUST_CHECK enum rc sequence_open(struct sequence *out, uint64_t n, struct stream_readers *in,
                                 struct arena *arena, const char **what_out);
MUST_CHECK enum rc column_open(struct column *out, uint64_t n, enum column_form form,
                               struct stream_readers *in, struct arena *arena,
                               const char **what_out);
/* Append value k; false when there is none that could be read. Memory shows in out->failed. */
MUST_CHECK bool sequence_get(const struct sequence *sequence, uint32_t k, struct buf *out);
MUST_CHECK bool column_get(const struct column *column, uint32_t k, struct buf *out);

/* ---- planes: numbers of `width` bytes, their lowest bytes first, then the next … */

static inline unsigned bytes_for(uint64_t v)
{
    return v == 0 ? 0 : (71u - (unsigned)__builtin_clzll(v)) / 8;
}

static inline uint64_t plane_get(const uint8_t *planes, unsigned width, size_t n, size_t i)
{
    uint64_t v = 0;
    for (unsigned b = 0; b < width; b++)
        v |= (uint64_t)planes[b * n + i] << (8 * b);
    return v;
}

void planes_put_u32(struct buf *planes, const uint32_t *v, size_t n, unsigned width);

#endif
