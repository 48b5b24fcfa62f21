/* SPDX-License-Identifier: Apache-2.0 */
/* Derived columns: strings made of other values of their row cost next to nothing, and those that
 * are not come back all the same. */
#include "storage/derive.h"

#include <setjmp.h>

#include <cmocka.h>

#define ROWS 200

static char texts[4][ROWS][128];
static struct cell cells[4][ROWS];

/* Columns: address, verb, status, message. Rows are even numbers; verb is missing in every fourth.
 */
static void make_columns(struct derive_column columns[4], unsigned odd_every)
{
    static const char *const verbs[] = {"GET", "POST", "DELETE"};
    memset(columns, 0, 4 * sizeof *columns);
    for (size_t i = 0; i < ROWS; i++) {
        bool verb = i % 4 != 3;
        snprintf(texts[0][i], 128, "10.0.%zu.%zu", i % 256, i * 7 % 256);
        snprintf(texts[1][i], 128, "%s", verbs[i % 3]);
        snprintf(texts[2][i], 128, "%zu", 200 + i % 5);
        if (odd_every != 0 && i % odd_every == odd_every - 1)
            snprintf(texts[3][i], 128, "something else altogether, number %zu", i);
        else if (verb)
            snprintf(texts[3][i], 128, "%.20s - \"%.9s\" gave %.9s.", texts[0][i], texts[1][i],
                     texts[2][i]);
        else
            snprintf(texts[3][i], 128, "%.20s - gave %.9s.", texts[0][i], texts[2][i]);
        for (size_t c = 0; c < 4; c++) {
            columns[c].cells = cells[c];
            columns[c].text = true;
            if (c == 1 && !verb)
                continue;
            cells[c][columns[c].n++] = (struct cell){
                (uint8_t *)texts[c][i], (uint32_t)strlen(texts[c][i]), (uint32_t)(2 * i)};
        }
    }
}

struct row_values {
    const struct derive_column *columns;
    uint32_t row;
};

static bool refer(void *arg, uint64_t number, struct buf *out)
{
    const struct row_values *values = arg;
    assert_true(number < 3);
    const struct derive_column *column = &values->columns[number];
    for (uint32_t i = 0; i < column->n; i++)
        if (column->cells[i].row == values->row) {
            buf_put_slice(out, cell_slice(&column->cells[i]));
            return true;
        }
    return false;
}

static void check_all(const struct streams *s, const struct derive_column *columns)
{
    struct arena arena = {0};
    struct derived *derived = NULL;
    const char *what = NULL;
    struct buf value = {0};
    struct stream_readers in = {reader_of(buf_slice(&s->directory)), reader_of(buf_slice(&s->text)),
                                s->planes.ptr, s->planes.ptr + s->planes.len, false};
    assert_int_equal(derive_open(&derived, columns[3].n, &in, &arena, &what), RC_OK);
    assert_true(in.directory.p == in.directory.end && in.text.p == in.text.end &&
                in.planes == in.planes_end);
    for (uint32_t k = 0; k < columns[3].n; k++) {
        struct row_values values = {columns, columns[3].cells[k].row};
        value.len = 0;
        assert_true(derive_get(derived, k, refer, &values, &value));
        assert_true(slice_eq(buf_slice(&value), cell_slice(&columns[3].cells[k])));
    }
    assert_false(derive_get(derived, columns[3].n, refer, NULL, &value));
    buf_done(&value);
    arena_done(&arena);
}

static void test_message(void **state)
{
    (void)state;
    static const unsigned odd[] = {0, 50, 10, 5};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        struct derive_column columns[4];
        struct column_scratch scratch;
        struct streams s = {0};
        make_columns(columns, odd[i]);
        assert_true(column_scratch_init(&scratch, ROWS));
        assert_true(derive_put(&s, columns, 4, 3, &scratch));
        assert_true(columns[3].derived && columns[0].referred && columns[1].referred);
        /* Two templates, one byte a row, and the odd ones. */
        assert_true(s.directory.len + s.text.len + s.planes.len <
                    ROWS + 150 + (odd[i] == 0 ? 0 : ROWS / odd[i] * 45));
        check_all(&s, columns);
        /* D2 */
        assert_false(derive_put(&s, columns, 4, 0, &scratch));
        column_scratch_done(&scratch);
        streams_done(&s);
    }
}

/* Templates that differ in their last byte only. */
static void test_ends(void **state)
{
    (void)state;
    struct derive_column columns[4];
    struct column_scratch scratch;
    struct streams s = {0};
    make_columns(columns, 0);
    for (size_t i = 0; i < ROWS; i += 3)
        texts[3][i][cells[3][i].len - 1] = '!';
    assert_true(column_scratch_init(&scratch, ROWS));
    assert_true(derive_put(&s, columns, 4, 3, &scratch));
    assert_true(s.directory.len + s.text.len + s.planes.len < ROWS + 300);
    check_all(&s, columns);
    column_scratch_done(&scratch);
    streams_done(&s);
}

static void test_left_alone(void **state)
{
    (void)state;
    struct derive_column columns[4];
    struct column_scratch scratch;
    struct streams s = {0};
    assert_true(column_scratch_init(&scratch, ROWS));
    make_columns(columns, 2); /* half of them odd */
    assert_false(derive_put(&s, columns, 4, 3, &scratch));
    make_columns(columns, 1);
    assert_false(derive_put(&s, columns, 4, 3, &scratch));
    make_columns(columns, 0);
    columns[3].text = false;
    assert_false(derive_put(&s, columns, 4, 3, &scratch));
    columns[3].text = true;
    columns[0].derived = columns[1].derived = columns[2].derived = true; /* nothing to refer to */
    assert_false(derive_put(&s, columns, 4, 3, &scratch));
    assert_int_equal(s.directory.len + s.text.len + s.planes.len, 0);
    assert_false(columns[3].derived);
    column_scratch_done(&scratch);
    streams_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
