/* SPDX-License-Identifier: Apache-2.0 */
/* Searches: what a request asks for, the contexts that outlive a request (scrolls and points in
 * time), and pages of hits.
 *
 *   H1  a page is written in windows; what a search holds is one window and one document.
 *   H2  a context is read through references; one that was removed or has expired meanwhile goes
 *       with the last. Its time runs from the end of its last use.
 *   H3  a scroll moves on when a page is written to its end; a page that broke off comes again. */
#ifndef STOWD_SEARCH_H
#define STOWD_SEARCH_H

#include "api/query.h"
#include "api/scan.h"
#include "api/source.h"

/* Elasticsearch's index.max_result_window. */
#define SEARCH_WINDOW_MAX 10000
#define SEARCH_SORT_MAX   8

enum sort_key { SORT_DOC, SORT_SHARD_DOC, SORT_SEQ_NO, SORT_SCORE };

struct search_spec {
    struct query query;
    struct source_spec source;
    uint64_t from, size;
    uint64_t track; /* totals up to this are exact; 0: none is told, SEQ_NONE: always */
    enum sort_key sort[SEARCH_SORT_MAX];
    size_t sort_count;
    bool desc; /* the first key that is not _score goes down */
    bool has_after;
    struct slice after; /* JSON array, into the body */
    bool version, seq_no, no_fields;
    struct slice pit, pit_keep_alive; /* decoded, in text; empty: none */
    bool has_pit;
    struct buf text;
};

void search_spec_init(struct search_spec *spec);
/* Take what a body says. RC_INVALID with *type_out the error type. The body outlives the use of
 * query and after; the rest is the spec's own. */
MUST_CHECK enum rc search_spec_read(struct search_spec *spec, struct json_value body,
                                    const char **type_out, struct err *err);
void search_spec_done(struct search_spec *spec);
/* "_doc", "_seq_no:desc" … of the query parameter. */
MUST_CHECK enum rc search_sort_text(struct search_spec *spec, struct slice list,
                                    const char **type_out, struct err *err);
/* The key that decides the order: the first that is not _score; sort_count when there is none. */
size_t search_sort_lead(const struct search_spec *spec);

/* "1m", "30s", "500ms", "1d", "0", "-1" (both 0). */
bool search_time(struct slice text, uint64_t *ms_out);
/* Read a keep alive or reply 400. empty: what is used when text is empty. */
MUST_CHECK bool search_keep_alive(struct api_call *call, const char *name, struct slice text,
                                  uint64_t empty, uint64_t *ms_out);

/* ---- contexts */
enum context_kind { CONTEXT_SCROLL, CONTEXT_PIT, CONTEXT_KINDS };
#define CONTEXT_ID_LEN 32

struct context {
    struct context *next;
    char id[CONTEXT_ID_LEN + 1];
    enum context_kind kind;
    struct scan scan;
    uint64_t created_ms;
    /* scroll: touched by the page that has it only */
    struct search_spec spec;
    uint64_t place;
    /* guarded by the registry */
    uint64_t keep_ms, deadline_ns;
    unsigned refs;
    bool busy; /* a page of the scroll is being written */
    bool removed;
};

struct contexts;
MUST_CHECK enum rc contexts_create(struct contexts **out, struct err *err);
/* Nobody uses a context any more. */
void contexts_destroy(struct contexts *contexts); /* accepts NULL */
/* Take in a context (scan, spec, keep_ms set; malloc'ed) and give it an id; the caller has a
 * reference. RC_BUSY with Elasticsearch's text when there are too many: then it stays the
 * caller's. */
MUST_CHECK enum rc contexts_add(struct contexts *contexts, struct context *context,
                                struct err *err);
/* A reference, or RC_NOT_FOUND; RC_CONFLICT: a page of that scroll is being written. */
MUST_CHECK enum rc contexts_get(struct contexts *contexts, enum context_kind kind, struct slice id,
                                struct context **out);
/* Give it back; its time begins anew. keep_ms 0: as before. */
void contexts_put(struct contexts *contexts, struct context *context, uint64_t keep_ms);
bool contexts_remove(struct contexts *contexts, enum context_kind kind, struct slice id);
/* fn (may be NULL) is called for each that is there, under the lock. Removes them when asked to. */
size_t contexts_each(struct contexts *contexts, enum context_kind kind, bool remove,
                     void (*fn)(const struct context *context, void *arg), void *arg);
/* Free what has expired; for the housekeeping thread. */
void contexts_expire(void *contexts);

/* ---- pages */
/* Answer a page of the context's scroll, which the caller got; the reference goes over. */
void search_scroll_page(struct api_call *call, struct context *context, uint64_t keep_ms);
/* Indices of the path for a search, a count or a deletion, open ones only. False: replied. */
MUST_CHECK bool search_indices(struct api_call *call, enum names_use use, struct names_list *out);
void search_reply_missing(struct api_call *call, struct slice id);
/* The query of a body like {"query":…} or of the parameter q. False: replied 400. */
MUST_CHECK bool search_query(struct api_call *call, struct query *out);

#endif
