/* SPDX-License-Identifier: Apache-2.0 */
/* The worker pool: one mutex, three queues, one condition.
 *
 *   K1  gets are served before writes before background tasks.
 *   K2  background tasks never hold the last worker, unless there is only one.
 *   K3  a worker ends when nothing is queued and nothing runs: what runs may still submit. */
#include "storage/work.h"

#include "storage/codec.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct queue {
    struct task *first;
    struct task *last;
    size_t count;
};

struct work {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* guarded by mutex */
    struct queue queues[WORK_CLASSES];
    size_t running;
    size_t running_background;
    bool stopping;
    /* fixed once started */
    size_t background_max;
    size_t thread_count;
    pthread_t threads[];
};

static struct task *queue_take(struct queue *queue)
{
    struct task *task = queue->first;
    if (task != NULL) {
        queue->first = task->next;
        if (queue->first == NULL)
            queue->last = NULL;
        queue->count--;
    }
    return task;
}

/* The next task that may run now, or NULL. */
static struct task *take_locked(struct work *work, enum work_class *class_out)
{
    for (enum work_class c = WORK_GET; c < WORK_CLASSES; c++) {
        if (c == WORK_BACKGROUND && work->running_background == work->background_max)
            continue;
        struct task *task = queue_take(&work->queues[c]);
        if (task != NULL) {
            *class_out = c;
            return task;
        }
    }
    return NULL;
}

static bool drained_locked(const struct work *work)
{
    for (int c = 0; c < WORK_CLASSES; c++) {
        if (work->queues[c].count != 0)
            return false;
    }
    return work->running == 0;
}

void work_give_way(void)
{
    int ignored = nice(5); /* Linux: of this thread alone, which may always be lower */
    (void)ignored;
}

static void *worker(void *arg)
{
    struct work *work = arg;
    work_give_way();
    pthread_mutex_lock(&work->mutex);
    for (;;) {
        enum work_class class_;
        struct task *task = take_locked(work, &class_);
        if (task != NULL) {
            work->running++;
            work->running_background += class_ == WORK_BACKGROUND;
            pthread_mutex_unlock(&work->mutex);
            task->run(task); /* may free it */
            pthread_mutex_lock(&work->mutex);
            work->running--;
            work->running_background -= class_ == WORK_BACKGROUND;
        } else if (work->stopping && drained_locked(work)) {
            break;
        } else {
            pthread_cond_wait(&work->wake, &work->mutex);
        }
    }
    /* The others wait for the last running task, which may have been ours. */
    pthread_cond_broadcast(&work->wake);
    pthread_mutex_unlock(&work->mutex);
    codec_thread_done();
    return NULL;
}

enum rc work_start(size_t threads, struct work **out, struct err *err)
{
    assert(threads >= 1);
    struct work *work = calloc(1, sizeof *work + threads * sizeof work->threads[0]);
    if (work == NULL)
        return err_set(err, RC_NOMEM, 0, "workers: out of memory");
    pthread_mutex_init(&work->mutex, NULL);
    pthread_cond_init(&work->wake, NULL);
    work->background_max = threads > 1 ? threads - 1 : 1;
    while (work->thread_count < threads) {
        pthread_t *thread = &work->threads[work->thread_count];
        int e = pthread_create(thread, NULL, worker, work);
        if (e != 0) {
            size_t started = work->thread_count;
            work_stop(work);
            return err_set(err, RC_NOMEM, e, "workers: cannot start thread %zu of %zu: %s",
                           started + 1, threads, strerror(e));
        }
        pthread_setname_np(*thread, "worker");
        work->thread_count++;
    }
    *out = work;
    return RC_OK;
}

void work_submit(struct work *work, enum work_class class_, struct task *task)
{
    assert(class_ < WORK_CLASSES && task->run != NULL);
    task->next = NULL;
    pthread_mutex_lock(&work->mutex);
    struct queue *queue = &work->queues[class_];
    if (queue->last == NULL)
        queue->first = task;
    else
        queue->last->next = task;
    queue->last = task;
    queue->count++;
    /* A worker woken for a background task that may not run yet goes back to sleep; the worker
     * that ends the running one looks again. */
    pthread_cond_signal(&work->wake);
    pthread_mutex_unlock(&work->mutex);
}

size_t work_waiting(struct work *work, enum work_class class_)
{
    assert(class_ < WORK_CLASSES);
    pthread_mutex_lock(&work->mutex);
    size_t count = work->queues[class_].count;
    pthread_mutex_unlock(&work->mutex);
    return count;
}

void work_stop(struct work *work)
{
    pthread_mutex_lock(&work->mutex);
    work->stopping = true;
    pthread_cond_broadcast(&work->wake);
    pthread_mutex_unlock(&work->mutex);
    for (size_t i = 0; i < work->thread_count; i++)
        pthread_join(work->threads[i], NULL);
    pthread_cond_destroy(&work->wake);
    pthread_mutex_destroy(&work->mutex);
    free(work);
}
