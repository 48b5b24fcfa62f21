/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: what is appended is read and scanned back; damage anywhere costs what it hits, is told,
 * and nothing else; open files stay bounded and reads survive eviction. */
#include "storage/segment.h"

#include "storage/bytes.h"
#include "storage/io.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define UUID     "0123456789abcdef0123456789abcdef"
#define INDEX_NO 5u
#define BLOCKS   6

static char root[] = "/tmp/stowd-test-segment-XXXXXX";
static char dir[128];

static const struct segment_owner owner = {
    .index_no = INDEX_NO,
    .uuid = {1, 2, 3},
    .created_ms = 1700000000000,
    .describe = {(const uint8_t *)"{\"name\":\"logs\"}", 15},
};

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(root) == NULL)
        return -1;
    snprintf(dir, sizeof dir, "%s/%s", root, UUID);
    return io_mkdir(dir, NULL) == RC_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return io_remove_dir(dir, NULL) == RC_OK && rmdir(root) == 0 ? 0 : -1;
}

/* A block of two rows, first seq 10 * i. */
static void pack(size_t i, struct buf *out, struct segment_entry *entry)
{
    static const struct codec_spec spec = {.codec = CODEC_ZSTD, .level = 3, .block_bytes = 65536};
    char text[2][200];
    struct row rows[2];
    for (size_t j = 0; j < 2; j++) {
        int n = snprintf(text[j], sizeof text[j], "{\"n\":%zu,\"text\":\"%0*zu\"}", 10 * i + j,
                         20 + 15 * (int)i, i);
        rows[j] = (struct row){.seq = 10 * i + j,
                               .version = 1,
                               .nonce = 1,
                               .term = 1,
                               .doc = slice_of(text[j], (size_t)n)};
    }
    assert_int_equal(block_pack(INDEX_NO, &spec, NULL, rows, 2, out, NULL), RC_OK);
    *entry = (struct segment_entry){.first_seq = rows[0].seq, .last_seq = rows[1].seq, .rows = 2};
}

static void append(struct segment_writer *w, size_t i, struct segment_entry *entry)
{
    struct buf record = {0};
    pack(i, &record, entry);
    entry->len = (uint32_t)record.len;
    assert_int_equal(segment_append(w, buf_slice(&record), entry, &entry->at, NULL), RC_OK);
    buf_done(&record);
}

/* Segment `number` with BLOCKS blocks; where they lie. */
static void make_segment(uint32_t number, bool seal, struct segment_entry entries[BLOCKS])
{
    struct segment_writer *w = NULL;
    assert_int_equal(segment_create(dir, number, &owner, &w, NULL), RC_OK);
    assert_int_equal(segment_number(w), number);
    for (size_t i = 0; i < BLOCKS; i++)
        append(w, i, &entries[i]);
    if (seal)
        assert_int_equal(segment_seal(w, NULL), RC_OK);
    assert_int_equal(segment_sync(w, NULL), RC_OK);
    segment_writer_close(w);
}

struct seen {
    unsigned owners, blocks, damages, dicts;
    bool block[BLOCKS];
    uint64_t damage_at, damage_len;
    char why[256];
    enum rc stop;
};

static enum rc see_owner(const struct segment_owner *got, uint32_t number, void *arg)
{
    (void)number;
    struct seen *seen = arg;
    assert_int_equal(got->index_no, owner.index_no);
    assert_memory_equal(got->uuid, owner.uuid, 16);
    assert_int_equal(got->created_ms, owner.created_ms);
    assert_true(slice_eq(got->describe, owner.describe));
    seen->owners++;
    return RC_OK;
}

static enum rc see_block(const struct block_header *head, uint64_t at, struct slice record,
                         void *arg)
{
    struct seen *seen = arg;
    assert_int_equal(at % BLOCK_ALIGN, 0);
    assert_int_equal(record.len, head->record_len);
    assert_true(head->first_seq / 10 < BLOCKS);
    seen->block[head->first_seq / 10] = true;
    seen->blocks++;
    return seen->stop;
}

static enum rc see_dict(uint32_t number, uint64_t at, struct slice bytes, void *arg)
{
    struct seen *seen = arg;
    assert_int_equal(at % BLOCK_ALIGN, 0);
    assert_int_equal(number, 5);
    assert_int_equal(bytes.len, 100);
    seen->dicts++;
    return RC_OK;
}

static void see_damage(uint64_t at, uint64_t len, const char *why, void *arg)
{
    struct seen *seen = arg;
    seen->damages++;
    seen->damage_at = at;
    seen->damage_len = len;
    snprintf(seen->why, sizeof seen->why, "%s", why);
}

static enum rc scan(uint32_t number, struct seen *seen)
{
    char path[300];
    const struct segment_scan_fn fn = {see_owner, see_block, see_damage, seen, see_dict};
    segment_path(path, sizeof path, dir, number);
    return segment_scan(path, &fn, NULL);
}

static void test_names(void **state)
{
    (void)state;
    char path[64];
    uint32_t number = 0;
    segment_path(path, sizeof path, "/d", 0xabc);
    assert_string_equal(path, "/d/00000abc.seg");
    assert_true(segment_parse_name("00000abc.seg", &number));
    assert_int_equal(number, 0xabc);
    assert_true(segment_parse_name("ffffffff.seg", &number));
    static const char *bad[] = {"",
                                "abc.seg",
                                "00000ABC.seg",
                                "00000abc.segx",
                                "00000abx.seg",
                                "00000abc.tmp",
                                "000000abc.seg"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(segment_parse_name(bad[i], &number));
}

static void test_write_and_scan(void **state)
{
    (void)state;
    for (uint32_t sealed = 0; sealed < 2; sealed++) {
        struct segment_entry entries[BLOCKS];
        struct seen seen = {0};
        make_segment(sealed, sealed, entries);
        assert_int_equal(scan(sealed, &seen), RC_OK);
        assert_int_equal(seen.owners, 1);
        assert_int_equal(seen.blocks, BLOCKS);
        assert_int_equal(seen.damages, 0);
        struct seen stopped = {.stop = RC_BUSY};
        assert_int_equal(scan(sealed, &stopped), RC_BUSY);
        assert_int_equal(stopped.blocks, 1);
    }
    struct segment_writer *w = NULL;
    struct err err = {0};
    assert_int_equal(segment_create(dir, 0, &owner, &w, &err), RC_EXISTS);
    struct seen seen = {0};
    assert_int_equal(scan(99, &seen), RC_NOT_FOUND);
}

/* A dictionary between blocks: found again, verified, and lost alone when it is hit. */
static void test_dictionary(void **state)
{
    struct segment_writer *w = NULL;
    struct segment_entry entry;
    struct seen seen = {0};
    uint8_t bytes[100], record[192];
    char path[300];
    uint64_t at = 0;
    uint32_t len = 0;
    struct slice found;
    (void)state;
    memset(bytes, 'd', sizeof bytes);
    assert_int_equal(segment_create(dir, 88, &owner, &w, NULL), RC_OK);
    append(w, 0, &entry);
    assert_false(segment_has_dict(w, 5));
    assert_int_equal(
        segment_append_dict(w, INDEX_NO, 5, slice_of(bytes, sizeof bytes), &at, &len, NULL), RC_OK);
    assert_true(segment_has_dict(w, 5));
    assert_false(segment_has_dict(w, 6));
    append(w, 1, &entry);
    segment_writer_close(w);
    assert_int_equal(scan(88, &seen), RC_OK);
    assert_int_equal(seen.dicts, 1);
    assert_int_equal(seen.blocks, 2);
    assert_int_equal(seen.damages, 0);

    struct io_file f = {.fd = -1};
    segment_path(path, sizeof path, dir, 88);
    assert_int_equal(len, sizeof record);
    assert_int_equal(io_open(path, IO_WRITE, &f, NULL), RC_OK);
    assert_int_equal(io_read(&f, at, record, len, NULL), RC_OK);
    assert_int_equal(segment_check_dict(slice_of(record, len), INDEX_NO, 5, &found, NULL), RC_OK);
    assert_true(slice_eq(found, slice_of(bytes, sizeof bytes)));
    assert_int_equal(segment_check_dict(slice_of(record, len), INDEX_NO, 6, &found, NULL),
                     RC_CORRUPT);
    record[100] ^= 1;
    assert_int_equal(segment_check_dict(slice_of(record, len), INDEX_NO, 5, &found, NULL),
                     RC_CORRUPT);
    assert_int_equal(io_write(&f, at, record, len, NULL), RC_OK);
    io_close(&f);
    seen = (struct seen){0};
    assert_int_equal(scan(88, &seen), RC_OK);
    assert_int_equal(seen.dicts, 0);
    assert_int_equal(seen.blocks, 2);
    assert_int_equal(seen.damages, 1);
}

static void test_footer_names_every_block(void **state)
{
    (void)state;
    struct segment_entry entries[BLOCKS];
    char path[300];
    uint8_t *data = NULL;
    size_t size = 0;
    make_segment(2, true, entries);
    segment_path(path, sizeof path, dir, 2);
    assert_int_equal(io_slurp(path, 1 << 20, &data, &size, NULL), RC_OK);
    const uint8_t *footer = data + size - 64;
    assert_memory_equal(footer, "SFTR\1", 5);
    assert_int_equal(get_u32(footer + 8), BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        const uint8_t *entry = data + get_u64(footer + 16) + 40 * i;
        assert_int_equal(get_u64(entry), entries[i].first_seq);
        assert_int_equal(get_u64(entry + 8), entries[i].last_seq);
        assert_int_equal(get_u64(entry + 16), entries[i].at);
        assert_int_equal(get_u32(entry + 24), entries[i].len);
        assert_int_equal(get_u32(entry + 28), entries[i].rows);
        assert_memory_equal(entry + 32, data + entries[i].at + 56, 8);
    }
    free(data);
}

/* What an attempt appended is gone, and what was there before is as it was (G1). */
static void test_cut(void **state)
{
    (void)state;
    struct segment_entry entries[BLOCKS];
    for (uint32_t sealed = 0; sealed < 2; sealed++) {
        struct seen seen = {0};
        uint32_t number = 60 + sealed;
        make_segment(number, sealed != 0, entries);
        assert_int_equal(segment_cut(dir, number, entries[4].at, NULL), RC_OK);
        assert_int_equal(scan(number, &seen), RC_OK);
        assert_int_equal(seen.blocks, 4);
        assert_int_equal(seen.damages, 0);
        /* Shorter than that already: nothing to cut. */
        assert_int_equal(segment_cut(dir, number, entries[4].at + 640, NULL), RC_OK);
        seen = (struct seen){0};
        assert_int_equal(scan(number, &seen), RC_OK);
        assert_int_equal(seen.blocks, 4);
    }
    struct err err = {0};
    assert_int_equal(segment_cut(dir, 77, 64, &err), RC_NOT_FOUND);
}

/* Flip each 5th byte in turn: the block that is hit is told as damage, all others are served. */
static void test_damage(void **state)
{
    (void)state;
    struct segment_entry entries[BLOCKS];
    char path[300];
    uint64_t size = 0;
    struct io_file file = {.fd = -1};
    make_segment(3, true, entries);
    segment_path(path, sizeof path, dir, 3);
    assert_int_equal(io_open(path, IO_WRITE, &file, NULL), RC_OK);
    assert_int_equal(io_size(&file, &size, NULL), RC_OK);
    for (uint64_t at = 0; at < size; at += 5) {
        uint8_t byte;
        assert_int_equal(io_read(&file, at, &byte, 1, NULL), RC_OK);
        byte ^= 0x10;
        assert_int_equal(io_write(&file, at, &byte, 1, NULL), RC_OK);
        struct seen seen = {0};
        assert_int_equal(scan(3, &seen), RC_OK);
        for (size_t i = 0; i < BLOCKS; i++) {
            bool hit = at >= entries[i].at && at < entries[i].at + entries[i].len;
            if (!hit)
                assert_true(seen.block[i]);
            else if (!seen.block[i]) {
                assert_int_equal(seen.damages, 1);
                assert_int_equal(seen.damage_at, entries[i].at);
                assert_int_equal(seen.damage_len, entries[i].len);
            }
        }
        if (at < 64 + 15)
            assert_true(seen.owners == 0 && seen.damages == 1);
        byte ^= 0x10;
        assert_int_equal(io_write(&file, at, &byte, 1, NULL), RC_OK);
    }
    /* Cut anywhere: whole blocks before the cut are served. */
    uint64_t cut = entries[BLOCKS - 1].at + 70;
    assert_int_equal(io_truncate(&file, cut, NULL), RC_OK);
    struct seen seen = {0};
    assert_int_equal(scan(3, &seen), RC_OK);
    assert_int_equal(seen.blocks, BLOCKS - 1);
    assert_int_equal(seen.damage_at, entries[BLOCKS - 1].at);
    assert_int_equal(seen.damage_len, 70);
    assert_int_equal(io_truncate(&file, 0, NULL), RC_OK);
    struct seen empty = {0};
    assert_int_equal(scan(3, &empty), RC_OK);
    assert_true(empty.owners == 0 && empty.blocks == 0);
    io_close(&file);
}

static int fail_at;

static enum io_fault fail_write(enum io_op op, const char *path)
{
    (void)path;
    return op == IO_OP_WRITE && --fail_at == 0 ? IO_FAULT_SHORT : IO_FAULT_NONE;
}

/* A failed write leaves the writer where it was. */
static void test_failed_writes(void **state)
{
    (void)state;
    struct segment_writer *w = NULL;
    struct segment_entry entry;
    struct buf record = {0};
    uint64_t at = 0;
    io_fault_hook = fail_write;
    fail_at = 1;
    assert_int_equal(segment_create(dir, 4, &owner, &w, NULL), RC_IO);
    assert_null(w);
    assert_int_equal(segment_create(dir, 4, &owner, &w, NULL), RC_OK);
    pack(0, &record, &entry);
    uint64_t len = segment_len(w);
    fail_at = 1;
    assert_int_equal(segment_append(w, buf_slice(&record), &entry, &at, NULL), RC_IO);
    assert_int_equal(segment_len(w), len);
    assert_int_equal(segment_append(w, buf_slice(&record), &entry, &at, NULL), RC_OK);
    assert_int_equal(at, len);
    fail_at = 1;
    len = segment_len(w);
    assert_int_equal(segment_seal(w, NULL), RC_IO);
    assert_int_equal(segment_len(w), len);
    assert_int_equal(segment_seal(w, NULL), RC_OK);
    io_fault_hook = NULL;
    segment_writer_close(w);
    buf_done(&record);
    struct seen seen = {0};
    assert_int_equal(scan(4, &seen), RC_OK);
    assert_true(seen.blocks == 1 && seen.damages == 0);
}

static int open_files(void)
{
    int count = 0;
    DIR *fds = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(fds)) != NULL;) {
        char link[300], target[300];
        snprintf(link, sizeof link, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            count += strstr(target, root) != NULL;
        }
    }
    closedir(fds);
    return count;
}

#define SEGMENTS     8
#define FIRST_NUMBER 0x10u
static struct segment_entry places[SEGMENTS][BLOCKS];

static enum rc read_one(struct segment_files *files, size_t s, size_t i, bool nowait)
{
    uint8_t *dst = malloc(places[s][i].len);
    struct block_header head;
    enum rc rc = segment_read(files, INDEX_NO, UUID, FIRST_NUMBER + (uint32_t)s, places[s][i].at,
                              dst, places[s][i].len, nowait, NULL);
    if (rc == RC_OK)
        rc = block_check(slice_of(dst, places[s][i].len), INDEX_NO, places[s][i].first_seq, &head,
                         NULL);
    free(dst);
    return rc;
}

static void *read_many(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    for (int n = 0; n < 3000; n++) {
        seed = seed * 1103515245u + 12345;
        if (read_one(((struct segment_files **)arg)[0], seed >> 16 & (SEGMENTS - 1),
                     (seed >> 20) % BLOCKS, false) != RC_OK)
            return "a read failed";
        if (n % 100 == 0)
            segment_files_forget(((struct segment_files **)arg)[0], INDEX_NO,
                                 FIRST_NUMBER + (seed >> 24 & 7));
    }
    return NULL;
}

static void test_files(void **state)
{
    (void)state;
    struct segment_files *files = NULL;
    for (size_t s = 0; s < SEGMENTS; s++)
        make_segment(FIRST_NUMBER + (uint32_t)s, s % 2 == 0, places[s]);
    assert_int_equal(open_files(), 0);
    assert_int_equal(segment_files_create(root, 3, &files, NULL), RC_OK);
    assert_int_equal(read_one(files, 0, 0, true), RC_AGAIN); /* not open: would have to wait */
    for (int round = 0; round < 3; round++)
        for (size_t s = 0; s < SEGMENTS; s++) {
            assert_int_equal(read_one(files, s, (s + (size_t)round) % BLOCKS, false), RC_OK);
            enum rc rc = read_one(files, s, 0, true);
            assert_true(rc == RC_OK || rc == RC_AGAIN);
            assert_true(open_files() <= 3);
        }
    segment_files_forget(files, INDEX_NO, FIRST_NUMBER + SEGMENTS - 1);
    assert_int_equal(open_files(), 2);
    segment_files_forget(files, INDEX_NO + 1, UINT32_MAX);
    assert_int_equal(open_files(), 2);
    segment_files_forget(files, INDEX_NO, UINT32_MAX);
    assert_int_equal(open_files(), 0);

    uint8_t dst[64];
    struct err missing = {0}, early = {0};
    assert_int_equal(segment_read(files, INDEX_NO, UUID, 0xfff, 0, dst, 64, false, &missing),
                     RC_CORRUPT);
    assert_int_equal(missing.os_errno, ENOENT);
    assert_int_equal(
        segment_read(files, INDEX_NO, UUID, FIRST_NUMBER, 1 << 20, dst, 64, false, &early),
        RC_CORRUPT);

    pthread_t threads[3];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &files), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *why = NULL;
        pthread_join(threads[i], &why);
        assert_null(why);
    }
    assert_true(open_files() <= 3);
    segment_files_destroy(files);
    assert_int_equal(open_files(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_write_and_scan),
        cmocka_unit_test(test_dictionary),    cmocka_unit_test(test_footer_names_every_block),
        cmocka_unit_test(test_cut),           cmocka_unit_test(test_damage),
        cmocka_unit_test(test_failed_writes), cmocka_unit_test(test_files),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    codec_thread_done();
    return failed;
}
