/* SPDX-License-Identifier: Apache-2.0 */
/* Index settings: every way in which clients spell them -> one flat set -> what the engine needs.
 *
 * {"index":{"codec":"zstd"}}, {"index.codec":"zstd"} and {"codec":"zstd"} are the same set; so are
 * mixtures. Values are kept as text, as Elasticsearch keeps and echoes them: 3, "3" and true are
 * "3", "3" and "true"; lists are lists of strings; null stands for "back to the default".
 *
 *   T1  a set is sorted by key, '.' before every other byte, and holds a key once.
 *   T2  every key in a stored set was known (one table) and its value was checked.
 *   T3  codec, level and blocks are final: they are resolved when the index is made, never again.
 */
#ifndef STOWD_SETTINGS_H
#define STOWD_SETTINGS_H

#include "config/base.h"
#include "config/buf.h"
#include "storage/codec.h"
#include "storage/json.h"

struct setting {
    char *key;          /* "index.codec" */
    struct slice value; /* JSON: "text", ["text",…] or null; lives with the key */
};

/* { .count = 0 } is a valid empty set. */
struct settings {
    struct setting *item;
    size_t count, cap;
};

void settings_done(struct settings *settings);

/* Add what a JSON object says (any spelling). RC_INVALID: a key twice, a list of objects … */
MUST_CHECK enum rc settings_read(struct settings *settings, struct json_value object,
                                 struct err *err);
/* The same for the text kept in index_meta (may be empty). */
MUST_CHECK enum rc settings_load(struct settings *settings, struct slice flat, struct err *err);
/* Put what `over` says over `base`; a null removes. keep: what base has stays. */
MUST_CHECK enum rc settings_overlay(struct settings *base, const struct settings *over, bool keep,
                                    struct err *err);

/* The value of a key as JSON, or JSON_END. */
struct json_value settings_find(const struct settings *settings, const char *key);
MUST_CHECK enum rc settings_set(struct settings *settings, const char *key, struct slice value,
                                struct err *err); /* value: plain text */

/* For an overlay that takes the key away. */
MUST_CHECK enum rc settings_null(struct settings *settings, const char *key, struct err *err);

enum settings_use {
    SETTINGS_CREATE,
    SETTINGS_TEMPLATE,
    SETTINGS_UPDATE_OPEN,   /* PUT _settings: only dynamic ones */
    SETTINGS_UPDATE_CLOSED, /* all but the final ones */
};
/* T2, and whether each key may be given here. index_label: "name/uuid", for updates. RC_INVALID
 * with Elasticsearch's words. */
MUST_CHECK enum rc settings_check(const struct settings *settings, enum settings_use use,
                                  const char *index_label, struct err *err);
/* T3: codec, level, block target. RC_INVALID names the setting and what it may be. */
MUST_CHECK enum rc settings_resolve(const struct settings *settings, struct codec_spec *out,
                                    struct err *err);

/* Append the set as a JSON object: flat, or nested as Elasticsearch nests (a key that is a value
 * and a parent keeps the dots of its children). patterns: comma-separated globs of keys, or empty.
 */
void settings_print(const struct settings *settings, bool flat, struct slice patterns,
                    struct buf *out);

/* "64kb" -> 65536; false without a unit, or when it does not fit. */
bool settings_bytes(struct slice text, uint64_t *out);
/* The last member of that name; false when value is no object or has none. */
bool json_find(struct json_value object, const char *key, struct json_value *out);
/* A value stored in a meta slice or body; JSON_END when text is empty. */
struct json_value json_value_of(struct slice text);
/* Append the text of a string, number or boolean. */
void json_plain_text(struct json_value scalar, struct buf *out);

#endif
