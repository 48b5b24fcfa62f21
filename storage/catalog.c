/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog in LMDB. Rules C1 to C4 in catalog.h, keys and values in docs/format.md section 4.
 *
 * Read transactions are kept, reset, in a small pool: renewing one costs two stores, beginning one
 * a slot in the lock file. MDB_NOTLS lets any thread take any of them. MDB_MAP_FULL kills the whole
 * transaction and a map cannot grow under readers, hence one large sparse map and C4. */
#include "storage/catalog_parts.h"

#include "config/limits.h"
#include "storage/io.h"

#include <errno.h>
#include <sys/stat.h>
#include <xxhash.h>

#define READERS_MAX    1022
#define MAP_DEFAULT    (64 * GIB)
#define MAP_GROWTH_MIN (256 * MIB) /* of the default, where address space is limited */
#define MARGIN_MAX     (16 * MIB)
#define REBUILD_HINT   "run stowctl rebuild"

static const char *const table_names[TABLES] = {
    [TABLE_VALUE] = "value", [TABLE_BLOCK] = "block", [TABLE_ID] = "id", [TABLE_DEAD] = "dead"};

enum rc catalog_fail(struct err *err, int e, const char *what)
{
    switch (e) {
    case MDB_MAP_FULL:
        return err_set(err, RC_FULL, 0,
                       "catalog: %s: the map is full; raise storage.catalog.map_size", what);
    case ENOSPC:
    case EDQUOT:
        return err_set(err, RC_FULL, e, "catalog: %s: %s", what, mdb_strerror(e));
    case ENOMEM:
        return err_set(err, RC_NOMEM, e, "catalog: %s: out of memory", what);
    case MDB_READERS_FULL:
        return err_set(err, RC_BUSY, 0, "catalog: %s: more than %d readers", what, READERS_MAX);
    case MDB_TXN_FULL:
        return err_set(err, RC_TOO_LARGE, 0, "catalog: %s: the transaction is too large", what);
    case MDB_PANIC:
        return err_set(err, RC_IO, CATALOG_LOST, "catalog: %s: %s", what, mdb_strerror(e));
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_CURSOR_FULL:
    case MDB_PAGE_FULL:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
        return err_set(err, RC_CORRUPT, 0, "catalog: %s: %s; " REBUILD_HINT, what, mdb_strerror(e));
    default:
        return err_set(err, RC_IO, e > 0 ? e : 0, "catalog: %s: %s", what, mdb_strerror(e));
    }
}

/* ---- keys, values, checksums */

/* XXH3-64 over key, then value. */
static enum rc checksum(struct slice key, struct slice value, uint64_t *out, struct err *err)
{
    uint8_t small[KEY_BYTES_MAX + 1024];
    if (key.len + value.len <= sizeof small) {
        memcpy(small, key.ptr, key.len);
        if (value.len != 0)
            memcpy(small + key.len, value.ptr, value.len);
        *out = XXH3_64bits(small, key.len + value.len);
        return RC_OK;
    }
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        return catalog_fail(err, ENOMEM, "checksum");
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, key.ptr, key.len);
    XXH3_64bits_update(state, value.ptr, value.len);
    *out = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return RC_OK;
}

enum rc catalog_damaged(struct err *err, enum table table, struct slice key)
{
    if (table == TABLE_VALUE && key.len > 1)
        return err_set(err, RC_CORRUPT, 0, "catalog: value of '%c' %.*s is damaged; " REBUILD_HINT,
                       key.ptr[0] >= ' ' && key.ptr[0] < 127 ? key.ptr[0] : '?',
                       SLICE_FMT(slice_of(key.ptr + 1, key.len - 1)));
    if (key.len == NUMBER_KEY_BYTES)
        return err_set(
            err, RC_CORRUPT, 0, "catalog: value of %s %llu of index %u is damaged; " REBUILD_HINT,
            table_names[table], (unsigned long long)get_be64(key.ptr + 4), get_be32(key.ptr));
    return err_set(err, RC_CORRUPT, 0, "catalog: a key of %s is damaged; " REBUILD_HINT,
                   table_names[table]);
}

/* C2. The value without its trailer. */
enum rc catalog_value_check(enum table table, struct slice key, struct slice stored,
                            struct slice *value_out, struct err *err)
{
    size_t trailer = TRAILER_BYTES;
    if (stored.len < trailer)
        return catalog_damaged(err, table, key);
    struct slice value = slice_of(stored.ptr, stored.len - trailer);
    uint64_t sum;
    uint8_t want[8];
    TRY(checksum(key, value, &sum, err));
    put_u64(want, sum);
    if (memcmp(want, value.ptr + value.len, trailer) != 0)
        return catalog_damaged(err, table, key);
    *value_out = value;
    return RC_OK;
}

/* ---- open, close, space */

/* LMDB finds some damage only by an assertion; it aborts the process after this. */
static void on_lmdb_assert(MDB_env *env, const char *text)
{
    (void)env;
    fprintf(stderr, "catalog: damaged, the process stops; " REBUILD_HINT " (%s)\n", text);
}

static int env_open(const char *dir, uint64_t map_bytes, MDB_env **out)
{
    MDB_env *env;
    int e = mdb_env_create(&env);
    if (e != 0)
        return e;
    (void)mdb_env_set_assert(env, on_lmdb_assert);
    if ((e = mdb_env_set_maxreaders(env, READERS_MAX)) != 0 ||
        (e = mdb_env_set_maxdbs(env, TABLES)) != 0 ||
        (e = mdb_env_set_mapsize(env, (size_t)map_bytes)) != 0 ||
        (e = mdb_env_open(env, dir, MDB_NOTLS, 0640)) != 0) {
        mdb_env_close(env);
        return e;
    }
    *out = env;
    return 0;
}

static uint64_t whole_mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB * MIB;
}

/* Open with the given map size, or with the largest default that the system grants. */
static int env_open_sized(const char *dir, uint64_t map_bytes, uint64_t file_bytes, MDB_env **out)
{
    const uint64_t address_space = SIZE_MAX / 4 / MIB * MIB;
    uint64_t least = whole_mib(file_bytes) + MAP_GROWTH_MIN;
    uint64_t want = map_bytes != 0 ? whole_mib(map_bytes) : whole_mib(4 * file_bytes);
    if (map_bytes != 0 && want < file_bytes)
        want = whole_mib(file_bytes) + MIB;
    if (map_bytes == 0 && want < MAP_DEFAULT)
        want = MAP_DEFAULT;
    if (want > address_space)
        want = address_space;
    if (map_bytes == 0 && want < least)
        want = least;
    for (;;) {
        int e = env_open(dir, want, out);
        if (e != ENOMEM || map_bytes != 0 || want == least)
            return e;
        want = want / 2 > least ? whole_mib(want / 2) : least;
    }
}

/* Without writing, unless one is missing: another process may be the writer. */
static enum rc tables_open(struct catalog *catalog, struct err *err)
{
    for (unsigned flags = MDB_RDONLY;; flags = 0) {
        MDB_txn *txn;
        int e = mdb_txn_begin(catalog->env, NULL, flags, &txn);
        if (e != 0)
            return catalog_fail(err, e, "open");
        for (int t = 0; t < TABLES && e == 0; t++)
            e = mdb_dbi_open(txn, table_names[t], flags == 0 ? MDB_CREATE : 0, &catalog->dbi[t]);
        if (e != 0)
            mdb_txn_abort(txn);
        else
            e = mdb_txn_commit(txn);
        if (e != MDB_NOTFOUND || flags == 0)
            return e == 0 ? RC_OK : catalog_fail(err, e, "open");
    }
}

/* The environment's directory and its entry must be as durable as what is committed into it. */
static enum rc dir_sync(const char *dir, struct err *err)
{
    char parent[512];
    TRY(io_sync_dir(dir, err));
    snprintf(parent, sizeof parent, "%s/..", dir);
    return io_sync_dir(parent, err);
}

enum rc catalog_open(const char *dir, uint64_t map_bytes, struct catalog **out, struct err *err)
{
    struct catalog *catalog = calloc(1, sizeof *catalog);
    enum rc rc;
    int dead, e;
    MDB_stat pages;
    struct stat file = {0};
    if (catalog == NULL)
        return catalog_fail(err, ENOMEM, "open");
    pthread_mutex_init(&catalog->mutex, NULL);
    if ((size_t)snprintf(catalog->data_path, sizeof catalog->data_path, "%s/data.mdb", dir) >=
        sizeof catalog->data_path) {
        rc = catalog_fail(err, ENAMETOOLONG, "open");
        goto out;
    }
    TRY_OUT(io_mkdir(dir, err));
    (void)stat(catalog->data_path, &file); /* not there yet: of no bytes */
    e = env_open_sized(dir, map_bytes, (uint64_t)file.st_size, &catalog->env);
    if (e != 0) {
        catalog->env = NULL;
        rc = catalog_fail(err, e, "open");
        goto out;
    }
    (void)mdb_reader_check(catalog->env, &dead); /* slots of killed processes pin pages */
    mdb_env_stat(catalog->env, &pages);
    catalog->page_bytes = pages.ms_psize;
    TRY_OUT(tables_open(catalog, err));
    if (file.st_size == 0)
        TRY_OUT(dir_sync(dir, err));
    *out = catalog;
    return RC_OK;
out:
    catalog_close(catalog);
    return rc;
}

void catalog_close(struct catalog *catalog)
{
    if (catalog == NULL)
        return;
    for (size_t i = 0; i < catalog->reader_count; i++)
        mdb_txn_abort(catalog->readers[i]);
    if (catalog->env != NULL)
        mdb_env_close(catalog->env);
    pthread_mutex_destroy(&catalog->mutex);
    seqset_done(&catalog->verified);
    free(catalog);
}

enum rc catalog_read_begin(struct catalog *catalog, MDB_txn **out, struct err *err)
{
    MDB_txn *txn = NULL;
    pthread_mutex_lock(&catalog->mutex);
    if (catalog->reader_count > 0)
        txn = catalog->readers[--catalog->reader_count];
    pthread_mutex_unlock(&catalog->mutex);
    int e = txn != NULL ? mdb_txn_renew(txn) : mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (e != 0) {
        mdb_txn_abort(txn); /* accepts NULL */
        return catalog_fail(err, e, "read");
    }
    *out = txn;
    return RC_OK;
}

void catalog_read_end(struct catalog *catalog, MDB_txn *txn)
{
    mdb_txn_reset(txn);
    pthread_mutex_lock(&catalog->mutex);
    bool keep = catalog->reader_count < READERS_POOLED;
    if (keep)
        catalog->readers[catalog->reader_count++] = txn;
    pthread_mutex_unlock(&catalog->mutex);
    if (!keep)
        mdb_txn_abort(txn);
}

/* Pages on LMDB's list of free ones: each entry begins with their number. */
static enum rc free_pages(struct catalog *catalog, uint64_t *pages_out, struct err *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, data;
    uint64_t pages = 0;
    TRY(catalog_read_begin(catalog, &txn, err));
    int e = mdb_cursor_open(txn, 0, &cursor);
    if (e == 0) {
        while ((e = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
            size_t n = 0;
            if (data.mv_size >= sizeof n)
                memcpy(&n, data.mv_data, sizeof n);
            pages += n;
        }
        mdb_cursor_close(cursor);
    }
    catalog_read_end(catalog, txn);
    if (e != MDB_NOTFOUND)
        return catalog_fail(err, e, "count free pages");
    *pages_out = pages;
    return RC_OK;
}

/* Pages ever used, in bytes, and the map. */
static void extent(struct catalog *catalog, uint64_t *reached_out, uint64_t *map_out)
{
    MDB_envinfo info;
    mdb_env_info(catalog->env, &info);
    *reached_out = ((uint64_t)info.me_last_pgno + 1) * catalog->page_bytes;
    *map_out = info.me_mapsize;
}

void catalog_space(struct catalog *catalog, uint64_t *used_out, uint64_t *file_out,
                   uint64_t *map_out)
{
    uint64_t reached, pages = 0;
    extent(catalog, &reached, map_out);
    if (free_pages(catalog, &pages, NULL) != RC_OK || pages * catalog->page_bytes > reached)
        pages = 0;
    *used_out = reached - pages * catalog->page_bytes;
    if (io_allocated(catalog->data_path, file_out, NULL) != RC_OK)
        *file_out = reached;
}

enum rc catalog_copy(struct catalog *catalog, const char *dir, struct err *err)
{
    char path[512];
    struct io_file file = {.fd = -1};
    if ((size_t)snprintf(path, sizeof path, "%s/data.mdb", dir) >= sizeof path)
        return catalog_fail(err, ENAMETOOLONG, "copy");
    TRY(io_mkdir(dir, err));
    int e = mdb_env_copy2(catalog->env, dir, MDB_CP_COMPACT);
    if (e != 0)
        return catalog_fail(err, e, "copy");
    /* LMDB does not sync the copy. */
    TRY(io_open(path, IO_WRITE, &file, err));
    enum rc rc = io_sync(&file, err);
    io_close(&file);
    TRY(rc);
    return dir_sync(dir, err);
}

/* ---- write transactions */

/* C4 */
static enum rc check_room(struct catalog *catalog, struct err *err)
{
    uint64_t reached, map, pages = 0;
    extent(catalog, &reached, &map);
    uint64_t margin = map / 4 < MARGIN_MAX ? map / 4 : MARGIN_MAX;
    if (reached + margin <= map)
        return RC_OK;
    TRY(free_pages(catalog, &pages, err));
    if (reached + margin <= map + pages * catalog->page_bytes)
        return RC_OK;
    return err_set(err, RC_FULL, 0,
                   "catalog: %llu KiB of a map of %llu KiB are used; raise "
                   "storage.catalog.map_size or delete indices",
                   (unsigned long long)((reached - pages * catalog->page_bytes) / KIB),
                   (unsigned long long)(map / KIB));
}

enum rc catalog_begin_removal(struct catalog *catalog, struct catalog_txn **out, struct err *err)
{
    struct catalog_txn *txn = calloc(1, sizeof *txn);
    if (txn == NULL)
        return catalog_fail(err, ENOMEM, "begin");
    txn->catalog = catalog;
    int dead, e;
    (void)mdb_reader_check(catalog->env, &dead); /* a backup that was killed pins pages */
    e = mdb_txn_begin(catalog->env, NULL, 0, &txn->txn);
    if (e != 0) {
        free(txn);
        return catalog_fail(err, e, "begin");
    }
    *out = txn;
    return RC_OK;
}

enum rc catalog_begin(struct catalog *catalog, struct catalog_txn **out, struct err *err)
{
    TRY(check_room(catalog, err));
    return catalog_begin_removal(catalog, out, err);
}

enum rc catalog_commit(struct catalog_txn *txn, struct err *err)
{
    enum rc rc = txn->failed.rc;
    if (rc != RC_OK) {
        (void)err_set(err, rc, txn->failed.os_errno, "%s", txn->failed.msg);
        mdb_txn_abort(txn->txn);
    } else {
        int e = mdb_txn_commit(txn->txn);
        rc = e == 0 ? RC_OK : catalog_fail(err, e, "commit");
    }
    free(txn);
    return rc;
}

void catalog_abort(struct catalog_txn *txn)
{
    if (txn != NULL)
        mdb_txn_abort(txn->txn);
    free(txn);
}

/* A failed write: LMDB would refuse the rest with less telling errors. */
enum rc catalog_txn_fail(struct catalog_txn *txn, int e, const char *what, struct err *err)
{
    (void)catalog_fail(&txn->failed, e, what);
    return catalog_fail(err, e, what);
}

/* ---- items of any table */

enum rc catalog_item_put(struct catalog_txn *txn, enum table table, const struct key *key,
                         struct slice value, struct err *err)
{
    uint64_t sum;
    TRY(checksum(key_slice(key), value, &sum, err));
    MDB_val k = to_val(key_slice(key));
    MDB_val v = {.mv_size = value.len + TRAILER_BYTES};
    int e = mdb_put(txn->txn, txn->catalog->dbi[table], &k, &v, MDB_RESERVE);
    if (e != 0)
        return catalog_txn_fail(txn, e, "put", err);
    if (value.len != 0)
        memcpy(v.mv_data, value.ptr, value.len);
    put_u64((uint8_t *)v.mv_data + value.len, sum);
    return RC_OK;
}

enum rc catalog_item_delete(struct catalog_txn *txn, enum table table, const struct key *key,
                            struct err *err)
{
    MDB_val k = to_val(key_slice(key));
    int e = mdb_del(txn->txn, txn->catalog->dbi[table], &k, NULL);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    return e == 0 ? RC_OK : catalog_txn_fail(txn, e, "delete", err);
}

/* The value lies in the map: use it before the transaction ends. */
enum rc catalog_item_get(struct catalog *catalog, MDB_txn *txn, enum table table,
                         const struct key *key, struct slice *value_out, struct err *err)
{
    MDB_val k = to_val(key_slice(key)), v;
    int e = mdb_get(txn, catalog->dbi[table], &k, &v);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return catalog_fail(err, e, "get");
    return catalog_value_check(table, key_slice(key), from_val(v), value_out, err);
}

enum rc catalog_walk_move(struct walk *walk, MDB_cursor_op op, MDB_val k, struct err *err)
{
    MDB_val v;
    int e = mdb_cursor_get(walk->cursor, &k, &v, op);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return catalog_fail(err, e, "walk");
    walk->key = from_val(k);
    walk->stored = from_val(v);
    return RC_OK;
}

/* The cursor is open (walk_done) unless something else than RC_NOT_FOUND is returned. */
enum rc catalog_walk_begin(struct walk *walk, struct catalog *catalog, MDB_txn *txn,
                           enum table table, struct slice from, struct err *err)
{
    walk->table = table;
    int e = mdb_cursor_open(txn, catalog->dbi[table], &walk->cursor);
    if (e != 0) {
        walk->cursor = NULL;
        return catalog_fail(err, e, "walk");
    }
    return catalog_walk_move(walk, MDB_SET_RANGE, to_val(from), err);
}

enum rc catalog_walk_next(struct walk *walk, struct err *err)
{
    return catalog_walk_move(walk, MDB_NEXT, (MDB_val){0}, err);
}

void catalog_walk_done(struct walk *walk)
{
    if (walk->cursor != NULL)
        mdb_cursor_close(walk->cursor);
}

/* Every entry of a table is whole, and a look-up finds it. */
static enum rc table_verify(struct catalog *catalog, MDB_txn *txn, enum table table,
                            struct err *err)
{
    struct walk walk;
    struct slice value;
    enum rc rc = catalog_walk_begin(&walk, catalog, txn, table, SLICE_LIT("\0"), err);
    while (rc == RC_OK) {
        MDB_val k = to_val(walk.key), v = {0};
        int e = mdb_get(txn, catalog->dbi[table], &k, &v);
        rc = e != 0 || v.mv_data != walk.stored.ptr
                 ? catalog_damaged(err, table, walk.key)
                 : catalog_value_check(table, walk.key, walk.stored, &value, err);
        rc = rc == RC_OK ? catalog_walk_next(&walk, err) : rc;
    }
    catalog_walk_done(&walk);
    return not_found_is_ok(rc);
}

enum rc catalog_verify(struct catalog *catalog, struct err *err)
{
    MDB_txn *txn;
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = RC_OK;
    for (enum table t = 0; t < TABLES && rc == RC_OK; t++)
        rc = table_verify(catalog, txn, t, err);
    catalog_read_end(catalog, txn);
    return rc;
}
