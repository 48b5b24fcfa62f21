/* SPDX-License-Identifier: Apache-2.0 */
/* Inside rebuilding: what was found on disk (found.c), and the catalog made of it (rebuild.c). */
#ifndef STOWD_FOUND_H
#define STOWD_FOUND_H

#include "storage/engine.h"
#include "storage/metadata.h"
#include "storage/rebuild.h"

/* A row that the log has; it owns its bytes. Without its document when it lies among the seqs of
 * some block: then that has it, or it was dropped; it still tells what became of its id. */
struct found_row {
    uint64_t seq; /* first: sorted by it */
    struct row row;
    void *bytes;
    bool wanted; /* becomes part of a new block */
};

/* A directory of indices/. */
struct found {
    char dir_name[33];
    uint8_t uuid[16];
    uint32_t number; /* 0: not known yet */
    uint64_t created_ms;
    struct buf text; /* the description; about has slices of it */
    struct metadata_about about;
    bool described, of_metadata;
    bool used; /* becomes an index of the new catalog */
    char name[256];
    size_t name_len;
    uint32_t next_segment;
    struct place *block; /* R1; by seq, once settled */
    size_t block_count, block_cap;
    struct found_row *row; /* R2; by seq, once settled */
    size_t row_count, row_cap;
    struct dict **dict; /* those in its segments, each once … */
    size_t dict_count, dict_cap;
    uint32_t dict_next;     /* above all that something is named or made with */
    uint32_t dict_used;     /* the highest that a block is made with */
    struct dict_copy *copy; /* … and where they stand */
    size_t copy_count, copy_cap;
    struct index *index;
};

/* Does seq lie in the range of a block? */
bool found_covered(const struct found *f, uint64_t seq);
/* A dictionary of its segments, or NULL. */
struct dict *found_dict(const struct found *f, uint32_t number);

struct rebuild {
    struct store *store;
    struct found *found;
    size_t count, cap;
    uint8_t *metadata;           /* the file; NULL without */
    struct slice blobs, indices; /* members of it */
    bool ids_known;              /* the store's own ids came from it */
    struct wal_start log_end;
    struct rebuild_result result;
    void (*say)(void *arg, const char *text);
    void *arg;
};

void rebuild_say(struct rebuild *rb, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Damage: said and counted. */
void rebuild_damage(struct rebuild *rb, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Everything on disk but the catalog. */
MUST_CHECK enum rc found_all(struct rebuild *rb, struct err *err);
void found_done(struct rebuild *rb);

#endif
