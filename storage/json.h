/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON (RFC 8259, UTF-8) over bytes in memory: validation at memory speed and a pull scanner
 * that yields slices. Nothing is copied, nothing is re-printed.
 *
 *   J1  what json_check accepts is one JSON value with optional white space around it, and nothing
 *       else: no control bytes in strings, no invalid UTF-8, no 01 or 1., no BOM, no trailing
 * bytes. Lone surrogate escapes and duplicate keys are accepted as written; containers nest at most
 *       LIMIT_JSON_DEPTH deep.
 *   J2  the SSE2 path and its scalar twin accept and refuse the same inputs with the same offset
 *       (fuzzed against each other). */
#ifndef STOWD_JSON_H
#define STOWD_JSON_H

#include "config/base.h"
#include "config/buf.h"

enum json_type {
    JSON_END, /* end of the enclosing object or array, or of the input */
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_OBJECT,
    JSON_ARRAY,
};

/* What is wrong and where, for error texts. */
struct json_fault {
    size_t at;        /* byte offset in the input */
    const char *what; /* "control byte in a string", static text */
};

/* Validate a whole document. type_out (may be NULL) is the type of the top value. */
MUST_CHECK bool json_check(struct slice text, enum json_type *type_out, struct json_fault *fault);
/* The scalar twin, for machines without SSE2 and for the fuzzer. */
MUST_CHECK bool json_check_scalar(struct slice text, enum json_type *type_out,
                                  struct json_fault *fault);

/* The type of a valid document's top value. */
enum json_type json_type_of(struct slice text);

/* Pull scanner over text that is valid JSON (json_check passed): it trusts the grammar but never
 * reads outside the slice. */
struct json_scan {
    const uint8_t *p;
    const uint8_t *end;
};

/* A value: its type and exact bytes, white space around it excluded. Strings include quotes. */
struct json_value {
    enum json_type type;
    struct slice text;
};

/* The one value of a document. */
struct json_value json_root(struct slice text);
/* Walk an object: key_out is the key with quotes, as written. False at the end.
 *   struct json_scan s = json_enter(object);
 *   while (json_member(&s, &key, &value)) … */
struct json_scan json_enter(struct json_value container);
bool json_member(struct json_scan *scan, struct slice *key_out, struct json_value *value_out);
bool json_element(struct json_scan *scan, struct json_value *value_out);

/* Walks that look at every byte once, nested containers included, stand on a value and step:
 * json_peek says what begins there, json_take passes over it; or ++scan.p enters a container, the
 * next_ functions go to its next value (false: at its closing bracket, which ++scan.p leaves). */
enum json_type json_peek(const struct json_scan *scan);
struct json_value json_take(struct json_scan *scan);
bool json_next_key(struct json_scan *scan, struct slice *key_out);
bool json_next_element(struct json_scan *scan);

/* Is a quoted string equal to plain text, escapes considered? */
bool json_string_is(struct slice quoted, const char *text);
bool json_string_eq(struct slice quoted_a, struct slice quoted_b);
/* Their order by code points: that of the bytes where nothing is escaped. */
int json_string_cmp(struct slice quoted_a, struct slice quoted_b);
/* Append the text of a quoted string, escapes decoded (lone surrogates as U+FFFD). */
void json_unquote(struct slice quoted, struct buf *out);
/* True when the text of a quoted string is its bytes between the quotes (no escapes): then
 * *plain_out is that. */
bool json_plain(struct slice quoted, struct slice *plain_out);
/* Non-negative integer without fraction or exponent that fits; false otherwise. */
bool json_u64(struct slice number, uint64_t *out);
bool json_i64(struct slice number, int64_t *out);
/* Equality of values as Elasticsearch's noop detection sees it: objects regardless of key order,
 * numbers and strings by value (1 and 1.0 differ, 1.0 and 1e0 do not), of duplicate keys the last.
 * False also when memory is out: whoever asks then writes once too often, never once too little.
 * In storage/json_tree.c. */
bool json_same(struct json_value a, struct json_value b);

/* Length of the text's beginning that stands for itself in a string: ASCII without quotes, escapes
 * and control bytes. */
size_t json_plain_len(struct slice text);
/* Append text as a quoted JSON string. Invalid UTF-8 becomes U+FFFD. */
void json_quote(struct slice text, struct buf *out);

#endif
