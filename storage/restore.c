/* SPDX-License-Identifier: Apache-2.0 */
/* A data directory from a backup. The catalog comes last and by a rename: a daemon that is started
 * on a restore that was broken off refuses it instead of beginning anew. */
#include "config/limits.h"
#include "storage/backup.h"
#include "storage/copier.h"
#include "storage/engine.h"
#include "storage/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_BYTES    300
#define TELL_MS      5000
#define CATALOG      "catalog/data.mdb"
#define CATALOG_TEMP "catalog/data.mdb.restoring"

struct restore {
    const struct restore_options *o;
    struct restore_result result;
    struct manifest m;
    struct copier copier;
    uint64_t told_ms;
    bool ours; /* the target was empty: what is in it is ours to remove */
};

static void tell_progress(void *arg)
{
    struct restore *r = arg;
    char text[128];
    uint64_t now = mono_ms();
    if (now - r->told_ms < TELL_MS)
        return;
    r->told_ms = now;
    snprintf(text, sizeof text, "%llu of %llu MB restored",
             (unsigned long long)(r->copier.copied / MIB),
             (unsigned long long)(r->result.bytes / MIB));
    r->o->say(r->o->arg, text);
}

/* ---- the backup */

static enum rc open_stored(const struct restore *r, const struct manifest_file *f,
                           struct io_file *out, struct err *err)
{
    char path[512];
    struct io_file file = {.fd = -1};
    uint64_t size = 0;
    snprintf(path, sizeof path, "%.299s/%s", r->o->backup, f->stored);
    enum rc rc = io_open(path, IO_READ, &file, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, ENOENT, "the backup is damaged: %.200s is missing", path);
    TRY(rc);
    rc = io_size(&file, &size, err);
    if (rc == RC_OK && size < f->len)
        rc = err_set(err, RC_CORRUPT, 0,
                     "the backup is damaged: %.150s has %llu bytes instead of %llu", path,
                     (unsigned long long)size, (unsigned long long)f->len);
    if (rc == RC_OK)
        *out = file;
    else
        io_close(&file);
    return rc;
}

static void count_name(const char *name, void *arg)
{
    if (strcmp(name, "lost+found") != 0)
        ++*(size_t *)arg;
}

static enum rc open_backup(struct restore *r, int *fd_out, struct err *err)
{
    const char *dir = r->o->backup;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, RC_INVALID, errno, "cannot open %.150s: %s", dir, strerror(errno));
    *fd_out = fd;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return err_set(err, RC_BUSY, errno, "%.200s: a backup is being made there", dir);
    enum rc rc = manifest_load(dir, MANIFEST_NAME, &r->m, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_INVALID, 0, "%.200s is no backup, or one that was never finished",
                       dir);
    TRY(rc);
    if (manifest_find(&r->m, CATALOG) == NULL)
        return err_set(err, RC_CORRUPT, 0, "%.200s/" MANIFEST_NAME " names no catalog", dir);
    for (size_t i = 0; i < r->m.count; i++) { /* what is missing is told before anything is made */
        struct io_file file;
        TRY(open_stored(r, &r->m.file[i], &file, err));
        io_close(&file);
        r->result.bytes += r->m.file[i].len;
    }
    for (size_t i = 0; i < r->m.damage.len; i++)
        r->result.damage += r->m.damage.ptr[i] == '\n';
    r->result.files = r->m.count;
    r->result.number = r->m.number;
    r->result.time_s = r->m.time_s;
    return RC_OK;
}

/* ---- the target */

/* Calls fn with each directory, the upper ones first. */
static enum rc each_dir(struct restore *r,
                        enum rc (*fn)(struct restore *r, const char *path, struct err *err),
                        struct err *err)
{
    static const char *const names[] = {"", "/wal", "/indices", "/catalog"};
    char path[512];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%.299s%s", r->o->path_data, names[i]);
        TRY(fn(r, path, err));
    }
    const struct buf *lines = &r->m.indices;
    for (size_t at = 0; at < lines->len;) {
        const uint8_t *p = lines->ptr + at;
        size_t len = (size_t)((const uint8_t *)memchr(p, '\n', lines->len - at) - p);
        const uint8_t *blank = memchr(p, ' ', len);
        size_t dir = blank == NULL ? len : (size_t)(blank - p);
        snprintf(path, sizeof path, "%.299s/indices/%.*s", r->o->path_data, (int)dir,
                 (const char *)p);
        TRY(fn(r, path, err));
        at += len + 1;
    }
    return RC_OK;
}

static enum rc make_dir(struct restore *r, const char *path, struct err *err)
{
    (void)r;
    return io_mkdir(path, err);
}

static enum rc sync_dir(struct restore *r, const char *path, struct err *err)
{
    (void)r;
    return io_sync_dir(path, err);
}

static enum rc remove_dir(struct restore *r, const char *path, struct err *err)
{
    (void)r;
    (void)err;
    (void)rmdir(path);
    return RC_OK;
}

/* What a failed restore has made. */
static void remove_target(struct restore *r)
{
    char path[512];
    for (size_t i = 0; i < r->m.count; i++) {
        snprintf(path, sizeof path, "%.299s/%s", r->o->path_data, r->m.file[i].path);
        (void)!io_unlink(path, NULL);
    }
    snprintf(path, sizeof path, "%.299s/" CATALOG_TEMP, r->o->path_data);
    (void)!io_unlink(path, NULL);
    for (int i = 0; i < 3; i++) /* the lower ones go first; cheap */
        (void)!each_dir(r, remove_dir, NULL);
}

static enum rc copy_file(struct restore *r, const struct manifest_file *f, const char *name,
                         struct err *err)
{
    struct io_file from = {.fd = -1}, to = {.fd = -1};
    char path[512];
    uint64_t hash = 0, again = 0;
    snprintf(path, sizeof path, "%.299s/%s", r->o->path_data, name);
    enum rc rc = open_stored(r, f, &from, err);
    TRY_OUT(rc);
    TRY_OUT(copier_copy(&r->copier, &from, f->len, path, &hash, err));
    if (hash != f->hash)
        TRY_OUT(err_set(err, RC_CORRUPT, 0, "the backup is damaged: %.200s", from.path));
    TRY_OUT(io_open(path, IO_READ, &to, err));
    TRY_OUT(copier_hash(&r->copier, &to, f->len, &again, err));
    if (hash != again)
        TRY_OUT(err_set(err, RC_IO, 0, "%.200s does not hold what was written to it", path));
    if (strcmp(name, "users") == 0 && chmod(path, 0600) != 0)
        rc = err_set(err, RC_IO, errno, "chmod %.200s: %s", path, strerror(errno));
out:
    io_close(&from);
    io_close(&to);
    return rc;
}

static enum rc copy_all(struct restore *r, struct err *err)
{
    char from[512], to[512];
    TRY(each_dir(r, make_dir, err));
    for (size_t i = 0; i < r->m.count; i++)
        if (strcmp(r->m.file[i].path, CATALOG) != 0)
            TRY(copy_file(r, &r->m.file[i], r->m.file[i].path, err));
    TRY(copy_file(r, manifest_find(&r->m, CATALOG), CATALOG_TEMP, err));
    TRY(each_dir(r, sync_dir, err));
    snprintf(from, sizeof from, "%.299s/" CATALOG_TEMP, r->o->path_data);
    snprintf(to, sizeof to, "%.299s/" CATALOG, r->o->path_data);
    TRY(io_rename(from, to, err));
    snprintf(to, sizeof to, "%.299s/catalog", r->o->path_data);
    TRY(io_sync_dir(to, err));
    snprintf(to, sizeof to, "%.299s/..", r->o->path_data);
    return io_sync_dir(to, err);
}

static enum rc check_target(struct restore *r, int *fd_out, struct err *err)
{
    size_t others = 0;
    TRY(io_mkdir(r->o->path_data, err));
    *fd_out = open(r->o->path_data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd_out < 0)
        return err_set(err, RC_IO, errno, "cannot open %.150s: %s", r->o->path_data,
                       strerror(errno));
    if (flock(*fd_out, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return err_set(err, RC_BUSY, errno, "%.200s: another backup or restore is at work there",
                       r->o->path_data);
    enum rc rc = io_list(r->o->path_data, count_name, &others, err);
    TRY(rc);
    r->ours = others == 0;
    return r->ours ? RC_OK
                   : err_set(err, RC_INVALID, 0,
                             "%.200s is not empty: a backup is restored to a new directory",
                             r->o->path_data);
}

enum rc restore_run(const struct restore_options *options, struct restore_result *out,
                    struct err *err)
{
    struct restore r = {.o = options, .told_ms = mono_ms()};
    int fd = -1, target_fd = -1;
    enum rc rc = RC_OK;
    if (strlen(options->backup) >= DIR_BYTES || strlen(options->path_data) >= DIR_BYTES)
        return err_set(err, RC_INVALID, 0, "a directory's name is longer than %d bytes",
                       DIR_BYTES - 1);
    TRY_OUT(copier_init(&r.copier, options->rate, err));
    r.copier.tick = tell_progress;
    r.copier.arg = &r;
    TRY_OUT(open_backup(&r, &fd, err));
    TRY_OUT(check_target(&r, &target_fd, err));
    TRY_OUT(copy_all(&r, err));
    *out = r.result;
out:
    if (rc != RC_OK && r.ours)
        remove_target(&r);
    manifest_done(&r.m);
    copier_done(&r.copier);
    if (fd >= 0)
        close(fd);
    if (target_fd >= 0)
        close(target_fd);
    return rc;
}
