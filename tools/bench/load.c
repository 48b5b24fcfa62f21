/* SPDX-License-Identifier: Apache-2.0 */
/* Load generator. Prints one line of JSON.
 *
 *   load bulk PORT INDEX CORPUS   the corpus through _bulk, again and again
 *   load put PORT INDEX CORPUS    PUT /INDEX/_doc/p-N, one document a request
 *   load get PORT IDS             GET /INDEX/_doc/ID; IDS holds lines "INDEX/ID"
 *   load mget PORT IDS            POST /INDEX/_mget of --docs random ids
 *   load url PORT PATH            GET PATH
 *
 *   --connections N   (1)
 *   --rate R          requests a second; else as many as are answered
 *   --seconds S, --requests N, --docs N, --passes N   when to end, what comes first (one pass)
 *   --bytes N         bulk: size of a request (5000000); at least one document
 *   --ids KIND        bulk: made (by the daemon, the default), uuid, ascending, pool:N (drawn from
 *                     N ids)
 *   --save-ids FILE   bulk: the ids that were answered, as get and mget read them
 *   --seed N          of everything random */
#include "tools/bench/client.h"
#include "tools/bench/corpus.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ID_LEN     36 /* of client ids, all kinds */
#define HEAD_BYTES 512

enum ids { IDS_MADE, IDS_UUID, IDS_ASCENDING, IDS_POOL };

struct limits {
    double seconds;
    uint64_t requests, docs, passes;
};

/* A piece of the corpus as the body of a bulk. */
struct chunk {
    size_t at, len;
    size_t first, docs;
};

struct load {
    uint16_t port;
    const char *index;
    unsigned connections;
    double rate;
    struct limits limits;
    size_t bulk_bytes;
    enum ids ids;
    uint64_t pool;
    FILE *save;
    uint64_t seed;
    size_t mget_docs;

    struct corpus corpus; /* or the lines of IDS */
    char *bulk;           /* the corpus with its action lines */
    struct chunk *chunks;
    size_t chunk_count;
    size_t *id_at;             /* of each document, in bulk */
    char (*heads)[HEAD_BYTES]; /* one a connection, as are bodies */
    char **bodies;
    size_t body_cap;

    double until; /* monotonic */
    uint64_t random, next_id;
    uint64_t requests, docs, raw_bytes, item_failures;
    uint64_t pass, in_pass;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *must_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (p == NULL)
        err(1, "memory");
    return p;
}

/* Limits that are the same for every kind of load. */
static bool at_limit(const struct load *load)
{
    const struct limits *limits = &load->limits;
    return (limits->requests != 0 && load->requests >= limits->requests) ||
           (limits->docs != 0 && load->docs >= limits->docs) ||
           (limits->seconds > 0 && seconds_now() >= load->until);
}

static void put_head(struct load *load, struct exchange *x, const char *method, const char *path,
                     const char *type)
{
    char *head = load->heads[x->connection];
    int n = x->body_len == 0
                ? snprintf(head, HEAD_BYTES, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", method,
                           path, load->port)
                : snprintf(head, HEAD_BYTES,
                           "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: %s\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           method, path, load->port, type, x->body_len);
    if (n >= HEAD_BYTES)
        errx(1, "path is too long");
    x->head = head;
    x->head_len = (size_t)n;
}

/* ---- bulk */

static void put_id(struct load *load, char *dst)
{
    static const char hex[] = "0123456789abcdef";
    char text[ID_LEN + 1];
    if (load->ids == IDS_UUID) {
        uint64_t bits[2] = {random_next(&load->random), random_next(&load->random)};
        for (size_t i = 0; i < ID_LEN; i++) {
            bool dash = i == 8 || i == 13 || i == 18 || i == 23;
            text[i] = dash ? '-' : hex[bits[i / 18] & 15];
            bits[i / 18] >>= dash ? 0 : 4;
        }
        text[14] = '4';
    } else {
        uint64_t n =
            load->ids == IDS_POOL ? random_next(&load->random) % load->pool : load->next_id++;
        snprintf(text, sizeof text, "order-%030" PRIu64, n);
    }
    memcpy(dst, text, ID_LEN);
}

static void build_chunks(struct load *load)
{
    static const char made[] = "{\"index\":{}}\n", before[] = "{\"index\":{\"_id\":\"",
                      after[] = "\"}}\n";
    const struct corpus *corpus = &load->corpus;
    size_t action = load->ids == IDS_MADE ? strlen(made) : strlen(before) + ID_LEN + strlen(after);
    load->bulk = (char *)must_alloc(corpus->len + corpus->count * action, 1);
    load->chunks = (struct chunk *)must_alloc(corpus->count, sizeof *load->chunks);
    load->id_at = (size_t *)must_alloc(corpus->count, sizeof *load->id_at);
    struct chunk chunk = {0};
    char *to = load->bulk;
    for (size_t i = 0; i < corpus->count; i++) {
        size_t len = corpus->start[i + 1] - corpus->start[i];
        if (chunk.docs > 0 && chunk.len + action + len > load->bulk_bytes) {
            load->chunks[load->chunk_count++] = chunk;
            chunk = (struct chunk){.at = chunk.at + chunk.len, .first = i};
        }
        if (load->ids == IDS_MADE) {
            to = (char *)mempcpy(to, made, strlen(made));
        } else {
            to = (char *)mempcpy(to, before, strlen(before));
            load->id_at[i] = (size_t)(to - load->bulk);
            to = (char *)mempcpy(to + ID_LEN, after, strlen(after));
        }
        to = (char *)mempcpy(to, corpus->bytes + corpus->start[i], len);
        chunk.len += action + len;
        chunk.docs++;
        if (chunk.len > load->body_cap)
            load->body_cap = chunk.len;
    }
    load->chunks[load->chunk_count++] = chunk;
}

static bool bulk_next(void *arg, struct exchange *x)
{
    struct load *load = (struct load *)arg;
    char path[256];
    if (load->in_pass == load->chunk_count) {
        load->pass++;
        load->in_pass = 0;
    }
    if (at_limit(load) || (load->limits.passes != 0 && load->pass >= load->limits.passes))
        return false;
    const struct chunk *chunk = &load->chunks[load->in_pass++];
    x->body = load->bulk + chunk->at;
    x->body_len = chunk->len;
    if (load->ids != IDS_MADE) {
        char *body = load->bodies[x->connection];
        memcpy(body, load->bulk + chunk->at, chunk->len);
        for (size_t i = 0; i < chunk->docs; i++)
            put_id(load, body + (load->id_at[chunk->first + i] - chunk->at));
        x->body = body;
    }
    if (snprintf(path, sizeof path, "/%s/_bulk", load->index) >= (int)sizeof path)
        errx(1, "name of the index is too long");
    put_head(load, x, "POST", path, "application/x-ndjson");
    load->requests++;
    load->docs += chunk->docs;
    load->raw_bytes += load->corpus.start[chunk->first + chunk->docs] -
                       load->corpus.start[chunk->first] - chunk->docs;
    return true;
}

static void save_ids(struct load *load, const struct exchange *x)
{
    static const char key[] = "\"_id\":\"";
    const char *at = x->answer, *end = x->answer + x->answer_len;
    while ((at = (const char *)memmem(at, (size_t)(end - at), key, strlen(key))) != NULL) {
        at += strlen(key);
        const char *quote = (const char *)memchr(at, '"', (size_t)(end - at));
        if (quote == NULL)
            return;
        fprintf(load->save, "%s/%.*s\n", load->index, (int)(quote - at), at);
    }
}

static void bulk_done(void *arg, const struct exchange *x)
{
    struct load *load = (struct load *)arg;
    size_t start = x->answer_len < 64 ? x->answer_len : 64;
    if (memmem(x->answer, start, "\"errors\":false", 14) == NULL)
        load->item_failures++;
    if (load->save != NULL)
        save_ids(load, x);
}

/* ---- one document a request */

static bool put_next(void *arg, struct exchange *x)
{
    struct load *load = (struct load *)arg;
    char path[256];
    if (at_limit(load))
        return false;
    size_t doc = load->docs % load->corpus.count;
    x->body = load->corpus.bytes + load->corpus.start[doc];
    x->body_len = load->corpus.start[doc + 1] - load->corpus.start[doc] - 1;
    snprintf(path, sizeof path, "/%.100s/_doc/p-%" PRIu64 "-%" PRIu64, load->index, load->seed,
             load->docs);
    put_head(load, x, "PUT", path, "application/json");
    load->requests++;
    load->docs++;
    load->raw_bytes += x->body_len;
    return true;
}

/* A random line of IDS: name of the index and id. */
static void draw(struct load *load, const char **index, int *index_len, const char **id,
                 int *id_len)
{
    size_t line = random_next(&load->random) % load->corpus.count;
    const char *at = load->corpus.bytes + load->corpus.start[line];
    const char *end = load->corpus.bytes + load->corpus.start[line + 1] - 1;
    const char *slash = (const char *)memchr(at, '/', (size_t)(end - at));
    if (slash == NULL)
        errx(1, "a line of the ids is not INDEX/ID");
    *index = at;
    *index_len = (int)(slash - at);
    *id = slash + 1;
    *id_len = (int)(end - slash - 1);
}

static bool get_next(void *arg, struct exchange *x)
{
    struct load *load = (struct load *)arg;
    const char *index, *id;
    int index_len, id_len;
    char path[1024];
    if (at_limit(load))
        return false;
    draw(load, &index, &index_len, &id, &id_len);
    snprintf(path, sizeof path, "/%.*s/_doc/%.*s", index_len, index, id_len, id);
    put_head(load, x, "GET", path, NULL);
    load->requests++;
    load->docs++;
    return true;
}

static bool mget_next(void *arg, struct exchange *x)
{
    struct load *load = (struct load *)arg;
    const char *index, *id;
    int index_len, id_len;
    char path[1024];
    if (at_limit(load))
        return false;
    char *body = load->bodies[x->connection], *to = stpcpy(body, "{\"ids\":[");
    for (size_t i = 0; i < load->mget_docs; i++) {
        draw(load, &index, &index_len, &id, &id_len);
        to += sprintf(to, "%s\"%.*s\"", i == 0 ? "" : ",", id_len, id);
    }
    to = stpcpy(to, "]}");
    x->body = body;
    x->body_len = (size_t)(to - body);
    snprintf(path, sizeof path, "/%.*s/_mget", index_len, index);
    put_head(load, x, "POST", path, "application/json");
    load->requests++;
    load->docs += load->mget_docs;
    return true;
}

static bool url_next(void *arg, struct exchange *x)
{
    struct load *load = (struct load *)arg;
    if (at_limit(load))
        return false;
    put_head(load, x, "GET", load->index, NULL);
    load->requests++;
    return true;
}

/* ---- */

static void read_ids_kind(struct load *load, const char *kind)
{
    if (strcmp(kind, "made") == 0) {
        load->ids = IDS_MADE;
    } else if (strcmp(kind, "uuid") == 0) {
        load->ids = IDS_UUID;
    } else if (strcmp(kind, "ascending") == 0) {
        load->ids = IDS_ASCENDING;
    } else if (strncmp(kind, "pool:", 5) == 0 && (load->pool = strtoull(kind + 5, NULL, 10)) > 0) {
        load->ids = IDS_POOL;
    } else {
        errx(2, "--ids %s?", kind);
    }
}

static void read_option(struct load *load, int option, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10);
    switch (option) {
    case 'c':
        load->connections = number == 0 ? 1 : (unsigned)number;
        break;
    case 'r':
        load->rate = atof(value);
        break;
    case 's':
        load->limits.seconds = atof(value);
        break;
    case 'n':
        load->limits.requests = number;
        break;
    case 'd':
        load->limits.docs = number;
        break;
    case 'p':
        load->limits.passes = number;
        break;
    case 'b':
        load->bulk_bytes = number;
        break;
    case 'i':
        read_ids_kind(load, value);
        break;
    case 'o':
        load->save = fopen(value, "w");
        if (load->save == NULL)
            err(1, "%s", value);
        break;
    case 'x':
        load->seed = number;
        break;
    default:
        errx(2, "see the head of tools/bench/load.c");
    }
}

static void print(const struct load *load, const struct client_result *r)
{
    printf("{\"requests\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"docs\":%" PRIu64
           ",\"raw_bytes\":%" PRIu64 ",\"received_bytes\":%" PRIu64 ",\"seconds\":%.6f"
           ",\"client_cpu_seconds\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f"
           ",\"max_us\":%.1f}\n",
           r->requests, r->failed + load->item_failures, load->docs, load->raw_bytes,
           r->received_bytes, r->seconds, r->client_cpu_seconds, client_percentile_us(r, 50),
           client_percentile_us(r, 99), client_percentile_us(r, 99.9),
           client_percentile_us(r, 100));
}

static void prepare(struct load *load, const char *kind, const char *file)
{
    load->random = load->seed * 0x9e3779b97f4a7c15ull | 1;
    load->next_id = load->seed << 32;
    if (strcmp(kind, "url") != 0)
        corpus_read(file, &load->corpus);
    if (strcmp(kind, "bulk") == 0)
        build_chunks(load);
    if (strcmp(kind, "mget") == 0) {
        load->mget_docs = load->limits.docs == 0 ? 100 : load->limits.docs;
        load->limits.docs = 0;
        load->body_cap = load->mget_docs * 600 + 64;
    }
    if (load->limits.passes == 0 && load->limits.seconds == 0 && load->limits.requests == 0 &&
        load->limits.docs == 0) {
        load->limits.passes = 1;
        load->limits.requests = strcmp(kind, "bulk") == 0 ? 0 : 1000;
    }
    load->heads = (char(*)[HEAD_BYTES])must_alloc(load->connections, HEAD_BYTES);
    load->bodies = (char **)must_alloc(load->connections, sizeof *load->bodies);
    for (unsigned i = 0; i < load->connections; i++)
        load->bodies[i] = (char *)must_alloc(load->body_cap + 1, 1);
    load->until = seconds_now() + load->limits.seconds;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"connections", required_argument, NULL, 'c'},
        {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},
        {"requests", required_argument, NULL, 'n'},
        {"docs", required_argument, NULL, 'd'},
        {"passes", required_argument, NULL, 'p'},
        {"bytes", required_argument, NULL, 'b'},
        {"ids", required_argument, NULL, 'i'},
        {"save-ids", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 'x'},
        {NULL, 0, NULL, 0},
    };
    static const struct kind {
        const char *name;
        int arguments;
        bool (*next)(void *arg, struct exchange *x);
        void (*done)(void *arg, const struct exchange *x);
    } kinds[] = {
        {"bulk", 3, bulk_next, bulk_done}, {"put", 3, put_next, NULL}, {"get", 2, get_next, NULL},
        {"mget", 2, mget_next, NULL},      {"url", 2, url_next, NULL},
    };
    struct load load = {.connections = 1, .bulk_bytes = 5000000, .seed = 1};
    struct client_result result;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        read_option(&load, option, optarg == NULL ? "" : optarg);
    const struct kind *kind = kinds;
    while (kind < kinds + sizeof kinds / sizeof *kinds &&
           (optind >= argc || strcmp(kind->name, argv[optind]) != 0))
        kind++;
    if (kind == kinds + sizeof kinds / sizeof *kinds || argc - optind != kind->arguments + 1)
        errx(2, "see the head of tools/bench/load.c");
    load.port = (uint16_t)atoi(argv[optind + 1]);
    load.index = argv[optind + 2];
    prepare(&load, kind->name, argv[argc - 1]);

    struct client_plan plan = {.port = load.port,
                               .connections = load.connections,
                               .rate = load.rate,
                               .next = kind->next,
                               .done = kind->done,
                               .arg = &load};
    client_run(&plan, &result);
    print(&load, &result);
    free(result.latency_ns);
    if (load.save != NULL && fclose(load.save) != 0)
        err(1, "--save-ids");
    return 0;
}
