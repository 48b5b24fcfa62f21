/* SPDX-License-Identifier: Apache-2.0 */
/* `stowctl backup …` and `stowctl restore …`: argv[0] is the word. The exit code is that of the
 * program. */
#ifndef STOWD_STOWCTL_BACKUP_H
#define STOWD_STOWCTL_BACKUP_H

#include "config/base.h"

int stowctl_backup(int argc, char **argv, const char *release);
int stowctl_restore(int argc, char **argv);
/* One line to standard error; the exit code for an error. */
int stowctl_failed(enum rc rc, const struct err *err);

#endif
