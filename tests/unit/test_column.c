/* SPDX-License-Identifier: Apache-2.0 */
/* Columns: every value comes back whatever coder it got, the coder is the one that fits, and
 * streams that make no sense are refused or read in bounds. */
#include "storage/column.h"

#include <setjmp.h>

#include <cmocka.h>

#define VALUES_MAX 3000

static char texts[VALUES_MAX][64];
static struct cell cells[VALUES_MAX];

static void set(size_t i, const char *text)
{
    cells[i] = (struct cell){(const uint8_t *)text, (uint32_t)strlen(text), (uint32_t)i};
}

static PRINTF_LIKE(2, 3) void setf(size_t i, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(texts[i], sizeof texts[i], fmt, ap);
    va_end(ap);
    set(i, texts[i]);
}

struct packed {
    struct streams s;
    uint8_t *planes; /* a copy of just the size, as opening changes it */
};

static void pack(struct packed *p, size_t n, unsigned flags)
{
    struct column_scratch scratch;
    *p = (struct packed){0};
    assert_true(column_scratch_init(&scratch, n));
    column_put(&p->s, cells, n, flags, &scratch);
    column_scratch_done(&scratch);
}

static enum rc open_packed(struct packed *p, size_t n, struct column *column, struct arena *arena)
{
    const char *what = NULL;
    struct slice directory = buf_slice(&p->s.directory);
    free(p->planes);
    p->planes = malloc(p->s.planes.len + 1);
    if (p->s.planes.len != 0)
        memcpy(p->planes, p->s.planes.ptr, p->s.planes.len);
    struct stream_readers in = {
        reader_of(slice_of(directory.ptr + 1, directory.len - 1)),
        reader_of(p->s.text.ptr == NULL ? SLICE_LIT("") : buf_slice(&p->s.text)), p->planes,
        p->planes + p->s.planes.len, n % 2 == 0};
    enum rc rc = column_open(column, n, directory.ptr[0], &in, arena, &what);
    if (rc == RC_OK)
        assert_true(in.directory.p == in.directory.end && in.text.p == in.text.end &&
                    in.planes == in.planes_end);
    return rc;
}

static void packed_done(struct packed *p)
{
    streams_done(&p->s);
    free(p->planes);
}

/* Pack n cells, read them all; form and coder chosen, and bytes used. */
static size_t round_trip(size_t n, unsigned flags, int *form_out, int *coder_out)
{
    struct packed p;
    struct column column;
    struct arena arena = {0};
    struct buf value = {0};
    pack(&p, n, flags);
    assert_int_equal(open_packed(&p, n, &column, &arena), RC_OK);
    for (size_t i = 0; i < n; i++) {
        size_t k = i * 7919 % n; /* in any order */
        value.len = 0;
        assert_true(column_get(&column, (uint32_t)k, &value));
        if (!slice_eq(buf_slice(&value), cell_slice(&cells[k])))
            fail_msg("value %zu of %zu: %.*s became %.*s", k, n, (int)cells[k].len,
                     (const char *)cells[k].ptr, (int)value.len, (const char *)value.ptr);
    }
    assert_false(column_get(&column, (uint32_t)n, &value));
    *form_out = (int)column.form;
    *coder_out = column.form == COLUMN_CONSTANT ? -1 : column.values.coder;
    size_t bytes = p.s.directory.len + p.s.text.len + p.s.planes.len;
    buf_done(&value);
    arena_done(&arena);
    packed_done(&p);
    return bytes;
}

enum { TEXT, COUNTED };

struct kind {
    const char *name;
    void (*fill)(size_t i);
    unsigned flags;
    int form, coder; /* of 1000 values; coder -1: not looked at */
    size_t bytes_max;
};

static void fill_constant(size_t i)
{
    setf(i, "always the same");
}
static void fill_words(size_t i)
{
    static const char *const words[] = {"GET", "POST", "PUT", "", "a/b"};
    set(i, words[i * i % 5]);
}
/* Different where only who reads them whole can tell. */
static void fill_alike(size_t i)
{
    setf(i, "so they all begin and %03zu in the middle and so all of them end", i * i % 300);
}
static void fill_unique(size_t i)
{
    setf(i, "value %zu of its kind%s", i * 7, i % 9 == 0 ? "" : "!");
}
static void fill_integers(size_t i)
{
    setf(i, "%zu", i * 2654435761u % 60000);
}
static void fill_negative(size_t i)
{
    setf(i, "%d", (int)(i * 2654435761u % 60000) - 30000);
}
static void fill_rising(size_t i)
{
    setf(i, "%zu", 1000000000000 + i * 3 + i % 2);
}
static void fill_stepping(size_t i)
{
    setf(i, "%zu", 1000000000000 + i * 9000 + i * 2654435761u % 8000);
}
static void fill_leaping(size_t i)
{
    setf(i, "%zu", 1000000000000 + i * 5000000 + i * 2654435761u % 4000000);
}
static void fill_exceptions(size_t i)
{
    if (i % 20 == 0)
        set(i, i % 40 == 0 ? "-" : "null");
    else
        fill_integers(i);
}
static void fill_decimals(size_t i)
{
    setf(i, "%zu.%02zu", i * 31 % 9000, i * 37 % 100);
}
static void fill_addresses(size_t i)
{
    setf(i, "10.%zu.%zu.7", i * 7 % 256, i * 31 % 256);
}
static void fill_stamps(size_t i)
{
    setf(i, "2024-03-%02zuT12:%02zu:%02zu.%03zuZ", 1 + i / 100, i / 60 % 60, i % 60, i % 1000);
}
static void fill_clf(size_t i)
{
    setf(i, "%02zu/May/2015:10:%02zu:%02zu +0000", 1 + i / 100, i / 60 % 60, i % 60);
}
static void fill_floats(size_t i)
{
    uint32_t bits = 0x42800000u + (uint32_t)i * 7919;
    struct value_form form = {.type = VALUE_FLOAT32};
    texts[i][value_format(&form, bits, (uint8_t *)texts[i])] = 0;
    set(i, texts[i]);
}
static void fill_numbered(size_t i)
{
    setf(i, "order-%06zu", i * 7);
}
static void set_uuid(size_t i, size_t k)
{
    uint64_t x = (k + 1) * UINT64_C(0x9e3779b97f4a7c15),
             y = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    setf(i, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(x >> 32), (unsigned)(x & 0xffff),
         (unsigned)(x >> 16 & 0xfff), (unsigned)(y & 0xfff), (unsigned long long)(y >> 16));
}
static void fill_uuids(size_t i)
{
    set_uuid(i, i);
}
static void fill_hex(size_t i)
{
    setf(i, "%016llx", (unsigned long long)((i + 1) * UINT64_C(0x9e3779b97f4a7c15)));
}
/* Each twice, and still no dictionary. */
static void fill_integers_again(size_t i)
{
    setf(i, "%zu", 1000000000000 + i / 2 * 7919 % 500 * 50);
}
static void fill_uuids_again(size_t i)
{
    set_uuid(i, i / 2);
}
static void fill_made_ids(size_t i)
{
    struct value_form form = {.type = VALUE_BASE64URL, .a = 20};
    uint8_t raw[16] = {1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, (uint8_t)(i >> 8), (uint8_t)i};
    texts[i][value_unpack(&form, raw, (uint8_t *)texts[i])] = 0;
    set(i, texts[i]);
}
static void fill_zeros(size_t i)
{
    setf(i, "?value %zu", i);
    texts[i][0] = 0;
    cells[i].len = (uint32_t)strlen(texts[i] + 1) + 1;
}

static const struct kind kinds[] = {
    {"constant", fill_constant, 0, COLUMN_CONSTANT, -1, 20},
    {"words", fill_words, 0, COLUMN_DICTIONARY, TEXT, 1050},
    {"alike", fill_alike, 0, COLUMN_DICTIONARY, TEXT, SIZE_MAX},
    {"unique", fill_unique, 0, COLUMN_SEQUENCE, TEXT, SIZE_MAX},
    {"integers", fill_integers, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 2020},
    {"negative", fill_negative, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 2020},
    {"rising", fill_rising, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 1020},
    {"stepping", fill_stepping, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 2020},
    {"leaping", fill_leaping, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 3020},
    {"exceptions", fill_exceptions, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 2250},
    {"decimals", fill_decimals, 0, COLUMN_SEQUENCE, VALUE_DECIMAL, 3020},
    {"addresses", fill_addresses, 0, COLUMN_SEQUENCE, VALUE_IPV4, 4020},
    {"stamps", fill_stamps, 0, COLUMN_SEQUENCE, VALUE_TIMESTAMP, 4020},
    {"clf", fill_clf, 0, COLUMN_SEQUENCE, VALUE_CLF, 3020},
    {"floats", fill_floats, 0, COLUMN_SEQUENCE, VALUE_FLOAT32, 4020},
    {"numbered", fill_numbered, 0, COLUMN_SEQUENCE, VALUE_NUMBERED, 1030},
    {"uuids", fill_uuids, 0, COLUMN_SEQUENCE, VALUE_UUID, 16020},
    {"hex", fill_hex, 0, COLUMN_SEQUENCE, VALUE_HEX, 8020},
    {"integers again", fill_integers_again, 0, COLUMN_SEQUENCE, VALUE_INTEGER, 2020},
    {"uuids again", fill_uuids_again, 0, COLUMN_SEQUENCE, VALUE_UUID, 16020},
    {"made ids", fill_made_ids, COLUMN_IDS, COLUMN_SEQUENCE, VALUE_BASE64URL, 15020},
    {"zeros", fill_zeros, COLUMN_ANY_BYTES, COLUMN_SEQUENCE, COUNTED, SIZE_MAX},
};

static void test_kinds(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 4, 5, 31, 32, 33, 64, 65, 200, 256, 257, VALUES_MAX};
    int form, coder;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (size_t i = 0; i < VALUES_MAX; i++)
            kinds[k].fill(i);
        for (size_t j = 0; j < ARRAY_LEN(counts); j++)
            for (unsigned more = 0; more < 4; more++)
                round_trip(counts[j], kinds[k].flags | more, &form, &coder);
        size_t bytes = round_trip(1000, kinds[k].flags, &form, &coder);
        if (form != kinds[k].form || (kinds[k].coder >= 0 && coder != kinds[k].coder) ||
            bytes > kinds[k].bytes_max)
            fail_msg("%s: form %d, coder %d, %zu bytes", kinds[k].name, form, coder, bytes);
    }
}

/* Values of two kinds, mixed in any proportion. */
static void test_mixtures(void **state)
{
    (void)state;
    int form, coder;
    for (size_t a = 0; a < ARRAY_LEN(kinds); a++)
        for (size_t b = 0; b < ARRAY_LEN(kinds); b++)
            for (size_t every = 2; every < 40; every = every * 2 + 1) {
                for (size_t i = 0; i < 300; i++)
                    kinds[i % every == 0 ? b : a].fill(i);
                round_trip(300, kinds[a].flags | kinds[b].flags, &form, &coder);
            }
}

/* Any byte of a packed column changed, or its end cut off: refused, or other values, in bounds. */
static void test_damage(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct packed p;
        struct buf value = {0};
        size_t n = 70;
        for (size_t i = 0; i < n; i++)
            kinds[i % 11 == 10 ? (k + 1) % ARRAY_LEN(kinds) : k].fill(i);
        pack(&p, n, kinds[k].flags | COLUMN_ANY_BYTES);
        struct buf *streams[] = {&p.s.directory, &p.s.text, &p.s.planes};
        for (size_t s = 0; s < ARRAY_LEN(streams); s++)
            for (size_t at = 0; at < streams[s]->len; at++)
                for (unsigned change = 1; change < 256; change = change * 3 + 1) {
                    struct arena arena = {0};
                    struct column column;
                    uint8_t was = streams[s]->ptr[at];
                    const char *what = NULL;
                    streams[s]->ptr[at] = (uint8_t)(was ^ change);
                    uint8_t *planes = malloc(p.s.planes.len + 1);
                    if (p.s.planes.len != 0)
                        memcpy(planes, p.s.planes.ptr, p.s.planes.len);
                    struct stream_readers in = {
                        reader_of(slice_of(p.s.directory.ptr + 1, p.s.directory.len - 1)),
                        reader_of(p.s.text.len == 0 ? SLICE_LIT("") : buf_slice(&p.s.text)), planes,
                        planes + p.s.planes.len, n % 2 == 0};
                    enum rc rc = column_open(&column, n, p.s.directory.ptr[0], &in, &arena, &what);
                    assert_true(rc == RC_OK || rc == RC_CORRUPT ||
                                (rc == RC_UNSUPPORTED && what != NULL));
                    for (uint32_t i = 0; rc == RC_OK && i <= n; i++) {
                        value.len = 0;
                        bool found = column_get(&column, i, &value);
                        assert_true(!found || i < n);
                    }
                    streams[s]->ptr[at] = was;
                    free(planes);
                    arena_done(&arena);
                }
        buf_done(&value);
        packed_done(&p);
    }
}

static void test_unknown_numbers(void **state)
{
    (void)state;
    static const struct {
        uint8_t directory[4];
        size_t len;
        enum rc rc;
        const char *what;
    } cases[] = {
        {{3}, 1, RC_UNSUPPORTED, "form of a column"},
        {{1, 12}, 2, RC_UNSUPPORTED, "coder of values"},
        {{2, 1, 200}, 3, RC_UNSUPPORTED, "coder of values"},
        {{2, 0, 0}, 3, RC_CORRUPT, NULL},
        {{2, 5, 0}, 3, RC_CORRUPT, NULL}, /* more different values than values */
        {{0, 1}, 2, RC_CORRUPT, NULL},
        {{1}, 1, RC_CORRUPT, NULL},
        {{1, 2, 0, 1}, 4, RC_CORRUPT, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena arena = {0};
        struct column column;
        const char *what = NULL;
        uint8_t planes[1];
        struct stream_readers in = {reader_of(slice_of(cases[i].directory + 1, cases[i].len - 1)),
                                    reader_of(SLICE_LIT("")), planes, planes, false};
        assert_int_equal(column_open(&column, 3, cases[i].directory[0], &in, &arena, &what),
                         cases[i].rc);
        if (cases[i].what != NULL)
            assert_string_equal(what, cases[i].what);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_unknown_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
