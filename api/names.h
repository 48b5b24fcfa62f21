/* SPDX-License-Identifier: Apache-2.0 */
/* Names: index-name rules, index expressions (lists, wildcards, _all, exclusions, aliases, date
 * math), and the index that a write goes to, made on first use from its templates.
 *
 *   N1  an expression is resolved against one consistent view of indices and aliases.
 *   N2  auto-creation is idempotent: of many writers one creates, all get the same index.
 *   N3  whatever decides an index' settings (request over templates over defaults) is resolved once,
 *       by names_create, for PUT /{index}, auto-creation and rollover alike. */
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
    bool forbid_aliases;     /* DELETE /{alias} */
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

/* Create an index from a request body (settings, mappings, aliases; may be empty) over the templates
 * that match its name. RC_INVALID names the setting; RC_EXISTS. */
MUST_CHECK enum rc names_create(struct api *api, struct slice name, struct slice body,
                                struct index **out, struct err *err);

/* Glob match with '*' only. */
bool names_match(struct slice pattern, struct slice name);

#endif
