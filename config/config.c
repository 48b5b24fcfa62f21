/* SPDX-License-Identifier: Apache-2.0 */
/* Settings; see config.h. All of them go through set_value(). */
#include "config/config.h"

#include "config/users.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <yaml.h>

enum kind { KIND_TEXT, KIND_CHOICE, KIND_FLAG, KIND_COUNT, KIND_SIZE, KIND_SIZE_AUTO, KIND_TIME };

struct option {
    const char *section; /* set: a title, not a setting */
    const char *name;
    const char *value; /* the default, as written */
    const char *help;
    const char *choices;
    enum kind kind;
    size_t field; /* offset in struct config */
    uint64_t least, most;
};

#define AT(f)          offsetof(struct config, f)
#define SECTION(title) {.section = (title)},
#define TEXT(f, n, v, h)                                                                           \
    {.kind = KIND_TEXT, .field = AT(f), .name = (n), .value = (v), .help = (h)},
#define CHOICE(f, n, v, c, h)                                                                      \
    {.kind = KIND_CHOICE, .field = AT(f), .name = (n), .value = (v), .help = (h), .choices = (c)},
#define FLAG(f, n, v, h)                                                                           \
    {.kind = KIND_FLAG, .field = AT(f), .name = (n), .value = (v), .help = (h)},
#define NUMBER(k, f, n, v, lo, hi, h)                                                              \
    {.kind = (k),                                                                                  \
     .field = AT(f),                                                                               \
     .name = (n),                                                                                  \
     .value = (v),                                                                                 \
     .help = (h),                                                                                  \
     .least = (lo),                                                                                \
     .most = (hi)},
#define COUNT(f, n, v, lo, hi, h)     NUMBER(KIND_COUNT, f, n, v, lo, hi, h)
#define SIZE(f, n, v, lo, hi, h)      NUMBER(KIND_SIZE, f, n, v, lo, hi, h)
#define SIZE_AUTO(f, n, v, lo, hi, h) NUMBER(KIND_SIZE_AUTO, f, n, v, lo, hi, h)
#define TIME(f, n, v, lo, hi, h)      NUMBER(KIND_TIME, f, n, v, lo, hi, h)
static const struct option OPTIONS[] = {
#include "config/options.def"
};

struct unit {
    const char *name;
    uint64_t factor;
};
static const struct unit SIZE_UNITS[] = {
    {"", 1}, {"b", 1}, {"kb", KIB}, {"mb", MIB}, {"gb", GIB}, {NULL, 0},
};
static const struct unit TIME_UNITS[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0},
};
static const struct unit NO_UNITS[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(const struct option *option)
{
    switch (option->kind) {
    case KIND_SIZE:
    case KIND_SIZE_AUTO:
        return SIZE_UNITS;
    case KIND_TIME:
        return TIME_UNITS;
    default:
        return NO_UNITS;
    }
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].name != NULL && strcmp(OPTIONS[i].name, name) == 0)
            return &OPTIONS[i];
    return NULL;
}

/* Is there a setting under this dotted prefix? */
static bool is_section(const char *prefix)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].name != NULL && strncmp(OPTIONS[i].name, prefix, n) == 0 &&
            OPTIONS[i].name[n] == '.')
            return true;
    return false;
}

/* ---- values */

/* Digits and a unit. Written the way users do: "64MB" is "64mb". */
static bool parse_number(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t n = 0;
    const char *p = text;

    while (*p >= '0' && *p <= '9') {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
        p++;
    }
    if (p == text)
        return false;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (strcasecmp(u->name, p) == 0)
            return !__builtin_mul_overflow(n, u->factor, out);
    /* Nothing of a thing has no unit. */
    return n == 0 && *p == '\0' && (*out = 0, true);
}

/* A number the way the table would write it. */
static void print_number(char *out, size_t size, uint64_t n, const struct unit *units)
{
    const struct unit *best = units;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (n % u->factor == 0 && n >= u->factor && *u->name != '\0')
            best = u;
    snprintf(out, size, "%llu%s", (unsigned long long)(n / best->factor), n == 0 ? "" : best->name);
}

/* The choice that text is, in any case: its place in "a|b|c" and its length. */
static const char *find_choice(const char *choices, const char *text, size_t *len_out)
{
    size_t n = strlen(text);
    for (const char *c = choices;;) {
        size_t len = strcspn(c, "|");
        if (len == n && strncasecmp(c, text, n) == 0) {
            *len_out = len;
            return c;
        }
        if (c[len] == '\0')
            return NULL;
        c += len + 1;
    }
}

/* "what is allowed", for messages and --help. */
static void describe(const struct option *o, char *out, size_t size)
{
    char least[32], most[32];
    switch (o->kind) {
    case KIND_TEXT:
        snprintf(out, size, "text");
        return;
    case KIND_CHOICE:
        snprintf(out, size, "%s", o->choices);
        return;
    case KIND_FLAG:
        snprintf(out, size, "true|false");
        return;
    default:
        print_number(least, sizeof least, o->least, units_of(o));
        print_number(most, sizeof most, o->most, units_of(o));
        snprintf(out, size, "%s to %s%s%s", least, most,
                 o->kind == KIND_SIZE || o->kind == KIND_SIZE_AUTO ? " (b, kb, mb, gb)"
                 : o->kind == KIND_TIME                            ? " (ms, s, m, h)"
                                                                   : "",
                 o->kind == KIND_SIZE_AUTO ? " or auto" : "");
        return;
    }
}

static bool set_text(char **field, const char *text, size_t len)
{
    char *copy = strndup(text, len);
    if (copy == NULL)
        return false;
    free(*field);
    *field = copy;
    return true;
}

static bool parse_value(const struct option *o, const char *text, void *field)
{
    uint64_t n;
    size_t len;
    const char *choice;

    switch (o->kind) {
    case KIND_TEXT:
        return set_text((char **)field, text, strlen(text));
    case KIND_CHOICE:
        choice = find_choice(o->choices, text, &len);
        return choice != NULL && set_text((char **)field, choice, len);
    case KIND_FLAG:
        choice = find_choice("true|false", text, &len);
        if (choice == NULL)
            return false;
        *(bool *)field = *choice == 't';
        return true;
    default:
        break;
    }
    if (o->kind == KIND_SIZE_AUTO && strcasecmp(text, "auto") == 0)
        n = CONFIG_AUTO;
    else if (!parse_number(text, units_of(o), &n) || n < o->least || n > o->most)
        return false;
    *(uint64_t *)field = n;
    return true;
}

static enum rc set_value(struct config *config, const struct option *o, const char *text,
                         const char *source, struct err *err)
{
    char allowed[96];
    if (parse_value(o, text, (char *)config + o->field))
        return RC_OK;
    describe(o, allowed, sizeof allowed);
    return err_set(err, RC_INVALID, 0, "%s: %s: bad value [%.80s], allowed: %s", source, o->name,
                   text, allowed);
}

static enum rc unknown(const char *name, const char *source, struct err *err)
{
    return err_set(err, RC_INVALID, 0,
                   "%s: unknown setting [%.80s], allowed are those that --help lists", source,
                   name);
}

enum rc config_init(struct config *config, struct err *err)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].name != NULL)
            TRY(set_value(config, &OPTIONS[i], OPTIONS[i].value, "default", err));
    return RC_OK;
}

void config_done(struct config *config)
{
    config_forget_users(config);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].name != NULL &&
            (OPTIONS[i].kind == KIND_TEXT || OPTIONS[i].kind == KIND_CHOICE)) {
            char **text = (char **)(void *)((char *)config + OPTIONS[i].field);
            free(*text);
            *text = NULL;
        }
}

/* ---- security.users.NAME */

#define USERS_PREFIX "security.users."

static const char *user_name(const char *setting)
{
    size_t n = sizeof USERS_PREFIX - 1;
    return strncmp(setting, USERS_PREFIX, n) == 0 && setting[n] != '\0' ? setting + n : NULL;
}

/* The password that a value stands for. No error text repeats it. */
static enum rc read_password(const char *value, const char *name, const char *source, char **out,
                             struct err *err)
{
    char line[USERS_PASSWORD_BYTES + 2] = "";
    if (value[0] == '@') {
        FILE *file = fopen(value + 1, "re");
        bool ok = file != NULL && fgets(line, sizeof line, file) != NULL;
        int number = errno;
        if (file != NULL)
            fclose(file);
        if (!ok)
            return err_set(err, RC_INVALID, number,
                           "%s: " USERS_PREFIX "%.64s: no password in file [%.100s]", source, name,
                           value + 1);
        line[strcspn(line, "\r\n")] = '\0';
        value = line;
    }
    size_t len = strlen(value);
    *out = len == 0 || len > USERS_PASSWORD_BYTES ? NULL : strdup(value);
    explicit_bzero(line, sizeof line);
    return *out != NULL ? RC_OK
                        : err_set(err, RC_INVALID, 0,
                                  "%s: " USERS_PREFIX "%.64s: a password has 1 to %d bytes", source,
                                  name, USERS_PASSWORD_BYTES);
}

static void forget_password(char *password)
{
    if (password != NULL)
        explicit_bzero(password, strlen(password));
    free(password);
}

static enum rc set_user(struct config *config, const char *name, const char *value,
                        const char *source, struct err *err)
{
    char *password;
    size_t at = 0;
    if (!users_name_ok(slice_str(name)))
        return err_set(err, RC_INVALID, 0, "%s: bad user name [%.80s]", source, name);
    TRY(read_password(value, name, source, &password, err));
    while (at < config->user_count && strcmp(config->users[at].name, name) != 0)
        at++;
    if (at < config->user_count) { /* C1 */
        forget_password(config->users[at].password);
        config->users[at].password = password;
        return RC_OK;
    }
    struct config_user *more =
        (struct config_user *)realloc(config->users, (at + 1) * sizeof *more);
    char *copy = more == NULL ? NULL : strdup(name);
    if (more != NULL)
        config->users = more;
    if (copy == NULL) {
        forget_password(password);
        return err_set(err, RC_NOMEM, 0, "%s: out of memory", source);
    }
    more[config->user_count++] = (struct config_user){copy, password};
    return RC_OK;
}

void config_forget_users(struct config *config)
{
    for (size_t i = 0; i < config->user_count; i++) {
        free(config->users[i].name);
        forget_password(config->users[i].password);
    }
    free(config->users);
    config->users = NULL;
    config->user_count = 0;
}

/* ---- environment and flags */

enum rc config_load_env(struct config *config, char *const *environment, struct err *err)
{
    static const char prefix[] = "STOWD_";
    char name[128], source[160];

    for (size_t i = 0; environment[i] != NULL; i++) {
        const char *entry = environment[i];
        const char *equals = strchr(entry, '=');
        if (strncmp(entry, prefix, sizeof prefix - 1) != 0 || equals == NULL ||
            (size_t)(equals - entry) >= sizeof name)
            continue;
        /* A '_' may stand for the dot or for itself: compare with every name. */
        const char *rest = entry + sizeof prefix - 1;
        size_t len = (size_t)(equals - rest);
        const struct option *found = NULL;
        for (size_t k = 0; k < ARRAY_LEN(OPTIONS) && found == NULL; k++) {
            const char *n = OPTIONS[k].name;
            size_t at = 0;
            if (n == NULL || strlen(n) != len)
                continue;
            while (at < len && rest[at] == (n[at] == '.' ? '_' : toupper((unsigned char)n[at])))
                at++;
            if (at == len)
                found = &OPTIONS[k];
        }
        snprintf(source, sizeof source, "environment %.*s", (int)(equals - entry), entry);
        if (found != NULL) {
            TRY(set_value(config, found, equals + 1, source, err));
            continue;
        }
        static const char users[] = "SECURITY_USERS_";
        if (strncmp(rest, users, sizeof users - 1) == 0) {
            size_t n = 0;
            for (const char *p = rest + sizeof users - 1; p < equals; p++)
                name[n++] = (char)tolower((unsigned char)*p);
            name[n] = '\0';
            TRY(set_user(config, name, equals + 1, source, err));
            continue;
        }
        size_t first = strcspn(rest, "_=");
        for (size_t k = 0; k < first; k++)
            name[k] = (char)tolower((unsigned char)rest[k]);
        name[first] = '\0';
        if (rest[first] == '_' && is_section(name))
            return unknown(rest, source, err);
    }
    return RC_OK;
}

enum rc config_set(struct config *config, const char *assignment, const char *source,
                   struct err *err)
{
    char name[128];
    const char *equals = strchr(assignment, '=');
    if (equals == NULL)
        return err_set(err, RC_INVALID, 0, "%s: [%.80s] is not name=value", source, assignment);
    snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
    if (user_name(name) != NULL)
        return set_user(config, user_name(name), equals + 1, source, err);
    const struct option *o = find_option(name);
    if (o == NULL)
        return unknown(name, source, err);
    return set_value(config, o, equals + 1, source, err);
}

/* ---- the file */

#define FILE_DEPTH 8 /* mappings within mappings; names have at most four parts */

struct file {
    struct config *config;
    const char *path;
    char prefix[256]; /* dotted name of the mapping that is open */
    size_t prefix_len[FILE_DEPTH];
    size_t depth;  /* open mappings */
    char key[128]; /* waits for its value */
    bool has_key;
    bool given[ARRAY_LEN(OPTIONS)];
};

static enum rc file_refuse(const struct file *file, const yaml_mark_t *mark, const char *what,
                           const char *detail, struct err *err)
{
    return err_set(err, RC_INVALID, 0, "%s:%zu: %s%s%.80s%s", file->path, mark->line + 1, what,
                   *detail != '\0' ? " [" : "", detail, *detail != '\0' ? "]" : "");
}

static enum rc file_value(struct file *file, const char *text, const yaml_event_t *event,
                          struct err *err)
{
    char name[sizeof file->prefix + sizeof file->key + 1];
    char source[200];

    snprintf(name, sizeof name, "%s%s%s", file->prefix, *file->prefix != '\0' ? "." : "",
             file->key);
    snprintf(source, sizeof source, "%.180s:%zu", file->path, event->start_mark.line + 1);
    if (user_name(name) != NULL)
        return set_user(file->config, user_name(name), text, source, err);
    const struct option *o = find_option(name);
    if (o == NULL) {
        /* "http:" whose lines are all commented out */
        bool nothing = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && *text == '\0';
        return nothing && is_section(name) ? RC_OK : unknown(name, source, err);
    }
    bool *given = &file->given[o - OPTIONS];
    if (*given)
        return file_refuse(file, &event->start_mark, "given twice:", name, err);
    *given = true;
    return set_value(file->config, o, text, source, err);
}

static enum rc file_scalar(struct file *file, const yaml_event_t *event, struct err *err)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return file_refuse(file, &event->start_mark, "a zero byte", "", err);
    if (file->depth == 0)
        return *text == '\0' ? RC_OK
                             : file_refuse(file, &event->start_mark, "not name: value:", text, err);
    if (file->has_key) {
        file->has_key = false;
        return file_value(file, text, event, err);
    }
    if (event->data.scalar.length >= sizeof file->key)
        return file_refuse(file, &event->start_mark, "unknown setting", text, err);
    memcpy(file->key, text, event->data.scalar.length + 1);
    file->has_key = true;
    return RC_OK;
}

static enum rc file_open_mapping(struct file *file, const yaml_event_t *event, struct err *err)
{
    if (file->depth > 0 && !file->has_key)
        return file_refuse(file, &event->start_mark, "a mapping as a name", "", err);
    size_t len = strlen(file->prefix);
    if (file->depth == FILE_DEPTH || len + 1 + sizeof file->key > sizeof file->prefix)
        return file_refuse(file, &event->start_mark, "unknown setting", file->key, err);
    file->prefix_len[file->depth++] = len;
    if (file->has_key)
        snprintf(file->prefix + len, sizeof file->prefix - len, "%s%s", len > 0 ? "." : "",
                 file->key);
    file->has_key = false;
    if (*file->prefix != '\0' && !is_section(file->prefix) &&
        strcmp(file->prefix, "security.users") != 0)
        return file_refuse(file, &event->start_mark,
                           find_option(file->prefix) != NULL ? "a plain value is needed for"
                                                             : "unknown setting",
                           file->prefix, err);
    return RC_OK;
}

static enum rc file_event(struct file *file, const yaml_event_t *event, size_t *documents,
                          struct err *err)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if ((*documents)++ > 0)
            return file_refuse(file, &event->start_mark, "more than one document", "", err);
        return RC_OK;
    case YAML_SCALAR_EVENT:
        return file_scalar(file, event, err);
    case YAML_MAPPING_START_EVENT:
        return file_open_mapping(file, event, err);
    case YAML_MAPPING_END_EVENT:
        file->prefix[file->prefix_len[--file->depth]] = '\0';
        return RC_OK;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_ALIAS_EVENT:
        return file_refuse(file, &event->start_mark, "a plain value is needed for", file->key, err);
    default:
        return RC_OK;
    }
}

enum rc config_load_file(struct config *config, const char *path, struct err *err)
{
    struct file file = {.config = config, .path = path};
    yaml_parser_t parser;
    size_t documents = 0;
    enum rc rc = RC_OK;
    bool end = false;

    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return err_set(err, RC_IO, errno, "%s: %s", path, strerror(errno));
    if (!yaml_parser_initialize(&parser)) {
        fclose(stream);
        return err_set(err, RC_NOMEM, 0, "%s: out of memory", path);
    }
    yaml_parser_set_input_file(&parser, stream);
    while (rc == RC_OK && !end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = file_refuse(
                &file, parser.error == YAML_READER_ERROR ? &parser.mark : &parser.problem_mark,
                "not YAML:", parser.problem != NULL ? parser.problem : "", err);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        rc = file_event(&file, &event, &documents, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    fclose(stream);
    return rc;
}

/* ---- printing */

void config_print_help(struct buf *out)
{
    char allowed[96];
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        const struct option *o = &OPTIONS[i];
        if (o->section != NULL) {
            buf_printf(out, "\n%s\n", o->section);
            continue;
        }
        describe(o, allowed, sizeof allowed);
        buf_printf(out, "  %s = %s\n      %s (%s)\n", o->name, *o->value ? o->value : "\"\"",
                   o->help, allowed);
    }
}

void config_print_example(struct buf *out)
{
    char allowed[96];
    BUF_PUT_LIT(out,
                "# Settings of stowd: every one there is, with its default. Names may be nested "
                "(http: port:)\n"
                "# or dotted. The environment (STOWD_HTTP_PORT=9200) wins over this file, flags "
                "(-E http.port=9200)\n"
                "# win over both.\n");
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        const struct option *o = &OPTIONS[i];
        if (o->section != NULL) {
            buf_printf(out, "\n# ---- %s\n", o->section);
            continue;
        }
        describe(o, allowed, sizeof allowed);
        const char *quote = isalnum((unsigned char)*o->value) || *o->value == '.' ? "" : "\"";
        buf_printf(out, "\n# %c%s\n# (%s)\n#%s: %s%s%s\n", toupper((unsigned char)o->help[0]),
                   o->help + 1, allowed, o->name, quote, o->value, quote);
    }
}
