/* SPDX-License-Identifier: Apache-2.0 */
/* The _cat tables that people and scripts look at and that have little to show here: component
 * templates, queues, and those that are empty on a single node without plugins. */
#include "api/cat.h"
#include "api/handlers.h"
#include "api/indices.h"
#include "api/settings.h"

/* ---- empty tables: their columns alone */
static const struct cat_column plugin_columns[] = {
    {"id", "", "unique node id", true, false},
    {"name", "n", "node name", false, false},
    {"component", "c", "component", false, false},
    {"version", "v", "component version", false, false},
    {"description", "d", "plugin details", true, false},
};
static const struct cat_column nodeattr_columns[] = {
    {"node", "name", "node name", false, false},
    {"id", "nodeId", "unique node id", true, false},
    {"pid", "p", "process id", true, true},
    {"host", "h", "host name", false, false},
    {"ip", "i", "ip address", false, false},
    {"port", "po", "transport port", true, true},
    {"attr", "attr.name", "attribute", false, false},
    {"value", "attr.value", "value", false, false},
};
static const struct cat_column fielddata_columns[] = {
    {"id", "", "node id", false, false},        {"host", "h", "host name", false, false},
    {"ip", "", "ip address", false, false},     {"node", "n", "node name", false, false},
    {"field", "f", "field name", false, false}, {"size", "s", "field data usage", false, true},
};
static const struct cat_column pending_columns[] = {
    {"insertOrder", "o", "task insertion order", false, true},
    {"timeInQueue", "t", "how long task has been in queue", false, true},
    {"priority", "p", "task priority", false, false},
    {"source", "s", "task source", false, false},
};
static const struct cat_column repository_columns[] = {
    {"id", "repoId", "unique repository id", false, false},
    {"type", "t", "repository type", false, false},
};
static void reply_empty(struct api_call *call, const struct cat_column *column, size_t columns)
{
    struct cat_table table;
    cat_begin(&table, column, columns);
    cat_reply(call, &table);
}

void cat_plugins(struct api_call *call)
{
    reply_empty(call, plugin_columns, ARRAY_LEN(plugin_columns));
}

void cat_nodeattrs(struct api_call *call)
{
    reply_empty(call, nodeattr_columns, ARRAY_LEN(nodeattr_columns));
}

void cat_fielddata(struct api_call *call)
{
    reply_empty(call, fielddata_columns, ARRAY_LEN(fielddata_columns));
}

void cat_pending_tasks(struct api_call *call)
{
    reply_empty(call, pending_columns, ARRAY_LEN(pending_columns));
}

void cat_repositories(struct api_call *call)
{
    reply_empty(call, repository_columns, ARRAY_LEN(repository_columns));
}

/* ---- _cat/recovery: done for all, nothing while active_only asks */
static const struct cat_column recovery_columns[] = {
    {"index", "i,idx", "index name", false, false},
    {"shard", "s,sh", "shard name", false, false},
    {"start_time", "start", "recovery start time", true, false},
    {"time", "t,ti", "recovery time", false, true},
    {"type", "ty", "recovery type", false, false},
    {"stage", "st", "recovery stage", false, false},
    {"source_host", "shost", "source host", false, false},
    {"source_node", "snode", "source node name", false, false},
    {"target_host", "thost", "target host", false, false},
    {"target_node", "tnode", "target node name", false, false},
    {"repository", "rep", "repository", false, false},
    {"snapshot", "snap", "snapshot", false, false},
    {"files", "f", "number of files to recover", false, true},
    {"files_percent", "fp", "percent of files recovered", false, true},
    {"bytes", "b", "number of bytes to recover", false, true},
    {"bytes_percent", "bp", "percent of bytes recovered", false, true},
};

void cat_recovery(struct api_call *call)
{
    struct names_options options = {.allow_no_indices = true,
                                    .expand = EXPAND_OPEN | EXPAND_CLOSED};
    struct cat_table table;
    struct names_list list;
    bool active;
    if (!call_bool(call, "active_only", false, &active) ||
        !names_resolve_or_reply(call, &options, &list))
        return;
    cat_begin(&table, recovery_columns, ARRAY_LEN(recovery_columns));
    for (size_t i = 0; !active && i < list.count; i++) {
        struct recovery r;
        struct index_stats stats;
        recovery_of(call->api, list.index[i], &r);
        index_stats_get(list.index[i], &stats);
        cat_text(&table, index_name(list.index[i]));
        cat_number(&table, 0);
        cat_number(&table, r.at_ms);
        cat_text(&table, "0ms");
        cat_text(&table, r.existing ? "existing_store" : "empty_store");
        cat_text(&table, "done");
        cat_text(&table, "n/a");
        cat_text(&table, "n/a");
        cat_text(&table, "127.0.0.1");
        cat_text(&table, call->api->o.node_name);
        cat_text(&table, "n/a");
        cat_text(&table, "n/a");
        cat_number(&table, 0);
        cat_text(&table, "100.0%");
        cat_number(&table, 0);
        cat_text(&table, "100.0%");
    }
    names_list_done(&list);
    cat_reply(call, &table);
}

/* ---- _cat/thread_pool: who waits; how many work at the moment is not counted */
static const struct cat_column pool_columns[] = {
    {"node_name", "nn", "node name", false, false},
    {"node_id", "id", "persistent node id", true, false},
    {"name", "n", "thread pool name", false, false},
    {"active", "a", "number of active threads: not counted", false, true},
    {"queue", "q", "number of tasks currently in queue", false, true},
    {"rejected", "r", "number of rejected tasks: not counted", false, true},
};

void cat_thread_pool(struct api_call *call)
{
    static const struct {
        const char *name;
        enum work_class class_;
    } pools[] = {{"get", WORK_GET}, {"management", WORK_BACKGROUND}, {"write", WORK_WRITE}};
    const struct api *api = call->api;
    struct slice wanted = call_part(call, "name");
    struct cat_table table;
    cat_begin(&table, pool_columns, ARRAY_LEN(pool_columns));
    for (size_t i = 0; i < ARRAY_LEN(pools); i++) {
        if (!names_in_list(wanted, slice_str(pools[i].name)))
            continue;
        cat_text(&table, api->o.node_name);
        cat_text(&table, store_node_id(api->o.store));
        cat_text(&table, pools[i].name);
        cat_empty(&table);
        cat_number(&table, work_waiting(api->o.work, pools[i].class_));
        cat_empty(&table);
    }
    cat_reply(call, &table);
}

/* ---- _cat/component_templates */
static const struct cat_column component_columns[] = {
    {"name", "n", "component template name", false, false},
    {"version", "v", "version", false, true},
    {"alias_count", "a", "number of aliases", false, true},
    {"mapping_count", "m", "number of mappings", false, true},
    {"settings_count", "s", "number of settings", false, true},
    {"metadata_count", "me", "number of metadata", false, true},
    {"included_in", "i", "index templates that are composed of it", false, false},
};

struct components {
    struct api *api;
    struct cat_table *table;
    struct slice wanted;
    struct slice component; /* whose users are looked for */
    struct buf users;
};

static uint64_t members(struct json_value object, const char *name)
{
    struct json_value part, value;
    struct slice key;
    uint64_t n = 0;
    if (!json_find(object, name, &part) || part.type != JSON_OBJECT)
        return 0;
    struct json_scan scan = json_enter(part);
    while (json_member(&scan, &key, &value))
        n++;
    return n;
}

static enum rc add_user(struct slice name, struct slice value, void *arg)
{
    struct components *c = (struct components *)arg;
    struct json_value list, one;
    if (!json_find(json_root(value), "composed_of", &list) || list.type != JSON_ARRAY)
        return RC_OK;
    struct json_scan scan = json_enter(list);
    while (json_element(&scan, &one)) {
        struct buf text = {0};
        if (one.type == JSON_STRING)
            json_unquote(one.text, &text);
        if (slice_eq(buf_slice(&text), c->component)) {
            if (c->users.len > 1)
                BUF_PUT_LIT(&c->users, ", ");
            buf_put_slice(&c->users, name);
        }
        buf_done(&text);
    }
    return RC_OK;
}

static void cat_buf(struct cat_table *table, struct buf *text)
{
    buf_put_byte(text, 0);
    cat_text(table, text->failed ? "" : (const char *)text->ptr);
}

static enum rc put_component(struct slice name, struct slice value, void *arg)
{
    struct components *c = (struct components *)arg;
    struct json_value object = json_root(value), part, inner = object;
    struct buf text = {0};
    struct err err = {0};
    uint64_t n;
    if (!names_in_list(c->wanted, name))
        return RC_OK;
    buf_put_slice(&text, name);
    cat_buf(c->table, &text);
    if (json_find(object, "version", &part) && json_u64(part.text, &n))
        cat_number(c->table, n);
    else
        cat_empty(c->table);
    (void)json_find(object, "template", &inner);
    uint64_t properties = 0;
    if (json_find(inner, "mappings", &part))
        properties = members(part, "properties");
    cat_number(c->table, members(inner, "aliases"));
    cat_number(c->table, properties);
    cat_number(c->table, members(inner, "settings"));
    cat_number(c->table, members(object, "_meta"));
    c->component = name;
    c->users.len = 0;
    buf_put_byte(&c->users, '[');
    enum rc rc = store_meta_each(c->api->o.store, 'i', add_user, c, &err);
    buf_put_byte(&c->users, ']');
    cat_buf(c->table, &c->users);
    buf_done(&text);
    return rc;
}

void cat_component_templates(struct api_call *call)
{
    struct cat_table table;
    struct components c = {.api = call->api, .table = &table, .wanted = call_part(call, "name")};
    struct err err = {RC_OK, 0, ""};
    cat_begin(&table, component_columns, ARRAY_LEN(component_columns));
    enum rc rc = store_meta_each(call->api->o.store, 'c', put_component, &c, &err);
    buf_done(&c.users);
    if (rc == RC_OK) {
        cat_reply(call, &table);
        return;
    }
    cat_done(&table);
    reply_rc(call, rc, &err);
}
