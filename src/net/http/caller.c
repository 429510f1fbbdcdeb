/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/caller.h"

#include <stdint.h>
#include <string.h>

enum {
        NAME = 256,
};

bool caller_has_name(gnutls_x509_crt_t certificate, const char *name)
{
        char found[NAME];
        size_t size = sizeof(found);

        return gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, found, &size) == 0 &&
               size == strlen(name) && !memcmp(found, name, size);
}

/* The first of the chain that was verified is the caller's own. */
static bool is_named(gnutls_session_t session, const char *name)
{
        unsigned int n = 0;
        const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);
        gnutls_x509_crt_t own;
        bool is_it;

        if (!chain || !n || gnutls_x509_crt_init(&own) < 0)
                return false;
        is_it = gnutls_x509_crt_import(own, &chain[0], GNUTLS_X509_FMT_DER) == 0 && caller_has_name(own, name);
        gnutls_x509_crt_deinit(own);
        return is_it;
}

bool caller_is_known(gnutls_session_t session, const char *name)
{
        gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                          .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT };
        unsigned int problems = 0;

        if (!session || gnutls_certificate_verify_peers(session, &purpose, 1, &problems) < 0 || problems)
                return false;
        return !name || is_named(session, name);
}
