/* SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include <stdlib.h>
#include <strings.h>

static const struct {
    struct slice name;
    size_t field; /* a slice of struct api_call */
} HEADERS[] = {
#define HEADER(name, field)                                                                        \
    {                                                                                              \
        {(const uint8_t *)(name), sizeof(name) - 1}, offsetof(struct api_call, field)              \
    }
    HEADER("Content-Type", content_type),
    HEADER("Content-Encoding", content_encoding),
    HEADER("Accept", accept),
    HEADER("Accept-Encoding", accept_encoding),
    HEADER("Authorization", authorization),
    HEADER("Host", host),
    HEADER("User-Agent", user_agent),
    HEADER("X-Opaque-Id", opaque_id),
#undef HEADER
};

static bool is_nocase(struct slice s, struct slice other)
{
    return s.len == other.len &&
           strncasecmp((const char *)s.ptr, (const char *)other.ptr, s.len) == 0;
}

enum api_method request_method(const char *text)
{
    static const struct {
        const char *text;
        enum api_method method;
    } rows[] = {
        {"GET", API_GET},   {"POST", API_POST},     {"PUT", API_PUT},
        {"HEAD", API_HEAD}, {"DELETE", API_DELETE}, {"OPTIONS", API_OPTIONS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].text, text) == 0)
            return rows[i].method;
    return API_OTHER;
}

bool request_uri(struct api_call *call, struct slice uri)
{
    static const struct slice schemes[] = {{(const uint8_t *)"http://", 7},
                                           {(const uint8_t *)"https://", 8}};
    call->path = SLICE_LIT("/");
    if (uri.len == 0 || slice_is(uri, "*"))
        return true;
    if (uri.ptr[0] != '/') {
        size_t at = 0;
        for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
            if (uri.len >= schemes[i].len &&
                is_nocase(slice_of(uri.ptr, schemes[i].len), schemes[i]))
                at = schemes[i].len;
        if (at == 0)
            return false;
        while (at < uri.len && uri.ptr[at] != '/' && uri.ptr[at] != '?')
            at++;
        uri = slice_of(uri.ptr + at, uri.len - at);
    }
    const uint8_t *mark = uri.len == 0 ? NULL : (const uint8_t *)memchr(uri.ptr, '?', uri.len);
    size_t path_len = mark == NULL ? uri.len : (size_t)(mark - uri.ptr);
    if (path_len > 0)
        call->path = slice_of(uri.ptr, path_len);
    if (mark != NULL)
        call->query = slice_of(mark + 1, uri.len - path_len - 1);
    return true;
}

void request_header(struct api_call *call, struct request_marks *marks, struct slice name,
                    struct slice value)
{
    for (size_t i = 0; i < ARRAY_LEN(HEADERS); i++)
        if (is_nocase(name, HEADERS[i].name)) {
            memcpy((char *)call + HEADERS[i].field, &value, sizeof value);
            marks->hosts += HEADERS[i].field == offsetof(struct api_call, host);
            return;
        }
    if (is_nocase(name, SLICE_LIT("Content-Length"))) {
        marks->lengths++;
        call->has_length = true;
        call->content_length = strtoull((const char *)value.ptr, NULL, 10); /* checked before */
    } else if (is_nocase(name, SLICE_LIT("Transfer-Encoding"))) {
        marks->encodings++;
        call->chunked = is_nocase(value, SLICE_LIT("chunked"));
    } else if (is_nocase(name, SLICE_LIT("Expect"))) {
        marks->expects = is_nocase(value, SLICE_LIT("100-continue"));
    }
}

void request_version(struct request_marks *marks, const char *version)
{
    bool first = strcmp(version, "HTTP/1.0") == 0;
    marks->expects = marks->expects && !first;
    marks->host_wrong = marks->hosts > 1 || (marks->hosts == 0 && !first);
}

bool request_framed(const struct api_call *call, const struct request_marks *marks)
{
    return marks->lengths <= 1 && marks->encodings <= 1 &&
           (marks->encodings == 0 || (call->chunked && marks->lengths == 0));
}
