/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionaries of an index: where they lie, which one new blocks use, and when one is trained.
 *
 * A dictionary is a record in every segment that has blocks made with it; the catalog knows each
 * copy (KIND_DICT, index, number, segment). It is durable there before any block uses it, so that
 * a block in the log can always be opened.
 *
 *   Q1  a block's dictionary stands in its own segment; of a block still in memory, in some
 * segment. Q2  one is kept only if it pays for itself: what it saves on samples it was not trained
 * on, counted over what the index holds, is more than its own bytes. Q3  the newest one's copy
 * outlives compaction. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

/* Training begins when so many raw bytes are packed, and reads at most so many bytes of frames. */
#define TRAIN_FROM_RAW   (8 * MIB)
#define TRAIN_SAMPLE_MAX (5 * MIB)
/* Every so many-th sample is kept out of the training and tells what it is worth. */
#define HOLD_OUT     5
#define SAMPLE_BYTES (16 * KIB)

/* The second size is tried only where the first one's gain is so many times its own bytes. */
#define LARGER_FROM 4

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

/* Keep a dictionary in memory; another thread may have been faster. Takes over the reference. */
static struct dict *learn(struct index *index, struct dict *dict)
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

enum rc index_dict(struct index *index, uint32_t number, bool nowait, struct dict **out,
                   struct err *err)
{
    struct copies c = {.number = number};
    *out = NULL;
    if (number == 0)
        return RC_OK;
    pthread_mutex_lock(&index->table);
    *out = known_locked(index, number);
    pthread_mutex_unlock(&index->table);
    if (*out != NULL)
        return RC_OK;
    TRY(index_dict_each(index, search_copy, &c, err));
    if (c.found == 0)
        return err_set(err, RC_CORRUPT, 0, "index %s: dictionary %u is missing", index->name,
                       number);
    struct dict *dict = NULL;
    enum rc rc = RC_CORRUPT;
    for (size_t i = 0; i < COPIES_TRIED && i < c.found && rc != RC_OK && rc != RC_AGAIN; i++) {
        struct err why = {0};
        rc = read_copy(index, &c.last[(c.found - 1 - i) % COPIES_TRIED], nowait, &dict, &why);
        if (rc != RC_OK && err != NULL)
            *err = why;
    }
    if (rc != RC_OK)
        return rc;
    if (err != NULL)
        *err = (struct err){0};
    *out = learn(index, dict);
    return RC_OK;
}

enum rc index_current_dict(struct index *index, struct dict **out, struct err *err)
{
    pthread_mutex_lock(&index->table);
    uint32_t number = index->dict_current;
    pthread_mutex_unlock(&index->table);
    return index_dict(index, number, false, out, err);
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
    uint32_t index_no;
    enum rc (*fn)(const struct dict_copy *copy, void *arg);
    void *arg;
};

static enum rc visit_copy(struct slice name, struct slice value, void *arg)
{
    const struct each_copy *e = arg;
    if (name.len != 12 || value.len != 12 || get_be32(name.ptr) != e->index_no)
        return RC_OK;
    struct dict_copy copy = {get_be32(name.ptr + 4), get_be32(name.ptr + 8), get_u32(value.ptr + 8),
                             get_u64(value.ptr)};
    return e->fn(&copy, e->arg);
}

enum rc index_dict_each(struct index *index, enum rc (*fn)(const struct dict_copy *copy, void *arg),
                        void *arg, struct err *err)
{
    struct each_copy e = {index->number, fn, arg};
    return catalog_each(index->store->catalog, KIND_DICT, visit_copy, &e, err);
}

/* Take the names of copies in a segment out of the catalog. */
struct forget {
    struct catalog_txn *txn;
    uint32_t index_no, segment;
    bool all;
    struct buf keys;
};

static enum rc collect_copy(struct slice name, struct slice value, void *arg)
{
    struct forget *f = arg;
    (void)value;
    if (name.len == 12 && get_be32(name.ptr) == f->index_no &&
        (f->all || get_be32(name.ptr + 8) == f->segment))
        buf_put_slice(&f->keys, name);
    return f->keys.failed ? RC_NOMEM : RC_OK;
}

static enum rc forget_copies(struct catalog *catalog, struct forget *f, struct err *err)
{
    enum rc rc = catalog_each(catalog, KIND_DICT, collect_copy, f, err);
    for (size_t i = 0; rc == RC_OK && i < f->keys.len; i += 12)
        rc = catalog_delete(f->txn, KIND_DICT, slice_of(f->keys.ptr + i, 12), err);
    buf_done(&f->keys);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc index_dict_forget(struct catalog *catalog, struct catalog_txn *txn, uint32_t index_no,
                          uint32_t segment, struct err *err)
{
    struct forget f = {
        .txn = txn, .index_no = index_no, .segment = segment, .all = segment == UINT32_MAX};
    return forget_copies(catalog, &f, err);
}

/* ---- training */

struct samples {
    struct buf train, test;
    size_t *train_size, *test_size;
    size_t train_count, test_count, cap;
    uint64_t raw; /* bytes of the documents behind the test samples */
};

static void samples_done(struct samples *s)
{
    buf_done(&s->train);
    buf_done(&s->test);
    free(s->train_size);
    free(s->test_size);
}

static bool samples_room(struct samples *s)
{
    if (s->train_count < s->cap && s->test_count < s->cap)
        return true;
    size_t cap = s->cap == 0 ? 256 : s->cap * 2;
    size_t *a = realloc(s->train_size, cap * sizeof *a);
    if (a != NULL)
        s->train_size = a;
    size_t *b = realloc(s->test_size, cap * sizeof *b);
    if (b != NULL)
        s->test_size = b;
    s->cap = a != NULL && b != NULL ? cap : s->cap;
    return a != NULL && b != NULL;
}

/* A frame is one test sample, or several training ones: short ones show what recurs. */
static bool add_frame(struct samples *s, size_t nth, struct slice frame, uint64_t raw)
{
    if (!samples_room(s))
        return false;
    if (nth % HOLD_OUT == 0) {
        buf_put_slice(&s->test, frame);
        s->test_size[s->test_count++] = frame.len;
        s->raw += raw;
        return !s->test.failed;
    }
    for (size_t at = 0; at < frame.len; at += SAMPLE_BYTES) {
        size_t n = frame.len - at < SAMPLE_BYTES ? frame.len - at : SAMPLE_BYTES;
        if (!samples_room(s))
            return false;
        buf_put(&s->train, frame.ptr + at, n);
        s->train_size[s->train_count++] = n;
    }
    return !s->train.failed;
}

static enum rc collect(struct index *ix, struct samples *s, struct err *err)
{
    struct row_reader reader;
    enum rc rc = RC_OK;
    size_t step = 1, nth = 0;
    pthread_mutex_lock(&ix->table);
    uint64_t blocks = ix->blocks == 0 ? 1 : ix->blocks, seq = 0;
    pthread_mutex_unlock(&ix->table);
    row_reader_init(&reader, ix->store, BLOCK_ALL, false);
    while (s->train.len + s->test.len < TRAIN_SAMPLE_MAX) {
        rc = row_reader_seek(&reader, ix, seq, err);
        if (rc != RC_OK)
            break;
        if (reader.block == NULL)
            break;      /* not packed yet: the newest rows */
        if (nth == 0) { /* spread over the whole index when it is large, without reading it all */
            size_t frame = block_data_frame(reader.block).len + 1;
            step = (size_t)(blocks * frame / TRAIN_SAMPLE_MAX) + 1;
        }
        seq = reader.last + 1 + (reader.last - reader.first + 1) * (step - 1);
        if (!add_frame(s, ++nth, block_data_frame(reader.block), block_docs_bytes(reader.block))) {
            rc = RC_NOMEM;
            break;
        }
    }
    row_reader_done(&reader);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Bytes that the test samples lose with the dictionary; negative: they gain. */
static int64_t saving(const struct index *ix, const struct samples *s, struct dict *dict)
{
    int64_t saved = 0;
    size_t at = 0, cap = 0;
    uint8_t *dst = NULL;
    for (size_t i = 0; i < s->test_count; at += s->test_size[i++]) {
        struct slice frame = slice_of(s->test.ptr + at, s->test_size[i]);
        size_t with = frame.len, without = frame.len;
        if (codec_bound(CODEC_ZSTD, frame.len) > cap) {
            free(dst);
            cap = codec_bound(CODEC_ZSTD, frame.len);
            dst = malloc(cap);
            if (dst == NULL)
                return INT64_MIN;
        }
        /* A frame that does not shrink is stored raw: its length stays. */
        (void)!codec_compress(CODEC_ZSTD, ix->spec.level, frame, dst, cap, &without);
        (void)!dict_compress(dict, ix->spec.level, frame, dst, cap, &with);
        saved += (int64_t)without - (int64_t)with;
    }
    free(dst);
    return saved;
}

/* Q2. The size that saves most, in bytes over the whole index; NULL when none pays. */
static struct dict *train_best(struct index *ix, const struct samples *s, uint32_t number,
                               uint64_t raw_all)
{
    static const size_t sizes[] = {48 * KIB, 112 * KIB};
    struct dict *best = NULL;
    double best_gain = 0;
    for (size_t i = 0; i < ARRAY_LEN(sizes) && s->raw != 0; i++) {
        struct buf bytes = {0};
        if (dict_train(buf_slice(&s->train), s->train_size, s->train_count, sizes[i], &bytes) ==
            RC_OK) {
            struct dict *d = dict_make(number, buf_slice(&bytes));
            double gain = d == NULL ? 0
                                    : (double)saving(ix, s, d) * (double)raw_all / (double)s->raw -
                                          (double)bytes.len;
            if (d != NULL && gain > best_gain) {
                dict_release(best);
                best = dict_retain(d);
                best_gain = gain;
            }
            dict_release(d);
        }
        bool larger = best_gain > LARGER_FROM * (double)bytes.len;
        buf_done(&bytes);
        if (!larger)
            break;
    }
    return best;
}

/* The state names it as the current one; nobody uses it before that is committed. */
static enum rc save_coming(struct index *ix, struct catalog_txn *txn, uint32_t number,
                           uint64_t next, struct err *err)
{
    pthread_mutex_lock(&ix->table);
    ix->dict_coming = number;
    ix->dict_since = next; /* older blocks have none, or an older one */
    pthread_mutex_unlock(&ix->table);
    return index_save_state(txn, ix, ix->packed_seq, ix->idruns, err);
}

/* Durable first, then in use (Q1). While a checkpoint's cut is half carried over, the state is its
 * own to save: then it is tried another time. */
static enum rc publish(struct index *ix, struct dict *dict, struct err *err)
{
    struct catalog_txn *txn = NULL;
    struct segment_writer *w = NULL;
    uint32_t number = dict_number(dict);
    dict_release(learn(ix, dict_retain(dict)));
    pthread_mutex_lock(&ix->store->layout);
    pthread_mutex_lock(&ix->write);
    uint64_t next = ix->next_seq;
    pthread_mutex_unlock(&ix->write);
    enum rc rc =
        atomic_load(&ix->deleted) || ix->cut ? RC_NOT_FOUND : checkpoint_segment(ix, &w, err);
    if (rc == RC_OK)
        rc = index_dict_to_segment(ix, w, number, err);
    if (rc == RC_OK)
        rc = segment_sync(w, err);
    if (rc != RC_OK && w != NULL)
        checkpoint_abandon_segment(ix);
    if (rc == RC_OK)
        rc = catalog_begin(ix->store->catalog, &txn, err);
    if (rc == RC_OK)
        rc = index_dict_carry(ix, txn, err);
    if (rc == RC_OK)
        rc = save_coming(ix, txn, number, next, err);
    if (rc == RC_OK)
        rc = catalog_commit(txn, err);
    else
        catalog_abort(txn);
    if (rc == RC_OK)
        index_dict_carried(ix);
    pthread_mutex_lock(&ix->table);
    ix->dict_coming = 0;
    if (rc == RC_OK)
        ix->dict_current = number;
    else
        ix->dict_since = 0;
    pthread_mutex_unlock(&ix->table);
    pthread_mutex_unlock(&ix->store->layout);
    return rc;
}

enum rc index_train(struct index *index, bool force, struct err *err)
{
    struct samples s = {0};
    struct dict *dict = NULL;
    if (index->spec.codec != CODEC_ZSTD || !index->spec.dictionary)
        return RC_OK;
    pthread_mutex_lock(&index->table);
    uint64_t raw = index->block_raw_bytes;
    bool due = index->dict_current == 0 && !index->cut && raw >= index->dict_try_raw &&
               (force ? raw > 0 : raw >= TRAIN_FROM_RAW);
    uint32_t number = index->dict_next;
    pthread_mutex_unlock(&index->table);
    if (!due)
        return RC_OK;
    enum rc rc = collect(index, &s, err);
    if (rc == RC_OK)
        dict = train_best(index, &s, number, raw);
    samples_done(&s);
    pthread_mutex_lock(&index->table);
    index->dict_next = number + 1;
    index->dict_try_raw = 2 * raw; /* of a failure, too: not before there is twice as much */
    pthread_mutex_unlock(&index->table);
    if (rc == RC_OK && dict != NULL)
        rc = publish(index, dict, err);
    dict_release(dict);
    return rc == RC_NOT_FOUND || atomic_load(&index->deleted) ? RC_OK : rc;
}
