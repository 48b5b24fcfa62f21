/* SPDX-License-Identifier: Apache-2.0 */
/* NDJSON reader of _bulk; see bulk_read.h.
 *
 * A document of a known shape is checked in one pass, which finds the end of its line, too. Of any
 * other line memchr finds the end first. Action lines, which are short, are then walked for their
 * metadata, unless they are the same as the one before but for the id. */
#include "api/bulk_read.h"

#include "config/limits.h"
#include "storage/bytes.h"

#define ILLEGAL "illegal_argument_exception"

/* What the parsers of one action line share. */
struct action {
    struct bulk_reader *reader;
    struct bulk_item *item;
    struct err *err;
    struct slice includes, excludes; /* raw values of _source_includes, _source_excludes */
    bool op_type_create;
};

void bulk_reader_init(struct bulk_reader *reader, struct slice body, struct shape_reader *shapes,
                      struct buf *scratch)
{
    assert(scratch->cap - scratch->len >= body.len);
    *reader = (struct bulk_reader){.body = body, .shapes = shapes, .scratch = scratch};
}

/* ---- lines */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next line without its newline; false at the end of the body. */
static bool next_line(struct bulk_reader *reader, struct slice *line_out)
{
    if (reader->at == reader->body.len)
        return false;
    const uint8_t *from = reader->body.ptr + reader->at;
    const uint8_t *newline = memchr(from, '\n', reader->body.len - reader->at);
    assert(newline != NULL); /* the body ends in one: bulk_next has looked */
    *line_out = slice_of(from, (size_t)(newline - from));
    reader->at += line_out->len + 1;
    ++reader->line;
    return true;
}

static bool is_blank(struct slice line)
{
    size_t i = 0;
    while (i < line.len && is_space(line.ptr[i]))
        ++i;
    return i == line.len;
}

/* ---- texts of Elasticsearch's XContentParser.Token */

static const char *token_name(enum json_type type)
{
    switch (type) {
    case JSON_NULL:
        return "VALUE_NULL";
    case JSON_TRUE:
    case JSON_FALSE:
        return "VALUE_BOOLEAN";
    case JSON_NUMBER:
        return "VALUE_NUMBER";
    case JSON_STRING:
        return "VALUE_STRING";
    case JSON_OBJECT:
        return "START_OBJECT";
    case JSON_ARRAY:
        return "START_ARRAY";
    case JSON_END:
        break;
    }
    return "END_OBJECT";
}

/* The text of a string; the bytes of any other scalar. */
static struct slice text_of(const struct action *a, struct json_value value)
{
    struct slice text = value.text;
    if (value.type == JSON_STRING && !json_plain(value.text, &text)) {
        struct buf *scratch = a->reader->scratch;
        size_t from = scratch->len;
        json_unquote(value.text, scratch);
        assert(!scratch->failed);
        text = slice_of(scratch->ptr + from, scratch->len - from);
    }
    return text;
}

static struct slice key_text(const struct action *a, struct slice key)
{
    return text_of(a, (struct json_value){JSON_STRING, key});
}

static enum rc bad_value(const struct action *a, struct slice key, struct slice value)
{
    struct slice name = key_text(a, key);
    return err_set(a->err, RC_INVALID, 0,
                   "Action/metadata line [%u] has a bad value [%.*s] for parameter [%.*s]",
                   a->reader->line, SLICE_FMT(value), SLICE_FMT(name));
}

/* ---- metadata: a reader per kind of value; value is neither null nor a container but for
 * READ_ANY */

static enum rc read_number(const struct action *a, struct slice key, struct json_value value,
                           uint64_t *out)
{
    uint64_t v;
    struct slice text = text_of(a, value);
    /* Logstash sends the result of a format as a string. */
    if ((value.type != JSON_NUMBER && value.type != JSON_STRING) || !json_u64(text, &v) ||
        v > INT64_MAX)
        return bad_value(a, key, text);
    *out = v;
    return RC_OK;
}

static enum rc read_bool(const struct action *a, struct slice key, struct json_value value,
                         bool *out)
{
    struct slice text = text_of(a, value);
    if (!slice_is(text, "true") && !slice_is(text, "false"))
        return bad_value(a, key, text);
    *out = slice_is(text, "true");
    return RC_OK;
}

static enum rc read_version_type(const struct action *a, struct slice text)
{
    if (slice_is(text, "internal"))
        a->item->versioning = VERSION_INTERNAL;
    else if (slice_is(text, "external") || slice_is(text, "external_gt"))
        a->item->versioning = VERSION_EXTERNAL;
    else if (slice_is(text, "external_gte"))
        a->item->versioning = VERSION_EXTERNAL_GTE;
    else
        return err_set(a->err, RC_INVALID, 0, "No version type match [%.*s]", SLICE_FMT(text));
    return RC_OK;
}

static enum rc read_op_type(struct action *a, struct slice text)
{
    if (!slice_is(text, "create") && !slice_is(text, "index"))
        return err_set(a->err, RC_INVALID, 0, "opType must be 'create' or 'index', found: [%.*s]",
                       SLICE_FMT(text));
    a->op_type_create = slice_is(text, "create");
    return RC_OK;
}

enum meta {
    META_IGNORED,
    META_INDEX,
    META_ID,
    META_ROUTING,
    META_PIPELINE,
    META_VERSION,
    META_VERSION_TYPE,
    META_RETRY,
    META_IF_SEQ_NO,
    META_IF_TERM,
    META_REQUIRE_ALIAS,
    META_REQUIRE_DATA_STREAM,
    META_OP_TYPE,
    META_SOURCE,
    META_INCLUDES,
    META_EXCLUDES,
};

#define NAME(s) s, sizeof(s) - 1
/* Today's names first, then those of older versions. */
static const struct meta_name {
    const char *name;
    size_t len;
    enum meta meta;
    bool container; /* an object or array may be its value */
} meta_names[] = {
    {NAME("_index"), META_INDEX, false},
    {NAME("_id"), META_ID, false},
    {NAME("routing"), META_ROUTING, false},
    {NAME("pipeline"), META_PIPELINE, false},
    {NAME("version"), META_VERSION, false},
    {NAME("version_type"), META_VERSION_TYPE, false},
    {NAME("retry_on_conflict"), META_RETRY, false},
    {NAME("if_seq_no"), META_IF_SEQ_NO, false},
    {NAME("if_primary_term"), META_IF_TERM, false},
    {NAME("require_alias"), META_REQUIRE_ALIAS, false},
    {NAME("require_data_stream"), META_REQUIRE_DATA_STREAM, false},
    {NAME("op_type"), META_OP_TYPE, false},
    {NAME("_source"), META_SOURCE, true},
    {NAME("_source_includes"), META_INCLUDES, true},
    {NAME("_source_excludes"), META_EXCLUDES, true},
    {NAME("dynamic_templates"), META_IGNORED, true},
    {NAME("list_executed_pipelines"), META_IGNORED, false},
    {NAME("_type"), META_IGNORED, false},
    {NAME("type"), META_IGNORED, false},
    {NAME("parent"), META_IGNORED, false},
    {NAME("_parent"), META_IGNORED, false},
    {NAME("_routing"), META_ROUTING, false},
    {NAME("_version"), META_VERSION, false},
    {NAME("_version_type"), META_VERSION_TYPE, false},
    {NAME("_retry_on_conflict"), META_RETRY, false},
};

#undef NAME

static const struct meta_name *find_meta(struct slice key)
{
    struct slice plain = SLICE_NONE;
    bool escaped = !json_plain(key, &plain);
    for (size_t i = 0; i < ARRAY_LEN(meta_names); i++) {
        const struct meta_name *m = &meta_names[i];
        if (escaped ? json_string_is(key, m->name) : slice_eq(plain, slice_of(m->name, m->len)))
            return m;
    }
    return NULL;
}

static enum rc read_meta(struct action *a, enum meta meta, struct slice key,
                         struct json_value value)
{
    struct bulk_item *item = a->item;
    switch (meta) {
    case META_IGNORED:
        return RC_OK;
    case META_INDEX:
        item->index = text_of(a, value);
        return RC_OK;
    case META_ID:
        item->id = text_of(a, value);
        item->has_id = true;
        return RC_OK;
    case META_ROUTING:
        item->routing = text_of(a, value);
        return RC_OK;
    case META_PIPELINE:
        item->pipeline = text_of(a, value);
        return RC_OK;
    case META_VERSION:
        item->has_version = true;
        return read_number(a, key, value, &item->version);
    case META_VERSION_TYPE:
        return read_version_type(a, text_of(a, value));
    case META_RETRY:
        return read_number(a, key, value, &item->retry_on_conflict);
    case META_IF_SEQ_NO:
        return read_number(a, key, value, &item->if_seq_no);
    case META_IF_TERM:
        return read_number(a, key, value, &item->if_primary_term);
    case META_REQUIRE_ALIAS:
        item->has_require_alias = true;
        return read_bool(a, key, value, &item->require_alias);
    case META_REQUIRE_DATA_STREAM:
        return read_bool(a, key, value, &item->require_data_stream);
    case META_OP_TYPE:
        return read_op_type(a, text_of(a, value));
    case META_SOURCE:
        item->source_filter = value.text;
        return RC_OK;
    case META_INCLUDES:
        a->includes = value.text;
        return RC_OK;
    case META_EXCLUDES:
        a->excludes = value.text;
        return RC_OK;
    }
    return RC_OK;
}

static enum rc read_member(struct action *a, struct slice key, struct json_value value)
{
    const struct meta_name *known = find_meta(key);
    bool container = value.type == JSON_OBJECT || value.type == JSON_ARRAY;
    if (container && (known == NULL || !known->container)) {
        struct slice name = key_text(a, key);
        return err_set(a->err, RC_INVALID, 0,
                       "Malformed action/metadata line [%u], expected a simple value for field "
                       "[%.*s] but found [%s]",
                       a->reader->line, SLICE_FMT(name), token_name(value.type));
    }
    if (value.type == JSON_NULL)
        return RC_OK;
    /* Elasticsearch 7 and later know _routing nowhere. Shippers of older days still index with it
     * (R3); an update that relies on it is refused, as there. */
    bool old_routing = a->item->op == WRITE_UPDATE && json_string_is(key, "_routing");
    if (known == NULL || old_routing) {
        struct slice name = key_text(a, key);
        return err_set(a->err, RC_INVALID, 0,
                       "Action/metadata line [%u] contains an unknown parameter [%.*s]",
                       a->reader->line, SLICE_FMT(name));
    }
    return read_meta(a, known->meta, key, value);
}

/* ---- the action line */

/* _source_includes and _source_excludes become the object that _source could have been. It is
 * shorter than the two members were, so scratch holds it. */
static void join_source_filter(struct action *a)
{
    struct buf *scratch = a->reader->scratch;
    size_t from = scratch->len;
    if (a->includes.len == 0 && a->excludes.len == 0)
        return;
    BUF_PUT_LIT(scratch, "{");
    if (a->includes.len != 0) {
        BUF_PUT_LIT(scratch, "\"includes\":");
        buf_put_slice(scratch, a->includes);
    }
    if (a->excludes.len != 0) {
        buf_put_str(scratch, a->includes.len != 0 ? ",\"excludes\":" : "\"excludes\":");
        buf_put_slice(scratch, a->excludes);
    }
    BUF_PUT_LIT(scratch, "}");
    assert(!scratch->failed);
    a->item->source_filter = slice_of(scratch->ptr + from, scratch->len - from);
}

static enum rc read_op(const struct action *a, struct slice key)
{
    static const struct {
        const char *name;
        enum write_op op;
    } ops[] = {{"index", WRITE_INDEX},
               {"create", WRITE_CREATE},
               {"update", WRITE_UPDATE},
               {"delete", WRITE_DELETE}};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (json_string_is(key, ops[i].name)) {
            a->item->op = ops[i].op;
            return RC_OK;
        }
    }
    struct slice name = key_text(a, key);
    return err_set(a->err, RC_INVALID, 0,
                   "Malformed action/metadata line [%u], expected one of [create, delete, index, "
                   "update] but found [%.*s]",
                   a->reader->line, SLICE_FMT(name));
}

static enum rc read_metadata(struct action *a, struct json_value object)
{
    struct json_scan scan = json_enter(object);
    struct slice key;
    struct json_value value;
    while (json_member(&scan, &key, &value))
        TRY(read_member(a, key, value));
    join_source_filter(a);
    if (a->item->op == WRITE_INDEX && a->op_type_create)
        a->item->op = WRITE_CREATE;
    if (a->item->op == WRITE_UPDATE &&
        (a->item->has_version || a->item->versioning != VERSION_INTERNAL))
        return err_set(a->err, RC_INVALID, 0,
                       "Update requests do not support versioning. Please use `if_seq_no` and "
                       "`if_primary_term` instead");
    return RC_OK;
}

static enum rc malformed(const struct action *a, const char *expected, enum json_type found)
{
    return err_set(a->err, RC_INVALID, 0,
                   "Malformed action/metadata line [%u], expected %s but found [%s]",
                   a->reader->line, expected, token_name(found));
}

static enum rc read_action(struct action *a, struct slice line)
{
    struct json_fault fault;
    enum json_type type;
    if (!json_check(line, &type, &fault))
        return err_set(a->err, RC_INVALID, 0,
                       "Malformed action/metadata line [%u], %s at byte [%zu]", a->reader->line,
                       fault.what, fault.at);
    if (type != JSON_OBJECT)
        return malformed(a, "START_OBJECT", type);
    struct json_scan scan = json_enter(json_root(line));
    struct slice key, second;
    struct json_value metadata, ignored;
    if (!json_member(&scan, &key, &metadata))
        return malformed(a, "FIELD_NAME", JSON_END);
    TRY(read_op(a, key));
    if (metadata.type != JSON_OBJECT)
        return malformed(a, "START_OBJECT or END_OBJECT", metadata.type);
    TRY(read_metadata(a, metadata));
    if (json_member(&scan, &second, &ignored))
        return err_set(a->err, RC_INVALID, 0,
                       "Malformed action/metadata line [%u], expected END_OBJECT but found "
                       "[FIELD_NAME]",
                       a->reader->line);
    return RC_OK;
}

/* ---- the document line */

static void read_source(struct bulk_reader *reader, struct bulk_item *item)
{
    enum json_type type;
    struct slice rest = slice_of(reader->body.ptr + reader->at, reader->body.len - reader->at);
    item->source_ok =
        shape_reader_line(reader->shapes, &rest, &item->source, &type, &item->fault, &item->fit);
    reader->at = reader->body.len - rest.len;
    ++reader->line;
    if (item->source_ok && type != JSON_OBJECT) {
        item->source_ok = false;
        item->fault = (struct json_fault){0, "not an object"};
    }
}

static bool begins_with(struct slice text, struct slice start)
{
    return text.len >= start.len && bytes_eq(text.ptr, start.ptr, start.len);
}

/* Is the next line the action line before again, but for a plain id? Then go on behind it. */
static bool same_line(struct bulk_reader *reader, struct bulk_item *item)
{
    struct slice head = reader->known_head, tail = reader->known_tail;
    struct slice rest = slice_of(reader->body.ptr + reader->at, reader->body.len - reader->at);
    size_t id_len = 0;
    if (head.len == 0 || !begins_with(rest, head))
        return false;
    if (tail.len != 0) {
        rest = slice_of(rest.ptr + head.len, rest.len - head.len);
        id_len = json_plain_len(rest);
        if (id_len == 0 || id_len > LIMIT_ID_BYTES ||
            !begins_with(slice_of(rest.ptr + id_len, rest.len - id_len), tail))
            return false;
        item->id = slice_of(rest.ptr, id_len);
    }
    reader->at += head.len + id_len + tail.len;
    ++reader->line;
    return true;
}

/* Divide the action line that was read at its id. Nothing of it was decoded if `in_place`. */
static void remember_line(struct bulk_reader *reader, const struct bulk_item *item,
                          struct slice line, bool in_place)
{
    const uint8_t *end = line.ptr + line.len + 1;
    const uint8_t *cut =
        in_place && item->id.len != 0 && item->id.ptr[-1] == '"' ? item->id.ptr : end;
    const uint8_t *behind = cut == end ? end : cut + item->id.len;
    reader->known_head = slice_of(line.ptr, (size_t)(cut - line.ptr));
    reader->known_tail = slice_of(behind, (size_t)(end - behind));
}

/* The action line that comes next, but for blank ones. RC_NOT_FOUND at the end of the body. */
static enum rc next_action(struct bulk_reader *reader, struct bulk_item *item, struct err *err)
{
    struct slice line;
    do {
        if (!next_line(reader, &line))
            return RC_NOT_FOUND;
    } while (is_blank(line));
    *item = (struct bulk_item){
        .versioning = VERSION_INTERNAL, .if_seq_no = SEQ_NONE, .source_ok = true};
    struct action action = {.reader = reader, .item = item, .err = err};
    size_t decoded = reader->scratch->len;
    TRY(read_action(&action, line));
    remember_line(reader, item, line, reader->scratch->len == decoded);
    return RC_OK;
}

enum rc bulk_next(struct bulk_reader *reader, struct bulk_item *item, const char **type_out,
                  struct err *err)
{
    struct slice body = reader->body;
    if (body.len != 0 && body.ptr[body.len - 1] != '\n') {
        *type_out = ILLEGAL;
        return err_set(err, RC_INVALID, 0,
                       "The bulk request must be terminated by a newline [\\n]");
    }
    bool same = same_line(reader, item);
    enum rc rc = same ? RC_OK : next_action(reader, item, err);
    if (rc != RC_OK) {
        if (rc != RC_NOT_FOUND)
            *type_out = ILLEGAL;
        return rc;
    }
    item->same = same;
    item->line = reader->line;
    if (item->op == WRITE_DELETE)
        return RC_OK;
    /* An action without its document ends the body, as in Elasticsearch. */
    if (reader->at == body.len)
        return RC_NOT_FOUND;
    read_source(reader, item);
    return RC_OK;
}
