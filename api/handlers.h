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

/* shippers.c */
void shipper_xpack(struct api_call *call);
void shipper_cluster_settings(struct api_call *call);
void shipper_policy_put(struct api_call *call);
void shipper_policy_get(struct api_call *call);
void shipper_policy_delete(struct api_call *call);
void shipper_pipeline(struct api_call *call);
void shipper_data_streams(struct api_call *call);
void shipper_data_stream(struct api_call *call);

#endif
