/* SPDX-License-Identifier: Apache-2.0 */
/* Whether callers must say who they are: decided once, at start, before anything is opened. */
#ifndef STOWD_GUARD_H
#define STOWD_GUARD_H

#include "config/config.h"

struct guard {
    bool on;
    bool local; /* only this machine can reach the daemon */
    char users_file[4096];
};

/* RC_INVALID: the settings contradict each other, the users file is wrong or has nobody in it, or
 * other machines would be let in without being asked. */
MUST_CHECK enum rc guard_decide(const struct config *config, int listen_fd, struct guard *out,
                                struct err *err);

#endif
