/* SPDX-License-Identifier: Apache-2.0 */
/* Writing metadata.json, and the text that describes an index. */
#include "storage/metadata.h"

#include "storage/json.h"

#include <stdlib.h>

/* ---- one index */

static void put_member(struct buf *out, const char *name, struct slice value)
{
    buf_printf(out, ",\"%s\":", name);
    buf_put_slice(out, value.len == 0 ? SLICE_LIT("{}") : value);
}

void metadata_describe(struct index *index, struct buf *out)
{
    const struct index_meta *meta = index_meta_acquire(index);
    BUF_PUT_LIT(out, "{\"name\":");
    json_quote(slice_of(index->name, index->name_len), out);
    buf_printf(out,
               ",\"spec\":{\"codec\":\"%s\",\"level\":%d,\"block_bytes\":%u,\"packed_bytes\":%u,"
               "\"layout\":\"%s\",\"dictionary\":%s}",
               codec_text(index->spec.codec), index->spec.level, index->spec.block_bytes,
               index->spec.packed_bytes, block_layout_text(index->spec.layout),
               index->spec.dictionary ? "true" : "false");
    put_member(out, "settings", meta->settings);
    put_member(out, "mappings", meta->mappings);
    put_member(out, "aliases", meta->aliases);
    put_member(out, "extra", meta->extra);
    buf_put_byte(out, '}');
    index_meta_release(meta);
}

static bool read_codec(struct slice quoted, enum codec *out)
{
    for (int c = CODEC_NONE; c <= CODEC_ZSTD; c++)
        if (json_string_is(quoted, codec_text((enum codec)c))) {
            *out = (enum codec)c;
            return true;
        }
    return false;
}

static bool read_spec(struct json_value object, struct codec_spec *out)
{
    struct slice key;
    struct json_value v;
    bool codec = false;
    if (object.type != JSON_OBJECT)
        return false;
    for (struct json_scan s = json_enter(object); json_member(&s, &key, &v);) {
        uint64_t n = 0;
        bool number = v.type == JSON_NUMBER && json_u64(v.text, &n) && n <= INT32_MAX;
        if (json_string_is(key, "codec"))
            codec = read_codec(v.text, &out->codec);
        else if (json_string_is(key, "level") && number)
            out->level = (int)n;
        else if (json_string_is(key, "block_bytes") && number)
            out->block_bytes = (uint32_t)n;
        else if (json_string_is(key, "packed_bytes") && number)
            out->packed_bytes = (uint32_t)n;
        else if (json_string_is(key, "layout"))
            out->layout = json_string_is(v.text, "columnar") ? LAYOUT_COLUMNAR : LAYOUT_PLAIN;
        else if (json_string_is(key, "dictionary"))
            out->dictionary = v.type == JSON_TRUE;
    }
    return codec && out->block_bytes != 0;
}

bool metadata_read(struct slice text, struct metadata_about *out)
{
    struct metadata_about about = {0};
    enum json_type type;
    struct json_fault fault;
    struct slice key;
    struct json_value v;
    bool spec = false;
    if (!json_check(text, &type, &fault) || type != JSON_OBJECT)
        return false;
    for (struct json_scan s = json_enter(json_root(text)); json_member(&s, &key, &v);) {
        if (json_string_is(key, "name") && v.type == JSON_STRING)
            about.name = v.text;
        else if (json_string_is(key, "spec"))
            spec = read_spec(v, &about.spec);
        else if (json_string_is(key, "settings"))
            about.meta.settings = v.text;
        else if (json_string_is(key, "mappings"))
            about.meta.mappings = v.text;
        else if (json_string_is(key, "aliases"))
            about.meta.aliases = v.text;
        else if (json_string_is(key, "extra"))
            about.meta.extra = v.text;
    }
    *out = about;
    return spec && about.name.len != 0;
}

/* ---- the file */

struct blobs {
    struct buf *out;
    bool any;
};

static enum rc put_blob(struct slice name, struct slice value, void *arg)
{
    struct blobs *b = arg;
    if (b->any)
        buf_put_byte(b->out, ',');
    b->any = true;
    json_quote(name, b->out);
    buf_put_byte(b->out, ':');
    buf_put_slice(b->out, value); /* JSON, as store_meta_put asks for */
    return RC_OK;
}

static enum rc put_blobs(struct store *store, struct buf *out, struct err *err)
{
    BUF_PUT_LIT(out, ",\n\"blobs\":{");
    for (char kind = 'a', any = 0; kind <= 'z'; kind++) {
        size_t before = out->len;
        struct blobs b = {out, false};
        buf_printf(out, "%s\n\"%c\":{", any ? "," : "", kind);
        TRY(catalog_each(store->catalog, kind, put_blob, &b, err));
        if (b.any)
            buf_put_byte(out, '}');
        else
            out->len = before;
        any = any || b.any;
    }
    buf_put_byte(out, '}');
    return RC_OK;
}

static void put_indices(struct index **list, size_t count, struct buf *out)
{
    BUF_PUT_LIT(out, ",\n\"indices\":{");
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s\n\"%s\":{\"number\":%u,\"created\":%llu,\"about\":", i == 0 ? "" : ",",
                   list[i]->dir_name, list[i]->number, (unsigned long long)list[i]->created_ms);
        metadata_describe(list[i], out);
        buf_put_byte(out, '}');
    }
    BUF_PUT_LIT(out, "}}\n");
}

static void put_hex(struct buf *out, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%02x", p[i]);
}

enum rc metadata_write(struct store *store, struct err *err)
{
    char path[512];
    struct index **list = NULL;
    size_t count = 0;
    struct buf text = {0};
    enum rc rc;
    snprintf(path, sizeof path, "%s/metadata.json", store->path);
    /* Whoever comes later sees all that whoever came before has seen: what is written last is
     * newest. */
    pthread_mutex_lock(&store->metadata);
    atomic_store(&store->metadata_dirty, false);
    TRY_OUT(store_all(store, &list, &count));
    BUF_PUT_LIT(&text, "{\"format\":1,\"cluster\":\"");
    put_hex(&text, store->ids_raw, 16);
    BUF_PUT_LIT(&text, "\",\"node\":\"");
    put_hex(&text, store->ids_raw + 16, 16);
    buf_put_byte(&text, '"');
    TRY_OUT(put_blobs(store, &text, err));
    put_indices(list, count, &text);
    rc = text.failed ? err_set(err, RC_NOMEM, 0, "no memory for metadata.json")
                     : io_replace(path, buf_slice(&text), err);
out:
    if (rc != RC_OK)
        atomic_store(&store->metadata_dirty, true);
    store->metadata_ms = mono_ms();
    pthread_mutex_unlock(&store->metadata);
    for (size_t i = 0; i < count; i++)
        index_release(list[i]);
    free(list);
    buf_done(&text);
    return rc;
}

void metadata_changed(struct store *store)
{
    atomic_store(&store->metadata_dirty, true);
}

void metadata_tend(struct store *store, bool now)
{
    struct err err = {0};
    pthread_mutex_lock(&store->metadata);
    bool due = atomic_load(&store->metadata_dirty) &&
               (now || mono_ms() - store->metadata_ms >= METADATA_MS);
    pthread_mutex_unlock(&store->metadata);
    if (!due)
        return;
    enum rc rc = metadata_write(store, &err);
    if (atomic_exchange(&store->metadata_failing, rc != RC_OK) != (rc != RC_OK) && rc != RC_OK)
        store_event(store, 1, "metadata.json is not up to date: %s", err.msg);
}
