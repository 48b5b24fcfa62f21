/* SPDX-License-Identifier: Apache-2.0 */
/* GET and PUT _settings. */
#include "api/handlers.h"
#include "api/indices.h"
#include "api/settings.h"
#include "config/limits.h"

/* ---- showing */
bool settings_view_read(struct api_call *call, struct settings_view *out)
{
    out->patterns = call_part(call, "name");
    return call_bool(call, "flat_settings", false, &out->flat) &&
           call_bool(call, "include_defaults", false, &out->defaults);
}

static enum rc set_text(struct settings *settings, const char *key, const char *text,
                        struct err *err)
{
    return settings_set(settings, key, slice_str(text), err);
}

static enum rc set_if_absent(struct settings *settings, const char *key, const char *text,
                             struct err *err)
{
    return settings_find(settings, key).type == JSON_END ? set_text(settings, key, text, err)
                                                         : RC_OK;
}

/* "8.19.2" -> "8190299", as Elasticsearch numbers its versions. */
static void version_created(const struct api *api, char out[32])
{
    unsigned major = 0, minor = 0, patch = 0;
    sscanf(api->o.identity_version, "%3u.%3u.%3u", &major, &minor, &patch);
    snprintf(out, 32, "%u", major * 1000000 + minor * 10000 + patch * 100 + 99);
}

static enum rc add_own(const struct api *api, const struct index *index, struct settings *settings,
                       struct err *err)
{
    char text[32];
    TRY(set_if_absent(settings, "index.number_of_shards", "1", err));
    TRY(set_if_absent(settings, "index.number_of_replicas", "0", err));
    TRY(set_if_absent(settings, "index.provided_name", index_name(index), err));
    TRY(set_text(settings, "index.uuid", index_uuid(index), err));
    snprintf(text, sizeof text, "%llu", (unsigned long long)index_created_ms(index));
    TRY(set_text(settings, "index.creation_date", text, err));
    version_created(api, text);
    return set_text(settings, "index.version.created", text, err);
}

static enum rc add_defaults(const struct index *index, const struct settings *asked,
                            struct settings *defaults, struct err *err)
{
    static const char *const plain[][2] = {
        {"index.hidden", "false"},
        {"index.refresh_interval", "1s"},
        {"index.gc_deletes", "60s"},
        {"index.max_result_window", "10000"},
        {"index.store.type", ""},
        {"index.translog.durability", "request"},
        {"index.soft_deletes.enabled", "true"},
    };
    const struct codec_spec *spec = index_spec(index);
    char text[32];
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        if (settings_find(asked, plain[i][0]).type == JSON_END)
            TRY(set_text(defaults, plain[i][0], plain[i][1], err));
    /* What the names that were asked for came to, also where they were given. */
    TRY(set_text(defaults, "index.codec", codec_text(spec->codec), err));
    if (spec->level != 0) {
        snprintf(text, sizeof text, "%d", spec->level);
        TRY(set_text(defaults, "index.codec.compression_level", text, err));
    }
    bool even = spec->block_bytes % KIB == 0;
    snprintf(text, sizeof text, "%u%s", even ? spec->block_bytes / KIB : spec->block_bytes,
             even ? "kb" : "b");
    TRY(set_text(defaults, "index.block.size", text, err));
    return set_text(defaults, "index.block.layout", block_layout_text(spec->layout), err);
}

enum rc index_settings_put(const struct api *api, struct index *index,
                           const struct settings_view *view, struct buf *out, struct err *err)
{
    struct settings settings = {NULL, 0, 0}, defaults = {NULL, 0, 0};
    const struct index_meta *meta = index_meta_acquire(index);
    enum rc rc;
    TRY_OUT(settings_load(&settings, meta->settings, err));
    TRY_OUT(add_own(api, index, &settings, err));
    json_key(out, "settings");
    settings_print(&settings, view->flat, view->patterns, out);
    if (view->defaults) {
        TRY_OUT(add_defaults(index, &settings, &defaults, err));
        json_key(out, "defaults");
        settings_print(&defaults, view->flat, view->patterns, out);
    }
out:
    index_meta_release(meta);
    settings_done(&settings);
    settings_done(&defaults);
    return rc;
}

void settings_get(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct settings_view view;
    struct names_list list;
    struct err err = {RC_OK, 0, ""};
    enum rc rc = RC_OK;
    if (!settings_view_read(call, &view) || !names_resolve_or_reply(call, &options, &list) ||
        !names_usable(call, &list, USE_SHOW))
        return;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    for (size_t i = 0; rc == RC_OK && i < list.count; i++) {
        json_key(out, index_name(list.index[i]));
        buf_put_byte(out, '{');
        rc = index_settings_put(call->api, list.index[i], &view, out, &err);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
    names_list_done(&list);
    if (rc != RC_OK)
        reply_rc(call, rc, &err);
    else
        api_finish(call);
}

/* ---- changing */
struct change {
    struct settings over;
    bool preserve_existing;
};

/* A block that keeps settings from being changed can be taken away itself. */
static bool lifts_block(const struct settings *over)
{
    static const char *const keys[] = {"index.blocks.read_only", "index.blocks.metadata",
                                       "index.blocks.read_only_allow_delete"};
    for (size_t i = 0; over->count == 1 && i < ARRAY_LEN(keys); i++)
        if (strcmp(over->item[0].key, keys[i]) == 0)
            return true;
    return false;
}

static enum rc check_one(struct index *index, const struct change *change, struct err *err)
{
    char label[320];
    struct names_info info;
    const struct index_meta *meta = index_meta_acquire(index);
    names_info_get(meta, &info);
    index_meta_release(meta);
    if (!lifts_block(&change->over))
        TRY(names_blocked(index, &info, USE_CHANGE, err));
    snprintf(label, sizeof label, "%s/%s", index_name(index), index_uuid(index));
    return settings_check(&change->over,
                          info.closed ? SETTINGS_UPDATE_CLOSED : SETTINGS_UPDATE_OPEN, label, err);
}

static enum rc change_one(struct index_meta *meta, void *arg, struct buf *scratch, struct err *err)
{
    const struct change *change = arg;
    struct settings settings = {NULL, 0, 0};
    enum rc rc;
    TRY_OUT(settings_load(&settings, meta->settings, err));
    TRY_OUT(settings_overlay(&settings, &change->over, change->preserve_existing, err));
    settings_print(&settings, true, SLICE_NONE, scratch);
    meta->settings = buf_slice(scratch);
out:
    settings_done(&settings);
    return rc;
}

/* All indices are asked before the first one is changed. */
static enum rc change_all(struct api *api, const struct names_list *list, struct change *change,
                          struct err *err)
{
    for (size_t i = 0; i < list->count; i++)
        TRY(check_one(list->index[i], change, err));
    for (size_t i = 0; i < list->count; i++)
        TRY(names_change_meta(api, list->index[i], change_one, change, err));
    return RC_OK;
}

void settings_put(struct api_call *call)
{
    struct names_options options = {.expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct change change = {.over = {NULL, 0, 0}};
    struct names_list list = {NULL, 0};
    struct json_value body, inner;
    struct err err = {RC_OK, 0, ""};
    if (!names_body_object(call, &body) ||
        !call_bool(call, "preserve_existing", false, &change.preserve_existing) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    if (json_find(body, "settings", &inner) && inner.type == JSON_OBJECT)
        body = inner;
    enum rc rc = settings_read(&change.over, body, &err);
    if (rc == RC_OK)
        rc = change_all(call->api, &list, &change, &err);
    settings_done(&change.over);
    names_list_done(&list);
    if (rc != RC_OK)
        names_reply_error(call, SLICE_NONE, rc, &err);
    else
        reply_ack(call);
}
