/* SPDX-License-Identifier: Apache-2.0 */
/* The users file: who may come in, with which password, and what for. Written by `stowctl user`,
 * read by the daemon. One line each:
 *   NAME:HASH:ROLE ROLE …
 * HASH is of crypt(3), yescrypt when made here. A ROLE is read, write, manage or all, by itself for
 * every index or with patterns: write@logs-*,metrics-*
 *
 *   U1  the file is replaced as a whole (written, synced, renamed): a reader sees the old one or
 * the new one, and a crash leaves one of them. Writers take turns by a lock on the folder. U2  it
 * is made with mode 0600. U3  no password is kept longer than its caller keeps it, and none is in
 * an error text. */
#ifndef STOWD_USERS_H
#define STOWD_USERS_H

#include "config/base.h"
#include "config/buf.h"

#define USERS_NAME_BYTES     64
#define USERS_PASSWORD_BYTES 511 /* crypt(3) takes no more */
#define USERS_PASSWORD_LEAST 8   /* asked of new passwords by stowctl */
#define USERS_HASH_BYTES     384
#define USERS_MAX            10000

/* What a role allows, in the parts that an API key may have alone. */
enum users_privilege {
    USERS_READ = 1 << 0,   /* documents */
    USERS_ADD = 1 << 1,    /* documents that are not there yet */
    USERS_PUT = 1 << 2,    /* documents, there or not */
    USERS_DELETE = 1 << 3, /* documents */
    USERS_CREATE = 1 << 4, /* make an index; who may write makes one by writing into it */
    USERS_VIEW = 1 << 5,   /* that an index is there, settings, mappings, sizes: in every role */
    USERS_MANAGE = 1 << 6, /* indices: settings, aliases, deletion … */
    USERS_ALL = 1 << 7,    /* also whose business it is who may do what */
};
#define USERS_WRITE (USERS_ADD | USERS_PUT | USERS_DELETE)

struct users_grant {
    unsigned privileges;
    char *pattern; /* of index names, '*' for any bytes */
};
struct users_grants {
    struct users_grant *grant;
    size_t count;
};
/* "read@logs-* manage". RC_INVALID names the word. */
MUST_CHECK enum rc users_grants_read(const char *text, struct users_grants *out, struct err *err);
/* One more; pattern is copied. */
MUST_CHECK enum rc users_grants_add(struct users_grants *grants, unsigned privileges,
                                    struct slice pattern, struct err *err);
void users_grants_print(const struct users_grants *grants, struct buf *out);
void users_grants_done(struct users_grants *grants);

struct user {
    char *name;
    char *hash;
    struct users_grants grants;
};
struct users {
    struct user *user; /* sorted by name */
    size_t count;
};
/* RC_NOT_FOUND: no such file. RC_INVALID names file and line. */
MUST_CHECK enum rc users_load(const char *path, struct users *out, struct err *err);
/* Add one whose parts are copied; RC_EXISTS when there is one of that name. */
MUST_CHECK enum rc users_add(struct users *users, const char *name, const char *hash,
                             const char *grants, struct err *err);
const struct user *users_find(const struct users *users, struct slice name);
void users_done(struct users *users);
bool users_name_ok(struct slice name); /* 1 to 64 of A-Z a-z 0-9 . _ - @ + */

/* ---- changes of the file, for stowctl */
/* grants NULL: leave them (a new user: RC_NOT_FOUND). password NULL: leave it. must_be_new:
 * RC_EXISTS when there is one. */
MUST_CHECK enum rc users_file_put(const char *path, const char *name, const char *password,
                                  const char *grants, bool must_be_new, struct err *err);
MUST_CHECK enum rc users_file_remove(const char *path, const char *name, struct err *err);

/* ---- passwords: slow on purpose, some 20 to 100 ms each */
MUST_CHECK enum rc users_hash(const char *password, char out[static USERS_HASH_BYTES],
                              struct err *err);
/* False also when there is no memory for it. */
bool users_verify(const char *hash, const char *password);

#endif
