/* SPDX-License-Identifier: Apache-2.0 */
#include "api/copy.h"

#include "api/outcome.h"

#include <stdlib.h>

/* A full log is waited for by that many flushes, one after the other. */
#define RETRIES_MAX 100
/* Failures that are written out; the counts have them all. */
#define FAILURES_MAX 100

/* A document of the batch: where its texts lie in copy.bytes. */
struct doc {
    struct index *index; /* borrowed: the scan's or dest */
    size_t id, id_len, routing, routing_len, source, source_len;
    uint64_t seq, version;
    uint32_t term;
    struct write_extra extra; /* of its item */
};

static void fill(struct task *task);
static void write_part(struct task *task);
static void finish(struct task *task);

static struct copy *copy_of(struct task *task)
{
    return (struct copy *)((char *)task - offsetof(struct copy, task));
}

static void queue(struct copy *copy, void (*run)(struct task *task))
{
    copy->task.run = run;
    work_submit(copy->api->o.work, WORK_BACKGROUND, &copy->task);
}

struct copy *copy_create(struct api *api)
{
    struct copy *copy = calloc(1, sizeof *copy);
    if (copy == NULL)
        return NULL;
    copy->api = api;
    copy->max_docs = SEQ_NONE;
    copy->batch_docs = COPY_DOCS;
    copy->source.want = true;
    return copy;
}

static void release(struct copy *copy)
{
    scan_close(&copy->scan);
    index_release(copy->dest);
    copy->dest = NULL;
    source_done(&copy->source);
    buf_done(&copy->docs);
    buf_done(&copy->bytes);
    buf_done(&copy->items);
    buf_done(&copy->filtered);
    buf_done(&copy->text);
}

void copy_destroy(struct copy *copy)
{
    if (copy == NULL)
        return;
    release(copy);
    if (copy->remote != NULL)
        remote_free(copy->remote);
    buf_done(&copy->failures);
    if (copy->job != NULL)
        job_end(copy->job, SLICE_LIT("{\"type\":\"exception\",\"reason\":\"not begun\"}"), true);
    free(copy);
}

/* ---- gathering a batch */

static size_t put_bytes(struct copy *copy, struct slice s)
{
    size_t at = copy->bytes.len;
    buf_put_slice(&copy->bytes, s);
    return at;
}

static bool batch_full(const struct copy *copy, size_t more)
{
    size_t count = copy->docs.len / sizeof(struct doc);
    return count != 0 && (count >= copy->batch_docs || copy->bytes.len + more > COPY_BYTES);
}

static enum rc add_doc(struct copy *copy, const struct doc *like, struct slice id,
                       struct slice routing, struct slice source)
{
    struct doc doc = *like;
    if (copy->source.filter != NULL) {
        copy->filtered.len = 0;
        filter_apply(copy->source.filter, json_root(source), &copy->filtered);
        if (copy->filtered.failed)
            return RC_NOMEM;
        source = buf_slice(&copy->filtered);
    }
    if (copy->routing == ROUTING_DISCARD)
        routing = SLICE_NONE;
    else if (copy->routing == ROUTING_SET)
        routing = copy->routing_text;
    doc.id = put_bytes(copy, id);
    doc.id_len = id.len;
    doc.routing = put_bytes(copy, routing);
    doc.routing_len = routing.len;
    doc.source = put_bytes(copy, source);
    doc.source_len = source.len;
    buf_put(&copy->docs, &doc, sizeof doc);
    return copy->docs.failed || copy->bytes.failed ? RC_NOMEM : RC_OK;
}

static enum rc take_local(const struct scan_doc *in, void *arg)
{
    struct copy *copy = arg;
    const struct row *row = in->row;
    bool delete = copy->dest == NULL;
    struct doc doc = {.index = delete ? in->index : copy->dest,
                      .seq = row->seq,
                      .term = row->term,
                      .version = row->version};
    if (batch_full(copy, delete ? 0 : row->doc.len))
        return RC_AGAIN;
    return add_doc(copy, &doc, in->id, row->routing, delete ? SLICE_NONE : row->doc);
}

static enum rc read_local(struct copy *copy)
{
    uint64_t left = copy->max_docs - copy->read;
    size_t max = left < copy->batch_docs ? (size_t)left : copy->batch_docs;
    return scan_next(&copy->scan, &copy->place, max, &copy->drained, take_local, copy, &copy->err);
}

/* A batch of the other node's page, which may hold several. */
static enum rc read_page(struct copy *copy)
{
    struct remote_hit hit;
    enum rc rc = RC_OK;
    uint64_t left = copy->max_docs - copy->read;
    while (rc == RC_OK && copy->docs.len / sizeof(struct doc) < left && !batch_full(copy, 0)) {
        rc = remote_hit(copy->remote, &hit, &copy->err);
        copy->page_open = rc == RC_OK;
        if (rc == RC_NOT_FOUND)
            break;
        struct doc doc = {.index = copy->dest, .version = hit.version};
        if (rc == RC_OK && hit.source.len == 0)
            rc = err_set(&copy->err, RC_INVALID, 0, "[%.*s] of the other node has no _source",
                         SLICE_FMT(hit.id));
        if (rc == RC_OK && copy->versioning != VERSION_INTERNAL && hit.version == 0)
            rc = err_set(&copy->err, RC_INVALID, 0, "the other node told no version of [%.*s]",
                         SLICE_FMT(hit.id));
        if (rc == RC_OK)
            rc = add_doc(copy, &doc, hit.id, hit.routing, hit.source);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Items of a batch, once their bytes lie still. */
static enum rc make_items(struct copy *copy)
{
    struct doc *docs = (struct doc *)(void *)copy->docs.ptr;
    size_t count = copy->docs.len / sizeof *docs;
    copy->items.len = 0;
    for (size_t i = 0; i < count; i++) {
        struct doc *d = &docs[i];
        const uint8_t *base = copy->bytes.ptr;
        bool delete = copy->dest == NULL;
        d->extra = (struct write_extra){
            .routing = slice_of(base + d->routing, d->routing_len),
            .versioning = copy->versioning,
            .version = d->version,
            .if_seq_no = delete ? d->seq : SEQ_NONE,
            .if_primary_term = delete ? d->term : 0,
        };
        struct write_item item = {
            .index = d->index,
            .op = delete         ? WRITE_DELETE
                  : copy->create ? WRITE_CREATE
                                 : WRITE_INDEX,
            .id = slice_of(base + d->id, d->id_len),
            .source = slice_of(base + d->source, d->source_len),
            .extra = &d->extra,
        };
        buf_put(&copy->items, &item, sizeof item);
    }
    return copy->items.failed ? RC_NOMEM : RC_OK;
}

static size_t item_count(const struct copy *copy)
{
    return copy->items.len / sizeof(struct write_item);
}

static struct write_item *item_at(const struct copy *copy, size_t i)
{
    return (struct write_item *)(void *)copy->items.ptr + i;
}

static void end(struct copy *copy, enum rc rc)
{
    copy->rc = rc;
    if (copy->remote != NULL) {
        copy->task.run = finish;
        remote_close(copy->remote, &copy->task);
    } else {
        finish(&copy->task);
    }
}

/* A batch has been gathered: write it, or end. */
static void filled(struct copy *copy, enum rc rc)
{
    if (rc == RC_OK)
        rc = make_items(copy);
    if (rc == RC_OK && item_count(copy) == 0 && !copy->drained && !job_cancelled(copy->job)) {
        queue(copy, fill); /* the page ended with the batch before */
        return;
    }
    if (rc != RC_OK || item_count(copy) == 0) {
        end(copy, rc);
        return;
    }
    copy->read += item_count(copy);
    copy->counts.batches++;
    copy->at = 0;
    copy->part_max = SIZE_MAX;
    copy->retries = 0;
    write_part(&copy->task);
}

static void page_came(struct task *task)
{
    struct copy *copy = copy_of(task);
    enum rc rc = RC_OK;
    if (!job_cancelled(copy->job)) {
        rc = remote_result(copy->remote, &copy->err);
        uint64_t total = remote_total(copy->remote);
        copy->counts.total = total < copy->max_docs ? total : copy->max_docs;
        copy->counts.search_retries = remote_retries(copy->remote);
        if (rc == RC_OK)
            rc = read_page(copy);
        copy->drained = copy->docs.len == 0;
    }
    filled(copy, rc);
}

static void fill(struct task *task)
{
    struct copy *copy = copy_of(task);
    copy->docs.len = copy->bytes.len = copy->items.len = 0;
    job_set(copy->job, &copy->counts);
    enum rc rc = RC_OK;
    if (copy->dest != NULL) /* writes to a deleted index go nowhere */
        rc = scan_index_there(copy->api->o.store, copy->dest, &copy->err);
    if (rc != RC_OK || job_cancelled(copy->job) || copy->drained || copy->read >= copy->max_docs) {
        end(copy, rc);
    } else if (copy->page_open) {
        filled(copy, read_page(copy));
    } else if (copy->remote != NULL) {
        copy->task.run = page_came;
        remote_next(copy->remote, &copy->task);
    } else {
        filled(copy, read_local(copy));
    }
}

/* ---- writing it */

static void add_failure(struct copy *copy, const struct write_item *item)
{
    struct buf *out = &copy->failures, reason = {0}, members = {0};
    int status = outcome_status(item);
    if (status > copy->failure_status)
        copy->failure_status = status;
    if (copy->failure_count++ >= FAILURES_MAX)
        return;
    if (out->len != 0)
        buf_put_byte(out, ',');
    buf_put_byte(out, '{');
    json_cstr(out, "index", index_name(item->index));
    if (copy->api->major < 8)
        json_cstr(out, "type", "_doc");
    json_str(out, "id", item->id);
    const char *type = outcome_error(copy->api, item, &reason, &members);
    json_key(out, "cause");
    error_object(out, type, buf_slice(&reason), buf_slice(&members));
    json_int(out, "status", status);
    buf_put_byte(out, '}');
    buf_done(&reason);
    buf_done(&members);
}

static void tally(struct copy *copy, struct write_item *item)
{
    switch (item->result) {
    case WRITE_CREATED:
        copy->counts.created++;
        break;
    case WRITE_UPDATED:
        copy->counts.updated++;
        break;
    case WRITE_DELETED:
        copy->counts.deleted++;
        break;
    case WRITE_NOOP:
        copy->counts.noops++;
        break;
    case WRITE_EXISTS:
    case WRITE_CONFLICT:
    case WRITE_NOT_FOUND:
        copy->counts.conflicts++;
        if (!copy->proceed && item->result != WRITE_NOT_FOUND)
            add_failure(copy, item);
        break;
    default:
        add_failure(copy, item);
        break;
    }
    free(item->err);
    item->err = NULL;
}

static void flushed(void *arg, enum rc rc, const struct err *err)
{
    struct copy *copy = arg;
    (void)err;
    (void)rc; /* what a flush could not do, the next try will say */
    queue(copy, write_part);
}

/* The engine refused the part as a whole: try a smaller one, wait, or end. */
static void refused(struct copy *copy, enum rc rc, const struct err *err)
{
    if (rc == RC_TOO_LARGE && copy->part > 1) {
        copy->part_max = copy->part / 2;
        queue(copy, write_part);
        return;
    }
    if (rc == RC_BUSY && copy->retries < RETRIES_MAX && !job_cancelled(copy->job)) {
        copy->retries++;
        copy->counts.bulk_retries++;
        store_flush(copy->api->o.store, NULL, flushed, copy);
        return;
    }
    if (err != NULL)
        copy->err = *err;
    end(copy, rc);
}

static void written(struct write *write, enum rc rc, const struct err *err)
{
    struct copy *copy = write->arg;
    if (rc != RC_OK) {
        refused(copy, rc, err);
        return;
    }
    for (size_t i = copy->at; i < copy->at + copy->part; i++)
        tally(copy, item_at(copy, i));
    copy->at += copy->part;
    if (copy->at < item_count(copy)) /* a batch is applied to its end, failures or not */
        queue(copy, write_part);
    else if (copy->failure_count != 0)
        end(copy, RC_OK);
    else
        queue(copy, fill);
}

/* Items from `at` on that make COPY_BYTES, at least one; fewer when the log is smaller. */
static size_t part_size(const struct copy *copy)
{
    size_t bytes = 0, n = 0, count = item_count(copy);
    while (copy->at + n < count && n < copy->part_max) {
        const struct write_item *item = item_at(copy, copy->at + n);
        bytes += item->id.len + item->source.len;
        if (n != 0 && bytes > COPY_BYTES)
            break;
        n++;
    }
    return n;
}

static void write_part(struct task *task)
{
    struct copy *copy = copy_of(task);
    copy->part = part_size(copy);
    copy->write = (struct write){item_at(copy, copy->at), copy->part, written, copy};
    store_write(copy->api->o.store, &copy->write);
}

/* ---- the end */

static void put_response(const struct copy *copy, struct buf *out)
{
    buf_put_byte(out, '{');
    json_uint(out, "took", job_took_ms(copy->job));
    json_bool(out, "timed_out", false);
    job_put_counts(&copy->counts, copy->dest != NULL, out);
    if (job_cancelled(copy->job))
        json_cstr(out, "canceled", "by user request");
    BUF_PUT_LIT(out, ",\"failures\":[");
    buf_put_slice(out, buf_slice(&copy->failures));
    BUF_PUT_LIT(out, "]}");
}

static void finish(struct task *task)
{
    struct copy *copy = copy_of(task);
    struct api_call *call = copy->call;
    struct job *job = copy->job;
    struct buf text = {0};
    enum rc rc = copy->rc;
    bool failed = rc != RC_OK && !job_cancelled(job);
    job_set(job, &copy->counts);
    if (failed)
        error_object(&text, error_type(copy->api, rc),
                     slice_str(copy->err.msg[0] != '\0' ? copy->err.msg : "out of memory"),
                     SLICE_NONE);
    else
        put_response(copy, &text);
    if (copy->remote != NULL)
        remote_free(copy->remote);
    release(copy);
    buf_done(&copy->failures);
    if (call != NULL && failed) {
        reply_rc(call, rc, &copy->err);
    } else if (call != NULL) {
        int status = copy->failure_count == 0 ? 200 : copy->failure_status;
        buf_put_slice(reply_json(call, status), buf_slice(&text));
        api_finish(call);
    }
    free(copy);
    job_end(job, buf_slice(&text), failed);
    buf_done(&text);
}

/* ---- beginning */

static bool was_cancelled(const void *arg)
{
    return job_cancelled(arg);
}

void copy_begin(struct copy *copy)
{
    if (copy->remote != NULL)
        remote_watch(copy->remote, was_cancelled, copy->job);
    else
        copy->counts.total = copy->scan.total < copy->max_docs ? copy->scan.total : copy->max_docs;
    queue(copy, fill);
}

static bool read_rate(struct api_call *call)
{
    char text[32];
    struct slice rate = call_param(call, "requests_per_second");
    if (!call_has(call, "requests_per_second"))
        return true;
    char *stop = text;
    double v = 0;
    if (rate.len != 0 && rate.len < sizeof text) {
        memcpy(text, rate.ptr, rate.len);
        text[rate.len] = '\0';
        v = strtod(text, &stop);
    }
    if (stop != text && *stop == '\0' && (v > 0 || (v > -1.5 && v < -0.5)))
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "[requests_per_second] must be a float greater than 0. Use -1 to disable "
                "throttling.");
    return false;
}

/* slices is accepted: one chain of steps does the work of all of them. */
static bool read_slices(struct api_call *call, uint64_t *out)
{
    struct slice slices = call_param(call, "slices");
    *out = 1;
    if (slices.len == 0 || slice_is(slices, "auto") || (json_u64(slices, out) && *out != 0))
        return true;
    reply_error(call, 400, "illegal_argument_exception",
                "[slices] must be a positive integer or the string \"auto\"");
    return false;
}

/* A number of documents from the query, -1 for all. */
static bool read_max(struct api_call *call, const char *name, uint64_t *out, bool *has)
{
    struct slice text = call_param(call, name);
    int64_t below;
    *has = text.len != 0;
    if (!*has)
        return true;
    if (json_i64(text, &below) && below == -1) {
        *out = SEQ_NONE;
        return true;
    }
    if (json_i64(text, &below) && below < 0) {
        reply_error(call, 400, "illegal_argument_exception",
                    "[max_docs] parameter cannot be negative, found [%lld]", (long long)below);
        return false;
    }
    return call_u64(call, name, SEQ_NONE, out);
}

bool copy_read_limits(struct api_call *call, struct copy *copy, uint64_t body_max,
                      bool has_body_max)
{
    uint64_t max[3] = {body_max, SEQ_NONE, SEQ_NONE}, slices, value = SEQ_NONE;
    bool has[3] = {has_body_max, false, false}, given = false;
    if (!read_rate(call) || !read_slices(call, &slices) ||
        !read_max(call, "max_docs", &max[1], &has[1]) || !read_max(call, "size", &max[2], &has[2]))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(max); i++) {
        if (has[i] && given && max[i] != value) {
            reply_error(call, 400, "illegal_argument_exception",
                        "[max_docs] set to two different values [%llu] and [%llu]",
                        (unsigned long long)(value < max[i] ? value : max[i]),
                        (unsigned long long)(value < max[i] ? max[i] : value));
            return false;
        }
        value = has[i] ? max[i] : value;
        given = given || has[i];
    }
    if (value < slices) {
        reply_error(call, 400, "illegal_argument_exception", "[max_docs] should be >= [slices]");
        return false;
    }
    copy->max_docs = value;
    return true;
}

void copy_start(struct api_call *call, struct copy *copy, enum job_kind kind,
                struct slice description)
{
    struct err err = {0};
    char name[48];
    bool wait;
    if (!call_bool(call, "wait_for_completion", true, &wait)) {
        copy_destroy(copy);
        return;
    }
    enum rc rc = job_begin(call, kind, description, &copy->job, &err);
    if (rc != RC_OK) {
        copy_destroy(copy);
        reply_rc(call, rc, &err);
        return;
    }
    job_name(copy->job, name);
    if (wait)
        copy->call = call;
    copy_begin(copy);
    if (!wait)
        job_reply_name(call, name);
}
