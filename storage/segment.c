/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and scanning segments. Layout in docs/format.md, section 2; G1 to G4 in segment.h.
 * Reading records through the set of open files is in segment_files.c.
 *
 * A scan trusts nothing: it steps from record to record, and where one does not verify it goes on
 * at the next 64 bytes until one does (G3). */
#include "storage/segment.h"

#include "config/limits.h"
#include "storage/bytes.h"
#include "storage/catalog.h"
#include "storage/io.h"

#include <errno.h>
#include <stdlib.h>

#define XXH_INLINE_ALL /* its streaming state on our stack, whatever version the library has */
#include <xxhash.h>

#define FORMAT_VERSION  1
#define HEADER_BYTES    64
#define CHECKSUM_AT     56
#define ENTRY_BYTES     40
#define DESCRIPTION_MAX (64 * MIB)
#define DICT_MAX        (1 * MIB)
#define PATH_BYTES      512

void segment_path(char *dst, size_t cap, const char *dir, uint32_t number)
{
    snprintf(dst, cap, "%s/%08x.seg", dir, number);
}

bool segment_parse_name(const char *name, uint32_t *number_out)
{
    uint32_t number = 0;
    if (strlen(name) != 12 || strcmp(name + 8, ".seg") != 0)
        return false;
    for (size_t i = 0; i < 8; i++) {
        char c = name[i];
        if (c >= '0' && c <= '9')
            number = number << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (uint32_t)(c - 'a' + 10);
        else
            return false;
    }
    *number_out = number;
    return true;
}

/* Checksum of a header and the bytes that belong to it. */
static uint64_t checksum(const uint8_t *header, const uint8_t *body, size_t len)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, header, CHECKSUM_AT);
    XXH3_64bits_update(&state, body, len);
    return XXH3_64bits_digest(&state);
}

/* ---- writing */
struct segment_writer {
    struct io_file file;
    char dir[PATH_BYTES];
    uint32_t number;
    uint64_t len;
    bool entered; /* the directory entry is durable (IO2) */
    bool sealed;
    struct buf dicts;   /* numbers of the dictionaries in it, 4 bytes each */
    struct buf entries; /* the footer's, as on disk */
    size_t count;
};

static const uint8_t padding[BLOCK_ALIGN];

static enum rc writer_new(const char *dir, uint32_t number, struct segment_writer **out,
                          struct err *err)
{
    struct segment_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(err, RC_NOMEM, 0, "segment %s/%08x: out of memory", dir, number);
    w->file.fd = -1;
    w->number = number;
    if ((size_t)snprintf(w->dir, sizeof w->dir, "%s", dir) >= sizeof w->dir - 16) {
        free(w);
        return err_set(err, RC_INVALID, 0, "segment directory %s: name too long", dir);
    }
    *out = w;
    return RC_OK;
}

static void put_owner(uint8_t *p, uint32_t number, const struct segment_owner *owner)
{
    memset(p, 0, HEADER_BYTES);
    memcpy(p, "SSEG", 4);
    p[4] = FORMAT_VERSION;
    put_u32(p + 8, owner->index_no);
    put_u32(p + 12, number);
    memcpy(p + 16, owner->uuid, sizeof owner->uuid);
    put_u64(p + 32, owner->created_ms);
    put_u32(p + 40, (uint32_t)owner->describe.len);
    put_u64(p + CHECKSUM_AT, checksum(p, owner->describe.ptr, owner->describe.len));
}

enum rc segment_create(const char *dir, uint32_t number, const struct segment_owner *owner,
                       struct segment_writer **out, struct err *err)
{
    assert(owner->describe.len <= DESCRIPTION_MAX);
    struct segment_writer *w = NULL;
    char path[PATH_BYTES];
    uint8_t header[HEADER_BYTES];
    enum rc rc;
    TRY_OUT(writer_new(dir, number, &w, err));
    segment_path(path, sizeof path, dir, number);
    TRY_OUT(io_open(path, IO_CREATE, &w->file, err));
    put_owner(header, number, owner);
    size_t len = align_up(HEADER_BYTES + owner->describe.len, BLOCK_ALIGN);
    struct iovec iov[] = {
        {header, sizeof header},
        {(void *)(uintptr_t)owner->describe.ptr, owner->describe.len},
        {(void *)(uintptr_t)padding, len - HEADER_BYTES - owner->describe.len},
    };
    TRY_OUT(io_writev(&w->file, 0, iov, (int)ARRAY_LEN(iov), err));
    w->len = len;
    *out = w;
    w = NULL;
out:
    /* The error that counts is set already; what cannot be removed is swept at the next start. */
    if (w != NULL && w->file.fd >= 0) {
        enum rc ignored = io_unlink(path, NULL);
        (void)ignored;
    }
    segment_writer_close(w);
    return rc;
}

static void put_entry(struct buf *b, const struct segment_entry *entry, uint64_t block_checksum)
{
    uint8_t p[ENTRY_BYTES];
    put_u64(p, entry->first_seq);
    put_u64(p + 8, entry->last_seq);
    put_u64(p + 16, entry->at);
    put_u32(p + 24, entry->len);
    put_u32(p + 28, entry->rows);
    put_u64(p + 32, block_checksum);
    buf_put(b, p, sizeof p);
}

enum rc segment_cut(const char *dir, uint32_t number, uint64_t len, struct err *err)
{
    struct io_file file = {.fd = -1};
    char path[PATH_BYTES];
    uint64_t size = 0;
    segment_path(path, sizeof path, dir, number);
    TRY(io_open(path, IO_WRITE, &file, err));
    enum rc rc = io_size(&file, &size, err);
    if (rc == RC_OK && size > len)
        rc = io_truncate(&file, len, err);
    io_close(&file);
    return rc;
}

enum rc segment_append(struct segment_writer *w, struct slice record,
                       const struct segment_entry *entry, uint64_t *at_out, struct err *err)
{
    assert(!w->sealed && record.len >= BLOCK_HEADER_BYTES && record.len % BLOCK_ALIGN == 0);
    assert(record.len <= UINT32_MAX && get_u64(record.ptr + 16) == entry->first_seq);
    struct segment_entry placed = *entry;
    placed.at = w->len;
    placed.len = (uint32_t)record.len;
    if (!buf_reserve(&w->entries, ENTRY_BYTES))
        return err_set(err, RC_NOMEM, 0, "segment %s: out of memory", w->file.path);
    TRY(io_write(&w->file, w->len, record.ptr, record.len, err));
    put_entry(&w->entries, &placed, get_u64(record.ptr + CHECKSUM_AT));
    w->count++;
    *at_out = w->len;
    w->len += record.len;
    return RC_OK;
}

bool segment_has_dict(const struct segment_writer *w, uint32_t number)
{
    for (size_t i = 0; i + 4 <= w->dicts.len; i += 4)
        if (get_u32(w->dicts.ptr + i) == number)
            return true;
    return false;
}

enum rc segment_append_dict(struct segment_writer *w, uint32_t index_no, uint32_t number,
                            struct slice bytes, uint64_t *at_out, uint32_t *len_out,
                            struct err *err)
{
    uint8_t header[HEADER_BYTES] = {'S', 'D', 'I', 'C', FORMAT_VERSION}, known[4];
    size_t len = align_up(HEADER_BYTES + bytes.len, BLOCK_ALIGN);
    assert(!w->sealed && bytes.len <= DICT_MAX);
    put_u32(header + 8, index_no);
    put_u32(header + 12, number);
    put_u32(header + 16, (uint32_t)bytes.len);
    put_u64(header + CHECKSUM_AT, checksum(header, bytes.ptr, bytes.len));
    struct iovec iov[] = {
        {header, sizeof header},
        {(void *)(uintptr_t)bytes.ptr, bytes.len},
        {(void *)(uintptr_t)padding, len - HEADER_BYTES - bytes.len},
    };
    TRY(io_writev(&w->file, w->len, iov, (int)ARRAY_LEN(iov), err));
    put_u32(known, number);
    buf_put(&w->dicts, known, sizeof known); /* forgotten when memory is out: written again */
    *at_out = w->len;
    *len_out = (uint32_t)len;
    w->len += len;
    return RC_OK;
}

enum rc segment_check_dict(struct slice record, uint32_t index_no, uint32_t number,
                           struct slice *bytes_out, struct err *err)
{
    const uint8_t *p = record.ptr;
    bool sane = record.len >= HEADER_BYTES && memcmp(p, "SDIC", 4) == 0 &&
                get_u32(p + 16) <= record.len - HEADER_BYTES &&
                checksum(p, p + HEADER_BYTES, get_u32(p + 16)) == get_u64(p + CHECKSUM_AT) &&
                get_u32(p + 8) == index_no && get_u32(p + 12) == number;
    if (!sane)
        return err_set(err, RC_CORRUPT, 0, "index %u: dictionary %u: checksum", index_no, number);
    if (p[4] != FORMAT_VERSION)
        return err_set(err, RC_UNSUPPORTED, 0,
                       "index %u: dictionary %u: format version %u is unknown to this release",
                       index_no, number, p[4]);
    *bytes_out = slice_of(p + HEADER_BYTES, get_u32(p + 16));
    return RC_OK;
}

enum rc segment_check_block(struct slice record, uint32_t index_no, const struct place *place,
                            struct err *err)
{
    struct block_header head;
    TRY(block_check(record, index_no, place->first_seq, &head, err));
    return head.rows == place->rows && head.record_len == place->len
               ? RC_OK
               : err_set(err, RC_CORRUPT, 0, "not the block that the catalog names");
}

enum rc segment_table_at(const struct io_file *file, uint64_t size, uint32_t number,
                         uint64_t *at_out, struct err *err)
{
    uint8_t raw[HEADER_BYTES];
    *at_out = 0;
    if (size < 2 * HEADER_BYTES || size % BLOCK_ALIGN != 0)
        return RC_OK;
    TRY(io_read(file, size - HEADER_BYTES, raw, sizeof raw, err));
    uint64_t at = get_u64(raw + 16);
    uint64_t table = align_up((size_t)get_u32(raw + 8) * ENTRY_BYTES, BLOCK_ALIGN);
    if (memcmp(raw, "SFTR", 4) == 0 && get_u32(raw + 12) == number &&
        at + table + HEADER_BYTES == size)
        *at_out = at;
    return RC_OK;
}

enum rc segment_sync(struct segment_writer *w, struct err *err)
{
    TRY(io_sync(&w->file, err));
    if (!w->entered)
        TRY(io_sync_dir(w->dir, err));
    w->entered = true;
    return RC_OK;
}

enum rc segment_seal(struct segment_writer *w, struct err *err)
{
    assert(!w->sealed);
    uint8_t footer[HEADER_BYTES] = {'S', 'F', 'T', 'R', FORMAT_VERSION};
    put_u32(footer + 8, (uint32_t)w->count);
    put_u32(footer + 12, w->number);
    put_u64(footer + 16, w->len);
    put_u64(footer + CHECKSUM_AT, checksum(footer, w->entries.ptr, w->entries.len));
    size_t padded = align_up(w->entries.len, BLOCK_ALIGN);
    struct iovec iov[] = {
        {w->entries.ptr, w->entries.len},
        {(void *)(uintptr_t)padding, padded - w->entries.len},
        {footer, sizeof footer},
    };
    TRY(io_writev(&w->file, w->len, iov, (int)ARRAY_LEN(iov), err));
    w->len += padded + sizeof footer;
    w->sealed = true;
    return RC_OK;
}

uint64_t segment_len(const struct segment_writer *w)
{
    return w->len;
}

uint32_t segment_number(const struct segment_writer *w)
{
    return w->number;
}

void segment_writer_close(struct segment_writer *w)
{
    if (w == NULL)
        return;
    io_close(&w->file);
    buf_done(&w->entries);
    buf_done(&w->dicts);
    free(w);
}

/* ---- scanning */
#define WINDOW_BYTES (1 * MIB)

struct scan {
    struct io_file file;
    uint64_t end;      /* of what holds records */
    struct buf window; /* bytes of the file from window_at */
    uint64_t window_at;
    const struct segment_scan_fn *fn;
    bool owned; /* the header verified: blocks must be of its index */
    uint32_t index_no;
    /* Damage met and not yet told: [damage_at, where the scan is). */
    bool damaged;
    uint64_t damage_at;
    char why[256];
};

/* n bytes at `at`, valid until the next call. The caller has checked that the file has them. */
static enum rc view(struct scan *s, uint64_t at, size_t n, const uint8_t **out, struct err *err)
{
    if (at < s->window_at || at + n > s->window_at + s->window.len) {
        size_t want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
        if (want > s->end - at)
            want = (size_t)(s->end - at);
        s->window.len = 0;
        if (!buf_reserve(&s->window, want))
            return err_set(err, RC_NOMEM, 0, "segment %s: out of memory", s->file.path);
        TRY(io_read(&s->file, at, s->window.ptr, want, err));
        s->window.len = want;
        s->window_at = at;
    }
    *out = s->window.ptr + (at - s->window_at);
    return RC_OK;
}

static void damage_begin(struct scan *s, uint64_t at, const char *why)
{
    if (s->damaged)
        return;
    s->damaged = true;
    s->damage_at = at;
    snprintf(s->why, sizeof s->why, "%s", why);
}

static void damage_end(struct scan *s, uint64_t at)
{
    if (s->damaged && s->fn->damage != NULL)
        s->fn->damage(s->damage_at, at - s->damage_at, s->why, s->fn->arg);
    s->damaged = false;
}

/* The header. Damage in it is told like any other: blocks name their index too. */
static enum rc scan_header(struct scan *s, uint64_t *next_out, struct err *err)
{
    const uint8_t *p;
    *next_out = 0;
    if (s->end < HEADER_BYTES) {
        damage_begin(s, 0, "header: ends early");
        return RC_OK;
    }
    TRY(view(s, 0, HEADER_BYTES, &p, err));
    uint32_t len = get_u32(p + 40);
    bool sane = memcmp(p, "SSEG", 4) == 0 && len <= DESCRIPTION_MAX && len <= s->end - HEADER_BYTES;
    if (sane)
        TRY(view(s, 0, HEADER_BYTES + (size_t)len, &p, err));
    if (!sane || checksum(p, p + HEADER_BYTES, len) != get_u64(p + CHECKSUM_AT)) {
        damage_begin(s, 0, sane ? "header: checksum" : "header: magic or length");
        *next_out = HEADER_BYTES;
        return RC_OK;
    }
    if (p[4] != FORMAT_VERSION)
        return err_set(err, RC_UNSUPPORTED, 0,
                       "segment %s: format version %u is unknown to this release", s->file.path,
                       p[4]);
    struct segment_owner owner = {
        .index_no = get_u32(p + 8),
        .created_ms = get_u64(p + 32),
        .describe = {p + HEADER_BYTES, len},
    };
    memcpy(owner.uuid, p + 16, sizeof owner.uuid);
    s->owned = true;
    s->index_no = owner.index_no;
    *next_out = align_up(HEADER_BYTES + (size_t)len, BLOCK_ALIGN);
    return s->fn->owner == NULL ? RC_OK : s->fn->owner(&owner, get_u32(p + 12), s->fn->arg);
}

/* A sound footer ends what holds records; without one the segment is taken as not sealed. */
static enum rc find_footer(struct scan *s, struct err *err)
{
    const uint8_t *p;
    uint64_t size = s->end;
    if (size < HEADER_BYTES || size % BLOCK_ALIGN != 0)
        return RC_OK;
    TRY(view(s, size - HEADER_BYTES, HEADER_BYTES, &p, err));
    uint64_t entries = get_u32(p + 8), at = get_u64(p + 16);
    size_t padded = align_up((size_t)entries * ENTRY_BYTES, BLOCK_ALIGN);
    if (memcmp(p, "SFTR", 4) != 0 || padded > size - HEADER_BYTES ||
        at != size - HEADER_BYTES - padded)
        return RC_OK;
    TRY(view(s, at, padded + HEADER_BYTES, &p, err));
    const uint8_t *footer = p + padded;
    if (checksum(footer, p, (size_t)entries * ENTRY_BYTES) == get_u64(footer + CHECKSUM_AT)) {
        s->end = at;
        s->window.len = 0;
    }
    return RC_OK;
}

/* A dictionary at `at`: *found_out, and where to go on. */
static enum rc scan_dict(struct scan *s, uint64_t at, bool *found_out, uint64_t *next_out,
                         struct err *err)
{
    const uint8_t *p;
    struct slice bytes;
    TRY(view(s, at, HEADER_BYTES, &p, err));
    uint32_t len = get_u32(p + 16), number = get_u32(p + 12);
    uint32_t index_no = s->owned ? s->index_no : get_u32(p + 8);
    *found_out = false;
    if (memcmp(p, "SDIC", 4) != 0 || len > DICT_MAX || len > s->end - at - HEADER_BYTES)
        return RC_OK;
    TRY(view(s, at, HEADER_BYTES + (size_t)len, &p, err));
    struct slice record = {p, HEADER_BYTES + (size_t)len};
    if (segment_check_dict(record, index_no, number, &bytes, NULL) != RC_OK)
        return RC_OK;
    damage_end(s, at);
    *found_out = true;
    *next_out = at + align_up(record.len, BLOCK_ALIGN);
    return s->fn->dict == NULL ? RC_OK : s->fn->dict(number, at, bytes, s->fn->arg);
}

/* The record at `at`, if one verifies there; else step over 64 bytes. */
static enum rc scan_record(struct scan *s, uint64_t at, uint64_t *next_out, struct err *err)
{
    const uint8_t *p;
    struct block_header head;
    struct err why = {0};
    bool dict = false;
    *next_out = at + BLOCK_ALIGN;
    TRY(scan_dict(s, at, &dict, next_out, err));
    if (dict)
        return RC_OK;
    TRY(view(s, at, BLOCK_HEADER_BYTES, &p, err));
    if (block_header_read(slice_of(p, BLOCK_HEADER_BYTES), &head, &why) != RC_OK) {
        damage_begin(s, at, why.msg);
        return RC_OK;
    }
    if (head.record_len > s->end - at) {
        damage_begin(s, at, "a block that ends behind the end of the file");
        return RC_OK;
    }
    TRY(view(s, at, head.record_len, &p, err));
    struct slice record = {p, head.record_len};
    uint32_t index_no = s->owned ? s->index_no : head.index_no;
    if (block_check(record, index_no, head.first_seq, &head, &why) != RC_OK) {
        damage_begin(s, at, why.msg);
        return RC_OK;
    }
    damage_end(s, at);
    *next_out = at + head.record_len;
    return s->fn->block == NULL ? RC_OK : s->fn->block(&head, at, record, s->fn->arg);
}

enum rc segment_scan(const char *path, const struct segment_scan_fn *fn, struct err *err)
{
    struct scan s = {.file.fd = -1, .fn = fn};
    uint64_t size = 0, at = 0;
    enum rc rc;
    TRY_OUT(io_open(path, IO_READ, &s.file, err));
    TRY_OUT(io_size(&s.file, &size, err));
    s.end = size;
    TRY_OUT(find_footer(&s, err));
    TRY_OUT(scan_header(&s, &at, err));
    while (at < s.end && s.end - at >= BLOCK_HEADER_BYTES)
        TRY_OUT(scan_record(&s, at, &at, err));
    if (at < s.end)
        damage_begin(&s, at, "ends early");
    damage_end(&s, s.end);
    rc = RC_OK;
out:
    io_close(&s.file);
    buf_done(&s.window);
    return rc;
}

enum rc segment_measure(const char *path, uint64_t *file_bytes_out, uint64_t *content_bytes_out,
                        struct err *err)
{
    struct io_file file = {.fd = -1};
    uint8_t raw[HEADER_BYTES];
    uint64_t size = 0, from = 0, to;
    enum rc rc;
    TRY_OUT(io_open(path, IO_READ, &file, err));
    TRY_OUT(io_size(&file, &size, err));
    to = size;
    if (size >= HEADER_BYTES) {
        TRY_OUT(io_read(&file, 0, raw, sizeof raw, err));
        from = align_up(HEADER_BYTES + (size_t)get_u32(raw + 40), BLOCK_ALIGN);
        TRY_OUT(io_read(&file, size - HEADER_BYTES, raw, sizeof raw, err));
        if (memcmp(raw, "SFTR", 4) == 0 && get_u64(raw + 16) < size)
            to = get_u64(raw + 16);
    }
    *file_bytes_out = size;
    *content_bytes_out = to > from ? to - from : 0;
    rc = RC_OK;
out:
    io_close(&file);
    return rc == RC_NOT_FOUND
               ? err_set(err, RC_CORRUPT, ENOENT, "segment %s: missing; run stowctl rebuild", path)
               : rc;
}
