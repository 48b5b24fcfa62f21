/* SPDX-License-Identifier: Apache-2.0 */
/* Looking over an index (survey.h), and what that is for at start: its counts, which are not
 * stored, and the files that a crash left behind. */
#include "storage/survey.h"

#include "config/limits.h"

#include <stdlib.h>

#define LIST_BLOCKS 512

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

struct survey_segment *survey_segment(struct survey *survey, uint32_t number)
{
    if (survey->seg_last < survey->seg_count && survey->seg[survey->seg_last].number == number)
        return &survey->seg[survey->seg_last];
    for (size_t i = survey->seg_count; i-- > 0;)
        if (survey->seg[i].number == number)
            return &survey->seg[survey->seg_last = i];
    if (survey->seg_count == survey->seg_cap) {
        size_t cap = survey->seg_cap == 0 ? 16 : survey->seg_cap * 2;
        struct survey_segment *list = realloc(survey->seg, cap * sizeof *list);
        if (list == NULL)
            return NULL;
        survey->seg = list;
        survey->seg_cap = cap;
    }
    struct survey_segment *s = &survey->seg[survey->seg_count++];
    *s = (struct survey_segment){.number = number};
    return s;
}

static enum rc survey_block(struct survey *survey, const struct place *place, struct err *err)
{
    if (survey->count == survey->cap) {
        size_t cap = survey->cap == 0 ? 256 : survey->cap * 2;
        struct survey_item *list = realloc(survey->item, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        survey->item = list;
        survey->cap = cap;
    }
    struct survey_item *it = &survey->item[survey->count];
    struct survey_segment *seg = survey_segment(survey, place->segment);
    if (seg == NULL)
        return RC_NOMEM;
    *it = (struct survey_item){.place = *place};
    uint64_t bits = 0, span = place->last_seq - place->first_seq + 1;
    TRY(count_bits(survey->ix, place->first_seq, place->last_seq, &bits, err));
    uint64_t gaps = span - place->rows; /* P1: their bits are set */
    it->dead = bits > gaps ? (uint32_t)(bits - gaps) : 0;
    survey->count++;
    seg->has_blocks = true;
    seg->blocks++;
    seg->named_bytes += place->len;
    uint32_t dead = it->dead < place->rows ? it->dead : place->rows;
    seg->live_bytes += (uint64_t)place->len * (place->rows - dead) / place->rows;
    return RC_OK;
}

/* A dictionary is not garbage, and may be all that a segment has: blocks in the log need it. */
static enum rc survey_dict(const struct dict_copy *copy, void *arg)
{
    struct survey *survey = arg;
    struct survey_segment *s = survey_segment(survey, copy->segment);
    if (s == NULL)
        return RC_NOMEM;
    if (copy->number == survey->ix->dict_current)
        survey->dict_bytes = copy->len;
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

void survey_done(struct survey *survey)
{
    free(survey->item);
    free(survey->seg);
}

enum rc survey_load(struct survey *survey, struct err *err)
{
    struct place list[LIST_BLOCKS];
    char dir[512], path[600];
    size_t n = 0;
    index_dir(survey->ix, dir, sizeof dir);
    survey->packed_seq = survey->ix->packed_seq;
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
        struct survey_segment *s = &survey->seg[i];
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
    enum rc rc; /* the first failure */
    struct err *err;
};

static void remove_stray(const char *name, void *arg)
{
    struct stray *stray = arg;
    const struct survey *survey = stray->survey;
    struct index *ix = survey->ix;
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
    enum rc rc = io_unlink(path, stray->rc == RC_OK ? stray->err : NULL);
    stray->removed = stray->removed || rc == RC_OK;
    stray->rc = stray->rc == RC_OK ? rc : stray->rc;
}

/* Segments that nothing names are what a crash left of a checkpoint or of compaction, or a failed
 * attempt that could not take them back. When the log may have lost rows they are kept, for a
 * rebuild. */
enum rc survey_sweep(const struct survey *survey, struct err *err)
{
    struct index *ix = survey->ix;
    /* Where there are said to be strays, some may have gone, but not for good: sync. */
    struct stray stray = {survey, ix->strays, RC_OK, err};
    char dir[512];
    if (ix->store->o.accept_loss)
        return RC_OK;
    index_dir(ix, dir, sizeof dir);
    enum rc rc = io_list(dir, remove_stray, &stray, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK; /* gone with its directory: a get will say so */
    TRY(rc);
    rc = stray.removed ? io_sync_dir(dir, stray.rc == RC_OK ? err : NULL) : RC_OK;
    return stray.rc != RC_OK ? stray.rc : rc;
}

enum rc index_recount(struct index *index, struct err *err)
{
    struct survey survey = {.ix = index};
    uint64_t dead = 0;
    enum rc rc = survey_load(&survey, err);
    if (rc == RC_OK && survey_sweep(&survey, NULL) != RC_OK)
        index->strays = true; /* compaction tries again, and says why it cannot */
    if (rc == RC_OK) {
        pthread_mutex_lock(&index->table);
        index->rows_total = index->raw_bytes = index->block_bytes = index->short_blocks = 0;
        index->disk_bytes = 0;
        for (size_t i = 0; i < survey.count; i++) {
            const struct place *p = &survey.item[i].place;
            index->rows_total += p->rows;
            index->raw_bytes += p->raw_bytes;
            index->block_bytes += p->len;
            index->short_blocks += index_block_short(index, p->raw_bytes, p->rows);
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
        index->dict_bytes = survey.dict_bytes;
        index->blocks = survey.count;
        index->segments = survey.seg_count;
        index->docs = index->rows_total - dead;
        pthread_mutex_unlock(&index->table);
    }
    survey_done(&survey);
    return rc;
}
