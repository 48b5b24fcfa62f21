/* SPDX-License-Identifier: Apache-2.0 */
/* Inside making a backup: backup.c (directory, rounds, catalog and log) and backup_segments.c. */
#ifndef STOWD_BACKUP_PARTS_H
#define STOWD_BACKUP_PARTS_H

#include "storage/backup.h"
#include "storage/copier.h"
#include "storage/engine.h"
#include "storage/manifest.h"

/* A segment that the copied catalog names. */
struct backup_segment {
    uint32_t number;
    bool sealed; /* taken with its footer */
    bool has_blocks;
    bool kept;      /* the backup has it */
    bool gone;      /* it was not there to be opened */
    uint64_t named; /* bytes that the catalog names */
    uint64_t len;   /* bytes that are taken */
    int fd;         /* of those to be copied; -1 */
};

struct backup_index {
    struct index *index; /* of the view */
    struct backup_segment *segment;
    size_t count, cap;
    struct place *place; /* by segment and offset; only while it is worked on */
    size_t place_count;
};

struct backup {
    const struct backup_options *o;
    struct backup_result result;
    struct store *live;    /* the data directory; only its catalog is open */
    struct store *view;    /* the copied catalog */
    struct manifest old;   /* of the complete backup that is there */
    struct manifest fresh; /* segments copied since: by this process, or one that did not end */
    struct manifest next;  /* what this round makes */
    struct buf damage;     /* lines, of all rounds */
    struct copier copier;
    struct backup_index *index;
    size_t index_count, index_cap;
    struct buf missing,
        missing_now;  /* lines: segments that were gone in the round before, in this */
    uint64_t to_copy; /* bytes, of this round */
    uint64_t told_ms, saved_ms;
};

void backup_say(struct backup *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Said, counted and kept in the manifest; a text that is there already is not repeated. */
void backup_damage(struct backup *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- backup_segments.c */
/* Find out what the view names, decide what is kept, open what is not. */
MUST_CHECK enum rc backup_plan(struct backup *b, struct err *err);
/* Copy and verify; b->next gets the files. RC_AGAIN: some were gone (V2). */
MUST_CHECK enum rc backup_segments(struct backup *b, struct err *err);
void backup_forget_plan(struct backup *b);

#endif
