/* SPDX-License-Identifier: Apache-2.0 */
/* Training and use of zstd dictionaries. The digested forms are made under a mutex on first use and
 * published atomically; a compression with another level than the first one's makes its own. */
#include "storage/dict.h"

#include "config/limits.h"
#include "storage/cover.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <zdict.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_createDDict_byReference, which every release has */
#include <zstd.h>

/* Fewer samples, or less in them, make ZDICT fail or give a copy of the samples. */
#define SAMPLES_MIN 8
#define LEVELS_MAX  23

/* Texts of columns are put together of segments of one length (cover.h), which takes a seventh of
 * the time of ZDICT_trainFromBuffer and its trials. Whole documents differ too much for that
 * (kubernetes 2 %), and so do samples no longer than the longest segment that zstd tries: documents
 * of numbers have hardly more text than what all blocks begin with, best taken in one piece. */
#define TRIED_BYTES_MAX 2000
/* The part of the samples whose statistics a dictionary gets: all are as good within 0.2 %. With
 * statistics of the level that blocks are packed with, not of 3, texts are 0.2 to 0.5 % smaller at
 * level 1, 0.5 to 1.2 % at 6, 0.3 to 0.9 % at 9, 0.1 to 1.4 % at 12 and 15. */
#define STATISTICS_PART 4
/* What stands before the content at most, the entropy tables among it (zdict.c: HBUFFSIZE). Content
 * that does not fit beside it loses its end, which is the best of it. */
#define TABLES_BYTES_MAX 256

struct dict {
    atomic_size_t refs;
    uint32_t number;
    uint64_t serial; /* of the process's dictionaries, never used twice */
    pthread_mutex_t digest;
    _Atomic(ZSTD_CDict *) cdict[LEVELS_MAX];
    _Atomic(ZSTD_DDict *) ddict;
    size_t len;
    uint8_t bytes[];
};

static enum rc train_texts(struct slice samples, const size_t *sizes, unsigned count, int level,
                           size_t dict_bytes, uint8_t *dst, size_t *len_out)
{
    size_t cap = dict_bytes - TABLES_BYTES_MAX, len = 0;
    uint8_t *content = malloc(cap);
    if (content == NULL || !cover_choose(samples, content, cap, &len)) {
        free(content);
        return RC_NOMEM;
    }
    unsigned part = count / STATISTICS_PART < SAMPLES_MIN ? SAMPLES_MIN : count / STATISTICS_PART;
    *len_out = ZDICT_finalizeDictionary(dst, dict_bytes, content + cap - len, len, samples.ptr,
                                        sizes, part, (ZDICT_params_t){.compressionLevel = level});
    free(content);
    return RC_OK;
}

enum rc dict_train(struct slice samples, const size_t *sizes, size_t count,
                   const struct codec_spec *spec, size_t dict_bytes, struct buf *out)
{
    size_t n = 0;
    assert(dict_bytes >= 2 * TABLES_BYTES_MAX);
    if (count < SAMPLES_MIN || samples.len < DICT_SAMPLES_MIN * dict_bytes)
        return RC_AGAIN;
    if (count > UINT32_MAX)
        return RC_NOT_FOUND;
    if (!buf_reserve(out, dict_bytes))
        return RC_NOMEM;
    uint8_t *dst = out->ptr + out->len;
    if (spec->layout == LAYOUT_COLUMNAR && samples.len > count * TRIED_BYTES_MAX)
        TRY(train_texts(samples, sizes, (unsigned)count, spec->level, dict_bytes, dst, &n));
    else
        n = ZDICT_trainFromBuffer(dst, dict_bytes, samples.ptr, sizes, (unsigned)count);
    if (ZDICT_isError(n) || n < DICT_BYTES_MIN / 2)
        return RC_NOT_FOUND;
    out->len += n;
    return RC_OK;
}

struct dict *dict_make(uint32_t number, struct slice bytes)
{
    static _Atomic uint64_t made;
    struct dict *d = calloc(1, sizeof *d + bytes.len);
    if (d == NULL)
        return NULL;
    atomic_init(&d->refs, 1);
    d->number = number;
    d->serial = 1 + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    pthread_mutex_init(&d->digest, NULL);
    d->len = bytes.len;
    memcpy(d->bytes, bytes.ptr, bytes.len);
    return d;
}

struct dict *dict_retain(struct dict *dict)
{
    if (dict != NULL)
        atomic_fetch_add_explicit(&dict->refs, 1, memory_order_relaxed);
    return dict;
}

void dict_release(struct dict *dict)
{
    if (dict == NULL || atomic_fetch_sub_explicit(&dict->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < LEVELS_MAX; i++)
        ZSTD_freeCDict(atomic_load(&dict->cdict[i]));
    ZSTD_freeDDict(atomic_load(&dict->ddict));
    pthread_mutex_destroy(&dict->digest);
    free(dict);
}

uint32_t dict_number(const struct dict *dict)
{
    return dict->number;
}

struct slice dict_bytes(const struct dict *dict)
{
    return slice_of(dict->bytes, dict->len);
}

static ZSTD_CDict *cdict_of(struct dict *d, int level)
{
    assert(level > 0 && level < LEVELS_MAX);
    ZSTD_CDict *c = atomic_load_explicit(&d->cdict[level], memory_order_acquire);
    if (c != NULL)
        return c;
    pthread_mutex_lock(&d->digest);
    c = atomic_load(&d->cdict[level]);
    if (c == NULL) {
        c = ZSTD_createCDict(d->bytes, d->len, level);
        atomic_store_explicit(&d->cdict[level], c, memory_order_release);
    }
    pthread_mutex_unlock(&d->digest);
    return c;
}

static const ZSTD_DDict *ddict_of(struct dict *d)
{
    ZSTD_DDict *p = atomic_load_explicit(&d->ddict, memory_order_acquire);
    if (p != NULL)
        return p;
    pthread_mutex_lock(&d->digest);
    p = atomic_load(&d->ddict);
    if (p == NULL) {
        p = ZSTD_createDDict_byReference(d->bytes, d->len);
        atomic_store_explicit(&d->ddict, p, memory_order_release);
    }
    pthread_mutex_unlock(&d->digest);
    return p;
}

/* ---- contexts, one a thread */

/* Where frames are decompressed right behind a copy of their dictionary. */
struct window {
    uint64_t serial; /* of the dictionary, 0: none */
    ZSTD_DDict *digested;
    uint8_t *bytes; /* the dictionary ends at WINDOW_AT, the room is behind */
};

struct contexts {
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
    struct window window;
    uint64_t last; /* serial of what the last frame was decompressed with */
    unsigned run;  /* and how many with it in a row */
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void contexts_free(void *p)
{
    struct contexts *x = p;
    ZSTD_freeCCtx(x->c);
    ZSTD_freeDCtx(x->d);
    ZSTD_freeDDict(x->window.digested);
    free(x->window.bytes);
    free(x);
}

static void key_make(void)
{
    int no = pthread_key_create(&key, contexts_free);
    assert(no == 0);
}

static struct contexts *contexts_get(void)
{
    pthread_once(&key_once, key_make);
    struct contexts *x = pthread_getspecific(key);
    if (x == NULL && (x = calloc(1, sizeof *x)) != NULL && pthread_setspecific(key, x) != 0) {
        free(x);
        x = NULL;
    }
    return x;
}

/* For a frame of more than 16 KB whose length it knows, zstd copies the tables of the digested
 * dictionary (384 KB at level 3) and searches the copy. Of a stream it does not know the length,
 * and searches them where they are: at the levels of the strategy "dfast" the same size in three
 * quarters of the time at 16 to 40 KB, and no faster from 64 KB on; at other levels slower. */
static bool better_as_stream(int level, size_t len)
{
    return (level == 3 || level == 4) && len > 16 * KIB && len <= 64 * KIB;
}

/* The result as of ZSTD_compress2, but for 0: no room in dst. */
static size_t compress_stream(ZSTD_CCtx *c, struct slice src, uint8_t *dst, size_t cap)
{
    ZSTD_inBuffer in = {src.ptr, 0, 0};
    ZSTD_outBuffer out = {dst, cap, 0};
    /* All at once would tell it the length: the stream begins with nothing. */
    size_t left = ZSTD_compressStream2(c, &out, &in, ZSTD_e_continue);
    if (!ZSTD_isError(left)) {
        in.size = src.len;
        left = ZSTD_compressStream2(c, &out, &in, ZSTD_e_end);
    }
    return ZSTD_isError(left) ? left : left != 0 ? 0 : out.pos;
}

enum rc dict_compress(struct dict *dict, int level, struct slice src, uint8_t *dst, size_t cap,
                      size_t *len_out)
{
    struct contexts *x = contexts_get();
    ZSTD_CDict *c = cdict_of(dict, level);
    if (x == NULL || c == NULL)
        return RC_NOMEM;
    if (x->c == NULL) {
        if ((x->c = ZSTD_createCCtx()) == NULL)
            return RC_NOMEM;
        /* The block's header has what the frame's would repeat. */
        ZSTD_CCtx_setParameter(x->c, ZSTD_c_contentSizeFlag, 0);
        ZSTD_CCtx_setParameter(x->c, ZSTD_c_dictIDFlag, 0);
    }
    if (ZSTD_isError(ZSTD_CCtx_refCDict(x->c, c)))
        return RC_NOMEM;
    size_t n = better_as_stream(level, src.len) ? compress_stream(x->c, src, dst, cap)
                                                : ZSTD_compress2(x->c, dst, cap, src.ptr, src.len);
    bool failed = ZSTD_isError(n) || n == 0;
    if (failed) /* in the middle of a frame no dictionary can be changed, never again */
        ZSTD_CCtx_reset(x->c, ZSTD_reset_session_only);
    ZSTD_CCtx_refCDict(x->c, NULL);
    if (failed || n >= src.len)
        return RC_TOO_LARGE;
    *len_out = n;
    return RC_OK;
}

/* To zstd a match in a dictionary that lies elsewhere is an unlikely case and a call of memmove;
 * one in what stands right before the output is a match like all others. With the copy of the
 * output that it takes, frames of 40 KB are open in 7/8 of the time on logs and in 2/3 on long
 * texts. A window costs as much as a frame or two: it is for who stays with a dictionary. */
#define WINDOW_AT   DICT_BYTES_MAX
#define WINDOW_ROOM (256 * KIB)
#define WINDOW_RUN  8

/* The thread's window for a frame with that dictionary; NULL: none, or it does not pay. */
static const struct window *window_for(struct contexts *x, const struct dict *dict, size_t raw_len)
{
    struct window *w = &x->window;
    x->run = x->last == dict->serial ? x->run + 1 : 1;
    x->last = dict->serial;
    if (raw_len > WINDOW_ROOM)
        return NULL;
    if (w->serial == dict->serial)
        return w;
    if (x->run < WINDOW_RUN || dict->len > WINDOW_AT)
        return NULL;
    if (w->bytes == NULL && (w->bytes = malloc(WINDOW_AT + WINDOW_ROOM)) == NULL)
        return NULL;
    ZSTD_freeDDict(w->digested);
    uint8_t *copy = memcpy(w->bytes + WINDOW_AT - dict->len, dict->bytes, dict->len);
    w->digested = ZSTD_createDDict_byReference(copy, dict->len);
    w->serial = w->digested != NULL ? dict->serial : 0;
    return w->digested != NULL ? w : NULL;
}

enum rc dict_decompress(struct dict *dict, struct slice src, uint8_t *dst, size_t raw_len,
                        struct err *err)
{
    struct contexts *x = contexts_get();
    if (x == NULL || (x->d == NULL && (x->d = ZSTD_createDCtx()) == NULL))
        return err_set(err, RC_NOMEM, 0, "no memory to decompress with a dictionary");
    const struct window *w = window_for(x, dict, raw_len);
    const ZSTD_DDict *d = w != NULL ? w->digested : ddict_of(dict);
    uint8_t *to = w != NULL ? w->bytes + WINDOW_AT : dst;
    if (d == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory to decompress with a dictionary");
    size_t n = ZSTD_decompress_usingDDict(x->d, to, raw_len, src.ptr, src.len, d);
    if (ZSTD_isError(n))
        return err_set(err, RC_CORRUPT, 0, "zstd with dictionary %u: %s", dict->number,
                       ZSTD_getErrorName(n));
    if (n != raw_len)
        return err_set(err, RC_CORRUPT, 0, "zstd with dictionary %u: %zu bytes, not %zu",
                       dict->number, n, raw_len);
    if (to != dst)
        memcpy(dst, to, raw_len);
    return RC_OK;
}
