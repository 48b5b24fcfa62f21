/* SPDX-License-Identifier: Apache-2.0 */
/* Elasticsearch's privileges in terms of ours (USERS_… of config/users.h): role descriptors of API
 * keys, and /_security/user/_has_privileges. A privilege that is unknown, or a limit that cannot be
 * kept (document and field level security), is refused: nobody gets more than was named. */
#ifndef STOWD_PRIVILEGES_H
#define STOWD_PRIVILEGES_H

#include "api/access.h"
#include "storage/json.h"

/* A string, or an array of them: the next one.
 *   struct words words = words_of(value);
 *   while (words_next(&words, &one)) … */
struct words {
    struct json_scan scan;
    struct json_value one;
    bool array, done;
};
struct words words_of(struct json_value value);
bool words_next(struct words *words, struct json_value *out);

/* Role descriptors, a JSON object, into the key's grants; an empty object is no limit, as in
 * Elasticsearch. RC_INVALID or RC_UNSUPPORTED name what is wrong; what was read by then stays. */
MUST_CHECK enum rc roles_read(struct slice json, struct api_key *key, struct err *err);

#endif
