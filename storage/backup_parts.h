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
    bool gone;                   /* it was not there to be opened */
    const struct manifest *kept; /* the backup has it: which of its lists says so */
    uint64_t named;              /* bytes that the catalog names */
    uint64_t len;                /* bytes that are taken */
    int fd;                      /* of those to be copied, while there are descriptors; -1 */
};

struct backup_index {
    struct index *index; /* of the view */
    uint64_t packed_seq; /* E2 of the view */
    struct buf dicts;    /* numbers of the dictionaries that it has, 4 bytes each */
    bool in_log;         /* the log's records of its number are its own */
    struct backup_segment *segment;
    size_t count, cap;
    /* Blocks and dictionaries by segment and offset; only while it is worked on. Of a dictionary
     * rows is 0, first_seq its number, and raw_bytes not 0 while it is not known to be lost. */
    struct place *place;
    size_t place_count, place_cap;
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
    struct backup_index *index; /* by number */
    size_t index_count, index_cap;
    size_t open, open_max; /* segments that are held open */
    int catalog_fd;        /* of the live catalog's file, locked */
    struct buf missing,
        missing_now;  /* lines: segments that were gone in the round before, in this */
    uint64_t to_copy; /* bytes, of this round */
    uint64_t told_ms, saved_ms;
};

void backup_say(struct backup *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Said, counted and kept in the manifest, and in the list of what is copied so far; a text that is
 * there already is not repeated. */
void backup_damage(struct backup *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- backup_segments.c */
/* Find out what the view names, decide what is kept, open what is not. */
MUST_CHECK enum rc backup_plan(struct backup *b, struct err *err);
/* Copy and verify; b->next gets the files. RC_AGAIN: some were gone (V2). */
MUST_CHECK enum rc backup_segments(struct backup *b, struct err *err);
void backup_forget_plan(struct backup *b);

#endif
