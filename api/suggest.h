/* SPDX-License-Identifier: Apache-2.0 */
/* The known word that is most like one that is not known, for the texts of refusals. */
#ifndef STOWD_SUGGEST_H
#define STOWD_SUGGEST_H

#include "config/base.h"
#include "config/buf.h"

/* The near word, or none. */
struct slice suggest_word(struct slice word, const char *const *lists, size_t count);
/* Append " -> did you mean [x]?", or nothing when no word is near (Elasticsearch: more than half of
 * the letters stay). Each of the lists holds words separated by spaces. */
void suggest(struct slice word, const char *const *lists, size_t count, struct buf *out);

#endif
