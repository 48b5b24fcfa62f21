/* SPDX-License-Identifier: Apache-2.0 */
/* The engine without HTTP: what was written is what is read, over restarts, crashes, checkpoints,
 * compaction and colliding hashes; conditions and versions; snapshots; many threads at once. */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- single operations */

static void test_operations(void **state)
{
    (void)state;
    static const struct {
        enum write_op op;
        const char *id, *doc;
        enum write_result result;
        uint64_t version;
    } steps[] = {
        {WRITE_INDEX, "a", "{\"n\":1}", WRITE_CREATED, 1},
        {WRITE_INDEX, "a", "{\"n\":2}", WRITE_UPDATED, 2},
        {WRITE_CREATE, "a", "{\"n\":3}", WRITE_EXISTS, 2},
        {WRITE_DELETE, "a", NULL, WRITE_DELETED, 3},
        {WRITE_DELETE, "a", NULL, WRITE_NOT_FOUND, 3},
        {WRITE_CREATE, "a", "{\"n\":4}", WRITE_CREATED, 4},
        {WRITE_DELETE, "b", NULL, WRITE_NOT_FOUND, 1},
        {WRITE_CREATE, "b", "{}", WRITE_CREATED, 1},
    };
    for (int flushed = 0; flushed < 2; flushed++) {
        struct bench b;
        bench_init(&b);
        bench_open(&b);
        struct index *ix = make_index(&b, "i");
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
            struct write_item it = write_one(&b, item(ix, steps[i].op, steps[i].id, steps[i].doc));
            assert_int_equal(it.result, steps[i].result);
            assert_int_equal(it.version_out, steps[i].version);
            if (flushed)
                flush(&b);
        }
        assert_string_equal(get(&b, ix, "a", NULL), "{\"n\":4}");
        assert_string_equal(get(&b, ix, "b", NULL), "{}");
        assert_string_equal(get(&b, ix, "c", NULL), "-");
        assert_int_equal(docs(ix), 2);
        index_release(ix);
        bench_done(&b);
    }
}

static void test_conditions(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    struct write_item first = put(&b, ix, "a", "{}");
    struct write_item it = item(ix, WRITE_INDEX, "a", "{\"n\":1}");
    struct write_extra extra = {.if_seq_no = first.seq, .if_primary_term = first.term};
    it.extra = &extra;
    struct write_item second = write_one(&b, it);
    assert_int_equal(second.result, WRITE_UPDATED);
    assert_int_equal(write_one(&b, it).result, WRITE_CONFLICT); /* the seq has moved on */
    extra.if_seq_no = second.seq;
    extra.if_primary_term = second.term + 1;
    assert_int_equal(write_one(&b, it).result, WRITE_CONFLICT);
    it = item(ix, WRITE_INDEX, "new", "{}");
    it.extra = &extra;
    extra.if_seq_no = 0;
    extra.if_primary_term = 1;
    assert_int_equal(write_one(&b, it).result, WRITE_CONFLICT);

    static const struct {
        enum write_op op;
        enum write_versioning versioning;
        uint64_t version;
        enum write_result result;
    } external[] = {
        {WRITE_INDEX, VERSION_EXTERNAL, 10, WRITE_CREATED},
        {WRITE_INDEX, VERSION_EXTERNAL, 10, WRITE_CONFLICT},
        {WRITE_INDEX, VERSION_EXTERNAL_GTE, 10, WRITE_UPDATED},
        {WRITE_INDEX, VERSION_EXTERNAL, 9, WRITE_CONFLICT},
        {WRITE_DELETE, VERSION_EXTERNAL, 11, WRITE_DELETED},
        {WRITE_INDEX, VERSION_EXTERNAL, 11, WRITE_CONFLICT}, /* the tombstone's counts */
        {WRITE_INDEX, VERSION_EXTERNAL, 12, WRITE_CREATED},
    };
    for (size_t i = 0; i < ARRAY_LEN(external); i++) {
        it = item(ix, external[i].op, "x", "{}");
        extra = (struct write_extra){.versioning = external[i].versioning,
                                     .version = external[i].version,
                                     .if_seq_no = SEQ_NONE};
        it.extra = &extra;
        assert_int_equal(write_one(&b, it).result, external[i].result);
    }
    index_release(ix);
    bench_done(&b);
}

static enum rc count_up(const struct write_item *it, struct slice current, struct buf *out,
                        enum update_action *action_out, struct err *err)
{
    (void)err;
    const char *how = it->extra->update_arg;
    *action_out = current.ptr == NULL        ? UPDATE_MISSING
                  : strcmp(how, "noop") == 0 ? UPDATE_NOOP
                  : strcmp(how, "gone") == 0 ? UPDATE_DELETE
                                             : UPDATE_STORE;
    BUF_PUT_LIT(out, "{\"was\":");
    buf_put_slice(out, current);
    buf_put_byte(out, '}');
    return strcmp(how, "bad") == 0 ? err_set(err, RC_INVALID, 0, "bad") : RC_OK;
}

static void test_updates(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        char how[8];
        enum write_result result;
        const char *after;
    } steps[] = {
        {"a", "store", WRITE_NOT_FOUND, "-"},      {"b", "store", WRITE_UPDATED, "{\"was\":{}}"},
        {"b", "noop", WRITE_NOOP, "{\"was\":{}}"}, {"b", "bad", WRITE_REFUSED, "{\"was\":{}}"},
        {"b", "gone", WRITE_DELETED, "-"},         {"b", "store", WRITE_NOT_FOUND, "-"},
    };
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    put(&b, ix, "b", "{}");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct write_item it = item(ix, WRITE_UPDATE, steps[i].id, NULL);
        struct write_extra extra = {.if_seq_no = SEQ_NONE,
                                    .update = count_up,
                                    .update_arg = (void *)(uintptr_t)steps[i].how};
        it.extra = &extra;
        assert_int_equal(write_one(&b, it).result, steps[i].result);
        assert_string_equal(get(&b, ix, steps[i].id, NULL), steps[i].after);
    }
    index_release(ix);
    bench_done(&b);
}

struct intruder {
    struct bench *b;
    struct index *ix;
    bool came;
};

/* Writes of somebody else while a request is being looked up. */
static enum rc intrude(const struct write_item *it, struct slice current, struct buf *out,
                       enum update_action *action_out, struct err *err)
{
    struct intruder *in = it->extra->update_arg;
    (void)current;
    (void)err;
    if (!in->came) {
        in->came = true;
        put(in->b, in->ix, "new", "{}");
        put(in->b, in->ix, "old", "{}");
        write_one(in->b, item(in->ix, WRITE_DELETE, "gone", NULL));
    }
    *action_out = UPDATE_STORE;
    BUF_PUT_LIT(out, "{}");
    return RC_OK;
}

static void test_writes_between_look_up_and_decision(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    put(&b, ix, "old", "{}");
    put(&b, ix, "gone", "{}");
    put(&b, ix, "updated", "{}");
    struct intruder in = {&b, ix, false};
    struct write_extra extra = {.if_seq_no = SEQ_NONE, .update = intrude, .update_arg = &in};
    struct write_item items[] = {
        item(ix, WRITE_INDEX, "old", "{}"),
        item(ix, WRITE_INDEX, "new", "{}"),
        item(ix, WRITE_CREATE, "gone", "{}"),
        item(ix, WRITE_UPDATE, "updated", NULL),
    };
    items[3].extra = &extra;
    assert_int_equal(write_items(&b, items, ARRAY_LEN(items)), RC_OK);
    static const uint64_t versions[] = {3, 2, 3, 2};
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        assert_int_equal(items[i].result, i == 2 ? WRITE_CREATED : WRITE_UPDATED);
        assert_int_equal(items[i].version_out, versions[i]);
    }
    assert_int_equal(docs(ix), 4);
    index_release(ix);
    bench_done(&b);
}

/* The same id again and again in one request: in order, versions without gaps. */
static void test_one_id_in_one_request(void **state)
{
    (void)state;
    enum { N = 600 };
    struct write_item *items = calloc(N, sizeof *items);
    char(*text)[32] = calloc(N, sizeof *text);
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (size_t i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "{\"n\":%zu}", i);
        items[i] = item(ix, WRITE_INDEX, "same", text[i]);
    }
    assert_int_equal(write_items(&b, items, N), RC_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(items[i].version_out, i + 1);
        assert_int_equal(items[i].seq, i);
    }
    assert_string_equal(get(&b, ix, "same", NULL), text[N - 1]);
    assert_int_equal(docs(ix), 1);
    index_release(ix);
    bench_done(&b);
    free(items);
    free(text);
}

/* Requests of more items than are looked up in one go, over ids that come again in the same block,
 * in one that the request has filled, and in those of the request before. */
static void test_large_requests(void **state)
{
    (void)state;
    enum { N = 20000, IDS = 7000, LEN = 160 };
    struct write_item *items = calloc(N, sizeof *items);
    char(*id)[16] = calloc(IDS, sizeof *id), (*text)[LEN] = calloc(N, sizeof *text);
    struct made {
        uint64_t version;
        const char *doc; /* NULL: deleted, or never there */
    } *model = calloc(IDS, sizeof *model);
    char(*kept)[LEN] = calloc(IDS, sizeof *kept);
    unsigned seed = 3;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (int round = 0; round < 3; round++) {
        size_t of[N];
        for (size_t i = 0; i < N; i++) {
            of[i] = (size_t)rand_r(&seed) % IDS;
            bool gone = rand_r(&seed) % 10 == 0;
            snprintf(id[of[i]], sizeof *id, "id-%zu", of[i]);
            snprintf(text[i], LEN, "{\"round\":%d,\"n\":%zu,\"r\":\"%08x%08x%08x%08x\"}", round, i,
                     (unsigned)rand_r(&seed), (unsigned)rand_r(&seed), (unsigned)rand_r(&seed),
                     (unsigned)rand_r(&seed));
            items[i] =
                item(ix, gone ? WRITE_DELETE : WRITE_INDEX, id[of[i]], gone ? NULL : text[i]);
        }
        assert_int_equal(write_items(&b, items, N), RC_OK);
        size_t live = 0;
        for (size_t i = 0; i < N; i++) {
            struct made *m = &model[of[i]];
            bool was = m->doc != NULL;
            if (items[i].op == WRITE_DELETE) {
                assert_int_equal(items[i].result, was ? WRITE_DELETED : WRITE_NOT_FOUND);
                m->version += was;
                m->doc = NULL;
            } else {
                assert_int_equal(items[i].result, was ? WRITE_UPDATED : WRITE_CREATED);
                assert_int_equal(items[i].version_out, ++m->version);
                m->doc = memcpy(kept[of[i]], text[i], LEN);
            }
        }
        for (size_t k = 0; k < IDS; k++)
            live += model[k].doc != NULL;
        assert_int_equal(docs(ix), live);
        if (round == 0)
            flush(&b);
        for (size_t k = 0; k < IDS; k += 7)
            assert_string_equal(get(&b, ix, id[k], NULL),
                                model[k].doc == NULL ? "-" : model[k].doc);
    }
    index_release(ix);
    bench_done(&b);
    free(items);
    free(id);
    free(text);
    free(model);
    free(kept);
}

/* ---- made ids */

static void made_text(const struct write_item *it, char *dst)
{
    made_id_format(it->nonce, it->seq, dst);
    dst[MADE_ID_LEN] = 0;
}

static void test_made_ids(void **state)
{
    (void)state;
    struct bench b;
    char id[8][MADE_ID_LEN + 1], text[32];
    bench_init(&b);
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (size_t i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "{\"n\":%zu}", i);
        struct write_item it =
            write_one(&b, item(ix, i % 2 == 0 ? WRITE_INDEX : WRITE_CREATE, NULL, text));
        assert_int_equal(it.result, WRITE_CREATED);
        made_text(&it, id[i]);
        assert_string_equal(get(&b, ix, id[i], NULL), text);
    }
    struct write_item it = put(&b, ix, id[1], "{\"by\":\"client\"}");
    assert_int_equal(it.result, WRITE_UPDATED);
    assert_int_equal(it.version_out, 2);
    assert_int_equal(write_one(&b, item(ix, WRITE_CREATE, id[2], "{}")).result, WRITE_EXISTS);
    assert_int_equal(write_one(&b, item(ix, WRITE_DELETE, id[3], NULL)).result, WRITE_DELETED);
    made_id_format(it.nonce, 1000, text);
    text[MADE_ID_LEN] = 0;
    assert_int_equal(write_one(&b, item(ix, WRITE_INDEX, text, "{}")).result, WRITE_REFUSED);
    assert_string_equal(get(&b, ix, text, NULL), "-");
    /* The nonce of nobody here: a client's id like any other. */
    made_id_format(it.nonce + 1, 3, text);
    assert_int_equal(put(&b, ix, text, "{\"foreign\":1}").result, WRITE_CREATED);
    for (int round = 0; round < 4; round++) {
        assert_string_equal(get(&b, ix, id[0], NULL), "{\"n\":0}");
        assert_string_equal(get(&b, ix, id[1], NULL), "{\"by\":\"client\"}");
        assert_string_equal(get(&b, ix, id[2], NULL), "{\"n\":2}");
        assert_string_equal(get(&b, ix, id[3], NULL), "-");
        assert_string_equal(get(&b, ix, text, NULL), "{\"foreign\":1}");
        assert_int_equal(docs(ix), 8);
        if (round == 2)
            merge(&b);
        index_release(ix);
        if (round == 0)
            bench_crash(&b);
        else
            bench_reopen(&b);
        ix = get_index(&b, "i");
    }
    /* A new life has a new nonce, and ids of old ones stay. */
    it = write_one(&b, item(ix, WRITE_INDEX, NULL, "{}"));
    assert_int_equal(it.term, 2);
    assert_string_equal(get(&b, ix, id[7], NULL), "{\"n\":7}");
    index_release(ix);
    bench_done(&b);
}

/* ---- random writes against the model */

/* Steps: w some requests, f flush, m merge, r reopen, c crash. */
static void model_run(const char *steps, unsigned hash_bits, uint64_t gc_ms, uint64_t checkpoint_ms)
{
    struct bench b;
    struct model *m = calloc(1, sizeof *m);
    bench_init(&b);
    b.o.test_hash_bits = hash_bits;
    b.o.gc_deletes_ms = gc_ms;
    b.o.checkpoint_ms = checkpoint_ms;
    bench_open(&b);
    m->ix = make_index(&b, "i");
    m->seed = 7;
    for (const char *step = steps; *step != 0; step++) {
        if (*step == 'w')
            for (size_t i = 0; i < 20; i++)
                model_write(&b, m, 1 + (size_t)rand_r(&m->seed) % 64);
        if (*step == 'f')
            flush(&b);
        if (*step == 'm')
            merge(&b);
        if (*step == 'r' || *step == 'c') {
            index_release(m->ix);
            if (*step == 'r')
                bench_reopen(&b);
            else
                bench_crash(&b);
            model_take_index(&b, m, "i");
        }
        model_check(&b, m);
    }
    index_release(m->ix);
    bench_done(&b);
    free(m);
}

static void test_restarts(void **state)
{
    (void)state;
    model_run("wrwfrwwr", 0, 3600000, 3600000);
}

static void test_crashes(void **state)
{
    (void)state;
    model_run("wcwfcwcfwccwmcwc", 0, 3600000, 3600000);
}

static void test_collisions(void **state)
{
    (void)state;
    model_run("wfwcwmwrw", 5, 3600000, 3600000);
    model_run("wfwcwmmwmmr", 6, 0, 1);
}

static void test_merges(void **state)
{
    (void)state;
    model_run("wmwmrwfwfwmmcwmr", 0, 0, 3600000);
}

static void test_checkpoints_all_the_time(void **state)
{
    (void)state;
    model_run("wwwwcwwmwwcwwr", 0, 0, 1);
}

static void test_merge_leaves_live_rows_only(void **state)
{
    (void)state;
    struct bench b;
    struct model *m = calloc(1, sizeof *m);
    struct index_stats s = {0};
    bench_init(&b);
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    m->ix = make_index(&b, "i");
    m->seed = 3;
    for (size_t i = 0; i < 40; i++)
        model_write(&b, m, 64);
    for (int i = 0; i < 5; i++) {
        merge(&b);
        index_stats_get(m->ix, &s);
    }
    assert_int_equal(s.deleted, 0);
    assert_int_equal(s.docs, model_live(m));
    assert_true(s.segments <= 2);
    model_check(&b, m);
    index_release(m->ix);
    bench_reopen(&b);
    model_take_index(&b, m, "i");
    model_check(&b, m);
    index_release(m->ix);
    bench_done(&b);
    free(m);
}

static enum rc saved_number(struct slice key, struct slice value, void *arg)
{
    struct index *ix = arg, *saved = NULL;
    uint64_t packed;
    enum rc rc = index_load(ix->store, key, value, &saved, &packed, NULL);
    assert_int_equal(rc, RC_OK);
    assert_int_equal(saved->next_segment, ix->next_segment);
    index_release(saved);
    return RC_OK;
}

/* With the blocks that compaction has put into a new segment goes the number of the next one (G2 of
 * segment.h). */
static void test_merge_saves_the_segment_number(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(write_one(&b, item(ix, WRITE_CREATE, NULL, "{}")).result, WRITE_CREATED);
        flush(&b);
    }
    index_release(ix);
    bench_reopen(&b); /* what is written now goes to another segment */
    ix = get_index(&b, "i");
    uint32_t next = ix->next_segment;
    merge(&b);
    assert_int_equal(ix->next_segment, next + 1);
    assert_int_equal(catalog_each(b.store->catalog, KIND_INDEX, saved_number, ix, NULL), RC_OK);
    index_release(ix);
    bench_done(&b);
}

/* ---- snapshots */

static void test_snapshot_outlives_deletes_and_merges(void **state)
{
    (void)state;
    struct bench b;
    struct model *m = calloc(1, sizeof *m), *then = calloc(1, sizeof *then);
    struct snapshot *s[2] = {NULL, NULL};
    struct err err = {0};
    struct index_stats st;
    bench_init(&b);
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    m->ix = make_index(&b, "i");
    m->seed = 5;
    for (size_t i = 0; i < 20; i++)
        model_write(&b, m, 64);
    *then = *m;
    assert_int_equal(store_snapshot_open(b.store, m->ix, &s[0], &err), RC_OK);
    flush(&b);
    assert_int_equal(store_snapshot_open(b.store, m->ix, &s[1], &err), RC_OK);
    for (size_t k = 0; k < MODEL_IDS; k++) {
        char id[24];
        model_id(k, id, sizeof id);
        write_one(&b, item(m->ix, WRITE_DELETE, id, NULL));
        m->doc[k][0] = 0;
    }
    for (int i = 0; i < 3; i++)
        merge(&b);
    model_check(&b, m);
    snapshot_matches(&b, s[0], then, model_live(then));
    store_snapshot_close(b.store, s[0]);
    merge(&b);
    snapshot_matches(&b, s[1], then, model_live(then));
    store_snapshot_close(b.store, s[1]);
    for (int i = 0; i < 5; i++)
        merge(&b);
    index_stats_get(m->ix, &st);
    assert_int_equal(st.deleted, 0);
    model_check(&b, m);
    index_release(m->ix);
    bench_done(&b);
    free(m);
    free(then);
}

/* ---- indices */

static void test_delete_and_make_again(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    bench_init(&b);
    bench_open(&b);
    for (int round = 0; round < 6; round++) {
        struct index *none = NULL, *ix = make_index(&b, "i");
        assert_string_equal(get(&b, ix, "a", NULL), "-");
        assert_int_equal(put(&b, ix, "a", "{}").result, WRITE_CREATED);
        if (round % 2 == 0)
            flush(&b);
        if (round == 3) {
            index_release(ix);
            bench_crash(&b);
            ix = get_index(&b, "i");
        }
        assert_string_equal(get(&b, ix, "a", NULL), "{}");
        struct index_create twice = {.name = SLICE_LIT("i")};
        err = (struct err){0};
        assert_int_equal(store_index_create(b.store, &twice, &none, &err), RC_EXISTS);
        err = (struct err){0};
        assert_int_equal(store_index_delete(b.store, ix, &err), RC_OK);
        assert_int_equal(store_index_delete(b.store, ix, &err), RC_NOT_FOUND);
        assert_int_equal(store_index_acquire(b.store, SLICE_LIT("i"), &none), RC_NOT_FOUND);
        index_release(ix);
        if (round == 4)
            bench_crash(&b);
    }
    /* Nothing of them stays. */
    int left = 1;
    for (int i = 0; i < 100 && left != 0; i++) {
        usleep(20000);
        left = shell(&b, "test -z \"$(ls indices)\"");
    }
    assert_int_equal(left, 0);
    bench_done(&b);
}

static void test_metadata(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    struct buf value = {0};
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    struct index_meta meta = {SLICE_LIT("{\"a\":\"1\"}"), SLICE_LIT("{}"), SLICE_LIT("{}"),
                              SLICE_LIT("{}"), 0};
    assert_int_equal(store_index_set_meta(b.store, ix, &meta, 1, &err), RC_OK);
    assert_int_equal(store_index_set_meta(b.store, ix, &meta, 1, &err), RC_CONFLICT);
    assert_int_equal(store_meta_put(b.store, 't', SLICE_LIT("x"), SLICE_LIT("{\"t\":1}"), &err),
                     RC_OK);
    run(&b, "grep -q '\"t\":{\"x\":{\"t\":1}}' metadata.json");
    run(&b, "grep -q '\"settings\":{\"a\":\"1\"}' metadata.json");
    index_release(ix);
    bench_crash(&b);
    ix = get_index(&b, "i");
    const struct index_meta *now = index_meta_acquire(ix);
    assert_int_equal(now->revision, 2);
    assert_true(slice_is(now->settings, "{\"a\":\"1\"}"));
    index_meta_release(now);
    assert_int_equal(store_meta_get(b.store, 't', SLICE_LIT("x"), &value, &err), RC_OK);
    assert_true(slice_is(buf_slice(&value), "{\"t\":1}"));
    assert_int_equal(store_meta_delete(b.store, 't', SLICE_LIT("x"), &err), RC_OK);
    assert_int_equal(store_meta_get(b.store, 't', SLICE_LIT("x"), &value, &err), RC_NOT_FOUND);
    run(&b, "! grep -q '\"t\":{\"x\"' metadata.json");
    buf_done(&value);
    index_release(ix);
    bench_done(&b);
}

/* ---- the log's bounds */

static void test_small_log(void **state)
{
    (void)state;
    enum { DOC = 60000, COUNT = 150 };
    struct bench b;
    char *doc = malloc(DOC + 1), id[16];
    bench_init(&b);
    b.o.wal_bytes = 1 * MIB;
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    memset(doc, ' ', DOC);
    doc[0] = '{';
    doc[DOC] = 0;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(id, sizeof id, "%zu", i);
        for (size_t k = 1; k < DOC - 1; k++)
            doc[k] = (char)('a' + (i * 31 + k * k) % 23);
        doc[DOC - 1] = '}';
        struct write_item it = item(ix, WRITE_INDEX, id, doc);
        while (write_items(&b, &it, 1) == RC_BUSY) { /* how often depends on the disk */
            usleep(1000);
            it = item(ix, WRITE_INDEX, id, doc);
        }
        assert_int_equal(it.result, WRITE_CREATED);
    }
    /* One that can never fit is told so, and nothing of it stays. */
    struct write_item *items = calloc(20, sizeof *items);
    for (size_t i = 0; i < 20; i++)
        items[i] = item(ix, WRITE_INDEX, "big", doc);
    assert_int_equal(write_items(&b, items, 20), RC_TOO_LARGE);
    free(items);
    index_release(ix);
    bench_crash(&b);
    ix = get_index(&b, "i");
    assert_int_equal(docs(ix), COUNT);
    assert_string_equal(get(&b, ix, "big", NULL), "-");
    index_release(ix);
    bench_done(&b);
    free(doc);
}

/* ---- SIGKILL */

static void child_writes(const char *dir, int pipe_out)
{
    struct bench b;
    bench_init(&b);
    rmdir(b.dir);
    memcpy(b.dir, dir, sizeof b.dir);
    b.o.checkpoint_ms = 5;
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    struct index *ix = NULL;
    if (store_index_acquire(b.store, SLICE_LIT("i"), &ix) != RC_OK)
        ix = make_index(&b, "i");
    uint64_t from = 0;
    while (strcmp(get(&b, ix, "next", NULL), "-") != 0 && from == 0)
        from = strtoull(get(&b, ix, "next", NULL) + 5, NULL, 10);
    for (uint64_t n = from + 1;; n++) {
        char text[32], id[16];
        struct write_item items[2];
        snprintf(text, sizeof text, "{\"n\":%llu}", (unsigned long long)n);
        snprintf(id, sizeof id, "%llu", (unsigned long long)(n % 50));
        items[0] = item(ix, WRITE_INDEX, id, text);
        items[1] = item(ix, WRITE_INDEX, "next", text);
        if (write_items(&b, items, 2) == RC_OK && write(pipe_out, &n, sizeof n) != sizeof n)
            _exit(3);
        if (n % 97 == 0)
            merge(&b);
    }
}

/* Both items of an acknowledged request are there; of the one in flight both or none. */
static void test_kill(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    for (int round = 0; round < 4; round++) {
        int fd[2];
        uint64_t n = 0, acknowledged = 0, next;
        assert_int_equal(pipe(fd), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(fd[0]);
            child_writes(b.dir, fd[1]);
            _exit(0);
        }
        close(fd[1]);
        for (int i = 0; i < 40 + 50 * round && read(fd[0], &n, sizeof n) == sizeof n; i++)
            acknowledged = n;
        assert_true(acknowledged != 0);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (read(fd[0], &n, sizeof n) == sizeof n)
            acknowledged = n;
        close(fd[0]);
        bench_open(&b);
        struct index *ix = get_index(&b, "i");
        next = strtoull(get(&b, ix, "next", NULL) + 5, NULL, 10);
        assert_true(next == acknowledged || next == acknowledged + 1);
        for (uint64_t k = next > 49 ? next - 49 : 1; k <= next; k++) {
            char id[16], text[32];
            snprintf(id, sizeof id, "%llu", (unsigned long long)(k % 50));
            snprintf(text, sizeof text, "{\"n\":%llu}", (unsigned long long)k);
            assert_string_equal(get(&b, ix, id, NULL), text);
        }
        index_release(ix);
        bench_close(&b);
    }
    bench_open(&b);
    bench_done(&b);
}

/* ---- many threads */

/* cmocka's assertions are for the test's own thread. */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { THREADS = 4, OWN_IDS = 40, SHARED_IDS = 5, ROUNDS = 120 };

struct crowd {
    struct bench *b;
    struct index *ix;
    atomic_uint writers;
    _Atomic uint64_t shared_writes[SHARED_IDS];
    struct {
        unsigned number;
        uint64_t version[OWN_IDS];
        char doc[OWN_IDS][64];
    } writer[THREADS];
};

struct crowd_arg {
    struct crowd *c;
    size_t i;
};

static void crowd_round(struct crowd *c, size_t w, unsigned round, unsigned *seed)
{
    struct write_item items[12];
    char ids[12][24], texts[12][64];
    size_t own[12];
    for (size_t i = 0; i < 12; i++) {
        bool shared = i % 6 == 5;
        own[i] = shared ? SIZE_MAX : (size_t)rand_r(seed) % OWN_IDS;
        size_t k = shared ? (size_t)rand_r(seed) % SHARED_IDS : own[i];
        if (shared)
            snprintf(ids[i], sizeof ids[i], "shared-%zu", k);
        else
            snprintf(ids[i], sizeof ids[i], "w%zu-%zu", w, k);
        snprintf(texts[i], sizeof texts[i], "{\"w\":%zu,\"round\":%u,\"i\":%zu}", w, round, i);
        items[i] = item(c->ix, WRITE_INDEX, ids[i], texts[i]);
        if (shared)
            atomic_fetch_add(&c->shared_writes[k], 1);
    }
    CHECK(write_items(c->b, items, 12) == RC_OK);
    for (size_t i = 0; i < 12; i++) {
        if (own[i] == SIZE_MAX)
            continue;
        size_t k = own[i];
        CHECK(items[i].version_out == ++c->writer[w].version[k]);
        memcpy(c->writer[w].doc[k], texts[i], sizeof texts[i]);
    }
    size_t k = (size_t)rand_r(seed) % OWN_IDS;
    snprintf(ids[0], sizeof ids[0], "w%zu-%zu", w, k);
    CHECK(strcmp(get(c->b, c->ix, ids[0], NULL),
                 c->writer[w].version[k] == 0 ? "-" : c->writer[w].doc[k]) == 0);
}

static void *crowd_write(void *arg)
{
    struct crowd_arg *a = arg;
    unsigned seed = (unsigned)a->i + 1;
    for (unsigned round = 0; round < ROUNDS; round++)
        crowd_round(a->c, a->i, round, &seed);
    atomic_fetch_sub(&a->c->writers, 1);
    return NULL;
}

struct crowd_seen {
    size_t count;
    uint64_t last;
};

static enum rc crowd_row(const struct row *row, void *arg)
{
    struct crowd_seen *s = arg;
    CHECK(s->count == 0 || row->seq > s->last);
    s->last = row->seq;
    s->count++;
    return RC_OK;
}

/* Each snapshot yields as many documents as it says it has. */
static void *crowd_read(void *arg)
{
    struct crowd *c = arg;
    while (atomic_load(&c->writers) != 0) {
        struct snapshot *s = NULL;
        struct crowd_seen seen = {0};
        struct err err = {0};
        uint64_t cursor = 0;
        bool done = false;
        CHECK(store_snapshot_open(c->b->store, c->ix, &s, &err) == RC_OK);
        while (!done)
            CHECK(store_snapshot_next(c->b->store, s, &cursor, 10, &done, crowd_row, &seen, &err) ==
                  RC_OK);
        CHECK(seen.count == store_snapshot_docs(s));
        store_snapshot_close(c->b->store, s);
    }
    return NULL;
}

static void *crowd_merge(void *arg)
{
    struct crowd *c = arg;
    while (atomic_load(&c->writers) != 0)
        merge(c->b);
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    struct bench b;
    struct crowd *c = calloc(1, sizeof *c);
    struct crowd_arg args[THREADS];
    pthread_t thread[THREADS + 2];
    bench_init(&b);
    b.o.checkpoint_ms = 1;
    b.o.gc_deletes_ms = 0;
    bench_open(&b);
    c->b = &b;
    c->ix = make_index(&b, "i");
    atomic_store(&c->writers, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        args[i] = (struct crowd_arg){c, i};
        assert_int_equal(pthread_create(&thread[i], NULL, crowd_write, &args[i]), 0);
    }
    assert_int_equal(pthread_create(&thread[THREADS], NULL, crowd_read, c), 0);
    assert_int_equal(pthread_create(&thread[THREADS + 1], NULL, crowd_merge, c), 0);
    for (size_t i = 0; i < THREADS + 2; i++)
        pthread_join(thread[i], NULL);
    for (int round = 0; round < 3; round++) {
        size_t live = 0;
        for (size_t w = 0; w < THREADS; w++)
            for (size_t k = 0; k < OWN_IDS; k++) {
                char id[24];
                snprintf(id, sizeof id, "w%zu-%zu", w, k);
                live += c->writer[w].version[k] != 0;
                assert_string_equal(get(&b, c->ix, id, NULL),
                                    c->writer[w].version[k] == 0 ? "-" : c->writer[w].doc[k]);
            }
        for (size_t k = 0; k < SHARED_IDS; k++) {
            char id[24];
            uint64_t version = 0;
            snprintf(id, sizeof id, "shared-%zu", k);
            (void)get(&b, c->ix, id, &version);
            assert_int_equal(version, atomic_load(&c->shared_writes[k]));
            live += version != 0;
        }
        assert_int_equal(docs(c->ix), live);
        index_release(c->ix);
        if (round == 0)
            bench_crash(&b);
        else
            bench_reopen(&b);
        c->ix = get_index(&b, "i");
    }
    index_release(c->ix);
    bench_done(&b);
    free(c);
}

/* ---- life */

static void test_lock_and_lost_catalog(void **state)
{
    (void)state;
    struct bench b;
    struct store *second = NULL;
    struct err err = {0};
    bench_init(&b);
    bench_open(&b);
    assert_int_equal(store_open(&b.o, &second, &err), RC_BUSY);
    index_release(make_index(&b, "i"));
    bench_close(&b);
    /* Segments without a catalog are not an empty data directory. */
    run(&b, "mv catalog aside");
    assert_int_equal(work_start(1, &b.work, &err), RC_OK);
    b.o.work = b.work;
    err = (struct err){0};
    assert_int_equal(store_open(&b.o, &second, &err), RC_CORRUPT);
    assert_non_null(strstr(err.msg, "stowctl rebuild"));
    work_stop(b.work);
    run(&b, "rm -r catalog && mv aside catalog");
    bench_open(&b);
    index_release(get_index(&b, "i"));
    bench_done(&b);
}

/* A catalog that is mostly free pages is smaller after the next start, and says the same. */
static void test_catalog_shrinks(void **state)
{
    (void)state;
    struct bench b;
    struct store_stats before, after;
    struct buf got = {0}, large = {0};
    bench_init(&b);
    bench_open(&b);
    for (size_t i = 0; i < 3 * MIB; i++)
        buf_put_byte(&large, (uint8_t)(i * 31));
    index_release(make_index(&b, "kept"));
    assert_int_equal(store_meta_put(b.store, 't', slice_str("kept"), slice_str("{\"a\":1}"), NULL),
                     RC_OK);
    assert_int_equal(store_meta_put(b.store, 't', slice_str("large"), buf_slice(&large), NULL),
                     RC_OK);
    assert_int_equal(store_meta_delete(b.store, 't', slice_str("large"), NULL), RC_OK);
    store_stats_get(b.store, &before);
    bench_reopen(&b);
    store_stats_get(b.store, &after);
    assert_in_range(after.catalog_file, 1, before.catalog_file / 4);
    assert_int_equal(store_meta_get(b.store, 't', slice_str("kept"), &got, NULL), RC_OK);
    assert_true(slice_is(buf_slice(&got), "{\"a\":1}"));
    index_release(get_index(&b, "kept"));
    assert_int_not_equal(shell(&b, "test -e catalog.new"), 0);
    bench_done(&b);
    buf_done(&got);
    buf_done(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_one_id_in_one_request),
        cmocka_unit_test(test_large_requests),
        cmocka_unit_test(test_writes_between_look_up_and_decision),
        cmocka_unit_test(test_made_ids),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_checkpoints_all_the_time),
        cmocka_unit_test(test_merge_leaves_live_rows_only),
        cmocka_unit_test(test_merge_saves_the_segment_number),
        cmocka_unit_test(test_snapshot_outlives_deletes_and_merges),
        cmocka_unit_test(test_delete_and_make_again),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_small_log),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_lock_and_lost_catalog),
        cmocka_unit_test(test_catalog_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
