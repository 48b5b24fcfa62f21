/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a backup as text. */
#include "storage/manifest.h"

#include "config/limits.h"
#include "storage/io.h"

#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

#define VERSION   1
#define BYTES_MAX (1 * GIB)
#define HASH_LEN  16
/* Files that manifest_find looks at one by one before it sorts. */
#define UNSORTED_MAX 256

void manifest_done(struct manifest *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->file[i].path);
        free(m->file[i].stored);
    }
    free(m->file);
    free(m->release);
    buf_done(&m->indices);
    buf_done(&m->damage);
    *m = (struct manifest){0};
}

bool manifest_path_ok(struct slice path)
{
    if (path.len == 0 || path.len > 200)
        return false;
    for (size_t i = 0; i < path.len; i++) {
        uint8_t c = path.ptr[i];
        bool first = i == 0 || path.ptr[i - 1] == '/';
        bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
        if (!word && (first || (c != '.' && c != '/'))) /* so no part is empty, "." or ".." */
            return false;
    }
    return path.ptr[path.len - 1] != '/';
}

static enum rc add(struct manifest *m, struct slice path, struct slice stored, uint64_t len,
                   uint64_t hash)
{
    if (m->count == m->cap) {
        size_t cap = m->cap == 0 ? 64 : m->cap * 2;
        struct manifest_file *list = realloc(m->file, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        m->file = list;
        m->cap = cap;
    }
    char *a = strndup((const char *)path.ptr, path.len);
    char *b = strndup((const char *)stored.ptr, stored.len);
    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return RC_NOMEM;
    }
    m->file[m->count++] = (struct manifest_file){a, b, len, hash, false};
    return RC_OK;
}

enum rc manifest_add(struct manifest *m, const char *path, const char *stored, uint64_t len,
                     uint64_t hash)
{
    assert(manifest_path_ok(slice_str(path)) && manifest_path_ok(slice_str(stored)));
    return add(m, slice_str(path), slice_str(stored), len, hash);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct manifest_file *)a)->path, ((const struct manifest_file *)b)->path);
}

struct manifest_file *manifest_find(struct manifest *m, const char *path)
{
    struct manifest_file key = {.path = (char *)(uintptr_t)path}, *found;
    if (m->count - m->sorted > UNSORTED_MAX) {
        qsort(m->file, m->count, sizeof *m->file, by_path);
        m->sorted = m->count;
    }
    if (m->sorted != 0) {
        found = bsearch(&key, m->file, m->sorted, sizeof *m->file, by_path);
        if (found != NULL)
            return found;
    }
    for (size_t i = m->sorted; i < m->count; i++)
        if (strcmp(m->file[i].path, path) == 0)
            return &m->file[i];
    return NULL;
}

void manifest_drop(struct manifest *m, struct manifest_file *file)
{
    size_t at = (size_t)(file - m->file);
    free(file->path);
    free(file->stored);
    memmove(file, file + 1, (m->count - at - 1) * sizeof *file);
    m->count--;
    m->sorted -= at < m->sorted;
}

/* ---- writing */

static void put_lines(struct buf *out, const char *word, const struct buf *lines)
{
    for (size_t at = 0; at < lines->len;) {
        const uint8_t *end = memchr(lines->ptr + at, '\n', lines->len - at);
        size_t len = end == NULL ? lines->len - at : (size_t)(end - lines->ptr) - at;
        buf_printf(out, "%s ", word);
        buf_put(out, lines->ptr + at, len);
        buf_put_byte(out, '\n');
        at += len + 1;
    }
}

void manifest_print(const struct manifest *m, struct buf *out)
{
    char text[32];
    time_t when = (time_t)m->time_s;
    struct tm tm;
    size_t from = out->len;
    gmtime_r(&when, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_printf(out, "stowd-backup %d\nrelease %s\nnode ", VERSION,
               m->release == NULL ? "-" : m->release);
    for (size_t i = 0; i < sizeof m->node; i++)
        buf_printf(out, "%02x", m->node[i]);
    buf_printf(out, "\nnumber %u\ntime %llu %s\n", m->number, (unsigned long long)m->time_s, text);
    put_lines(out, "index", &m->indices);
    for (size_t i = 0; i < m->count; i++)
        buf_printf(out, "file %016llx %llu %s %s\n", (unsigned long long)m->file[i].hash,
                   (unsigned long long)m->file[i].len, m->file[i].path, m->file[i].stored);
    put_lines(out, "damage", &m->damage);
    if (!out->failed)
        buf_printf(out, "end %016llx\n",
                   (unsigned long long)XXH3_64bits(out->ptr + from, out->len - from));
}

/* ---- reading */

static bool take_word(struct slice *line, struct slice *out)
{
    const uint8_t *blank = memchr(line->ptr, ' ', line->len);
    size_t len = blank == NULL ? line->len : (size_t)(blank - line->ptr);
    *out = slice_of(line->ptr, len);
    *line = slice_of(line->ptr + len + (blank != NULL), line->len - len - (blank != NULL));
    return len != 0;
}

static bool take_decimal(struct slice *line, uint64_t *out)
{
    struct slice word;
    uint64_t n = 0;
    if (!take_word(line, &word) || word.len > 19)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] < '0' || word.ptr[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(word.ptr[i] - '0');
    }
    *out = n;
    return true;
}

static bool hex(struct slice word, uint8_t *out, size_t n)
{
    if (word.len != 2 * n)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        uint8_t c = word.ptr[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f'))
            return false;
        uint8_t v = (uint8_t)(digit ? c - '0' : c - 'a' + 10);
        out[i / 2] = (uint8_t)(i % 2 == 0 ? v << 4 : out[i / 2] | v);
    }
    return true;
}

static bool take_hash(struct slice *line, uint64_t *out)
{
    struct slice word;
    uint8_t raw[8];
    if (!take_word(line, &word) || !hex(word, raw, sizeof raw))
        return false;
    *out = 0;
    for (size_t i = 0; i < sizeof raw; i++)
        *out = *out << 8 | raw[i];
    return true;
}

static void keep_line(struct buf *lines, struct slice line)
{
    buf_put_slice(lines, line);
    buf_put_byte(lines, '\n');
}

/* A line but the first and the last. RC_CORRUPT: not understood. */
static enum rc take_line(struct manifest *m, struct slice line)
{
    struct slice word, path, stored;
    uint64_t len = 0, hash = 0;
    bool ok = take_word(&line, &word);
    if (ok && slice_is(word, "file")) {
        if (!take_hash(&line, &hash) || !take_decimal(&line, &len) || !take_word(&line, &path) ||
            !take_word(&line, &stored) || line.len != 0 || !manifest_path_ok(path) ||
            !manifest_path_ok(stored))
            return RC_CORRUPT;
        return add(m, path, stored, len, hash);
    }
    if (ok && slice_is(word, "index")) {
        keep_line(&m->indices, line);
        ok = take_word(&line, &path) && manifest_path_ok(path) &&
             memchr(path.ptr, '/', path.len) == NULL;
    } else if (ok && slice_is(word, "damage")) {
        keep_line(&m->damage, line);
    } else if (ok && slice_is(word, "release") && m->release == NULL) {
        m->release = strndup((const char *)line.ptr, line.len);
    } else if (ok && slice_is(word, "node")) {
        ok = hex(line, m->node, sizeof m->node);
    } else if (ok && slice_is(word, "number")) {
        ok = take_decimal(&line, &len) && len <= UINT32_MAX;
        m->number = (uint32_t)len;
    } else if (ok && slice_is(word, "time")) {
        ok = take_decimal(&line, &m->time_s);
    } else {
        return RC_CORRUPT;
    }
    return ok ? RC_OK : RC_CORRUPT;
}

/* M2. The text without the last line. */
static bool check_end(struct slice *text)
{
    const size_t len = 4 + HASH_LEN + 1;
    uint64_t hash;
    if (text->len < len || memcmp(text->ptr + text->len - len, "end ", 4) != 0 ||
        text->ptr[text->len - 1] != '\n')
        return false;
    struct slice last = {text->ptr + text->len - len + 4, HASH_LEN};
    text->len -= len;
    return take_hash(&last, &hash) && hash == XXH3_64bits(text->ptr, text->len);
}

enum rc manifest_parse(struct slice text, const char *where, struct manifest *out, struct err *err)
{
    struct manifest m = {0};
    uint64_t version = 0;
    size_t line_no = 0;
    enum rc rc = RC_OK;
    if (!check_end(&text))
        return err_set(err, RC_CORRUPT, 0, "%.200s: damaged or cut", where);
    while (text.len != 0 && rc == RC_OK) {
        const uint8_t *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        struct slice line = {text.ptr, len}, word;
        text = slice_of(text.ptr + len + (end != NULL), text.len - len - (end != NULL));
        if (++line_no > 1)
            rc = take_line(&m, line);
        else if (!take_word(&line, &word) || !slice_is(word, "stowd-backup") ||
                 !take_decimal(&line, &version))
            rc = RC_CORRUPT;
        else if (version != VERSION)
            rc = RC_UNSUPPORTED;
    }
    if (rc == RC_OK && (m.indices.failed || m.damage.failed))
        rc = RC_NOMEM;
    if (rc == RC_OK) {
        *out = m;
        return RC_OK;
    }
    manifest_done(&m);
    return rc == RC_NOMEM ? err_set(err, rc, 0, "out of memory for %.200s", where)
           : rc == RC_UNSUPPORTED
               ? err_set(err, rc, 0, "%.180s: version %llu is unknown to this release", where,
                         (unsigned long long)version)
               : err_set(err, rc, 0, "%.200s: line %zu is not understood", where, line_no);
}

/* ---- files */

enum rc manifest_load(const char *dir, const char *name, struct manifest *out, struct err *err)
{
    char path[512];
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    TRY(io_slurp(path, BYTES_MAX, &data, &len, err));
    enum rc rc = manifest_parse(slice_of(data, len), path, out, err);
    free(data);
    return rc;
}

enum rc manifest_save(const char *dir, const char *name, const struct manifest *m, struct err *err)
{
    char path[512];
    struct buf text = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    manifest_print(m, &text);
    enum rc rc = text.failed ? err_set(err, RC_NOMEM, 0, "out of memory for %.200s", path)
                             : io_replace(path, buf_slice(&text), err);
    buf_done(&text);
    return rc;
}
