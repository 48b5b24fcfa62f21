/* SPDX-License-Identifier: Apache-2.0 */
/* _cat/aliases, templates, shards, segments: what is named, and what lies behind it. */
#include "api/cat.h"
#include "api/handlers.h"
#include "api/names_view.h"
#include "api/settings.h"

static void cat_slice(struct cat_table *table, struct slice text)
{
    struct buf copy = {NULL, 0, 0, false};
    buf_put_slice(&copy, text);
    buf_put_byte(&copy, 0);
    cat_text(table, copy.failed ? "" : (const char *)copy.ptr);
    buf_done(&copy);
}

/* ---- _cat/aliases */
static const struct cat_column alias_columns[] = {
    {"alias", "a", "alias name", false, false},
    {"index", "i,idx", "index alias points to", false, false},
    {"filter", "f,fi", "filter", false, false},
    {"routing.index", "ri,routingIndex", "index routing", false, false},
    {"routing.search", "rs,routingSearch", "search routing", false, false},
    {"is_write_index", "w,isWriteIndex", "write index", false, false},
};

static void put_member(struct cat_table *table, struct json_value properties, const char *key)
{
    struct buf text = {NULL, 0, 0, false};
    struct json_value value;
    if (json_find(properties, key, &value))
        json_plain_text(value, &text);
    else
        buf_put_byte(&text, '-');
    cat_slice(table, buf_slice(&text));
    buf_done(&text);
}

static void put_aliases(struct cat_table *table, const struct index *index,
                        const struct index_meta *meta, struct slice names, bool hidden)
{
    struct slice key;
    struct json_value properties, value, aliases = json_value_of(meta->aliases);
    struct json_scan scan = json_enter(aliases);
    while (aliases.type == JSON_OBJECT && json_member(&scan, &key, &properties)) {
        struct buf name = {NULL, 0, 0, false};
        json_unquote(key, &name);
        bool shy = json_find(properties, "is_hidden", &value) && value.type == JSON_TRUE;
        if (names_in_list(names, buf_slice(&name)) && (hidden || !shy)) {
            cat_slice(table, buf_slice(&name));
            cat_text(table, index_name(index));
            cat_text(table, json_find(properties, "filter", &value) ? "*" : "-");
            put_member(table, properties, "index_routing");
            put_member(table, properties, "search_routing");
            put_member(table, properties, "is_write_index");
        }
        buf_done(&name);
    }
}

void cat_aliases(struct api_call *call)
{
    struct names_options options = {.ignore_unavailable = true,
                                    .allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    struct slice names = call_part(call, "name");
    struct cat_table table;
    struct names_list list;
    bool hidden = names_wants_hidden(call, true) || (names.len != 0 && names.ptr[0] == '.');
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    cat_begin(&table, alias_columns, ARRAY_LEN(alias_columns));
    for (size_t i = 0; i < list.count; i++) {
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        put_aliases(&table, list.index[i], meta, names, hidden);
        index_meta_release(meta);
    }
    names_list_done(&list);
    cat_reply(call, &table);
}

/* ---- _cat/templates */
static const struct cat_column template_columns[] = {
    {"name", "n", "template name", false, false},
    {"index_patterns", "t", "template index patterns", false, false},
    {"order", "o,p", "template application order/priority number", false, false},
    {"version", "v", "version", false, false},
    {"composed_of", "c", "component templates comprising index template", false, false},
};

struct templates {
    struct cat_table *table;
    struct slice names;
    bool composable;
};

/* [a*, b*] */
static void put_list(struct cat_table *table, struct json_value list)
{
    struct buf text = {NULL, 0, 0, false};
    struct json_value one;
    struct json_scan scan = json_enter(list);
    buf_put_byte(&text, '[');
    while (list.type == JSON_ARRAY && json_element(&scan, &one)) {
        if (text.len > 1)
            BUF_PUT_LIT(&text, ", ");
        json_plain_text(one, &text);
    }
    buf_put_byte(&text, ']');
    cat_slice(table, buf_slice(&text));
    buf_done(&text);
}

static enum rc put_template(struct slice name, struct slice value, void *arg)
{
    const struct templates *t = arg;
    struct json_value object = json_root(value), part = {JSON_END, SLICE_NONE};
    uint64_t n;
    if (!names_in_list(t->names, name))
        return RC_OK;
    cat_slice(t->table, name);
    (void)json_find(object, "index_patterns", &part);
    put_list(t->table, part);
    if (json_find(object, t->composable ? "priority" : "order", &part))
        cat_slice(t->table, part.text);
    else
        cat_text(t->table, t->composable ? "" : "0");
    if (json_find(object, "version", &part) && json_u64(part.text, &n))
        cat_number(t->table, n);
    else
        cat_empty(t->table);
    if (t->composable && json_find(object, "composed_of", &part))
        put_list(t->table, part);
    else
        cat_text(t->table, "");
    return RC_OK;
}

void cat_templates(struct api_call *call)
{
    struct cat_table table;
    struct templates t = {&table, call_part(call, "name"), false};
    struct err err = {RC_OK, 0, ""};
    cat_begin(&table, template_columns, ARRAY_LEN(template_columns));
    enum rc rc = store_meta_each(call->api->o.store, 't', put_template, &t, &err);
    t.composable = true;
    if (rc == RC_OK)
        rc = store_meta_each(call->api->o.store, 'i', put_template, &t, &err);
    if (rc == RC_OK) {
        cat_reply(call, &table);
        return;
    }
    cat_done(&table);
    reply_rc(call, rc, &err);
}

/* ---- _cat/shards, _cat/segments: one shard is where the documents are, whatever the setting says
 */
static const struct cat_column shard_columns[] = {
    {"index", "i,idx", "index name", false, false},
    {"shard", "s,sh", "shard name", false, false},
    {"prirep", "p,pr,primaryOrReplica", "primary or replica", false, false},
    {"state", "st", "shard state", false, false},
    {"docs", "d,dc", "number of docs in shard", false, true},
    {"store", "sto", "store size of shard (how much disk it uses)", false, true},
    {"ip", "", "ip of node where it lives", false, false},
    {"id", "", "unique id of node where it lives", true, false},
    {"node", "n", "name of node where it lives", false, false},
    {"unassigned.reason", "ur", "reason shard became unassigned", true, false},
    {"segments.count", "sc,segmentsCount", "number of segments", true, true},
    {"seq_no.max", "sqm,maxSeqNo", "max sequence number", true, true},
};

static void put_shard(struct cat_table *table, const struct api_call *call, struct index *index,
                      uint64_t shard, bool primary)
{
    struct index_stats stats;
    bool here = primary && shard == 0;
    index_stats_get(index, &stats);
    cat_text(table, index_name(index));
    cat_number(table, shard);
    cat_text(table, primary ? "p" : "r");
    cat_text(table, primary ? "STARTED" : "UNASSIGNED");
    primary ? cat_number(table, here ? stats.docs : 0) : cat_empty(table);
    primary ? cat_bytes(table, here ? stats.disk_bytes + stats.catalog_bytes : 0)
            : cat_empty(table);
    primary ? cat_text(table, "127.0.0.1") : cat_empty(table);
    primary ? cat_text(table, store_node_id(call->api->o.store)) : cat_empty(table);
    primary ? cat_text(table, call->api->o.node_name) : cat_empty(table);
    primary ? cat_empty(table) : cat_text(table, "REPLICA_ADDED");
    primary ? cat_number(table, here ? stats.segments : 0) : cat_empty(table);
    here &&stats.next_seq != 0 ? cat_number(table, stats.next_seq - 1) : cat_empty(table);
}

static bool resolve(struct api_call *call, struct names_list *list)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED | EXPAND_HIDDEN};
    return names_resolve_or_reply(call, &options, list);
}

void cat_shards(struct api_call *call)
{
    struct cat_table table;
    struct names_list list;
    if (!resolve(call, &list))
        return;
    cat_begin(&table, shard_columns, ARRAY_LEN(shard_columns));
    for (size_t i = 0; i < list.count; i++) {
        struct names_info info;
        const struct index_meta *meta = index_meta_acquire(list.index[i]);
        names_info_get(meta, &info);
        index_meta_release(meta);
        uint64_t replicas = info.replicas > 9 ? 9 : info.replicas;
        for (uint64_t s = 0; s < info.shards; s++)
            for (uint64_t r = 0; r <= replicas; r++)
                put_shard(&table, call, list.index[i], s, r == 0);
    }
    names_list_done(&list);
    cat_reply(call, &table);
}

static const struct cat_column segment_columns[] = {
    {"index", "i,idx", "index name", false, false},
    {"shard", "s,sh", "shard name", false, false},
    {"prirep", "p,pr,primaryOrReplica", "primary or replica", false, false},
    {"ip", "", "ip of node where it lives", false, false},
    {"id", "", "unique id of node where it lives", true, false},
    {"segment", "seg", "segment name", false, false},
    {"generation", "g,gen", "segment generation", false, true},
    {"docs.count", "dc,docsCount", "number of docs in segment", false, true},
    {"docs.deleted", "dd,docsDeleted", "number of deleted docs in segment", false, true},
    {"size", "si", "segment size in bytes", false, true},
    {"size.memory", "sm,sizeMemory", "segment memory in bytes", false, true},
    {"committed", "ic,isCommitted", "is segment committed", false, false},
    {"searchable", "is,isSearchable", "is segment searched", false, false},
    {"version", "v,ver", "version", false, true},
    {"compound", "ico,isCompound", "is segment compound", false, false},
};

/* All segments of an index as one: the engine does not count them singly. */
void cat_segments(struct api_call *call)
{
    struct names_options options = {
        .allow_no_indices = true, .expand = EXPAND_OPEN, .forbid_closed = true};
    struct cat_table table;
    struct names_list list;
    if (!names_resolve_or_reply(call, &options, &list))
        return;
    cat_begin(&table, segment_columns, ARRAY_LEN(segment_columns));
    for (size_t i = 0; i < list.count; i++) {
        struct index_stats stats;
        index_stats_get(list.index[i], &stats);
        if (stats.docs + stats.deleted == 0)
            continue;
        cat_text(&table, index_name(list.index[i]));
        cat_number(&table, 0);
        cat_text(&table, "p");
        cat_text(&table, "127.0.0.1");
        cat_text(&table, store_node_id(call->api->o.store));
        cat_text(&table, "_0");
        cat_number(&table, 0);
        cat_number(&table, stats.docs);
        cat_number(&table, stats.deleted);
        cat_bytes(&table, stats.disk_bytes);
        cat_bytes(&table, stats.memory_bytes);
        cat_text(&table, stats.disk_bytes != 0 ? "true" : "false");
        cat_text(&table, "true");
        cat_text(&table, "8.6.2");
        cat_text(&table, "false");
    }
    names_list_done(&list);
    cat_reply(call, &table);
}
