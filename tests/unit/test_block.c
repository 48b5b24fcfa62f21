/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: rows come back exactly, damage is always noticed, and a record with a sound checksum but
 * senseless content is refused part by part. */
#include "storage/block.h"

#include "config/limits.h"
#include "storage/bytes.h"

#include <setjmp.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmocka.h>

static const struct codec_spec specs[] = {
    {.codec = CODEC_NONE},
    {.codec = CODEC_LZ4},
    {.codec = CODEC_ZLIB, .level = 6},
    {.codec = CODEC_ZSTD, .level = 3},
    {.codec = CODEC_NONE, .layout = LAYOUT_COLUMNAR},
    {.codec = CODEC_LZ4, .layout = LAYOUT_COLUMNAR},
    {.codec = CODEC_ZLIB, .level = 6, .layout = LAYOUT_COLUMNAR},
    {.codec = CODEC_ZSTD, .level = 3, .layout = LAYOUT_COLUMNAR},
};

static void assert_slice(struct slice got, struct slice want)
{
    assert_int_equal(got.len, want.len);
    if (want.len != 0)
        assert_memory_equal(got.ptr, want.ptr, want.len);
}

static void assert_row(const struct row *got, const struct row *want, bool doc)
{
    assert_int_equal(got->seq, want->seq);
    assert_int_equal(got->version, want->version);
    assert_int_equal(got->nonce, want->nonce);
    assert_int_equal(got->term, want->term);
    assert_int_equal(got->kind, want->kind);
    assert_slice(got->id, want->id);
    assert_slice(got->routing, want->routing);
    assert_slice(got->doc, doc ? want->doc : SLICE_NONE);
}

static void round_trip(const struct codec_spec *spec, const struct row *rows, size_t count)
{
    struct buf out = {0};
    buf_put_str(&out, "what was there before");
    size_t start = out.len;
    assert_int_equal(block_pack(9, spec, NULL, rows, count, &out, NULL), RC_OK);
    assert_int_equal((out.len - start) % BLOCK_ALIGN, 0);
    /* A copy of just the size: a read behind the record is caught by the sanitizer. */
    size_t len = out.len - start;
    uint8_t *copy = malloc(len);
    memcpy(copy, out.ptr + start, len);
    buf_done(&out);

    struct block_header head;
    struct slice record = {copy, len};
    assert_int_equal(block_header_read(record, &head, NULL), RC_OK);
    assert_int_equal(head.record_len, len);
    assert_int_equal(head.rows, count);
    assert_int_equal(head.codec, spec->codec);
    assert_int_equal(head.level, spec->level);
    for (int want = BLOCK_META; want <= BLOCK_SCAN; want++) {
        struct block *block = NULL;
        struct err err = {0};
        assert_int_equal(
            block_open(record, 9, rows[0].seq, (enum block_want)want, NULL, &block, &err), RC_OK);
        assert_int_equal(block_rows(block), count);
        assert_int_equal(block_head(block)->first_seq, rows[0].seq);
        assert_true(want == BLOCK_META ||
                    block_memory(block) > (size_t)head.data_raw + head.aux_raw);
        struct block_scratch scratch = {0};
        uint64_t docs_bytes = 0;
        for (size_t i = 0; i < count; i++) {
            struct row row;
            size_t at = 0;
            docs_bytes += rows[i].doc.len;
            assert_int_equal(block_row_all(block, i, &scratch, &row, &err), RC_OK);
            assert_row(&row, &rows[i], want != BLOCK_META);
            assert_int_equal(block_find(block, rows[i].seq, &at), RC_OK);
            assert_int_equal(at, i);
            if (i + 1 == count || rows[i + 1].seq != rows[i].seq + 1)
                assert_int_equal(block_find(block, rows[i].seq + 1, &at), RC_NOT_FOUND);
        }
        assert_int_equal(block_docs_bytes(block), docs_bytes);
        block_scratch_done(&scratch);
        size_t at = 0;
        if (rows[0].seq > 0)
            assert_int_equal(block_find(block, rows[0].seq - 1, &at), RC_NOT_FOUND);
        assert_int_equal(block_find(block, UINT64_MAX, &at), RC_NOT_FOUND);
        block_close(block);
    }
    free(copy);
}

#define ROW_COUNT 700
enum {
    ODD_SEQS = 1,
    ODD_KINDS = 2,
    ODD_VERSIONS = 4,
    ODD_ROUTINGS = 8,
    ODD_RUNS = 16,
    ODD_DOCS = 32,
    ODD_ALL = 63
};

static char texts[ROW_COUNT][160];
static char ids[ROW_COUNT][LIMIT_ID_BYTES];

/* Rows that use the features in `odd`; documents one behind the other unless ODD_DOCS. */
static void make_rows(struct row *rows, size_t count, unsigned odd, char *arena)
{
    uint64_t seq = 1000;
    for (size_t i = 0; i < count; i++) {
        int n = snprintf(texts[i], sizeof texts[i],
                         "{\"n\":%zu,\"message\":\"GET /a/%zu HTTP/1.1\",\"status\":%d}", i, i * 31,
                         i % 7 == 0 ? 404 : 200);
        struct row *row = &rows[i];
        *row = (struct row){.seq = seq, .version = 1, .nonce = 77, .term = 3, .kind = ROW_MADE};
        seq += odd & ODD_SEQS ? 1 + i % 3 * 1000 : 1;
        row->doc = slice_of(texts[i], (size_t)n);
        if (!(odd & ODD_DOCS)) {
            memcpy(arena, texts[i], (size_t)n);
            row->doc.ptr = (uint8_t *)arena;
            arena += n;
        }
        if (odd & ODD_KINDS && i % 3 != 0) {
            row->kind = i % 3 == 1 ? ROW_CLIENT : ROW_TOMBSTONE;
            size_t len = i == 1 ? 512 : 1 + i % 20;
            memset(ids[i], 'a' + (int)(i % 26), len);
            row->id = slice_of(ids[i], len);
            if (row->kind == ROW_TOMBSTONE)
                row->doc = SLICE_NONE;
        }
        if (odd & ODD_VERSIONS)
            row->version = i % 5 == 0 ? UINT64_MAX : 1 + i;
        if (odd & ODD_ROUTINGS && i % 2 == 0)
            row->routing = slice_of("routing-value", 1 + i % 13);
        if (odd & ODD_RUNS) {
            row->nonce = i < count / 2 ? 5 : (UINT64_C(1) << 56) - 1;
            row->term = i < count / 4 ? 1 : UINT32_MAX;
        }
    }
}

static void test_round_trips(void **state)
{
    (void)state;
    static struct row rows[ROW_COUNT];
    static char arena[ROW_COUNT * sizeof texts[0]];
    static const size_t counts[] = {1, 2, 90, ROW_COUNT};
    for (unsigned odd = 0; odd <= ODD_ALL; odd++)
        for (size_t j = 0; j < ARRAY_LEN(counts); j++) {
            make_rows(rows, counts[j], odd, arena);
            for (size_t k = 0; k < ARRAY_LEN(specs); k++)
                round_trip(&specs[k], rows, counts[j]);
        }
}

static void test_edges(void **state)
{
    (void)state;
    char big[512];
    memset(big, 'x', sizeof big);
    const struct row cases[] = {
        {.seq = 0, .version = 1, .term = 1, .doc = SLICE_LIT("{}")},
        {.seq = UINT64_MAX - 1, .version = UINT64_MAX, .term = UINT32_MAX, .doc = SLICE_LIT("{}")},
        {.seq = 5, .version = 2, .term = 1, .kind = ROW_TOMBSTONE, .id = slice_of(big, 512)},
        {.seq = 5,
         .version = 1,
         .term = 1,
         .kind = ROW_CLIENT,
         .id = SLICE_LIT("\0"),
         .routing = slice_of(big, 512),
         .doc = SLICE_LIT("{\"a\":\"\xc3\xa9\"}")},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t k = 0; k < ARRAY_LEN(specs); k++)
            round_trip(&specs[k], &cases[i], 1);
}

/* Lengths that call for each width, and for none. */
static void test_lengths(void **state)
{
    (void)state;
    static const uint8_t bytes[1 << 17];
    struct row rows[40];
    for (size_t max = 1; max <= sizeof bytes; max *= 2)
        for (size_t min = 0; min <= 300; min += 150) {
            for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                size_t len = min + (i % 3 == 0 ? max - 1 : max * i / 64);
                rows[i] = (struct row){.seq = i,
                                       .version = 1,
                                       .term = 1,
                                       .doc = {bytes, len <= sizeof bytes ? len : sizeof bytes}};
            }
            for (size_t k = 0; k < ARRAY_LEN(specs); k++)
                round_trip(&specs[k], rows, ARRAY_LEN(rows));
        }
}

/* A frame that cannot be compressed costs no more than itself (B4). */
static void test_noise_is_stored_raw(void **state)
{
    (void)state;
    static uint8_t noise[8192];
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < sizeof noise; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        noise[i] = (uint8_t)x;
    }
    struct row row = {.version = 1, .term = 1, .doc = slice_of(noise, sizeof noise)};
    for (size_t k = 0; k < ARRAY_LEN(specs); k++) {
        struct buf out = {0};
        assert_int_equal(block_pack(1, &specs[k], NULL, &row, 1, &out, NULL), RC_OK);
        assert_true(out.len <= sizeof noise + 2 * BLOCK_ALIGN);
        buf_done(&out);
        round_trip(&specs[k], &row, 1);
    }
}

/* Every byte of a record, flipped: refused, or (padding) without effect. */
static void test_flips(void **state)
{
    (void)state;
    static struct row rows[20];
    static char arena[20 * sizeof texts[0]];
    make_rows(rows, ARRAY_LEN(rows), ODD_ALL, arena);
    for (size_t k = 0; k < ARRAY_LEN(specs); k++) {
        struct buf out = {0};
        struct block_header head;
        assert_int_equal(block_pack(9, &specs[k], NULL, rows, ARRAY_LEN(rows), &out, NULL), RC_OK);
        assert_int_equal(block_header_read(buf_slice(&out), &head, NULL), RC_OK);
        size_t used = BLOCK_HEADER_BYTES + head.meta_len + head.data_len + head.aux_len;
        for (size_t i = 0; i < out.len; i++) {
            struct block *block = NULL;
            struct err err = {0};
            out.ptr[i] ^= 1;
            enum rc rc = block_open(buf_slice(&out), 9, rows[0].seq, BLOCK_ALL, NULL, &block, &err);
            assert_int_equal(rc, i < used ? RC_CORRUPT : RC_OK);
            if (rc != RC_OK)
                assert_non_null(strstr(err.msg, "index 9: block at seq 1000: "));
            block_close(block);
            out.ptr[i] ^= 1;
        }
        for (size_t len = 0; len < out.len; len += 7) {
            struct block *block = NULL;
            assert_int_equal(
                block_open(slice_of(out.ptr, len), 9, rows[0].seq, BLOCK_ALL, NULL, &block, NULL),
                RC_CORRUPT);
        }
        buf_done(&out);
    }
}

static void test_another_block(void **state)
{
    (void)state;
    struct row row = {.seq = 7, .version = 1, .term = 1, .doc = SLICE_LIT("{}")};
    struct buf out = {0};
    struct block *block = NULL;
    struct err err = {0}, err2 = {0};
    assert_int_equal(block_pack(4, &specs[0], NULL, &row, 1, &out, NULL), RC_OK);
    assert_int_equal(block_open(buf_slice(&out), 3, 7, BLOCK_ALL, NULL, &block, &err), RC_CORRUPT);
    assert_non_null(strstr(err.msg, "index 4, seq 7"));
    assert_int_equal(block_open(buf_slice(&out), 4, 8, BLOCK_ALL, NULL, &block, &err2), RC_CORRUPT);
    buf_done(&out);
}

/* ---- records with a sound checksum */
static void put_record(struct buf *out, struct slice meta, struct slice data, uint32_t rows)
{
    out->len = 0;
    uint8_t head[BLOCK_HEADER_BYTES] = {'S', 'B', 'L', 'K', 1};
    put_u32(head + 8, 9);
    put_u64(head + 16, 100);
    put_u32(head + 24, rows);
    put_u32(head + 28, (uint32_t)meta.len);
    put_u32(head + 32, (uint32_t)meta.len);
    put_u32(head + 36, (uint32_t)data.len);
    put_u32(head + 40, (uint32_t)data.len);
    put_u32(head + 52, 3);
    buf_put(out, head, sizeof head);
    buf_put_slice(out, meta);
    buf_put_slice(out, data);
    while (out->len % BLOCK_ALIGN != 0)
        buf_put_byte(out, 0);
}

static void seal_record(struct buf *out)
{
    size_t frames = (size_t)get_u32(out->ptr + 28) + get_u32(out->ptr + 36);
    if (frames > out->len - BLOCK_HEADER_BYTES)
        frames = out->len - BLOCK_HEADER_BYTES;
    XXH3_state_t s;
    XXH3_64bits_reset(&s);
    XXH3_64bits_update(&s, out->ptr, 56);
    XXH3_64bits_update(&s, out->ptr + BLOCK_HEADER_BYTES, frames);
    put_u64(out->ptr + 56, XXH3_64bits_digest(&s));
}

#define RUN2                                                                                       \
    "\1"                                                                                           \
    "nonce77"                                                                                      \
    "\1\2" /* one run of two rows */
#define META(s)                                                                                    \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }

static const struct {
    struct slice meta;
    enum rc rc;
    const char *why;
} metas[] = {
    {META("\0" RUN2 "\2\3"), RC_OK, ""},
    {META("\0" RUN2 "\2\2"), RC_CORRUPT, "lengths of documents"},
    {META("\0" RUN2 "\2\4"), RC_CORRUPT, "lengths of documents"},
    {META("\0" RUN2 "\2"), RC_CORRUPT, "lengths of documents"},
    {META("\0" RUN2 "\2\3\0"), RC_CORRUPT, "bytes behind"},
    {META("\x40" RUN2 "\2\3"), RC_UNSUPPORTED, "features 64"},
    {META("\x10" RUN2 "\2\1\2"), RC_OK, ""},
    {META("\x10" RUN2 "\2\1\6"), RC_CORRUPT, "lengths of documents"}, /* a bit behind */
    {META("\x10" RUN2 "\2\1\0"), RC_CORRUPT, "lengths of documents"},
    {META("\x10" RUN2 "\2\1"), RC_CORRUPT, "lengths of documents"},
    {META("\x10" RUN2 "\2\0"), RC_CORRUPT, "lengths of documents"},
    {META("\x10" RUN2 "\x9\0"), RC_CORRUPT, "lengths of documents"},
    {META("\x10" RUN2 "\0\x21\0\0\0\0\0\0\0\0\0"), RC_CORRUPT, "lengths of documents"},
    {META("\0\0\0"), RC_CORRUPT, "runs"},
    {META("\0\3"
          "nonce77"
          "\1\1"
          "nonce77"
          "\1\1"
          "\2\3"),
     RC_CORRUPT, "runs"},
    {META("\0\1"
          "nonce77"
          "\1\1"
          "\2\3"),
     RC_CORRUPT, "runs"},
    {META("\0\1"
          "nonce77"
          "\1\3"
          "\2\3"),
     RC_CORRUPT, "runs"},
    {META("\0\1"
          "nonce77"
          "\0\2"
          "\2\3"),
     RC_CORRUPT, "runs"},
    {META("\0\2"
          "nonce77"
          "\1\2"
          "nonce77"
          "\1\0"
          "\2\3"),
     RC_CORRUPT, "runs"},
    {META("\1" RUN2 "\2\3\5"), RC_OK, ""},
    {META("\1" RUN2 "\2\3\0"), RC_CORRUPT, "seqs"},
    {META("\1" RUN2 "\2\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), RC_CORRUPT, "seqs"},
    {META("\2" RUN2 "\2\3\1\0\1k"), RC_OK, ""},
    {META("\2" RUN2 "\2\3\1\3\1k"), RC_CORRUPT, "ids"},
    {META("\2" RUN2 "\2\3\1\0\0"), RC_CORRUPT, "ids"},
    {META("\2" RUN2 "\2\3\1\0\2k"), RC_CORRUPT, "ids"},
    {META("\2" RUN2 "\2\3\1\0\x81\4k"), RC_CORRUPT, "ids"},
    {META("\2" RUN2 "\2\3\1\2\1\1kj"), RC_CORRUPT, "ids"}, /* a tombstone with a document */
    {META("\2" RUN2 "\5\0\1\2\1\1kj"), RC_OK, ""},
    {META("\2" RUN2 "\2\3\1"), RC_CORRUPT, "ids"},
    {META("\4" RUN2 "\2\3\1\2"), RC_OK, ""},
    {META("\4" RUN2 "\2\3\1\0"), RC_CORRUPT, "versions"},
    {META("\4" RUN2 "\2\3\1"), RC_CORRUPT, "versions"},
    {META("\x8" RUN2 "\2\3\0\1r"), RC_OK, ""},
    {META("\x8" RUN2 "\2\3\0\2r"), RC_CORRUPT, "routings"},
    {META("\x8" RUN2 "\2\3\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), RC_CORRUPT, "routings"},
};

static void test_senseless_meta(void **state)
{
    (void)state;
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(metas); i++) {
        struct block *block = NULL;
        struct err err = {0};
        put_record(&out, metas[i].meta, SLICE_LIT("{}[1]"), 2);
        seal_record(&out);
        enum rc rc = block_open(buf_slice(&out), 9, 100, BLOCK_ALL, NULL, &block, &err);
        if (rc != metas[i].rc || strstr(err.msg, metas[i].why) == NULL)
            fail_msg("case %zu: rc %d, %s", i, (int)rc, err.msg);
        block_close(block);
    }
    buf_done(&out);
}

static void test_senseless_header(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        enum rc rc;
        const char *why;
    } cases[] = {
        {4, 2, RC_UNSUPPORTED, "format version 2"},
        {5, 2, RC_UNSUPPORTED, "layout 2"},
        {5, 1, RC_CORRUPT, "meta frame"},
        {6, 4, RC_UNSUPPORTED, "codec 4"},
        {12, 1, RC_UNSUPPORTED, "dictionary 1"},
        {52, 11, RC_UNSUPPORTED, "flags 11"},
        {52, 2, RC_CORRUPT, "lengths"},    /* meta compressed, yet as long as its raw form */
        {24, 0, RC_CORRUPT, "lengths"},    /* no rows */
        {26, 0x11, RC_CORRUPT, "lengths"}, /* more rows than a block may have */
        {35, 0xff, RC_CORRUPT, "lengths"}, /* meta of 4 GB */
        {43, 0xff, RC_CORRUPT, "lengths"}, /* data of 4 GB */
        {39, 0x10, RC_CORRUPT, "lengths"}, /* data stored longer than its raw form */
    };
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct block *block = NULL;
        struct err err = {0}, err2 = {0};
        struct block_header head;
        put_record(&out, SLICE_LIT("\0" RUN2 "\2\3"), SLICE_LIT("{}[1]"), 2);
        out.ptr[cases[i].at] = cases[i].value;
        seal_record(&out);
        enum rc rc = block_open(buf_slice(&out), 9, 100, BLOCK_ALL, NULL, &block, &err);
        if (rc != cases[i].rc || strstr(err.msg, cases[i].why) == NULL)
            fail_msg("case %zu: rc %d, %s", i, (int)rc, err.msg);
        if (cases[i].at != 5 || cases[i].value != 1) /* what is wrong lies behind the header */
            assert_int_equal(block_header_read(buf_slice(&out), &head, &err2), cases[i].rc);
    }
    buf_done(&out);
}

static void test_made_ids(void **state)
{
    (void)state;
    static const struct {
        uint64_t nonce, seq;
        const char *id;
    } cases[] = {
        {0, 0, "AAAAAAAAAAAAAAAAAAAA"},
        {0x0123456789abcd, 41, "ASNFZ4mrzQAAAAAAAAAp"},
        {(UINT64_C(1) << 56) - 1, UINT64_MAX, "____________________"},
        {(UINT64_C(1) << 56) - 2, 0, "_________gAAAAAAAAAA"},
    };
    uint64_t nonce = 0, seq = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char id[MADE_ID_LEN];
        made_id_format(cases[i].nonce, cases[i].seq, id);
        assert_memory_equal(id, cases[i].id, MADE_ID_LEN);
        assert_true(made_id_parse(slice_of(id, MADE_ID_LEN), &nonce, &seq));
        assert_int_equal(nonce, cases[i].nonce);
        assert_int_equal(seq, cases[i].seq);
    }
    for (seq = 0; seq < 3 << MADE_ID_LAST_BITS; seq++) {
        char id[MADE_ID_LEN], near[MADE_ID_LEN];
        made_id_format(7, seq, id);
        made_id_format(7, seq >> MADE_ID_LAST_BITS << MADE_ID_LAST_BITS, near);
        made_id_last(seq, near + MADE_ID_LEN);
        assert_memory_equal(near, id, MADE_ID_LEN);
    }
    static const char *others[] = {"",
                                   "AAAAAAAAAAAAAAAAAAA",
                                   "AAAAAAAAAAAAAAAAAAAAA",
                                   "AAAAAAAAAAAAAAAAAAA=",
                                   "AAAAAAAAAA+AAAAAAAAA",
                                   "AAAAAAAAAA/AAAAAAAAA",
                                   "AAAAAAAAA\xc3\xa9_AAAAAAAA"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(made_id_parse(slice_str(others[i]), &nonce, &seq));
}

/* The worked example of docs/format.md, section 1.3, is what this code writes. */
static void test_example(void **state)
{
    (void)state;
    const struct row rows[] = {
        {.seq = 41,
         .version = 1,
         .nonce = 0x0123456789abcd,
         .term = 1,
         .kind = ROW_MADE,
         .doc = SLICE_LIT("{\"a\":1}")},
        {.seq = 42,
         .version = 3,
         .nonce = 0x0123456789abcd,
         .term = 1,
         .kind = ROW_CLIENT,
         .id = SLICE_LIT("k"),
         .doc = SLICE_LIT("{}")},
    };
    struct buf out = {0};
    assert_int_equal(block_pack(7, &specs[0], NULL, rows, 2, &out, NULL), RC_OK);
    round_trip(&specs[0], rows, 2);
    FILE *file = fopen("docs/format.md", "r");
    if (file == NULL) {
        buf_done(&out);
        skip();
    }
    char line[256];
    size_t at = 0;
    while (fgets(line, sizeof line, file) != NULL && strcmp(line, "```hex\n") != 0)
        ;
    while (fgets(line, sizeof line, file) != NULL && line[0] != '`')
        for (char *p = line, *end; at < out.len; p = end, at++) {
            unsigned long byte = strtoul(p, &end, 16);
            if (end == p)
                break;
            assert_int_equal(byte, out.ptr[at]);
        }
    fclose(file);
    assert_int_equal(at, out.len);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),    cmocka_unit_test(test_edges),
        cmocka_unit_test(test_lengths),        cmocka_unit_test(test_noise_is_stored_raw),
        cmocka_unit_test(test_flips),          cmocka_unit_test(test_another_block),
        cmocka_unit_test(test_senseless_meta), cmocka_unit_test(test_senseless_header),
        cmocka_unit_test(test_made_ids),       cmocka_unit_test(test_example),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    codec_thread_done();
    return failed;
}
