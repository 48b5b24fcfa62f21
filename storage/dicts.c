/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionaries of an index: where they lie, and the one that new blocks use.
 *
 * A dictionary is a record in every segment that has blocks made with it; the catalog knows each
 * copy (KIND_DICT, index, number, segment). It is durable there before any block uses it, so that
 * a block in the log can always be opened.
 *
 *   Q1  a block's dictionary stands in its own segment; of a block still in memory, in some
 *       segment.
 *   Q2  one is kept only if it pays for itself (train.c).
 *   Q3  compaction takes the last copy only of one that no new block and no block in memory, hence
 *       in the log, is made with.
 *   Q4  memory keeps those that were used since compaction last looked (index_dicts_rest). */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

struct dict_key {
    uint8_t bytes[12];
};

static struct slice dict_key(struct dict_key *key, uint32_t index_no, uint32_t number,
                             uint32_t segment)
{
    put_be32(key->bytes, index_no);
    put_be32(key->bytes + 4, number);
    put_be32(key->bytes + 8, segment);
    return slice_of(key->bytes, sizeof key->bytes);
}

/* ---- in memory */

/* Caller holds table. */
static struct dict *known_locked(const struct index *index, uint32_t number)
{
    for (size_t i = 0; i < index->dict_count; i++)
        if (dict_number(index->dicts[i]) == number)
            return dict_retain(index->dicts[i]);
    return NULL;
}

struct dict *index_dict_learn(struct index *index, struct dict *dict)
{
    pthread_mutex_lock(&index->table);
    struct dict *known = known_locked(index, dict_number(dict));
    if (known == NULL) {
        struct dict **list = realloc(index->dicts, (index->dict_count + 1) * sizeof(struct dict *));
        if (list != NULL) {
            index->dicts = list;
            list[index->dict_count++] = dict_retain(dict);
        }
    }
    pthread_mutex_unlock(&index->table);
    if (known == NULL)
        return dict;
    dict_release(dict);
    return known;
}

/* Any copy will do, they are the same: the newest ones, should one of them be damaged or go. */
#define COPIES_TRIED 4

struct copies {
    uint32_t number;
    size_t found;
    struct dict_copy last[COPIES_TRIED];
};

static enum rc search_copy(const struct dict_copy *copy, void *arg)
{
    struct copies *c = arg;
    if (copy->number == c->number)
        c->last[c->found++ % COPIES_TRIED] = *copy;
    return RC_OK;
}

static enum rc read_copy(struct index *index, const struct dict_copy *s, bool nowait,
                         struct dict **out, struct err *err)
{
    struct slice bytes;
    uint8_t *record = malloc(s->len);
    if (record == NULL)
        return RC_NOMEM;
    enum rc rc = segment_read(index->store->files, index->number, index->dir_name, s->segment,
                              s->at, record, s->len, nowait, err);
    if (rc == RC_OK)
        rc = segment_check_dict(slice_of(record, s->len), index->number, s->number, &bytes, err);
    if (rc == RC_OK) {
        *out = dict_make(s->number, bytes);
        rc = *out == NULL ? RC_NOMEM : RC_OK;
    }
    free(record);
    return rc;
}

/* From any copy that the catalog names. */
static enum rc find_copy(struct index *index, uint32_t number, bool nowait, struct dict **out,
                         struct err *err)
{
    struct copies c = {.number = number};
    TRY(index_dict_each(index, search_copy, &c, err));
    if (c.found == 0)
        return err_set(err, RC_CORRUPT, 0, "index %s: dictionary %u is missing", index->name,
                       number);
    enum rc rc = RC_CORRUPT;
    for (size_t i = 0; i < COPIES_TRIED && i < c.found && rc != RC_OK && rc != RC_AGAIN; i++) {
        struct err why = {0};
        rc = read_copy(index, &c.last[(c.found - 1 - i) % COPIES_TRIED], nowait, out, &why);
        if (rc != RC_OK && err != NULL)
            *err = why;
    }
    return rc;
}

enum rc index_dict(struct index *index, uint32_t number, bool nowait, struct dict **out,
                   struct err *err)
{
    struct dict *dict = NULL;
    *out = NULL;
    if (number == 0)
        return RC_OK;
    pthread_mutex_lock(&index->table);
    *out = known_locked(index, number);
    index->dicts_used = true;
    pthread_mutex_unlock(&index->table);
    if (*out != NULL)
        return RC_OK;
    /* All copies may have gone with their segments since they were looked up: then others came. */
    enum rc rc = find_copy(index, number, nowait, &dict, err);
    if (rc == RC_CORRUPT) {
        if (err != NULL)
            *err = (struct err){0};
        rc = find_copy(index, number, nowait, &dict, err);
    }
    TRY(rc);
    if (err != NULL)
        *err = (struct err){0};
    *out = index_dict_learn(index, dict);
    return RC_OK;
}

enum rc index_current_dict(struct index *index, struct dict **out, struct err *err)
{
    pthread_mutex_lock(&index->table);
    uint32_t number = index->dict_current;
    pthread_mutex_unlock(&index->table);
    return index_dict(index, number, false, out, err);
}

void index_dicts_rest(struct index *index)
{
    struct dict **list = NULL;
    size_t count = 0;
    pthread_mutex_lock(&index->table);
    if (!index->dicts_used) {
        list = index->dicts;
        count = index->dict_count;
        index->dicts = NULL;
        index->dict_count = 0;
    }
    index->dicts_used = false;
    pthread_mutex_unlock(&index->table);
    for (size_t i = 0; i < count; i++)
        dict_release(list[i]);
    free(list);
}

void index_dict_for_packing(struct index *index, struct dict **out)
{
    struct err unread = {0};
    if (index_current_dict(index, out, &unread) != RC_OK)
        *out = NULL;
}

/* ---- on disk. The caller holds store.layout */

enum rc index_dict_to_segment(struct index *index, struct segment_writer *w, uint32_t number,
                              struct err *err)
{
    struct dict *dict = NULL;
    struct dict_copy copy = {.number = number, .segment = segment_number(w)};
    if (number == 0 || segment_has_dict(w, number))
        return RC_OK;
    TRY(index_dict(index, number, false, &dict, err));
    enum rc rc =
        segment_append_dict(w, index->number, number, dict_bytes(dict), &copy.at, &copy.len, err);
    dict_release(dict);
    TRY(rc);
    struct dict_copy *list =
        realloc(index->dict_copy, (index->dict_copies + 1) * sizeof *index->dict_copy);
    if (list == NULL)
        return RC_NOMEM;
    index->dict_copy = list;
    list[index->dict_copies++] = copy;
    pthread_mutex_lock(&index->table);
    index->disk_bytes += copy.len;
    pthread_mutex_unlock(&index->table);
    return RC_OK;
}

enum rc index_dict_carry(struct index *index, struct catalog_txn *txn, struct err *err)
{
    for (size_t i = 0; i < index->dict_copies; i++) {
        const struct dict_copy *c = &index->dict_copy[i];
        struct dict_key key;
        uint8_t value[12];
        put_u64(value, c->at);
        put_u32(value + 8, c->len);
        TRY(catalog_put(txn, KIND_DICT, dict_key(&key, index->number, c->number, c->segment),
                        slice_of(value, sizeof value), err));
    }
    return RC_OK;
}

void index_dict_carried(struct index *index)
{
    index->dict_copies = 0;
}

struct each_copy {
    enum rc (*fn)(const struct dict_copy *copy, void *arg);
    void *arg;
};

static enum rc visit_copy(struct slice name, struct slice value, void *arg)
{
    const struct each_copy *e = arg;
    if (name.len != 12 || value.len != 12)
        return RC_OK;
    struct dict_copy copy = {get_be32(name.ptr + 4), get_be32(name.ptr + 8), get_u32(value.ptr + 8),
                             get_u64(value.ptr)};
    return e->fn(&copy, e->arg);
}

enum rc index_dict_each(struct index *index, enum rc (*fn)(const struct dict_copy *copy, void *arg),
                        void *arg, struct err *err)
{
    struct each_copy e = {fn, arg};
    uint8_t prefix[4];
    put_be32(prefix, index->number);
    return catalog_each_under(index->store->catalog, KIND_DICT, slice_of(prefix, 4), visit_copy, &e,
                              err);
}

/* Take the names of copies in a segment out of the catalog. */
struct forget {
    uint32_t segment;
    bool all;
    struct buf keys;
};

static enum rc collect_copy(struct slice name, struct slice value, void *arg)
{
    struct forget *f = arg;
    (void)value;
    if (name.len == 12 && (f->all || get_be32(name.ptr + 8) == f->segment))
        buf_put_slice(&f->keys, name);
    return f->keys.failed ? RC_NOMEM : RC_OK;
}

enum rc index_dict_forget(struct catalog *catalog, struct catalog_txn *txn, uint32_t index_no,
                          uint32_t segment, struct err *err)
{
    struct forget f = {.segment = segment, .all = segment == UINT32_MAX};
    uint8_t prefix[4];
    put_be32(prefix, index_no);
    enum rc rc = catalog_each_under(catalog, KIND_DICT, slice_of(prefix, 4), collect_copy, &f, err);
    for (size_t i = 0; rc == RC_OK && i < f.keys.len; i += 12)
        rc = catalog_delete(txn, KIND_DICT, slice_of(f.keys.ptr + i, 12), err);
    buf_done(&f.keys);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- a segment that goes */

struct leaving {
    uint32_t segment;
    struct buf inside, outside; /* numbers of copies in the segment and in others, 4 bytes each */
};

static enum rc sort_copy(const struct dict_copy *copy, void *arg)
{
    struct leaving *l = arg;
    struct buf *list = copy->segment == l->segment ? &l->inside : &l->outside;
    uint8_t number[4];
    put_u32(number, copy->number);
    buf_put(list, number, sizeof number);
    return list->failed ? RC_NOMEM : RC_OK;
}

static bool has_number(struct slice list, uint32_t number)
{
    for (size_t i = 0; i < list.len; i += 4)
        if (get_u32(list.ptr + i) == number)
            return true;
    return false;
}

/* New blocks are made with it, or one in memory is (it is in the log, too), or may turn out to be:
 * whoever is packing took the one that was current when it began. */
static bool is_needed(struct index *index, uint32_t number)
{
    struct block_header head;
    struct err ignored = {0};
    pthread_mutex_lock(&index->table);
    bool needed = index->dict_current == number;
    for (size_t i = 0; i < index->pending_count && !needed; i++) {
        const struct pending *p = index->pending[i];
        needed = p->state == PENDING_PACKING ||
                 (p->state == PENDING_PACKED &&
                  (block_header_read(buf_slice(&p->record), &head, &ignored) != RC_OK ||
                   head.dictionary == number));
    }
    pthread_mutex_unlock(&index->table);
    return needed;
}

/* Copies of what has its last one in the segment, and is needed, in the one being written. Nothing
 * is written before all of them have been read. */
static enum rc save_last(struct index *index, struct leaving *l, struct err *err)
{
    struct segment_writer *w = NULL;
    size_t last = 0;
    for (size_t i = 0; i < l->inside.len; i += 4) {
        struct dict *dict = NULL;
        uint32_t number = get_u32(l->inside.ptr + i);
        if (has_number(buf_slice(&l->outside), number) || !is_needed(index, number))
            continue;
        TRY(index_dict(index, number, false, &dict, err));
        dict_release(dict);
        put_u32(l->inside.ptr + last, number);
        last += 4;
    }
    for (size_t i = 0; i < last; i += 4) {
        TRY(checkpoint_segment(index, &w, err));
        TRY(index_dict_to_segment(index, w, get_u32(l->inside.ptr + i), err));
    }
    return w == NULL ? RC_OK : segment_sync(w, err);
}

enum rc index_dict_leave(struct index *index, uint32_t segment, struct err *err)
{
    struct leaving l = {.segment = segment};
    struct catalog_txn *txn = NULL;
    enum rc rc = index_dict_each(index, sort_copy, &l, err);
    TRY_OUT(rc);
    if (l.inside.len == 0)
        goto out;
    TRY_OUT(save_last(index, &l, err));
    TRY_OUT(catalog_begin_removal(index->store->catalog, &txn, err));
    TRY_OUT(index_dict_carry(index, txn, err));
    TRY_OUT(index_dict_forget(index->store->catalog, txn, index->number, segment, err));
    struct catalog_txn *whole = txn;
    txn = NULL;
    rc = catalog_commit(whole, err);
    if (rc == RC_OK)
        index_dict_carried(index);
out:
    catalog_abort(txn);
    buf_done(&l.inside);
    buf_done(&l.outside);
    return rc;
}
