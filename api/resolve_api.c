/* SPDX-License-Identifier: Apache-2.0 */
/* GET _resolve/index: what an expression stands for, indices, aliases and data streams apart. */
#include "api/access.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/settings.h"

#include <stdlib.h>

/* An alias or data stream and one of its indices. */
struct pair {
    size_t at, len; /* name, in text */
    size_t index;   /* position in the view */
};

struct resolve {
    struct api_call *call;
    struct names_view view;
    struct names_options options;
    struct slice asked;
    struct buf text;
    struct buf pairs[2]; /* of struct pair: aliases, data streams */
    bool *named;         /* of the words asked for: stands for something */
};

enum { ALIASES, STREAMS };

static bool next_word(struct slice list, size_t *at, struct slice *word)
{
    if (*at > list.len || list.len == 0)
        return false;
    const uint8_t *comma = memchr(list.ptr + *at, ',', list.len - *at);
    size_t end = comma == NULL ? list.len : (size_t)(comma - list.ptr);
    *word = slice_of(list.ptr + *at, end - *at);
    *at = end + 1;
    return true;
}

static bool is_wild(struct slice word)
{
    return memchr(word.ptr, '*', word.len) != NULL || slice_is(word, "_all");
}

/* Does the expression choose this name? Wildcards pass over what they are not asked to expand to.
 */
static bool chosen(struct resolve *r, struct slice name, bool closed, bool hidden)
{
    struct slice word;
    bool yes = false;
    if (!access_may(r->call, name, USERS_VIEW))
        return false;
    for (size_t at = 0, w = 0; next_word(r->asked, &at, &word); w++) {
        bool shown = !hidden || (r->options.expand & EXPAND_HIDDEN) != 0 ||
                     (word.len != 0 && word.ptr[0] == '.' && name.ptr[0] == '.');
        bool expands = shown && (r->options.expand & (closed ? EXPAND_CLOSED : EXPAND_OPEN)) != 0;
        bool match = is_wild(word) ? expands && names_in_list(word, name) : slice_eq(word, name);
        r->named[w] |= match;
        yes |= match;
    }
    return yes;
}

static void add_pair(struct resolve *r, int kind, struct slice name, size_t index)
{
    struct pair pair = {r->text.len, name.len, index};
    buf_put_slice(&r->text, name);
    buf_put(&r->pairs[kind], &pair, sizeof pair);
}

/* Names of the aliases of an index; those that are chosen are gathered. With out: listed there. */
static void each_alias(struct resolve *r, size_t i, struct buf *out)
{
    struct slice key;
    struct json_value properties, value, aliases = json_value_of(r->view.meta[i]->aliases);
    struct json_scan scan = json_enter(aliases);
    for (size_t n = 0; aliases.type == JSON_OBJECT && json_member(&scan, &key, &properties);) {
        struct buf name = {0};
        json_unquote(key, &name);
        bool hidden = json_find(properties, "is_hidden", &value) && value.type == JSON_TRUE;
        if (out == NULL && chosen(r, buf_slice(&name), false, hidden)) {
            add_pair(r, ALIASES, buf_slice(&name), i);
        } else if (out != NULL && access_may(r->call, buf_slice(&name), USERS_VIEW)) {
            if (n++ != 0)
                buf_put_byte(out, ',');
            buf_put_slice(out, key);
        }
        buf_done(&name);
    }
}

static void put_index(struct resolve *r, size_t i, struct buf *out)
{
    const struct names_info *info = &r->view.info[i];
    struct buf aliases = {0};
    each_alias(r, i, &aliases);
    if (out->ptr[out->len - 1] != '[')
        buf_put_byte(out, ',');
    buf_put_byte(out, '{');
    json_cstr(out, "name", index_name(r->view.index[i]));
    if (aliases.len != 0) {
        json_key(out, "aliases");
        buf_printf(out, "[%.*s]", (int)aliases.len, (const char *)aliases.ptr);
    }
    json_key(out, "attributes");
    buf_printf(out, "[%s\"%s\"]", info->hidden ? "\"hidden\"," : "",
               info->closed ? "closed" : "open");
    if (info->stream.len != 0)
        json_str(out, "data_stream", info->stream);
    buf_put_byte(out, '}');
    buf_done(&aliases);
}

/* By name, then by index. */
static int order(const void *a, const void *b, void *text)
{
    const struct pair *x = (const struct pair *)a, *y = (const struct pair *)b;
    const uint8_t *p = (const uint8_t *)text;
    int n = slice_cmp(slice_of(p + x->at, x->len), slice_of(p + y->at, y->len));
    return n != 0 ? n : (x->index > y->index) - (x->index < y->index);
}

/* [{"name":…,"indices":[…]}] */
static void put_pairs(struct resolve *r, int kind, const char *title, struct buf *out)
{
    size_t count = r->pairs[kind].len / sizeof(struct pair);
    struct pair *pair = (struct pair *)(void *)r->pairs[kind].ptr;
    json_key(out, title);
    buf_put_byte(out, '[');
    if (count != 0)
        qsort_r(pair, count, sizeof *pair, order, r->text.ptr);
    for (size_t i = 0; i < count;) {
        struct slice name = slice_of(r->text.ptr + pair[i].at, pair[i].len);
        buf_put_str(out, i == 0 ? "{" : ",{");
        json_str(out, "name", name);
        json_key(out, kind == ALIASES ? "indices" : "backing_indices");
        buf_put_byte(out, '[');
        for (size_t n = 0;
             i < count && slice_eq(name, slice_of(r->text.ptr + pair[i].at, pair[i].len));
             n++, i++) {
            if (n != 0)
                buf_put_byte(out, ',');
            json_quote(slice_str(index_name(r->view.index[pair[i].index])), out);
        }
        buf_put_byte(out, ']');
        if (kind == STREAMS)
            json_cstr(out, "timestamp_field", "@timestamp");
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}

/* The first name asked for that is nothing; empty: all are something. */
static struct slice missing(const struct resolve *r)
{
    struct slice word;
    for (size_t at = 0, w = 0; next_word(r->asked, &at, &word); w++)
        if (!r->named[w] && !is_wild(word) && !r->options.ignore_unavailable)
            return word;
    return SLICE_NONE;
}

static void answer(struct resolve *r)
{
    struct buf indices = {0};
    BUF_PUT_LIT(&indices, "[");
    for (size_t i = 0; i < r->view.count; i++) {
        const struct names_info *info = &r->view.info[i];
        if (chosen(r, slice_str(index_name(r->view.index[i])), info->closed, info->hidden))
            put_index(r, i, &indices);
        each_alias(r, i, NULL);
        if (info->stream.len != 0 && chosen(r, info->stream, false, info->stream_hidden))
            add_pair(r, STREAMS, info->stream, i);
    }
    struct slice none = missing(r);
    if (none.len != 0) {
        reply_no_index(r->call, none);
    } else if (r->text.failed || r->pairs[0].failed || r->pairs[1].failed || indices.failed) {
        reply_rc(r->call, RC_NOMEM, NULL);
    } else {
        struct buf *out = reply_json(r->call, 200);
        BUF_PUT_LIT(out, "{\"indices\":");
        buf_put_slice(out, buf_slice(&indices));
        buf_put_byte(out, ']');
        put_pairs(r, ALIASES, "aliases", out);
        put_pairs(r, STREAMS, "data_streams", out);
        buf_put_byte(out, '}');
        api_finish(r->call);
    }
    buf_done(&indices);
}

void resolve_get(struct api_call *call)
{
    struct resolve r = {.call = call,
                        .options = {.allow_no_indices = true, .expand = EXPAND_OPEN},
                        .asked = call_part(call, "name")};
    struct err err = {RC_OK, 0, ""};
    if (!names_options_read(call, &r.options))
        return;
    r.named = call_alloc(call, r.asked.len + 1);
    enum rc rc = r.named == NULL ? RC_NOMEM : names_view_open(call->api, &r.view, &err);
    if (rc != RC_OK) {
        reply_rc(call, rc, &err);
        return;
    }
    memset(r.named, 0, r.asked.len + 1);
    answer(&r);
    names_view_close(&r.view);
    buf_done(&r.text);
    buf_done(&r.pairs[ALIASES]);
    buf_done(&r.pairs[STREAMS]);
}
