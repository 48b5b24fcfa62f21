/* SPDX-License-Identifier: Apache-2.0 */
/* Layout columnar: documents of all sorts come back byte for byte, in any order, and frames that
 * make no sense are refused or read in bounds. */
#include "storage/columnar.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define DOCS_MAX 3000

static char texts[DOCS_MAX][400];
static struct slice docs[DOCS_MAX];

static PRINTF_LIKE(2, 3) void setf(size_t i, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(texts[i], sizeof texts[i], fmt, ap);
    va_end(ap);
    docs[i] = slice_of(texts[i], (size_t)n);
}

static void open_and_read(struct slice data, struct slice aux, size_t n, uint64_t bytes, bool scan)
{
    struct buf planes = {0}, doc = {0}; /* opening changes planes */
    struct columnar *c = NULL;
    const char *what = NULL;
    buf_put_slice(&planes, aux);
    enum rc rc = columnar_open(data, planes.ptr, planes.len, n, bytes, scan, &c, &what);
    if (rc != RC_OK)
        fail_msg("opening %zu documents like %.*s: rc %d", n, (int)docs[n - 1].len,
                 (const char *)docs[n - 1].ptr, (int)rc);
    assert_true(columnar_memory(c) > 0);
    for (size_t i = 0; i < n; i++) {
        size_t k = i * 7919 % n;
        doc.len = 0;
        assert_int_equal(columnar_doc(c, k, &doc), RC_OK);
        if (!slice_eq(buf_slice(&doc), docs[k]))
            fail_msg("document %zu of %zu: %.*s became %.*s", k, n, (int)docs[k].len,
                     (const char *)docs[k].ptr, (int)doc.len, (const char *)doc.ptr);
    }
    columnar_close(c);
    buf_done(&planes);
    buf_done(&doc);
}

/* Pack, read each in any order; bytes of the frames. */
static size_t round_trip(size_t n)
{
    struct buf data = {0}, aux = {0};
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += docs[i].len;
    assert_int_equal(columnar_pack(docs, NULL, n, &data, &aux), RC_OK);
    size_t len = data.len + aux.len;
    open_and_read(buf_slice(&data), buf_slice(&aux), n, bytes, false);
    open_and_read(buf_slice(&data), buf_slice(&aux), n, bytes, true);
    buf_done(&data);
    buf_done(&aux);
    return len;
}

static void log_line(size_t i)
{
    static const char *const agents[] = {"Mozilla/5.0 (X11; Linux x86_64)", "curl/7.88.1", "-"};
    setf(
        i,
        "{\"message\":\"10.0.%zu.%zu - - [17/May/2015:10:%02zu:%02zu +0000] \\\"GET /p/%zu "
        "HTTP/1.1\\\" 200 %zu \\\"-\\\" \\\"%s\\\"\",\"clientip\":\"10.0.%zu.%zu\",\"timestamp\":"
        "\"17/May/2015:10:%02zu:%02zu +0000\",\"verb\":\"GET\",\"request\":\"/p/%zu\",\"response\":"
        "\"200\",\"bytes\":\"%zu\",\"agent\":\"\\\"%s\\\"\"}",
        i % 7, i % 256, i / 60 % 60, i % 60, i * 13 % 100, i * 31 % 5000, agents[i % 3], i % 7,
        i % 256, i / 60 % 60, i % 60, i * 13 % 100, i * 31 % 5000, agents[i % 3]);
}

static void trip(size_t i)
{
    setf(i, "{\"total\":%zu.%02zu,\"at\":[-73.96705627441406,40.%zu],\"n\":%zu,\"flag\":%s}",
         i % 90, i % 100, 1 + i % 1000, i, i % 2 ? "true" : "null");
}

/* Optional keys: many shapes. */
static void product(size_t i)
{
    char more[200] = "";
    for (size_t k = 0, at = 0; k < 8; k++)
        if (i * 2654435761u >> (10 + k) & 1)
            at += (size_t)snprintf(more + at, sizeof more - at, ",\"opt%zu\":%zu", k, i * k);
    setf(i, "{\"sku\":\"%08zx\",\"tags\":[\"a\",\"b%zu\"]%s}", i * 2654435761u % 4294967296u, i % 5,
         more);
}

/* A key of its own for each. */
static void one_of_a_kind(size_t i)
{
    setf(i, "{\"key-%zu\":\"%zu\"}", i, i * i);
}

static void broken(size_t i)
{
    static const char *const bad[] = {
        "",   "{",      "{\"a\":}",  "nonsense", "{\"a\":\"\x01\x02\x03\"}", "{\"a\":[1,]}",
        "\"", "[[[[[[", "{\"a\":1}x"};
    setf(i, "%s", bad[i % ARRAY_LEN(bad)]);
    if (i % 5 == 0)
        docs[i].len = sizeof texts[i] - 1; /* with the zeros and whatever lies behind it */
}

static void test_kinds(void **state)
{
    (void)state;
    void (*const kinds[])(size_t) = {log_line, trip, product, one_of_a_kind, broken};
    static const size_t counts[] = {1, 2, 3, 30, 300, DOCS_MAX};
    for (size_t a = 0; a < ARRAY_LEN(kinds); a++)
        for (size_t b = 0; b < ARRAY_LEN(kinds); b++)
            for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
                for (size_t i = 0; i < counts[k]; i++)
                    kinds[i % 5 == 4 ? b : a](i);
                round_trip(counts[k]);
            }
}

/* What it is for: most of a log line is told by others. */
static void test_small(void **state)
{
    (void)state;
    size_t raw = 0;
    for (size_t i = 0; i < 1000; i++) {
        log_line(i);
        raw += docs[i].len;
    }
    assert_true(round_trip(1000) * 15 < raw);
}

/* Any byte of the frames changed or cut off: refused, or documents within bounds (C2). */
static void test_damage(void **state)
{
    (void)state;
    void (*const kinds[])(size_t) = {log_line, trip, product, broken};
    enum { N = 24 };
    uint64_t bytes = 0;
    for (size_t i = 0; i < N; i++) {
        kinds[i / 6](i % 6 + 1);
        size_t len = docs[i % 6 + 1].len;
        static char keep[N][400];
        memcpy(keep[i], docs[i % 6 + 1].ptr, len);
        docs[DOCS_MAX - N + i] = slice_of(keep[i], len);
        bytes += len;
    }
    struct buf data = {0}, aux = {0}, doc = {0};
    assert_int_equal(columnar_pack(docs + DOCS_MAX - N, NULL, N, &data, &aux), RC_OK);
    uint8_t *planes = malloc(aux.len);
    for (size_t at = 0; at < 2 * (data.len + aux.len); at++)
        for (unsigned change = 1; change < 256; change = change * 5 + 2) {
            struct columnar *c = NULL;
            const char *what = NULL;
            bool cut = at >= data.len + aux.len;
            size_t i = cut ? at - data.len - aux.len : at;
            struct slice d = {data.ptr, cut && i < data.len ? i : data.len};
            size_t aux_len = cut && i >= data.len ? i - data.len : aux.len;
            uint8_t *p = i < data.len ? data.ptr + i : aux.ptr + i - data.len, was = *p;
            if (cut && change != 1)
                continue;
            *p = cut ? was : (uint8_t)(was ^ change);
            memcpy(planes, aux.ptr, aux.len);
            enum rc rc = columnar_open(d, planes, aux_len, N, bytes, change != 1, &c, &what);
            assert_true(cut ? rc == RC_CORRUPT
                            : rc == RC_OK || rc == RC_CORRUPT ||
                                  (rc == RC_UNSUPPORTED && what != NULL));
            for (size_t k = 0; rc == RC_OK && k < N; k++) {
                doc.len = 0;
                enum rc got = columnar_doc(c, k, &doc);
                assert_true(got == RC_CORRUPT || (got == RC_OK && doc.len <= bytes));
            }
            *p = was;
            columnar_close(c);
        }
    free(planes);
    buf_done(&data);
    buf_done(&aux);
    buf_done(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
