/* SPDX-License-Identifier: Apache-2.0 */
/* J2: the two checkers agree. J1: what they accept, cJSON accepts, but for what it is known to
 * refuse. Walking, quoting and comparing what was accepted holds together. */
#include "storage/json.h"
#include "storage/json_tree.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A pull walk in every depth; returns the deepest. Strings survive decoding and quoting. */
static unsigned walk(struct json_value value, bool *strange)
{
    struct json_scan scan = json_enter(value);
    struct slice key;
    struct json_value inner;
    unsigned deepest = 0;
    if (value.type == JSON_NUMBER && value.text.len > 60)
        *strange = true; /* cJSON has a buffer of 64 bytes for a number */
    if (value.type != JSON_OBJECT && value.type != JSON_ARRAY)
        return 0;
    while (value.type == JSON_OBJECT ? json_member(&scan, &key, &inner)
                                     : json_element(&scan, &inner)) {
        unsigned depth = walk(inner, strange);
        deepest = depth > deepest ? depth : deepest;
    }
    assert(scan.p == scan.end);
    return deepest + 1;
}

/* \u0000 and surrogates without their other half, which cJSON refuses or cuts at. */
static bool has_strange_escape(struct slice text)
{
    bool high = false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned v = 0;
        if (text.ptr[i] == '\\' && text.ptr[i + 1] == 'u') {
            char hex[5] = {0};
            memcpy(hex, text.ptr + i + 2, 4);
            v = (unsigned)strtoul(hex, NULL, 16);
            i += 5;
            if (v == 0 || high != (v >= 0xdc00 && v < 0xe000))
                return true;
        } else {
            if (high)
                return true;
            i += text.ptr[i] == '\\';
        }
        high = v >= 0xd800 && v < 0xdc00;
    }
    return false;
}

static void check_string(struct json_value value)
{
    struct buf plain = {.ptr = NULL}, quoted = {.ptr = NULL}, again = {.ptr = NULL};
    struct json_fault fault;
    enum json_type type;
    json_unquote(value.text, &plain);
    json_quote(buf_slice(&plain), &quoted);
    assert(json_check(buf_slice(&quoted), &type, &fault) && type == JSON_STRING);
    json_unquote(buf_slice(&quoted), &again);
    assert(slice_eq(buf_slice(&plain), buf_slice(&again)));
    assert(has_strange_escape(value.text) || json_string_eq(value.text, buf_slice(&quoted)));
    buf_done(&plain);
    buf_done(&quoted);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {data, size};
    enum json_type type = JSON_END, type_scalar = JSON_END;
    struct json_fault fault = {0, NULL}, fault_scalar = {0, NULL};
    bool ok = json_check(text, &type, &fault);
    assert(ok == json_check_scalar(text, &type_scalar, &fault_scalar));
    assert(type == type_scalar && fault.at == fault_scalar.at && fault.what == fault_scalar.what);
    assert(ok || fault.at <= size);
    if (!ok)
        return 0;
    struct json_value root = json_root(text);
    assert(root.type == type);
    bool strange = has_strange_escape(root.text);
    unsigned depth = walk(root, &strange);
    if (root.type == JSON_STRING)
        check_string(root);
    struct json_tree tree;
    assert(json_tree_init(&tree, text) == RC_OK);
    assert(slice_eq(tree.node[0].value.text, root.text));
    bool same = false;
    assert(json_tree_same(tree.node, tree.node, &same) == RC_OK && same);
    json_tree_done(&tree);
    if (strange || depth >= 900)
        return 0;
    cJSON *parsed = cJSON_ParseWithLength((const char *)root.text.ptr, root.text.len);
    assert(parsed != NULL);
    cJSON_Delete(parsed);
    return 0;
}
