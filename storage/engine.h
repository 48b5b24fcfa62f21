/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the engine: the structures that store.c, index.c, read.c, write.c, checkpoint.c,
 * recover.c, compact.c and snapshot.c share. Nothing outside storage/ includes it.
 *
 * Lock order: store.names -> index.write -> index.table -> (cache, log, catalog: internal).
 *   names   the table of indices
 *   write   one index: deciding writes, the open block, tickets' issue. Never held over I/O or
 *           compression
 *   table   one index: what readers need to find a row; held for a look-up
 *
 * Where a row is, in order of age: open block -> sealed (pending) block -> segment. A row moves on
 * only after the next place is readable, and readers look in that order, so none is missed.
 *
 * Tickets (S7). Each write takes a ticket from each index it touches, at its first step there, and
 * notes at its last step there the newest ticket issued. It is answered when all tickets up to that
 * one are in the log: everything it can have seen is then durable.
 *
 *   E1  a write's log records are its own rows only: blocks that hold nothing else, and its rows
 *       in blocks shared with others. So a request is in the log whole or not at all.
 *   E2  packed_seq of the catalog: every row below it is in a segment that the catalog names, with
 *       all its effects (ids, dead rows); every row from it on is replayed from the log.
 *   E3  effects are idempotent and commute: the highest seq of an id wins.
 *   E4  ids and dead rows in memory, of all indices together, stay within id_memory_bytes
 *       (storage.ids.memory) and what the writes bring that are under way: over half of it a
 *       checkpoint begins, the biggest first; over all of it no write is admitted. */
#ifndef STOWD_ENGINE_H
#define STOWD_ENGINE_H

#include "storage/bytes.h"
#include "storage/cache.h"
#include "storage/catalog.h"
#include "storage/dict.h"
#include "storage/idmap.h"
#include "storage/idrun.h"
#include "storage/io.h"
#include "storage/rows.h"
#include "storage/segment.h"
#include "storage/seqbits.h"
#include "storage/store.h"
#include "storage/wal.h"

#include <pthread.h>
#include <stdatomic.h>

/* Ids whose hashes collide that the engine tells apart. */
#define CANDIDATES_MAX 256
/* Cache key of blocks that are not on disk yet. */
#define SEGMENT_IN_MEMORY (UINT32_MAX - 1)
/* Kinds of catalog values that are the engine's own. */
#define KIND_NODE  'N'
#define KIND_INDEX 'I'
#define KIND_STATE 'S'
#define KIND_DICT  'U'
#define KIND_DROP  'D' /* a deleted index whose files and keys are left: its directory's name */

/* A sealed block that the catalog does not name yet. */
enum pending_state { PENDING_SEALED, PENDING_PACKING, PENDING_PACKED };
struct pending {
    atomic_size_t refs;
    uint64_t first_seq, last_seq;
    uint64_t wal_at; /* no record of its rows lies before this log position */
    uint32_t rows_count, raw_bytes;
    /* guarded by index.table */
    enum pending_state state;
    struct rows *rows; /* until packed */
    struct buf record; /* once packed; immutable then */
};

/* A life of the daemon in which the index was written: its term is its ordinal + 1. */
struct index_run {
    uint64_t nonce;
    uint64_t first_seq;
};

/* When to try again what failed. */
struct retry {
    uint64_t at_ms, wait_ms; /* monotonic; 0: at once */
};

/* Immutable metadata with a count of references; meta is what callers see. */
struct meta_ref {
    struct index_meta meta;
    atomic_size_t refs;
    uint8_t bytes[];
};

struct ticket_wait {
    uint64_t need;
    void (*ready)(struct ticket_wait *wait); /* called without locks */
    struct ticket_wait *next;
};

#define TICKETS_MIN 16

/* Where a dictionary stands. */
struct dict_copy {
    uint32_t number, segment, len;
    uint64_t at;
};

/* What came of the last try to get one. */
struct dict_judgement {
    enum dict_outcome outcome;
    uint64_t try_raw; /* none before there are so many raw bytes */
};

/* The sorted runs of an index' ids; immutable, counted. */
struct idrun_list {
    atomic_size_t refs;
    size_t count;
    struct idrun run[];
};

/* Where the scrub is with an index, and what it found (scrub.h). */
struct index_scrub {
    /* its thread's own */
    bool running, wrapped;
    uint64_t due_ms;      /* the next pass, monotonic; 0: it is the first of this life */
    uint64_t start, from; /* seqs: where it began, where it goes on */
    uint64_t found;       /* in this pass */
    /* for the statistics */
    atomic_uint_fast64_t bytes, passes, passed_s, damaged;
};

struct index {
    atomic_size_t refs;
    struct store *store;
    uint32_t number;
    uint8_t uuid[16];
    char uuid_text[23];
    char dir_name[33];
    uint64_t created_ms;
    struct codec_spec spec;
    size_t name_len;
    char name[256];
    atomic_bool deleted;

    pthread_mutex_t write;
    /* guarded by write */
    uint64_t next_seq;
    struct index_run *runs; /* changed under write and table, read under either */
    size_t run_count;
    bool run_begun;      /* this life has its entry in runs */
    uint64_t owner;      /* number of the write whose rows the open block holds … */
    bool mixed;          /* … or it holds those of several */
    uint64_t open_at;    /* log position when the open block got its first row */
    uint64_t written_ms; /* monotonic, last row */
    uint32_t next_segment;

    pthread_mutex_t table;
    pthread_cond_t packed; /* a pending block became PACKED, or a ticket was passed */
    /* guarded by table */
    struct meta_ref *meta;
    struct rows *open; /* changed under write and table */
    struct pending **pending;
    size_t pending_count, pending_cap;
    struct dict **dicts; /* those in memory */
    size_t dict_count;
    bool dicts_used;                  /* since compaction last looked (Q4) */
    uint32_t dict_current, dict_next; /* 0: none */
    uint32_t dict_coming;             /* being published: saved as the current one, not used yet */
    uint64_t dict_since;              /* blocks of older rows may be made anew with it; 0: none */
    uint64_t dict_renewed;            /* … in this life those of rows older than this were */
    uint32_t dict_bytes;              /* of the current one's record */
    uint32_t dict_from; /* number of the index whose dictionary it may take over; 0: none */
    struct dict_judgement dict_judged;
    struct idmap ids;
    struct idrun_list *idruns; /* NULL: none */
    uint64_t ids_epoch;        /* rises when ids move from one level to another */
    uint64_t ids_carried;      /* ids of rows below it may have left memory for the catalog */
    struct seqset dead, dead_frozen;
    size_t id_memory; /* of ids and dead, as counted in the store's */
    bool has_client_ids;
    struct snapshot *snapshots;
    uint64_t docs;       /* live documents */
    uint64_t rows_total; /* rows in all places */
    uint64_t raw_bytes;  /* of rows in all places */
    uint64_t block_bytes, block_raw_bytes, blocks;
    uint64_t disk_bytes, segments;
    uint64_t dead_since;   /* rows that died since compaction last looked with success */
    uint64_t short_blocks; /* blocks in the catalog that joining may look at, likewise */
    uint64_t ticket_next;  /* number of the next ticket */
    uint64_t ticket_low;   /* all tickets below are in the log */
    bool *ticket_done;     /* ring of [ticket_low, ticket_next) */
    size_t ticket_cap;
    struct ticket_wait *waits;

    /* Moving average of packed bytes (before compression) per 1024 raw ones; 0: not known. */
    atomic_uint packed_ratio;
    atomic_uint_fast64_t indexed, index_failed, deletes, gets, get_missing;
    struct index_scrub scrub;
    atomic_uint_fast64_t ids_flushed_bytes, ids_merged_bytes; /* of id runs, written by each */

    /* the checkpoint thread's and compaction's own, under store.layout */
    struct segment_writer *segment;
    struct dict_copy *dict_copy; /* in segments, not yet in the catalog */
    size_t dict_copies;
    uint32_t next_idrun;
    /* A cut that a checkpoint has made and not yet carried over; survives a failed attempt. */
    bool cut;
    uint64_t cut_tickets; /* all below must be in the log first */
    uint64_t cut_packed;  /* E2, once the pending blocks are carried over */
    uint64_t packed_seq;  /* E2 as the catalog has it */
    uint64_t cut_next;    /* next_seq then: its ids and dead rows are of rows below it */
    size_t cut_pending;   /* how many of them */
    size_t id_memory_cut; /* id_memory when the checkpoint began */
    bool maybe_named;     /* the catalog may name what was written since checkpoint_mark */
    atomic_bool strays;   /* there may be segments that nothing names */
    /* Tombstones below gc_seq are older than index.gc_deletes; the next sample is on its way. */
    uint64_t gc_seq, gc_next_seq, gc_next_ms;
    uint64_t look_at_gc; /* rows may go once gc_seq is there: worth another look; 0: none */
    struct retry retry;
};

struct flush_request {
    struct index *index; /* NULL: all */
    bool merge;
    void (*done)(void *arg, enum rc rc, const struct err *err);
    void *arg;
    struct task task;
    struct err err;
    enum rc rc;
    struct flush_request *next;
};

struct store {
    struct store_options o;
    char path[400];
    int lock_fd;
    struct catalog *catalog;
    struct wal *wal;
    struct cache *cache;
    struct shapes *shapes;
    struct segment_files *files;
    uint64_t run;
    uint8_t run_seed[16];
    uint8_t ids_raw[32]; /* cluster and node, of which the texts are made */
    char cluster_uuid[23], node_id[23];
    uint64_t hash_mask;

    pthread_mutex_t names;
    struct index **indices; /* sorted by name; guarded by names */
    size_t index_count, index_cap;
    uint32_t next_index;

    pthread_mutex_t metadata; /* who writes metadata.json; taken before names */
    uint64_t metadata_ms;     /* when it was written; guarded by metadata */
    atomic_bool metadata_dirty;
    atomic_bool metadata_failing;

    pthread_mutex_t layout; /* who moves blocks: a checkpoint or a step of compaction */

    pthread_mutex_t wake; /* the two background threads */
    pthread_cond_t wake_checkpoint, wake_compact;
    /* guarded by wake */
    bool stopping, checkpoint_now, compact_now;
    struct flush_request *flushes;
    struct flush_request *merges;
    uint64_t dirty_since_ms; /* 0: nothing to carry over */
    struct drop *drops;      /* deleted indices whose keys are left */

    pthread_t checkpoint_thread, compact_thread;
    struct scrub *scrub; /* NULL: off */
    bool threads_started;
    atomic_bool failed; /* the log or the catalog is dead */
    atomic_uint_fast64_t checkpoints, checkpoint_failures, rewrites;
    atomic_size_t packs;                /* background packing that is queued or running */
    atomic_uint_fast64_t pending_bytes; /* in memory, to be written to segments */
    atomic_size_t id_memory;            /* E4 */
    atomic_uint_fast64_t space_checked_ms, space_free, space_total;
    atomic_bool space_low;
};

struct drop {
    uint32_t index_no;
    char dir_name[33];
    struct retry retry;
    struct drop *next;
};

/* ---- index.c */
void base64url(const uint8_t *src, size_t len, char *dst); /* no padding, ends with a zero */
MUST_CHECK enum rc index_make(struct store *store, const uint8_t uuid[16], uint32_t number,
                              struct slice name, struct index **out);
struct meta_ref *meta_ref_make(const struct index_meta *meta);
/* The index' values in the catalog. */
MUST_CHECK enum rc index_save(struct catalog_txn *txn, struct index *index, struct meta_ref *meta,
                              struct err *err);
/* idruns: the list to be saved, which may be the one that is not published yet. */
MUST_CHECK enum rc index_save_state(struct catalog_txn *txn, struct index *index,
                                    uint64_t packed_seq, const struct idrun_list *idruns,
                                    struct err *err);
/* The state as it is, on its own. The caller holds layout, and there is no cut. */
MUST_CHECK enum rc index_commit_state(struct index *index, struct err *err);
MUST_CHECK enum rc index_load(struct store *store, struct slice key, struct slice value,
                              struct index **out, uint64_t *packed_seq_out, struct err *err);
/* Begin this life's run if it has none yet. Caller holds write. */
MUST_CHECK enum rc index_begin_run_locked(struct index *index);
uint64_t index_nonce_locked(const struct index *index);
uint32_t index_term_locked(const struct index *index);
void index_dir(const struct index *index, char *dst, size_t cap);
/* Move the open block, if it has rows, to the pending ones (a reference is the caller's, too).
 * *out NULL when there is none. Caller holds write. */
MUST_CHECK enum rc index_seal_locked(struct index *index, struct pending **out);
/* Raw bytes at which the open block closes: what the blocks packed lately say will come to
 * packed_bytes of the index' spec. */
size_t index_block_target(const struct index *index);
/* Less than half of a full block: joined with its neighbours when it has such ones. */
bool index_block_short(const struct index *index, uint64_t raw_bytes, uint64_t rows);
/* A block has been packed: what it says about how the next ones will (packed_ratio). */
void index_note_ratio(struct index *index, struct slice record, size_t raw_bytes, size_t rows);
MUST_CHECK enum rc index_add_pending_locked(struct index *index, struct pending *pending);
void pending_release(struct pending *pending); /* accepts NULL */
/* Have a sealed block packed when this returns RC_OK, by this thread or another. Not under locks.
 */
MUST_CHECK enum rc pending_pack(struct index *index, struct pending *pending, struct err *err);
/* The effects of a row (E3): ids and dead rows; old: the row of its id before, SEQ_NONE for none.
 * Room must have been reserved with index_reserve_locked. Caller holds table. */
void index_apply_locked(struct index *index, const struct row *row, uint64_t hash, uint64_t old,
                        bool old_live);
/* ids: rows with a client's id that will be applied. */
MUST_CHECK bool index_reserve_locked(struct index *index, size_t ids);
/* The memory of ids and dead rows has changed: count it (E4). Caller holds table. */
void index_count_ids_locked(struct index *index);
uint64_t index_hash(const struct index *index, struct slice id);
/* Tickets. Issue: caller holds table. Pass: without locks; calls what became ready. */
MUST_CHECK bool index_ticket_locked(struct index *index, uint64_t *ticket_out);
void index_ticket_pass(struct index *index, uint64_t ticket);
/* False: already there. True: wait->ready will be called. */
bool index_ticket_wait(struct index *index, struct ticket_wait *wait);

/* ---- dicts.c */
/* A dictionary by number; *out NULL for number 0. The caller releases it. RC_AGAIN with nowait. */
MUST_CHECK enum rc index_dict(struct index *index, uint32_t number, bool nowait, struct dict **out,
                              struct err *err);
/* The one for new blocks; *out NULL when there is none. */
MUST_CHECK enum rc index_current_dict(struct index *index, struct dict **out, struct err *err);
/* The same for whoever packs: NULL, too, when it cannot be had. That makes a block larger; it must
 * not keep rows from disk. */
void index_dict_for_packing(struct index *index, struct dict **out);
/* Have a copy in the segment (Q1); then, when the segment is synced, in the catalog; then, when
 * that is committed, done. The caller holds layout. */
MUST_CHECK enum rc index_dict_to_segment(struct index *index, struct segment_writer *w,
                                         uint32_t number, struct err *err);
MUST_CHECK enum rc index_dict_carry(struct index *index, struct catalog_txn *txn, struct err *err);
void index_dict_carried(struct index *index);
/* Copies that the catalog has of an index. */
MUST_CHECK enum rc index_dict_each(struct index *index,
                                   enum rc (*fn)(const struct dict_copy *copy, void *arg),
                                   void *arg, struct err *err);
/* All of its copies, or those in one segment, out of the catalog (segment UINT32_MAX: all). */
MUST_CHECK enum rc index_dict_forget(struct catalog *catalog, struct catalog_txn *txn,
                                     uint32_t index_no, uint32_t segment, struct err *err);
/* A segment goes: its copies with it, once what is still needed has another (Q3). When it fails the
 * segment must stay. The caller holds layout. */
MUST_CHECK enum rc index_dict_leave(struct index *index, uint32_t segment, struct err *err);
/* Have a dictionary in memory, or the same one that another thread had there first. Takes over the
 * reference, gives one. */
struct dict *index_dict_learn(struct index *index, struct dict *dict);
/* Let go of those in memory that nobody used since the last call. */
void index_dicts_rest(struct index *index);

/* ---- train.c: when an index gets a dictionary */
/* Begin where another one is: called before anybody else knows the index. */
void index_follow(struct index *index, struct index *predecessor);
/* May the predecessor's dictionary be worth trying now? Caller holds table. */
bool index_follow_due_locked(const struct index *index);
/* Try for a dictionary when there is enough to judge by; force: on what there is. Not under locks.
 */
MUST_CHECK enum rc index_train(struct index *index, bool force, struct err *err);

/* ---- ids.c: the levels of the id index */
void idrun_list_release(struct idrun_list *list); /* accepts NULL */
/* A list with one run more, or without some; the caller owns it. NULL when memory is out. */
struct idrun_list *idrun_list_make(const struct idrun_list *from, const uint32_t *without,
                                   size_t without_count, const struct idrun *add);
/* Candidate seqs of a hash over all levels, the highest first, each once. *epoch_out: what
 * ids_epoch was; when it has changed since, ids may have moved past the look-up. */
MUST_CHECK enum rc index_candidates(struct index *index, uint64_t hash, uint64_t *seqs,
                                    size_t *count_out, uint64_t *epoch_out, struct err *err);
/* What the runs know of many hashes (sorted): the highest seq, SEQ_NONE for none. */
MUST_CHECK enum rc index_candidates_deep(struct index *index, const uint64_t *hashes, size_t count,
                                         uint64_t *seqs_out, uint64_t *epoch_out, struct err *err);
/* Write sorted entries as a run into pieces; put is called with each (keys: what it costs). */
MUST_CHECK enum rc idrun_write(const struct idrun_entry *entries, size_t count, uint8_t bits,
                               enum rc (*put)(void *arg, uint32_t piece, struct slice value,
                                              struct err *err),
                               void *arg, struct err *err);
/* Merge runs of one size when there are many; force: all of them. Caller holds nothing, and is the
 * only one that rewrites blocks. */
MUST_CHECK enum rc index_merge_ids(struct index *index, bool force, struct err *err);
MUST_CHECK enum rc index_sweep_ids(struct index *index, struct err *err);

/* ---- read.c */
/* A cursor over rows that keeps the block of the last one: rows of one block cost one opening. */
struct row_reader {
    struct store *store;
    struct index *index; /* of what is pinned */
    enum block_want want;
    bool nowait;
    uint64_t first, last; /* range of what is pinned */
    struct rows *rows;
    struct cache_entry *entry;
    struct block *own;
    const struct block *block;
    size_t at; /* position of the row given last */
    struct block_scratch scratch;
};
void row_reader_init(struct row_reader *reader, struct store *store, enum block_want want,
                     bool nowait);
void row_reader_done(struct row_reader *reader);
/* The row at a seq, its document perhaps not yet; valid until the next call. RC_NOT_FOUND when
 * there is none (any more). */
MUST_CHECK enum rc row_reader_get(struct row_reader *reader, struct index *index, uint64_t seq,
                                  struct row *out, struct err *err);
/* Pin the block that holds seq, or the next one behind it; RC_NOT_FOUND at the end. */
MUST_CHECK enum rc row_reader_seek(struct row_reader *reader, struct index *index, uint64_t seq,
                                   struct err *err);
size_t row_reader_count(const struct row_reader *reader);
uint64_t row_reader_seq(const struct row_reader *reader, size_t i);
MUST_CHECK enum rc row_reader_row(struct row_reader *reader, size_t i, struct row *out,
                                  struct err *err);
/* The document of the row that was given last (readers that want BLOCK_ALL). */
MUST_CHECK enum rc row_reader_doc(struct row_reader *reader, struct row *row, struct err *err);
/* The newest row of an id, a tombstone too, whole; hash is index_hash of it. RC_NOT_FOUND. */
MUST_CHECK enum rc index_find(struct row_reader *reader, struct index *index, struct slice id,
                              uint64_t hash, struct row *out, struct err *err);
/* The same with the newest of the candidates at hand. RC_NOT_FOUND: it is not the id's. */
MUST_CHECK enum rc index_find_at(struct row_reader *reader, struct index *index, struct slice id,
                                 uint64_t seq, struct row *out, struct err *err);
/* Does this made row's seq belong to the index, and to a run of that nonce? Caller holds table. */
bool index_owns_made_locked(const struct index *index, uint64_t nonce, uint64_t seq,
                            bool *given_out);
MUST_CHECK enum rc index_is_dead(struct index *index, uint64_t seq, bool *out, struct err *err);

/* ---- write.c */
/* Encoding of rows in WAL_ROWS records. */
void wal_row_put(struct buf *out, const struct row *row);
MUST_CHECK bool wal_row_take(struct reader *in, struct row *out); /* nonce and term are not in it */

/* ---- checkpoint.c */
/* Tell who asked for a flush or a merge, on a worker. Takes the request over. */
void flush_answer(struct store *store, struct flush_request *request, enum rc rc,
                  const struct err *err);
void *checkpoint_main(void *store);
/* seal: open blocks, too. until_ms: stop early then (monotonic; 0: never), the log has the rest. */
MUST_CHECK enum rc checkpoint_run(struct store *store, bool seal, uint64_t until_ms,
                                  struct err *err);
/* The segment that rows of an index go to now; makes one. Caller holds layout. */
MUST_CHECK enum rc checkpoint_segment(struct index *index, struct segment_writer **out,
                                      struct err *err);
void checkpoint_poke(struct store *store); /* soon, please */
/* Something in it failed: leave it behind. Caller holds layout. */
void checkpoint_abandon_segment(struct index *index);
/* Segments before an attempt to write to them; when it has failed, what it wrote is taken back,
 * unless the catalog may name it. Caller holds layout from mark to undo. */
struct segment_mark {
    uint32_t next; /* number of the next new one */
    bool any_open;
    uint32_t open; /* the one being written … */
    uint64_t open_len;
    uint64_t segments, disk_bytes; /* of the statistics */
};
void checkpoint_mark(struct index *index, struct segment_mark *mark);
void checkpoint_undo(struct index *index, const struct segment_mark *mark);
/* A commit that names blocks of this attempt returned rc. One that had no space has changed nothing
 * (C1); of any other that failed, the disk knows. */
static inline void index_note_commit(struct index *index, enum rc rc)
{
    index->maybe_named = index->maybe_named || rc != RC_FULL;
}
/* Seal and close it, if one is open. Caller holds layout. */
MUST_CHECK enum rc checkpoint_finish_segment(struct index *index, struct err *err);
/* Space: free bytes on the device against reserve and what is still to be written. */
bool store_space_ok(struct store *store);
bool store_ids_ok(struct store *store); /* E4 */

/* ---- recover.c */
MUST_CHECK enum rc recover_store(struct store *store, struct wal_start *start, struct err *err);

/* ---- compact.c */
void *compact_main(void *store);
void compact_poke(struct store *store);
/* When starting: count what the catalog has of an index: blocks, bytes, rows, dead rows. Removes
 * segment files that nothing names. RC_CORRUPT when blocks are missing. */
MUST_CHECK enum rc index_recount(struct index *index, struct err *err);

/* ---- snapshot.c */
struct snapshot {
    struct index *index;
    uint64_t limit; /* rows below it, as they were */
    uint64_t docs;
    /* guarded by index.table */
    struct seqbits killed; /* rows that died while it was the newest one, or closed ones newer … */
    bool broken;           /* … unless memory ran out */
    struct snapshot *next; /* the next older one: its limit is not higher */
};
/* A row dies: note it for the snapshots that still see it. Caller holds table. */
void snapshots_note_locked(struct index *index, uint64_t dead_seq);
/* Does a snapshot still see this dead row? Caller holds table. */
bool snapshots_need_locked(const struct index *index, uint64_t seq);
size_t snapshots_memory_locked(const struct index *index);

/* ---- store.c */
/* What offline tools need of a store: no threads, no log. Lock: RC_BUSY when another has it. */
MUST_CHECK enum rc store_new(const struct store_options *options, struct store **out,
                             struct err *err);
MUST_CHECK enum rc store_lock(struct store *store, struct err *err);
void store_free(struct store *store);
void store_random(uint8_t *dst, size_t n); /* n <= 256 */
/* The node's own values. RC_NOT_FOUND without text. */
MUST_CHECK enum rc store_load_node(struct store *store, struct wal_start *start, struct err *err);
MUST_CHECK enum rc store_save_next_index(struct catalog_txn *txn, uint32_t number, struct err *err);
/* All indices, retained. The list is the caller's to free. */
MUST_CHECK enum rc store_all(struct store *store, struct index ***list_out, size_t *count_out);
MUST_CHECK enum rc store_save_node(struct catalog_txn *txn, struct store *store,
                                   const struct wal_start *start, struct err *err);
void store_event(struct store *store, int severity, const char *fmt, ...) PRINTF_LIKE(3, 4);
void store_fail(struct store *store, const char *text); /* the log or the catalog is dead: once */
/* Was that what failed? (C1 in catalog.h) Checkpoints come often enough to find out. */
void store_check_catalog(struct store *store, const struct err *err);
void store_dirty(struct store *store); /* something to carry over */
uint64_t mono_ms(void);

#endif
