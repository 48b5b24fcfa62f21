/* SPDX-License-Identifier: Apache-2.0 */
/* Replay of a log whose two files hold the input, from position 0 with run 1, batch 1. The first
 * batch's checksum is made right when its header otherwise holds, so that records are reached. */
#include "storage/bytes.h"
#include "storage/io.h"
#include "storage/wal_ring.h"

#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_BYTES 8192
#define RING_BYTES (2 * FILE_BYTES)
#define RAW_MAX    (1u << 24) /* memory of the fuzzer, not a limit of the format */

static char dir[64];

static void clean_up(void)
{
    if (io_remove_dir(dir, NULL) != RC_OK)
        abort();
}

static enum rc on_record(const struct wal_record *record, uint64_t at, void *arg, struct err *err)
{
    (void)err;
    /* Touch the whole body: a wrong length shows under AddressSanitizer. */
    *(uint64_t *)arg += XXH3_64bits(record->body.ptr, record->body.len) + at;
    if (record->raw_len != record->body.len || at % WAL_BATCH_ALIGN != 0)
        abort();
    return RC_OK;
}

static void fix_first_batch(uint8_t *ring)
{
    struct wal_batch_header h;
    if (!wal_header_load(ring, &h) || h.payload > RING_BYTES - WAL_BATCH_HEADER_BYTES)
        return;
    struct reader r = reader_of(slice_of(ring + WAL_BATCH_HEADER_BYTES, (size_t)h.payload));
    struct wal_record record;
    while (wal_record_load(&r, &record)) {
        if (record.raw_len > RAW_MAX)
            return;
    }
    uint8_t hashed[RING_BYTES];
    size_t len = WAL_BATCH_HASHED_BYTES + (size_t)h.payload;
    memcpy(hashed, ring, WAL_BATCH_HASHED_BYTES);
    memcpy(hashed + WAL_BATCH_HASHED_BYTES, ring + WAL_BATCH_HEADER_BYTES, (size_t)h.payload);
    put_u64(ring + WAL_BATCH_HASHED_BYTES, XXH3_64bits(hashed, len));
}

static void write_file(unsigned no, const uint8_t *bytes)
{
    char path[96];
    struct io_file file = {.fd = -1};
    snprintf(path, sizeof path, "%s/%u.wal", dir, no);
    if (io_unlink(path, NULL) != RC_OK || io_open(path, IO_CREATE, &file, NULL) != RC_OK ||
        io_write(&file, 0, bytes, FILE_BYTES, NULL) != RC_OK)
        abort();
    io_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t ring[RING_BYTES];
    if (dir[0] == 0) {
        snprintf(dir, sizeof dir, "/tmp/fuzz_wal.XXXXXX");
        if (mkdtemp(dir) == NULL)
            abort();
        atexit(clean_up);
    }
    memset(ring, 0, sizeof ring);
    memcpy(ring, data, size < sizeof ring ? size : sizeof ring);
    fix_first_batch(ring);
    write_file(0, ring);
    write_file(1, ring + FILE_BYTES);

    const struct wal_start start = {
        .run = 1, .batch = 1, .file_bytes = FILE_BYTES, .file_count = 2};
    for (int accept_loss = 0; accept_loss <= 1; accept_loss++) {
        struct wal_start end = {0};
        struct err err = {0};
        uint64_t sum = 0;
        enum rc rc = wal_replay(dir, &start, accept_loss != 0, on_record, &sum, &end, &err);
        if (rc != RC_OK && err.msg[0] == 0)
            abort();
        if (rc == RC_OK && (end.batch < 1 || end.position > RING_BYTES))
            abort();
    }
    return 0;
}
