/* SPDX-License-Identifier: Apache-2.0 */
#include "api/privileges.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/settings.h"

/* ---- role descriptors: {"role": {"cluster": [...], "indices": [{"names": [...], "privileges":
 * [...]}]}} */

static const struct {
    const char *word;
    unsigned privileges;
} PRIVILEGES[] = {
    {"all", USERS_READ | USERS_WRITE | USERS_MANAGE | USERS_ALL | USERS_CREATE | USERS_VIEW},
    {"manage", USERS_MANAGE | USERS_CREATE | USERS_VIEW},
    {"read", USERS_READ | USERS_VIEW},
    {"write", USERS_WRITE | USERS_VIEW},
    {"index", USERS_ADD | USERS_PUT},
    {"create", USERS_ADD},
    {"create_doc", USERS_ADD},
    {"delete", USERS_DELETE},
    {"create_index", USERS_CREATE},
    {"auto_configure", USERS_CREATE},
    {"view_index_metadata", USERS_VIEW},
    {"monitor", USERS_VIEW},
    {"maintenance", USERS_VIEW},
    {"none", 0},
};

static enum rc privilege_read(struct json_value text, unsigned *privileges, struct err *err)
{
    struct buf word = {0};
    size_t i = 0;
    if (text.type == JSON_STRING)
        json_unquote(text.text, &word);
    while (i < ARRAY_LEN(PRIVILEGES) && !slice_is(buf_slice(&word), PRIVILEGES[i].word))
        i++;
    enum rc rc = RC_OK;
    if (i == ARRAY_LEN(PRIVILEGES))
        rc = err_set(err, RC_INVALID, 0,
                     "unknown index privilege [%.*s]. a privilege must be one of the predefined "
                     "ones [all,manage,read,write,index,create,create_doc,delete,create_index,"
                     "auto_configure,view_index_metadata,monitor,maintenance,none]",
                     word.len > 60 ? 60 : (int)word.len, (const char *)word.ptr);
    else
        *privileges |= PRIVILEGES[i].privileges;
    buf_done(&word);
    return rc;
}

struct words words_of(struct json_value value)
{
    struct words words = {.one = value, .array = value.type == JSON_ARRAY};
    if (words.array)
        words.scan = json_enter(value);
    return words;
}

bool words_next(struct words *words, struct json_value *out)
{
    if (words->array)
        return json_element(&words->scan, out);
    *out = words->one;
    bool first = !words->done;
    words->done = true;
    return first;
}

static enum rc indices_read(struct json_value entry, struct users_grants *grants, struct err *err)
{
    struct json_value names, privileges, one;
    unsigned bits = 0;
    if (entry.type != JSON_OBJECT || !json_find(entry, "names", &names) ||
        !json_find(entry, "privileges", &privileges))
        return err_set(err, RC_INVALID, 0,
                       "failed to parse indices privileges: names and privileges are required");
    if (json_find(entry, "query", &one) || json_find(entry, "field_security", &one))
        return err_set(err, RC_UNSUPPORTED, 0,
                       "document and field level security is not supported by stowd");
    struct words words = words_of(privileges);
    while (words_next(&words, &one))
        TRY(privilege_read(one, &bits, err));
    words = words_of(names);
    while (words_next(&words, &one)) {
        struct buf name = {0};
        if (one.type == JSON_STRING)
            json_unquote(one.text, &name);
        enum rc rc = name.len == 0 ? err_set(err, RC_INVALID, 0, "an index name is a string")
                                   : users_grants_add(grants, bits, buf_slice(&name), err);
        buf_done(&name);
        TRY(rc);
    }
    return RC_OK;
}

static enum rc role_read(struct json_value role, struct api_key *key, struct err *err)
{
    static const char *const whole[] = {"all",
                                        "manage",
                                        "manage_index_templates",
                                        "manage_ilm",
                                        "manage_pipeline",
                                        "manage_security",
                                        "manage_ingest_pipelines"};
    struct json_value list, one;
    if (role.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "a role descriptor is an object");
    if (json_find(role, "cluster", &list)) {
        struct words words = words_of(list);
        while (words_next(&words, &one))
            for (size_t i = 0; i < ARRAY_LEN(whole); i++)
                if (one.type == JSON_STRING && json_string_is(one.text, whole[i]))
                    key->cluster = true;
    }
    if (json_find(role, "indices", &list) || json_find(role, "index", &list)) {
        struct words words = words_of(list);
        while (words_next(&words, &one))
            TRY(indices_read(one, &key->grants, err));
    }
    return RC_OK;
}

enum rc roles_read(struct slice json, struct api_key *key, struct err *err)
{
    struct json_value roles = json_root(json), role;
    struct slice name;
    if (roles.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "role_descriptors must be an object");
    struct json_scan scan = json_enter(roles);
    while (json_member(&scan, &name, &role)) {
        key->limited = true;
        TRY(role_read(role, key, err));
    }
    return RC_OK;
}

/* ---- /_security/user/_has_privileges */

static bool may_each(const struct api_call *call, struct slice name, unsigned privileges)
{
    bool may = privileges != 0;
    for (unsigned bit = 1; may && bit <= privileges; bit <<= 1)
        if ((privileges & bit) != 0)
            may = access_may(call, name, bit);
    return may;
}

/* ,"name":{"privilege":true} for one entry of "index". */
static enum rc put_index_answers(const struct api_call *call, struct json_value entry, bool *all,
                                 struct buf *out, struct err *err)
{
    struct json_value names, list, one, privilege;
    if (entry.type != JSON_OBJECT || !json_find(entry, "names", &names) ||
        !json_find(entry, "privileges", &list))
        return err_set(err, RC_INVALID, 0, "[index] entries need names and privileges");
    struct words words = words_of(names);
    while (words_next(&words, &one)) {
        struct buf name = {0};
        struct words asked = words_of(list);
        enum rc rc = RC_OK;
        if (one.type == JSON_STRING)
            json_unquote(one.text, &name);
        if (out->len != 0 && out->ptr[out->len - 1] != '{')
            buf_put_byte(out, ',');
        json_quote(buf_slice(&name), out);
        BUF_PUT_LIT(out, ":{");
        while (rc == RC_OK && words_next(&asked, &privilege)) {
            unsigned bits = 0;
            rc = privilege_read(privilege, &bits, err);
            if (rc != RC_OK)
                break;
            bool may = may_each(call, buf_slice(&name), bits);
            *all = *all && may;
            if (out->len != 0 && out->ptr[out->len - 1] != '{')
                buf_put_byte(out, ',');
            buf_put_slice(out, privilege.text);
            buf_put_str(out, may ? ":true" : ":false");
        }
        buf_put_byte(out, '}');
        buf_done(&name);
        TRY(rc);
    }
    return RC_OK;
}

/* Everybody may look at the node; the rest of it is for who may manage, or do all with, everything.
 */
static bool may_cluster(const struct api_call *call, struct slice privilege)
{
    if (json_string_is(privilege, "monitor"))
        return true;
    bool all = json_string_is(privilege, "all") ||
               memmem(privilege.ptr, privilege.len, "security", 8) != NULL;
    return access_may_all(call, all ? USERS_ALL : USERS_MANAGE);
}

void has_privileges_post(struct api_call *call)
{
    struct json_value body, list, one;
    struct buf cluster = {0}, index = {0};
    struct err err = {0};
    enum rc rc = RC_OK;
    bool all = true;
    if (!access_is_on(call) || !names_body_object(call, &body))
        return;
    BUF_PUT_LIT(&cluster, "{");
    BUF_PUT_LIT(&index, "{");
    if (json_find(body, "cluster", &list)) {
        struct words words = words_of(list);
        while (words_next(&words, &one)) {
            bool may = one.type == JSON_STRING && may_cluster(call, one.text);
            all = all && may;
            if (one.type != JSON_STRING)
                continue;
            if (cluster.len > 1)
                buf_put_byte(&cluster, ',');
            buf_put_slice(&cluster, one.text);
            buf_put_str(&cluster, may ? ":true" : ":false");
        }
    }
    if (json_find(body, "index", &list)) {
        struct words words = words_of(list);
        while (rc == RC_OK && words_next(&words, &one))
            rc = put_index_answers(call, one, &all, &index, &err);
    }
    if (rc == RC_OK) {
        struct buf *out = reply_json(call, 200);
        buf_put_byte(out, '{');
        json_cstr(out, "username", call->user->name);
        json_bool(out, "has_all_requested", all);
        buf_put_byte(&cluster, '}');
        buf_put_byte(&index, '}');
        json_raw(out, "cluster", buf_slice(&cluster));
        json_raw(out, "index", buf_slice(&index));
        BUF_PUT_LIT(out, ",\"application\":{}}");
        api_finish(call);
    } else {
        reply_rc(call, rc, &err);
    }
    buf_done(&cluster);
    buf_done(&index);
}
