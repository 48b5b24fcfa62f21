/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs: their names as users write them, and compressing a frame with one. The only file with
 * <zstd.h>, <lz4.h> and <zlib.h> is codec.c.
 *
 * A frame is a self-contained compressed run of bytes; its raw length is kept by whoever stores it.
 * A frame that would grow is for the caller to store raw (codec_compress says so by RC_TOO_LARGE).
 * Contexts are per thread and made on first use (codec_thread_done frees the calling thread's). */
#ifndef STOWD_CODEC_H
#define STOWD_CODEC_H

#include "config/base.h"

/* Numbers are on disk (docs/format.md) and never change their meaning. */
enum codec { CODEC_NONE = 0, CODEC_LZ4 = 1, CODEC_ZLIB = 2, CODEC_ZSTD = 3 };

/* How the documents of a block lie in it; numbers are on disk. */
enum block_layout { LAYOUT_PLAIN = 0, LAYOUT_COLUMNAR = 1 };

/* What an index name resolves to; stored with the index. */
struct codec_spec {
    enum codec codec;
    int level;             /* 0 for codecs without one */
    bool dictionary;       /* may use a trained dictionary, once there are any */
    uint32_t block_bytes;  /* raw bytes at which a block closes, at the latest … */
    uint32_t packed_bytes; /* … packed ones, before compression; 0: by raw bytes alone */
    enum block_layout layout;
};

/* Give a spec of the table the other layout, and the block sizes that go with it. */
void codec_set_layout(struct codec_spec *spec, enum block_layout layout);
const char *block_layout_text(enum block_layout layout); /* "plain", "columnar" */

/* One row of the table of names (index.codec), in the order in which errors list them. */
struct codec_name {
    const char *name; /* lower case */
    struct codec_spec spec;
    bool takes_level; /* index.codec.compression_level may be given */
};

/* Row for a name in any case, or NULL. */
const struct codec_name *codec_find(struct slice name);
/* Row by position, NULL behind the last one. */
const struct codec_name *codec_name_at(size_t i);
/* Range of levels of a codec: zstd 1 .. the library's safe maximum, zlib 1 .. 9, else 0 .. 0. */
void codec_levels(enum codec codec, int *min_out, int *max_out);
const char *codec_text(enum codec codec); /* "zstd", "lz4", "zlib", "none" */

/* Bytes codec_compress may need in dst for a source of len bytes. */
size_t codec_bound(enum codec codec, size_t len);
/* Compress src into dst (cap bytes).
 *   errors   RC_TOO_LARGE: not smaller than src (store it raw), dst untouched by contract;
 *            RC_NOMEM; CODEC_NONE always answers RC_TOO_LARGE */
MUST_CHECK enum rc codec_compress(enum codec codec, int level, struct slice src, uint8_t *dst,
                                  size_t cap, size_t *len_out);
/* Decompress src into exactly raw_len bytes at dst. RC_CORRUPT when it does not give just that. */
MUST_CHECK enum rc codec_decompress(enum codec codec, struct slice src, uint8_t *dst,
                                    size_t raw_len, struct err *err);
void codec_thread_done(void);

#endif
