/* SPDX-License-Identifier: Apache-2.0 */
/* The data directory: opening and closing it, the table of indices by name, and what the API room
 * keeps in the catalog. Order of effects on disk: a directory before the catalog names it, the name
 * out of the catalog before files go (S6). */
#include "config/limits.h"
#include "storage/engine.h"
#include "storage/metadata.h"
#include "storage/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Segment files open for reading, over all indices. */
#define FILES_MAX 256
/* A catalog of this size and more is copied without its free pages at start when they are half of
 * it: LMDB never gives them back. */
#define SHRINK_FROM (1 * MIB)
/* A stop seals and carries over for at most so long; the log has the rest. */
#define CLOSE_MS          6000
#define ID_MEMORY_DEFAULT (64 * MIB)

/* ---- small things */

uint64_t mono_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000 + 1;
}

static uint64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void store_event(struct store *store, int severity, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (store->o.event != NULL)
        store->o.event(store->o.arg, severity, text);
}

void store_fail(struct store *store, const char *text)
{
    if (!atomic_exchange(&store->failed, true) && store->o.fatal != NULL)
        store->o.fatal(store->o.arg, text);
}

void store_check_catalog(struct store *store, const struct err *err)
{
    if (err->rc != RC_OK && err->os_errno == CATALOG_LOST)
        store_fail(store, err->msg);
}

void store_dirty(struct store *store)
{
    pthread_mutex_lock(&store->wake);
    if (store->dirty_since_ms == 0)
        store->dirty_since_ms = mono_ms();
    pthread_mutex_unlock(&store->wake);
}

void store_random(uint8_t *dst, size_t n)
{
    /* Up to 256 bytes never come short (getrandom(2)). */
    ssize_t got = getrandom(dst, n, 0);
    assert(got == (ssize_t)n);
}

static void log_failed(void *arg, const struct err *err)
{
    store_fail(arg, err->msg);
}

/* ---- the node's own value */

static const char node_name[] = "node";

enum rc store_save_node(struct catalog_txn *txn, struct store *store, const struct wal_start *start,
                        struct err *err)
{
    uint8_t v[1 + 16 + 16 + 4 * 8 + 4];
    v[0] = 1;
    memcpy(v + 1, store->ids_raw, 32);
    put_u64(v + 33, start->run);
    put_u64(v + 41, start->batch);
    put_u64(v + 49, start->position);
    put_u64(v + 57, start->file_bytes);
    put_u32(v + 65, start->file_count);
    return catalog_put(txn, KIND_NODE, SLICE_LIT(node_name), slice_of(v, sizeof v), err);
}

static enum rc commit_node(struct store *store, const struct wal_start *start, struct err *err)
{
    struct catalog_txn *txn = NULL;
    TRY(catalog_begin(store->catalog, &txn, err));
    enum rc rc = store_save_node(txn, store, start, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    return catalog_commit(txn, err);
}

static void count_name(const char *name, void *arg)
{
    (void)name;
    ++*(size_t *)arg;
}

/* Without a catalog the segments are not orphans: the catalog is lost. */
static enum rc check_new(struct store *store, struct err *err)
{
    char path[512];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/indices", store->path);
    TRY(io_list(path, count_name, &n, err));
    return n == 0 ? RC_OK
                  : err_set(err, RC_CORRUPT, 0,
                            "catalog: empty, but %s is not; run stowctl rebuild", path);
}

enum rc store_load_node(struct store *store, struct wal_start *start, struct err *err)
{
    struct buf b = {0};
    enum rc rc = catalog_get(store->catalog, KIND_NODE, SLICE_LIT(node_name), &b, err);
    if (rc == RC_OK && (b.len != 69 || b.ptr[0] != 1)) {
        rc = err_set(err, RC_UNSUPPORTED, 0,
                     "catalog: node value of format %u, written by a later "
                     "release?",
                     b.len == 0 ? 0 : b.ptr[0]);
    } else if (rc == RC_OK) {
        memcpy(store->ids_raw, b.ptr + 1, 32);
        *start = (struct wal_start){get_u64(b.ptr + 33), get_u64(b.ptr + 41), get_u64(b.ptr + 49),
                                    get_u64(b.ptr + 57), get_u32(b.ptr + 65)};
    }
    buf_done(&b);
    return rc;
}

static enum rc load_or_make_node(struct store *store, struct wal_start *start, struct err *err)
{
    enum rc rc = store_load_node(store, start, err);
    if (rc == RC_NOT_FOUND && (rc = check_new(store, err)) == RC_OK) {
        store_random(store->ids_raw, sizeof store->ids_raw);
        wal_geometry(store->o.wal_bytes, start);
        start->run = 1;
        start->batch = 1;
        start->position = 0;
        rc = commit_node(store, start, err);
    }
    base64url(store->ids_raw, 16, store->cluster_uuid);
    base64url(store->ids_raw + 16, 16, store->node_id);
    return rc;
}

/* ---- life */

enum rc store_lock(struct store *store, struct err *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lock", store->path);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (store->lock_fd < 0)
        return err_set(err, RC_IO, errno, "cannot open %s: %s", path, strerror(errno));
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, RC_BUSY, errno, "%s is in use by another process", store->path);
    return RC_OK;
}

static enum rc make_directories(struct store *store, struct err *err)
{
    static const char *const names[] = {"wal", "catalog", "indices"};
    char path[512];
    TRY(io_mkdir(store->path, err));
    TRY(store_lock(store, err));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", store->path, names[i]);
        TRY(io_mkdir(path, err));
    }
    return io_sync_dir(store->path, err);
}

/* Put a copy without the free pages in the catalog's place. The old file is there until the rename.
 */
static enum rc shrink_catalog(struct store *store, const char *dir, struct err *err)
{
    char copy[512], from[560], to[560];
    struct err why = {0};
    snprintf(copy, sizeof copy, "%s/catalog.new", store->path);
    snprintf(from, sizeof from, "%s/data.mdb", copy);
    snprintf(to, sizeof to, "%s/data.mdb", dir);
    enum rc rc = io_remove_dir(copy, &why); /* of a start that did not get far */
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = catalog_copy(store->catalog, copy, &why);
    if (rc != RC_OK) { /* no space, say: it works as it is */
        store_event(store, 1, "the catalog stays as large as it is: %s", why.msg);
        return RC_OK;
    }
    catalog_close(store->catalog);
    store->catalog = NULL;
    TRY(io_rename(from, to, err));
    TRY(io_sync_dir(dir, err));
    TRY(io_remove_dir(copy, err));
    return catalog_open(dir, store->o.catalog_map_bytes, &store->catalog, err);
}

/* Nobody else may have the old file open then: the two would share LMDB's lock file. Whoever reads
 * beside the daemon (backup.c) holds a shared lock on it, and waits for this one. */
static enum rc shrink_alone(struct store *store, const char *dir, struct err *err)
{
    char path[560];
    snprintf(path, sizeof path, "%s/data.mdb", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum rc rc = RC_OK;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        rc = shrink_catalog(store, dir, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

static enum rc open_catalog(struct store *store, struct err *err)
{
    char path[512];
    uint64_t used, file, map;
    snprintf(path, sizeof path, "%s/catalog", store->path);
    TRY(catalog_open(path, store->o.catalog_map_bytes, &store->catalog, err));
    catalog_space(store->catalog, &used, &file, &map);
    return file >= SHRINK_FROM && used < file / 2 ? shrink_alone(store, path, err) : RC_OK;
}

static enum rc open_parts(struct store *store, struct wal_start *start, struct err *err)
{
    char path[512];
    TRY(open_catalog(store, err));
    TRY(cache_create(store->o.cache_bytes, &store->cache, err));
    store->shapes = shapes_create();
    if (store->shapes == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory for shapes");
    snprintf(path, sizeof path, "%s/indices", store->path);
    TRY(segment_files_create(path, FILES_MAX, &store->files, err));
    TRY(load_or_make_node(store, start, err));
    return recover_store(store, start, err);
}

/* A new run: what it writes to the log is told from everything older by its number. */
static enum rc begin_run(struct store *store, struct wal_start *start, struct err *err)
{
    char path[512];
    struct wal_start geometry;
    wal_geometry(store->o.wal_bytes, &geometry);
    start->run++;
    start->batch = 1;
    start->file_bytes = geometry.file_bytes;
    start->file_count = geometry.file_count;
    store->run = start->run;
    store_random(store->run_seed, sizeof store->run_seed);
    TRY(commit_node(store, start, err));
    snprintf(path, sizeof path, "%s/wal", store->path);
    struct wal_options o = {path, log_failed, store};
    return wal_open(&o, start, &store->wal, err);
}

static enum rc start_threads(struct store *store, struct err *err)
{
    int no = pthread_create(&store->checkpoint_thread, NULL, checkpoint_main, store);
    if (no == 0) {
        no = pthread_create(&store->compact_thread, NULL, compact_main, store);
        if (no != 0) {
            pthread_mutex_lock(&store->wake);
            store->stopping = true;
            pthread_cond_signal(&store->wake_checkpoint);
            pthread_mutex_unlock(&store->wake);
            pthread_join(store->checkpoint_thread, NULL);
        }
    }
    store->threads_started = no == 0;
    return no == 0 ? RC_OK : err_set(err, RC_NOMEM, no, "cannot start a thread");
}

static void stop_threads(struct store *store)
{
    if (!store->threads_started)
        return;
    pthread_mutex_lock(&store->wake);
    store->stopping = true;
    pthread_cond_broadcast(&store->wake_checkpoint);
    pthread_cond_broadcast(&store->wake_compact);
    pthread_mutex_unlock(&store->wake);
    pthread_join(store->checkpoint_thread, NULL);
    pthread_join(store->compact_thread, NULL);
}

void store_free(struct store *store)
{
    scrub_stop(store);
    for (size_t i = 0; i < store->index_count; i++)
        index_release(store->indices[i]);
    free(store->indices);
    if (store->wal != NULL)
        wal_close(store->wal);
    if (store->files != NULL)
        segment_files_destroy(store->files);
    if (store->cache != NULL)
        cache_destroy(store->cache);
    shapes_destroy(store->shapes);
    if (store->catalog != NULL)
        catalog_close(store->catalog);
    while (store->drops != NULL) {
        struct drop *d = store->drops;
        store->drops = d->next;
        free(d);
    }
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    pthread_cond_destroy(&store->wake_checkpoint);
    pthread_cond_destroy(&store->wake_compact);
    pthread_mutex_destroy(&store->wake);
    pthread_mutex_destroy(&store->layout);
    pthread_mutex_destroy(&store->names);
    pthread_mutex_destroy(&store->metadata);
    free(store);
}

enum rc store_new(const struct store_options *options, struct store **out, struct err *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory for the store");
    store->o = *options;
    if (store->o.id_memory_bytes == 0)
        store->o.id_memory_bytes = ID_MEMORY_DEFAULT;
    store->lock_fd = -1;
    store->hash_mask =
        options->test_hash_bits == 0 ? UINT64_MAX : ~(UINT64_MAX >> options->test_hash_bits);
    pthread_mutex_init(&store->names, NULL);
    pthread_mutex_init(&store->metadata, NULL);
    pthread_mutex_init(&store->layout, NULL);
    pthread_mutex_init(&store->wake, NULL);
    pthread_cond_init(&store->wake_checkpoint, NULL);
    pthread_cond_init(&store->wake_compact, NULL);
    snprintf(store->path, sizeof store->path, "%s", options->path_data);
    if (strlen(options->path_data) >= sizeof store->path) {
        store_free(store);
        return err_set(err, RC_INVALID, 0, "path.data is longer than %zu bytes",
                       sizeof store->path - 1);
    }
    *out = store;
    return RC_OK;
}

enum rc store_open(const struct store_options *options, struct store **out, struct err *err)
{
    struct store *store = NULL;
    struct wal_start start = {0};
    enum rc rc = store_new(options, &store, err);
    TRY(rc);
    TRY_OUT(make_directories(store, err));
    TRY_OUT(open_parts(store, &start, err));
    TRY_OUT(begin_run(store, &start, err));
    metadata_changed(store); /* what a crash kept from the file */
    TRY_OUT(scrub_start(store, err));
    TRY_OUT(start_threads(store, err));
    *out = store;
    store = NULL;
out:
    if (store != NULL)
        store_free(store);
    return rc;
}

void store_close(struct store *store)
{
    struct err err = {0};
    scrub_stop(store);
    stop_threads(store);
    while (atomic_load(&store->packs) != 0) /* blocks that workers are still packing */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (!atomic_load(&store->failed) &&
        checkpoint_run(store, true, mono_ms() + CLOSE_MS, &err) != RC_OK)
        store_event(store, 1, "the last checkpoint failed, the log has the rest: %s", err.msg);
    metadata_tend(store, true);
    store_free(store);
}

const char *store_cluster_uuid(const struct store *store)
{
    return store->cluster_uuid;
}

struct shapes *store_shapes(struct store *store)
{
    return store->shapes;
}

const char *store_node_id(const struct store *store)
{
    return store->node_id;
}

/* ---- metadata blobs */

enum rc store_meta_put(struct store *store, char kind, struct slice name, struct slice value,
                       struct err *err)
{
    struct catalog_txn *txn = NULL;
    assert(kind >= 'a' && kind <= 'z');
    TRY(catalog_begin(store->catalog, &txn, err));
    enum rc rc = catalog_put(txn, kind, name, value, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    TRY(catalog_commit(txn, err));
    metadata_changed(store);
    metadata_tend(store, true);
    return RC_OK;
}

enum rc store_meta_delete(struct store *store, char kind, struct slice name, struct err *err)
{
    struct catalog_txn *txn = NULL;
    TRY(catalog_begin(store->catalog, &txn, err));
    enum rc rc = catalog_delete(txn, kind, name, err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    TRY(catalog_commit(txn, err));
    metadata_changed(store);
    metadata_tend(store, true);
    return RC_OK;
}

enum rc store_meta_get(struct store *store, char kind, struct slice name, struct buf *out,
                       struct err *err)
{
    return catalog_get(store->catalog, kind, name, out, err);
}

enum rc store_meta_each(struct store *store, char kind,
                        enum rc (*fn)(struct slice name, struct slice value, void *arg), void *arg,
                        struct err *err)
{
    return catalog_each(store->catalog, kind, fn, arg, err);
}

/* ---- the table of indices */

/* Position of a name, or where it would stand. Caller holds names. */
static size_t name_at(const struct store *store, struct slice name, bool *found_out)
{
    size_t lo = 0, hi = store->index_count;
    *found_out = false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct index *ix = store->indices[mid];
        int c = slice_cmp(slice_of(ix->name, ix->name_len), name);
        if (c == 0) {
            *found_out = true;
            return mid;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum rc store_index_acquire(struct store *store, struct slice name, struct index **out)
{
    bool found;
    pthread_mutex_lock(&store->names);
    size_t at = name_at(store, name, &found);
    if (found)
        *out = index_retain(store->indices[at]);
    pthread_mutex_unlock(&store->names);
    return found ? RC_OK : RC_NOT_FOUND;
}

enum rc store_all(struct store *store, struct index ***list_out, size_t *count_out)
{
    pthread_mutex_lock(&store->names);
    size_t n = store->index_count;
    struct index **list = malloc((n + 1) * sizeof(struct index *));
    for (size_t i = 0; list != NULL && i < n; i++)
        list[i] = index_retain(store->indices[i]);
    pthread_mutex_unlock(&store->names);
    if (list == NULL)
        return RC_NOMEM;
    *list_out = list;
    *count_out = n;
    return RC_OK;
}

enum rc store_index_list(struct store *store, struct index ***list_out, size_t *count_out,
                         struct err *err)
{
    enum rc rc = store_all(store, list_out, count_out);
    return rc == RC_OK ? rc : err_set(err, rc, 0, "no memory for the list of indices");
}

static const char next_index_name[] = "next_index";

enum rc store_save_next_index(struct catalog_txn *txn, uint32_t number, struct err *err)
{
    uint8_t v[4];
    put_u32(v, number);
    return catalog_put(txn, KIND_NODE, SLICE_LIT(next_index_name), slice_of(v, sizeof v), err);
}

static enum rc next_number(struct store *store, struct catalog_txn *txn, uint32_t *out,
                           struct err *err)
{
    struct buf b = {0};
    enum rc rc = catalog_get(store->catalog, KIND_NODE, SLICE_LIT(next_index_name), &b, err);
    *out = rc == RC_OK && b.len == 4 ? get_u32(b.ptr) : 1;
    buf_done(&b);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    return store_save_next_index(txn, *out + 1, err);
}

/* Directory, then catalog. Caller holds names. */
static enum rc create_on_disk(struct store *store, const struct index_create *create,
                              struct index **out, struct err *err)
{
    struct catalog_txn *txn = NULL;
    struct index *ix = NULL;
    uint8_t uuid[16];
    uint32_t number = 0;
    char dir[512];
    bool named = false; /* the catalog may name it */
    store_random(uuid, sizeof uuid);
    enum rc rc = catalog_begin(store->catalog, &txn, err);
    TRY_OUT(rc);
    TRY_OUT(next_number(store, txn, &number, err));
    TRY_OUT(index_make(store, uuid, number, create->name, &ix));
    ix->created_ms = wall_ms();
    ix->spec = create->spec;
    if (create->predecessor != NULL)
        index_follow(ix, create->predecessor);
    ix->meta = meta_ref_make(&create->meta);
    if (ix->meta == NULL) {
        rc = err_set(err, RC_NOMEM, 0, "no memory for an index");
        goto out;
    }
    ix->meta->meta.revision = 1;
    index_dir(ix, dir, sizeof dir);
    TRY_OUT(io_mkdir(dir, err));
    snprintf(dir, sizeof dir, "%s/indices", store->path);
    TRY_OUT(io_sync_dir(dir, err));
    TRY_OUT(index_save(txn, ix, ix->meta, err));
    TRY_OUT(index_save_state(txn, ix, 0, NULL, err));
    struct catalog_txn *whole = txn;
    txn = NULL;
    rc = catalog_commit(whole, err);
    named = rc != RC_FULL;
    TRY_OUT(rc);
    *out = ix;
    ix = NULL;
out:
    catalog_abort(txn);
    if (ix != NULL && !named) {
        struct err ignored = {0};
        index_dir(ix, dir, sizeof dir);
        (void)!io_remove_dir(dir, &ignored);
    }
    if (ix != NULL)
        index_release(ix);
    return rc;
}

enum rc store_index_create(struct store *store, const struct index_create *create,
                           struct index **out, struct err *err)
{
    struct index *ix = NULL;
    bool found;
    enum rc rc = RC_OK;
    pthread_mutex_lock(&store->names);
    size_t at = name_at(store, create->name, &found);
    if (found)
        rc = err_set(err, RC_EXISTS, 0, "index [%.*s/%s] already exists", SLICE_FMT(create->name),
                     store->indices[at]->uuid_text);
    if (rc == RC_OK && store->index_count == store->index_cap) {
        size_t cap = store->index_cap < 16 ? 16 : store->index_cap * 2;
        struct index **list = realloc(store->indices, cap * sizeof(struct index *));
        if (list == NULL) {
            rc = err_set(err, RC_NOMEM, 0, "no memory for an index");
        } else {
            store->indices = list;
            store->index_cap = cap;
        }
    }
    if (rc == RC_OK)
        rc = create_on_disk(store, create, &ix, err);
    if (rc == RC_OK) {
        ix->scrub.due_ms = mono_ms() + store->o.scrub_interval_ms;
        memmove(store->indices + at + 1, store->indices + at,
                (store->index_count - at) * sizeof(struct index *));
        store->indices[at] = ix;
        store->index_count++;
        metadata_changed(store);
        if (out != NULL)
            *out = index_retain(ix);
    }
    pthread_mutex_unlock(&store->names);
    return rc;
}

static enum rc delete_in_catalog(struct store *store, const struct index *index, struct err *err)
{
    struct catalog_txn *txn = NULL;
    uint8_t key[4];
    put_be32(key, index->number);
    TRY(catalog_begin_removal(store->catalog, &txn, err));
    enum rc rc = catalog_delete(txn, KIND_INDEX, slice_of(key, 4), err);
    if (rc == RC_OK)
        rc = catalog_put(txn, KIND_DROP, slice_of(key, 4), slice_str(index->dir_name), err);
    if (rc != RC_OK) {
        catalog_abort(txn);
        return rc;
    }
    return catalog_commit(txn, err);
}

enum rc store_index_delete(struct store *store, struct index *index, struct err *err)
{
    bool found;
    struct drop *drop = calloc(1, sizeof *drop);
    if (drop == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory to delete an index");
    pthread_mutex_lock(&store->names);
    size_t at = name_at(store, slice_of(index->name, index->name_len), &found);
    enum rc rc = found && store->indices[at] == index ? RC_OK : RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = delete_in_catalog(store, index, err);
    if (rc == RC_OK) {
        atomic_store(&index->deleted, true);
        pthread_mutex_lock(&index->table);
        index_count_ids_locked(index);
        pthread_mutex_unlock(&index->table);
        metadata_changed(store);
        memmove(store->indices + at, store->indices + at + 1,
                (store->index_count - at - 1) * sizeof(struct index *));
        store->index_count--;
    }
    pthread_mutex_unlock(&store->names);
    if (rc != RC_OK) {
        free(drop);
        return rc;
    }
    drop->index_no = index->number;
    memcpy(drop->dir_name, index->dir_name, sizeof drop->dir_name);
    pthread_mutex_lock(&store->wake);
    drop->next = store->drops;
    store->drops = drop;
    store->compact_now = true;
    pthread_cond_signal(&store->wake_compact);
    pthread_mutex_unlock(&store->wake);
    index_release(index); /* the table's reference */
    return RC_OK;
}

enum rc store_index_set_meta(struct store *store, struct index *index,
                             const struct index_meta *meta, uint64_t revision, struct err *err)
{
    struct catalog_txn *txn = NULL;
    enum rc rc = RC_OK;
    struct meta_ref *next = meta_ref_make(meta);
    if (next == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory for the metadata of an index");
    next->meta.revision = revision + 1;
    pthread_mutex_lock(&store->names); /* one change at a time, none of a deleted index */
    if (atomic_load(&index->deleted))
        rc = RC_NOT_FOUND;
    else if (index->meta->meta.revision != revision)
        rc = RC_CONFLICT;
    if (rc == RC_OK)
        rc = catalog_begin(store->catalog, &txn, err);
    if (rc == RC_OK) {
        rc = index_save(txn, index, next, err);
        if (rc == RC_OK)
            rc = catalog_commit(txn, err);
        else
            catalog_abort(txn);
    }
    if (rc == RC_OK) {
        pthread_mutex_lock(&index->table);
        struct meta_ref *old = index->meta;
        index->meta = next;
        next = old;
        pthread_mutex_unlock(&index->table);
        metadata_changed(store);
    }
    pthread_mutex_unlock(&store->names);
    index_meta_release(&next->meta);
    return rc;
}

/* ---- flush and merge */

static void request_flush(struct store *store, struct index *index, bool merge,
                          void (*done)(void *arg, enum rc rc, const struct err *err), void *arg)
{
    struct flush_request *f = calloc(1, sizeof *f);
    if (f == NULL) {
        struct err err = {0};
        err_set(&err, RC_NOMEM, 0, "no memory for a flush");
        done(arg, RC_NOMEM, &err);
        return;
    }
    f->index = index;
    f->merge = merge;
    f->done = done;
    f->arg = arg;
    pthread_mutex_lock(&store->wake);
    f->next = store->flushes;
    store->flushes = f;
    pthread_cond_signal(&store->wake_checkpoint);
    pthread_mutex_unlock(&store->wake);
}

void store_flush(struct store *store, struct index *index,
                 void (*done)(void *arg, enum rc rc, const struct err *err), void *arg)
{
    request_flush(store, index, false, done, arg);
}

void store_merge(struct store *store, struct index *index,
                 void (*done)(void *arg, enum rc rc, const struct err *err), void *arg)
{
    request_flush(store, index, true, done, arg);
}

/* ---- statistics */

void store_stats_get(struct store *store, struct store_stats *out)
{
    struct wal_stats ws;
    struct cache_stats cs;
    (void)store_space_ok(store);
    wal_stats(store->wal, &ws);
    cache_stats(store->cache, &cs);
    *out = (struct store_stats){
        .wal_capacity = ws.capacity,
        .wal_used = ws.used,
        .wal_batches = ws.batches,
        .wal_bytes = ws.bytes_written,
        .wal_sync_ns = ws.sync_ns,
        .wal_commits = ws.commits,
        .cache_hits = cs.hits,
        .cache_misses = cs.misses,
        .cache_evictions = cs.evictions,
        .cache_bytes = cs.bytes,
        .cache_budget = cs.budget,
        .disk_free = atomic_load(&store->space_free),
        .disk_total = atomic_load(&store->space_total),
        .checkpoints = atomic_load(&store->checkpoints),
        .checkpoint_failures = atomic_load(&store->checkpoint_failures),
        .rewrites = atomic_load(&store->rewrites),
        .id_memory = atomic_load(&store->id_memory),
        .id_memory_budget = store->o.id_memory_bytes,
    };
    catalog_space(store->catalog, &out->catalog_used, &out->catalog_file, &out->catalog_map);
}
