/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the engine share: a store in a directory of its own that can be closed, reopened
 * and crashed; calls that wait; and a model of an index that takes random writes. */
#ifndef STOWD_TESTS_STORE_BENCH_H
#define STOWD_TESTS_STORE_BENCH_H

#include "config/limits.h"
#include "storage/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a store of the test's own */

struct bench {
    char dir[64];
    struct work *work;
    struct store *store;
    struct store_options o;
    atomic_uint errors; /* events of severity 2 */
};

static inline void on_event(void *arg, int severity, const char *text)
{
    struct bench *b = arg;
    if (severity == 2) {
        atomic_fetch_add(&b->errors, 1);
        fprintf(stderr, "event: %s\n", text);
    }
}

static inline void on_fatal(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "fatal: %s\n", text);
    abort();
}

static inline void bench_open(struct bench *b)
{
    struct err err = {0};
    assert_int_equal(work_start(3, &b->work, &err), RC_OK);
    b->o.path_data = b->dir;
    b->o.work = b->work;
    b->o.event = on_event;
    b->o.fatal = on_fatal;
    b->o.arg = b;
    enum rc rc = store_open(&b->o, &b->store, &err);
    if (rc != RC_OK)
        fail_msg("store_open: %s", err.msg);
}

static inline void bench_close(struct bench *b)
{
    store_close(b->store);
    work_stop(b->work);
    b->store = NULL;
}

static inline void bench_reopen(struct bench *b)
{
    bench_close(b);
    bench_open(b);
}

/* Run a shell command in the bench's directory; its exit code. */
static inline int shell(const struct bench *b, const char *command)
{
    char text[256];
    snprintf(text, sizeof text, "cd %s && %s", b->dir, command);
    return system(text);
}

static inline void run(const struct bench *b, const char *command)
{
    assert_int_equal(shell(b, command), 0);
}

/* Go on with what a power cut would have left: a copy of the directory, taken while it is open. */
static inline void bench_crash(struct bench *b)
{
    run(b,
        "mkdir copy && cp -a wal catalog indices copy && cp -a metadata.json copy || test -d copy");
    bench_close(b);
    run(b, "rm -rf wal catalog indices metadata.json && mv copy/* . && rmdir copy");
    bench_open(b);
}

static inline void bench_init(struct bench *b)
{
    *b = (struct bench){
        .o =
            {
                .wal_bytes = 8 * MIB,
                .segment_bytes = 256 * KIB,
                .cache_bytes = 1 * MIB,
                .catalog_map_bytes = 64 * MIB,
                .checkpoint_ms = 3600000,
                .gc_deletes_ms = 3600000,
                .idle_seal_ms = 3600000,
            },
    };
    snprintf(b->dir, sizeof b->dir, "/tmp/stowd-test-store-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
}

static inline void bench_done(struct bench *b)
{
    bench_close(b);
    assert_int_equal(atomic_load(&b->errors), 0);
    run(b, "rm -rf \"$PWD\"");
}

static inline struct index *make_index(struct bench *b, const char *name)
{
    struct index_create create = {
        .name = slice_str(name),
        .spec = {.codec = CODEC_ZSTD, .level = 1, .block_bytes = 8 * KIB},
        .meta = {SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), SLICE_LIT("{}"), 0},
    };
    struct index *ix = NULL;
    struct err err = {0};
    enum rc rc = store_index_create(b->store, &create, &ix, &err);
    if (rc != RC_OK)
        fail_msg("store_index_create: %s", err.msg);
    return ix;
}

static inline struct index *get_index(struct bench *b, const char *name)
{
    struct index *ix = NULL;
    assert_int_equal(store_index_acquire(b->store, slice_str(name), &ix), RC_OK);
    return ix;
}

/* ---- waiting for what reports through callbacks */

struct wait {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    enum rc rc;
};

#define WAIT_INIT                                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, RC_OK                          \
    }

static inline void wake(struct wait *w, enum rc rc)
{
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    w->rc = rc;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static inline enum rc wait_for(struct wait *w)
{
    pthread_mutex_lock(&w->mutex);
    while (!w->done)
        pthread_cond_wait(&w->changed, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    return w->rc;
}

static inline void write_done(struct write *write, enum rc rc, const struct err *err)
{
    (void)err;
    wake(write->arg, rc);
}

static inline enum rc write_items(struct bench *b, struct write_item *items, size_t count)
{
    struct wait w = WAIT_INIT;
    struct write write = {items, count, write_done, &w};
    store_write(b->store, &write);
    return wait_for(&w);
}

static inline void flush_done(void *arg, enum rc rc, const struct err *err)
{
    (void)err;
    wake(arg, rc);
}

static inline void flush(struct bench *b)
{
    struct wait w = WAIT_INIT;
    store_flush(b->store, NULL, flush_done, &w);
    assert_int_equal(wait_for(&w), RC_OK);
}

static inline void merge(struct bench *b)
{
    struct wait w = WAIT_INIT;
    store_merge(b->store, NULL, flush_done, &w);
    assert_int_equal(wait_for(&w), RC_OK);
}

static inline struct write_item item(struct index *ix, enum write_op op, const char *id,
                                     const char *doc)
{
    return (struct write_item){
        .index = ix,
        .op = op,
        .id = id == NULL ? SLICE_NONE : slice_str(id),
        .source = doc == NULL ? SLICE_NONE : slice_str(doc),
    };
}

static inline struct write_item write_one(struct bench *b, struct write_item it)
{
    assert_int_equal(write_items(b, &it, 1), RC_OK);
    free(it.err);
    it.err = NULL;
    return it;
}

static inline struct write_item put(struct bench *b, struct index *ix, const char *id,
                                    const char *doc)
{
    return write_one(b, item(ix, WRITE_INDEX, id, doc));
}

/* What a get gives: "-" for nothing. */
static inline const char *get(struct bench *b, struct index *ix, const char *id,
                              uint64_t *version_out)
{
    static _Thread_local char text[512];
    struct got got = {0};
    struct err err = {0};
    enum rc rc = store_get(b->store, ix, slice_str(id), GET_ANY, &got, &err);
    if (rc == RC_NOT_FOUND)
        return "-";
    if (rc != RC_OK)
        fail_msg("store_get %s: %s", id, err.msg);
    snprintf(text, sizeof text, "%.*s", (int)got.row.doc.len, (const char *)got.row.doc.ptr);
    if (version_out != NULL)
        *version_out = got.row.version;
    store_got_release(b->store, &got);
    return text;
}

static inline struct index_stats stats(struct index *ix)
{
    struct index_stats s;
    index_stats_get(ix, &s);
    return s;
}

static inline uint64_t docs(struct index *ix)
{
    return stats(ix).docs;
}

/* ---- a model of an index that takes random writes */

#define MODEL_IDS 300

struct model {
    struct index *ix;
    unsigned seed;
    unsigned counter;
    char doc[MODEL_IDS][96]; /* empty: not there */
    uint64_t version[MODEL_IDS];
};

static inline void model_id(size_t i, char *dst, size_t cap)
{
    snprintf(dst, cap, "id-%zu", i);
}

/* One request of random items, some ids several times. */
static inline void model_write(struct bench *b, struct model *m, size_t count)
{
    struct write_item items[64];
    size_t which[64];
    char ids[64][24], texts[64][96];
    assert(count <= 64);
    for (size_t i = 0; i < count; i++) {
        which[i] = (size_t)rand_r(&m->seed) % MODEL_IDS;
        model_id(which[i], ids[i], sizeof ids[i]);
        snprintf(texts[i], sizeof texts[i], "{\"id\":\"%.20s\",\"n\":%u,\"pad\":\"%0*d\"}", ids[i],
                 m->counter++, (int)((unsigned)rand_r(&m->seed) % 40), 0);
        bool delete = rand_r(&m->seed) % 4 == 0;
        items[i] =
            item(m->ix, delete ? WRITE_DELETE : WRITE_INDEX, ids[i], delete ? NULL : texts[i]);
    }
    assert_int_equal(write_items(b, items, count), RC_OK);
    for (size_t i = 0; i < count; i++) {
        size_t k = which[i];
        bool was = m->doc[k][0] != 0;
        if (items[i].op == WRITE_DELETE) {
            assert_int_equal(items[i].result, was ? WRITE_DELETED : WRITE_NOT_FOUND);
            m->doc[k][0] = 0;
        } else {
            assert_int_equal(items[i].result, was ? WRITE_UPDATED : WRITE_CREATED);
            memcpy(m->doc[k], texts[i], sizeof texts[i]);
        }
        if (items[i].result != WRITE_NOT_FOUND) {
            /* A tombstone's version counts until it is gone. */
            if (was || items[i].version_out != 1)
                assert_int_equal(items[i].version_out, m->version[k] + 1);
            m->version[k] = items[i].version_out;
        }
    }
}

struct collect {
    size_t count;
    unsigned char seen[MODEL_IDS];
    const struct model *m;
    uint64_t last_seq;
};

static inline enum rc collect_row(const struct row *row, void *arg)
{
    struct collect *c = arg;
    char id[24];
    assert_true(c->count == 0 || row->seq > c->last_seq);
    c->last_seq = row->seq;
    c->count++;
    snprintf(id, sizeof id, "%.*s", (int)row->id.len, (const char *)row->id.ptr);
    size_t k = (size_t)atoi(id + 3);
    assert_true(k < MODEL_IDS);
    c->seen[k]++;
    assert_int_equal(row->doc.len, strlen(c->m->doc[k]));
    assert_memory_equal(row->doc.ptr, c->m->doc[k], row->doc.len);
    return RC_OK;
}

static inline void snapshot_matches(struct bench *b, struct snapshot *s, const struct model *m,
                                    size_t live)
{
    struct collect c = {.m = m};
    struct err err = {0};
    uint64_t cursor = 0;
    bool done = false;
    while (!done)
        assert_int_equal(store_snapshot_next(b->store, s, &cursor, 7, &done, collect_row, &c, &err),
                         RC_OK);
    assert_int_equal(c.count, live);
    for (size_t k = 0; k < MODEL_IDS; k++)
        assert_int_equal(c.seen[k], m->doc[k][0] != 0);
}

static inline size_t model_live(const struct model *m)
{
    size_t live = 0;
    for (size_t k = 0; k < MODEL_IDS; k++)
        live += m->doc[k][0] != 0;
    return live;
}

struct many {
    struct bench *b;
    const struct model *m;
    size_t called;
};

static inline void many_row(struct get_item *it, enum rc rc, const struct got *got,
                            const struct err *err, void *arg)
{
    struct many *many = arg;
    size_t k = (size_t)(uintptr_t)it->arg;
    (void)err;
    many->called++;
    assert_int_equal(rc, many->m->doc[k][0] != 0 ? RC_OK : RC_NOT_FOUND);
    if (rc == RC_OK) {
        assert_int_equal(got->row.doc.len, strlen(many->m->doc[k]));
        assert_memory_equal(got->row.doc.ptr, many->m->doc[k], got->row.doc.len);
    }
}

/* Gets one by one and many at once, a snapshot and the count all agree with the model. */
static inline void model_check(struct bench *b, const struct model *m)
{
    struct get_item items[MODEL_IDS];
    char ids[MODEL_IDS][24];
    struct many many = {b, m, 0};
    struct snapshot *s = NULL;
    struct err err = {0};
    size_t live = model_live(m);
    for (size_t k = 0; k < MODEL_IDS; k++) {
        uint64_t version = 0;
        model_id(k, ids[k], sizeof ids[k]);
        items[k] = (struct get_item){m->ix, slice_str(ids[k]), (void *)(uintptr_t)k};
        assert_string_equal(get(b, m->ix, ids[k], &version), m->doc[k][0] != 0 ? m->doc[k] : "-");
        if (m->doc[k][0] != 0)
            assert_int_equal(version, m->version[k]);
    }
    store_get_many(b->store, items, MODEL_IDS, many_row, &many);
    assert_int_equal(many.called, MODEL_IDS);
    assert_int_equal(docs(m->ix), live);
    assert_int_equal(store_snapshot_open(b->store, m->ix, &s, &err), RC_OK);
    assert_int_equal(store_snapshot_docs(s), live);
    snapshot_matches(b, s, m, live);
    store_snapshot_close(b->store, s);
}

static inline void model_take_index(struct bench *b, struct model *m, const char *name)
{
    m->ix = get_index(b, name);
}

#endif
