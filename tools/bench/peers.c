/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/peers.h"

#include <err.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>
#include <zstd.h>

#define SUB_BLOCKS_MAX 10
#define DICT_BYTES_MAX (64u * 1024) /* what LZ4 and, at 32 KB, DEFLATE can look back */
#define GETS           2000
/* What a chunk carries beside its pieces: numbers and lengths of pieces as variable integers … */
#define CHUNK_HEAD_BYTES 6
#define PIECE_HEAD_BYTES 2
/* … and the length of each document, bit-packed. */
#define DOC_HEAD_BYTES 1

const struct peer peers[] = {
    {"Lucene LZ4", PEER_LZ4, 1, 10 * 8 * 1024, 1024, 20, 10},
    {"Lucene DEFLATE", PEER_DEFLATE, 6, 10 * 48 * 1024, 4096, 60, 10},
    {"OpenSearch zstd 3", PEER_ZSTD, 3, 10 * 48 * 1024, 4096, 60, 10},
    {"OpenSearch zstd 6", PEER_ZSTD, 6, 10 * 48 * 1024, 4096, 60, 10},
    {"OpenSearch zstd_no_dict 3", PEER_ZSTD, 3, 10 * 48 * 1024, 4096, 0, 10},
    {"Elasticsearch zstd 3", PEER_ZSTD, 3, 240 * 1024, 2048, 0, 1},
};
const size_t peer_count = sizeof peers / sizeof *peers;

struct piece {
    const char *raw; /* in the corpus */
    size_t raw_len;
    size_t at, len; /* packed */
};

struct chunk {
    size_t first_doc, docs;
    struct piece pieces[1 + SUB_BLOCKS_MAX]; /* 0: the dictionary, empty when there is none */
};

struct model {
    const struct peer *peer;
    const struct corpus *corpus;
    struct chunk *chunks;
    size_t chunk_count;
    char *packed;
    size_t packed_len, packed_cap;
    char *plain; /* of one get */
    LZ4_stream_t *lz4;
    z_stream deflate, inflate;
    ZSTD_CCtx *zstd_in;
    ZSTD_DCtx *zstd_out;
};

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t zstd_must(size_t n)
{
    if (ZSTD_isError(n))
        errx(1, "zstd: %s", ZSTD_getErrorName(n));
    return n;
}

static void plan_chunks(struct model *m)
{
    const struct peer *peer = m->peer;
    const size_t *start = m->corpus->start;
    m->chunks = (struct chunk *)calloc(m->corpus->count, sizeof *m->chunks);
    if (m->chunks == NULL)
        err(1, "memory");
    for (size_t doc = 0; doc < m->corpus->count;) {
        struct chunk *chunk = &m->chunks[m->chunk_count++];
        size_t end = doc;
        while (end < m->corpus->count && end - doc < peer->docs_max &&
               start[end] - start[doc] < peer->chunk_bytes)
            end++;
        size_t len = start[end] - start[doc], dict = peer->dict_share ? len / peer->dict_share : 0;
        if (dict > DICT_BYTES_MAX / 2)
            dict = DICT_BYTES_MAX / 2;
        const char *raw = m->corpus->bytes + start[doc];
        size_t rest = (len - dict + peer->sub_blocks - 1) / peer->sub_blocks;
        chunk->first_doc = doc;
        chunk->docs = end - doc;
        chunk->pieces[0] = (struct piece){.raw = raw, .raw_len = dict};
        for (size_t i = 1, at = dict; i <= peer->sub_blocks && at < len; i++, at += rest)
            chunk->pieces[i] =
                (struct piece){.raw = raw + at, .raw_len = rest < len - at ? rest : len - at};
        doc = end;
    }
}

/* ---- packing. dict: the plain dictionary, or NULL */

static size_t pack_lz4(struct model *m, const struct piece *piece, const struct piece *dict,
                       char *to, size_t cap)
{
    LZ4_resetStream_fast(m->lz4);
    if (dict != NULL)
        LZ4_loadDict(m->lz4, dict->raw, (int)dict->raw_len);
    return (size_t)LZ4_compress_fast_continue(m->lz4, piece->raw, to, (int)piece->raw_len, (int)cap,
                                              1);
}

static size_t pack_deflate(struct model *m, const struct piece *piece, const struct piece *dict,
                           char *to, size_t cap)
{
    z_stream *z = &m->deflate;
    deflateReset(z);
    if (dict != NULL)
        deflateSetDictionary(z, (const Bytef *)dict->raw, (uInt)dict->raw_len);
    z->next_in = (z_const Bytef *)(uintptr_t)piece->raw;
    z->avail_in = (uInt)piece->raw_len;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)cap;
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        errx(1, "deflate");
    return z->total_out;
}

static void pack_chunk(struct model *m, struct chunk *chunk)
{
    const struct piece *dict = chunk->pieces[0].raw_len > 0 ? &chunk->pieces[0] : NULL;
    ZSTD_CDict *digested = NULL;
    for (size_t i = 0; i <= m->peer->sub_blocks; i++) {
        struct piece *piece = &chunk->pieces[i];
        const struct piece *with = i > 0 ? dict : NULL;
        char *to = m->packed + m->packed_len;
        size_t cap = m->packed_cap - m->packed_len;
        if (piece->raw_len == 0)
            continue;
        if (cap > 16u << 20)
            cap = 16u << 20;
        if (m->peer->codec == PEER_LZ4) {
            piece->len = pack_lz4(m, piece, with, to, cap);
        } else if (m->peer->codec == PEER_DEFLATE) {
            piece->len = pack_deflate(m, piece, with, to, cap);
        } else if (with == NULL) {
            piece->len = zstd_must(
                ZSTD_compressCCtx(m->zstd_in, to, cap, piece->raw, piece->raw_len, m->peer->level));
        } else {
            if (digested == NULL)
                digested = ZSTD_createCDict(dict->raw, dict->raw_len, m->peer->level);
            piece->len = zstd_must(ZSTD_compress_usingCDict(m->zstd_in, to, cap, piece->raw,
                                                            piece->raw_len, digested));
        }
        piece->at = m->packed_len;
        m->packed_len += piece->len;
    }
    ZSTD_freeCDict(digested);
}

/* ---- a get */

static void unpack_lz4(const char *from, const struct piece *piece, const char *dict,
                       size_t dict_len, char *to)
{
    int n = LZ4_decompress_safe_usingDict(from, to, (int)piece->len, (int)piece->raw_len, dict,
                                          (int)dict_len);
    if (n != (int)piece->raw_len)
        errx(1, "lz4: unpacking failed");
}

static void unpack_deflate(struct model *m, const char *from, const struct piece *piece,
                           const char *dict, size_t dict_len, char *to)
{
    z_stream *z = &m->inflate;
    inflateReset(z);
    if (dict_len > 0)
        inflateSetDictionary(z, (const Bytef *)dict, (uInt)dict_len);
    z->next_in = (z_const Bytef *)(uintptr_t)from;
    z->avail_in = (uInt)piece->len;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)piece->raw_len;
    if (inflate(z, Z_FINISH) != Z_STREAM_END)
        errx(1, "inflate");
}

/* Unpack what holds the document; where it then lies is returned. */
static const char *unpack_doc(struct model *m, const struct chunk *chunk, const char *doc,
                              size_t doc_len)
{
    size_t dict_len = chunk->pieces[0].raw_len, out = 0;
    const char *found = NULL;
    ZSTD_DDict *digested = NULL;
    for (size_t i = 0; i <= m->peer->sub_blocks; i++) {
        const struct piece *piece = &chunk->pieces[i];
        const char *from = m->packed + piece->at;
        bool touched = piece->raw < doc + doc_len && doc < piece->raw + piece->raw_len;
        size_t dict = i > 0 ? dict_len : 0;
        if (piece->raw_len == 0 || (i > 0 && !touched))
            continue;
        if (touched && found == NULL)
            found = m->plain + out + (doc - piece->raw);
        if (m->peer->codec == PEER_LZ4) {
            unpack_lz4(from, piece, m->plain, dict, m->plain + out);
        } else if (m->peer->codec == PEER_DEFLATE) {
            unpack_deflate(m, from, piece, m->plain, dict, m->plain + out);
        } else if (dict == 0) {
            zstd_must(
                ZSTD_decompressDCtx(m->zstd_out, m->plain + out, piece->raw_len, from, piece->len));
        } else {
            if (digested == NULL)
                digested = ZSTD_createDDict(m->plain, dict);
            zstd_must(ZSTD_decompress_usingDDict(m->zstd_out, m->plain + out, piece->raw_len, from,
                                                 piece->len, digested));
        }
        out += piece->raw_len;
    }
    ZSTD_freeDDict(digested);
    return found;
}

static void get_random(struct model *m, uint64_t *random)
{
    size_t doc = random_next(random) % m->corpus->count, low = 0, high = m->chunk_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (m->chunks[middle].first_doc <= doc)
            low = middle;
        else
            high = middle;
    }
    const char *raw = m->corpus->bytes + m->corpus->start[doc];
    size_t len = m->corpus->start[doc + 1] - m->corpus->start[doc];
    const char *found = unpack_doc(m, &m->chunks[low], raw, len);
    if (found == NULL || memcmp(found, raw, len) != 0)
        errx(1, "%s: not the document that was packed", m->peer->name);
}

void peer_measure(const struct peer *peer, const struct corpus *corpus, struct peer_result *out)
{
    struct model m = {.peer = peer, .corpus = corpus, .packed_cap = corpus->len * 2 + (1u << 20)};
    size_t longest = 0, overhead = 0;
    uint64_t random = 88172645463325252ull;
    plan_chunks(&m);
    for (size_t i = 0; i < m.chunk_count; i++) {
        const struct chunk *chunk = &m.chunks[i];
        size_t len =
            corpus->start[chunk->first_doc + chunk->docs] - corpus->start[chunk->first_doc];
        longest = len > longest ? len : longest;
        overhead += CHUNK_HEAD_BYTES + (1 + peer->sub_blocks) * PIECE_HEAD_BYTES +
                    chunk->docs * DOC_HEAD_BYTES;
    }
    m.packed = (char *)malloc(m.packed_cap);
    m.plain = (char *)malloc(longest + 1);
    m.lz4 = LZ4_createStream();
    m.zstd_in = ZSTD_createCCtx();
    m.zstd_out = ZSTD_createDCtx();
    if (m.packed == NULL || m.plain == NULL || m.lz4 == NULL || m.zstd_in == NULL ||
        m.zstd_out == NULL ||
        deflateInit2(&m.deflate, peer->codec == PEER_DEFLATE ? peer->level : 6, Z_DEFLATED, -15, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK ||
        inflateInit2(&m.inflate, -15) != Z_OK)
        err(1, "memory");
    memset(m.packed, 0, m.packed_cap); /* no page faults in the figures */

    double began = cpu_now();
    for (size_t i = 0; i < m.chunk_count; i++)
        pack_chunk(&m, &m.chunks[i]);
    out->encode_mb_per_s = (double)corpus->raw_bytes / (cpu_now() - began) / 1e6;
    out->bytes_per_doc = (double)(m.packed_len + overhead) / (double)corpus->count;
    for (size_t i = 0; i < GETS / 10; i++)
        get_random(&m, &random);
    began = cpu_now();
    for (size_t i = 0; i < GETS; i++)
        get_random(&m, &random);
    out->get_us = (cpu_now() - began) / GETS * 1e6;

    deflateEnd(&m.deflate);
    inflateEnd(&m.inflate);
    ZSTD_freeCCtx(m.zstd_in);
    ZSTD_freeDCtx(m.zstd_out);
    LZ4_freeStream(m.lz4);
    free(m.plain);
    free(m.packed);
    free(m.chunks);
}
