/* SPDX-License-Identifier: Apache-2.0 */
/* Derived columns: strings that are made of other values of the same document, like the message of
 * a parsed log line. Such a column is a few templates (literals and references to other columns),
 * the number of one per value, and the values that none of them gives.
 *
 *   D1  a template is used for a value only if it gives its exact bytes.
 *   D2  a column that is referred to is not derived itself, so that reading one takes one step. */
#ifndef STOWD_DERIVE_H
#define STOWD_DERIVE_H

#include "storage/column.h"

/* ---- packing: the columns of a block, by number */

struct derive_column {
    struct cell *cells; /* rows rising */
    uint32_t n;
    bool text;    /* strings: may be derived */
    bool derived; /* out: has been put as a derived column */
    bool referred;
    uint32_t cursor;
};

/* Put column `target` as a derived one if most of its values are; false, and nothing done, if
 * not. */
MUST_CHECK bool derive_put(struct streams *out, struct derive_column *columns, size_t count,
                           size_t target, struct column_scratch *scratch);

/* ---- reading */

#define DERIVE_TEMPLATES_MAX 16u

struct derived {
    uint32_t n, templates;
    const uint8_t *numbers; /* template of each value; NULL: all are of the first */
    struct sequence exceptions;
    struct {
        struct slice parts; /* from the directory */
        struct slice literals;
    } template[];
};

MUST_CHECK enum rc derive_open(struct derived **out, uint64_t n, struct stream_readers *in,
                               struct arena *arena, const char **what_out);

/* Value k. refer appends the value of another column of the same row. */
MUST_CHECK bool derive_get(const struct derived *derived, uint32_t k,
                           bool (*refer)(void *arg, uint64_t column, struct buf *out), void *arg,
                           struct buf *out);

#endif
