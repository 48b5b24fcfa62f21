/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs (tasks.h) and their endpoints. */
#include "api/tasks.h"

#include "api/access.h"
#include "api/cat.h"
#include "api/handlers.h"
#include "api/names.h"
#include "api/nodes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define RUNNING_MAX     20
#define ENDED_MAX       100
#define DESCRIPTION_MAX 1000
/* The request that lists is a task, too. */
#define SELF_ACTION "cluster:monitor/tasks/lists"

static const struct {
    const char *action;
    bool copies; /* its status counts documents, else indices */
} KINDS[JOB_KINDS] = {
    [JOB_REINDEX] = {"indices:data/write/reindex", true},
    [JOB_DELETE_BY_QUERY] = {"indices:data/write/delete/byquery", true},
    [JOB_FORCEMERGE] = {"indices:admin/forcemerge", false},
};

/* A call of GET _tasks/{id}?wait_for_completion. */
struct waiter {
    struct waiter *next;
    struct api_call *call;
};

struct job {
    struct job *next;
    struct jobs *jobs;
    uint64_t id;
    enum job_kind kind;
    struct buf description, opaque_id;
    struct buf owner, key; /* J4: name of the user and id of the key that began it, or empty */
    uint64_t started_ms, started_ns;
    _Atomic bool cancelled;
    /* guarded by jobs.lock */
    struct job_counts counts;
    struct waiter *waiters;
    bool ended, error;
    uint64_t ran_ns;
    struct buf text;
};

struct jobs {
    const char *node;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    /* guarded by lock */
    struct job *running, *ended; /* the newest first */
    size_t running_count, ended_count;
    uint64_t last_id;
    bool stopping;
};

enum rc jobs_create(struct store *store, struct jobs **out, struct err *err)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory");
    jobs->node = store_node_id(store);
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->idle, NULL);
    *out = jobs;
    return RC_OK;
}

static void job_free(struct job *job)
{
    buf_done(&job->description);
    buf_done(&job->opaque_id);
    buf_done(&job->owner);
    buf_done(&job->key);
    buf_done(&job->text);
    free(job);
}

void jobs_stop(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->stopping = true;
    for (struct job *j = jobs->running; j != NULL; j = j->next)
        atomic_store(&j->cancelled, true);
    pthread_mutex_unlock(&jobs->lock);
}

void jobs_destroy(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    jobs_stop(jobs);
    pthread_mutex_lock(&jobs->lock);
    while (jobs->running_count != 0)
        pthread_cond_wait(&jobs->idle, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
    while (jobs->ended != NULL) {
        struct job *next = jobs->ended->next;
        job_free(jobs->ended);
        jobs->ended = next;
    }
    pthread_cond_destroy(&jobs->idle);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

/* ---- for whoever runs one */

enum rc job_begin(const struct api_call *call, enum job_kind kind, struct slice description,
                  struct job **out, struct err *err)
{
    struct jobs *jobs = call->api->jobs;
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for a task");
    if (description.len > DESCRIPTION_MAX)
        description.len = DESCRIPTION_MAX;
    job->jobs = jobs;
    job->kind = kind;
    job->started_ms = clock_ms();
    job->started_ns = clock_ns();
    buf_put_slice(&job->description, description);
    buf_put_slice(&job->opaque_id, call->opaque_id);
    if (call->user != NULL)
        buf_put_str(&job->owner, call->user->name);
    if (call->key != NULL)
        buf_put_str(&job->key, call->key->id);
    if (job->owner.failed || job->key.failed) { /* a job without an owner would be nobody's */
        job_free(job);
        return err_set(err, RC_NOMEM, 0, "out of memory for a task");
    }
    pthread_mutex_lock(&jobs->lock);
    bool full = jobs->running_count >= RUNNING_MAX, stopping = jobs->stopping;
    if (!full && !stopping) {
        job->id = ++jobs->last_id;
        job->next = jobs->running;
        jobs->running = job;
        jobs->running_count++;
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!full && !stopping) {
        *out = job;
        return RC_OK;
    }
    job_free(job);
    return stopping
               ? err_set(err, RC_BUSY, 0, "the node is stopping")
               : err_set(err, RC_BUSY, 0, "too many tasks run at once: at most %d", RUNNING_MAX);
}

bool job_cancelled(const struct job *job)
{
    return atomic_load_explicit(&job->cancelled, memory_order_relaxed);
}

void job_set(struct job *job, const struct job_counts *counts)
{
    pthread_mutex_lock(&job->jobs->lock);
    job->counts = *counts;
    pthread_mutex_unlock(&job->jobs->lock);
}

void job_name(const struct job *job, char name[static 48])
{
    snprintf(name, 48, "%.24s:%llu", job->jobs->node, (unsigned long long)job->id);
}

void job_reply_name(struct api_call *call, const char *name)
{
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    json_cstr(out, "task", name);
    buf_put_byte(out, '}');
    api_finish(call);
}

uint64_t job_took_ms(const struct job *job)
{
    return (clock_ns() - job->started_ns) / 1000000;
}

void job_put_counts(const struct job_counts *counts, bool created, struct buf *out)
{
    json_uint(out, "total", counts->total);
    if (created) {
        json_uint(out, "updated", counts->updated);
        json_uint(out, "created", counts->created);
    }
    json_uint(out, "deleted", counts->deleted);
    json_uint(out, "batches", counts->batches);
    json_uint(out, "version_conflicts", counts->conflicts);
    json_uint(out, "noops", counts->noops);
    buf_printf(out, ",\"retries\":{\"bulk\":%llu,\"search\":%llu}",
               (unsigned long long)counts->bulk_retries,
               (unsigned long long)counts->search_retries);
    BUF_PUT_LIT(out, ",\"throttled_millis\":0,\"requests_per_second\":-1.0"
                     ",\"throttled_until_millis\":0");
}

/* ---- printing, under the lock */

static void put_headers(struct slice opaque_id, struct buf *out)
{
    json_key(out, "headers");
    buf_put_byte(out, '{');
    if (opaque_id.len != 0)
        json_str(out, "X-Opaque-Id", opaque_id);
    buf_put_byte(out, '}');
}

static void put_job(const struct job *job, bool detailed, struct buf *out)
{
    buf_put_byte(out, '{');
    json_cstr(out, "node", job->jobs->node);
    json_uint(out, "id", job->id);
    json_cstr(out, "type", "transport");
    json_cstr(out, "action", KINDS[job->kind].action);
    if (detailed) {
        json_key(out, "status");
        buf_put_byte(out, '{');
        if (KINDS[job->kind].copies) {
            job_put_counts(&job->counts, true, out);
        } else {
            json_uint(out, "total", job->counts.total);
            json_uint(out, "completed", job->counts.updated);
        }
        buf_put_byte(out, '}');
        json_str(out, "description", buf_slice(&job->description));
    }
    json_uint(out, "start_time_in_millis", job->started_ms);
    json_uint(out, "running_time_in_nanos",
              job->ended ? job->ran_ns : clock_ns() - job->started_ns);
    json_bool(out, "cancellable", true);
    json_bool(out, "cancelled", job_cancelled(job));
    put_headers(buf_slice(&job->opaque_id), out);
    buf_put_byte(out, '}');
}

/* What GET _tasks/{id} answers. */
static void put_answer(const struct job *job, struct buf *out)
{
    buf_put_byte(out, '{');
    json_bool(out, "completed", job->ended);
    json_key(out, "task");
    put_job(job, true, out);
    if (job->ended)
        json_raw(out, job->error ? "error" : "response", buf_slice(&job->text));
    buf_put_byte(out, '}');
}

/* ---- the end of one */

/* Move a running job to the ended ones. What falls off their list is the caller's to free. */
static struct job *retire(struct job *job)
{
    struct jobs *jobs = job->jobs;
    struct job **at = &jobs->running, *old = NULL;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->ran_ns = clock_ns() - job->started_ns;
    job->ended = true;
    job->next = jobs->ended;
    jobs->ended = job;
    if (++jobs->ended_count > ENDED_MAX) {
        at = &jobs->ended;
        while ((*at)->next != NULL)
            at = &(*at)->next;
        old = *at;
        *at = NULL;
        jobs->ended_count--;
    }
    return old;
}

void job_end(struct job *job, struct slice text, bool error)
{
    struct jobs *jobs = job->jobs;
    buf_put_slice(&job->text, text);
    if (job->text.failed || text.len == 0) {
        job->text.failed = false;
        job->text.len = 0;
        BUF_PUT_LIT(&job->text, "{}");
    }
    pthread_mutex_lock(&jobs->lock);
    job->error = error;
    struct job *old = retire(job);
    struct waiter *waiters = job->waiters;
    job->waiters = NULL;
    for (struct waiter *w = waiters; w != NULL; w = w->next)
        put_answer(job, reply_json(w->call, 200));
    pthread_mutex_unlock(&jobs->lock);
    if (old != NULL)
        job_free(old);
    while (waiters != NULL) { /* a waiter lives with its call */
        struct api_call *call = waiters->call;
        waiters = waiters->next;
        api_finish(call);
    }
    pthread_mutex_lock(&jobs->lock);
    jobs->running_count--;
    pthread_cond_broadcast(&jobs->idle);
    pthread_mutex_unlock(&jobs->lock);
}

/* ---- endpoints */

/* Begins a node's entry in an answer; its tasks follow. */
static void put_node(const struct api *api, struct buf *out)
{
    const char *node = store_node_id(api->o.store);
    const char *address = api->o.http_address != NULL ? api->o.http_address : "127.0.0.1:9200";
    BUF_PUT_LIT(out, "{\"nodes\":{");
    json_key(out, node);
    buf_put_byte(out, '{');
    json_cstr(out, "name", api->o.node_name);
    json_cstr(out, "transport_address", address);
    json_cstr(out, "host", "127.0.0.1");
    json_cstr(out, "ip", address);
    json_raw(out, "roles", SLICE_LIT("[\"data\",\"ingest\",\"master\"]"));
    json_key(out, "tasks");
    buf_put_byte(out, '{');
}

/* As Elasticsearch shows it. */
static void put_self(const struct jobs *jobs, uint64_t id, const struct api_call *call,
                     struct buf *out)
{
    buf_put_byte(out, '{');
    json_cstr(out, "node", jobs->node);
    json_uint(out, "id", id);
    json_cstr(out, "type", "direct");
    json_cstr(out, "action", SELF_ACTION);
    json_uint(out, "start_time_in_millis", clock_ms());
    json_uint(out, "running_time_in_nanos", clock_ns() - call->started_ns);
    json_bool(out, "cancellable", false);
    put_headers(call->opaque_id, out);
    buf_put_byte(out, '}');
}

/* Is an action named by a list of globs? Empty: all. */
static bool action_wanted(struct slice list, const char *action)
{
    if (list.len == 0)
        return true;
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice one = slice_of(list.ptr + at, end - at);
        at = end + 1;
        if (names_match(one, slice_str(action)))
            return true;
        /* Elasticsearch's own examples leave the wildcard in front away. */
        if (one.len != 0 && one.len <= strlen(action) &&
            memcmp(action + strlen(action) - one.len, one.ptr, one.len) == 0)
            return true;
    }
    return false;
}

/* J4 */
static bool may_see(const struct api_call *call, const struct job *job)
{
    if (access_may_all(call, USERS_MANAGE))
        return true;
    return slice_is(buf_slice(&job->owner), call->user->name) &&
           (call->key == NULL || slice_is(buf_slice(&job->key), call->key->id));
}

/* The jobs that the call names: by id, by its action globs, by node; those it may see. Under the
 * lock. */
struct choice {
    const struct api_call *call;
    struct slice actions;
    uint64_t id; /* 0: any */
    bool none;   /* of another node, or children of a task: there are none */
};

static struct choice choice_of(const struct api_call *call)
{
    struct slice nodes = call_param(call, "nodes");
    if (nodes.len == 0)
        nodes = call_param(call, "node_id");
    return (struct choice){
        .call = call,
        .actions = call_param(call, "actions"),
        .none = !node_named(call->api, nodes) || call_param(call, "parent_task_id").len != 0 ||
                call_param(call, "parent_task").len != 0,
    };
}

static bool chosen(const struct choice *choice, const struct job *job)
{
    return !choice->none && (choice->id == 0 || choice->id == job->id) &&
           action_wanted(choice->actions, KINDS[job->kind].action) && may_see(choice->call, job);
}

enum grouping { BY_NODE, BY_PARENT, BY_NONE };

static void put_list(struct api_call *call, const struct choice *choice, enum grouping grouping,
                     bool detailed, bool self, struct buf *out)
{
    struct jobs *jobs = call->api->jobs;
    char key[48];
    size_t n = 0;
    if (grouping == BY_NODE)
        put_node(call->api, out);
    else
        buf_put_str(out, grouping == BY_NONE ? "{\"tasks\":[" : "{\"tasks\":{");
    for (const struct job *j = jobs->running; j != NULL; j = j->next) {
        if (!chosen(choice, j))
            continue;
        job_name(j, key);
        if (grouping != BY_NONE)
            json_key(out, key);
        else if (n != 0)
            buf_put_byte(out, ',');
        put_job(j, detailed, out);
        n++;
    }
    if (self && !choice->none && choice->id == 0 && action_wanted(choice->actions, SELF_ACTION)) {
        uint64_t id = ++jobs->last_id;
        snprintf(key, sizeof key, "%.24s:%llu", jobs->node, (unsigned long long)id);
        if (grouping != BY_NONE)
            json_key(out, key);
        else if (n != 0)
            buf_put_byte(out, ',');
        put_self(jobs, id, call, out);
    }
    buf_put_str(out, grouping == BY_NODE ? "}}}}" : grouping == BY_NONE ? "]}" : "}}");
}

static bool read_grouping(struct api_call *call, enum grouping *out)
{
    struct slice by = call_param(call, "group_by");
    *out = slice_is(by, "parents") ? BY_PARENT : slice_is(by, "none") ? BY_NONE : BY_NODE;
    if (by.len == 0 || *out != BY_NODE || slice_is(by, "nodes"))
        return true;
    reply_error(call, 400, "illegal_argument_exception", "unsupported group_by [%.*s]",
                SLICE_FMT(by));
    return false;
}

void tasks_list(struct api_call *call)
{
    struct jobs *jobs = call->api->jobs;
    struct choice choice = choice_of(call);
    enum grouping grouping;
    bool detailed;
    if (!read_grouping(call, &grouping) || !call_bool(call, "detailed", false, &detailed))
        return;
    struct buf *out = reply_json(call, 200);
    pthread_mutex_lock(&jobs->lock);
    put_list(call, &choice, grouping, detailed, true, out);
    pthread_mutex_unlock(&jobs->lock);
    api_finish(call);
}

/* "node:N". False: replied. */
static bool read_id(struct api_call *call, uint64_t *out)
{
    struct slice text = call_part(call, "task_id");
    const char *node = call->api->jobs->node;
    const uint8_t *colon = memchr(text.ptr, ':', text.len);
    size_t n = colon == NULL ? 0 : (size_t)(colon - text.ptr);
    if (colon == NULL || n == 0 || !json_u64(slice_of(colon + 1, text.len - n - 1), out)) {
        reply_error(call, 400, "illegal_argument_exception", "malformed task id %.*s",
                    SLICE_FMT(text));
        return false;
    }
    if (slice_is(slice_of(text.ptr, n), node))
        return true;
    reply_error(call, 404, "resource_not_found_exception",
                "task [%.*s] belongs to the node [%.*s] which isn't part of the cluster and there "
                "is no record of the task",
                SLICE_FMT(text), (int)n, (const char *)text.ptr);
    return false;
}

static struct job *find(const struct api_call *call, struct job *list, uint64_t id)
{
    while (list != NULL && list->id != id)
        list = list->next;
    return list != NULL && may_see(call, list) ? list : NULL;
}

static void reply_none(struct api_call *call)
{
    reply_error(call, 404, "resource_not_found_exception",
                "task [%.*s] isn't running and hasn't stored its results",
                SLICE_FMT(call_part(call, "task_id")));
}

void tasks_get(struct api_call *call)
{
    struct jobs *jobs = call->api->jobs;
    struct waiter *w = call_alloc(call, sizeof *w);
    bool wait;
    uint64_t id;
    if (w == NULL)
        reply_rc(call, RC_NOMEM, NULL);
    if (w == NULL || !call_bool(call, "wait_for_completion", false, &wait) || !read_id(call, &id))
        return;
    pthread_mutex_lock(&jobs->lock);
    struct job *job = find(call, jobs->running, id);
    bool waiting = job != NULL && wait;
    if (waiting) {
        *w = (struct waiter){job->waiters, call};
        job->waiters = w;
    } else if (job != NULL || (job = find(call, jobs->ended, id)) != NULL) {
        put_answer(job, reply_json(call, 200));
    }
    pthread_mutex_unlock(&jobs->lock);
    /* A call that waits may be gone by now. */
    if (job == NULL)
        reply_none(call);
    else if (!waiting)
        api_finish(call);
}

void tasks_cancel(struct api_call *call)
{
    struct jobs *jobs = call->api->jobs;
    struct choice choice = choice_of(call);
    bool missing = false;
    if (call_part(call, "task_id").len != 0 && !read_id(call, &choice.id))
        return;
    struct buf *out = reply_json(call, 200);
    pthread_mutex_lock(&jobs->lock);
    if (choice.id != 0 && find(call, jobs->running, choice.id) == NULL)
        missing = true;
    for (struct job *j = jobs->running; j != NULL; j = j->next)
        if (chosen(&choice, j))
            atomic_store(&j->cancelled, true);
    if (!missing)
        put_list(call, &choice, BY_NODE, true, false, out);
    pthread_mutex_unlock(&jobs->lock);
    if (missing)
        reply_error(call, 404, "resource_not_found_exception", "task [%.*s] is not found",
                    SLICE_FMT(call_part(call, "task_id")));
    else
        api_finish(call);
}

/* Nothing is throttled here: the number is read and changes nothing. */
void tasks_rethrottle(struct api_call *call)
{
    struct jobs *jobs = call->api->jobs;
    struct choice choice = {.call = call};
    if (call_param(call, "requests_per_second").len == 0) {
        reply_error(call, 400, "illegal_argument_exception",
                    "requests_per_second is a required parameter");
        return;
    }
    if (!read_id(call, &choice.id))
        return;
    struct buf *out = reply_json(call, 200);
    pthread_mutex_lock(&jobs->lock);
    put_list(call, &choice, BY_NODE, true, false, out);
    pthread_mutex_unlock(&jobs->lock);
    api_finish(call);
}

/* ---- _cat/tasks */

static const struct cat_column task_columns[] = {
    {"id", "", "id of the task with the node", true, false},
    {"action", "ac", "task action", false, false},
    {"task_id", "ti", "unique task id", false, false},
    {"parent_task_id", "pti", "parent task id", false, false},
    {"type", "ty", "task type", false, false},
    {"start_time", "start", "start time in ms", false, true},
    {"timestamp", "ts,hms,hhmmss", "start time in HH:MM:SS", false, false},
    {"running_time_ns", "time", "running time ns", true, true},
    {"running_time", "time", "running time", false, true},
    {"node_id", "ni", "unique node id", true, false},
    {"ip", "i", "ip address", false, false},
    {"port", "po", "bound transport port", true, true},
    {"node", "n", "node name", false, false},
    {"version", "v", "es version", true, false},
    {"x_opaque_id", "x", "X-Opaque-ID header", true, false},
    {"description", "desc", "task action", false, false},
};

struct task_row {
    uint64_t id, started_ms, ran_ns;
    const char *type, *action;
    struct slice opaque_id, description;
};

static void cat_slice(struct cat_table *table, struct slice text)
{
    char copy[DESCRIPTION_MAX + 1];
    snprintf(copy, sizeof copy, "%.*s", SLICE_FMT(text));
    cat_text(table, copy);
}

/* "830micros", "12.4ms", "3.1s", "5.2m" */
static void put_time(struct cat_table *table, uint64_t ns)
{
    double n = (double)ns;
    char text[32];
    snprintf(text, sizeof text,
             ns < 1000000       ? "%.1fmicros"
             : ns < 1000000000  ? "%.1fms"
             : ns < 60000000000 ? "%.1fs"
                                : "%.1fm",
             ns < 1000000       ? n / 1e3
             : ns < 1000000000  ? n / 1e6
             : ns < 60000000000 ? n / 1e9
                                : n / 6e10);
    cat_text(table, text);
}

static void put_row(struct cat_table *table, const struct api *api, const struct task_row *row,
                    bool detailed)
{
    time_t started = (time_t)(row->started_ms / 1000);
    char id[48], clock[16];
    struct tm tm;
    gmtime_r(&started, &tm);
    strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    snprintf(id, sizeof id, "%.24s:%llu", api->jobs->node, (unsigned long long)row->id);
    cat_text(table, id);
    cat_text(table, row->action);
    cat_text(table, id);
    cat_text(table, "-");
    cat_text(table, row->type);
    cat_number(table, row->started_ms);
    cat_text(table, clock);
    cat_number(table, row->ran_ns);
    put_time(table, row->ran_ns);
    cat_text(table, api->jobs->node);
    cat_text(table, "127.0.0.1");
    cat_empty(table);
    cat_text(table, api->o.node_name);
    cat_text(table, api->o.identity_version);
    cat_slice(table, row->opaque_id);
    if (detailed)
        cat_slice(table, row->description);
}

void cat_tasks(struct api_call *call)
{
    struct jobs *jobs = call->api->jobs;
    struct choice choice = choice_of(call);
    struct cat_table table;
    bool detailed;
    if (!call_bool(call, "detailed", false, &detailed))
        return;
    cat_begin(&table, task_columns, ARRAY_LEN(task_columns) - (detailed ? 0 : 1));
    pthread_mutex_lock(&jobs->lock);
    for (const struct job *j = jobs->running; j != NULL; j = j->next)
        if (chosen(&choice, j))
            put_row(&table, call->api,
                    &(struct task_row){j->id, j->started_ms, clock_ns() - j->started_ns,
                                       "transport", KINDS[j->kind].action, buf_slice(&j->opaque_id),
                                       buf_slice(&j->description)},
                    detailed);
    if (!choice.none && action_wanted(choice.actions, SELF_ACTION))
        put_row(&table, call->api,
                &(struct task_row){++jobs->last_id, clock_ms(), clock_ns() - call->started_ns,
                                   "direct", SELF_ACTION, call->opaque_id, SLICE_NONE},
                detailed);
    pthread_mutex_unlock(&jobs->lock);
    cat_reply(call, &table);
}
