/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STOWCTL_USER_H
#define STOWCTL_USER_H

/* argv[0] is "user". The exit code of stowctl. */
int stowctl_user(int argc, char **argv);

#endif
