/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog: every table, a full map, damage. */
#include "config/limits.h"
#include "storage/bytes.h"
#include "storage/catalog.h"
#include "storage/io.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A sanitizer's shadow needs more addresses than the test grants. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static char root[64];
static char dir[80];
static char data_path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_catalog.XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/catalog", root);
    snprintf(data_path, sizeof data_path, "%s/data.mdb", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char copy[80];
    snprintf(copy, sizeof copy, "%s/copy", root);
    return io_remove_dir(dir, NULL) == RC_OK && io_remove_dir(copy, NULL) == RC_OK &&
                   rmdir(root) == 0
               ? 0
               : -1;
}

#define OK(x) assert_int_equal((x), RC_OK)

static struct catalog *open_sized(uint64_t map_bytes)
{
    struct catalog *c = NULL;
    struct err err = {0};
    if (catalog_open(dir, map_bytes, &c, &err) != RC_OK)
        fail_msg("catalog_open: %s", err.msg);
    return c;
}

static struct catalog_txn *begin(struct catalog *c)
{
    struct catalog_txn *txn = NULL;
    OK(catalog_begin(c, &txn, NULL));
    return txn;
}

/* ---- named values */

static enum rc collect(struct slice name, struct slice value, void *arg)
{
    struct buf *b = arg;
    buf_put_slice(b, name);
    buf_put_byte(b, '=');
    buf_put_slice(b, value);
    buf_put_byte(b, ';');
    return slice_is(value, "stop") ? RC_NOT_FOUND : RC_OK;
}

static void assert_each(struct catalog *c, char kind, enum rc want_rc, const char *want)
{
    struct buf b = {0};
    assert_int_equal(catalog_each(c, kind, collect, &b, NULL), want_rc);
    assert_true(slice_is(buf_slice(&b), want));
    buf_done(&b);
}

static void test_values(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    struct buf b = {0};
    uint8_t long_name[500], *large = malloc(100000);
    memset(long_name, 'n', sizeof long_name);
    for (size_t i = 0; i < 100000; i++)
        large[i] = (uint8_t)(i * i >> 3);

    assert_int_equal(catalog_get(c, 'i', slice_str("a"), &b, NULL), RC_NOT_FOUND);
    struct catalog_txn *txn = begin(c);
    OK(catalog_put(txn, 'i', slice_str("b"), slice_str("2"), NULL));
    OK(catalog_put(txn, 'i', slice_str("a"), SLICE_NONE, NULL));
    OK(catalog_put(txn, 'i', slice_str("a\0b") /* cut: "a" again */, slice_str("1"), NULL));
    OK(catalog_put(txn, 'j', slice_str("x"), slice_str("other kind"), NULL));
    OK(catalog_put(txn, 'l', slice_of(long_name, sizeof long_name), slice_of(large, 100000), NULL));
    assert_int_equal(catalog_get(c, 'i', slice_str("a"), &b, NULL), RC_NOT_FOUND); /* not yet */
    OK(catalog_commit(txn, NULL));

    OK(catalog_get(c, 'l', slice_of(long_name, sizeof long_name), &b, NULL));
    assert_true(slice_eq(buf_slice(&b), slice_of(large, 100000)));
    assert_each(c, 'i', RC_OK, "a=1;b=2;");
    assert_each(c, 'h', RC_OK, "");
    assert_each(c, 'z', RC_OK, "");

    txn = begin(c);
    OK(catalog_delete(txn, 'i', slice_str("b"), NULL));
    assert_int_equal(catalog_delete(txn, 'i', slice_str("b"), NULL), RC_NOT_FOUND);
    catalog_abort(txn);
    assert_each(c, 'i', RC_OK, "a=1;b=2;");
    txn = begin(c);
    OK(catalog_put(txn, 'i', slice_str("a"), slice_str("stop"), NULL));
    OK(catalog_commit(txn, NULL));
    assert_each(c, 'i', RC_NOT_FOUND, "a=stop;");

    catalog_close(c);
    c = open_sized(0);
    assert_each(c, 'j', RC_OK, "x=other kind;");
    catalog_close(c);
    buf_done(&b);
    free(large);
}

/* ---- blocks */

static void test_blocks(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    struct catalog_txn *txn = begin(c);
    struct place got, list[8];
    size_t count;
    /* Index 5: seqs 0..9, 10..19, (20..29 missing) 30..39; neighbours 4 and 6 have all. */
    for (uint32_t index = 4; index <= 6; index++) {
        for (uint64_t first = 0; first < 40; first += 10) {
            struct place p = {first, first + 9, index, 100, first * 64, 10, 1000};
            if (index != 5 || first != 20)
                OK(catalog_put_block(txn, index, &p, NULL));
        }
    }
    OK(catalog_commit(txn, NULL));
    static const struct {
        uint64_t seq;
        enum rc rc;
        uint64_t first;
    } rows[] = {
        {0, RC_OK, 0},         {9, RC_OK, 0},
        {10, RC_OK, 10},       {19, RC_OK, 10},
        {20, RC_NOT_FOUND, 0}, {29, RC_NOT_FOUND, 0},
        {30, RC_OK, 30},       {39, RC_OK, 30},
        {40, RC_NOT_FOUND, 0}, {UINT64_MAX, RC_NOT_FOUND, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(catalog_find_block(c, 5, rows[i].seq, &got, NULL), rows[i].rc);
        if (rows[i].rc == RC_OK) {
            assert_int_equal(got.first_seq, rows[i].first);
            assert_int_equal(got.last_seq, rows[i].first + 9);
            assert_int_equal(got.segment, 5);
            assert_int_equal(got.at, rows[i].first * 64);
            assert_int_equal(got.len + got.rows + got.raw_bytes, 1110);
        }
    }
    assert_int_equal(catalog_find_block(c, 3, 5, &got, NULL), RC_NOT_FOUND);
    assert_int_equal(catalog_find_block(c, 7, 5, &got, NULL), RC_NOT_FOUND);
    OK(catalog_find_block(c, 6, 39, &got, NULL)); /* the table's last entry */

    OK(catalog_list_blocks(c, 5, 1, list, 8, &count, NULL));
    assert_int_equal(count, 2);
    assert_int_equal(list[0].first_seq, 10);
    assert_int_equal(list[1].first_seq, 30);
    OK(catalog_list_blocks(c, 5, 0, list, 2, &count, NULL));
    assert_int_equal(count, 2);
    OK(catalog_list_blocks(c, 7, 0, list, 2, &count, NULL));
    assert_int_equal(count, 0);
    txn = begin(c);
    OK(catalog_delete_block(txn, 5, 10, NULL));
    assert_int_equal(catalog_delete_block(txn, 5, 10, NULL), RC_NOT_FOUND);
    OK(catalog_commit(txn, NULL));
    assert_int_equal(catalog_find_block(c, 5, 15, &got, NULL), RC_NOT_FOUND);
    catalog_close(c);
}

/* ---- pieces of id runs and dead rows */

/* A piece that holds one seq, as if it were the run's only entry. */
static enum rc put_seq(struct catalog_txn *txn, uint32_t index_no, uint64_t at, uint64_t seq)
{
    uint8_t value[8];
    put_u64(value, seq);
    return catalog_put_piece(txn, index_no, (uint32_t)(at >> 32), (uint32_t)at,
                             slice_of(value, sizeof value), NULL);
}

static enum rc get_seq(struct catalog *c, uint32_t index_no, uint64_t at, uint64_t *out,
                       struct err *err)
{
    struct catalog_view *view;
    struct slice value;
    OK(catalog_view_begin(c, &view, NULL));
    enum rc rc =
        catalog_view_piece(view, index_no, (uint32_t)(at >> 32), (uint32_t)at, &value, err);
    if (rc == RC_OK) {
        assert_int_equal(value.len, 8);
        *out = get_u64(value.ptr);
    }
    catalog_view_end(view);
    return rc;
}

static void test_pieces(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    struct catalog_txn *txn = begin(c);
    uint64_t seq = 0;
    uint32_t run;
    OK(put_seq(txn, 1, 5ull << 32 | 0, 50));
    OK(put_seq(txn, 1, 5ull << 32 | 7, 57));
    OK(put_seq(txn, 1, 9ull << 32 | 1, 91));
    OK(put_seq(txn, 2, 6ull << 32 | 1, 61));
    OK(catalog_delete_piece(txn, 1, 77, 0, NULL)); /* deleting nothing */
    assert_int_equal(get_seq(c, 1, 5ull << 32, &seq, NULL), RC_NOT_FOUND);
    OK(catalog_commit(txn, NULL));
    for (int twice = 0; twice < 2; twice++) { /* verified, then known */
        OK(get_seq(c, 1, 5ull << 32 | 7, &seq, NULL));
        assert_int_equal(seq, 57);
    }
    assert_int_equal(get_seq(c, 1, 6ull << 32 | 1, &seq, NULL), RC_NOT_FOUND);
    OK(catalog_next_run(c, 1, 0, &run, NULL));
    assert_int_equal(run, 5);
    OK(catalog_next_run(c, 1, 6, &run, NULL));
    assert_int_equal(run, 9);
    assert_int_equal(catalog_next_run(c, 1, 10, &run, NULL), RC_NOT_FOUND);
    txn = begin(c);
    OK(catalog_drop_run(txn, 1, 5, NULL));
    OK(catalog_delete_piece(txn, 2, 6, 1, NULL));
    OK(catalog_commit(txn, NULL));
    assert_int_equal(get_seq(c, 1, 5ull << 32 | 7, &seq, NULL), RC_NOT_FOUND);
    assert_int_equal(get_seq(c, 2, 6ull << 32 | 1, &seq, NULL), RC_NOT_FOUND);
    OK(get_seq(c, 1, 9ull << 32 | 1, &seq, NULL));
    assert_int_equal(seq, 91);
    catalog_close(c);
}

static void test_dead(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    uint8_t bits[CATALOG_DEAD_BYTES], got[CATALOG_DEAD_BYTES], none[CATALOG_DEAD_BYTES] = {0};
    memset(bits, 0x81, sizeof bits);
    struct catalog_txn *txn = begin(c);
    OK(catalog_put_dead(txn, 1, 3, bits, NULL));
    OK(catalog_put_dead(txn, 1, 4, none, NULL));
    OK(catalog_txn_get_dead(txn, 1, 3, got, NULL));
    assert_memory_equal(got, bits, sizeof bits);
    OK(catalog_commit(txn, NULL));
    OK(catalog_get_dead(c, 1, 3, got, NULL));
    assert_memory_equal(got, bits, sizeof bits);
    OK(catalog_get_dead(c, 1, 4, got, NULL));
    assert_memory_equal(got, none, sizeof none);
    uint64_t bytes;
    OK(catalog_index_bytes(c, 1, &bytes, NULL));
    assert_int_equal(bytes, 12 + 512 + 8);
    txn = begin(c);
    OK(catalog_put_dead(txn, 1, 3, none, NULL));
    OK(catalog_commit(txn, NULL));
    OK(catalog_index_bytes(c, 1, &bytes, NULL));
    assert_int_equal(bytes, 0);
    catalog_close(c);
}

static uint64_t spread(uint64_t i)
{
    return i * 0x9E3779B97F4A7C15u;
}

static void fill_ids(struct catalog *c, uint32_t index_no, uint64_t from, uint64_t to)
{
    while (from < to) {
        struct catalog_txn *txn = begin(c);
        for (uint64_t end = from + 50000 < to ? from + 50000 : to; from < end; from++)
            OK(put_seq(txn, index_no, spread(from), from));
        OK(catalog_commit(txn, NULL));
    }
}

static void test_drop_and_bytes(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    uint64_t bytes;
    fill_ids(c, 1, 0, 5000);
    fill_ids(c, 2, 0, 3000);
    fill_ids(c, 3, 0, 10);
    OK(catalog_index_bytes(c, 1, &bytes, NULL));
    assert_int_equal(bytes, 5000 * 28);
    OK(catalog_index_bytes(c, 2, &bytes, NULL));
    assert_int_equal(bytes, 3000 * 28);

    struct catalog_txn *txn = begin(c);
    struct place p = {.first_seq = 1, .last_seq = 2};
    OK(catalog_put_block(txn, 1, &p, NULL));
    OK(catalog_commit(txn, NULL));
    bool more = true;
    int rounds = 0;
    for (; more; rounds++) {
        OK(catalog_begin_removal(c, &txn, NULL));
        OK(catalog_drop_index(txn, 1, 1000, &more, NULL));
        OK(catalog_commit(txn, NULL));
    }
    assert_int_equal(rounds, 6);
    OK(catalog_index_bytes(c, 1, &bytes, NULL));
    assert_int_equal(bytes, 0);
    OK(catalog_index_bytes(c, 3, &bytes, NULL));
    assert_int_equal(bytes, 280);
    catalog_close(c);
}

/* ---- space */

static void test_full_map(void **state)
{
    (void)state;
    struct catalog *c = open_sized(1000); /* raised to 1 MiB */
    struct catalog_txn *txn;
    struct err err = {0};
    uint64_t used, file, map, i = 0;
    enum rc rc;
    /* Rising hashes: each transaction needs a few pages, so that the margin is met from below. */
    while ((rc = catalog_begin(c, &txn, &err)) == RC_OK) {
        for (int k = 0; k < 100; k++, i++)
            OK(put_seq(txn, 1, i, i));
        OK(catalog_commit(txn, NULL));
    }
    assert_int_equal(rc, RC_FULL);
    assert_non_null(strstr(err.msg, "map_size"));
    assert_in_range(i, 5000, 30000);
    catalog_space(c, &used, &file, &map);
    assert_int_equal(map, 1 * MIB);
    assert_in_range(used, map / 2, map);
    assert_true(file > 0);

    /* Reads and removals go on; then there is room again. */
    bool more = true;
    while (more) {
        OK(catalog_begin_removal(c, &txn, NULL));
        OK(catalog_drop_index(txn, 1, 500, &more, NULL));
        OK(catalog_commit(txn, NULL));
    }
    txn = begin(c);
    OK(catalog_put(txn, 'i', slice_str("a"), slice_str("1"), NULL));

    /* A transaction that does not fit fails as a whole, whatever comes after. */
    uint8_t *large = calloc(1, 2 * MIB);
    err = (struct err){0};
    assert_int_equal(catalog_put(txn, 'i', slice_str("b"), slice_of(large, 2 * MIB), &err),
                     RC_FULL);
    (void)!catalog_put(txn, 'i', slice_str("c"), slice_str("1"), NULL);
    assert_int_equal(catalog_commit(txn, NULL), RC_FULL);
    assert_each(c, 'i', RC_OK, "");
    txn = begin(c);
    OK(catalog_put(txn, 'i', slice_str("d"), slice_str("1"), NULL));
    OK(catalog_commit(txn, NULL));
    assert_each(c, 'i', RC_OK, "d=1;");
    catalog_close(c);
    free(large);
    c = open_sized(1 * MIB); /* stays what it was */
    catalog_space(c, &used, &file, &map);
    assert_int_equal(map, 1 * MIB);
    catalog_close(c);

    /* Too small for the file: raised, works. */
    c = open_sized(0);
    fill_ids(c, 1, 0, 60000);
    catalog_close(c);
    c = open_sized(1);
    OK(catalog_begin(c, &txn, NULL));
    catalog_abort(txn);
    catalog_space(c, &used, &file, &map);
    assert_true(map >= used + MIB);
    catalog_close(c);
}

/* Where 64 GiB of addresses cannot be had, less is taken. */
static void test_small_address_space(void **state)
{
    (void)state;
#if !SANITIZED
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {4 * GIB, 4 * GIB};
        struct catalog *c;
        uint64_t used, file, map = 0;
        if (setrlimit(RLIMIT_AS, &limit) != 0 || catalog_open(dir, 0, &c, NULL) != RC_OK)
            _exit(1);
        catalog_space(c, &used, &file, &map);
        catalog_close(c);
        _exit(map >= 256 * MIB && map < 4 * GIB ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
#else
    skip();
#endif
}

/* Another process that only reads does not wait for the one that writes. */
static void test_open_beside_a_writer(void **state)
{
    (void)state;
    char held[96];
    snprintf(held, sizeof held, "%s/held", root);
    catalog_close(open_sized(0));
    pid_t pid = fork();
    if (pid == 0) { /* holds the writer's lock until it is killed */
        alarm(20);
        struct catalog_txn *txn = begin(open_sized(0));
        OK(catalog_put(txn, 'x', SLICE_LIT("name"), SLICE_LIT("value"), NULL));
        assert_int_equal(mkdir(held, 0700), 0);
        pause();
        _exit(1);
    }
    struct stat st;
    while (stat(held, &st) != 0)
        usleep(1000);
    assert_int_equal(rmdir(held), 0);
    alarm(10);
    catalog_close(open_sized(0));
    alarm(0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Every byte of a value and of its key counts, whatever the table. */
static void test_verify(void **state)
{
    (void)state;
    static const char mark[] = "a value that is easily found";
    uint8_t bits[CATALOG_DEAD_BYTES] = {0}, *data;
    size_t len, found = 0;
    memcpy(bits, mark, sizeof mark);
    struct catalog *c = open_sized(0);
    struct catalog_txn *txn = begin(c);
    OK(catalog_put(txn, 'x', SLICE_LIT("name"), SLICE_LIT(mark), NULL));
    OK(catalog_put_piece(txn, 7, 1, 0, SLICE_LIT(mark), NULL));
    OK(catalog_put_dead(txn, 7, 3, bits, NULL));
    OK(catalog_commit(txn, NULL));
    OK(catalog_verify(c, NULL));
    catalog_close(c);
    OK(io_slurp(data_path, 100 * MIB, &data, &len, NULL));
    for (size_t i = 0; i + sizeof mark < len; i++) {
        struct err err = {0};
        struct io_file file;
        if (memcmp(data + i, mark, sizeof mark - 1) != 0)
            continue;
        found++;
        OK(io_open(data_path, IO_WRITE, &file, NULL));
        OK(io_write(&file, i + 5, "#", 1, NULL));
        c = open_sized(0);
        assert_int_equal(catalog_verify(c, &err), RC_CORRUPT);
        assert_non_null(strstr(err.msg, "damaged"));
        catalog_close(c);
        OK(io_write(&file, i + 5, data + i + 5, 1, NULL));
        io_close(&file);
    }
    assert_int_equal(found, 3);
    free(data);
}

static void test_copy(void **state)
{
    (void)state;
    char copy[80];
    snprintf(copy, sizeof copy, "%s/copy", root);
    struct catalog *c = open_sized(0);
    uint64_t used, file, map, used2;
    bool more;
    fill_ids(c, 1, 0, 20000);
    fill_ids(c, 2, 0, 100);
    struct catalog_txn *txn = begin(c);
    OK(catalog_drop_index(txn, 1, 100000, &more, NULL));
    OK(catalog_commit(txn, NULL));
    OK(catalog_copy(c, copy, NULL));
    catalog_space(c, &used, &file, &map);
    catalog_close(c);
    OK(catalog_open(copy, 0, &c, NULL));
    catalog_space(c, &used2, &file, &map);
    assert_true(file < 200 * KIB && used2 < 200 * KIB);
    uint64_t seq;
    OK(get_seq(c, 2, spread(42), &seq, NULL));
    assert_int_equal(seq, 42);
    catalog_close(c);
}

/* ---- damage (C2): flip every copy of a value's bytes in the file */

static size_t flip_all(struct slice pattern)
{
    uint8_t *data;
    size_t len, hits = 0;
    struct io_file f = {.fd = -1};
    OK(io_slurp(data_path, 64 * MIB, &data, &len, NULL));
    OK(io_open(data_path, IO_WRITE, &f, NULL));
    for (uint8_t *p = data; (p = memmem(p, len - (size_t)(p - data), pattern.ptr, pattern.len));
         p++, hits++) {
        uint8_t flipped = p[pattern.len / 2] ^ 4;
        OK(io_write(&f, (uint64_t)(p - data) + pattern.len / 2, &flipped, 1, NULL));
    }
    io_close(&f);
    free(data);
    return hits;
}

static void test_damage(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    struct catalog_txn *txn = begin(c);
    uint64_t seq = 0x1122334455667788, got;
    struct place place = {50, 59, 0xaabbccdd, 0x01020304, 0, 0, 0};
    uint8_t bits[CATALOG_DEAD_BYTES];
    size_t count;
    memset(bits, 0x5c, sizeof bits);
    OK(catalog_put(txn, 'i', slice_str("name"), slice_str("the value of a name"), NULL));
    OK(put_seq(txn, 1, 77, seq));
    OK(catalog_put_block(txn, 1, &place, NULL));
    OK(catalog_put_dead(txn, 1, 0, bits, NULL));
    OK(catalog_commit(txn, NULL));
    catalog_close(c);

    uint8_t raw[8];
    put_u64(raw, seq);
    assert_in_range(flip_all(slice_str("the value of a name")), 1, 9);
    assert_in_range(flip_all(slice_of(raw, 8)), 1, 9);
    put_u32(raw, place.segment);
    put_u32(raw + 4, place.len);
    assert_in_range(flip_all(slice_of(raw, 8)), 1, 9);
    assert_in_range(flip_all(slice_of(bits, sizeof bits)), 1, 9);

    c = open_sized(0);
    struct buf b = {0};
    struct err err[4] = {0};
    assert_int_equal(catalog_get(c, 'i', slice_str("name"), &b, &err[0]), RC_CORRUPT);
    assert_int_equal(b.len, 0);
    assert_int_equal(get_seq(c, 1, 77, &got, &err[1]), RC_CORRUPT);
    assert_int_equal(catalog_find_block(c, 1, 55, &place, &err[2]), RC_CORRUPT);
    assert_int_equal(catalog_get_dead(c, 1, 0, bits, &err[3]), RC_CORRUPT);
    for (size_t i = 0; i < ARRAY_LEN(err); i++)
        assert_non_null(strstr(err[i].msg, "is damaged; run stowctl rebuild"));
    assert_int_equal(catalog_each(c, 'i', collect, &b, NULL), RC_CORRUPT);
    assert_int_equal(catalog_list_blocks(c, 1, 0, &place, 1, &count, NULL), RC_CORRUPT);
    catalog_close(c);
    buf_done(&b);

    /* Not an environment at all. */
    OK(io_replace(data_path,
                  slice_str("this is no LMDB file, but long enough to have a head......."
                            "......................................................"),
                  NULL));
    err[0] = (struct err){0};
    assert_int_equal(catalog_open(dir, 0, &c, &err[0]), RC_CORRUPT);
    assert_non_null(strstr(err[0].msg, "stowctl rebuild"));
}

/* ---- many readers beside a writer */

static void *reader_run(void *arg)
{
    uint64_t seq = 0;
    for (uint64_t i = 0; i < 20000; i++)
        if (get_seq(arg, 1, spread(i % 1000), &seq, NULL) != RC_OK || seq % 1000 != i % 1000)
            return arg;
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct catalog *c = open_sized(0);
    pthread_t threads[8];
    fill_ids(c, 1, 0, 1000);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader_run, c), 0);
    for (uint64_t round = 1; round <= 20; round++) {
        struct catalog_txn *txn = begin(c);
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t seq = round * 1000 + i;
            OK(put_seq(txn, 1, spread(i), seq));
        }
        OK(catalog_commit(txn, NULL));
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    catalog_close(c);
}

int main(void)
{
#define IN_DIR(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_DIR(test_values),   IN_DIR(test_blocks),
        IN_DIR(test_pieces),   IN_DIR(test_dead),
        IN_DIR(test_full_map), IN_DIR(test_drop_and_bytes),
        IN_DIR(test_copy),     IN_DIR(test_small_address_space),
        IN_DIR(test_damage),   IN_DIR(test_threads),
        IN_DIR(test_verify),   IN_DIR(test_open_beside_a_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
