/* SPDX-License-Identifier: Apache-2.0 */
/* How other stores pack _source, modelled: their chunk layouts with their libraries, without the
 * rest of them (no virtual machine, no index), so the models are smaller and faster than they are.
 *
 * Of Lucene's Lucene90CompressingStoredFieldsFormat: a chunk is closed at chunk_bytes or docs_max.
 * Its first len / dict_share bytes are compressed alone and are the preset dictionary of the rest,
 * which is cut into ten sub-blocks; a get unpacks the dictionary and the sub-blocks it touches.
 * OpenSearch's codecs (custom-codecs) keep that layout; Elasticsearch 8.14 and later compresses the
 * whole chunk at once. */
#ifndef STOWD_BENCH_PEERS_H
#define STOWD_BENCH_PEERS_H

#include "tools/bench/corpus.h"

enum peer_codec { PEER_LZ4, PEER_DEFLATE, PEER_ZSTD };

struct peer {
    const char *name;
    enum peer_codec codec;
    int level;
    size_t chunk_bytes, docs_max;
    size_t dict_share; /* 0: no dictionary */
    size_t sub_blocks;
};

struct peer_result {
    double bytes_per_doc, encode_mb_per_s, get_us; /* times are CPU of one thread */
};

extern const struct peer peers[];
extern const size_t peer_count;

/* Packs the corpus; unpacks random documents and compares them. */
void peer_measure(const struct peer *peer, const struct corpus *corpus, struct peer_result *out);

#endif
