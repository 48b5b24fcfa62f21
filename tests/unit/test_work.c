/* SPDX-License-Identifier: Apache-2.0 */
/* The worker pool: order of classes, the limit for background tasks, stopping. */
#include "storage/work.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* What the tasks of a test share. */
struct scene {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct work *work;
    bool open; /* the gate that blocked tasks wait for */
    char order[64];
    size_t done, blocked, background, background_most;
};

struct job {
    struct task task; /* first */
    struct scene *scene;
    char mark;
    bool blocks;
    int children;
};

static void scene_init(struct scene *s, size_t threads)
{
    *s = (struct scene){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(work_start(threads, &s->work, NULL), RC_OK);
}

static void scene_wait_blocked(struct scene *s, size_t blocked)
{
    pthread_mutex_lock(&s->mutex);
    while (s->blocked < blocked)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static void scene_open(struct scene *s)
{
    pthread_mutex_lock(&s->mutex);
    s->open = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void job_run(struct task *task);

static void job_submit(struct scene *s, enum work_class class_, char mark, bool blocks,
                       int children)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job = (struct job){{job_run, NULL}, s, mark, blocks, children};
    work_submit(s->work, class_, &job->task);
}

static void job_run(struct task *task)
{
    struct job *job = (struct job *)task;
    struct scene *s = job->scene;
    pthread_mutex_lock(&s->mutex);
    if (job->mark == 'b' && ++s->background > s->background_most)
        s->background_most = s->background;
    s->blocked += job->blocks;
    pthread_cond_broadcast(&s->changed);
    while (job->blocks && !s->open)
        pthread_cond_wait(&s->changed, &s->mutex);
    s->blocked -= job->blocks;
    s->background -= job->mark == 'b';
    if (s->done + 1 < sizeof s->order)
        s->order[s->done] = job->mark;
    s->done++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    if (job->children > 0)
        job_submit(s, WORK_WRITE, 'c', false, job->children - 1);
    free(job);
}

static void test_order(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, 1);
    job_submit(&s, WORK_WRITE, '-', true, 0);
    scene_wait_blocked(&s, 1);
    for (const char *p = "bwgwgb"; *p != 0; p++)
        job_submit(&s,
                   *p == 'b'   ? WORK_BACKGROUND
                   : *p == 'w' ? WORK_WRITE
                               : WORK_GET,
                   *p, false, 0);
    assert_int_equal(work_waiting(s.work, WORK_GET), 2);
    assert_int_equal(work_waiting(s.work, WORK_WRITE), 2);
    assert_int_equal(work_waiting(s.work, WORK_BACKGROUND), 2);
    scene_open(&s);
    work_stop(s.work);
    assert_string_equal(s.order, "-ggwwbb");
}

/* Background tasks that block leave one worker for the others. */
static void test_background_limit(void **state)
{
    (void)state;
    struct scene s;
    scene_init(&s, 3);
    for (int i = 0; i < 6; i++)
        job_submit(&s, WORK_BACKGROUND, 'b', true, 0);
    scene_wait_blocked(&s, 2);
    job_submit(&s, WORK_GET, 'g', false, 0);
    pthread_mutex_lock(&s.mutex);
    while (s.done == 0)
        pthread_cond_wait(&s.changed, &s.mutex);
    assert_int_equal(s.order[0], 'g');
    pthread_mutex_unlock(&s.mutex);
    scene_open(&s);
    work_stop(s.work);
    assert_int_equal(s.done, 7);
    assert_int_equal(s.background_most, 2);
}

/* Stopping runs what is queued and what that submits. */
static void test_stop(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 4; threads++) {
        struct scene s;
        scene_init(&s, threads);
        for (int i = 0; i < 50; i++)
            job_submit(&s, i % 2 == 0 ? WORK_BACKGROUND : WORK_WRITE, i % 2 == 0 ? 'b' : 'w', false,
                       5);
        work_stop(s.work);
        assert_int_equal(s.done, 300);
        assert_in_range(s.background_most, 1, threads > 1 ? threads - 1 : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_background_limit),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
