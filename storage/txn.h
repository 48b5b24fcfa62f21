/* SPDX-License-Identifier: Apache-2.0 */
/* A write on its way: received -> (prepared -> decided) per step -> packing, n blocks left ->
 * committing -> covered -> answered. decide.c takes it up to packing, write.c the rest. */
#ifndef STOWD_TXN_H
#define STOWD_TXN_H

#include "storage/engine.h"

/* What is known of an item between preparing (outside locks) and deciding (under index.write). */
struct plan {
    uint64_t hash;
    uint64_t seen_seq; /* index.next_seq when it was prepared */
    uint64_t old_seq;  /* newest row of the id, SEQ_NONE: none */
    uint64_t old_version;
    uint32_t old_term;
    bool old_live;     /* a document, not a tombstone */
    bool elsewhere;    /* … under another routing than the item's */
    uint64_t deep_seq; /* what the runs of ids had when the touch began, SEQ_NONE */
    bool keyed;        /* has a client-given id (hash is set) */
    bool twin;         /* … which another item of the touch may have, too */
    uint8_t kind;      /* of the row written: enum row_kind */
    bool wrote;
    enum update_action action;
    struct buf merged; /* WRITE_UPDATE: the new document */
};

/* A row that may be the newest of an item's id. */
struct candidate {
    uint64_t seq;
    uint32_t item;
    bool newest; /* of those that there are */
};

/* One index that a write touches. */
struct touch {
    struct ticket_wait wait; /* first: the wait is the touch */
    struct txn *txn;
    struct index *index;
    size_t from, to; /* its items: order[from .. to) */
    size_t ahead;    /* bytes of the documents to come, and maybe of what their rows need */
    uint64_t indexed, deletes, failed; /* counted in the index once the write is durable */
    bool ticketed;
    uint64_t epoch;              /* ids_epoch of the plans' deep_seq */
    struct candidate *candidate; /* rows to be read */
    /* index.next_seq as only this touch has moved it since it was prepared; SEQ_NONE: others, too
     */
    uint64_t seen_seq;
    uint64_t ticket;
    uint64_t open_first; /* first seq of the open block our last row went to, SEQ_NONE */
    uint32_t *loose;     /* items whose rows are logged as rows */
    size_t loose_count, loose_fixed, loose_cap;
    struct pending **block; /* blocks of our rows only */
    size_t block_count, block_cap;
    uint8_t index_record[28];
    uint64_t made_rows, made_bytes; /* of this step: counted in the index at its end */
    struct buf rows;                /* body of the WAL_ROWS record */
    uint8_t rows_codec;
    uint32_t rows_raw;
};

struct txn {
    struct task task;
    struct wal_commit commit;
    struct store *store;
    struct write *write;
    uint64_t number;   /* never 0, never used twice */
    struct plan *plan; /* one an item; without ids one for all, as nothing of it differs */
    uint32_t *order;   /* items sorted by index, else in request order */
    struct touch *touch;
    size_t touch_count;
    uint64_t reserved;
    uint64_t bytes;         /* of ids, routings and documents, and what rows need besides */
    bool keyed;             /* some items have ids */
    bool updates;           /* some plans may hold merged documents */
    struct pending **block; /* of all touches */
    size_t block_count;
    atomic_size_t block_next, block_left;
    atomic_size_t refs;  /* the write's own and one a helper */
    atomic_size_t waits; /* tickets not passed yet, and one while counting */
    struct wal_record *record;
    enum rc rc;
    struct err err;
};

static inline struct plan *plan_at(const struct txn *txn, size_t item)
{
    return &txn->plan[txn->keyed ? item : 0];
}

/* Ask the runs of the id index for the ids of a touch. What may fail here must not do so between
 * two touches: it comes for all of them before the first is decided. */
MUST_CHECK enum rc touch_look(struct txn *txn, struct touch *touch);
/* Run all items of a touch. Fails only where nothing of it was applied or the store is lost. */
MUST_CHECK enum rc touch_decide(struct txn *txn, struct touch *touch);

#endif
