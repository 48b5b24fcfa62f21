/* SPDX-License-Identifier: Apache-2.0 */
/* A document, and its absence, as _doc and _mget answer it. */
#ifndef STOWD_DOCS_H
#define STOWD_DOCS_H

#include "api/source.h"

void doc_put_found(const struct api *api, const struct index *index, struct slice id,
                   const struct row *row, const struct source_spec *source, struct buf *out);
void doc_put_miss(const struct api *api, struct index *index, struct slice id, struct buf *out);

#endif
