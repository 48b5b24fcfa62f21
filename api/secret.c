/* SPDX-License-Identifier: Apache-2.0 */
#include "api/secret.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

bool secret_random(void *out, size_t bytes)
{
    return gnutls_rnd(GNUTLS_RND_KEY, out, bytes) == 0;
}

bool secret_mac(struct slice key, struct slice text, struct secret_digest *out)
{
    return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.ptr, key.len, text.ptr, text.len, out->bytes) ==
           0;
}

bool secret_equal(const struct secret_digest *a, const struct secret_digest *b)
{
    return gnutls_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool secret_decode64(struct slice text, struct buf *out)
{
    gnutls_datum_t from, made = {NULL, 0};
    uint8_t none[1] = {0};

    if (text.len > UINT32_MAX)
        return false;
    from.data = text.len == 0 ? none : (uint8_t *)(uintptr_t)text.ptr;
    from.size = (unsigned)text.len;
    if (text.len == 0)
        return true;
    if (gnutls_base64_decode2(&from, &made) != 0)
        return false;
    buf_put(out, made.data, made.size);
    gnutls_memset(made.data, 0, made.size);
    gnutls_free(made.data);
    return !out->failed;
}

void secret_encode64(struct slice bytes, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t v = (uint32_t)bytes.ptr[i] << 16;
        v |= left > 1 ? (uint32_t)bytes.ptr[i + 1] << 8 : 0;
        v |= left > 2 ? bytes.ptr[i + 2] : 0;
        const char four[4] = {digits[v >> 18], digits[v >> 12 & 63],
                              left > 1 ? digits[v >> 6 & 63] : '=',
                              left > 2 ? digits[v & 63] : '='};
        buf_put(out, four, sizeof four);
    }
}

bool secret_word(size_t bytes, struct buf *out)
{
    uint8_t random[32];
    size_t at = out->len;

    assert(bytes <= sizeof random);
    if (!secret_random(random, bytes))
        return false;
    secret_encode64(slice_of(random, bytes), out);
    gnutls_memset(random, 0, sizeof random);
    while (out->len > at && out->ptr[out->len - 1] == '=')
        out->len--;
    for (size_t i = at; i < out->len; i++)
        out->ptr[i] = out->ptr[i] == '+' ? '-' : out->ptr[i] == '/' ? '_' : out->ptr[i];
    return !out->failed;
}

void secret_hex(struct slice bytes, struct buf *out)
{
    for (size_t i = 0; i < bytes.len; i++)
        buf_printf(out, "%02x", bytes.ptr[i]);
}

bool secret_unhex(struct slice text, void *out, size_t bytes)
{
    uint8_t *to = (uint8_t *)out;
    if (text.len != 2 * bytes)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        uint8_t digit = (uint8_t)(c >= '0' && c <= '9'   ? c - '0'
                                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                         : 255);
        if (digit == 255)
            return false;
        to[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : to[i / 2] | digit);
    }
    return true;
}

void secret_wipe(struct buf *buf)
{
    if (buf->ptr != NULL)
        gnutls_memset(buf->ptr, 0, buf->cap);
    buf_done(buf);
}
