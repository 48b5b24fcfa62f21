/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: every type, every source, every complaint; config/stowd.yml is what the table says.
 * `test_config --print` prints the example file anew. */
#include "config/config.h"

#include <setjmp.h>
#include <unistd.h>
/* cmocka.h wants the first of them before it */
#include <cmocka.h>

static struct config config;

static int set_up(void **state)
{
    (void)state;
    return config_init(&config, NULL) == RC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    config_done(&config);
    return 0;
}

static void defaults(void **state)
{
    (void)state;
    assert_string_equal(config.path_data, "./var");
    assert_string_equal(config.network_host, "127.0.0.1");
    assert_string_equal(config.identity_version, "8.19.2");
    assert_string_equal(config.log_level, "info");
    assert_int_equal(config.http_port, 9200);
    assert_int_equal(config.http_max_content_length, 100 * MIB);
    assert_int_equal(config.http_idle_timeout, 120000);
    assert_true(config.http_product_header);
    assert_true(config.storage_reserve == CONFIG_AUTO);
}

static void values(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        const uint64_t *field;
        uint64_t expected; /* UINT64_MAX - 1: refused */
    } rows[] = {
#define BAD (UINT64_MAX - 1)
        {"http.port", "9201", &config.http_port, 9201},
        {"http.port", "0", &config.http_port, 0},
        {"http.port", "65536", &config.http_port, BAD},
        {"http.port", "-1", &config.http_port, BAD},
        {"http.port", "", &config.http_port, BAD},
        {"http.port", "92 ", &config.http_port, BAD},
        {"http.port", "9200b", &config.http_port, BAD},
        {"http.max_content_length", "1mb", &config.http_max_content_length, MIB},
        {"http.max_content_length", "64KB", &config.http_max_content_length, 64 * KIB},
        {"http.max_content_length", "4096b", &config.http_max_content_length, 4096},
        {"http.max_content_length", "4096", &config.http_max_content_length, 4096},
        {"http.max_content_length", "1.5mb", &config.http_max_content_length, BAD},
        {"http.max_content_length", "1tb", &config.http_max_content_length, BAD},
        {"http.max_content_length", "18446744073709551617", &config.http_max_content_length, BAD},
        {"http.max_content_length", "17179869185gb", &config.http_max_content_length, BAD},
        {"http.max_content_length", "auto", &config.http_max_content_length, BAD},
        {"storage.reserve", "auto", &config.storage_reserve, CONFIG_AUTO},
        {"storage.reserve", "1mb", &config.storage_reserve, MIB},
        {"storage.reserve", "0", &config.storage_reserve, 0},
        {"storage.catalog.map_size", "1mb", &config.storage_catalog_map_size, MIB},
        {"http.admission_wait", "250ms", &config.http_admission_wait, 250},
        {"http.admission_wait", "0", &config.http_admission_wait, 0},
        {"http.admission_wait", "10", &config.http_admission_wait, BAD},
        {"http.admission_wait", "2m", &config.http_admission_wait, 120000},
        {"http.admission_wait", "1h", &config.http_admission_wait, BAD},
        {"storage.idle_seal", "1h", &config.storage_idle_seal, 3600000},
    };
    char assignment[128];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t before = *rows[i].field;
        struct err err = {0};
        snprintf(assignment, sizeof assignment, "%s=%s", rows[i].name, rows[i].value);
        enum rc rc = config_set(&config, assignment, "-E", &err);
        if (rows[i].expected != BAD) {
            assert_int_equal(rc, RC_OK);
            assert_true(*rows[i].field == rows[i].expected);
        } else {
            assert_int_equal(rc, RC_INVALID);
            assert_true(*rows[i].field == before);
            assert_non_null(strstr(err.msg, rows[i].name));
            assert_non_null(strstr(err.msg, "allowed: "));
            assert_null(strchr(err.msg, '\n'));
        }
    }
}

static void words(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(config_set(&config, "log.level=WARN", "-E", &err), RC_OK);
    assert_string_equal(config.log_level, "warn");
    assert_int_equal(config_set(&config, "http.product_header=false", "-E", &err), RC_OK);
    assert_false(config.http_product_header);
    assert_int_equal(config_set(&config, "path.data=a=b", "-E", &err), RC_OK);
    assert_string_equal(config.path_data, "a=b");
    assert_int_equal(config_set(&config, "log.level=inf", "-E", &err), RC_INVALID);
    assert_string_equal(err.msg, "-E: log.level: bad value [inf], allowed: debug|info|warn|error");
    err = (struct err){0};
    assert_int_equal(config_set(&config, "http.product_header=1", "-E", &err), RC_INVALID);
    err = (struct err){0};
    assert_int_equal(config_set(&config, "http.prot=1", "-E", &err), RC_INVALID);
    assert_non_null(strstr(err.msg, "unknown setting [http.prot]"));
    err = (struct err){0};
    assert_int_equal(config_set(&config, "http.port", "-E", &err), RC_INVALID);
    assert_non_null(strstr(err.msg, "name=value"));
}

static void environment(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        enum rc rc;
        const char *text; /* in the message */
    } rows[] = {
        {"STOWD_HTTP_PORT=9300", RC_OK, NULL},
        {"STOWD_HTTP_MAX_CONTENT_LENGTH=2mb", RC_OK, NULL},
        {"STOWD_STORAGE_CATALOG_MAP_SIZE=3mb", RC_OK, NULL},
        {"STOWD_SERVICE_HOST=10.0.0.1", RC_OK, NULL},
        {"STOWD=1", RC_OK, NULL},
        {"HTTP_PORT=x", RC_OK, NULL},
        {"STOWD_HTTP_PROT=9300", RC_INVALID, "environment STOWD_HTTP_PROT"},
        {"STOWD_HTTP_PORT=tcp://10.0.0.1:9200", RC_INVALID, "http.port"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "%s", rows[i].entry);
        char *const vector[] = {entry, NULL};
        struct err err = {0};
        assert_int_equal(config_load_env(&config, vector, &err), rows[i].rc);
        if (rows[i].text != NULL)
            assert_non_null(strstr(err.msg, rows[i].text));
    }
    assert_int_equal(config.http_port, 9300);
    assert_int_equal(config.http_max_content_length, 2 * MIB);
    assert_int_equal(config.storage_catalog_map_size, 3 * MIB);
}

/* security.users.NAME: from all sources, and never in a message. */
static void users(void **state)
{
    (void)state;
    char entry[] = "STOWD_SECURITY_USERS_OPS=from the environment";
    char *const vector[] = {entry, NULL};
    struct err err = {0};
    assert_int_equal(config_set(&config, "security.users.admin=first=one", "-E", &err), RC_OK);
    assert_int_equal(config_load_env(&config, vector, &err), RC_OK);
    assert_int_equal(config_set(&config, "security.users.admin=second", "-E", &err), RC_OK);
    assert_int_equal(config.user_count, 2);
    assert_string_equal(config.users[0].name, "admin");
    assert_string_equal(config.users[0].password, "second");
    assert_string_equal(config.users[1].name, "ops");
    assert_string_equal(config.users[1].password, "from the environment");
    static const char *const wrong[] = {"security.users.a b=hunter2", "security.users.=hunter2",
                                        "security.user.admin=hunter2",
                                        "security.users.admin=@/no/such/hunter3"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        err = (struct err){0};
        assert_int_equal(config_set(&config, wrong[i], "-E", &err), RC_INVALID);
        assert_null(strstr(err.msg, "hunter2"));
    }
    config_forget_users(&config);
    assert_int_equal(config.user_count, 0);
}

static enum rc load_text(const char *text, struct err *err)
{
    char path[] = "/tmp/test_config_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    enum rc rc = config_load_file(&config, path, err);
    unlink(path);
    return rc;
}

static void file_forms(void **state)
{
    (void)state;
    assert_int_equal(load_text("", NULL), RC_OK);
    assert_int_equal(load_text("# nothing\n---\n", NULL), RC_OK);
    assert_int_equal(load_text("security:\n  users:\n    amy: secret\n", NULL), RC_OK);
    assert_string_equal(config.users[0].password, "secret");
    assert_int_equal(load_text("http:\n  # port: 1\nstorage.wal:\n  size: 8mb\n", NULL), RC_OK);
    assert_int_equal(config.storage_wal_size, 8 * MIB);
    assert_int_equal(load_text("http:\n  port: 9400\n  max_in_flight: 8mb\n"
                               "network.host: \"::1\"\nnode: {name: 'n 1'}\n"
                               "storage:\n  catalog:\n    map_size: 1mb\n  wal.size: 16mb\n",
                               NULL),
                     RC_OK);
    assert_int_equal(config.http_port, 9400);
    assert_int_equal(config.http_max_in_flight, 8 * MIB);
    assert_string_equal(config.network_host, "::1");
    assert_string_equal(config.node_name, "n 1");
    assert_int_equal(config.storage_catalog_map_size, MIB);
    assert_int_equal(config.storage_wal_size, 16 * MIB);
}

static void file_complaints(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *line; /* in the message */
        const char *what;
    } rows[] = {
        {"http.port: 1\nhttp.prot: 2\n", ":2: ", "unknown setting [http.prot]"},
        {"http:\n  port: x\n", ":2: ", "http.port: bad value [x]"},
        {"http:\n  port: 1\nhttp.port: 2\n", ":3: ", "given twice: [http.port]"},
        {"nosuch:\n  a: 1\n", ":2: ", "[nosuch]"},
        {"http:\n  port:\n    a: 1\n", ":3: ", "a plain value is needed for [http.port]"},
        {"http.port: [1]\n", ":1: ", "a plain value is needed for"},
        {"- a\n", ":1: ", "a plain value"},
        {"word\n", ":1: ", "[word]"},
        {"http.port:\n", ":1: ", "bad value []"},
        {"nosuch:\n", ":1: ", "unknown setting [nosuch]"},
        {"a: \"\n", ":2: ", "not YAML"},
        {"http.port: 1\n\tx: 2\n", ":2: ", "not YAML"},
        {"http.port: 1\n---\nhttp.port: 2\n", ":2: ", "more than one document"},
        {"? {a: b}\n: c\n", ":1: ", "a mapping as a name"},
        {"a: &x 1\nb: *x\n", ":1: ", "unknown setting [a]"},
        {"path.data: \"a\\0b\"\n", ":1: ", "a zero byte"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_int_equal(load_text(rows[i].text, &err), RC_INVALID);
        if (strstr(err.msg, rows[i].line) == NULL || strstr(err.msg, rows[i].what) == NULL)
            fail_msg("row %zu: %s", i, err.msg);
        assert_null(strchr(err.msg, '\n'));
    }
    struct err err = {0};
    assert_int_equal(config_load_file(&config, "/nonexistent/stowd.yml", &err), RC_IO);
    assert_string_equal(err.msg, "/nonexistent/stowd.yml: No such file or directory");
}

static void example_is_what_the_table_says(void **state)
{
    (void)state;
    struct buf expected = {0};
    static char text[65536];
    config_print_example(&expected);
    FILE *f = fopen("config/stowd.yml", "re");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    buf_put_byte(&expected, 0);
    text[n] = '\0';
    assert_string_equal(text, (const char *)expected.ptr);
    /* As it stands, and with every comment sign of a setting gone, it loads and changes nothing. */
    struct config untouched = config;
    assert_int_equal(config_load_file(&config, "config/stowd.yml", NULL), RC_OK);
    for (char *p = text; (p = strstr(p, "\n#")) != NULL; p++)
        if (p[2] != ' ')
            memmove(p + 1, p + 2, strlen(p + 2) + 1);
    assert_int_equal(load_text(text, NULL), RC_OK);
    assert_true(config.http_port == untouched.http_port);
    assert_true(config.storage_reserve == untouched.storage_reserve);
    assert_string_equal(config.node_name, "");
    buf_done(&expected);
}

static void help_names_everything(void **state)
{
    (void)state;
    struct buf help = {0};
    config_print_help(&help);
    buf_put_byte(&help, 0);
#define NAMED(name) assert_non_null(strstr((const char *)help.ptr, "  " name " = "));
#define SECTION(title)
#define TEXT(field, name, value, help_)                   NAMED(name)
#define CHOICE(field, name, value, choices, help_)        NAMED(name)
#define FLAG(field, name, value, help_)                   NAMED(name)
#define COUNT(field, name, value, least, most, help_)     NAMED(name)
#define SIZE(field, name, value, least, most, help_)      NAMED(name)
#define SIZE_AUTO(field, name, value, least, most, help_) NAMED(name)
#define TIME(field, name, value, least, most, help_)      NAMED(name)
#include "config/options.def"
    buf_done(&help);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        struct buf text = {0};
        config_print_example(&text);
        fwrite(text.ptr, 1, text.len, stdout);
        buf_done(&text);
        return 0;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(defaults),
        TEST(values),
        TEST(words),
        TEST(environment),
        TEST(users),
        TEST(file_forms),
        TEST(file_complaints),
        TEST(help_names_everything),
        TEST(example_is_what_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
