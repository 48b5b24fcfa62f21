/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog in LMDB. Rules C1 to C4 in catalog.h, keys and values in docs/format.md section 4.
 *
 * Read transactions are kept, reset, in a small pool: renewing one costs two stores, beginning one
 * a slot in the lock file. MDB_NOTLS lets any thread take any of them. MDB_MAP_FULL kills the whole
 * transaction and a map cannot grow under readers, hence one large sparse map and C4. */
#include "storage/catalog.h"

#include "config/limits.h"
#include "storage/bytes.h"
#include "storage/idmap.h"
#include "storage/io.h"

#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <sys/stat.h>
#include <xxhash.h>

#define READERS_MAX    1022
#define READERS_POOLED 64
#define MAP_DEFAULT    (64 * GIB)
#define MAP_GROWTH_MIN (256 * MIB) /* of the default, where address space is limited */
#define VERIFIED_MAX   65536       /* pieces: 1 MB */
#define MARGIN_MAX     (16 * MIB)
#define REBUILD_HINT   "run stowctl rebuild"

enum table { TABLE_VALUE, TABLE_BLOCK, TABLE_ID, TABLE_DEAD, TABLES };

/* Sizes are on disk. */
static const struct {
    const char *name;
    size_t trailer;
} tables[TABLES] = {
    [TABLE_VALUE] = {"value", 8},
    [TABLE_BLOCK] = {"block", 8},
    [TABLE_ID] = {"id", 8},
    [TABLE_DEAD] = {"dead", 8},
};

struct catalog {
    MDB_env *env;
    MDB_dbi dbi[TABLES];
    size_t page_bytes;
    char data_path[512];
    pthread_mutex_t mutex;
    /* guarded by mutex */
    MDB_txn *readers[READERS_POOLED]; /* reset */
    size_t reader_count;
    struct seqset verified; /* pieces of id runs */
};

struct catalog_txn {
    struct catalog *catalog;
    MDB_txn *txn;
    /* the first failure: the transaction can only be aborted */
    struct err failed;
};

static enum rc fail(struct err *err, int e, const char *what)
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

#define KEY_BYTES_MAX    501 /* kind and name; LMDB takes 511 */
#define NUMBER_KEY_BYTES 12

struct key {
    uint8_t bytes[KEY_BYTES_MAX];
    size_t len;
};

static struct key key_of_name(char kind, struct slice name)
{
    struct key key;
    assert(name.len >= 1 && name.len < KEY_BYTES_MAX);
    key.bytes[0] = (uint8_t)kind;
    memcpy(key.bytes + 1, name.ptr, name.len);
    key.len = 1 + name.len;
    return key;
}

static struct key key_of_number(uint32_t index_no, uint64_t number)
{
    struct key key;
    put_be32(key.bytes, index_no);
    put_be64(key.bytes + 4, number);
    key.len = NUMBER_KEY_BYTES;
    return key;
}

static struct slice key_slice(const struct key *key)
{
    return slice_of(key->bytes, key->len);
}

static MDB_val to_val(struct slice s)
{
    return (MDB_val){.mv_size = s.len, .mv_data = (void *)(uintptr_t)s.ptr};
}

static struct slice from_val(MDB_val v)
{
    return slice_of(v.mv_data, v.mv_size);
}

static bool key_is_of_index(struct slice key, uint32_t index_no)
{
    return key.len == NUMBER_KEY_BYTES && get_be32(key.ptr) == index_no;
}

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
        return fail(err, ENOMEM, "checksum");
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, key.ptr, key.len);
    XXH3_64bits_update(state, value.ptr, value.len);
    *out = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return RC_OK;
}

static enum rc damaged(struct err *err, enum table table, struct slice key)
{
    if (table == TABLE_VALUE && key.len > 1)
        return err_set(err, RC_CORRUPT, 0, "catalog: value of '%c' %.*s is damaged; " REBUILD_HINT,
                       key.ptr[0] >= ' ' && key.ptr[0] < 127 ? key.ptr[0] : '?',
                       SLICE_FMT(slice_of(key.ptr + 1, key.len - 1)));
    if (key.len == NUMBER_KEY_BYTES)
        return err_set(
            err, RC_CORRUPT, 0, "catalog: value of %s %llu of index %u is damaged; " REBUILD_HINT,
            tables[table].name, (unsigned long long)get_be64(key.ptr + 4), get_be32(key.ptr));
    return err_set(err, RC_CORRUPT, 0, "catalog: a key of %s is damaged; " REBUILD_HINT,
                   tables[table].name);
}

/* C2. The value without its trailer. */
static enum rc value_check(enum table table, struct slice key, struct slice stored,
                           struct slice *value_out, struct err *err)
{
    size_t trailer = tables[table].trailer;
    if (stored.len < trailer)
        return damaged(err, table, key);
    struct slice value = slice_of(stored.ptr, stored.len - trailer);
    uint64_t sum;
    uint8_t want[8];
    TRY(checksum(key, value, &sum, err));
    put_u64(want, sum);
    if (memcmp(want, value.ptr + value.len, trailer) != 0)
        return damaged(err, table, key);
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
            return fail(err, e, "open");
        for (int t = 0; t < TABLES && e == 0; t++)
            e = mdb_dbi_open(txn, tables[t].name, flags == 0 ? MDB_CREATE : 0, &catalog->dbi[t]);
        if (e != 0)
            mdb_txn_abort(txn);
        else
            e = mdb_txn_commit(txn);
        if (e != MDB_NOTFOUND || flags == 0)
            return e == 0 ? RC_OK : fail(err, e, "open");
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
        return fail(err, ENOMEM, "open");
    pthread_mutex_init(&catalog->mutex, NULL);
    if ((size_t)snprintf(catalog->data_path, sizeof catalog->data_path, "%s/data.mdb", dir) >=
        sizeof catalog->data_path) {
        rc = fail(err, ENAMETOOLONG, "open");
        goto out;
    }
    TRY_OUT(io_mkdir(dir, err));
    (void)stat(catalog->data_path, &file); /* not there yet: of no bytes */
    e = env_open_sized(dir, map_bytes, (uint64_t)file.st_size, &catalog->env);
    if (e != 0) {
        catalog->env = NULL;
        rc = fail(err, e, "open");
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

static enum rc read_begin(struct catalog *catalog, MDB_txn **out, struct err *err)
{
    MDB_txn *txn = NULL;
    pthread_mutex_lock(&catalog->mutex);
    if (catalog->reader_count > 0)
        txn = catalog->readers[--catalog->reader_count];
    pthread_mutex_unlock(&catalog->mutex);
    int e = txn != NULL ? mdb_txn_renew(txn) : mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (e != 0) {
        mdb_txn_abort(txn); /* accepts NULL */
        return fail(err, e, "read");
    }
    *out = txn;
    return RC_OK;
}

static void read_end(struct catalog *catalog, MDB_txn *txn)
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
    TRY(read_begin(catalog, &txn, err));
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
    read_end(catalog, txn);
    if (e != MDB_NOTFOUND)
        return fail(err, e, "count free pages");
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
        return fail(err, ENAMETOOLONG, "copy");
    TRY(io_mkdir(dir, err));
    int e = mdb_env_copy2(catalog->env, dir, MDB_CP_COMPACT);
    if (e != 0)
        return fail(err, e, "copy");
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
        return fail(err, ENOMEM, "begin");
    txn->catalog = catalog;
    int dead, e;
    (void)mdb_reader_check(catalog->env, &dead); /* a backup that was killed pins pages */
    e = mdb_txn_begin(catalog->env, NULL, 0, &txn->txn);
    if (e != 0) {
        free(txn);
        return fail(err, e, "begin");
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
        rc = e == 0 ? RC_OK : fail(err, e, "commit");
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
static enum rc txn_fail(struct catalog_txn *txn, int e, const char *what, struct err *err)
{
    (void)fail(&txn->failed, e, what);
    return fail(err, e, what);
}

/* ---- items of any table */

static enum rc item_put(struct catalog_txn *txn, enum table table, const struct key *key,
                        struct slice value, struct err *err)
{
    uint64_t sum;
    TRY(checksum(key_slice(key), value, &sum, err));
    MDB_val k = to_val(key_slice(key));
    MDB_val v = {.mv_size = value.len + tables[table].trailer};
    int e = mdb_put(txn->txn, txn->catalog->dbi[table], &k, &v, MDB_RESERVE);
    if (e != 0)
        return txn_fail(txn, e, "put", err);
    if (value.len != 0)
        memcpy(v.mv_data, value.ptr, value.len);
    put_u64((uint8_t *)v.mv_data + value.len, sum);
    return RC_OK;
}

static enum rc item_delete(struct catalog_txn *txn, enum table table, const struct key *key,
                           struct err *err)
{
    MDB_val k = to_val(key_slice(key));
    int e = mdb_del(txn->txn, txn->catalog->dbi[table], &k, NULL);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    return e == 0 ? RC_OK : txn_fail(txn, e, "delete", err);
}

/* The value lies in the map: use it before the transaction ends. */
static enum rc item_get(struct catalog *catalog, MDB_txn *txn, enum table table,
                        const struct key *key, struct slice *value_out, struct err *err)
{
    MDB_val k = to_val(key_slice(key)), v;
    int e = mdb_get(txn, catalog->dbi[table], &k, &v);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return fail(err, e, "get");
    return value_check(table, key_slice(key), from_val(v), value_out, err);
}

/* Walk a table from a key on: the first entry with a key not less, then its successors. */
struct walk {
    MDB_cursor *cursor;
    enum table table;
    struct slice key; /* of the current entry, in the map */
    struct slice stored;
};

static enum rc walk_move(struct walk *walk, MDB_cursor_op op, MDB_val k, struct err *err)
{
    MDB_val v;
    int e = mdb_cursor_get(walk->cursor, &k, &v, op);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return fail(err, e, "walk");
    walk->key = from_val(k);
    walk->stored = from_val(v);
    return RC_OK;
}

/* The cursor is open (walk_done) unless something else than RC_NOT_FOUND is returned. */
static enum rc walk_begin(struct walk *walk, struct catalog *catalog, MDB_txn *txn,
                          enum table table, struct slice from, struct err *err)
{
    walk->table = table;
    int e = mdb_cursor_open(txn, catalog->dbi[table], &walk->cursor);
    if (e != 0) {
        walk->cursor = NULL;
        return fail(err, e, "walk");
    }
    return walk_move(walk, MDB_SET_RANGE, to_val(from), err);
}

static enum rc walk_next(struct walk *walk, struct err *err)
{
    return walk_move(walk, MDB_NEXT, (MDB_val){0}, err);
}

static void walk_done(struct walk *walk)
{
    if (walk->cursor != NULL)
        mdb_cursor_close(walk->cursor);
}

static enum rc not_found_is_ok(enum rc rc)
{
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Every entry of a table is whole, and a look-up finds it. */
static enum rc table_verify(struct catalog *catalog, MDB_txn *txn, enum table table,
                            struct err *err)
{
    struct walk walk;
    struct slice value;
    enum rc rc = walk_begin(&walk, catalog, txn, table, SLICE_LIT("\0"), err);
    while (rc == RC_OK) {
        MDB_val k = to_val(walk.key), v = {0};
        int e = mdb_get(txn, catalog->dbi[table], &k, &v);
        rc = e != 0 || v.mv_data != walk.stored.ptr
                 ? damaged(err, table, walk.key)
                 : value_check(table, walk.key, walk.stored, &value, err);
        rc = rc == RC_OK ? walk_next(&walk, err) : rc;
    }
    walk_done(&walk);
    return not_found_is_ok(rc);
}

enum rc catalog_verify(struct catalog *catalog, struct err *err)
{
    MDB_txn *txn;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = RC_OK;
    for (enum table t = 0; t < TABLES && rc == RC_OK; t++)
        rc = table_verify(catalog, txn, t, err);
    read_end(catalog, txn);
    return rc;
}

/* ---- named values */

enum rc catalog_put(struct catalog_txn *txn, char kind, struct slice name, struct slice value,
                    struct err *err)
{
    struct key key = key_of_name(kind, name);
    return item_put(txn, TABLE_VALUE, &key, value, err);
}

enum rc catalog_delete(struct catalog_txn *txn, char kind, struct slice name, struct err *err)
{
    struct key key = key_of_name(kind, name);
    return item_delete(txn, TABLE_VALUE, &key, err);
}

enum rc catalog_get(struct catalog *catalog, char kind, struct slice name, struct buf *out,
                    struct err *err)
{
    struct key key = key_of_name(kind, name);
    struct slice value;
    MDB_txn *txn;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = item_get(catalog, txn, TABLE_VALUE, &key, &value, err);
    if (rc == RC_OK) {
        buf_put_slice(out, value);
        if (out->failed)
            rc = fail(err, ENOMEM, "get");
    }
    read_end(catalog, txn);
    return rc;
}

enum rc catalog_each_under(struct catalog *catalog, char kind, struct slice under,
                           enum rc (*fn)(struct slice name, struct slice value, void *arg),
                           void *arg, struct err *err)
{
    uint8_t prefix[9] = {(uint8_t)kind};
    struct walk walk;
    MDB_txn *txn;
    assert(under.len < sizeof prefix);
    if (under.len != 0)
        memcpy(prefix + 1, under.ptr, under.len);
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = walk_begin(&walk, catalog, txn, TABLE_VALUE, slice_of(prefix, 1 + under.len), err);
    for (; rc == RC_OK; rc = walk_next(&walk, err)) {
        struct slice value;
        if (walk.key.len <= under.len || memcmp(walk.key.ptr, prefix, 1 + under.len) != 0)
            break;
        TRY_OUT(value_check(TABLE_VALUE, walk.key, walk.stored, &value, err));
        rc = fn(slice_of(walk.key.ptr + 1, walk.key.len - 1), value, arg);
        if (rc != RC_OK)
            goto out; /* even RC_NOT_FOUND is fn's */
    }
    rc = not_found_is_ok(rc);
out:
    walk_done(&walk);
    read_end(catalog, txn);
    return rc;
}

/* ---- block table */

#define PLACE_BYTES 32

static enum rc place_load(struct slice key, struct slice stored, struct place *out, struct err *err)
{
    struct slice value;
    TRY(value_check(TABLE_BLOCK, key, stored, &value, err));
    if (value.len != PLACE_BYTES || key.len != NUMBER_KEY_BYTES)
        return damaged(err, TABLE_BLOCK, key);
    *out = (struct place){
        .first_seq = get_be64(key.ptr + 4),
        .last_seq = get_u64(value.ptr),
        .segment = get_u32(value.ptr + 8),
        .len = get_u32(value.ptr + 12),
        .at = get_u64(value.ptr + 16),
        .rows = get_u32(value.ptr + 24),
        .raw_bytes = get_u32(value.ptr + 28),
    };
    return RC_OK;
}

enum rc catalog_put_block(struct catalog_txn *txn, uint32_t index_no, const struct place *place,
                          struct err *err)
{
    struct key key = key_of_number(index_no, place->first_seq);
    uint8_t value[PLACE_BYTES];
    assert(place->last_seq >= place->first_seq);
    put_u64(value, place->last_seq);
    put_u32(value + 8, place->segment);
    put_u32(value + 12, place->len);
    put_u64(value + 16, place->at);
    put_u32(value + 24, place->rows);
    put_u32(value + 28, place->raw_bytes);
    return item_put(txn, TABLE_BLOCK, &key, slice_of(value, sizeof value), err);
}

enum rc catalog_delete_block(struct catalog_txn *txn, uint32_t index_no, uint64_t first_seq,
                             struct err *err)
{
    struct key key = key_of_number(index_no, first_seq);
    return item_delete(txn, TABLE_BLOCK, &key, err);
}

/* The block that holds seq; with `next` the one behind it when there is none. */
static enum rc block_find_in(struct catalog *catalog, uint32_t index_no, uint64_t seq, bool next,
                             struct place *out, struct err *err)
{
    struct key key = key_of_number(index_no, seq);
    struct walk walk;
    struct place place, behind = {0};
    MDB_txn *txn;
    bool any = false;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = walk_begin(&walk, catalog, txn, TABLE_BLOCK, key_slice(&key), err);
    /* The entry before it, unless it begins at seq itself. */
    if (rc == RC_OK && !slice_eq(walk.key, key_slice(&key))) {
        any = next && key_is_of_index(walk.key, index_no);
        if (any)
            TRY_OUT(place_load(walk.key, walk.stored, &behind, err));
        rc = walk_move(&walk, MDB_PREV, (MDB_val){0}, err);
    } else if (rc == RC_NOT_FOUND) {
        rc = walk_move(&walk, MDB_LAST, (MDB_val){0}, err);
    }
    if (rc == RC_OK)
        TRY_OUT(place_load(walk.key, walk.stored, &place, err));
    if (rc == RC_OK && (!key_is_of_index(walk.key, index_no) || place.last_seq < seq))
        rc = RC_NOT_FOUND;
    if (rc == RC_OK)
        *out = place;
    if (rc == RC_NOT_FOUND && any) {
        *out = behind;
        rc = RC_OK;
    }
out:
    walk_done(&walk);
    read_end(catalog, txn);
    return rc;
}

enum rc catalog_find_block(struct catalog *catalog, uint32_t index_no, uint64_t seq,
                           struct place *out, struct err *err)
{
    return block_find_in(catalog, index_no, seq, false, out, err);
}

enum rc catalog_seek_block(struct catalog *catalog, uint32_t index_no, uint64_t seq,
                           struct place *out, struct err *err)
{
    return block_find_in(catalog, index_no, seq, true, out, err);
}

enum rc catalog_list_blocks(struct catalog *catalog, uint32_t index_no, uint64_t from,
                            struct place *out, size_t max, size_t *count_out, struct err *err)
{
    struct key key = key_of_number(index_no, from);
    struct walk walk;
    MDB_txn *txn;
    size_t count = 0;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = walk_begin(&walk, catalog, txn, TABLE_BLOCK, key_slice(&key), err);
    while (rc == RC_OK && count < max && key_is_of_index(walk.key, index_no)) {
        TRY_OUT(place_load(walk.key, walk.stored, &out[count], err));
        count++;
        rc = walk_next(&walk, err);
    }
    rc = not_found_is_ok(rc);
    if (rc == RC_OK)
        *count_out = count;
out:
    walk_done(&walk);
    read_end(catalog, txn);
    return rc;
}

/* Delete up to *left keys that begin with a prefix; *more_out is set when some stay. */
static enum rc drop_under(struct catalog_txn *txn, enum table table, struct slice prefix,
                          size_t *left, bool *more_out, struct err *err)
{
    struct walk walk;
    enum rc rc = walk_begin(&walk, txn->catalog, txn->txn, table, prefix, err);
    while (rc == RC_OK && walk.key.len == NUMBER_KEY_BYTES &&
           memcmp(walk.key.ptr, prefix.ptr, prefix.len) == 0) {
        if ((*more_out = *left == 0))
            break;
        int e = mdb_cursor_del(walk.cursor, 0);
        rc = e == 0 ? walk_next(&walk, err) : txn_fail(txn, e, "drop", err);
        --*left;
    }
    walk_done(&walk);
    return not_found_is_ok(rc);
}

/* ---- pieces of id runs */

static struct key key_of_piece(uint32_t index_no, uint32_t run, uint32_t piece)
{
    return key_of_number(index_no, (uint64_t)run << 32 | piece);
}

enum rc catalog_put_piece(struct catalog_txn *txn, uint32_t index_no, uint32_t run, uint32_t piece,
                          struct slice value, struct err *err)
{
    struct key key = key_of_piece(index_no, run, piece);
    return item_put(txn, TABLE_ID, &key, value, err);
}

enum rc catalog_delete_piece(struct catalog_txn *txn, uint32_t index_no, uint32_t run,
                             uint32_t piece, struct err *err)
{
    struct key key = key_of_piece(index_no, run, piece);
    return not_found_is_ok(item_delete(txn, TABLE_ID, &key, err));
}

/* A view is a read transaction and where it came from, so it needs no memory of its own beyond a
 * small record. */
struct catalog_view {
    struct catalog *catalog;
    MDB_txn *txn;
};

enum rc catalog_view_begin(struct catalog *catalog, struct catalog_view **out, struct err *err)
{
    struct catalog_view *view = malloc(sizeof *view);
    if (view == NULL)
        return fail(err, ENOMEM, "view");
    view->catalog = catalog;
    enum rc rc = read_begin(catalog, &view->txn, err);
    if (rc != RC_OK) {
        free(view);
        return rc;
    }
    *out = view;
    return RC_OK;
}

void catalog_view_end(struct catalog_view *view)
{
    read_end(view->catalog, view->txn);
    free(view);
}

/* Has this process verified the piece before? Keys of pieces are never used twice. */
static bool piece_known(struct catalog *catalog, uint64_t id)
{
    pthread_mutex_lock(&catalog->mutex);
    bool known = seqset_has(&catalog->verified, id);
    pthread_mutex_unlock(&catalog->mutex);
    return known;
}

static void piece_learn(struct catalog *catalog, uint64_t id)
{
    pthread_mutex_lock(&catalog->mutex);
    if (catalog->verified.count >= VERIFIED_MAX) /* most are of runs that were merged long ago */
        seqset_done(&catalog->verified);
    if (seqset_reserve(&catalog->verified, 1)) /* else it is verified again */
        seqset_add(&catalog->verified, id);
    pthread_mutex_unlock(&catalog->mutex);
}

enum rc catalog_view_piece(struct catalog_view *view, uint32_t index_no, uint32_t run,
                           uint32_t piece, struct slice *out, struct err *err)
{
    struct key key = key_of_piece(index_no, run, piece);
    uint64_t id = XXH3_64bits(key.bytes, key.len) >> 1; /* never the empty slot's value */
    MDB_val k = to_val(key_slice(&key)), v;
    if (!piece_known(view->catalog, id)) {
        TRY(item_get(view->catalog, view->txn, TABLE_ID, &key, out, err));
        piece_learn(view->catalog, id);
        return RC_OK;
    }
    int e = mdb_get(view->txn, view->catalog->dbi[TABLE_ID], &k, &v);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return fail(err, e, "get");
    if (v.mv_size < tables[TABLE_ID].trailer)
        return damaged(err, TABLE_ID, key_slice(&key));
    *out = slice_of(v.mv_data, v.mv_size - tables[TABLE_ID].trailer);
    return RC_OK;
}

enum rc catalog_drop_run(struct catalog_txn *txn, uint32_t index_no, uint32_t run, struct err *err)
{
    struct key key = key_of_piece(index_no, run, 0);
    size_t left = SIZE_MAX;
    bool more;
    return drop_under(txn, TABLE_ID, slice_of(key.bytes, 8), &left, &more, err);
}

enum rc catalog_next_run(struct catalog *catalog, uint32_t index_no, uint32_t from, uint32_t *out,
                         struct err *err)
{
    struct key key = key_of_piece(index_no, from, 0);
    struct walk walk;
    MDB_txn *txn;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = walk_begin(&walk, catalog, txn, TABLE_ID, key_slice(&key), err);
    if (rc == RC_OK && !key_is_of_index(walk.key, index_no))
        rc = RC_NOT_FOUND;
    if (rc == RC_OK)
        *out = get_be32(walk.key.ptr + 4);
    walk_done(&walk);
    read_end(catalog, txn);
    return rc;
}

/* ---- dead rows */

enum rc catalog_put_dead(struct catalog_txn *txn, uint32_t index_no, uint64_t chunk,
                         const uint8_t bits[CATALOG_DEAD_BYTES], struct err *err)
{
    static const uint8_t zeros[CATALOG_DEAD_BYTES];
    struct key key = key_of_number(index_no, chunk);
    if (memcmp(bits, zeros, sizeof zeros) == 0)
        return not_found_is_ok(item_delete(txn, TABLE_DEAD, &key, err));
    return item_put(txn, TABLE_DEAD, &key, slice_of(bits, CATALOG_DEAD_BYTES), err);
}

static enum rc dead_get(struct catalog *catalog, MDB_txn *txn, uint32_t index_no, uint64_t chunk,
                        uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err)
{
    struct key key = key_of_number(index_no, chunk);
    struct slice value;
    enum rc rc = item_get(catalog, txn, TABLE_DEAD, &key, &value, err);
    if (rc == RC_NOT_FOUND) {
        memset(bits_out, 0, CATALOG_DEAD_BYTES);
        return RC_OK;
    }
    TRY(rc);
    if (value.len != CATALOG_DEAD_BYTES)
        return damaged(err, TABLE_DEAD, key_slice(&key));
    memcpy(bits_out, value.ptr, CATALOG_DEAD_BYTES);
    return RC_OK;
}

enum rc catalog_get_dead(struct catalog *catalog, uint32_t index_no, uint64_t chunk,
                         uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err)
{
    MDB_txn *txn;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = dead_get(catalog, txn, index_no, chunk, bits_out, err);
    read_end(catalog, txn);
    return rc;
}

enum rc catalog_txn_get_dead(struct catalog_txn *txn, uint32_t index_no, uint64_t chunk,
                             uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err)
{
    return dead_get(txn->catalog, txn->txn, index_no, chunk, bits_out, err);
}

/* ---- whole indices */

enum rc catalog_drop_index(struct catalog_txn *txn, uint32_t index_no, size_t max, bool *more_out,
                           struct err *err)
{
    struct key key = key_of_number(index_no, 0);
    bool more = false;
    for (enum table t = TABLE_BLOCK; t < TABLES && !more; t++)
        TRY(drop_under(txn, t, slice_of(key.bytes, 4), &max, &more, err));
    *more_out = more;
    return RC_OK;
}

/* Bytes of an index in one table. */
static enum rc table_bytes(struct catalog *catalog, MDB_txn *txn, enum table table,
                           uint32_t index_no, uint64_t *bytes, struct err *err)
{
    struct key key = key_of_number(index_no, 0);
    struct walk walk;
    enum rc rc = walk_begin(&walk, catalog, txn, table, key_slice(&key), err);
    for (; rc == RC_OK && key_is_of_index(walk.key, index_no); rc = walk_next(&walk, err))
        *bytes += walk.key.len + walk.stored.len;
    walk_done(&walk);
    return not_found_is_ok(rc);
}

enum rc catalog_index_bytes(struct catalog *catalog, uint32_t index_no, uint64_t *bytes_out,
                            struct err *err)
{
    uint64_t bytes = 0;
    MDB_txn *txn;
    TRY(read_begin(catalog, &txn, err));
    enum rc rc = RC_OK;
    for (enum table t = TABLE_BLOCK; t < TABLES && rc == RC_OK; t++)
        rc = table_bytes(catalog, txn, t, index_no, &bytes, err);
    read_end(catalog, txn);
    *bytes_out = bytes;
    return rc;
}
