/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilding, first half: metadata.json, the blocks of all segments, the rows of the log, and which
 * index they belong to under which name. */
#include "storage/found.h"

#include "config/limits.h"
#include "storage/json.h"

#include <stdlib.h>

#define METADATA_MAX (1024 * (size_t)MIB)

/* ---- saying */

static void say(struct rebuild *rb, const char *fmt, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    rb->say(rb->arg, text);
}

void rebuild_say(struct rebuild *rb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(rb, fmt, ap);
    va_end(ap);
}

void rebuild_damage(struct rebuild *rb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(rb, fmt, ap);
    va_end(ap);
    rb->result.damage++;
}

static bool grow(void **list, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return true;
    size_t more = *cap == 0 ? 64 : *cap * 2;
    void *p = realloc(*list, more * size);
    if (p == NULL)
        return false;
    *list = p;
    *cap = more;
    return true;
}

/* ---- metadata.json */

static bool parse_hex(struct slice text, uint8_t *out, size_t n)
{
    if (text.len != 2 * n)
        return false;
    for (size_t i = 0; i < 2 * n; i++) {
        uint8_t c = text.ptr[i];
        int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0)
            return false;
        out[i / 2] = (uint8_t)(i % 2 == 0 ? v << 4 : out[i / 2] | v);
    }
    return true;
}

static bool take_ids(struct rebuild *rb, struct slice quoted, size_t at)
{
    struct slice plain;
    return json_plain(quoted, &plain) && parse_hex(plain, rb->store->ids_raw + at, 16);
}

static enum rc load_metadata(struct rebuild *rb, struct err *err)
{
    char path[512];
    size_t len = 0;
    enum json_type type;
    struct json_fault fault;
    struct slice key;
    struct json_value v;
    bool cluster = false, node = false;
    snprintf(path, sizeof path, "%s/metadata.json", rb->store->path);
    enum rc rc = io_slurp(path, METADATA_MAX, &rb->metadata, &len, err);
    if (rc == RC_NOT_FOUND) {
        rebuild_say(rb, "metadata.json: missing; templates are lost");
        return RC_OK;
    }
    TRY(rc);
    struct slice text = slice_of(rb->metadata, len);
    if (!json_check(text, &type, &fault) || type != JSON_OBJECT) {
        rebuild_damage(rb, "metadata.json: damaged; templates are lost");
        return RC_OK;
    }
    for (struct json_scan s = json_enter(json_root(text)); json_member(&s, &key, &v);) {
        if (json_string_is(key, "cluster") && v.type == JSON_STRING)
            cluster = take_ids(rb, v.text, 0);
        else if (json_string_is(key, "node") && v.type == JSON_STRING)
            node = take_ids(rb, v.text, 16);
        else if (json_string_is(key, "blobs") && v.type == JSON_OBJECT)
            rb->blobs = v.text;
        else if (json_string_is(key, "indices") && v.type == JSON_OBJECT)
            rb->indices = v.text;
    }
    rb->ids_known = cluster && node;
    return RC_OK;
}

static enum rc describe(struct found *f, struct slice text)
{
    struct metadata_about about;
    buf_done(&f->text);
    buf_put_slice(&f->text, text);
    f->described = false;
    if (f->text.failed)
        return RC_NOMEM;
    f->described = metadata_read(buf_slice(&f->text), &about);
    if (f->described)
        f->about = about;
    return RC_OK;
}

/* An entry of metadata.json: newer than the headers of segments. */
static enum rc take_entry(struct found *f, struct json_value entry)
{
    struct slice key;
    struct json_value v;
    uint64_t n;
    if (entry.type != JSON_OBJECT)
        return RC_OK;
    for (struct json_scan s = json_enter(entry); json_member(&s, &key, &v);) {
        if (json_string_is(key, "number") && json_u64(v.text, &n) && n != 0 && n <= UINT32_MAX)
            f->number = (uint32_t)n;
        else if (json_string_is(key, "created") && json_u64(v.text, &n))
            f->created_ms = n;
        else if (json_string_is(key, "about"))
            TRY(describe(f, v.text));
    }
    f->of_metadata = f->described;
    return RC_OK;
}

static int by_uuid(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return memcmp(x->uuid, y->uuid, 16);
}

/* NULL: there is no such directory. */
static struct found *find_uuid(const struct rebuild *rb, const uint8_t uuid[16])
{
    struct found key = {0};
    memcpy(key.uuid, uuid, 16);
    return rb->count == 0 ? NULL : bsearch(&key, rb->found, rb->count, sizeof *rb->found, by_uuid);
}

static enum rc take_entries(struct rebuild *rb)
{
    struct slice key, name;
    struct json_value v;
    uint8_t uuid[16];
    if (rb->indices.len == 0)
        return RC_OK;
    for (struct json_scan s = json_enter(json_root(rb->indices)); json_member(&s, &key, &v);) {
        struct found *f =
            json_plain(key, &name) && parse_hex(name, uuid, 16) ? find_uuid(rb, uuid) : NULL;
        if (f != NULL)
            TRY(take_entry(f, v));
    }
    return RC_OK;
}

/* ---- segments */

struct scan {
    struct rebuild *rb;
    struct found *f;
    uint32_t segment;
};

static enum rc take_owner(const struct segment_owner *owner, uint32_t number, void *arg)
{
    struct scan *s = arg;
    struct found *f = s->f;
    if (memcmp(owner->uuid, f->uuid, 16) != 0 || number != s->segment) {
        rebuild_damage(s->rb, "%s/%08x.seg: names another index or segment", f->dir_name,
                       s->segment);
        return RC_OK;
    }
    if (f->number == 0)
        f->number = owner->index_no;
    if (f->created_ms == 0)
        f->created_ms = owner->created_ms;
    /* Segments are scanned in order: the newest header that reads counts. */
    struct metadata_about about;
    return f->of_metadata || !metadata_read(owner->describe, &about) ? RC_OK
                                                                     : describe(f, owner->describe);
}

/* A number is never given out twice, even if the dictionary itself is lost: blocks still name it.
 */
static void note_dict(struct found *f, uint32_t number)
{
    if (number >= f->dict_next)
        f->dict_next = number + 1;
}

static enum rc take_block(const struct block_header *head, uint64_t at, struct slice record,
                          void *arg)
{
    struct scan *s = arg;
    struct found *f = s->f;
    struct block *block = NULL;
    struct err why = {0};
    struct row last;
    if (f->number == 0)
        f->number = head->index_no;
    note_dict(f, head->dictionary);
    if (head->dictionary > f->dict_used)
        f->dict_used = head->dictionary;
    enum rc rc = block_open(record, f->number, head->first_seq, BLOCK_META, NULL, &block, &why);
    if (rc == RC_NOMEM)
        return rc;
    if (rc != RC_OK) {
        rebuild_damage(s->rb, "%s/%08x.seg at %llu: %s", f->dir_name, s->segment,
                       (unsigned long long)at, why.msg);
        return RC_OK;
    }
    block_row(block, block_rows(block) - 1, &last);
    struct place place = {
        .first_seq = head->first_seq,
        .last_seq = last.seq,
        .segment = s->segment,
        .len = (uint32_t)record.len,
        .at = at,
        .rows = head->rows,
        .raw_bytes = (uint32_t)block_docs_bytes(block),
    };
    block_close(block);
    if (!grow((void **)&f->block, &f->block_cap, f->block_count, sizeof *f->block))
        return RC_NOMEM;
    f->block[f->block_count++] = place;
    return RC_OK;
}

static void take_damage(uint64_t at, uint64_t len, const char *why, void *arg)
{
    struct scan *s = arg;
    rebuild_damage(s->rb, "%s/%08x.seg: %llu bytes at %llu: %s", s->f->dir_name, s->segment,
                   (unsigned long long)len, (unsigned long long)at, why);
}

struct numbers {
    uint32_t *list;
    size_t count, cap;
    bool failed;
};

static void take_name(const char *name, void *arg)
{
    struct numbers *n = arg;
    uint32_t number;
    if (!segment_parse_name(name, &number))
        return;
    if (!grow((void **)&n->list, &n->cap, n->count, sizeof *n->list))
        n->failed = true;
    else
        n->list[n->count++] = number;
}

static int u32_order(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

struct dict *found_dict(const struct found *f, uint32_t number)
{
    for (size_t i = 0; i < f->dict_count; i++)
        if (dict_number(f->dict[i]) == number)
            return f->dict[i];
    return NULL;
}

static void drop_dict(struct found *f, uint32_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->copy_count; i++)
        if (f->copy[i].number != number)
            f->copy[kept++] = f->copy[i];
    f->copy_count = kept;
    kept = 0;
    for (size_t i = 0; i < f->dict_count; i++) {
        if (dict_number(f->dict[i]) != number)
            f->dict[kept++] = f->dict[i];
        else
            dict_release(f->dict[i]);
    }
    f->dict_count = kept;
}

static enum rc take_dict(uint32_t number, uint64_t at, struct slice bytes, void *arg)
{
    struct scan *s = arg;
    struct found *f = s->f;
    note_dict(f, number);
    if (!grow((void **)&f->copy, &f->copy_cap, f->copy_count, sizeof *f->copy) ||
        !grow((void **)&f->dict, &f->dict_cap, f->dict_count, sizeof(struct dict *)))
        return RC_NOMEM;
    struct dict *known = found_dict(f, number);
    if (known != NULL && !slice_eq(dict_bytes(known), bytes)) {
        /* Numbers were not always reserved: a crash kept the first one from being used, and its
         * number was given to another. */
        if (number <= f->dict_used) {
            rebuild_damage(s->rb, "%s/%08x.seg: another dictionary %u", f->dir_name, s->segment,
                           number);
            return RC_OK;
        }
        drop_dict(f, number);
        known = NULL;
    }
    f->copy[f->copy_count++] = (struct dict_copy){
        number, s->segment, (uint32_t)align_up(BLOCK_HEADER_BYTES + bytes.len, BLOCK_ALIGN), at};
    if (known != NULL)
        return RC_OK;
    struct dict *dict = dict_make(number, bytes);
    if (dict == NULL)
        return RC_NOMEM;
    f->dict[f->dict_count++] = dict;
    return RC_OK;
}

static enum rc scan_segments(struct rebuild *rb, struct found *f, struct err *err)
{
    char dir[512], path[600];
    struct numbers n = {0};
    struct scan s = {.rb = rb, .f = f};
    struct segment_scan_fn fn = {take_owner, take_block, take_damage, &s, take_dict};
    snprintf(dir, sizeof dir, "%s/indices/%s", rb->store->path, f->dir_name);
    enum rc rc = io_list(dir, take_name, &n, err);
    if (rc == RC_OK && n.failed)
        rc = RC_NOMEM;
    if (rc == RC_OK && n.count != 0)
        qsort(n.list, n.count, sizeof *n.list, u32_order);
    for (size_t i = 0; rc == RC_OK && i < n.count; i++) {
        s.segment = n.list[i];
        segment_path(path, sizeof path, dir, s.segment);
        rc = segment_scan(path, &fn, err);
        f->next_segment = s.segment + 1;
    }
    free(n.list);
    return rc;
}

/* ---- R1 */

static int by_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->first_seq < y->first_seq ? -1 : x->first_seq > y->first_seq;
}

static bool newer(const struct place *a, const struct place *b)
{
    return a->segment != b->segment ? a->segment > b->segment : a->at > b->at;
}

static void drop_overlaps(struct found *f)
{
    size_t kept = 0;
    if (f->block_count != 0)
        qsort(f->block, f->block_count, sizeof *f->block, by_first);
    for (size_t i = 0; i < f->block_count; i++) {
        const struct place *b = &f->block[i];
        bool stale = false;
        while (kept != 0 && f->block[kept - 1].last_seq >= b->first_seq && !stale) {
            stale = newer(&f->block[kept - 1], b);
            if (!stale)
                kept--;
        }
        if (!stale)
            f->block[kept++] = *b;
    }
    f->block_count = kept;
}

bool found_covered(const struct found *f, uint64_t seq)
{
    size_t lo = 0, hi = f->block_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->block[mid].last_seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < f->block_count && f->block[lo].first_seq <= seq;
}

/* ---- directories */

struct dirs {
    struct rebuild *rb;
    enum rc rc;
};

static void take_dir(const char *name, void *arg)
{
    struct dirs *d = arg;
    struct rebuild *rb = d->rb;
    uint8_t uuid[16];
    if (!parse_hex(slice_str(name), uuid, 16)) {
        rebuild_say(rb, "indices/%s: not an index, left alone", name);
        return;
    }
    if (!grow((void **)&rb->found, &rb->cap, rb->count, sizeof *rb->found)) {
        d->rc = RC_NOMEM;
        return;
    }
    struct found *f = &rb->found[rb->count++];
    *f = (struct found){0};
    memcpy(f->uuid, uuid, 16);
    memcpy(f->dir_name, name, 32);
}

/* ---- the log */

/* What the log said last of an index number. */
struct told {
    uint32_t number;
    struct found *f; /* NULL: an index that is gone */
    uint64_t nonce;
    uint32_t term;
};

struct log_reader {
    struct rebuild *rb;
    struct told *told;
    size_t count, cap;
};

static struct told *told_of(struct log_reader *lr, uint32_t number)
{
    for (size_t i = lr->count; i-- > 0;)
        if (lr->told[i].number == number)
            return &lr->told[i];
    return NULL;
}

static enum rc take_index(struct log_reader *lr, const struct wal_record *record)
{
    struct told *t = told_of(lr, record->index_no);
    if (record->body.len != 28)
        return RC_CORRUPT;
    if (t == NULL) {
        if (!grow((void **)&lr->told, &lr->cap, lr->count, sizeof *lr->told))
            return RC_NOMEM;
        t = &lr->told[lr->count++];
    }
    *t = (struct told){.number = record->index_no,
                       .nonce = get_u64(record->body.ptr + 16),
                       .term = get_u32(record->body.ptr + 24),
                       .f = find_uuid(lr->rb, record->body.ptr)};
    if (t->f != NULL && t->f->number == 0)
        t->f->number = record->index_no;
    if (t->f != NULL && t->f->number != record->index_no)
        t->f = NULL;
    return RC_OK;
}

static enum rc keep_row(struct found *f, const struct row *row)
{
    if (!grow((void **)&f->row, &f->row_cap, f->row_count, sizeof *f->row))
        return RC_NOMEM;
    struct row copy = *row;
    if (found_covered(f, row->seq))
        copy.doc = SLICE_NONE;
    uint8_t *p = malloc(copy.id.len + copy.routing.len + copy.doc.len + 1), *at = p;
    if (p == NULL)
        return RC_NOMEM;
    struct slice *parts[] = {&copy.id, &copy.routing, &copy.doc};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i]->len != 0)
            memcpy(at, parts[i]->ptr, parts[i]->len);
        parts[i]->ptr = at;
        at += parts[i]->len;
    }
    f->row[f->row_count++] = (struct found_row){row->seq, copy, p, false};
    return RC_OK;
}

static enum rc take_rows(struct told *t, struct slice body, struct err *err)
{
    struct reader in = reader_of(body);
    while (in.p != in.end) {
        struct row row = {.nonce = t->nonce, .term = t->term};
        if (!wal_row_take(&in, &row))
            return err_set(err, RC_CORRUPT, 0, "log: a row of %s does not parse", t->f->dir_name);
        TRY(keep_row(t->f, &row));
    }
    return RC_OK;
}

static enum rc take_log_block(struct rebuild *rb, struct told *t, struct slice body)
{
    struct block_header head;
    struct block *block = NULL;
    struct block_scratch scratch = {0};
    struct err why = {0};
    enum rc rc = block_header_read(body, &head, &why);
    if (rc == RC_OK)
        rc = block_open(body, t->number, head.first_seq, BLOCK_ALL,
                        found_dict(t->f, head.dictionary), &block, &why);
    for (size_t i = 0; rc == RC_OK && i < block_rows(block); i++) {
        struct row row;
        rc = block_row_all(block, i, &scratch, &row, &why);
        if (rc == RC_OK)
            rc = keep_row(t->f, &row);
    }
    block_scratch_done(&scratch);
    block_close(block);
    if (rc == RC_OK || rc == RC_NOMEM)
        return rc;
    rebuild_damage(rb, "wal: a block of %s: %s", t->f->dir_name, why.msg);
    return RC_OK;
}

static enum rc take_record(const struct wal_record *record, uint64_t at, void *arg, struct err *err)
{
    struct log_reader *lr = arg;
    (void)at;
    if (record->kind == WAL_INDEX)
        return take_index(lr, record);
    struct told *t = told_of(lr, record->index_no);
    if (t == NULL || t->f == NULL)
        return RC_OK;
    if (record->kind == WAL_ROWS)
        return take_rows(t, record->body, err);
    if (record->kind == WAL_BLOCK)
        return take_log_block(lr->rb, t, record->body);
    return err_set(err, RC_UNSUPPORTED, 0, "log: a record of unknown kind %u", record->kind);
}

static int by_seq(const void *a, const void *b)
{
    const struct found_row *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* By seq, each once. */
static void settle_rows(struct found *f)
{
    size_t kept = 0;
    if (f->row_count != 0)
        qsort(f->row, f->row_count, sizeof *f->row, by_seq);
    for (size_t i = 0; i < f->row_count; i++) {
        if (kept != 0 && f->row[kept - 1].seq == f->row[i].seq)
            free(f->row[i].bytes);
        else
            f->row[kept++] = f->row[i];
    }
    f->row_count = kept;
}

static enum rc read_log(struct rebuild *rb, struct err *err)
{
    char path[512];
    struct log_reader lr = {.rb = rb};
    uint64_t gaps = 0;
    snprintf(path, sizeof path, "%s/wal", rb->store->path);
    enum rc rc = wal_salvage(path, take_record, &lr, &rb->log_end, &gaps, err);
    free(lr.told);
    if (rc == RC_NOT_FOUND) {
        rebuild_say(rb, "wal: no batch in it");
        wal_geometry(rb->store->o.wal_bytes, &rb->log_end);
        rb->log_end.run = rb->log_end.batch = 1;
        rb->log_end.position = 0;
        rc = RC_OK;
    }
    if (gaps != 0)
        rebuild_damage(rb,
                       "wal: %llu places where batches are missing; what they alone had is lost",
                       (unsigned long long)gaps);
    for (size_t i = 0; rc == RC_OK && i < rb->count; i++)
        settle_rows(&rb->found[i]);
    return rc;
}

/* ---- names and numbers */

static bool name_taken(const struct rebuild *rb, const char *name, size_t len)
{
    for (size_t i = 0; i < rb->count; i++)
        if (rb->found[i].used && rb->found[i].name_len == len &&
            memcmp(rb->found[i].name, name, len) == 0)
            return true;
    return false;
}

static void set_name(struct found *f, const char *name, size_t len)
{
    memcpy(f->name, name, len);
    f->name[len] = 0;
    f->name_len = len;
}

/* What nothing describes gets a name of its own and the default codec. */
static void invent(struct rebuild *rb, struct found *f)
{
    char name[32];
    int n = snprintf(name, sizeof name, "recovered-%.8s", f->dir_name);
    set_name(f, name, (size_t)n);
    f->about = (struct metadata_about){.spec = codec_find(SLICE_LIT("default"))->spec};
    rebuild_damage(rb, "indices/%s: nothing tells its name and settings; it is [%s] now",
                   f->dir_name, f->name);
}

static enum rc settle_name(struct rebuild *rb, struct found *f)
{
    struct buf name = {0};
    if (f->described) {
        json_unquote(f->about.name, &name);
        if (name.failed)
            return RC_NOMEM;
        f->described = name.len != 0 && name.len <= LIMIT_INDEX_NAME_BYTES;
    }
    if (f->described)
        set_name(f, (const char *)name.ptr, name.len);
    else
        invent(rb, f);
    buf_done(&name);
    char other[sizeof f->name];
    size_t len = f->name_len;
    memcpy(other, f->name, len + 1);
    for (unsigned n = 1; name_taken(rb, other, len); n++) {
        char tail[32];
        size_t tail_len = (size_t)snprintf(tail, sizeof tail, "-recovered-%u", n);
        size_t keep = f->name_len;
        if (keep + tail_len > LIMIT_INDEX_NAME_BYTES)
            keep = LIMIT_INDEX_NAME_BYTES - tail_len;
        memcpy(other + keep, tail, tail_len + 1);
        len = keep + tail_len;
    }
    if (len != f->name_len || memcmp(other, f->name, len) != 0) {
        rebuild_say(rb, "indices/%s: the name [%s] belongs to a newer index; it is [%s] now",
                    f->dir_name, f->name, other);
        set_name(f, other, len);
    }
    return RC_OK;
}

static int newest_first(const void *a, const void *b)
{
    const struct found *x = *(struct found *const *)a, *y = *(struct found *const *)b;
    if (x->created_ms != y->created_ms)
        return x->created_ms > y->created_ms ? -1 : 1;
    return strcmp(x->dir_name, y->dir_name);
}

static enum rc check_number(const struct rebuild *rb, const struct found *f, struct err *err)
{
    for (size_t i = 0; i < rb->count; i++)
        if (&rb->found[i] != f && rb->found[i].used && rb->found[i].number == f->number)
            return err_set(err, RC_CORRUPT, 0,
                           "indices/%s and indices/%s have the same number %u: move one away",
                           f->dir_name, rb->found[i].dir_name, f->number);
    return RC_OK;
}

/* The newest index keeps a name that several have. */
static enum rc settle(struct rebuild *rb, struct err *err)
{
    struct found **order = malloc((rb->count + 1) * sizeof(struct found *));
    enum rc rc = RC_OK;
    if (order == NULL)
        return RC_NOMEM;
    for (size_t i = 0; i < rb->count; i++)
        order[i] = &rb->found[i];
    qsort(order, rb->count, sizeof(struct found *), newest_first);
    for (size_t i = 0; i < rb->count; i++) {
        struct found *f = order[i];
        if (f->number == 0) {
            rebuild_say(rb, "indices/%s: empty and unknown, left alone", f->dir_name);
            continue;
        }
        TRY_OUT(check_number(rb, f, err));
        TRY_OUT(settle_name(rb, f));
        if (rb->indices.len != 0 && !f->of_metadata)
            rebuild_say(rb,
                        "indices/%s: [%s] is not in metadata.json: made or deleted shortly before "
                        "the catalog was lost; delete it if it is not wanted",
                        f->dir_name, f->name);
        f->used = true;
    }
out:
    free(order);
    return rc;
}

/* ---- the whole */

enum rc found_all(struct rebuild *rb, struct err *err)
{
    char path[512];
    struct dirs dirs = {rb, RC_OK};
    TRY(load_metadata(rb, err));
    snprintf(path, sizeof path, "%s/indices", rb->store->path);
    TRY(io_list(path, take_dir, &dirs, err));
    TRY(dirs.rc);
    if (rb->count != 0)
        qsort(rb->found, rb->count, sizeof *rb->found, by_uuid);
    TRY(take_entries(rb));
    for (size_t i = 0; i < rb->count; i++) {
        TRY(scan_segments(rb, &rb->found[i], err));
        drop_overlaps(&rb->found[i]);
    }
    TRY(read_log(rb, err));
    return settle(rb, err);
}

void found_done(struct rebuild *rb)
{
    for (size_t i = 0; i < rb->count; i++) {
        struct found *f = &rb->found[i];
        for (size_t k = 0; k < f->row_count; k++)
            free(f->row[k].bytes);
        free(f->row);
        free(f->block);
        for (size_t k = 0; k < f->dict_count; k++)
            dict_release(f->dict[k]);
        free(f->dict);
        free(f->copy);
        buf_done(&f->text);
        index_release(f->index);
    }
    free(rb->found);
    free(rb->metadata);
}
