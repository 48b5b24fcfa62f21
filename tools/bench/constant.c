/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of gets: libmicrohttpd as server/http.c starts it, answering every request with the
 * same 1 KB under the same headers.
 *
 *   constant THREADS    prints its port; ends when its standard input does */
#include <arpa/inet.h>
#include <err.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES      1024
#define CONNECTION_MEMORY (64u * 1024) /* as in server/http.c; what it costs grows with it */

static char answer[ANSWER_BYTES];

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **request)
{
    static int seen;
    (void)arg, (void)url, (void)method, (void)version, (void)upload, (void)upload_len;
    if (*request == NULL) { /* the headers; the answer is due at the next call */
        *request = &seen;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof answer, answer, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "X-Elastic-Product", "Elasticsearch");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    char byte;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        err(1, "listen");
    memset(answer, 'x', sizeof answer);
    const struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem one[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_ARRAY,
        threads > 1 ? pool : one, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, 120u, MHD_OPTION_END);
    if (daemon == NULL)
        errx(1, "libmicrohttpd does not start");
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    MHD_stop_daemon(daemon);
    return 0;
}
