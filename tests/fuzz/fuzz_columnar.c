/* SPDX-License-Identifier: Apache-2.0 */
/* Layout columnar: lines of any bytes are packed, opened and read back the same. */
#include "storage/columnar.h"
#include "storage/shapes.h"

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

/* G3: with shapes, a line is judged as without. There is no fit of a last line without its line
 * feed, nor where a carriage return is part of what is packed. */
static void take_apart(struct shape_reader *reader, const uint8_t *end, const struct slice *lines,
                       size_t n, struct fit *fits)
{
    for (size_t i = 0; i < n; i++) {
        enum json_type type = JSON_END, other_type = JSON_END;
        struct json_fault fault = {0, NULL}, other = {0, NULL};
        struct slice line, rest = slice_of(lines[i].ptr, (size_t)(end - lines[i].ptr));
        fits[i] = (struct fit){.shape = NULL};
        if (lines[i].len == rest.len)
            continue;
        bool ok = shape_reader_line(reader, &rest, &line, &type, &fault, &fits[i]);
        assert(rest.ptr == lines[i].ptr + lines[i].len + 1 && rest.ptr + rest.len == end);
        assert(ok == json_check(line, &other_type, &other) && type == other_type);
        assert(fault.at == other.at && fault.what == other.what && (ok || fits[i].shape == NULL));
        if (line.len != lines[i].len)
            fits[i].shape = NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice *lines = malloc(LINES_MAX * sizeof *lines);
    struct fit *fits = malloc(LINES_MAX * sizeof *fits);
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct buf frame = {0}, aux = {0}, same_frame = {0}, same_aux = {0}, doc = {0};
    struct columnar *columnar = NULL;
    const char *what = NULL;
    size_t n = lines == NULL || fits == NULL || shapes == NULL ? 0 : split(data, size, lines);
    shape_reader_init(&reader, shapes);
    if (n != 0) {
        take_apart(&reader, data + size, lines, n, fits);
        enum rc rc = columnar_pack(lines, NULL, n, &frame, &aux);
        assert(rc == RC_OK);
        rc = columnar_pack(lines, fits, n, &same_frame, &same_aux);
        assert(rc == RC_OK && slice_eq(buf_slice(&frame), buf_slice(&same_frame)) &&
               slice_eq(buf_slice(&aux), buf_slice(&same_aux)));
        rc = columnar_open(buf_slice(&frame), aux.ptr, aux.len, n, size, n % 2 != 0, &columnar,
                           &what);
        assert(rc == RC_OK);
        for (size_t i = n; i-- > 0;) {
            doc.len = 0;
            rc = columnar_doc(columnar, i, &doc);
            assert(rc == RC_OK && slice_eq(buf_slice(&doc), lines[i]));
        }
    }
    columnar_close(columnar);
    shape_reader_done(&reader);
    shapes_destroy(shapes);
    buf_done(&frame);
    buf_done(&aux);
    buf_done(&same_frame);
    buf_done(&same_aux);
    buf_done(&doc);
    free(lines);
    free(fits);
    return 0;
}
