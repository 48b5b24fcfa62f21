/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs' libraries behind one pair of calls.
 *
 *   1. A thread's contexts live in a pthread key: made on first use, freed when the thread ends.
 *   2. zstd frames carry no content size, checksum or dictionary number: the block header has them.
 *   3. What the libraries cannot take (over 2 GB in one piece) is RC_TOO_LARGE: stored raw. */
#include "storage/codec.h"

#include "config/limits.h"

#include <lz4.h>
#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define ZSTD_LEVEL_DEFAULT 3
#define ZLIB_LEVEL_DEFAULT 6
#define ZLIB_LEVEL_MAX     9

#define BLOCKS      DEFAULT_BLOCK_BYTES, DEFAULT_PACKED_BYTES, LAYOUT_COLUMNAR
#define BLOCKS_BEST DEFAULT_BLOCK_BYTES_BEST, DEFAULT_PACKED_BYTES_BEST, LAYOUT_COLUMNAR

static const struct codec_name names[] = {
    {"default", {CODEC_ZSTD, ZSTD_LEVEL_DEFAULT, true, BLOCKS}, false},
    {"zstd", {CODEC_ZSTD, ZSTD_LEVEL_DEFAULT, true, BLOCKS}, true},
    {"zstd_no_dict", {CODEC_ZSTD, ZSTD_LEVEL_DEFAULT, false, BLOCKS}, true},
    {"jd_zstd", {CODEC_ZSTD, ZSTD_LEVEL_DEFAULT, true, BLOCKS}, false},
    {"jd_zstd_6", {CODEC_ZSTD, 6, true, BLOCKS}, false},
    {"best_compression", {CODEC_ZSTD, 9, true, BLOCKS_BEST}, false},
    {"best_speed", {CODEC_LZ4, 0, false, BLOCKS}, false},
    {"lz4", {CODEC_LZ4, 0, false, BLOCKS}, false},
    {"zlib", {CODEC_ZLIB, ZLIB_LEVEL_DEFAULT, false, BLOCKS}, true},
    {"deflate", {CODEC_ZLIB, ZLIB_LEVEL_DEFAULT, false, BLOCKS}, true},
    /* Who asks for no compression wants the bytes as they are. */
    {"none", {CODEC_NONE, 0, false, DEFAULT_PLAIN_BYTES, 0, LAYOUT_PLAIN}, false},
};

void codec_set_layout(struct codec_spec *spec, enum block_layout layout)
{
    bool best = spec->layout == LAYOUT_COLUMNAR ? spec->packed_bytes > DEFAULT_PACKED_BYTES
                                                : spec->block_bytes > DEFAULT_PLAIN_BYTES;
    if (layout == spec->layout)
        return;
    spec->layout = layout;
    spec->packed_bytes = 0;
    if (layout == LAYOUT_PLAIN) {
        spec->block_bytes = best ? DEFAULT_PLAIN_BYTES_BEST : DEFAULT_PLAIN_BYTES;
        return;
    }
    spec->block_bytes = best ? DEFAULT_BLOCK_BYTES_BEST : DEFAULT_BLOCK_BYTES;
    spec->packed_bytes = best ? DEFAULT_PACKED_BYTES_BEST : DEFAULT_PACKED_BYTES;
}

const char *block_layout_text(enum block_layout layout)
{
    return layout == LAYOUT_COLUMNAR ? "columnar" : "plain";
}

/* ASCII only: the locale has no say in what a setting means. */
static bool same_name(struct slice name, const char *lower)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        if (c >= 'A' && c <= 'Z')
            c = (uint8_t)(c + ('a' - 'A'));
        if (c == 0 || c != (uint8_t)lower[i])
            return false;
    }
    return lower[name.len] == 0;
}

const struct codec_name *codec_find(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (same_name(name, names[i].name))
            return &names[i];
    return NULL;
}

const struct codec_name *codec_name_at(size_t i)
{
    return i < ARRAY_LEN(names) ? &names[i] : NULL;
}

void codec_levels(enum codec codec, int *min_out, int *max_out)
{
    *min_out = codec == CODEC_ZSTD || codec == CODEC_ZLIB ? 1 : 0;
    *max_out = 0;
    if (codec == CODEC_ZLIB)
        *max_out = ZLIB_LEVEL_MAX;
    if (codec == CODEC_ZSTD) /* asked at run time: the library is linked dynamically */
        *max_out = ZSTD_versionNumber() < 10505 ? LIMIT_ZSTD_LEVEL_OLD : LIMIT_ZSTD_LEVEL;
}

const char *codec_text(enum codec codec)
{
    switch (codec) {
    case CODEC_NONE:
        return "none";
    case CODEC_LZ4:
        return "lz4";
    case CODEC_ZLIB:
        return "zlib";
    case CODEC_ZSTD:
        return "zstd";
    }
    return "unknown";
}

/* ---- contexts of a thread */
struct contexts {
    ZSTD_CCtx *zstd_compress;
    ZSTD_DCtx *zstd_decompress;
    void *lz4;
    z_stream deflate, inflate;
    int deflate_level; /* 0: not made yet */
    bool inflate_made;
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void contexts_free(void *arg)
{
    struct contexts *c = arg;
    if (c == NULL)
        return;
    ZSTD_freeCCtx(c->zstd_compress);
    ZSTD_freeDCtx(c->zstd_decompress);
    free(c->lz4);
    if (c->deflate_level != 0)
        deflateEnd(&c->deflate);
    if (c->inflate_made)
        inflateEnd(&c->inflate);
    free(c);
}

static void key_make(void)
{
    key_made = pthread_key_create(&key, contexts_free) == 0;
}

/* NULL when memory or keys are out. */
static struct contexts *contexts(void)
{
    pthread_once(&key_once, key_make);
    if (!key_made)
        return NULL;
    struct contexts *c = pthread_getspecific(key);
    if (c != NULL)
        return c;
    c = calloc(1, sizeof *c);
    if (c != NULL && pthread_setspecific(key, c) != 0) {
        free(c);
        c = NULL;
    }
    return c;
}

void codec_thread_done(void)
{
    pthread_once(&key_once, key_make);
    if (!key_made)
        return;
    contexts_free(pthread_getspecific(key));
    pthread_setspecific(key, NULL);
}

static ZSTD_CCtx *zstd_compressor(struct contexts *c)
{
    if (c->zstd_compress != NULL)
        return c->zstd_compress;
    ZSTD_CCtx *z = ZSTD_createCCtx();
    if (z != NULL && (ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0)) ||
                      ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 0)) ||
                      ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_dictIDFlag, 0)))) {
        ZSTD_freeCCtx(z);
        z = NULL;
    }
    c->zstd_compress = z;
    return z;
}

/* ---- compress */
size_t codec_bound(enum codec codec, size_t len)
{
    size_t bound = len;
    if (codec == CODEC_ZSTD)
        bound = ZSTD_compressBound(len);
    else if (codec == CODEC_ZLIB)
        bound = compressBound(len);
    else if (codec == CODEC_LZ4 && len <= LZ4_MAX_INPUT_SIZE)
        bound = (size_t)LZ4_compressBound((int)len);
    return bound > len ? bound : len;
}

/* Matches of four bytes, which these levels take, cost more than the literals of packed text (hex,
 * numbers): with five every corpus was the same or smaller, and packed faster. */
#define ZSTD_LAZY_LEVEL 6
#define ZSTD_LAZY_MATCH 5

static enum rc zstd_deflate(struct contexts *c, int level, struct slice src, uint8_t *dst,
                            size_t cap, size_t *len_out)
{
    ZSTD_CCtx *z = zstd_compressor(c);
    int match = level >= ZSTD_LAZY_LEVEL ? ZSTD_LAZY_MATCH : 0; /* 0: the level's own */
    if (z == NULL || ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_minMatch, match)))
        return RC_NOMEM;
    size_t n = ZSTD_compress2(z, dst, cap, src.ptr, src.len);
    if (ZSTD_isError(n))
        return ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall ? RC_TOO_LARGE : RC_NOMEM;
    *len_out = n;
    return RC_OK;
}

static enum rc lz4_deflate(struct contexts *c, struct slice src, uint8_t *dst, size_t cap,
                           size_t *len_out)
{
    if (src.len > LZ4_MAX_INPUT_SIZE)
        return RC_TOO_LARGE;
    if (c->lz4 == NULL)
        c->lz4 = malloc((size_t)LZ4_sizeofState());
    if (c->lz4 == NULL)
        return RC_NOMEM;
    int room = cap > INT32_MAX ? INT32_MAX : (int)cap;
    int n = LZ4_compress_fast_extState(c->lz4, (const char *)src.ptr, (char *)dst, (int)src.len,
                                       room, 1);
    if (n <= 0)
        return RC_TOO_LARGE;
    *len_out = (size_t)n;
    return RC_OK;
}

static enum rc zlib_deflate(struct contexts *c, int level, struct slice src, uint8_t *dst,
                            size_t cap, size_t *len_out)
{
    if (src.len > INT32_MAX)
        return RC_TOO_LARGE;
    if (c->deflate_level != 0 && c->deflate_level != level) {
        deflateEnd(&c->deflate);
        c->deflate_level = 0;
    }
    if (c->deflate_level == 0) {
        c->deflate = (z_stream){0};
        if (deflateInit(&c->deflate, level) != Z_OK)
            return RC_NOMEM;
        c->deflate_level = level;
    } else if (deflateReset(&c->deflate) != Z_OK) {
        return RC_NOMEM;
    }
    z_stream *z = &c->deflate;
    z->next_in = (Bytef *)(uintptr_t)src.ptr;
    z->avail_in = (uInt)src.len;
    z->next_out = dst;
    z->avail_out = cap > INT32_MAX ? INT32_MAX : (uInt)cap;
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        return RC_TOO_LARGE;
    *len_out = z->total_out;
    return RC_OK;
}

enum rc codec_compress(enum codec codec, int level, struct slice src, uint8_t *dst, size_t cap,
                       size_t *len_out)
{
    if (codec == CODEC_NONE || src.len == 0)
        return RC_TOO_LARGE;
    struct contexts *c = contexts();
    if (c == NULL)
        return RC_NOMEM;
    size_t n = 0;
    if (codec == CODEC_ZSTD)
        TRY(zstd_deflate(c, level, src, dst, cap, &n));
    else if (codec == CODEC_ZLIB)
        TRY(zlib_deflate(c, level, src, dst, cap, &n));
    else
        TRY(lz4_deflate(c, src, dst, cap, &n));
    if (n >= src.len)
        return RC_TOO_LARGE;
    *len_out = n;
    return RC_OK;
}

/* ---- decompress */
static enum rc zstd_inflate(struct contexts *c, struct slice src, uint8_t *dst, size_t raw_len,
                            struct err *err)
{
    if (c->zstd_decompress == NULL)
        c->zstd_decompress = ZSTD_createDCtx();
    if (c->zstd_decompress == NULL)
        return err_set(err, RC_NOMEM, 0, "zstd: out of memory");
    size_t n = ZSTD_decompressDCtx(c->zstd_decompress, dst, raw_len, src.ptr, src.len);
    if (ZSTD_isError(n)) {
        bool memory = ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation;
        return err_set(err, memory ? RC_NOMEM : RC_CORRUPT, 0, "zstd: %s", ZSTD_getErrorName(n));
    }
    if (n != raw_len)
        return err_set(err, RC_CORRUPT, 0, "zstd: %zu bytes instead of %zu", n, raw_len);
    return RC_OK;
}

static enum rc lz4_inflate(struct slice src, uint8_t *dst, size_t raw_len, struct err *err)
{
    if (src.len > INT32_MAX || raw_len > INT32_MAX)
        return err_set(err, RC_CORRUPT, 0, "lz4: a frame over 2 GB");
    int n = LZ4_decompress_safe((const char *)src.ptr, (char *)dst, (int)src.len, (int)raw_len);
    if (n < 0)
        return err_set(err, RC_CORRUPT, 0, "lz4: malformed frame");
    if ((size_t)n != raw_len)
        return err_set(err, RC_CORRUPT, 0, "lz4: %d bytes instead of %zu", n, raw_len);
    return RC_OK;
}

static enum rc zlib_inflate(struct contexts *c, struct slice src, uint8_t *dst, size_t raw_len,
                            struct err *err)
{
    if (src.len > INT32_MAX || raw_len > INT32_MAX)
        return err_set(err, RC_CORRUPT, 0, "zlib: a frame over 2 GB");
    if (!c->inflate_made) {
        if (inflateInit(&c->inflate) != Z_OK)
            return err_set(err, RC_NOMEM, 0, "zlib: out of memory");
        c->inflate_made = true;
    } else {
        inflateReset(&c->inflate);
    }
    z_stream *z = &c->inflate;
    z->next_in = (Bytef *)(uintptr_t)src.ptr;
    z->avail_in = (uInt)src.len;
    z->next_out = dst;
    z->avail_out = (uInt)raw_len;
    int n = inflate(z, Z_FINISH);
    if (n == Z_MEM_ERROR)
        return err_set(err, RC_NOMEM, 0, "zlib: out of memory");
    if (n != Z_STREAM_END || z->avail_in != 0 || z->avail_out != 0)
        return err_set(err, RC_CORRUPT, 0, "zlib: malformed frame or another length than %zu",
                       raw_len);
    return RC_OK;
}

enum rc codec_decompress(enum codec codec, struct slice src, uint8_t *dst, size_t raw_len,
                         struct err *err)
{
    if (codec == CODEC_NONE) {
        if (src.len != raw_len)
            return err_set(err, RC_CORRUPT, 0, "none: %zu bytes instead of %zu", src.len, raw_len);
        if (raw_len != 0)
            memcpy(dst, src.ptr, raw_len);
        return RC_OK;
    }
    if (codec == CODEC_LZ4)
        return lz4_inflate(src, dst, raw_len, err);
    struct contexts *c = contexts();
    if (c == NULL)
        return err_set(err, RC_NOMEM, 0, "%s: out of memory", codec_text(codec));
    if (codec == CODEC_ZLIB)
        return zlib_inflate(c, src, dst, raw_len, err);
    if (codec == CODEC_ZSTD)
        return zstd_inflate(c, src, dst, raw_len, err);
    return err_set(err, RC_UNSUPPORTED, 0, "codec %d is unknown to this release", (int)codec);
}
