/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon is measured against. Prints JSON.
 *
 *   refs plain CORPUS LIBRARY LEVEL KILOBYTES
 *                                      zstd, lz4 or deflate over pieces of the file, on one thread:
 *                                      MB per second of its CPU, bytes per document
 *   refs peers CORPUS                  chunk layouts of other stores: bytes per document, MB/s of
 *                                      encoding, µs of a random get (one line each)
 *   refs sync DIR                      fdatasync after writing 4 KB into a file filled before, µs
 */
#include "tools/bench/corpus.h"
#include "tools/bench/peers.h"

#include <err.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define MEASURE_S   0.5 /* of CPU, at least */
#define SYNC_FILE   (8u << 20)
#define SYNC_ROUNDS 300

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A library as it comes: one call for each piece, nothing shared between pieces. */
struct plain {
    const char *name;
    size_t (*bound)(size_t len);
    size_t (*compress)(struct plain *plain, const char *from, size_t len, char *to, size_t cap);
    int level;
    ZSTD_CCtx *zstd;
    z_stream deflate;
};

static size_t lz4_bound(size_t len)
{
    return (size_t)LZ4_compressBound((int)len);
}

static size_t deflate_bound(size_t len)
{
    return compressBound(len);
}

static size_t zstd_piece(struct plain *plain, const char *from, size_t len, char *to, size_t cap)
{
    size_t n = ZSTD_compressCCtx(plain->zstd, to, cap, from, len, plain->level);
    if (ZSTD_isError(n))
        errx(1, "zstd: %s", ZSTD_getErrorName(n));
    return n;
}

static size_t lz4_piece(struct plain *plain, const char *from, size_t len, char *to, size_t cap)
{
    int n = LZ4_compress_fast(from, to, (int)len, (int)cap, plain->level);
    if (n <= 0)
        errx(1, "lz4");
    return (size_t)n;
}

static size_t deflate_piece(struct plain *plain, const char *from, size_t len, char *to, size_t cap)
{
    z_stream *z = &plain->deflate;
    deflateReset(z);
    z->next_in = (z_const Bytef *)(uintptr_t)from;
    z->avail_in = (uInt)len;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)cap;
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        errx(1, "deflate");
    return z->total_out;
}

static size_t compress_all(struct plain *plain, const struct corpus *corpus, size_t piece,
                           char *out, size_t out_cap)
{
    size_t sum = 0;
    for (size_t at = 0; at < corpus->len; at += piece) {
        size_t len = corpus->len - at < piece ? corpus->len - at : piece;
        sum += plain->compress(plain, corpus->bytes + at, len, out, out_cap);
    }
    return sum;
}

static void run_plain(const char *path, const char *library, int level, size_t piece)
{
    static struct plain libraries[] = {
        {.name = "zstd", .bound = ZSTD_compressBound, .compress = zstd_piece},
        {.name = "lz4", .bound = lz4_bound, .compress = lz4_piece},
        {.name = "deflate", .bound = deflate_bound, .compress = deflate_piece},
    };
    struct plain *plain = libraries;
    struct corpus corpus;
    while (plain < libraries + sizeof libraries / sizeof *libraries &&
           strcmp(plain->name, library) != 0)
        plain++;
    if (plain == libraries + sizeof libraries / sizeof *libraries || piece == 0)
        errx(2, "see the head of tools/bench/refs.c");
    plain->level = level;
    corpus_read(path, &corpus);
    size_t cap = plain->bound(piece), sum = 0;
    char *out = (char *)malloc(cap);
    plain->zstd = ZSTD_createCCtx();
    if (out == NULL || plain->zstd == NULL ||
        deflateInit2(&plain->deflate, plain->compress == deflate_piece ? level : 6, Z_DEFLATED, -15,
                     8, Z_DEFAULT_STRATEGY) != Z_OK)
        err(1, "memory");
    compress_all(plain, &corpus, piece, out, cap); /* unmeasured: pages, tables */
    double began = cpu_now(), seconds;
    size_t rounds = 0;
    do {
        sum = compress_all(plain, &corpus, piece, out, cap);
        rounds++;
        seconds = cpu_now() - began;
    } while (seconds < MEASURE_S);
    printf("{\"mb_per_s\":%.2f,\"bytes_per_doc\":%.3f}\n",
           (double)rounds * (double)corpus.raw_bytes / seconds / 1e6,
           (double)sum / (double)corpus.count);
    deflateEnd(&plain->deflate);
    ZSTD_freeCCtx(plain->zstd);
    free(out);
    corpus_free(&corpus);
}

static void run_peers(const char *path)
{
    struct corpus corpus;
    corpus_read(path, &corpus);
    for (size_t i = 0; i < peer_count; i++) {
        struct peer_result r;
        peer_measure(&peers[i], &corpus, &r);
        printf("{\"name\":\"%s\",\"bytes_per_doc\":%.3f,\"mb_per_s\":%.1f,\"get_us\":%.2f}\n",
               peers[i].name, r.bytes_per_doc, r.encode_mb_per_s, r.get_us);
        fflush(stdout);
    }
    corpus_free(&corpus);
}

static int compare(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void run_sync(const char *dir)
{
    char path[4096];
    static char zeros[4096];
    double us[SYNC_ROUNDS];
    snprintf(path, sizeof path, "%s/sync.tmp", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        err(1, "%s", path);
    for (unsigned at = 0; at < SYNC_FILE; at += sizeof zeros) {
        if (pwrite(fd, zeros, sizeof zeros, at) != (ssize_t)sizeof zeros)
            err(1, "%s", path);
    }
    if (fsync(fd) != 0)
        err(1, "%s", path);
    for (unsigned i = 0; i < SYNC_ROUNDS; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (pwrite(fd, zeros, sizeof zeros, i * sizeof zeros) < 0 || fdatasync(fd) != 0)
            err(1, "%s", path);
        clock_gettime(CLOCK_MONOTONIC, &b);
        us[i] = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
    }
    close(fd);
    unlink(path);
    qsort(us, SYNC_ROUNDS, sizeof *us, compare);
    printf("{\"p50_us\":%.1f,\"p99_us\":%.1f}\n", us[SYNC_ROUNDS / 2], us[SYNC_ROUNDS * 99 / 100]);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "plain") == 0)
        run_plain(argv[2], argv[3], atoi(argv[4]), (size_t)atoi(argv[5]) * 1024);
    else if (argc == 3 && strcmp(argv[1], "peers") == 0)
        run_peers(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "sync") == 0)
        run_sync(argv[2]);
    else
        errx(2, "see the head of tools/bench/refs.c");
    return 0;
}
