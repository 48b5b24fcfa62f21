/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket; see listen.h. */
#include "server/listen.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX  8192
#define DESCRIPTORS_KEPT 256 /* for files */

enum rc listen_bind(const char *host, uint64_t port, int *fd_out, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[24];
    const int on = 1, off = 0;

    snprintf(service, sizeof service, "%llu", (unsigned long long)port);
    int failure = getaddrinfo(host, service, &hints, &list);
    if (failure != 0)
        return err_set(err, RC_INVALID, 0, "network.host: [%.100s]: %s", host,
                       gai_strerror(failure));
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
    if (ok && list->ai_family == AF_INET6) /* :: is everything, IPv4 too */
        ok = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    ok = ok && bind(fd, list->ai_addr, list->ai_addrlen) == 0;
    int number = errno;
    freeaddrinfo(list);
    if (!ok) {
        if (fd >= 0)
            close(fd);
        return err_set(err, number == EADDRINUSE ? RC_EXISTS : RC_IO, number,
                       "cannot listen on %.100s port %s: %s", host, service, strerror(number));
    }
    *fd_out = fd;
    return RC_OK;
}

uint64_t socket_acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_bytes_acked : 0;
}

bool listen_is_local(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return false;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return in6->sin6_addr.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

unsigned listen_connections(uint64_t asked)
{
    struct rlimit limit;
    uint64_t most = CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        most = limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? limit.rlim_cur - DESCRIPTORS_KEPT
                                                     : limit.rlim_cur / 2;
    if (asked == 0)
        return (unsigned)(most < CONNECTIONS_MAX ? most : CONNECTIONS_MAX);
    return (unsigned)(asked < most ? asked : most);
}

void listen_address(int fd, char *out, size_t size)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[64], service[16];

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(out, size, "?");
    else
        snprintf(out, size, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, service);
}
