/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. */
#ifndef STOWD_LISTEN_H
#define STOWD_LISTEN_H

#include "config/base.h"

/* Reserve host:port without listening yet, so that a taken port is known before a long recovery.
 * The socket does not block. RC_INVALID (no such address), RC_EXISTS (taken), RC_IO. */
MUST_CHECK enum rc listen_bind(const char *host, uint64_t port, int *fd_out, struct err *err);
/* How many connections may be open: what was asked for (0: 8192), as far as descriptors go. */
unsigned listen_connections(uint64_t asked);
/* "127.0.0.1:9200", "[::1]:9200" */
void listen_address(int fd, char *out, size_t size);

/* Bytes that the other end of a TCP connection has acknowledged since it was opened. */
uint64_t socket_acked(int fd);
/* Is only this machine heard? */
bool listen_is_local(int fd);

#endif
