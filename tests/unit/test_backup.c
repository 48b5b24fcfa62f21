/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of backups and of the scrub that stand alone: the manifest, copying a log that moves on,
 * reading past the page cache, whose turn it is. */
#include "config/limits.h"
#include "storage/copier.h"
#include "storage/manifest.h"
#include "storage/scrub.h"
#include "storage/wal.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

static char dir[64], from_dir[80], to_dir[80];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/test_backup.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(from_dir, sizeof from_dir, "%s/from", dir);
    snprintf(to_dir, sizeof to_dir, "%s/to", dir);
    return mkdir(to_dir, 0700);
}

static int teardown(void **state)
{
    (void)state;
    (void)!io_remove_dir(from_dir, NULL);
    (void)!io_remove_dir(to_dir, NULL);
    return io_remove_dir(dir, NULL) == RC_OK ? 0 : -1;
}

/* ---- the manifest */

static void fill(struct manifest *m)
{
    memset(m, 0, sizeof *m);
    memset(m->node, 0x5a, sizeof m->node);
    m->number = 7;
    m->time_s = 1800000000;
    m->release = strdup("1.2.3");
    buf_put_str(&m->indices, "0a logs one\n0b ünï\n");
    buf_put_str(&m->damage, "index [x]: somewhere\n");
    for (unsigned i = 0; i < 1000; i++) {
        char path[64], stored[64];
        snprintf(path, sizeof path, "indices/0a/%08x.seg", i * 7919 % 1000);
        snprintf(stored, sizeof stored, "indices/0a/%08x-7-1.seg", i * 7919 % 1000);
        assert_int_equal(manifest_add(m, path, stored, i * 7919 % 1000, UINT64_MAX - i), RC_OK);
    }
}

static void round_trip(void **state)
{
    struct manifest m, again;
    struct buf a = {0}, b = {0};
    struct err err = {0};
    (void)state;
    fill(&m);
    manifest_print(&m, &a);
    assert_int_equal(manifest_parse(buf_slice(&a), "it", &again, &err), RC_OK);
    manifest_print(&again, &b);
    assert_true(slice_eq(buf_slice(&a), buf_slice(&b)));
    assert_int_equal(again.number, 7);
    assert_int_equal(again.count, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        char path[64];
        snprintf(path, sizeof path, "indices/0a/%08x.seg", i);
        struct manifest_file *f = manifest_find(&again, path);
        assert_non_null(f);
        assert_int_equal(f->len, i);
        if (i % 3 == 0) {
            manifest_drop(&again, f);
            assert_null(manifest_find(&again, path));
            assert_int_equal(manifest_add(&again, path, "x", 1, 1), RC_OK);
            assert_int_equal(manifest_find(&again, path)->len, 1);
        }
    }
    assert_null(manifest_find(&again, "indices/0a"));
    manifest_done(&m);
    manifest_done(&again);
    buf_done(&a);
    buf_done(&b);
}

static void damaged_text(void **state)
{
    struct manifest m, out;
    struct buf text = {0};
    (void)state;
    fill(&m);
    while (m.count > 3)
        manifest_drop(&m, &m.file[m.count - 1]);
    manifest_print(&m, &text);
    for (size_t i = 0; i < text.len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct err err = {0};
            text.ptr[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(manifest_parse(buf_slice(&text), "it", &out, &err), RC_CORRUPT);
            assert_non_null(strstr(err.msg, "it"));
            text.ptr[i] ^= (uint8_t)(1 << bit);
        }
        struct err err = {0};
        assert_int_equal(manifest_parse(slice_of(text.ptr, i), "it", &out, &err), RC_CORRUPT);
    }
    manifest_done(&m);
    buf_done(&text);
}

/* Texts whose checksum holds. */
static void strange_text(void **state)
{
    static const struct {
        const char *text;
        enum rc rc;
    } rows[] = {
        {"stowd-backup 1\n", RC_OK},
        {"stowd-backup 2\nnew words\n", RC_UNSUPPORTED},
        {"stowd-backup\n", RC_CORRUPT},
        {"other 1\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcdef 5 a b\n", RC_OK},
        {"stowd-backup 1\nfile 0123456789abcdef 5 a\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcdef 5 a b c\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcde 5 a b\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcdef -5 a b\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcdef 5 ../a b\n", RC_CORRUPT},
        {"stowd-backup 1\nfile 0123456789abcdef 5 a /b\n", RC_CORRUPT},
        {"stowd-backup 1\nindex ../x name\n", RC_CORRUPT},
        {"stowd-backup 1\nindex a/b name\n", RC_CORRUPT},
        {"stowd-backup 1\nindex ab name of it\n", RC_OK},
        {"stowd-backup 1\nnode 00\n", RC_CORRUPT},
        {"stowd-backup 1\nnumber 4294967296\n", RC_CORRUPT},
        {"stowd-backup 1\nword\n", RC_CORRUPT},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text = {0};
        struct manifest out = {0};
        struct err err = {0};
        buf_put_str(&text, rows[i].text);
        buf_printf(&text, "end %016llx\n", (unsigned long long)XXH3_64bits(text.ptr, text.len));
        enum rc rc = manifest_parse(buf_slice(&text), "it", &out, &err);
        if (rc != rows[i].rc)
            fail_msg("%s: %d %s", rows[i].text, (int)rc, err.msg);
        manifest_done(&out);
        buf_done(&text);
    }
}

static void paths(void **state)
{
    static const struct {
        const char *path;
        bool ok;
    } rows[] = {
        {"a", true},
        {"indices/0f/00000001.seg", true},
        {"3/catalog/data.mdb", true},
        {"", false},
        {"/a", false},
        {"a/", false},
        {"a//b", false},
        {".", false},
        {"..", false},
        {"a/..", false},
        {"a/../b", false},
        {"./a", false},
        {"a/.b", false},
        {"a b", false},
        {"A", false},
        {"a\\b", false},
        {"a..b", true},
        {"a\nb", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (manifest_path_ok(slice_str(rows[i].path)) != rows[i].ok)
            fail_msg("%s", rows[i].path);
}

/* ---- copying the log */

struct put {
    struct wal_commit commit; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
};

static void on_done(struct wal_commit *commit, enum rc rc)
{
    struct put *put = (struct put *)commit;
    assert_int_equal(rc, RC_OK);
    pthread_mutex_lock(&put->mutex);
    put->done = true;
    pthread_cond_signal(&put->changed);
    pthread_mutex_unlock(&put->mutex);
}

static void on_failed(void *arg, const struct err *err)
{
    (void)arg;
    fail_msg("%s", err->msg);
}

/* One batch with a record of len bytes that tells its number. */
static void write_batch(struct wal *wal, uint32_t number, size_t len)
{
    uint8_t *body = calloc(1, len);
    assert_non_null(body);
    memset(body, (int)(number % 251), len);
    struct wal_record record = {number, WAL_ROWS, 0, (uint32_t)len, slice_of(body, len)};
    struct put put = {.commit = {&record, 1, on_done, NULL}};
    pthread_mutex_init(&put.mutex, NULL);
    pthread_cond_init(&put.changed, NULL);
    assert_int_equal(wal_reserve(wal, len), RC_OK);
    wal_submit(wal, &put.commit);
    pthread_mutex_lock(&put.mutex);
    while (!put.done)
        pthread_cond_wait(&put.changed, &put.mutex);
    pthread_mutex_unlock(&put.mutex);
    wal_unreserve(wal, len);
    free(body);
}

static struct wal *open_wal(struct wal_start *start)
{
    struct wal *wal = NULL;
    *start = (struct wal_start){.run = 3, .batch = 1, .position = 5 * 64 * KIB + 8192};
    wal_geometry(8 * 64 * KIB, start);
    assert_int_equal(wal_open(&(struct wal_options){from_dir, on_failed, NULL}, start, &wal, NULL),
                     RC_OK);
    return wal;
}

struct seen {
    uint32_t first, count;
};

static enum rc see(const struct wal_record *record, uint64_t at, void *arg, struct err *err)
{
    struct seen *seen = arg;
    (void)at;
    (void)err;
    assert_int_equal(record->index_no, seen->first + seen->count);
    for (size_t i = 0; i < record->body.len; i++)
        assert_int_equal(record->body.ptr[i], record->index_no % 251);
    seen->count++;
    return RC_OK;
}

static void copy_replays(const struct wal_start *start, uint32_t first, uint32_t count,
                         const struct wal_start *end)
{
    struct wal_start replayed;
    struct seen seen = {first, 0};
    struct err err = {0};
    enum rc rc = wal_replay(to_dir, start, false, see, &seen, &replayed, &err);
    if (rc != RC_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(seen.count, count);
    assert_int_equal(replayed.batch, end->batch);
    assert_int_equal(replayed.position, end->position);
}

static void empty_to(void)
{
    assert_int_equal(io_remove_dir(to_dir, NULL), RC_OK);
    assert_int_equal(mkdir(to_dir, 0700), 0);
}

/* While the log is open, over the borders of files and around the ring. */
static void copies_a_live_log(void **state)
{
    struct wal_start start, end;
    (void)state;
    struct wal *wal = open_wal(&start);
    assert_int_equal(wal_copy(from_dir, &start, to_dir, &end, NULL), RC_OK);
    assert_int_equal(end.batch, start.batch);
    uint32_t number = 0, first = 0;
    for (int lap = 0; lap < 5; lap++) {
        for (int i = 0; i < 11; i++)
            write_batch(wal, number++, (size_t)(1 + i * 3001));
        struct err err = {0};
        empty_to();
        if (wal_copy(from_dir, &start, to_dir, &end, &err) != RC_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(end.position, wal_head(wal));
        copy_replays(&start, first, number - first, &end);
        start = wal_start_at(wal, wal_head(wal)); /* as after a checkpoint */
        wal_release(wal, start.position);
        first = number;
    }
    wal_close(wal);
}

/* The ring has moved on: never more than what is right, and the end tells (V2 of backup.h). */
static void a_log_that_was_written_over(void **state)
{
    struct wal_start start, end = {0};
    (void)state;
    struct wal *wal = open_wal(&start);
    struct wal_start old = start;
    uint32_t number = 0;
    for (int i = 0; i < 60; i++) {
        write_batch(wal, number++, 20000);
        wal_release(wal, wal_head(wal));
        struct err err = {0};
        empty_to();
        enum rc rc = wal_copy(from_dir, &old, to_dir, &end, &err);
        uint64_t now = wal_head(wal);
        if (now > old.position + 8 * 64 * KIB) /* a lap */
            assert_true(rc == RC_BUSY || rc == RC_CORRUPT || (rc == RC_OK && end.position < now));
        else if (rc == RC_OK)
            copy_replays(&old, 0, number, &end);
    }
    wal_close(wal);
}

static void damage_is_no_end(void **state)
{
    struct wal_start start, end = {0};
    char path[128];
    (void)state;
    struct wal *wal = open_wal(&start);
    for (uint32_t i = 0; i < 5; i++)
        write_batch(wal, i, 5000);
    wal_close(wal);
    snprintf(path, sizeof path, "%s/5.wal", from_dir);
    FILE *f = fopen(path, "r+be");
    assert_non_null(f);
    fseek(f, 8192 + 2 * 8192 + 100, SEEK_SET); /* in the third */
    fputc(0x55, f);
    fclose(f);
    struct err err = {0};
    assert_int_equal(wal_copy(from_dir, &start, to_dir, &end, &err), RC_CORRUPT);
    assert_non_null(strstr(err.msg, "damaged"));
}

/* ---- files */

static void reads_past_the_cache(void **state)
{
    struct io_file file = {.fd = -1};
    struct io_aligned space = {0};
    char path[80];
    static uint8_t data[30001];
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + i / 256);
    snprintf(path, sizeof path, "%s/f", dir);
    assert_int_equal(io_open(path, IO_CREATE, &file, NULL), RC_OK);
    assert_int_equal(io_write(&file, 0, data, sizeof data, NULL), RC_OK);
    io_close(&file);
    assert_int_equal(io_open(path, IO_READ, &file, NULL), RC_OK);
    io_bypass_cache(&file);
    static const struct {
        uint64_t at;
        size_t len;
    } rows[] = {{0, 1}, {0, 4096}, {4095, 2}, {64, 20000}, {30000, 1}, {12288, 17713}, {1, 30000}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const uint8_t *p = NULL;
        assert_int_equal(io_read_disk(&file, rows[i].at, rows[i].len, &space, &p, NULL), RC_OK);
        assert_memory_equal(p, data + rows[i].at, rows[i].len);
    }
    const uint8_t *p;
    struct err err = {0};
    assert_int_equal(io_read_disk(&file, 30000, 2, &space, &p, &err), RC_CORRUPT);
    io_aligned_done(&space);
    io_close(&file);
}

static void copies_and_hashes(void **state)
{
    struct copier c;
    struct io_file from = {.fd = -1};
    char path[80], to[80];
    uint64_t hash = 0, again = 0;
    struct err err = {0};
    size_t len = 3 * COPIER_PIECE + 17;
    uint8_t *data = malloc(len);
    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + i / 4096);
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(to, sizeof to, "%s/g", dir);
    assert_int_equal(io_open(path, IO_CREATE, &from, NULL), RC_OK);
    assert_int_equal(io_write(&from, 0, data, len, NULL), RC_OK);
    assert_int_equal(copier_init(&c, 0, NULL), RC_OK);
    assert_int_equal(copier_copy(&c, &from, len - 5, to, &hash, NULL), RC_OK);
    assert_int_equal(hash, XXH3_64bits(data, len - 5));
    assert_int_equal(copier_hash(&c, &from, len - 5, &again, NULL), RC_OK);
    assert_int_equal(hash, again);
    assert_int_equal(copier_copy(&c, &from, len, to, &hash, &err), RC_EXISTS);
    assert_int_equal(unlink(to), 0);
    err = (struct err){0};
    assert_int_equal(copier_copy(&c, &from, len + 1, to, &hash, &err), RC_CORRUPT);
    assert_int_equal(access(to, F_OK), -1); /* what failed is not left behind */
    copier_done(&c);
    io_close(&from);
    free(data);
}

/* Memory that is not mapped reads as a disk that fails: EIO. */
static void copies_what_can_be_read(void **state)
{
    enum { BEFORE = 256 * 4096, LEN = BEFORE + 3 * 4096 + 100 };
    struct copier c;
    struct io_file from = {.fd = -1}, to = {.fd = -1};
    char path[80];
    uint64_t hash = 0, again = 0;
    struct err err = {0};
    static uint8_t read[LEN];
    (void)state;
    /* Two pages of 4 KiB, the second ends the file's piece that begins in front of them. */
    uint8_t *page = mmap((void *)(uintptr_t)BEFORE, 8192, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(page, (void *)(uintptr_t)BEFORE);
    memset(page, 0x5a, 8192);
    snprintf(path, sizeof path, "%s/g", dir);
    assert_int_equal(io_open("/proc/self/mem", IO_READ, &from, NULL), RC_OK);
    assert_int_equal(copier_init(&c, 0, NULL), RC_OK);
    assert_int_equal(copier_copy(&c, &from, LEN, path, &hash, &err), RC_IO);
    assert_int_equal(err.os_errno, EIO);
    c.zero_unreadable = true;
    err = (struct err){0};
    assert_int_equal(copier_copy(&c, &from, LEN, path, &hash, &err), RC_OK);
    assert_int_equal(c.unreadable, LEN - 8192);
    assert_int_equal(io_open(path, IO_READ, &to, NULL), RC_OK);
    assert_int_equal(io_read(&to, 0, read, LEN, NULL), RC_OK);
    for (size_t i = 0; i < LEN; i++)
        assert_int_equal(read[i], i >= BEFORE && i < BEFORE + 8192 ? 0x5a : 0);
    assert_int_equal(copier_hash(&c, &to, LEN, &again, NULL), RC_OK);
    assert_int_equal(hash, again);
    io_close(&to);
    io_close(&from);
    copier_done(&c);
    munmap(page, 8192);
    unlink(path);
}

/* ---- the scrub */

static void turns(void **state)
{
    static const uint32_t numbers[] = {2, 5, 9, 12};
    static const bool all[] = {true, true, true, true}, some[] = {false, true, false, true},
                      none[] = {false, false, false, false};
    (void)state;
    assert_int_equal(scrub_next(numbers, all, 4, 0), 0);
    assert_int_equal(scrub_next(numbers, all, 4, 2), 1);
    assert_int_equal(scrub_next(numbers, all, 4, 3), 1);
    assert_int_equal(scrub_next(numbers, all, 4, 12), 0);
    assert_int_equal(scrub_next(numbers, some, 4, 0), 1);
    assert_int_equal(scrub_next(numbers, some, 4, 5), 3);
    assert_int_equal(scrub_next(numbers, some, 4, 12), 1);
    assert_int_equal(scrub_next(numbers, none, 4, 5), SIZE_MAX);
    assert_int_equal(scrub_next(numbers, all, 0, 5), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damaged_text),
        cmocka_unit_test(strange_text),
        cmocka_unit_test(paths),
        cmocka_unit_test_setup_teardown(copies_a_live_log, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_that_was_written_over, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_past_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_and_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_what_can_be_read, setup, teardown),
        cmocka_unit_test(turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
