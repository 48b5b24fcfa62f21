/* SPDX-License-Identifier: Apache-2.0 */
/* One row per endpoint. Query parameters that mean nothing here are listed when real clients send
 * them (they are accepted and ignored); everything else is a 400, as in Elasticsearch. */
#include "api/routes.h"

#include "api/handlers.h"
#include "api/suggest.h"

#include <pthread.h>

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
    "health pri level ignore_unavailable allow_no_indices cluster_manager_timeout "
#define P_STATS                                                                                    \
    " fields completion_fields fielddata_fields groups include_segment_file_sizes "                \
    "include_unloaded_segments"

#define P_SEARCH                                                                                   \
    P_NAMES P_SOURCE                                                                               \
        "q df analyzer analyze_wildcard default_operator lenient from size sort scroll "           \
        "search_type track_total_hits track_scores rest_total_hits_as_int version "                \
        "seq_no_primary_term stored_fields request_cache preference routing typed_keys "           \
        "batched_reduce_size max_concurrent_shard_requests pre_filter_shard_size "                 \
        "ccs_minimize_roundtrips allow_partial_search_results terminate_after explain type "       \
        "include_named_queries_score force_synthetic_source "
#define P_BY_QUERY                                                                                 \
    " refresh timeout wait_for_active_shards wait_for_completion requests_per_second slices "      \
    "scroll max_docs size conflicts "

#define P_CACHE  " fielddata fields index query request "
#define P_STATE  " wait_for_metadata_version wait_for_timeout "
#define P_STREAM " verbose "
#define P_NODES  " level types " P_STATS

static const struct route table[] = {
    {GET | HEAD, "/", info_root, ROUTE_READ, "", "name, cluster and version of the node"},
    {GET, "/_license", info_license, ROUTE_READ, "local accept_enterprise",
     "an active basic licence"},
    {GET, "/_cluster/health", cluster_health, ROUTE_READ,
     P_NAMES "level wait_for_status wait_for_nodes wait_for_active_shards wait_for_events "
             "wait_for_no_relocating_shards wait_for_no_initializing_shards "
             "awareness_attribute",
     "health of the node"},
    {GET, "/_cluster/health/{index}", cluster_health, ROUTE_READ,
     P_NAMES "level wait_for_status wait_for_nodes wait_for_active_shards wait_for_events "
             "wait_for_no_relocating_shards wait_for_no_initializing_shards "
             "awareness_attribute",
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
    {GET, "/_mappings", mapping_get, ROUTE_READ, P_NAMES, "mappings of all indices, as put"},
    {GET, "/{index}/_mappings", mapping_get, ROUTE_READ, P_NAMES, "mappings, as put"},
    {GET, "/_mapping/field/{fields}", field_mapping_get, ROUTE_READ, P_NAMES,
     "definitions of single fields, as put"},
    {GET, "/{index}/_mapping/field/{fields}", field_mapping_get, ROUTE_READ, P_NAMES,
     "definitions of single fields, as put"},
    {GET, "/_resolve/index/{name}", resolve_get, ROUTE_READ, P_NAMES,
     "indices, aliases and data streams that names stand for"},
    {PUT | POST, "/{index}/_mapping", mapping_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "write_index_only", "store a mapping"},
    {PUT | POST, "/{index}/_mappings", mapping_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "write_index_only", "store a mapping"},
    {GET | POST, "/_refresh", refresh_post, ROUTE_READ, P_NAMES "force",
     "nothing to do: writes are visible at once"},
    {GET | POST, "/{index}/_refresh", refresh_post, ROUTE_READ, P_NAMES "force",
     "nothing to do: writes are visible at once"},
    {POST, "/_cache/clear", cache_clear_post, ROUTE_READ, P_NAMES P_CACHE,
     "nothing to do: nothing is cached for queries"},
    {POST, "/{index}/_cache/clear", cache_clear_post, ROUTE_READ, P_NAMES P_CACHE,
     "nothing to do: nothing is cached for queries"},
    {GET | POST, "/_flush", flush_post, ROUTE_WRITE, P_NAMES "force wait_if_ongoing",
     "seal open blocks and make a checkpoint"},
    {GET | POST, "/{index}/_flush", flush_post, ROUTE_WRITE, P_NAMES "force wait_if_ongoing",
     "seal open blocks and make a checkpoint"},
    /* Curator 5 does this before it closes an index. */
    {GET | POST, "/_flush/synced", flush_post, ROUTE_WRITE, P_NAMES, "the same, for Curator 5"},
    {GET | POST, "/{index}/_flush/synced", flush_post, ROUTE_WRITE, P_NAMES,
     "the same, for Curator 5"},
    {GET | POST, "/_forcemerge", forcemerge_post, ROUTE_WRITE,
     P_NAMES "max_num_segments only_expunge_deletes flush wait_for_completion",
     "join short blocks, drop deleted documents"},
    {GET | POST, "/{index}/_forcemerge", forcemerge_post, ROUTE_WRITE,
     P_NAMES "max_num_segments only_expunge_deletes flush wait_for_completion",
     "join short blocks, drop deleted documents"},
    {GET | POST, "/_count", count_get, ROUTE_BODY,
     P_NAMES "routing preference q df analyzer analyze_wildcard default_operator lenient min_score "
             "terminate_after type",
     "number of documents"},
    {GET | POST, "/{index}/_count", count_get, ROUTE_BODY,
     P_NAMES "routing preference q df analyzer analyze_wildcard default_operator lenient min_score "
             "terminate_after type",
     "number of documents"},
    {GET | POST, "/_search", search_get, ROUTE_BODY, P_SEARCH,
     "documents of all indices, or of a point in time"},
    {GET | POST, "/{index}/_search", search_get, ROUTE_BODY, P_SEARCH,
     "documents: all or by id, in storage order"},
    {GET | POST, "/_search/scroll", scroll_get, ROUTE_BODY,
     "scroll scroll_id rest_total_hits_as_int", "the next page of a scroll"},
    {GET | POST, "/_search/scroll/{scroll_id}", scroll_get, ROUTE_BODY,
     "scroll scroll_id rest_total_hits_as_int", "the next page of a scroll"},
    {DELETE, "/_search/scroll", scroll_clear, ROUTE_BODY, "scroll_id", "give scrolls up"},
    {DELETE, "/_search/scroll/{scroll_id}", scroll_clear, ROUTE_BODY, "scroll_id",
     "give scrolls up"},
    {POST, "/{index}/_pit", pit_open, ROUTE_BODY,
     P_NAMES "keep_alive routing preference allow_partial_search_results "
             "max_concurrent_shard_requests",
     "open a point in time"},
    {DELETE, "/_pit", pit_close, ROUTE_BODY, "", "close a point in time"},
    {POST, "/{index}/_search/point_in_time", pit_open_os, ROUTE_BODY,
     P_NAMES "keep_alive routing preference allow_partial_pit_creation",
     "open a point in time (OpenSearch)"},
    {DELETE, "/_search/point_in_time", pit_close_os, ROUTE_BODY, "",
     "close points in time (OpenSearch)"},
    {GET, "/_search/point_in_time/_all", pit_list_os, ROUTE_READ, "",
     "the open points in time (OpenSearch)"},
    {DELETE, "/_search/point_in_time/_all", pit_close_all_os, ROUTE_READ, "",
     "close all points in time (OpenSearch)"},
    {POST, "/_reindex", reindex_post, ROUTE_WRITE | ROUTE_BODY, P_BY_QUERY "require_alias",
     "copy documents into another index"},
    {POST, "/_reindex/{task_id}/_rethrottle", tasks_rethrottle, ROUTE_READ,
     "requests_per_second group_by", "nothing is throttled"},
    {POST, "/{index}/_delete_by_query", delete_by_query_post, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES P_BY_QUERY P_SOURCE
     "q df analyzer analyze_wildcard default_operator lenient scroll_size search_type "
     "search_timeout request_cache preference routing terminate_after version from sort stats "
     "type",
     "delete all documents, or some by id"},
    {POST, "/_delete_by_query/{task_id}/_rethrottle", tasks_rethrottle, ROUTE_READ,
     "requests_per_second group_by", "nothing is throttled"},
    {POST, "/{index}/_update_by_query", update_by_query_post, ROUTE_READ,
     P_NAMES P_BY_QUERY P_SOURCE
     "q df analyzer analyze_wildcard default_operator lenient scroll_size search_type "
     "search_timeout request_cache preference routing terminate_after version version_type from "
     "sort stats pipeline type",
     "refused: no document is changed here"},
    {GET, "/_tasks", tasks_list, ROUTE_READ,
     "actions nodes node_id parent_task_id parent_task parent_node detailed group_by timeout "
     "wait_for_completion",
     "what runs"},
    {GET, "/_tasks/{task_id}", tasks_get, ROUTE_READ, "wait_for_completion timeout",
     "a task, and what came of it"},
    {POST, "/_tasks/_cancel", tasks_cancel, ROUTE_WRITE,
     "actions nodes node_id parent_task_id parent_task wait_for_completion", "cancel tasks"},
    {POST, "/_tasks/{task_id}/_cancel", tasks_cancel, ROUTE_WRITE,
     "actions nodes node_id parent_task_id parent_task wait_for_completion", "cancel a task"},

    {GET, "/_stats", stats_get, ROUTE_READ, P_NAMES "level metric forbid_closed_indices" P_STATS,
     "sizes and counters"},
    {GET, "/_stats/{metric}", stats_get, ROUTE_READ, P_NAMES "level forbid_closed_indices" P_STATS,
     "sizes and counters"},
    {GET, "/{index}/_stats", stats_get, ROUTE_READ,
     P_NAMES "level metric forbid_closed_indices" P_STATS, "sizes and counters"},
    {GET, "/{index}/_stats/{metric}", stats_get, ROUTE_READ,
     P_NAMES "level forbid_closed_indices" P_STATS, "sizes and counters"},

    {GET, "/_nodes", nodes_info, ROUTE_READ, P_NAMES, "the node and its address"},
    {GET, "/_nodes/{metric}", nodes_info, ROUTE_READ, P_NAMES P_NODES,
     "the node; stats: its counters"},
    {GET, "/_nodes/{node}/{metric}", nodes_info, ROUTE_READ, P_NAMES P_NODES, "the same"},
    {GET, "/_nodes/{node}/{metric}/{part}", nodes_info, ROUTE_READ, P_NAMES P_NODES, "the same"},
    {GET, "/_nodes/{node}/{metric}/{part}/{index_metric}", nodes_info, ROUTE_READ, P_NAMES P_NODES,
     "the same"},
    {GET, "/_nodes/hot_threads", refused_get, ROUTE_READ,
     "threads interval snapshots type doc_type sort ignore_idle_threads timeout",
     "refused: there is no JVM"},
    {GET, "/_nodes/usage", refused_get, ROUTE_READ, "",
     "refused: requests are counted in _metrics"},
    {GET, "/_nodes/{node}/usage", refused_get, ROUTE_READ, "",
     "refused: requests are counted in _metrics"},
    {GET, "/_nodes/{node}/hot_threads", refused_get, ROUTE_READ,
     "threads interval snapshots type doc_type sort ignore_idle_threads timeout",
     "refused: there is no JVM"},
    {POST, "/{index}/_close", indices_close, ROUTE_WRITE, P_NAMES "wait_for_active_shards",
     "refuse single writes and reads of an index"},
    {POST, "/{index}/_open", indices_open, ROUTE_WRITE, P_NAMES "wait_for_active_shards",
     "allow them again"},
    {GET | HEAD, "/_alias", alias_get, ROUTE_READ, P_NAMES, "all aliases"},
    {GET, "/_aliases", alias_get, ROUTE_READ, P_NAMES, "all aliases"},
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
    {POST, "/_aliases", aliases_post, ROUTE_WRITE | ROUTE_BODY, P_NAMES, "add and remove aliases"},
    {PUT | POST, "/_template/{name}", template_legacy_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "create order cause", "store a legacy template"},
    {GET, "/_template", template_legacy_get, ROUTE_READ, P_NAMES, "all legacy templates"},
    {GET | HEAD, "/_template/{name}", template_legacy_get, ROUTE_READ, P_NAMES, "legacy templates"},
    {DELETE, "/_template/{name}", template_legacy_delete, ROUTE_WRITE, P_NAMES,
     "delete legacy templates"},
    {PUT | POST, "/_index_template/{name}", template_index_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "create cause", "store an index template"},
    {GET, "/_index_template", template_index_get, ROUTE_READ, P_NAMES, "all index templates"},
    {GET | HEAD, "/_index_template/{name}", template_index_get, ROUTE_READ, P_NAMES,
     "index templates"},
    {DELETE, "/_index_template/{name}", template_index_delete, ROUTE_WRITE, P_NAMES,
     "delete index templates"},
    {PUT | POST, "/_component_template/{name}", template_component_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "create cause", "store a component template"},
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

    {GET, "/_security/_authenticate", security_authenticate, ROUTE_READ, "", "who one is"},
    {GET, "/_security/user", security_user_get, ROUTE_READ, "with_profile_uid", "the users"},
    {GET, "/_security/user/{name}", security_user_get, ROUTE_READ, "with_profile_uid", "a user"},
    {GET | POST, "/_security/user/_has_privileges", has_privileges_post, ROUTE_BODY, "",
     "may one do this and that"},
    {PUT | POST, "/_security/api_key", api_key_post, ROUTE_WRITE | ROUTE_BODY, "refresh",
     "make an API key"},
    {GET, "/_security/api_key", api_key_get, ROUTE_READ,
     "id name username realm_name owner with_limited_by active_only with_profile_uid",
     "one's own API keys, or all"},
    {DELETE, "/_security/api_key", api_key_delete, ROUTE_WRITE | ROUTE_BODY, "",
     "invalidate API keys"},
    {GET, "/_metrics", metrics_get, ROUTE_READ, "", "counters and gauges for Prometheus"},

    {GET, "/_xpack", shipper_xpack, ROUTE_READ, "categories accept_enterprise",
     "no lifecycle management"},
    {GET, "/_snapshot", shipper_none, ROUTE_READ, P_NAMES, "an empty object: no repositories"},
    {GET, "/_snapshot/_all", shipper_none, ROUTE_READ, P_NAMES, "an empty object: no repositories"},
    {GET, "/_remote/info", shipper_none, ROUTE_READ, "", "an empty object: no other clusters"},
    {GET, "/_cluster/settings", cluster_settings_get, ROUTE_READ, P_NAMES,
     "settings put before; two of them act"},
    {PUT, "/_cluster/settings", cluster_settings_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "keep settings"},
    {GET, "/_cluster/state", cluster_state, ROUTE_READ, P_NAMES P_STATE,
     "indices, templates, blocks and the node"},
    {GET, "/_cluster/state/{metric}", cluster_state, ROUTE_READ, P_NAMES P_STATE, "parts of it"},
    {GET, "/_cluster/state/{metric}/{index}", cluster_state, ROUTE_READ, P_NAMES P_STATE,
     "parts of it, for some indices"},
    {GET, "/_cluster/stats", cluster_stats, ROUTE_READ, P_NAMES, "counts and sizes of the node"},
    {GET, "/_cluster/stats/nodes/{node}", cluster_stats, ROUTE_READ, P_NAMES,
     "counts and sizes of the node"},
    {GET, "/_cluster/pending_tasks", cluster_pending, ROUTE_READ, P_NAMES, "an empty list"},

    {GET, "/_segments", segments_get, ROUTE_READ, P_NAMES "verbose",
     "segments, those of an index as one"},
    {GET, "/{index}/_segments", segments_get, ROUTE_READ, P_NAMES "verbose",
     "segments, those of an index as one"},
    {GET, "/_recovery", recovery_get, ROUTE_READ, P_NAMES "detailed active_only",
     "how indices came: found at the start, or made since"},
    {GET, "/{index}/_recovery", recovery_get, ROUTE_READ, P_NAMES "detailed active_only",
     "how indices came: found at the start, or made since"},
    {GET, "/_cat/aliases", cat_aliases, ROUTE_READ, P_CAT, "aliases as a table"},
    {GET, "/_cat/aliases/{name}", cat_aliases, ROUTE_READ, P_CAT, "aliases as a table"},
    {GET, "/_cat/templates", cat_templates, ROUTE_READ, P_CAT, "templates as a table"},
    {GET, "/_cat/templates/{name}", cat_templates, ROUTE_READ, P_CAT, "templates as a table"},
    {GET, "/_cat/shards", cat_shards, ROUTE_READ, P_CAT, "shards as a table"},
    {GET, "/_cat/shards/{index}", cat_shards, ROUTE_READ, P_CAT, "shards as a table"},
    {GET, "/_cat/segments", cat_segments, ROUTE_READ, P_CAT, "segments as a table"},
    {GET, "/_cat/segments/{index}", cat_segments, ROUTE_READ, P_CAT, "segments as a table"},
    {GET, "/_cat/nodes", cat_nodes, ROUTE_READ, P_CAT " full_id", "the node as a table"},
    {GET, "/_cat/master", cat_master, ROUTE_READ, P_CAT, "the node as a table"},
    {GET, "/_cat/cluster_manager", cat_master, ROUTE_READ, P_CAT, "the node as a table"},
    {GET, "/_cat/allocation", cat_allocation, ROUTE_READ, P_CAT, "disk space as a table"},
    {GET, "/_cat/tasks", cat_tasks, ROUTE_READ,
     P_CAT " detailed actions nodes node_id parent_task_id parent_task",
     "running tasks as a table"},
    {GET, "/_cat/thread_pool", cat_thread_pool, ROUTE_READ, P_CAT " size",
     "queues of the workers as a table"},
    {GET, "/_cat/thread_pool/{name}", cat_thread_pool, ROUTE_READ, P_CAT " size",
     "queues of the workers as a table"},
    {GET, "/_cat/component_templates", cat_component_templates, ROUTE_READ, P_CAT,
     "component templates as a table"},
    {GET, "/_cat/component_templates/{name}", cat_component_templates, ROUTE_READ, P_CAT,
     "component templates as a table"},
    {GET, "/_cat/pending_tasks", cat_pending_tasks, ROUTE_READ, P_CAT, "an empty table"},
    {GET, "/_cat/plugins", cat_plugins, ROUTE_READ, P_CAT " include_bootstrap", "an empty table"},
    {GET, "/_cat/nodeattrs", cat_nodeattrs, ROUTE_READ, P_CAT, "an empty table"},
    {GET, "/_cat/fielddata", cat_fielddata, ROUTE_READ, P_CAT " fields", "an empty table"},
    {GET, "/_cat/fielddata/{fields}", cat_fielddata, ROUTE_READ, P_CAT, "an empty table"},
    {GET, "/_cat/repositories", cat_repositories, ROUTE_READ, P_CAT, "an empty table"},
    {GET, "/_cat/recovery", cat_recovery, ROUTE_READ, P_CAT " active_only detailed index",
     "how indices came, as a table"},
    {GET, "/_cat/recovery/{index}", cat_recovery, ROUTE_READ, P_CAT " active_only detailed index",
     "how indices came, as a table"},
    {GET, "/_cat/allocation/{node}", cat_allocation, ROUTE_READ, P_CAT, "disk space as a table"},

    {PUT | DELETE, "/{index}/_block/{block}", indices_block, ROUTE_WRITE, P_NAMES,
     "refuse writes, reads or changes of an index; or allow them again"},
    {POST, "/{index}/_rollover", rollover_post, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "dry_run wait_for_active_shards", "begin the next index of an alias or data stream"},
    {POST, "/{index}/_rollover/{name}", rollover_post, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES "dry_run wait_for_active_shards", "the same, with a name of one's own"},

    {GET, "/_ilm/policy", policy_get, ROUTE_READ, P_NAMES, "all lifecycle policies"},
    {PUT, "/_ilm/policy/{name}", policy_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES,
     "keep a lifecycle policy; of its phases only delete acts"},
    {GET | HEAD, "/_ilm/policy/{name}", policy_get, ROUTE_READ, P_NAMES, "a lifecycle policy"},
    {DELETE, "/_ilm/policy/{name}", policy_delete, ROUTE_WRITE, P_NAMES,
     "delete a lifecycle policy"},
    {GET, "/_ilm/status", policy_status, ROUTE_READ, P_NAMES,
     "running, or stopped by lifecycle.poll_interval"},
    {POST, "/_ilm/start", policy_start, ROUTE_READ, P_NAMES,
     "it runs, unless lifecycle.poll_interval is 0"},
    {GET, "/{index}/_ilm/explain", policy_explain, ROUTE_READ, P_NAMES "only_managed only_errors",
     "policy and age of indices"},

    {GET, "/_ingest/pipeline", pipeline_get, ROUTE_READ, P_NAMES "summary", "all pipelines"},
    {GET | HEAD, "/_ingest/pipeline/{name}", pipeline_get, ROUTE_READ, P_NAMES "summary",
     "pipelines, as put"},
    {GET | POST, "/_ingest/pipeline/_simulate", refused_get, ROUTE_READ, "verbose",
     "refused: no processors run here"},
    {PUT, "/_ingest/pipeline/{name}", pipeline_put, ROUTE_WRITE | ROUTE_BODY, P_NAMES "if_version",
     "keep a pipeline; one with processors is refused"},
    {DELETE, "/_ingest/pipeline/{name}", pipeline_delete, ROUTE_WRITE, P_NAMES, "delete pipelines"},

    {GET, "/_data_stream", stream_get, ROUTE_READ, P_NAMES P_STREAM, "all data streams"},
    {GET | HEAD, "/_data_stream/{name}", stream_get, ROUTE_READ, P_NAMES P_STREAM,
     "data streams and their indices"},
    {PUT, "/_data_stream/{name}", stream_put, ROUTE_WRITE, P_NAMES, "make a data stream"},
    {DELETE, "/_data_stream/{name}", stream_delete, ROUTE_WRITE, P_NAMES,
     "delete data streams and their indices"},
    {GET, "/_data_stream/_stats", stream_stats, ROUTE_READ, P_NAMES, "sizes of data streams"},
    {GET, "/_data_stream/{name}/_stats", stream_stats, ROUTE_READ, P_NAMES,
     "sizes of data streams"},
    {GET, "/_data_stream/{name}/_lifecycle", stream_lifecycle_get, ROUTE_READ, P_NAMES,
     "retention of data streams"},
    {PUT, "/_data_stream/{name}/_lifecycle", stream_lifecycle_put, ROUTE_WRITE | ROUTE_BODY,
     P_NAMES, "set the retention of data streams"},
    {DELETE, "/_data_stream/{name}/_lifecycle", stream_lifecycle_delete, ROUTE_WRITE, P_NAMES,
     "keep the documents of data streams for ever"},
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

/* Behind a pattern's segment that s matches, else NULL. */
static const char *match_segment(const char *p, struct slice s)
{
    size_t n = 0;
    if (*p == '{') {
        while (p[n] != '/' && p[n] != '\0')
            n++;
        return p + n;
    }
    while (n < s.len && p[n] != '\0' && (uint8_t)p[n] == s.ptr[n])
        n++;
    return n == s.len && (p[n] == '/' || p[n] == '\0') ? p + n : NULL;
}

/* 0: no match; else higher for more literals further left. */
static unsigned match_score(const char *pattern, const struct route_path *path)
{
    unsigned score = 1;
    const char *p = pattern + 1;
    for (size_t i = 0; i < path->count; i++) {
        struct slice s = path->segment[i];
        bool literal = *p != '{';
        if (!literal && s.ptr[0] == '_' && strcmp(pattern, "/{index}") == 0 && !slice_is(s, "_all"))
            return 0;
        p = match_segment(p, s);
        if (p == NULL)
            return 0;
        score = score << 1 | literal;
        p += *p == '/';
    }
    return *p == '\0' ? score : 0;
}

/* T3 */
static unsigned methods_of(const struct route *route)
{
    bool head = (route->methods & GET) != 0 && (route->flags & (ROUTE_BODY | ROUTE_WRITE)) == 0;
    return route->methods | (head ? HEAD : 0);
}

/* How many segments each pattern has and how it begins: enough to pass by nearly all rows without
 * fetching their patterns. */
static struct {
    uint8_t segments;
    char first;
} outlines[ARRAY_LEN(table)];
static pthread_once_t outlines_once = PTHREAD_ONCE_INIT;

static void outline_all(void)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *p = table[i].pattern + 1;
        outlines[i].first = *p;
        outlines[i].segments = *p != '\0';
        for (; *p != '\0'; p++)
            outlines[i].segments = (uint8_t)(outlines[i].segments + (*p == '/'));
    }
}

const struct route *route_find(const struct route_path *path, enum api_method method,
                               unsigned *allowed_out)
{
    const struct route *found = NULL;
    unsigned best = 0, allowed = 0;
    char first = path->count == 0 ? '\0' : (char)path->segment[0].ptr[0];
    pthread_once(&outlines_once, outline_all);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (outlines[i].segments != path->count ||
            (outlines[i].first != '{' && outlines[i].first != first))
            continue;
        unsigned score = match_score(table[i].pattern, path) << 1;
        if (score == 0)
            continue;
        score |= (table[i].methods & 1u << method) != 0; /* a row of its own before another's */
        allowed |= methods_of(&table[i]);
        if (score > best && (methods_of(&table[i]) & 1u << method) != 0) {
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

void route_suggest(const struct route *route, struct slice param, struct buf *out)
{
    const char *const lists[] = {P_COMMON, route->params};
    suggest(param, lists, ARRAY_LEN(lists), out);
}
