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
 *   P4  one step holds store.layout for at most STEP_BLOCKS blocks, so that checkpoints go on. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>
#include <time.h>

#define STEP_BLOCKS 256
#define LIST_BLOCKS 512
/* Joining begins with so many short blocks; a segment is rewritten when less than this part of its
 * bytes is live. */
#define JOIN_FROM    16
#define LIVE_PERCENT 60
#define TICK_MS      1000

/* A block of the survey. */
struct item {
    struct place place;
    uint32_t dead; /* rows, from the catalog */
    bool chosen;
};

struct seg {
    uint32_t number;
    uint64_t file_bytes, content_bytes, named_bytes, live_bytes;
    bool chosen;
    bool has_blocks;
    bool open; /* was still written to: it may have got blocks since */
};

struct survey {
    struct index *ix;
    struct item *item;
    size_t count, cap;
    struct seg *seg;
    size_t seg_count, seg_cap;
    bool drop_tombstones;
};

/* ---- looking */

static unsigned popcount8(uint8_t v)
{
    return (unsigned)__builtin_popcount(v);
}

/* Dead bits among [first, last]. */
static enum rc count_bits(struct index *ix, uint64_t first, uint64_t last, uint64_t *out,
                          struct err *err)
{
    uint8_t bits[CATALOG_DEAD_BYTES];
    uint64_t n = 0;
    for (uint64_t chunk = first / CATALOG_DEAD_SEQS; chunk <= last / CATALOG_DEAD_SEQS; chunk++) {
        uint64_t base = chunk * CATALOG_DEAD_SEQS;
        uint64_t from = first > base ? first - base : 0;
        uint64_t to = last - base < CATALOG_DEAD_SEQS ? last - base + 1 : CATALOG_DEAD_SEQS;
        TRY(catalog_get_dead(ix->store->catalog, ix->number, chunk, bits, err));
        for (uint64_t i = from; i < to;) {
            if (i % 8 == 0 && i + 8 <= to) {
                n += popcount8(bits[i / 8]);
                i += 8;
            } else {
                n += bits[i / 8] >> (i % 8) & 1;
                i++;
            }
        }
    }
    *out = n;
    return RC_OK;
}

static struct seg *survey_segment(struct survey *survey, uint32_t number)
{
    for (size_t i = survey->seg_count; i-- > 0;)
        if (survey->seg[i].number == number)
            return &survey->seg[i];
    if (survey->seg_count == survey->seg_cap) {
        size_t cap = survey->seg_cap == 0 ? 16 : survey->seg_cap * 2;
        struct seg *list = realloc(survey->seg, cap * sizeof *list);
        if (list == NULL)
            return NULL;
        survey->seg = list;
        survey->seg_cap = cap;
    }
    struct seg *s = &survey->seg[survey->seg_count++];
    *s = (struct seg){.number = number};
    return s;
}

static enum rc survey_block(struct survey *survey, const struct place *place, struct err *err)
{
    if (survey->count == survey->cap) {
        size_t cap = survey->cap == 0 ? 256 : survey->cap * 2;
        struct item *list = realloc(survey->item, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        survey->item = list;
        survey->cap = cap;
    }
    struct item *it = &survey->item[survey->count];
    struct seg *seg = survey_segment(survey, place->segment);
    if (seg == NULL)
        return RC_NOMEM;
    *it = (struct item){.place = *place};
    uint64_t bits = 0, span = place->last_seq - place->first_seq + 1;
    TRY(count_bits(survey->ix, place->first_seq, place->last_seq, &bits, err));
    uint64_t gaps = span - place->rows; /* P1: their bits are set */
    it->dead = bits > gaps ? (uint32_t)(bits - gaps) : 0;
    survey->count++;
    seg->has_blocks = true;
    seg->named_bytes += place->len;
    uint32_t dead = it->dead < place->rows ? it->dead : place->rows;
    seg->live_bytes += (uint64_t)place->len * (place->rows - dead) / place->rows;
    return RC_OK;
}

/* A dictionary is not garbage, and may be all that a segment has: blocks in the log need it. */
static enum rc survey_dict(const struct dict_copy *copy, void *arg)
{
    struct survey *survey = arg;
    struct seg *s = survey_segment(survey, copy->segment);
    if (s == NULL)
        return RC_NOMEM;
    s->named_bytes += copy->len;
    s->live_bytes += copy->len;
    return RC_OK;
}

static enum rc check_gap(const struct survey *survey, uint64_t from, uint64_t to, struct err *err)
{
    uint64_t bits = 0;
    if (from >= to)
        return RC_OK;
    TRY(count_bits(survey->ix, from, to - 1, &bits, err));
    return bits == to - from
               ? RC_OK
               : err_set(err, RC_CORRUPT, 0,
                         "catalog: index %s: no block has the rows from %llu to %llu; "
                         "run stowctl rebuild",
                         survey->ix->name, (unsigned long long)from, (unsigned long long)to - 1);
}

/* P1: what no block has is dead. Else the catalog has lost blocks, and must not be believed when it
 * does not name a segment. */
static enum rc check_gaps(const struct survey *survey, struct err *err)
{
    uint64_t next = 0;
    for (size_t i = 0; i < survey->count; i++) {
        TRY(check_gap(survey, next, survey->item[i].place.first_seq, err));
        next = survey->item[i].place.last_seq + 1;
    }
    return check_gap(survey, next, survey->ix->packed_seq, err);
}

static void survey_done(struct survey *survey)
{
    free(survey->item);
    free(survey->seg);
}

/* All blocks of the index with their dead rows, and their segments. */
static enum rc survey_load(struct survey *survey, struct err *err)
{
    struct place list[LIST_BLOCKS];
    char dir[512], path[600];
    size_t n = 0;
    index_dir(survey->ix, dir, sizeof dir);
    for (uint64_t from = 0;; from = list[n - 1].first_seq + 1) {
        TRY(catalog_list_blocks(survey->ix->store->catalog, survey->ix->number, from, list,
                                LIST_BLOCKS, &n, err));
        for (size_t i = 0; i < n; i++)
            TRY(survey_block(survey, &list[i], err));
        if (n < LIST_BLOCKS)
            break;
    }
    TRY(index_dict_each(survey->ix, survey_dict, survey, err));
    for (size_t i = 0; i < survey->seg_count; i++) {
        struct seg *s = &survey->seg[i];
        s->open = survey->ix->segment != NULL && segment_number(survey->ix->segment) == s->number;
        segment_path(path, sizeof path, dir, s->number);
        struct err why = {0};
        enum rc rc = segment_measure(path, &s->file_bytes, &s->content_bytes, &why);
        /* Without blocks it is no reason not to start: another copy may be there. */
        if (rc == RC_CORRUPT && !s->has_blocks)
            continue;
        if (rc != RC_OK)
            return err_set(err, rc, why.os_errno, "%s", why.msg);
    }
    return check_gaps(survey, err);
}

struct stray {
    const struct survey *survey;
    bool removed;
};

static void remove_stray(const char *name, void *arg)
{
    struct stray *stray = arg;
    const struct survey *survey = stray->survey;
    struct index *ix = survey->ix;
    struct err ignored = {0};
    uint32_t number;
    char dir[512], path[600];
    if (!segment_parse_name(name, &number) ||
        (ix->segment != NULL && segment_number(ix->segment) == number))
        return;
    for (size_t i = 0; i < survey->seg_count; i++)
        if (survey->seg[i].number == number)
            return;
    index_dir(ix, dir, sizeof dir);
    segment_path(path, sizeof path, dir, number);
    stray->removed = stray->removed || io_unlink(path, &ignored) == RC_OK;
}

/* Segments that nothing names are what a crash left of a checkpoint or of compaction. When the log
 * may have lost rows they are kept, for a rebuild. */
static enum rc sweep_segments(const struct survey *survey, struct err *err)
{
    struct index *ix = survey->ix;
    struct stray stray = {survey, false};
    char dir[512];
    if (ix->store->o.accept_loss)
        return RC_OK;
    index_dir(ix, dir, sizeof dir);
    enum rc rc = io_list(dir, remove_stray, &stray, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK; /* gone with its directory: a get will say so */
    TRY(rc);
    return stray.removed ? io_sync_dir(dir, err) : RC_OK;
}

enum rc index_recount(struct index *index, struct err *err)
{
    struct survey survey = {.ix = index};
    uint64_t dead = 0;
    enum rc rc = survey_load(&survey, err);
    if (rc == RC_OK)
        rc = sweep_segments(&survey, err);
    if (rc == RC_OK) {
        pthread_mutex_lock(&index->table);
        index->rows_total = index->raw_bytes = index->block_bytes = index->short_blocks = 0;
        index->disk_bytes = 0;
        for (size_t i = 0; i < survey.count; i++) {
            const struct place *p = &survey.item[i].place;
            index->rows_total += p->rows;
            index->raw_bytes += p->raw_bytes;
            index->block_bytes += p->len;
            index->short_blocks +=
                p->raw_bytes < index_block_target(index) / 2 && p->rows < LIMIT_BLOCK_ROWS / 2;
            dead += survey.item[i].dead;
            if (p->last_seq >= index->next_seq)
                index->next_seq = p->last_seq + 1;
        }
        for (size_t i = 0; i < survey.seg_count; i++) {
            index->disk_bytes += survey.seg[i].file_bytes;
            if (survey.seg[i].number >= index->next_segment)
                index->next_segment = survey.seg[i].number + 1;
        }
        index->block_raw_bytes = index->raw_bytes;
        index->blocks = survey.count;
        index->segments = survey.seg_count;
        index->docs = index->rows_total - dead;
        pthread_mutex_unlock(&index->table);
    }
    survey_done(&survey);
    return rc;
}

/* ---- choosing */

static bool is_short(const struct survey *survey, const struct item *it)
{
    return it->place.raw_bytes < index_block_target(survey->ix) / 2 &&
           it->place.rows < LIMIT_BLOCK_ROWS / 2;
}

static void choose_segments(struct survey *survey, bool force)
{
    bool unclean = false;
    for (size_t i = 0; i < survey->seg_count; i++) {
        struct seg *s = &survey->seg[i];
        bool garbage = s->content_bytes > s->named_bytes;
        s->chosen = s->live_bytes * 100 < s->named_bytes * (force ? 99 : LIVE_PERCENT) ||
                    s->named_bytes * 100 < s->content_bytes * LIVE_PERCENT || (force && garbage);
        unclean = unclean || garbage;
    }
    survey->drop_tombstones = !unclean;
    for (size_t i = 0; i < survey->count; i++) {
        const struct item *it = &survey->item[i];
        survey->item[i].chosen =
            survey_segment(survey, it->place.segment)->chosen ||
            (force && (it->dead != 0 || it->place.first_seq < survey->ix->dict_since));
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
    TRY_OUT(index_current_dict(s->ix, &dict, err));
    TRY_OUT(block_pack(s->ix->number, &s->ix->spec, dict, rows, s->count, &record, err));
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
    struct catalog_txn *whole = txn;
    txn = NULL;
    rc = catalog_commit(whole, err);
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
        /* A checkpoint that failed half-way has dead rows in the catalog that it will name again.
         */
        if (atomic_load(&survey->ix->deleted) || survey->ix->cut)
            rc = RC_NOT_FOUND;
        else
            rc = run_step(survey, i, &to, &older_clean, err);
        if (rc != RC_OK && survey->ix->segment != NULL) {
            checkpoint_abandon_segment(survey->ix); /* what it holds may not be synced */
        }
        pthread_mutex_unlock(&store->layout);
        i = to;
        (*steps_out)++;
    }
    return rc;
}

/* The copies of dictionaries in a segment that goes; the newest one has another (Q3). */
static enum rc forget_dicts(struct index *ix, uint32_t segment, struct err *err)
{
    struct segment_writer *w = NULL;
    struct catalog_txn *txn = NULL;
    if (ix->dict_current != 0) {
        TRY(checkpoint_segment(ix, &w, err));
        TRY(index_dict_to_segment(ix, w, ix->dict_current, err));
        TRY(segment_sync(w, err));
    }
    TRY(catalog_begin_removal(ix->store->catalog, &txn, err));
    enum rc rc = index_dict_carry(ix, txn, err);
    if (rc == RC_OK)
        rc = index_dict_forget(ix->store->catalog, txn, ix->number, segment, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    TRY(catalog_commit(txn, err));
    index_dict_carried(ix);
    return RC_OK;
}

/* P3. */
static void remove_segments(struct survey *survey)
{
    struct index *ix = survey->ix;
    char dir[512], path[600];
    bool removed = false;
    struct err unsynced = {0};
    index_dir(ix, dir, sizeof dir);
    pthread_mutex_lock(&ix->store->layout);
    for (size_t i = 0; i < survey->seg_count; i++) {
        struct seg *s = &survey->seg[i];
        struct err ignored = {0};
        bool named = ix->segment != NULL && segment_number(ix->segment) == s->number;
        for (size_t k = 0; k < survey->count; k++)
            named =
                named || (survey->item[k].place.segment == s->number && !survey->item[k].chosen);
        if (named || (s->open && !s->has_blocks))
            continue;
        if (ix->dict_next > 1 && forget_dicts(ix, s->number, &ignored) != RC_OK) {
            checkpoint_abandon_segment(ix); /* the copy in it may not be synced */
            continue;                       /* swept, or seen by the next pass */
        }
        segment_files_forget(ix->store->files, ix->number, s->number);
        cache_forget(ix->store->cache, ix->number, s->number);
        segment_path(path, sizeof path, dir, s->number);
        if (io_unlink(path, &ignored) != RC_OK)
            continue; /* swept at the next start */
        removed = true;
        pthread_mutex_lock(&ix->table);
        ix->segments--;
        ix->disk_bytes = ix->disk_bytes > s->file_bytes ? ix->disk_bytes - s->file_bytes : 0;
        pthread_mutex_unlock(&ix->table);
    }
    /* P2 counts on their being gone for good. */
    if (removed && io_sync_dir(dir, &unsynced) != RC_OK)
        store_event(ix->store, 1, "%s", unsynced.msg);
    pthread_mutex_unlock(&ix->store->layout);
}

static bool worth_looking(struct index *ix)
{
    pthread_mutex_lock(&ix->table);
    bool worth = ix->short_blocks >= JOIN_FROM || ix->dead_since * 4 > ix->rows_total ||
                 (ix->dead_since > 0 && ix->docs == 0);
    if (worth)
        ix->dead_since = ix->short_blocks = 0;
    pthread_mutex_unlock(&ix->table);
    return worth;
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

static enum rc compact_index(struct index *ix, bool force, struct err *err)
{
    struct survey survey = {.ix = ix};
    struct err ignored = {0};
    size_t steps = 0;
    bool looked = false;
    sample_gc(ix);
    /* One that fails, on a full catalog or disk, must not keep rewriting from making room. */
    enum rc first = index_merge_ids(ix, err), rc = RC_OK;
    rc = index_train(ix, force, first == RC_OK ? err : &ignored);
    first = first == RC_OK ? rc : first;
    rc = RC_OK;
    if (atomic_load(&ix->deleted) || (!force && !worth_looking(ix)))
        return first;
    pthread_mutex_lock(&ix->store->layout);
    looked = !atomic_load(&ix->deleted) && !ix->cut;
    if (looked) {
        rc = survey_load(&survey, err);
        if (rc == RC_OK) {
            choose_segments(&survey, force);
            choose_short(&survey, force);
            /* Rows must not go back to where they are taken from. */
            for (size_t i = 0; i < survey.count && rc == RC_OK; i++)
                if (survey.item[i].chosen && ix->segment != NULL &&
                    survey.item[i].place.segment == segment_number(ix->segment))
                    rc = checkpoint_finish_segment(ix, err);
        }
    }
    pthread_mutex_unlock(&ix->store->layout);
    if (rc == RC_OK)
        rc = rewrite_chosen(&survey, &steps, err);
    if (rc == RC_OK && steps != 0) {
        remove_segments(&survey);
        atomic_fetch_add(&ix->store->rewrites, steps);
    }
    if (rc == RC_OK && force && looked) {
        pthread_mutex_lock(&ix->table);
        ix->dict_since = 0; /* all that is older has been made anew */
        pthread_mutex_unlock(&ix->table);
    }
    survey_done(&survey);
    return rc == RC_NOT_FOUND || rc == RC_OK ? first : rc;
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
    segment_files_forget(store->files, drop->index_no, UINT32_MAX);
    cache_forget(store->cache, drop->index_no, UINT32_MAX);
    enum rc rc = RC_OK;
    if (drop->dir_name[0] != 0) {
        snprintf(path, sizeof path, "%s/indices/%s", store->path, drop->dir_name);
        rc = io_remove_dir(path, err);
    }
    pthread_mutex_unlock(&store->layout);
    return rc == RC_OK ? drop_keys(store, drop->index_no, err) : rc;
}

static void run_drops(struct store *store, struct drop *list)
{
    while (list != NULL) {
        struct drop *d = list;
        struct err err = {0};
        list = d->next;
        if (drop_index(store, d, &err) == RC_OK) {
            free(d);
            continue;
        }
        store_event(store, 1, "removing a deleted index will be repeated: %s", err.msg);
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

static void compact_all(struct store *store, struct flush_request *merges, bool *complaining)
{
    struct index **list = NULL;
    size_t n = 0;
    struct err err = {0};
    enum rc rc = store_all(store, &list, &n);
    for (size_t i = 0; i < n; i++) { /* one that fails does not keep the others from it */
        enum rc one = compact_index(list[i], wanted(merges, list[i]), &err);
        rc = rc == RC_OK ? one : rc;
        index_release(list[i]);
    }
    free(list);
    if (rc != RC_OK && !*complaining)
        store_event(store, 1, "compaction failed, will be repeated: %s", err.msg);
    *complaining = rc != RC_OK;
    while (merges != NULL) {
        struct flush_request *f = merges;
        merges = f->next;
        flush_answer(store, f, rc, &err);
    }
}

void *compact_main(void *arg)
{
    struct store *store = arg;
    bool complaining = false;
    pthread_setname_np(pthread_self(), "compaction");
    pthread_mutex_lock(&store->wake);
    while (!store->stopping) {
        struct timespec until;
        if (!store->compact_now && store->merges == NULL) {
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += TICK_MS / 1000;
            pthread_cond_timedwait(&store->wake_compact, &store->wake, &until);
            continue;
        }
        struct flush_request *merges = store->merges;
        struct drop *drops = store->drops;
        store->merges = NULL;
        store->drops = NULL;
        store->compact_now = false;
        pthread_mutex_unlock(&store->wake);
        run_drops(store, drops);
        compact_all(store, merges, &complaining);
        pthread_mutex_lock(&store->wake);
    }
    pthread_mutex_unlock(&store->wake);
    return NULL;
}
