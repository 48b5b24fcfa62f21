/* SPDX-License-Identifier: Apache-2.0 */
/* Copying and reading whole files for backup and restore: at a limited rate, without changing what
 * the page cache holds for others, hashed on the way. One thread. */
#ifndef STOWD_COPIER_H
#define STOWD_COPIER_H

#include "config/base.h"
#include "storage/io.h"

struct copier {
    uint64_t rate;           /* bytes a second that are read; 0: no limit */
    uint64_t begun_ns;       /* when counting began … */
    uint64_t paced;          /* … and bytes since */
    uint64_t copied;         /* bytes written */
    uint64_t verified;       /* bytes read back */
    bool zero_unreadable;    /* copy zeros for what the disk does not give, … */
    uint64_t unreadable;     /* … these bytes, of the last copy */
    uint8_t *piece;          /* COPIER_PIECE bytes */
    void *hash;              /* state of XXH3 */
    void (*tick)(void *arg); /* now and then; may be NULL */
    void *arg;
};

#define COPIER_PIECE (1024 * 1024)

MUST_CHECK enum rc copier_init(struct copier *c, uint64_t rate, struct err *err);
void copier_done(struct copier *c);

/* The first len bytes of a file into a new one, synced; its directory is not. On failure the new
 * one is removed. The hash is of what was read. RC_EXISTS, RC_FULL, RC_CORRUPT (the source ends
 * early). */
MUST_CHECK enum rc copier_copy(struct copier *c, const struct io_file *from, uint64_t len,
                               const char *to, uint64_t *hash_out, struct err *err);

/* Reading a file front to back, in pieces of any size: begin, then read what follows what was read,
 * then end. */
void copier_begin(struct copier *c);
MUST_CHECK enum rc copier_read(struct copier *c, const struct io_file *file, uint64_t at, void *dst,
                               size_t len, struct err *err);
uint64_t copier_end(struct copier *c);
/* All of it. */
MUST_CHECK enum rc copier_hash(struct copier *c, const struct io_file *file, uint64_t len,
                               uint64_t *hash_out, struct err *err);

#endif
