/* SPDX-License-Identifier: Apache-2.0 */
/* The process: arguments, settings, wiring, signals, orderly stop. Reads from top to bottom.
 *
 * Exit codes (sysexits.h): 0 orderly stop or --help; 64 wrong flags; 78 wrong settings; 69 the port
 * is not to be had; 73 the data folder cannot be made or used; 75 another process has it; 65 what
 * is in it is damaged; 71 no threads or memory; 74 the log or the catalog could not be written any
 * more. */
#include "api/api.h"
#include "config/config.h"
#include "server/guard.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/log.h"
#include "server/tls.h"
#include "storage/io.h"
#include "storage/store.h"
#include "storage/work.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define STOWD_VERSION "0.1.0"
#define DEFAULT_FILE  "/etc/stowd/stowd.yml"
/* Time for the 503s that a failed log leaves behind. */
#define FATAL_GRACE_MS 500
/* Blocks of this size go back to the system when freed. glibc would raise the limit to 32 MB by
 * itself and then keep the bodies of many requests in its arenas. */
#define MMAP_BYTES (4 * 1024 * 1024)
/* An arena keeps so much free memory at its end: giving pages back and taking them again costs a
 * fault for each. */
#define TRIM_BYTES (8 * 1024 * 1024)
/* An arena grows by so much more than was asked for: each growth is a system call. */
#define PAD_BYTES (1024 * 1024)

/* What the callbacks of storage/ need; set before the threads start. */
struct daemon {
    struct config config;
    bool accept_loss;
    pthread_t main;
    _Atomic bool failed; /* the log can't be written */
    struct work *work;
    struct store *store;
    struct api *api;
    struct http *_Atomic http;
    struct guard guard;
    struct tls *tls; /* NULL: plain HTTP */
};

static struct daemon self;

static int fail(int code, const struct err *err)
{
    log_event(LOG_ERROR, "%s", err->msg);
    return code;
}

/* ---- arguments */

static void print_help(void)
{
    struct buf text = {0};
    BUF_PUT_LIT(
        &text,
        "Usage: stowd [-E name=value]... [--config FILE] [--accept-loss]\n"
        "  -E name=value   set a setting; wins over STOWD_NAME in the environment, which "
        "wins over the file\n"
        "  --config FILE   settings in YAML (default " DEFAULT_FILE ", if there)\n"
        "  --accept-loss   start although the write-ahead log is damaged; says what is lost\n"
        "  --help          this text\n"
        "  --version\n"
        "\nSettings, with their defaults:\n");
    config_print_help(&text);
    fwrite(text.ptr, 1, text.len, stdout);
    buf_done(&text);
}

struct arguments {
    const char *file;
    char **assignments; /* of -E, in order */
    size_t count;
    bool accept_loss;
};

/* -1: go on. Else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *out)
{
    enum { OPT_CONFIG = 256, OPT_ACCEPT_LOSS, OPT_HELP, OPT_VERSION };
    static const struct option options[] = {
        {"config", required_argument, NULL, OPT_CONFIG},
        {"accept-loss", no_argument, NULL, OPT_ACCEPT_LOSS},
        {"help", no_argument, NULL, OPT_HELP},
        {"version", no_argument, NULL, OPT_VERSION},
        {NULL, 0, NULL, 0},
    };
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":E:h", options, NULL)) != -1) {
        switch (c) {
        case 'E':
            out->assignments[out->count++] = optarg;
            break;
        case OPT_CONFIG:
            out->file = optarg;
            break;
        case OPT_ACCEPT_LOSS:
            out->accept_loss = true;
            break;
        case 'h':
        case OPT_HELP:
            print_help();
            return EX_OK;
        case OPT_VERSION:
            puts("stowd " STOWD_VERSION);
            return EX_OK;
        default:
            fprintf(stderr, "stowd: %s [%s], see stowd --help\n",
                    c == ':' ? "a value is missing after" : "unknown flag", argv[optind - 1]);
            return EX_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "stowd: unexpected argument [%s], see stowd --help\n", argv[optind]);
        return EX_USAGE;
    }
    return -1;
}

static enum rc load_settings(struct config *config, const struct arguments *arguments,
                             struct err *err)
{
    const char *file = arguments->file;
    if (file == NULL && access(DEFAULT_FILE, F_OK) == 0)
        file = DEFAULT_FILE;
    TRY(config_init(config, err));
    if (file != NULL)
        TRY(config_load_file(config, file, err));
    TRY(config_load_env(config, environ, err));
    for (size_t i = 0; i < arguments->count; i++) {
        char *assignment = arguments->assignments[i];
        TRY(config_set(config, assignment, "-E", err));
        /* Not to be seen in the list of processes any longer. */
        if (strncmp(assignment, "security.users.", 15) == 0)
            memset(strchr(assignment, '='), '=', strlen(strchr(assignment, '=')));
    }
    return RC_OK;
}

/* ---- wiring */

static void on_event(void *arg, int severity, const char *text)
{
    (void)arg;
    log_event(severity, "%s", text);
}

/* Any thread: nothing more is acknowledged; the main thread ends the process. */
static void on_fatal(void *arg, const char *text)
{
    (void)arg;
    atomic_store(&self.failed, true);
    log_event(LOG_ERROR, "%s", text);
    pthread_kill(self.main, SIGUSR1);
}

static uint64_t reserve_bytes(const struct config *config)
{
    struct statvfs fs;
    if (config->storage_reserve != CONFIG_AUTO)
        return config->storage_reserve;
    if (statvfs(config->path_data, &fs) != 0)
        return GIB;
    uint64_t share = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
    return share < GIB ? share : GIB;
}

/* "a/b/c" with all that is missing. */
static enum rc make_folder(const char *path, struct err *err)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    enum rc rc = RC_OK;
    for (char *p = copy + 1; rc == RC_OK && *copy != '\0' && p[-1] != '\0'; p++) {
        char c = *p;
        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        if (mkdir(copy, 0750) != 0 && errno != EEXIST)
            rc = err_set(err, RC_IO, errno, "path.data [%s]: cannot make %s: %s", path, copy,
                         strerror(errno));
        *p = c;
    }
    free(copy);
    struct stat st;
    if (rc == RC_OK && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        rc = err_set(err, RC_IO, ENOTDIR, "path.data [%s] is not a folder", path);
    return rc;
}

static int store_exit_code(enum rc rc)
{
    switch (rc) {
    case RC_BUSY:
        return EX_TEMPFAIL;
    case RC_CORRUPT:
    case RC_UNSUPPORTED:
        return EX_DATAERR;
    case RC_NOMEM:
        return EX_OSERR;
    default:
        return EX_CANTCREAT;
    }
}

/* For tests: STOWD_IO_FAULT breaks the disk (storage/io.h), STOWD_TEST_HASH_BITS=n makes hashes of
 * ids collide. */
static unsigned hash_bits_from_env(void)
{
    const char *text = getenv("STOWD_TEST_HASH_BITS");
    unsigned long bits = text == NULL ? 0 : strtoul(text, NULL, 10);
    return bits < 64 ? (unsigned)bits : 0;
}

static enum rc open_store(struct err *err)
{
    const struct config *config = &self.config;
    io_fault_from_env();
    const struct store_options options = {
        .path_data = config->path_data,
        .wal_bytes = config->storage_wal_size,
        .segment_bytes = config->storage_segment_size,
        .reserve_bytes = reserve_bytes(config),
        .cache_bytes = config->storage_cache_size,
        .id_memory_bytes = config->storage_ids_memory,
        .catalog_map_bytes = config->storage_catalog_map_size,
        .checkpoint_ms = config->storage_checkpoint_interval,
        .gc_deletes_ms = config->index_gc_deletes,
        .idle_seal_ms = config->storage_idle_seal,
        .scrub_rate = config->storage_scrub_rate,
        .scrub_interval_ms = config->storage_scrub_interval,
        .accept_loss = self.accept_loss,
        .work = self.work,
        .event = on_event,
        .fatal = on_fatal,
        .test_hash_bits = hash_bits_from_env(),
    };
    return store_open(&options, &self.store, err);
}

static void on_gauges(void *arg, struct api_gauges *out)
{
    struct http *http = atomic_load(&self.http);
    (void)arg;
    if (http != NULL)
        http_gauges(http, out);
}

/* Whoever can reach the daemon could make it speak to hosts that only it can reach. On this machine
 * alone that gives nobody more than they have. */
static const char *reindex_whitelist(void)
{
    const char *set = self.config.reindex_remote_whitelist;
    return strcmp(set, "auto") != 0 ? set : self.guard.local ? "*" : "";
}

static enum rc create_api(struct err *err)
{
    static char host_name[256];
    const struct config *config = &self.config;
    struct api_user *users = (struct api_user *)calloc(config->user_count + 1, sizeof *users);
    if (gethostname(host_name, sizeof host_name - 1) != 0 || *host_name == '\0')
        snprintf(host_name, sizeof host_name, "stowd");
    const struct api_options options = {
        .store = self.store,
        .work = self.work,
        .path_data = config->path_data,
        .cluster_name = config->cluster_name,
        .node_name = *config->node_name != '\0' ? config->node_name : host_name,
        .identity_version = config->identity_version,
        .identity_product = config->identity_product,
        .product_header = config->http_product_header,
        .http_address = *config->http_publish_address != '\0' ? config->http_publish_address : NULL,
        .max_content_length = config->http_max_content_length,
        .reindex_whitelist = reindex_whitelist(),
        .reindex_certificates =
            *config->reindex_ssl_authorities != '\0' ? config->reindex_ssl_authorities : NULL,
        .users_file = self.guard.on ? self.guard.users_file : NULL,
        .fixed_users = users,
        .fixed_user_count = config->user_count,
        .gauges = on_gauges,
        .retention_ms = config->lifecycle_poll_interval,
        .event = on_event,
    };
    for (size_t i = 0; users != NULL && i < config->user_count; i++)
        users[i] = (struct api_user){config->users[i].name, config->users[i].password};
    enum rc rc = users == NULL ? err_set(err, RC_NOMEM, 0, "out of memory")
                               : api_create(&options, &self.api, err);
    free(users);
    config_forget_users(&self.config);
    return rc;
}

static enum rc start_http(int listen_fd, struct err *err)
{
    const struct http_options options = {.config = &self.config,
                                         .api = self.api,
                                         .work = self.work,
                                         .tls_callback = self.tls != NULL ? tls_callback() : NULL,
                                         .listen_fd = listen_fd,
                                         .failed = &self.failed};
    struct http *http;
    TRY(http_start(&options, &http, err));
    atomic_store(&self.http, http);
    return RC_OK;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- running */

/* The threads inherit the mask: signals come to wait_for_end() alone. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void reload(void)
{
    struct err users = {0}, pair = {0};
    bool changed = false;
    if (api_reload(self.api, &users) != RC_OK)
        log_event(LOG_ERROR, "SIGHUP: the users stay as they were: %s", users.msg);
    else if (self.guard.on)
        log_event(LOG_INFO, "SIGHUP: users read again");
    if (self.tls == NULL) {
        if (!self.guard.on)
            log_event(LOG_INFO, "SIGHUP: nothing to load again");
        return;
    }
    if (tls_reload(self.tls, &changed, &pair) != RC_OK)
        log_event(LOG_ERROR, "SIGHUP: the certificate stays as it was: %s", pair.msg);
    else
        log_event(LOG_INFO, "SIGHUP: the certificate is %s", changed ? "a new one" : "the same");
}

static void wait_for_end(const sigset_t *set)
{
    for (;;) {
        int number = 0;
        if (sigwait(set, &number) != 0)
            continue;
        if (atomic_load(&self.failed))
            return;
        if (number == SIGTERM || number == SIGINT) {
            log_event(LOG_INFO, "stopping: %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
            return;
        }
        if (number == SIGHUP)
            reload();
    }
}

/* The log can't be written: what waits gets its 503, then the process ends at once. A checkpoint
 * would only add to the damage; the next start reads what was acknowledged. */
static int end_failed(void)
{
    nanosleep(&(struct timespec){0, FATAL_GRACE_MS * 1000000l}, NULL);
    _exit(EX_IOERR);
}

static int stop(void)
{
    api_stop(self.api);
    size_t left = http_stop(self.http);
    if (atomic_load(&self.failed))
        end_failed();
    if (left > 0) {
        /* They hold what would be torn down. Everything acknowledged is in the log. */
        log_event(LOG_WARN, "stopped with %zu requests unanswered", left);
        _exit(EX_OK);
    }
    tls_close(self.tls);
    api_destroy(self.api);
    store_close(self.store);
    work_stop(self.work);
    if (atomic_load(&self.failed))
        return EX_IOERR;
    log_event(LOG_INFO, "stopped");
    return EX_OK;
}

static size_t processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (size_t)n;
}

static int run(void)
{
    const struct config *config = &self.config;
    struct err err = {0};
    sigset_t signals;
    int listen_fd;

    self.main = pthread_self();
    block_signals(&signals);
    raise_descriptor_limit();
    enum rc rc = listen_bind(config->network_host, config->http_port, &listen_fd, &err);
    if (rc != RC_OK)
        return fail(EX_UNAVAILABLE, &err);
    if (guard_decide(config, listen_fd, &self.guard, &err) != RC_OK ||
        (*config->http_tls_certificate != '\0' &&
         tls_open(config->http_tls_certificate, config->http_tls_key, &self.tls, &err) != RC_OK))
        return fail(EX_CONFIG, &err);
    if (make_folder(config->path_data, &err) != RC_OK)
        return fail(EX_CANTCREAT, &err);
    size_t workers = config->storage_workers > 0 ? (size_t)config->storage_workers : processors();
    if (work_start(workers, &self.work, &err) != RC_OK)
        return fail(EX_OSERR, &err);
    rc = open_store(&err);
    if (rc != RC_OK) {
        work_stop(self.work);
        return fail(store_exit_code(rc), &err);
    }
    if (create_api(&err) != RC_OK || start_http(listen_fd, &err) != RC_OK) {
        api_destroy(self.api);
        store_close(self.store);
        work_stop(self.work);
        return fail(EX_OSERR, &err);
    }
    log_event(LOG_INFO, "stowd " STOWD_VERSION " serves %s on %s%s with %zu workers%s",
              config->path_data, self.tls != NULL ? "https://" : "", http_address(self.http),
              workers, self.guard.on ? ", security on" : "");
    wait_for_end(&signals);
    return atomic_load(&self.failed) ? end_failed() : stop();
}

static void tune_malloc(void)
{
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    mallopt(M_TOP_PAD, PAD_BYTES);
    /* glibc would make one for each of our threads, and each keeps what is freed in it: a fifth
     * more memory once the block cache is full, and no faster. */
    mallopt(M_ARENA_MAX, (int)processors());
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct err err = {0};

    arguments.assignments = (char **)calloc((size_t)argc + 1, sizeof(char *));
    if (arguments.assignments == NULL)
        return EX_OSERR;
    int code = parse_arguments(argc, argv, &arguments);
    if (code < 0 && load_settings(&self.config, &arguments, &err) != RC_OK) {
        fprintf(stderr, "stowd: %s\n", err.msg);
        code = EX_CONFIG;
    }
    free(arguments.assignments);
    if (code < 0) {
        tune_malloc();
        log_set_level(self.config.log_level);
        log_set_format(self.config.log_format);
        self.accept_loss = arguments.accept_loss;
        code = run();
    }
    config_done(&self.config);
    return code;
}
