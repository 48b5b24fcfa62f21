/* SPDX-License-Identifier: Apache-2.0 */
/* Listing what lies in files, for people: docs/format.md's worked example is made by it. */
#include "config/limits.h"
#include "storage/bytes.h"
#include "storage/check.h"
#include "storage/codec.h"
#include "storage/dict.h"
#include "storage/io.h"
#include "storage/segment.h"
#include "storage/wal.h"

#include <stdlib.h>
#include <sys/stat.h>

#define RECORD_MAX (64 * (size_t)MIB)

/* Dictionaries of one segment that are remembered; blocks of others are listed as not readable. */
#define DICTS_MAX 64

struct dump {
    unsigned flags;
    bool damaged;
    struct dict *dict[DICTS_MAX]; /* of the segment so far */
    size_t dict_count;
    void (*say)(void *arg, const char *text);
    void *arg;
};

static void put_line(struct dump *d, struct buf *line)
{
    buf_put_byte(line, 0);
    d->say(d->arg, line->failed ? "out of memory" : (const char *)line->ptr);
    buf_done(line);
}

static PRINTF_LIKE(2, 3) void say(struct dump *d, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->say(d->arg, text);
}

static void dump_hex(struct dump *d, struct slice bytes)
{
    for (size_t at = 0; at < bytes.len; at += 16) {
        struct buf line = {0};
        for (size_t i = at; i < bytes.len && i < at + 16; i++)
            buf_printf(&line, i == at ? "%02x" : " %02x", bytes.ptr[i]);
        put_line(d, &line);
    }
}

/* ---- blocks */

static void dump_row(struct dump *d, const struct row *row)
{
    static const char *const kinds[] = {"made", "client", "tombstone"};
    struct buf line = {0};
    char made[MADE_ID_LEN];
    struct slice id = row->id;
    if (row->kind == ROW_MADE) {
        made_id_format(row->nonce, row->seq, made);
        id = slice_of(made, sizeof made);
    }
    buf_printf(&line, "    seq %llu version %llu term %u %s id ", (unsigned long long)row->seq,
               (unsigned long long)row->version, row->term, kinds[row->kind]);
    buf_put_slice(&line, id);
    if (row->routing.len != 0) {
        BUF_PUT_LIT(&line, " routing ");
        buf_put_slice(&line, row->routing);
    }
    if (row->kind != ROW_TOMBSTONE) {
        BUF_PUT_LIT(&line, " ");
        buf_put_slice(&line, row->doc);
    }
    put_line(d, &line);
}

static enum rc dump_dict(uint32_t number, uint64_t at, struct slice bytes, void *arg)
{
    struct dump *d = arg;
    say(d, "  %10llu  dictionary %u of %zu bytes", (unsigned long long)at, number, bytes.len);
    if (d->dict_count < DICTS_MAX) {
        struct dict *dict = dict_make(number, bytes);
        if (dict == NULL)
            return RC_NOMEM;
        d->dict[d->dict_count++] = dict;
    }
    return RC_OK;
}

static struct dict *dict_of(const struct dump *d, uint32_t number)
{
    for (size_t i = 0; i < d->dict_count; i++)
        if (dict_number(d->dict[i]) == number)
            return d->dict[i];
    return NULL;
}

static enum rc dump_block(const struct block_header *head, uint64_t at, struct slice record,
                          void *arg)
{
    struct dump *d = arg;
    struct block *block = NULL;
    struct err why = {0};
    enum rc rc = block_open(record, head->index_no, head->first_seq, BLOCK_SCAN,
                            dict_of(d, head->dictionary), &block, &why);
    if (rc != RC_OK) {
        say(d, "  %10llu  block: %s", (unsigned long long)at, why.msg);
        d->damaged = true;
        return rc == RC_NOMEM ? rc : RC_OK;
    }
    struct row last;
    block_row(block, block_rows(block) - 1, &last);
    say(d,
        "  %10llu  block of index %u: seq %llu to %llu, %u rows, layout %d, %s level %d, "
        "dictionary %u; meta %u of %u, data %u of %u bytes; %zu bytes",
        (unsigned long long)at, head->index_no, (unsigned long long)head->first_seq,
        (unsigned long long)last.seq, head->rows, (int)head->layout, codec_text(head->codec),
        head->level, head->dictionary, head->meta_len, head->meta_raw, head->data_len,
        head->data_raw, head->record_len);
    if ((d->flags & DUMP_HEX) != 0)
        dump_hex(d, slice_of(record.ptr, head->record_len));
    struct block_scratch scratch = {0};
    for (size_t i = 0; (d->flags & DUMP_ROWS) != 0 && i < block_rows(block) && rc == RC_OK; i++) {
        struct row row;
        rc = block_row_all(block, i, &scratch, &row, &why);
        if (rc == RC_OK)
            dump_row(d, &row);
    }
    if (rc == RC_CORRUPT) {
        say(d, "    %s", why.msg);
        d->damaged = true;
        rc = RC_OK;
    }
    block_scratch_done(&scratch);
    block_close(block);
    return rc;
}

static enum rc dump_record(struct dump *d, const char *path, struct err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    struct block_header head;
    TRY(io_slurp(path, RECORD_MAX, &data, &len, err));
    enum rc rc = block_header_read(slice_of(data, len), &head, err);
    if (rc == RC_OK && head.record_len > len)
        rc = err_set(err, RC_CORRUPT, 0, "%s: ends early", path);
    if (rc == RC_OK)
        rc = dump_block(&head, 0, slice_of(data, len), d);
    free(data);
    return rc;
}

/* ---- segments */

static enum rc dump_owner(const struct segment_owner *owner, uint32_t number, void *arg)
{
    struct dump *d = arg;
    struct buf line = {0};
    buf_printf(&line, "  segment %u of index %u, uuid ", number, owner->index_no);
    for (size_t i = 0; i < sizeof owner->uuid; i++)
        buf_printf(&line, "%02x", owner->uuid[i]);
    buf_printf(&line, ", created %llu: ", (unsigned long long)owner->created_ms);
    buf_put_slice(&line, owner->describe);
    put_line(d, &line);
    return RC_OK;
}

static void dump_damage(uint64_t at, uint64_t len, const char *why, void *arg)
{
    struct dump *d = arg;
    say(d, "  %10llu  damage, %llu bytes: %s", (unsigned long long)at, (unsigned long long)len,
        why);
    d->damaged = true;
}

static enum rc dump_segment(struct dump *d, const char *path, struct err *err)
{
    struct segment_scan_fn fn = {dump_owner, dump_block, dump_damage, d, dump_dict};
    say(d, "%s", path);
    enum rc rc = segment_scan(path, &fn, err);
    for (size_t i = 0; i < d->dict_count; i++)
        dict_release(d->dict[i]);
    d->dict_count = 0;
    return rc;
}

/* ---- the log */

static enum rc dump_batch(const struct wal_start *at, uint64_t payload, uint32_t records, void *arg)
{
    say(arg, "  run %llu batch %llu at %llu: %u records, %llu bytes", (unsigned long long)at->run,
        (unsigned long long)at->batch, (unsigned long long)at->position, records,
        (unsigned long long)payload);
    return RC_OK;
}

static enum rc dump_log(struct dump *d, const char *dir, struct err *err)
{
    say(d, "%s", dir);
    enum rc rc = wal_list(dir, dump_batch, d, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- directories: whatever lies in them */

struct names {
    char **list;
    size_t count, cap;
    bool failed;
};

static void take_name(const char *name, void *arg)
{
    struct names *n = arg;
    if (n->count == n->cap) {
        size_t cap = n->cap == 0 ? 32 : n->cap * 2;
        char **list = realloc(n->list, cap * sizeof(char *));
        if (list == NULL) {
            n->failed = true;
            return;
        }
        n->list = list;
        n->cap = cap;
    }
    n->list[n->count] = strdup(name);
    n->failed = n->failed || n->list[n->count] == NULL;
    n->count += n->list[n->count] != NULL;
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum rc dump_any(struct dump *d, const char *path, bool top, struct err *err);

static enum rc dump_dir(struct dump *d, const char *path, struct err *err)
{
    struct names n = {0};
    enum rc rc = io_list(path, take_name, &n, err);
    if (rc == RC_OK && n.failed)
        rc = err_set(err, RC_NOMEM, 0, "out of memory");
    if (n.count != 0)
        qsort(n.list, n.count, sizeof(char *), text_order);
    for (size_t i = 0; i < n.count; i++) {
        char below[1024];
        snprintf(below, sizeof below, "%s/%s", path, n.list[i]);
        if (rc == RC_OK && strcmp(n.list[i], "wal") == 0)
            rc = dump_log(d, below, err);
        else if (rc == RC_OK)
            rc = dump_any(d, below, false, err);
        free(n.list[i]);
    }
    free(n.list);
    return rc;
}

/* Which kind of file it is its first bytes tell. */
static enum rc dump_file(struct dump *d, const char *path, bool top, struct err *err)
{
    struct io_file file = {.fd = -1};
    uint8_t magic[4] = {0};
    enum rc rc = io_open(path, IO_READ, &file, err);
    if (rc == RC_OK && io_read(&file, 0, magic, sizeof magic, NULL) != RC_OK)
        memset(magic, 0, sizeof magic);
    io_close(&file);
    TRY(rc);
    const char *dot = strrchr(path, '.');
    if (memcmp(magic, "SSEG", 4) == 0 || (dot != NULL && strcmp(dot, ".seg") == 0))
        return dump_segment(d, path, err);
    if (memcmp(magic, "SBLK", 4) == 0)
        return dump_record(d, path, err);
    return top ? err_set(err, RC_INVALID, 0, "%s is neither a segment nor a block record", path)
               : RC_OK;
}

static enum rc dump_any(struct dump *d, const char *path, bool top, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_set(err, RC_INVALID, 0, "%s is not there", path);
    return S_ISDIR(st.st_mode) ? dump_dir(d, path, err) : dump_file(d, path, top, err);
}

enum rc dump_path(const char *path, unsigned flags, void (*line)(void *arg, const char *text),
                  void *arg, struct err *err)
{
    struct dump d = {.flags = flags, .say = line, .arg = arg};
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    enum rc rc = strcmp(name, "wal") == 0 ? dump_log(&d, path, err) : dump_any(&d, path, true, err);
    return rc == RC_OK && d.damaged ? RC_CORRUPT : rc;
}
