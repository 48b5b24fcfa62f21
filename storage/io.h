/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole-buffer reads and writes, syncs of files and directories. The only place where the
 * engine asks the operating system for durable storage (LMDB has its own), and therefore the seam
 * where tests break the disk.
 *
 * Rules the rest relies on
 *   IO1  a write that returns RC_OK has written every byte; it is durable after io_sync only.
 *   IO2  a new or renamed file is durable only after io_sync_dir of its directory.
 *   IO3  a failed io_sync is never repeated on that file: the kernel may have dropped the pages.
 * Errors: RC_IO with os_errno, RC_FULL for ENOSPC and EDQUOT; the text names operation and path.
 * A file or directory to read that is not there is RC_NOT_FOUND (io_open, io_slurp, io_list,
 * io_allocated), one to create that is there RC_EXISTS.
 * Thread safety: all functions, on different ranges of one file too. */
#ifndef STOWD_IO_H
#define STOWD_IO_H

#include "config/base.h"

#include <sys/types.h>
#include <sys/uio.h>

struct io_file {
    int fd; /* -1: not open */
    char path[512];
};

enum io_mode { IO_READ, IO_WRITE, IO_CREATE /* new, must not exist */ };

MUST_CHECK enum rc io_open(const char *path, enum io_mode mode, struct io_file *file_out,
                           struct err *err);
void io_close(struct io_file *file); /* accepts a file that is not open */

/* Read exactly len bytes at offset `at`; fewer in the file is RC_CORRUPT ("ends early"). */
MUST_CHECK enum rc io_read(const struct io_file *file, uint64_t at, void *dst, size_t len,
                           struct err *err);
/* The same without waiting for the disk (preadv2 with RWF_NOWAIT): RC_AGAIN when the bytes are not
 * in the page cache, or the system cannot tell. */
MUST_CHECK enum rc io_read_nowait(const struct io_file *file, uint64_t at, void *dst, size_t len,
                                  struct err *err);
/* The same as io_read for what is read once: it leaves the page cache as it found it. */
MUST_CHECK enum rc io_read_once(const struct io_file *file, uint64_t at, void *dst, size_t len,
                                struct err *err);
/* What the disk holds, past the page cache and without filling it: for looking whether it is still
 * what was written. After io_bypass_cache the file is only read with io_read_disk. Where the file
 * system has no such reads it is io_read_once. *out lies in the space. */
struct io_aligned {
    uint8_t *ptr;
    size_t cap;
};
void io_bypass_cache(const struct io_file *file);
MUST_CHECK enum rc io_read_disk(const struct io_file *file, uint64_t at, size_t len,
                                struct io_aligned *space, const uint8_t **out, struct err *err);
void io_aligned_done(struct io_aligned *space);
MUST_CHECK enum rc io_write(const struct io_file *file, uint64_t at, const void *src, size_t len,
                            struct err *err);
/* Gathered write; iov is changed by the call. */
MUST_CHECK enum rc io_writev(const struct io_file *file, uint64_t at, struct iovec *iov, int count,
                             struct err *err);
MUST_CHECK enum rc io_sync(const struct io_file *file, struct err *err); /* fdatasync */
MUST_CHECK enum rc io_sync_dir(const char *path, struct err *err);
MUST_CHECK enum rc io_truncate(const struct io_file *file, uint64_t len, struct err *err);
MUST_CHECK enum rc io_size(const struct io_file *file, uint64_t *len_out, struct err *err);
/* Allocated bytes (st_blocks), as du counts. */
MUST_CHECK enum rc io_allocated(const char *path, uint64_t *bytes_out, struct err *err);

MUST_CHECK enum rc io_mkdir(const char *path, struct err *err); /* an existing directory is fine */
MUST_CHECK enum rc io_rename(const char *from, const char *to, struct err *err);
MUST_CHECK enum rc io_unlink(const char *path, struct err *err); /* a missing file is fine */
/* Remove a directory and the files in it (one level). */
MUST_CHECK enum rc io_remove_dir(const char *path, struct err *err);
/* Names in a directory, without . and ..: calls fn for each. */
MUST_CHECK enum rc io_list(const char *path, void (*fn)(const char *name, void *arg), void *arg,
                           struct err *err);
/* Write a whole small file so that after a crash the old or the new content is there: temporary
 * name, sync, rename, sync of the directory. */
MUST_CHECK enum rc io_replace(const char *path, struct slice content, struct err *err);
/* Read a whole file of at most max bytes (else RC_TOO_LARGE). The caller frees *data_out; a zero
 * byte lies behind its end. */
MUST_CHECK enum rc io_slurp(const char *path, size_t max, uint8_t **data_out, size_t *len_out,
                            struct err *err);
/* Free and total bytes of the file system that holds path, for an unprivileged writer. */
MUST_CHECK enum rc io_space(const char *path, uint64_t *free_out, uint64_t *total_out,
                            struct err *err);

/* The seam. When set, called before every write, sync, and other change (rename, unlink, truncate,
 * making and removing directories); what it returns happens instead:
 *   FAIL    EIO            SHORT   a write leaves half of its bytes, then EIO; a sync fails
 *   FULL    ENOSPC         GARBLE  a write leaves a wrong byte and reports success; a sync does
 *                                  nothing and reports success
 * SHORT and GARBLE leave other changes alone. Tests set it before they start threads; the
 * environment variable STOWD_IO_FAULT="kind:N" sets it for a whole process: the Nth operation
 * (from 1) that the kind counts is hit, once; with 0 every one.
 *   fail      counts all of the above     short, garble, full   count writes
 *   failsync, skipsync (it reports success)   count syncs
 * NULL in production: one branch. */
enum io_fault { IO_FAULT_NONE, IO_FAULT_FAIL, IO_FAULT_SHORT, IO_FAULT_GARBLE, IO_FAULT_FULL };
enum io_op { IO_OP_WRITE, IO_OP_SYNC, IO_OP_OTHER };
extern enum io_fault (*io_fault_hook)(enum io_op op, const char *path);
void io_fault_from_env(void);

#endif
