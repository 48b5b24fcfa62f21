/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a dictionary, chosen out of samples: the segments whose pieces of COVER_PIECE
 * bytes are the most frequent in all of them. The way of libzstd's fastCover
 * (lib/dictBuilder/fastcover.c; after Liao, Petri, Moffat, Wirth: Effective Construction of
 * Relative Lempel-Ziv Dictionaries, WWW 2016) with one length of segments, which zstd's stable
 * functions do not offer. Pure.
 *
 *   F1  deterministic: the same samples give the same content.
 *   F2  the sum of a segment counts each piece once, and what was chosen counts no more: a piece is
 *       hardly taken twice.
 *   F3  the samples are cut into epochs, and each gives a segment in its turn, so that all of them
 *       are heard. */
#ifndef STOWD_COVER_H
#define STOWD_COVER_H

#include "config/base.h"

#define COVER_PIECE 8u

/* Fill dst from its end to its beginning, the first chosen last, where zstd reaches it with the
 * shortest offsets. *len_out bytes, at most cap, end at dst + cap; 0: nothing comes twice. Takes
 * 3 MB while it runs. False: no memory. */
MUST_CHECK bool cover_choose(struct slice samples, uint8_t *dst, size_t cap, size_t *len_out);

#endif
