/* SPDX-License-Identifier: Apache-2.0 */
/* Inside names: making an index of a draft (names.h, N3). */
#ifndef STOWD_CREATE_H
#define STOWD_CREATE_H

#include "api/names.h"
#include "api/templates.h"

/* What is kept beside the draft. */
struct creation {
    struct slice name;  /* checked */
    struct slice extra; /* of index_meta; empty: {} */
    /* The index takes over from another one, whose aliases still say that they write there. */
    bool follows;
    struct slice stream;  /* data stream that it is a backing index of, or empty */
    struct index *rolled; /* the index that is rolled over, borrowed, or NULL */
};
/* The naming lock is held. RC_EXISTS, RC_INVALID: the name or one of the aliases is taken. */
MUST_CHECK enum rc create_locked(struct api *api, const struct creation *creation,
                                 const struct draft *draft, struct index **out, struct err *err);
/* Is the name free, and could an index have these aliases (JSON object, may be empty)? */
MUST_CHECK enum rc create_check_taken(struct api *api, struct slice name, struct slice aliases,
                                      bool follows, struct err *err);
/* Lay a request's objects over a draft, after judging its settings. */
MUST_CHECK enum rc create_add(struct draft *draft, const struct names_body *body,
                              struct slice index, struct err *err);

#endif
