/* SPDX-License-Identifier: Apache-2.0 */
/* Checking by shapes: the verdict is json_check's (G3), fits are the document (H1), generations end
 * (G1, G2). */
#include "storage/shapes.h"

#include "config/buf.h"
#include "config/limits.h"

#include <setjmp.h>

#include <cmocka.h>

/* What is between the pieces is what the fit says. */
static void assert_fits(const struct fit *fit, struct slice doc)
{
    struct slice values[SHAPE_SLOTS_MAX];
    const struct shape *shape = fit->shape;
    size_t at = 0;
    fit_values(fit, doc, values);
    for (uint32_t i = 0; i <= shape->slots; i++) {
        uint32_t from = i < shape->slots ? shape->slot[i].piece_at : shape->tail_at;
        uint32_t len = i < shape->slots ? shape->slot[i].piece_len : shape->tail_len;
        assert_memory_equal(doc.ptr + at, shape->skeleton.ptr + from, len);
        at += len;
        if (i < shape->slots) {
            assert_ptr_equal(values[i].ptr, doc.ptr + at);
            at += values[i].len;
        }
    }
    assert_int_equal(at, doc.len);
}

/* The document as a line with that end before another one: judged as json_check does without. A
 * document that holds a line feed is two lines. */
static bool check_ended(struct shape_reader *reader, struct slice doc, const char *line_end,
                        struct fit *fit)
{
    static const char next[] = "]}\n";
    enum json_type type = JSON_END, other_type = JSON_END;
    struct json_fault fault = {0, NULL}, other = {0, NULL};
    struct buf text = {0};
    struct slice line;
    buf_put_slice(&text, doc);
    buf_put_str(&text, line_end);
    size_t first = (size_t)((uint8_t *)memchr(text.ptr, '\n', text.len) - text.ptr);
    buf_put_str(&text, next);
    struct slice rest = buf_slice(&text);
    bool ok = shape_reader_line(reader, &rest, &line, &type, &fault, fit);
    struct slice expected = slice_of(text.ptr, first - (first != 0 && text.ptr[first - 1] == '\r'));
    assert_ptr_equal(rest.ptr, text.ptr + first + 1);
    assert_int_equal(rest.len, text.len - first - 1);
    assert_true(line.ptr == expected.ptr && line.len == expected.len);
    assert_int_equal(ok, json_check(expected, &other_type, &other));
    assert_int_equal(type, other_type);
    assert_int_equal(fault.at, other.at);
    assert_ptr_equal(fault.what, other.what);
    if (fit->shape != NULL)
        assert_fits(fit, line);
    buf_done(&text);
    return ok;
}

static bool check(struct shape_reader *reader, struct slice doc, struct fit *fit)
{
    struct fit other;
    bool ok = check_ended(reader, doc, "\n", fit);
    assert_int_equal(check_ended(reader, doc, "\r\n", &other), ok);
    return ok;
}

/* A document of a known shape with each value in turn replaced: taken where json_check takes it. */
static void test_verdict(void **state)
{
    (void)state;
    static const char *const values[] = {
        "\"\"",
        "\"text\"",
        "\"0123456789abcdef\"",
        "\"\\n\\u00e4\\\\\"",
        "\"\xc3\xa4\"",
        "\"\xc3\"",
        "\"\xed\xa0\x80\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\",
        "\"a\nb\"",
        "\"\x01\"",
        "\"open",
        "1",
        "-0.5e+3",
        "01",
        "1.",
        "-",
        "1e",
        "+1",
        "true",
        "tru",
        "nul",
        "null",
        "nan",
        "[]",
        "[1,2]",
        "[1,]",
        "[\"\\x\"]",
        "[{\"a\":[\"b\"]}]",
        "[{\"a\"}]",
        "[[[1]]",
        "{}",
        "{\"b\":1}",
        "",
        " 1",
        "1 ",
        "\"a\" \"b\"",
        "1 2",
        "tru\xc3\xa4",
        "1\r",
        "[1,\n",
        "[\"a\",\n\"b\"]",
        "\"a\n",
        "\"\\\n",
        "\"\\u00\n",
        "\"\xc3\n",
    };
    static const char *const slots[] = {"\"x\"", "1", "[\"y\"]", "[1,2]"};
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct buf doc = {0};
    struct fit fit;
    shape_reader_init(&reader, shapes);
    for (size_t turn = 0; turn <= ARRAY_LEN(slots) * ARRAY_LEN(values); turn++) {
        doc.len = 0;
        for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
            bool this = turn != 0 && (turn - 1) % ARRAY_LEN(slots) == i;
            buf_printf(&doc, "%s\"k%zu\":%s", i == 0 ? "{" : ",", i,
                       this ? values[(turn - 1) / ARRAY_LEN(slots)] : slots[i]);
        }
        buf_put_byte(&doc, '}');
        bool ok = check(&reader, buf_slice(&doc), &fit);
        assert_true(!ok || fit.shape != NULL);
    }
    buf_done(&doc);
    shape_reader_done(&reader);
    shapes_destroy(shapes);
}

/* Of several carriage returns before a line feed only the last is no part of the document. */
static void test_returns(void **state)
{
    (void)state;
    static const char *const docs[] = {"{\"a\":1}\r", "{\"a\":1}", "{\"a\":1}\r\r", "{\"a\":1}",
                                       "{\"a\":1}\r\r\r"};
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct fit fit;
    shape_reader_init(&reader, shapes);
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
            assert_true(check(&reader, slice_str(docs[i]), &fit));
            assert_non_null(fit.shape);
        }
    assert_int_equal(reader.missed, 4);
    shape_reader_done(&reader);
    shapes_destroy(shapes);
}

/* One that only checks, and documents that cannot have a fit. */
static void test_without(void **state)
{
    (void)state;
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct buf doc = {0};
    struct fit fit;
    shape_reader_init(&reader, NULL);
    assert_true(check(&reader, SLICE_LIT("{\"a\":1}"), &fit));
    assert_null(fit.shape);
    shape_reader_done(&reader);

    shape_reader_init(&reader, shapes);
    for (size_t len = UINT16_MAX; len <= UINT16_MAX + 1; len++)
        for (int again = 0; again < 2; again++) {
            doc.len = 0;
            buf_printf(&doc, "{\"a\":\"%0*d\"}", (int)len, 7);
            assert_true(check(&reader, buf_slice(&doc), &fit));
            assert_int_equal(fit.shape != NULL, len == UINT16_MAX);
        }
    /* An array that nests as deep as a document may, where one is expected. */
    assert_true(check(&reader, SLICE_LIT("{\"a\":[\"x\"]}"), &fit));
    doc.len = 0;
    BUF_PUT_LIT(&doc, "{\"a\":");
    for (int i = 0; i < LIMIT_JSON_DEPTH - 1; i++)
        buf_put_byte(&doc, '[');
    for (int i = 0; i < LIMIT_JSON_DEPTH - 1; i++)
        buf_put_byte(&doc, ']');
    buf_put_byte(&doc, '}');
    assert_true(check(&reader, buf_slice(&doc), &fit));
    assert_null(fit.shape);
    shape_reader_done(&reader);
    shapes_destroy(shapes);
    buf_done(&doc);
}

/* The next request begins with the shapes at hand, and a full generation is left. */
static void test_generations(void **state)
{
    (void)state;
    struct shapes *shapes = shapes_create();
    struct shape_reader first, next;
    struct buf doc = {0};
    struct fit held, fit;
    static const struct slice common = {(const uint8_t *)"{\"a\":1}", 7};
    shape_reader_init(&first, shapes);
    assert_true(check(&first, common, &held));
    assert_non_null(held.shape);
    shape_reader_init(&next, shapes);
    assert_true(check(&next, common, &fit));
    assert_ptr_equal(fit.shape, held.shape);
    assert_int_equal(next.missed, 0);
    shape_reader_done(&next);

    for (unsigned i = 0; i < SHAPES_SHARED_MAX; i++) {
        shape_reader_init(&next, shapes);
        doc.len = 0;
        buf_printf(&doc, "{\"b%u\":1}", i);
        assert_true(check(&next, buf_slice(&doc), &fit));
        shape_reader_done(&next);
    }
    shape_reader_init(&next, shapes);
    assert_true(next.table != first.table && shape_count(next.table) < SHAPES_SHARED_MAX);
    assert_true(check(&next, common, &fit));
    assert_true(fit.shape != held.shape && fit.table != held.table);
    assert_fits(&held, common); /* as long as a reader holds its generation */
    shape_reader_done(&next);
    shape_reader_done(&first);
    shapes_destroy(shapes);
    buf_done(&doc);
}

/* Keys may be long: a generation is left by its memory, too. */
static void test_memory(void **state)
{
    (void)state;
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct buf doc = {0};
    struct fit fit;
    const struct shape_table *first = NULL;
    unsigned i = 0;
    for (bool left = false; !left; i++) {
        shape_reader_init(&reader, shapes);
        first = i == 0 ? reader.table : first;
        left = reader.table != first;
        assert_true(shape_memory(reader.table) < SHAPES_SHARED_BYTES + 64 * KIB);
        doc.len = 0;
        buf_printf(&doc, "{\"%0*u\":1}", 8000, i);
        assert_true(check(&reader, buf_slice(&doc), &fit));
        assert_non_null(fit.shape);
        shape_reader_done(&reader);
    }
    assert_true(i < SHAPES_SHARED_MAX / 2);
    shapes_destroy(shapes);
    buf_done(&doc);
}

/* Documents that have nothing in common are not learned for ever. */
static void test_strangers(void **state)
{
    (void)state;
    struct shapes *shapes = shapes_create();
    struct shape_reader reader;
    struct buf doc = {0};
    struct fit fit;
    unsigned fits = 0;
    shape_reader_init(&reader, shapes);
    for (unsigned i = 0; i < 500; i++) {
        doc.len = 0;
        buf_printf(&doc, "{\"b%u\":1}", i);
        assert_true(check(&reader, buf_slice(&doc), &fit));
        fits += fit.shape != NULL;
    }
    assert_true(fits > 0 && fits < 100);
    shape_reader_done(&reader);
    shapes_destroy(shapes);
    buf_done(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict), cmocka_unit_test(test_returns),
        cmocka_unit_test(test_without), cmocka_unit_test(test_generations),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
