/* SPDX-License-Identifier: Apache-2.0 */
/* The users file and its passwords; see users.h. Only file with <crypt.h>. */
#include "config/users.h"

#include <crypt.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 8192
#define GRANTS_MAX 1000

/* ---- roles */

static const struct {
    const char *word;
    unsigned privileges;
} ROLES[] = {
    {"read", USERS_READ | USERS_VIEW},
    {"write", USERS_WRITE | USERS_VIEW},
    {"manage", USERS_MANAGE | USERS_CREATE | USERS_VIEW},
    {"all", USERS_READ | USERS_WRITE | USERS_MANAGE | USERS_ALL | USERS_CREATE | USERS_VIEW},
};

void users_grants_done(struct users_grants *grants)
{
    for (size_t i = 0; i < grants->count; i++)
        free(grants->grant[i].pattern);
    free(grants->grant);
    *grants = (struct users_grants){NULL, 0};
}

enum rc users_grants_add(struct users_grants *grants, unsigned privileges, struct slice pattern,
                         struct err *err)
{
    if (grants->count == GRANTS_MAX)
        return err_set(err, RC_TOO_LARGE, 0, "more than %d patterns", GRANTS_MAX);
    struct users_grant *more =
        (struct users_grant *)realloc(grants->grant, (grants->count + 1) * sizeof *more);
    if (more == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for roles");
    grants->grant = more;
    char *copy = strndup((const char *)pattern.ptr, pattern.len);
    if (copy == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for roles");
    more[grants->count++] = (struct users_grant){privileges, copy};
    return RC_OK;
}

/* "logs-*,metrics-*", never empty */
static enum rc add_patterns(struct users_grants *grants, unsigned privileges, struct slice list,
                            struct err *err)
{
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = (const uint8_t *)memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        if (end == at)
            return err_set(err, RC_INVALID, 0, "an empty pattern in [%.*s]", SLICE_FMT(list));
        TRY(users_grants_add(grants, privileges, slice_of(list.ptr + at, end - at), err));
        at = end + 1;
    }
    return RC_OK;
}

enum rc users_grants_read(const char *text, struct users_grants *out, struct err *err)
{
    struct users_grants grants = {NULL, 0};
    enum rc rc = RC_OK;

    for (const char *p = text + strspn(text, " "); *p != '\0'; p += strspn(p, " ")) {
        size_t len = strcspn(p, " "), role = 0, word = strcspn(p, " @");
        while (role < ARRAY_LEN(ROLES) && !slice_is(slice_of(p, word), ROLES[role].word))
            role++;
        if (role == ARRAY_LEN(ROLES)) {
            rc = err_set(err, RC_INVALID, 0,
                         "unknown role [%.*s], allowed: read, write, manage, all, each also with "
                         "patterns (read@logs-*,metrics-*)",
                         (int)(len > 80 ? 80 : len), p);
            goto out;
        }
        struct slice list = word == len ? SLICE_LIT("*") : slice_of(p + word + 1, len - word - 1);
        TRY_OUT(add_patterns(&grants, ROLES[role].privileges, list, err));
        p += len;
    }
    *out = grants;
    grants = (struct users_grants){NULL, 0};
out:
    users_grants_done(&grants);
    return rc;
}

void users_grants_print(const struct users_grants *grants, struct buf *out)
{
    for (size_t i = 0; i < grants->count; i++) {
        const struct users_grant *g = &grants->grant[i];
        size_t role = 0;
        while (role + 1 < ARRAY_LEN(ROLES) && ROLES[role].privileges != g->privileges)
            role++;
        if (i > 0)
            buf_put_byte(out, ' ');
        buf_put_str(out, ROLES[role].word);
        if (strcmp(g->pattern, "*") != 0) {
            buf_put_byte(out, '@');
            buf_put_str(out, g->pattern);
        }
    }
}

/* ---- users in memory */

static void user_done(struct user *user)
{
    free(user->name);
    free(user->hash);
    users_grants_done(&user->grants);
}

void users_done(struct users *users)
{
    for (size_t i = 0; i < users->count; i++)
        user_done(&users->user[i]);
    free(users->user);
    *users = (struct users){NULL, 0};
}

bool users_name_ok(struct slice name)
{
    if (name.len == 0 || name.len > USERS_NAME_BYTES)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i], lower = c | 0x20;
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') &&
            (c == '\0' || strchr("._-@+", c) == NULL))
            return false;
    }
    return true;
}

/* Where name is or belongs. */
static size_t place_of(const struct users *users, struct slice name, bool *there_out)
{
    size_t low = 0, high = users->count;
    *there_out = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = slice_cmp(slice_str(users->user[middle].name), name);
        if (order == 0) {
            *there_out = true;
            return middle;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return low;
}

const struct user *users_find(const struct users *users, struct slice name)
{
    bool there;
    size_t at = place_of(users, name, &there);
    return there ? &users->user[at] : NULL;
}

enum rc users_add(struct users *users, const char *name, const char *hash, const char *grants,
                  struct err *err)
{
    struct user user = {NULL, NULL, {NULL, 0}};
    bool there;
    enum rc rc;

    if (!users_name_ok(slice_str(name)))
        return err_set(err, RC_INVALID, 0,
                       "bad user name [%.80s], allowed: 1 to %d of A-Z a-z 0-9 . _ - @ +", name,
                       USERS_NAME_BYTES);
    size_t at = place_of(users, slice_str(name), &there);
    if (there)
        return err_set(err, RC_EXISTS, 0, "user [%s] is there already", name);
    if (users->count == USERS_MAX)
        return err_set(err, RC_TOO_LARGE, 0, "more than %d users", USERS_MAX);
    TRY_OUT(users_grants_read(grants, &user.grants, err));
    user.name = strdup(name);
    user.hash = strdup(hash);
    struct user *more = (struct user *)realloc(users->user, (users->count + 1) * sizeof *more);
    if (more != NULL)
        users->user = more;
    if (more == NULL || user.name == NULL || user.hash == NULL) {
        rc = err_set(err, RC_NOMEM, 0, "out of memory for users");
        goto out;
    }
    memmove(more + at + 1, more + at, (users->count - at) * sizeof *more);
    more[at] = user;
    users->count++;
    return RC_OK;
out:
    user_done(&user);
    return rc;
}

/* ---- the file */

static enum rc read_line(struct users *users, char *line, struct err *err)
{
    char *hash = strchr(line, ':');
    char *grants = hash == NULL ? NULL : strchr(hash + 1, ':');
    if (grants == NULL)
        return err_set(err, RC_INVALID, 0, "not NAME:HASH:ROLES");
    *hash++ = '\0';
    *grants++ = '\0';
    if (hash[0] != '$' || strlen(hash) >= USERS_HASH_BYTES)
        return err_set(err, RC_INVALID, 0, "user [%.80s] has no hash of crypt(3)", line);
    return users_add(users, line, hash, grants, err);
}

enum rc users_load(const char *path, struct users *out, struct err *err)
{
    struct users users = {NULL, 0};
    char line[LINE_BYTES];
    enum rc rc = RC_OK;

    FILE *file = fopen(path, "re");
    if (file == NULL && (errno == ENOENT || errno == ENOTDIR))
        return RC_NOT_FOUND;
    if (file == NULL)
        return err_set(err, RC_IO, errno, "%.150s: %s", path, strerror(errno));
    for (size_t number = 1; rc == RC_OK && fgets(line, sizeof line, file) != NULL; number++) {
        struct err inner = {0};
        size_t len = strlen(line);
        if (len == sizeof line - 1 && line[len - 1] != '\n')
            rc = err_set(&inner, RC_INVALID, 0, "line too long");
        line[strcspn(line, "\r\n")] = '\0';
        if (rc == RC_OK && *line != '\0' && *line != '#')
            rc = read_line(&users, line, &inner);
        if (rc != RC_OK)
            err_set(err, rc, 0, "%.100s:%zu: %.120s", path, number, inner.msg);
    }
    if (rc == RC_OK && ferror(file))
        rc = err_set(err, RC_IO, errno, "%.150s: cannot be read", path);
    fclose(file);
    explicit_bzero(line, sizeof line);
    if (rc == RC_OK) {
        *out = users;
        return RC_OK;
    }
    users_done(&users);
    return rc;
}

static void print_users(const struct users *users, struct buf *out)
{
    BUF_PUT_LIT(out, "# Users of stowd, NAME:HASH:ROLES. Kept by stowctl user.\n");
    for (size_t i = 0; i < users->count; i++) {
        buf_printf(out, "%s:%s:", users->user[i].name, users->user[i].hash);
        users_grants_print(&users->user[i].grants, out);
        buf_put_byte(out, '\n');
    }
}

static enum rc write_all(int fd, struct slice text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return RC_IO;
        text = slice_of(text.ptr + n, text.len - (size_t)n);
    }
    return RC_OK;
}

/* U1; folder is open and locked. */
static enum rc replace_file(const char *path, int folder, const struct users *users,
                            struct err *err)
{
    struct buf text = {0};
    char temporary[4096];
    struct stat old;
    bool ok = false;

    print_users(users, &text);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    (void)unlink(temporary); /* of a writer that died */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        /* Root may keep the file of a daemon that runs as somebody else, whose folder it is. */
        bool known = stat(path, &old) == 0 || fstat(folder, &old) == 0;
        ok = !text.failed &&
             (geteuid() != 0 || (known && fchown(fd, old.st_uid, old.st_gid) == 0)) &&
             write_all(fd, buf_slice(&text)) == RC_OK && fsync(fd) == 0;
        ok = close(fd) == 0 && ok && rename(temporary, path) == 0 && fsync(folder) == 0;
    }
    int number = errno;
    buf_done(&text);
    if (!ok && fd >= 0)
        (void)unlink(temporary);
    return ok ? RC_OK
              : err_set(err, RC_IO, number, "%.150s: cannot be written: %s", path,
                        strerror(number));
}

/* Open and lock the folder of path. */
static enum rc lock_folder(const char *path, int *fd_out, struct err *err)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = errno;
    free(copy);
    if (fd < 0)
        return err_set(err, RC_IO, number, "folder of %.150s: %s", path, strerror(number));
    if (flock(fd, LOCK_EX) != 0) {
        close(fd);
        return err_set(err, RC_IO, errno, "folder of %.150s: cannot be locked", path);
    }
    *fd_out = fd;
    return RC_OK;
}

static enum rc change(struct users *users, const char *name, const char *hash, const char *grants,
                      bool must_be_new, struct err *err)
{
    struct users_grants parsed;
    bool there;
    size_t at = place_of(users, slice_str(name), &there);

    if (there && must_be_new)
        return err_set(err, RC_EXISTS, 0, "user [%s] is there already", name);
    if (!there && (grants == NULL || hash == NULL))
        return err_set(err, RC_NOT_FOUND, 0, "no user [%.80s]", name);
    if (!there)
        return users_add(users, name, hash, grants, err);
    struct user *user = &users->user[at];
    if (hash != NULL) {
        char *copy = strdup(hash);
        if (copy == NULL)
            return err_set(err, RC_NOMEM, 0, "out of memory");
        free(user->hash);
        user->hash = copy;
    }
    if (grants != NULL) {
        TRY(users_grants_read(grants, &parsed, err));
        users_grants_done(&user->grants);
        user->grants = parsed;
    }
    return RC_OK;
}

enum rc users_file_put(const char *path, const char *name, const char *password, const char *grants,
                       bool must_be_new, struct err *err)
{
    struct users users = {NULL, 0};
    char hash[USERS_HASH_BYTES];
    int folder = -1;
    enum rc rc;

    if (password != NULL)
        TRY(users_hash(password, hash, err));
    TRY(lock_folder(path, &folder, err));
    rc = users_load(path, &users, err);
    if (rc == RC_NOT_FOUND)
        rc = RC_OK;
    TRY_OUT(rc);
    TRY_OUT(change(&users, name, password == NULL ? NULL : hash, grants, must_be_new, err));
    TRY_OUT(replace_file(path, folder, &users, err));
out:
    users_done(&users);
    close(folder);
    return rc;
}

enum rc users_file_remove(const char *path, const char *name, struct err *err)
{
    struct users users = {NULL, 0};
    int folder = -1;
    bool there = false;
    size_t at = 0;
    enum rc rc;

    TRY(lock_folder(path, &folder, err));
    rc = users_load(path, &users, err);
    if (rc == RC_OK)
        at = place_of(&users, slice_str(name), &there);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && !there))
        rc = err_set(err, RC_NOT_FOUND, 0, "no user [%.80s] in %.150s", name, path);
    TRY_OUT(rc);
    user_done(&users.user[at]);
    users.count--;
    memmove(users.user + at, users.user + at + 1, (users.count - at) * sizeof *users.user);
    TRY_OUT(replace_file(path, folder, &users, err));
out:
    users_done(&users);
    close(folder);
    return rc;
}

/* ---- passwords */

/* crypt(3); out is "" when it fails. */
static void crypt_into(const char *password, const char *setting, char out[static USERS_HASH_BYTES])
{
    struct crypt_data *data = (struct crypt_data *)calloc(1, sizeof *data);
    const char *made = data == NULL ? NULL : crypt_r(password, setting, data);
    out[0] = '\0';
    if (made != NULL && made[0] != '*' && strlen(made) < USERS_HASH_BYTES)
        memcpy(out, made, strlen(made) + 1);
    if (data != NULL)
        explicit_bzero(data, sizeof *data);
    free(data);
}

enum rc users_hash(const char *password, char out[static USERS_HASH_BYTES], struct err *err)
{
    char salt[CRYPT_GENSALT_OUTPUT_SIZE], hash[USERS_HASH_BYTES];
    size_t len = strlen(password);

    if (len == 0 || len > USERS_PASSWORD_BYTES)
        return err_set(err, RC_INVALID, 0, "a password has 1 to %d bytes", USERS_PASSWORD_BYTES);
    if (crypt_gensalt_rn("$y$", 0, NULL, 0, salt, sizeof salt) == NULL)
        return err_set(err, RC_UNSUPPORTED, errno, "crypt(3) of this system has no yescrypt");
    crypt_into(password, salt, hash);
    if (hash[0] == '\0')
        return err_set(err, RC_NOMEM, 0, "the password cannot be hashed");
    memcpy(out, hash, sizeof hash);
    return RC_OK;
}

bool users_verify(const char *hash, const char *password)
{
    char made[USERS_HASH_BYTES] = "";
    volatile uint8_t differ = 0;
    size_t len = strlen(hash);

    crypt_into(password, hash, made);
    if (made[0] == '\0' || strlen(made) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        differ = differ | (uint8_t)(made[i] ^ hash[i]);
    explicit_bzero(made, sizeof made);
    return differ == 0;
}
