/* SPDX-License-Identifier: Apache-2.0 */
/* Housekeeping: one thread of the api object that calls functions from time to time (retention,
 * expiry of scrolls). They run one after the other, may wait for the disk, and are called until
 * every_stop, never again afterwards. */
#ifndef STOWD_EVERY_H
#define STOWD_EVERY_H

#include "config/base.h"

struct every;

MUST_CHECK enum rc every_start(struct every **out, struct err *err);
/* Wait for what is running, join, free. Accepts NULL. */
void every_stop(struct every *every);
/* Call fn(arg) about every `ms` milliseconds from then on. RC_NOMEM. */
MUST_CHECK enum rc every_add(struct every *every, uint64_t ms, void (*fn)(void *arg), void *arg,
                             struct err *err);

#endif
