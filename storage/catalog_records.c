/* SPDX-License-Identifier: Apache-2.0 */
/* What the catalog holds: named values, the places of blocks, pieces of id runs, dead rows; keys
 * and values in docs/format.md section 4. */
#include "storage/catalog_parts.h"

#include <errno.h>
#include <xxhash.h>

#define VERIFIED_MAX 65536 /* pieces: 1 MB */

/* ---- named values */

enum rc catalog_put(struct catalog_txn *txn, char kind, struct slice name, struct slice value,
                    struct err *err)
{
    struct key key = key_of_name(kind, name);
    return catalog_item_put(txn, TABLE_VALUE, &key, value, err);
}

enum rc catalog_delete(struct catalog_txn *txn, char kind, struct slice name, struct err *err)
{
    struct key key = key_of_name(kind, name);
    return catalog_item_delete(txn, TABLE_VALUE, &key, err);
}

enum rc catalog_get(struct catalog *catalog, char kind, struct slice name, struct buf *out,
                    struct err *err)
{
    struct key key = key_of_name(kind, name);
    struct slice value;
    MDB_txn *txn;
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = catalog_item_get(catalog, txn, TABLE_VALUE, &key, &value, err);
    if (rc == RC_OK) {
        buf_put_slice(out, value);
        if (out->failed)
            rc = catalog_fail(err, ENOMEM, "get");
    }
    catalog_read_end(catalog, txn);
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
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc =
        catalog_walk_begin(&walk, catalog, txn, TABLE_VALUE, slice_of(prefix, 1 + under.len), err);
    for (; rc == RC_OK; rc = catalog_walk_next(&walk, err)) {
        struct slice value;
        if (walk.key.len <= under.len || memcmp(walk.key.ptr, prefix, 1 + under.len) != 0)
            break;
        TRY_OUT(catalog_value_check(TABLE_VALUE, walk.key, walk.stored, &value, err));
        rc = fn(slice_of(walk.key.ptr + 1, walk.key.len - 1), value, arg);
        if (rc != RC_OK)
            goto out; /* even RC_NOT_FOUND is fn's */
    }
    rc = not_found_is_ok(rc);
out:
    catalog_walk_done(&walk);
    catalog_read_end(catalog, txn);
    return rc;
}

/* ---- block table */

#define PLACE_BYTES 32

static enum rc place_load(struct slice key, struct slice stored, struct place *out, struct err *err)
{
    struct slice value;
    TRY(catalog_value_check(TABLE_BLOCK, key, stored, &value, err));
    if (value.len != PLACE_BYTES || key.len != NUMBER_KEY_BYTES)
        return catalog_damaged(err, TABLE_BLOCK, key);
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
    return catalog_item_put(txn, TABLE_BLOCK, &key, slice_of(value, sizeof value), err);
}

enum rc catalog_delete_block(struct catalog_txn *txn, uint32_t index_no, uint64_t first_seq,
                             struct err *err)
{
    struct key key = key_of_number(index_no, first_seq);
    return catalog_item_delete(txn, TABLE_BLOCK, &key, err);
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
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = catalog_walk_begin(&walk, catalog, txn, TABLE_BLOCK, key_slice(&key), err);
    /* The entry before it, unless it begins at seq itself. */
    if (rc == RC_OK && !slice_eq(walk.key, key_slice(&key))) {
        any = next && key_is_of_index(walk.key, index_no);
        if (any)
            TRY_OUT(place_load(walk.key, walk.stored, &behind, err));
        rc = catalog_walk_move(&walk, MDB_PREV, (MDB_val){0}, err);
    } else if (rc == RC_NOT_FOUND) {
        rc = catalog_walk_move(&walk, MDB_LAST, (MDB_val){0}, err);
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
    catalog_walk_done(&walk);
    catalog_read_end(catalog, txn);
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
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = catalog_walk_begin(&walk, catalog, txn, TABLE_BLOCK, key_slice(&key), err);
    while (rc == RC_OK && count < max && key_is_of_index(walk.key, index_no)) {
        TRY_OUT(place_load(walk.key, walk.stored, &out[count], err));
        count++;
        rc = catalog_walk_next(&walk, err);
    }
    rc = not_found_is_ok(rc);
    if (rc == RC_OK)
        *count_out = count;
out:
    catalog_walk_done(&walk);
    catalog_read_end(catalog, txn);
    return rc;
}

/* Delete up to *left keys that begin with a prefix; *more_out is set when some stay. */
static enum rc drop_under(struct catalog_txn *txn, enum table table, struct slice prefix,
                          size_t *left, bool *more_out, struct err *err)
{
    struct walk walk;
    enum rc rc = catalog_walk_begin(&walk, txn->catalog, txn->txn, table, prefix, err);
    while (rc == RC_OK && walk.key.len == NUMBER_KEY_BYTES &&
           memcmp(walk.key.ptr, prefix.ptr, prefix.len) == 0) {
        if ((*more_out = *left == 0))
            break;
        int e = mdb_cursor_del(walk.cursor, 0);
        rc = e == 0 ? catalog_walk_next(&walk, err) : catalog_txn_fail(txn, e, "drop", err);
        --*left;
    }
    catalog_walk_done(&walk);
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
    return catalog_item_put(txn, TABLE_ID, &key, value, err);
}

enum rc catalog_delete_piece(struct catalog_txn *txn, uint32_t index_no, uint32_t run,
                             uint32_t piece, struct err *err)
{
    struct key key = key_of_piece(index_no, run, piece);
    return not_found_is_ok(catalog_item_delete(txn, TABLE_ID, &key, err));
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
        return catalog_fail(err, ENOMEM, "view");
    view->catalog = catalog;
    enum rc rc = catalog_read_begin(catalog, &view->txn, err);
    if (rc != RC_OK) {
        free(view);
        return rc;
    }
    *out = view;
    return RC_OK;
}

void catalog_view_end(struct catalog_view *view)
{
    catalog_read_end(view->catalog, view->txn);
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
        TRY(catalog_item_get(view->catalog, view->txn, TABLE_ID, &key, out, err));
        piece_learn(view->catalog, id);
        return RC_OK;
    }
    int e = mdb_get(view->txn, view->catalog->dbi[TABLE_ID], &k, &v);
    if (e == MDB_NOTFOUND)
        return RC_NOT_FOUND;
    if (e != 0)
        return catalog_fail(err, e, "get");
    if (v.mv_size < TRAILER_BYTES)
        return catalog_damaged(err, TABLE_ID, key_slice(&key));
    *out = slice_of(v.mv_data, v.mv_size - TRAILER_BYTES);
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
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = catalog_walk_begin(&walk, catalog, txn, TABLE_ID, key_slice(&key), err);
    if (rc == RC_OK && !key_is_of_index(walk.key, index_no))
        rc = RC_NOT_FOUND;
    if (rc == RC_OK)
        *out = get_be32(walk.key.ptr + 4);
    catalog_walk_done(&walk);
    catalog_read_end(catalog, txn);
    return rc;
}

/* ---- dead rows */

enum rc catalog_put_dead(struct catalog_txn *txn, uint32_t index_no, uint64_t chunk,
                         const uint8_t bits[CATALOG_DEAD_BYTES], struct err *err)
{
    static const uint8_t zeros[CATALOG_DEAD_BYTES];
    struct key key = key_of_number(index_no, chunk);
    if (memcmp(bits, zeros, sizeof zeros) == 0)
        return not_found_is_ok(catalog_item_delete(txn, TABLE_DEAD, &key, err));
    return catalog_item_put(txn, TABLE_DEAD, &key, slice_of(bits, CATALOG_DEAD_BYTES), err);
}

static enum rc dead_get(struct catalog *catalog, MDB_txn *txn, uint32_t index_no, uint64_t chunk,
                        uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err)
{
    struct key key = key_of_number(index_no, chunk);
    struct slice value;
    enum rc rc = catalog_item_get(catalog, txn, TABLE_DEAD, &key, &value, err);
    if (rc == RC_NOT_FOUND) {
        memset(bits_out, 0, CATALOG_DEAD_BYTES);
        return RC_OK;
    }
    TRY(rc);
    if (value.len != CATALOG_DEAD_BYTES)
        return catalog_damaged(err, TABLE_DEAD, key_slice(&key));
    memcpy(bits_out, value.ptr, CATALOG_DEAD_BYTES);
    return RC_OK;
}

enum rc catalog_get_dead(struct catalog *catalog, uint32_t index_no, uint64_t chunk,
                         uint8_t bits_out[CATALOG_DEAD_BYTES], struct err *err)
{
    MDB_txn *txn;
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = dead_get(catalog, txn, index_no, chunk, bits_out, err);
    catalog_read_end(catalog, txn);
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
    enum rc rc = catalog_walk_begin(&walk, catalog, txn, table, key_slice(&key), err);
    for (; rc == RC_OK && key_is_of_index(walk.key, index_no); rc = catalog_walk_next(&walk, err))
        *bytes += walk.key.len + walk.stored.len;
    catalog_walk_done(&walk);
    return not_found_is_ok(rc);
}

enum rc catalog_index_bytes(struct catalog *catalog, uint32_t index_no, uint64_t *bytes_out,
                            struct err *err)
{
    uint64_t bytes = 0;
    MDB_txn *txn;
    TRY(catalog_read_begin(catalog, &txn, err));
    enum rc rc = RC_OK;
    for (enum table t = TABLE_BLOCK; t < TABLES && rc == RC_OK; t++)
        rc = table_bytes(catalog, txn, t, index_no, &bytes, err);
    catalog_read_end(catalog, txn);
    *bytes_out = bytes;
    return rc;
}
