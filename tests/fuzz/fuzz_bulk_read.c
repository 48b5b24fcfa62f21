/* SPDX-License-Identifier: Apache-2.0 */
/* R1, R2 on any bytes: what the reader yields lies in the body or in scratch, scratch never grows,
 * accepted sources are JSON objects, and an item is what it is to a reader that begins there. */
#include "api/bulk_read.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool within(struct slice part, const uint8_t *from, size_t len)
{
    return part.ptr >= from && (size_t)(part.ptr - from) <= len &&
           part.len <= len - (size_t)(part.ptr - from);
}

/* The item at the beginning of body, which no line before can have told anything about. */
static void check_alone(struct slice body, const struct bulk_item *item)
{
    struct buf scratch = {.ptr = NULL};
    struct shape_reader shapes;
    struct bulk_reader reader;
    struct bulk_item alone;
    struct err err = {.rc = RC_OK};
    const char *type = NULL;
    if (!buf_reserve(&scratch, body.len))
        return;
    shape_reader_init(&shapes, NULL);
    bulk_reader_init(&reader, body, &shapes, &scratch);
    enum rc rc = bulk_next(&reader, &alone, &type, &err);
    assert(rc == RC_OK && alone.op == item->op && alone.has_id == item->has_id);
    assert(slice_eq(alone.id, item->id) && slice_eq(alone.index, item->index));
    assert(slice_eq(alone.routing, item->routing) && slice_eq(alone.pipeline, item->pipeline));
    assert(alone.version == item->version && alone.versioning == item->versioning);
    assert(alone.if_seq_no == item->if_seq_no && alone.if_primary_term == item->if_primary_term);
    assert(alone.require_alias == item->require_alias);
    assert(slice_eq(alone.source_filter, item->source_filter));
    assert(slice_eq(alone.source, item->source) && alone.source_ok == item->source_ok);
    shape_reader_done(&shapes);
    buf_done(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf scratch = {.ptr = NULL};
    if (!buf_reserve(&scratch, size))
        return 0;
    scratch.cap = size; /* the promise is body.len, not what malloc was asked for */
    const uint8_t *before = scratch.ptr;
    struct shapes *known = shapes_create();
    struct shape_reader shapes;
    struct bulk_reader reader;
    struct bulk_item item;
    struct err err = {.rc = RC_OK};
    const char *type = NULL;
    uint32_t line = 0;
    enum rc rc;
    shape_reader_init(&shapes, known);
    bulk_reader_init(&reader, slice_of(data, size), &shapes, &scratch);
    for (size_t at = 0; (rc = bulk_next(&reader, &item, &type, &err)) == RC_OK; at = reader.at) {
        check_alone(slice_of(data + at, size - at), &item);
        const struct slice parts[] = {item.index, item.id, item.routing, item.pipeline,
                                      item.source_filter};
        assert(scratch.ptr == before && scratch.len <= size);
        assert(item.line > line);
        line = item.line;
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
            assert(parts[i].len == 0 || within(parts[i], data, size) ||
                   within(parts[i], scratch.ptr, scratch.len));
        struct json_fault fault = {0, NULL};
        enum json_type top = JSON_END;
        if (item.op == WRITE_DELETE) {
            assert(item.source.len == 0);
            continue;
        }
        assert(within(item.source, data, size));
        bool ok = json_check_scalar(item.source, &top, &fault) && top == JSON_OBJECT;
        assert(ok == item.source_ok);
        if (item.fit.shape != NULL) {
            struct slice values[SHAPE_SLOTS_MAX];
            fit_values(&item.fit, item.source, values);
        }
        if (item.source_filter.len != 0)
            assert(json_check(item.source_filter, NULL, &fault));
    }
    assert(rc == RC_NOT_FOUND || rc == RC_INVALID);
    assert((rc == RC_INVALID) == (type != NULL) && (rc == RC_INVALID) == (err.msg[0] != '\0'));
    shape_reader_done(&shapes);
    shapes_destroy(known);
    buf_done(&scratch);
    return 0;
}
