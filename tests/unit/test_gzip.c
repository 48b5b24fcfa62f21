/* SPDX-License-Identifier: Apache-2.0 */
/* gzip: what comes out, limits, members, damage (Z1 to Z3 of api/gzip.h). */
#include "api/gzip.h"

#include <setjmp.h>
/* cmocka.h wants the two above first */
#include <cmocka.h>

static struct buf text_of(size_t n)
{
    struct buf b = {0};
    for (uint32_t x = 1; b.len < n; x = x * 1664525u + 1013904223u)
        buf_printf(&b, "{\"n\":%u}\n", x >> 16);
    b.len = n;
    return b;
}

static struct buf zipped(struct slice in)
{
    struct buf b = {0};
    assert_int_equal(gzip_deflate(in, &b), RC_OK);
    return b;
}

static void round_trips(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, 4096, 70000, 3000000};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct buf in = text_of(sizes[i]), z = zipped(buf_slice(&in)), out = {0};
        assert_int_equal(gunzip(buf_slice(&z), sizes[i], &out, NULL), RC_OK);
        assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
        buf_done(&in);
        buf_done(&z);
        buf_done(&out);
    }
}

static void limit_holds(void **state)
{
    (void)state;
    struct buf in = text_of(100000), z = zipped(buf_slice(&in)), out = {0};
    struct err err = {0};
    buf_put_str(&out, "before");
    assert_int_equal(gunzip(buf_slice(&z), 100000, &out, &err), RC_OK);
    assert_int_equal(out.len, 6 + 100000);
    out.len = 6;
    assert_int_equal(gunzip(buf_slice(&z), 99999, &out, &err), RC_TOO_LARGE);
    assert_non_null(strstr(err.msg, "99999"));
    assert_int_equal(gunzip(buf_slice(&z), 0, &out, NULL), RC_TOO_LARGE);
    assert_int_equal(gunzip(buf_slice(&z), UINT64_MAX, &out, NULL), RC_OK);
    out.len = 6;
    assert_memory_equal(out.ptr, "before", 6);
    buf_done(&in);
    buf_done(&z);
    buf_done(&out);
}

static void bomb_costs_its_limit(void **state)
{
    (void)state;
    struct buf in = {0}, out = {0};
    assert_true(buf_reserve(&in, 64 << 20));
    memset(in.ptr, 0, 64 << 20);
    in.len = 64 << 20;
    struct buf z = zipped(buf_slice(&in));
    assert_int_equal(gunzip(buf_slice(&z), 1 << 20, &out, NULL), RC_TOO_LARGE);
    assert_true(out.cap <= 2u << 20);
    buf_done(&in);
    buf_done(&z);
    buf_done(&out);
}

static void members_are_one_content(void **state)
{
    (void)state;
    struct buf in = text_of(50000), z = {0}, out = {0};
    for (size_t at = 0; at < in.len; at += 700) {
        size_t n = in.len - at < 700 ? in.len - at : 700;
        assert_int_equal(gzip_deflate(slice_of(in.ptr + at, n), &z), RC_OK);
        assert_int_equal(gzip_deflate(SLICE_NONE, &z), RC_OK);
    }
    assert_int_equal(gunzip(buf_slice(&z), 50000, &out, NULL), RC_OK);
    assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
    out.len = 0;
    assert_int_equal(gunzip(buf_slice(&z), 49999, &out, NULL), RC_TOO_LARGE);
    buf_done(&in);
    buf_done(&z);
    buf_done(&out);
}

static void damage_is_refused(void **state)
{
    (void)state;
    struct buf in = text_of(300), z = zipped(buf_slice(&in)), out = {0};
    for (size_t n = 0; n < z.len; n++) /* cut anywhere */
        assert_int_equal(gunzip(slice_of(z.ptr, n), 1000, &out, NULL), RC_INVALID);
    for (size_t i = 0; i < z.len; i++) { /* a bit flipped anywhere: refused, or still the same */
        z.ptr[i] ^= 4;
        enum rc rc = gunzip(buf_slice(&z), 1000, &out, NULL);
        if (rc == RC_OK)
            assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
        else
            assert_int_equal(out.len, 0);
        out.len = 0;
        z.ptr[i] ^= 4;
    }
    static const char *const behind[] = {"x", "\n", "\x1f\x8b", "\x1f\x8b\x08"};
    for (size_t i = 0; i < ARRAY_LEN(behind); i++) {
        size_t len = z.len;
        buf_put_str(&z, behind[i]);
        assert_int_equal(gunzip(buf_slice(&z), 1000, &out, NULL), RC_INVALID);
        z.len = len;
    }
    struct err err = {0};
    assert_int_equal(gunzip(SLICE_LIT("{\"a\":1}"), 1000, &out, &err), RC_INVALID);
    assert_non_null(strstr(err.msg, "gzip"));
    assert_int_equal(out.len, 0);
    buf_done(&in);
    buf_done(&z);
    buf_done(&out);
}

static void stream_is_one_member(void **state)
{
    (void)state;
    struct buf in = text_of(400000), z = {0}, out = {0};
    struct gzip_stream *stream;
    assert_int_equal(gzip_stream_open(&stream), RC_OK);
    for (size_t at = 0; at < in.len; at += 33333) {
        size_t n = in.len - at < 33333 ? in.len - at : 33333;
        assert_int_equal(gzip_stream_put(stream, slice_of(in.ptr + at, n), false, &z), RC_OK);
    }
    assert_int_equal(gunzip(buf_slice(&z), 400000, &out, NULL), RC_INVALID); /* not ended yet */
    assert_int_equal(gzip_stream_put(stream, SLICE_NONE, true, &z), RC_OK);
    gzip_stream_close(stream);
    assert_int_equal(gunzip(buf_slice(&z), 400000, &out, NULL), RC_OK);
    assert_true(slice_eq(buf_slice(&in), buf_slice(&out)));
    gzip_stream_close(NULL);
    buf_done(&in);
    buf_done(&z);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),          cmocka_unit_test(limit_holds),
        cmocka_unit_test(bomb_costs_its_limit), cmocka_unit_test(members_are_one_content),
        cmocka_unit_test(damage_is_refused),    cmocka_unit_test(stream_is_one_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
