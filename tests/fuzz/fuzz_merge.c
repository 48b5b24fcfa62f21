/* SPDX-License-Identifier: Apache-2.0 */
/* Three lines: a document, an update, patterns. The merged document is JSON and merging the same
 * update into it again is a noop; filtering yields JSON. */
#include "api/filter.h"
#include "api/merge.h"
#include "storage/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice take_line(struct slice *rest)
{
    const uint8_t *newline = rest->len != 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t n = newline != NULL ? (size_t)(newline - rest->ptr) : rest->len;
    struct slice line = {rest->ptr, n};
    n += newline != NULL;
    *rest = slice_of(rest->ptr + n, rest->len - n);
    return line;
}

static bool is_json(struct slice text)
{
    struct json_fault fault;
    return json_check(text, NULL, &fault);
}

static bool is_object(struct slice text)
{
    struct json_fault fault;
    enum json_type type;
    return json_check(text, &type, &fault) && type == JSON_OBJECT;
}

static void check_filter(struct filter *filter, struct slice document)
{
    struct buf out = {.ptr = NULL}, part = {.ptr = NULL};
    filter_apply(filter, json_root(document), &out);
    assert(is_object(buf_slice(&out)));
    bool kept = filter_apply_at(filter, "a.b", json_root(document), &part);
    assert(kept ? filter_wants(filter, "a.b") && is_json(buf_slice(&part)) : part.len == 0);
    buf_done(&out);
    buf_done(&part);
    filter_destroy(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {data, size};
    struct slice document = take_line(&rest), update = take_line(&rest), list = take_line(&rest);
    if (!is_object(document))
        return 0;
    check_filter(filter_create_path(list), document);
    check_filter(filter_create(list, take_line(&rest)), document);
    if (!is_object(update))
        return 0;
    struct buf once = {.ptr = NULL}, twice = {.ptr = NULL};
    bool noop = false;
    assert(merge_documents(document, update, &once, &noop) == RC_OK);
    assert(is_object(buf_slice(&once)));
    assert(!noop || json_same(json_root(document), json_root(buf_slice(&once))));
    assert(merge_documents(buf_slice(&once), update, &twice, &noop) == RC_OK);
    assert(noop && slice_eq(buf_slice(&once), buf_slice(&twice)));
    buf_done(&once);
    buf_done(&twice);
    return 0;
}
