/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of a backup: which there are, which the backup has already, copying and verifying
 * the others. */
#include "config/limits.h"
#include "storage/backup_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_BLOCKS 512
#define RECORD      64 /* bytes of a segment's header and last record */
#define ENTRY_BYTES 40 /* of its block table, docs/format.md section 2 */
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

static enum rc load_places(struct backup *b, struct backup_index *bi, struct err *err)
{
    size_t cap = 0, n = LIST_BLOCKS;
    bi->place_count = 0;
    for (uint64_t from = 0; n == LIST_BLOCKS; from = bi->place[bi->place_count - 1].first_seq + 1) {
        if (cap < bi->place_count + LIST_BLOCKS) {
            cap = cap == 0 ? LIST_BLOCKS : cap * 2;
            struct place *list = realloc(bi->place, cap * sizeof *list);
            if (list == NULL)
                return err_set(err, RC_NOMEM, 0, "out of memory");
            bi->place = list;
        }
        TRY(catalog_list_blocks(b->view->catalog, bi->index->number, from,
                                bi->place + bi->place_count, LIST_BLOCKS, &n, err));
        bi->place_count += n;
        if (bi->place_count == 0)
            break;
    }
    if (bi->place_count != 0)
        qsort(bi->place, bi->place_count, sizeof *bi->place, by_place);
    return RC_OK;
}

static void forget_places(struct backup_index *bi)
{
    free(bi->place);
    bi->place = NULL;
    bi->place_count = 0;
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

static enum rc name_dict(const struct dict_copy *copy, void *arg)
{
    return name_bytes(arg, copy->segment, copy->at + copy->len, false) ? RC_OK : RC_NOMEM;
}

static void paths_of(const struct backup *b, const struct backup_index *bi,
                     const struct backup_segment *s, char *live, size_t live_cap, char *path,
                     size_t path_cap)
{
    snprintf(path, path_cap, "indices/%s/%08x.seg", bi->index->dir_name, s->number);
    snprintf(live, live_cap, "%s/%s", b->o->path_data, path);
}

/* ---- what is there already (V3) */

/* Has the file a footer, and does that end behind all that the catalog names? */
static enum rc find_footer(const struct io_file *file, uint64_t size, struct backup_segment *s,
                           struct err *err)
{
    uint8_t raw[RECORD];
    s->sealed = false;
    s->len = s->named;
    if (size < s->named + RECORD || size % BLOCK_ALIGN != 0)
        return RC_OK;
    TRY(io_read(file, size - RECORD, raw, sizeof raw, err));
    uint64_t at = get_u64(raw + 16), table = (uint64_t)get_u32(raw + 8) * ENTRY_BYTES;
    uint64_t padded = (table + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    if (memcmp(raw, "SFTR", 4) == 0 && get_u32(raw + 12) == s->number && at >= s->named &&
        at + padded + RECORD == size) {
        s->sealed = true;
        s->len = size;
    }
    return RC_OK;
}

static enum rc same_record(const struct io_file *a, const struct io_file *b, uint64_t at,
                           bool *same_io, struct err *err)
{
    uint8_t x[RECORD], y[RECORD];
    if (!*same_io)
        return RC_OK;
    TRY(io_read(a, at, x, sizeof x, err));
    struct err why = {0};
    enum rc rc = io_read(b, at, y, sizeof y, &why); /* the backup's: unreadable is not the same */
    *same_io = rc == RC_OK && memcmp(x, y, sizeof x) == 0;
    return RC_OK;
}

static enum rc is_same(struct backup *b, const struct backup_index *bi,
                       const struct backup_segment *s, const struct io_file *live,
                       const struct manifest_file *have, bool *same_out, struct err *err)
{
    struct io_file file = {.fd = -1};
    struct err why = {0};
    char path[512];
    uint64_t size = 0;
    size_t n;
    *same_out = false;
    snprintf(path, sizeof path, "%s/%s", b->o->dir, have->stored);
    if (have->len != s->len || io_open(path, IO_READ, &file, &why) != RC_OK)
        return RC_OK;
    bool same = io_size(&file, &size, &why) == RC_OK && size >= s->len;
    enum rc rc = same_record(live, &file, 0, &same, err);
    if (rc == RC_OK && s->sealed)
        rc = same_record(live, &file, s->len - RECORD, &same, err);
    struct place *places = places_of(bi, s->number, &n);
    for (size_t i = 0; i < n && rc == RC_OK && !s->sealed && same; i++)
        rc = same_record(live, &file, places[i].at, &same, err);
    io_close(&file);
    *same_out = rc == RC_OK && same;
    return rc;
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
                         const struct io_file *live, const char *path, struct err *err)
{
    struct manifest *lists[] = {&b->fresh, &b->old};
    for (size_t i = 0; i < ARRAY_LEN(lists) && !s->kept; i++) {
        struct manifest_file *have = manifest_find(lists[i], path);
        bool same = false;
        if (have != NULL)
            TRY(is_same(b, bi, s, live, have, &same, err));
        if (!same)
            continue;
        s->kept = true;
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
    uint64_t size = 0;
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    enum rc rc = io_open(live, IO_READ, &file, &why);
    if (rc == RC_NOT_FOUND) {
        note_gone(b, bi, s);
        return RC_OK;
    }
    if (rc == RC_IO && why.os_errno == EMFILE) {
        s->len = s->named;
        return RC_OK; /* opened when its turn comes */
    }
    if (rc != RC_OK)
        return err_set(err, rc, why.os_errno, "%s", why.msg);
    TRY_OUT(io_size(&file, &size, err));
    if (size < s->named) {
        backup_damage(b, "%s has %llu bytes, the catalog names %llu", path,
                      (unsigned long long)size, (unsigned long long)s->named);
        s->named = size;
    }
    TRY_OUT(find_footer(&file, size, s, err));
    TRY_OUT(find_kept(b, bi, s, &file, path, err));
    if (!s->kept) {
        s->fd = file.fd;
        file.fd = -1;
        b->to_copy += s->len;
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
        if (!name_bytes(bi, p->segment, p->at + p->len, true)) {
            rc = err_set(err, RC_NOMEM, 0, "out of memory");
            goto out;
        }
    }
    TRY_OUT(index_dict_each(bi->index, name_dict, bi, err));
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
    uint64_t packed = 0;
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
    TRY(index_load(b->view, key, value, &bi->index, &packed, l->err));
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
        forget_places(bi);
        index_release(bi->index);
    }
    b->index_count = 0;
}

/* ---- copying and verifying */

static void check_block_at(struct backup *b, const struct backup_index *bi, const char *path,
                           const struct place *p, struct slice record)
{
    struct block_header head;
    struct err why = {0};
    enum rc rc = block_check(record, bi->index->number, p->first_seq, &head, &why);
    if (rc == RC_OK && (head.rows != p->rows || head.record_len != p->len))
        rc = err_set(&why, RC_CORRUPT, 0, "not the block that the catalog names");
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
    const struct place *p = places_of(bi, s->number, &n);
    struct buf record = {0};
    uint64_t at = 0;
    enum rc rc = RC_OK;
    copier_begin(&b->copier);
    for (size_t i = 0; i < n; i++) {
        if (p[i].at < at || p[i].at + p[i].len > s->len) {
            backup_damage(b, "index [%s]: %s: block %llu is not in it", bi->index->name, path,
                          (unsigned long long)p[i].first_seq);
            continue;
        }
        TRY_OUT(read_gap(b, file, at, p[i].at, err));
        record.len = 0;
        if (!buf_reserve(&record, p[i].len)) {
            rc = err_set(err, RC_NOMEM, 0, "out of memory");
            goto out;
        }
        TRY_OUT(copier_read(&b->copier, file, p[i].at, record.ptr, p[i].len, err));
        check_block_at(b, bi, path, &p[i], slice_of(record.ptr, p[i].len));
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
                         struct io_file *file, const char *live, struct err *err)
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
    return rc;
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
    enum rc rc = open_late(b, bi, s, &from, live, err);
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

/* One that the backup has: is it still what it was? */
static enum rc verify_kept(struct backup *b, struct backup_index *bi, struct backup_segment *s,
                           struct err *err)
{
    struct io_file file = {.fd = -1};
    char live[512], path[128], full[512];
    uint64_t hash = 0;
    paths_of(b, bi, s, live, sizeof live, path, sizeof path);
    struct manifest_file *f = manifest_find(&b->next, path);
    if (f->sure || b->o->quick)
        return RC_OK;
    size_t damage = b->damage.len;
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
    if (rc == RC_NOMEM)
        return rc;
    /* The data directory is not to blame. */
    b->damage.len = damage;
    b->result.damage = count;
    *err = (struct err){0};
    backup_say(b, "%s was damaged: copied again", full);
    s->kept = false;
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
    return true;
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
            TRY_OUT(s->kept ? verify_kept(b, bi, s, err) : copy_segment(b, bi, s, err));
        if (s->gone && !judge_gone(b, bi, s))
            *again_io = true;
    }
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
