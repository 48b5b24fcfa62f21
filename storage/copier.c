/* SPDX-License-Identifier: Apache-2.0 */
/* Copying and reading files for backups. */
#include "storage/copier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

/* Dirty pages of a new file are given to the disk after so many bytes, so that its sync at the end
 * does not hold up the syncs of others for long. */
#define WRITE_BEHIND (8 * (uint64_t)COPIER_PIECE)

/* Where the disk fails, what it can still give is read in such pieces. */
#define RETRY_BYTES 4096

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum rc copier_init(struct copier *c, uint64_t rate, struct err *err)
{
    *c = (struct copier){.rate = rate, .begun_ns = now_ns()};
    c->piece = malloc(COPIER_PIECE);
    c->hash = XXH3_createState();
    if (c->piece != NULL && c->hash != NULL)
        return RC_OK;
    copier_done(c);
    return err_set(err, RC_NOMEM, 0, "out of memory");
}

void copier_done(struct copier *c)
{
    free(c->piece);
    XXH3_freeState(c->hash);
    c->piece = NULL;
    c->hash = NULL;
}

static void pace(struct copier *c, uint64_t bytes)
{
    if (c->tick != NULL)
        c->tick(c->arg);
    if (c->rate == 0)
        return;
    c->paced += bytes;
    uint64_t spent = now_ns() - c->begun_ns;
    double due = (double)c->paced / (double)c->rate * 1e9;
    if (due <= (double)spent)
        return;
    uint64_t wait = (uint64_t)due - spent;
    struct timespec t = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    nanosleep(&t, NULL);
}

static void give_to_disk(const struct io_file *file, uint64_t from, uint64_t to)
{
    (void)sync_file_range(file->fd, (off_t)from, (off_t)(to - from), SYNC_FILE_RANGE_WRITE);
}

static void took(struct copier *c, const void *bytes, size_t len)
{
    XXH3_64bits_update(c->hash, bytes, len);
    pace(c, len);
}

static enum rc read_piece(struct copier *c, const struct io_file *from, uint64_t at, size_t len,
                          struct err *err)
{
    struct err why = {0};
    enum rc rc = io_read_once(from, at, c->piece, len, &why);
    if (rc != RC_OK && (rc != RC_IO || !c->zero_unreadable))
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    for (size_t i = 0; rc != RC_OK && i < len; i += RETRY_BYTES) {
        size_t n = len - i < RETRY_BYTES ? len - i : RETRY_BYTES;
        if (io_read_once(from, at + i, c->piece + i, n, NULL) == RC_OK)
            continue;
        memset(c->piece + i, 0, n);
        c->unreadable += n;
    }
    took(c, c->piece, len);
    return RC_OK;
}

enum rc copier_copy(struct copier *c, const struct io_file *from, uint64_t len, const char *to,
                    uint64_t *hash_out, struct err *err)
{
    struct io_file file = {.fd = -1};
    uint64_t given = 0;
    enum rc rc = io_open(to, IO_CREATE, &file, err);
    if (rc == RC_EXISTS)
        return rc; /* not ours to remove */
    TRY_OUT(rc);
    copier_begin(c);
    c->unreadable = 0;
    for (uint64_t at = 0; at < len;) {
        size_t n = len - at < COPIER_PIECE ? (size_t)(len - at) : COPIER_PIECE;
        TRY_OUT(read_piece(c, from, at, n, err));
        TRY_OUT(io_write(&file, at, c->piece, n, err));
        at += n;
        c->copied += n;
        if (at - given >= WRITE_BEHIND) {
            give_to_disk(&file, given, at);
            given = at;
        }
    }
    TRY_OUT(io_sync(&file, err));
    (void)posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
    *hash_out = copier_end(c);
out:
    io_close(&file);
    if (rc != RC_OK)
        (void)!io_unlink(to, NULL);
    return rc;
}

void copier_begin(struct copier *c)
{
    XXH3_64bits_reset(c->hash);
}

enum rc copier_read(struct copier *c, const struct io_file *file, uint64_t at, void *dst,
                    size_t len, struct err *err)
{
    TRY(io_read_once(file, at, dst, len, err));
    c->verified += len;
    took(c, dst, len);
    return RC_OK;
}

uint64_t copier_end(struct copier *c)
{
    return XXH3_64bits_digest(c->hash);
}

enum rc copier_hash(struct copier *c, const struct io_file *file, uint64_t len, uint64_t *hash_out,
                    struct err *err)
{
    copier_begin(c);
    for (uint64_t at = 0; at < len;) {
        size_t n = len - at < COPIER_PIECE ? (size_t)(len - at) : COPIER_PIECE;
        TRY(copier_read(c, file, at, c->piece, n, err));
        at += n;
    }
    *hash_out = copier_end(c);
    return RC_OK;
}
