/* SPDX-License-Identifier: Apache-2.0 */
/* Inside api/: who is calling, and may they? With security off there is no struct access, and no
 * call has a user: everything is allowed at the price of one comparison.
 *
 *   P1  a call is judged by its headers: no byte of a body is kept for a caller who may not send
 * it. What only a body names (items of a bulk, documents of an mget) is judged name by name. P2  a
 * route without a rule of its own in access.c needs the role all on every index: what is forgotten
 * is closed. P3  passwords are verified on the door's own thread (api/door.h), never on one that
 * others need; an I/O thread only recognises what was verified before. P4  names are judged as they
 * were asked for: a role on an index does not reach through an alias of another name, as in
 * Elasticsearch. A wildcard stands for what the caller may see of it. P5  a key never allows more
 * than its owner is allowed at that moment. */
#ifndef STOWD_ACCESS_H
#define STOWD_ACCESS_H

#include "api/call.h"
#include "api/secret.h"
#include "config/users.h"

#include <pthread.h>
#include <stdatomic.h>

/* A user as of one version of the users file. */
struct principal {
    _Atomic unsigned uses;
    char *name;
    char *hash;
    struct users_grants grants;
};

/* An API key. What may change is an atomic; the rest is as it was made. */
struct api_key {
    _Atomic unsigned uses;
    _Atomic bool invalidated;
    char *id, *name, *owner;
    struct secret_digest salt, digest; /* digest of salt and secret */
    uint64_t created_ms, expires_ms;   /* expires_ms 0: never */
    bool limited;                      /* it has grants of its own, else its owner's alone */
    bool cluster;                      /* of its own grants: not only indices, but the node, too */
    struct users_grants grants;
    char *roles, *metadata; /* JSON objects as given */
    struct api_key *next;   /* of the same bucket */
};

struct door;
struct keys;

struct access {
    struct api *api;
    char *users_file;
    struct users fixed;      /* from the settings; not in the file */
    pthread_mutex_t lock;    /* guards what follows */
    struct principal **user; /* sorted by name */
    size_t count;
    struct door *door;
    struct keys *keys;
};

MUST_CHECK enum rc access_create(struct api *api, struct access **out, struct err *err);
void access_destroy(struct access *access); /* accepts NULL */
/* False: security is off, and that has been replied. */
bool access_is_on(struct api_call *call);
/* Read the users file again; on failure the users stay as they were. Any thread. */
MUST_CHECK enum rc access_reload(struct access *access, struct err *err);

/* ---- a call's way in */
/* Who is it? ADMITTED: call->user is set. REFUSED: replied 401. WAITS: ask the door (call->visit).
 */
enum api_admission access_identify(struct api_call *call);
/* After the wait. False: replied. */
MUST_CHECK bool access_identified(struct api_call *call);
/* May they call this route on the indices in its path? Route and parts are set. False: replied 403.
 */
MUST_CHECK bool access_authorize(struct api_call *call);
void access_call_done(struct api_call *call);
void access_reply_401(struct api_call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- the Authorization header */
/* "Basic …", "ApiKey …": what follows the word. */
bool access_scheme(struct slice header, const char *word, struct slice *rest_out);
/* name:secret in base64. True: apart, zero-terminated (not counted in len), without zero bytes. The
 * caller wipes the secret in any case. */
MUST_CHECK bool access_take_apart(struct slice text, struct buf *name_out, struct buf *secret_out);

/* ---- for handlers: without a user everything is allowed */
/* Any of these privileges on a name (date math is resolved)? */
bool access_may(const struct api_call *call, struct slice name, unsigned any_of);
/* The same on every index, whatever its name. */
bool access_may_all(const struct api_call *call, unsigned any_of);
/* May they give an index these aliases, an object of a body? False: replied 403. */
MUST_CHECK bool access_aliases(struct api_call *call, struct json_value aliases);
/* Append the reason of a 403. */
void access_reason(const struct api_call *call, struct slice names, unsigned needs,
                   struct buf *out);
void access_reply_403(struct api_call *call, struct slice names, unsigned needs);

/* ---- principals */
struct principal *access_find(struct access *access, struct slice name); /* NULL, or retained */
void principal_release(const struct principal *principal);               /* accepts NULL */

/* ---- keys (api/keys.c) */
MUST_CHECK enum rc keys_open(struct access *access, struct err *err);
void keys_close(struct keys *keys);
/* The key of an id and its secret; NULL: wrong, expired or invalidated. Retained. */
struct api_key *keys_verify(struct access *access, struct slice id, struct slice secret);
void key_release(const struct api_key *key); /* accepts NULL */

#endif
