/* SPDX-License-Identifier: Apache-2.0 */
/* Files and the seam: every byte arrives, errors have their code, faults do what io.h says. */
#include "storage/io.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/stowd-test-io-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    io_fault_hook = NULL;
    return io_remove_dir(dir, NULL) == RC_OK ? 0 : -1;
}

static const char *in_dir(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void test_read_and_write(void **state)
{
    (void)state;
    struct io_file file = {.fd = -1};
    struct err err = {0};
    char back[16] = {0};
    uint64_t len = 0;
    assert_int_equal(io_open(in_dir("a"), IO_READ, &file, &err), RC_NOT_FOUND);
    assert_int_equal(err.rc, RC_OK);
    assert_int_equal(io_open(in_dir("a"), IO_CREATE, &file, &err), RC_OK);
    assert_int_equal(io_write(&file, 3, "hello", 5, &err), RC_OK);
    assert_int_equal(io_sync(&file, &err), RC_OK);
    assert_int_equal(io_sync_dir(dir, &err), RC_OK);
    assert_int_equal(io_size(&file, &len, &err), RC_OK);
    assert_int_equal(len, 8);
    assert_int_equal(io_read(&file, 0, back, 8, &err), RC_OK);
    assert_memory_equal(back, "\0\0\0hello", 8);
    assert_int_equal(io_read(&file, 4, back, 5, &err), RC_CORRUPT);
    assert_non_null(strstr(err.msg, "ends early"));
    assert_int_equal(io_truncate(&file, 4, NULL), RC_OK);
    assert_int_equal(io_size(&file, &len, NULL), RC_OK);
    assert_int_equal(len, 4);
    /* In the page cache, or the file system cannot tell; never wrong bytes. */
    enum rc rc = io_read_nowait(&file, 0, back, 4, NULL);
    assert_true(rc == RC_OK || rc == RC_AGAIN);
    assert_int_equal(io_read_nowait(&file, 0, back, 5, NULL), RC_AGAIN);
    io_close(&file);
    io_close(&file);

    struct err exists = {0};
    assert_int_equal(io_open(in_dir("a"), IO_CREATE, &file, &exists), RC_EXISTS);
    assert_int_equal(io_rename(in_dir("a"), in_dir("a"), NULL), RC_OK);
    assert_int_equal(io_unlink(in_dir("a"), NULL), RC_OK);
    assert_int_equal(io_unlink(in_dir("a"), NULL), RC_OK);
    assert_int_equal(io_allocated(in_dir("a"), &len, NULL), RC_NOT_FOUND);
}

static void test_gathered_write(void **state)
{
    (void)state;
    struct io_file file = {.fd = -1};
    enum { PIECES = 3000 }; /* more than the system takes at once */
    static struct iovec iov[PIECES];
    static uint8_t bytes[2 * PIECES], back[2 * PIECES];
    size_t len = 0;
    for (size_t i = 0; i < PIECES; i++) {
        iov[i] = (struct iovec){bytes + len, i % 3};
        for (size_t j = 0; j < i % 3; j++)
            bytes[len++] = (uint8_t)(i * 7 + j);
    }
    assert_int_equal(io_open(in_dir("v"), IO_CREATE, &file, NULL), RC_OK);
    assert_int_equal(io_writev(&file, 5, iov, PIECES, NULL), RC_OK);
    assert_int_equal(io_read(&file, 5, back, len, NULL), RC_OK);
    assert_memory_equal(back, bytes, len);
    io_close(&file);
}

static void count_name(const char *name, void *arg)
{
    assert_true(name[0] != '.');
    ++*(int *)arg;
}

static void test_directories(void **state)
{
    (void)state;
    char sub[64];
    snprintf(sub, sizeof sub, "%s/sub", dir);
    int count = 0;
    assert_int_equal(io_list(sub, count_name, &count, NULL), RC_NOT_FOUND);
    assert_int_equal(io_mkdir(sub, NULL), RC_OK);
    assert_int_equal(io_mkdir(sub, NULL), RC_OK);
    assert_int_equal(io_replace(in_dir("sub/one"), SLICE_LIT("1"), NULL), RC_OK);
    assert_int_equal(io_replace(in_dir("sub/two"), SLICE_LIT("2"), NULL), RC_OK);
    struct err err = {0};
    assert_int_equal(io_mkdir(in_dir("sub/one"), &err), RC_IO);
    assert_int_equal(err.os_errno, EEXIST);
    assert_int_equal(io_list(sub, count_name, &count, NULL), RC_OK);
    assert_int_equal(count, 2);
    assert_int_equal(io_remove_dir(sub, NULL), RC_OK);
    assert_int_equal(io_remove_dir(sub, NULL), RC_OK);
    assert_int_equal(io_list(sub, count_name, &count, NULL), RC_NOT_FOUND);
    uint64_t bytes_free = 0, total = 0;
    assert_int_equal(io_space(dir, &bytes_free, &total, NULL), RC_OK);
    assert_true(total > 0 && bytes_free <= total);
}

static enum io_fault wanted;
static enum io_op wanted_op;
static int countdown;

static enum io_fault hook(enum io_op op, const char *path)
{
    assert_non_null(path);
    return op == wanted_op && --countdown == 0 ? wanted : IO_FAULT_NONE;
}

static void arm(enum io_op op, enum io_fault fault, int nth)
{
    io_fault_hook = hook;
    wanted_op = op;
    wanted = fault;
    countdown = nth;
}

static void test_replace_and_slurp(void **state)
{
    (void)state;
    const char *path = in_dir("r");
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(io_slurp(path, 10, &data, &len, NULL), RC_NOT_FOUND);
    assert_int_equal(io_replace(path, SLICE_LIT("old"), NULL), RC_OK);
    /* Whatever fails before the rename leaves the old content. */
    static const struct {
        enum io_op op;
        enum io_fault fault;
        enum rc rc;
    } cases[] = {
        {IO_OP_WRITE, IO_FAULT_FAIL, RC_IO},   {IO_OP_WRITE, IO_FAULT_SHORT, RC_IO},
        {IO_OP_WRITE, IO_FAULT_FULL, RC_FULL}, {IO_OP_SYNC, IO_FAULT_FAIL, RC_IO},
        {IO_OP_SYNC, IO_FAULT_SHORT, RC_IO},   {IO_OP_OTHER, IO_FAULT_FAIL, RC_IO},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        arm(cases[i].op, cases[i].fault, 1);
        assert_int_equal(io_replace(path, SLICE_LIT("new one"), &err), cases[i].rc);
        io_fault_hook = NULL;
        assert_int_equal(err.rc, cases[i].rc);
        assert_int_equal(access(in_dir("r.tmp"), F_OK), -1);
        path = in_dir("r");
        assert_int_equal(io_slurp(path, 10, &data, &len, NULL), RC_OK);
        assert_int_equal(len, 3);
        assert_string_equal((char *)data, "old");
        free(data);
    }
    assert_int_equal(io_replace(path, SLICE_LIT("new one"), NULL), RC_OK);
    struct err err = {0};
    assert_int_equal(io_slurp(path, 6, &data, &len, &err), RC_TOO_LARGE);
    assert_int_equal(io_slurp(path, 7, &data, &len, NULL), RC_OK);
    assert_memory_equal(data, "new one", 7);
    free(data);
}

static void test_faults(void **state)
{
    (void)state;
    struct io_file file = {.fd = -1};
    char back[8];
    uint64_t len = 0;
    assert_int_equal(io_open(in_dir("f"), IO_CREATE, &file, NULL), RC_OK);

    arm(IO_OP_WRITE, IO_FAULT_SHORT, 2);
    assert_int_equal(io_write(&file, 0, "abcdefgh", 8, NULL), RC_OK);
    struct err err = {0};
    struct iovec iov[] = {{(char[]){"ABCDE"}, 5}, {(char[]){"FGH"}, 3}};
    assert_int_equal(io_writev(&file, 8, iov, 2, &err), RC_IO);
    assert_int_equal(err.os_errno, EIO);
    assert_int_equal(io_size(&file, &len, NULL), RC_OK);
    assert_int_equal(len, 12);

    arm(IO_OP_WRITE, IO_FAULT_GARBLE, 1);
    assert_int_equal(io_write(&file, 0, "abcdefgh", 8, NULL), RC_OK);
    assert_int_equal(io_read(&file, 0, back, 8, NULL), RC_OK);
    assert_memory_equal(back, "abcd", 4);
    assert_int_not_equal(back[4], 'e');
    assert_memory_equal(back + 5, "fgh", 3);

    arm(IO_OP_SYNC, IO_FAULT_FAIL, 1);
    assert_int_equal(io_sync(&file, NULL), RC_IO);
    assert_int_equal(io_sync(&file, NULL), RC_OK);
    arm(IO_OP_OTHER, IO_FAULT_FULL, 1);
    assert_int_equal(io_truncate(&file, 0, NULL), RC_FULL);
    io_fault_hook = NULL;
    io_close(&file);
}

static void test_faults_from_environment(void **state)
{
    (void)state;
    struct io_file file = {.fd = -1};
    static const struct {
        const char *text;
        enum rc writes[3], syncs[2];
    } cases[] = {
        {"fail:3", {RC_OK, RC_OK, RC_IO}, {RC_OK, RC_OK}},
        {"fail:4", {RC_OK, RC_OK, RC_OK}, {RC_IO, RC_OK}},
        {"full:2", {RC_OK, RC_FULL, RC_OK}, {RC_OK, RC_OK}},
        {"short:1", {RC_IO, RC_OK, RC_OK}, {RC_OK, RC_OK}},
        {"failsync:2", {RC_OK, RC_OK, RC_OK}, {RC_OK, RC_IO}},
        {"nonsense:1", {RC_OK, RC_OK, RC_OK}, {RC_OK, RC_OK}},
        {"fail", {RC_OK, RC_OK, RC_OK}, {RC_OK, RC_OK}},
    };
    assert_int_equal(io_open(in_dir("e"), IO_CREATE, &file, NULL), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        io_fault_hook = NULL;
        setenv("STOWD_IO_FAULT", cases[i].text, 1);
        io_fault_from_env();
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(io_write(&file, 0, "x", 1, NULL), cases[i].writes[j]);
        for (size_t j = 0; j < 2; j++)
            assert_int_equal(io_sync(&file, NULL), cases[i].syncs[j]);
    }
    unsetenv("STOWD_IO_FAULT");
    io_fault_hook = NULL;
    io_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_and_write), cmocka_unit_test(test_gathered_write),
        cmocka_unit_test(test_directories),    cmocka_unit_test(test_replace_and_slurp),
        cmocka_unit_test(test_faults),         cmocka_unit_test(test_faults_from_environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
