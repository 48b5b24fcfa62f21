/* SPDX-License-Identifier: Apache-2.0 */
#include "api/source.h"

void source_from_query(const struct api_call *call, struct source_spec *out)
{
    struct slice source = call_param(call, "_source");
    struct slice includes = call_param(call, "_source_includes");
    struct slice excludes = call_param(call, "_source_excludes");
    *out = (struct source_spec){false, true, NULL};
    out->given = call_has(call, "_source") || includes.len != 0 || excludes.len != 0;
    if (slice_is(source, "false"))
        out->want = false;
    else if (source.len != 0 && !slice_is(source, "true") && includes.len == 0)
        includes = source;
    if (out->want && (includes.len != 0 || excludes.len != 0))
        out->filter = filter_create(includes, excludes);
    /* A stored field list without _source in it shows fields only. */
    struct slice stored = call_param(call, "stored_fields");
    if (!out->given && stored.len != 0 && memmem(stored.ptr, stored.len, "_source", 7) == NULL)
        out->want = false;
}

/* Append the strings of a string or an array of strings, comma separated. */
static enum rc put_patterns(struct json_value v, struct buf *out, struct err *err)
{
    if (v.type == JSON_STRING) {
        if (out->len != 0)
            buf_put_byte(out, ',');
        json_unquote(v.text, out);
        return RC_OK;
    }
    if (v.type != JSON_ARRAY)
        return err_set(err, RC_INVALID, 0,
                       "[_source] must be a boolean, a string, an array of "
                       "strings or an object of includes and excludes");
    struct json_scan scan = json_enter(v);
    struct json_value one;
    while (json_element(&scan, &one)) {
        if (one.type != JSON_STRING)
            return err_set(err, RC_INVALID, 0, "[_source] lists strings only");
        TRY(put_patterns(one, out, err));
    }
    return RC_OK;
}

static enum rc put_object(struct json_value v, struct buf *includes, struct buf *excludes,
                          struct err *err)
{
    struct json_scan scan = json_enter(v);
    struct slice key;
    struct json_value value;
    while (json_member(&scan, &key, &value)) {
        if (json_string_is(key, "includes") || json_string_is(key, "include"))
            TRY(put_patterns(value, includes, err));
        else if (json_string_is(key, "excludes") || json_string_is(key, "exclude"))
            TRY(put_patterns(value, excludes, err));
        else
            return err_set(err, RC_INVALID, 0, "[_source] unknown field %.*s", SLICE_FMT(key));
    }
    return RC_OK;
}

enum rc source_from_json(struct json_value v, struct source_spec *out, struct err *err)
{
    struct buf includes = {0}, excludes = {0};
    enum rc rc = RC_OK;
    *out = (struct source_spec){true, v.type != JSON_FALSE, NULL};
    if (v.type == JSON_OBJECT)
        rc = put_object(v, &includes, &excludes, err);
    else if (v.type != JSON_TRUE && v.type != JSON_FALSE)
        rc = put_patterns(v, &includes, err);
    if (rc == RC_OK && (includes.failed || excludes.failed))
        rc = err_set(err, RC_NOMEM, 0, "[_source]: out of memory");
    if (rc == RC_OK && (includes.len != 0 || excludes.len != 0))
        out->filter = filter_create(buf_slice(&includes), buf_slice(&excludes));
    buf_done(&includes);
    buf_done(&excludes);
    return rc;
}

void source_done(struct source_spec *spec)
{
    if (spec->filter != NULL)
        filter_destroy(spec->filter);
    spec->filter = NULL;
}

void source_put(const struct source_spec *spec, struct slice doc, struct buf *out)
{
    if (!spec->want)
        return;
    json_key(out, "_source");
    if (spec->filter == NULL)
        buf_put_slice(out, doc);
    else
        filter_apply(spec->filter, json_root(doc), out);
}
