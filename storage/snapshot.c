/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the documents of an index as of one moment. A snapshot is a limit of seqs and the set
 * of rows below it that died since; rewriting keeps those (P1). It holds no transaction and no
 * file. */
#include "storage/engine.h"

#include <stdlib.h>

void snapshots_note_locked(struct index *index, uint64_t dead_seq)
{
    for (struct snapshot *s = index->snapshots; s != NULL; s = s->next) {
        if (dead_seq >= s->limit)
            continue;
        if (seqset_reserve(&s->killed, 1))
            seqset_add(&s->killed, dead_seq);
        else
            s->broken = true;
    }
}

bool snapshots_need_locked(const struct index *index, uint64_t seq)
{
    for (const struct snapshot *s = index->snapshots; s != NULL; s = s->next)
        if (seq < s->limit && (s->broken || seqset_has(&s->killed, seq)))
            return true;
    return false;
}

enum rc store_snapshot_open(struct store *store, struct index *index, struct snapshot **out,
                            struct err *err)
{
    struct snapshot *s = calloc(1, sizeof *s);
    (void)store;
    if (s == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory for a snapshot");
    s->index = index_retain(index);
    pthread_mutex_lock(&index->write);
    pthread_mutex_lock(&index->table);
    s->limit = index->next_seq;
    s->docs = index->docs;
    s->next = index->snapshots;
    index->snapshots = s;
    pthread_mutex_unlock(&index->table);
    pthread_mutex_unlock(&index->write);
    *out = s;
    return RC_OK;
}

uint64_t store_snapshot_docs(const struct snapshot *snapshot)
{
    return snapshot->docs;
}

struct index *store_snapshot_index(const struct snapshot *snapshot)
{
    return snapshot->index;
}

void store_snapshot_close(struct store *store, struct snapshot *snapshot)
{
    struct index *ix = snapshot->index;
    (void)store;
    pthread_mutex_lock(&ix->table);
    for (struct snapshot **at = &ix->snapshots; *at != NULL; at = &(*at)->next)
        if (*at == snapshot) {
            *at = snapshot->next;
            break;
        }
    pthread_mutex_unlock(&ix->table);
    seqset_done(&snapshot->killed);
    index_release(ix);
    free(snapshot);
}

/* Was this row a document when the snapshot was opened? */
static enum rc visible(struct snapshot *s, const struct row *row, bool *out, struct err *err)
{
    bool dead = false;
    *out = false;
    if (row->kind == ROW_TOMBSTONE)
        return RC_OK;
    TRY(index_is_dead(s->index, row->seq, &dead, err));
    if (dead) {
        pthread_mutex_lock(&s->index->table);
        bool died_later = seqset_has(&s->killed, row->seq);
        bool broken = s->broken;
        pthread_mutex_unlock(&s->index->table);
        if (broken)
            return err_set(err, RC_NOMEM, 0, "a snapshot of index %s was lost: out of memory",
                           s->index->name);
        *out = died_later;
        return RC_OK;
    }
    *out = true;
    return RC_OK;
}

/* First row of the pinned block at or behind seq. */
static size_t first_at(const struct row_reader *r, uint64_t seq)
{
    size_t lo = 0, hi = row_reader_count(r);
    while (lo < hi) {
        struct row row;
        size_t mid = lo + (hi - lo) / 2;
        row_reader_row(r, mid, &row);
        if (row.seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum rc store_snapshot_next(struct store *store, struct snapshot *snapshot, uint64_t *cursor,
                            size_t max, bool *done_out,
                            enum rc (*fn)(const struct row *row, void *arg), void *arg,
                            struct err *err)
{
    struct row_reader reader;
    enum rc rc = RC_OK;
    size_t n = 0;
    *done_out = false;
    row_reader_init(&reader, store, BLOCK_ALL, false);
    while (n < max && rc == RC_OK) {
        if (*cursor >= snapshot->limit) {
            *done_out = true;
            break;
        }
        rc = row_reader_seek(&reader, snapshot->index, *cursor, err);
        if (rc == RC_NOT_FOUND) {
            *done_out = true;
            rc = RC_OK;
            break;
        }
        for (size_t i = rc == RC_OK ? first_at(&reader, *cursor) : 0;
             rc == RC_OK && n < max && i < row_reader_count(&reader); i++) {
            struct row row;
            bool see = false;
            row_reader_row(&reader, i, &row);
            if (row.seq >= snapshot->limit) {
                *cursor = snapshot->limit;
                break;
            }
            rc = visible(snapshot, &row, &see, err);
            if (rc == RC_OK && see) {
                rc = fn(&row, arg);
                n++;
            }
            if (rc == RC_OK)
                *cursor = row.seq + 1;
        }
    }
    row_reader_done(&reader);
    return rc;
}
