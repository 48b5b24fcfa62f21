/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be guessed or must not be seen: random bytes, digests, base64, comparison in constant
 * time; by GnuTLS. Only file with <gnutls/…> in this room. */
#ifndef STOWD_SECRET_H
#define STOWD_SECRET_H

#include "config/base.h"
#include "config/buf.h"

#define SECRET_DIGEST_BYTES 32

struct secret_digest {
    uint8_t bytes[SECRET_DIGEST_BYTES];
};

MUST_CHECK bool secret_random(void *out, size_t bytes);
/* HMAC-SHA256. */
MUST_CHECK bool secret_mac(struct slice key, struct slice text, struct secret_digest *out);
bool secret_equal(const struct secret_digest *a, const struct secret_digest *b);
/* Standard alphabet with padding. False: not base64, or no memory. */
MUST_CHECK bool secret_decode64(struct slice text, struct buf *out);
void secret_encode64(struct slice bytes, struct buf *out);
/* base64url of random bytes, without padding: 15 bytes are 20 characters, 16 are 22. */
MUST_CHECK bool secret_word(size_t bytes, struct buf *out);
void secret_hex(struct slice bytes, struct buf *out);
MUST_CHECK bool secret_unhex(struct slice text, void *out, size_t bytes);
void secret_wipe(struct buf *buf); /* and free */

#endif
