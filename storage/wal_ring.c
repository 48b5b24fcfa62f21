/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of files and the layout of batches and records. No state of its own, no locks. */
#include "storage/wal_ring.h"

#include "config/limits.h"

#include <stdlib.h>

#define FILE_BYTES_MIN (64 * KIB)
#define FILL_BYTES     (1 * MIB)
#define MAGIC          "STOWWAL1"
#define MAGIC_BYTES    8

void wal_geometry(uint64_t bytes, struct wal_start *start)
{
    uint64_t file_bytes = bytes / WAL_FILES / WAL_BATCH_ALIGN * WAL_BATCH_ALIGN;
    start->file_bytes = file_bytes < FILE_BYTES_MIN ? FILE_BYTES_MIN : file_bytes;
    start->file_count = WAL_FILES;
}

enum rc wal_ring_init(struct wal_ring *ring, const char *dir, const struct wal_start *start,
                      struct err *err)
{
    for (size_t i = 0; i < WAL_FILES_MAX; i++)
        ring->files[i].fd = -1;
    if ((size_t)snprintf(ring->dir, sizeof ring->dir, "%s", dir) >= sizeof ring->dir)
        return err_set(err, RC_INVALID, 0, "log: path too long: %.100s...", dir);
    if (start->file_count == 0 || start->file_count > WAL_FILES_MAX || start->file_bytes == 0 ||
        start->file_bytes % WAL_BATCH_ALIGN != 0 || start->file_bytes > INT64_MAX / WAL_FILES_MAX ||
        start->position % WAL_BATCH_ALIGN != 0 || start->position > INT64_MAX / 2)
        return err_set(err, RC_CORRUPT, 0, "log: impossible start: position %llu, %u files of %llu",
                       (unsigned long long)start->position, start->file_count,
                       (unsigned long long)start->file_bytes);
    ring->file_bytes = start->file_bytes;
    ring->file_count = start->file_count;
    ring->capacity = start->file_bytes * start->file_count;
    return RC_OK;
}

void wal_ring_close(struct wal_ring *ring)
{
    for (size_t i = 0; i < WAL_FILES_MAX; i++)
        io_close(&ring->files[i]);
}

void wal_ring_path(const struct wal_ring *ring, uint32_t file_no, char *dst, size_t cap)
{
    snprintf(dst, cap, "%s/%u.wal", ring->dir, file_no);
}

uint32_t wal_ring_file_no(const struct wal_ring *ring, uint64_t position)
{
    return (uint32_t)(position / ring->file_bytes % ring->file_count);
}

enum rc wal_ring_open(struct wal_ring *ring, enum io_mode mode, struct err *err)
{
    for (uint32_t i = 0; i < ring->file_count; i++) {
        char path[512];
        wal_ring_path(ring, i, path, sizeof path);
        enum rc rc = io_open(path, mode, &ring->files[i], err);
        if (rc == RC_NOT_FOUND)
            continue;
        TRY(rc);
        TRY(io_size(&ring->files[i], &ring->sizes[i], err));
    }
    return RC_OK;
}

enum rc wal_ring_make(const struct wal_ring *ring, uint32_t file_no, struct io_file *file_out,
                      struct err *err)
{
    struct io_file file = {.fd = -1};
    char path[512];
    enum rc rc;
    wal_ring_path(ring, file_no, path, sizeof path);
    uint8_t *fill = calloc(1, FILL_BYTES);
    if (fill == NULL)
        return err_set(err, RC_NOMEM, 0, "log: out of memory");
    TRY_OUT(io_unlink(path, err)); /* what an earlier try may have left */
    TRY_OUT(io_open(path, IO_CREATE, &file, err));
    for (uint64_t at = 0; at < ring->file_bytes;) {
        uint64_t left = ring->file_bytes - at;
        size_t n = left < FILL_BYTES ? (size_t)left : FILL_BYTES;
        TRY_OUT(io_write(&file, at, fill, n, err));
        at += n;
    }
    TRY_OUT(io_sync(&file, err));
    TRY_OUT(io_sync_dir(ring->dir, err));
    *file_out = file;
out:
    free(fill);
    if (rc != RC_OK && file.fd >= 0) {
        io_close(&file);
        if (io_unlink(path, NULL) != RC_OK)
            rc = RC_IO; /* the next try, or wal_open, removes it */
    }
    return rc;
}

uint64_t wal_ring_frontier(const struct wal_ring *ring, uint64_t head)
{
    uint64_t first = head / ring->file_bytes;
    for (uint64_t i = first; i < first + ring->file_count; i++) {
        if (ring->files[i % ring->file_count].fd < 0)
            return i * ring->file_bytes;
    }
    return UINT64_MAX;
}

enum rc wal_ring_read(const struct wal_ring *ring, uint64_t position, uint8_t *dst, size_t len,
                      struct err *err)
{
    while (len > 0) {
        uint32_t no = wal_ring_file_no(ring, position);
        uint64_t at = position % ring->file_bytes;
        size_t n = len < ring->file_bytes - at ? len : (size_t)(ring->file_bytes - at);
        uint64_t there = ring->sizes[no] > at ? ring->sizes[no] - at : 0;
        size_t have = there < n ? (size_t)there : n;
        if (have > 0)
            TRY(io_read(&ring->files[no], at, dst, have, err));
        memset(dst + have, 0, n - have);
        position += n;
        dst += n;
        len -= n;
    }
    return RC_OK;
}

struct stray {
    const struct wal_ring *ring;
    enum rc rc;
    struct err *err;
    bool removed;
};

static void stray_remove(const char *name, void *arg)
{
    struct stray *stray = arg;
    unsigned no;
    char path[512], same[16];
    if (stray->rc != RC_OK || sscanf(name, "%9u", &no) != 1)
        return;
    snprintf(same, sizeof same, "%u.wal", no);
    if (strcmp(name, same) != 0)
        return;
    wal_ring_path(stray->ring, no, path, sizeof path);
    if (no < stray->ring->file_count &&
        (stray->ring->files[no].fd < 0 || stray->ring->sizes[no] == stray->ring->file_bytes))
        return;
    stray->rc = io_unlink(path, stray->err);
    stray->removed = true;
}

enum rc wal_ring_clean(struct wal_ring *ring, struct err *err)
{
    struct stray stray = {.ring = ring, .err = err};
    TRY(io_list(ring->dir, stray_remove, &stray, err));
    TRY(stray.rc);
    for (uint32_t i = 0; i < ring->file_count; i++) {
        if (ring->sizes[i] != ring->file_bytes)
            io_close(&ring->files[i]);
    }
    return stray.removed ? io_sync_dir(ring->dir, err) : RC_OK;
}

void wal_header_store(const struct wal_batch_header *h, uint8_t raw[WAL_BATCH_HEADER_BYTES])
{
    memset(raw, 0, WAL_BATCH_HEADER_BYTES);
    memcpy(raw, MAGIC, MAGIC_BYTES);
    put_u64(raw + 8, h->run);
    put_u64(raw + 16, h->batch);
    put_u64(raw + 24, h->position);
    put_u32(raw + 32, h->records);
    put_u64(raw + 40, h->payload);
}

bool wal_header_load(const uint8_t raw[WAL_BATCH_HEADER_BYTES], struct wal_batch_header *h)
{
    h->run = get_u64(raw + 8);
    h->batch = get_u64(raw + 16);
    h->position = get_u64(raw + 24);
    h->records = get_u32(raw + 32);
    h->payload = get_u64(raw + 40);
    return memcmp(raw, MAGIC, MAGIC_BYTES) == 0;
}

uint64_t wal_batch_bytes(uint64_t payload)
{
    return (WAL_BATCH_HEADER_BYTES + payload + WAL_BATCH_ALIGN - 1) / WAL_BATCH_ALIGN *
           WAL_BATCH_ALIGN;
}

uint64_t wal_record_bytes(const struct wal_record *record)
{
    return WAL_RECORD_HEADER_BYTES + (uint64_t)align_up(record->body.len, WAL_RECORD_ALIGN);
}

void wal_record_store(const struct wal_record *record, uint8_t raw[WAL_RECORD_HEADER_BYTES])
{
    memset(raw, 0, WAL_RECORD_HEADER_BYTES);
    put_u32(raw, (uint32_t)record->body.len);
    raw[4] = (uint8_t)record->kind;
    raw[5] = record->codec;
    put_u32(raw + 8, record->index_no);
    put_u32(raw + 12, record->raw_len);
}

bool wal_record_load(struct reader *r, struct wal_record *out)
{
    struct slice raw = take_bytes(r, WAL_RECORD_HEADER_BYTES);
    if (r->bad)
        return false;
    uint32_t len = get_u32(raw.ptr);
    out->kind = (enum wal_kind)raw.ptr[4];
    out->codec = raw.ptr[5];
    out->index_no = get_u32(raw.ptr + 8);
    out->raw_len = get_u32(raw.ptr + 12);
    out->body = take_bytes(r, len);
    (void)take_bytes(r, (WAL_RECORD_ALIGN - len % WAL_RECORD_ALIGN) % WAL_RECORD_ALIGN);
    return !r->bad;
}
