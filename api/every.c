/* SPDX-License-Identifier: Apache-2.0 */
#include "api/every.h"

#include "api/call.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define JOBS_MAX 16

struct job {
    void (*fn)(void *arg);
    void *arg;
    uint64_t every_ns, due_ns; /* monotonic */
};

struct every {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct job job[JOBS_MAX];
    size_t jobs;
    bool stop;
};

/* The job that is due first; NULL: there is none. */
static struct job *first_locked(struct every *every)
{
    struct job *first = NULL;
    for (size_t i = 0; i < every->jobs; i++)
        if (first == NULL || every->job[i].due_ns < first->due_ns)
            first = &every->job[i];
    return first;
}

static void wait_locked(struct every *every, const struct job *first)
{
    if (first == NULL) {
        pthread_cond_wait(&every->wake, &every->mutex);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(first->due_ns / 1000000000),
                             .tv_nsec = (long)(first->due_ns % 1000000000)};
    pthread_cond_timedwait(&every->wake, &every->mutex, &until);
}

static void *run(void *arg)
{
    struct every *every = arg;
    pthread_mutex_lock(&every->mutex);
    while (!every->stop) {
        struct job *job = first_locked(every);
        if (job == NULL || job->due_ns > clock_ns()) {
            wait_locked(every, job);
            continue;
        }
        struct job now = *job;
        pthread_mutex_unlock(&every->mutex);
        now.fn(now.arg);
        pthread_mutex_lock(&every->mutex);
        job->due_ns = clock_ns() + job->every_ns; /* jobs are never removed */
    }
    pthread_mutex_unlock(&every->mutex);
    return NULL;
}

enum rc every_start(struct every **out, struct err *err)
{
    struct every *every = calloc(1, sizeof *every);
    pthread_condattr_t attr;
    if (every == NULL)
        return err_set(err, RC_NOMEM, 0, "housekeeping: out of memory");
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&every->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&every->mutex, NULL);
    int failed = pthread_create(&every->thread, NULL, run, every);
    if (failed != 0) {
        pthread_cond_destroy(&every->wake);
        pthread_mutex_destroy(&every->mutex);
        free(every);
        return err_set(err, RC_IO, failed, "housekeeping: no thread");
    }
    *out = every;
    return RC_OK;
}

void every_stop(struct every *every)
{
    if (every == NULL)
        return;
    pthread_mutex_lock(&every->mutex);
    every->stop = true;
    pthread_cond_signal(&every->wake);
    pthread_mutex_unlock(&every->mutex);
    pthread_join(every->thread, NULL);
    pthread_cond_destroy(&every->wake);
    pthread_mutex_destroy(&every->mutex);
    free(every);
}

enum rc every_add(struct every *every, uint64_t ms, void (*fn)(void *arg), void *arg,
                  struct err *err)
{
    enum rc rc = RC_OK;
    pthread_mutex_lock(&every->mutex);
    if (every->jobs == JOBS_MAX) {
        rc = err_set(err, RC_NOMEM, 0, "housekeeping: more than %d jobs", JOBS_MAX);
    } else {
        uint64_t ns = (ms == 0 ? 1 : ms) * 1000000;
        every->job[every->jobs++] = (struct job){fn, arg, ns, clock_ns() + ns};
        pthread_cond_signal(&every->wake);
    }
    pthread_mutex_unlock(&every->mutex);
    return rc;
}
