/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the catalog share: catalog.c, how entries are kept in LMDB and verified,
 * and catalog_records.c, which entries there are. For nobody else. */
#ifndef STOWD_CATALOG_PARTS_H
#define STOWD_CATALOG_PARTS_H

#include "storage/bytes.h"
#include "storage/catalog.h"
#include "storage/idmap.h"

#include <lmdb.h>
#include <pthread.h>

#define READERS_POOLED 64
#define TRAILER_BYTES  8 /* behind each value: XXH3-64 of key and value */

enum table { TABLE_VALUE, TABLE_BLOCK, TABLE_ID, TABLE_DEAD, TABLES };

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

/* The error of an LMDB call, and that of an entry which is not what was written. */
enum rc catalog_fail(struct err *err, int e, const char *what);
enum rc catalog_damaged(struct err *err, enum table table, struct slice key);
/* A failed write: LMDB would refuse the rest with less telling errors. */
enum rc catalog_txn_fail(struct catalog_txn *txn, int e, const char *what, struct err *err);

/* ---- keys */

#define KEY_BYTES_MAX    501 /* kind and name; LMDB takes 511 */
#define NUMBER_KEY_BYTES 12

struct key {
    uint8_t bytes[KEY_BYTES_MAX];
    size_t len;
};

static inline struct key key_of_name(char kind, struct slice name)
{
    struct key key;
    assert(name.len >= 1 && name.len < KEY_BYTES_MAX);
    key.bytes[0] = (uint8_t)kind;
    memcpy(key.bytes + 1, name.ptr, name.len);
    key.len = 1 + name.len;
    return key;
}

static inline struct key key_of_number(uint32_t index_no, uint64_t number)
{
    struct key key;
    put_be32(key.bytes, index_no);
    put_be64(key.bytes + 4, number);
    key.len = NUMBER_KEY_BYTES;
    return key;
}

static inline struct slice key_slice(const struct key *key)
{
    return slice_of(key->bytes, key->len);
}

static inline MDB_val to_val(struct slice s)
{
    return (MDB_val){.mv_size = s.len, .mv_data = (void *)(uintptr_t)s.ptr};
}

static inline struct slice from_val(MDB_val v)
{
    return slice_of(v.mv_data, v.mv_size);
}

static inline bool key_is_of_index(struct slice key, uint32_t index_no)
{
    return key.len == NUMBER_KEY_BYTES && get_be32(key.ptr) == index_no;
}

/* ---- entries */

/* C2. The value without its trailer. */
MUST_CHECK enum rc catalog_value_check(enum table table, struct slice key, struct slice stored,
                                       struct slice *value_out, struct err *err);
MUST_CHECK enum rc catalog_read_begin(struct catalog *catalog, MDB_txn **out, struct err *err);
void catalog_read_end(struct catalog *catalog, MDB_txn *txn);
MUST_CHECK enum rc catalog_item_put(struct catalog_txn *txn, enum table table,
                                    const struct key *key, struct slice value, struct err *err);
MUST_CHECK enum rc catalog_item_delete(struct catalog_txn *txn, enum table table,
                                       const struct key *key, struct err *err);
/* The value lies in the map: use it before the transaction ends. */
MUST_CHECK enum rc catalog_item_get(struct catalog *catalog, MDB_txn *txn, enum table table,
                                    const struct key *key, struct slice *value_out,
                                    struct err *err);

/* Walk a table from a key on: the first entry with a key not less, then its successors. */
struct walk {
    MDB_cursor *cursor;
    enum table table;
    struct slice key; /* of the current entry, in the map */
    struct slice stored;
};

/* The cursor is open (catalog_walk_done) unless something else than RC_NOT_FOUND is returned. */
MUST_CHECK enum rc catalog_walk_begin(struct walk *walk, struct catalog *catalog, MDB_txn *txn,
                                      enum table table, struct slice from, struct err *err);
MUST_CHECK enum rc catalog_walk_next(struct walk *walk, struct err *err);
MUST_CHECK enum rc catalog_walk_move(struct walk *walk, MDB_cursor_op op, MDB_val k,
                                     struct err *err);
void catalog_walk_done(struct walk *walk);

static inline enum rc not_found_is_ok(enum rc rc)
{
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

#endif
