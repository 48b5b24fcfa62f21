/* SPDX-License-Identifier: Apache-2.0 */
/* A survey of an index: its blocks with their dead rows, and the segments they lie in, as the
 * catalog names them and as they are on disk. For counting at start, and for compaction to choose
 * by.
 *
 * All of it under store.layout; what a survey says is true until that is given up. */
#ifndef STOWD_SURVEY_H
#define STOWD_SURVEY_H

#include "storage/engine.h"

struct survey_item {
    struct place place;
    uint32_t dead; /* rows, from the catalog */
    bool chosen;   /* the rest of an item and of a segment is compaction's */
};

struct survey_segment {
    uint32_t number;
    uint32_t blocks; /* that the catalog names, and that are not rewritten yet */
    uint64_t file_bytes, content_bytes, named_bytes, live_bytes;
    bool chosen;
    bool has_blocks;
    bool open; /* was still written to: it may have got blocks since */
    bool removed;
};

struct survey {
    struct index *ix;
    struct survey_item *item; /* in order of seq */
    size_t count, cap;
    struct survey_segment *seg;
    size_t seg_count, seg_cap;
    size_t seg_last;     /* asked for: nearly always the next one is the same */
    uint64_t packed_seq; /* it has all rows below */
    uint32_t dict_bytes; /* of a copy of the current dictionary */
    bool drop_tombstones;
    uint64_t dropped; /* rows */
    enum rc kept;     /* the first failure that did not end the look … */
    struct err why;   /* … and its text */
};

/* All blocks of the index with their dead rows, and their segments. RC_CORRUPT when rows are
 * missing. survey_done frees it, loaded or not. */
MUST_CHECK enum rc survey_load(struct survey *survey, struct err *err);
void survey_done(struct survey *survey);
/* The segment of that number, made when the survey has none; NULL: no memory. */
struct survey_segment *survey_segment(struct survey *survey, uint32_t number);
/* Remove the files of segments that nothing names (strays); after a start that accepted losses they
 * are kept. One that cannot be removed does not keep the others; the first failure is returned. */
MUST_CHECK enum rc survey_sweep(const struct survey *survey, struct err *err);

#endif
