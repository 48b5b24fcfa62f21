/* SPDX-License-Identifier: Apache-2.0 */
/* Making the catalog again, for `stowctl rebuild`: from the blocks in the segments, the log and
 * metadata.json. The old catalog is moved aside and not looked at.
 *
 *   R1  of blocks that overlap the one from the higher segment counts: it was written later, of
 *       the rows of the others.
 *   R2  rows of the log that no block covers and that are the newest of their ids become blocks in
 *       new segments; then the log is done with, and the daemon begins behind its end. A row that
 *       the log has and no block, among the seqs of a block, was dropped: it is not taken again,
 * but it tells that its id was written or deleted then. R3  what can be derived is derived: newest
 * rows of ids, dead rows (older rows of an id, rows below a tombstone, tombstones, seqs without a
 * row), runs, numbers that come next. R4  the new catalog takes the old one's name when it is
 * complete; a run that was broken off can be repeated. Memory: 24 bytes for each row with an id of
 * an index, one bit for each row, and the log. */
#ifndef STOWD_REBUILD_H
#define STOWD_REBUILD_H

#include "config/base.h"

struct rebuild_result {
    uint64_t indices, docs, rows, blocks;
    uint64_t log_rows; /* that only the log had */
    uint64_t damage;   /* places that held something else than what was written */
};

/* say gets a line for everything that the user should know. RC_BUSY: another process has the
 * directory. */
MUST_CHECK enum rc rebuild_run(const char *path_data, void (*say)(void *arg, const char *text),
                               void *arg, struct rebuild_result *out, struct err *err);

#endif
