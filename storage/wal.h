/* SPDX-License-Identifier: Apache-2.0 */
/* The write-ahead log: one ring for the whole node that carries everything acknowledged.
 *
 * A position is a byte offset that only grows; it lies in file position / file_bytes % file_count.
 * Files are filled with zeros and synced by the first reservation that needs them, then recycled: a
 * full disk refuses a reservation and never hits a commit. One thread, the committer, takes all
 * commits that are queued, writes one batch (4 KiB aligned; magic, run number, batch number,
 * position, length, one checksum), syncs, and calls each commit's done.
 *
 *   W1  done(RC_OK) is called only after the fdatasync that covers the commit.
 *   W2  a commit lies in one batch: it is replayed whole or not at all.
 *   W3  at most one batch is being written; a batch may lie across files.
 *   W4  a failed write or sync is final: every commit from then on ends with RC_IO, failed() is
 *       called once, nothing is written again (IO3).
 *   W5  space before the released position may be overwritten, nothing else.
 *   W6  replay takes batches while run, number and position continue. Nothing valid behind: a torn
 *       tail. A valid batch of the same run with a higher number behind: damage (RC_CORRUPT).
 * Locks: internal only. done() runs on the committer and must not block; commits submitted after
 * wal_close has begun are refused on the spot (RC_IO). */
#ifndef STOWD_WAL_H
#define STOWD_WAL_H

#include "config/base.h"

/* Numbers are on disk. */
enum wal_kind {
    WAL_ROWS = 1,  /* rows of one index, lightly compressed; row encoding in docs/format.md */
    WAL_BLOCK = 2, /* one packed block record */
    WAL_INDEX = 3, /* names uuid, nonce and term of an index number; before its first record */
};

struct wal_record {
    uint32_t index_no;
    enum wal_kind kind;
    uint8_t codec;     /* of the body: enum codec */
    uint32_t raw_len;  /* of the body, decompressed */
    struct slice body; /* borrowed until done */
};

/* One request's records. Embed it; the log owns it from wal_submit until done. */
struct wal_commit {
    const struct wal_record *records;
    size_t count;
    void (*done)(struct wal_commit *commit, enum rc rc);
    struct wal_commit *next; /* internal */
};

/* Where a log starts; kept in the catalog by checkpoints. */
struct wal_start {
    uint64_t run;        /* number of the run that writes or wrote it */
    uint64_t batch;      /* number of the first batch at position */
    uint64_t position;   /* multiple of 4096 */
    uint64_t file_bytes; /* geometry */
    uint32_t file_count;
};

struct wal_options {
    const char *dir;
    void (*failed)(void *arg, const struct err *err); /* W4, on the committer */
    void *arg;
};

struct wal;
/* What a record takes in the log beside its body, at most. */
#define WAL_RECORD_BYTES 24

/* Geometry for storage.wal.size: 8 files (each a multiple of 4 KiB). */
void wal_geometry(uint64_t bytes, struct wal_start *start);

/* Replay what is there from start. fn is called for each record in order; at is the batch's
 * position; a body that is compressed comes decompressed. end_out tells where the log ends (the
 * next position and batch). accept_loss: take damage as the end and go on.
 *   errors  RC_CORRUPT (W6; the text says to restore or to use --accept-loss), RC_IO, fn's */
typedef enum rc (*wal_replay_fn)(const struct wal_record *record, uint64_t at, void *arg,
                                 struct err *err);
MUST_CHECK enum rc wal_replay(const char *dir, const struct wal_start *start, bool accept_loss,
                              wal_replay_fn fn, void *arg, struct wal_start *end_out,
                              struct err *err);

/* Copy the batches from start on, each verified, to the same positions of the ring in to_dir (which
 * has no files yet; they may end early), while another process may be writing. What was whole when
 * the call began is copied, provided that nothing of it was overwritten meanwhile: the caller looks
 * afterwards whether the catalog's start is still at or before *end_out (W5). The copy is synced
 * and not read back: wal_replay does that, and must end at *end_out. errors  RC_BUSY (more than one
 * lap), RC_CORRUPT (W6, or overwritten), RC_IO, RC_FULL */
MUST_CHECK enum rc wal_copy(const char *dir, const struct wal_start *start, const char *to_dir,
                            struct wal_start *end_out, struct err *err);

/* For rebuilding a catalog, when the start is lost: every whole batch of the newest run that the
 * log has, in order of their numbers. end_out is where a later run may begin; gaps_out counts where
 * the numbers do not continue, that is damage. RC_NOT_FOUND without text: there is no batch. */
MUST_CHECK enum rc wal_salvage(const char *dir, wal_replay_fn fn, void *arg,
                               struct wal_start *end_out, uint64_t *gaps_out, struct err *err);
/* For looking at a log: every whole batch, file by file, left over ones too. */
MUST_CHECK enum rc wal_list(const char *dir,
                            enum rc (*fn)(const struct wal_start *at, uint64_t payload,
                                          uint32_t records, void *arg),
                            void *arg, struct err *err);

/* Open for writing at start (which must already be durable in the catalog) and start the
 * committer. Files of another geometry are removed and made anew. */
MUST_CHECK enum rc wal_open(const struct wal_options *options, const struct wal_start *start,
                            struct wal **out, struct err *err);
/* Wait for what is queued, stop the committer, close. Commits submitted later are refused. */
void wal_close(struct wal *wal);

/* Queue a commit. Call from any thread; it must have reserved its bytes. One without records writes
 * nothing: its done tells that everything submitted before it is durable. */
void wal_submit(struct wal *wal, struct wal_commit *commit);

/* Take `bytes` (an upper bound of the bodies of a commit's records; of more than 150 records also
 * WAL_RECORD_BYTES each) out of the free space of the ring before anything is decided. Give back
 * with wal_unreserve after done. May make the ring's next file: waits for the disk then.
 *   errors  RC_BUSY (not enough now), RC_TOO_LARGE (more than half of the ring), RC_FULL (no disk
 *           space for the next file; try later), RC_IO (W4, or that file could not be made) */
MUST_CHECK enum rc wal_reserve(struct wal *wal, uint64_t bytes);
/* Make a reservation of `had` bytes larger; then it is one of had + more. (Two calls of wal_reserve
 * are two reservations, each given back by its own wal_unreserve.) */
MUST_CHECK enum rc wal_reserve_more(struct wal *wal, uint64_t had, uint64_t more);
/* Give back a whole reservation. */
void wal_unreserve(struct wal *wal, uint64_t bytes);

/* Lower bound of the position of every record submitted from now on. */
uint64_t wal_head(struct wal *wal);
/* For checkpoints: what to keep in the catalog so that replay begins at the batch that holds
 * `position` or the first one behind it (position must be an earlier wal_head value). */
struct wal_start wal_start_at(struct wal *wal, uint64_t position);
/* The catalog has durably taken a start: everything before its position may be overwritten.
 * A position before the last one given changes nothing. */
void wal_release(struct wal *wal, uint64_t position);

struct wal_stats {
    uint64_t capacity, used, reserved; /* bytes */
    uint64_t batches, commits, bytes_written, syncs;
    uint64_t sync_ns; /* sum */
};
void wal_stats(struct wal *wal, struct wal_stats *out);

#endif
