/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks written by earlier releases are read for ever: the files in tests/golden/ never change.
 * `test_golden --write` makes them anew, for a layout that has none yet. */
#include "config/buf.h"
#include "storage/block.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROWS     40
#define INDEX_NO 3

static const struct {
    const char *path;
    struct codec_spec spec;
} files[] = {
    {"tests/golden/block_plain_none.blk", {.codec = CODEC_NONE}},
    {"tests/golden/block_plain_zstd.blk", {.codec = CODEC_ZSTD, .level = 3}},
    {"tests/golden/block_columnar_none.blk", {.codec = CODEC_NONE, .layout = LAYOUT_COLUMNAR}},
    {"tests/golden/block_columnar_zstd.blk",
     {.codec = CODEC_ZSTD, .level = 3, .layout = LAYOUT_COLUMNAR}},
    {"tests/golden/block_columnar_lz4.blk", {.codec = CODEC_LZ4, .layout = LAYOUT_COLUMNAR}},
    {"tests/golden/block_columnar_zlib.blk",
     {.codec = CODEC_ZLIB, .level = 6, .layout = LAYOUT_COLUMNAR}},
};

static char texts[ROWS][600], ids[ROWS][40];
static struct row rows[ROWS];

/* Something of every coder. */
static void make_rows(void)
{
    for (unsigned i = 0; i < ROWS; i++) {
        int n = snprintf(
            texts[i], sizeof texts[i],
            "{\"message\":\"10.0.0.%u - [17/May/2015:10:05:%02u +0000] GET /p/%u\",\"clientip\":"
            "\"10.0.0.%u\",\"timestamp\":\"17/May/2015:10:05:%02u +0000\",\"request\":\"/p/%u\","
            "\"@timestamp\":\"2015-05-17T10:05:%02u.%03uZ\",\"sql\":\"2015-05-17 10:%02u:03\","
            "\"bytes\":%d,\"price\":%u.%u,\"at\":[-73.96705627441406,%s],\"trace\":"
            "\"dad0575c-6c96-4d48-994b-e7865c82%04x\",\"hash\":\"239c390dd26d%04x\",\"order\":"
            "\"order-%05u\",\"tags\":[\"a\",\"b%u\"],\"same\":\"always\",\"name\":\"n%u of "
            "\\\"%u\\\"\"%s}",
            i, i, i % 7, i, i, i % 7, i, i * 37 % 1000, i, (int)(i * 999) - 5000, i, i % 10,
            i % 9 == 8 ? "0.1" : "40.802345275878906", i * 7919, i * 31337 % 65536, i * 3, i % 3,
            i * i, i, i % 5 == 0 ? ",\"more\":null" : "");
        assert_true(n > 0 && (size_t)n < sizeof texts[i]);
        rows[i] = (struct row){.seq = 100 + i,
                               .version = 1 + i % 3,
                               .nonce = 0x0123456789abcd,
                               .term = 2,
                               .kind = ROW_CLIENT,
                               .doc = slice_of(texts[i], (size_t)n)};
        n = snprintf(ids[i], sizeof ids[i],
                     i % 10 == 9 ? "other %u" : "00000000-6c96-4d48-994b-e7865c82%04x", i * 7919);
        rows[i].id = slice_of(ids[i], (size_t)n);
        if (i % 8 == 7)
            rows[i].routing = SLICE_LIT("r");
    }
    rows[5].kind = ROW_TOMBSTONE;
    rows[5].doc = SLICE_NONE;
    rows[6].kind = ROW_MADE;
    rows[6].id = SLICE_NONE;
    rows[9].doc = SLICE_LIT("{\"another\":[1,2,3,4,5]}");
    rows[10].doc = SLICE_LIT("not JSON");
}

static bool slurp(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "rb");
    uint8_t tmp[4096];
    size_t n;
    if (file == NULL)
        return false;
    while ((n = fread(tmp, 1, sizeof tmp, file)) > 0)
        buf_put(out, tmp, n);
    fclose(file);
    return true;
}

static void test_golden(void **state)
{
    (void)state;
    make_rows();
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        struct buf record = {0};
        struct block_scratch scratch = {0};
        struct block *block = NULL;
        struct err err = {0};
        if (!slurp(files[f].path, &record)) {
            if (f == 0)
                skip(); /* not run from the project's directory */
            fail_msg("%s is missing", files[f].path);
        }
        if (block_open(buf_slice(&record), INDEX_NO, 100, BLOCK_ALL, NULL, &block, &err) != RC_OK)
            fail_msg("%s: %s", files[f].path, err.msg);
        assert_int_equal(block_rows(block), ROWS);
        assert_int_equal(block_head(block)->layout, files[f].spec.layout);
        assert_int_equal(block_head(block)->codec, files[f].spec.codec);
        for (size_t i = 0; i < ROWS; i++) {
            struct row row;
            assert_int_equal(block_row_all(block, i, &scratch, &row, &err), RC_OK);
            assert_true(row.seq == rows[i].seq && row.version == rows[i].version &&
                        row.nonce == rows[i].nonce && row.term == rows[i].term &&
                        row.kind == rows[i].kind);
            assert_true(slice_eq(row.id, rows[i].id) && slice_eq(row.routing, rows[i].routing) &&
                        slice_eq(row.doc, rows[i].doc));
        }
        block_close(block);
        block_scratch_done(&scratch);
        buf_done(&record);
    }
}

static int write_missing(void)
{
    make_rows();
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        struct buf record = {0};
        FILE *file = fopen(files[f].path, "wbx");
        if (file == NULL)
            continue;
        if (block_pack(INDEX_NO, &files[f].spec, NULL, rows, ROWS, &record, NULL) != RC_OK ||
            fwrite(record.ptr, 1, record.len, file) != record.len)
            return 1;
        fclose(file);
        buf_done(&record);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
    };
    int failed = argc == 2 && strcmp(argv[1], "--write") == 0
                     ? write_missing()
                     : cmocka_run_group_tests(tests, NULL, NULL);
    codec_thread_done();
    return failed;
}
