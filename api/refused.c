/* SPDX-License-Identifier: Apache-2.0 */
#include "api/refused.h"

#include "api/handlers.h"
#include "api/names.h"
#include "api/query.h"

#define ENGINE                                                                                     \
    "stowd has no query engine: documents are read by id, _mget, and _search and _count "          \
    "with " QUERY_KNOWN
#define SCRIPT   "scripts are not supported: stowd never changes a document by itself"
#define SNAPSHOT "there are no snapshots here: stowctl backup copies the data of a running daemon"
#define RESIZE   "an index is one piece and stays so: _reindex copies it into another one"
#define FREEZE   "an index is not frozen here: use _close, or PUT /{index}/_block/write"
#define PHASE                                                                                      \
    "of a policy's phases only delete acts, so there are no steps: to take an index away from "    \
    "its "                                                                                         \
    "policy put [index.lifecycle.name] null to its _settings"
#define POLL                                                                                       \
    "the daemon's setting lifecycle.poll_interval says how often old indices are looked for (0: "  \
    "never); it is not changed by a request"
#define ISM                                                                                        \
    "index state management is not there: old indices are deleted by the setting "                 \
    "[index.lifecycle.data_retention] or by the delete phase of a policy of _ilm/policy"
#define INGEST "stowd stores documents as they come and runs no processors: let the shipper do it"
#define USERS                                                                                      \
    "users and their roles are kept in a file: stowctl user add, passwd or remove changes it, "    \
    "and "                                                                                         \
    "the daemon follows"
#define ONE "there is one node, which holds every index: nothing is placed elsewhere"
#define MONITORING                                                                                 \
    "monitoring data is not taken here: collect GET /_metrics or _nodes/stats, or let the "        \
    "collector write to an index of its own"
#define ABSENT                                                                                     \
    "stowd stores documents and gives them back; this feature of Elasticsearch is not "            \
    "there"

/* Globs of raw paths; the first that matches counts. */
static const struct {
    const char *path, *reason;
} TABLE[] = {
    {"*/_analyze", ENGINE},
    {"*/_field_caps", ENGINE},
    {"*/_msearch*", ENGINE},
    {"*/_search/template", ENGINE},
    {"*/_render/template*", ENGINE},
    {"*/_explain/*", ENGINE},
    {"*/_validate/query", ENGINE},
    {"*/_termvectors*", ENGINE},
    {"*/_mtermvectors", ENGINE},
    {"*/_rank_eval", ENGINE},
    {"*/_async_search*", ENGINE},
    {"*/_eql/*", ENGINE},
    {"*/_knn_search", ENGINE},
    {"*/_mvt/*", ENGINE},
    {"*/_terms_enum", ENGINE},
    {"*/_graph/*", ENGINE},
    {"*/_search_shards", ENGINE},
    {"/_sql*", ENGINE},
    {"/_query*", ENGINE},
    {"/_plugins/_sql*", ENGINE},
    {"/_plugins/_ppl*", ENGINE},
    {"/_scripts*", SCRIPT},
    {"/_script_*", SCRIPT},
    {"/_snapshot*", SNAPSHOT},
    {"/_slm*", SNAPSHOT},
    {"/_cat/snapshots*", SNAPSHOT},
    {"/_plugins/_sm*", SNAPSHOT},
    {"*/_shrink*", RESIZE},
    {"*/_split*", RESIZE},
    {"*/_clone*", RESIZE},
    {"*/_freeze", FREEZE},
    {"*/_unfreeze", FREEZE},
    {"/_ilm/st*", POLL},
    {"*/_ilm/*", PHASE},
    {"/_plugins/_ism*", ISM},
    {"/_opendistro/_ism*", ISM},
    {"/_ingest/*", INGEST},
    {"/_enrich/*", INGEST},
    {"/_security*", USERS},
    {"/_xpack/security*", USERS},
    {"/_plugins/_security*", USERS},
    {"/_cluster/allocation/explain", ONE},
    {"/_cluster/reroute", ONE},
    {"/_cluster/voting_config_exclusions*", ONE},
    {"/_cluster/routing*", ONE},
    {"/_cluster/decommission*", ONE},
    {"/_nodes/*shutdown", ONE},
    {"*/_shard_stores", ONE},
    {"*/_ccr/*", ONE},
    {"/_monitoring*", MONITORING},
    {"/_nodes/hot_threads", "there is no JVM whose threads could be shown: use perf or top"},
    {"/_nodes/*/hot_threads", "there is no JVM whose threads could be shown: use perf or top"},
    {"/_nodes/usage*", "GET /_metrics counts requests by what they do"},
    {"/_nodes/*/usage*", "GET /_metrics counts requests by what they do"},
    {"/_nodes/*repositories_metering*", SNAPSHOT},
    {"/_nodes/reload_secure_settings", "SIGHUP makes the daemon read users and certificates again"},
    {"/_nodes/*/reload_secure_settings",
     "SIGHUP makes the daemon read users and certificates again"},
    {"/_health_report", "GET /_cluster/health says how the node is, GET /_metrics the rest"},
    {"/_license*", "there is nothing to license: GET /_license answers for clients that ask"},
    {"/_xpack/license*", "there is nothing to license: GET /_license answers for clients that ask"},
    {"/_data_stream/_m*", "a data stream begins empty and is not changed by hand: write to it, "
                          "_rollover begins its next index"},
    {"/_data_stream/_promote/*", ONE},
    {"/_upgrade*", "indices need no upgrade: docs/format.md says what a release reads"},
    {"*/_upgrade", "indices need no upgrade: docs/format.md says what a release reads"},
    {"/_ml/*", ABSENT},
    {"/_watcher/*", ABSENT},
    {"/_transform*", ABSENT},
    {"*/_rollup*", ABSENT},
    {"/_autoscaling*", ABSENT},
    {"/_logstash/*", ABSENT},
    {"/_fleet/*", ABSENT},
    {"/_inference*", ABSENT},
    {"/_application/*", ABSENT},
    {"/_connector*", ABSENT},
    {"/_profiling/*", ABSENT},
    {"/_synonyms*", ABSENT},
    {"/_features*", ABSENT},
    {"/_migration*", ABSENT},
    {"/_dangling*", ABSENT},
    {"/_ssl/*", ABSENT},
    {"/_info/*", ABSENT},
    {"/_xpack/*", ABSENT},
    {"/_plugins/*", ABSENT},
    {"/_opendistro/*", ABSENT},
    {"/_remotestore/*", ABSENT},
    {"/_filecache/*", ABSENT},
};

const char *refused_reason(struct slice path)
{
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    for (size_t i = 0; i < ARRAY_LEN(TABLE); i++)
        if (names_match(slice_str(TABLE[i].path), path))
            return TABLE[i].reason;
    return NULL;
}

/* For paths that a variable of another route would take. */
void refused_get(struct api_call *call)
{
    const char *reason = refused_reason(call->path);
    reply_error(call, 400, "illegal_argument_exception", "[%.*s] is not supported: %s",
                SLICE_FMT(call->path), reason != NULL ? reason : ABSENT);
}
