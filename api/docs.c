/* SPDX-License-Identifier: Apache-2.0 */
/* The document API: one document by its id. Writes are a store_write of one item; reads copy the
 * stored bytes. docs_get and docs_source run on I/O threads, too (call->queued is false): there
 * they return without a reply when they would have to wait. */
#include "api/docs.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/outcome.h"
#include "api/pipelines.h"
#include "config/limits.h"

/* ---- writing */

struct doc_write {
    struct write write;
    struct write_item item;
    struct write_extra extra;
    struct update_body update;
    struct source_spec source;
    bool forced_refresh;
};

static void doc_write_free(struct api_call *call)
{
    struct doc_write *d = call->state;
    source_done(&d->source);
    index_release(d->item.index);
    free((void *)d->extra.source_out.ptr);
    free(d->item.err);
}

static struct slice name_of(const struct index *index)
{
    return slice_of(index_name(index), index_name_len(index));
}

static void location_header(struct api_call *call, const struct write_item *item)
{
    static const char hex[] = "0123456789ABCDEF";
    char made[MADE_ID_LEN];
    struct slice id = item->id;
    struct buf b = {0};
    if (id.len == 0) {
        made_id_format(item->nonce, item->seq, made);
        id = slice_of(made, sizeof made);
    }
    BUF_PUT_LIT(&b, "/");
    struct slice parts[] = {name_of(item->index), id};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < parts[k].len; i++) {
            uint8_t c = parts[k].ptr[i];
            bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                         (c >= 'a' && c <= 'z') || (c != '\0' && strchr("-_.~", c) != NULL);
            if (plain)
                buf_put_byte(&b, c);
            else
                buf_put(&b, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
        }
        if (k == 0)
            BUF_PUT_LIT(&b, "/_doc/");
    }
    if (!b.failed)
        reply_header(call, "Location", "%.*s", (int)b.len, (const char *)b.ptr);
    buf_done(&b);
}

static void doc_write_done(struct write *write, enum rc rc, const struct err *err)
{
    struct api_call *call = write->arg;
    const struct doc_write *d = call->state;
    const struct write_item *item = &d->item;
    if (rc != RC_OK) {
        reply_rc(call, rc, err);
        return;
    }
    if (outcome_failed(item)) {
        struct buf reason = {0}, members = {0};
        const char *type = outcome_error(call->api, item, &reason, &members);
        reply_error_with(call, outcome_status(item), type, buf_slice(&members), "%.*s",
                         (int)reason.len, (const char *)reason.ptr);
        buf_done(&reason);
        buf_done(&members);
        return;
    }
    struct buf *b = reply_json(call, outcome_status(item));
    buf_put_byte(b, '{');
    outcome_members(call->api, item, d->forced_refresh, &d->source, b);
    buf_put_byte(b, '}');
    if (item->result == WRITE_CREATED)
        location_header(call, item);
    api_finish(call);
}

/* ---- reading the parameters of a write; false: replied */

static bool read_versioning(struct api_call *call, enum write_versioning *out)
{
    struct slice type = call_param(call, "version_type");
    if (type.len == 0 || slice_is(type, "internal"))
        *out = VERSION_INTERNAL;
    else if (slice_is(type, "external") || slice_is(type, "external_gt"))
        *out = VERSION_EXTERNAL;
    else if (slice_is(type, "external_gte"))
        *out = VERSION_EXTERNAL_GTE;
    else {
        reply_error(call, 400, "illegal_argument_exception", "No version type match [%.*s]",
                    SLICE_FMT(type));
        return false;
    }
    return true;
}

static bool read_refresh(struct api_call *call, bool *forced_out)
{
    struct slice refresh = call_param(call, "refresh");
    *forced_out = call_has(call, "refresh") && (refresh.len == 0 || slice_is(refresh, "true"));
    if (refresh.len == 0 || *forced_out || slice_is(refresh, "false") ||
        slice_is(refresh, "wait_for"))
        return true;
    reply_error(call, 400, "illegal_argument_exception", "Unknown value for refresh: [%.*s].",
                SLICE_FMT(refresh));
    return false;
}

static bool check_id(struct api_call *call, struct slice id, struct slice routing)
{
    if (id.len > LIMIT_ID_BYTES) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: id [%.*s] is too long, must be no longer than %d bytes "
                    "but was: %zu;",
                    (int)id.len, (const char *)id.ptr, LIMIT_ID_BYTES, id.len);
        return false;
    }
    if (routing.len > ROUTING_BYTES_MAX) {
        reply_error(call, 400, "illegal_argument_exception",
                    "routing is too long, must be no longer than %d bytes but was: %zu",
                    ROUTING_BYTES_MAX, routing.len);
        return false;
    }
    struct slice pipeline = call_param(call, "pipeline");
    if (!pipeline_known(call->api, pipeline)) {
        reply_error(call, 400, "illegal_argument_exception",
                    "pipeline with id [%.*s] does not exist", SLICE_FMT(pipeline));
        return false;
    }
    return true;
}

static bool read_write(struct api_call *call, enum write_op op, struct doc_write *d)
{
    struct write_ask ask = {.op = op, .id = call_part(call, "id")};
    struct slice routing = call_param(call, "routing");
    ask.has_id = ask.id.len != 0;
    ask.has_version = call_has(call, "version");
    if (!check_id(call, ask.id, routing) || !read_versioning(call, &ask.versioning) ||
        !read_refresh(call, &d->forced_refresh) || !call_u64(call, "version", 0, &ask.version) ||
        !call_u64(call, "if_seq_no", SEQ_NONE, &ask.if_seq_no) ||
        !call_u64(call, "if_primary_term", 0, &ask.if_primary_term))
        return false;
    struct buf text = {0};
    if (write_invalid(&ask, &text)) {
        reply_error(call, 400, "action_request_validation_exception", "Validation Failed: 1: %.*s;",
                    SLICE_FMT(buf_slice(&text)));
        buf_done(&text);
        return false;
    }
    d->extra = (struct write_extra){
        .routing = routing,
        .versioning = ask.versioning,
        .version = ask.version,
        .if_seq_no = ask.if_seq_no,
        .if_primary_term = ask.if_primary_term,
    };
    d->item = (struct write_item){.op = op, .id = ask.id, .extra = &d->extra};
    return true;
}

/* The state of a write; NULL: replied. */
static struct doc_write *doc_write_begin(struct api_call *call, enum write_op op)
{
    struct doc_write *d = call_alloc(call, sizeof *d);
    if (d == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return NULL;
    }
    *d = (struct doc_write){.forced_refresh = false};
    if (!read_write(call, op, d))
        return NULL;
    call->state = d;
    call->state_free = doc_write_free;
    return d;
}

static void doc_write_run(struct api_call *call, struct doc_write *d, enum names_need need)
{
    struct slice name = call_part(call, "index");
    struct names_target target;
    struct err err = {0};
    bool alias, stream;
    if (!call_bool(call, "require_alias", false, &alias) ||
        !call_bool(call, "require_data_stream", false, &stream))
        return;
    unsigned flags = (alias ? NAMES_REQUIRE_ALIAS : 0u) | (stream ? NAMES_REQUIRE_STREAM : 0u);
    if (d->item.op == WRITE_UPDATE || d->item.op == WRITE_DELETE || d->extra.if_seq_no != SEQ_NONE)
        flags |= NAMES_CHANGES;
    if (call_param(call, "pipeline").len != 0)
        flags |= NAMES_PIPELINE;
    enum rc rc = names_target(call->api, name, need, flags, &target, &err);
    if (rc != RC_OK) {
        names_reply_error(call, name, rc, &err);
        return;
    }
    d->item.index = target.index;
    d->write = (struct write){&d->item, 1, doc_write_done, call};
    store_write(call->api->o.store, &d->write);
}

static bool need_body(struct api_call *call)
{
    if (call->body.len != 0)
        return true;
    reply_error(call, 400, "parse_exception", "request body is required");
    return false;
}

static void write_document(struct api_call *call, enum write_op op)
{
    struct buf reason = {0};
    struct doc_write *d = need_body(call) ? doc_write_begin(call, op) : NULL;
    if (d == NULL)
        return;
    d->item.source = buf_slice(&call->body);
    if (document_check(d->item.source, &reason)) {
        /* Without an id nothing else can be meant: what a data stream takes. */
        bool append =
            op == WRITE_CREATE || (d->item.id.len == 0 && call_param(call, "op_type").len == 0);
        doc_write_run(call, d, append ? NAMES_APPEND : NAMES_WRITE_CREATE);
    } else {
        reply_error(call, 400, document_error_type(call->api), "%.*s",
                    SLICE_FMT(buf_slice(&reason)));
    }
    buf_done(&reason);
}

void docs_index(struct api_call *call)
{
    struct slice op = call_param(call, "op_type");
    if (slice_is(op, "create"))
        write_document(call, WRITE_CREATE);
    else if (op.len == 0 || slice_is(op, "index"))
        write_document(call, WRITE_INDEX);
    else
        reply_error(call, 400, "illegal_argument_exception",
                    "opType must be 'create' or 'index', found: [%.*s]", SLICE_FMT(op));
}

void docs_create(struct api_call *call)
{
    write_document(call, WRITE_CREATE);
}

void docs_delete(struct api_call *call)
{
    struct doc_write *d = doc_write_begin(call, WRITE_DELETE);
    if (d != NULL)
        doc_write_run(call, d, NAMES_WRITE);
}

void docs_update(struct api_call *call)
{
    const char *type;
    struct err err = {0};
    struct doc_write *d = need_body(call) ? doc_write_begin(call, WRITE_UPDATE) : NULL;
    if (d == NULL)
        return;
    enum rc rc = update_read(call->api, buf_slice(&call->body), &d->update, &type, &err);
    if (rc != RC_OK) {
        reply_error(call, error_status(rc), type, "%s", err.msg);
        return;
    }
    d->extra.update = update_apply;
    d->extra.update_arg = &d->update;
    if (d->update.if_seq_no != SEQ_NONE) {
        d->extra.if_seq_no = d->update.if_seq_no;
        d->extra.if_primary_term = d->update.if_primary_term;
    }
    source_from_query(call, &d->source);
    if (!d->source.given && d->update.source.type != JSON_END &&
        source_from_json(d->update.source, &d->source, &err) != RC_OK) {
        reply_rc(call, RC_NOMEM, &err);
        return;
    }
    d->extra.want_source = d->source.given && d->source.want;
    doc_write_run(call, d, NAMES_WRITE_CREATE);
}

/* ---- reading */

/* Misses of an index that never had a document or a mapping have no type in 7.x. */
static bool index_has_type(struct index *index)
{
    struct index_stats stats;
    index_stats_get(index, &stats);
    if (stats.next_seq != 0)
        return true;
    const struct index_meta *meta = index_meta_acquire(index);
    bool has = meta->mappings.len > 2;
    index_meta_release(meta);
    return has;
}

void doc_put_miss(const struct api *api, struct index *index, struct slice id, struct buf *out)
{
    buf_put_byte(out, '{');
    json_str(out, "_index", name_of(index));
    if (api->major < 8)
        json_raw(out, "_type", index_has_type(index) ? SLICE_LIT("\"_doc\"") : SLICE_LIT("null"));
    json_str(out, "_id", id);
    json_bool(out, "found", false);
    buf_put_byte(out, '}');
}

void doc_put_found(const struct api *api, const struct index *index, struct slice id,
                   const struct row *row, const struct source_spec *source, struct buf *out)
{
    buf_reserve(out, row->doc.len + id.len + 256);
    buf_put_byte(out, '{');
    outcome_names(api, name_of(index), id, out);
    json_uint(out, "_version", row->version);
    json_uint(out, "_seq_no", row->seq);
    json_uint(out, "_primary_term", row->term);
    if (row->routing.len != 0)
        json_str(out, "_routing", row->routing);
    json_bool(out, "found", true);
    source_put(source, row->doc, out);
    buf_put_byte(out, '}');
}

/* A version in the query that is not the document's is a conflict, whatever its type. */
static bool version_fits(struct api_call *call, const struct index *index, struct slice id,
                         uint64_t current, uint64_t wanted)
{
    if (!call_has(call, "version") || wanted == current)
        return true;
    struct buf members = {0};
    json_cstr(&members, "index_uuid", index_uuid(index));
    json_cstr(&members, "shard", "0");
    json_str(&members, "index", name_of(index));
    reply_error_with(call, 409, "version_conflict_engine_exception", buf_slice(&members),
                     "[%.*s]: version conflict, current version [%llu] is different than the one "
                     "provided [%llu]",
                     (int)id.len, (const char *)id.ptr, (unsigned long long)current,
                     (unsigned long long)wanted);
    buf_done(&members);
    return false;
}

/* A row of another routing lives on another shard in Elasticsearch: not here. */
static enum rc get_row(struct api_call *call, struct index *index, struct got *out, struct err *err)
{
    struct store *store = call->api->o.store;
    struct slice id = call_part(call, "id");
    if (id.len > LIMIT_ID_BYTES)
        return RC_NOT_FOUND;
    TRY(store_get(store, index, id, call->queued ? GET_ANY : GET_NOWAIT, out, err));
    if (slice_eq(out->row.routing, call_param(call, "routing")))
        return RC_OK;
    store_got_release(store, out);
    return RC_NOT_FOUND;
}

static void reply_source_miss(struct api_call *call)
{
    struct slice index = call_part(call, "index"), id = call_part(call, "id");
    reply_error(call, 404, "resource_not_found_exception", "Document not found [%.*s]/%s[%.*s]",
                SLICE_FMT(index), call->api->major < 8 ? "[_doc]/" : "", (int)id.len,
                (const char *)id.ptr);
}

static void reply_row(struct api_call *call, struct index *index, const struct row *row,
                      const struct source_spec *source, bool bare)
{
    struct buf *b = reply_json(call, 200);
    if (!bare)
        doc_put_found(call->api, index, call_part(call, "id"), row, source, b);
    else if (source->filter != NULL)
        filter_apply(source->filter, json_root(row->doc), b);
    else
        buf_put_slice(b, row->doc);
}

static void end_read(struct api_call *call, enum rc rc, const struct err *err, bool bare)
{
    if (rc == RC_NOT_FOUND && bare)
        reply_source_miss(call);
    else if (rc != RC_OK && rc != RC_NOT_FOUND)
        reply_rc(call, rc, err);
    else if (bare)
        api_finish_with(call, 0);
    else
        api_finish(call);
}

/* GET _doc, and _source (bare) */
static void read_document(struct api_call *call, bool bare)
{
    struct slice name = call_part(call, "index"), id = call_part(call, "id");
    enum write_versioning versioning;
    uint64_t version;
    if (!read_versioning(call, &versioning) || !call_u64(call, "version", 0, &version))
        return;
    struct err err = {0};
    struct names_target target;
    enum rc rc = names_target(call->api, name, NAMES_READ, 0, &target, &err);
    if (rc != RC_OK) {
        names_reply_error(call, name, rc, &err);
        return;
    }
    struct store *store = call->api->o.store;
    struct got got;
    struct source_spec source;
    bool answered = false;
    source_from_query(call, &source);
    rc = get_row(call, target.index, &got, &err);
    if (rc == RC_OK) {
        answered = !version_fits(call, target.index, id, got.row.version, version);
        if (!answered)
            reply_row(call, target.index, &got.row, &source, bare);
        store_got_release(store, &got);
    } else if (rc == RC_NOT_FOUND && !bare) {
        doc_put_miss(call->api, target.index, id, reply_json(call, 404));
    }
    index_release(target.index);
    source_done(&source);
    /* Once it is answered the call may be gone; RC_AGAIN: a worker will come back to it. */
    if (!answered && rc != RC_AGAIN)
        end_read(call, rc, &err, bare);
}

void docs_get(struct api_call *call)
{
    read_document(call, false);
}

void docs_source(struct api_call *call)
{
    if (slice_is(call_param(call, "_source"), "false")) {
        reply_error(call, 400, "action_request_validation_exception",
                    "Validation Failed: 1: fetching source can not be disabled;");
        return;
    }
    read_document(call, true);
}
