/* SPDX-License-Identifier: Apache-2.0 */
/* gzip (RFC 1952) in both directions. Only file besides codec.c with <zlib.h>.
 *
 *   Z1  inflating never makes more than the caller's limit, whatever the input says.
 *   Z2  several members one after another are one content (RFC 1952, 2.2); empty members count.
 *   Z3  a cut or damaged stream, and bytes behind the last member, are errors: nothing is taken. */
#ifndef STOWD_GZIP_H
#define STOWD_GZIP_H

#include "config/base.h"
#include "config/buf.h"

/* Append what `in` inflates to.
 *   max     most bytes that may come out
 *   errors  RC_TOO_LARGE (more than max), RC_INVALID (not gzip, damaged, cut, empty), RC_NOMEM;
 *           out->len is then as before */
MUST_CHECK enum rc gunzip(struct slice in, uint64_t max, struct buf *out, struct err *err);

/* Append `in` as one gzip member. RC_NOMEM. */
MUST_CHECK enum rc gzip_deflate(struct slice in, struct buf *out);

/* One gzip member made piece by piece, for answers that are streamed. */
struct gzip_stream;
MUST_CHECK enum rc gzip_stream_open(struct gzip_stream **out);
/* Append what is ready. With `last` the member ends: nothing may follow. An earlier piece may add
 * no bytes at all: they wait inside for more. */
MUST_CHECK enum rc gzip_stream_put(struct gzip_stream *stream, struct slice in, bool last,
                                   struct buf *out);
void gzip_stream_close(struct gzip_stream *stream); /* accepts NULL; at any time */

#endif
