/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values: texts that a number or a few bytes stand for. Pure functions.
 *
 *   V1  value_parse and value_pack accept a text only if formatting gives back its exact bytes.
 *   V2  formatting is integer arithmetic: it gives the same bytes on every machine, for ever.
 *   V3  formatting stays within VALUE_TEXT_MAX for any number and any form that value_form_sound
 *       accepts. */
#ifndef STOWD_VALUE_H
#define STOWD_VALUE_H

#include "config/base.h"

/* Numbers are on disk (docs/format.md section 1.4) and never change their meaning. */
enum value_type {
    VALUE_INTEGER = 2,
    VALUE_DECIMAL = 3,
    VALUE_IPV4 = 4,
    VALUE_TIMESTAMP = 5, /* 2024-03-05T12:00:00.612Z and its relatives */
    VALUE_CLF = 6,       /* 17/May/2015:10:05:03 +0000 */
    VALUE_FLOAT32 = 7,   /* a float, printed as the double of the same value */
    VALUE_NUMBERED = 8,  /* a prefix and digits: order-0042 */
    VALUE_UUID = 9,      /* from here on: fixed bytes instead of a number */
    VALUE_HEX = 10,
    VALUE_BASE64URL = 11,
};
#define VALUE_TYPE_END 12

/* A type and what all values of a column share. a, b and their meanings: docs/format.md. */
struct value_form {
    enum value_type type;
    uint32_t a, b;
    struct slice prefix; /* VALUE_NUMBERED; borrowed */
};

/* A value and the row it belongs to. */
struct cell {
    const uint8_t *ptr;
    uint32_t len;
    uint32_t row;
};

static inline struct slice cell_slice(const struct cell *cell)
{
    return slice_of(cell->ptr, cell->len);
}

/* i < n, and cell i is next: texts lie a document apart, which no processor foresees, so that one
 * to come a little later is asked for now. */
static inline bool cells_ahead(const struct cell *cells, size_t i, size_t n)
{
    if (i + 8 < n)
        __builtin_prefetch(cells[i + 8].ptr);
    return i < n;
}

#define VALUE_TEXT_MAX   160
#define VALUE_BYTES_MAX  64 /* fixed bytes of one value */
#define VALUE_PREFIX_MAX 64

/* The form of `type` that fits all the samples, as far as they have the type. False when the first
 * one does not. */
MUST_CHECK bool value_guess(enum value_type type, const struct slice *samples, size_t count,
                            struct value_form *out);
/* The types, as bits, that a column may be guessed to have whose first sample is this text: a cheap
 * look that leaves most texts none. */
unsigned value_candidates(struct slice first);
/* Is a form from disk one that formatting can work with? */
MUST_CHECK bool value_form_sound(const struct value_form *form);
/* Does the type stand for a number (else for value_bytes fixed bytes)? */
static inline bool value_is_number(enum value_type type)
{
    return type < VALUE_UUID;
}
size_t value_bytes(const struct value_form *form);

MUST_CHECK bool value_parse(const struct value_form *form, struct slice text, int64_t *out);
/* Parse texts one after another until one does not fit, into out; returns how many did. */
size_t value_parse_run(const struct value_form *form, const struct cell *cells, size_t n,
                       int64_t *out);
/* Length of the text in dst; 0 when no text has that number (bytes from disk). */
size_t value_format(const struct value_form *form, int64_t v, uint8_t dst[VALUE_TEXT_MAX]);
MUST_CHECK bool value_pack(const struct value_form *form, struct slice text,
                           uint8_t dst[VALUE_BYTES_MAX]);
/* The same as value_parse_run for texts that become fixed bytes. */
size_t value_pack_run(const struct value_form *form, const struct cell *cells, size_t n,
                      uint8_t *dst);
size_t value_unpack(const struct value_form *form, const uint8_t *bytes,
                    uint8_t dst[VALUE_TEXT_MAX]);

#endif
