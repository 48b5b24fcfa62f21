/* SPDX-License-Identifier: Apache-2.0 */
/* GET _mapping/field: the definitions of single fields in the mapping as it was put. */
#include "api/handlers.h"
#include "api/names.h"
#include "api/settings.h"

#define NAME_BYTES_MAX 1000 /* of a path of fields; deeper ones are passed over */

struct fields {
    struct slice wanted;
    struct buf *out;
    size_t found;
    char path[NAME_BYTES_MAX];
};

static void put_field(struct fields *f, size_t len, struct slice key, struct json_value definition)
{
    struct slice name = slice_of(f->path, len);
    if (!names_in_list(f->wanted, name))
        return;
    if (f->found++ != 0)
        buf_put_byte(f->out, ',');
    json_quote(name, f->out);
    BUF_PUT_LIT(f->out, ":{\"full_name\":");
    json_quote(name, f->out);
    BUF_PUT_LIT(f->out, ",\"mapping\":{");
    buf_put_slice(f->out, key);
    buf_put_byte(f->out, ':');
    buf_put_slice(f->out, definition.text);
    BUF_PUT_LIT(f->out, "}}");
}

/* The fields of "properties" or "fields", whose parent's path has `len` bytes. Bounded by the depth
 * that a mapping may have. */
static void each_field(struct fields *f, struct json_value list, size_t len)
{
    struct json_scan scan = json_enter(list);
    struct json_value definition, below;
    struct slice key;
    while (list.type == JSON_OBJECT && json_member(&scan, &key, &definition)) {
        struct buf name = {0};
        size_t at = len;
        json_unquote(key, &name);
        if (definition.type == JSON_OBJECT && !name.failed && at + name.len + 1 <= sizeof f->path) {
            if (at != 0)
                f->path[at++] = '.';
            if (name.len != 0)
                memcpy(f->path + at, name.ptr, name.len);
            at += name.len;
            if (json_find(definition, "properties", &below))
                each_field(f, below, at);
            else
                put_field(f, at, key, definition);
            if (json_find(definition, "fields", &below))
                each_field(f, below, at);
        }
        buf_done(&name);
    }
}

void field_mapping_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct names_list list;
    struct json_value properties;
    if (!names_resolve_or_reply(call, &options, &list) || !names_usable(call, &list, USE_SHOW))
        return;
    struct buf *out = reply_json(call, 200);
    bool typed = slice_is(call_param(call, "include_type_name"), "true");
    buf_put_byte(out, '{');
    for (size_t i = 0; i < list.count; i++) {
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        struct fields f = {.wanted = call_part(call, "fields"), .out = out};
        json_key(out, index_name(list.index[i]));
        buf_put_str(out, typed ? "{\"mappings\":{\"_doc\":{" : "{\"mappings\":{");
        if (json_find(json_value_of(meta->mappings), "properties", &properties))
            each_field(&f, properties, 0);
        buf_put_str(out, typed ? "}}}" : "}}");
        index_meta_release(meta);
    }
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}
