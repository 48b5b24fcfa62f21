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
    bool forbid_aliases; /* DELETE /{alias}; data streams neither */
    bool forbid_closed;  /* a closed index that is named: RC_INVALID; wildcards pass over it */
    const struct api_call *caller; /* with needs: what it may not is left out of wildcards */
    unsigned needs;
};

/* Read the three query parameters over the route's defaults. False: replied 400. */
MUST_CHECK bool names_options_read(struct api_call *call, struct names_options *options);

/* Does expand_wildcards ask for hidden names? unset: without a word. */
bool names_wants_hidden(const struct api_call *call, bool unset);

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

/* The index that reads or writes of one document go to: a concrete index, or an alias or data
 * stream (for writes its write index). Acquired. */
enum names_need {
    NAMES_READ,
    NAMES_WRITE,
    NAMES_WRITE_CREATE, /* made when missing */
    NAMES_APPEND,       /* the same for op create, which alone may go to a data stream */
};
enum names_flags {
    NAMES_REQUIRE_ALIAS = 1,
    NAMES_REQUIRE_STREAM = 2,
    NAMES_PIPELINE = 8, /* the request names a pipeline, or "_none": not the index' default one */
    NAMES_CHANGES = 4,  /* update, delete, or index with if_seq_no: allowed on backing indices */
};
struct names_target {
    struct index *index;
    bool is_alias, is_stream; /* what the name was */
};
MUST_CHECK enum rc names_target(struct api *api, struct slice name, enum names_need need,
                                unsigned flags, struct names_target *out, struct err *err);

/* The three objects of a create body (also of templates), each JSON_END when absent. */
struct names_body {
    struct json_value settings, mappings, aliases;
};

/* Create an index from a request body (settings, mappings, aliases; may be empty) over the
 * templates that match its name. RC_INVALID names the setting; RC_EXISTS. */
MUST_CHECK enum rc names_create(struct api *api, struct slice name, struct slice body,
                                struct index **out, struct err *err);

/* The same for a first write. A name whose template makes data streams becomes one (append), or is
 * refused. */
MUST_CHECK enum rc names_autocreate(struct api *api, struct slice name, bool append,
                                    struct index **out, bool *stream_out, struct err *err);
/* Would a first write make a data stream of that name? */
bool names_makes_stream(struct api *api, struct slice name);
/* The same as names_create for an index that follows another one; the naming lock is held.
 * aliases: what it gets beside those of body and templates, a JSON object. rolled: the other one.
 */
MUST_CHECK enum rc names_create_locked(struct api *api, struct slice name,
                                       const struct names_body *body, struct slice aliases,
                                       struct index *rolled, struct index **out, struct err *err);

/* Glob match with '*' only. */
bool names_match(struct slice pattern, struct slice name);
/* Is the name one of a comma-separated list of globs, or is the list empty? "_all" is "*". */
bool names_in_list(struct slice list, struct slice name);

/* RC_INVALID with *type_out the error type ("parse_exception" …). */
MUST_CHECK enum rc names_body_read(struct slice body, struct names_body *out, const char **type_out,
                                   struct err *err);
/* Elasticsearch's error type for a failure of names_create or names_target. */
const char *names_error_type(const struct api *api, enum rc rc, const struct err *err);
int names_error_status(enum rc rc, const struct err *err);
/* Answer such a failure, with the members that Elasticsearch adds for the name. */
void names_reply_error(struct api_call *call, struct slice name, enum rc rc, const struct err *err);

/* What the metadata of an index says that concerns more than one handler. */
enum names_block {
    BLOCK_WRITE = 1,
    BLOCK_READ_ONLY = 2,
    BLOCK_READ_ONLY_ALLOW_DELETE = 4,
    BLOCK_READ = 8,
    BLOCK_METADATA = 16,
};
struct names_info {
    bool closed, hidden;
    uint64_t shards, replicas; /* as asked for; neither changes what is stored */
    unsigned blocks;           /* of index.blocks.* */
    struct slice
        pipelines[2];    /* index.default_pipeline and final_pipeline, or empty; of the meta */
    struct slice stream; /* data stream that it is a backing index of, or empty; of the metadata */
    uint64_t generation;
    bool stream_hidden;
};
void names_info_get(const struct index_meta *meta, struct names_info *out);

/* What index.blocks.* may refuse: documents, metadata shown and changed, the index deleted. */
enum names_use { USE_READ = 1, USE_WRITE = 2, USE_SHOW = 4, USE_CHANGE = 8, USE_DELETE = 16 };
/* RC_INVALID in Elasticsearch's words (names_error_status gives 403 or 429). */
MUST_CHECK enum rc names_blocked(const struct index *index, const struct names_info *info,
                                 enum names_use use, struct err *err);
/* Append the blocks as the cluster's state shows them: "5":{"description":…,"levels":[…]} */
void names_put_blocks(const struct names_info *info, struct buf *out);
MUST_CHECK enum rc names_list_blocked(const struct names_list *list, enum names_use use,
                                      struct err *err);

/* ---- for handlers */
/* Read the query parameters over `options` and resolve the path's {index}. False: replied. */
MUST_CHECK bool names_resolve_or_reply(struct api_call *call, struct names_options *options,
                                       struct names_list *out);
/* Does no block refuse that use of the indices? Else: replied, and the list is done. */
MUST_CHECK bool names_usable(struct api_call *call, struct names_list *list, enum names_use use);
/* The body as a JSON object. False: replied 400. */
MUST_CHECK bool names_body_object(struct api_call *call, struct json_value *out);
/* include_type_name=true: the body with the type around the mapping ({"mappings":{"_doc":{…}}})
 * taken away, in the call's memory. False: replied. */
MUST_CHECK bool names_untyped(struct api_call *call, struct json_value *body);
/* The same for a mapping alone. */
MUST_CHECK bool names_untyped_mapping(struct api_call *call, struct json_value *mapping);
/* Append ,"mappings":…; within {"_doc":…} with include_type_name=true. */
void names_put_mapping(struct api_call *call, struct slice mapping, struct buf *out);
/* Change an index' metadata: fn gets a copy of the current one to change; texts it makes live in
 * *scratch (empty at first). Tried again when somebody else was faster. */
MUST_CHECK enum rc names_change_meta(struct api *api, struct index *index,
                                     enum rc (*fn)(struct index_meta *meta, void *arg,
                                                   struct buf *scratch, struct err *err),
                                     void *arg, struct err *err);

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
