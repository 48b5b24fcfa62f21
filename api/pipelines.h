/* SPDX-License-Identifier: Apache-2.0 */
/* Ingest pipelines: kept (store_meta_put kind 'g') and echoed when they have no processors, refused
 * with processors: stowd never changes a document. */
#ifndef STOWD_PIPELINES_H
#define STOWD_PIPELINES_H

#include "api/call.h"

/* Is there a pipeline of that name ("_none" and the empty name mean: without one)? */
bool pipeline_known(struct api *api, struct slice name);

#endif
