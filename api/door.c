/* SPDX-License-Identifier: Apache-2.0 */
#include "api/door.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#define NS_PER_MS     1000000ull
#define NS_PER_S      1000000000ull
#define KNOWN_SLOTS   1024
#define KNOWN_IDLE_NS (300 * NS_PER_S)
#define KNOWN_LIFE_NS (3600 * NS_PER_S)
#define GUESS_SETS    1024
#define GUESS_WAYS    4
#define GUESS_HALF_NS (30 * NS_PER_S)
#define QUEUE_MAX     512
#define QUEUE_PEER    16
#define WAIT_MOST_NS  (10 * NS_PER_S)
#define LOOK_NS       (5 * NS_PER_S) /* at the users file, as Elasticsearch's file realm does */
/* Of the password "" under a fixed salt: verified against when there is no such user (D4). */
#define NOBODY_HASH "$y$j9T$nobodynobodynobodynobo.$xUd7hX4gJJ3lVTcX9vHpjw9C7CnxcFuusM28TnIcW12"

struct known {
    struct secret_digest mac;
    uint64_t first_ns, last_ns; /* last_ns 0: free */
};

/* Failures of an address or of a user. */
struct guess {
    uint64_t key;
    uint64_t last_ns; /* of the last failure; 0: free */
    uint64_t next_ns; /* the next attempt is not due before */
    uint32_t failures;
};

struct door {
    struct access *access;
    uint8_t key[32];
    uint64_t seed;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool stop, ended;
    struct door_visit *queue;
    size_t waiting;
    struct known known[KNOWN_SLOTS];
    struct guess guess[GUESS_SETS][GUESS_WAYS];
};

/* ---- who is known */

static bool mac_of(const struct door *door, const char *name, const char *hash,
                   struct slice password, struct secret_digest *out)
{
    struct buf text = {0};
    buf_put(&text, name, strlen(name) + 1);
    buf_put(&text, hash, strlen(hash) + 1);
    buf_put_slice(&text, password);
    bool ok =
        !text.failed && secret_mac(slice_of(door->key, sizeof door->key), buf_slice(&text), out);
    secret_wipe(&text);
    return ok;
}

static struct known *slot_of(struct door *door, const struct secret_digest *mac)
{
    uint32_t n;
    memcpy(&n, mac->bytes, sizeof n);
    return &door->known[n % KNOWN_SLOTS];
}

static bool known(struct door *door, const struct secret_digest *mac)
{
    uint64_t now = clock_ns();
    pthread_mutex_lock(&door->lock);
    struct known *known = slot_of(door, mac);
    bool ok = known->last_ns != 0 && secret_equal(&known->mac, mac) &&
              now - known->last_ns < KNOWN_IDLE_NS && now - known->first_ns < KNOWN_LIFE_NS;
    if (ok)
        known->last_ns = now;
    pthread_mutex_unlock(&door->lock);
    return ok;
}

bool door_knows(struct door *door, const struct principal *user, struct slice password)
{
    struct secret_digest mac;
    return mac_of(door, user->name, user->hash, password, &mac) && known(door, &mac);
}

static void remember(struct door *door, const struct secret_digest *mac)
{
    uint64_t now = clock_ns();
    pthread_mutex_lock(&door->lock);
    *slot_of(door, mac) = (struct known){*mac, now, now};
    pthread_mutex_unlock(&door->lock);
}

/* ---- who guesses */

static uint64_t peer_key(const struct door *door, const uint8_t *peer)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (peer == NULL)
        return 0;
    size_t len = memcmp(peer, mapped, sizeof mapped) == 0 ? DOOR_PEER_BYTES : DOOR_PEER_BYTES / 2;
    return XXH3_64bits_withSeed(peer, len, door->seed) | 1;
}

static uint64_t user_key(const struct door *door, struct slice name)
{
    return XXH3_64bits_withSeed(name.ptr, name.len, ~door->seed) & ~1ull;
}

static uint32_t decayed(const struct guess *guess, uint64_t now)
{
    uint64_t halves = (now - guess->last_ns) / GUESS_HALF_NS;
    return guess->last_ns == 0 || halves > 31 ? 0 : guess->failures >> halves;
}

/* The entry of a key, or, with make, the least of its set. */
static struct guess *guess_locked(struct door *door, uint64_t key, bool make, uint64_t now)
{
    struct guess *set = door->guess[(key >> 1) % GUESS_SETS], *least = set;
    for (size_t i = 0; i < GUESS_WAYS; i++) {
        if (set[i].last_ns != 0 && set[i].key == key)
            return &set[i];
        if (decayed(&set[i], now) < decayed(least, now))
            least = &set[i];
    }
    if (!make)
        return NULL;
    *least = (struct guess){.key = key};
    return least;
}

/* When may the next attempt of this key be made? Takes the place. */
static uint64_t due_locked(struct door *door, uint64_t key, uint32_t waiting, uint32_t free,
                           uint64_t most_ns, uint64_t now)
{
    struct guess *guess = guess_locked(door, key, false, now);
    uint32_t failures = (guess == NULL ? 0 : decayed(guess, now)) + waiting;
    if (failures < free)
        return now;
    uint32_t over = failures - free;
    uint64_t delay = over > 20 ? most_ns : (100 * NS_PER_MS) << over;
    delay = delay > most_ns ? most_ns : delay;
    return (guess != NULL && guess->next_ns > now ? guess->next_ns : now) + delay;
}

static void take_place_locked(struct door *door, uint64_t key, uint64_t due, uint64_t now)
{
    if (due <= now)
        return;
    struct guess *guess = guess_locked(door, key, true, now);
    if (guess->last_ns == 0)
        guess->last_ns = now;
    if (due > guess->next_ns)
        guess->next_ns = due;
}

static void failed_locked(struct door *door, uint64_t key, uint64_t now)
{
    struct guess *guess = guess_locked(door, key, true, now);
    guess->failures = decayed(guess, now) + 1;
    guess->last_ns = now;
}

/* ---- visits */

static void visit_end(struct door_visit *visit, enum door_answer answer)
{
    struct api_call *call = visit->call;
    visit->answer = answer;
    secret_wipe(&visit->password);
    if (answer == DOOR_OPEN)
        call->user = visit->user;
    else
        principal_release(visit->user);
    visit->user = NULL;
    buf_done(&visit->name);
}

static void insert_locked(struct door *door, struct door_visit *visit)
{
    struct door_visit **at = &door->queue;
    while (*at != NULL && (*at)->due_ns <= visit->due_ns)
        at = &(*at)->next;
    visit->next = *at;
    *at = visit;
    door->waiting++;
}

/* One that waits with the same words from the same address; how many others of it wait. */
static const struct door_visit *twin_locked(const struct door *door, const struct door_visit *visit,
                                            uint32_t *others_out)
{
    const struct door_visit *twin = NULL;
    *others_out = 0;
    for (const struct door_visit *v = door->queue; v != NULL; v = v->next) {
        if (v->peer_key != visit->peer_key)
            continue;
        *others_out += !v->twin;
        if (twin == NULL && v->has_mac && visit->has_mac && secret_equal(&v->mac, &visit->mac))
            twin = v;
    }
    return twin;
}

/* When is the visit due? Takes its place. DOOR_OPEN: it may wait. */
static enum door_answer place_locked(struct door *door, struct door_visit *visit, uint64_t now)
{
    uint32_t others;
    const struct door_visit *twin = twin_locked(door, visit, &others);
    if (door->stop)
        return DOOR_STOPPED;
    if (door->waiting >= QUEUE_MAX)
        return DOOR_BUSY;
    visit->twin = twin != NULL;
    if (twin != NULL) {
        visit->due_ns = twin->due_ns;
        return DOOR_OPEN;
    }
    uint64_t due = due_locked(door, visit->peer_key, others, 5, 2 * NS_PER_S, now);
    uint64_t due_user = due_locked(door, visit->user_key, 0, 20, NS_PER_S / 2, now);
    visit->due_ns = due > due_user ? due : due_user;
    if (others >= QUEUE_PEER || visit->due_ns - now > WAIT_MOST_NS)
        return DOOR_BUSY;
    take_place_locked(door, visit->peer_key, due, now);
    take_place_locked(door, visit->user_key, due_user, now);
    return DOOR_OPEN;
}

bool door_knock(struct door *door, struct door_visit *visit)
{
    const char *hash = visit->secret_wrong ? "key" : visit->user != NULL ? visit->user->hash : "";

    visit->peer_key = peer_key(door, visit->call->peer);
    visit->user_key = user_key(door, buf_slice(&visit->name));
    visit->has_mac =
        mac_of(door, (const char *)visit->name.ptr, hash, buf_slice(&visit->password), &visit->mac);
    pthread_mutex_lock(&door->lock);
    enum door_answer refusal = place_locked(door, visit, clock_ns());
    if (refusal == DOOR_OPEN) {
        insert_locked(door, visit);
        pthread_cond_signal(&door->wake);
    }
    pthread_mutex_unlock(&door->lock);
    if (refusal != DOOR_OPEN)
        visit_end(visit, refusal);
    return refusal == DOOR_OPEN;
}

/* Take those who wait with the same words from the same address off the queue. */
static struct door_visit *take_twins_locked(struct door *door, const struct door_visit *visit)
{
    struct door_visit *twins = NULL;
    for (struct door_visit **at = &door->queue; *at != NULL;) {
        struct door_visit *v = *at;
        if (v->peer_key != visit->peer_key || !v->has_mac || !visit->has_mac ||
            !secret_equal(&v->mac, &visit->mac)) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        door->waiting--;
        v->next = twins;
        twins = v;
    }
    return twins;
}

/* On the door's thread, without the lock. A call is another thread's after admitted(). */
static void judge(struct door *door, struct door_visit *visit)
{
    bool ok =
        visit->user != NULL && !visit->secret_wrong && visit->has_mac && known(door, &visit->mac);

    if (!ok && !visit->secret_wrong) {
        const char *hash = visit->user != NULL ? visit->user->hash : NOBODY_HASH;
        ok = users_verify(hash, (const char *)visit->password.ptr) && visit->user != NULL;
        if (ok && visit->has_mac)
            remember(door, &visit->mac);
    }
    uint64_t now = clock_ns();
    pthread_mutex_lock(&door->lock);
    if (!ok) {
        failed_locked(door, visit->peer_key, now);
        failed_locked(door, visit->user_key, now);
    }
    visit->next = take_twins_locked(door, visit);
    pthread_mutex_unlock(&door->lock);
    for (struct door_visit *next; visit != NULL; visit = next) {
        struct api_call *call = visit->call;
        next = visit->next;
        visit_end(visit, ok ? DOOR_OPEN : DOOR_WRONG);
        call->admitted(call);
    }
}

static struct door_visit *take_locked(struct door *door)
{
    struct door_visit *visit = door->queue;
    door->queue = visit->next;
    door->waiting--;
    return visit;
}

static void dismiss_locked(struct door *door)
{
    while (door->queue != NULL) {
        struct door_visit *visit = take_locked(door);
        struct api_call *call = visit->call;
        visit_end(visit, DOOR_STOPPED);
        call->admitted(call);
    }
}

/* ---- the users file */

struct look {
    struct timespec changed;
    ino_t number;
    off_t size;
};

static struct look look_at(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return (struct look){{0, 0}, 0, 0};
    return (struct look){st.st_mtim, st.st_ino, st.st_size};
}

static void reload(struct door *door)
{
    struct access *access = door->access;
    const struct api_options *o = &access->api->o;
    struct err err = {0};
    char text[400];
    enum rc rc = access_reload(access, &err);
    snprintf(text, sizeof text, rc == RC_OK ? "security: users read again" : "security: %s",
             err.msg);
    if (o->event != NULL)
        o->event(o->arg, rc == RC_OK ? 0 : 2, text);
}

/* ---- the thread */

static void *serve(void *arg)
{
    struct door *door = (struct door *)arg;
    struct look seen = look_at(door->access->users_file);
    uint64_t next_look = clock_ns() + LOOK_NS;

    pthread_mutex_lock(&door->lock);
    while (!door->ended) {
        uint64_t now = clock_ns();
        if (door->stop)
            dismiss_locked(door);
        if (door->queue != NULL && door->queue->due_ns <= now) {
            struct door_visit *visit = take_locked(door);
            pthread_mutex_unlock(&door->lock);
            judge(door, visit);
            pthread_mutex_lock(&door->lock);
        } else if (now >= next_look) {
            pthread_mutex_unlock(&door->lock);
            struct look found = look_at(door->access->users_file);
            if (memcmp(&found, &seen, sizeof found) != 0)
                reload(door);
            seen = found;
            next_look = now + LOOK_NS;
            pthread_mutex_lock(&door->lock);
        } else {
            uint64_t until = next_look;
            if (door->queue != NULL && door->queue->due_ns < until)
                until = door->queue->due_ns;
            const struct timespec t = {(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
            pthread_cond_timedwait(&door->wake, &door->lock, &t);
        }
    }
    pthread_mutex_unlock(&door->lock);
    return NULL;
}

enum rc door_open(struct access *access, struct door **out, struct err *err)
{
    struct door *door = (struct door *)calloc(1, sizeof *door);
    pthread_condattr_t monotonic;

    if (door == NULL)
        return err_set(err, RC_NOMEM, 0, "security: out of memory");
    door->access = access;
    pthread_mutex_init(&door->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&door->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool random =
        secret_random(door->key, sizeof door->key) && secret_random(&door->seed, sizeof door->seed);
    int failure = random ? pthread_create(&door->thread, NULL, serve, door) : EIO;
    door->running = failure == 0;
    if (failure != 0) {
        door_close(door);
        return err_set(err, RC_IO, failure, "security: no thread or no random bytes");
    }
    *out = door;
    return RC_OK;
}

void door_stop(struct door *door)
{
    pthread_mutex_lock(&door->lock);
    door->stop = true;
    pthread_cond_signal(&door->wake);
    pthread_mutex_unlock(&door->lock);
}

void door_close(struct door *door)
{
    if (door == NULL)
        return;
    if (door->running) {
        pthread_mutex_lock(&door->lock);
        door->stop = door->ended = true;
        dismiss_locked(door);
        pthread_cond_signal(&door->wake);
        pthread_mutex_unlock(&door->lock);
        pthread_join(door->thread, NULL);
    }
    pthread_cond_destroy(&door->wake);
    pthread_mutex_destroy(&door->lock);
    free(door);
}
