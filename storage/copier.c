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
    for (uint64_t at = 0; at < len;) {
        size_t n = len - at < COPIER_PIECE ? (size_t)(len - at) : COPIER_PIECE;
        TRY_OUT(copier_read(c, from, at, c->piece, n, err));
        c->verified -= n;
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
    XXH3_64bits_update(c->hash, dst, len);
    c->verified += len;
    pace(c, len);
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
