/* SPDX-License-Identifier: Apache-2.0 */
/* The users file: roles, changes, refusals of wrong lines, passwords. */
#include "config/users.h"

#include <setjmp.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h wants the first of them before it */
#include <cmocka.h>

static char folder[] = "/tmp/stowd-users-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/stowd-users-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/users", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void roles(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed; /* NULL: refused */
    } rows[] = {
        {"", ""},
        {"all", "all"},
        {"  read@logs-*,metrics  write ", "read@logs-* read@metrics write"},
        {"manage@a manage", "manage@a manage"},
        {"reader", NULL},
        {"read@", NULL},
        {"read@a,", NULL},
        {"@a", NULL},
        {"READ", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct users_grants grants = {NULL, 0};
        struct err err = {0};
        struct buf text = {0};
        enum rc rc = users_grants_read(rows[i].text, &grants, &err);
        assert_int_equal(rc, rows[i].printed == NULL ? RC_INVALID : RC_OK);
        users_grants_print(&grants, &text);
        buf_put_byte(&text, '\0');
        if (rc == RC_OK)
            assert_string_equal((const char *)text.ptr, rows[i].printed);
        else
            assert_true(err.msg[0] != '\0' && grants.count == 0);
        buf_done(&text);
        users_grants_done(&grants);
    }
}

static void names(void **state)
{
    (void)state;
    assert_true(users_name_ok(SLICE_LIT("a.b_c-d@e+F0")));
    assert_false(users_name_ok(SLICE_LIT("")));
    assert_false(users_name_ok(SLICE_LIT("a:b")));
    assert_false(users_name_ok(SLICE_LIT("a b")));
    assert_false(users_name_ok(SLICE_LIT("a\0b")));
    assert_false(users_name_ok(SLICE_LIT("\xc3\xa4")));
    char many[USERS_NAME_BYTES + 1];
    memset(many, 'a', sizeof many);
    assert_true(users_name_ok(slice_of(many, USERS_NAME_BYTES)));
    assert_false(users_name_ok(slice_of(many, sizeof many)));
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *complaint; /* NULL: fine */
    } rows[] = {
        {"", NULL},
        {"# comment\n\nbob:$y$x$y$z:read\r\n", NULL},
        {"bob:$y$x:read", NULL},
        {"bob\n", ":1: not NAME:HASH:ROLES"},
        {"bob:$y$x\n", ":1: not NAME:HASH:ROLES"},
        {"#\nbob:plain:read\n", ":2: user [bob] has no hash"},
        {"bob::read\n", "has no hash"},
        {"b b:$y$x:read\n", "bad user name [b b]"},
        {"bob:$y$x:rule\n", "unknown role [rule]"},
        {"bob:$y$x:read\nbob:$y$x:read\n", ":2: user [bob] is there already"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct users users = {NULL, 0};
        struct err err = {0};
        write_file(rows[i].text);
        enum rc rc = users_load(path, &users, &err);
        if (rows[i].complaint == NULL) {
            assert_int_equal(rc, RC_OK);
        } else {
            assert_true(rc == RC_INVALID || rc == RC_EXISTS);
            assert_non_null(strstr(err.msg, rows[i].complaint));
            assert_non_null(strstr(err.msg, path));
        }
        users_done(&users);
    }
    unlink(path);
    struct users none;
    assert_int_equal(users_load(path, &none, NULL), RC_NOT_FOUND);
}

static void changes(void **state)
{
    (void)state;
    struct err err = {0};
    struct users users;
    struct stat st;
    assert_int_equal(users_file_put(path, "bob", NULL, "read", false, &err), RC_NOT_FOUND);
    err = (struct err){0};
    assert_int_equal(users_file_put(path, "bob", "secret one", "read", true, &err), RC_OK);
    assert_int_equal(users_file_put(path, "amy", "secret two", "all", true, &err), RC_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(users_file_put(path, "bob", "other", "read", true, &err), RC_EXISTS);
    err = (struct err){0};
    assert_int_equal(users_file_put(path, "bob", "secret three", NULL, false, &err), RC_OK);
    assert_int_equal(users_file_put(path, "bob", NULL, "write@x", false, &err), RC_OK);
    assert_int_equal(users_file_put(path, "bob", NULL, "rule", false, &err), RC_INVALID);
    assert_int_equal(users_load(path, &users, NULL), RC_OK);
    assert_int_equal(users.count, 2);
    assert_string_equal(users.user[0].name, "amy");
    const struct user *bob = users_find(&users, SLICE_LIT("bob"));
    assert_non_null(bob);
    assert_string_equal(bob->grants.grant[0].pattern, "x");
    assert_true(users_verify(bob->hash, "secret three"));
    assert_false(users_verify(bob->hash, "secret one"));
    assert_null(users_find(&users, SLICE_LIT("bo")));
    users_done(&users);
    err = (struct err){0};
    assert_int_equal(users_file_remove(path, "bo", &err), RC_NOT_FOUND);
    assert_int_equal(users_file_remove(path, "bob", NULL), RC_OK);
    assert_int_equal(users_load(path, &users, NULL), RC_OK);
    assert_int_equal(users.count, 1);
    users_done(&users);
}

static void passwords(void **state)
{
    (void)state;
    char a[USERS_HASH_BYTES], b[USERS_HASH_BYTES], longest[USERS_PASSWORD_BYTES + 2];
    assert_int_equal(users_hash("same", a, NULL), RC_OK);
    assert_int_equal(users_hash("same", b, NULL), RC_OK);
    assert_memory_equal(a, "$y$", 3);
    assert_string_not_equal(a, b); /* salted */
    assert_true(users_verify(a, "same") && users_verify(b, "same"));
    assert_false(users_verify(a, "Same") || users_verify(a, "") || users_verify("", "") ||
                 users_verify("*0", "") || users_verify("$y$", ""));
    assert_int_equal(users_hash("", a, NULL), RC_INVALID);
    memset(longest, 'x', sizeof longest);
    longest[USERS_PASSWORD_BYTES + 1] = '\0';
    assert_int_equal(users_hash(longest, a, NULL), RC_INVALID);
    longest[USERS_PASSWORD_BYTES] = '\0';
    assert_int_equal(users_hash(longest, a, NULL), RC_OK);
    assert_true(users_verify(a, longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles),
        cmocka_unit_test(names),
        cmocka_unit_test_setup_teardown(wrong_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes, set_up, tear_down),
        cmocka_unit_test(passwords),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
