/* SPDX-License-Identifier: Apache-2.0 */
/* When an index gets a dictionary: one trained on its own blocks, or that of its predecessor.
 *
 * Candidates are tried on samples that they were not trained on. Q2: one is kept only if what it
 * saves there, counted over what the index holds, or will hold if it grows like its predecessor, is
 * more than its own bytes.
 *
 *   - Nothing is tried before TRAIN_FROM_RAW, or FOLLOW_FROM_RAW where there is a predecessor.
 *   - The predecessor's must save the FOLLOW_PART of its bytes on what is there already, so that
 *     one that stays small is not made larger by a guess.
 *   - An index that took one over trains its own when there is enough, and keeps the better. One
 *     that trained a small one tries a larger when it has grown (GROWN), or when it is merged.
 *   - What came of it is part of the index' state: a failure is not repeated before there is twice
 *     as much, in no life of the daemon.
 * A dictionary that is taken over is copied: nothing depends on the predecessor afterwards. */
#include "config/limits.h"
#include "storage/engine.h"

#include <stdlib.h>

/* Training begins when so many raw bytes are packed, and reads at most so many bytes of frames. */
#define TRAIN_FROM_RAW   (8 * MIB)
#define TRAIN_SAMPLE_MAX (5 * MIB)
/* Every so many-th sample is kept out of the training and tells what it is worth. */
#define HOLD_OUT     5
#define SAMPLE_BYTES (16 * KIB)
/* Sizes are tried in order, the next one only where the gain is so many times the last one's bytes.
 * Measured on 20 MB of each corpus, 16 KB save three quarters of what 48 KB do and pay from 0.6 MB
 * (products) to 4 MB (apache) on; 48 KB pay from three times as much. Where so much is expected the
 * smallest is left out. From about 64 MB on 112 KB save more than 48 KB by more than they are
 * larger, and training takes as long for each size: there they are all that is tried. */
#define LARGER_FROM     4
#define SKIP_SMALL_RAW  (32 * MIB)
#define SKIP_MIDDLE_RAW (64 * MIB)
#define SMALL_BYTES     (32 * KIB)
/* The next try after success is at twice the raw bytes when asked for, else so many times later. */
#define GROWN 4

#define FOLLOW_FROM_RAW   (512 * KIB)
#define FOLLOW_SAMPLE_MAX (512 * KIB)
#define FOLLOW_PART       2 /* one half */

struct samples {
    struct buf train, test;
    size_t *train_size, *test_size;
    size_t train_count, test_count, cap;
    size_t hold_out;
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
    if (nth % s->hold_out == 0) {
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

/* How many blocks there are for each that is read: samples are spread over the whole index when it
 * is large, without reading it all. A block from the middle tells how much text its documents have;
 * the first ones, made before it was known how far documents pack, are shorter than the others. */
static enum rc find_stride(struct row_reader *reader, struct index *ix, size_t max, double *out,
                           struct err *err)
{
    *out = 1;
    pthread_mutex_lock(&ix->write);
    uint64_t middle = ix->next_seq / 2;
    pthread_mutex_unlock(&ix->write);
    enum rc rc = row_reader_seek(reader, ix, middle, err);
    if (rc != RC_OK || reader->block == NULL || block_docs_bytes(reader->block) == 0)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    pthread_mutex_lock(&ix->table);
    double raw = (double)ix->block_raw_bytes;
    pthread_mutex_unlock(&ix->table);
    double text =
        raw * (double)block_data_frame(reader->block).len / (double)block_docs_bytes(reader->block);
    if (text > (double)max)
        *out = text / (double)max;
    return RC_OK;
}

static enum rc collect(struct index *ix, size_t max, struct samples *s, struct err *err)
{
    struct row_reader reader;
    double stride = 1, at = 0;
    uint64_t seq = 0;
    row_reader_init(&reader, ix->store, BLOCK_ALL, false);
    enum rc rc = find_stride(&reader, ix, max, &stride, err);
    for (size_t nth = 1; rc == RC_OK && s->train.len + s->test.len < max; nth++) {
        rc = row_reader_seek(&reader, ix, seq, err);
        if (rc != RC_OK || reader.block == NULL)
            break; /* the end, or not packed yet: the newest rows */
        if (!add_frame(s, nth, block_data_frame(reader.block), block_docs_bytes(reader.block)))
            rc = RC_NOMEM;
        if (at < (double)reader.first) /* behind what is gone */
            at = (double)reader.first;
        at += stride * (double)(reader.last - reader.first + 1);
        seq = at > (double)reader.last ? (uint64_t)at : reader.last + 1;
    }
    row_reader_done(&reader);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- judging */

struct trial {
    struct index *ix;
    struct samples s;
    uint64_t raw;      /* of the documents in packed blocks */
    double expected;   /* of all that the index will have */
    uint64_t base;     /* bytes of the test samples as they are packed now */
    struct dict *best; /* that pays */
    double best_gain;
    enum dict_outcome outcome;
};

/* Bytes that the test samples come to with a dictionary, or without. */
static enum rc packed_bytes_of(const struct index *ix, const struct samples *s, struct dict *dict,
                               uint64_t *out)
{
    size_t at = 0, cap = 0;
    uint8_t *dst = NULL;
    uint64_t sum = 0;
    for (size_t i = 0; i < s->test_count; at += s->test_size[i++]) {
        struct slice frame = slice_of(s->test.ptr + at, s->test_size[i]);
        size_t len = frame.len; /* of a frame that does not shrink: it is stored raw */
        if (codec_bound(CODEC_ZSTD, frame.len) > cap) {
            free(dst);
            cap = codec_bound(CODEC_ZSTD, frame.len);
            dst = malloc(cap);
            if (dst == NULL)
                return RC_NOMEM;
        }
        enum rc rc = dict == NULL
                         ? codec_compress(CODEC_ZSTD, ix->spec.level, frame, dst, cap, &len)
                         : dict_compress(dict, ix->spec.level, frame, dst, cap, &len);
        if (rc == RC_NOMEM) {
            free(dst);
            return rc;
        }
        sum += len;
    }
    free(dst);
    *out = sum;
    return RC_OK;
}

/* Takes over the candidate, which may be NULL. */
static void judge(struct trial *t, struct dict *candidate, enum dict_outcome how)
{
    uint64_t with = 0;
    if (candidate == NULL)
        return;
    double len = (double)dict_bytes(candidate).len;
    if (packed_bytes_of(t->ix, &t->s, candidate, &with) == RC_OK) {
        double rate = ((double)t->base - (double)with) / (double)t->s.raw; /* a raw byte saves */
        double gain = rate * t->expected - len;
        bool early = how == DICT_FOLLOWED && rate * (double)t->raw * FOLLOW_PART < len;
        if (gain > t->best_gain && !early) {
            dict_release(t->best);
            t->best = dict_retain(candidate);
            t->best_gain = gain;
            t->outcome = how;
        } else if (t->best == NULL) {
            t->outcome = DICT_NO_GAIN;
        }
    }
    dict_release(candidate);
}

static void train_sizes(struct trial *t, uint32_t number)
{
    static const size_t sizes[] = {16 * KIB, 48 * KIB, 112 * KIB};
    size_t first = t->expected < (double)SKIP_SMALL_RAW    ? 0
                   : t->expected < (double)SKIP_MIDDLE_RAW ? 1
                                                           : 2;
    /* Documents of numbers have little text: no size that takes more samples than there are. */
    while (first > 0 && t->s.train.len < DICT_SAMPLES_MIN * sizes[first])
        first--;
    for (size_t i = first; i < ARRAY_LEN(sizes); i++) {
        struct buf bytes = {0};
        enum rc rc = dict_train(buf_slice(&t->s.train), t->s.train_size, t->s.train_count,
                                &t->ix->spec, sizes[i], &bytes);
        if (rc == RC_OK)
            judge(t, dict_make(number, buf_slice(&bytes)), DICT_TRAINED);
        else if (t->best == NULL && i == first)
            t->outcome = rc == RC_AGAIN ? DICT_TOO_LITTLE : DICT_NOTHING;
        bool larger = t->best_gain > LARGER_FROM * (double)bytes.len;
        buf_done(&bytes);
        if (rc != RC_OK || !larger)
            break;
    }
}

/* ---- the predecessor */

static struct index *find_number(struct store *store, uint32_t number)
{
    struct index *found = NULL;
    pthread_mutex_lock(&store->names);
    for (size_t i = 0; i < store->index_count && found == NULL; i++)
        if (store->indices[i]->number == number)
            found = index_retain(store->indices[i]);
    pthread_mutex_unlock(&store->names);
    return found;
}

static bool takes_dict(const struct codec_spec *spec)
{
    return spec->codec == CODEC_ZSTD && spec->dictionary;
}

enum index_bequest index_bequest(struct index *index, const struct codec_spec *spec)
{
    if (index->spec.layout != spec->layout)
        return BEQUEST_NOTHING;
    pthread_mutex_lock(&index->table);
    bool has = index->dict_current != 0 || index->dict_from != 0;
    pthread_mutex_unlock(&index->table);
    if (has && takes_dict(spec) && takes_dict(&index->spec))
        return BEQUEST_DICTIONARY;
    return atomic_load(&index->packed_ratio) != 0 ? BEQUEST_RATIO : BEQUEST_NOTHING;
}

void index_follow(struct index *index, struct index *predecessor)
{
    enum index_bequest what = index_bequest(predecessor, &index->spec);
    if (what == BEQUEST_NOTHING)
        return;
    atomic_store(&index->packed_ratio, atomic_load(&predecessor->packed_ratio));
    if (what != BEQUEST_DICTIONARY)
        return;
    pthread_mutex_lock(&predecessor->table);
    uint32_t from = predecessor->dict_current != 0 ? predecessor->number : predecessor->dict_from;
    pthread_mutex_unlock(&predecessor->table);
    index->dict_from = from;
}

/* A copy of what the predecessor's new blocks are made with, under a number of the index' own. One
 * that is gone, or has none (any more), leaves nothing: *out NULL. */
static void predecessor_dict(struct trial *t, uint32_t from, uint32_t number, struct dict **out)
{
    struct err ignored = {0};
    struct dict *theirs = NULL;
    struct index *old = find_number(t->ix->store, from);
    *out = NULL;
    if (old == NULL) {
        pthread_mutex_lock(&t->ix->table);
        t->ix->dict_from = 0;
        pthread_mutex_unlock(&t->ix->table);
        return;
    }
    if (index_current_dict(old, &theirs, &ignored) == RC_OK && theirs != NULL) {
        pthread_mutex_lock(&old->table);
        double grows_to = (double)old->raw_bytes;
        pthread_mutex_unlock(&old->table);
        t->expected = grows_to > t->expected ? grows_to : t->expected;
        *out = dict_make(number, dict_bytes(theirs));
    }
    dict_release(theirs);
    index_release(old);
}

/* ---- what came of it */

/* The number first, so that it is never given to another one (T1), whatever becomes of the record
 * in a crash; then the record; then the state that names it as the current one. */
static enum rc publish_locked(struct index *ix, const struct dict_judgement *judged,
                              uint32_t number, struct err *err)
{
    struct catalog_txn *txn = NULL;
    struct segment_writer *w = NULL;
    pthread_mutex_lock(&ix->write);
    uint64_t next = ix->next_seq;
    pthread_mutex_unlock(&ix->write);
    TRY(index_commit_state(ix, err));
    enum rc rc = checkpoint_segment(ix, &w, err);
    if (rc == RC_OK)
        rc = index_dict_to_segment(ix, w, number, err);
    if (rc == RC_OK)
        rc = segment_sync(w, err);
    if (rc != RC_OK && w != NULL)
        checkpoint_abandon_segment(ix);
    TRY(rc);
    pthread_mutex_lock(&ix->table);
    ix->dict_coming = number;
    ix->dict_since = next; /* older blocks have none, or an older one */
    ix->dict_renewed = 0;
    ix->dict_judged = *judged;
    pthread_mutex_unlock(&ix->table);
    TRY_OUT(catalog_begin(ix->store->catalog, &txn, err));
    TRY_OUT(index_dict_carry(ix, txn, err));
    TRY_OUT(index_save_state(txn, ix, ix->packed_seq, ix->idruns, err));
    struct catalog_txn *whole = txn;
    txn = NULL;
    TRY_OUT(catalog_commit(whole, err));
    index_dict_carried(ix);
out:
    catalog_abort(txn);
    return rc;
}

/* Durable first, then in use (Q1). While a checkpoint's cut is half carried over, the state is its
 * own to save: RC_AGAIN. */
static enum rc settle(struct trial *t, uint32_t number, struct err *err)
{
    struct index *ix = t->ix;
    struct dict_judgement judged = {t->outcome, 2 * t->raw}, before;
    enum rc rc = RC_OK;
    pthread_mutex_lock(&ix->store->layout);
    pthread_mutex_lock(&ix->table);
    before = ix->dict_judged;
    uint64_t since = ix->dict_since;
    bool busy = atomic_load(&ix->deleted) || ix->cut;
    if (t->best == NULL && ix->dict_current != 0)
        judged.outcome = before.outcome; /* the one that it has stays */
    if (!busy && t->best == NULL)
        ix->dict_judged = judged;
    if (!busy && t->best != NULL)
        ix->dict_next = number + 1;
    pthread_mutex_unlock(&ix->table);
    /* Under a number that is given for good: a later try has another one. */
    if (!busy && t->best != NULL)
        dict_release(index_dict_learn(ix, dict_retain(t->best)));
    if (busy)
        rc = RC_AGAIN;
    else
        rc = t->best != NULL ? publish_locked(ix, &judged, number, err)
                             : index_commit_state(ix, err);
    pthread_mutex_lock(&ix->table);
    ix->dict_coming = 0;
    if (rc == RC_OK && t->best != NULL) {
        ix->dict_current = number;
        ix->dict_bytes =
            (uint32_t)align_up(BLOCK_HEADER_BYTES + dict_bytes(t->best).len, BLOCK_ALIGN);
    } else if (!busy && rc != RC_OK && t->best != NULL) { /* not at once again, in this life */
        ix->dict_judged = (struct dict_judgement){before.outcome, judged.try_raw};
        ix->dict_since = since;
    }
    pthread_mutex_unlock(&ix->table);
    pthread_mutex_unlock(&ix->store->layout);
    return rc;
}

/* ---- when */

/* Raw bytes in packed blocks. Caller holds table. */
static uint64_t packed_raw_locked(const struct index *ix)
{
    uint64_t raw = ix->block_raw_bytes;
    for (size_t i = 0; i < ix->pending_count; i++)
        if (ix->pending[i]->state == PENDING_PACKED)
            raw += ix->pending[i]->raw_bytes;
    return raw;
}

bool index_follow_due_locked(const struct index *index)
{
    return index->dict_from != 0 && index->dict_current == 0 && !index->cut &&
           packed_raw_locked(index) >= FOLLOW_FROM_RAW &&
           packed_raw_locked(index) >= index->dict_judged.try_raw;
}

static enum rc run_trial(struct trial *t, uint32_t from, uint32_t number, bool trains,
                         struct err *err)
{
    struct index *ix = t->ix;
    struct dict *current = NULL, *theirs = NULL;
    struct err ignored = {0};
    t->s.hold_out = trains ? HOLD_OUT : 1;
    TRY(collect(ix, trains ? TRAIN_SAMPLE_MAX : FOLLOW_SAMPLE_MAX, &t->s, err));
    if (from != 0)
        predecessor_dict(t, from, number, &theirs);
    if (index_current_dict(ix, &current, &ignored) != RC_OK)
        current = NULL; /* not to be had: any other is better */
    enum rc rc = packed_bytes_of(ix, &t->s, current, &t->base);
    dict_release(current);
    t->outcome = DICT_TOO_LITTLE;
    if (rc != RC_OK || t->s.raw == 0) {
        dict_release(theirs);
        return rc;
    }
    judge(t, theirs, DICT_FOLLOWED);
    if (trains)
        train_sizes(t, number);
    else if (t->best == NULL)
        t->outcome = DICT_UNTRIED; /* too early to say */
    return RC_OK;
}

enum rc index_train(struct index *index, bool force, struct err *err)
{
    struct trial t = {.ix = index};
    if (!takes_dict(&index->spec))
        return RC_OK;
    pthread_mutex_lock(&index->table);
    t.raw = packed_raw_locked(index);
    t.expected = (double)t.raw;
    bool small = index->dict_judged.outcome == DICT_TRAINED && index->dict_bytes < SMALL_BYTES;
    bool own = index->dict_current == 0 || index->dict_judged.outcome == DICT_FOLLOWED || small;
    uint64_t try_raw = index->dict_judged.try_raw * (small && !force ? GROWN : 1);
    bool trains = own && (force ? t.raw > 0 : index->block_raw_bytes >= TRAIN_FROM_RAW);
    bool follows = index_follow_due_locked(index);
    bool due = (trains || follows) && !index->cut && t.raw >= try_raw;
    uint32_t number = index->dict_next;
    uint32_t from = index->dict_current == 0 ? index->dict_from : 0;
    pthread_mutex_unlock(&index->table);
    if (!due)
        return RC_OK;
    enum rc rc = run_trial(&t, from, number, trains, err);
    if (rc == RC_OK)
        rc = settle(&t, number, err);
    samples_done(&t.s);
    dict_release(t.best);
    return rc == RC_AGAIN || atomic_load(&index->deleted) ? RC_OK : rc;
}
