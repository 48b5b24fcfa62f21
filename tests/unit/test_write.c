/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose blocks borrow their documents (O3 in storage/rows.h), and who reads beside them.
 */
#include "storage/engine.h"
#include "tests/unit/store_bench.h"

#define REQUEST_DOCS 2000
#define DOC_BYTES    320

/* What of a document follows from its number. */
static size_t write_text(uint8_t *dst, unsigned n)
{
    int len = snprintf((char *)dst, DOC_BYTES, "{\"n\":%08u,\"text\":\"", n);
    for (unsigned k = 0; k < 20; k++)
        len += snprintf((char *)dst + len, DOC_BYTES - (size_t)len, "%010u", n * 2654435761u + k);
    len += snprintf((char *)dst + len, DOC_BYTES - (size_t)len, "\"}");
    return (size_t)len;
}

static bool is_whole(struct slice doc)
{
    uint8_t text[DOC_BYTES];
    unsigned n = 0;
    if (doc.len < 14)
        return false;
    for (size_t i = 5; i < 13; i++)
        n = n * 10 + doc.ptr[i] - '0';
    return slice_eq(doc, slice_of(text, write_text(text, n)));
}

struct request {
    struct bench *b;
    struct index *ix;
    unsigned from, docs;
    enum rc rc;
};

/* Its body is overwritten as soon as it is answered. */
static void *write_request(void *arg)
{
    struct request *r = arg;
    struct write_item *items = calloc(r->docs, sizeof *items);
    uint8_t(*body)[DOC_BYTES] = calloc(r->docs, sizeof *body);
    assert(items != NULL && body != NULL);
    for (unsigned i = 0; i < r->docs; i++)
        items[i] =
            (struct write_item){.index = r->ix,
                                .op = WRITE_INDEX,
                                .source = slice_of(body[i], write_text(body[i], r->from + i))};
    r->rc = write_items(r->b, items, r->docs);
    explicit_bzero(body, r->docs * sizeof *body); /* a memset before free would be left out */
    free(items);
    free(body);
    return NULL;
}

static enum rc count_row(const struct row *row, void *arg)
{
    unsigned *whole = arg;
    *whole += is_whole(row->doc);
    return RC_OK;
}

static unsigned count_whole(struct bench *b, struct index *ix)
{
    struct snapshot *snapshot = NULL;
    struct err err = {0};
    uint64_t cursor = 0;
    unsigned whole = 0;
    bool done = false;
    assert_int_equal(store_snapshot_open(b->store, ix, &snapshot, &err), RC_OK);
    while (!done)
        assert_int_equal(
            store_snapshot_next(b->store, snapshot, &cursor, 1000, &done, count_row, &whole, &err),
            RC_OK);
    store_snapshot_close(b->store, snapshot);
    return whole;
}

/* All documents are there, after a crash, too. Releases the index. */
static void check_all(struct bench *b, struct index *ix, uint64_t all)
{
    assert_int_equal(count_whole(b, ix), all);
    index_release(ix);
    bench_crash(b);
    ix = get_index(b, "i");
    assert_int_equal(count_whole(b, ix), all);
    index_release(ix);
}

/* Does a row that was pinned while its block borrowed it stay what it was after the request? False
 * when the request was over before it could be caught between two steps. */
static bool caught_between_steps(struct bench *b, struct index *ix, unsigned from)
{
    struct request request = {b, ix, from, REQUEST_DOCS, RC_OK};
    struct row_reader reader;
    struct row row;
    struct err err = {0};
    pthread_t thread;
    bool caught = false;
    row_reader_init(&reader, b->store, BLOCK_ALL, false);
    assert_int_equal(pthread_create(&thread, NULL, write_request, &request), 0);
    for (uint64_t end = 0; !caught && end < from + REQUEST_DOCS;) {
        pthread_mutex_lock(&ix->write); /* no step meanwhile, and packing comes after the last */
        end = ix->next_seq;
        pthread_mutex_lock(&ix->table);
        struct pending *p = ix->pending_count == 0 ? NULL : ix->pending[ix->pending_count - 1];
        uint64_t seq = p == NULL ? 0 : p->first_seq;
        caught = p != NULL && p->rows != NULL && rows_borrow(p->rows) && end < from + REQUEST_DOCS;
        pthread_mutex_unlock(&ix->table);
        if (caught)
            assert_int_equal(row_reader_get(&reader, ix, seq, &row, &err), RC_OK);
        pthread_mutex_unlock(&ix->write);
        sched_yield();
    }
    pthread_join(thread, NULL);
    assert_int_equal(request.rc, RC_OK);
    if (caught) {
        assert_int_equal(row_reader_doc(&reader, &row, &err), RC_OK);
        assert_true(is_whole(row.doc));
    }
    row_reader_done(&reader);
    return caught;
}

static void test_reader_outlives_the_request(void **state)
{
    struct bench b;
    unsigned requests = 0;
    (void)state;
    bench_init(&b);
    b.o.wal_bytes = 64 * MIB;
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    while (!caught_between_steps(&b, ix, requests++ * REQUEST_DOCS))
        assert_true(requests < 200);
    assert_int_equal(count_whole(&b, ix), requests * REQUEST_DOCS);
    index_release(ix);
    bench_done(&b);
}

/* Several write at the same time, so that blocks are shared, too. */
static void test_requests_at_the_same_time(void **state)
{
    enum { WRITERS = 4, ROUNDS = 5, ALL = WRITERS * ROUNDS * REQUEST_DOCS };
    struct bench b;
    struct request request[WRITERS];
    pthread_t thread[WRITERS];
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < WRITERS; i++) {
            request[i] =
                (struct request){&b, ix, (round * WRITERS + i) * REQUEST_DOCS, REQUEST_DOCS, RC_OK};
            assert_int_equal(pthread_create(&thread[i], NULL, write_request, &request[i]), 0);
        }
        for (unsigned i = 0; i < WRITERS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(request[i].rc, RC_OK);
        }
    }
    check_all(&b, ix, ALL);
    bench_done(&b);
}

/* Rows of a request that do not fill a block stay readable after it, and go to the log as rows. */
static void test_the_rest_of_a_request(void **state)
{
    struct bench b;
    (void)state;
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (unsigned n = 1; n < 80; n += 13) { /* a block takes some 30 */
        uint64_t before = docs(ix);
        struct request request = {&b, ix, (unsigned)before, n, RC_OK};
        write_request(&request);
        assert_int_equal(request.rc, RC_OK);
        assert_int_equal(count_whole(&b, ix), before + n);
    }
    check_all(&b, ix, docs(ix));
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_outlives_the_request),
        cmocka_unit_test(test_requests_at_the_same_time),
        cmocka_unit_test(test_the_rest_of_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
