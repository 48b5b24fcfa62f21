/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are not packed yet. Documents in one buffer or where they came from, ids and routings
 * in another, one small entry a row; the count is the only thing that changes under a reader. */
#include "storage/rows.h"

#include <pthread.h>
#include <stdlib.h>

/* One longest id and one longest routing always fit behind a growth. */
#define NAMES_SLACK 1280

struct entry {
    uint64_t seq;
    uint64_t version;
    const uint8_t *doc;
    const struct shape *shape; /* NULL: not known */
    const uint16_t *lens;
    uint32_t doc_len;
    uint32_t id_at; /* the routing lies behind the id */
    uint16_t id_len;
    uint16_t routing_len;
    uint8_t kind;
};

struct rows {
    size_t memory; /* of all of it */
    bool borrows;
    atomic_size_t refs;
    atomic_size_t count;
    size_t count_max, docs_max, names_max, lens_max;
    size_t docs_len, names_len, lens_len;
    struct shape_table *shapes; /* whose shapes the entries have; NULL: none has one */
    /* Of the run that wrote them; a batch never spans runs. */
    uint64_t nonce;
    uint32_t term;
    struct entry *entry;
    uint16_t *lens;
    uint8_t *docs;
    uint8_t *names;
};

/* ---- spare memory: the batch of one block is as large as that of the next, and fresh memory costs
 * a page fault for each 4 KB */

#define SPARES       32
#define SPARE_MIN    (64 * 1024)
#define SPARES_BYTES (16 * 1024 * 1024)

static struct {
    pthread_mutex_t lock;
    struct rows *slot[SPARES];
    size_t bytes;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct rows *spare_take(size_t memory)
{
    struct rows *found = NULL;
    pthread_mutex_lock(&spare.lock);
    for (size_t i = 0; memory >= SPARE_MIN && found == NULL && i < SPARES; i++) {
        struct rows *r = spare.slot[i];
        if (r != NULL && r->memory >= memory && r->memory / 2 <= memory) {
            found = r;
            spare.slot[i] = NULL;
            spare.bytes -= r->memory;
        }
    }
    pthread_mutex_unlock(&spare.lock);
    if (found == NULL && (found = malloc(memory)) != NULL)
        found->memory = memory;
    return found;
}

static void spare_give(struct rows *rows)
{
    pthread_mutex_lock(&spare.lock);
    for (size_t i = 0; rows != NULL && rows->memory >= SPARE_MIN && i < SPARES; i++)
        if (spare.slot[i] == NULL && spare.bytes + rows->memory <= SPARES_BYTES) {
            spare.slot[i] = rows;
            spare.bytes += rows->memory;
            rows = NULL;
        }
    pthread_mutex_unlock(&spare.lock);
    free(rows);
}

static struct rows *rows_alloc(size_t docs, size_t names, size_t count, size_t values)
{
    size_t head = sizeof(struct rows) + count * sizeof(struct entry) + values * sizeof(uint16_t);
    struct rows *r = spare_take(head + docs + names);
    if (r == NULL)
        return NULL;
    atomic_init(&r->refs, 1);
    atomic_init(&r->count, 0);
    r->count_max = count;
    r->borrows = false;
    r->docs_max = docs;
    r->names_max = names;
    r->lens_max = values;
    r->docs_len = r->names_len = r->lens_len = 0;
    r->shapes = NULL;
    r->nonce = 0;
    r->term = 0;
    r->entry = (struct entry *)(r + 1);
    r->lens = (uint16_t *)(r->entry + count);
    r->docs = (uint8_t *)(r->lens + values);
    r->names = r->docs + docs;
    return r;
}

struct rows *rows_create(size_t bytes, size_t count, size_t values)
{
    /* Client ids are 20 to 40 bytes as a rule; a batch whose names do not fit grows. */
    return rows_alloc(bytes, count * 24 + NAMES_SLACK, count, values);
}

struct rows *rows_create_borrowing(size_t count)
{
    struct rows *r = rows_create(0, count, 0);
    if (r != NULL)
        r->borrows = true;
    return r;
}

bool rows_borrow(const struct rows *rows)
{
    return rows->borrows;
}

/* All rows again, into one that has the room. */
static struct rows *append_all(struct rows *to, const struct rows *rows, size_t n, bool fits)
{
    for (size_t i = 0; to != NULL && i < n; i++) {
        struct row row;
        struct fit fit;
        rows_get(rows, i, &row);
        if (fits) {
            rows_fit(rows, i, &fit);
            row.fit = &fit;
        }
        if (!rows_append(to, &row)) {
            rows_release(to);
            return NULL;
        }
    }
    return to;
}

struct rows *rows_grow(const struct rows *rows, size_t bytes)
{
    struct rows *r =
        rows_alloc(rows->borrows ? 0 : rows->docs_max * 2 + bytes,
                   rows->names_max * 2 + NAMES_SLACK, rows->count_max * 2 + 1, rows->lens_max * 2);
    if (r != NULL)
        r->borrows = rows->borrows;
    return append_all(r, rows, rows_count(rows), true);
}

struct rows *rows_own(const struct rows *rows, size_t bytes)
{
    size_t n = rows_count(rows), lens = 0, docs = rows->docs_len > bytes ? rows->docs_len : bytes;
    assert(n != 0);
    for (size_t i = 0; i < n; i++)
        lens += rows->entry[i].shape == NULL ? 0 : rows->entry[i].shape->slots;
    lens = lens / n * (rows->count_max + 1); /* those to come will be like these */
    return append_all(rows_alloc(docs, rows->names_max, rows->count_max, lens), rows, n, true);
}

struct rows *rows_share(struct rows *rows)
{
    if (!rows->borrows) {
        atomic_fetch_add_explicit(&rows->refs, 1, memory_order_relaxed);
        return rows;
    }
    /* Rows behind these may be on their way: only what is published may be looked at. */
    size_t n = rows_count(rows), docs = 0, names = 0;
    for (size_t i = 0; i < n; i++) {
        docs += rows->entry[i].doc_len;
        names += (size_t)rows->entry[i].id_len + rows->entry[i].routing_len;
    }
    return append_all(rows_alloc(docs, names, n, 0), rows, n, false);
}

void rows_release(struct rows *rows)
{
    if (rows == NULL || atomic_fetch_sub_explicit(&rows->refs, 1, memory_order_acq_rel) != 1)
        return;
    shape_table_release(rows->shapes);
    spare_give(rows);
}

static void keep_fit(struct rows *rows, struct entry *entry, const struct fit *fit)
{
    size_t copied = rows->borrows ? 0 : fit->shape->slots;
    if (copied > rows->lens_max - rows->lens_len)
        return;
    if (rows->shapes == NULL)
        rows->shapes = shape_table_retain(fit->table);
    if (rows->shapes != fit->table)
        return;
    entry->shape = fit->shape;
    entry->lens = rows->borrows ? fit->lens : rows->lens + rows->lens_len;
    memcpy(rows->lens + rows->lens_len, fit->lens, copied * sizeof *fit->lens);
    rows->lens_len += copied;
}

bool rows_append(struct rows *rows, const struct row *row)
{
    size_t n = atomic_load_explicit(&rows->count, memory_order_relaxed);
    const uint8_t *doc = rows->borrows ? row->doc.ptr : rows->docs + rows->docs_len;
    if (n == rows->count_max ||
        (!rows->borrows && row->doc.len > rows->docs_max - rows->docs_len) ||
        row->id.len + row->routing.len > rows->names_max - rows->names_len)
        return false;
    assert(n == 0 || row->seq > rows->entry[n - 1].seq);
    assert(row->doc.len <= UINT32_MAX && row->id.len <= UINT16_MAX &&
           row->routing.len <= UINT16_MAX);
    rows->entry[n] = (struct entry){
        .seq = row->seq,
        .version = row->version,
        .doc = doc,
        .doc_len = (uint32_t)row->doc.len,
        .id_at = (uint32_t)rows->names_len,
        .id_len = (uint16_t)row->id.len,
        .routing_len = (uint16_t)row->routing.len,
        .kind = (uint8_t)row->kind,
    };
    if (row->fit != NULL && row->fit->shape != NULL)
        keep_fit(rows, &rows->entry[n], row->fit);
    if (row->doc.len != 0 && !rows->borrows)
        memcpy(rows->docs + rows->docs_len, row->doc.ptr, row->doc.len);
    rows->docs_len += row->doc.len;
    if (row->id.len != 0)
        memcpy(rows->names + rows->names_len, row->id.ptr, row->id.len);
    rows->names_len += row->id.len;
    if (row->routing.len != 0)
        memcpy(rows->names + rows->names_len, row->routing.ptr, row->routing.len);
    rows->names_len += row->routing.len;
    if (n == 0) {
        rows->nonce = row->nonce;
        rows->term = row->term;
    }
    assert(rows->nonce == row->nonce && rows->term == row->term);
    atomic_store_explicit(&rows->count, n + 1, memory_order_release);
    return true;
}

size_t rows_count(const struct rows *rows)
{
    return atomic_load_explicit(&rows->count, memory_order_acquire);
}

size_t rows_raw_bytes(const struct rows *rows)
{
    return rows->docs_len;
}

size_t rows_memory(const struct rows *rows)
{
    return rows->memory;
}

uint64_t rows_first_seq(const struct rows *rows)
{
    return rows->entry[0].seq;
}

uint64_t rows_last_seq(const struct rows *rows)
{
    return rows->entry[rows_count(rows) - 1].seq;
}

void rows_get(const struct rows *rows, size_t i, struct row *out)
{
    const struct entry *e = &rows->entry[i];
    out->seq = e->seq;
    out->version = e->version;
    out->nonce = rows->nonce;
    out->term = rows->term;
    out->kind = (enum row_kind)e->kind;
    out->id = slice_of(rows->names + e->id_at, e->id_len);
    out->routing = slice_of(rows->names + e->id_at + e->id_len, e->routing_len);
    out->doc = slice_of(e->doc, e->doc_len);
    out->fit = NULL;
}

void rows_fit(const struct rows *rows, size_t i, struct fit *out)
{
    const struct entry *e = &rows->entry[i];
    *out = (struct fit){e->shape, e->lens, rows->shapes};
}

enum rc rows_find(const struct rows *rows, uint64_t seq, size_t *i_out)
{
    size_t lo = 0, hi = rows_count(rows);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rows->entry[mid].seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == rows_count(rows) || rows->entry[lo].seq != seq)
        return RC_NOT_FOUND;
    *i_out = lo;
    return RC_OK;
}
