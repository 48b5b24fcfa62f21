/* SPDX-License-Identifier: Apache-2.0 */
#include "api/aliases.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/settings.h"

/* ---- JSON objects in a buffer */
void json_put(struct buf *object, struct slice quoted_key, struct slice value)
{
    struct buf next = {NULL, 0, 0, false};
    struct slice key;
    struct json_value old;
    buf_put_byte(&next, '{');
    if (object->len != 0) {
        struct json_scan scan = json_enter(json_root(buf_slice(object)));
        while (json_member(&scan, &key, &old)) {
            if (json_string_eq(key, quoted_key))
                continue;
            if (next.len > 1)
                buf_put_byte(&next, ',');
            buf_put_slice(&next, key);
            buf_put_byte(&next, ':');
            buf_put_slice(&next, old.text);
        }
    }
    if (value.len != 0) {
        if (next.len > 1)
            buf_put_byte(&next, ',');
        buf_put_slice(&next, quoted_key);
        buf_put_byte(&next, ':');
        buf_put_slice(&next, value);
    }
    buf_put_byte(&next, '}');
    if (next.failed)
        object->failed = true;
    object->len = 0;
    buf_put_slice(object, buf_slice(&next));
    buf_done(&next);
}

/* ---- properties */
static void put_text(struct buf *out, const char *key, struct json_value scalar)
{
    struct buf text = {NULL, 0, 0, false};
    if (scalar.type > JSON_NULL) {
        json_plain_text(scalar, &text);
        json_str(out, key, buf_slice(&text));
        buf_done(&text);
    }
}

static enum rc put_properties(struct json_value sent, struct buf *out, struct err *err)
{
    struct json_value none = {JSON_END, SLICE_NONE}, routing = none, index = none, search = none;
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(sent);
    buf_put_byte(out, '{');
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "routing"))
            routing = value;
        else if (json_string_is(key, "index_routing"))
            index = value;
        else if (json_string_is(key, "search_routing"))
            search = value;
        else if (json_string_is(key, "filter") && value.type == JSON_OBJECT)
            json_raw(out, "filter", value.text);
        else if (json_string_is(key, "is_write_index") && value.type != JSON_NULL)
            json_bool(out, "is_write_index", value.type == JSON_TRUE);
        else if (json_string_is(key, "is_hidden") && value.type != JSON_NULL)
            json_bool(out, "is_hidden", value.type == JSON_TRUE);
        else if (!json_string_is(key, "filter") && value.type != JSON_NULL)
            return err_set(err, RC_INVALID, 0, "Unknown field [%.*s] in alias",
                           SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
    }
    put_text(out, "index_routing", index.type > JSON_NULL ? index : routing);
    put_text(out, "search_routing", search.type > JSON_NULL ? search : routing);
    buf_put_byte(out, '}');
    return RC_OK;
}

/* "{index}" in a template's alias is the name of the new index. */
static void put_name(struct slice name, struct slice index, struct buf *out)
{
    static const char place[] = "{index}";
    for (size_t i = 0; i < name.len;) {
        if (name.len - i >= 7 && memcmp(name.ptr + i, place, 7) == 0 && index.len != 0) {
            buf_put_slice(out, index);
            i += 7;
        } else {
            buf_put_byte(out, name.ptr[i++]);
        }
    }
}

static enum rc read_one(struct slice key, struct json_value value, struct slice index,
                        struct buf *aliases, struct err *err)
{
    struct buf raw = {NULL, 0, 0, false}, name = raw, quoted = raw, properties = raw;
    enum rc rc;
    json_unquote(key, &raw);
    put_name(buf_slice(&raw), index, &name);
    TRY_OUT(aliases_check_name(buf_slice(&name), err));
    if (value.type != JSON_OBJECT && value.type != JSON_NULL)
        TRY_OUT(err_set(err, RC_INVALID, 0, "the properties of an alias must be an object"));
    if (value.type == JSON_OBJECT)
        TRY_OUT(put_properties(value, &properties, err));
    else
        BUF_PUT_LIT(&properties, "{}");
    json_quote(buf_slice(&name), &quoted);
    json_put(aliases, buf_slice(&quoted), buf_slice(&properties));
    rc = name.failed || quoted.failed || properties.failed || aliases->failed
             ? err_set(err, RC_NOMEM, 0, "out of memory for aliases")
             : RC_OK;
out:
    buf_done(&raw);
    buf_done(&name);
    buf_done(&quoted);
    buf_done(&properties);
    return rc;
}

enum rc aliases_read(struct json_value object, struct slice index, struct buf *aliases,
                     struct err *err)
{
    struct slice key;
    struct json_value value;
    if (object.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "aliases must be an object");
    struct json_scan scan = json_enter(object);
    while (json_member(&scan, &key, &value))
        TRY(read_one(key, value, index, aliases, err));
    return RC_OK;
}
