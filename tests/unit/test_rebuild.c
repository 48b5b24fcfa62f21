/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog made again from segments, log and metadata.json: an index that took random writes is
 * as it was, over and over; and checking finds what was broken on purpose. */
#include "storage/check.h"
#include "storage/rebuild.h"
#include "tests/unit/store_bench.h"

static void ignore(void *arg, const char *text)
{
    (void)arg;
    (void)text;
}

static void keep(void *arg, const char *text)
{
    struct buf *all = arg;
    buf_put_str(all, text);
    buf_put_byte(all, '\n');
}

static struct check_result check(struct bench *b)
{
    struct check_result r = {0};
    struct err err = {0};
    struct buf said = {0};
    assert_int_equal(check_run(b->dir, keep, &said, &r, &err), RC_OK);
    buf_put_byte(&said, 0);
    if (r.damage != 0)
        fprintf(stderr, "%s", (const char *)said.ptr);
    buf_done(&said);
    return r;
}

static struct rebuild_result rebuild(struct bench *b)
{
    struct rebuild_result r = {0};
    struct err err = {0};
    struct buf said = {0};
    enum rc rc = rebuild_run(b->dir, keep, &said, &r, &err);
    buf_put_byte(&said, 0);
    if (rc != RC_OK || r.damage != 0)
        fail_msg("rebuild_run: %s\n%s", err.msg, (const char *)said.ptr);
    buf_done(&said);
    return r;
}

/* What a crash leaves, with nothing running. */
static void crash_and_stop(struct bench *b)
{
    run(b, "mkdir copy && cp -a wal catalog indices metadata.json copy");
    bench_close(b);
    run(b, "rm -rf wal catalog indices metadata.json && mv copy/* . && rmdir copy");
}

/* Steps: w writes, f flush, m merge; then R rebuild of a crashed directory,
 * S of one that was closed. */
static void model_rebuild(const char *steps, unsigned hash_bits, uint64_t gc_ms)
{
    struct bench b;
    struct model *m = calloc(1, sizeof *m);
    bench_init(&b);
    b.o.gc_deletes_ms = gc_ms;
    b.o.test_hash_bits = hash_bits;
    bench_open(&b);
    m->ix = make_index(&b, "i");
    m->seed = 11;
    struct err err = {0}; /* brings metadata.json up to date, which may take a second else */
    assert_int_equal(store_meta_put(b.store, 'x', SLICE_LIT("x"), SLICE_LIT("{}"), &err), RC_OK);
    for (const char *step = steps; *step != 0; step++) {
        if (*step == 'w')
            for (size_t i = 0; i < 20; i++)
                model_write(&b, m, 1 + (size_t)rand_r(&m->seed) % 64);
        if (*step == 'f')
            flush(&b);
        if (*step == 'm')
            merge(&b);
        if (*step != 'R' && *step != 'S')
            continue;
        index_release(m->ix);
        if (*step == 'R')
            crash_and_stop(&b);
        else
            bench_close(&b);
        run(&b, "rm -r catalog");
        b.o.test_hash_bits = 0; /* rebuilding hashes whole */
        assert_int_equal(rebuild(&b).docs, model_live(m));
        assert_int_equal(check(&b).damage, 0);
        bench_open(&b);
        model_take_index(&b, m, "i");
        model_check(&b, m);
    }
    index_release(m->ix);
    bench_done(&b);
    free(m);
}

static void test_random_writes(void **state)
{
    (void)state;
    model_rebuild("wRwfRwmwRwfwS", 0, 3600000);
}

static void test_after_tombstones_went(void **state)
{
    (void)state;
    model_rebuild("wfmwmmSwfmmmSwmR", 0, 0);
}

static void test_again_and_again(void **state)
{
    (void)state;
    model_rebuild("wfwRRRSSwS", 0, 3600000);
}

static void test_made_ids(void **state)
{
    (void)state;
    struct bench b;
    char id[6][MADE_ID_LEN + 1], text[32];
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (size_t i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "{\"n\":%zu}", i);
        struct write_item it = write_one(&b, item(ix, WRITE_INDEX, NULL, text));
        made_id_format(it.nonce, it.seq, id[i]);
        id[i][MADE_ID_LEN] = 0;
        if (i == 2) { /* the next ones are of another run */
            index_release(ix);
            bench_crash(&b);
            ix = get_index(&b, "i");
        }
    }
    put(&b, ix, id[1], "{\"by\":\"client\"}");
    write_one(&b, item(ix, WRITE_DELETE, id[4], NULL));
    index_release(ix);
    crash_and_stop(&b);
    run(&b, "rm -r catalog");
    assert_int_equal(rebuild(&b).docs, 5);
    bench_open(&b);
    ix = get_index(&b, "i");
    assert_int_equal(docs(ix), 5);
    assert_string_equal(get(&b, ix, id[0], NULL), "{\"n\":0}");
    assert_string_equal(get(&b, ix, id[1], NULL), "{\"by\":\"client\"}");
    assert_string_equal(get(&b, ix, id[4], NULL), "-");
    assert_string_equal(get(&b, ix, id[5], NULL), "{\"n\":5}");
    struct write_item it = write_one(&b, item(ix, WRITE_INDEX, NULL, "{}"));
    assert_int_equal(it.term, 3);
    assert_int_equal(it.seq, 8);
    assert_int_equal(write_one(&b, item(ix, WRITE_DELETE, id[5], NULL)).result, WRITE_DELETED);
    index_release(ix);
    bench_done(&b);
}

static void test_metadata(void **state)
{
    (void)state;
    struct bench b;
    struct err err = {0};
    struct buf value = {0};
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "with settings");
    struct index_meta meta = {SLICE_LIT("{\"index.codec\":\"zstd\"}"), SLICE_LIT("{\"m\":1}"),
                              SLICE_LIT("{\"a\":{}}"), SLICE_LIT("{\"e\":[1, 2]}"), 0};
    put(&b, ix, "1", "{}");
    flush(&b); /* the segment's header is older than the next change */
    assert_int_equal(store_index_set_meta(b.store, ix, &meta, 1, &err), RC_OK);
    assert_int_equal(store_meta_put(b.store, 'q', SLICE_LIT("a \"name\""), SLICE_LIT("[1]"), &err),
                     RC_OK);
    char cluster[32];
    snprintf(cluster, sizeof cluster, "%s", store_cluster_uuid(b.store));
    index_release(ix);
    crash_and_stop(&b);
    run(&b, "rm -r catalog");
    (void)rebuild(&b);
    bench_open(&b);
    assert_string_equal(store_cluster_uuid(b.store), cluster);
    ix = get_index(&b, "with settings");
    assert_int_equal(index_spec(ix)->codec, CODEC_ZSTD);
    assert_int_equal(index_spec(ix)->block_bytes, 8 * KIB);
    const struct index_meta *now = index_meta_acquire(ix);
    assert_true(slice_eq(now->settings, meta.settings) && slice_eq(now->mappings, meta.mappings));
    assert_true(slice_eq(now->aliases, meta.aliases) && slice_eq(now->extra, meta.extra));
    index_meta_release(now);
    assert_int_equal(store_meta_get(b.store, 'q', SLICE_LIT("a \"name\""), &value, &err), RC_OK);
    assert_true(slice_is(buf_slice(&value), "[1]"));
    buf_done(&value);
    /* Numbers go on behind those that were given out. */
    struct index *other = make_index(&b, "other");
    put(&b, other, "1", "{\"o\":1}");
    flush(&b);
    assert_string_equal(get(&b, ix, "1", NULL), "{}");
    assert_string_equal(get(&b, other, "1", NULL), "{\"o\":1}");
    index_release(other);
    index_release(ix);
    bench_done(&b);
}

/* A running store keeps both away. */
static void test_locked(void **state)
{
    (void)state;
    struct bench b;
    struct check_result c;
    struct rebuild_result r;
    struct err err = {0};
    bench_init(&b);
    bench_open(&b);
    assert_int_equal(check_run(b.dir, ignore, NULL, &c, &err), RC_BUSY);
    err = (struct err){0};
    assert_int_equal(rebuild_run(b.dir, ignore, NULL, &r, &err), RC_BUSY);
    bench_done(&b);
}

static void test_check_counts_and_finds(void **state)
{
    (void)state;
    struct bench b;
    struct check_result r = {0};
    struct buf said = {0};
    struct err err = {0};
    bench_init(&b);
    bench_open(&b);
    struct index *ix = make_index(&b, "i");
    for (int i = 0; i < 500; i++) {
        char id[16], text[128];
        snprintf(id, sizeof id, "%d", i % 400);
        snprintf(text, sizeof text, "{\"n\":%d,\"pad\":\"%080d\"}", i, i * 7919);
        put(&b, ix, id, text);
    }
    struct index_stats s;
    flush(&b);
    index_stats_get(ix, &s);
    index_release(ix);
    bench_close(&b);
    r = check(&b);
    assert_int_equal(r.damage, 0);
    assert_int_equal(r.docs, 400);
    assert_int_equal(r.rows, 500);
    assert_int_equal(r.blocks, s.blocks);
    assert_int_equal(r.catalog_bytes, s.catalog_bytes);
    run(&b, "printf XXXX | dd of=$(ls indices/*/*.seg | head -1) bs=1 seek=1000 conv=notrunc "
            "2>/dev/null");
    assert_int_equal(check_run(b.dir, keep, &said, &r, &err), RC_OK);
    buf_put_byte(&said, 0);
    assert_int_equal(r.damage, 1);
    assert_non_null(strstr((const char *)said.ptr, "checksum"));
    buf_done(&said);
    bench_open(&b);
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_writes),
        cmocka_unit_test(test_after_tombstones_went),
        cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_made_ids),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_check_counts_and_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
