/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers send before anybody knows them, an Authorization header, and what a user gives a
 * key, role descriptors: taken apart whole or refused, and never more privileges than were named.
 */
#include "api/privileges.h"
#include "storage/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void try_credentials(struct slice text)
{
    struct buf name = {0}, secret = {0}, joined = {0}, encoded = {0};
    if (access_take_apart(text, &name, &secret)) {
        must(strlen((const char *)name.ptr) == name.len);
        must(strlen((const char *)secret.ptr) == secret.len);
        must(memchr(name.ptr, ':', name.len) == NULL);
        buf_printf(&joined, "%s:%s", (const char *)name.ptr, (const char *)secret.ptr);
        secret_encode64(buf_slice(&joined), &encoded);
        must(slice_eq(buf_slice(&encoded), text));
    }
    buf_done(&name);
    secret_wipe(&secret);
    buf_done(&joined);
    buf_done(&encoded);
}

static void try_roles(struct slice text)
{
    const unsigned known =
        USERS_READ | USERS_WRITE | USERS_CREATE | USERS_VIEW | USERS_MANAGE | USERS_ALL;
    struct api_key key = {0};
    struct err err = {RC_OK, 0, ""};
    enum rc rc = roles_read(text, &key, &err);
    must(rc == RC_OK || err.msg[0] != '\0');
    must(rc != RC_OK || key.limited || (key.grants.count == 0 && !key.cluster));
    for (size_t i = 0; i < key.grants.count; i++) {
        must((key.grants.grant[i].privileges & ~known) == 0);
        must(key.grants.grant[i].pattern[0] != '\0');
        /* Nothing without its word, escaped or not. */
        must((key.grants.grant[i].privileges & USERS_ALL) == 0 ||
             memchr(text.ptr, '\\', text.len) != NULL ||
             memmem(text.ptr, text.len, "\"all\"", 5) != NULL);
    }
    users_grants_done(&key.grants);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_of(data, size), rest;
    struct json_fault fault;
    if (access_scheme(text, "Basic", &rest) || access_scheme(text, "ApiKey", &rest)) {
        must(rest.len < size && rest.ptr + rest.len == data + size);
        try_credentials(rest);
    }
    try_credentials(text);
    if (json_check(text, NULL, &fault))
        try_roles(text);
    return 0;
}
