/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: what a new index gets beyond its own request. Legacy ones (_template, all that match,
 * by order) count only when no composable one (_index_template, the one of highest priority, over
 * its component templates) matches, as in Elasticsearch. Kept with store_meta_put: kind 't' legacy,
 * 'i' index template, 'c' component template; the value is the body in order: patterns as a list,
 * settings flat. */
#ifndef STOWD_TEMPLATES_H
#define STOWD_TEMPLATES_H

#include "api/names.h"
#include "api/settings.h"

/* An index in the making. { .settings = {0} } is a valid empty one. */
struct draft {
    struct settings settings;
    struct buf mappings; /* JSON object, or empty */
    struct buf aliases;
    struct buf template; /* name of the index template that counted, or empty */
    struct buf from;     /* body of the template that counted, of legacy ones the last; or empty */
    bool stream;         /* it makes data streams */
    bool stream_hidden;
    struct buf lifecycle; /* of a data stream: JSON object, or empty */
};

void draft_done(struct draft *draft);
/* Lay settings, mappings and aliases over what is there. */
MUST_CHECK enum rc draft_add(struct draft *draft, const struct names_body *body, struct slice index,
                             struct err *err);
/* Lay one composable template over a draft: its components in order, then itself. */
MUST_CHECK enum rc templates_compose(struct api *api, struct json_value index_template,
                                     struct slice index, struct draft *draft, struct err *err);
/* Is there a name that one pattern of both lists (JSON arrays of globs) matches? */
bool templates_overlap(struct json_value a, struct json_value b);
/* settings, mappings and aliases of an object, as far as they are there. */
struct names_body templates_parts(struct json_value object);
/* "priority" or "order" of a template; 0 when there is none. */
int64_t templates_rank(struct json_value object, const char *key);
/* Does a template match an index name? */
bool templates_match(struct json_value object, struct slice index);
/* Lay the templates that match an index name into an empty draft. */
MUST_CHECK enum rc templates_apply(struct api *api, struct slice index, struct draft *draft,
                                   struct err *err);

#endif
