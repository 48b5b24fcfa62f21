/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values: what a type takes comes back exactly, what it would not give back it refuses. */
#include "storage/value.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* Does a text come back by the type, with the form that `sample` suggests? */
static bool comes_back(enum value_type type, const char *sample, const char *text)
{
    struct slice samples[] = {slice_str(sample)};
    struct value_form form;
    uint8_t out[VALUE_TEXT_MAX], bytes[VALUE_BYTES_MAX];
    int64_t v;
    size_t len;
    if (!value_guess(type, samples, 1, &form))
        return false;
    assert_true(value_form_sound(&form));
    if (value_is_number(type)) {
        if (!value_parse(&form, slice_str(text), &v))
            return false;
        len = value_format(&form, v, out);
    } else {
        assert_true(value_bytes(&form) <= VALUE_BYTES_MAX);
        if (!value_pack(&form, slice_str(text), bytes))
            return false;
        len = value_unpack(&form, bytes, out);
    }
    if (!slice_eq(slice_of(out, len), slice_str(text)))
        fail_msg("type %d: %s became %.*s", (int)type, text, (int)len, (const char *)out);
    return true;
}

static const struct {
    enum value_type type;
    const char *sample, *text;
    bool taken;
} texts[] = {
    {VALUE_INTEGER, "0", "0", true},
    {VALUE_INTEGER, "7", "-999999999999999999", true},
    {VALUE_INTEGER, "7", "-0", false},
    {VALUE_INTEGER, "7", "007", false},
    {VALUE_INTEGER, "7", "+7", false},
    {VALUE_INTEGER, "7", "1234567890123456789", false},
    {VALUE_INTEGER, "7", "", false},
    {VALUE_INTEGER, "7", "-", false},
    {VALUE_INTEGER, "7", "1e3", false},
    {VALUE_INTEGER, "7", "12345678", true},
    {VALUE_INTEGER, "7", "123456789", true},
    {VALUE_INTEGER, "7", "1234567890123456", true},
    {VALUE_INTEGER, "7", "12345678901234567", true},
    {VALUE_DECIMAL, "1.25", "-0.01", true},
    {VALUE_DECIMAL, "1.25", "0.00", true},
    {VALUE_DECIMAL, "1.25", "-0.00", false},
    {VALUE_DECIMAL, "1.25", "1.5", false},
    {VALUE_DECIMAL, "1.25", "01.25", false},
    {VALUE_DECIMAL, "1.25", ".25", false},
    {VALUE_DECIMAL, "1.25", "1.", false},
    {VALUE_DECIMAL, "1.25", "1.2.5", false},
    {VALUE_DECIMAL, "1.25", "12345678901234567.25", false},
    {VALUE_DECIMAL, "-", "-", false},
    {VALUE_DECIMAL, "1.25", "12345678.25", true},
    {VALUE_DECIMAL, "1.25", "123456789.25", true},
    {VALUE_IPV4, "10.0.0.1", "255.255.255.255", true},
    {VALUE_IPV4, "10.0.0.1", "0.0.0.0", true},
    {VALUE_IPV4, "10.0.0.1", "1.20.133.4", true},
    {VALUE_IPV4, "10.0.0.1", "256.0.0.0", false},
    {VALUE_IPV4, "10.0.0.1", "1.2.3.4000", false},
    {VALUE_IPV4, "10.0.0.1", "00.2.3.4", false},
    {VALUE_IPV4, "10.0.0.1", "1.2.3", false},
    {VALUE_IPV4, "10.0.0.1", "1.2.3.04", false},
    {VALUE_IPV4, "10.0.0.1", "1.2.3.4.", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "1969-12-31T23:59:59.999Z", true},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "0000-01-01T00:00:00.000Z", true},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "9999-12-31T23:59:59.999Z", true},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2024-02-29T00:00:00.000Z", true},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2023-02-29T00:00:00.000Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "1900-02-29T00:00:00.000Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2024-04-31T00:00:00.000Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2016-12-31T23:59:60.000Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2024-03-05T24:00:00.000Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2024-03-05T12:00:00.612z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612Z", "2024-03-05 12:00:00.612Z", false},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612671282Z", "2024-03-05T12:00:00.000000001Z", true},
    {VALUE_TIMESTAMP, "2024-03-05T12:00:00.612671282Z", "1677-01-01T00:00:00.000000000Z", false},
    {VALUE_TIMESTAMP, "2014-12-31 23:58:38", "1900-01-01 00:00:00", true},
    {VALUE_TIMESTAMP, "2014-12-31 23:58:38,123", "1900-01-01 00:00:00,999", true},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38+02:00", "2015-12-31T23:58:38+02:00", true},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38+02:00", "2015-12-31T23:58:38+01:00", false},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38-0000", "2015-12-31T23:58:38-0000", true},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38-0000", "2015-12-31T23:58:38+0000", false},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38.1234567891Z", "", false},
    {VALUE_TIMESTAMP, "2014-12-31T23:58:38.", "", false},
    {VALUE_CLF, "17/May/2015:10:05:03 +0000", "29/Feb/2000:23:59:59 +0000", true},
    {VALUE_CLF, "17/May/2015:10:05:03 -0730", "01/Dec/1999:00:00:00 -0730", true},
    {VALUE_CLF, "17/May/2015:10:05:03 +0000", "17/may/2015:10:05:03 +0000", false},
    {VALUE_CLF, "17/May/2015:10:05:03 +0000", "00/May/2015:10:05:03 +0000", false},
    {VALUE_FLOAT32, "-73.96705627441406", "40.802345275878906", true},
    {VALUE_FLOAT32, "-73.96705627441406", "0.10000000149011612", true},
    {VALUE_FLOAT32, "-73.96705627441406", "-1.0", true},
    {VALUE_FLOAT32, "-73.96705627441406", "8388607.5", true},
    {VALUE_FLOAT32, "-73.96705627441406", "0.001953125", true},
    {VALUE_FLOAT32, "-73.96705627441406", "0.0019531252328306437", true},
    {VALUE_FLOAT32, "-73.96705627441406", "0.1", false},
    {VALUE_FLOAT32, "-73.96705627441406", "00.5", false},
    {VALUE_FLOAT32, "-73.96705627441406", ".5", false},
    {VALUE_FLOAT32, "-73.96705627441406", "5.", false},
    {VALUE_FLOAT32, "-73.96705627441406", "2097152.12345678901", false},
    {VALUE_FLOAT32, "-73.96705627441406", "1.50", false},
    {VALUE_FLOAT32, "-73.96705627441406", "8388608.0", false},
    {VALUE_FLOAT32, "-73.96705627441406", "0.0", false},
    {VALUE_FLOAT32, "-73.96705627441406", "73.96705627441407", false},
    {VALUE_NUMBERED, "order-0042", "order-9999", true},
    {VALUE_NUMBERED, "order-0042", "order-12345", false},
    {VALUE_NUMBERED, "order-42", "order-12345", true},
    {VALUE_NUMBERED, "order-42", "order-042", false},
    {VALUE_NUMBERED, "order-42", "order", false},
    {VALUE_NUMBERED, "order-42", "Order-42", false},
    {VALUE_NUMBERED, "0042", "0007", true},
    {VALUE_UUID, "dad0575c-6c96-4d48-994b-e7865c8204fd", "00000000-ffff-4d48-994b-e7865c8204fd",
     true},
    {VALUE_UUID, "dad0575c-6c96-4d48-994b-e7865c8204fd", "DAD0575C-6c96-4d48-994b-e7865c8204fd",
     false},
    {VALUE_UUID, "DAD0575C-6C96-4D48-994B-E7865C8204FD", "DAD0575C-6C96-4D48-994B-E7865C8204FD",
     true},
    {VALUE_UUID, "dad0575c-6c96-4d48-994b-e7865c8204fd", "dad0575c-6c96-4d48-994be-7865c8204fd",
     false},
    {VALUE_HEX, "239c390dd26d6449", "ffffffffffffffff", true},
    {VALUE_HEX, "239c390dd26d6449", "fffffffffffffff", false},
    {VALUE_HEX, "239C390DD26D6449", "FFFFFFFFFFFFFFFF", true},
    {VALUE_HEX, "239c390dd26d6449", "239C390DD26D6449", false},
    {VALUE_HEX, "239c390dd26d644", "239c390dd26d644", false},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAAAAp", "____________________", true},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAAAAp", "ASNFZ4mrzQAAAAAAA+Ap", false},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAAAAAAA", "_____________________w", true},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAAAAAAA", "______________________", false},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAAAA", "ASNFZ4mrzQAAAAAAAAA", true},
    {VALUE_BASE64URL, "ASNFZ4mrzQAAAAAAA", "ASNFZ4mrzQAAAAAAA", false},
};

/* A value of any type and form that may do for it. */
struct outcome {
    bool fits;
    int64_t v;
    uint8_t bytes[VALUE_BYTES_MAX];
};

static struct outcome outcome_of(const struct value_form *form, struct slice text)
{
    struct outcome o = {0};
    o.fits = value_is_number(form->type) ? value_parse(form, text, &o.v)
                                         : value_pack(form, text, o.bytes);
    return o;
}

/* Every byte of every text, in turn each that there is, in memory that ends with the text. */
static void test_other_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct slice sample = slice_str(texts[i].sample);
        size_t len = strlen(texts[i].text);
        uint8_t *copy = malloc(len + 1), out[VALUE_TEXT_MAX];
        struct value_form form;
        if (sample.len == 0 || !value_guess(texts[i].type, &sample, 1, &form)) {
            free(copy);
            continue;
        }
        assert_true(value_candidates(sample) >> texts[i].type & 1);
        for (size_t at = 0; at < len; at++)
            for (unsigned c = 0; c < 256; c++) {
                uint8_t *text = copy + 1;
                memcpy(text, texts[i].text, len);
                text[at] = (uint8_t)c;
                struct outcome o = outcome_of(&form, slice_of(text, len));
                if (!o.fits)
                    continue;
                size_t n = value_is_number(form.type) ? value_format(&form, o.v, out)
                                                      : value_unpack(&form, o.bytes, out);
                assert_true(slice_eq(slice_of(out, n), slice_of(text, len)));
            }
        free(copy);
    }
}

/* Many at once are what they are one by one: the texts of a type, each next to each. */
static void test_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct slice sample = slice_str(texts[i].sample);
        struct value_form form;
        if (sample.len == 0 || !value_guess(texts[i].type, &sample, 1, &form))
            continue;
        for (size_t j = 0; j < ARRAY_LEN(texts); j++)
            for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
                const char *run[] = {texts[i].sample, texts[j].text, texts[k].text};
                struct cell cells[3];
                uint8_t bytes[3 * VALUE_BYTES_MAX];
                int64_t numbers[3];
                size_t size = value_is_number(form.type) ? 0 : value_bytes(&form), fit = 0;
                if (texts[j].type != form.type || texts[k].type != form.type)
                    continue;
                for (size_t n = 0; n < 3; n++)
                    cells[n] = (struct cell){(const uint8_t *)run[n], (uint32_t)strlen(run[n]), 0};
                size_t did = size == 0 ? value_parse_run(&form, cells, 3, numbers)
                                       : value_pack_run(&form, cells, 3, bytes);
                for (; fit < 3; fit++) {
                    struct outcome o = outcome_of(&form, cell_slice(&cells[fit]));
                    if (!o.fits)
                        break;
                    if (size == 0)
                        assert_int_equal(numbers[fit], o.v);
                    else
                        assert_memory_equal(bytes + fit * size, o.bytes, size);
                }
                assert_int_equal(did, fit);
            }
    }
}

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (comes_back(texts[i].type, texts[i].sample, texts[i].text) != texts[i].taken)
            fail_msg("type %d, %s by %s: not %d", (int)texts[i].type, texts[i].text,
                     texts[i].sample, texts[i].taken);
}

/* The form of decimals comes from all samples. */
static void test_decimal_forms(void **state)
{
    (void)state;
    static const struct {
        const char *samples[3];
        uint32_t a, b;
    } cases[] = {
        {{"17.14", "33.37", "0.50"}, 2, 2},
        {{"17.14", "12.5", "1.0"}, 2, 1},
        {{"17.14", "12", "1.5"}, 2, 0},
        {{"3.5", "-", "1.25"}, 2, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct slice samples[3];
        struct value_form form;
        for (size_t k = 0; k < 3; k++)
            samples[k] = slice_str(cases[i].samples[k]);
        assert_true(value_guess(VALUE_DECIMAL, samples, 3, &form));
        assert_int_equal(form.a, cases[i].a);
        assert_int_equal(form.b, cases[i].b);
        for (size_t k = 0; k < 3; k++) {
            uint8_t out[VALUE_TEXT_MAX];
            int64_t v;
            if (cases[i].samples[k][0] == '-')
                continue;
            assert_true(value_parse(&form, samples[k], &v));
            assert_true(slice_eq(slice_of(out, value_format(&form, v, out)), samples[k]));
        }
    }
}

/* Shortest text that reads back as the double of the same value, as other printers have it. */
static void test_floats(void **state)
{
    (void)state;
    const struct value_form form = {.type = VALUE_FLOAT32};
    uint32_t bits = 0x3b000000; /* 2^-9 */
    for (size_t n = 0; bits < 0x4b000000 && n < 400000; n++) {
        float f;
        char want[64];
        uint8_t got[VALUE_TEXT_MAX];
        int digits = 1;
        memcpy(&f, &bits, 4);
        do
            snprintf(want, sizeof want, "%.*g", digits, (double)f);
        while (strtod(want, NULL) != (double)f && digits++ < 17);
        size_t len = value_format(&form, bits, got);
        got[len] = 0;
        assert_true(len > 2 && memchr(got, '.', len) != NULL);
        assert_true(strtod((char *)got, NULL) == (double)f);
        if (strchr(want, 'e') == NULL && strchr(want, '.') != NULL)
            assert_string_equal((char *)got, want);
        int64_t v;
        assert_true(value_parse(&form, slice_of(got, len), &v));
        assert_int_equal(v, bits);
        bits += n % 3 == 0 ? 1 : 2003; /* powers of two and their neighbours, too */
        if (n % 1000 == 0)
            bits = (bits & 0xff800000) + 0x00800000 - 2;
    }
    assert_int_equal(value_format(&form, 0, (uint8_t[VALUE_TEXT_MAX]){0}), 0);
    assert_int_equal(value_format(&form, 0x7fc00000, (uint8_t[VALUE_TEXT_MAX]){0}), 0);
}

/* Every day from year 0 to 9999 is the one after the day before. */
static void test_days(void **state)
{
    (void)state;
    const struct value_form form = {.type = VALUE_TIMESTAMP};
    char before[VALUE_TEXT_MAX] = "";
    for (int64_t day = -719528; day <= 2932896; day++) {
        char text[VALUE_TEXT_MAX];
        int64_t v;
        size_t len = value_format(&form, day * 86400, (uint8_t *)text);
        assert_int_equal(len, 19);
        text[len] = 0;
        assert_true(strcmp(before, text) < 0);
        assert_true(value_parse(&form, slice_str(text), &v));
        assert_int_equal(v, day * 86400);
        memcpy(before, text, len + 1);
    }
    assert_string_equal(before, "9999-12-31T00:00:00");
    assert_int_equal(value_format(&form, -719528 * INT64_C(86400) - 1, (uint8_t *)before), 0);
    assert_int_equal(value_format(&form, 2932897 * INT64_C(86400), (uint8_t *)before), 0);
}

/* Any number in any sound form gives a text within bounds, or none (V3). */
static void test_any_number(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN, UINT32_MAX, INT64_C(1) << 32};
    static const uint8_t prefix[VALUE_PREFIX_MAX];
    uint8_t out[VALUE_TEXT_MAX], bytes[VALUE_BYTES_MAX];
    memset(bytes, 0xa5, sizeof bytes);
    for (int type = 0; type < VALUE_TYPE_END + 3; type++)
        for (uint32_t a = 0; a < 300; a++)
            for (uint32_t b = 0; b < 40; b++) {
                struct value_form form = {(enum value_type)type, a, b * b * b, SLICE_NONE};
                if (type == VALUE_NUMBERED)
                    form.prefix = slice_of(prefix, sizeof prefix);
                if (!value_form_sound(&form))
                    continue;
                for (size_t i = 0; value_is_number(form.type) && i < ARRAY_LEN(numbers); i++)
                    assert_true(value_format(&form, numbers[i], out) <= VALUE_TEXT_MAX);
                if (!value_is_number(form.type)) {
                    assert_true(value_bytes(&form) <= VALUE_BYTES_MAX);
                    assert_true(value_unpack(&form, bytes, out) <= VALUE_TEXT_MAX);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),       cmocka_unit_test(test_decimal_forms),
        cmocka_unit_test(test_other_bytes), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_floats),      cmocka_unit_test(test_days),
        cmocka_unit_test(test_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
