/* SPDX-License-Identifier: Apache-2.0 */
/* A set of seqs that may get dense: chunks of 4,096 seqs, each a sorted list of 16-bit offsets
 * while that is smaller, a bitmap from then on. Pure memory, no locks.
 *
 *   B1  memory: per chunk that has a seq at most 520 bytes (1 bit a seq), and at most 4 bytes a seq
 *       plus 24; beside it 8 bytes for each chunk below the highest one. */
#ifndef STOWD_SEQBITS_H
#define STOWD_SEQBITS_H

#include "config/base.h"

#define SEQBITS_CHUNK 4096

struct seqbits_chunk;
struct seqbits {
    struct seqbits_chunk **chunk;
    size_t chunks; /* slots; NULL: no seq of it is in the set */
    size_t memory; /* bytes */
    uint64_t count;
};

void seqbits_done(struct seqbits *set);
/* False: memory is out, the set is as it was. Adding one that is there is fine. */
MUST_CHECK bool seqbits_add(struct seqbits *set, uint64_t seq);
bool seqbits_has(const struct seqbits *set, uint64_t seq);
/* Move what lies in chunks below limit, the one that limit lies in included, from one set to
 * another; from is empty then. False: memory ran out, into lacks some. */
MUST_CHECK bool seqbits_join(struct seqbits *into, struct seqbits *from, uint64_t limit);

#endif
