/* SPDX-License-Identifier: Apache-2.0 */
#include "api/scan.h"

#include <stdlib.h>

/* Ids that were written again while they were looked up: that often it is tried anew. */
#define TRIES_MAX 16
/* Rows that scan_last looks at in one step. */
#define STEP_MAX 65536

/* ---- ids to places */

struct finding {
    const struct scan_part *part;
    uint64_t limit;
    uint64_t *found; /* room for every id */
    size_t count;
    bool moved; /* a document was written since the snapshot */
    enum rc rc;
    struct err err;
};

static void note_found(struct get_item *item, enum rc rc, const struct got *got,
                       const struct err *err, void *arg)
{
    struct finding *f = arg;
    (void)item;
    if (rc == RC_NOT_FOUND || f->rc != RC_OK)
        return;
    if (rc != RC_OK) {
        f->rc = rc;
        f->err = *err;
    } else if (got->row.seq >= f->limit) {
        f->moved = true;
    } else {
        f->found[f->count++] = f->part->base + got->row.seq;
    }
}

static int place_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The places of the ids in one part, appended to found. */
static enum rc find_part(struct scan *scan, size_t i, const struct query *query,
                         struct get_item *items, bool *moved, struct err *err)
{
    const struct scan_part *part = &scan->part[i];
    struct finding f = {.part = part,
                        .limit = store_snapshot_limit(part->snapshot),
                        .found = scan->found + scan->total};
    for (size_t k = 0; k < query->count; k++)
        items[k] = (struct get_item){part->index, query->id[k], NULL};
    store_get_many(scan->store, items, query->count, note_found, &f);
    if (f.rc != RC_OK)
        return err_set(err, f.rc, f.err.os_errno, "%s", f.err.msg);
    *moved = *moved || f.moved;
    if (f.count != 0)
        qsort(f.found, f.count, sizeof *f.found, place_order);
    scan->total += f.count;
    return RC_OK;
}

static enum rc find_ids(struct scan *scan, const struct query *query, bool *moved_out,
                        struct err *err)
{
    enum rc rc = RC_OK;
    struct get_item *items = malloc((query->count + 1) * sizeof *items);
    scan->listed = true;
    scan->total = 0;
    *moved_out = false;
    if (items == NULL)
        rc = err_set(err, RC_NOMEM, 0, "out of memory for look-ups");
    for (size_t i = 0; rc == RC_OK && i < scan->count; i++) {
        /* Room for all ids of this index beside what the others had. */
        size_t room = (size_t)scan->total + query->count + 1;
        uint64_t *found = realloc(scan->found, room * sizeof *found);
        if (found == NULL) {
            rc = err_set(err, RC_NOMEM, 0, "out of memory for look-ups");
            break;
        }
        scan->found = found;
        rc = find_part(scan, i, query, items, moved_out, err);
    }
    free(items);
    return rc;
}

/* ---- life */

static enum rc open_parts(struct store *store, const struct names_list *list, struct scan *scan,
                          struct err *err)
{
    *scan = (struct scan){.store = store};
    scan->part = calloc(list->count + 1, sizeof *scan->part);
    if (scan->part == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for a scan");
    for (size_t i = 0; i < list->count; i++) {
        struct scan_part *part = &scan->part[i];
        TRY(store_snapshot_open(store, list->index[i], &part->snapshot, err));
        part->index = store_snapshot_index(part->snapshot);
        part->base = scan->end;
        scan->end += store_snapshot_limit(part->snapshot);
        scan->total += store_snapshot_docs(part->snapshot);
        scan->count++;
    }
    return RC_OK;
}

enum rc scan_open(struct store *store, const struct names_list *list, const struct query *query,
                  struct scan *out, struct err *err)
{
    for (int tries = 0;; tries++) {
        struct scan scan;
        bool moved = false;
        enum rc rc = open_parts(store, list, &scan, err);
        if (rc == RC_OK && !query->all)
            rc = find_ids(&scan, query, &moved, err);
        if (rc == RC_OK && (!moved || tries == TRIES_MAX)) {
            *out = scan;
            return RC_OK;
        }
        scan_close(&scan);
        if (rc != RC_OK)
            return rc;
    }
}

void scan_close(struct scan *scan)
{
    for (size_t i = 0; i < scan->count; i++)
        store_snapshot_close(scan->store, scan->part[i].snapshot);
    free(scan->part);
    free(scan->found);
    *scan = (struct scan){NULL, NULL, 0, 0, 0, false, NULL};
}

/* ---- reading */

struct handing {
    const struct scan_part *part;
    enum rc (*fn)(const struct scan_doc *doc, void *arg);
    void *arg;
    size_t count;
    bool again;
};

static enum rc hand_row(const struct row *row, void *arg)
{
    struct handing *h = arg;
    char made[MADE_ID_LEN];
    struct scan_doc doc = {row, h->part->index, row->id, h->part->base + row->seq};
    if (row->kind == ROW_MADE) {
        made_id_format(row->nonce, row->seq, made);
        doc.id = slice_of(made, sizeof made);
    }
    enum rc rc = h->fn(&doc, h->arg);
    h->again = rc == RC_AGAIN;
    h->count += rc == RC_OK;
    return rc;
}

/* The part that a place lies in; places behind the end: count. */
static size_t part_of(const struct scan *scan, uint64_t place)
{
    size_t lo = 0, hi = scan->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        uint64_t end = mid + 1 < scan->count ? scan->part[mid + 1].base : scan->end;
        if (end <= place)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum rc scan_index_there(struct store *store, struct index *index, struct err *err)
{
    struct index *now = NULL;
    struct slice name = slice_of(index_name(index), index_name_len(index));
    enum rc rc = store_index_acquire(store, name, &now);
    bool there = rc == RC_OK && now == index;
    if (rc == RC_OK)
        index_release(now);
    return there ? RC_OK
                 : err_set(err, RC_NOT_FOUND, 0, "index [%s] was deleted in the meantime",
                           index_name(index));
}

/* Documents of one part. */
static enum rc read_part(const struct scan *scan, struct handing *h, uint64_t *place, size_t max,
                         bool *done_out, struct err *err)
{
    uint64_t cursor = *place - h->part->base;
    enum rc rc = store_snapshot_next(scan->store, h->part->snapshot, &cursor, max, done_out,
                                     hand_row, h, err);
    *place = h->part->base + cursor;
    /* A deleted index loses its blocks while it is read: what was read may lack some then. The name
     * goes first, so an index that still has it had all of them. */
    if (rc == RC_OK || h->again)
        TRY(scan_index_there(scan->store, h->part->index, err));
    return rc;
}

static size_t first_found(const struct scan *scan, uint64_t place)
{
    size_t lo = 0, hi = (size_t)scan->total;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (scan->found[mid] < place)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static enum rc next_listed(const struct scan *scan, struct handing *h, uint64_t *place, size_t max,
                           bool *done_out, struct err *err)
{
    size_t i = first_found(scan, *place);
    enum rc rc = RC_OK;
    for (; rc == RC_OK && i < scan->total && h->count < max; i++) {
        bool done;
        uint64_t at = scan->found[i];
        h->part = &scan->part[part_of(scan, at)];
        rc = read_part(scan, h, &at, 1, &done, err);
        *place = rc == RC_OK ? scan->found[i] + 1 : scan->found[i];
    }
    *done_out = rc == RC_OK && i == scan->total;
    return rc;
}

enum rc scan_next(const struct scan *scan, uint64_t *place, size_t max, bool *done_out,
                  enum rc (*fn)(const struct scan_doc *doc, void *arg), void *arg, struct err *err)
{
    struct handing h = {.fn = fn, .arg = arg};
    enum rc rc = RC_OK;
    bool done = false;
    if (scan->listed) {
        rc = next_listed(scan, &h, place, max, &done, err);
    } else {
        size_t i = part_of(scan, *place);
        for (; rc == RC_OK && i < scan->count && h.count < max; i += done) {
            h.part = &scan->part[i];
            done = false;
            rc = read_part(scan, &h, place, max - h.count, &done, err);
            if (rc == RC_OK && done)
                *place = i + 1 < scan->count ? scan->part[i + 1].base : scan->end;
        }
        done = rc == RC_OK && i == scan->count;
    }
    if (rc != RC_OK && rc != RC_AGAIN) /* which is fn's: the snapshot waits for the disk */
        return rc;
    *done_out = done;
    return RC_OK;
}

/* ---- from behind */

struct gathering {
    uint64_t end;
    uint64_t *place; /* room for STEP_MAX */
    size_t count;
};

static enum rc gather(const struct scan_doc *doc, void *arg)
{
    struct gathering *g = arg;
    if (doc->place >= g->end)
        return RC_AGAIN;
    g->place[g->count++] = doc->place;
    return RC_OK;
}

static size_t last_listed(const struct scan *scan, uint64_t before, size_t want, uint64_t *places)
{
    size_t n = 0;
    for (size_t i = first_found(scan, before); i > 0 && n < want; i--)
        places[n++] = scan->found[i - 1];
    return n;
}

enum rc scan_last(const struct scan *scan, uint64_t before, size_t want, uint64_t *places,
                  size_t *count_out, struct err *err)
{
    uint64_t end = before < scan->end ? before : scan->end, step = want < 64 ? 64 : want;
    size_t n = 0;
    if (scan->listed) {
        *count_out = last_listed(scan, before, want, places);
        return RC_OK;
    }
    struct gathering g = {.place = malloc(STEP_MAX * sizeof *g.place)};
    if (g.place == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for a search");
    enum rc rc = RC_OK;
    while (rc == RC_OK && n < want && end > 0) {
        step = step < STEP_MAX ? step : STEP_MAX;
        uint64_t from = end > step ? end - step : 0, at = from;
        bool done;
        g.end = end;
        g.count = 0;
        rc = scan_next(scan, &at, STEP_MAX, &done, gather, &g, err);
        for (size_t i = g.count; rc == RC_OK && i > 0 && n < want; i--)
            places[n++] = g.place[i - 1];
        end = from;
        step *= 2;
    }
    free(g.place);
    if (rc == RC_OK)
        *count_out = n;
    return rc;
}
