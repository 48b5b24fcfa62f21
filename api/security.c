/* SPDX-License-Identifier: Apache-2.0 */
/* /_security: who one is, and who there is. */
#include "api/access.h"
#include "api/handlers.h"

/* Names of roles, as this node has them: the grants of the users file. One who may do all is the
 * superuser of Elasticsearch, which clients look for. */
static void put_roles(struct buf *out, const struct users_grants *grants)
{
    json_key(out, "roles");
    buf_put_byte(out, '[');
    for (size_t i = 0; i < grants->count; i++) {
        const struct users_grants one = {&grants->grant[i], 1};
        struct buf text = {0};
        bool all = (one.grant->privileges & USERS_ALL) != 0 && strcmp(one.grant->pattern, "*") == 0;
        if (all)
            BUF_PUT_LIT(&text, "superuser");
        else
            users_grants_print(&one, &text);
        if (i > 0)
            buf_put_byte(out, ',');
        json_quote(buf_slice(&text), out);
        buf_done(&text);
    }
    buf_put_byte(out, ']');
}

static void put_user(struct buf *out, const struct principal *user)
{
    json_cstr(out, "username", user->name);
    put_roles(out, &user->grants);
    BUF_PUT_LIT(out, ",\"full_name\":null,\"email\":null,\"metadata\":{},\"enabled\":true");
}

static bool security_on(struct api_call *call)
{
    if (call->user != NULL)
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "no handler found for uri [%.*s]: security is off (security.enabled)",
                SLICE_FMT(call->path));
    return false;
}

void security_authenticate(struct api_call *call)
{
    if (!security_on(call))
        return;
    const char *realm = call->key != NULL ? "_es_api_key" : "file";
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    put_user(out, call->user);
    for (int i = 0; i < 2; i++) {
        json_key(out, i == 0 ? "authentication_realm" : "lookup_realm");
        buf_put_byte(out, '{');
        json_cstr(out, "name", realm);
        json_cstr(out, "type", realm);
        buf_put_byte(out, '}');
    }
    json_cstr(out, "authentication_type", call->key != NULL ? "api_key" : "realm");
    if (call->key != NULL) {
        json_key(out, "api_key");
        buf_put_byte(out, '{');
        json_cstr(out, "id", call->key->id);
        json_cstr(out, "name", call->key->name);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
    api_finish(call);
}

void security_user_get(struct api_call *call)
{
    struct slice name = call_part(call, "name");
    if (!security_on(call))
        return;
    struct access *access = call->api->access;
    size_t found = 0;
    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    pthread_mutex_lock(&access->lock);
    for (size_t i = 0; i < access->count; i++) {
        const struct principal *user = access->user[i];
        if (name.len != 0 && !slice_is(name, user->name))
            continue;
        json_key(out, user->name);
        buf_put_byte(out, '{');
        put_user(out, user);
        buf_put_byte(out, '}');
        found++;
    }
    pthread_mutex_unlock(&access->lock);
    buf_put_byte(out, '}');
    if (found == 0 && name.len != 0) {
        out->len = 0;
        BUF_PUT_LIT(out, "{}");
        call->reply.status = 404;
    }
    api_finish(call);
}
