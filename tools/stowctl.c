/* SPDX-License-Identifier: Apache-2.0 */
/* stowctl: look at, check and repair a data directory while no daemon has it; back one up.
 *
 * Exit codes: 0 done, no damage; 1 damage was found (and, by rebuild, repaired as far as possible);
 * 64 wrong arguments; 65 what is there cannot be used; 71 no memory; 73 nothing of that name;
 * 74 reading or writing failed; 75 a daemon has the directory. */
#include "config/limits.h"
#include "storage/check.h"
#include "storage/io.h"
#include "storage/rebuild.h"
#include "tools/stowctl_backup.h"
#include "tools/stowctl_user.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define VERSION     "0.1.0"
#define EXIT_DAMAGE 1

static const char help[] =
    "Usage: stowctl COMMAND [OPTION]... PATH\n"
    "\n"
    "  check DIR           verify catalog, blocks, segment files and log of a data directory;\n"
    "                      count documents and bytes\n"
    "  rebuild DIR         make the catalog again from segments, log and metadata.json; the old "
    "one\n"
    "                      is kept as catalog.damaged-N\n"
    "  dump DIR|FILE       list a data directory, its log (DIR/wal), a segment or a block record\n"
    "      --rows          ... with the rows of the blocks\n"
    "      --hex           ... with their bytes\n"
    "  backup DIR          copy the data directory of a daemon, running or not, to DIR, see\n"
    "                      stowctl backup --help\n"
    "  restore BACKUP DIR  make a data directory of a backup\n"
    "  user ...            users and their roles, see stowctl user --help\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 no damage, 1 damage found, 64 wrong arguments, 65 unusable data, 71 no memory,\n"
    "73 no such directory, 74 input or output failed, 75 a daemon has the directory.\n";

static void print_line(void *arg, const char *text)
{
    (void)arg;
    puts(text);
}

int stowctl_failed(enum rc rc, const struct err *err)
{
    fflush(stdout);
    fprintf(stderr, "stowctl: %s\n", err->msg[0] != 0 ? err->msg : "failed");
    switch (rc) {
    case RC_BUSY:
        return EX_TEMPFAIL;
    case RC_NOMEM:
        return EX_OSERR;
    case RC_INVALID:
        return EX_CANTCREAT;
    case RC_CORRUPT:
    case RC_UNSUPPORTED:
    case RC_TOO_LARGE:
        return EX_DATAERR;
    default:
        return EX_IOERR;
    }
}

static int check_here(const char *dir)
{
    struct check_result r = {0};
    struct err err = {0};
    enum rc rc = check_run(dir, print_line, NULL, &r, &err);
    if (rc != RC_OK)
        return stowctl_failed(rc, &err);
    printf(
        "%llu indices, %llu documents, %llu rows, %llu blocks, %llu bytes in segments, %llu in the "
        "catalog, %llu records in the log: %llu damaged\n",
        (unsigned long long)r.indices, (unsigned long long)r.docs, (unsigned long long)r.rows,
        (unsigned long long)r.blocks, (unsigned long long)r.segment_bytes,
        (unsigned long long)r.catalog_bytes, (unsigned long long)r.log_records,
        (unsigned long long)r.damage);
    return r.damage == 0 ? EX_OK : EXIT_DAMAGE;
}

/* In a process of its own: LMDB meets some kinds of damage by ending it. */
static int run_check(const char *dir, unsigned flags)
{
    int status = 0;
    (void)flags;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return check_here(dir);
    if (child == 0) {
        int code = check_here(dir);
        fflush(stdout);
        _exit(code);
    }
    while (waitpid(child, &status, 0) < 0)
        continue;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    printf("damage: catalog: reading it ended by %s; run stowctl rebuild\n",
           strsignal(WTERMSIG(status)));
    return EXIT_DAMAGE;
}

static int run_rebuild(const char *dir, unsigned flags)
{
    struct rebuild_result r = {0};
    struct err err = {0};
    (void)flags;
    enum rc rc = rebuild_run(dir, print_line, NULL, &r, &err);
    if (rc != RC_OK)
        return stowctl_failed(rc, &err);
    printf(
        "rebuilt: %llu indices, %llu documents, %llu rows in %llu blocks, %llu rows from the log; "
        "%llu places were damaged\n",
        (unsigned long long)r.indices, (unsigned long long)r.docs, (unsigned long long)r.rows,
        (unsigned long long)r.blocks, (unsigned long long)r.log_rows, (unsigned long long)r.damage);
    return r.damage == 0 ? EX_OK : EXIT_DAMAGE;
}

static int run_dump(const char *path, unsigned flags)
{
    struct err err = {0};
    enum rc rc = dump_path(path, flags, print_line, NULL, &err);
    if (rc == RC_CORRUPT && err.msg[0] == 0)
        return EXIT_DAMAGE;
    return rc == RC_OK ? EX_OK : stowctl_failed(rc, &err);
}

static const struct command {
    const char *name;
    int (*run)(const char *path, unsigned flags);
    bool takes_flags;
} commands[] = {
    {"check", run_check, false},
    {"rebuild", run_rebuild, false},
    {"dump", run_dump, true},
};

static int wrong(const char *what, const char *which)
{
    fprintf(stderr, "stowctl: %s [%s], see stowctl --help\n", what, which);
    return EX_USAGE;
}

int main(int argc, char **argv)
{
    io_fault_from_env(); /* for tests */
    if (argc > 1 && strcmp(argv[1], "backup") == 0)
        return stowctl_backup(argc - 1, argv + 1, VERSION);
    if (argc > 1 && strcmp(argv[1], "restore") == 0)
        return stowctl_restore(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "user") == 0)
        return stowctl_user(argc - 1, argv + 1);
    static const struct option options[] = {
        {"rows", no_argument, NULL, 'r'},
        {"hex", no_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    unsigned flags = 0;
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h' || c == 'V') {
            fputs(c == 'h' ? help : "stowctl " VERSION "\n", stdout);
            return EX_OK;
        }
        if (c == '?')
            return wrong("unknown flag", argv[optind - 1]);
        flags |= c == 'r' ? DUMP_ROWS : DUMP_HEX;
    }
    if (argc - optind != 2)
        return wrong("a command and a path are wanted", argc > optind ? argv[optind] : "");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(argv[optind], commands[i].name) != 0)
            continue;
        if (flags != 0 && !commands[i].takes_flags)
            return wrong("--rows and --hex belong to dump, not to", commands[i].name);
        return commands[i].run(argv[optind + 1], flags);
    }
    return wrong("unknown command", argv[optind]);
}
