/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of a backup: which there are, which the backup has already, copying and verifying
 * the others. */
#include "config/limits.h"
#include "storage/backup_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_BLOCKS 512
#define RECORD      64 /* bytes of a segment's header, of its last record and of a block's header */
#define SAVE_MS     10000
#define NAMES_TRIED 100

/* ---- what the catalog names */

static struct backup_segment *segment_of(struct backup_index *bi, uint32_t number)
{
    for (size_t i = bi->count; i-- > 0;)
        if (bi->segment[i].number == number)
            return &bi->segment[i];
    if (bi->count == bi->cap) {
        size_t cap = bi->cap == 0 ? 8 : bi->cap * 2;
        struct backup_segment *list = realloc(bi->segment, cap * sizeof *list);
        if (list == NULL)
            return NULL;
        bi->segment = list;
        bi->cap = cap;
    }
    bi->segment[bi->count] = (struct backup_segment){.number = number, .fd = -1};
    return &bi->segment[bi->count++];
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool room_for_places(struct backup_index *bi, size_t more)
{
    size_t cap = bi->place_cap;
    while (cap < bi->place_count + more)
        cap = cap == 0 ? LIST_BLOCKS : cap * 2;
    struct place *list = realloc(bi->place, cap * sizeof *list);
    if (list == NULL)
        return false;
    bi->place = list;
    bi->place_cap = cap;
    return true;
}

static enum rc load_dict(const struct dict_copy *copy, void *arg)
{
    struct backup_index *bi = arg;
    if (bi->place_count == bi->place_cap && !room_for_places(bi, 1))
        return RC_NOMEM;
    bi->place[bi->place_count++] = (struct place){.first_seq = copy->number,
                                                  .segment = copy->segment,
                                                  .len = copy->len,
                                                  .at = copy->at,
                                                  .raw_bytes = 1};
    return RC_OK;
}

static enum rc load_places(struct backup *b, struct backup_index *bi, struct err *err)
{
    size_t n = LIST_BLOCKS;
    bi->place_count = 0;
    for (uint64_t from = 0; n == LIST_BLOCKS; from = bi->place[bi->place_count - 1].first_seq + 1) {
        if (!room_for_places(bi, LIST_BLOCKS))
            return err_set(err, RC_NOMEM, 0, "out of memory");
        TRY(catalog_list_blocks(b->view->catalog, bi->index->number, from,
                                bi->place + bi->place_count, LIST_BLOCKS, &n, err));
        bi->place_count += n;
        if (bi->place_count == 0)
            break;
    }
    TRY(index_dict_each(bi->index, load_dict, bi, err));
    if (bi->place_count != 0)
        qsort(bi->place, bi->place_count, sizeof *bi->place, by_place);
    return RC_OK;
}

static void forget_places(struct backup_index *bi)
{
    free(bi->place);
    bi->place = NULL;
    bi->place_count = bi->place_cap = 0;
}

/* The blocks of a segment, of those loaded. */
static struct place *places_of(const struct backup_index *bi, uint32_t number, size_t *count_out)
{
    size_t lo = 0, hi = bi->place_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bi->place[mid].segment < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (hi < bi->place_count && bi->place[hi].segment == number)
        hi++;
    *count_out = hi - lo;
    return bi->place == NULL ? NULL : bi->place + lo;
}

static bool name_bytes(struct backup_index *bi, uint32_t number, uint64_t end, bool block)
{
    struct backup_segment *s = segment_of(bi, number);
    if (s == NULL)
        return false;
    s->has_blocks = s->has_blocks || block;
    if (s->named < end)
        s->named = end;
    return true;
}

static void paths_of(const struct backup *b, const struct backup_index *bi,
                     const struct backup_segment *s, char *live, size_t live_cap, char *path,
                     size_t path_cap)
{
    snprintf(path, path_cap, "indices/%s/%08x.seg", bi->index->dir_name, s->number);
    snprintf(live, live_cap, "%s/%s", b->o->path_data, path);
}

/* ---- what is there already (V3) */

/* How much of the file is taken: has it a footer, behind all that the catalog names? */
static enum rc measure(struct backup *b, const struct backup_index *bi, struct backup_segment *s,
                       const struct io_file *file, const char *path, struct err *err)
{
    uint64_t size = 0, at = 0;
    struct err why = {0};
    TRY(io_size(file, &size, err));
    if (size < s->named) {
        backup_damage(b, "index [%s]: %s has %llu bytes, the catalog names %llu", bi->index->name,
                      path, (unsigned long long)size, (unsigned long long)s->named);
        s->named = size;
    }
    if (segment_table_at(file, size, s->number, &at, &why) != RC_OK)
        backup_damage(b, "index [%s]: %s: its footer cannot be read", bi->index->name, path);
    s->sealed = at != 0 && at >= s->named;
    s->len = s->sealed ? size : s->named;
    return RC_OK;
}

/* Unreadable in the backup is not the same. Unreadable in the data directory is: what the backup
 * has is all that there is. */
static bool same_record(const struct io_file *live, const struct io_file *have, uint64_t at)
{
    uint8_t x[RECORD], y[RECORD];
    return io_read(have, at, y, sizeof y, NULL) == RC_OK &&
           (io_read(live, at, x, sizeof x, NULL) != RC_OK || memcmp(x, y, sizeof x) == 0);
}

static bool is_same(struct backup *b, const struct backup_index *bi, const struct backup_segment *s,
                    const struct io_file *live, const struct manifest_file *have)
{
    struct io_file file = {.fd = -1};
    char path[512];
    uint64_t size = 0;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", b->o->dir, have->stored);
    if (have->len != s->len || s->len < RECORD || io_open(path, IO_READ, &file, NULL) != RC_OK)
        return false;
    bool same = io_size(&file, &size, NULL) == RC_OK && size >= s->len &&
                same_record(live, &file, 0) &&
                (!s->sealed || same_record(live, &file, s->len - RECORD));
    struct place *places = places_of(bi, s->number, &n);
    for (size_t i = 0; i < n && !s->sealed && same; i++)
        same = same_record(live, &file, places[i].at);
    io_close(&file);
    return same;
}

static void note_gone(struct backup *b, struct backup_index *bi, struct backup_segment *s)
{
    char live[512], path[128];
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    s->gone = true;
    buf_put_str(&b->missing_now, path);
    buf_put_byte(&b->missing_now, '\n');
}

/* The segment's entry in the list of what was copied lately, or else in the old manifest, if it is
 * the same. */
static enum rc find_kept(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                         const struct io_file *live, const char *path)
{
    struct manifest *lists[] = {&b->fresh, &b->old};
    for (size_t i = 0; i < ARRAY_LEN(lists) && s->kept == NULL; i++) {
        struct manifest_file *have = manifest_find(lists[i], path);
        if (have == NULL || !is_same(b, bi, s, live, have))
            continue;
        s->kept = lists[i];
        TRY(manifest_add(&b->next, path, have->stored, have->len, have->hash));
        b->next.file[b->next.count - 1].sure = have->sure;
    }
    return RC_OK;
}

static enum rc plan_segment(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                            struct err *err)
{
    struct io_file file = {.fd = -1};
    struct err why = {0};
    char live[512], path[128];
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    enum rc rc = io_open(live, IO_READ, &file, &why);
    if (rc == RC_NOT_FOUND) {
        note_gone(b, bi, s);
        return RC_OK;
    }
    if (rc != RC_OK)
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    TRY_OUT(measure(b, bi, s, &file, path, err));
    TRY_OUT(find_kept(b, bi, s, &file, path));
    if (s->kept == NULL)
        b->to_copy += s->len;
    if (s->kept == NULL && b->open < b->open_max) { /* else it is opened again in its turn */
        s->fd = file.fd;
        file.fd = -1;
        b->open++;
    }
out:
    io_close(&file);
    return rc;
}

static enum rc plan_index(struct backup *b, struct backup_index *bi, struct err *err)
{
    enum rc rc = load_places(b, bi, err);
    TRY_OUT(rc);
    for (size_t i = 0; i < bi->place_count; i++) {
        const struct place *p = &bi->place[i];
        uint8_t number[4];
        put_u32(number, (uint32_t)p->first_seq);
        if (p->rows == 0)
            buf_put(&bi->dicts, number, sizeof number);
        if (!name_bytes(bi, p->segment, p->at + p->len, p->rows != 0) || bi->dicts.failed) {
            rc = err_set(err, RC_NOMEM, 0, "out of memory");
            goto out;
        }
    }
    for (size_t i = 0; i < bi->count; i++)
        TRY_OUT(plan_segment(b, bi, &bi->segment[i], err));
out:
    forget_places(bi);
    return rc;
}

struct loading {
    struct backup *b;
    struct err *err;
};

static enum rc plan_load(struct slice key, struct slice value, void *arg)
{
    struct loading *l = arg;
    struct backup *b = l->b;
    if (b->index_count == b->index_cap) {
        size_t cap = b->index_cap == 0 ? 64 : b->index_cap * 2;
        struct backup_index *list = realloc(b->index, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        b->index = list;
        b->index_cap = cap;
    }
    struct backup_index *bi = &b->index[b->index_count];
    *bi = (struct backup_index){0};
    TRY(index_load(b->view, key, value, &bi->index, &bi->packed_seq, l->err));
    b->index_count++;
    buf_printf(&b->next.indices, "%s %s\n", bi->index->dir_name, bi->index->name);
    return RC_OK;
}

enum rc backup_plan(struct backup *b, struct err *err)
{
    struct loading l = {b, err};
    b->to_copy = b->copier.copied;
    TRY(catalog_each(b->view->catalog, KIND_INDEX, plan_load, &l, err));
    for (size_t i = 0; i < b->index_count; i++)
        TRY(plan_index(b, &b->index[i], err));
    return RC_OK;
}

void backup_forget_plan(struct backup *b)
{
    for (size_t i = 0; i < b->index_count; i++) {
        struct backup_index *bi = &b->index[i];
        for (size_t k = 0; k < bi->count; k++)
            if (bi->segment[k].fd >= 0)
                close(bi->segment[k].fd);
        free(bi->segment);
        buf_done(&bi->dicts);
        forget_places(bi);
        index_release(bi->index);
    }
    b->index_count = 0;
    b->open = 0;
}

/* ---- copying and verifying */

static void check_record(struct backup *b, const struct backup_index *bi, const char *path,
                         struct place *p, struct slice record)
{
    struct err why = {0};
    struct slice bytes;
    enum rc rc = p->rows != 0 ? segment_check_block(record, bi->index->number, p, &why)
                              : segment_check_dict(record, bi->index->number,
                                                   (uint32_t)p->first_seq, &bytes, &why);
    if (rc != RC_OK && p->rows == 0)
        p->raw_bytes = 0;
    if (rc != RC_OK)
        backup_damage(b, "index [%s]: %s at %llu: %.150s", bi->index->name, path,
                      (unsigned long long)p->at, why.msg);
}

static enum rc read_gap(struct backup *b, const struct io_file *file, uint64_t from, uint64_t to,
                        struct err *err)
{
    while (from < to) {
        size_t n = to - from < COPIER_PIECE ? (size_t)(to - from) : COPIER_PIECE;
        TRY(copier_read(&b->copier, file, from, b->copier.piece, n, err));
        from += n;
    }
    return RC_OK;
}

/* Read a file of the backup: its hash, and whether the blocks are there (V5). */
static enum rc read_back(struct backup *b, const struct backup_index *bi,
                         const struct backup_segment *s, const char *path,
                         const struct io_file *file, uint64_t *hash_out, struct err *err)
{
    size_t n;
    struct place *p = places_of(bi, s->number, &n);
    struct buf record = {0};
    uint64_t at = 0;
    enum rc rc = RC_OK;
    copier_begin(&b->copier);
    for (size_t i = 0; i < n; i++) {
        if (p[i].at < at || p[i].at + p[i].len > s->len) {
            backup_damage(b, "index [%s]: %s: %s %llu is not in it", bi->index->name, path,
                          p[i].rows != 0 ? "block" : "dictionary",
                          (unsigned long long)p[i].first_seq);
            p[i].raw_bytes = p[i].rows != 0 ? p[i].raw_bytes : 0;
            continue;
        }
        TRY_OUT(read_gap(b, file, at, p[i].at, err));
        record.len = 0;
        if (!buf_reserve(&record, p[i].len)) {
            rc = err_set(err, RC_NOMEM, 0, "out of memory");
            goto out;
        }
        TRY_OUT(copier_read(&b->copier, file, p[i].at, record.ptr, p[i].len, err));
        check_record(b, bi, path, &p[i], slice_of(record.ptr, p[i].len));
        at = p[i].at + p[i].len;
    }
    TRY_OUT(read_gap(b, file, at, s->len, err));
    *hash_out = copier_end(&b->copier);
out:
    buf_done(&record);
    return rc;
}

/* Into a file of a name that is free (V4). */
static enum rc copy_file(struct backup *b, const struct backup_index *bi,
                         const struct backup_segment *s, const struct io_file *from, char *stored,
                         size_t cap, uint64_t *hash_out, struct err *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/indices/%s", b->o->dir, bi->index->dir_name);
    TRY(io_mkdir(path, err));
    for (unsigned i = 0; i < NAMES_TRIED; i++) {
        char more[32] = "";
        struct err why = {0};
        if (i != 0)
            snprintf(more, sizeof more, "-%u-%u", b->result.number, i);
        snprintf(stored, cap, "indices/%s/%08x%s.seg", bi->index->dir_name, s->number, more);
        snprintf(path, sizeof path, "%s/%s", b->o->dir, stored);
        enum rc rc = copier_copy(&b->copier, from, s->len, path, hash_out, &why);
        if (rc != RC_EXISTS)
            return rc == RC_OK ? rc : err_set(err, rc, why.os_errno, "%s", why.msg);
    }
    return err_set(err, RC_EXISTS, 0, "%s: every name is taken", path);
}

static enum rc open_late(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                         struct io_file *file, const char *live, const char *path, struct err *err)
{
    if (s->fd >= 0) {
        *file = (struct io_file){.fd = s->fd};
        snprintf(file->path, sizeof file->path, "%s", live);
        s->fd = -1;
        return RC_OK;
    }
    enum rc rc = io_open(live, IO_READ, file, err);
    if (rc == RC_NOT_FOUND)
        note_gone(b, bi, s);
    return rc == RC_OK ? measure(b, bi, s, file, path, err) : rc;
}

static enum rc remember(struct backup *b, const char *path, const char *stored, uint64_t len,
                        uint64_t hash, struct err *err)
{
    struct manifest_file *known = manifest_find(&b->fresh, path);
    enum rc rc = RC_OK;
    if (known != NULL) { /* it has grown since, or its copy was damaged */
        char *name = strdup(stored);
        if (name == NULL)
            return err_set(err, RC_NOMEM, 0, "out of memory");
        free(known->stored);
        known->stored = name;
        known->len = len;
        known->hash = hash;
        known->sure = true;
    } else {
        rc = manifest_add(&b->fresh, path, stored, len, hash);
        if (rc == RC_OK)
            b->fresh.file[b->fresh.count - 1].sure = true;
    }
    if (rc == RC_OK)
        rc = manifest_add(&b->next, path, stored, len, hash);
    if (rc == RC_OK)
        b->next.file[b->next.count - 1].sure = true;
    uint64_t now = mono_ms();
    if (rc == RC_OK && now - b->saved_ms >= SAVE_MS) {
        b->saved_ms = now;
        rc = manifest_save(b->o->dir, MANIFEST_PARTIAL, &b->fresh, err);
    }
    return rc;
}

static enum rc copy_segment(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                            struct err *err)
{
    struct io_file from = {.fd = -1}, to = {.fd = -1};
    struct err why = {0};
    char live[512], path[128], stored[160], full[512];
    uint64_t hash = 0, again = 0;
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    enum rc rc = open_late(b, bi, s, &from, live, path, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    TRY_OUT(rc);
    rc = copy_file(b, bi, s, &from, stored, sizeof stored, &hash, &why);
    if (rc == RC_CORRUPT) { /* a checkpoint that failed has taken back what no catalog named */
        note_gone(b, bi, s);
        rc = RC_OK;
        goto out;
    }
    if (rc != RC_OK)
        TRY_OUT(err_set(err, rc, why.os_errno, "%s", why.msg));
    if (b->copier.unreadable != 0)
        backup_damage(b, "index [%s]: %s: %llu bytes cannot be read", bi->index->name, path,
                      (unsigned long long)b->copier.unreadable);
    snprintf(full, sizeof full, "%s/%s", b->o->dir, stored);
    TRY_OUT(io_open(full, IO_READ, &to, err));
    TRY_OUT(read_back(b, bi, s, path, &to, &again, err));
    if (hash != again) {
        rc = err_set(err, RC_CORRUPT, 0, "%.200s does not hold what was written to it", full);
        goto out;
    }
    rc = remember(b, path, stored, s->len, hash, err);
out:
    io_close(&from);
    io_close(&to);
    return rc;
}

/* What a list says of a segment that is kept and not read. */
static void carry_damage(struct backup *b, const struct manifest *from, const char *path)
{
    struct buf lines = {0}; /* a copy: it may be the list that grows */
    buf_put_slice(&lines, buf_slice(&from->damage));
    for (size_t at = 0, n; at < lines.len; at += n + 1) {
        const char *line = (const char *)lines.ptr + at;
        n = (size_t)((const char *)memchr(line, '\n', lines.len - at) - line);
        if (memmem(line, n, path, strlen(path)) != NULL)
            backup_damage(b, "%.*s", (int)n, line);
    }
    buf_done(&lines);
}

/* One that the backup has: is it still what it was? */
static enum rc verify_kept(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                           struct err *err)
{
    struct io_file file = {.fd = -1};
    char live[512], path[128], full[512];
    uint64_t hash = 0;
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    struct manifest_file *f = manifest_find(&b->next, path);
    if (f->sure || b->o->quick) {
        carry_damage(b, s->kept, path);
        return RC_OK;
    }
    size_t damage = b->damage.len, fresh = b->fresh.damage.len;
    uint64_t count = b->result.damage;
    snprintf(full, sizeof full, "%s/%s", b->o->dir, f->stored);
    enum rc rc = io_open(full, IO_READ, &file, err);
    if (rc == RC_OK)
        rc = read_back(b, bi, s, path, &file, &hash, err);
    io_close(&file);
    if (rc == RC_OK && hash == f->hash) {
        f->sure = true;
        struct manifest_file *same = manifest_find(&b->fresh, path);
        if (same != NULL && strcmp(same->stored, f->stored) == 0)
            same->sure = true;
        return RC_OK;
    }
    if (rc == RC_NOMEM || (rc != RC_OK && (err->os_errno == EMFILE || err->os_errno == ENFILE)))
        return rc;
    /* The data directory is not to blame. */
    b->damage.len = damage;
    b->fresh.damage.len = fresh;
    b->result.damage = count;
    *err = (struct err){0};
    backup_say(b, "%s was damaged: copied again", full);
    s->kept = NULL;
    manifest_drop(&b->next, f);
    return copy_segment(b, bi, s, err);
}

static bool was_gone(const struct backup *b, const char *path)
{
    size_t len = strlen(path);
    for (size_t at = 0; at + len < b->missing.len; at += len + 1) /* lines of one length */
        if (memcmp(b->missing.ptr + at, path, len) == 0 && b->missing.ptr[at + len] == '\n')
            return true;
    return false;
}

/* Gone: rewritten since the catalog was copied. Gone again: a newer catalog still names it. */
static bool judge_gone(struct backup *b, const struct backup_index *bi,
                       const struct backup_segment *s)
{
    char live[512], path[128];
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    if (!was_gone(b, path))
        return false;
    if (s->has_blocks)
        backup_damage(b, "index [%s]: %s is missing", bi->index->name, path);
    size_t n;
    struct place *p = places_of(bi, s->number, &n);
    for (size_t i = 0; i < n; i++)
        p[i].raw_bytes = p[i].rows != 0 ? p[i].raw_bytes : 0;
    return true;
}

/* Dictionaries of which every copy is damaged or missing. */
static void judge_dicts(struct backup *b, const struct backup_index *bi)
{
    for (size_t i = 0; i < bi->place_count; i++) {
        const struct place *p = &bi->place[i];
        bool left = p->rows != 0 || p->raw_bytes != 0;
        for (size_t k = 0; k < bi->place_count && !left; k++)
            left = bi->place[k].rows == 0 && bi->place[k].first_seq == p->first_seq &&
                   bi->place[k].raw_bytes != 0;
        if (!left)
            backup_damage(b, "index [%s]: no copy of dictionary %llu is left", bi->index->name,
                          (unsigned long long)p->first_seq);
    }
}

static enum rc segments_of(struct backup *b, struct backup_index *bi, bool *again_io,
                           struct err *err)
{
    char dir[512];
    enum rc rc = load_places(b, bi, err);
    TRY_OUT(rc);
    for (size_t i = 0; i < bi->count; i++) {
        struct backup_segment *s = &bi->segment[i];
        if (!s->gone)
            TRY_OUT(s->kept != NULL ? verify_kept(b, bi, s, err) : copy_segment(b, bi, s, err));
        if (s->gone && !judge_gone(b, bi, s))
            *again_io = true;
    }
    judge_dicts(b, bi);
    snprintf(dir, sizeof dir, "%s/indices/%s", b->o->dir, bi->index->dir_name);
    if (bi->count != 0) {
        struct err why = {0};
        rc = io_sync_dir(dir, &why);
        if (rc != RC_OK && why.os_errno != ENOENT) /* it has no file */
            (void)err_set(err, rc, why.os_errno, "%s", why.msg);
        else
            rc = RC_OK;
    }
out:
    forget_places(bi);
    return rc;
}

enum rc backup_segments(struct backup *b, struct err *err)
{
    bool again = false;
    for (size_t i = 0; i < b->index_count; i++)
        TRY(segments_of(b, &b->index[i], &again, err));
    return again ? RC_AGAIN : RC_OK;
}
