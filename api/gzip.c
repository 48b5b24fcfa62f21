/* SPDX-License-Identifier: Apache-2.0 */
/* gzip by zlib; see gzip.h. */
#include "api/gzip.h"

#include <zlib.h>

/* windowBits of zlib: 15 is the window, 16 asks for the gzip frame and nothing else. */
#define GZIP_WINDOW (15 + 16)
#define GZIP_MEMORY 8
/* Elasticsearch's http.compression_level: most of the gain at a third of the time of 6. */
#define GZIP_LEVEL 3

/* zlib counts in unsigned int: larger inputs and outputs go in pieces. */
#define GZIP_PIECE (1u << 30)

struct gzip_stream {
    z_stream z;
};

static unsigned piece_of(uint64_t n)
{
    return n < GZIP_PIECE ? (unsigned)n : GZIP_PIECE;
}

/* Room behind out->len for the next inflate(): at least one byte, at most up to `end`. */
static bool inflate_room(struct buf *out, uint64_t end, size_t hint, unsigned *room_out)
{
    if (out->cap == out->len) {
        uint64_t left = end - out->len;
        uint64_t want = out->len / 2 < hint ? hint : out->len / 2;
        if (!buf_reserve(out, (size_t)(want < left ? want : left)))
            return false;
    }
    uint64_t room = out->cap - out->len;
    *room_out = piece_of(room < end - out->len ? room : end - out->len);
    return true;
}

/* Inflate all members. `end` is one byte more than out->len may reach: who gets there is over. */
static enum rc inflate_all(z_stream *z, struct slice in, uint64_t end, struct buf *out)
{
    size_t hint = in.len < 1024 ? 4096 : in.len > SIZE_MAX / 4 ? in.len : in.len * 4;
    size_t at = 0;
    bool open = true; /* a member has begun, or must begin */

    while (open || at < in.len) {
        unsigned room;
        if (!inflate_room(out, end, hint, &room))
            return RC_NOMEM;
        if (!open && inflateReset(z) != Z_OK)
            return RC_INVALID;
        unsigned given = piece_of(in.len - at);
        z->next_in = (z_const Bytef *)(uintptr_t)(in.ptr + at);
        z->avail_in = given;
        z->next_out = out->ptr + out->len;
        z->avail_out = room;
        int result = inflate(z, Z_NO_FLUSH);
        at += given - z->avail_in;
        out->len += room - z->avail_out;
        if (out->len == end)
            return RC_TOO_LARGE;
        if (result == Z_MEM_ERROR)
            return RC_NOMEM;
        if (result != Z_OK && result != Z_STREAM_END)
            return RC_INVALID; /* Z_BUF_ERROR with room left: the input is cut */
        open = result != Z_STREAM_END;
    }
    return RC_OK;
}

enum rc gunzip(struct slice in, uint64_t max, struct buf *out, struct err *err)
{
    size_t before = out->len;
    z_stream z = {0};

    if (in.len == 0)
        return err_set(err, RC_INVALID, 0, "gzip: empty input");
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return err_set(err, RC_NOMEM, 0, "gzip: out of memory");
    uint64_t most = SIZE_MAX / 2 - before;
    uint64_t end = before + (max < most ? max : most) + 1;
    enum rc rc = inflate_all(&z, in, end, out);
    switch (rc) {
    case RC_OK:
        break;
    case RC_TOO_LARGE:
        err_set(err, rc, 0, "gzip: content inflates to more than [%llu] bytes",
                (unsigned long long)max);
        break;
    case RC_NOMEM:
        err_set(err, rc, 0, "gzip: out of memory");
        break;
    default:
        err_set(err, rc, 0, "gzip: %s", z.msg != NULL ? z.msg : "unexpected end of input");
        break;
    }
    inflateEnd(&z);
    if (rc != RC_OK)
        out->len = before;
    return rc;
}

enum rc gzip_stream_open(struct gzip_stream **out)
{
    struct gzip_stream *stream = (struct gzip_stream *)calloc(1, sizeof *stream);
    if (stream == NULL)
        return RC_NOMEM;
    if (deflateInit2(&stream->z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(stream);
        return RC_NOMEM;
    }
    *out = stream;
    return RC_OK;
}

enum rc gzip_stream_put(struct gzip_stream *stream, struct slice in, bool last, struct buf *out)
{
    z_stream *z = &stream->z;
    size_t at = 0;
    int result;

    if (in.len == 0)
        in = SLICE_LIT("");
    do {
        unsigned given = piece_of(in.len - at);
        bool final = last && given == in.len - at;
        z->next_in = (z_const Bytef *)(uintptr_t)(in.ptr + at);
        z->avail_in = given;
        do {
            size_t bound = deflateBound(z, z->avail_in) + 64;
            if (out->cap - out->len < 64 && !buf_reserve(out, bound))
                return RC_NOMEM;
            unsigned room = piece_of(out->cap - out->len);
            z->next_out = out->ptr + out->len;
            z->avail_out = room;
            result = deflate(z, final ? Z_FINISH : Z_NO_FLUSH);
            assert(result != Z_STREAM_ERROR);
            out->len += room - z->avail_out;
        } while (z->avail_out == 0 || z->avail_in != 0);
        at += given;
    } while (at < in.len);
    assert(!last || result == Z_STREAM_END);
    return RC_OK;
}

void gzip_stream_close(struct gzip_stream *stream)
{
    if (stream == NULL)
        return;
    deflateEnd(&stream->z);
    free(stream);
}

enum rc gzip_deflate(struct slice in, struct buf *out)
{
    size_t before = out->len;
    struct gzip_stream *stream;

    TRY(gzip_stream_open(&stream));
    enum rc rc = gzip_stream_put(stream, in, true, out);
    gzip_stream_close(stream);
    if (rc != RC_OK)
        out->len = before;
    return rc;
}
