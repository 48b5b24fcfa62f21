/* SPDX-License-Identifier: Apache-2.0 */
#include "api/streams.h"

#include "api/aliases.h"
#include "api/create.h"
#include "api/names_view.h"
#include "api/settings.h"

#include <time.h>

void stream_info_get(const struct index_meta *meta, struct stream_info *out)
{
    struct json_value stream, value;
    *out = (struct stream_info){.lifecycle = {JSON_END, SLICE_NONE}};
    if (!json_find(json_value_of(meta->extra), "data_stream", &stream))
        return;
    if (json_find(stream, "name", &value))
        (void)json_plain(value.text, &out->name); /* names need no escapes */
    if (json_find(stream, "generation", &value))
        (void)json_u64(value.text, &out->generation);
    if (json_find(stream, "template", &value))
        out->template = value.text;
    (void)json_find(stream, "lifecycle", &out->lifecycle);
    out->hidden = json_find(stream, "hidden", &value) && value.type == JSON_TRUE;
}

void stream_backing_name(struct slice stream, uint64_t generation, struct buf *out)
{
    char day[16];
    struct tm tm;
    time_t now = (time_t)(clock_ms() / 1000);
    gmtime_r(&now, &tm);
    strftime(day, sizeof day, "%Y.%m.%d", &tm);
    buf_printf(out, ".ds-%.*s-%s-%06llu", SLICE_FMT(stream), day, (unsigned long long)generation);
}

static void put_extra(struct slice stream, uint64_t generation, const struct draft *draft,
                      struct slice lifecycle, struct buf *out)
{
    BUF_PUT_LIT(out, "{\"data_stream\":{");
    json_str(out, "name", stream);
    json_uint(out, "generation", generation);
    json_str(out, "template", buf_slice(&draft->template));
    json_bool(out, "hidden", draft->stream_hidden);
    if (lifecycle.len != 0)
        json_raw(out, "lifecycle", lifecycle);
    BUF_PUT_LIT(out, "}}");
}

static enum rc make_backing(struct api *api, struct slice stream, uint64_t generation,
                            struct draft *draft, struct slice lifecycle, struct index **out,
                            struct err *err)
{
    struct buf name = {NULL, 0, 0, false}, extra = name;
    enum rc rc;
    stream_backing_name(stream, generation, &name);
    put_extra(stream, generation, draft, lifecycle, &extra);
    if (name.failed || extra.failed)
        TRY_OUT(err_set(err, RC_NOMEM, 0, "out of memory for a data stream"));
    TRY_OUT(names_check(buf_slice(&name), err));
    TRY_OUT(settings_set(&draft->settings, "index.hidden", SLICE_LIT("true"), err));
    struct creation creation = {
        .name = buf_slice(&name), .extra = buf_slice(&extra), .follows = true, .stream = stream};
    rc = create_locked(api, &creation, draft, out, err);
out:
    buf_done(&name);
    buf_done(&extra);
    return rc;
}

enum rc stream_create(struct api *api, struct slice name, struct draft *draft, struct index **out,
                      struct err *err)
{
    registry_lock(api->names);
    enum rc rc = create_check_taken(api, name, SLICE_NONE, false, err);
    if (rc == RC_OK)
        rc = make_backing(api, name, 1, draft, buf_slice(&draft->lifecycle), out, err);
    registry_unlock(api->names);
    return rc;
}

enum rc stream_roll_locked(struct api *api, struct slice name, struct index **out, struct err *err)
{
    struct draft draft = {.settings = {NULL, 0, 0}};
    struct stream_info newest;
    struct names_view view;
    size_t at = 0;
    enum rc rc;
    TRY(names_view_open(api, &view, err));
    if (!names_view_stream(&view, name, &at))
        TRY_OUT(RC_NOT_FOUND);
    stream_info_get(view.meta[at], &newest);
    TRY_OUT(templates_apply(api, name, &draft, err));
    if (!draft.stream)
        TRY_OUT(err_set(err, RC_INVALID, 0,
                        "no matching index template found for data stream [%.*s]",
                        SLICE_FMT(name)));
    struct slice key; /* the stream's aliases go on */
    struct json_value value, aliases = json_value_of(view.meta[at]->aliases);
    struct json_scan scan = json_enter(aliases);
    while (aliases.type == JSON_OBJECT && json_member(&scan, &key, &value))
        json_put(&draft.aliases, key, value.text);
    rc = make_backing(api, name, newest.generation + 1, &draft, newest.lifecycle.text, out, err);
out:
    names_view_close(&view);
    draft_done(&draft);
    return rc;
}
