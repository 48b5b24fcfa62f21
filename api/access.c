/* SPDX-License-Identifier: Apache-2.0 */
#include "api/access.h"

#include "api/date_math.h"
#include "api/door.h"
#include "api/names.h"
#include "api/routes.h"

#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

#define CREDENTIALS_BYTES 4096 /* of a header; more is nobody's */

/* ---- what a route needs: the first row that fits */

enum scope {
    SCOPE_ANYONE, /* whoever is known */
    SCOPE_NAMES,  /* index expression of the path, or all: the handler asks names_resolve_or_reply,
                     which leaves out what the caller may not */
    SCOPE_NAME,   /* every name of the path; a wildcard must be covered whole */
    SCOPE_BODY,   /* the same where the path has one; the handler judges the names in the body */
    SCOPE_NODE,   /* every index there may be */
};

struct rule {
    const char *routes; /* pattern of the route, '*' for any bytes */
    bool read_only;     /* GET and HEAD alone */
    enum scope scope;
    unsigned needs; /* any of these */
};

#define ADD (USERS_ADD | USERS_PUT)
static const struct rule RULES[] = {
    {"/", true, SCOPE_ANYONE, 0},
    {"/_license", true, SCOPE_ANYONE, 0},
    {"/_xpack*", true, SCOPE_ANYONE, 0},
    {"/_nodes*", true, SCOPE_ANYONE, 0},
    {"/_cat", true, SCOPE_ANYONE, 0},
    {"/_cat/nodes", true, SCOPE_ANYONE, 0},
    {"/_cat/master", true, SCOPE_ANYONE, 0},
    {"/_cat/cluster_manager", true, SCOPE_ANYONE, 0},
    {"/_cat/templates*", true, SCOPE_ANYONE, 0},
    {"/_cat/component_templates*", true, SCOPE_ANYONE, 0},
    {"/_cat/tasks", true, SCOPE_ANYONE, 0}, /* api/tasks.c: one's own, or all */
    {"/_cat/thread_pool*", true, SCOPE_ANYONE, 0},
    {"/_cat/pending_tasks", true, SCOPE_ANYONE, 0},
    {"/_cat/plugins", true, SCOPE_ANYONE, 0},
    {"/_cat/nodeattrs", true, SCOPE_ANYONE, 0},
    {"/_cat/fielddata*", true, SCOPE_ANYONE, 0},
    {"/_cat/repositories", true, SCOPE_ANYONE, 0},
    {"/_snapshot*", true, SCOPE_ANYONE, 0},
    {"/_remote/info", true, SCOPE_ANYONE, 0},
    {"/_resolve/*", true, SCOPE_ANYONE, 0}, /* api/resolve_api.c: what the caller may see */
    {"/_cluster/pending_tasks", true, SCOPE_ANYONE, 0},
    {"/_ilm/status", true, SCOPE_ANYONE, 0},
    {"/_cluster/settings", true, SCOPE_ANYONE, 0},
    {"/_security/_authenticate", true, SCOPE_ANYONE, 0},
    {"/_security/user/_has_privileges", false, SCOPE_ANYONE, 0},
    {"/_security/api_key*", false, SCOPE_ANYONE, 0}, /* api/keys.c: one's own, or all */
    {"/_security/*", false, SCOPE_NODE, USERS_ALL},
    {"/_metrics", true, SCOPE_NODE, USERS_VIEW},

    {"*/_bulk", false, SCOPE_BODY, USERS_WRITE},
    {"*/_mget", false, SCOPE_BODY, USERS_READ},
    {"/{index}/_doc*", true, SCOPE_NAME, USERS_READ},
    {"/{index}/_source/*", true, SCOPE_NAME, USERS_READ},
    {"/{index}/_doc", false, SCOPE_NAME, ADD},
    {"/{index}/_create/*", false, SCOPE_NAME, ADD},
    {"/{index}/_update/*", false, SCOPE_NAME, USERS_PUT},
    {"/{index}/_doc/{id}", false, SCOPE_NAME, USERS_PUT},
    {"*/_count", false, SCOPE_NAMES, USERS_READ},
    {"/_cat/count*", true, SCOPE_NAMES, USERS_READ},
    /* The id of a scroll or a point in time is a capability: 192 random bits. */
    {"/_search/scroll*", false, SCOPE_BODY, USERS_READ},
    {"/_pit", false, SCOPE_BODY, USERS_READ},
    {"/_search/point_in_time", false, SCOPE_BODY, USERS_READ},
    {"/_search", false, SCOPE_NAMES, USERS_READ},
    {"/{index}/_search*", false, SCOPE_NAMES, USERS_READ},
    {"/{index}/_pit", false, SCOPE_NAMES, USERS_READ},
    {"/{index}/_delete_by_query", false, SCOPE_NAME, USERS_DELETE},
    {"/_reindex", false, SCOPE_BODY, USERS_READ}, /* api/reindex.c: source and dest */
    {"/_tasks*", false, SCOPE_ANYONE, 0},         /* api/tasks.c: one's own, or all */
    {"*/_rethrottle", false, SCOPE_ANYONE, 0},

    {"*/_refresh", false, SCOPE_NAMES, USERS_WRITE | USERS_MANAGE},
    {"*/_flush", false, SCOPE_NAMES, USERS_MANAGE},
    {"*/_flush/synced", false, SCOPE_NAMES, USERS_MANAGE},
    {"*/_cache/clear", false, SCOPE_NAMES, USERS_MANAGE},
    {"*/_forcemerge", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_open", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_close", false, SCOPE_NAMES, USERS_MANAGE},
    {"/_cluster/health*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/health", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/indices*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/aliases*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/shards*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/segments*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/allocation*", true, SCOPE_NAMES, USERS_VIEW},
    {"/_cat/recovery*", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_segments", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_recovery", true, SCOPE_NAMES, USERS_VIEW},
    {"/{index}/_ilm/explain", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_stats*", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_settings*", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_mapping*", true, SCOPE_NAMES, USERS_VIEW},
    {"*/_alias*", true, SCOPE_NAMES, USERS_VIEW},
    {"/{index}", true, SCOPE_NAMES, USERS_VIEW},
    {"/{index}/_settings", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_mapping", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_mappings", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_block/{block}", false, SCOPE_NAMES, USERS_MANAGE},
    {"/{index}/_rollover*", false, SCOPE_NAME, USERS_MANAGE},
    {"/{index}/_alias*/{name}", false, SCOPE_NAME, USERS_MANAGE}, /* the alias as well */
    {"/{index}", false, SCOPE_NAMES, USERS_MANAGE | USERS_CREATE},
    {"/_data_stream*", true, SCOPE_NAME, USERS_VIEW},
    {"/_data_stream/{name}*", false, SCOPE_NAME, USERS_MANAGE},

    /* What templates and policies say is no secret of an index; shippers look at start. */
    {"/_template*", true, SCOPE_ANYONE, 0},
    {"/_index_template*", true, SCOPE_ANYONE, 0},
    {"/_component_template*", true, SCOPE_ANYONE, 0},
    {"/_ilm/policy*", true, SCOPE_ANYONE, 0},
    {"/_ingest/pipeline*", true, SCOPE_ANYONE, 0},
    {"/_template*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_index_template*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_component_template*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_ilm/*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_ingest/*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_aliases", false, SCOPE_NODE, USERS_MANAGE},
    {"/_alias*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_settings*", false, SCOPE_NODE, USERS_MANAGE},
    {"/_cluster/*", false, SCOPE_NODE, USERS_MANAGE},
    {"*", false, SCOPE_NODE, USERS_ALL}, /* P2 */
};

static const struct rule *rule_of(const struct api_call *call)
{
    struct slice pattern = slice_str(call->route->pattern);
    bool reads = call->method == API_GET || call->method == API_HEAD;
    for (const struct rule *rule = RULES;; rule++)
        if ((reads || !rule->read_only) && names_match(slice_str(rule->routes), pattern))
            return rule;
}

/* ---- who may what */

static bool grants_allow(const struct users_grants *grants, struct slice name, unsigned any_of)
{
    for (size_t i = 0; i < grants->count; i++)
        if ((grants->grant[i].privileges & any_of) != 0 &&
            names_match(slice_str(grants->grant[i].pattern), name))
            return true;
    return false;
}

/* Any of these privileges on anything at all? */
static bool grants_something(const struct users_grants *grants, unsigned any_of)
{
    for (size_t i = 0; i < grants->count; i++)
        if ((grants->grant[i].privileges & any_of) != 0)
            return true;
    return false;
}

/* A literal name, or a wildcard as a whole: a pattern with '*' alone matches another one as text
 * only if it matches all that the other one does. */
static bool allowed(const struct api_call *call, struct slice name, unsigned any_of)
{
    const struct api_key *key = call->key;
    return grants_allow(&call->user->grants, name, any_of) &&
           (key == NULL || !key->limited || grants_allow(&key->grants, name, any_of));
}

bool access_may(const struct api_call *call, struct slice name, unsigned any_of)
{
    if (call->user == NULL || any_of == 0)
        return true;
    if (name.len == 0 || name.ptr[0] != '<')
        return allowed(call, name, any_of);
    struct buf real = {0};
    struct err err = {0};
    bool ok = date_math_resolve(name, clock_ms(), &real, &err) == RC_OK && !real.failed &&
              allowed(call, buf_slice(&real), any_of);
    buf_done(&real);
    return ok;
}

bool access_may_all(const struct api_call *call, unsigned any_of)
{
    return call->user == NULL || (allowed(call, SLICE_LIT("*"), any_of) &&
                                  (call->key == NULL || !call->key->limited || call->key->cluster));
}

static bool may_something(const struct api_call *call, unsigned any_of)
{
    return grants_something(&call->user->grants, any_of) &&
           (call->key == NULL || !call->key->limited ||
            grants_something(&call->key->grants, any_of));
}

/* The names of an expression, one by one. filtered: wildcards are left to the handler. */
static bool may_expression(const struct api_call *call, struct slice list, unsigned any_of,
                           bool filtered)
{
    for (size_t at = 0; at < list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice name = slice_of(list.ptr + at, end - at);
        at = end + 1;
        while (name.len > 0 && name.ptr[0] == ' ')
            name = slice_of(name.ptr + 1, name.len - 1);
        while (name.len > 0 && name.ptr[name.len - 1] == ' ')
            name.len--;
        bool wildcard = memchr(name.ptr, '*', name.len) != NULL || slice_is(name, "_all");
        if (name.len == 0 || name.ptr[0] == '-' || (wildcard && filtered))
            continue;
        if (slice_is(name, "_all"))
            name = SLICE_LIT("*");
        if (!access_may(call, name, any_of))
            return false;
    }
    return true;
}

bool access_aliases(struct api_call *call, struct json_value aliases)
{
    struct json_value value;
    struct slice key;
    bool ok = true;
    if (call->user == NULL || aliases.type != JSON_OBJECT)
        return true;
    struct json_scan scan = json_enter(aliases);
    while (ok && json_member(&scan, &key, &value)) {
        struct buf name = {0};
        json_unquote(key, &name);
        ok = access_may(call, buf_slice(&name), USERS_MANAGE);
        if (!ok)
            access_reply_403(call, buf_slice(&name), USERS_MANAGE);
        buf_done(&name);
    }
    return ok;
}

/* ---- refusals */

static const char *action_of(unsigned needs)
{
    return (needs & USERS_READ) != 0                      ? "indices:data/read"
           : (needs & USERS_WRITE) != 0                   ? "indices:data/write"
           : (needs & (USERS_VIEW)) != 0                  ? "indices:monitor"
           : (needs & (USERS_MANAGE | USERS_CREATE)) != 0 ? "indices:admin"
                                                          : "cluster:admin";
}

static const char *role_for(unsigned needs)
{
    return (needs & USERS_READ) != 0     ? "read,all"
           : (needs & USERS_WRITE) != 0  ? "write,all"
           : (needs & USERS_VIEW) != 0   ? "read,write,manage,all"
           : (needs & USERS_MANAGE) != 0 ? "manage,all"
                                         : "all";
}

void access_reason(const struct api_call *call, struct slice names, unsigned needs, struct buf *out)
{
    buf_printf(out, "action [%s] is unauthorized for ", action_of(needs));
    if (call->key != NULL)
        buf_printf(out, "API key id [%s] of ", call->key->id);
    buf_printf(out, "user [%s] with effective roles [", call->user->name);
    users_grants_print(&call->user->grants, out);
    buf_put_byte(out, ']');
    if (names.len != 0)
        buf_printf(out, " on indices [%.*s]", SLICE_FMT(names));
    buf_printf(out, ", this action is granted by the index privileges [%s]", role_for(needs));
}

void access_reply_403(struct api_call *call, struct slice names, unsigned needs)
{
    struct buf reason = {0};
    access_reason(call, names, needs, &reason);
    reply_error(call, 403, "security_exception", "%.*s", (int)reason.len, (const char *)reason.ptr);
    buf_done(&reason);
}

void access_reply_401(struct api_call *call, const char *fmt, ...)
{
    /* Releases before 8 leave the comma out. */
    const char *comma = call->api->major < 8 ? "" : ",";
    struct buf members = {0};
    char basic[64];
    va_list ap;

    snprintf(basic, sizeof basic, "Basic realm=\"security\"%s charset=\"UTF-8\"", comma);
    BUF_PUT_LIT(&members, "\"header\":{\"WWW-Authenticate\":[");
    json_quote(slice_str(basic), &members);
    BUF_PUT_LIT(&members, ",\"ApiKey\"]}");
    va_start(ap, fmt);
    reply_error_body(call, 401, "security_exception", buf_slice(&members), fmt, ap);
    va_end(ap);
    buf_done(&members);
    reply_header(call, "WWW-Authenticate", "%s", basic);
    reply_header(call, "WWW-Authenticate", "ApiKey");
    api_finish_with(call, REPLY_PRETTY);
}

/* ---- by the route */

static bool refuse(struct api_call *call, struct slice names, unsigned needs)
{
    access_reply_403(call, names, needs);
    return false;
}

bool access_authorize(struct api_call *call)
{
    if (call->user == NULL)
        return true;
    const struct rule *rule = rule_of(call);
    struct slice names = call_part(call, "index");
    struct slice other = call_part(call, "name");
    unsigned needs = rule->needs;
    bool alias = names.len != 0 && other.len != 0;

    if (rule->scope == SCOPE_ANYONE)
        return true;
    if (rule->scope == SCOPE_NODE)
        return access_may_all(call, needs) || refuse(call, SLICE_NONE, needs);
    if (needs == USERS_PUT && call->method == API_DELETE)
        needs = USERS_DELETE;
    else if (needs == USERS_PUT && slice_is(call_param(call, "op_type"), "create"))
        needs = ADD;
    else if (needs == (USERS_MANAGE | USERS_CREATE) && call->method != API_PUT)
        needs = USERS_MANAGE;
    if (rule->scope == SCOPE_NAMES && !access_may_all(call, needs))
        call->needs = needs; /* names_resolve_or_reply leaves out the rest */
    if (rule->scope == SCOPE_NAME && names.len == 0)
        names = other;
    else if (rule->scope == SCOPE_NAME && alias && !may_expression(call, other, needs, false))
        return refuse(call, other, needs);
    if (names.len == 0)
        return (rule->scope == SCOPE_NAME ? access_may_all(call, needs)
                                          : may_something(call, needs)) ||
               refuse(call, SLICE_NONE, needs);
    return may_expression(call, names, needs, rule->scope == SCOPE_NAMES) ||
           refuse(call, names, needs);
}

/* ---- by the credentials */

static bool refuse_missing(struct api_call *call)
{
    access_reply_401(call, "missing authentication credentials for REST request [%.*s]",
                     SLICE_FMT(call->path));
    return false;
}

static bool refuse_wrong(struct api_call *call, bool key, struct slice name)
{
    if (key)
        access_reply_401(call,
                         "unable to authenticate with provided API key for REST request [%.*s]",
                         SLICE_FMT(call->path));
    else
        access_reply_401(call, "unable to authenticate user [%.*s] for REST request [%.*s]",
                         SLICE_FMT(name), SLICE_FMT(call->path));
    return false;
}

/* The answer of the door to a visit that did not open it. */
static bool refuse_visit(struct api_call *call, const struct door_visit *visit)
{
    if (visit->answer == DOOR_BUSY) {
        reply_header(call, "Retry-After", "10");
        reply_error(call, 429, "es_rejected_execution_exception",
                    "rejected execution: too many attempts to authenticate, try again later");
    } else if (visit->answer == DOOR_STOPPED) {
        reply_error(call, 503, "node_closed_exception", "node is shutting down");
    } else {
        return refuse_wrong(call, visit->secret_wrong, slice_str(visit->said));
    }
    return false;
}

bool access_take_apart(struct slice text, struct buf *name_out, struct buf *secret_out)
{
    struct buf plain = {0};
    bool ok = text.len <= CREDENTIALS_BYTES && secret_decode64(text, &plain);
    const uint8_t *colon = !ok || plain.len == 0 ? NULL : memchr(plain.ptr, ':', plain.len);
    ok = colon != NULL && memchr(plain.ptr, '\0', plain.len) == NULL;
    if (ok) {
        size_t at = (size_t)(colon - plain.ptr);
        buf_put(name_out, plain.ptr, at);
        buf_put_byte(name_out, '\0');
        buf_put(secret_out, colon + 1, plain.len - at - 1);
        buf_put_byte(secret_out, '\0');
        name_out->len--;
        secret_out->len--;
        ok = !name_out->failed && !secret_out->failed;
    }
    secret_wipe(&plain);
    return ok;
}

static enum api_admission identify_basic(struct api_call *call, struct door_visit *visit)
{
    struct access *access = call->api->access;
    visit->user = access_find(access, buf_slice(&visit->name));
    if (visit->user != NULL && door_knows(access->door, visit->user, buf_slice(&visit->password))) {
        call->user = visit->user;
        secret_wipe(&visit->password);
        buf_done(&visit->name);
        return API_ADMITTED;
    }
    return API_WAITS;
}

static enum api_admission identify_key(struct api_call *call, struct door_visit *visit)
{
    struct access *access = call->api->access;
    struct api_key *key = keys_verify(access, buf_slice(&visit->name), buf_slice(&visit->password));
    struct principal *owner = key == NULL ? NULL : access_find(access, slice_str(key->owner));
    if (owner == NULL) {
        key_release(key);
        visit->secret_wrong = true;
        return API_WAITS;
    }
    call->key = key;
    call->user = owner;
    secret_wipe(&visit->password);
    buf_done(&visit->name);
    return API_ADMITTED;
}

bool access_scheme(struct slice header, const char *word, struct slice *rest_out)
{
    size_t len = strlen(word);
    if (header.len <= len || strncasecmp((const char *)header.ptr, word, len) != 0 ||
        header.ptr[len] != ' ')
        return false;
    while (len < header.len && header.ptr[len] == ' ')
        len++;
    *rest_out = slice_of(header.ptr + len, header.len - len);
    return true;
}

enum api_admission access_identify(struct api_call *call)
{
    struct slice rest;
    bool basic = access_scheme(call->authorization, "Basic", &rest);
    if (!basic && !access_scheme(call->authorization, "ApiKey", &rest)) {
        (void)refuse_missing(call);
        return API_REFUSED;
    }
    struct door_visit *visit = call_alloc(call, sizeof *visit);
    if (visit == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return API_REFUSED;
    }
    *visit = (struct door_visit){.call = call};
    call->visit = visit;
    if (!access_take_apart(rest, &visit->name, &visit->password)) {
        secret_wipe(&visit->password);
        buf_done(&visit->name);
        (void)refuse_wrong(call, !basic, SLICE_LIT(""));
        return API_REFUSED;
    }
    snprintf(visit->said, sizeof visit->said, "%s", (const char *)visit->name.ptr);
    return basic ? identify_basic(call, visit) : identify_key(call, visit);
}

bool access_identified(struct api_call *call)
{
    const struct door_visit *visit = call->visit;
    return visit->answer == DOOR_OPEN || refuse_visit(call, visit);
}

void access_call_done(struct api_call *call)
{
    principal_release(call->user);
    key_release(call->key);
    call->user = NULL;
    call->key = NULL;
}

/* ---- users */

void principal_release(const struct principal *principal)
{
    struct principal *p = (struct principal *)(uintptr_t)principal;
    if (p == NULL || atomic_fetch_sub(&p->uses, 1) != 1)
        return;
    free(p->name);
    free(p->hash);
    users_grants_done(&p->grants);
    free(p);
}

/* Takes name, hash and grants over. */
static struct principal *principal_of(struct user *user)
{
    struct principal *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->uses = 1;
    p->name = user->name;
    p->hash = user->hash;
    p->grants = user->grants;
    *user = (struct user){NULL, NULL, {NULL, 0}};
    return p;
}

struct principal *access_find(struct access *access, struct slice name)
{
    struct principal *found = NULL;
    pthread_mutex_lock(&access->lock);
    size_t low = 0, high = access->count;
    while (found == NULL && low < high) {
        size_t middle = (low + high) / 2;
        int order = slice_cmp(slice_str(access->user[middle]->name), name);
        if (order == 0) {
            found = access->user[middle];
            atomic_fetch_add(&found->uses, 1);
        } else {
            *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
        }
    }
    pthread_mutex_unlock(&access->lock);
    return found;
}

static void free_list(struct principal **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        principal_release(list[i]);
    free(list);
}

enum rc access_reload(struct access *access, struct err *err)
{
    struct users users = {NULL, 0};
    struct principal **list = NULL;
    size_t count = 0;
    enum rc rc = users_load(access->users_file, &users, err);

    if (rc == RC_NOT_FOUND)
        rc = RC_OK;
    TRY_OUT(rc);
    for (size_t i = 0; i < access->fixed.count; i++) {
        const struct user *fixed = &access->fixed.user[i];
        TRY_OUT(users_add(&users, fixed->name, fixed->hash, "all", err));
    }
    list = calloc(users.count + 1, sizeof *list);
    for (; list != NULL && count < users.count; count++)
        if ((list[count] = principal_of(&users.user[count])) == NULL)
            break;
    if (list == NULL || count < users.count) {
        rc = err_set(err, RC_NOMEM, 0, "out of memory for users");
        goto out;
    }
    pthread_mutex_lock(&access->lock);
    struct principal **old = access->user;
    size_t old_count = access->count;
    access->user = list;
    access->count = count;
    pthread_mutex_unlock(&access->lock);
    list = old;
    count = old_count;
out:
    free_list(list, count);
    users_done(&users);
    return rc;
}

/* ---- life */

static enum rc add_fixed(struct access *access, struct err *err)
{
    const struct api_options *o = &access->api->o;
    char hash[USERS_HASH_BYTES];
    for (size_t i = 0; i < o->fixed_user_count; i++) {
        TRY(users_hash(o->fixed_users[i].password, hash, err));
        TRY(users_add(&access->fixed, o->fixed_users[i].name, hash, "all", err));
    }
    return RC_OK;
}

enum rc access_create(struct api *api, struct access **out, struct err *err)
{
    struct access *access = calloc(1, sizeof *access);
    enum rc rc;

    if (access == NULL)
        return err_set(err, RC_NOMEM, 0, "security: out of memory");
    pthread_mutex_init(&access->lock, NULL);
    access->api = api;
    access->users_file = strdup(api->o.users_file);
    if (access->users_file == NULL) {
        rc = err_set(err, RC_NOMEM, 0, "security: out of memory");
        goto out;
    }
    TRY_OUT(add_fixed(access, err));
    TRY_OUT(access_reload(access, err));
    if (access->count == 0) {
        rc = err_set(
            err, RC_INVALID, 0,
            "security is on, but there is no user in %.120s: stowctl user add PATH NAME ROLE",
            access->users_file);
        goto out;
    }
    TRY_OUT(keys_open(access, err));
    TRY_OUT(door_open(access, &access->door, err));
    *out = access;
    return RC_OK;
out:
    access_destroy(access);
    return rc;
}

void access_destroy(struct access *access)
{
    if (access == NULL)
        return;
    door_close(access->door);
    keys_close(access->keys);
    free_list(access->user, access->count);
    users_done(&access->fixed);
    free(access->users_file);
    pthread_mutex_destroy(&access->lock);
    free(access);
}

bool access_is_on(struct api_call *call)
{
    if (call->user == NULL)
        reply_error(call, 400, "illegal_argument_exception",
                    "no handler found for uri [%.*s]: security is off (security.enabled)",
                    SLICE_FMT(call->path));
    return call->user != NULL;
}
