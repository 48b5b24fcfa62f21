/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that scrubs. Rules U1 to U4 in scrub.h. */
#include "storage/scrub.h"

#include "config/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LIST_BLOCKS 128
/* Bytes after which the thread waits, so that it does not wake up for each block. */
#define PACE_BYTES (256 * KIB)
/* How often it looks for an index that is due while none is. */
#define LOOK_MS 1000

struct scrub {
    struct store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stopping; /* guarded by mutex */
    /* the thread's own */
    uint64_t due_ns; /* monotonic: when what was read so far is paid for */
    uint64_t unpaid; /* bytes read since the last wait */
    uint32_t last;   /* number of the index that had the last turn */
    struct io_file file;
    uint32_t file_index, file_segment;
    struct io_aligned space;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* False: stop. */
static bool wait_until(struct scrub *s, uint64_t until_ns)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->stopping && now_ns() < until_ns) {
        struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
        pthread_cond_timedwait(&s->wake, &s->mutex, &t);
    }
    bool go_on = !s->stopping;
    pthread_mutex_unlock(&s->mutex);
    return go_on;
}

/* U4. False: stop. */
static bool pay(struct scrub *s, uint64_t bytes)
{
    s->unpaid += bytes;
    if (s->unpaid < PACE_BYTES)
        return wait_until(s, 0);
    uint64_t now = now_ns();
    double cost = (double)s->unpaid * 1e9 / (double)s->store->o.scrub_rate;
    s->unpaid = 0;
    s->due_ns = (s->due_ns > now ? s->due_ns : now) + (uint64_t)cost;
    return wait_until(s, s->due_ns);
}

/* ---- reading */

static void close_file(struct scrub *s)
{
    io_close(&s->file);
    s->file_segment = UINT32_MAX;
}

/* A record from the disk; *out lies in s->space. */
static enum rc read_record(struct scrub *s, struct index *ix, uint32_t segment, uint64_t at,
                           size_t len, const uint8_t **out, struct err *err)
{
    if (s->file.fd < 0 || s->file_index != ix->number || s->file_segment != segment) {
        char dir[512], path[600];
        close_file(s);
        index_dir(ix, dir, sizeof dir);
        segment_path(path, sizeof path, dir, segment);
        enum rc rc = io_open(path, IO_READ, &s->file, err);
        if (rc == RC_NOT_FOUND)
            return err_set(err, RC_CORRUPT, ENOENT, "the file is missing");
        TRY(rc);
        io_bypass_cache(&s->file);
        s->file_index = ix->number;
        s->file_segment = segment;
    }
    return io_read_disk(&s->file, at, len, &s->space, out, err);
}

/* Neither memory nor a free descriptor: that says nothing about the data. */
static bool no_means(enum rc rc, const struct err *why)
{
    return rc == RC_NOMEM || why->os_errno == EMFILE || why->os_errno == ENFILE;
}

/* Told, and counted: what the last whole pass found, or this one if that is more. */
static void found(struct index *ix, uint32_t segment, uint64_t at, const char *what,
                  uint64_t number, const struct err *why)
{
    ix->scrub.found++;
    if (ix->scrub.found > atomic_load(&ix->scrub.damaged))
        atomic_store(&ix->scrub.damaged, ix->scrub.found);
    store_event(ix->store, 2, "scrub: index %s: segment %08x at %llu: %s %llu: %s", ix->name,
                segment, (unsigned long long)at, what, (unsigned long long)number, why->msg);
}

static enum rc check_block_at(struct scrub *s, struct index *ix, const struct place *p,
                              struct err *err)
{
    const uint8_t *record;
    TRY(read_record(s, ix, p->segment, p->at, p->len, &record, err));
    return segment_check_block(slice_of(record, p->len), ix->number, p, err);
}

static void scrub_block(struct scrub *s, struct index *ix, const struct place *p)
{
    struct err why = {0}, ignored = {0};
    struct place now;
    enum rc rc = check_block_at(s, ix, p, &why);
    if (no_means(rc, &why))
        return;
    atomic_fetch_add(&ix->scrub.bytes, p->len);
    if (rc == RC_OK)
        return;
    close_file(s);
    rc = catalog_find_block(ix->store->catalog, ix->number, p->first_seq, &now, &ignored);
    bool moved =
        rc == RC_NOT_FOUND || (rc == RC_OK && (now.segment != p->segment || now.at != p->at));
    if (!moved && !atomic_load(&ix->deleted)) /* U2 */
        found(ix, p->segment, p->at, "block", p->first_seq, &why);
}

/* ---- dictionaries */

struct copies {
    struct dict_copy *copy;
    size_t count, cap;
};

static enum rc collect_copy(const struct dict_copy *copy, void *arg)
{
    struct copies *c = arg;
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? 16 : c->cap * 2;
        struct dict_copy *list = realloc(c->copy, cap * sizeof *list);
        if (list == NULL)
            return RC_NOMEM;
        c->copy = list;
        c->cap = cap;
    }
    c->copy[c->count++] = *copy;
    return RC_OK;
}

static bool still_named(struct index *ix, const struct dict_copy *copy)
{
    struct copies now = {0};
    struct err ignored = {0};
    bool named = index_dict_each(ix, collect_copy, &now, &ignored) != RC_OK;
    for (size_t i = 0; i < now.count && !named; i++)
        named = now.copy[i].segment == copy->segment && now.copy[i].at == copy->at;
    free(now.copy);
    return named;
}

/* False: stop. */
static bool scrub_dicts(struct scrub *s, struct index *ix)
{
    struct copies list = {0};
    struct err ignored = {0};
    bool go_on = true;
    if (index_dict_each(ix, collect_copy, &list, &ignored) != RC_OK)
        list.count = 0; /* the walk over the blocks will tell what is wrong with the catalog */
    for (size_t i = 0; i < list.count && go_on; i++) {
        const struct dict_copy *c = &list.copy[i];
        const uint8_t *record;
        struct slice bytes;
        struct err why = {0};
        enum rc rc = read_record(s, ix, c->segment, c->at, c->len, &record, &why);
        if (rc == RC_OK)
            rc = segment_check_dict(slice_of(record, c->len), ix->number, c->number, &bytes, &why);
        bool read = !no_means(rc, &why);
        if (read)
            atomic_fetch_add(&ix->scrub.bytes, c->len);
        if (rc != RC_OK && read) {
            close_file(s);
            if (still_named(ix, c) && !atomic_load(&ix->deleted))
                found(ix, c->segment, c->at, "dictionary", c->number, &why);
        }
        go_on = pay(s, c->len);
    }
    free(list.copy);
    return go_on;
}

/* ---- an index' turn */

static void begin_pass(const struct scrub *s, struct index *ix)
{
    struct index_scrub *p = &ix->scrub;
    uint64_t random = 0;
    if (p->due_ms == 0) { /* U3 */
        store_random((uint8_t *)&random, sizeof random);
        pthread_mutex_lock(&ix->write);
        random = ix->next_seq == 0 ? 0 : random % ix->next_seq;
        pthread_mutex_unlock(&ix->write);
    }
    p->due_ms = mono_ms() + s->store->o.scrub_interval_ms;
    p->running = true;
    p->wrapped = random == 0;
    p->start = p->from = random;
    p->found = 0;
}

static void end_pass(struct index *ix)
{
    struct index_scrub *p = &ix->scrub;
    p->running = false;
    atomic_store(&p->damaged, p->found);
    atomic_store(&p->passed_s, (uint64_t)time(NULL));
    atomic_fetch_add(&p->passes, 1);
}

/* The blocks from p->from on are done: go on at the front, or this is the end. */
static bool at_end(struct index_scrub *p)
{
    if (p->wrapped)
        return true;
    p->wrapped = true;
    p->from = 0;
    return false;
}

/* False: stop. *turn_io: bytes that are left of it. */
static bool scrub_list(struct scrub *s, struct index *ix, const struct place *list, size_t n,
                       uint64_t *turn_io, bool *end_out)
{
    struct index_scrub *p = &ix->scrub;
    for (size_t i = 0; i < n && *turn_io != 0; i++) {
        /* After the wrap the pass ends where it began; from there on all was seen. */
        if (p->wrapped && p->start != 0 && list[i].first_seq >= p->start) {
            *end_out = true;
            return true;
        }
        scrub_block(s, ix, &list[i]);
        p->from = list[i].first_seq + 1;
        *turn_io -= list[i].len < *turn_io ? list[i].len : *turn_io;
        if (!pay(s, list[i].len))
            return false;
    }
    return true;
}

/* False: stop. */
static bool turn(struct scrub *s, struct index *ix)
{
    struct index_scrub *p = &ix->scrub;
    uint64_t left = SCRUB_TURN_BYTES;
    bool end = false, go_on = true;
    if (!p->running) {
        begin_pass(s, ix);
        go_on = scrub_dicts(s, ix);
    }
    while (go_on && !end && left != 0 && !atomic_load(&ix->deleted)) {
        struct place list[LIST_BLOCKS];
        struct err why = {0};
        size_t n = 0;
        enum rc rc = catalog_list_blocks(ix->store->catalog, ix->number, p->from, list, LIST_BLOCKS,
                                         &n, &why);
        if (rc == RC_NOMEM || rc == RC_BUSY) { /* the pass goes on with the next turn */
            go_on = wait_until(s, now_ns() + LOOK_MS * 1000000ull);
            break;
        }
        if (rc != RC_OK) {
            p->found++;
            if (p->found > atomic_load(&p->damaged))
                atomic_store(&p->damaged, p->found);
            store_event(ix->store, 2, "scrub: index %s: %s", ix->name, why.msg);
            n = 0;
        }
        go_on = scrub_list(s, ix, list, n, &left, &end);
        if (go_on && !end && left != 0 && n < LIST_BLOCKS)
            end = at_end(p);
    }
    close_file(s); /* it must not keep the space of a segment that goes */
    if (go_on && end)
        end_pass(ix);
    return go_on;
}

/* ---- whose turn it is */

size_t scrub_next(const uint32_t *numbers, const bool *due, size_t count, uint32_t last)
{
    size_t lowest = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (due[i] && numbers[i] > last)
            return i;
        if (due[i] && lowest == SIZE_MAX)
            lowest = i;
    }
    return lowest;
}

static int by_number(const void *a, const void *b)
{
    const struct index *x = *(struct index *const *)a, *y = *(struct index *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool is_due(const struct index *ix)
{
    const struct index_scrub *p = &ix->scrub;
    return p->running || mono_ms() >= p->due_ms;
}

/* The next one, retained; NULL: none is due. */
static struct index *choose(struct scrub *s)
{
    struct index **list = NULL, *chosen = NULL;
    size_t n = 0, at = SIZE_MAX;
    if (store_all(s->store, &list, &n) != RC_OK)
        return NULL;
    uint32_t *numbers = malloc((n + 1) * sizeof *numbers);
    bool *due = malloc(n + 1);
    if (n != 0)
        qsort(list, n, sizeof(struct index *), by_number);
    for (size_t i = 0; i < n && numbers != NULL && due != NULL; i++) {
        numbers[i] = list[i]->number;
        due[i] = is_due(list[i]);
    }
    if (numbers != NULL && due != NULL)
        at = scrub_next(numbers, due, n, s->last);
    if (at != SIZE_MAX)
        chosen = index_retain(list[at]);
    for (size_t i = 0; i < n; i++)
        index_release(list[i]);
    free(list);
    free(numbers);
    free(due);
    return chosen;
}

/* ---- the thread */

static void *scrub_main(void *arg)
{
    struct scrub *s = arg;
    const int whom = 1, idle = 3 << 13; /* IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE */
    bool go_on = true;
    pthread_setname_np(pthread_self(), "scrub");
    (void)syscall(SYS_ioprio_set, whom, 0, idle);                   /* Linux: of this thread; … */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19); /* … so is this */
    store_random((uint8_t *)&s->last, sizeof s->last);
    pthread_mutex_lock(&s->store->names);
    s->last = s->store->next_index == 0 ? 0 : s->last % s->store->next_index;
    pthread_mutex_unlock(&s->store->names);
    while (go_on) {
        struct index *ix = choose(s);
        if (ix == NULL) {
            go_on = wait_until(s, now_ns() + LOOK_MS * 1000000ull);
            continue;
        }
        s->last = ix->number;
        go_on = turn(s, ix);
        index_release(ix);
    }
    return NULL;
}

enum rc scrub_start(struct store *store, struct err *err)
{
    pthread_condattr_t attr;
    if (store->o.scrub_rate == 0)
        return RC_OK;
    struct scrub *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(err, RC_NOMEM, 0, "no memory for the scrub");
    s->store = store;
    s->file.fd = -1;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    int no = pthread_create(&s->thread, NULL, scrub_main, s);
    if (no != 0) {
        pthread_cond_destroy(&s->wake);
        pthread_mutex_destroy(&s->mutex);
        free(s);
        return err_set(err, RC_NOMEM, no, "cannot start a thread");
    }
    store->scrub = s;
    return RC_OK;
}

void scrub_stop(struct store *store)
{
    struct scrub *s = store->scrub;
    if (s == NULL)
        return;
    store->scrub = NULL;
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    io_close(&s->file);
    io_aligned_done(&s->space);
    free(s);
}
