/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/corpus.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void corpus_read(const char *path, struct corpus *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        err(1, "%s", path);
    out->bytes = (char *)malloc((size_t)st.st_size + 1);
    if (out->bytes == NULL)
        err(1, "%s", path);
    for (out->len = 0; out->len < (size_t)st.st_size;) {
        ssize_t n = read(fd, out->bytes + out->len, (size_t)st.st_size - out->len);
        if (n <= 0)
            err(1, "%s", path);
        out->len += (size_t)n;
    }
    close(fd);
    if (out->len == 0 || out->bytes[out->len - 1] != '\n')
        out->bytes[out->len++] = '\n';

    out->count = 0;
    for (size_t at = 0; at < out->len; at++)
        out->count += out->bytes[at] == '\n';
    out->start = (size_t *)malloc((out->count + 1) * sizeof *out->start);
    if (out->start == NULL)
        err(1, "%s", path);
    size_t doc = 0;
    out->start[doc++] = 0;
    for (size_t at = 0; at < out->len; at++) {
        if (out->bytes[at] == '\n')
            out->start[doc++] = at + 1;
    }
    out->raw_bytes = out->len - out->count;
}

void corpus_free(struct corpus *corpus)
{
    free(corpus->start);
    free(corpus->bytes);
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}
