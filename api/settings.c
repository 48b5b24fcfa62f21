/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings.h"

#include "api/names.h"
#include "api/retention.h"
#include "config/limits.h"

#include <stdlib.h>
#include <strings.h>

/* Longest key; also bounds how deep settings nest when they are printed. */
#define LIMIT_SETTING_KEY_BYTES 512

/* When a setting may be given after the index was made. */
enum rule_change { CHANGE_ANY, CHANGE_CLOSED, CHANGE_NEVER, CHANGE_PRIVATE };
enum rule_value { VALUE_ANY, VALUE_BOOL, VALUE_COUNT, VALUE_SHARDS, VALUE_TIME, VALUE_OWN };

struct rule {
    const char *key; /* or a prefix: "index.merge.*" */
    enum rule_change change;
    enum rule_value value;
};

/* Ours first; then what Elasticsearch and its kin know, which is stored and echoed. The first row
 * that matches counts. */
static const struct rule rules[] = {
    {"index.codec", CHANGE_NEVER, VALUE_OWN},
    {"index.codec.compression_level", CHANGE_NEVER, VALUE_OWN},
    {"index.compression.zstd.level", CHANGE_NEVER, VALUE_OWN},
    {"index.compression.zstd.jni", CHANGE_NEVER, VALUE_BOOL},
    {"index.compression.zstd.dict", CHANGE_NEVER, VALUE_BOOL},
    {"index.block.size", CHANGE_NEVER, VALUE_OWN},
    {"index.block.layout", CHANGE_NEVER, VALUE_OWN},
    {"index.number_of_shards", CHANGE_NEVER, VALUE_SHARDS},
    {"index.number_of_routing_shards", CHANGE_NEVER, VALUE_COUNT},
    {"index.number_of_replicas", CHANGE_ANY, VALUE_COUNT},
    {"index.hidden", CHANGE_ANY, VALUE_BOOL},
    {"index.blocks.*", CHANGE_ANY, VALUE_BOOL},
    {"index.uuid", CHANGE_PRIVATE, VALUE_ANY},
    {"index.creation_date", CHANGE_PRIVATE, VALUE_ANY},
    {"index.provided_name", CHANGE_PRIVATE, VALUE_ANY},
    {"index.version.*", CHANGE_PRIVATE, VALUE_ANY},
    {"index.history.uuid", CHANGE_PRIVATE, VALUE_ANY},
    {"index.resize.*", CHANGE_PRIVATE, VALUE_ANY},
    {"index.verified_before_close", CHANGE_PRIVATE, VALUE_ANY},
    {"index.routing_partition_size", CHANGE_NEVER, VALUE_ANY},
    {"index.routing_path", CHANGE_NEVER, VALUE_ANY},
    {"index.mode", CHANGE_NEVER, VALUE_ANY},
    {"index.sort.*", CHANGE_NEVER, VALUE_ANY},
    {"index.soft_deletes.enabled", CHANGE_NEVER, VALUE_BOOL},
    {"index.replication.type", CHANGE_NEVER, VALUE_ANY},
    {"index.remote_store.*", CHANGE_NEVER, VALUE_ANY},
    {"index.time_series.*", CHANGE_NEVER, VALUE_ANY},
    {"index.analysis.*", CHANGE_CLOSED, VALUE_ANY},
    {"index.similarity.*", CHANGE_CLOSED, VALUE_ANY},
    {"index.store.*", CHANGE_CLOSED, VALUE_ANY},
    {"index.shard.*", CHANGE_CLOSED, VALUE_ANY},
    {"index.query_string.lenient", CHANGE_CLOSED, VALUE_BOOL},
    {"index.data_path", CHANGE_CLOSED, VALUE_ANY},
    {"index.fielddata.cache", CHANGE_CLOSED, VALUE_ANY},
    {"index.load_fixed_bitset_filters_eagerly", CHANGE_CLOSED, VALUE_BOOL},
    {"index.mapping.coerce", CHANGE_CLOSED, VALUE_BOOL},
    {"index.mapping.ignore_malformed", CHANGE_CLOSED, VALUE_BOOL},
    {"index.knn", CHANGE_CLOSED, VALUE_BOOL},
    {"index.knn.*", CHANGE_ANY, VALUE_ANY},
    {"index.allocation.*", CHANGE_ANY, VALUE_ANY},
    {"index.analyze.*", CHANGE_ANY, VALUE_ANY},
    {"index.append_only.*", CHANGE_ANY, VALUE_ANY},
    {"index.auto_expand_replicas", CHANGE_ANY, VALUE_ANY},
    {"index.default_pipeline", CHANGE_ANY, VALUE_ANY},
    {"index.final_pipeline", CHANGE_ANY, VALUE_ANY},
    {"index.flush_after_merge", CHANGE_ANY, VALUE_ANY},
    {"index.force_memory_term_dictionary", CHANGE_ANY, VALUE_ANY},
    {"index.format", CHANGE_ANY, VALUE_ANY},
    {"index.frozen", CHANGE_ANY, VALUE_ANY},
    {"index.gc_deletes", CHANGE_ANY, VALUE_ANY},
    {"index.highlight.*", CHANGE_ANY, VALUE_ANY},
    {"index.indexing.*", CHANGE_ANY, VALUE_ANY},
    {"index.lifecycle.data_retention", CHANGE_ANY, VALUE_TIME}, /* ours: api/retention.h */
    {"index.lifecycle.*", CHANGE_ANY, VALUE_ANY},
    {"index.look_ahead_time", CHANGE_ANY, VALUE_ANY},
    {"index.mapper.dynamic", CHANGE_ANY, VALUE_ANY},
    {"index.mapping.*", CHANGE_ANY, VALUE_ANY},
    {"index.max_*", CHANGE_ANY, VALUE_ANY},
    {"index.merge.*", CHANGE_ANY, VALUE_ANY},
    {"index.opendistro.*", CHANGE_ANY, VALUE_ANY},
    {"index.optimize_auto_generated_id", CHANGE_ANY, VALUE_BOOL},
    {"index.percolator.*", CHANGE_ANY, VALUE_ANY},
    {"index.plugins.*", CHANGE_ANY, VALUE_ANY},
    {"index.priority", CHANGE_ANY, VALUE_ANY},
    {"index.queries.*", CHANGE_ANY, VALUE_ANY},
    {"index.query.*", CHANGE_ANY, VALUE_ANY},
    {"index.recovery.*", CHANGE_ANY, VALUE_ANY},
    {"index.refresh_interval", CHANGE_ANY, VALUE_ANY},
    {"index.requests.*", CHANGE_ANY, VALUE_ANY},
    {"index.routing.*", CHANGE_ANY, VALUE_ANY},
    {"index.search.*", CHANGE_ANY, VALUE_ANY},
    {"index.soft_deletes.*", CHANGE_ANY, VALUE_ANY},
    {"index.translog.*", CHANGE_ANY, VALUE_ANY},
    {"index.unassigned.*", CHANGE_ANY, VALUE_ANY},
    {"index.warmer.*", CHANGE_ANY, VALUE_ANY},
    {"index.write.wait_for_active_shards", CHANGE_ANY, VALUE_ANY},
    {"index.xpack.*", CHANGE_ANY, VALUE_ANY},
};

static const struct rule *rule_find(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        size_t n = strlen(rules[i].key);
        if (rules[i].key[n - 1] == '*' ? strncmp(key, rules[i].key, n - 1) == 0 && key[n - 1] != 0
                                       : strcmp(key, rules[i].key) == 0)
            return &rules[i];
    }
    return NULL;
}

/* ---- JSON helpers */
bool json_find(struct json_value object, const char *key, struct json_value *out)
{
    struct slice name;
    struct json_value value;
    bool found = false;
    if (object.type != JSON_OBJECT)
        return false;
    struct json_scan scan = json_enter(object);
    while (json_member(&scan, &name, &value)) {
        if (json_string_is(name, key)) {
            *out = value;
            found = true;
        }
    }
    return found;
}

struct json_value json_value_of(struct slice text)
{
    return text.len == 0 ? (struct json_value){JSON_END, SLICE_NONE} : json_root(text);
}

void json_plain_text(struct json_value scalar, struct buf *out)
{
    if (scalar.type == JSON_STRING)
        json_unquote(scalar.text, out);
    else
        buf_put_slice(out, scalar.text);
}

/* ---- the set */
void settings_done(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        free(settings->item[i].key);
    free(settings->item);
    *settings = (struct settings){NULL, 0, 0};
}

/* T1: '.' sorts first, so that the children of a key follow it at once. */
static int key_cmp(const char *a, const char *b)
{
    while (*a == *b && *a != 0) {
        a++;
        b++;
    }
    int x = *a == '.' ? 1 : (unsigned char)*a + (*a != 0);
    int y = *b == '.' ? 1 : (unsigned char)*b + (*b != 0);
    return x - y;
}

/* Position of key, or where it belongs. */
static bool find(const struct settings *settings, const char *key, size_t *at_out)
{
    size_t lo = 0, hi = settings->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = key_cmp(settings->item[mid].key, key);
        if (c == 0) {
            *at_out = mid;
            return true;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *at_out = lo;
    return false;
}

static enum rc put(struct settings *settings, const char *key, struct slice value, struct err *err)
{
    size_t at, key_len = strlen(key) + 1;
    bool there = find(settings, key, &at);
    if (!there && settings->count == settings->cap) {
        size_t cap = settings->cap == 0 ? 16 : settings->cap * 2;
        struct setting *item = realloc(settings->item, cap * sizeof *item);
        if (item == NULL)
            return err_set(err, RC_NOMEM, 0, "out of memory for settings");
        settings->item = item;
        settings->cap = cap;
    }
    char *copy = malloc(key_len + value.len);
    if (copy == NULL)
        return err_set(err, RC_NOMEM, 0, "out of memory for settings");
    memcpy(copy, key, key_len);
    memcpy(copy + key_len, value.ptr, value.len);
    struct setting *slot = &settings->item[at];
    if (there) {
        free(slot->key);
    } else {
        memmove(slot + 1, slot, (settings->count - at) * sizeof *slot);
        settings->count++;
    }
    slot->key = copy; /* the value lies behind it */
    slot->value = slice_of(copy + key_len, value.len);
    return RC_OK;
}

static void drop(struct settings *settings, size_t at)
{
    free(settings->item[at].key);
    settings->count--;
    memmove(settings->item + at, settings->item + at + 1,
            (settings->count - at) * sizeof *settings->item);
}

struct json_value settings_find(const struct settings *settings, const char *key)
{
    size_t at;
    return find(settings, key, &at) ? json_root(settings->item[at].value)
                                    : (struct json_value){JSON_END, SLICE_NONE};
}

enum rc settings_set(struct settings *settings, const char *key, struct slice value,
                     struct err *err)
{
    struct buf quoted = {NULL, 0, 0, false};
    json_quote(value, &quoted);
    enum rc rc = quoted.failed ? err_set(err, RC_NOMEM, 0, "out of memory for settings")
                               : put(settings, key, buf_slice(&quoted), err);
    buf_done(&quoted);
    return rc;
}

enum rc settings_null(struct settings *settings, const char *key, struct err *err)
{
    return put(settings, key, SLICE_LIT("null"), err);
}

enum rc settings_overlay(struct settings *base, const struct settings *over, bool keep,
                         struct err *err)
{
    for (size_t i = 0; i < over->count; i++) {
        size_t at;
        bool there = find(base, over->item[i].key, &at);
        bool null = json_root(over->item[i].value).type == JSON_NULL;
        if (there && null && !keep)
            drop(base, at);
        else if (!null && !(there && keep))
            TRY(put(base, over->item[i].key, over->item[i].value, err));
    }
    return RC_OK;
}

/* ---- reading */
static void put_as_string(struct json_value value, struct buf *out)
{
    if (value.type == JSON_STRING) {
        buf_put_slice(out, value.text);
    } else {
        buf_put_byte(out, '"');
        buf_put_slice(out, value.text);
        buf_put_byte(out, '"');
    }
}

static enum rc put_list(struct json_value list, const char *key, struct buf *out, struct err *err)
{
    struct json_value value;
    struct json_scan scan = json_enter(list);
    buf_put_byte(out, '[');
    for (size_t n = 0; json_element(&scan, &value); n++) {
        if (value.type == JSON_OBJECT || value.type == JSON_ARRAY || value.type == JSON_NULL)
            return err_set(err, RC_INVALID, 0, "only value lists are allowed in settings: [%s]",
                           key);
        if (n != 0)
            buf_put_byte(out, ',');
        put_as_string(value, out);
    }
    buf_put_byte(out, ']');
    return RC_OK;
}

static enum rc bad_key(struct err *err)
{
    return err_set(err, RC_INVALID, 0, "a setting's name must be at most %d bytes, without NUL",
                   LIMIT_SETTING_KEY_BYTES);
}

static enum rc add(struct settings *settings, const struct buf *path, struct json_value value,
                   struct err *err)
{
    char key[LIMIT_SETTING_KEY_BYTES + sizeof "index."];
    struct buf text = {NULL, 0, 0, false};
    enum rc rc = RC_OK;
    size_t at;
    bool prefixed = path->len >= 6 && memcmp(path->ptr, "index.", 6) == 0;
    snprintf(key, sizeof key, "%s%.*s", prefixed ? "" : "index.", (int)path->len,
             (const char *)path->ptr);
    if (strlen(key) > LIMIT_SETTING_KEY_BYTES)
        return bad_key(err);
    if (find(settings, key, &at))
        return err_set(err, RC_INVALID, 0, "duplicate settings key [%s]", key);
    if (value.type == JSON_ARRAY)
        TRY_OUT(put_list(value, key, &text, err));
    else if (value.type == JSON_NULL)
        buf_put_slice(&text, value.text);
    else
        put_as_string(value, &text);
    rc = text.failed ? err_set(err, RC_NOMEM, 0, "out of memory for settings")
                     : put(settings, key, buf_slice(&text), err);
out:
    buf_done(&text);
    return rc;
}

/* Walks down; the depth is bounded by the length of the path (every level adds a dot). */
static enum rc flatten(struct settings *settings, struct json_value object, struct buf *path,
                       struct err *err)
{
    struct slice key;
    struct json_value value;
    struct json_scan scan = json_enter(object);
    size_t keep = path->len;
    while (json_member(&scan, &key, &value)) {
        if (keep != 0)
            buf_put_byte(path, '.');
        json_unquote(key, path);
        if (path->failed)
            return err_set(err, RC_NOMEM, 0, "out of memory for settings");
        if (path->len > LIMIT_SETTING_KEY_BYTES || memchr(path->ptr + keep, 0, path->len - keep))
            return bad_key(err);
        if (value.type == JSON_OBJECT)
            TRY(flatten(settings, value, path, err));
        else
            TRY(add(settings, path, value, err));
        path->len = keep;
    }
    return RC_OK;
}

enum rc settings_read(struct settings *settings, struct json_value object, struct err *err)
{
    struct buf path = {NULL, 0, 0, false};
    if (object.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "settings must be an object");
    enum rc rc = flatten(settings, object, &path, err);
    buf_done(&path);
    return rc;
}

enum rc settings_load(struct settings *settings, struct slice flat, struct err *err)
{
    return flat.len == 0 ? RC_OK : settings_read(settings, json_root(flat), err);
}

/* ---- checking */
/* A scalar value as plain text, cut to what fits; "" for lists. */
static struct slice plain(struct json_value value, char *tmp, size_t cap)
{
    struct buf text = {NULL, 0, 0, false};
    size_t n = 0;
    if (value.type == JSON_STRING) {
        json_unquote(value.text, &text);
        n = text.len < cap ? text.len : cap;
        if (n != 0)
            memcpy(tmp, text.ptr, n);
    }
    buf_done(&text);
    return slice_of(tmp, n);
}

static bool whole(struct slice text, int64_t *out)
{
    return text.len != 0 && json_i64(text, out);
}

static enum rc check_value(const char *key, enum rule_value kind, struct json_value value,
                           struct err *err)
{
    char tmp[128];
    struct slice text = plain(value, tmp, sizeof tmp);
    int64_t n, min = kind == VALUE_SHARDS, max = kind == VALUE_SHARDS ? 1024 : INT32_MAX;
    if (value.type == JSON_NULL || kind == VALUE_ANY || kind == VALUE_OWN)
        return RC_OK;
    if (kind == VALUE_BOOL)
        return slice_is(text, "true") || slice_is(text, "false")
                   ? RC_OK
                   : err_set(err, RC_INVALID, 0,
                             "Failed to parse value [%.*s] as only [true] or [false] are allowed "
                             "for setting [%s]",
                             SLICE_FMT(text), key);
    uint64_t ms;
    if (kind == VALUE_TIME)
        return retention_time(text, &ms)
                   ? RC_OK
                   : err_set(err, RC_INVALID, 0,
                             "failed to parse setting [%s] with value [%.*s] as a time value: unit "
                             "is missing or unrecognized",
                             key, SLICE_FMT(text));
    if (!whole(text, &n))
        return err_set(err, RC_INVALID, 0, "Failed to parse value [%.*s] for setting [%s]",
                       SLICE_FMT(text), key);
    if (n < min || n > max)
        return err_set(
            err, RC_INVALID, 0, "Failed to parse value [%.*s] for setting [%s] must be %s %lld",
            SLICE_FMT(text), key, n < min ? ">=" : "<=", (long long)(n < min ? min : max));
    return RC_OK;
}

static enum rc check_change(const char *key, enum rule_change change, enum settings_use use,
                            const char *index_label, struct err *err)
{
    bool update = use == SETTINGS_UPDATE_OPEN || use == SETTINGS_UPDATE_CLOSED;
    if (change == CHANGE_PRIVATE)
        return err_set(err, RC_INVALID, 0, "private index setting [%s] can not be set explicitly",
                       key);
    if (use == SETTINGS_UPDATE_OPEN && change != CHANGE_ANY)
        return err_set(err, RC_INVALID, 0,
                       "Can't update non dynamic settings [[%s]] for open indices [[%s]]", key,
                       index_label);
    if (update && change == CHANGE_NEVER)
        return err_set(err, RC_INVALID, 0, "final %s setting [%s], not updateable", index_label,
                       key);
    return RC_OK;
}

enum rc settings_check(const struct settings *settings, enum settings_use use,
                       const char *index_label, struct err *err)
{
    for (size_t i = 0; i < settings->count; i++) {
        const char *key = settings->item[i].key;
        const struct rule *rule = rule_find(key);
        if (rule == NULL)
            return err_set(err, RC_INVALID, 0,
                           "unknown setting [%s] please check that any required plugins are "
                           "installed, or check the breaking changes documentation for removed "
                           "settings",
                           key);
        TRY(check_value(key, rule->value, json_root(settings->item[i].value), err));
        TRY(check_change(key, rule->change, use, index_label, err));
    }
    /* A component template may give a level to the codec of another one: judge what is whole. */
    struct codec_spec spec;
    if (use == SETTINGS_TEMPLATE && settings_find(settings, "index.codec").type == JSON_STRING)
        return settings_resolve(settings, &spec, err);
    return RC_OK;
}

/* ---- resolving */
bool settings_bytes(struct slice text, uint64_t *out)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"kb", 10}, {"mb", 20}, {"gb", 30}, {"tb", 40}, {"k", 10},
                 {"m", 20},  {"g", 30},  {"t", 40},  {"b", 0}};
    uint64_t n = 0;
    size_t i = 0;
    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        if (n > UINT64_MAX / 10 - 1)
            return false;
        n = n * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    for (size_t u = 0; i != 0 && u < ARRAY_LEN(units); u++) {
        size_t len = strlen(units[u].unit);
        if (text.len - i == len &&
            strncasecmp((const char *)text.ptr + i, units[u].unit, len) == 0 &&
            n <= UINT64_MAX >> units[u].shift) {
            *out = n << units[u].shift;
            return true;
        }
    }
    return false;
}

static enum rc unknown_codec(struct slice name, struct err *err)
{
    char list[200];
    size_t n = 0;
    const struct codec_name *row;
    list[0] = 0;
    for (size_t i = 0; (row = codec_name_at(i)) != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : ", ", row->name);
    return err_set(err, RC_INVALID, 0,
                   "unknown value for [index.codec] must be one of [%s] but was: %.*s", list,
                   (int)(name.len > 64 ? 64 : name.len), (const char *)name.ptr);
}

static enum rc resolve_level(const struct settings *settings, const struct codec_name *name,
                             bool codec_given, struct codec_spec *spec, struct err *err)
{
    const char *key = "index.codec.compression_level";
    const char *other = "index.compression.zstd.level";
    struct json_value value = settings_find(settings, key), twin = settings_find(settings, other);
    char tmp[64];
    int min, max;
    int64_t n;
    bool two = value.type > JSON_NULL && twin.type > JSON_NULL;
    if (two && !slice_eq(value.text, twin.text))
        return err_set(err, RC_INVALID, 0, "[%s] and [%s] contradict each other", key, other);
    if (value.type <= JSON_NULL) {
        value = twin;
        key = other;
    }
    if (value.type <= JSON_NULL)
        return RC_OK;
    if (!codec_given)
        return err_set(err, RC_INVALID, 0,
                       "[%s] cannot be set without [index.codec]: the default codec has no level",
                       key);
    if (!name->takes_level || (key == other && name->spec.codec != CODEC_ZSTD))
        return err_set(err, RC_INVALID, 0, "[%s] cannot be set for the [%s] codec", key,
                       name->name);
    codec_levels(name->spec.codec, &min, &max);
    struct slice text = plain(value, tmp, sizeof tmp);
    if (!whole(text, &n) || n < min || n > max)
        return err_set(err, RC_INVALID, 0,
                       "Failed to parse value [%.*s] for setting [%s] must be from %d to %d",
                       SLICE_FMT(text), key, min, max);
    spec->level = (int)n;
    return RC_OK;
}

static enum rc resolve_layout(const struct settings *settings, struct codec_spec *spec,
                              struct err *err)
{
    char tmp[64];
    struct json_value value = settings_find(settings, "index.block.layout");
    if (value.type <= JSON_NULL)
        return RC_OK;
    struct slice text = plain(value, tmp, sizeof tmp);
    bool columnar = slice_is(text, "columnar");
    if (!columnar && !slice_is(text, "plain"))
        return err_set(err, RC_INVALID, 0,
                       "unknown value for [index.block.layout] must be one of [plain, columnar] "
                       "but was: %.*s",
                       SLICE_FMT(text));
    codec_set_layout(spec, columnar ? LAYOUT_COLUMNAR : LAYOUT_PLAIN);
    return RC_OK;
}

static enum rc resolve_block(const struct settings *settings, struct codec_spec *spec,
                             struct err *err)
{
    char tmp[64];
    uint64_t bytes;
    TRY(resolve_layout(settings, spec, err));
    struct json_value value = settings_find(settings, "index.block.size");
    if (value.type > JSON_NULL) {
        struct slice text = plain(value, tmp, sizeof tmp);
        if (!settings_bytes(text, &bytes))
            return err_set(err, RC_INVALID, 0,
                           "failed to parse setting [index.block.size] with value [%.*s] as a size "
                           "in bytes: unit is missing or unrecognized",
                           SLICE_FMT(text));
        if (bytes < LIMIT_BLOCK_BYTES_MIN || bytes > LIMIT_BLOCK_BYTES_MAX)
            return err_set(err, RC_INVALID, 0,
                           "failed to parse value [%.*s] for setting [index.block.size], must be "
                           "from [4kb] to [4mb]",
                           SLICE_FMT(text));
        spec->block_bytes = (uint32_t)bytes;
        spec->packed_bytes = 0;
    }
    return RC_OK;
}

enum rc settings_resolve(const struct settings *settings, struct codec_spec *out, struct err *err)
{
    char tmp[128];
    struct json_value value = settings_find(settings, "index.codec");
    bool given = value.type > JSON_NULL;
    struct slice text = given ? plain(value, tmp, sizeof tmp) : SLICE_LIT("default");
    const struct codec_name *name = codec_find(text);
    if (name == NULL)
        return unknown_codec(text, err);
    struct codec_spec spec = name->spec;
    TRY(resolve_level(settings, name, given, &spec, err));
    TRY(resolve_block(settings, &spec, err));
    *out = spec;
    return RC_OK;
}

/* ---- printing */
static bool wanted(const char *key, struct slice patterns)
{
    struct slice name = slice_str(key);
    size_t at = 0;
    if (patterns.len == 0)
        return true;
    while (at <= patterns.len) {
        const uint8_t *comma = memchr(patterns.ptr + at, ',', patterns.len - at);
        size_t end = comma == NULL ? patterns.len : (size_t)(comma - patterns.ptr);
        struct slice one = slice_of(patterns.ptr + at, end - at);
        if (slice_is(one, "_all") || names_match(one, name))
            return true;
        at = end + 1;
    }
    return false;
}

static void print_member(struct buf *out, const char *name, size_t len)
{
    if (out->len != 0 && out->ptr[out->len - 1] != '{')
        buf_put_byte(out, ',');
    json_quote(slice_of(name, len), out);
    buf_put_byte(out, ':');
}

/* Members for item[0 .. count), whose keys agree in their first `at` bytes; the printed names start
 * at `from`, which lies before `at` below a key that is a value and a parent, too. */
static void print_level(const struct setting *item, size_t count, size_t from, size_t at,
                        struct buf *out)
{
    for (size_t i = 0, n; i < count; i += n) {
        const char *key = item[i].key;
        size_t end = at + strcspn(key + at, ".");
        for (n = 1; i + n < count && strncmp(item[i + n].key, key, end) == 0 &&
                    item[i + n].key[end] == '.';
             n++)
            ;
        print_member(out, key + from, end - from);
        if (key[end] == 0) {
            buf_put_slice(out, item[i].value);
            print_level(item + i + 1, n - 1, from, end + 1, out);
        } else {
            buf_put_byte(out, '{');
            print_level(item + i, n, end + 1, end + 1, out);
            buf_put_byte(out, '}');
        }
    }
}

void settings_print(const struct settings *settings, bool flat, struct slice patterns,
                    struct buf *out)
{
    struct setting *some = calloc(settings->count + 1, sizeof *some);
    size_t count = 0;
    if (some == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < settings->count; i++)
        if (wanted(settings->item[i].key, patterns))
            some[count++] = settings->item[i];
    buf_put_byte(out, '{');
    for (size_t i = 0; flat && i < count; i++) {
        print_member(out, some[i].key, strlen(some[i].key));
        buf_put_slice(out, some[i].value);
    }
    if (!flat)
        print_level(some, count, 0, 0, out);
    buf_put_byte(out, '}');
    free(some);
}
