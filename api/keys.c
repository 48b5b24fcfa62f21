/* SPDX-License-Identifier: Apache-2.0 */
/* API keys: made, listed and invalidated at /_security/api_key. A key is 15 random bytes of id and
 * 16 of secret; of the secret a salted digest is stored (store_meta_put kind 'k'), which is enough
 * for what cannot be guessed. All keys are in memory; invalidated and expired ones are forgotten
 * after a day.
 *
 *   K1  a key is durable before its secret is told, and its end before that is acknowledged.
 *   K2  who is not allowed all sees and ends only their own keys. */
#include "api/access.h"
#include "api/handlers.h"
#include "api/names.h"
#include "api/privileges.h"
#include "api/settings.h"

#include <stdlib.h>

#define KIND           'k'
#define BUCKETS        1024
#define KEYS_MAX       20000
#define ID_BYTES       15
#define SECRET_BYTES   16
#define NAME_MAX_BYTES 256
#define FORGET_MS      (24ull * 3600 * 1000)

struct keys {
    struct store *store;
    pthread_mutex_t lock;   /* guards the buckets */
    pthread_mutex_t change; /* held over a change of what is stored; before lock */
    struct api_key *bucket[BUCKETS];
    size_t count;
};

/* ---- in memory */

void key_release(const struct api_key *released)
{
    struct api_key *key = (struct api_key *)(uintptr_t)released;
    if (key == NULL || atomic_fetch_sub(&key->uses, 1) != 1)
        return;
    free(key->id);
    free(key->name);
    free(key->owner);
    free(key->roles);
    free(key->metadata);
    users_grants_done(&key->grants);
    free(key);
}

static struct api_key **bucket_of(struct keys *keys, struct slice id)
{
    uint32_t n = 0;
    for (size_t i = 0; i < id.len; i++)
        n = n * 31 + id.ptr[i];
    return &keys->bucket[n % BUCKETS];
}

/* NULL, or retained. */
static struct api_key *find(struct keys *keys, struct slice id)
{
    pthread_mutex_lock(&keys->lock);
    struct api_key *key = *bucket_of(keys, id);
    while (key != NULL && !slice_is(id, key->id))
        key = key->next;
    if (key != NULL)
        atomic_fetch_add(&key->uses, 1);
    pthread_mutex_unlock(&keys->lock);
    return key;
}

/* Takes the reference over. */
static void insert(struct keys *keys, struct api_key *key)
{
    pthread_mutex_lock(&keys->lock);
    struct api_key **bucket = bucket_of(keys, slice_str(key->id));
    key->next = *bucket;
    *bucket = key;
    keys->count++;
    pthread_mutex_unlock(&keys->lock);
}

static bool expired(const struct api_key *key, uint64_t now_ms)
{
    return key->expires_ms != 0 && key->expires_ms <= now_ms;
}

static bool digest_of(const struct api_key *key, struct slice secret, struct secret_digest *out)
{
    return secret_mac(slice_of(key->salt.bytes, sizeof key->salt.bytes), secret, out);
}

struct api_key *keys_verify(struct access *access, struct slice id, struct slice secret)
{
    struct api_key *key = find(access->keys, id);
    struct secret_digest digest;
    if (key != NULL && digest_of(key, secret, &digest) && secret_equal(&digest, &key->digest) &&
        !atomic_load(&key->invalidated) && !expired(key, clock_ms()))
        return key;
    key_release(key);
    return NULL;
}

/* ---- stored form */

static char *text_copy(struct slice text)
{
    return strndup(text.len == 0 ? "" : (const char *)text.ptr, text.len);
}

static char *member_copy(struct json_value object, const char *name)
{
    struct json_value value;
    struct buf text = {0};
    if (!json_find(object, name, &value))
        return text_copy(SLICE_NONE);
    if (value.type == JSON_STRING)
        json_unquote(value.text, &text);
    else
        buf_put_slice(&text, value.text);
    char *copy = text.failed ? NULL : text_copy(buf_slice(&text));
    buf_done(&text);
    return copy;
}

static void key_print(const struct api_key *key, struct buf *out)
{
    struct buf hex = {0};
    buf_put_byte(out, '{');
    json_cstr(out, "name", key->name);
    json_cstr(out, "username", key->owner);
    secret_hex(slice_of(key->salt.bytes, sizeof key->salt.bytes), &hex);
    json_str(out, "salt", buf_slice(&hex));
    hex.len = 0;
    secret_hex(slice_of(key->digest.bytes, sizeof key->digest.bytes), &hex);
    json_str(out, "digest", buf_slice(&hex));
    buf_done(&hex);
    json_uint(out, "creation", key->created_ms);
    json_uint(out, "expiration", key->expires_ms);
    json_bool(out, "invalidated", atomic_load(&key->invalidated));
    json_raw(out, "role_descriptors", slice_str(key->roles));
    json_raw(out, "metadata", slice_str(key->metadata));
    buf_put_byte(out, '}');
}

static uint64_t member_u64(struct json_value object, const char *name)
{
    struct json_value value;
    uint64_t n;
    return json_find(object, name, &value) && json_u64(value.text, &n) ? n : 0;
}

static bool member_hex(struct json_value object, const char *name, struct secret_digest *out)
{
    struct json_value value;
    struct slice hex;
    return json_find(object, name, &value) && value.type == JSON_STRING &&
           json_plain(value.text, &hex) && secret_unhex(hex, out->bytes, sizeof out->bytes);
}

static enum rc on_stored(struct slice id, struct slice value, void *arg)
{
    struct keys *keys = (struct keys *)arg;
    struct json_value object = json_root(value), flag;
    struct err ignored = {0};
    struct api_key *key = calloc(1, sizeof *key);

    if (key == NULL)
        return RC_NOMEM;
    key->uses = 1;
    key->id = text_copy(id);
    key->name = member_copy(object, "name");
    key->owner = member_copy(object, "username");
    key->roles = member_copy(object, "role_descriptors");
    key->metadata = member_copy(object, "metadata");
    key->created_ms = member_u64(object, "creation");
    key->expires_ms = member_u64(object, "expiration");
    key->invalidated = json_find(object, "invalidated", &flag) && flag.type == JSON_TRUE;
    bool whole = key->id != NULL && key->name != NULL && key->owner != NULL && key->roles != NULL &&
                 key->metadata != NULL;
    /* A record that does not say what it allows allows nothing. */
    if (whole &&
        (!member_hex(object, "salt", &key->salt) || !member_hex(object, "digest", &key->digest) ||
         roles_read(slice_str(key->roles), key, &ignored) != RC_OK))
        key->invalidated = true;
    if (!whole) {
        key_release(key);
        return RC_NOMEM;
    }
    insert(keys, key);
    return RC_OK;
}

/* ---- life */

enum rc keys_open(struct access *access, struct err *err)
{
    struct keys *keys = calloc(1, sizeof *keys);
    if (keys == NULL)
        return err_set(err, RC_NOMEM, 0, "security: out of memory");
    keys->store = access->api->o.store;
    pthread_mutex_init(&keys->lock, NULL);
    pthread_mutex_init(&keys->change, NULL);
    access->keys = keys;
    return store_meta_each(keys->store, KIND, on_stored, keys, err);
}

void keys_close(struct keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct api_key *key = keys->bucket[i], *next; key != NULL; key = next) {
            next = key->next;
            key_release(key);
        }
    pthread_mutex_destroy(&keys->change);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

static enum rc store_key(struct keys *keys, const struct api_key *key, struct err *err)
{
    struct buf text = {0};
    key_print(key, &text);
    enum rc rc = text.failed
                     ? err_set(err, RC_NOMEM, 0, "out of memory for an API key")
                     : store_meta_put(keys->store, KIND, slice_str(key->id), buf_slice(&text), err);
    buf_done(&text);
    return rc;
}

/* Drop what ended more than a day ago. Under change. */
static enum rc forget_old(struct keys *keys, struct err *err)
{
    uint64_t now = clock_ms();
    for (size_t i = 0; i < BUCKETS; i++) {
        struct api_key **at = &keys->bucket[i];
        while (*at != NULL) {
            struct api_key *key = *at;
            bool old = expired(key, now < FORGET_MS ? 0 : now - FORGET_MS) ||
                       (atomic_load(&key->invalidated) && key->created_ms + FORGET_MS < now);
            if (!old) {
                at = &key->next;
                continue;
            }
            enum rc rc = store_meta_delete(keys->store, KIND, slice_str(key->id), err);
            if (rc != RC_OK && rc != RC_NOT_FOUND)
                return rc;
            pthread_mutex_lock(&keys->lock);
            *at = key->next;
            keys->count--;
            pthread_mutex_unlock(&keys->lock);
            key_release(key);
        }
    }
    return RC_OK;
}

/* ---- PUT, POST /_security/api_key */

static struct keys *keys_of(struct api_call *call)
{
    return access_is_on(call) ? call->api->access->keys : NULL;
}

/* "7d", "12h", "30m", "45s", "100ms" */
static bool duration_read(struct slice text, uint64_t *ms_out)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t digits = 0;
    uint64_t n;
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    if (digits == 0 || !json_u64(slice_of(text.ptr, digits), &n))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (slice_is(slice_of(text.ptr + digits, text.len - digits), units[i].unit))
            return n > 0 && !__builtin_mul_overflow(n, units[i].ms, ms_out) && *ms_out < 1ull << 47;
    return false;
}

static enum rc key_fill(struct api_key *key, struct json_value body, struct err *err)
{
    struct json_value value;
    struct slice text;
    uint64_t ms;

    key->name = member_copy(body, "name");
    if (key->name == NULL)
        return RC_NOMEM;
    if (*key->name == '\0' || strlen(key->name) > NAME_MAX_BYTES || *key->name == '_')
        return err_set(err, RC_INVALID, 0,
                       "Validation Failed: 1: api key name is required, of at most 256 "
                       "characters, and must not begin with an underscore;");
    if (json_find(body, "expiration", &value) && value.type != JSON_NULL) {
        if (value.type != JSON_STRING || !json_plain(value.text, &text) ||
            !duration_read(text, &ms))
            return err_set(err, RC_INVALID, 0, "failed to parse setting [expiration]: [%.*s]",
                           SLICE_FMT(value.text));
        key->expires_ms = key->created_ms + ms;
    }
    bool roles = json_find(body, "role_descriptors", &value) && value.type != JSON_NULL;
    key->roles = text_copy(roles ? value.text : SLICE_LIT("{}"));
    bool metadata = json_find(body, "metadata", &value) && value.type != JSON_NULL;
    if (metadata && value.type != JSON_OBJECT)
        return err_set(err, RC_INVALID, 0, "metadata must be an object");
    key->metadata = text_copy(metadata ? value.text : SLICE_LIT("{}"));
    if (key->roles == NULL || key->metadata == NULL)
        return RC_NOMEM;
    return roles_read(slice_str(key->roles), key, err);
}

/* A key for the caller from what the body says; its secret is appended. */
static enum rc key_make(const struct api_call *call, struct json_value body, struct buf *secret,
                        struct api_key **out, struct err *err)
{
    struct api_key *key = calloc(1, sizeof *key);
    struct buf id = {0};
    enum rc rc;

    if (key == NULL)
        return RC_NOMEM;
    key->uses = 1;
    key->created_ms = clock_ms();
    key->owner = strdup(call->user->name);
    TRY_OUT(key_fill(key, body, err));
    rc = RC_NOMEM;
    if (key->owner == NULL || !secret_word(ID_BYTES, &id) || !secret_word(SECRET_BYTES, secret) ||
        !secret_random(key->salt.bytes, sizeof key->salt.bytes) ||
        !digest_of(key, buf_slice(secret), &key->digest))
        goto out;
    key->id = text_copy(buf_slice(&id));
    rc = key->id == NULL ? RC_NOMEM : RC_OK;
out:
    buf_done(&id);
    if (rc == RC_OK)
        *out = key;
    else
        key_release(key);
    return rc;
}

static void reply_made(struct api_call *call, const struct api_key *key, const struct buf *secret)
{
    struct buf pair = {0}, encoded = {0};
    struct buf *out = reply_json(call, 200);
    buf_printf(&pair, "%s:", key->id);
    buf_put_slice(&pair, buf_slice(secret));
    secret_encode64(buf_slice(&pair), &encoded);
    buf_put_byte(out, '{');
    json_cstr(out, "id", key->id);
    json_cstr(out, "name", key->name);
    if (key->expires_ms != 0)
        json_uint(out, "expiration", key->expires_ms);
    json_str(out, "api_key", buf_slice(secret));
    json_str(out, "encoded", buf_slice(&encoded));
    buf_put_byte(out, '}');
    secret_wipe(&pair);
    secret_wipe(&encoded);
    api_finish(call);
}

void api_key_post(struct api_call *call)
{
    struct keys *keys = keys_of(call);
    struct json_value body;
    struct api_key *key = NULL;
    struct buf secret = {0};
    struct err err = {0};

    if (keys == NULL || !names_body_object(call, &body))
        return;
    if (call->key != NULL) {
        reply_error(call, 400, "illegal_argument_exception",
                    "creating derived api keys is not supported: authenticate as a user");
        return;
    }
    pthread_mutex_lock(&keys->change);
    enum rc rc = forget_old(keys, &err);
    if (rc == RC_OK && keys->count >= KEYS_MAX)
        rc = err_set(&err, RC_INVALID, 0, "there are [%d] API keys already", KEYS_MAX);
    if (rc == RC_OK)
        rc = key_make(call, body, &secret, &key, &err);
    if (rc == RC_OK)
        rc = store_key(keys, key, &err); /* K1 */
    if (rc == RC_OK) {
        atomic_fetch_add(&key->uses, 1);
        insert(keys, key);
    }
    pthread_mutex_unlock(&keys->change);
    if (rc == RC_OK)
        reply_made(call, key, &secret);
    else
        reply_rc(call, rc, &err);
    secret_wipe(&secret);
    key_release(key);
}

/* ---- GET and DELETE */

/* What the caller asks for; an empty slice is not asked. */
struct wanted {
    struct slice id, name, user;
    bool own; /* the caller's alone */
    bool active;
};

static bool wanted(const struct wanted *w, const struct api_call *call, const struct api_key *key)
{
    /* A key that asks is one's own, and the only one. */
    const char *self = call->key != NULL ? call->key->id : NULL;
    if (w->own &&
        (self != NULL ? strcmp(self, key->id) != 0 : strcmp(call->user->name, key->owner) != 0))
        return false;
    if (w->active && (atomic_load(&key->invalidated) || expired(key, clock_ms())))
        return false;
    return (w->id.len == 0 || slice_is(w->id, key->id)) &&
           (w->name.len == 0 || names_match(w->name, slice_str(key->name))) &&
           (w->user.len == 0 || slice_is(w->user, key->owner));
}

/* K2. False: replied. */
static bool limit_to_own(struct api_call *call, struct wanted *w, bool asked)
{
    if (access_may_all(call, USERS_ALL)) {
        w->own = w->own || asked;
        return true;
    }
    bool foreign = w->user.len != 0 && !slice_is(w->user, call->user->name);
    if (foreign)
        access_reply_403(call, SLICE_NONE, USERS_ALL);
    w->own = true;
    return !foreign;
}

static void put_key(struct buf *out, const struct api_key *key)
{
    if (out->ptr[out->len - 1] != '[')
        buf_put_byte(out, ',');
    buf_put_byte(out, '{');
    json_cstr(out, "id", key->id);
    json_cstr(out, "name", key->name);
    json_cstr(out, "type", "rest");
    json_uint(out, "creation", key->created_ms);
    if (key->expires_ms != 0)
        json_uint(out, "expiration", key->expires_ms);
    json_bool(out, "invalidated", atomic_load(&key->invalidated));
    json_cstr(out, "username", key->owner);
    json_cstr(out, "realm", "file");
    json_cstr(out, "realm_type", "file");
    json_raw(out, "metadata", slice_str(key->metadata));
    json_raw(out, "role_descriptors", slice_str(key->roles));
    buf_put_byte(out, '}');
}

void api_key_get(struct api_call *call)
{
    struct keys *keys = keys_of(call);
    struct wanted w = {.id = call_param(call, "id"),
                       .name = call_param(call, "name"),
                       .user = call_param(call, "username")};
    bool own = false;
    size_t found = 0;
    if (keys == NULL || !call_bool(call, "owner", false, &own) ||
        !call_bool(call, "active_only", false, &w.active) || !limit_to_own(call, &w, own))
        return;
    struct buf *out = reply_json(call, 200);
    BUF_PUT_LIT(out, "{\"api_keys\":[");
    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < BUCKETS && !out->failed; i++)
        for (const struct api_key *key = keys->bucket[i]; key != NULL && !out->failed;
             key = key->next)
            if (wanted(&w, call, key)) {
                put_key(out, key);
                found++;
            }
    pthread_mutex_unlock(&keys->lock);
    if (found == 0 && w.id.len != 0) {
        reply_error(call, 404, "resource_not_found_exception", "no API key with id [%.*s] found",
                    SLICE_FMT(w.id));
        return;
    }
    BUF_PUT_LIT(out, "]}");
    api_finish(call);
}

/* End one key; it is told in one of two lists. */
static enum rc end_key(struct keys *keys, struct api_key *key, struct buf *ended,
                       struct buf *before, struct err *err)
{
    struct buf *list = atomic_load(&key->invalidated) ? before : ended;
    if (list == ended) {
        atomic_store(&key->invalidated, true);
        enum rc rc = store_key(keys, key, err);
        if (rc != RC_OK) {
            atomic_store(&key->invalidated, false);
            return rc;
        }
    }
    if (list->len > 0)
        buf_put_byte(list, ',');
    json_quote(slice_str(key->id), list);
    return RC_OK;
}

static enum rc end_wanted(struct api_call *call, struct keys *keys, const struct wanted *w,
                          struct buf *ended, struct buf *before, struct err *err)
{
    enum rc rc = RC_OK;
    /* The buckets change under keys->change only. */
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct api_key *key = keys->bucket[i]; key != NULL && rc == RC_OK; key = key->next)
            if (wanted(w, call, key))
                rc = end_key(keys, key, ended, before, err);
    return rc;
}

static struct slice body_text(struct api_call *call, struct json_value body, const char *name)
{
    struct json_value value;
    struct buf text = {0};
    if (!json_find(body, name, &value) || value.type != JSON_STRING)
        return SLICE_NONE;
    json_unquote(value.text, &text);
    struct slice copy = call_dup(call, buf_slice(&text));
    buf_done(&text);
    return copy;
}

void api_key_delete(struct api_call *call)
{
    struct keys *keys = keys_of(call);
    struct buf ended = {0}, before = {0};
    struct json_value body, value, ids = {JSON_END, SLICE_NONE};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (keys == NULL || !names_body_object(call, &body))
        return;
    struct wanted w = {.id = body_text(call, body, "id"),
                       .name = body_text(call, body, "name"),
                       .user = body_text(call, body, "username")};
    bool own = json_find(body, "owner", &value) && value.type == JSON_TRUE;
    bool list = json_find(body, "ids", &ids) && ids.type == JSON_ARRAY;
    if (!list && !own && w.id.len == 0 && w.name.len == 0 && w.user.len == 0) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: One of [api key id(s), api key name, username, realm "
                    "name] must be specified if [owner] flag is false;");
        return;
    }
    if (!limit_to_own(call, &w, own))
        return;
    pthread_mutex_lock(&keys->change);
    if (list) {
        struct words words = words_of(ids);
        while (rc == RC_OK && words_next(&words, &value)) {
            struct slice plain = SLICE_NONE;
            if (value.type != JSON_STRING || !json_plain(value.text, &plain) || plain.len == 0)
                continue;
            w.id = plain;
            rc = end_wanted(call, keys, &w, &ended, &before, &err);
        }
    } else {
        rc = end_wanted(call, keys, &w, &ended, &before, &err);
    }
    pthread_mutex_unlock(&keys->change);
    if (rc == RC_OK) {
        struct buf *out = reply_json(call, 200);
        buf_printf(out, "{\"invalidated_api_keys\":[%.*s],\"previously_invalidated_api_keys\":[",
                   (int)ended.len, (const char *)ended.ptr);
        buf_put_slice(out, buf_slice(&before));
        BUF_PUT_LIT(out, "],\"error_count\":0}");
        api_finish(call);
    } else {
        reply_rc(call, rc, &err);
    }
    buf_done(&ended);
    buf_done(&before);
}
