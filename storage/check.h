/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a data directory that no daemon has open, for `stowctl check` and `stowctl dump`.
 * Nothing is changed. */
#ifndef STOWD_CHECK_H
#define STOWD_CHECK_H

#include "config/base.h"

struct check_result {
    uint64_t indices, docs, rows, blocks;
    uint64_t segment_bytes; /* files of all indices */
    uint64_t catalog_bytes; /* keys and values of all indices */
    uint64_t log_records;
    uint64_t damage;
};

/* Verify every value of the catalog, every block that it names, every id of a live row, the
 * segment files and the log. say gets a line for each finding, each index and each unused file.
 * RC_OK also when there is damage: then result.damage is not 0. RC_BUSY: a daemon has it. */
MUST_CHECK enum rc check_run(const char *path_data, void (*say)(void *arg, const char *text),
                             void *arg, struct check_result *out, struct err *err);

enum dump_flags { DUMP_ROWS = 1, DUMP_HEX = 2 };
/* List a segment, a block record, the log (its directory `wal`) or a whole data directory, one line
 * a call of say. RC_CORRUPT without text: listed, and there was damage. */
MUST_CHECK enum rc dump_path(const char *path, unsigned flags,
                             void (*say)(void *arg, const char *text), void *arg, struct err *err);

#endif
