/* SPDX-License-Identifier: Apache-2.0 */
/* The door: verifies passwords, which is slow on purpose, on a thread of its own; recognises those
 * that it has verified; makes those who guess wait.
 *
 *   D1  a verified password is recognised for 5 minutes since it was used last, an hour at most, by
 *       a MAC under a key of this process over name, password and stored hash: a changed password
 *       or a removed user is a different text. At most 1,024 of them.
 *   D2  failures are counted for the address (IPv6: /64) and for the user. From the fifth of an
 *       address on each further attempt waits longer, up to 2 s after the one before it; attempts
 * that wait count as failed, so that guesses in parallel gain nothing. The same password for the
 * same user from the same address is one attempt, however many requests wait for its answer. The
 *       count halves every 30 s. The user's own begins to slow at the twentieth, to at most 0.5 s,
 * so that nobody can lock a user out. D3  what would wait longer than 10 s, and more than 16
 * attempts of one address at a time, is refused with 429 instead. The queue is bounded, and the
 * earliest due goes first. D4  an unknown user costs the same time as a wrong password. */
#ifndef STOWD_DOOR_H
#define STOWD_DOOR_H

#include "api/access.h"

#define DOOR_PEER_BYTES 16 /* an IPv6 address, or an IPv4 one mapped into it */

enum door_answer { DOOR_OPEN, DOOR_WRONG, DOOR_BUSY, DOOR_STOPPED };

/* One attempt. Lives in its call's memory. */
struct door_visit {
    struct api_call *call;
    struct principal *user;    /* retained; NULL: unknown */
    struct buf name, password; /* zero-terminated; the password is wiped when the answer is known */
    char said[USERS_NAME_BYTES + 1]; /* the name, cut, for the answer */
    bool secret_wrong;               /* known to be wrong already: only the delay is due */
    enum door_answer answer;
    /* internal */
    struct secret_digest mac; /* of name and password: equal ones of an address are judged once */
    bool has_mac, twin;
    uint64_t peer_key, user_key, due_ns;
    struct door_visit *next;
};

MUST_CHECK enum rc door_open(struct access *access, struct door **out, struct err *err);
void door_close(struct door *door); /* accepts NULL; nobody waits any more */
/* Was this password verified for this user lately? */
bool door_knows(struct door *door, const struct principal *user, struct slice password);
/* Queue a visit. True: visit->call->admitted() follows on the door's thread. False: answered at
 * once (visit->answer). */
MUST_CHECK bool door_knock(struct door *door, struct door_visit *visit);
/* Everybody who waits, or comes later, gets DOOR_STOPPED. */
void door_stop(struct door *door);

#endif
