/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilding, second half: from what was found to a new catalog. The ids go through the index' own
 * tables and checkpoints, so that this file need not know how the catalog keeps them. */
#include "storage/rebuild.h"

#include "config/limits.h"
#include "storage/found.h"
#include "storage/json.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>

#define CACHE_BYTES (4 * (uint64_t)MIB)
#define FILES_MAX   16
/* Ids that go to the catalog in one checkpoint. */
#define IDS_AT_ONCE 1000000
/* A term beyond that is damage, not a daemon that was started so often. */
#define TERMS_MAX 1000000
#define WAL_BYTES (256 * (uint64_t)MIB)

/* ---- an index in memory */

static enum rc make_index(struct rebuild *rb, struct found *f)
{
    struct store *store = rb->store;
    struct index_meta meta = f->about.meta;
    struct slice *parts[] = {&meta.settings, &meta.mappings, &meta.aliases, &meta.extra};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i]->len == 0)
            *parts[i] = SLICE_LIT("{}");
    TRY(index_make(store, f->uuid, f->number, slice_of(f->name, f->name_len), &f->index));
    f->index->created_ms = f->created_ms;
    f->index->spec = f->about.spec;
    f->index->next_segment = f->next_segment;
    f->index->meta = meta_ref_make(&meta);
    if (f->index->meta == NULL)
        return RC_NOMEM;
    f->index->meta->meta.revision = 1;
    store->indices[store->index_count++] = index_retain(f->index);
    return RC_OK;
}

/* ---- R2: rows of the log become blocks */

static enum rc write_rows(struct rebuild *rb, struct found *f, const struct row *rows, size_t count,
                          struct err *err)
{
    struct buf record = {0};
    struct segment_writer *w = NULL;
    struct place place = {
        .first_seq = rows[0].seq, .last_seq = rows[count - 1].seq, .rows = (uint32_t)count};
    struct segment_entry entry = {
        .first_seq = place.first_seq, .last_seq = place.last_seq, .rows = place.rows};
    enum rc rc = block_pack(f->number, &f->index->spec, NULL, rows, count, &record, err);
    TRY_OUT(rc);
    TRY_OUT(checkpoint_segment(f->index, &w, err));
    TRY_OUT(segment_append(w, buf_slice(&record), &entry, &place.at, err));
    place.segment = segment_number(w);
    place.len = (uint32_t)record.len;
    for (size_t i = 0; i < count; i++)
        place.raw_bytes += (uint32_t)rows[i].doc.len;
    if (f->block_count == f->block_cap) {
        size_t cap = f->block_cap * 2 + 64;
        struct place *list = realloc(f->block, cap * sizeof *list);
        if (list == NULL) {
            rc = RC_NOMEM;
            goto out;
        }
        f->block = list;
        f->block_cap = cap;
    }
    f->block[f->block_count++] = place;
    rb->result.log_rows += count;
out:
    buf_done(&record);
    return rc;
}

static int by_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->first_seq < y->first_seq ? -1 : x->first_seq > y->first_seq;
}

/* Rows of one run between two blocks go together. */
static enum rc write_log_rows(struct rebuild *rb, struct found *f, struct err *err)
{
    size_t blocks = f->block_count, at = 0, kept = 0;
    struct row *rows = malloc((LIMIT_BLOCK_ROWS + 1) * sizeof *rows);
    enum rc rc = rows == NULL ? RC_NOMEM : RC_OK;
    for (size_t i = 0; i < f->row_count; i++) {
        if (f->row[i].wanted)
            f->row[kept++] = f->row[i];
        else
            free(f->row[i].bytes);
    }
    f->row_count = kept;
    for (size_t i = 0; rc == RC_OK && i < f->row_count;) {
        size_t n = 0, bytes = 0;
        while (at < blocks && f->block[at].last_seq < f->row[i].seq)
            at++;
        uint64_t end = at < blocks ? f->block[at].first_seq : UINT64_MAX;
        do {
            bytes += f->row[i].row.doc.len;
            rows[n++] = f->row[i++].row;
        } while (i < f->row_count && n < LIMIT_BLOCK_ROWS && f->row[i].seq < end &&
                 f->row[i].row.nonce == rows[0].nonce &&
                 bytes + f->row[i].row.doc.len <= index_block_target(f->index));
        rc = write_rows(rb, f, rows, n, err);
    }
    free(rows);
    if (rc == RC_OK)
        rc = checkpoint_finish_segment(f->index, err);
    if (f->block_count != blocks)
        qsort(f->block, f->block_count, sizeof *f->block, by_first);
    return rc;
}

/* ---- R3: what follows from the rows of an index */

/* Of a row with an id. The same two hashes are the same id: together they have 128 bits. */
struct id_row {
    uint64_t hash, other;
    uint64_t seq; /* twice, and one for a tombstone */
};

/* A made id that a client wrote to. */
struct replaced {
    uint64_t seq, nonce;
};

struct derive {
    struct rebuild *rb;
    struct found *f;
    struct id_row *id;
    size_t ids, ids_cap;
    uint64_t *made; /* pairs: runs of rows with made ids, first and last seq */
    size_t mades, mades_cap;
    struct replaced *replaced;
    size_t replaceds, replaceds_cap;
    uint8_t *dead; /* a bit for each seq; set, too, while no row of it has been seen */
    uint64_t next_seq;
    uint64_t rows, dead_rows;
};

static bool grow(void **list, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return true;
    size_t more = *cap == 0 ? 256 : *cap * 2;
    void *p = realloc(*list, more * size);
    if (p == NULL)
        return false;
    *list = p;
    *cap = more;
    return true;
}

static bool is_dead(const struct derive *d, uint64_t seq)
{
    return (d->dead[seq / 8] >> (seq % 8) & 1) != 0;
}

/* A row in a block. */
static void set_present(struct derive *d, uint64_t seq)
{
    d->dead[seq / 8] = (uint8_t)(d->dead[seq / 8] & ~(1u << (seq % 8)));
    d->rows++;
}

static void mark_dead(struct derive *d, uint64_t seq)
{
    d->dead_rows += !is_dead(d, seq);
    d->dead[seq / 8] = (uint8_t)(d->dead[seq / 8] | 1u << (seq % 8));
}

/* Terms count from 1; those of which no row is left get a nonce that no id has. */
static enum rc note_run(struct index *ix, const struct row *row, struct err *err)
{
    if (row->term == 0 || row->term > TERMS_MAX)
        return err_set(err, RC_CORRUPT, 0, "index %s: a row of term %u", ix->name, row->term);
    if (row->term > ix->run_count) {
        struct index_run *runs = realloc(ix->runs, row->term * sizeof *runs);
        if (runs == NULL)
            return RC_NOMEM;
        ix->runs = runs;
        for (size_t i = ix->run_count; i < row->term; i++) {
            store_random((uint8_t *)&runs[i].nonce, sizeof runs[i].nonce);
            runs[i].nonce >>= 8;
            runs[i].first_seq = UINT64_MAX; /* no row yet */
        }
        ix->run_count = row->term;
    }
    if (ix->runs[row->term - 1].first_seq == UINT64_MAX)
        ix->runs[row->term - 1].nonce = row->nonce;
    if (row->seq < ix->runs[row->term - 1].first_seq)
        ix->runs[row->term - 1].first_seq = row->seq;
    if (ix->runs[row->term - 1].nonce != row->nonce)
        return err_set(err, RC_CORRUPT, 0, "index %s: two runs of term %u", ix->name, row->term);
    return RC_OK;
}

static enum rc note_made(struct derive *d, uint64_t seq)
{
    if (d->mades != 0 && d->made[d->mades - 1] + 1 == seq) {
        d->made[d->mades - 1] = seq;
        return RC_OK;
    }
    if (!grow((void **)&d->made, &d->mades_cap, d->mades + 1, sizeof *d->made))
        return RC_NOMEM;
    d->made[d->mades++] = seq;
    d->made[d->mades++] = seq;
    return RC_OK;
}

static bool is_made(const struct derive *d, uint64_t seq)
{
    size_t lo = 0, hi = d->mades / 2;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (d->made[2 * mid + 1] < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->mades / 2 && d->made[2 * lo] <= seq;
}

static enum rc note_id(struct derive *d, const struct row *row)
{
    struct index *ix = d->f->index;
    struct replaced r;
    if (!grow((void **)&d->id, &d->ids_cap, d->ids, sizeof *d->id))
        return RC_NOMEM;
    d->id[d->ids++] = (struct id_row){
        index_hash(ix, row->id),
        XXH3_64bits_withSeed(row->id.ptr, row->id.len, ~get_u64(ix->uuid)),
        row->seq << 1 | (row->kind == ROW_TOMBSTONE),
    };
    ix->has_client_ids = true;
    if (!made_id_parse(row->id, &r.nonce, &r.seq))
        return RC_OK;
    if (!grow((void **)&d->replaced, &d->replaceds_cap, d->replaceds, sizeof *d->replaced))
        return RC_NOMEM;
    for (size_t i = 0; i < ix->run_count; i++) /* the run is older than what refers to it */
        if (ix->runs[i].nonce == r.nonce) {
            d->replaced[d->replaceds++] = r;
            break;
        }
    return RC_OK;
}

static enum rc note_row(struct derive *d, const struct row *row, struct err *err)
{
    set_present(d, row->seq);
    TRY(note_run(d->f->index, row, err));
    return row->kind == ROW_MADE ? note_made(d, row->seq) : note_id(d, row);
}

/* What the log has and no block. */
static enum rc note_log(struct derive *d, struct err *err)
{
    for (size_t i = 0; i < d->f->row_count; i++) {
        struct found_row *r = &d->f->row[i];
        if (!is_dead(d, r->seq))
            continue;
        TRY(note_run(d->f->index, &r->row, err));
        if (r->row.kind == ROW_MADE)
            r->wanted = !found_covered(d->f, r->seq);
        else
            TRY(note_id(d, &r->row));
    }
    return RC_OK;
}

static enum rc read_block(struct derive *d, const struct place *place, struct err *err)
{
    struct store *store = d->rb->store;
    struct found *f = d->f;
    struct block *block = NULL;
    uint8_t *record = malloc(place->len);
    if (record == NULL)
        return RC_NOMEM;
    enum rc rc = segment_read(store->files, f->number, f->dir_name, place->segment, place->at,
                              record, place->len, false, err);
    if (rc == RC_OK)
        rc = block_open(slice_of(record, place->len), f->number, place->first_seq, BLOCK_META, NULL,
                        &block, err);
    free(record);
    struct block_scratch scratch = {0};
    for (size_t i = 0; rc == RC_OK && i < block_rows(block); i++) {
        struct row row;
        rc = block_row_all(block, i, &scratch, &row, err);
        if (rc == RC_OK)
            rc = note_row(d, &row, err);
    }
    block_scratch_done(&scratch);
    block_close(block);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    const struct id_row *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->other != y->other)
        return x->other < y->other ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static struct found_row *log_row(const struct found *f, uint64_t seq)
{
    size_t lo = 0, hi = f->row_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->row[mid].seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < f->row_count && f->row[lo].seq == seq ? &f->row[lo] : NULL;
}

/* The newest row of an id. False: it was a tombstone that has been dropped since. */
static bool take_newest(struct derive *d, uint64_t seq)
{
    if (!is_dead(d, seq))
        return true;
    struct found_row *r = log_row(d->f, seq);
    r->wanted = !found_covered(d->f, seq);
    if (r->wanted)
        set_present(d, seq);
    return r->wanted;
}

/* Rows whose made ids clients have written to are dead, or not wanted. */
static void settle_made(struct derive *d)
{
    struct index *ix = d->f->index;
    for (size_t i = 0; i < d->replaceds; i++) {
        const struct replaced *r = &d->replaced[i];
        bool given_out = false;
        if (r->seq >= d->next_seq || !index_owns_made_locked(ix, r->nonce, r->seq, &given_out) ||
            !given_out)
            continue;
        struct found_row *in_log = log_row(d->f, r->seq);
        if (in_log != NULL && in_log->row.kind == ROW_MADE)
            in_log->wanted = false;
        if (is_made(d, r->seq))
            mark_dead(d, r->seq);
    }
    for (size_t i = 0; i < d->f->row_count; i++)
        if (d->f->row[i].row.kind == ROW_MADE && d->f->row[i].wanted)
            set_present(d, d->f->row[i].seq);
}

/* Runs of which no row is left were before the next one. */
static void settle_runs(struct index *ix)
{
    for (size_t i = ix->run_count; i-- > 1;)
        if (ix->runs[i].first_seq < ix->runs[i - 1].first_seq)
            ix->runs[i - 1].first_seq = ix->runs[i].first_seq;
}

/* The newest row of each id to the index' table; what is older is dead, tombstones are. */
static enum rc settle_ids(struct derive *d, struct err *err)
{
    struct index *ix = d->f->index;
    size_t waiting = 0;
    if (d->ids != 0)
        qsort(d->id, d->ids, sizeof *d->id, by_id);
    for (size_t i = 0; i < d->ids; i++) {
        const struct id_row *r = &d->id[i];
        bool newest = i + 1 == d->ids || r[1].hash != r->hash || r[1].other != r->other;
        bool tombstone = (r->seq & 1) != 0;
        bool there = newest && take_newest(d, r->seq >> 1);
        if (!newest || tombstone)
            mark_dead(d, r->seq >> 1);
        if (!there)
            continue;
        if (!idmap_reserve(&ix->ids, 1))
            return RC_NOMEM;
        idmap_set(&ix->ids, r->hash, r->seq >> 1, IDMAP_NONE, tombstone);
        if (++waiting == IDS_AT_ONCE) {
            TRY(checkpoint_run(d->rb->store, false, 0, err));
            waiting = 0;
        }
    }
    settle_made(d);
    return waiting == 0 ? RC_OK : checkpoint_run(d->rb->store, false, 0, err);
}

/* ---- writing the catalog */

struct filler {
    struct store *store;
    struct catalog_txn *txn;
    size_t keys;
};

static enum rc filler_commit(struct filler *fl, struct err *err)
{
    struct catalog_txn *txn = fl->txn;
    fl->txn = NULL;
    fl->keys = 0;
    return txn == NULL ? RC_OK : catalog_commit(txn, err);
}

static enum rc filler_room(struct filler *fl, struct err *err)
{
    if (fl->keys >= LIMIT_CATALOG_TXN_KEYS)
        TRY(filler_commit(fl, err));
    fl->keys++;
    return fl->txn != NULL ? RC_OK : catalog_begin(fl->store->catalog, &fl->txn, err);
}

static enum rc put_blocks(struct filler *fl, const struct found *f, struct err *err)
{
    for (size_t i = 0; i < f->block_count; i++) {
        TRY(filler_room(fl, err));
        TRY(catalog_put_block(fl->txn, f->number, &f->block[i], err));
    }
    return RC_OK;
}

static enum rc put_dead(struct filler *fl, const struct derive *d, struct err *err)
{
    uint64_t chunks = (d->next_seq + CATALOG_DEAD_SEQS - 1) / CATALOG_DEAD_SEQS;
    static const uint8_t none[CATALOG_DEAD_BYTES];
    for (uint64_t i = 0; i < chunks; i++) {
        const uint8_t *bits = d->dead + i * CATALOG_DEAD_BYTES;
        if (memcmp(bits, none, sizeof none) == 0)
            continue;
        TRY(filler_room(fl, err));
        TRY(catalog_put_dead(fl->txn, d->f->number, i, bits, err));
    }
    return RC_OK;
}

/* The dictionaries of its segments; the newest one goes on. */
static enum rc put_dicts(struct filler *fl, struct found *f, struct err *err)
{
    struct index *ix = f->index;
    for (size_t i = 0; i < f->dict_count; i++)
        if (dict_number(f->dict[i]) > ix->dict_current)
            ix->dict_current = dict_number(f->dict[i]);
    if (f->dict_next > ix->dict_next)
        ix->dict_next = f->dict_next;
    if (ix->dict_current != 0)
        ix->dict_judged.outcome = DICT_TRAINED;
    ix->dict_copy = f->copy; /* the index frees it */
    ix->dict_copies = f->copy_count;
    f->copy = NULL;
    return index_dict_carry(ix, fl->txn, err);
}

/* All that follows from its rows. */
static enum rc derive_index(struct derive *d, struct err *err)
{
    struct found *f = d->f;
    uint64_t end = f->block_count == 0 ? 0 : f->block[f->block_count - 1].last_seq + 1;
    if (f->row_count != 0 && f->row[f->row_count - 1].seq >= end)
        end = f->row[f->row_count - 1].seq + 1;
    d->dead = calloc((size_t)(end / CATALOG_DEAD_SEQS) + 1, CATALOG_DEAD_BYTES);
    if (d->dead == NULL)
        return err_set(err, RC_NOMEM, 0, "index %s: no memory for %llu rows", f->name,
                       (unsigned long long)end);
    memset(d->dead, 0xff, (size_t)(end / 8));
    d->dead[end / 8] = (uint8_t)((1u << (end % 8)) - 1);
    d->next_seq = end;
    for (size_t i = 0; i < f->block_count; i++)
        TRY(read_block(d, &f->block[i], err));
    TRY(note_log(d, err));
    settle_runs(f->index);
    f->index->next_seq = f->index->packed_seq = end;
    return settle_ids(d, err);
}

static enum rc fill_index(struct rebuild *rb, struct found *f, struct err *err)
{
    struct derive d = {.rb = rb, .f = f};
    struct filler fl = {.store = rb->store};
    enum rc rc = derive_index(&d, err);
    TRY_OUT(rc);
    TRY_OUT(write_log_rows(rb, f, err));
    TRY_OUT(put_blocks(&fl, f, err));
    TRY_OUT(put_dead(&fl, &d, err));
    TRY_OUT(filler_room(&fl, err));
    TRY_OUT(put_dicts(&fl, f, err));
    TRY_OUT(index_save(fl.txn, f->index, f->index->meta, err));
    TRY_OUT(index_save_state(fl.txn, f->index, d.next_seq, f->index->idruns, err));
    TRY_OUT(filler_commit(&fl, err));
    rb->result.indices++;
    rb->result.rows += d.rows;
    rb->result.docs += d.rows - d.dead_rows;
    rb->result.blocks += f->block_count;
    rebuild_say(rb, "index [%s]: %llu documents, %llu rows in %zu blocks, %zu of them from the log",
                f->name, (unsigned long long)(d.rows - d.dead_rows), (unsigned long long)d.rows,
                f->block_count, f->row_count);
out:
    catalog_abort(fl.txn);
    free(d.id);
    free(d.made);
    free(d.replaced);
    free(d.dead);
    return rc;
}

static enum rc put_blob(struct catalog_txn *txn, char kind, struct slice quoted, struct slice value,
                        struct err *err)
{
    struct buf name = {0};
    json_unquote(quoted, &name);
    enum rc rc = name.failed ? RC_NOMEM : RC_OK;
    if (rc == RC_OK && name.len != 0 && name.len < 500)
        rc = catalog_put(txn, kind, buf_slice(&name), value, err);
    buf_done(&name);
    return rc;
}

static enum rc put_blobs(struct rebuild *rb, struct catalog_txn *txn, struct err *err)
{
    struct slice key, name, kind;
    struct json_value names, value;
    if (rb->blobs.len == 0)
        return RC_OK;
    for (struct json_scan s = json_enter(json_root(rb->blobs)); json_member(&s, &key, &names);) {
        if (!json_plain(key, &kind) || kind.len != 1 || kind.ptr[0] < 'a' || kind.ptr[0] > 'z' ||
            names.type != JSON_OBJECT)
            continue;
        for (struct json_scan t = json_enter(names); json_member(&t, &name, &value);)
            TRY(put_blob(txn, (char)kind.ptr[0], name, value.text, err));
    }
    return RC_OK;
}

static enum rc fill_node(struct rebuild *rb, struct err *err)
{
    struct catalog_txn *txn = NULL;
    uint32_t next = 1;
    for (size_t i = 0; i < rb->count; i++)
        if (rb->found[i].number >= next)
            next = rb->found[i].number + 1;
    if (!rb->ids_known)
        store_random(rb->store->ids_raw, sizeof rb->store->ids_raw);
    enum rc rc = catalog_begin(rb->store->catalog, &txn, err);
    TRY_OUT(rc);
    TRY_OUT(store_save_node(txn, rb->store, &rb->log_end, err));
    TRY_OUT(store_save_next_index(txn, next, err));
    TRY_OUT(put_blobs(rb, txn, err));
    struct catalog_txn *whole = txn;
    txn = NULL;
    rc = catalog_commit(whole, err);
out:
    catalog_abort(txn);
    return rc;
}

/* ---- R4 */

static enum rc swap_catalogs(struct rebuild *rb, const char *fresh, struct err *err)
{
    char old[512], aside[560];
    struct stat st;
    snprintf(old, sizeof old, "%s/catalog", rb->store->path);
    for (unsigned n = 1;; n++) {
        snprintf(aside, sizeof aside, "%s.damaged-%u", old, n);
        if (lstat(aside, &st) != 0 && errno == ENOENT)
            break;
    }
    if (lstat(old, &st) == 0) {
        TRY(io_rename(old, aside, err));
        rebuild_say(rb, "the old catalog is %s now", aside);
    }
    TRY(io_rename(fresh, old, err));
    return io_sync_dir(rb->store->path, err);
}

static enum rc make_catalog(struct rebuild *rb, struct err *err)
{
    struct store *store = rb->store;
    char path[512];
    store->indices = calloc(rb->count + 1, sizeof(struct index *));
    if (store->indices == NULL)
        return RC_NOMEM;
    for (size_t i = 0; i < rb->count; i++)
        if (rb->found[i].used)
            TRY(make_index(rb, &rb->found[i]));
    snprintf(path, sizeof path, "%s/catalog.new", store->path);
    TRY(io_remove_dir(path, err));
    TRY(catalog_open(path, 0, &store->catalog, err));
    TRY(fill_node(rb, err));
    for (size_t i = 0; i < rb->count; i++)
        if (rb->found[i].used)
            TRY(fill_index(rb, &rb->found[i], err));
    TRY(metadata_write(store, err));
    catalog_close(store->catalog);
    store->catalog = NULL;
    return swap_catalogs(rb, path, err);
}

enum rc rebuild_run(const char *path_data, void (*say)(void *arg, const char *text), void *arg,
                    struct rebuild_result *out, struct err *err)
{
    struct store_options o = {
        .path_data = path_data, .wal_bytes = WAL_BYTES, .segment_bytes = UINT64_MAX};
    struct rebuild rb = {.say = say, .arg = arg};
    char path[512];
    enum rc rc = store_new(&o, &rb.store, err);
    TRY(rc);
    TRY_OUT(store_lock(rb.store, err));
    snprintf(path, sizeof path, "%s/indices", rb.store->path);
    TRY_OUT(segment_files_create(path, FILES_MAX, &rb.store->files, err));
    TRY_OUT(cache_create(CACHE_BYTES, &rb.store->cache, err));
    TRY_OUT(found_all(&rb, err));
    TRY_OUT(make_catalog(&rb, err));
    *out = rb.result;
out:
    if (rc == RC_NOT_FOUND)
        rc = err_set(err, RC_INVALID, 0, "%s is not a data directory", path_data);
    if (rc == RC_NOMEM)
        (void)err_set(err, rc, 0, "out of memory");
    found_done(&rb);
    store_free(rb.store);
    return rc;
}
