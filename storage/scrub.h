/* SPDX-License-Identifier: Apache-2.0 */
/* The scrub: a slow pass over all blocks and dictionaries of all indices, which reads them from the
 * disk and verifies that each is where the catalog says, and whole. Damage shows while there is
 * still a backup to take the data from, and not when somebody asks for it.
 *
 *   U1  nothing is held while a block is read: no lock, no transaction, no place in the cache of
 *       blocks, no room in the page cache where the file system lets (io_read_disk).
 *   U2  a block that does not verify is looked up again: if compaction has moved it meanwhile, it
 *       is no damage. The same rule as that of a get (read.c). Nor is it one when there is no
 *       memory or no descriptor to read it: it is left for the next pass.
 *   U3  indices take turns of SCRUB_TURN_BYTES, each going on where it was; the first pass of a
 *       life begins at a random place of each, so that what is read does not depend on how often
 *       the daemon is started.
 *   U4  of an index a pass begins storage.scrub.interval after the last one began, at the earliest,
 *       and after it was made: what is new was verified a moment ago. All together read
 *       storage.scrub.rate bytes a second at most. Thread and reads have the lowest priority.
 *
 * A damaged block is an event (severity error) in each pass that meets it, and counts in the
 * statistics of its index. Nothing is repaired: gets of its documents say what is damaged. */
#ifndef STOWD_SCRUB_H
#define STOWD_SCRUB_H

#include "storage/engine.h"

#define SCRUB_TURN_BYTES (64 * 1024 * 1024)

/* Does nothing when the rate is 0. */
MUST_CHECK enum rc scrub_start(struct store *store, struct err *err);
void scrub_stop(struct store *store); /* joins the thread; any number of calls */

/* The order of turns: of the due ones (sorted by number) the first behind `last`, else the lowest.
 * SIZE_MAX: none is due. */
size_t scrub_next(const uint32_t *numbers, const bool *due, size_t count, uint32_t last);

#endif
