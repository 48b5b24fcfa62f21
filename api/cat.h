/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the _cat endpoints: a handler names its columns, fills cells row by row and ends in
 * cat_reply, which honours v, h, s, help, format, bytes and the Accept header.
 *
 *   K1  text: columns are as wide as their widest cell, numbers right-aligned, one space between,
 *       nothing behind a left-aligned last column. JSON: every value is a string, empty is null. */
#ifndef STOWD_CAT_H
#define STOWD_CAT_H

#include "api/call.h"

struct cat_column {
    const char *name;
    const char *aliases; /* comma separated, may be "" */
    const char *text;
    bool hidden; /* only when asked for by h */
    bool right;  /* right-aligned */
};

struct cat_cell {
    size_t at, len;  /* in the pool */
    uint64_t number; /* for sorting, and for sizes */
    enum { CAT_EMPTY, CAT_TEXT, CAT_NUMBER, CAT_BYTES } kind;
};

struct cat_table {
    const struct cat_column *column;
    size_t columns;
    struct buf cells; /* of struct cat_cell, row after row */
    struct buf pool;
};

void cat_begin(struct cat_table *table, const struct cat_column *column, size_t columns);
void cat_done(struct cat_table *table);
/* The next cell of the row; a row is full when every column has one. */
void cat_text(struct cat_table *table, const char *text);
void cat_number(struct cat_table *table, uint64_t number);
void cat_bytes(struct cat_table *table, uint64_t bytes);
void cat_empty(struct cat_table *table);
/* Reply (and api_finish); the table is done afterwards. */
void cat_reply(struct api_call *call, struct cat_table *table);
/* A size as Elasticsearch prints it: 225b, 1.2kb. unit: 0 for that, else a letter of "bkmgtp". */
void cat_size(uint64_t bytes, char unit, char out[32]);

#endif
