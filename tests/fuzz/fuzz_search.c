/* SPDX-License-Identifier: Apache-2.0 */
/* A search body: read whole or refused with a text. What was read keeps its rules: ids sorted, each
 * once. */
#include "api/search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_of(data, size);
    struct search_spec spec;
    struct json_fault fault;
    enum json_type type;
    const char *kind = NULL;
    struct err err = {.msg = ""};
    uint64_t ms;
    (void)search_time(text, &ms);
    if (!json_check(text, &type, &fault) || type != JSON_OBJECT)
        return 0;
    search_spec_init(&spec);
    enum rc rc = search_spec_read(&spec, json_root(text), &kind, &err);
    assert(rc == RC_OK || (rc == RC_INVALID && kind != NULL && err.msg[0] != '\0'));
    for (size_t i = 1; i < spec.query.count; i++)
        assert(slice_cmp(spec.query.id[i - 1], spec.query.id[i]) < 0);
    assert(!spec.query.all || spec.query.count == 0);
    assert(search_sort_lead(&spec) <= spec.sort_count && spec.sort_count <= SEARCH_SORT_MAX);
    search_spec_done(&spec);
    return 0;
}
