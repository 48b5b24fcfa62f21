/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an index beside its rows, as text: for the headers of its segments and for
 * path.data/metadata.json. Nothing reads either while the catalog is sound; `stowctl rebuild` makes
 * the catalog again from them.
 *
 *   {"format":1,"cluster":…,"node":…,
 *    "blobs":{kind:{name:value…}…},          store_meta_put's
 *    "indices":{directory:{"number":…,"created":…,"about":{…}}…}}
 *
 * The file is rewritten after every change of a blob; changes of indices are gathered for a second
 * (METADATA_MS), for there may be thousands of them. */
#ifndef STOWD_METADATA_H
#define STOWD_METADATA_H

#include "config/buf.h"
#include "storage/engine.h"

#define METADATA_MS 1000

/* A JSON object: {"name":…,"spec":{…},"settings":…,"mappings":…,"aliases":…,"extra":…} */
void metadata_describe(struct index *index, struct buf *out);

/* The same, read: slices into the text, JSON; absent members are empty. */
struct metadata_about {
    struct slice name; /* quoted */
    struct codec_spec spec;
    struct index_meta meta;
};
MUST_CHECK bool metadata_read(struct slice text, struct metadata_about *out);

/* Write the file now. Any thread. */
MUST_CHECK enum rc metadata_write(struct store *store, struct err *err);
/* An index has changed: the checkpoint thread will write the file. */
void metadata_changed(struct store *store);
/* Write it if it is due, or `now` if it has changed; complain once when that fails. */
void metadata_tend(struct store *store, bool now);

#endif
