/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the documents of an index as of one moment. A snapshot is a limit of seqs and the set
 * of rows below it that died since; rewriting keeps those (P1). It holds no transaction and no
 * file.
 *
 * An index' snapshots share one note of each death: it goes to the newest, and all that were open
 * then, which are older, read it there. When one is closed, the next older one takes its notes
 * over. So a snapshot's dead rows are those in it and in all that are newer, and memory is bounded
 * by the rows below the newest limit, however many snapshots there are (B1 in seqbits.h). */
#include "storage/engine.h"

#include <stdlib.h>

void snapshots_note_locked(struct index *index, uint64_t dead_seq)
{
    struct snapshot *newest = index->snapshots;
    if (newest != NULL && dead_seq < newest->limit && !seqbits_add(&newest->killed, dead_seq))
        newest->broken = true;
}

bool snapshots_need_locked(const struct index *index, uint64_t seq)
{
    for (const struct snapshot *s = index->snapshots; s != NULL && seq < s->limit; s = s->next)
        if (s->broken || seqbits_has(&s->killed, seq))
            return true;
    return false;
}

size_t snapshots_memory_locked(const struct index *index)
{
    size_t n = 0;
    for (const struct snapshot *s = index->snapshots; s != NULL; s = s->next)
        n += sizeof *s + s->killed.memory;
    return n;
}

/* Did the row die while the snapshot was open? *broken_out: not known. Caller holds table. */
static bool killed_since_locked(const struct snapshot *snapshot, uint64_t seq, bool *broken_out)
{
    bool killed = false, broken = false;
    for (const struct snapshot *s = snapshot->index->snapshots;; s = s->next) {
        killed = killed || seqbits_has(&s->killed, seq);
        broken = broken || s->broken;
        if (s == snapshot)
            break;
    }
    *broken_out = broken;
    return killed;
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

uint64_t store_snapshot_limit(const struct snapshot *snapshot)
{
    return snapshot->limit;
}

struct index *store_snapshot_index(const struct snapshot *snapshot)
{
    return snapshot->index;
}

void store_snapshot_close(struct store *store, struct snapshot *snapshot)
{
    struct index *ix = snapshot->index;
    uint64_t freed = 0;
    pthread_mutex_lock(&ix->table);
    for (struct snapshot **at = &ix->snapshots; *at != NULL; at = &(*at)->next)
        if (*at == snapshot) {
            *at = snapshot->next;
            break;
        }
    struct snapshot *older = snapshot->next;
    if (older != NULL)
        older->broken = !seqbits_join(&older->killed, &snapshot->killed, older->limit) ||
                        snapshot->broken || older->broken;
    else
        freed = snapshot->killed.count; /* nobody sees them any more */
    ix->dead_since += freed;
    pthread_mutex_unlock(&ix->table);
    if (freed != 0)
        compact_poke(store);
    seqbits_done(&snapshot->killed);
    index_release(ix);
    free(snapshot);
}

/* Dead rows of a chunk of seqs, as memory and catalog have them now. */
static enum rc dead_chunk(struct index *ix, uint64_t chunk, uint8_t bits[CATALOG_DEAD_BYTES],
                          struct err *err)
{
    uint8_t carried[CATALOG_DEAD_BYTES];
    memset(bits, 0, CATALOG_DEAD_BYTES);
    pthread_mutex_lock(&ix->table);
    for (uint64_t i = 0; ix->dead.count + ix->dead_frozen.count != 0 && i < CATALOG_DEAD_SEQS;
         i++) {
        uint64_t seq = chunk * CATALOG_DEAD_SEQS + i;
        if (seqset_has(&ix->dead, seq) || seqset_has(&ix->dead_frozen, seq))
            bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << (i % 8));
    }
    pthread_mutex_unlock(&ix->table); /* what leaves memory now is in the catalog */
    TRY(catalog_get_dead(ix->store->catalog, ix->number, chunk, carried, err));
    for (size_t i = 0; i < CATALOG_DEAD_BYTES; i++)
        bits[i] = (uint8_t)(bits[i] | carried[i]);
    return RC_OK;
}

/* Was this row a document when the snapshot was opened? bits: the dead rows of its chunk. */
static enum rc visible(struct snapshot *s, const struct row *row, const uint8_t *bits, bool *out,
                       struct err *err)
{
    uint64_t bit = row->seq % CATALOG_DEAD_SEQS;
    bool dead = (bits[bit / 8] >> (bit % 8) & 1) != 0;
    *out = row->kind != ROW_TOMBSTONE && !dead;
    if (row->kind == ROW_TOMBSTONE || !dead)
        return RC_OK;
    bool broken = false;
    pthread_mutex_lock(&s->index->table);
    *out = killed_since_locked(s, row->seq, &broken);
    pthread_mutex_unlock(&s->index->table);
    return broken ? err_set(err, RC_NOMEM, 0, "a snapshot of index %s was lost: out of memory",
                            s->index->name)
                  : RC_OK;
}

/* First row of the pinned block at or behind seq. */
static size_t first_at(const struct row_reader *r, uint64_t seq)
{
    size_t lo = 0, hi = row_reader_count(r);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (row_reader_seq(r, mid) < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Rows of the chunk that *cursor lies in, from the block pinned at it. */
static enum rc next_in_chunk(struct snapshot *s, struct row_reader *reader, uint64_t *cursor,
                             size_t max, size_t *count,
                             enum rc (*fn)(const struct row *row, void *arg), void *arg,
                             struct err *err)
{
    uint8_t bits[CATALOG_DEAD_BYTES];
    TRY(row_reader_seek(reader, s->index, *cursor, err));
    if (reader->first > *cursor)
        *cursor = reader->first;
    uint64_t chunk = *cursor / CATALOG_DEAD_SEQS;
    TRY(dead_chunk(s->index, chunk, bits, err));
    uint64_t end = reader->last < s->limit ? reader->last + 1 : s->limit;
    if (end > (chunk + 1) * CATALOG_DEAD_SEQS)
        end = (chunk + 1) * CATALOG_DEAD_SEQS;
    for (size_t i = first_at(reader, *cursor); i < row_reader_count(reader); i++) {
        struct row row;
        bool see = false;
        TRY(row_reader_row(reader, i, &row, err));
        if (row.seq >= end)
            break;
        if (*count == max)
            return RC_OK;
        TRY(visible(s, &row, bits, &see, err));
        if (see) {
            TRY(row_reader_doc(reader, &row, err));
            TRY(fn(&row, arg));
        }
        *count += see;
        *cursor = row.seq + 1;
    }
    *cursor = end > *cursor ? end : *cursor;
    return RC_OK;
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
    row_reader_init(&reader, store, BLOCK_SCAN, false);
    while (n < max && rc == RC_OK && *cursor < snapshot->limit)
        rc = next_in_chunk(snapshot, &reader, cursor, max, &n, fn, arg, err);
    row_reader_done(&reader);
    *done_out = rc == RC_NOT_FOUND || (rc == RC_OK && *cursor >= snapshot->limit);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}
