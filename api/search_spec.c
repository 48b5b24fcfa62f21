/* SPDX-License-Identifier: Apache-2.0 */
/* What a search asks for, read from its body. */
#include "api/search.h"
#include "api/settings.h"

#define SORT_KNOWN "[_doc], [_seq_no], [_shard_doc] and [_score]"

struct reading {
    struct search_spec *spec;
    const char *type;
    struct err *err;
};

void search_spec_init(struct search_spec *spec)
{
    *spec = (struct search_spec){
        .query = {.all = true}, .source = {false, true, NULL}, .size = 10, .track = SEQ_NONE};
}

void search_spec_done(struct search_spec *spec)
{
    query_done(&spec->query);
    source_done(&spec->source);
    buf_done(&spec->text);
}

static struct slice bare(struct slice quoted)
{
    struct slice s = slice_of(quoted.ptr + 1, quoted.len - 2);
    return s.len > 60 ? slice_of(s.ptr, 60) : s;
}

static enum rc unsupported(struct reading *r, struct slice key)
{
    r->type = "parsing_exception";
    return err_set(r->err, RC_INVALID, 0,
                   "stowd has no query engine: [%.*s] is not supported; a search may have [query] "
                   "(" QUERY_KNOWN "), [from], [size], [sort], [search_after], [_source], [pit]",
                   SLICE_FMT(bare(key)));
}

static enum rc bad_value(struct reading *r, struct slice key, const char *what)
{
    r->type = "parsing_exception";
    return err_set(r->err, RC_INVALID, 0, "[%.*s] must be %s", SLICE_FMT(bare(key)), what);
}

/* ---- sort */

static enum rc add_sort(struct reading *r, struct slice name, struct slice order)
{
    static const char *const names[] = {"_doc", "_shard_doc", "_seq_no", "_score"};
    struct search_spec *spec = r->spec;
    size_t k = 0;
    while (k < ARRAY_LEN(names) && !slice_is(name, names[k]))
        k++;
    r->type = "illegal_argument_exception";
    if (k == ARRAY_LEN(names))
        return err_set(r->err, RC_INVALID, 0,
                       "stowd has no query engine: it sorts by " SORT_KNOWN " only, not by [%.*s]",
                       SLICE_FMT(name));
    if (spec->sort_count == SEARCH_SORT_MAX)
        return err_set(r->err, RC_INVALID, 0, "at most %d sort keys are possible", SEARCH_SORT_MAX);
    bool desc = slice_is(order, "desc");
    if (!desc && order.len != 0 && !slice_is(order, "asc"))
        return err_set(r->err, RC_INVALID, 0, "unknown sort order [%.*s]", SLICE_FMT(order));
    if (k != SORT_SCORE && search_sort_lead(spec) == spec->sort_count)
        spec->desc = desc;
    spec->sort[spec->sort_count++] = (enum sort_key)k;
    return RC_OK;
}

static struct slice text_of(struct json_value v)
{
    struct slice text = SLICE_NONE;
    return v.type == JSON_STRING && json_plain(v.text, &text) ? text : SLICE_NONE;
}

/* {"_doc":"asc"} or {"_doc":{"order":"asc", …}} */
static enum rc add_sort_object(struct reading *r, struct json_value value)
{
    struct json_scan scan = json_enter(value);
    struct json_value v, order;
    struct slice key;
    while (json_member(&scan, &key, &v)) {
        struct slice text = text_of(v);
        if (v.type == JSON_OBJECT)
            text = json_find(v, "order", &order) ? text_of(order) : SLICE_NONE;
        TRY(add_sort(r, bare(key), text));
    }
    return RC_OK;
}

static enum rc read_sort(struct reading *r, struct json_value value)
{
    struct json_scan scan = json_enter(value);
    struct json_value one = value;
    bool list = value.type == JSON_ARRAY;
    r->spec->sort_count = 0;
    while (!list || json_element(&scan, &one)) {
        if (one.type == JSON_OBJECT)
            TRY(add_sort_object(r, one));
        else if (one.type == JSON_STRING)
            TRY(search_sort_text(r->spec, bare(one.text), &r->type, r->err));
        else
            return bad_value(r, SLICE_LIT("\"sort\""), "a name, an object or a list of them");
        if (!list)
            break;
    }
    return RC_OK;
}

enum rc search_sort_text(struct search_spec *spec, struct slice list, const char **type_out,
                         struct err *err)
{
    struct reading r = {.spec = spec, .err = err};
    for (size_t at = 0; at < list.len;) {
        const uint8_t *comma = memchr(list.ptr + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        struct slice one = slice_of(list.ptr + at, end - at), order = SLICE_NONE;
        const uint8_t *colon = memchr(one.ptr, ':', one.len);
        if (colon != NULL) {
            order = slice_of(colon + 1, (size_t)(one.ptr + one.len - colon - 1));
            one.len = (size_t)(colon - one.ptr);
        }
        enum rc rc = add_sort(&r, one, order);
        if (rc != RC_OK) {
            *type_out = r.type;
            return rc;
        }
        at = end + 1;
    }
    return RC_OK;
}

size_t search_sort_lead(const struct search_spec *spec)
{
    size_t i = 0;
    while (i < spec->sort_count && spec->sort[i] == SORT_SCORE)
        i++;
    return i;
}

/* ---- members */

static bool is_empty(struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value value;
    struct slice key;
    return v.type == JSON_NULL || v.type == JSON_FALSE ||
           (v.type == JSON_ARRAY && !json_element(&scan, &value)) ||
           (v.type == JSON_OBJECT && !json_member(&scan, &key, &value));
}

static bool read_bool(struct json_value v, bool *out)
{
    *out = v.type == JSON_TRUE || slice_is(v.text, "\"true\"");
    return *out || v.type == JSON_FALSE || slice_is(v.text, "\"false\"");
}

static bool read_number(struct json_value v, uint64_t *out)
{
    return json_u64(v.type == JSON_STRING ? bare(v.text) : v.text, out) &&
           (v.type == JSON_NUMBER || v.type == JSON_STRING);
}

static enum rc read_hits(struct reading *r, struct slice key, struct json_value v, uint64_t *out)
{
    int64_t below;
    if (read_number(v, out))
        return RC_OK;
    if (v.type != JSON_NUMBER || !json_i64(v.text, &below))
        return bad_value(r, key, "a number of hits");
    return err_set(r->err, RC_INVALID, 0, "[%.*s] parameter cannot be negative but was [%lld]",
                   SLICE_FMT(bare(key)), (long long)below);
}

static enum rc read_pit(struct reading *r, struct json_value v)
{
    struct search_spec *spec = r->spec;
    struct json_value id, keep;
    if (v.type != JSON_OBJECT || !json_find(v, "id", &id) || id.type != JSON_STRING)
        return bad_value(r, SLICE_LIT("\"pit\""), "an object with an [id]");
    spec->text.len = 0;
    buf_reserve(&spec->text, v.text.len);
    json_unquote(id.text, &spec->text);
    size_t len = spec->text.len;
    if (json_find(v, "keep_alive", &keep) && keep.type == JSON_STRING)
        json_unquote(keep.text, &spec->text);
    if (spec->text.failed)
        return err_set(r->err, RC_NOMEM, 0, "out of memory for a search");
    spec->has_pit = true;
    spec->pit = slice_of(spec->text.ptr, len);
    spec->pit_keep_alive = slice_of(spec->text.ptr + len, spec->text.len - len);
    return RC_OK;
}

static enum rc read_track(struct reading *r, struct slice key, struct json_value v)
{
    bool all;
    if (read_bool(v, &all))
        r->spec->track = all ? SEQ_NONE : 0;
    else if (!read_number(v, &r->spec->track) || r->spec->track == 0)
        return bad_value(r, key, "true, false or a number");
    return RC_OK;
}

/* Members that change nothing here: nothing is scored, timed or cut. */
static bool is_ignored(struct slice key)
{
    static const char *const ignored[] = {"timeout", "track_scores", "stats", "ext",
                                          "batched_reduce_size"};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        if (json_string_is(key, ignored[i]))
            return true;
    return false;
}

static enum rc read_source(struct reading *r, struct json_value v)
{
    source_done(&r->spec->source);
    r->type = "parsing_exception";
    return source_from_json(v, &r->spec->source, r->err);
}

static bool names_none(struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value one;
    if (v.type == JSON_ARRAY)
        return json_element(&scan, &one) && json_string_is(one.text, "_none_");
    return v.type == JSON_STRING && json_string_is(v.text, "_none_");
}

/* Nothing is stored field by field: a list shows none of them, as Elasticsearch's does for fields
 * that are not stored, and no _source unless it is named. */
static void read_fields(struct search_spec *spec, struct json_value v)
{
    struct json_scan scan = json_enter(v);
    struct json_value one = v;
    bool list = v.type == JSON_ARRAY, source = false;
    spec->no_fields = names_none(v);
    while (!list || json_element(&scan, &one)) {
        source = source || (one.type == JSON_STRING && json_string_is(one.text, "_source"));
        if (!list)
            break;
    }
    if (!source && !spec->source.given)
        spec->source.want = false;
}

static enum rc read_member(struct reading *r, struct slice key, struct json_value v)
{
    struct search_spec *spec = r->spec;
    if (json_string_is(key, "query")) {
        query_done(&spec->query);
        return is_empty(v) && v.type == JSON_NULL ? RC_OK
                                                  : query_read(v, &spec->query, &r->type, r->err);
    }
    if (json_string_is(key, "from"))
        return read_hits(r, key, v, &spec->from);
    if (json_string_is(key, "size"))
        return read_hits(r, key, v, &spec->size);
    if (json_string_is(key, "sort"))
        return read_sort(r, v);
    if (json_string_is(key, "search_after")) {
        if (v.type != JSON_ARRAY)
            return bad_value(r, key, "an array of sort values");
        spec->has_after = true;
        spec->after = v.text;
        return RC_OK;
    }
    if (json_string_is(key, "_source"))
        return read_source(r, v);
    if (json_string_is(key, "stored_fields")) {
        read_fields(spec, v);
        return RC_OK;
    }
    if (json_string_is(key, "track_total_hits"))
        return read_track(r, key, v);
    if (json_string_is(key, "version"))
        return read_bool(v, &spec->version) ? RC_OK : bad_value(r, key, "true or false");
    if (json_string_is(key, "seq_no_primary_term"))
        return read_bool(v, &spec->seq_no) ? RC_OK : bad_value(r, key, "true or false");
    if (json_string_is(key, "pit"))
        return read_pit(r, v);
    bool none = is_empty(v) || slice_is(v.text, "0");
    return is_ignored(key) || none ? RC_OK : unsupported(r, key);
}

enum rc search_spec_read(struct search_spec *spec, struct json_value body, const char **type_out,
                         struct err *err)
{
    struct reading r = {.spec = spec, .err = err};
    struct json_scan scan = json_enter(body);
    struct json_value v;
    struct slice key;
    while (json_member(&scan, &key, &v)) {
        r.type = "illegal_argument_exception";
        enum rc rc = read_member(&r, key, v);
        if (rc != RC_OK) {
            *type_out = r.type;
            return rc;
        }
    }
    return RC_OK;
}

/* ---- times */

bool search_time(struct slice text, uint64_t *ms_out)
{
    static const struct {
        const char *unit;
        uint64_t us;
    } units[] = {{"nanos", 0},    {"micros", 1},        {"ms", 1000},         {"s", 1000000},
                 {"m", 60000000}, {"h", 3600000000ull}, {"d", 86400000000ull}};
    size_t n = 0;
    uint64_t v;
    if (slice_is(text, "0") || slice_is(text, "-1")) {
        *ms_out = 0;
        return true;
    }
    while (n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9')
        n++;
    if (n == 0 || n > 12 || !json_u64(slice_of(text.ptr, n), &v))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (slice_is(slice_of(text.ptr + n, text.len - n), units[i].unit)) {
            *ms_out = v > UINT64_MAX / 86400000000ull ? UINT64_MAX / 1000 : v * units[i].us / 1000;
            return true;
        }
    return false;
}
