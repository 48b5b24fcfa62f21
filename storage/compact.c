/* SPDX-License-Identifier: Apache-2.0 */
/* Background work on what is packed: short neighbours are joined, segments that are mostly dead are
 * rewritten, keys of deleted indices go away. Blocks are replaced in the catalog by transactions
 * that take out a run of blocks and put in the ones made of them; ids point to seqs and never
 * change.
 *
 *   P1  a row is dropped only when the catalog says that it is dead and no snapshot needs it. Its
 *       dead bit stays: below packed_seq a seq is a row in a block or its bit is set.
 *   P2  a tombstone is dropped only when it is older than index.gc_deletes and nothing on disk
 * holds an older dead row, in a block or where one was: a rebuild from the segments alone must not
 *       bring one back. So rows go in one pass, their tombstones in a later one.
 *   P3  a segment goes when nothing names it any more.
 *   P4  one step holds store.layout for at most STEP_BLOCKS blocks, so that checkpoints go on.
 *   P5  what makes an index worth looking at (short blocks, rows that died) counts until a look has
 *       ended well. One that failed is repeated, later each time (RETRY_MS).
 *   P6  a forced look leaves nothing to the next one of what was on disk when it began, but what
 *       may not go yet (P1, P2): a segment that it takes a block out of is rewritten as a whole. It
 *       looks a bounded number of times (look_until_full), however much is written meanwhile. */
#include "config/limits.h"
#include "storage/survey.h"

#include <stdlib.h>
#include <time.h>

#define STEP_BLOCKS 256
/* Joining begins with so many short blocks; a segment is rewritten when less than this part of its
 * bytes is live. */
#define JOIN_FROM    16
#define LIVE_PERCENT 60
/* What failed is tried again after so long, then after twice that, up to the most. */
#define RETRY_MS     1000
#define RETRY_MAX_MS 60000

/* The look goes on, and is repeated (P5). */
static void keep_failure(struct survey *survey, enum rc rc, const struct err *why)
{
    if (rc == RC_OK || survey->kept != RC_OK)
        return;
    survey->kept = rc;
    survey->why = *why;
}

/* ---- choosing */

static bool is_short(const struct survey *survey, const struct survey_item *it)
{
    return index_block_short(survey->ix, it->place.raw_bytes, it->place.rows);
}

/* Is a block older than the newest dictionary? */
static bool is_early(const struct index *ix, uint64_t first_seq)
{
    return first_seq >= ix->dict_renewed && first_seq < ix->dict_since;
}

static void choose_segments(struct survey *survey, bool force)
{
    bool unclean = false;
    for (size_t i = 0; i < survey->seg_count; i++) {
        struct survey_segment *s = &survey->seg[i];
        bool garbage = s->content_bytes > s->named_bytes;
        s->chosen = s->live_bytes * 100 < s->named_bytes * (force ? 99 : LIVE_PERCENT) ||
                    s->named_bytes * 100 < s->content_bytes * LIVE_PERCENT || (force && garbage);
        unclean = unclean || garbage;
    }
    /* A segment that nothing names may have an older dead row (P2). */
    survey->drop_tombstones = !unclean && !survey->ix->strays && !survey->ix->store->o.accept_loss;
    for (size_t i = 0; i < survey->count; i++) {
        const struct survey_item *it = &survey->item[i];
        survey->item[i].chosen =
            survey_segment(survey, it->place.segment)->chosen ||
            (force && (it->dead != 0 || is_early(survey->ix, it->place.first_seq)));
    }
}

/* Runs of short neighbours. What is chosen already is a neighbour like any other. */
static void choose_short(struct survey *survey, bool force)
{
    for (size_t i = 0; i < survey->count;) {
        size_t to = i, shorts = 0;
        uint64_t raw = 0;
        while (to < survey->count &&
               (is_short(survey, &survey->item[to]) || survey->item[to].chosen)) {
            shorts += is_short(survey, &survey->item[to]);
            raw += survey->item[to].place.raw_bytes;
            to++;
        }
        /* Joining must pay: fewer blocks come out than go in. */
        size_t out = (size_t)(raw / index_block_target(survey->ix)) + 1;
        if (shorts >= 2 && (force ? out < to - i : shorts >= JOIN_FROM / 2 && out * 2 <= to - i))
            for (size_t k = i; k < to; k++)
                survey->item[k].chosen = true;
        i = to == i ? i + 1 : to;
    }
}

/* What is rewritten is garbage in its segment, for which the next forced look would rewrite the
 * rest (choose_segments). False: nothing new. */
static bool choose_rest(struct survey *survey)
{
    bool more = false;
    for (size_t i = 0; i < survey->count; i++)
        if (survey->item[i].chosen)
            survey_segment(survey, survey->item[i].place.segment)->chosen = true;
    for (size_t i = 0; i < survey->count; i++) {
        struct survey_item *it = &survey->item[i];
        if (!it->chosen && survey_segment(survey, it->place.segment)->chosen)
            it->chosen = more = true;
    }
    return more;
}

/* Segments that were sealed before they were half full, by a restart or an earlier look, move to
 * the one that is written to, where that makes one of two. */
static void choose_small(struct survey *survey)
{
    uint64_t half = survey->ix->store->o.segment_bytes / 2;
    size_t small = 0;
    bool begun = false; /* there is a place for them, or will be */
    for (size_t i = 0; i < survey->count; i++)
        begun = begun || survey->item[i].chosen;
    for (size_t i = 0; i < survey->seg_count; i++) {
        const struct survey_segment *s = &survey->seg[i];
        small += !s->open && s->has_blocks && s->live_bytes < half;
        begun = begun || (s->open && s->live_bytes < half);
    }
    if (small + begun < 2)
        return;
    for (size_t i = 0; i < survey->count; i++) {
        const struct survey_segment *s = survey_segment(survey, survey->item[i].place.segment);
        if (!s->open && s->live_bytes < half)
            survey->item[i].chosen = true;
    }
}

static void choose(struct survey *survey, bool force)
{
    choose_segments(survey, force);
    choose_short(survey, force);
    if (!force)
        return;
    choose_small(survey);
    while (choose_rest(survey)) /* P6 */
        choose_short(survey, force);
}

/* ---- rewriting one run of blocks */

struct built {
    struct row row; /* slices hold offsets until it is packed */
    size_t doc_at, id_at;
};

struct step {
    struct survey *survey;
    struct index *ix;
    struct row_reader reader;
    struct built *built;
    size_t count, cap;
    struct buf docs, names;
    struct place *out;
    size_t out_count, out_cap;
    uint64_t dropped_count, dropped_raw;
    bool older_clean;
};

static bool grow(void **list, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return true;
    size_t more = *cap == 0 ? 64 : *cap * 2;
    void *p = realloc(*list, more * size);
    if (p == NULL)
        return false;
    *list = p;
    *cap = more;
    return true;
}

static enum rc append_block(struct step *s, struct slice record, const struct row *rows,
                            size_t count, struct err *err)
{
    struct segment_writer *w = NULL;
    uint64_t at = 0;
    TRY(checkpoint_segment(s->ix, &w, err));
    struct segment_entry entry = {
        .first_seq = rows[0].seq, .last_seq = rows[count - 1].seq, .rows = (uint32_t)count};
    struct block_header head;
    TRY(block_header_read(record, &head, err));
    TRY(index_dict_to_segment(s->ix, w, head.dictionary, err));
    TRY(segment_append(w, record, &entry, &at, err));
    if (!grow((void **)&s->out, &s->out_cap, s->out_count, sizeof *s->out))
        return RC_NOMEM;
    s->out[s->out_count++] = (struct place){
        .first_seq = rows[0].seq,
        .last_seq = rows[count - 1].seq,
        .segment = segment_number(w),
        .len = (uint32_t)record.len,
        .at = at,
        .rows = (uint32_t)count,
        .raw_bytes = (uint32_t)s->docs.len,
    };
    return RC_OK;
}

static enum rc flush_built(struct step *s, struct err *err)
{
    struct buf record = {0};
    struct dict *dict = NULL;
    enum rc rc = RC_OK;
    if (s->count == 0)
        return RC_OK;
    struct row *rows = malloc(s->count * sizeof *rows);
    if (rows == NULL || s->docs.failed || s->names.failed) {
        rc = RC_NOMEM;
        goto out;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct built *b = &s->built[i];
        rows[i] = b->row;
        rows[i].doc.ptr = s->docs.ptr + b->doc_at;
        rows[i].id.ptr = s->names.ptr + b->id_at;
        rows[i].routing.ptr = s->names.ptr + b->id_at + b->row.id.len;
    }
    index_dict_for_packing(s->ix, &dict);
    TRY_OUT(block_pack(s->ix->number, &s->ix->spec, dict, rows, s->count, &record, err));
    index_note_ratio(s->ix, buf_slice(&record), s->docs.len, s->count);
    TRY_OUT(append_block(s, buf_slice(&record), rows, s->count, err));
    s->count = 0;
    s->docs.len = s->names.len = 0;
out:
    free(rows);
    dict_release(dict);
    buf_done(&record);
    return rc;
}

static enum rc keep_row(struct step *s, const struct row *row, struct err *err)
{
    if (s->count != 0 &&
        (s->docs.len + row->doc.len > index_block_target(s->ix) || s->count == LIMIT_BLOCK_ROWS))
        TRY(flush_built(s, err));
    if (!grow((void **)&s->built, &s->cap, s->count, sizeof *s->built))
        return RC_NOMEM;
    s->built[s->count++] = (struct built){*row, s->docs.len, s->names.len};
    buf_put_slice(&s->docs, row->doc);
    buf_put_slice(&s->names, row->id);
    buf_put_slice(&s->names, row->routing);
    return s->docs.failed || s->names.failed ? RC_NOMEM : RC_OK;
}

static void drop_row(struct step *s, const struct row *row)
{
    s->dropped_count++;
    s->dropped_raw += row->doc.len;
}

/* P1, P2. */
static bool may_drop(struct step *s, const struct row *row, const uint8_t *bits)
{
    uint64_t bit = row->seq % CATALOG_DEAD_SEQS;
    if ((bits[bit / 8] >> (bit % 8) & 1) == 0)
        return false;
    if (row->kind == ROW_TOMBSTONE)
        return s->older_clean && s->survey->drop_tombstones && row->seq < s->ix->gc_seq;
    pthread_mutex_lock(&s->ix->table);
    bool needed = snapshots_need_locked(s->ix, row->seq);
    pthread_mutex_unlock(&s->ix->table);
    return !needed;
}

static enum rc rewrite_block(struct step *s, const struct place *place, struct err *err)
{
    uint8_t bits[CATALOG_DEAD_BYTES];
    uint64_t chunk = UINT64_MAX;
    TRY(row_reader_seek(&s->reader, s->ix, place->first_seq, err));
    for (size_t i = 0; i < row_reader_count(&s->reader); i++) {
        struct row row;
        TRY(row_reader_row(&s->reader, i, &row, err));
        TRY(row_reader_doc(&s->reader, &row, err));
        if (row.seq / CATALOG_DEAD_SEQS != chunk) {
            chunk = row.seq / CATALOG_DEAD_SEQS;
            TRY(catalog_get_dead(s->ix->store->catalog, s->ix->number, chunk, bits, err));
        }
        uint64_t bit = row.seq % CATALOG_DEAD_SEQS;
        if (row.kind != ROW_TOMBSTONE && (bits[bit / 8] >> (bit % 8) & 1) != 0)
            s->older_clean = false;
        if (may_drop(s, &row, bits)) {
            drop_row(s, &row);
            continue;
        }
        TRY(keep_row(s, &row, err));
    }
    return RC_OK;
}

/* ---- committing a step */

static enum rc replace_blocks(struct step *s, size_t from, size_t to, struct err *err)
{
    struct catalog_txn *txn = NULL;
    enum rc rc = catalog_begin_removal(s->ix->store->catalog, &txn, err);
    TRY_OUT(rc);
    for (size_t i = from; i < to; i++)
        TRY_OUT(catalog_delete_block(txn, s->ix->number, s->survey->item[i].place.first_seq, err));
    for (size_t i = 0; i < s->out_count; i++)
        TRY_OUT(catalog_put_block(txn, s->ix->number, &s->out[i], err));
    TRY_OUT(index_dict_carry(s->ix, txn, err));
    /* The next segment's number (G2). Not while a cut is half carried over (ids.c, may_change): the
     * checkpoint saves the state then. */
    if (!s->ix->cut)
        TRY_OUT(index_save_state(txn, s->ix, s->ix->packed_seq, s->ix->idruns, err));
    struct catalog_txn *whole = txn;
    txn = NULL;
    rc = catalog_commit(whole, err);
    index_note_commit(s->ix, rc);
    if (rc == RC_OK)
        index_dict_carried(s->ix);
out:
    catalog_abort(txn);
    return rc;
}

static void count_step(struct step *s, size_t from, size_t to)
{
    struct index *ix = s->ix;
    pthread_mutex_lock(&ix->table);
    for (size_t i = from; i < to; i++) {
        ix->block_bytes -= s->survey->item[i].place.len;
        ix->block_raw_bytes -= s->survey->item[i].place.raw_bytes;
    }
    for (size_t i = 0; i < s->out_count; i++) {
        ix->block_bytes += s->out[i].len;
        ix->block_raw_bytes += s->out[i].raw_bytes;
        ix->disk_bytes += s->out[i].len;
    }
    ix->blocks = ix->blocks - (to - from) + s->out_count;
    ix->rows_total -= s->dropped_count;
    ix->raw_bytes -= s->dropped_raw;
    pthread_mutex_unlock(&ix->table);
}

/* Rewrite items [from, to), neighbours all of them, in one transaction. */
static enum rc run_step(struct survey *survey, size_t from, size_t *to_io, bool *older_clean,
                        struct err *err)
{
    struct step s = {.survey = survey, .ix = survey->ix, .older_clean = *older_clean};
    size_t i = from;
    enum rc rc = RC_OK;
    row_reader_init(&s.reader, survey->ix->store, BLOCK_SCAN, false);
    for (; i < *to_io; i++)
        TRY_OUT(rewrite_block(&s, &survey->item[i].place, err));
    TRY_OUT(flush_built(&s, err));
    if (s.out_count != 0)
        TRY_OUT(segment_sync(survey->ix->segment, err));
    TRY_OUT(replace_blocks(&s, from, i, err));
    count_step(&s, from, i);
    for (size_t k = from; k < i; k++)
        survey_segment(survey, survey->item[k].place.segment)->blocks--;
    survey->dropped += s.dropped_count;
    *older_clean = s.older_clean;
    *to_io = i;
out:
    row_reader_done(&s.reader);
    free(s.built);
    free(s.out);
    buf_done(&s.docs);
    buf_done(&s.names);
    return rc;
}

/* ---- a pass over an index */

/* Only the open one gets blocks, and it is not chosen. Caller holds layout. */
static bool may_remove(const struct index *ix, const struct survey_segment *s)
{
    bool writing = ix->segment != NULL && segment_number(ix->segment) == s->number;
    return !s->removed && !writing && s->blocks == 0 && (s->has_blocks || !s->open);
}

static enum rc remove_segment(struct index *ix, const char *dir, struct survey_segment *s,
                              struct err *err)
{
    char path[600];
    if (ix->dict_next > 1) {
        enum rc rc = index_dict_leave(ix, s->number, err);
        if (rc == RC_CORRUPT) /* what must not get lost does not read: it stays, untouched */
            return RC_OK;
        if (rc != RC_OK)
            checkpoint_abandon_segment(ix); /* the copy in it may not be synced */
        TRY(rc);
    }
    s->removed = true;
    segment_path(path, sizeof path, dir, s->number);
    enum rc rc = io_unlink(path, err);
    /* Not before: who reads meanwhile would have it opened again. */
    segment_files_forget(ix->store->files, ix->number, s->number);
    cache_forget(ix->store->cache, ix->number, s->number);
    TRY(rc);
    pthread_mutex_lock(&ix->table);
    ix->segments--;
    ix->disk_bytes = ix->disk_bytes > s->file_bytes ? ix->disk_bytes - s->file_bytes : 0;
    pthread_mutex_unlock(&ix->table);
    return RC_OK;
}

/* P3: those that nothing names any more, as soon as that is so: the next step needs the space.
 * Caller holds layout. */
static void remove_segments(struct survey *survey)
{
    struct index *ix = survey->ix;
    char dir[512];
    bool removed = false;
    struct err why = {0};
    enum rc rc = RC_OK;
    index_dir(ix, dir, sizeof dir);
    for (size_t i = 0; i < survey->seg_count; i++) {
        if (!may_remove(ix, &survey->seg[i]))
            continue;
        why = (struct err){0};
        rc = remove_segment(ix, dir, &survey->seg[i], &why);
        keep_failure(survey, rc, &why);
        removed = removed || rc == RC_OK;
        if (rc != RC_OK) /* swept, or seen by the next look */
            ix->strays = true;
    }
    /* P2 counts on their being gone for good. */
    why = (struct err){0};
    rc = removed ? io_sync_dir(dir, &why) : RC_OK;
    keep_failure(survey, rc, &why);
    if (rc != RC_OK)
        ix->strays = true;
}

/* Is the index ours to change? RC_NOT_FOUND: it is deleted. RC_AGAIN: not now, a checkpoint that
 * failed half-way has dead rows in the catalog that it will name again. Caller holds layout. */
static enum rc may_change(struct index *ix)
{
    if (atomic_load(&ix->deleted))
        return RC_NOT_FOUND;
    return ix->cut ? RC_AGAIN : RC_OK;
}

/* One step over items [from, to), then the segments that it emptied. */
static enum rc step_locked(struct survey *survey, size_t from, size_t *to_io, bool *older_clean,
                           struct err *err)
{
    struct index *ix = survey->ix;
    struct segment_mark mark;
    TRY(may_change(ix));
    checkpoint_mark(ix, &mark);
    enum rc rc = run_step(survey, from, to_io, older_clean, err);
    if (rc == RC_OK)
        remove_segments(survey);
    else
        checkpoint_undo(ix, &mark); /* what it holds may not be synced */
    return rc;
}

static enum rc rewrite_chosen(struct survey *survey, size_t *steps_out, struct err *err)
{
    struct store *store = survey->ix->store;
    bool older_clean = true;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < survey->count && rc == RC_OK;) {
        if (!survey->item[i].chosen) {
            older_clean = older_clean && survey->item[i].dead == 0;
            i++;
            continue;
        }
        size_t to = i;
        while (to < survey->count && to - i < STEP_BLOCKS && survey->item[to].chosen)
            to++;
        pthread_mutex_lock(&store->layout);
        rc = step_locked(survey, i, &to, &older_clean, err);
        pthread_mutex_unlock(&store->layout);
        i = to;
        (*steps_out)++;
    }
    return rc;
}

/* P5: what was there to see when a look began. */
struct look {
    uint64_t dead_since, short_blocks, look_at_gc;
};

static bool worth_looking(struct index *ix, struct look *look)
{
    bool may_go = ix->look_at_gc != 0 && ix->gc_seq >= ix->look_at_gc;
    pthread_mutex_lock(&ix->table);
    *look = (struct look){ix->dead_since, ix->short_blocks, may_go ? ix->look_at_gc : 0};
    bool worth = ix->short_blocks >= JOIN_FROM || ix->dead_since * 4 > ix->rows_total ||
                 (ix->dead_since > 0 && ix->docs == 0);
    pthread_mutex_unlock(&ix->table);
    return worth || may_go || ix->strays;
}

static uint64_t less(uint64_t now, uint64_t seen)
{
    return now > seen ? now - seen : 0;
}

/* The look is over and has changed what it could. When it has dropped rows and many are left, they
 * may be tombstones that could not go with them (P2): once they are old enough it is worth another
 * look. One that dropped nothing is not, so this ends. True: the index' state has changed. */
static bool looked_well(struct survey *survey, const struct look *look, bool force)
{
    struct index *ix = survey->ix;
    bool renewed = false;
    pthread_mutex_lock(&ix->write);
    pthread_mutex_lock(&ix->table);
    ix->dead_since = less(ix->dead_since, look->dead_since);
    ix->short_blocks = less(ix->short_blocks, look->short_blocks);
    /* Has all that is older been made anew? Some may not have been on disk yet. */
    if (force && ix->dict_since != 0 && ix->dict_since <= survey->packed_seq) {
        ix->dict_since = 0;
        renewed = true;
    } else if (force && ix->dict_since != 0) {
        ix->dict_renewed = survey->packed_seq;
    }
    if (survey->dropped != 0 && (ix->rows_total - ix->docs) * 4 > ix->rows_total)
        ix->look_at_gc = ix->next_seq;
    else if (look->look_at_gc != 0)
        ix->look_at_gc = 0;
    pthread_mutex_unlock(&ix->table);
    pthread_mutex_unlock(&ix->write);
    return renewed;
}

/* Else the first merge of the next life would do it all again: no more than that, so that a catalog
 * without space is no failure. A checkpoint that is in the way will save it. */
static enum rc save_renewed(struct index *ix, struct err *err)
{
    pthread_mutex_lock(&ix->store->layout);
    enum rc rc = may_change(ix) == RC_OK ? index_commit_state(ix, err) : RC_OK;
    pthread_mutex_unlock(&ix->store->layout);
    return rc == RC_FULL ? RC_OK : rc;
}

static void sample_gc(struct index *ix)
{
    uint64_t now = mono_ms();
    pthread_mutex_lock(&ix->write);
    if (now >= ix->gc_next_ms) {
        ix->gc_seq = ix->gc_next_seq;
        ix->gc_next_seq = ix->next_seq;
        ix->gc_next_ms = now + ix->store->o.gc_deletes_ms;
    }
    pthread_mutex_unlock(&ix->write);
}

/* Strays are what the survey does not have. The statistics had them. Caller holds layout. */
static void sweep(struct survey *survey)
{
    struct index *ix = survey->ix;
    struct err why = {0};
    uint64_t bytes = 0;
    size_t n = survey->seg_count;
    if (!ix->strays)
        return;
    enum rc rc = survey_sweep(survey, &why);
    keep_failure(survey, rc, &why);
    if (rc != RC_OK)
        return;
    ix->strays = false;
    bool known = ix->segment == NULL;
    for (size_t i = 0; i < n; i++) {
        bytes += survey->seg[i].file_bytes;
        known = known || survey->seg[i].number == segment_number(ix->segment);
    }
    pthread_mutex_lock(&ix->table);
    ix->segments = n + !known;
    ix->disk_bytes = bytes + (known ? 0 : segment_len(ix->segment));
    pthread_mutex_unlock(&ix->table);
}

/* Caller holds layout. */
static enum rc look_over(struct survey *survey, bool force, struct err *err)
{
    struct index *ix = survey->ix;
    TRY(may_change(ix));
    TRY(survey_load(survey, err));
    sweep(survey);
    choose(survey, force);
    /* Rows must not go back to where they are taken from. */
    for (size_t i = 0; i < survey->count; i++)
        if (survey->item[i].chosen && ix->segment != NULL &&
            survey->item[i].place.segment == segment_number(ix->segment))
            TRY(checkpoint_finish_segment(ix, err));
    remove_segments(survey); /* what an earlier look has emptied and could not remove */
    return RC_OK;
}

static enum rc look_and_rewrite(struct index *ix, bool force, struct err *err)
{
    struct survey survey = {.ix = ix};
    struct look look;
    size_t steps = 0;
    if (!worth_looking(ix, &look) && !force)
        return RC_OK;
    pthread_mutex_lock(&ix->store->layout);
    enum rc rc = look_over(&survey, force, err);
    pthread_mutex_unlock(&ix->store->layout);
    if (rc == RC_OK)
        rc = rewrite_chosen(&survey, &steps, err);
    atomic_fetch_add(&ix->store->rewrites, steps);
    if (rc == RC_OK && survey.kept != RC_OK) {
        rc = survey.kept;
        *err = survey.why;
    }
    if (rc == RC_OK && looked_well(&survey, &look, force))
        rc = save_renewed(ix, err);
    survey_done(&survey);
    if (rc == RC_AGAIN && force) /* whoever asked must not believe that it is done */
        return err_set(err, RC_BUSY, 0, "index %s: not merged, a checkpoint failed meanwhile",
                       ix->name);
    return rc == RC_NOT_FOUND || rc == RC_AGAIN ? RC_OK : rc;
}

/* Large blocks tell how rows pack, short ones do not: those that a look makes may make full ones
 * larger. Where they have become twice as large, what it made first is short again. That ends: the
 * index' settings have a largest block. */
static enum rc look_until_full(struct index *ix, bool force, struct err *err)
{
    enum rc rc = RC_OK;
    size_t before = 0, after = index_block_target(ix);
    for (bool again = true; rc == RC_OK && again; again = force && after / 2 >= before) {
        before = after;
        rc = look_and_rewrite(ix, force, err);
        after = index_block_target(ix);
    }
    return rc;
}

/* Whatever fails, on a full catalog or disk, must not keep the rest from making room. */
static enum rc compact_index(struct index *ix, bool force, struct err *err)
{
    struct err ignored = {0};
    sample_gc(ix);
    enum rc first = index_merge_ids(ix, false, err);
    enum rc rc = index_train(ix, force, first == RC_OK ? err : &ignored);
    first = first == RC_OK ? rc : first;
    index_dicts_rest(ix);
    if (!atomic_load(&ix->deleted)) {
        rc = look_until_full(ix, force, first == RC_OK ? err : &ignored);
        first = first == RC_OK ? rc : first;
    }
    if (force && !atomic_load(&ix->deleted)) { /* now that rows are gone, their entries may go */
        rc = index_merge_ids(ix, true, first == RC_OK ? err : &ignored);
        first = first == RC_OK ? rc : first;
    }
    return first;
}

/* ---- trying again */

static bool retry_due(const struct retry *retry)
{
    return retry->at_ms == 0 || mono_ms() >= retry->at_ms;
}

static void retry_note(struct retry *retry, bool failed)
{
    uint64_t twice = retry->wait_ms * 2 < RETRY_MAX_MS ? retry->wait_ms * 2 : RETRY_MAX_MS;
    if (!failed)
        *retry = (struct retry){0};
    else
        retry->wait_ms = retry->wait_ms == 0 ? RETRY_MS : twice;
    if (failed)
        retry->at_ms = mono_ms() + retry->wait_ms;
}

/* The earliest of two times; 0: none. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* ---- deleted indices */

static enum rc drop_keys(struct store *store, uint32_t index_no, struct err *err)
{
    uint8_t key[4];
    bool more = true;
    put_be32(key, index_no);
    while (more) {
        struct catalog_txn *txn = NULL;
        TRY(catalog_begin_removal(store->catalog, &txn, err));
        enum rc rc = catalog_drop_index(txn, index_no, LIMIT_CATALOG_TXN_KEYS, &more, err);
        if (rc == RC_OK && !more)
            rc = index_dict_forget(store->catalog, txn, index_no, UINT32_MAX, err);
        if (rc == RC_OK && !more)
            rc = catalog_delete(txn, KIND_STATE, slice_of(key, 4), err);
        if (rc == RC_NOT_FOUND || (rc == RC_OK && !more))
            rc = catalog_delete(txn, KIND_DROP, slice_of(key, 4), err);
        if (rc != RC_OK && rc != RC_NOT_FOUND) {
            catalog_abort(txn);
            return rc;
        }
        TRY(catalog_commit(txn, err));
    }
    return RC_OK;
}

static enum rc drop_index(struct store *store, const struct drop *drop, struct err *err)
{
    char path[800];
    /* A checkpoint that had begun before the name went is over when the lock is ours. */
    pthread_mutex_lock(&store->layout);
    enum rc rc = RC_OK;
    if (drop->dir_name[0] != 0) {
        snprintf(path, sizeof path, "%s/indices/%s", store->path, drop->dir_name);
        rc = io_remove_dir(path, err);
    }
    /* Not before: who reads meanwhile would have them opened again. */
    segment_files_forget(store->files, drop->index_no, UINT32_MAX);
    cache_forget(store->cache, drop->index_no, UINT32_MAX);
    pthread_mutex_unlock(&store->layout);
    return rc == RC_OK ? drop_keys(store, drop->index_no, err) : rc;
}

/* *next_ms: when one that failed is due again. */
static void run_drops(struct store *store, struct drop *list, uint64_t *next_ms)
{
    while (list != NULL) {
        struct drop *d = list;
        struct err err = {0};
        list = d->next;
        bool due = retry_due(&d->retry), first = d->retry.wait_ms == 0;
        if (due && drop_index(store, d, &err) == RC_OK) {
            free(d);
            continue;
        }
        if (due)
            retry_note(&d->retry, true);
        if (due && first)
            store_event(store, 1, "removing a deleted index will be repeated: %s", err.msg);
        *next_ms = sooner(*next_ms, d->retry.at_ms);
        pthread_mutex_lock(&store->wake);
        d->next = store->drops;
        store->drops = d;
        pthread_mutex_unlock(&store->wake);
    }
}

/* ---- the thread */

void compact_poke(struct store *store)
{
    pthread_mutex_lock(&store->wake);
    store->compact_now = true;
    pthread_cond_signal(&store->wake_compact);
    pthread_mutex_unlock(&store->wake);
}

static bool wanted(const struct flush_request *merges, const struct index *ix)
{
    for (const struct flush_request *f = merges; f != NULL; f = f->next)
        if (f->index == NULL || f->index == ix)
            return true;
    return false;
}

static void compact_all(struct store *store, struct flush_request *merges, bool *complaining,
                        uint64_t *next_ms)
{
    struct index **list = NULL;
    size_t n = 0;
    struct err err = {0};
    enum rc rc = store_all(store, &list, &n);
    bool failing = rc != RC_OK;
    for (size_t i = 0; i < n; i++) { /* one that fails does not keep the others from it */
        struct index *ix = list[i];
        struct err why = {0};
        bool force = wanted(merges, ix);
        if (force || retry_due(&ix->retry)) {
            enum rc one = compact_index(ix, force, &why);
            retry_note(&ix->retry, one != RC_OK);
            if (one != RC_OK && rc == RC_OK) {
                rc = one;
                err = why;
            }
        }
        failing = failing || ix->retry.at_ms != 0;
        *next_ms = sooner(*next_ms, ix->retry.at_ms);
        index_release(ix);
    }
    free(list);
    store_check_catalog(store, &err);
    if (rc != RC_OK && !*complaining)
        store_event(store, 1, "compaction failed, will be repeated: %s", err.msg);
    *complaining = failing;
    while (merges != NULL) {
        struct flush_request *f = merges;
        merges = f->next;
        flush_answer(store, f, rc, &err);
    }
}

/* Until there is something to do, or something that failed is due (at_ms, 0: nothing). */
static void wait_for_work(struct store *store, uint64_t at_ms)
{
    while (!store->stopping && !store->compact_now && store->merges == NULL) {
        uint64_t now = mono_ms();
        if (at_ms == 0) {
            pthread_cond_wait(&store->wake_compact, &store->wake);
        } else if (now < at_ms) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += (time_t)((at_ms - now) / 1000) + 1;
            pthread_cond_timedwait(&store->wake_compact, &store->wake, &until);
        } else {
            return;
        }
    }
}

void *compact_main(void *arg)
{
    struct store *store = arg;
    bool complaining = false;
    uint64_t next_ms = 0;
    pthread_setname_np(pthread_self(), "compaction");
    work_give_way();
    pthread_mutex_lock(&store->wake);
    for (;;) {
        wait_for_work(store, next_ms);
        if (store->stopping)
            break;
        struct flush_request *merges = store->merges;
        struct drop *drops = store->drops;
        store->merges = NULL;
        store->drops = NULL;
        store->compact_now = false;
        pthread_mutex_unlock(&store->wake);
        next_ms = 0;
        run_drops(store, drops, &next_ms);
        compact_all(store, merges, &complaining, &next_ms);
        pthread_mutex_lock(&store->wake);
    }
    pthread_mutex_unlock(&store->wake);
    return NULL;
}
