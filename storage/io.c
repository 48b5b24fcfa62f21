/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system's files, and the seam where tests break them. Rules IO1 to IO3 in io.h.
 *
 * Interrupted calls are repeated, except fdatasync and fsync (IO3). A hit of the seam looks like
 * the operating system's own failure: same code, same text. */
#include "storage/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILE_MODE 0640
#define DIR_MODE  0750

enum io_fault (*io_fault_hook)(enum io_op op, const char *path);

static enum io_fault seam(enum io_op op, const char *path)
{
    return io_fault_hook == NULL ? IO_FAULT_NONE : io_fault_hook(op, path);
}

static enum rc fail(struct err *err, int os_errno, const char *what, const char *path)
{
    char text[128];
    enum rc rc = os_errno == ENOSPC || os_errno == EDQUOT ? RC_FULL
                 : os_errno == ENOMEM                     ? RC_NOMEM
                                                          : RC_IO;
    return err_set(err, rc, os_errno, "%s %s: %s", what, path,
                   strerror_r(os_errno, text, sizeof text));
}

/* For operations that have no bytes to shorten or garble: those happen as they should. */
static int seam_errno(enum io_op op, const char *path)
{
    switch (seam(op, path)) {
    case IO_FAULT_FAIL:
        return EIO;
    case IO_FAULT_FULL:
        return ENOSPC;
    default:
        return 0;
    }
}

static enum rc open_flags(const char *path, int flags, struct io_file *file_out, struct err *err)
{
    if (strlen(path) >= sizeof file_out->path)
        return fail(err, ENAMETOOLONG, "open", path);
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, FILE_MODE);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ENOENT && (flags & O_CREAT) == 0)
        return RC_NOT_FOUND;
    if (fd < 0 && errno == EEXIST)
        return err_set(err, RC_EXISTS, EEXIST, "create %s: it exists", path);
    if (fd < 0)
        return fail(err, errno, "open", path);
    file_out->fd = fd;
    memcpy(file_out->path, path, strlen(path) + 1);
    return RC_OK;
}

enum rc io_open(const char *path, enum io_mode mode, struct io_file *file_out, struct err *err)
{
    static const int flags[] = {
        [IO_READ] = O_RDONLY,
        [IO_WRITE] = O_RDWR,
        [IO_CREATE] = O_RDWR | O_CREAT | O_EXCL,
    };
    return open_flags(path, flags[mode], file_out, err);
}

void io_close(struct io_file *file)
{
    /* Errors of close tell nothing that io_sync has not told. */
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

enum rc io_read(const struct io_file *file, uint64_t at, void *dst, size_t len, struct err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(file->fd, (uint8_t *)dst + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(err, errno, "read", file->path);
        if (n == 0)
            return err_set(err, RC_CORRUPT, 0, "read %s: ends early, at %llu", file->path,
                           (unsigned long long)(at + done));
        done += (size_t)n;
    }
    return RC_OK;
}

enum rc io_read_nowait(const struct io_file *file, uint64_t at, void *dst, size_t len,
                       struct err *err)
{
    struct iovec iov = {dst, len};
    ssize_t n;
    do
        n = preadv2(file->fd, &iov, 1, (off_t)at, RWF_NOWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)len)
        return RC_OK;
    /* Some of it is not in memory, the file ends early or the file system cannot tell: the one
     * that may wait finds out. */
    if (n >= 0 || errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS)
        return RC_AGAIN;
    return fail(err, errno, "read", file->path);
}

enum rc io_read_once(const struct io_file *file, uint64_t at, void *dst, size_t len,
                     struct err *err)
{
    if (io_read_nowait(file, at, dst, len, NULL) == RC_OK)
        return RC_OK;
    enum rc rc = io_read(file, at, dst, len, err);
    (void)posix_fadvise(file->fd, (off_t)at, (off_t)len, POSIX_FADV_DONTNEED);
    return rc;
}

#define DIRECT_ALIGN 4096

void io_bypass_cache(const struct io_file *file)
{
    int flags = fcntl(file->fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(file->fd, F_SETFL, flags | O_DIRECT);
}

enum rc io_read_disk(const struct io_file *file, uint64_t at, size_t len, struct io_aligned *space,
                     const uint8_t **out, struct err *err)
{
    uint64_t from = at / DIRECT_ALIGN * DIRECT_ALIGN;
    size_t want = (size_t)(at - from + len), whole, got = 0;
    whole = (want + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
    if (space->cap < whole) {
        free(space->ptr);
        space->cap = 0;
        if (posix_memalign((void **)&space->ptr, DIRECT_ALIGN, whole) != 0) {
            space->ptr = NULL;
            return fail(err, ENOMEM, "read", file->path);
        }
        space->cap = whole;
    }
    while (got < want) { /* a part is a multiple of the alignment, or the end of the file */
        ssize_t n = pread(file->fd, space->ptr + got, whole - got, (off_t)(from + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL) { /* alignment is not all that this file system wants */
            int flags = fcntl(file->fd, F_GETFL);
            if (flags >= 0)
                (void)fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
            TRY(io_read_once(file, from, space->ptr, want, err));
            break;
        }
        if (n < 0)
            return fail(err, errno, "read", file->path);
        if (n == 0)
            return err_set(err, RC_CORRUPT, 0, "read %s: ends early, at %llu", file->path,
                           (unsigned long long)(from + got));
        got += (size_t)n;
    }
    *out = space->ptr + (at - from);
    return RC_OK;
}

void io_aligned_done(struct io_aligned *space)
{
    free(space->ptr);
    *space = (struct io_aligned){0};
}

static size_t iov_bytes(const struct iovec *iov, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += iov[i].iov_len;
    return len;
}

/* Write the first len bytes of iov, however often the system takes only a part. */
static enum rc write_all(const struct io_file *file, uint64_t at, struct iovec *iov, int count,
                         size_t len, struct err *err)
{
    while (len > 0) {
        while (iov->iov_len == 0) {
            iov++;
            count--;
        }
        if (iov->iov_len > len)
            iov->iov_len = len;
        ssize_t n = pwritev(file->fd, iov, count < IOV_MAX ? count : IOV_MAX, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(err, n < 0 ? errno : EIO, "write", file->path);
        at += (uint64_t)n;
        len -= (size_t)n;
        for (size_t left = (size_t)n; left > 0;) {
            size_t step = left < iov->iov_len ? left : iov->iov_len;
            iov->iov_base = (uint8_t *)iov->iov_base + step;
            iov->iov_len -= step;
            left -= step;
            if (iov->iov_len == 0 && left > 0) {
                iov++;
                count--;
            }
        }
    }
    return RC_OK;
}

/* IO_FAULT_SHORT: half of the bytes arrive, then the disk fails. */
static enum rc write_short(const struct io_file *file, uint64_t at, struct iovec *iov, int count,
                           size_t len, struct err *err)
{
    size_t left = len / 2;
    int used = 0;
    for (; used < count && left > 0; used++) {
        if (iov[used].iov_len > left)
            iov[used].iov_len = left;
        left -= iov[used].iov_len;
    }
    TRY(write_all(file, at, iov, used, len / 2, err));
    return fail(err, EIO, "write", file->path);
}

/* IO_FAULT_GARBLE: what was written has a wrong byte in its middle. */
static enum rc flip_byte(const struct io_file *file, uint64_t at, struct err *err)
{
    uint8_t byte;
    TRY(io_read(file, at, &byte, 1, err));
    byte ^= 0x55;
    struct iovec iov = {&byte, 1};
    return write_all(file, at, &iov, 1, 1, err);
}

enum rc io_writev(const struct io_file *file, uint64_t at, struct iovec *iov, int count,
                  struct err *err)
{
    size_t len = iov_bytes(iov, count);
    switch (seam(IO_OP_WRITE, file->path)) {
    case IO_FAULT_FAIL:
        return fail(err, EIO, "write", file->path);
    case IO_FAULT_FULL:
        return fail(err, ENOSPC, "write", file->path);
    case IO_FAULT_SHORT:
        return write_short(file, at, iov, count, len, err);
    case IO_FAULT_GARBLE:
        TRY(write_all(file, at, iov, count, len, err));
        return len == 0 ? RC_OK : flip_byte(file, at + len / 2, err);
    case IO_FAULT_NONE:
        break;
    }
    return write_all(file, at, iov, count, len, err);
}

enum rc io_write(const struct io_file *file, uint64_t at, const void *src, size_t len,
                 struct err *err)
{
    struct iovec iov = {(void *)(uintptr_t)src, len};
    return io_writev(file, at, &iov, 1, err);
}

/* IO_FAULT_GARBLE: a sync that reports success and has done nothing. IO_FAULT_SHORT: it fails. */
static bool sync_faulted(const char *path, enum rc *rc_out, struct err *err)
{
    enum io_fault fault = seam(IO_OP_SYNC, path);
    if (fault == IO_FAULT_NONE)
        return false;
    *rc_out = fault == IO_FAULT_GARBLE ? RC_OK
              : fault == IO_FAULT_FULL ? fail(err, ENOSPC, "sync", path)
                                       : fail(err, EIO, "sync", path);
    return true;
}

enum rc io_sync(const struct io_file *file, struct err *err)
{
    enum rc rc;
    if (sync_faulted(file->path, &rc, err))
        return rc;
    return fdatasync(file->fd) == 0 ? RC_OK : fail(err, errno, "sync", file->path);
}

enum rc io_sync_dir(const char *path, struct err *err)
{
    enum rc rc;
    if (sync_faulted(path, &rc, err))
        return rc;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, errno, "open", path);
    rc = fsync(fd) == 0 ? RC_OK : fail(err, errno, "sync", path);
    close(fd);
    return rc;
}

enum rc io_truncate(const struct io_file *file, uint64_t len, struct err *err)
{
    int fault = seam_errno(IO_OP_OTHER, file->path);
    if (fault != 0)
        return fail(err, fault, "truncate", file->path);
    int n;
    do
        n = ftruncate(file->fd, (off_t)len);
    while (n != 0 && errno == EINTR);
    return n == 0 ? RC_OK : fail(err, errno, "truncate", file->path);
}

enum rc io_size(const struct io_file *file, uint64_t *len_out, struct err *err)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0)
        return fail(err, errno, "stat", file->path);
    *len_out = (uint64_t)st.st_size;
    return RC_OK;
}

enum rc io_allocated(const char *path, uint64_t *bytes_out, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? RC_NOT_FOUND : fail(err, errno, "stat", path);
    *bytes_out = (uint64_t)st.st_blocks * 512; /* st_blocks counts 512 bytes everywhere on Linux */
    return RC_OK;
}

enum rc io_mkdir(const char *path, struct err *err)
{
    int fault = seam_errno(IO_OP_OTHER, path);
    if (fault != 0)
        return fail(err, fault, "make directory", path);
    if (mkdir(path, DIR_MODE) == 0)
        return RC_OK;
    int os_errno = errno;
    struct stat st;
    if (os_errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return RC_OK;
    return fail(err, os_errno, "make directory", path);
}

enum rc io_rename(const char *from, const char *to, struct err *err)
{
    int fault = seam_errno(IO_OP_OTHER, from);
    if (fault == 0 && rename(from, to) != 0)
        fault = errno;
    return fault == 0 ? RC_OK : fail(err, fault, "rename", from);
}

enum rc io_unlink(const char *path, struct err *err)
{
    int fault = seam_errno(IO_OP_OTHER, path);
    if (fault == 0 && unlink(path) != 0 && errno != ENOENT)
        fault = errno;
    return fault == 0 ? RC_OK : fail(err, fault, "unlink", path);
}

struct remove {
    const char *dir;
    enum rc rc;
    struct err *err;
};

static void remove_file(const char *name, void *arg)
{
    struct remove *remove = arg;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", remove->dir, name);
    enum rc rc = io_unlink(path, remove->err);
    if (remove->rc == RC_OK)
        remove->rc = rc;
}

enum rc io_remove_dir(const char *path, struct err *err)
{
    struct remove remove = {path, RC_OK, err};
    enum rc rc = io_list(path, remove_file, &remove, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    TRY(rc);
    TRY(remove.rc);
    int fault = seam_errno(IO_OP_OTHER, path);
    if (fault == 0 && rmdir(path) != 0 && errno != ENOENT)
        fault = errno;
    return fault == 0 ? RC_OK : fail(err, fault, "remove directory", path);
}

enum rc io_list(const char *path, void (*fn)(const char *name, void *arg), void *arg,
                struct err *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? RC_NOT_FOUND : fail(err, errno, "open directory", path);
    enum rc rc = RC_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            if (errno != 0)
                rc = fail(err, errno, "read directory", path);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            fn(entry->d_name, arg);
    }
    closedir(dir);
    return rc;
}

enum rc io_replace(const char *path, struct slice content, struct err *err)
{
    struct io_file file = {.fd = -1};
    char temporary[sizeof file.path], dir[sizeof file.path];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.tmp", path) >= sizeof temporary)
        return fail(err, ENAMETOOLONG, "open", path);
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(dir, sizeof dir, ".");
    else
        snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);

    enum rc rc;
    TRY_OUT(open_flags(temporary, O_RDWR | O_CREAT | O_TRUNC, &file, err));
    TRY_OUT(io_write(&file, 0, content.ptr, content.len, err));
    TRY_OUT(io_sync(&file, err));
    TRY_OUT(io_rename(temporary, path, err));
    rc = io_sync_dir(dir, err);
out:
    if (rc != RC_OK && file.fd >= 0)
        unlink(temporary); /* gone already if the rename went well */
    io_close(&file);
    return rc;
}

enum rc io_slurp(const char *path, size_t max, uint8_t **data_out, size_t *len_out, struct err *err)
{
    struct io_file file = {.fd = -1};
    uint8_t *data = NULL;
    uint64_t len = 0;
    enum rc rc;
    TRY_OUT(io_open(path, IO_READ, &file, err));
    TRY_OUT(io_size(&file, &len, err));
    if (len > max) {
        rc = err_set(err, RC_TOO_LARGE, 0, "read %s: %llu bytes, at most %zu are taken", path,
                     (unsigned long long)len, max);
        goto out;
    }
    data = malloc((size_t)len + 1);
    if (data == NULL) {
        rc = fail(err, ENOMEM, "read", path);
        goto out;
    }
    TRY_OUT(io_read(&file, 0, data, (size_t)len, err));
    data[len] = 0; /* for parsers that want a string */
    *data_out = data;
    *len_out = (size_t)len;
    data = NULL;
out:
    free(data);
    io_close(&file);
    return rc;
}

enum rc io_space(const char *path, uint64_t *free_out, uint64_t *total_out, struct err *err)
{
    struct statvfs vfs;
    if (statvfs(path, &vfs) != 0)
        return fail(err, errno, "statvfs", path);
    *free_out = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    *total_out = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    return RC_OK;
}

/* STOWD_IO_FAULT, see io.h. Text that names no kind is ignored. */
static const struct fault_kind {
    const char *name;
    enum io_fault fault;
    bool counts[3]; /* by enum io_op */
} fault_kinds[] = {
    {"fail", IO_FAULT_FAIL, {true, true, true}},
    {"full", IO_FAULT_FULL, {true, false, false}},
    {"short", IO_FAULT_SHORT, {true, false, false}},
    {"garble", IO_FAULT_GARBLE, {true, false, false}},
    {"failsync", IO_FAULT_FAIL, {false, true, false}},
    {"skipsync", IO_FAULT_GARBLE, {false, true, false}},
};
static const struct fault_kind *env_kind;
static unsigned long env_nth;
static atomic_ulong env_count;

static enum io_fault env_fault(enum io_op op, const char *path)
{
    (void)path;
    if (!env_kind->counts[op] || (env_nth != 0 && atomic_fetch_add(&env_count, 1) + 1 != env_nth))
        return IO_FAULT_NONE;
    return env_kind->fault;
}

void io_fault_from_env(void)
{
    const char *text = getenv("STOWD_IO_FAULT");
    const char *colon = text == NULL ? NULL : strchr(text, ':');
    if (colon == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(fault_kinds); i++) {
        if (!slice_is(slice_of(text, (size_t)(colon - text)), fault_kinds[i].name))
            continue;
        env_kind = &fault_kinds[i];
        env_nth = strtoul(colon + 1, NULL, 10);
        atomic_store(&env_count, 0);
        io_fault_hook = env_fault;
    }
}
