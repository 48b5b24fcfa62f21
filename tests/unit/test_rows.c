/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are not packed yet: what is appended is read back, also by a reader beside the writer
 * and in the copy that a full one grows into. */
#include "storage/rows.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 2000 };

struct sample {
    char id[16], doc[64];
    struct row row;
};

/* Row i: every kind, with and without routing, seqs with gaps. */
static struct row sample(size_t i, struct sample *s)
{
    int id = snprintf(s->id, sizeof s->id, "id%zu", i);
    int doc =
        snprintf(s->doc, sizeof s->doc, "{\"n\":%zu,\"pad\":\"%0*d\"}", i, 1 + (int)(i % 20), 0);
    s->row = (struct row){
        .seq = 100 + 2 * i + i / 10,
        .version = i + 1,
        .nonce = 77,
        .term = 3,
        .kind = (enum row_kind)(i % 3),
    };
    if (s->row.kind != ROW_MADE)
        s->row.id = slice_of(s->id, (size_t)id);
    if (s->row.kind != ROW_TOMBSTONE)
        s->row.doc = slice_of(s->doc, (size_t)doc);
    if (i % 4 == 0)
        s->row.routing = SLICE_LIT("r");
    return s->row;
}

static bool same(const struct row *a, const struct row *b)
{
    return a->seq == b->seq && a->version == b->version && a->nonce == b->nonce &&
           a->term == b->term && a->kind == b->kind && slice_eq(a->id, b->id) &&
           slice_eq(a->routing, b->routing) && slice_eq(a->doc, b->doc);
}

static bool holds(const struct rows *rows, size_t i)
{
    struct sample s;
    struct row want = sample(i, &s), got;
    rows_get(rows, i, &got);
    return same(&want, &got);
}

static struct rows *append(struct rows *rows, size_t i)
{
    struct sample s;
    struct row row = sample(i, &s);
    while (!rows_append(rows, &row)) {
        struct rows *bigger = rows_grow(rows, row.doc.len);
        assert_non_null(bigger);
        rows_release(rows);
        rows = bigger;
    }
    return rows;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct rows *rows = rows_create(10, 1, 0);
    size_t bytes = 0, at;
    for (size_t i = 0; i < ROWS; i++) {
        struct sample s;
        bytes += sample(i, &s).doc.len;
        rows = append(rows, i);
        assert_int_equal(rows_count(rows), i + 1);
    }
    assert_int_equal(rows_raw_bytes(rows), bytes);
    assert_true(rows_memory(rows) > bytes);
    for (size_t i = 0; i < ROWS; i++) {
        struct sample s;
        struct row row = sample(i, &s);
        assert_true(holds(rows, i));
        assert_int_equal(rows_find(rows, row.seq, &at), RC_OK);
        assert_int_equal(at, i);
        assert_int_equal(rows_find(rows, row.seq + 1, &at), RC_NOT_FOUND);
    }
    assert_int_equal(rows_find(rows, rows_first_seq(rows) - 1, &at), RC_NOT_FOUND);
    assert_int_equal(rows_find(rows, rows_last_seq(rows) + 1, &at), RC_NOT_FOUND);
    rows_release(rows);
    rows_release(NULL);
}

/* Copies of documents lie one behind the other (O3), and a full one refuses without a trace. */
static void test_places(void **state)
{
    (void)state;
    struct rows *rows = rows_create(10, 4, 0);
    struct row row = {.seq = 1, .version = 1, .nonce = 1, .term = 1, .doc = SLICE_LIT("12345")};
    struct row first, second;
    assert_true(rows_append(rows, &row));
    row.seq = 2;
    assert_true(rows_append(rows, &row));
    row.seq = 3;
    assert_false(rows_append(rows, &row));
    assert_int_equal(rows_count(rows), 2);
    rows_get(rows, 0, &first);
    rows_get(rows, 1, &second);
    assert_ptr_equal(first.doc.ptr + 5, second.doc.ptr);
    row.doc = SLICE_NONE; /* one without bytes still fits */
    assert_true(rows_append(rows, &row));
    rows_release(rows);
}

struct shared {
    pthread_mutex_t mutex;
    struct rows *rows; /* the newest copy; guarded by mutex */
    bool wrong;
};

static void *read_along(void *arg)
{
    struct shared *s = arg;
    for (size_t seen = 0; seen < ROWS;) {
        pthread_mutex_lock(&s->mutex);
        struct rows *rows = rows_share(s->rows);
        pthread_mutex_unlock(&s->mutex);
        size_t n = rows_count(rows);
        for (size_t i = seen == 0 ? 0 : seen - 1; i < n; i++)
            s->wrong = s->wrong || !holds(rows, i);
        seen = n;
        rows_release(rows);
    }
    return NULL;
}

/* O1, O2: rows below the published count are whole and stay where they are. */
static void test_reader_beside_the_writer(void **state)
{
    (void)state;
    struct shared s = {PTHREAD_MUTEX_INITIALIZER, rows_create(100, 4, 0), false};
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_along, &s), 0);
    for (size_t i = 0; i < ROWS; i++) {
        struct sample smp;
        struct row row = sample(i, &smp);
        while (!rows_append(s.rows, &row)) {
            struct rows *bigger = rows_grow(s.rows, row.doc.len), *old = s.rows;
            assert_non_null(bigger);
            pthread_mutex_lock(&s.mutex);
            s.rows = bigger;
            pthread_mutex_unlock(&s.mutex);
            rows_release(old);
        }
    }
    pthread_join(reader, NULL);
    assert_false(s.wrong);
    rows_release(s.rows);
}

/* O3: documents stay where they are, through growth, until a copy is asked for. */
static void test_borrowed_documents(void **state)
{
    enum { COUNT = 40 };
    static uint8_t body[COUNT][10];
    uint16_t lens[1] = {3};
    struct slice value;
    uint32_t number;
    struct rows *rows = rows_create_borrowing(2);
    struct shape_table *shapes = shape_table_create();
    (void)state;
    assert_true(shape_of(shapes, SLICE_LIT("{\"n\":100}"), 1, 1, &value, &number));
    for (size_t i = 0; i < COUNT; i++) {
        snprintf((char *)body[i], sizeof body[i], "{\"n\":%03zu", 100 + i);
        body[i][8] = '}';
        struct fit fit = {shape_at(shapes, number), lens, shapes};
        struct row row = {
            .seq = i, .version = 1, .nonce = 1, .term = 1, .doc = {body[i], 9}, .fit = &fit};
        while (!rows_append(rows, &row)) {
            struct rows *bigger = rows_grow(rows, row.doc.len);
            rows_release(rows);
            rows = bigger;
        }
    }
    assert_true(rows_borrow(rows));
    assert_int_equal(rows_raw_bytes(rows), COUNT * 9);
    struct rows *own = rows_own(rows, 4096), *shared = rows_share(rows), *same = rows_share(own);
    assert_ptr_equal(same, own); /* has copies already */
    assert_false(rows_borrow(own) || rows_borrow(shared));
    struct row row;
    rows_get(rows, 7, &row);
    assert_ptr_equal(row.doc.ptr, body[7]);
    memset(body, 0, sizeof body); /* the request is over */
    lens[0] = 0;
    rows_release(rows);
    shape_table_release(shapes);
    for (size_t i = 0; i < COUNT; i++) {
        char text[12];
        struct fit fit;
        snprintf(text, sizeof text, "{\"n\":%03zu}", 100 + i);
        rows_get(own, i, &row);
        assert_memory_equal(row.doc.ptr, text, 9);
        rows_fit(own, i, &fit);
        assert_true(fit.shape != NULL && fit.lens[0] == 3);
        rows_get(shared, i, &row);
        assert_int_equal(row.seq, i);
        assert_memory_equal(row.doc.ptr, text, 9);
    }
    rows_release(same);
    rows_release(own);
    rows_release(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borrowed_documents),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_reader_beside_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
