/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 16

struct pair {
    struct pair *older;
    gnutls_datum_t certificate_pem, key_pem; /* as read */
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_len;
    gnutls_privkey_t key;
};

struct tls {
    char *certificate, *key; /* paths */
    struct pair *_Atomic pair;
};

static struct tls *only; /* set before the first handshake */

static void pair_free(struct pair *pair)
{
    for (unsigned i = 0; i < pair->chain_len; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key != NULL)
        gnutls_privkey_deinit(pair->key);
    if (pair->key_pem.data != NULL)
        gnutls_memset(pair->key_pem.data, 0, pair->key_pem.size);
    gnutls_free(pair->key_pem.data);
    gnutls_free(pair->certificate_pem.data);
    free(pair);
}

static enum rc load(const char *setting, const char *path, gnutls_datum_t *out, struct err *err)
{
    if (gnutls_load_file(path, out) == 0)
        return RC_OK;
    return err_set(err, RC_IO, errno, "%s: %.150s cannot be read", setting, path);
}

static bool same_key(const struct pair *pair)
{
    unsigned char a[64], b[64];
    size_t a_len = sizeof a, b_len = sizeof b;
    gnutls_pubkey_t public;
    if (gnutls_pubkey_init(&public) != 0)
        return false;
    bool ok =
        gnutls_pubkey_import_privkey(public, pair->key, 0, 0) == 0 &&
        gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, a, &a_len) == 0 &&
        gnutls_pubkey_get_key_id(pair->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &b_len) == 0 &&
        a_len == b_len && memcmp(a, b, a_len) == 0;
    gnutls_pubkey_deinit(public);
    return ok;
}

static enum rc pair_fill(const struct tls *tls, struct pair *pair, struct err *err)
{
    unsigned len = CHAIN_MAX;
    TRY(load("http.tls.certificate", tls->certificate, &pair->certificate_pem, err));
    TRY(load("http.tls.key", tls->key, &pair->key_pem, err));
    int failure = gnutls_pcert_list_import_x509_raw(pair->chain, &len, &pair->certificate_pem,
                                                    GNUTLS_X509_FMT_PEM, 0);
    if (failure != 0)
        return err_set(err, RC_INVALID, 0, "http.tls.certificate: %.120s: %s", tls->certificate,
                       gnutls_strerror(failure));
    pair->chain_len = len;
    failure = gnutls_privkey_init(&pair->key);
    if (failure == 0)
        failure =
            gnutls_privkey_import_x509_raw(pair->key, &pair->key_pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (failure != 0)
        return err_set(err, RC_INVALID, 0, "http.tls.key: %.120s: %s", tls->key,
                       gnutls_strerror(failure));
    return same_key(pair) ? RC_OK
                          : err_set(err, RC_INVALID, 0,
                                    "http.tls.key: %.90s is not the key of the certificate %.90s",
                                    tls->key, tls->certificate);
}

static bool same_bytes(const gnutls_datum_t *a, const gnutls_datum_t *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

enum rc tls_reload(struct tls *tls, bool *changed_out, struct err *err)
{
    struct pair *old = atomic_load(&tls->pair);
    struct pair *pair = (struct pair *)calloc(1, sizeof *pair);
    enum rc rc;

    if (pair == NULL)
        return err_set(err, RC_NOMEM, 0, "tls: out of memory");
    rc = pair_fill(tls, pair, err);
    bool changed = old == NULL || rc != RC_OK ||
                   !same_bytes(&old->certificate_pem, &pair->certificate_pem) ||
                   !same_bytes(&old->key_pem, &pair->key_pem);
    if (rc != RC_OK || !changed) {
        pair_free(pair);
        if (rc == RC_OK)
            *changed_out = false;
        return rc;
    }
    pair->older = old; /* L2 */
    atomic_store(&tls->pair, pair);
    *changed_out = true;
    return RC_OK;
}

enum rc tls_open(const char *certificate, const char *key, struct tls **out, struct err *err)
{
    struct tls *tls = (struct tls *)calloc(1, sizeof *tls);
    bool changed;
    enum rc rc = RC_NOMEM;

    if (tls == NULL)
        return err_set(err, RC_NOMEM, 0, "tls: out of memory");
    tls->certificate = strdup(certificate);
    tls->key = strdup(key);
    if (tls->certificate == NULL || tls->key == NULL)
        err_set(err, rc, 0, "tls: out of memory");
    else
        rc = tls_reload(tls, &changed, err);
    if (rc != RC_OK) {
        tls_close(tls);
        return rc;
    }
    only = tls;
    *out = tls;
    return RC_OK;
}

void tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    for (struct pair *pair = atomic_load(&tls->pair), *older; pair != NULL; pair = older) {
        older = pair->older;
        pair_free(pair);
    }
    free(tls->certificate);
    free(tls->key);
    free(tls);
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                    gnutls_pcert_st **chain, unsigned *chain_len, gnutls_privkey_t *key)
{
    struct pair *pair = atomic_load(&only->pair);
    (void)session, (void)authorities, (void)count, (void)algorithms, (void)algorithm_count;
    *chain = pair->chain;
    *chain_len = pair->chain_len;
    *key = pair->key;
    return 0;
}

void *tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *function = retrieve;
    void *out;
    memcpy(&out, &function, sizeof out); /* a function as the variadic option wants it */
    return out;
}
