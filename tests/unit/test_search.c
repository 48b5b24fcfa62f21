/* SPDX-License-Identifier: Apache-2.0 */
/* api/query.c, api/search_spec.c, api/scan.c, api/contexts.c: first what needs no store, then scans
 * against a real one in a directory of its own. */
#include "api/search.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const struct {
    const char *query, *ids; /* NULL: everything; "" : nothing */
} good[] = {
    {"{\"match_all\":{}}", NULL},
    {"{\"match_all\":{\"boost\":1.5}}", NULL},
    {"{\"match_none\":{}}", ""},
    {"{\"ids\":{\"values\":[\"b\",\"a\",\"b\"]}}", "a b"},
    {"{\"ids\":{\"values\":\"a\",\"boost\":1}}", "a"},
    {"{\"ids\":{\"values\":[]}}", ""},
    {"{\"ids\":{\"values\":[1,true,\"\\u0062\"]}}", "1 b true"},
    {"{\"term\":{\"_id\":\"x\"}}", "x"},
    {"{\"term\":{\"_id\":{\"value\":\"x\",\"boost\":2}}}", "x"},
    {"{\"term\":{\"_id\":7}}", "7"},
    {"{\"terms\":{\"boost\":1,\"_id\":[\"x\",\"y\"]}}", "x y"},
    {"{\"\\u0069ds\":{\"values\":[\"x\"]}}", "x"},
    {"{\"constant_score\":{\"filter\":{\"term\":{\"_id\":\"x\"}},\"boost\":3}}", "x"},
    {"{\"bool\":{}}", NULL},
    {"{\"bool\":{\"must\":{\"match_all\":{}},\"should\":[],\"must_not\":null}}", NULL},
    {"{\"bool\":{\"filter\":[{\"ids\":{\"values\":[\"a\",\"b\",\"c\"]}},"
     "{\"terms\":{\"_id\":[\"c\",\"d\",\"b\"]}}]}}",
     "b c"},
    {"{\"bool\":{\"must\":[{\"term\":{\"_id\":\"a\"}}],\"filter\":{\"match_none\":{}}}}", ""},
};

static const struct {
    const char *query, *type, *text;
} bad[] = {
    {"{\"match\":{\"a\":1}}", "parsing_exception", "no query engine: [match]"},
    {"{\"term\":{\"user\":1}}", "parsing_exception", "[term] on [user]"},
    {"{\"term\":{}}", "parsing_exception", "exactly one field"},
    {"{\"terms\":{\"_id\":\"x\"}}", "parsing_exception", "array of ids"},
    {"{\"term\":{\"_id\":[\"x\"]}}", "parsing_exception", "an id must be"},
    {"{\"term\":{\"_id\":{\"value\":\"x\",\"case_insensitive\":true}}}", "parsing_exception",
     "[case_insensitive]"},
    {"{\"ids\":{}}", "parsing_exception", "[values]"},
    {"{\"ids\":{\"values\":[null]}}", "parsing_exception", "an id must be"},
    {"{\"ids\":{\"value\":[]}}", "parsing_exception", "unknown field [value]"},
    {"{\"bool\":{\"should\":[{\"match_all\":{}}]}}", "parsing_exception", "[bool.should]"},
    {"{\"bool\":{\"filter\":[1]}}", "parsing_exception", "start_object"},
    {"{\"constant_score\":{}}", "parsing_exception", "'filter'"},
    {"{}", "parsing_exception", "empty clause"},
    {"{\"match_all\":{},\"ids\":{}}", "parsing_exception", "expected [END_OBJECT]"},
    {"{\"match_all\":1}", "parsing_exception", "no start_object"},
    {"[]", "parsing_exception", "start_object"},
};

static void queries(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct query q;
        struct err err = {0};
        struct buf ids = {0};
        const char *type = NULL;
        assert_int_equal(query_read(json_root(slice_str(good[i].query)), &q, &type, &err), RC_OK);
        assert_int_equal(q.all, good[i].ids == NULL);
        for (size_t k = 0; k < q.count; k++) {
            if (k != 0)
                buf_put_byte(&ids, ' ');
            buf_put_slice(&ids, q.id[k]);
        }
        assert_true(slice_is(buf_slice(&ids), good[i].ids == NULL ? "" : good[i].ids));
        buf_done(&ids);
        query_done(&q);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct query q;
        struct err err = {0};
        const char *type = NULL;
        assert_int_equal(query_read(json_root(slice_str(bad[i].query)), &q, &type, &err),
                         RC_INVALID);
        assert_string_equal(type, bad[i].type);
        assert_non_null(strstr(err.msg, bad[i].text));
    }
}

static void queries_are_bounded(void **state)
{
    struct buf text = {0};
    struct query q;
    struct err err = {0};
    const char *type;
    (void)state;
    for (int i = 0; i < 100; i++)
        BUF_PUT_LIT(&text, "{\"bool\":{\"filter\":");
    BUF_PUT_LIT(&text, "{\"match_all\":{}}");
    for (int i = 0; i < 100; i++)
        BUF_PUT_LIT(&text, "}}");
    assert_int_equal(query_read(json_root(buf_slice(&text)), &q, &type, &err), RC_INVALID);
    text.len = 0;
    BUF_PUT_LIT(&text, "{\"ids\":{\"values\":[0");
    for (unsigned i = 1; i <= QUERY_IDS_MAX; i++)
        buf_printf(&text, ",%u", i);
    BUF_PUT_LIT(&text, "]}}");
    err = (struct err){0};
    assert_int_equal(query_read(json_root(buf_slice(&text)), &q, &type, &err), RC_INVALID);
    assert_non_null(strstr(err.msg, "more ids"));
    buf_done(&text);
}

static void specs(void **state)
{
    static const struct {
        const char *body, *text; /* NULL: fine */
    } cases[] = {
        {"{}", NULL},
        {"{\"size\":5,\"from\":\"2\",\"sort\":\"_doc\",\"aggs\":{},\"timeout\":\"1s\"}", NULL},
        {"{\"sort\":[\"_score\",{\"_seq_no\":{\"order\":\"desc\"}}],\"search_after\":[1,2]}", NULL},
        {"{\"track_total_hits\":7,\"version\":true,\"explain\":false}", NULL},
        {"{\"query\":null,\"_source\":{\"includes\":[\"a\"]},\"stored_fields\":\"_none_\"}", NULL},
        {"{\"pit\":{\"id\":\"x\\u0041\",\"keep_alive\":\"1m\"}}", NULL},
        {"{\"aggs\":{\"a\":1}}", "[aggs]"},
        {"{\"sort\":\"name\"}", "[name]"},
        {"{\"sort\":[1]}", "[sort]"},
        {"{\"sort\":{\"_doc\":\"up\"}}", "[up]"},
        {"{\"size\":-1}", "[size]"},
        {"{\"search_after\":1}", "[search_after]"},
        {"{\"track_total_hits\":0}", "[track_total_hits]"},
        {"{\"version\":1}", "[version]"},
        {"{\"pit\":\"x\"}", "[pit]"},
        {"{\"_source\":1}", "[_source]"},
    };
    struct search_spec spec;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        const char *type = NULL;
        search_spec_init(&spec);
        enum rc rc = search_spec_read(&spec, json_root(slice_str(cases[i].body)), &type, &err);
        assert_int_equal(rc, cases[i].text == NULL ? RC_OK : RC_INVALID);
        if (cases[i].text != NULL) {
            assert_non_null(type);
            assert_non_null(strstr(err.msg, cases[i].text));
        }
        if (i == 1)
            assert_true(spec.size == 5 && spec.from == 2 && spec.sort_count == 1 && !spec.desc);
        if (i == 2)
            assert_true(search_sort_lead(&spec) == 1 && spec.desc && spec.has_after);
        if (i == 4)
            assert_true(spec.no_fields && spec.source.filter != NULL && spec.query.all);
        if (i == 5)
            assert_true(slice_is(spec.pit, "xA") && slice_is(spec.pit_keep_alive, "1m"));
        search_spec_done(&spec);
    }
}

static void times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
        bool good;
    } cases[] = {
        {"1m", 60000, true},   {"30s", 30000, true}, {"500ms", 500, true}, {"1d", 86400000, true},
        {"2h", 7200000, true}, {"0", 0, true},       {"-1", 0, true},      {"1500micros", 1, true},
        {"5", 0, false},       {"m", 0, false},      {"1 m", 0, false},    {"-5m", 0, false},
        {"1.5m", 0, false},    {"", 0, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t ms = 99;
        assert_int_equal(search_time(slice_str(cases[i].text), &ms), cases[i].good);
        assert_true(ms == (cases[i].good ? cases[i].ms : 99));
    }
}

/* ---- a store */

static char dir[] = "/tmp/stow_search_XXXXXX";
static struct work *work;
static struct store *store;
static struct index *made[3];

static void fatal(void *arg, const char *text)
{
    (void)arg;
    print_error("%s\n", text);
    abort();
}

struct job_of_one {
    struct task task;
    struct write write;
    struct write_item item;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
};

static void put_done(struct write *write, enum rc rc, const struct err *err)
{
    struct job_of_one *job = write->arg;
    (void)err;
    assert_int_equal(rc, RC_OK);
    pthread_mutex_lock(&job->lock);
    job->done = true;
    pthread_cond_signal(&job->cond);
    pthread_mutex_unlock(&job->lock);
}

static void put_run(struct task *task)
{
    struct job_of_one *job = (struct job_of_one *)task;
    store_write(store, &job->write);
}

static void put(struct index *index, enum write_op op, const char *id, const char *doc)
{
    struct job_of_one job = {.task = {.run = put_run}, .done = false};
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.cond, NULL);
    job.item = (struct write_item){
        .index = index, .op = op, .id = slice_str(id), .source = slice_str(doc)};
    job.write = (struct write){&job.item, 1, put_done, &job};
    work_submit(work, WORK_WRITE, &job.task);
    pthread_mutex_lock(&job.lock);
    while (!job.done)
        pthread_cond_wait(&job.cond, &job.lock);
    pthread_mutex_unlock(&job.lock);
    pthread_cond_destroy(&job.cond);
    pthread_mutex_destroy(&job.lock);
}

static int start(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct err err = {0};
    struct store_options options = {
        .wal_bytes = 8 << 20,
        .segment_bytes = 8 << 20,
        .cache_bytes = 1 << 20,
        .catalog_map_bytes = 64 << 20,
        .checkpoint_ms = 1000,
        .gc_deletes_ms = 1000,
        .idle_seal_ms = 1000,
        .fatal = fatal,
    };
    (void)state;
    if (mkdtemp(dir) == NULL || work_start(2, &work, &err) != RC_OK)
        return -1;
    options.path_data = dir;
    options.work = work;
    if (store_open(&options, &store, &err) != RC_OK) {
        print_error("%s\n", err.msg);
        return -1;
    }
    for (size_t i = 0; i < 3; i++) {
        struct index_create create = {.name = slice_str(names[i]),
                                      .spec = {.codec = CODEC_NONE, .block_bytes = 64 << 10},
                                      .meta = {.settings = SLICE_LIT("{}"),
                                               .mappings = SLICE_LIT("{}"),
                                               .aliases = SLICE_LIT("{}"),
                                               .extra = SLICE_LIT("{}")}};
        if (store_index_create(store, &create, &made[i], &err) != RC_OK) {
            print_error("%s\n", err.msg);
            return -1;
        }
    }
    /* a: 5 rows, of which 1 and 3 live; b stays empty; c: 3 rows */
    put(made[0], WRITE_INDEX, "x", "{\"n\":0}");
    put(made[0], WRITE_INDEX, "y", "{\"n\":1}");
    put(made[0], WRITE_INDEX, "x", "{\"n\":2}");
    put(made[0], WRITE_INDEX, "z", "{\"n\":3}");
    put(made[0], WRITE_DELETE, "x", "");
    put(made[2], WRITE_INDEX, "", "{\"n\":4}");
    put(made[2], WRITE_INDEX, "y", "{\"n\":5}");
    put(made[2], WRITE_INDEX, "w", "{\"n\":6}");
    return 0;
}

static int stop(void **state)
{
    char command[64];
    (void)state;
    for (size_t i = 0; i < 3; i++)
        index_release(made[i]);
    store_close(store);
    work_stop(work);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

struct seen {
    struct buf text;
    size_t stop_after;
    size_t count;
};

static enum rc see(const struct scan_doc *doc, void *arg)
{
    struct seen *seen = arg;
    if (seen->count == seen->stop_after)
        return RC_AGAIN;
    seen->count++;
    buf_printf(&seen->text, "%llu:", (unsigned long long)doc->place);
    buf_put(&seen->text, doc->row->doc.ptr + 5, doc->row->doc.len - 6);
    buf_put_byte(&seen->text, ' ');
    assert_true(doc->row->kind != ROW_MADE || doc->id.len == MADE_ID_LEN);
    return RC_OK;
}

static void assert_scan(struct scan *scan, uint64_t from, size_t max, size_t stop_after,
                        const char *want, bool want_done)
{
    struct seen seen = {.stop_after = stop_after};
    struct err err = {0};
    bool done = false;
    assert_int_equal(scan_next(scan, &from, max, &done, see, &seen, &err), RC_OK);
    assert_true(slice_is(buf_slice(&seen.text), want));
    assert_int_equal(done, want_done);
    buf_done(&seen.text);
}

static void scans(void **state)
{
    struct names_list list = {made, 3};
    struct query all = {.all = true};
    struct scan scan;
    struct err err = {0};
    (void)state;
    assert_int_equal(scan_open(store, &list, &all, &scan, &err), RC_OK);
    assert_true(scan.total == 5 && scan.end == 8);
    put(made[0], WRITE_INDEX, "y", "{\"n\":7}"); /* not seen */
    put(made[1], WRITE_INDEX, "q", "{\"n\":8}");
    assert_scan(&scan, 0, 100, SIZE_MAX, "1:1 3:3 5:4 6:5 7:6 ", true);
    assert_scan(&scan, 0, 3, SIZE_MAX, "1:1 3:3 5:4 ", false);
    assert_scan(&scan, 2, 100, 2, "3:3 5:4 ", false);
    assert_scan(&scan, 7, 100, SIZE_MAX, "7:6 ", true);
    assert_scan(&scan, 8, 100, SIZE_MAX, "", true);
    assert_scan(&scan, UINT64_MAX, 100, SIZE_MAX, "", true);
    uint64_t last[4];
    size_t n = 0;
    assert_int_equal(scan_last(&scan, UINT64_MAX, 4, last, &n, &err), RC_OK);
    assert_true(n == 4 && last[0] == 7 && last[1] == 6 && last[2] == 5 && last[3] == 3);
    assert_int_equal(scan_last(&scan, 3, 4, last, &n, &err), RC_OK);
    assert_true(n == 1 && last[0] == 1);
    scan_close(&scan);
    put(made[0], WRITE_INDEX, "y", "{\"n\":1}");
}

static void scans_of_ids(void **state)
{
    struct names_list list = {made, 3};
    struct query query;
    struct scan scan;
    struct err err = {0};
    const char *type;
    (void)state;
    assert_int_equal(query_read(json_root(SLICE_LIT("{\"ids\":{\"values\":[\"y\",\"x\",\"w\"]}}")),
                                &query, &type, &err),
                     RC_OK);
    assert_int_equal(scan_open(store, &list, &query, &scan, &err), RC_OK);
    query_done(&query);
    assert_true(scan.total == 3); /* y in a and c, w in c; x is gone */
    uint64_t base = scan.part[2].base, y = scan.found[0];
    assert_true(scan.found[1] == base + 1 && scan.found[2] == base + 2);
    put(made[2], WRITE_DELETE, "w", ""); /* still seen */
    char want[80];
    snprintf(want, sizeof want, "%llu:1 %llu:5 %llu:6 ", (unsigned long long)y,
             (unsigned long long)base + 1, (unsigned long long)base + 2);
    assert_scan(&scan, 0, 100, SIZE_MAX, want, true);
    snprintf(want, sizeof want, "%llu:5 ", (unsigned long long)base + 1);
    assert_scan(&scan, y + 1, 1, SIZE_MAX, want, false);
    uint64_t last[2];
    size_t n = 0;
    assert_int_equal(scan_last(&scan, base + 2, 2, last, &n, &err), RC_OK);
    assert_true(n == 2 && last[0] == base + 1 && last[1] == y);
    scan_close(&scan);
}

static struct context *new_context(enum context_kind kind, uint64_t keep_ms)
{
    struct names_list list = {made, 1};
    struct query all = {.all = true};
    struct err err = {0};
    struct context *c = calloc(1, sizeof *c);
    assert_non_null(c);
    search_spec_init(&c->spec);
    c->kind = kind;
    c->keep_ms = keep_ms;
    assert_int_equal(scan_open(store, &list, &all, &c->scan, &err), RC_OK);
    return c;
}

static void contexts(void **state)
{
    struct contexts *all;
    struct context *c, *other;
    struct err err = {0};
    char id[CONTEXT_ID_LEN + 1];
    (void)state;
    assert_int_equal(contexts_create(&all, &err), RC_OK);
    c = new_context(CONTEXT_SCROLL, 60000);
    assert_int_equal(contexts_add(all, c, &err), RC_OK);
    memcpy(id, c->id, sizeof id);
    struct slice name = slice_str(id);
    assert_int_equal(contexts_get(all, CONTEXT_SCROLL, name, &other), RC_CONFLICT);
    assert_int_equal(contexts_get(all, CONTEXT_PIT, name, &other), RC_NOT_FOUND);
    contexts_put(all, c, 0);
    assert_int_equal(contexts_get(all, CONTEXT_SCROLL, name, &other), RC_OK);
    assert_ptr_equal(other, c);
    assert_true(contexts_remove(all, CONTEXT_SCROLL, name)); /* in use: freed by the put */
    assert_false(contexts_remove(all, CONTEXT_SCROLL, name));
    assert_true(c->removed);
    contexts_put(all, c, 0);

    c = new_context(CONTEXT_PIT, 1);
    assert_int_equal(contexts_add(all, c, &err), RC_OK);
    memcpy(id, c->id, sizeof id);
    assert_int_equal(contexts_get(all, CONTEXT_PIT, name, &other), RC_OK); /* twice at once */
    usleep(5000);
    contexts_expire(all); /* in use: stays */
    contexts_put(all, c, 0);
    contexts_put(all, c, 0);
    usleep(5000);
    assert_int_equal(contexts_get(all, CONTEXT_PIT, name, &other), RC_NOT_FOUND);
    contexts_expire(all);
    assert_int_equal(contexts_each(all, CONTEXT_PIT, false, NULL, NULL), 0);

    for (int i = 0; i < 300; i++) {
        c = new_context(CONTEXT_PIT, 60000);
        assert_int_equal(contexts_add(all, c, &err), RC_OK);
        contexts_put(all, c, 0);
    }
    c = new_context(CONTEXT_PIT, 60000);
    assert_int_equal(contexts_add(all, c, &err), RC_BUSY);
    scan_close(&c->scan);
    free(c);
    assert_int_equal(contexts_each(all, CONTEXT_PIT, true, NULL, NULL), 300);
    contexts_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries),  cmocka_unit_test(queries_are_bounded),
        cmocka_unit_test(specs),    cmocka_unit_test(times),
        cmocka_unit_test(scans),    cmocka_unit_test(scans_of_ids),
        cmocka_unit_test(contexts),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
