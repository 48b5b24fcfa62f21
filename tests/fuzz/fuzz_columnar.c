/* SPDX-License-Identifier: Apache-2.0 */
/* Layout columnar: lines of any bytes are packed, opened and read back the same. */
#include "storage/columnar.h"

#include <stdlib.h>

#define LINES_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t split(const uint8_t *data, size_t size, struct slice *lines)
{
    size_t n = 0;
    for (const uint8_t *p = data, *end = data + size; p < end && n < LINES_MAX;) {
        const uint8_t *to = memchr(p, '\n', (size_t)(end - p));
        if (to == NULL)
            to = end;
        lines[n++] = slice_of(p, (size_t)(to - p));
        p = to + 1;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice *lines = malloc(LINES_MAX * sizeof *lines);
    struct buf frame = {0}, aux = {0}, doc = {0};
    struct columnar *columnar = NULL;
    const char *what = NULL;
    size_t n = lines == NULL ? 0 : split(data, size, lines);
    if (n != 0) {
        enum rc rc = columnar_pack(lines, n, &frame, &aux);
        assert(rc == RC_OK);
        rc = columnar_open(buf_slice(&frame), aux.ptr, aux.len, n, size, &columnar, &what);
        assert(rc == RC_OK);
        for (size_t i = n; i-- > 0;) {
            doc.len = 0;
            rc = columnar_doc(columnar, i, &doc);
            assert(rc == RC_OK && slice_eq(buf_slice(&doc), lines[i]));
        }
    }
    columnar_close(columnar);
    buf_done(&frame);
    buf_done(&aux);
    buf_done(&doc);
    free(lines);
    return 0;
}
