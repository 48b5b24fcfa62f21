/* SPDX-License-Identifier: Apache-2.0 */
/* A corpus in memory: NDJSON, one document a line, no empty lines. Programs of the benchmark end
 * with a message when something goes wrong (err.h). */
#ifndef STOWD_BENCH_CORPUS_H
#define STOWD_BENCH_CORPUS_H

#include <stddef.h>
#include <stdint.h>

struct corpus {
    char *bytes;
    size_t len;
    size_t *start; /* count + 1: of each document, and the end; a document ends with its newline */
    size_t count;
    size_t raw_bytes; /* without the newlines */
};

void corpus_read(const char *path, struct corpus *out);
void corpus_free(struct corpus *corpus);

/* xorshift64*: the same sequence everywhere. state is not 0. */
uint64_t random_next(uint64_t *state);

#endif
