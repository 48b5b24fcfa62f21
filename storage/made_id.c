/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that the daemon makes: nonce of the run and seq, as text. */
#include "storage/block.h"
#include "storage/block_format.h"

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void made_id_format(uint64_t nonce, uint64_t seq, char out[MADE_ID_LEN])
{
    assert(nonce < NONCE_MAX);
    uint8_t raw[16];
    put_be64(raw, nonce << 8);
    put_be64(raw + NONCE_BYTES, seq);
    for (size_t i = 0; i < MADE_ID_LEN / 4; i++) {
        const uint8_t *p = raw + 3 * i;
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        out[4 * i] = base64url[v >> 18];
        out[4 * i + 1] = base64url[v >> 12 & 63];
        out[4 * i + 2] = base64url[v >> 6 & 63];
        out[4 * i + 3] = base64url[v & 63];
    }
}

void made_id_last(uint64_t seq, char *end)
{
    end[-2] = base64url[seq >> 6 & 63];
    end[-1] = base64url[seq & 63];
}

static int base64url_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool made_id_parse(struct slice id, uint64_t *nonce_out, uint64_t *seq_out)
{
    if (id.len != MADE_ID_LEN)
        return false;
    uint8_t raw[15];
    for (size_t i = 0; i < MADE_ID_LEN / 4; i++) {
        uint32_t v = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = base64url_value(id.ptr[4 * i + j]);
            if (value < 0)
                return false;
            v = v << 6 | (uint32_t)value;
        }
        raw[3 * i] = (uint8_t)(v >> 16);
        raw[3 * i + 1] = (uint8_t)(v >> 8);
        raw[3 * i + 2] = (uint8_t)v;
    }
    *nonce_out = get_be64(raw) >> 8;
    *seq_out = get_be64(raw + NONCE_BYTES);
    return true;
}
