/* SPDX-License-Identifier: Apache-2.0 */
/* _bulk: one pass over the body makes a table of items, one store_write applies them, the answer is
 * written from the same table in request order, in windows.
 *
 *   K1  a request that is refused as a whole (framing, validation, overload) has applied nothing.
 *   K2  what is wrong with one item alone is that item's error.
 *   K3  the answer begins {"took":N,"errors":B,"items":[ without a blank, one key per item, as many
 *       items as actions: shippers compare these bytes. */
#include "api/access.h"
#include "api/bulk_read.h"
#include "api/handlers.h"
#include "api/outcome.h"
#include "api/pipelines.h"
#include "api/targets.h"
#include "config/limits.h"

#include <strings.h>

/* Validation errors of one request that are written out. */
#define VALIDATION_TEXT_MAX (64 * KIB)
/* How many items the table has room for before there are some to go by. */
#define ITEMS_AT_FIRST 64
/* Fluent Bit cannot read answers over 512,000 bytes with their headers (its client's buffer) and
 * would send the chunk again. So many full items may come near that; more are cut down to their
 * status, and when even that is too much the later ones to nothing: it asks for the status of items
 * only when "errors" is true, and then for any of a success. */
#define FLUENT_BIT_ITEMS_MAX 2400
#define FLUENT_BIT_BYTES_MAX 500000
#define SHORT_ITEM_BYTES     14 /* {"create":{}}, */

/* Refused before it came to the engine. */
struct refusal {
    int status;
    const char *type;
    struct slice reason;
};

/* What an action line says besides id and operation. Neighbouring items share one when theirs say
 * the same, but for updates and refused items. */
struct entry {
    struct write_extra extra;      /* first: items point to it */
    struct slice name;             /* the index as asked for */
    struct slice source_filter;    /* update: raw JSON "_source", or empty */
    const struct refusal *refusal; /* then the item's result is WRITE_SKIPPED */
    unsigned flags;                /* of enum names_flags: what is required of the name */
};

/* What the answers to neighbouring items share: all but id, version and seq. And with made ids,
 * which are made of the seq, the last answer that was written in full: those that follow nearly
 * always differ from it in no more than the last two characters of both. */
struct frame {
    struct index *index; /* NULL: none yet */
    enum write_op op;
    enum write_result result;
    uint32_t term;
    struct buf text;     /* … "_id": | ,"result":… "_seq_no": | ,"_primary_term":… */
    size_t middle, tail; /* where the second and the third part begin */
    struct buf last;     /* empty: none */
    uint64_t nonce, version, seq;
    size_t id_end, seq_end; /* in it */
};

struct bulk {
    struct api_call *call;
    struct write write;
    struct buf items;    /* struct write_item */
    struct entry *entry; /* of the last item, if it may be shared */
    size_t entries;      /* made */
    struct buf scratch;  /* decoded ids and names */
    struct shape_reader shapes;
    size_t count;
    unsigned needs;     /* enum names_need of the items, a bit each */
    bool plain;         /* the last item was valid, whatever its document */
    struct buf invalid; /* "Validation Failed: 1: …;" */
    size_t invalid_count;
    struct targets targets;
    struct slice index, routing, pipeline; /* defaults of the request */
    struct slice known;                    /* the pipeline asked about last */
    bool is_known;
    bool require_alias, require_stream, forced_refresh;
    struct source_spec source;
    /* the answer */
    struct filter *filter;
    struct buf one; /* an item before it is filtered */
    struct frame frame;
    bool compact, items_wanted, items_open;
    bool owns_nothing; /* no item holds an error or a document */
    size_t spent;      /* bytes of the items so far, when compact */
    size_t next;
};

static struct write_item *item_at(const struct bulk *bulk, size_t i)
{
    return (struct write_item *)(void *)bulk->items.ptr + i;
}

static struct entry *entry_at(const struct bulk *bulk, size_t i)
{
    return (struct entry *)item_at(bulk, i)->extra;
}

static void bulk_free(struct api_call *call)
{
    struct bulk *bulk = call->state;
    for (size_t i = 0; !bulk->owns_nothing && i < bulk->count; i++) {
        free((void *)item_at(bulk, i)->extra->source_out.ptr);
        free(item_at(bulk, i)->err);
    }
    shape_reader_done(&bulk->shapes);
    targets_done(&bulk->targets);
    source_done(&bulk->source);
    if (bulk->filter != NULL)
        filter_destroy(bulk->filter);
    buf_done(&bulk->items);
    buf_done(&bulk->scratch);
    buf_done(&bulk->invalid);
    buf_done(&bulk->one);
    buf_done(&bulk->frame.text);
    buf_done(&bulk->frame.last);
}

/* ---- reading */

/* Mark item i as refused (K2). False: no memory. */
static bool refuse_item(struct bulk *bulk, size_t i, int status, const char *type,
                        struct slice reason)
{
    struct write_item *item = item_at(bulk, i);
    struct refusal *r = call_alloc(bulk->call, sizeof *r);
    struct entry *own = call_alloc(bulk->call, sizeof *own);
    if (r == NULL || own == NULL)
        return false;
    *r = (struct refusal){status, type, call_dup(bulk->call, reason)};
    *own = *entry_at(bulk, i);
    own->refusal = r;
    item->extra = &own->extra;
    item->result = WRITE_SKIPPED;
    bulk->entries++;
    return r->reason.ptr != NULL;
}

static void add_invalid(struct bulk *bulk, const char *text, size_t len)
{
    struct buf *b = &bulk->invalid;
    if (bulk->invalid_count++ == 0)
        BUF_PUT_LIT(b, "Validation Failed: ");
    if (b->len < VALIDATION_TEXT_MAX)
        buf_printf(b, "%zu: %.*s;", bulk->invalid_count, (int)len, text);
}

/* False: it is invalid. */
static bool validate(struct bulk *bulk, const struct bulk_item *in)
{
    size_t before = bulk->invalid_count;
    static const char no_index[] = "index is missing";
    struct buf text = {0};
    struct write_ask ask = {in->op,      in->has_id,     in->id,        in->has_version,
                            in->version, in->versioning, in->if_seq_no, in->if_primary_term};
    if (in->index.len == 0 && bulk->index.len == 0)
        add_invalid(bulk, no_index, sizeof no_index - 1);
    if (write_invalid(&ask, &text))
        add_invalid(bulk, (const char *)text.ptr, text.len);
    buf_done(&text);
    return bulk->invalid_count == before;
}

/* Remembers the last one: nearly always all items name the same. */
static bool bulk_pipeline_known(struct bulk *bulk, struct slice name)
{
    if (name.len == 0)
        return true;
    if (!slice_eq(name, bulk->known)) {
        bulk->known = name;
        bulk->is_known = pipeline_known(bulk->call->api, name);
    }
    return bulk->is_known;
}

/* What is wrong with the item alone, appended to reason: its error type, or NULL. */
static const char *item_fault(struct bulk *bulk, const struct bulk_item *in, struct buf *reason)
{
    struct slice pipeline = in->pipeline.len != 0 ? in->pipeline : bulk->pipeline;
    bool document = in->op == WRITE_INDEX || in->op == WRITE_CREATE;
    if (in->has_id && in->id.len == 0) {
        BUF_PUT_LIT(reason, "if _id is specified it must not be empty");
    } else if (in->id.len > LIMIT_ID_BYTES) {
        BUF_PUT_LIT(reason, "id [");
        buf_put_slice(reason, in->id);
        buf_printf(reason, "] is too long, must be no longer than %d bytes but was: %zu",
                   LIMIT_ID_BYTES, in->id.len);
    } else if (in->routing.len > ROUTING_BYTES_MAX) {
        buf_printf(reason, "routing is too long, must be no longer than %d bytes but was: %zu",
                   ROUTING_BYTES_MAX, in->routing.len);
    } else if (document && !bulk_pipeline_known(bulk, pipeline)) {
        BUF_PUT_LIT(reason, "pipeline with id [");
        buf_put_slice(reason, pipeline);
        BUF_PUT_LIT(reason, "] does not exist");
    } else if (document && !in->source_ok) {
        document_error_reason(&in->fault, reason);
        return document_error_type(bulk->call->api);
    } else {
        return NULL;
    }
    return "illegal_argument_exception";
}

static enum rc read_update(struct bulk *bulk, size_t i, const struct bulk_item *in)
{
    struct update_body *body = call_alloc(bulk->call, sizeof *body);
    const char *type;
    struct err err = {0};
    if (body == NULL)
        return RC_NOMEM;
    enum rc rc = update_read(bulk->call->api, in->source, body, &type, &err);
    if (rc != RC_OK)
        return refuse_item(bulk, i, error_status(rc), type, slice_str(err.msg)) ? RC_OK : RC_NOMEM;
    struct write_extra *extra = item_at(bulk, i)->extra;
    extra->update = update_apply;
    extra->update_arg = body;
    if (body->if_seq_no != SEQ_NONE) {
        extra->if_seq_no = body->if_seq_no;
        extra->if_primary_term = body->if_primary_term;
    }
    struct slice filter = in->source_filter.len != 0 ? in->source_filter : body->source.text;
    entry_at(bulk, i)->source_filter = filter;
    extra->want_source =
        filter.len != 0 ? !slice_is(filter, "false") : bulk->source.given && bulk->source.want;
    return RC_OK;
}

static enum names_need item_need(const struct write_item *item)
{
    /* A delete makes no index, but one with a version of its own leaves that version behind. */
    bool plain_delete = item->op == WRITE_DELETE && item->extra->versioning == VERSION_INTERNAL;
    return plain_delete               ? NAMES_WRITE
           : item->op == WRITE_CREATE ? NAMES_APPEND
                                      : NAMES_WRITE_CREATE;
}

/* The entry of an item to come; NULL: no memory. */
static struct entry *make_entry(struct bulk *bulk, const struct bulk_item *in)
{
    struct entry e = {
        .extra = {.routing = in->routing.len != 0 ? in->routing : bulk->routing,
                  .versioning = in->versioning,
                  .version = in->version,
                  .if_seq_no = in->if_seq_no,
                  .if_primary_term = in->if_primary_term},
        .name = in->index.len != 0 ? in->index : bulk->index,
    };
    if (in->has_require_alias ? in->require_alias : bulk->require_alias)
        e.flags |= NAMES_REQUIRE_ALIAS;
    if (in->require_data_stream || bulk->require_stream)
        e.flags |= NAMES_REQUIRE_STREAM;
    if (in->op == WRITE_UPDATE || in->op == WRITE_DELETE || in->if_seq_no != SEQ_NONE)
        e.flags |= NAMES_CHANGES;
    if (in->pipeline.len != 0 || bulk->pipeline.len != 0)
        e.flags |= NAMES_PIPELINE;
    struct entry *last = bulk->entry;
    if (in->op != WRITE_UPDATE && last != NULL && slice_eq(last->name, e.name) &&
        last->flags == e.flags && slice_eq(last->extra.routing, e.extra.routing) &&
        last->extra.versioning == e.extra.versioning && last->extra.version == e.extra.version &&
        last->extra.if_seq_no == e.extra.if_seq_no &&
        last->extra.if_primary_term == e.extra.if_primary_term)
        return last;
    struct entry *made = call_alloc(bulk->call, sizeof *made);
    if (made == NULL)
        return NULL;
    *made = e;
    bulk->entry = in->op == WRITE_UPDATE ? NULL : made;
    bulk->entries++;
    return made;
}

/* reserve_item has made room for it. */
static enum rc add_item(struct bulk *bulk, const struct bulk_item *in)
{
    size_t i = bulk->count;
    struct write_item *item = item_at(bulk, i);
    bool known = in->same && bulk->plain && in->source_ok && in->op != WRITE_UPDATE;
    if (known) {
        *item = item[-1];
        item->id = in->id;
        item->source = in->source;
        item->fit = in->fit;
    } else {
        struct entry *entry = make_entry(bulk, in);
        if (entry == NULL)
            return RC_NOMEM;
        *item = (struct write_item){.op = in->op,
                                    .id = in->id,
                                    .source = in->source,
                                    .fit = in->fit,
                                    .extra = &entry->extra};
    }
    bulk->count++;
    bulk->items.len += sizeof *item;
    /* Most action lines are the one before again but for a sound id: what was right about that is
     * right. */
    if (known)
        return RC_OK;
    bulk->needs |= 1u << item_need(item);
    bulk->plain = validate(bulk, in);

    struct buf reason = {0};
    enum rc rc = RC_OK;
    const char *type = item_fault(bulk, in, &reason);
    bulk->plain = bulk->plain && type == NULL;
    if (type != NULL)
        rc = refuse_item(bulk, i, 400, type, buf_slice(&reason)) ? RC_OK : RC_NOMEM;
    else if (in->op == WRITE_UPDATE)
        rc = read_update(bulk, i, in);
    buf_done(&reason);
    return rc;
}

/* Room for one more item, the last of those in the first `len` bytes of the body. Growing a little
 * at a time would copy the table several times: a full one gets room for items like those read so
 * far, but for no more than the body's own size: they may be small ones before large ones. */
static bool reserve_item(struct bulk *bulk, size_t body_len, size_t len)
{
    if (bulk->items.cap - bulk->items.len >= sizeof(struct write_item))
        return true;
    size_t like = body_len / (len / (bulk->count + 1));
    size_t most = bulk->count == 0 ? ITEMS_AT_FIRST : body_len / sizeof(struct write_item);
    size_t count = like + like / 8 < most ? like + like / 8 : most;
    size_t more = count > bulk->count ? count - bulk->count : 1;
    return buf_reserve(&bulk->items, more * sizeof(struct write_item));
}

/* Fill the table. False: replied. */
static bool read_items(struct bulk *bulk)
{
    struct api_call *call = bulk->call;
    struct slice body = buf_slice(&call->body);
    struct bulk_reader reader;
    struct bulk_item in;
    struct err err = {0};
    const char *type = error_type(call->api, RC_INVALID);
    enum rc rc = buf_reserve(&bulk->scratch, body.len) ? RC_OK : RC_NOMEM;
    shape_reader_init(&bulk->shapes, store_shapes(call->api->o.store));
    bulk_reader_init(&reader, body, &bulk->shapes, &bulk->scratch);
    while (rc == RC_OK && (rc = bulk_next(&reader, &in, &type, &err)) == RC_OK)
        rc = reserve_item(bulk, body.len, reader.at) ? add_item(bulk, &in) : RC_NOMEM;
    if (rc == RC_NOT_FOUND && bulk->count == 0) {
        static const char none[] = "no requests added";
        add_invalid(bulk, none, sizeof none - 1);
    }
    call_charge(call, (int64_t)(bulk->items.cap + bulk->entries * sizeof(struct entry) +
                                bulk->scratch.len + bulk->shapes.lens.memory));
    if (rc == RC_INVALID)
        reply_error(call, 400, type, "%s", err.msg);
    else if (rc != RC_NOT_FOUND)
        reply_rc(call, rc, &err);
    else if (bulk->invalid_count != 0)
        reply_error(call, 400, "action_request_validation_exception", "%.*s",
                    (int)bulk->invalid.len, (const char *)bulk->invalid.ptr);
    else
        return true;
    return false;
}

/* ---- indices */

/* P1 of api/access.h: what only the body names. */
static bool forbid_item(struct bulk *bulk, size_t i, unsigned needs)
{
    struct buf reason = {0};
    access_reason(bulk->call, entry_at(bulk, i)->name, needs, &reason);
    bool ok = refuse_item(bulk, i, error_status(RC_FORBIDDEN),
                          error_type(bulk->call->api, RC_FORBIDDEN), buf_slice(&reason));
    buf_done(&reason);
    return ok;
}

static bool resolve_item(struct bulk *bulk, size_t i)
{
    static const unsigned needs[] = {[WRITE_INDEX] = USERS_PUT,
                                     [WRITE_CREATE] = USERS_ADD | USERS_PUT,
                                     [WRITE_UPDATE] = USERS_PUT,
                                     [WRITE_DELETE] = USERS_DELETE};
    struct write_item *item = item_at(bulk, i);
    const struct entry *entry = entry_at(bulk, i);
    if (bulk->call->user != NULL && !access_may(bulk->call, entry->name, needs[item->op]))
        return forbid_item(bulk, i, needs[item->op]);
    struct target *t =
        targets_get(bulk->call, &bulk->targets, entry->name, item_need(item), entry->flags);
    if (t == NULL)
        return false;
    item->index = t->index;
    if (t->rc == RC_OK)
        return true;
    struct buf scratch = {0};
    const char *type = names_error_type(bulk->call->api, t->rc, t->err);
    bool ok =
        refuse_item(bulk, i, names_error_status(t->rc, t->err), type, target_reason(t, &scratch));
    buf_done(&scratch);
    return ok;
}

/* All items with that need. Neighbours that ask for the same get the same, a refusal, too. */
static bool resolve_all(struct bulk *bulk, enum names_need need)
{
    const struct write_item *before = NULL;
    const struct write_extra *asked = NULL; /* by the one before */
    for (size_t i = 0; i < bulk->count; i++) {
        struct write_item *item = item_at(bulk, i);
        if (item->result == WRITE_SKIPPED)
            continue;
        if (before != NULL && item->extra == asked && item->op == before->op) {
            item->index = before->index;
            item->extra = before->extra;
            item->result = before->result;
        } else if (item_need(item) == need) {
            asked = item->extra;
            if (!resolve_item(bulk, i))
                return false;
            before = item;
        }
    }
    return true;
}

/* Every index that the request needs, made now; deletes last, so that they find those. A shortage
 * that would hit items only because of their place refuses the request. */
static enum rc resolve_items(struct bulk *bulk, const struct err **err_out)
{
    static const enum names_need order[] = {NAMES_APPEND, NAMES_WRITE_CREATE, NAMES_WRITE};
    for (size_t k = 0; k < ARRAY_LEN(order); k++)
        if ((bulk->needs >> order[k] & 1) != 0 && !resolve_all(bulk, order[k]))
            return RC_NOMEM;
    for (const struct target *t = bulk->targets.all; t != NULL; t = t->before)
        if (t->rc == RC_BUSY || t->rc == RC_FULL || t->rc == RC_IO || t->rc == RC_NOMEM) {
            *err_out = t->err;
            return t->rc;
        }
    return RC_OK;
}

/* ---- the answer */

static const char *op_name(enum write_op op)
{
    static const char *const names[] = {"index", "create", "update", "delete"};
    return names[op];
}

static void put_failure(const struct bulk *bulk, size_t i, struct buf *out)
{
    const struct write_item *item = item_at(bulk, i);
    const struct entry *entry = entry_at(bulk, i);
    const struct refusal *refusal = entry->refusal;
    const struct api *api = bulk->call->api;
    struct buf reason = {0}, members = {0};
    struct slice name = item->index == NULL
                            ? entry->name
                            : slice_of(index_name(item->index), index_name_len(item->index));
    buf_put_byte(out, '{');
    json_key(out, op_name(item->op));
    buf_put_byte(out, '{');
    outcome_names(api, name, item->id, out);
    json_int(out, "status", refusal != NULL ? refusal->status : outcome_status(item));
    json_key(out, "error");
    if (refusal != NULL) {
        error_object(out, refusal->type, refusal->reason, SLICE_NONE);
    } else {
        const char *type = outcome_error(api, item, &reason, &members);
        error_object(out, type, buf_slice(&reason), buf_slice(&members));
    }
    BUF_PUT_LIT(out, "}}");
    buf_done(&reason);
    buf_done(&members);
}

static void frame_make(struct bulk *bulk, const struct write_item *item)
{
    struct frame *f = &bulk->frame;
    struct buf *text = &f->text;
    text->len = 0;
    f->last.len = 0;
    buf_put_byte(text, '{');
    json_key(text, op_name(item->op));
    buf_put_byte(text, '{');
    outcome_index(bulk->call->api, slice_of(index_name(item->index), index_name_len(item->index)),
                  text);
    json_key(text, "_id");
    f->middle = text->len;
    outcome_effect(item, bulk->forced_refresh, text);
    json_key(text, "_seq_no");
    f->tail = text->len;
    json_uint(text, "_primary_term", item->term);
    json_int(text, "status", outcome_status(item));
    BUF_PUT_LIT(text, "}}");
    f->index = item->index;
    f->op = item->op;
    f->result = item->result;
    f->term = item->term;
}

/* The item's answer out of the one before. False: it differs in more. */
static bool put_like_last(const struct frame *f, const struct write_item *item, struct buf *out)
{
    if (f->last.len == 0 || item->id.len != 0 || item->nonce != f->nonce ||
        item->version_out != f->version || item->seq / 100 != f->seq / 100 ||
        item->seq >> MADE_ID_LAST_BITS != f->seq >> MADE_ID_LAST_BITS)
        return false;
    buf_put(out, f->last.ptr, f->last.len);
    if (out->failed)
        return true;
    uint8_t *end = out->ptr + out->len - f->last.len;
    made_id_last(item->seq, (char *)end + f->id_end);
    end[f->seq_end - 2] = (uint8_t)('0' + item->seq % 100 / 10);
    end[f->seq_end - 1] = (uint8_t)('0' + item->seq % 10);
    return true;
}

/* A row was written and no source is wanted: nearly all items of nearly all requests. */
static void put_framed(struct bulk *bulk, const struct write_item *item, struct buf *out)
{
    struct frame *f = &bulk->frame;
    char made[MADE_ID_LEN];
    if (f->index != item->index || f->op != item->op || f->result != item->result ||
        f->term != item->term)
        frame_make(bulk, item);
    else if (put_like_last(f, item, out))
        return;
    struct buf *text = &f->text;
    size_t start = out->len, id_end = 0;
    out->failed = out->failed || text->failed;
    buf_put(out, text->ptr, f->middle);
    if (item->id.len != 0) {
        json_quote(item->id, out);
    } else { /* nothing in it needs an escape */
        buf_put_byte(out, '"');
        buf_put_slice(out, outcome_id(item, made));
        id_end = out->len - start;
        buf_put_byte(out, '"');
    }
    BUF_PUT_LIT(out, ",\"_version\":");
    buf_put_u64(out, item->version_out);
    buf_put(out, text->ptr + f->middle, f->tail - f->middle);
    buf_put_u64(out, item->seq);
    size_t seq_end = out->len - start;
    buf_put(out, text->ptr + f->tail, text->len - f->tail);
    if (id_end == 0 || item->seq < 100 || out->failed)
        return;
    f->id_end = id_end;
    f->seq_end = seq_end;
    f->nonce = item->nonce;
    f->version = item->version_out;
    f->seq = item->seq;
    f->last.len = 0;
    buf_put(&f->last, out->ptr + start, out->len - start);
}

static void put_success(struct bulk *bulk, size_t i, struct buf *out)
{
    const struct write_item *item = item_at(bulk, i);
    struct slice filter = entry_at(bulk, i)->source_filter;
    struct source_spec own = {true, true, NULL};
    struct err err = {0};
    buf_put_byte(out, '{');
    json_key(out, op_name(item->op));
    buf_put_byte(out, '{');
    if (filter.len != 0 && source_from_json(json_root(filter), &own, &err) != RC_OK)
        own.want = false;
    outcome_members(bulk->call->api, item, bulk->forced_refresh,
                    filter.len != 0 ? &own : &bulk->source, out);
    json_int(out, "status", outcome_status(item));
    BUF_PUT_LIT(out, "}}");
    source_done(&own);
}

/* The least that says what came of an item, as long as there is room for the shortest form of those
 * behind it. */
static void put_compact(struct bulk *bulk, size_t i, struct buf *out)
{
    const struct refusal *refusal = entry_at(bulk, i)->refusal;
    const struct write_item *item = item_at(bulk, i);
    size_t left = bulk->count - i, room, start = out->len;
    size_t least = bulk->count * SHORT_ITEM_BYTES <= FLUENT_BIT_BYTES_MAX ? SHORT_ITEM_BYTES : 3;
    size_t taken = bulk->spent + left * least;
    room = taken < FLUENT_BIT_BYTES_MAX ? FLUENT_BIT_BYTES_MAX - taken : 0;
    buf_put_byte(out, '{');
    if (least == SHORT_ITEM_BYTES || room > 32) {
        json_key(out, op_name(item->op));
        buf_put_byte(out, '{');
        if (room > 32)
            json_int(out, "status", refusal != NULL ? refusal->status : outcome_status(item));
        if (room > 128 && outcome_failed(item)) {
            struct buf reason = {0}, members = {0};
            BUF_PUT_LIT(out, ",\"error\":{");
            json_cstr(out, "type",
                      refusal != NULL ? refusal->type
                                      : outcome_error(bulk->call->api, item, &reason, &members));
            buf_put_byte(out, '}');
            buf_done(&reason);
            buf_done(&members);
        }
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
    bulk->spent += out->len - start + 1;
}

static void put_item(struct bulk *bulk, size_t i, struct buf *out)
{
    if (bulk->compact) {
        put_compact(bulk, i, out);
        return;
    }
    const struct write_item *item = item_at(bulk, i);
    if (outcome_failed(item))
        put_failure(bulk, i, out);
    else if (item->result == WRITE_NOT_FOUND || item->extra->source_out.ptr != NULL)
        put_success(bulk, i, out);
    else
        put_framed(bulk, item, out);
}

/* Item i behind what is there; nothing when the filter keeps nothing of it. */
static void put_filtered(struct bulk *bulk, size_t i, struct buf *out)
{
    size_t before = out->len;
    if (bulk->items_open)
        buf_put_byte(out, ',');
    else
        json_raw(out, "items", SLICE_LIT("["));
    if (bulk->filter == NULL) {
        put_item(bulk, i, out);
        bulk->items_open = true;
        return;
    }
    bulk->one.len = 0;
    put_item(bulk, i, &bulk->one);
    if (filter_apply_at(bulk->filter, "items", json_root(buf_slice(&bulk->one)), out))
        bulk->items_open = true;
    else if (!out->failed)
        out->len = before;
}

/* Growing a window as it fills would copy it several times: room for answers like the first, whose
 * length is len. */
static void reserve_window(const struct bulk *bulk, struct buf *out, size_t len)
{
    size_t left = bulk->count - bulk->next;
    size_t most = len < LIMIT_ANSWER_WINDOW ? (LIMIT_ANSWER_WINDOW - len) / (len + 1) + 1 : 0;
    (void)buf_reserve(out, (left < most ? left : most) * (len + 1));
}

/* One window. reply.more stays set while there are items left. */
static enum rc put_window(struct api_call *call)
{
    struct bulk *bulk = call->state;
    struct buf *out = &call->reply.body;
    size_t start = out->len, first = bulk->next;
    while (bulk->items_wanted && bulk->next < bulk->count &&
           out->len - start < LIMIT_ANSWER_WINDOW) {
        put_filtered(bulk, bulk->next++, out);
        if (bulk->next == first + 1)
            reserve_window(bulk, out, out->len - start);
    }
    bool last = !bulk->items_wanted || bulk->next == bulk->count;
    if (last) {
        if (bulk->items_open)
            buf_put_byte(out, ']');
        buf_put_byte(out, '}');
    }
    call->reply.more = last ? NULL : call->reply.more;
    return out->failed || bulk->one.failed ? RC_NOMEM : RC_OK;
}

static enum rc next_window(struct api_call *call)
{
    call->reply.body.len = 0;
    return put_window(call);
}

static void answer(struct bulk *bulk)
{
    struct api_call *call = bulk->call;
    bool errors = false;
    bulk->owns_nothing = true;
    for (size_t i = 0; i < bulk->count; i++) {
        const struct write_item *item = item_at(bulk, i);
        errors = errors || outcome_failed(item);
        bulk->owns_nothing =
            bulk->owns_nothing && item->err == NULL && item->extra->source_out.ptr == NULL;
    }
    struct slice agent = call->user_agent;
    bulk->compact = bulk->count > FLUENT_BIT_ITEMS_MAX && agent.len >= 10 &&
                    strncasecmp((const char *)agent.ptr, "Fluent-Bit", 10) == 0;
    bulk->filter = filter_create_path(call_param(call, "filter_path"));
    bulk->items_wanted = bulk->filter == NULL || filter_wants(bulk->filter, "items");

    struct buf *out = reply_json(call, 200);
    buf_put_byte(out, '{');
    if (bulk->filter == NULL || filter_wants(bulk->filter, "took"))
        json_uint(out, "took", call_took_ms(call));
    if (bulk->filter == NULL || filter_wants(bulk->filter, "errors"))
        json_bool(out, "errors", errors);
    call->reply.more = next_window;
    if (put_window(call) != RC_OK) {
        call->reply.more = NULL;
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    api_finish_with(call, REPLY_PRETTY);
}

static void bulk_done(struct write *write, enum rc rc, const struct err *err)
{
    struct bulk *bulk = write->arg;
    if (rc != RC_OK)
        reply_rc(bulk->call, rc, err);
    else
        answer(bulk);
}

/* ---- */

/* Defaults from path and query. False: replied. */
static bool read_defaults(struct bulk *bulk)
{
    struct api_call *call = bulk->call;
    struct slice refresh = call_param(call, "refresh");
    bulk->index = call_part(call, "index");
    bulk->routing = call_param(call, "routing");
    bulk->pipeline = call_param(call, "pipeline");
    bulk->forced_refresh =
        call_has(call, "refresh") && (refresh.len == 0 || slice_is(refresh, "true"));
    source_from_query(call, &bulk->source);
    if (refresh.len != 0 && !bulk->forced_refresh && !slice_is(refresh, "false") &&
        !slice_is(refresh, "wait_for")) {
        reply_error(call, 400, "illegal_argument_exception", "Unknown value for refresh: [%.*s].",
                    SLICE_FMT(refresh));
        return false;
    }
    return call_bool(call, "require_alias", false, &bulk->require_alias) &&
           call_bool(call, "require_data_stream", false, &bulk->require_stream);
}

void bulk_post(struct api_call *call)
{
    if (call->body.len == 0) {
        reply_error(call, 400, "parse_exception", "request body is required");
        return;
    }
    struct bulk *bulk = call_alloc(call, sizeof *bulk);
    if (bulk == NULL) {
        reply_rc(call, RC_NOMEM, NULL);
        return;
    }
    *bulk = (struct bulk){.call = call};
    call->state = bulk;
    call->state_free = bulk_free;
    if (!read_defaults(bulk) || !read_items(bulk))
        return;
    const struct err *err = NULL;
    enum rc rc = resolve_items(bulk, &err);
    if (rc != RC_OK) {
        reply_rc(call, rc, err);
        return;
    }
    bulk->write = (struct write){item_at(bulk, 0), bulk->count, bulk_done, bulk};
    store_write(call->api->o.store, &bulk->write);
}
