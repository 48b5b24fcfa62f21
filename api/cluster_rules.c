/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cluster_rules.h"

#include "api/names.h"
#include "api/settings.h"

#define KIND        'z' /* api/cluster.c */
#define AUTO_CREATE "action.auto_create_index"
#define NAMED       "action.destructive_requires_name"

/* The value of a setting as text; false when it is not set. */
static bool setting(struct api *api, const char *name, struct buf *out)
{
    static const char *const levels[] = {"transient", "persistent"};
    char key[80];
    bool found = false;
    snprintf(key, sizeof key, "index.%s", name); /* as api/cluster.c keeps it */
    for (size_t i = 0; !found && i < ARRAY_LEN(levels); i++) {
        struct buf text = {0};
        struct json_value value;
        if (store_meta_get(api->o.store, KIND, slice_str(levels[i]), &text, NULL) == RC_OK &&
            json_find(json_root(buf_slice(&text)), key, &value)) {
            json_plain_text(value, out);
            found = true;
        }
        buf_done(&text);
    }
    return found;
}

/* "logs-*,-logs-x*,+metrics": the first that matches decides, none forbids. */
static enum rc judge(struct slice list, struct slice name, struct err *err)
{
    for (size_t at = 0; at <= list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice word = slice_of(list.ptr + at, end - at);
        at = end + 1;
        while (word.len != 0 && word.ptr[0] == ' ')
            word = slice_of(word.ptr + 1, word.len - 1);
        while (word.len != 0 && word.ptr[word.len - 1] == ' ')
            word.len--;
        bool sign = word.len != 0 && (word.ptr[0] == '-' || word.ptr[0] == '+');
        struct slice glob = sign ? slice_of(word.ptr + 1, word.len - 1) : word;
        if (glob.len == 0 || !names_match(glob, name))
            continue;
        if (word.ptr[0] != '-')
            return RC_OK;
        return err_set(err, RC_NOT_FOUND, 0,
                       "no such index [%.*s] and [" AUTO_CREATE "] contains [%.*s] which forbids "
                       "automatic creation of the index",
                       SLICE_FMT(name), word.len > 100 ? 100 : (int)word.len,
                       (const char *)word.ptr);
    }
    return err_set(err, RC_NOT_FOUND, 0,
                   "no such index [%.*s] and [" AUTO_CREATE "] ([%.*s]) doesn't match",
                   SLICE_FMT(name), list.len > 200 ? 200 : (int)list.len, (const char *)list.ptr);
}

enum rc rules_auto_create(struct api *api, struct slice name, struct err *err)
{
    struct buf value = {0};
    enum rc rc = RC_OK;
    if (setting(api, AUTO_CREATE, &value)) {
        struct slice text = buf_slice(&value);
        if (slice_is(text, "false"))
            rc = err_set(err, RC_NOT_FOUND, 0,
                         "no such index [%.*s] and [" AUTO_CREATE "] is [false]", SLICE_FMT(name));
        else if (!slice_is(text, "true"))
            rc = judge(text, name, err);
    }
    buf_done(&value);
    return rc;
}

bool rules_destructive(struct api_call *call)
{
    struct slice names = call_part(call, "index");
    struct buf value = {0};
    bool named = setting(call->api, NAMED, &value) && slice_is(buf_slice(&value), "true");
    buf_done(&value);
    if (!named || (names.len != 0 && memchr(names.ptr, '*', names.len) == NULL &&
                   memmem(names.ptr, names.len, "_all", 4) == NULL))
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "Wildcard expressions or all indices are not allowed (" NAMED ")");
    return false;
}

enum rc rules_check(const char *key, struct json_value value, struct err *err)
{
    struct buf text = {0};
    json_plain_text(value, &text);
    struct slice s = buf_slice(&text);
    bool ok = strcmp(key, NAMED) != 0 || value.type == JSON_NULL || slice_is(s, "true") ||
              slice_is(s, "false");
    enum rc rc = ok ? RC_OK
                    : err_set(err, RC_INVALID, 0,
                              "Failed to parse value [%.*s] as only [true] or [false] are allowed.",
                              s.len > 100 ? 100 : (int)s.len, (const char *)s.ptr);
    buf_done(&text);
    return rc;
}
