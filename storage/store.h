/* SPDX-License-Identifier: Apache-2.0 */
/* The engine, as the API room sees it: a data directory, its indices, writes and reads.
 * The only header (with codec.h, json.h, work.h and the value types of block.h) that api/ needs.
 *
 *   S1  the catalog never names bytes that are not synced (sync, then commit).
 *   S2  a sealed block never changes.
 *   S3  a block is verified before it is decompressed, every time it comes from disk.
 *   S4  a document comes back byte for byte as it came.
 *   S5  codec and level are fixed per index; each block also names its codec.
 *   S6  create: directory, then catalog; delete: catalog, then files; orphans are swept at start.
 *   S7  a write is reported only after the log's sync that covers everything it has seen.
 *   S8  no call waits for another task; store_write reports through its callback.
 * Threads: every function from any thread. Rows and index metadata are pinned by references that
 * the caller gives back. */
#ifndef STOWD_STORE_H
#define STOWD_STORE_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/block.h"
#include "storage/codec.h"
#include "storage/shapes.h"
#include "storage/work.h"

struct store;
struct index;

struct store_options {
    const char *path_data;
    uint64_t wal_bytes;
    uint64_t segment_bytes;
    uint64_t reserve_bytes;
    uint64_t cache_bytes;
    uint64_t id_memory_bytes;   /* of ids and dead rows newer than their runs; 0: 64 MiB */
    uint64_t catalog_map_bytes; /* 0: by itself */
    uint64_t checkpoint_ms;     /* at the latest this long after a write */
    uint64_t gc_deletes_ms;     /* age at which a tombstone may go */
    uint64_t idle_seal_ms;      /* an open block that got nothing for so long is sealed short */
    uint64_t scrub_rate;        /* bytes a second that are read to be verified; 0: off */
    uint64_t scrub_interval_ms; /* from the beginning of one pass to that of the next */
    bool accept_loss;           /* start although the log is damaged */
    struct work *work;          /* workers; outlives the store */
    /* Events for the log file of the process: severity 0 info, 1 warning, 2 error. Any thread. */
    void (*event)(void *arg, int severity, const char *text);
    /* The log can't be written any more: the process must end (exit 74). Any thread, once. */
    void (*fatal)(void *arg, const char *text);
    void *arg;
    /* Test hook: use so many leading bits of id hashes only, so that ids collide. 0: all 64. */
    unsigned test_hash_bits;
};

/* ---- life */
/* Lock the directory (RC_BUSY: another process has it), recover, be ready for calls. */
MUST_CHECK enum rc store_open(const struct store_options *options, struct store **out,
                              struct err *err);
/* Finish what is running, seal, checkpoint, close. Callers have stopped calling. */
void store_close(struct store *store);
const char *store_cluster_uuid(const struct store *store); /* 22 characters, base64url */
const char *store_node_id(const struct store *store);      /* the same */

/* ---- metadata blobs of the API room: templates, cluster settings … Durable when the call returns.
 * kind: one character of 'a' .. 'z' chosen by the API room; value: JSON. */
MUST_CHECK enum rc store_meta_put(struct store *store, char kind, struct slice name,
                                  struct slice value, struct err *err);
MUST_CHECK enum rc store_meta_delete(struct store *store, char kind, struct slice name,
                                     struct err *err);
MUST_CHECK enum rc store_meta_get(struct store *store, char kind, struct slice name,
                                  struct buf *out, struct err *err);
MUST_CHECK enum rc store_meta_each(struct store *store, char kind,
                                   enum rc (*fn)(struct slice name, struct slice value, void *arg),
                                   void *arg, struct err *err);

/* ---- indices */
/* What the API room keeps with an index. JSON texts; opaque to the engine. Immutable: a change
 * makes a new one. */
struct index_meta {
    struct slice settings; /* flat JSON object of what was asked, values as strings */
    struct slice mappings; /* JSON object as put */
    struct slice aliases;  /* JSON object: name -> properties */
    struct slice extra;    /* JSON object: anything else (state, data stream, …) */
    uint64_t revision;     /* rises by one with each change of this index */
};

struct index_create {
    struct slice name; /* validated by the API room */
    struct codec_spec spec;
    struct index_meta meta; /* revision ignored */
    /* Borrowed; NULL: none. One that held the same kind of documents before: the new index begins
     * with what was learnt there (index_bequest). It may be deleted afterwards. */
    struct index *predecessor;
};
/* What a new index of a spec could begin with, were this one its predecessor: how far documents
 * pack, and its dictionary, or the one that it may still take over itself. */
enum index_bequest { BEQUEST_NOTHING, BEQUEST_RATIO, BEQUEST_DICTIONARY };
enum index_bequest index_bequest(struct index *index, const struct codec_spec *spec);

/* A reference; give it back with index_release. RC_NOT_FOUND without text. */
MUST_CHECK enum rc store_index_acquire(struct store *store, struct slice name, struct index **out);
/* Create and acquire (out may be NULL). Durable. RC_EXISTS when the name is taken. */
MUST_CHECK enum rc store_index_create(struct store *store, const struct index_create *create,
                                      struct index **out, struct err *err);
/* Remove the name (durable), then the data in the background. Readers that hold a reference finish.
 * RC_NOT_FOUND when somebody else was faster. */
MUST_CHECK enum rc store_index_delete(struct store *store, struct index *index, struct err *err);
/* Replace the metadata if its revision is still `revision` (else RC_CONFLICT). Durable. */
MUST_CHECK enum rc store_index_set_meta(struct store *store, struct index *index,
                                        const struct index_meta *meta, uint64_t revision,
                                        struct err *err);
/* All indices, sorted by name, each acquired: *list_out is the caller's to free. */
MUST_CHECK enum rc store_index_list(struct store *store, struct index ***list_out,
                                    size_t *count_out, struct err *err);
void index_release(struct index *index); /* accepts NULL */
struct index *index_retain(struct index *index);

const char *index_name(const struct index *index);
size_t index_name_len(const struct index *index);
const char *index_uuid(const struct index *index); /* 22 characters, base64url */
uint64_t index_created_ms(const struct index *index);
const struct codec_spec *index_spec(const struct index *index);
/* The current metadata, pinned until index_meta_release. */
const struct index_meta *index_meta_acquire(struct index *index);
void index_meta_release(const struct index_meta *meta);

/* What came of the last try to get a dictionary; numbers are on disk. */
enum dict_outcome {
    DICT_UNTRIED = 0,
    DICT_TOO_LITTLE = 1, /* too few blocks, or too little in them */
    DICT_NOTHING = 2,    /* they have nothing in common that a dictionary could hold */
    DICT_NO_GAIN = 3,    /* it would be larger than what it saves */
    DICT_TRAINED = 4,    /* made of the index' own blocks */
    DICT_FOLLOWED = 5,   /* taken over from the predecessor */
};

struct index_stats {
    uint64_t docs;            /* live documents */
    uint64_t deleted;         /* dead rows and tombstones not yet rewritten away */
    uint64_t raw_bytes;       /* JSON bytes of the rows in blocks and open block */
    uint64_t block_raw_bytes; /* of the rows that are packed */
    uint64_t block_bytes;     /* their blocks: records with headers, ids, padding */
    uint64_t disk_bytes;      /* segment files */
    uint64_t catalog_bytes;   /* keys and values in the catalog */
    uint64_t memory_bytes;    /* open block, blocks not yet on disk, id table, snapshots */
    uint64_t ids, id_runs;    /* entries of the sorted runs of client ids; how many runs */
    /* Bytes of runs written by checkpoints, and again by merging, since start. */
    uint64_t ids_flushed_bytes, ids_merged_bytes;
    uint64_t blocks, segments;
    uint32_t dictionary;       /* number of the one that new blocks use, 0: none */
    uint64_t dictionary_bytes; /* of its record */
    enum dict_outcome dictionary_outcome;
    uint64_t next_seq;     /* _seq_no the next write will get */
    uint64_t primary_term; /* of this run */
    uint64_t indexed, index_failed, deletes, gets, get_missing; /* operations since start */
    uint64_t scrubbed_bytes; /* read and verified in the background since start */
    uint64_t scrub_passes;   /* over all of it */
    uint64_t scrub_passed_s; /* end of the last one, since 1970; 0: none since start */
    uint64_t scrub_damaged;  /* blocks and dictionaries that it found damaged */
};
void index_stats_get(struct index *index, struct index_stats *out);

struct store_stats {
    uint64_t wal_capacity, wal_used, wal_batches, wal_bytes, wal_sync_ns, wal_commits;
    uint64_t cache_hits, cache_misses, cache_evictions, cache_bytes, cache_budget;
    uint64_t catalog_used, catalog_file, catalog_map;
    uint64_t disk_free, disk_total;
    uint64_t id_memory, id_memory_budget;
    uint64_t checkpoints, checkpoint_failures, rewrites;
};
void store_stats_get(struct store *store, struct store_stats *out);

/* ---- writing */
enum write_op { WRITE_INDEX, WRITE_CREATE, WRITE_UPDATE, WRITE_DELETE };
enum write_versioning { VERSION_INTERNAL, VERSION_EXTERNAL, VERSION_EXTERNAL_GTE };
enum write_result {
    WRITE_PENDING = 0,
    WRITE_CREATED,
    WRITE_UPDATED,
    WRITE_DELETED,
    WRITE_NOT_FOUND, /* delete or update of nothing */
    WRITE_NOOP,      /* update that changed nothing */
    WRITE_EXISTS,    /* create of what is there: 409 */
    WRITE_CONFLICT,  /* seq_no, term or version condition: 409 */
    WRITE_REFUSED,   /* the item alone is wrong: rc and text in item->err */
    WRITE_SKIPPED,   /* was refused before it came here (caller's own) */
};

struct write_item;
/* WRITE_UPDATE: make the new document from the current one (SLICE_NONE when there is none), on a
 * worker, outside locks, possibly more than once. Appends to out and sets *out_action.
 *   RC_OK or an error for this item alone (text in err). */
enum update_action { UPDATE_STORE, UPDATE_NOOP, UPDATE_MISSING, UPDATE_DELETE };
typedef enum rc (*write_update_fn)(const struct write_item *item, struct slice current,
                                   struct buf *out, enum update_action *action_out,
                                   struct err *err);

#define SEQ_NONE UINT64_MAX

/* What few writes ask for. Writes that are no updates may share one. */
struct write_extra {
    struct slice routing;
    enum write_versioning versioning;
    uint64_t version;         /* with external versioning */
    uint64_t if_seq_no;       /* SEQ_NONE: no condition */
    uint64_t if_primary_term; /* with if_seq_no */
    /* WRITE_UPDATE */
    write_update_fn update;
    void *update_arg;
    /* When the update stored or found a document and want_source was set: the document, malloc'ed,
     * the caller frees .ptr. */
    bool want_source;
    struct slice source_out;
};

/* One write of a request. Slices are borrowed until done. Small: a request has many, and each step
 * of all of them finds none in a cache. */
struct write_item {
    /* in */
    struct index *index; /* borrowed; NULL with WRITE_SKIPPED */
    struct slice id;     /* empty: made by the engine (WRITE_INDEX and WRITE_CREATE) */
    struct slice source; /* a valid JSON object (not checked again) */
    struct fit fit;      /* how source was taken apart, valid until done; shape NULL: unknown */
    struct write_extra *extra; /* NULL: nothing of it; never with WRITE_UPDATE */
    enum write_op op;
    /* out */
    enum write_result result;
    uint64_t seq;         /* of the row written, or of the current one (noop, conflict) */
    uint64_t version_out; /* the same; 0 when there is no current row */
    uint64_t nonce;       /* with a made id: format it with made_id_format(nonce, seq) */
    struct err *err;      /* WRITE_REFUSED: malloc'ed, the caller frees */
    uint32_t term;
};

static inline const struct write_extra *write_extra(const struct write_item *item)
{
    static const struct write_extra none = {.if_seq_no = SEQ_NONE};
    return item->extra == NULL ? &none : item->extra;
}

/* A request's writes: applied in order for each id, durable together (W2). */
struct write {
    struct write_item *items; /* the caller's, until done */
    size_t count;
    /* On a worker. RC_OK: every item has its result and is durable.
     * RC_BUSY (log full), RC_FULL (disk), RC_TOO_LARGE, RC_NOMEM: refused as a whole, nothing
     * applied. RC_IO: the log failed; the process is about to end. */
    void (*done)(struct write *write, enum rc rc, const struct err *err);
    void *arg;
};
/* Shapes met lately, for requests that check documents (storage/shapes.h). */
struct shapes *store_shapes(struct store *store);
/* Run the write. Call from a worker; may call done before it returns. */
void store_write(struct store *store, struct write *write);

/* Seal open blocks short and make a checkpoint, then call done (worker). index NULL: all. */
void store_flush(struct store *store, struct index *index,
                 void (*done)(void *arg, enum rc rc, const struct err *err), void *arg);
/* Flush, join short blocks, drop dead rows, rewrite. Background; done when settled. */
void store_merge(struct store *store, struct index *index,
                 void (*done)(void *arg, enum rc rc, const struct err *err), void *arg);

/* ---- reading */
/* A row and what pins it. */
struct got {
    struct row row;               /* id is empty for made rows: the caller knows it */
    void *pin[3];                 /* internal */
    struct block_scratch scratch; /* internal: what was put together for row */
};
enum get_mode {
    GET_ANY,    /* may read the disk: workers */
    GET_NOWAIT, /* RC_AGAIN instead of waiting: I/O threads */
};
/* The newest row of an id that is a document. RC_NOT_FOUND; RC_CORRUPT names the damage.
 * routing is not checked here: compare row.routing. */
MUST_CHECK enum rc store_get(struct store *store, struct index *index, struct slice id,
                             enum get_mode mode, struct got *out, struct err *err);
void store_got_release(struct store *store, struct got *got);

/* Many at once, each block opened once. Items may be of different indices. */
struct get_item {
    struct index *index; /* borrowed; NULL is skipped */
    struct slice id;
    void *arg;
};
/* fn is called once for each item, in storage order, with the row valid for the call only;
 * rc RC_OK, RC_NOT_FOUND or an error with text. Not for I/O threads. */
void store_get_many(struct store *store, struct get_item *items, size_t count,
                    void (*fn)(struct get_item *item, enum rc rc, const struct got *got,
                               const struct err *err, void *arg),
                    void *arg);

/* ---- snapshots: all documents of an index as of one moment, in storage order */
struct snapshot;
MUST_CHECK enum rc store_snapshot_open(struct store *store, struct index *index,
                                       struct snapshot **out, struct err *err);
/* The next live documents from seq *cursor (start with 0), at most max, in order of seq; advances
 * *cursor. *done_out when none is left. fn's failure ends the call with it. Not for I/O threads. */
MUST_CHECK enum rc store_snapshot_next(struct store *store, struct snapshot *snapshot,
                                       uint64_t *cursor, size_t max, bool *done_out,
                                       enum rc (*fn)(const struct row *row, void *arg), void *arg,
                                       struct err *err);
uint64_t store_snapshot_docs(const struct snapshot *snapshot);
uint64_t store_snapshot_limit(const struct snapshot *snapshot); /* seqs it sees are below */
struct index *store_snapshot_index(const struct snapshot *snapshot);
void store_snapshot_close(struct store *store, struct snapshot *snapshot);

#endif
