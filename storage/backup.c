/* SPDX-License-Identifier: Apache-2.0 */
/* Making a backup: its directory, its rounds, catalog and log. Rules V1 to V5 in backup.h. */
#include "config/limits.h"
#include "storage/backup_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 50
#define ROUND_MS   50
#define TELL_MS    5000
#define DIR_BYTES  300
/* Descriptors that are not for holding segments open. */
#define SPARE_FILES 64
/* How long a daemon that is starting may keep the catalog to itself. */
#define CATALOG_WAIT_MS 60000

static void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

void backup_say(struct backup *b, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->o->say(b->o->arg, text);
}

/* False: it is there already. */
static bool add_line(struct buf *lines, const char *text)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < lines->len;) {
        size_t n = (size_t)((uint8_t *)memchr(lines->ptr + at, '\n', lines->len - at) - lines->ptr);
        if (n - at == len && memcmp(lines->ptr + at, text, len) == 0)
            return false;
        at = n + 1;
    }
    buf_printf(lines, "%s\n", text);
    return true;
}

void backup_damage(struct backup *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!add_line(&b->damage, text))
        return;
    backup_say(b, "damage: %s", text);
    (void)add_line(&b->fresh.damage, text);
    b->result.damage++;
}

static void tell_progress(void *arg)
{
    struct backup *b = arg;
    uint64_t now = mono_ms();
    if (now - b->told_ms < TELL_MS)
        return;
    b->told_ms = now;
    backup_say(b, "%llu of %llu MB of segments copied, %llu MB read back",
               (unsigned long long)(b->copier.copied / MIB), (unsigned long long)(b->to_copy / MIB),
               (unsigned long long)(b->copier.verified / MIB));
}

/* ---- the data directory */

/* The file that is locked is the one that has the name. */
static bool holds_catalog(const struct backup *b, int fd)
{
    char path[512];
    struct stat held, named;
    snprintf(path, sizeof path, "%s/catalog/data.mdb", b->o->path_data);
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

/* A shared lock on the catalog's file keeps a daemon that starts from putting another one in its
 * place (store.c, shrink_catalog): the two would share LMDB's lock file. */
static enum rc hold_catalog(struct backup *b, struct err *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/catalog/data.mdb", b->o->path_data);
    for (unsigned waited = 0; waited < CATALOG_WAIT_MS; waited += ROUND_MS) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            return err_set(err, RC_INVALID, ENOENT, "%.200s is not a data directory: no catalog",
                           b->o->path_data);
        if (fd < 0)
            return err_set(err, RC_IO, errno, "cannot open %.150s: %s", path, strerror(errno));
        if (flock(fd, LOCK_SH | LOCK_NB) == 0 && holds_catalog(b, fd)) {
            b->catalog_fd = fd;
            return RC_OK;
        }
        close(fd);
        sleep_ms(ROUND_MS);
    }
    return err_set(err, RC_BUSY, 0, "%.200s: the daemon is starting, try again", b->o->path_data);
}

static enum rc open_store(const char *dir, struct store **out, struct err *err)
{
    struct store_options o = {.path_data = dir};
    char path[512];
    TRY(store_new(&o, out, err));
    snprintf(path, sizeof path, "%s/catalog", dir);
    return catalog_open(path, 0, &(*out)->catalog, err);
}

/* ---- the backup's directory */

static void take_name(const char *name, void *arg)
{
    buf_put(arg, name, strlen(name) + 1);
}

static const char *next_name(const struct buf *names, size_t *at)
{
    const char *name = (const char *)names->ptr + *at;
    if (*at >= names->len)
        return NULL;
    *at += strlen(name) + 1;
    return name;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What the manifests name, as a sorted list of pointers into them. */
static const char **stored_names(const struct manifest *const keep[2], size_t *count_out)
{
    size_t n = 0, cap = 1;
    for (size_t i = 0; i < 2; i++)
        cap += keep[i] == NULL ? 0 : keep[i]->count;
    const char **list = malloc(cap * sizeof(char *));
    for (size_t i = 0; list != NULL && i < 2; i++)
        for (size_t k = 0; keep[i] != NULL && k < keep[i]->count; k++)
            list[n++] = keep[i]->file[k].stored;
    if (list != NULL)
        qsort(list, n, sizeof(char *), by_text);
    *count_out = n;
    return list;
}

/* Remove the files of dir/sub that are not in the list, then the directory if it is empty. */
static enum rc sweep_dir(const char *dir, const char *sub, const char **keep, size_t count,
                         struct err *err)
{
    struct buf names = {0};
    char path[1024], name[512];
    const char *entry;
    size_t at = 0;
    snprintf(path, sizeof path, "%s/%s", dir, sub);
    enum rc rc = io_list(path, take_name, &names, err);
    while (rc == RC_OK && (entry = next_name(&names, &at)) != NULL) {
        snprintf(name, sizeof name, "%s/%s", sub, entry);
        const char *key = name;
        if (bsearch(&key, keep, count, sizeof(char *), by_text) != NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, name);
        struct stat st;
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            rc = sweep_dir(dir, name, keep, count, err);
        else
            rc = io_unlink(path, err);
    }
    buf_done(&names);
    snprintf(path, sizeof path, "%s/%s", dir, sub);
    if (rc == RC_OK)
        (void)rmdir(path); /* fails while it has something */
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Is it a directory that this backup or one before it has made: its number, and in it nothing but
 * what they put there? */
static bool is_ours(const struct backup *b, const char *name)
{
    static const char *const made[] = {"catalog", "wal", "metadata.json", "users"};
    char path[512], same[16];
    struct stat st;
    struct buf names = {0};
    const char *entry;
    size_t at = 0, known = 0, count = 0;
    unsigned long number = strtoul(name, NULL, 10);
    snprintf(same, sizeof same, "%u", (unsigned)number);
    snprintf(path, sizeof path, "%s/%s", b->o->dir, name);
    if (number == 0 || number > b->result.number || strcmp(name, same) != 0 ||
        lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) ||
        io_list(path, take_name, &names, NULL) != RC_OK)
        return false;
    for (; (entry = next_name(&names, &at)) != NULL; count++)
        for (size_t i = 0; i < ARRAY_LEN(made); i++)
            known += strcmp(entry, made[i]) == 0;
    buf_done(&names);
    return known == count;
}

/* Remove everything that no manifest names (M1). */
static enum rc sweep(struct backup *b, const struct manifest *one, const struct manifest *two,
                     struct err *err)
{
    size_t count = 0, at = 0;
    struct buf names = {0};
    const char *name;
    const char **keep = stored_names((const struct manifest *const[2]){one, two}, &count);
    enum rc rc = keep == NULL ? RC_NOMEM : io_list(b->o->dir, take_name, &names, err);
    while (rc == RC_OK && (name = next_name(&names, &at)) != NULL)
        if (strcmp(name, "indices") == 0 || is_ours(b, name))
            rc = sweep_dir(b->o->dir, name, keep, count, err);
    free(keep);
    buf_done(&names);
    return rc;
}

static void count_other(const char *name, void *arg)
{
    if (strcmp(name, "lost+found") != 0)
        ++*(size_t *)arg;
}

/* RC_OK: it is this node's, or not there (then *there_out false). */
static enum rc load_list(struct backup *b, const char *name, struct manifest *out, bool *there_out,
                         struct err *err)
{
    enum rc rc = manifest_load(b->o->dir, name, out, err);
    *there_out = rc == RC_OK;
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    TRY(rc);
    if (memcmp(out->node, b->live->ids_raw, sizeof out->node) == 0)
        return RC_OK;
    return err_set(err, RC_INVALID, 0, "%.200s is the backup of another node", b->o->dir);
}

static enum rc open_target(struct backup *b, int *fd_out, struct err *err)
{
    const char *dir = b->o->dir;
    bool complete = false, begun = false;
    size_t others = 0;
    TRY(io_mkdir(dir, err));
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, RC_IO, errno, "cannot open %.150s: %s", dir, strerror(errno));
    *fd_out = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return err_set(err, RC_BUSY, errno, "%.200s: another backup or restore is at work there",
                       dir);
    TRY(load_list(b, MANIFEST_NAME, &b->old, &complete, err));
    struct err why = {0};
    enum rc rc = load_list(b, MANIFEST_PARTIAL, &b->fresh, &begun, &why);
    if (rc == RC_CORRUPT && complete)
        begun = false; /* only what was copied since is lost */
    else if (rc != RC_OK)
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    if (!complete && !begun) {
        TRY(io_list(dir, count_other, &others, err));
        if (others != 0)
            return err_set(err, RC_INVALID, 0, "%.200s is neither empty nor a backup", dir);
    }
    uint32_t last = b->old.number > b->fresh.number ? b->old.number : b->fresh.number;
    b->result.number = last + 1;
    b->fresh.number = b->next.number = b->result.number;
    memcpy(b->fresh.node, b->live->ids_raw, sizeof b->fresh.node);
    /* From now on what is here is known to be a backup. */
    TRY(manifest_save(dir, MANIFEST_PARTIAL, &b->fresh, err));
    return sweep(b, &b->old, &b->fresh, err);
}

/* ---- catalog and log, as of one moment */

struct catalog_task {
    struct catalog *catalog;
    char dir[512];
    atomic_bool ended;
    enum rc rc;
    struct err err;
};

static void *copy_catalog(void *arg)
{
    struct catalog_task *t = arg;
    t->rc = catalog_copy(t->catalog, t->dir, &t->err);
    atomic_store(&t->ended, true);
    return NULL;
}

/* LMDB begins its transaction before it writes the first byte. */
static void wait_begun(struct catalog_task *t)
{
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/data.mdb", t->dir);
    while (!atomic_load(&t->ended) && (stat(path, &st) != 0 || st.st_size == 0))
        sleep_ms(1);
}

struct log_task {
    struct backup *b;
    struct wal_start start; /* the live one, as of before the catalog's moment */
    struct wal_start end;   /* up to where it was copied */
    char dir[512];
    enum rc rc;
    struct err err;
};

/* V2. The log from the live start on. Call after the catalog's moment. */
static enum rc copy_log(struct log_task *t, struct err *err)
{
    struct wal_start now;
    struct err why = {0};
    char from[512];
    snprintf(from, sizeof from, "%s/wal", t->b->o->path_data);
    enum rc rc = wal_copy(from, &t->start, t->dir, &t->end, &why);
    if (rc == RC_FULL || rc == RC_NOMEM)
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    if (!holds_catalog(t->b, t->b->catalog_fd)) /* stowctl rebuild */
        return err_set(err, RC_BUSY, 0, "%.200s: its catalog was replaced by another, try again",
                       t->b->o->path_data);
    TRY(store_load_node(t->b->live, &now, err));
    bool moved = now.run != t->start.run || now.position != t->start.position;
    if (rc == RC_BUSY || (rc == RC_OK && now.position > t->end.position) || (rc != RC_OK && moved))
        return RC_AGAIN;
    TRY(rc == RC_OK ? RC_OK : err_set(err, rc, why.os_errno, "%s", why.msg));
    return io_sync_dir(t->dir, err);
}

static void *copy_log_main(void *arg)
{
    struct log_task *t = arg;
    t->rc = copy_log(t, &t->err);
    return NULL;
}

static enum rc make_dirs(struct backup *b, char *top, size_t cap, struct err *err)
{
    static const char *const subs[] = {"", "/catalog", "/wal"};
    char path[512];
    snprintf(top, cap, "%s/%u", b->o->dir, b->result.number);
    for (size_t i = ARRAY_LEN(subs); i-- > 1;) { /* what the round before has left */
        snprintf(path, sizeof path, "%s%s", top, subs[i]);
        TRY(io_remove_dir(path, err));
    }
    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        snprintf(path, sizeof path, "%s%s", top, subs[i]);
        TRY(io_mkdir(path, err));
    }
    snprintf(path, sizeof path, "%s/indices", b->o->dir);
    return io_mkdir(path, err);
}

/* The copies fit together: the catalog's start lies in the log that was copied. */
static enum rc check_fit(struct backup *b, const struct wal_start *from,
                         const struct wal_start *end, struct err *err)
{
    struct wal_start start;
    TRY(store_load_node(b->view, &start, err));
    return start.run == from->run && start.position >= from->position &&
                   start.position <= end->position
               ? RC_OK
               : RC_AGAIN;
}

static struct backup_index *find_index(struct backup *b, uint32_t number)
{
    size_t lo = 0, hi = b->index_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->index[mid].index->number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < b->index_count && b->index[lo].index->number == number ? &b->index[lo] : NULL;
}

/* RC_AGAIN: a block that recovery will take needs a dictionary that the copied catalog does not
 * have (V2). */
static enum rc check_logged(const struct wal_record *record, uint64_t at, void *arg,
                            struct err *err)
{
    struct backup_index *bi = find_index(arg, record->index_no);
    struct block_header head;
    struct block *block = NULL;
    struct row last;
    (void)at;
    if (bi == NULL) /* deleted, or made after the catalog's moment */
        return RC_OK;
    if (record->kind == WAL_INDEX)
        bi->in_log = record->body.len >= 16 && memcmp(record->body.ptr, bi->index->uuid, 16) == 0;
    if (record->kind != WAL_BLOCK || !bi->in_log)
        return RC_OK;
    TRY(block_header_read(record->body, &head, err));
    for (size_t i = 0; i < bi->dicts.len; i += 4)
        if (head.dictionary == get_u32(bi->dicts.ptr + i))
            return RC_OK;
    if (head.dictionary == 0)
        return RC_OK;
    TRY(block_open(record->body, record->index_no, head.first_seq, BLOCK_META, NULL, &block, err));
    block_row(block, block_rows(block) - 1, &last);
    block_close(block);
    return last.seq < bi->packed_seq ? RC_OK : RC_AGAIN;
}

/* V5: the log's copy is read as recovery will read it. */
static enum rc check_log(struct backup *b, const struct log_task *t, struct err *err)
{
    struct wal_start end = {0};
    struct err why = {0};
    enum rc rc = wal_replay(t->dir, &t->start, false, check_logged, b, &end, &why);
    if (rc == RC_CORRUPT ||
        (rc == RC_OK && (end.batch != t->end.batch || end.position != t->end.position)))
        return err_set(err, RC_CORRUPT, 0, "%.200s does not hold what was written to it%s%.200s",
                       t->dir, rc == RC_OK ? "" : ": ", why.msg);
    return rc == RC_OK || rc == RC_AGAIN ? rc : err_set(err, rc, why.os_errno, "%s", why.msg);
}

/* The copied catalog, and the segments that it names: opened before anything else is waited for. */
static enum rc open_view(struct backup *b, const char *top, struct err *err)
{
    struct err why = {0};
    enum rc rc = open_store(top, &b->view, &why);
    if (rc == RC_OK)
        rc = backup_plan(b, &why);
    if (rc == RC_OK)
        rc = catalog_verify(b->view->catalog, &why);
    if (rc == RC_CORRUPT && catalog_verify(b->live->catalog, NULL) == RC_OK)
        return err_set(err, rc, 0, "%.200s/catalog does not hold what was written to it: %.200s",
                       top, why.msg);
    return rc == RC_OK ? RC_OK : err_set(err, rc, why.os_errno, "%s", why.msg);
}

static enum rc copy_moment(struct backup *b, const char *top, struct err *err)
{
    struct catalog_task task = {.catalog = b->live->catalog};
    struct log_task log = {.b = b};
    pthread_t thread, logger;
    enum rc rc = store_load_node(b->live, &log.start, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_INVALID, 0, "%.200s: no daemon has begun with it yet",
                       b->o->path_data);
    TRY(rc);
    snprintf(task.dir, sizeof task.dir, "%s/catalog", top);
    snprintf(log.dir, sizeof log.dir, "%s/wal", top);
    b->next.time_s = (uint64_t)time(NULL);
    int no = pthread_create(&thread, NULL, copy_catalog, &task);
    if (no != 0)
        return err_set(err, RC_NOMEM, no, "cannot start a thread");
    wait_begun(&task);
    while (b->o->test_hold != NULL && access(b->o->test_hold, F_OK) == 0)
        sleep_ms(1);
    no = pthread_create(&logger, NULL, copy_log_main, &log);
    pthread_join(thread, NULL);
    if (no != 0)
        return err_set(err, RC_NOMEM, no, "cannot start a thread");
    rc = task.rc == RC_OK ? open_view(b, top, err)
                          : err_set(err, task.rc, task.err.os_errno, "%s", task.err.msg);
    pthread_join(logger, NULL);
    TRY(rc);
    if (log.rc != RC_OK && log.rc != RC_AGAIN)
        return err_set(err, log.rc, log.err.os_errno, "%s", log.err.msg);
    TRY(log.rc);
    TRY(check_fit(b, &log.start, &log.end, err));
    return check_log(b, &log, err);
}

static void close_view(struct backup *b, const char *top)
{
    char path[512];
    backup_forget_plan(b);
    if (b->view == NULL)
        return;
    store_free(b->view);
    b->view = NULL;
    snprintf(path, sizeof path, "%s/catalog/lock.mdb", top);
    (void)!io_unlink(path, NULL);
}

/* ---- a round */

static enum rc one_round(struct backup *b, char *top, size_t cap, struct err *err)
{
    manifest_done(&b->next);
    b->next.number = b->result.number;
    b->missing_now.len = 0;
    b->result.rounds++;
    TRY(make_dirs(b, top, cap, err));
    enum rc rc = copy_moment(b, top, err);
    if (rc == RC_OK)
        rc = backup_segments(b, err);
    b->result.indices = b->index_count;
    b->result.segments = b->next.count;
    b->result.kept = 0;
    for (size_t i = 0; rc == RC_OK && i < b->index_count; i++)
        for (size_t k = 0; k < b->index[i].count; k++)
            b->result.kept += b->index[i].segment[k].kept != NULL;
    close_view(b, top);
    struct buf missing = b->missing; /* known from now on as gone once */
    b->missing = b->missing_now;
    b->missing_now = missing;
    return rc;
}

static enum rc rounds(struct backup *b, char *top, size_t cap, struct err *err)
{
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        enum rc rc = one_round(b, top, cap, err);
        if (rc != RC_AGAIN)
            return rc;
        backup_say(b, "the data directory has changed under the backup: again");
        sleep_ms(ROUND_MS);
    }
    return err_set(err, RC_BUSY, 0,
                   "the log was written over faster than it could be copied, or segments removed, "
                   "%d times; a larger storage.wal.size helps",
                   ROUNDS_MAX);
}

/* ---- the end */

/* A file that lies in the backup already. want: the hash of what was written; NULL: it is verified
 * in another way. */
static enum rc name_file(struct backup *b, const char *path, const uint64_t *want, struct err *err)
{
    struct io_file file = {.fd = -1};
    char full[512], stored[256];
    uint64_t len = 0, hash = 0;
    snprintf(stored, sizeof stored, "%u/%s", b->result.number, path);
    snprintf(full, sizeof full, "%s/%s", b->o->dir, stored);
    enum rc rc = io_open(full, IO_READ, &file, err);
    TRY_OUT(rc == RC_NOT_FOUND ? err_set(err, RC_IO, ENOENT, "%.200s has gone", full) : rc);
    TRY_OUT(io_size(&file, &len, err));
    TRY_OUT(copier_hash(&b->copier, &file, len, &hash, err));
    if (want == NULL)
        b->copier.copied += len; /* by others */
    else if (*want != hash)
        TRY_OUT(err_set(err, RC_CORRUPT, 0, "%.200s does not hold what was written to it", full));
    rc = manifest_add(&b->next, path, stored, len, hash);
out:
    io_close(&file);
    return rc;
}

/* A file of the data directory that may be missing. */
static enum rc copy_small(struct backup *b, const char *name, struct err *err)
{
    struct io_file from = {.fd = -1};
    char path[512], to[512];
    uint64_t len = 0, hash = 0;
    snprintf(path, sizeof path, "%s/%s", b->o->path_data, name);
    snprintf(to, sizeof to, "%s/%u/%s", b->o->dir, b->result.number, name);
    enum rc rc = io_open(path, IO_READ, &from, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    TRY_OUT(rc);
    TRY_OUT(io_size(&from, &len, err));
    TRY_OUT(copier_copy(&b->copier, &from, len, to, &hash, err));
    if (strcmp(name, "users") == 0 && chmod(to, 0600) != 0)
        TRY_OUT(err_set(err, RC_IO, errno, "chmod %.200s: %s", to, strerror(errno)));
    rc = name_file(b, name, &hash, err);
out:
    io_close(&from);
    return rc;
}

struct naming {
    struct backup *b;
    enum rc rc;
    struct err *err;
};

static void name_wal(const char *name, void *arg)
{
    struct naming *n = arg;
    char path[64];
    if (n->rc != RC_OK || strlen(name) > 40)
        return;
    snprintf(path, sizeof path, "wal/%s", name);
    n->rc = name_file(n->b, path, NULL, n->err);
}

/* V4, also when the disk garbles it. */
static enum rc put_manifest(struct backup *b, struct err *err)
{
    struct manifest again = {0};
    char from[512], to[512];
    TRY(manifest_save(b->o->dir, MANIFEST_NEW, &b->next, err));
    enum rc rc = manifest_load(b->o->dir, MANIFEST_NEW, &again, err);
    manifest_done(&again);
    TRY(rc);
    snprintf(from, sizeof from, "%s/" MANIFEST_NEW, b->o->dir);
    snprintf(to, sizeof to, "%s/" MANIFEST_NAME, b->o->dir);
    TRY(io_rename(from, to, err));
    return io_sync_dir(b->o->dir, err);
}

static enum rc finish(struct backup *b, const char *top, struct err *err)
{
    struct naming naming = {b, RC_OK, err};
    char path[512];
    TRY(name_file(b, "catalog/data.mdb", NULL, err));
    snprintf(path, sizeof path, "%s/wal", top);
    TRY(io_list(path, name_wal, &naming, err));
    TRY(naming.rc);
    TRY(copy_small(b, "metadata.json", err));
    TRY(copy_small(b, "users", err));
    static const char *const subs[] = {"/catalog", "/wal", ""};
    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        snprintf(path, sizeof path, "%s%s", top, subs[i]);
        TRY(io_sync_dir(path, err));
    }
    snprintf(path, sizeof path, "%s/indices", b->o->dir);
    TRY(io_sync_dir(path, err));
    TRY(io_sync_dir(b->o->dir, err));
    struct err why = {0};
    snprintf(path, sizeof path, "%s/..", b->o->dir);
    enum rc rc = io_sync_dir(path, &why);
    if (rc != RC_OK && why.os_errno != EACCES) /* who may not read it has not made DIR */
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    b->next.release = strdup(b->o->release);
    memcpy(b->next.node, b->live->ids_raw, sizeof b->next.node);
    buf_put_slice(&b->next.damage, buf_slice(&b->damage));
    if (b->next.release == NULL || b->next.damage.failed || b->next.indices.failed)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    for (size_t i = 0; i < b->next.count; i++)
        b->result.bytes += b->next.file[i].len;
    b->result.copied_bytes = b->copier.copied;
    TRY(put_manifest(b, err));
    snprintf(path, sizeof path, "%s/%s", b->o->dir, MANIFEST_PARTIAL);
    TRY(io_unlink(path, err));
    return sweep(b, &b->next, NULL, err);
}

static size_t files_to_hold(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= SPARE_FILES)
        return 0;
    return (size_t)limit.rlim_cur - SPARE_FILES;
}

static void backup_done(struct backup *b)
{
    backup_forget_plan(b);
    free(b->index);
    if (b->view != NULL)
        store_free(b->view);
    if (b->live != NULL)
        store_free(b->live);
    manifest_done(&b->old);
    manifest_done(&b->fresh);
    manifest_done(&b->next);
    buf_done(&b->damage);
    buf_done(&b->missing);
    buf_done(&b->missing_now);
    copier_done(&b->copier);
    if (b->catalog_fd >= 0)
        close(b->catalog_fd);
}

enum rc backup_run(const struct backup_options *options, struct backup_result *out, struct err *err)
{
    struct backup b = {.o = options,
                       .told_ms = mono_ms(),
                       .saved_ms = mono_ms(),
                       .open_max = files_to_hold(),
                       .catalog_fd = -1};
    struct wal_start start;
    struct err why = {0};
    char top[DIR_BYTES + 16];
    int dir_fd = -1;
    enum rc rc = strlen(options->dir) < DIR_BYTES
                     ? RC_OK
                     : err_set(err, RC_INVALID, 0, "%.100s…: the name is longer than %d bytes",
                               options->dir, DIR_BYTES - 1);
    TRY(rc);
    TRY_OUT(copier_init(&b.copier, options->rate, err));
    b.copier.tick = tell_progress;
    b.copier.arg = &b;
    b.copier.zero_unreadable = true; /* V6 */
    TRY_OUT(hold_catalog(&b, err));
    TRY_OUT(open_store(options->path_data, &b.live, err));
    rc = store_load_node(b.live, &start, &why); /* its ids; what else is wrong comes later */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        TRY_OUT(err_set(err, rc, why.os_errno, "%s", why.msg));
    TRY_OUT(open_target(&b, &dir_fd, err));
    TRY_OUT(rounds(&b, top, sizeof top, err));
    TRY_OUT(finish(&b, top, err));
    *out = b.result;
out:
    if (rc != RC_OK && b.fresh.number != 0) /* what is copied need not be copied again */
        (void)!manifest_save(options->dir, MANIFEST_PARTIAL, &b.fresh, NULL);
    backup_done(&b);
    if (dir_fd >= 0)
        close(dir_fd);
    return rc;
}
