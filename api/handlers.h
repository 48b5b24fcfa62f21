/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that the table in routes.c names, by file. Each is void handler(struct api_call *)
 * as call.h describes it. */
#ifndef STOWD_HANDLERS_H
#define STOWD_HANDLERS_H

#include "api/call.h"

/* docs.c: one document. docs_get and docs_source also run where they must not wait
 * (call->queued is false): then they return without a reply instead. */
void docs_index(struct api_call *call);  /* PUT, POST _doc */
void docs_create(struct api_call *call); /* PUT, POST _create */
void docs_update(struct api_call *call);
void docs_delete(struct api_call *call);
void docs_get(struct api_call *call);
void docs_source(struct api_call *call);

/* bulk.c, mget.c */
void bulk_post(struct api_call *call);
void mget_get(struct api_call *call);

/* indices.c */
void indices_create(struct api_call *call);
void indices_get(struct api_call *call);
void indices_exists(struct api_call *call);
void indices_delete(struct api_call *call);
void settings_get(struct api_call *call);
void settings_put(struct api_call *call);
void mapping_get(struct api_call *call);
void mapping_put(struct api_call *call);
void refresh_post(struct api_call *call);
void cache_clear_post(struct api_call *call);
void flush_post(struct api_call *call);
void forcemerge_post(struct api_call *call);
void count_get(struct api_call *call);
void stats_get(struct api_call *call);

/* info.c, cat.c */
void info_root(struct api_call *call);
void info_license(struct api_call *call);
void cluster_health(struct api_call *call);
void cat_indices(struct api_call *call);
void cat_health(struct api_call *call);
void cat_count(struct api_call *call);
void cat_help(struct api_call *call);

/* indices.c, template_api.c, simulate.c, alias_api.c, nodes.c */
void indices_close(struct api_call *call);
void indices_open(struct api_call *call);
void template_legacy_put(struct api_call *call);
void template_legacy_get(struct api_call *call);
void template_legacy_delete(struct api_call *call);
void template_index_put(struct api_call *call);
void template_index_get(struct api_call *call);
void template_index_delete(struct api_call *call);
void template_component_put(struct api_call *call);
void template_component_get(struct api_call *call);
void template_component_delete(struct api_call *call);
void template_simulate(struct api_call *call);
void template_simulate_index(struct api_call *call);
void alias_get(struct api_call *call);
void alias_exists(struct api_call *call);
void alias_put(struct api_call *call);
void alias_delete(struct api_call *call);
void aliases_post(struct api_call *call);
void nodes_info(struct api_call *call);

/* search.c, scroll.c, pit.c, reindex.c, delete_by_query.c, tasks.c */
void search_get(struct api_call *call);
void scroll_get(struct api_call *call);
void scroll_clear(struct api_call *call);
void pit_open(struct api_call *call);
void pit_close(struct api_call *call);
void pit_open_os(struct api_call *call); /* OpenSearch's */
void pit_list_os(struct api_call *call);
void pit_close_os(struct api_call *call);
void pit_close_all_os(struct api_call *call);
void reindex_post(struct api_call *call);
void delete_by_query_post(struct api_call *call);
void update_by_query_post(struct api_call *call);
void tasks_list(struct api_call *call);
void tasks_get(struct api_call *call);
void tasks_cancel(struct api_call *call);
void tasks_rethrottle(struct api_call *call);

/* shippers.c, lifecycle.c, pipelines.c, stream_api.c, rollover.c */
void shipper_xpack(struct api_call *call);
void shipper_none(struct api_call *call);
void policy_put(struct api_call *call);
void policy_get(struct api_call *call);
void policy_delete(struct api_call *call);
void policy_status(struct api_call *call);
void policy_start(struct api_call *call);
void policy_explain(struct api_call *call);
void pipeline_put(struct api_call *call);
void pipeline_get(struct api_call *call);
void pipeline_delete(struct api_call *call);
void stream_put(struct api_call *call);
void stream_get(struct api_call *call);
void stream_stats(struct api_call *call);
void stream_delete(struct api_call *call);
void stream_lifecycle_put(struct api_call *call);
void stream_lifecycle_get(struct api_call *call);
void stream_lifecycle_delete(struct api_call *call);
void rollover_post(struct api_call *call);
void indices_block(struct api_call *call);

/* cluster.c, segments.c */
void cluster_settings_get(struct api_call *call);
void cluster_settings_put(struct api_call *call);
void cluster_state(struct api_call *call);
void cluster_stats(struct api_call *call);
void cluster_pending(struct api_call *call);
void segments_get(struct api_call *call);
void recovery_get(struct api_call *call);

/* resolve_api.c, field_mapping.c */
void resolve_get(struct api_call *call);
void field_mapping_get(struct api_call *call);

/* cat_names.c, cat_node.c, cat_more.c, tasks.c */
void cat_aliases(struct api_call *call);
void cat_templates(struct api_call *call);
void cat_shards(struct api_call *call);
void cat_segments(struct api_call *call);
void cat_nodes(struct api_call *call);
void cat_master(struct api_call *call);
void cat_allocation(struct api_call *call);
void cat_plugins(struct api_call *call);
void cat_nodeattrs(struct api_call *call);
void cat_fielddata(struct api_call *call);
void cat_pending_tasks(struct api_call *call);
void cat_repositories(struct api_call *call);
void cat_recovery(struct api_call *call);
void cat_thread_pool(struct api_call *call);
void cat_component_templates(struct api_call *call);
void cat_tasks(struct api_call *call);

/* refused.c: for paths that another route would take for its variable */
void refused_get(struct api_call *call);

/* security.c, keys.c, metrics.c */
void security_authenticate(struct api_call *call);
void security_user_get(struct api_call *call);
void api_key_post(struct api_call *call);
void api_key_get(struct api_call *call);
void api_key_delete(struct api_call *call);
void has_privileges_post(struct api_call *call);
void metrics_get(struct api_call *call);

#endif
