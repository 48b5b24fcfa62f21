/* SPDX-License-Identifier: Apache-2.0 */
/* What shippers and collectors ask for and can do without: each gets the answer that makes it go
 * on.
 */
#include "api/handlers.h"

static void reply_text(struct api_call *call, struct slice json)
{
    buf_put_slice(reply_json(call, 200), json);
    api_finish(call);
}

void shipper_xpack(struct api_call *call)
{
    reply_text(call, SLICE_LIT("{\"features\":{\"ilm\":{\"available\":false,\"enabled\":false}}}"));
}

/* Snapshot repositories, other clusters: there are none. */
void shipper_none(struct api_call *call)
{
    reply_text(call, SLICE_LIT("{}"));
}
