/* SPDX-License-Identifier: Apache-2.0 */
#include "api/query.h"

#include <stdlib.h>

/* bool in bool: Elasticsearch's indices.query.bool.max_nested_depth is 30 since 8.7 */
#define NESTED_MAX 30

struct reading {
    struct buf *text; /* reserved: never moves */
    const char *type;
    struct err *err;
    unsigned depth;
};

/* Ids while they are gathered; nothing of it is owned but the array. */
struct ids {
    bool all;
    struct slice *id;
    size_t count, cap;
};

static enum rc read_any(struct reading *r, struct json_value value, struct ids *out);

static PRINTF_LIKE(2, 3) enum rc malformed(struct reading *r, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->type = "parsing_exception";
    return err_set(r->err, RC_INVALID, 0, "%s", text);
}

/* A key without its quotes, for texts. */
static struct slice bare(struct slice key)
{
    struct slice s = slice_of(key.ptr + 1, key.len - 2);
    return s.len > 60 ? slice_of(s.ptr, 60) : s;
}

static enum rc unknown(struct reading *r, struct slice what)
{
    return malformed(r, "stowd has no query engine: [%.*s] is not supported, it knows " QUERY_KNOWN,
                     SLICE_FMT(what));
}

static bool is_note(struct slice key)
{
    return json_string_is(key, "boost") || json_string_is(key, "_name");
}

/* ---- sets of ids */

static int id_order(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static void settle(struct ids *ids)
{
    size_t n = 0;
    if (ids->count != 0)
        qsort(ids->id, ids->count, sizeof *ids->id, id_order);
    for (size_t i = 0; i < ids->count; i++)
        if (n == 0 || !slice_eq(ids->id[n - 1], ids->id[i]))
            ids->id[n++] = ids->id[i];
    ids->count = n;
}

/* Keep what both have. */
static void intersect(struct ids *a, struct ids *b)
{
    size_t n = 0, j = 0;
    if (b->all)
        return;
    if (a->all) {
        struct ids swap = *a;
        *a = *b;
        *b = swap;
        return;
    }
    for (size_t i = 0; i < a->count; i++) {
        while (j < b->count && slice_cmp(b->id[j], a->id[i]) < 0)
            j++;
        if (j < b->count && slice_eq(b->id[j], a->id[i]))
            a->id[n++] = a->id[i];
    }
    a->count = n;
}

static enum rc add_id(struct reading *r, struct json_value v, struct ids *out)
{
    struct slice text = v.text;
    if (v.type == JSON_STRING) {
        if (!json_plain(v.text, &text)) {
            size_t at = r->text->len;
            json_unquote(v.text, r->text);
            text = slice_of(r->text->ptr + at, r->text->len - at);
        }
    } else if (v.type != JSON_NUMBER && v.type != JSON_TRUE && v.type != JSON_FALSE) {
        return malformed(r, "an id must be a string or a number");
    }
    if (out->count == QUERY_IDS_MAX) {
        r->type = "illegal_argument_exception";
        return err_set(r->err, RC_INVALID, 0,
                       "the query names more ids than the allowed maximum of [%d]", QUERY_IDS_MAX);
    }
    if (out->count == out->cap) {
        size_t cap = out->cap == 0 ? 16 : out->cap * 2;
        struct slice *id = realloc(out->id, cap * sizeof *id);
        if (id == NULL)
            return err_set(r->err, RC_NOMEM, 0, "out of memory for ids");
        out->id = id;
        out->cap = cap;
    }
    out->id[out->count++] = text;
    return RC_OK;
}

/* A list of ids, or one. */
static enum rc add_ids(struct reading *r, struct json_value v, struct ids *out)
{
    if (v.type != JSON_ARRAY)
        return add_id(r, v, out);
    struct json_scan scan = json_enter(v);
    struct json_value one;
    while (json_element(&scan, &one))
        TRY(add_id(r, one, out));
    return RC_OK;
}

/* ---- the queries */

static enum rc read_ids(struct reading *r, struct json_value value, struct ids *out)
{
    struct json_scan scan = json_enter(value);
    struct json_value v;
    struct slice key;
    bool given = false;
    while (json_member(&scan, &key, &v)) {
        if (json_string_is(key, "values")) {
            TRY(add_ids(r, v, out));
            given = true;
        } else if (!is_note(key) && !json_string_is(key, "type")) {
            return malformed(r, "[ids] unknown field [%.*s]", SLICE_FMT(bare(key)));
        }
    }
    return given ? RC_OK : malformed(r, "[ids] requires providing a [values] array");
}

static enum rc read_term(struct reading *r, struct json_value value, bool many, struct ids *out)
{
    struct json_scan scan = json_enter(value), inner;
    struct json_value v, part;
    struct slice key, name;
    size_t fields = 0;
    while (json_member(&scan, &key, &v)) {
        if (is_note(key))
            continue;
        if (!json_string_is(key, "_id"))
            return malformed(r,
                             "stowd has no query engine: [%s] on [%.*s] is not supported, it "
                             "knows " QUERY_KNOWN,
                             many ? "terms" : "term", SLICE_FMT(bare(key)));
        fields++;
        if (many && v.type != JSON_ARRAY)
            return malformed(r, "[terms] query requires an array of ids");
        if (v.type != JSON_OBJECT) {
            TRY(many ? add_ids(r, v, out) : add_id(r, v, out));
            continue;
        }
        inner = json_enter(v);
        while (json_member(&inner, &name, &part)) {
            if (json_string_is(name, "value") || json_string_is(name, "term"))
                TRY(add_id(r, part, out));
            else if (!is_note(name))
                return malformed(r, "[term] query does not support [%.*s]", SLICE_FMT(bare(name)));
        }
    }
    return fields == 1
               ? RC_OK
               : malformed(r, "[%s] query needs exactly one field", many ? "terms" : "term");
}

/* Narrow out by the clauses of a bool: one or an array of them. */
static enum rc read_clauses(struct reading *r, struct json_value value, struct ids *out)
{
    struct json_scan scan = json_enter(value);
    struct json_value one = value;
    bool list = value.type == JSON_ARRAY;
    enum rc rc = RC_OK;
    while (rc == RC_OK && (!list || json_element(&scan, &one))) {
        struct ids clause = {.all = true};
        rc = read_any(r, one, &clause);
        if (rc == RC_OK)
            intersect(out, &clause);
        free(clause.id);
        if (!list)
            break;
    }
    return rc;
}

static bool is_empty(struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value value;
    struct slice key;
    return v.type == JSON_NULL || (v.type == JSON_ARRAY && !json_element(&scan, &value)) ||
           (v.type == JSON_OBJECT && !json_member(&scan, &key, &value));
}

static enum rc read_bool(struct reading *r, struct json_value value, struct ids *out)
{
    struct json_scan scan = json_enter(value);
    struct json_value v;
    struct slice key;
    while (json_member(&scan, &key, &v)) {
        if (json_string_is(key, "filter") || json_string_is(key, "must")) {
            TRY(read_clauses(r, v, out));
        } else if (!is_note(key) && !json_string_is(key, "adjust_pure_negative") && !is_empty(v)) {
            char name[80];
            int n = snprintf(name, sizeof name, "bool.%.*s", SLICE_FMT(bare(key)));
            return unknown(r, slice_of(name, (size_t)n));
        }
    }
    return RC_OK;
}

static enum rc read_constant(struct reading *r, struct json_value value, struct ids *out)
{
    struct json_scan scan = json_enter(value);
    struct json_value v;
    struct slice key;
    bool given = false;
    while (json_member(&scan, &key, &v)) {
        if (json_string_is(key, "filter")) {
            TRY(read_clauses(r, v, out));
            given = true;
        } else if (!is_note(key)) {
            return malformed(r, "[constant_score] unknown field [%.*s]", SLICE_FMT(bare(key)));
        }
    }
    return given ? RC_OK : malformed(r, "[constant_score] requires a 'filter' element");
}

static enum rc read_match_all(struct reading *r, struct json_value value)
{
    struct json_scan scan = json_enter(value);
    struct json_value v;
    struct slice key;
    while (json_member(&scan, &key, &v))
        if (!is_note(key))
            return malformed(r, "[match_all] unknown field [%.*s]", SLICE_FMT(bare(key)));
    return RC_OK;
}

static enum rc read_named(struct reading *r, struct slice key, struct json_value v, struct ids *out)
{
    bool ids = json_string_is(key, "ids"), terms = json_string_is(key, "terms");
    if (json_string_is(key, "match_all"))
        return read_match_all(r, v);
    if (json_string_is(key, "bool"))
        return read_bool(r, v, out);
    if (json_string_is(key, "constant_score"))
        return read_constant(r, v, out);
    if (!ids && !terms && !json_string_is(key, "term") && !json_string_is(key, "match_none"))
        return unknown(r, bare(key));
    out->all = false;
    if (json_string_is(key, "match_none"))
        return RC_OK;
    TRY(ids ? read_ids(r, v, out) : read_term(r, v, terms, out));
    settle(out);
    return RC_OK;
}

static enum rc read_any(struct reading *r, struct json_value value, struct ids *out)
{
    struct json_value v, more;
    struct slice key, other;
    if (value.type != JSON_OBJECT)
        return malformed(r, "[_na] query malformed, must start with start_object");
    struct json_scan scan = json_enter(value);
    if (!json_member(&scan, &key, &v))
        return malformed(r, "query malformed, empty clause found");
    if (json_member(&scan, &other, &more))
        return malformed(r, "[%.*s] malformed query, expected [END_OBJECT] but found [FIELD_NAME]",
                         SLICE_FMT(bare(key)));
    if (v.type != JSON_OBJECT)
        return malformed(r, "[%.*s] query malformed, no start_object after query name",
                         SLICE_FMT(bare(key)));
    if (r->depth == NESTED_MAX)
        return malformed(r, "the query nests more than %d deep", NESTED_MAX);
    r->depth++;
    enum rc rc = read_named(r, key, v, out);
    r->depth--;
    return rc;
}

/* ---- */

enum rc query_read(struct json_value value, struct query *out, const char **type_out,
                   struct err *err)
{
    struct buf text = {0};
    struct reading r = {.text = &text, .type = "parsing_exception", .err = err};
    struct ids ids = {.all = true};
    if (!buf_reserve(&text, value.text.len))
        return err_set(err, RC_NOMEM, 0, "out of memory for a query");
    enum rc rc = read_any(&r, value, &ids);
    if (rc != RC_OK) {
        *type_out = r.type;
        free(ids.id);
        buf_done(&text);
        return rc;
    }
    *out = (struct query){ids.all, ids.id, ids.all ? 0 : ids.count, text};
    return RC_OK;
}

enum rc query_read_text(struct slice q, struct query *out, const char **type_out, struct err *err)
{
    if (!slice_is(q, "*") && !slice_is(q, "*:*")) {
        *type_out = "parsing_exception";
        return err_set(err, RC_INVALID, 0,
                       "stowd has no query engine: [q] may be [*] only; queries in the body are "
                       "" QUERY_KNOWN);
    }
    *out = (struct query){.all = true};
    return RC_OK;
}

void query_done(struct query *query)
{
    free(query->id);
    buf_done(&query->text);
    *query = (struct query){.all = true};
}
