/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request, taken apart into an api_call: method, URI, headers, framing. No sockets.
 */
#ifndef STOWD_REQUEST_H
#define STOWD_REQUEST_H

#include "api/api.h"

/* What the headers say beyond the call. All zero before the first one. */
struct request_marks {
    unsigned lengths, encodings, hosts; /* headers of that kind */
    bool expects;                       /* 100-continue */
    bool host_wrong;                    /* HTTP/1.1 wants exactly one */
};

enum api_method request_method(const char *text);
/* Path and query of "/a?b", "http://host/a?b", "*" (OPTIONS). False: none of these. */
bool request_uri(struct api_call *call, struct slice uri);
/* One header; a value is followed by a zero byte. Slices stay the caller's. */
void request_header(struct api_call *call, struct request_marks *marks, struct slice name,
                    struct slice value);
/* After the last one: "HTTP/1.1" decides what Expect and Host mean. */
void request_version(struct request_marks *marks, const char *version);
/* False: nobody can say where the body ends, so that the connection must. */
bool request_framed(const struct api_call *call, const struct request_marks *marks);

#endif
