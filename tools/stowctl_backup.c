/* SPDX-License-Identifier: Apache-2.0 */
/* stowctl backup and restore: arguments, priority, words. The work is done in storage/backup.h. */
#include "tools/stowctl_backup.h"

#include "config/config.h"
#include "config/limits.h"
#include "storage/backup.h"

#include <getopt.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_FILE "/etc/stowd/stowd.yml"
#define EXIT_DAMAGE  1

static const char help[] =
    "Usage: stowctl backup [OPTION]... DIR\n"
    "       stowctl restore [--rate BYTES] BACKUP DIR\n"
    "\n"
    "backup copies a data directory to DIR, whether the daemon runs or not. DIR is new, empty, or\n"
    "an earlier backup of the same node: then only what is new is copied, and the earlier backup\n"
    "stays whole until the new one is complete. Everything that was acknowledged before it began\n"
    "is in it. Everything is read back and verified.\n"
    "restore makes a data directory of a backup: DIR is new or empty.\n"
    "\n"
    "  --path.data DIR, -E path.data=DIR\n"
    "                   the data directory; else as stowd finds it: STOWD_PATH_DATA, settings\n"
    "                   file, ./var\n"
    "  --config FILE    settings file (default " DEFAULT_FILE ", if there)\n"
    "  --rate BYTES     read at most so much a second: 500kb, 20mb\n"
    "  --quick          do not read back segments that an earlier backup has verified\n"
    "  --help\n"
    "\n"
    "Exit codes: 0 done; 1 done, but something was damaged in the data directory already and is "
    "so\n"
    "in the backup; 64 wrong arguments; 65 the backup is damaged; 71 no memory; 73 not a data\n"
    "directory, not a backup, or not empty; 74 input or output failed, or the disk is full; 75 a\n"
    "backup or restore is at work there, or the data directory changed too fast.\n";

static void say(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "%s\n", text);
}

static int wrong(bool backup, const char *what, const char *which)
{
    fprintf(stderr, "stowctl: %s [%s], see stowctl %s --help\n", what, which,
            backup ? "backup" : "restore");
    return EX_USAGE;
}

/* 10, 10kb, 10mb, 10gb. */
static bool parse_rate(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        uint64_t bytes;
    } units[] = {{"", 1}, {"b", 1}, {"kb", KIB}, {"mb", MIB}, {"gb", GIB}};
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *text == '-' || n == 0 || n > UINT64_MAX / GIB)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *out = n * units[i].bytes;
            return true;
        }
    return false;
}

/* Reads of others go first; and as many segments as may be are open at once. */
static void be_humble(void)
{
    struct rlimit limit;
    const int whole_process = 1, idle = 3 << 13; /* IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE */
    (void)syscall(SYS_ioprio_set, whole_process, 0, idle);
    (void)setpriority(PRIO_PROCESS, 0, 10);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

struct arguments {
    const char *path_data, *file;
    uint64_t rate;
    bool quick;
};

/* -1: go on. Else the exit code. */
static int parse(int argc, char **argv, bool backup, struct arguments *out)
{
    static const struct option options[] = {
        {"path.data", required_argument, NULL, 'd'},
        {"config", required_argument, NULL, 'c'},
        {"rate", required_argument, NULL, 'r'},
        {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":E:h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return EX_OK;
        }
        if (c == ':' || c == '?')
            return wrong(backup, c == ':' ? "a value is missing after" : "unknown flag",
                         argv[optind - 1]);
        if (!backup && c != 'r')
            return wrong(backup, "this belongs to backup, not to restore", argv[optind - 1]);
        if (c == 'E' && strncmp(optarg, "path.data=", 10) != 0)
            return wrong(backup, "only path.data can be set here, not", optarg);
        if (c == 'r' && !parse_rate(optarg, &out->rate))
            return wrong(backup, "--rate takes bytes a second, like 20mb, not", optarg);
        if (c == 'E' || c == 'd')
            out->path_data = c == 'E' ? optarg + 10 : optarg;
        else if (c == 'c')
            out->file = optarg;
        else if (c == 'q')
            out->quick = true;
    }
    return -1;
}

/* As the daemon finds it. */
static enum rc find_data(const struct arguments *arguments, struct config *config, struct err *err)
{
    const char *file = arguments->file;
    if (file == NULL && access(DEFAULT_FILE, F_OK) == 0)
        file = DEFAULT_FILE;
    if (file != NULL)
        TRY(config_load_file(config, file, err));
    return config_load_env(config, environ, err);
}

static int run_backup(const struct arguments *arguments, const char *path_data, const char *dir,
                      const char *release)
{
    struct backup_options o = {
        .path_data = path_data,
        .dir = dir,
        .release = release,
        .rate = arguments->rate,
        .quick = arguments->quick,
        .test_hold = getenv("STOWD_TEST_BACKUP_HOLD"),
        .say = say,
    };
    struct backup_result r = {0};
    struct err err = {0};
    be_humble();
    enum rc rc = backup_run(&o, &r, &err);
    if (rc != RC_OK)
        return stowctl_failed(rc, &err);
    printf("backup %u of %s: %llu indices, %llu segments of which %llu were there, %llu bytes of "
           "which %llu were copied: %llu damaged\n",
           r.number, path_data, (unsigned long long)r.indices, (unsigned long long)r.segments,
           (unsigned long long)r.kept, (unsigned long long)r.bytes,
           (unsigned long long)r.copied_bytes, (unsigned long long)r.damage);
    return r.damage == 0 ? EX_OK : EXIT_DAMAGE;
}

int stowctl_backup(int argc, char **argv, const char *release)
{
    struct arguments arguments = {0};
    struct config config;
    struct err err = {0};
    int code = parse(argc, argv, true, &arguments);
    if (code >= 0)
        return code;
    if (argc - optind != 1)
        return wrong(true, "one directory is wanted", argc > optind ? argv[argc - 1] : "");
    enum rc rc = config_init(&config, &err);
    if (rc == RC_OK && arguments.path_data == NULL)
        rc = find_data(&arguments, &config, &err);
    if (rc == RC_OK) {
        const char *path = arguments.path_data != NULL ? arguments.path_data : config.path_data;
        code = run_backup(&arguments, path, argv[optind], release);
    } else {
        code = stowctl_failed(rc, &err);
    }
    config_done(&config);
    return code;
}

int stowctl_restore(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct restore_result r = {0};
    struct err err = {0};
    char when[32];
    struct tm tm;
    int code = parse(argc, argv, false, &arguments);
    if (code >= 0)
        return code;
    if (argc - optind != 2)
        return wrong(false, "a backup and a directory are wanted",
                     argc > optind ? argv[argc - 1] : "");
    struct restore_options o = {
        .backup = argv[optind],
        .path_data = argv[optind + 1],
        .rate = arguments.rate,
        .say = say,
    };
    enum rc rc = restore_run(&o, &r, &err);
    if (rc != RC_OK)
        return stowctl_failed(rc, &err);
    time_t t = (time_t)r.time_s;
    gmtime_r(&t, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    printf("restored backup %llu of %s: %llu files, %llu bytes; %llu places were damaged when it "
           "was made\n",
           (unsigned long long)r.number, when, (unsigned long long)r.files,
           (unsigned long long)r.bytes, (unsigned long long)r.damage);
    return r.damage == 0 ? EX_OK : EXIT_DAMAGE;
}
