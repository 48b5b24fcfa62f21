/* SPDX-License-Identifier: Apache-2.0 */
/* Names: index-name rules, index expressions (lists, wildcards, _all, exclusions, aliases, date
 * math), and the index that a write goes to, made on first use from its templates.
 *
 *   N1  an expression is resolved against one consistent view of indices and aliases.
 *   N2  auto-creation is idempotent: of many writers one creates, all get the same index.
 *   N3  whatever decides an index' settings (request over templates over defaults) is resolved
 * once, by names_create, for PUT /{index}, auto-creation and rollover alike. */
#ifndef STOWD_NAMES_H
#define STOWD_NAMES_H

#include "api/call.h"

/* invalid_index_name_exception: RC_INVALID with Elasticsearch's reason
 * ("Invalid index name [X], must be lowercase"). */
MUST_CHECK enum rc names_check(struct slice name, struct err *err);

enum expand {
    EXPAND_OPEN = 1,
    EXPAND_CLOSED = 2,
    EXPAND_HIDDEN = 4,
};

struct names_options {
    bool ignore_unavailable; /* a concrete name that is missing is passed over */
    bool allow_no_indices;   /* a wildcard that matches nothing is fine */
    unsigned expand;
    bool forbid_aliases; /* DELETE /{alias} */
};

/* Read the three query parameters over the route's defaults. False: replied 400. */
MUST_CHECK bool names_options_read(struct api_call *call, struct names_options *options);

struct names_list {
    struct index **index; /* acquired */
    size_t count;
};
/* Resolve an expression (empty or _all or *: all). On failure: RC_NOT_FOUND with *missing_out the
 * name that was not found, RC_INVALID … */
MUST_CHECK enum rc names_resolve(struct api *api, struct slice expression,
                                 const struct names_options *options, struct names_list *out,
                                 struct slice *missing_out, struct err *err);
void names_list_done(struct names_list *list);

/* The index that reads or writes of one document go to: a concrete index, or an alias (for writes
 * its write index). Acquired. */
enum names_need { NAMES_READ, NAMES_WRITE, NAMES_WRITE_CREATE /* made when missing */ };
struct names_target {
    struct index *index;
    bool is_alias;
};
MUST_CHECK enum rc names_target(struct api *api, struct slice name, enum names_need need,
                                bool require_alias, struct names_target *out, struct err *err);

/* Create an index from a request body (settings, mappings, aliases; may be empty) over the
 * templates that match its name. RC_INVALID names the setting; RC_EXISTS. */
MUST_CHECK enum rc names_create(struct api *api, struct slice name, struct slice body,
                                struct index **out, struct err *err);

/* Glob match with '*' only. */
bool names_match(struct slice pattern, struct slice name);

/* The three objects of a create body (also of templates), each JSON_END when absent. RC_INVALID
 * with *type_out the error type ("parse_exception" …). */
struct names_body {
    struct json_value settings, mappings, aliases;
};
MUST_CHECK enum rc names_body_read(struct slice body, struct names_body *out, const char **type_out,
                                   struct err *err);
/* Elasticsearch's error type for a failure of names_create or names_target. */
const char *names_error_type(const struct api *api, enum rc rc, const struct err *err);
/* Answer such a failure, with the members that Elasticsearch adds for the name. */
void names_reply_error(struct api_call *call, struct slice name, enum rc rc, const struct err *err);

/* ---- for handlers */
/* Read the query parameters over `options` and resolve the path's {index}. False: replied. */
MUST_CHECK bool names_resolve_or_reply(struct api_call *call, struct names_options *options,
                                       struct names_list *out);
/* The body as a JSON object. False: replied 400. */
MUST_CHECK bool names_body_object(struct api_call *call, struct json_value *out);
/* Change an index' metadata: fn gets a copy of the current one to change; texts it makes live in
 * *scratch (empty at first). Tried again when somebody else was faster. */
MUST_CHECK enum rc names_change_meta(struct api *api, struct index *index,
                                     enum rc (*fn)(struct index_meta *meta, void *arg,
                                                   struct buf *scratch, struct err *err),
                                     void *arg, struct err *err);

/* What the metadata of an index says that concerns more than one handler. */
struct names_info {
    bool closed, hidden;
    uint64_t shards, replicas; /* as asked for; neither changes what is stored */
};
void names_info_get(const struct index_meta *meta, struct names_info *out);

/* ---- what the room keeps in memory: the lock under which names are given to indices and aliases,
 * and operations counted since start. One per api, made by api_create. */
MUST_CHECK enum rc registry_create(struct registry **out, struct err *err);
void registry_destroy(struct registry *registry); /* accepts NULL */
void registry_lock(struct registry *registry);
void registry_unlock(struct registry *registry);
enum registry_op { REGISTRY_REFRESH, REGISTRY_FLUSH, REGISTRY_MERGE, REGISTRY_OPS };
void registry_count(struct registry *registry, const struct index *index, enum registry_op op);
void registry_counts(struct registry *registry, const struct index *index,
                     uint64_t counts_out[REGISTRY_OPS]);

#endif
