/* SPDX-License-Identifier: Apache-2.0 */
#include "api/predecessor.h"

#include "api/streams.h"
#include "api/templates.h"

#include <stdlib.h>

/* A name without the date or number at its end; empty when it is nothing else. */
static struct slice series_of(struct slice name)
{
    size_t n = name.len;
    while (n > 0 && ((name.ptr[n - 1] >= '0' && name.ptr[n - 1] <= '9') || name.ptr[n - 1] == '.' ||
                     name.ptr[n - 1] == '-' || name.ptr[n - 1] == '_'))
        n--;
    return slice_of(name.ptr, n);
}

bool predecessor_same_series(struct slice a, struct slice b)
{
    struct slice series = series_of(a);
    return series.len != 0 && slice_eq(series, series_of(b));
}

struct seeker {
    struct slice name;
    struct json_value from; /* JSON_END: no template, or one for all names */
    const struct codec_spec *spec;
    struct index *rolled;
    struct index *best;
    unsigned rank;
};

/* How near an index is; 0: not at all. */
static unsigned nearness(const struct seeker *s, struct index *index)
{
    if (index == s->rolled)
        return 3;
    struct stream_info stream;
    struct slice name = slice_str(index_name(index));
    const struct index_meta *meta = index_meta_acquire(index);
    stream_info_get(meta, &stream); /* of the metadata */
    if (stream.name.len != 0)
        name = stream.name;
    unsigned near = predecessor_same_series(s->name, name)                          ? 2
                    : s->from.type == JSON_OBJECT && templates_match(s->from, name) ? 1
                                                                                    : 0;
    index_meta_release(meta);
    return near;
}

static void consider(struct seeker *s, struct index *index)
{
    enum index_bequest gives = index_bequest(index, s->spec);
    if (gives == BEQUEST_NOTHING)
        return;
    unsigned near = nearness(s, index), rank = (unsigned)gives * 4 + near;
    if (near == 0 || rank < s->rank)
        return;
    if (s->best != NULL && rank == s->rank && index_created_ms(index) < index_created_ms(s->best))
        return;
    s->best = index; /* of two made at once the later name */
    s->rank = rank;
}

struct index *predecessor_find(struct api *api, struct slice name, struct slice from,
                               const struct codec_spec *spec, struct index *rolled)
{
    struct seeker s = {.name = name, .spec = spec, .rolled = rolled};
    struct index **list = NULL;
    size_t count = 0;
    struct err ignored = {RC_OK, 0, ""};
    if (from.len != 0 && !templates_match(json_root(from), SLICE_LIT("")))
        s.from = json_root(from);
    if (store_index_list(api->o.store, &list, &count, &ignored) != RC_OK)
        return NULL; /* it is a help, no more */
    for (size_t i = 0; i < count; i++)
        consider(&s, list[i]);
    if (s.best != NULL)
        s.best = index_retain(s.best);
    for (size_t i = 0; i < count; i++)
        index_release(list[i]);
    free(list);
    return s.best;
}
