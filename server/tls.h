/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate for TLS, and its replacement while connections go on. Only file of this room with
 * <gnutls/…>.
 *
 *   L1  a pair is taken only whole: both files can be read, and the key is that of the certificate.
 *       What fails leaves the pair as it was.
 *   L2  a pair that was replaced is kept until the end: a handshake may still be using it. Files
 * that have not changed replace nothing. */
#ifndef STOWD_TLS_H
#define STOWD_TLS_H

#include "config/base.h"

struct tls;

/* RC_INVALID: wrong files; RC_IO: they can't be read. */
MUST_CHECK enum rc tls_open(const char *certificate, const char *key, struct tls **out,
                            struct err *err);
void tls_close(struct tls *tls); /* accepts NULL; no handshake is under way */
/* *changed_out: the pair is a new one. */
MUST_CHECK enum rc tls_reload(struct tls *tls, bool *changed_out, struct err *err);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK: a gnutls_certificate_retrieve_function2. It has no argument
 * for us, so there is one struct tls in a process. */
void *tls_callback(void);

#endif
