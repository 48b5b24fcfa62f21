/* SPDX-License-Identifier: Apache-2.0 */
/* stowctl user: who may come in. Works on the users file alone, beside a running daemon, which sees
 * the change within five seconds, or at once with SIGHUP. */
#include "tools/stowctl_user.h"

#include "config/users.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <termios.h>
#include <unistd.h>

static const char help[] =
    "Usage: stowctl user COMMAND [--password-file FILE] PATH [NAME] [ROLE]...\n"
    "\n"
    "  add PATH NAME ROLE...   a new user; asks for the password, or reads a line of standard "
    "input\n"
    "  passwd PATH NAME        another password\n"
    "  role PATH NAME ROLE...  other roles, in place of those there are\n"
    "  remove PATH NAME        the user and, with them, their API keys\n"
    "  list PATH               names and roles\n"
    "\n"
    "PATH is a data directory (its file `users`) or a users file. A ROLE is read, write, manage "
    "or\n"
    "all, for every index or for some: read@logs-*,metrics-*\n"
    "The daemon takes a change over within five seconds.\n";

static int failed(const struct err *err, enum rc rc)
{
    fprintf(stderr, "stowctl: %s\n", err->msg);
    return rc == RC_INVALID || rc == RC_EXISTS || rc == RC_TOO_LARGE ? EX_DATAERR
           : rc == RC_NOT_FOUND                                      ? EX_CANTCREAT
           : rc == RC_NOMEM                                          ? EX_OSERR
                                                                     : EX_IOERR;
}

static int wrong(const char *what)
{
    fprintf(stderr, "stowctl: user: %s, see stowctl user --help\n", what);
    return EX_USAGE;
}

/* A line without echo when somebody types it. */
static bool read_secret(FILE *from, const char *prompt, char *out, size_t size)
{
    struct termios shown, hidden;
    bool typed = tcgetattr(fileno(from), &shown) == 0;
    if (typed) {
        hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(fileno(from), TCSAFLUSH, &hidden);
        fputs(prompt, stderr);
    }
    bool ok = fgets(out, (int)size, from) != NULL;
    if (typed) {
        tcsetattr(fileno(from), TCSAFLUSH, &shown);
        fputc('\n', stderr);
    }
    if (ok)
        out[strcspn(out, "\r\n")] = '\0';
    return ok;
}

/* RC_INVALID: too short, or not typed twice alike. */
static enum rc ask_password(const char *file, char *out, size_t size, struct err *err)
{
    char again[USERS_PASSWORD_BYTES + 2] = "";
    FILE *from = file == NULL || strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    if (from == NULL)
        return err_set(err, RC_IO, errno, "%.150s: %s", file, strerror(errno));
    bool ok = read_secret(from, "Password: ", out, size);
    bool typed = ok && isatty(fileno(from)) == 1;
    if (typed)
        ok = read_secret(from, "Again: ", again, sizeof again);
    if (from != stdin)
        fclose(from);
    enum rc rc = RC_OK;
    if (!ok)
        rc = err_set(err, RC_INVALID, 0, "there is no password to read");
    else if (typed && strcmp(out, again) != 0)
        rc = err_set(err, RC_INVALID, 0, "the two passwords differ");
    else if (strlen(out) < USERS_PASSWORD_LEAST)
        rc = err_set(err, RC_INVALID, 0, "a password has at least %d bytes", USERS_PASSWORD_LEAST);
    explicit_bzero(again, sizeof again);
    return rc;
}

static enum rc list(const char *path, struct err *err)
{
    struct users users = {NULL, 0};
    enum rc rc = users_load(path, &users, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, rc, 0, "%.150s: no such file", path);
    TRY(rc);
    for (size_t i = 0; i < users.count; i++) {
        struct buf roles = {0};
        users_grants_print(&users.user[i].grants, &roles);
        printf("%s %.*s\n", users.user[i].name, (int)roles.len, (const char *)roles.ptr);
        buf_done(&roles);
    }
    users_done(&users);
    return RC_OK;
}

/* The words behind NAME, joined. NULL: memory is out. */
static char *join(char **words, int count)
{
    struct buf text = {0};
    for (int i = 0; i < count; i++) {
        if (i > 0)
            buf_put_byte(&text, ' ');
        buf_put_str(&text, words[i]);
    }
    buf_put_byte(&text, '\0');
    return text.failed ? NULL : (char *)text.ptr;
}

enum command { ADD, PASSWD, ROLE, REMOVE, LIST, COMMANDS };

static enum rc run(enum command command, const char *path, char **rest, int count,
                   const char *password_file, struct err *err)
{
    char password[USERS_PASSWORD_BYTES + 2] = "";
    char *roles = NULL;
    enum rc rc = RC_OK;

    if (command == LIST)
        return list(path, err);
    if (command == REMOVE)
        return users_file_remove(path, rest[0], err);
    if (command == ADD || command == ROLE) {
        roles = join(rest + 1, count - 1);
        if (roles == NULL)
            return err_set(err, RC_NOMEM, 0, "out of memory");
    }
    if (command != ROLE)
        TRY_OUT(ask_password(password_file, password, sizeof password, err));
    rc = users_file_put(path, rest[0], command == ROLE ? NULL : password, roles, command == ADD,
                        err);
out:
    explicit_bzero(password, sizeof password);
    free(roles);
    return rc;
}

int stowctl_user(int argc, char **argv)
{
    static const struct {
        const char *name;
        int least, most; /* words behind PATH */
    } commands[COMMANDS] = {
        {"add", 2, 1000}, {"passwd", 1, 1}, {"role", 2, 1000}, {"remove", 1, 1}, {"list", 0, 0}};
    static const struct option options[] = {{"password-file", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *password_file = NULL;
    char path[4096];
    struct stat st;
    struct err err = {0};
    int c, which = 0;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return EX_OK;
        }
        if (c != 'p')
            return EX_USAGE;
        password_file = optarg;
    }
    argv += optind;
    argc -= optind;
    if (argc < 2)
        return wrong("a command and a path are needed");
    while (which < COMMANDS && strcmp(argv[0], commands[which].name) != 0)
        which++;
    if (which == COMMANDS)
        return wrong("unknown command");
    if (argc - 2 < commands[which].least || argc - 2 > commands[which].most)
        return wrong("wrong number of arguments");
    bool folder = stat(argv[1], &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(path, sizeof path, "%s%s", argv[1], folder ? "/users" : "");
    enum rc rc = run((enum command)which, path, argv + 2, argc - 2, password_file, &err);
    return rc == RC_OK ? EX_OK : failed(&err, rc);
}
