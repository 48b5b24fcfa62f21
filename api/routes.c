/* SPDX-License-Identifier: Apache-2.0 */
/* One row per endpoint. Query parameters that mean nothing here are listed when real clients send
 * them (they are accepted and ignored); everything else is a 400, as in Elasticsearch. */
#include "api/routes.h"

#include "api/handlers.h"

#define GET    (1u << API_GET)
#define HEAD   (1u << API_HEAD)
#define POST   (1u << API_POST)
#define PUT    (1u << API_PUT)
#define DELETE (1u << API_DELETE)

#define P_COMMON "pretty human error_trace filter_path format source source_content_type"
#define P_SOURCE " _source _source_includes _source_excludes "
#define P_WRITE  " refresh routing timeout wait_for_active_shards if_seq_no if_primary_term "
#define P_INDEX                                                                                    \
    P_WRITE "op_type version version_type pipeline require_alias require_data_stream "             \
            "include_source_on_error include_type_name type"
#define P_GET                                                                                      \
    P_SOURCE "routing preference realtime refresh stored_fields version version_type "             \
             "force_synthetic_source _source_exclude_vectors"
#define P_NAMES                                                                                    \
    " ignore_unavailable allow_no_indices expand_wildcards local master_timeout timeout "          \
    "include_type_name flat_settings include_defaults ignore_throttled "                           \
    "cluster_manager_timeout "
#define P_CAT                                                                                      \
    " v h s help bytes time ts local master_timeout expand_wildcards include_unloaded_segments "   \
    "health pri level "
#define P_STATS                                                                                   \
    " fields completion_fields fielddata_fields groups include_segment_file_sizes "               \
    "include_unloaded_segments"

static const struct route table[] = {
    {GET | HEAD, "/", info_root, ROUTE_READ, "", "name, cluster and version of the node"},
    {GET, "/_license", info_license, ROUTE_READ, "local accept_enterprise",
     "an active basic licence"},
    {GET, "/_cluster/health", cluster_health, ROUTE_READ,
     P_NAMES "level wait_for_status wait_for_nodes wait_for_active_shards wait_for_events "
             "wait_for_no_relocating_shards wait_for_no_initializing_shards",
     "health of the node"},
    {GET, "/_cluster/health/{index}", cluster_health, ROUTE_READ,
     P_NAMES "level wait_for_status wait_for_nodes wait_for_active_shards wait_for_events "
             "wait_for_no_relocating_shards wait_for_no_initializing_shards",
     "health of some indices"},
    {GET, "/_cat", cat_help, ROUTE_READ, P_CAT, "list of _cat endpoints"},
    {GET, "/_cat/health", cat_health, ROUTE_READ, P_CAT, "health as a table"},
    {GET, "/_cat/indices", cat_indices, ROUTE_READ, P_CAT, "indices as a table"},
    {GET, "/_cat/indices/{index}", cat_indices, ROUTE_READ, P_CAT, "indices as a table"},
    {GET, "/_cat/count", cat_count, ROUTE_READ, P_CAT, "number of documents as a table"},
    {GET, "/_cat/count/{index}", cat_count, ROUTE_READ, P_CAT, "number of documents as a table"},

    {POST | PUT, "/_bulk", bulk_post, ROUTE_WRITE | ROUTE_NDJSON | ROUTE_BODY | ROUTE_DOCUMENT,
     P_INDEX P_SOURCE "list_executed_pipelines", "many writes at once"},
    {POST | PUT, "/{index}/_bulk", bulk_post,
     ROUTE_WRITE | ROUTE_NDJSON | ROUTE_BODY | ROUTE_DOCUMENT,
     P_INDEX P_SOURCE "list_executed_pipelines", "many writes, with a default index"},
    {GET | POST, "/_mget", mget_get, ROUTE_BODY | ROUTE_DOCUMENT, P_GET " type", "many documents"},
    {GET | POST, "/{index}/_mget", mget_get, ROUTE_BODY | ROUTE_DOCUMENT, P_GET " type",
     "many documents, with a default index"},

    {POST, "/{index}/_doc", docs_index, ROUTE_WRITE | ROUTE_BODY | ROUTE_DOCUMENT, P_INDEX,
     "write a document, id made by the daemon"},
    {PUT | POST, "/{index}/_doc/{id}", docs_index, ROUTE_WRITE | ROUTE_BODY | ROUTE_DOCUMENT,
     P_INDEX, "write a document"},
    {GET | HEAD, "/{index}/_doc/{id}", docs_get, ROUTE_INLINE, P_GET, "a document"},
    {DELETE, "/{index}/_doc/{id}", docs_delete, ROUTE_WRITE, P_WRITE "version version_type",
     "delete a document"},
    {PUT | POST, "/{index}/_create/{id}", docs_create, ROUTE_WRITE | ROUTE_BODY | ROUTE_DOCUMENT,
     P_INDEX, "write a document that must not be there yet"},
    {POST, "/{index}/_update/{id}", docs_update, ROUTE_WRITE | ROUTE_BODY | ROUTE_DOCUMENT,
     P_WRITE P_SOURCE "retry_on_conflict require_alias lang include_source_on_error",
     "change parts of a document"},
    {GET | HEAD, "/{index}/_source/{id}", docs_source, ROUTE_INLINE, P_GET,
     "the bytes of a document"},

    {PUT, "/{index}", indices_create, ROUTE_WRITE | ROUTE_BODY, P_NAMES "wait_for_active_shards",
     "make an index"},
    {GET, "/{index}", indices_get, ROUTE_READ, P_NAMES "features", "an index: all it is made of"},
    {HEAD, "/{index}", indices_exists, ROUTE_READ, P_NAMES, "is there such an index"},
    {DELETE, "/{index}", indices_delete, ROUTE_WRITE, P_NAMES, "delete indices"},
    {GET, "/_settings", settings_get, ROUTE_READ, P_NAMES, "settings of all indices"},
    {GET, "/_settings/{name}", settings_get, ROUTE_READ, P_NAMES, "some settings"},
    {GET, "/{index}/_settings", settings_get, ROUTE_READ, P_NAMES, "settings of indices"},
    {GET, "/{index}/_settings/{name}", settings_get, ROUTE_READ, P_NAMES, "some settings"},
    {PUT, "/_settings", settings_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES "preserve_existing",
     "change settings of all indices"},
    {PUT, "/{index}/_settings", settings_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES "preserve_existing",
     "change settings"},
    {GET, "/_mapping", mapping_get, ROUTE_READ, P_NAMES, "mappings of all indices, as put"},
    {GET, "/{index}/_mapping", mapping_get, ROUTE_READ, P_NAMES, "mappings, as put"},
    {PUT | POST, "/{index}/_mapping", mapping_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "write_index_only", "store a mapping"},
    {GET | POST, "/_refresh", refresh_post, ROUTE_READ, P_NAMES "force",
     "nothing to do: writes are visible at once"},
    {GET | POST, "/{index}/_refresh", refresh_post, ROUTE_READ, P_NAMES "force",
     "nothing to do: writes are visible at once"},
    {GET | POST, "/_flush", flush_post, ROUTE_WRITE, P_NAMES "force wait_if_ongoing",
     "seal open blocks and make a checkpoint"},
    {GET | POST, "/{index}/_flush", flush_post, ROUTE_WRITE, P_NAMES "force wait_if_ongoing",
     "seal open blocks and make a checkpoint"},
    {GET | POST, "/_forcemerge", forcemerge_post, ROUTE_WRITE,
     P_NAMES "max_num_segments only_expunge_deletes flush wait_for_completion",
     "join short blocks, drop deleted documents"},
    {GET | POST, "/{index}/_forcemerge", forcemerge_post, ROUTE_WRITE,
     P_NAMES "max_num_segments only_expunge_deletes flush wait_for_completion",
     "join short blocks, drop deleted documents"},
    {GET | POST, "/_count", count_get, ROUTE_BODY, P_NAMES "routing preference",
     "number of documents"},
    {GET | POST, "/{index}/_count", count_get, ROUTE_BODY, P_NAMES "routing preference",
     "number of documents"},
    {GET, "/_stats", stats_get, ROUTE_READ, P_NAMES "level metric forbid_closed_indices" P_STATS,
     "sizes and counters"},
    {GET, "/_stats/{metric}", stats_get, ROUTE_READ, P_NAMES "level forbid_closed_indices" P_STATS,
     "sizes and counters"},
    {GET, "/{index}/_stats", stats_get, ROUTE_READ, P_NAMES "level metric forbid_closed_indices" P_STATS,
     "sizes and counters"},
    {GET, "/{index}/_stats/{metric}", stats_get, ROUTE_READ, P_NAMES "level forbid_closed_indices" P_STATS,
     "sizes and counters"},

    {GET, "/_nodes", nodes_info, ROUTE_READ, P_NAMES, "the node and its address"},
    {GET, "/_nodes/{metric}", nodes_info, ROUTE_READ, P_NAMES, "the node; stats: its counters"},
    {GET, "/_nodes/{node}/{metric}", nodes_info, ROUTE_READ, P_NAMES, "the same"},
    {POST, "/{index}/_close", indices_close, ROUTE_WRITE, P_NAMES "wait_for_active_shards",
     "refuse single writes and reads of an index"},
    {POST, "/{index}/_open", indices_open, ROUTE_WRITE, P_NAMES "wait_for_active_shards",
     "allow them again"},
    {GET | HEAD, "/_alias", alias_get, ROUTE_READ, P_NAMES, "all aliases"},
    {GET, "/_alias/{name}", alias_get, ROUTE_READ, P_NAMES, "aliases and their indices"},
    {HEAD, "/_alias/{name}", alias_exists, ROUTE_READ, P_NAMES, "is there such an alias"},
    {GET, "/{index}/_alias", alias_get, ROUTE_READ, P_NAMES, "aliases of indices"},
    {GET, "/{index}/_alias/{name}", alias_get, ROUTE_READ, P_NAMES, "some aliases of indices"},
    {HEAD, "/{index}/_alias/{name}", alias_exists, ROUTE_READ, P_NAMES,
     "has an index such an alias"},
    {PUT | POST, "/_alias", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias, index and name in the body"},
    {PUT | POST, "/_alias/{name}", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias, index in the body"},
    {PUT | POST, "/{index}/_alias", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias, name in the body"},
    {PUT | POST, "/{index}/_aliases", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias, name in the body"},
    {PUT | POST, "/{index}/_alias/{name}", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias"},
    {PUT | POST, "/{index}/_aliases/{name}", alias_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add an alias"},
    {DELETE, "/{index}/_alias/{name}", alias_delete, ROUTE_WRITE, P_NAMES, "remove aliases"},
    {DELETE, "/{index}/_aliases/{name}", alias_delete, ROUTE_WRITE, P_NAMES, "remove aliases"},
    {POST, "/_aliases", aliases_post, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "add and remove aliases"},
    {PUT | POST, "/_template/{name}", template_legacy_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "create order cause", "store a legacy template"},
    {GET, "/_template", template_legacy_get, ROUTE_READ, P_NAMES, "all legacy templates"},
    {GET | HEAD, "/_template/{name}", template_legacy_get, ROUTE_READ, P_NAMES,
     "legacy templates"},
    {DELETE, "/_template/{name}", template_legacy_delete, ROUTE_WRITE, P_NAMES,
     "delete legacy templates"},
    {PUT | POST, "/_index_template/{name}", template_index_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "create cause", "store an index template"},
    {GET, "/_index_template", template_index_get, ROUTE_READ, P_NAMES, "all index templates"},
    {GET | HEAD, "/_index_template/{name}", template_index_get, ROUTE_READ, P_NAMES,
     "index templates"},
    {DELETE, "/_index_template/{name}", template_index_delete, ROUTE_WRITE, P_NAMES,
     "delete index templates"},
    {PUT | POST, "/_component_template/{name}", template_component_put,
     ROUTE_WRITE | ROUTE_BODY, P_NAMES "create cause", "store a component template"},
    {GET, "/_component_template", template_component_get, ROUTE_READ, P_NAMES,
     "all component templates"},
    {GET | HEAD, "/_component_template/{name}", template_component_get, ROUTE_READ, P_NAMES,
     "component templates"},
    {DELETE, "/_component_template/{name}", template_component_delete, ROUTE_WRITE, P_NAMES,
     "delete component templates"},
    {POST, "/_index_template/_simulate", template_simulate, ROUTE_BODY, P_NAMES "create cause",
     "what a template in the body would give"},
    {POST, "/_index_template/_simulate/{name}", template_simulate, ROUTE_BODY,
     P_NAMES "create cause", "what a template would give"},
    {POST, "/_index_template/_simulate_index/{name}", template_simulate_index, ROUTE_BODY,
     P_NAMES "create cause", "what an index of that name would get"},

    {GET, "/_xpack", shipper_xpack, ROUTE_READ, "categories accept_enterprise",
     "no lifecycle management"},
    {GET, "/_cluster/settings", shipper_cluster_settings, ROUTE_READ, P_NAMES,
     "no settings of that kind"},
    {PUT, "/_ilm/policy/{name}", shipper_policy_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "store a lifecycle policy; nothing acts on it"},
    {GET | HEAD, "/_ilm/policy/{name}", shipper_policy_get, ROUTE_READ, P_NAMES,
     "a stored lifecycle policy"},
    {DELETE, "/_ilm/policy/{name}", shipper_policy_delete, ROUTE_WRITE, P_NAMES,
     "delete a stored lifecycle policy"},
    {GET | HEAD | PUT | DELETE, "/_ingest/pipeline/{name}", shipper_pipeline,
     ROUTE_READ | ROUTE_BODY, P_NAMES, "404: there are no pipelines"},
    {GET, "/_data_stream", shipper_data_streams, ROUTE_READ, P_NAMES, "an empty list"},
    {GET | PUT | DELETE, "/_data_stream/{name}", shipper_data_stream, ROUTE_READ, P_NAMES,
     "404: there are no data streams"},
};

const struct route *route_table(size_t *count_out)
{
    *count_out = ARRAY_LEN(table);
    return table;
}

bool route_split(struct slice path, struct route_path *out)
{
    const uint8_t *p = path.ptr, *end = path.ptr + path.len;
    if (path.len == 0 || *p != '/')
        return false;
    out->count = 0;
    for (p++; p < end;) {
        const uint8_t *slash = memchr(p, '/', (size_t)(end - p));
        const uint8_t *stop = slash == NULL ? end : slash;
        if (stop == p || out->count == ROUTE_SEGMENTS)
            return false;
        out->segment[out->count++] = slice_of(p, (size_t)(stop - p));
        p = slash == NULL ? end : slash + 1;
    }
    return true;
}

/* Segment i of a pattern; empty behind the last. */
static struct slice pattern_segment(const char *pattern, size_t i)
{
    const char *p = pattern + 1;
    for (; i > 0 && *p != '\0'; i--) {
        p += strcspn(p, "/");
        p += *p == '/';
    }
    return slice_of(p, strcspn(p, "/"));
}

struct slice route_variable(const struct route *route, size_t i)
{
    struct slice s = pattern_segment(route->pattern, i);
    return s.len > 2 && s.ptr[0] == '{' ? slice_of(s.ptr + 1, s.len - 2) : SLICE_NONE;
}

/* 0: no match; else higher for more literals further left. */
static unsigned match_score(const char *pattern, const struct route_path *path)
{
    unsigned score = 1;
    const char *p = pattern + 1;
    for (size_t i = 0; i < path->count; i++) {
        size_t len = strcspn(p, "/");
        struct slice s = path->segment[i];
        score <<= 1;
        if (len == 0)
            return 0;
        if (*p != '{') {
            if (!slice_eq(s, slice_of(p, len)))
                return 0;
            score |= 1;
        } else if (s.ptr[0] == '_' && strcmp(pattern, "/{index}") == 0 && !slice_is(s, "_all")) {
            return 0;
        }
        p += len;
        p += *p == '/';
    }
    return *p == '\0' ? score : 0;
}

const struct route *route_find(const struct route_path *path, enum api_method method,
                               unsigned *allowed_out)
{
    const struct route *found = NULL;
    unsigned best = 0, allowed = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        unsigned score = match_score(table[i].pattern, path);
        if (score == 0)
            continue;
        allowed |= table[i].methods;
        if (score > best && (table[i].methods & 1u << method) != 0) {
            found = &table[i];
            best = score;
        }
    }
    *allowed_out = allowed;
    return found;
}

/* Is param one of the words of a space separated list? */
static bool listed(const char *list, struct slice param)
{
    for (const char *p = list + strspn(list, " "); *p != '\0'; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (slice_eq(param, slice_of(p, len)))
            return true;
        p += len;
    }
    return false;
}

bool route_takes(const struct route *route, struct slice param)
{
    return listed(P_COMMON, param) || listed(route->params, param);
}
