/* SPDX-License-Identifier: Apache-2.0 */
/* One index: its records in the catalog, its open and sealed blocks, the effects of rows on ids and
 * dead rows, and the tickets that say when a write may be answered. */
#include "config/limits.h"
#include "storage/engine.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <stdlib.h>

/* ---- text forms */

void base64url(const uint8_t *src, size_t len, char *dst)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t bits = 0, n = 0;
    uint32_t acc = 0;
    for (size_t i = 0; i < len; i++) {
        acc = acc << 8 | src[i];
        for (bits += 8; bits >= 6; bits -= 6)
            dst[n++] = digits[acc >> (bits - 6) & 63];
    }
    if (bits != 0)
        dst[n++] = digits[acc << (6 - bits) & 63];
    dst[n] = 0;
}

void index_dir(const struct index *index, char *dst, size_t cap)
{
    snprintf(dst, cap, "%s/indices/%s", index->store->path, index->dir_name);
}

/* ---- life */

enum rc index_make(struct store *store, const uint8_t uuid[16], uint32_t number, struct slice name,
                   struct index **out)
{
    struct index *ix = calloc(1, sizeof *ix);
    if (ix == NULL)
        return RC_NOMEM;
    assert(name.len < sizeof ix->name);
    atomic_init(&ix->refs, 1);
    ix->store = store;
    ix->number = number;
    memcpy(ix->uuid, uuid, 16);
    base64url(uuid, 16, ix->uuid_text);
    for (size_t i = 0; i < 16; i++)
        snprintf(ix->dir_name + 2 * i, 3, "%02x", uuid[i]);
    ix->name_len = name.len;
    memcpy(ix->name, name.ptr, name.len);
    pthread_mutex_init(&ix->write, NULL);
    pthread_mutex_init(&ix->table, NULL);
    pthread_cond_init(&ix->packed, NULL);
    ix->dict_next = 1;
    *out = ix;
    return RC_OK;
}

struct index *index_retain(struct index *index)
{
    atomic_fetch_add_explicit(&index->refs, 1, memory_order_relaxed);
    return index;
}

void index_release(struct index *index)
{
    if (index == NULL || atomic_fetch_sub_explicit(&index->refs, 1, memory_order_acq_rel) != 1)
        return;
    rows_release(index->open);
    for (size_t i = 0; i < index->pending_count; i++) {
        const struct pending *p = index->pending[i];
        atomic_fetch_sub(&index->store->pending_bytes,
                         p->state == PENDING_PACKED ? p->record.len : p->raw_bytes);
        pending_release(index->pending[i]);
    }
    free(index->pending);
    idmap_done(&index->ids);
    atomic_fetch_sub(&index->store->id_memory, index->id_memory);
    idrun_list_release(index->idruns);
    for (size_t i = 0; i < index->dict_count; i++)
        dict_release(index->dicts[i]);
    free(index->dicts);
    free(index->dict_copy);
    seqset_done(&index->dead);
    seqset_done(&index->dead_frozen);
    segment_writer_close(index->segment);
    if (index->meta != NULL)
        index_meta_release(&index->meta->meta);
    free(index->ticket_done);
    free(index->runs);
    pthread_cond_destroy(&index->packed);
    pthread_mutex_destroy(&index->table);
    pthread_mutex_destroy(&index->write);
    free(index);
}

const char *index_name(const struct index *index)
{
    return index->name;
}

size_t index_name_len(const struct index *index)
{
    return index->name_len;
}

const char *index_uuid(const struct index *index)
{
    return index->uuid_text;
}

uint64_t index_created_ms(const struct index *index)
{
    return index->created_ms;
}

const struct codec_spec *index_spec(const struct index *index)
{
    return &index->spec;
}

/* ---- metadata */

static struct slice meta_copy(uint8_t **at, struct slice s)
{
    struct slice copy = {*at, s.len};
    if (s.len != 0)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return copy;
}

struct meta_ref *meta_ref_make(const struct index_meta *meta)
{
    struct meta_ref *ref = malloc(sizeof *ref + meta->settings.len + meta->mappings.len +
                                  meta->aliases.len + meta->extra.len);
    if (ref == NULL)
        return NULL;
    uint8_t *at = ref->bytes;
    atomic_init(&ref->refs, 1);
    ref->meta.settings = meta_copy(&at, meta->settings);
    ref->meta.mappings = meta_copy(&at, meta->mappings);
    ref->meta.aliases = meta_copy(&at, meta->aliases);
    ref->meta.extra = meta_copy(&at, meta->extra);
    ref->meta.revision = meta->revision;
    return ref;
}

const struct index_meta *index_meta_acquire(struct index *index)
{
    pthread_mutex_lock(&index->table);
    struct meta_ref *ref = index->meta;
    atomic_fetch_add_explicit(&ref->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&index->table);
    return &ref->meta;
}

void index_meta_release(const struct index_meta *meta)
{
    /* meta is the first member of its meta_ref */
    struct meta_ref *ref = (struct meta_ref *)(uintptr_t)meta;
    if (atomic_fetch_sub_explicit(&ref->refs, 1, memory_order_acq_rel) == 1)
        free(ref);
}

/* ---- records in the catalog (docs/format.md section 4) */

/* 1 had no layout: plain. */
#define INDEX_RECORD_FORMAT 2
/* 1 had nothing behind the id runs, and before that nothing of dictionaries. */
#define STATE_FORMAT 2

static void put_block(struct buf *b, struct slice s)
{
    buf_put_varint(b, s.len);
    buf_put_slice(b, s);
}

enum rc index_save(struct catalog_txn *txn, struct index *index, struct meta_ref *meta,
                   struct err *err)
{
    uint8_t key[4];
    struct buf b = {0};
    put_be32(key, index->number);
    buf_put_byte(&b, INDEX_RECORD_FORMAT);
    buf_put(&b, index->uuid, 16);
    buf_put_varint(&b, index->created_ms);
    buf_put_byte(&b, (uint8_t)index->spec.codec);
    buf_put_byte(&b, (uint8_t)index->spec.level);
    buf_put_varint(&b, index->spec.block_bytes);
    buf_put_byte(&b, index->spec.dictionary);
    buf_put_byte(&b, (uint8_t)index->spec.layout);
    buf_put_varint(&b, index->spec.packed_bytes);
    buf_put_byte(&b, CATALOG_ID_INDEX_VERSION);
    put_block(&b, slice_of(index->name, index->name_len));
    buf_put_varint(&b, meta->meta.revision);
    put_block(&b, meta->meta.settings);
    put_block(&b, meta->meta.mappings);
    put_block(&b, meta->meta.aliases);
    put_block(&b, meta->meta.extra);
    enum rc rc =
        b.failed ? RC_NOMEM : catalog_put(txn, KIND_INDEX, slice_of(key, 4), buf_slice(&b), err);
    buf_done(&b);
    return rc;
}

enum rc index_save_state(struct catalog_txn *txn, struct index *index, uint64_t packed_seq,
                         const struct idrun_list *idruns, struct err *err)
{
    uint8_t key[4];
    struct buf b = {0};
    put_be32(key, index->number);
    pthread_mutex_lock(&index->table);
    buf_put_byte(&b, STATE_FORMAT);
    buf_put_varint(&b, packed_seq);
    buf_put_varint(&b, index->next_segment);
    buf_put_byte(&b, index->has_client_ids);
    buf_put_varint(&b, index->run_count);
    for (size_t i = 0; i < index->run_count; i++) {
        uint8_t nonce[8];
        put_u64(nonce, index->runs[i].nonce);
        buf_put(&b, nonce, 8);
        buf_put_varint(&b, index->runs[i].first_seq);
    }
    buf_put_varint(&b, index->dict_coming != 0 ? index->dict_coming : index->dict_current);
    buf_put_varint(&b, index->dict_next);
    buf_put_varint(&b, index->dict_since);
    uint32_t next = index->next_idrun;
    for (size_t i = 0; idruns != NULL && i < idruns->count; i++)
        next = idruns->run[i].number >= next ? idruns->run[i].number + 1 : next;
    buf_put_varint(&b, next);
    buf_put_varint(&b, idruns == NULL ? 0 : idruns->count);
    for (size_t i = 0; idruns != NULL && i < idruns->count; i++) {
        buf_put_varint(&b, idruns->run[i].number);
        buf_put_byte(&b, idruns->run[i].bits);
        buf_put_varint(&b, idruns->run[i].count);
    }
    buf_put_byte(&b, (uint8_t)index->dict_judged.outcome);
    buf_put_varint(&b, index->dict_judged.try_raw);
    buf_put_varint(&b, index->dict_from);
    buf_put_varint(&b, atomic_load(&index->packed_ratio));
    pthread_mutex_unlock(&index->table);
    enum rc rc =
        b.failed ? RC_NOMEM : catalog_put(txn, KIND_STATE, slice_of(key, 4), buf_slice(&b), err);
    buf_done(&b);
    return rc;
}

enum rc index_commit_state(struct index *index, struct err *err)
{
    struct catalog_txn *txn = NULL;
    TRY(catalog_begin(index->store->catalog, &txn, err));
    enum rc rc = index_save_state(txn, index, index->packed_seq, index->idruns, err);
    if (rc == RC_OK)
        return catalog_commit(txn, err);
    catalog_abort(txn);
    return rc;
}

static struct slice take_block(struct reader *r)
{
    return take_bytes(r, take_varint(r));
}

static uint8_t take_byte(struct reader *r)
{
    struct slice s = take_bytes(r, 1);
    return s.len == 1 ? s.ptr[0] : 0;
}

/* Of format 1 there are two: the older one has the id runs here, nothing of dictionaries. Read that
 * way, the newer one gives more runs than there are numbers below the next one. */
static bool is_oldest_state(struct reader r)
{
    uint64_t next = take_varint(&r), n = take_varint(&r);
    if (r.bad || n > next)
        return false;
    for (uint64_t i = 0; i < n && !r.bad; i++) {
        if (take_varint(&r) >= next)
            return false;
        (void)take_byte(&r);
        (void)take_varint(&r);
    }
    return !r.bad && r.p == r.end;
}

static void load_dicts(struct index *ix, struct reader *r, uint8_t format)
{
    if (format == 1 && is_oldest_state(*r))
        return;
    ix->dict_current = (uint32_t)take_varint(r);
    ix->dict_next = (uint32_t)take_varint(r);
    ix->dict_since = take_varint(r);
    if (format == 1 && ix->dict_current != 0)
        ix->dict_judged.outcome = DICT_TRAINED;
}

/* What was learnt of its documents. */
static void load_learnt(struct index *ix, struct reader *r)
{
    ix->dict_judged.outcome = (enum dict_outcome)take_byte(r);
    ix->dict_judged.try_raw = take_varint(r);
    ix->dict_from = (uint32_t)take_varint(r);
    atomic_store(&ix->packed_ratio, (unsigned)take_varint(r));
}

static enum rc load_idruns(struct index *ix, struct reader *r, struct err *err)
{
    ix->next_idrun = (uint32_t)take_varint(r);
    size_t n = (size_t)take_varint(r);
    if (r->bad || n > (size_t)(r->end - r->p) / 3)
        return err_set(err, RC_CORRUPT, 0, "index %s: state in the catalog; run stowctl rebuild",
                       ix->name);
    ix->idruns = malloc(sizeof *ix->idruns + n * sizeof(struct idrun));
    if (ix->idruns == NULL)
        return RC_NOMEM;
    atomic_init(&ix->idruns->refs, 1);
    ix->idruns->count = n;
    for (size_t i = 0; i < n; i++) {
        ix->idruns->run[i].number = (uint32_t)take_varint(r);
        ix->idruns->run[i].bits = take_byte(r);
        ix->idruns->run[i].count = take_varint(r);
    }
    return r->bad ? err_set(err, RC_CORRUPT, 0,
                            "index %s: state in the catalog; run stowctl rebuild", ix->name)
                  : RC_OK;
}

static enum rc load_state(struct index *ix, uint64_t *packed_seq_out, struct err *err)
{
    uint8_t key[4];
    struct buf b = {0};
    put_be32(key, ix->number);
    enum rc rc = catalog_get(ix->store->catalog, KIND_STATE, slice_of(key, 4), &b, err);
    if (rc != RC_OK)
        goto out;
    struct reader r = reader_of(buf_slice(&b));
    uint8_t format = take_byte(&r);
    *packed_seq_out = take_varint(&r);
    ix->next_segment = (uint32_t)take_varint(&r);
    ix->has_client_ids = take_byte(&r) != 0;
    size_t runs = (size_t)take_varint(&r);
    if (r.bad || format < 1 || format > STATE_FORMAT || runs > (size_t)(r.end - r.p) / 9) {
        rc = err_set(err, RC_CORRUPT, 0, "index %s: state of format %u in the catalog", ix->name,
                     format);
        goto out;
    }
    ix->runs = malloc((runs + 1) * sizeof *ix->runs);
    if (ix->runs == NULL) {
        rc = RC_NOMEM;
        goto out;
    }
    for (size_t i = 0; i < runs; i++) {
        struct slice nonce = take_bytes(&r, 8);
        ix->runs[i].nonce = r.bad ? 0 : get_u64(nonce.ptr);
        ix->runs[i].first_seq = take_varint(&r);
    }
    ix->run_count = runs;
    ix->next_seq = ix->packed_seq = *packed_seq_out;
    load_dicts(ix, &r, format);
    rc = load_idruns(ix, &r, err);
    if (rc == RC_OK && format > 1)
        load_learnt(ix, &r);
    if (rc == RC_OK && r.bad)
        rc = err_set(err, RC_CORRUPT, 0, "index %s: state in the catalog; run stowctl rebuild",
                     ix->name);
out:
    buf_done(&b);
    return rc;
}

enum rc index_load(struct store *store, struct slice key, struct slice value, struct index **out,
                   uint64_t *packed_seq_out, struct err *err)
{
    struct index *ix = NULL;
    struct reader r = reader_of(value);
    uint8_t format = take_byte(&r);
    struct slice uuid = take_bytes(&r, 16);
    uint64_t created = take_varint(&r);
    struct codec_spec spec = {.codec = (enum codec)take_byte(&r), .level = take_byte(&r)};
    spec.block_bytes = (uint32_t)take_varint(&r);
    spec.dictionary = take_byte(&r) != 0;
    if (format == INDEX_RECORD_FORMAT) {
        spec.layout = (enum block_layout)take_byte(&r);
        spec.packed_bytes = (uint32_t)take_varint(&r);
    }
    uint8_t id_index = take_byte(&r);
    struct slice name = take_block(&r);
    struct index_meta meta = {.revision = take_varint(&r)};
    meta.settings = take_block(&r);
    meta.mappings = take_block(&r);
    meta.aliases = take_block(&r);
    meta.extra = take_block(&r);
    if (r.bad || format < 1 || format > INDEX_RECORD_FORMAT || spec.layout > LAYOUT_COLUMNAR ||
        key.len != 4 || name.len == 0 || name.len > LIMIT_INDEX_NAME_BYTES ||
        id_index != CATALOG_ID_INDEX_VERSION)
        return err_set(err, RC_UNSUPPORTED, 0,
                       "index record of format %u, id index %u in the catalog", format, id_index);
    enum rc rc = index_make(store, uuid.ptr, get_be32(key.ptr), name, &ix);
    if (rc != RC_OK)
        return rc;
    ix->created_ms = created;
    ix->spec = spec;
    ix->meta = meta_ref_make(&meta);
    rc = ix->meta == NULL ? RC_NOMEM : load_state(ix, packed_seq_out, err);
    if (rc == RC_OK)
        *out = ix;
    else
        index_release(ix);
    return rc;
}

/* ---- runs */

enum rc index_begin_run_locked(struct index *index)
{
    if (index->run_begun)
        return RC_OK;
    struct index_run *runs = malloc((index->run_count + 1) * sizeof *runs);
    if (runs == NULL)
        return RC_NOMEM;
    if (index->run_count != 0)
        memcpy(runs, index->runs, index->run_count * sizeof *runs);
    uint64_t nonce = XXH3_64bits_withSeed(index->store->run_seed, sizeof index->store->run_seed,
                                          index->number) >>
                     8;
    runs[index->run_count] = (struct index_run){nonce, index->next_seq};
    pthread_mutex_lock(&index->table);
    free(index->runs);
    index->runs = runs;
    index->run_count++;
    pthread_mutex_unlock(&index->table);
    index->run_begun = true;
    return RC_OK;
}

uint64_t index_nonce_locked(const struct index *index)
{
    return index->runs[index->run_count - 1].nonce;
}

uint32_t index_term_locked(const struct index *index)
{
    return (uint32_t)index->run_count;
}

bool index_owns_made_locked(const struct index *index, uint64_t nonce, uint64_t seq,
                            bool *given_out)
{
    for (size_t i = index->run_count; i-- > 0;)
        if (index->runs[i].nonce == nonce) {
            bool last = i + 1 == index->run_count;
            *given_out =
                seq >= index->runs[i].first_seq && (last || seq < index->runs[i + 1].first_seq);
            return true;
        }
    return false;
}

/* ---- open and sealed blocks */

void pending_release(struct pending *pending)
{
    if (pending == NULL || atomic_fetch_sub_explicit(&pending->refs, 1, memory_order_acq_rel) != 1)
        return;
    rows_release(pending->rows);
    buf_done(&pending->record);
    free(pending);
}

/* Caller holds table. Takes over the caller's reference. */
enum rc index_add_pending_locked(struct index *index, struct pending *pending)
{
    if (index->pending_count == index->pending_cap) {
        size_t cap = index->pending_cap == 0 ? 4 : index->pending_cap * 2;
        struct pending **list = realloc(index->pending, cap * sizeof(struct pending *));
        if (list == NULL)
            return RC_NOMEM;
        index->pending = list;
        index->pending_cap = cap;
    }
    index->pending[index->pending_count++] = pending;
    atomic_fetch_add(&index->store->pending_bytes, pending->raw_bytes);
    return RC_OK;
}

enum rc index_seal_locked(struct index *index, struct pending **out)
{
    *out = NULL;
    if (index->open == NULL || rows_count(index->open) == 0)
        return RC_OK;
    struct pending *p = calloc(1, sizeof *p);
    if (p == NULL)
        return RC_NOMEM;
    atomic_init(&p->refs, 2); /* the list's and the caller's */
    p->first_seq = rows_first_seq(index->open);
    p->last_seq = rows_last_seq(index->open);
    p->rows_count = (uint32_t)rows_count(index->open);
    p->raw_bytes = (uint32_t)rows_raw_bytes(index->open);
    p->wal_at = index->open_at;
    pthread_mutex_lock(&index->table);
    enum rc rc = index_add_pending_locked(index, p);
    if (rc == RC_OK) {
        p->rows = index->open;
        index->open = NULL;
    }
    pthread_mutex_unlock(&index->table);
    if (rc != RC_OK) {
        free(p);
        return rc;
    }
    index->owner = 0;
    index->mixed = false;
    *out = p;
    return RC_OK;
}

/* Blocks that say little about how the next one will pack: shapes and templates are most of a small
 * one, so that the ratio of one that was sealed early is a multiple of a full one's. */
#define RATIO_BYTES_MIN (16 * KIB)

size_t index_block_target(const struct index *index)
{
    const struct codec_spec *spec = &index->spec;
    unsigned ratio = atomic_load_explicit(&index->packed_ratio, memory_order_relaxed);
    if (spec->packed_bytes == 0)
        return spec->block_bytes;
    size_t target = ratio == 0 ? 0 : (size_t)spec->packed_bytes * 1024 / ratio;
    if (target < DEFAULT_BLOCK_BYTES_MIN)
        target = DEFAULT_BLOCK_BYTES_MIN;
    return target < spec->block_bytes ? target : spec->block_bytes;
}

bool index_block_short(const struct index *index, uint64_t raw_bytes, uint64_t rows)
{
    return raw_bytes < index_block_target(index) / 2 && rows < LIMIT_BLOCK_ROWS / 2;
}

void index_note_ratio(struct index *index, struct slice record, size_t raw_bytes, size_t rows)
{
    struct block_header head;
    struct err ignored = {0};
    if (raw_bytes < RATIO_BYTES_MIN || index_block_short(index, raw_bytes, rows) ||
        block_header_read(record, &head, &ignored) != RC_OK)
        return;
    unsigned now = (unsigned)(((uint64_t)head.data_raw + head.aux_raw) * 1024 / raw_bytes) + 1;
    unsigned before = atomic_load_explicit(&index->packed_ratio, memory_order_relaxed);
    /* Two packers at once may lose one of their figures; it is an average. */
    atomic_store_explicit(&index->packed_ratio, before == 0 ? now : (3 * before + now + 2) / 4,
                          memory_order_relaxed);
}

static enum rc pack_rows(struct index *index, const struct rows *rows, struct buf *out,
                         struct err *err)
{
    size_t n = rows_count(rows);
    struct row *list = malloc(n * sizeof *list);
    struct fit *fits = malloc(n * sizeof *fits);
    if (list == NULL || fits == NULL) {
        free(list);
        free(fits);
        return RC_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        rows_get(rows, i, &list[i]);
        rows_fit(rows, i, &fits[i]);
        list[i].fit = &fits[i];
    }
    struct dict *dict = NULL;
    index_dict_for_packing(index, &dict);
    enum rc rc = block_pack(index->number, &index->spec, dict, list, n, out, err);
    dict_release(dict);
    if (rc == RC_OK)
        index_note_ratio(index, buf_slice(out), rows_raw_bytes(rows), n);
    free(list);
    free(fits);
    return rc;
}

enum rc pending_pack(struct index *index, struct pending *pending, struct err *err)
{
    struct buf record = {0};
    pthread_mutex_lock(&index->table);
    while (pending->state == PENDING_PACKING) /* by another thread: a moment */
        pthread_cond_wait(&index->packed, &index->table);
    bool mine = pending->state == PENDING_SEALED;
    if (mine)
        pending->state = PENDING_PACKING;
    pthread_mutex_unlock(&index->table);
    if (!mine)
        return RC_OK;
    enum rc rc = pack_rows(index, pending->rows, &record, err);
    /* Packing reserves for the worst case; what stays until the checkpoint is a tenth of it. */
    struct buf exact = {0};
    if (rc == RC_OK && buf_reserve(&exact, record.len)) {
        buf_put_slice(&exact, buf_slice(&record));
        buf_done(&record);
        record = exact;
    }
    struct rows *rows = NULL;
    bool follow = false;
    pthread_mutex_lock(&index->table);
    if (rc == RC_OK) {
        rows = pending->rows;
        pending->rows = NULL;
        pending->record = record;
        pending->state = PENDING_PACKED;
        follow = index_follow_due_locked(index);
        atomic_fetch_add(&index->store->pending_bytes, record.len);
        atomic_fetch_sub(&index->store->pending_bytes, pending->raw_bytes);
    } else {
        pending->state = PENDING_SEALED;
    }
    pthread_cond_broadcast(&index->packed);
    pthread_mutex_unlock(&index->table);
    rows_release(rows);
    if (follow) /* the sooner, the fewer blocks without */
        compact_poke(index->store);
    if (rc != RC_OK)
        buf_done(&record);
    return rc;
}

/* ---- effects */

uint64_t index_hash(const struct index *index, struct slice id)
{
    uint64_t seed = get_u64(index->uuid);
    return XXH3_64bits_withSeed(id.ptr, id.len, seed) & index->store->hash_mask; /* leading bits */
}

void index_count_ids_locked(struct index *index)
{
    /* No checkpoint takes those of a deleted one, and it goes with its last reference. */
    size_t now = atomic_load(&index->deleted)
                     ? 0
                     : idmap_memory(&index->ids) + seqset_memory(&index->dead) +
                           seqset_memory(&index->dead_frozen);
    atomic_fetch_add(&index->store->id_memory, now - index->id_memory); /* wraps when it is less */
    index->id_memory = now;
}

bool index_reserve_locked(struct index *index, size_t ids)
{
    /* Made rows add nothing to either table; an id may kill a row and be a tombstone. */
    bool room =
        ids == 0 || (idmap_reserve(&index->ids, ids) && seqset_reserve(&index->dead, 2 * ids));
    index_count_ids_locked(index);
    return room;
}

static void kill_row(struct index *index, uint64_t seq)
{
    if (seqset_has(&index->dead_frozen, seq) || !seqset_add(&index->dead, seq))
        return;
    index->dead_since++;
    snapshots_note_locked(index, seq);
}

void index_apply_locked(struct index *index, const struct row *row, uint64_t hash, uint64_t old,
                        bool old_live)
{
    index->rows_total++;
    index->raw_bytes += row->doc.len;
    if (old != SEQ_NONE && old > row->seq) {
        kill_row(index, row->seq); /* replay met a newer row of the id first */
        return;
    }
    if (old != SEQ_NONE && old != row->seq && old_live) /* a tombstone is dead already */
        kill_row(index, old);
    if (row->kind != ROW_MADE) {
        idmap_set(&index->ids, hash, row->seq, old == SEQ_NONE ? IDMAP_NONE : old,
                  row->kind == ROW_TOMBSTONE);
        index->has_client_ids = true;
    }
    if (row->kind == ROW_TOMBSTONE) {
        /* Not a document: counted as dead from the start. */
        if (seqset_add(&index->dead, row->seq))
            index->dead_since++;
    } else {
        index->docs++;
    }
    if (old_live)
        index->docs--;
}

/* ---- tickets */

bool index_ticket_locked(struct index *index, uint64_t *ticket_out)
{
    size_t used = (size_t)(index->ticket_next - index->ticket_low);
    if (used == index->ticket_cap) {
        size_t cap = index->ticket_cap == 0 ? TICKETS_MIN : index->ticket_cap * 2;
        bool *ring = calloc(cap, sizeof *ring);
        if (ring == NULL)
            return false;
        for (uint64_t t = index->ticket_low; t < index->ticket_next; t++)
            ring[t % cap] = index->ticket_done[t % index->ticket_cap];
        free(index->ticket_done);
        index->ticket_done = ring;
        index->ticket_cap = cap;
    }
    *ticket_out = index->ticket_next++;
    index->ticket_done[*ticket_out % index->ticket_cap] = false;
    return true;
}

void index_ticket_pass(struct index *index, uint64_t ticket)
{
    struct ticket_wait *ready = NULL;
    pthread_mutex_lock(&index->table);
    index->ticket_done[ticket % index->ticket_cap] = true;
    while (index->ticket_low < index->ticket_next &&
           index->ticket_done[index->ticket_low % index->ticket_cap])
        index->ticket_low++;
    for (struct ticket_wait **at = &index->waits; *at != NULL;) {
        struct ticket_wait *w = *at;
        if (w->need > index->ticket_low) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = ready;
        ready = w;
    }
    pthread_cond_broadcast(&index->packed);
    pthread_mutex_unlock(&index->table);
    while (ready != NULL) {
        struct ticket_wait *next = ready->next;
        ready->ready(ready);
        ready = next;
    }
}

bool index_ticket_wait(struct index *index, struct ticket_wait *wait)
{
    pthread_mutex_lock(&index->table);
    bool waits = wait->need > index->ticket_low;
    if (waits) {
        wait->next = index->waits;
        index->waits = wait;
    }
    pthread_mutex_unlock(&index->table);
    return waits;
}

/* ---- statistics */

void index_stats_get(struct index *index, struct index_stats *out)
{
    struct index_stats s = {0};
    uint64_t catalog_bytes = 0;
    struct err err = {0};
    /* A failure here shows in gets; statistics then say 0. */
    if (catalog_index_bytes(index->store->catalog, index->number, &catalog_bytes, &err) != RC_OK)
        catalog_bytes = 0;
    pthread_mutex_lock(&index->write);
    s.next_seq = index->next_seq;
    pthread_mutex_lock(&index->table);
    s.docs = index->docs;
    s.deleted = index->rows_total - index->docs;
    s.raw_bytes = index->raw_bytes;
    s.block_raw_bytes = index->block_raw_bytes;
    s.block_bytes = index->block_bytes;
    s.blocks = index->blocks;
    s.disk_bytes = index->disk_bytes;
    s.segments = index->segments;
    s.dictionary = index->dict_current;
    s.dictionary_bytes = index->dict_bytes;
    s.dictionary_outcome = index->dict_judged.outcome;
    s.catalog_bytes = catalog_bytes;
    s.primary_term = index->run_begun ? index->run_count : index->run_count + 1;
    for (size_t i = 0; index->idruns != NULL && i < index->idruns->count; i++)
        s.ids += index->idruns->run[i].count;
    s.id_runs = index->idruns == NULL ? 0 : index->idruns->count;
    s.memory_bytes = sizeof *index + index->id_memory + snapshots_memory_locked(index) +
                     (index->open == NULL ? 0 : rows_memory(index->open));
    for (size_t i = 0; i < index->pending_count; i++) {
        const struct pending *p = index->pending[i];
        s.memory_bytes += p->rows != NULL ? rows_memory(p->rows) : p->record.cap;
        if (p->state == PENDING_PACKED) {
            s.blocks++;
            s.block_bytes += p->record.len;
            s.block_raw_bytes += p->raw_bytes;
        }
    }
    pthread_mutex_unlock(&index->table);
    pthread_mutex_unlock(&index->write);
    s.indexed = atomic_load(&index->indexed);
    s.index_failed = atomic_load(&index->index_failed);
    s.deletes = atomic_load(&index->deletes);
    s.gets = atomic_load(&index->gets);
    s.ids_flushed_bytes = atomic_load(&index->ids_flushed_bytes);
    s.ids_merged_bytes = atomic_load(&index->ids_merged_bytes);
    s.get_missing = atomic_load(&index->get_missing);
    s.scrubbed_bytes = atomic_load(&index->scrub.bytes);
    s.scrub_passes = atomic_load(&index->scrub.passes);
    s.scrub_passed_s = atomic_load(&index->scrub.passed_s);
    s.scrub_damaged = atomic_load(&index->scrub.damaged);
    *out = s;
}
