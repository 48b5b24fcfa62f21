/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of a data directory, for `stowctl backup` and `stowctl restore`. Layout in
 * docs/format.md, section 6. Works beside a running daemon, of which it needs nothing but its
 * files, and without.
 *
 * What is copied: the catalog as of one moment (LMDB lets other processes read); from that moment
 * on, beside it, the log from the live catalog's start to its end; as soon as the catalog is copied
 * the segments that it names are opened, so that they can be read to their end although the daemon
 * rewrites them. A copy of these is what a crash leaves behind, and recovery makes of it what was
 * acknowledged by then.
 *
 *   V1  everything that was acknowledged before backup_run began is in the backup: catalog and log
 *       are read after that, in this order. Nothing is in it that was not written.
 *   V2  the log is a ring. Its copy counts only if afterwards the live catalog's start is not
 *       behind its end (W5 of wal.h), and if the copied catalog has every dictionary that blocks in
 *       it need (one may have been published after the catalog's moment). Else, and when a segment
 *       was gone before it was opened, all is done again from a newer catalog. What was copied
 *       stays, so that each round has less to do. The log is not cut at the catalog's moment: the
 *       catalog may have effects of rows that only the log has.
 *   V3  bytes below a length that a catalog names never change (S1, G1). A segment that the backup
 *       has already is kept if length, header and footer (or the headers of all its blocks) are the
 *       same: a number could have been used again after a crash.
 *   V4  no file that a manifest names is ever changed or removed before another manifest has taken
 *       its place. So a backup that fails or is killed leaves the one before as it was.
 *   V5  every file is read back from the backup, and every block, dictionary, batch of the log and
 *       value of the catalog verified, before the manifest is written (kept segments only without
 *       `quick`).
 *   V6  what cannot be read of a segment, or does not verify, does not keep the rest from being
 *       copied: it is named in the manifest, also by later backups that keep the segment. */
#ifndef STOWD_BACKUP_H
#define STOWD_BACKUP_H

#include "config/base.h"

struct backup_options {
    const char *path_data;
    const char *dir;       /* of the backup: new, empty, or an earlier backup of the same node */
    const char *release;   /* for the manifest */
    uint64_t rate;         /* bytes a second that are read; 0: no limit */
    bool quick;            /* V5 */
    const char *test_hold; /* test hook: wait after the catalog's moment while this file exists */
    void (*say)(void *arg, const char *text); /* progress and findings, a line a call */
    void *arg;
};

struct backup_result {
    uint32_t number;
    uint64_t indices, segments, kept;
    uint64_t bytes;        /* of all files */
    uint64_t copied_bytes; /* of them, written now */
    uint64_t rounds;
    uint64_t damage; /* places that were damaged in the data directory already */
};

/* RC_INVALID: not a data directory, or not a place for this backup. RC_BUSY: another backup is
 * being made there, the catalog was replaced, or the data directory changed too fast (V2). */
MUST_CHECK enum rc backup_run(const struct backup_options *options, struct backup_result *out,
                              struct err *err);

struct restore_options {
    const char *backup;
    const char *path_data; /* new or empty */
    uint64_t rate;
    void (*say)(void *arg, const char *text);
    void *arg;
};

struct restore_result {
    uint64_t files, bytes;
    uint64_t number, time_s; /* of the backup */
    uint64_t damage;         /* as it was when the backup was made */
};

/* RC_INVALID: no backup, or a target that is not empty. RC_CORRUPT: the backup is damaged; names
 * the file. What was made of the target is removed when it fails. */
MUST_CHECK enum rc restore_run(const struct restore_options *options, struct restore_result *out,
                               struct err *err);

#endif
