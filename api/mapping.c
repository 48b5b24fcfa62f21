/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mapping.h"

#include "api/aliases.h"
#include "api/handlers.h"
#include "api/merge.h"
#include "api/names.h"
#include "api/settings.h"

/* Fields within fields, as Elasticsearch's index.mapping.depth.limit; every level of dots is a copy
 * of what lies below it. */
#define LIMIT_MAPPING_DEPTH 20

/* ---- merging */
static enum rc no_memory(struct err *err)
{
    return err_set(err, RC_NOMEM, 0, "out of memory for a mapping");
}

static enum rc expand(struct json_value object, bool properties, int depth, struct buf *out,
                      struct err *err);

/* Merge the field "a.b" with its definition into *fields as {"a":{"properties":{"b":…}}}. */
static enum rc expand_dotted(struct slice name, struct json_value definition, int depth,
                             struct buf *fields, struct err *err)
{
    struct buf text = {NULL, 0, 0, false}, one = text, merged = text;
    size_t head = (size_t)((const uint8_t *)memchr(name.ptr, '.', name.len) - name.ptr);
    bool noop;
    enum rc rc = RC_OK;
    if (head == 0 || head + 1 == name.len)
        return err_set(err, RC_INVALID, 0, "field name [%.*s] has an empty part", SLICE_FMT(name));
    buf_put_byte(&text, '{');
    json_quote(slice_of(name.ptr, head), &text);
    BUF_PUT_LIT(&text, ":{\"properties\":{");
    json_quote(slice_of(name.ptr + head + 1, name.len - head - 1), &text);
    buf_put_byte(&text, ':');
    buf_put_slice(&text, definition.text);
    BUF_PUT_LIT(&text, "}}}");
    if (text.failed)
        TRY_OUT(no_memory(err));
    TRY_OUT(expand(json_root(buf_slice(&text)), true, depth + 1, &one, err));
    rc = merge_documents(buf_slice(fields), buf_slice(&one), &merged, &noop);
    if (rc == RC_OK && !noop) {
        fields->len = 0;
        buf_put_slice(fields, buf_slice(&merged));
    }
out:
    buf_done(&text);
    buf_done(&one);
    buf_done(&merged);
    return rc;
}

static enum rc expand_plain(struct json_value object, bool properties, int depth, struct buf *out,
                            struct err *err)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(object);
    buf_put_byte(out, '{');
    while (json_member(&scan, &key, &value)) {
        if (properties && memchr(key.ptr, '.', key.len) != NULL)
            continue;
        if (out->ptr != NULL && out->ptr[out->len - 1] != '{')
            buf_put_byte(out, ',');
        buf_put_slice(out, key);
        buf_put_byte(out, ':');
        if (value.type == JSON_OBJECT && (properties || json_string_is(key, "properties")))
            TRY(expand(value, !properties, depth + 1, out, err));
        else
            buf_put_slice(out, value.text);
    }
    buf_put_byte(out, '}');
    return RC_OK;
}

/* Append an object of a mapping; `properties`: its members are fields. */
static enum rc expand(struct json_value object, bool properties, int depth, struct buf *out,
                      struct err *err)
{
    struct slice key;
    struct json_value value;
    struct buf fields = {NULL, 0, 0, false};
    struct json_scan scan = json_enter(object);
    enum rc rc;
    if (depth > 2 * LIMIT_MAPPING_DEPTH + 1)
        return err_set(err, RC_INVALID, 0, "Limit of mapping depth [%d] has been exceeded",
                       LIMIT_MAPPING_DEPTH);
    TRY_OUT(expand_plain(object, properties, depth, &fields, err));
    while (properties && !fields.failed && json_member(&scan, &key, &value)) {
        struct buf name = {NULL, 0, 0, false};
        if (memchr(key.ptr, '.', key.len) == NULL)
            continue;
        json_unquote(key, &name);
        rc = name.failed ? no_memory(err)
                         : expand_dotted(buf_slice(&name), value, depth, &fields, err);
        buf_done(&name);
        TRY_OUT(rc);
    }
    buf_put_slice(out, buf_slice(&fields));
    rc = fields.failed || out->failed ? no_memory(err) : RC_OK;
out:
    buf_done(&fields);
    return rc;
}

enum rc mapping_merge(struct json_value sent, struct buf *mapping, struct err *err)
{
    struct buf update = {NULL, 0, 0, false}, merged = update;
    struct json_value type;
    bool noop;
    enum rc rc;
    if (sent.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "a mapping must be an object");
    if (json_find(sent, "_doc", &type))
        return err_set(err, RC_INVALID, 0,
                       "The mapping definition cannot be nested under a type [_doc] unless "
                       "include_type_name is set to true.");
    TRY_OUT(expand(sent, false, 0, &update, err));
    rc = merge_documents(mapping->len == 0 ? SLICE_LIT("{}") : buf_slice(mapping),
                         buf_slice(&update), &merged, &noop);
    if (rc == RC_OK && (!noop || mapping->len == 0)) {
        mapping->len = 0;
        buf_put_slice(mapping, noop ? SLICE_LIT("{}") : buf_slice(&merged));
        if (mapping->failed)
            rc = no_memory(err);
    }
out:
    buf_done(&update);
    buf_done(&merged);
    return rc;
}

/* ---- types of old: include_type_name */
/* Is a member of a mapping one of its own, and not a type? */
static bool is_root_key(struct slice key)
{
    static const char *const keys[] = {
        "properties",
        "dynamic",
        "dynamic_templates",
        "dynamic_date_formats",
        "date_detection",
        "numeric_detection",
        "runtime",
        "_source",
        "_routing",
        "_meta",
        "_all",
        "_field_names",
        "_size",
        "_data_stream_timestamp",
        "enabled",
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (json_string_is(key, keys[i]))
            return true;
    return false;
}

bool names_untyped_mapping(struct api_call *call, struct json_value *mapping)
{
    struct slice key;
    struct json_value value, more;
    bool typed;
    if (!call_bool(call, "include_type_name", false, &typed))
        return false;
    struct json_scan scan = json_enter(*mapping);
    if (typed && mapping->type == JSON_OBJECT && json_member(&scan, &key, &value) &&
        value.type == JSON_OBJECT && !is_root_key(key) && !json_member(&scan, &key, &more))
        *mapping = value;
    return true;
}

bool names_untyped(struct api_call *call, struct json_value *body)
{
    struct buf text = {NULL, 0, 0, false};
    struct json_value mapping;
    if (!json_find(*body, "mappings", &mapping))
        return true;
    struct slice before = mapping.text;
    if (!names_untyped_mapping(call, &mapping))
        return false;
    if (mapping.text.ptr == before.ptr)
        return true;
    buf_put_slice(&text, body->text);
    json_put(&text, SLICE_LIT("\"mappings\""), mapping.text);
    struct slice copy = call_dup(call, buf_slice(&text));
    bool failed = text.failed || copy.ptr == NULL;
    buf_done(&text);
    if (failed)
        reply_rc(call, RC_NOMEM, NULL);
    else
        *body = json_root(copy);
    return !failed;
}

void names_put_mapping(struct api_call *call, struct slice mapping, struct buf *out)
{
    bool typed = slice_is(call_param(call, "include_type_name"), "true") && mapping.len > 2;
    json_key(out, "mappings");
    if (typed)
        BUF_PUT_LIT(out, "{\"_doc\":");
    buf_put_slice(out, mapping.len == 0 ? SLICE_LIT("{}") : mapping);
    if (typed)
        buf_put_byte(out, '}');
}

/* ---- endpoints */
void mapping_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true, .expand = EXPAND_OPEN};
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list) || !names_usable(call, &list, USE_SHOW))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    for (size_t i = 0; i < list.count; i++) {
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        json_key(out, index_name(list.index[i]));
        buf_put_byte(out, '{');
        names_put_mapping(call, meta->mappings, out);
        buf_put_byte(out, '}');
        index_meta_release(meta);
    }
    buf_put_byte(out, '}');
    names_list_done(&list);
    api_finish(call);
}

static enum rc put_one(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct json_value *sent = arg;
    buf_put_slice(scratch, meta->mappings);
    TRY(mapping_merge(*sent, scratch, err));
    meta->mappings = buf_slice(scratch);
    return RC_OK;
}

void mapping_put(struct api_call *call)
{
    struct names_options options = {.expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct names_list list;
    struct json_value sent, type;
    struct err err = {RC_OK, 0, ""};
    if (!names_body_object(call, &sent) || !names_untyped_mapping(call, &sent))
        return;
    if (json_find(sent, "_doc", &type)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "Types cannot be provided in put mapping requests, unless the "
                    "include_type_name parameter is set to true.");
        return;
    }
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    enum rc rc = names_list_blocked(&list, USE_CHANGE, &err);
    for (size_t i = 0; rc == RC_OK && i < list.count; i++)
        rc = names_change_meta(call->api, list.index[i], put_one, &sent, &err);
    names_list_done(&list);
    if (rc != RC_OK)
        names_reply_error(call, call_part(call, "index"), rc, &err);
    else
        reply_ack(call);
}
