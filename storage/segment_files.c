/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded set of open segment files: a hash table and a list in order of use.
 *
 *   1. An open file in use is never closed: one that is evicted or forgotten leaves the table at
 *      once and closes when its last reader lets go. At most open_max plus the readers' are open.
 *   2. Files are opened outside the lock. A file that was being opened while something was
 *      forgotten serves its reader and is not kept, so no unlinked file stays open.
 * Locks: one mutex, innermost; no system call happens under it. */
#include "storage/segment.h"

#include "storage/io.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define PATH_BYTES 512

struct open_file {
    uint32_t index_no, number;
    struct io_file file;
    /* guarded by segment_files.mutex */
    unsigned readers;
    bool kept; /* in table and list */
    struct open_file *chain;
    struct open_file *newer, *older;
};

struct segment_files {
    char dir[PATH_BYTES];
    size_t open_max;
    size_t bucket_mask;
    pthread_mutex_t mutex;
    /* guarded by mutex */
    size_t open;
    uint64_t forgotten; /* calls of segment_files_forget */
    struct open_file *newest, *oldest;
    struct open_file **buckets;
};

enum rc segment_files_create(const char *indices_dir, size_t open_max, struct segment_files **out,
                             struct err *err)
{
    assert(open_max >= 1);
    struct segment_files *files = calloc(1, sizeof *files);
    size_t buckets = 16;
    while (buckets < open_max)
        buckets *= 2;
    if (files != NULL)
        files->buckets = calloc(buckets, sizeof *files->buckets);
    if (files == NULL || files->buckets == NULL) {
        free(files);
        return err_set(err, RC_NOMEM, 0, "segment files: out of memory");
    }
    if ((size_t)snprintf(files->dir, sizeof files->dir, "%s", indices_dir) >= sizeof files->dir) {
        free(files->buckets);
        free(files);
        return err_set(err, RC_INVALID, 0, "%s: name too long", indices_dir);
    }
    files->open_max = open_max;
    files->bucket_mask = buckets - 1;
    pthread_mutex_init(&files->mutex, NULL);
    *out = files;
    return RC_OK;
}

static struct open_file **bucket(struct segment_files *files, uint32_t index_no, uint32_t number)
{
    uint64_t h = ((uint64_t)index_no << 32 | number) * UINT64_C(0x9e3779b97f4a7c15);
    return &files->buckets[(h >> 32) & files->bucket_mask];
}

static struct open_file *find_locked(struct segment_files *files, uint32_t index_no,
                                     uint32_t number)
{
    struct open_file *f = *bucket(files, index_no, number);
    while (f != NULL && (f->index_no != index_no || f->number != number))
        f = f->chain;
    return f;
}

static void list_add_locked(struct segment_files *files, struct open_file *f)
{
    f->newer = NULL;
    f->older = files->newest;
    if (files->newest != NULL)
        files->newest->newer = f;
    else
        files->oldest = f;
    files->newest = f;
}

static void list_remove_locked(struct segment_files *files, struct open_file *f)
{
    if (f->newer != NULL)
        f->newer->older = f->older;
    else
        files->newest = f->older;
    if (f->older != NULL)
        f->older->newer = f->newer;
    else
        files->oldest = f->newer;
}

static void keep_locked(struct segment_files *files, struct open_file *f)
{
    struct open_file **head = bucket(files, f->index_no, f->number);
    f->chain = *head;
    *head = f;
    list_add_locked(files, f);
    f->kept = true;
    files->open++;
}

/* Take f out of table and list. If nobody reads it, it joins *doomed (chained) for the caller to
 * close outside the lock. */
static void drop_locked(struct segment_files *files, struct open_file *f, struct open_file **doomed)
{
    struct open_file **link = bucket(files, f->index_no, f->number);
    while (*link != f)
        link = &(*link)->chain;
    *link = f->chain;
    list_remove_locked(files, f);
    f->kept = false;
    files->open--;
    if (f->readers == 0) {
        f->chain = *doomed;
        *doomed = f;
    }
}

static void close_all(struct open_file *doomed)
{
    while (doomed != NULL) {
        struct open_file *next = doomed->chain;
        io_close(&doomed->file);
        free(doomed);
        doomed = next;
    }
}

void segment_files_destroy(struct segment_files *files)
{
    if (files == NULL)
        return;
    struct open_file *doomed = NULL;
    while (files->newest != NULL) {
        assert(files->newest->readers == 0);
        drop_locked(files, files->newest, &doomed);
    }
    close_all(doomed);
    pthread_mutex_destroy(&files->mutex);
    free(files->buckets);
    free(files);
}

static enum rc open_new(const struct segment_files *files, uint32_t index_no, const char *dir_name,
                        uint32_t number, struct open_file **out, struct err *err)
{
    char dir[PATH_BYTES], path[PATH_BYTES];
    if ((size_t)snprintf(dir, sizeof dir, "%s/%s", files->dir, dir_name) >= sizeof dir - 16)
        return err_set(err, RC_INVALID, 0, "%s/%s: name too long", files->dir, dir_name);
    segment_path(path, sizeof path, dir, number);
    struct open_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return err_set(err, RC_NOMEM, 0, "segment %s: out of memory", path);
    enum rc rc = io_open(path, IO_READ, &f->file, err);
    if (rc != RC_OK) {
        free(f);
        return rc == RC_NOT_FOUND ? err_set(err, RC_CORRUPT, ENOENT,
                                            "index %u: segment %08x: missing", index_no, number)
                                  : rc;
    }
    f->index_no = index_no;
    f->number = number;
    f->readers = 1;
    *out = f;
    return RC_OK;
}

/* The open file, held for reading. */
static enum rc acquire(struct segment_files *files, uint32_t index_no, const char *dir_name,
                       uint32_t number, bool nowait, struct open_file **out, struct err *err)
{
    pthread_mutex_lock(&files->mutex);
    struct open_file *f = find_locked(files, index_no, number), *mine = NULL, *doomed = NULL;
    if (f != NULL) {
        f->readers++;
        list_remove_locked(files, f);
        list_add_locked(files, f);
    }
    uint64_t forgotten = files->forgotten;
    pthread_mutex_unlock(&files->mutex);
    if (f != NULL) {
        *out = f;
        return RC_OK;
    }
    if (nowait) /* opening may have to read directories */
        return RC_AGAIN;
    TRY(open_new(files, index_no, dir_name, number, &mine, err));

    pthread_mutex_lock(&files->mutex);
    f = find_locked(files, index_no, number);
    if (f != NULL) { /* another reader was faster */
        f->readers++;
        mine->chain = NULL;
        doomed = mine;
        mine = f;
    } else if (forgotten == files->forgotten) {
        keep_locked(files, mine);
        if (files->open > files->open_max)
            drop_locked(files, files->oldest, &doomed);
    }
    pthread_mutex_unlock(&files->mutex);
    close_all(doomed);
    *out = mine;
    return RC_OK;
}

static void release(struct segment_files *files, struct open_file *f)
{
    pthread_mutex_lock(&files->mutex);
    bool last = --f->readers == 0 && !f->kept;
    pthread_mutex_unlock(&files->mutex);
    if (last) {
        io_close(&f->file);
        free(f);
    }
}

enum rc segment_read(struct segment_files *files, uint32_t index_no, const char *dir_name,
                     uint32_t number, uint64_t at, void *dst, size_t len, bool nowait,
                     struct err *err)
{
    struct open_file *f = NULL;
    TRY(acquire(files, index_no, dir_name, number, nowait, &f, err));
    enum rc rc =
        nowait ? io_read_nowait(&f->file, at, dst, len, err) : io_read(&f->file, at, dst, len, err);
    release(files, f);
    return rc;
}

void segment_files_forget(struct segment_files *files, uint32_t index_no, uint32_t number)
{
    struct open_file *doomed = NULL;
    pthread_mutex_lock(&files->mutex);
    files->forgotten++;
    for (struct open_file *f = files->newest, *older; f != NULL; f = older) {
        older = f->older;
        if (f->index_no == index_no && (number == UINT32_MAX || f->number == number))
            drop_locked(files, f, &doomed);
    }
    pthread_mutex_unlock(&files->mutex);
    close_all(doomed);
}
