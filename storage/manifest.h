/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a backup: what it holds, in text lines; docs/format.md section 6. Pure functions
 * on memory, but for manifest_load and manifest_save.
 *
 *   M1  a backup is what its manifest names, in the lengths that it names. Whatever else lies in
 *       its directory is left over from a backup that did not end, or was replaced.
 *   M2  the last line is a checksum of the others: a manifest that was cut or changed is none.
 *   M3  paths are relative and stay below their directory: whoever reads one may join them. */
#ifndef STOWD_MANIFEST_H
#define STOWD_MANIFEST_H

#include "config/base.h"
#include "config/buf.h"

#define MANIFEST_NAME    "manifest"
#define MANIFEST_PARTIAL "manifest.partial" /* what is copied so far */
#define MANIFEST_NEW     "manifest.new"     /* on its way to be the manifest */

struct manifest_file {
    char *path;   /* in the data directory */
    char *stored; /* in the backup */
    uint64_t len;
    uint64_t hash; /* XXH3-64 of the first len bytes */
    bool sure;     /* not in the text: this process has read it back */
};

struct manifest {
    uint8_t node[32];   /* cluster id, node id */
    uint32_t number;    /* of the backup: 1, 2, … */
    uint64_t time_s;    /* when the catalog was copied, since 1970 */
    char *release;      /* of who wrote it; malloc'ed */
    struct buf indices; /* lines "<directory> <name>\n" */
    struct buf damage;  /* lines: what was damaged in the data directory already */
    struct manifest_file *file;
    size_t count, cap;
    size_t sorted; /* the first so many are in order of their paths */
};

void manifest_done(struct manifest *m);
/* Copies path and stored. */
MUST_CHECK enum rc manifest_add(struct manifest *m, const char *path, const char *stored,
                                uint64_t len, uint64_t hash);
/* By its path in the data directory; NULL. Valid until the next call: it may sort the files. */
struct manifest_file *manifest_find(struct manifest *m, const char *path);
void manifest_drop(struct manifest *m, struct manifest_file *file);
/* May a path be joined (M3)? */
bool manifest_path_ok(struct slice path);

void manifest_print(const struct manifest *m, struct buf *out);
/* where: for error texts. RC_CORRUPT (M2, M3), RC_UNSUPPORTED (a later version), RC_NOMEM. On
 * failure nothing is to be freed. */
MUST_CHECK enum rc manifest_parse(struct slice text, const char *where, struct manifest *out,
                                  struct err *err);

/* dir/name. RC_NOT_FOUND without text. */
MUST_CHECK enum rc manifest_load(const char *dir, const char *name, struct manifest *out,
                                 struct err *err);
MUST_CHECK enum rc manifest_save(const char *dir, const char *name, const struct manifest *m,
                                 struct err *err);

#endif
