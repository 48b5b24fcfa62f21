/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from outside: whatever is read must print to JSON that reads to the same set, flat and
 * nested, and what resolves must stay within the limits. */
#include "api/settings.h"
#include "config/limits.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static struct buf print(const struct settings *settings, bool flat)
{
    struct buf out = {NULL, 0, 0, false};
    enum json_type type;
    struct json_fault fault;
    settings_print(settings, flat, SLICE_NONE, &out);
    must(!out.failed && json_check(buf_slice(&out), &type, &fault) && type == JSON_OBJECT);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings settings = {NULL, 0, 0};
    struct err err = {RC_OK, 0, ""};
    struct json_fault fault;
    struct codec_spec spec;
    struct slice text = slice_of(data, size);
    if (!json_check(text, NULL, &fault))
        return 0;
    if (settings_read(&settings, json_root(text), &err) == RC_OK) {
        struct buf flat = print(&settings, true), nested = print(&settings, false);
        struct settings again = {NULL, 0, 0};
        must(settings_load(&again, buf_slice(&flat), &err) == RC_OK);
        struct buf twice = print(&again, true);
        must(slice_eq(buf_slice(&flat), buf_slice(&twice)));
        (void)!settings_check(&settings, SETTINGS_CREATE, "i", &err);
        if (settings_resolve(&settings, &spec, &err) == RC_OK)
            must(spec.block_bytes >= LIMIT_BLOCK_BYTES_MIN &&
                 spec.block_bytes <= LIMIT_BLOCK_BYTES_MAX && spec.level >= 0 &&
                 spec.level <= LIMIT_ZSTD_LEVEL);
        buf_done(&flat);
        buf_done(&nested);
        buf_done(&twice);
        settings_done(&again);
    }
    settings_done(&settings);
    return 0;
}
