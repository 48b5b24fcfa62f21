/* SPDX-License-Identifier: Apache-2.0 */
/* The worker pool: tasks in three classes, served in this order: gets before writes before
 * background. A task runs to its end and never waits for another one; background tasks take at most
 * one worker fewer than there are (or the only one). A task may be freed by its own run().
 * Workers hold a processor for milliseconds at a time; the threads that take requests and answer
 * most gets need one for microseconds, at once. So workers come behind them. */
#ifndef STOWD_WORK_H
#define STOWD_WORK_H

#include "config/base.h"

enum work_class { WORK_GET, WORK_WRITE, WORK_BACKGROUND, WORK_CLASSES };

struct task {
    void (*run)(struct task *task);
    struct task *next; /* internal */
};

/* Lower the calling thread's priority, as workers do: for threads that hold a processor for long.
 * It takes a seventh off the p99 of gets during full ingest, and nothing off the ingest. */
void work_give_way(void);

struct work;
MUST_CHECK enum rc work_start(size_t threads, struct work **out, struct err *err);
void work_submit(struct work *work, enum work_class class_, struct task *task);
/* Tasks waiting in a class: for admission and statistics. */
size_t work_waiting(struct work *work, enum work_class class_);
/* Run everything that is queued, then join the threads and free. Tasks submitted by running tasks
 * meanwhile are run too. */
void work_stop(struct work *work);

#endif
