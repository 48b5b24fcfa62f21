/* SPDX-License-Identifier: Apache-2.0 */
#include "api/retention.h"

#include "api/names_view.h"
#include "api/settings.h"
#include "api/streams.h"

#include <stdlib.h>

#define HOUR_MS 3600000u
#define DAY_MS  (24u * HOUR_MS)

/* ---- times */
bool retention_time(struct slice text, uint64_t *ms_out)
{
    static const struct {
        const char *unit;
        uint64_t mul, div;
    } units[] = {{"d", DAY_MS, 1}, {"h", HOUR_MS, 1},   {"m", 60000, 1},      {"s", 1000, 1},
                 {"ms", 1, 1},     {"micros", 1, 1000}, {"nanos", 1, 1000000}};
    uint64_t n = 0;
    size_t i = 0;
    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        if (n > UINT64_MAX / 10 / DAY_MS - 1)
            return false;
        n = n * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    struct slice unit = slice_of(text.ptr + i, text.len - i);
    for (size_t u = 0; i != 0 && u < ARRAY_LEN(units); u++)
        if (slice_is(unit, units[u].unit)) {
            *ms_out = n * units[u].mul / units[u].div;
            return true;
        }
    return false;
}

static bool time_member(struct json_value object, const char *key, uint64_t *ms_out)
{
    struct json_value value;
    struct slice text;
    return json_find(object, key, &value) && value.type == JSON_STRING &&
           json_plain(value.text, &text) && retention_time(text, ms_out);
}

/* ---- what is asked for */
bool retention_policy(struct slice policy, uint64_t *ms_out)
{
    struct json_value body, phases, phase, actions, action;
    if (!json_find(json_value_of(policy), "policy", &body) || !json_find(body, "phases", &phases) ||
        !json_find(phases, "delete", &phase) || !json_find(phase, "actions", &actions) ||
        !json_find(actions, "delete", &action))
        return false;
    *ms_out = 0;
    (void)time_member(phase, "min_age", ms_out);
    return true;
}

enum rc retention_lifecycle_check(struct json_value lifecycle, struct err *err)
{
    struct slice key;
    struct json_value value;
    uint64_t ms;
    struct json_scan scan = json_enter(lifecycle);
    if (lifecycle.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "a lifecycle must be an object");
    while (json_member(&scan, &key, &value)) {
        bool retention = json_string_is(key, "data_retention");
        if (value.type == JSON_NULL)
            continue;
        if (retention && !time_member(lifecycle, "data_retention", &ms))
            return err_set(err, RC_INVALID, 0,
                           "failed to parse setting [data_retention] with value [%.*s] as a time "
                           "value",
                           (int)(value.text.len > 60 ? 60 : value.text.len),
                           (const char *)value.text.ptr);
        if (json_string_is(key, "enabled") && value.type != JSON_TRUE && value.type != JSON_FALSE)
            return err_set(err, RC_INVALID, 0, "[enabled] must be true or false");
        if (!retention && !json_string_is(key, "enabled"))
            return err_set(err, RC_INVALID, 0,
                           "[lifecycle] unknown field [%.*s]: stowd knows "
                           "[data_retention] and [enabled]",
                           SLICE_FMT(slice_of(key.ptr + 1, key.len - 2)));
    }
    return RC_OK;
}

bool retention_lifecycle(struct json_value lifecycle, uint64_t *ms_out)
{
    struct json_value enabled;
    if (json_find(lifecycle, "enabled", &enabled) && enabled.type == JSON_FALSE)
        return false;
    return time_member(lifecycle, "data_retention", ms_out);
}

/* ---- a pass */
struct pass {
    struct api *api;
    struct names_view view;
    uint64_t now;
};

/* Retention of an index, and by what; false: it stays. newest: of its stream, or itself. */
static bool retention_of(const struct pass *pass, size_t i, size_t newest, uint64_t *ms_out,
                         const char **by_out)
{
    struct json_value settings = json_value_of(pass->view.meta[i]->settings), value;
    struct buf name = {NULL, 0, 0, false}, policy = name;
    struct stream_info stream;
    *by_out = "index.lifecycle.data_retention";
    if (time_member(settings, "index.lifecycle.data_retention", ms_out))
        return true;
    *by_out = "the data stream's lifecycle";
    stream_info_get(pass->view.meta[newest], &stream);
    if (retention_lifecycle(stream.lifecycle, ms_out))
        return true;
    *by_out = "the delete phase of its policy";
    if (!json_find(settings, "index.lifecycle.name", &value) || value.type != JSON_STRING)
        return false;
    json_unquote(value.text, &name);
    bool found =
        store_meta_get(pass->api->o.store, 'p', buf_slice(&name), &policy, NULL) == RC_OK &&
        retention_policy(buf_slice(&policy), ms_out);
    buf_done(&name);
    buf_done(&policy);
    return found;
}

/* The moment from which the age of an index counts. */
static uint64_t aging_since(const struct pass *pass, size_t i)
{
    const struct names_view *view = &pass->view;
    struct json_value rolled, at;
    uint64_t since = index_created_ms(view->index[i]), next = UINT64_MAX, ms;
    if (json_find(json_value_of(view->meta[i]->extra), "rolled_over", &rolled) &&
        json_find(rolled, "at", &at) && json_u64(at.text, &ms))
        since = ms;
    for (size_t k = 0; view->info[i].stream.len != 0 && k < view->count; k++)
        if (slice_eq(view->info[k].stream, view->info[i].stream) &&
            view->info[k].generation > view->info[i].generation &&
            view->info[k].generation < next) {
            next = view->info[k].generation;
            since = index_created_ms(view->index[k]);
        }
    return since;
}

/* Does an alias write to it? */
static bool is_written(const struct index_meta *meta)
{
    struct slice key;
    struct json_value properties, flag, aliases = json_value_of(meta->aliases);
    struct json_scan scan = json_enter(aliases);
    while (aliases.type == JSON_OBJECT && json_member(&scan, &key, &properties))
        if (json_find(properties, "is_write_index", &flag) && flag.type == JSON_TRUE)
            return true;
    return false;
}

/* Elasticsearch's max_age "auto" of data streams, and never longer than the retention itself. */
static uint64_t roll_after(uint64_t retention_ms)
{
    uint64_t ms = retention_ms <= DAY_MS           ? HOUR_MS
                  : retention_ms <= 14ull * DAY_MS ? DAY_MS
                  : retention_ms <= 90ull * DAY_MS ? 7ull * DAY_MS
                                                   : 30ull * DAY_MS;
    return ms < retention_ms ? ms : retention_ms;
}

static void say(const struct pass *pass, int severity, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void say(const struct pass *pass, int severity, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (pass->api->o.event == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pass->api->o.event(pass->api->o.arg, severity, text);
}

static void roll(const struct pass *pass, size_t i)
{
    struct index *next = NULL;
    struct index_stats stats;
    struct err err = {RC_OK, 0, ""};
    struct slice stream = pass->view.info[i].stream;
    index_stats_get(pass->view.index[i], &stats);
    if (stats.docs == 0) /* an empty one can wait */
        return;
    enum rc rc = stream_roll_locked(pass->api, stream, &next, &err);
    if (rc == RC_OK)
        say(pass, 0, "retention: data stream [%.*s] rolled over to [%s]", SLICE_FMT(stream),
            index_name(next));
    else
        say(pass, 1, "retention: data stream [%.*s] could not be rolled over: %s",
            SLICE_FMT(stream), err.msg);
    index_release(next);
}

static void judge(const struct pass *pass, size_t i)
{
    const struct names_view *view = &pass->view;
    struct index *index = view->index[i];
    struct err err = {RC_OK, 0, ""};
    size_t newest = i;
    uint64_t ms, since = aging_since(pass, i);
    const char *by;
    bool stream = names_view_stream(view, view->info[i].stream, &newest);
    if (!retention_of(pass, i, newest, &ms, &by) || pass->now < since)
        return;
    uint64_t age = pass->now - since;
    if (stream && newest == i) {
        if (age >= roll_after(ms))
            roll(pass, i);
        return;
    }
    if (age < ms || (!stream && is_written(view->meta[i])) ||
        names_blocked(index, &view->info[i], USE_DELETE, NULL) != RC_OK)
        return;
    enum rc rc = store_index_delete(pass->api->o.store, index, &err);
    if (rc == RC_OK)
        say(pass, 0, "retention: index [%s] deleted: %llu s old, at most %llu s by %s",
            index_name(index), (unsigned long long)(age / 1000), (unsigned long long)(ms / 1000),
            by);
    else if (rc != RC_NOT_FOUND)
        say(pass, 1, "retention: index [%s] could not be deleted: %s", index_name(index), err.msg);
}

static void run(void *arg)
{
    struct pass pass = {.api = arg, .now = clock_ms()};
    struct err err = {RC_OK, 0, ""};
    registry_lock(pass.api->names);
    if (names_view_open(pass.api, &pass.view, &err) == RC_OK) {
        for (size_t i = 0; i < pass.view.count; i++)
            judge(&pass, i);
        names_view_close(&pass.view);
    }
    registry_unlock(pass.api->names);
}

enum rc retention_start(struct api *api, struct err *err)
{
    return api->o.retention_ms == 0 ? RC_OK : api_every(api, api->o.retention_ms, run, api, err);
}
