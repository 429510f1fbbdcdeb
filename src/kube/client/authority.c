/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/authority.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <string.h>

enum {
        SERIAL = 16,
        KEY_ID = 64,
};
#define SKEW 300 /* s by which the clock of who verifies may be behind ours */

/* What takes part in one issue; initialised as far as it is not NULL. */
struct issue {
        gnutls_x509_crt_t authority, leaf;
        gnutls_x509_privkey_t authority_key, leaf_key;
};

static void issue_done(struct issue *issue)
{
        if (issue->authority)
                gnutls_x509_crt_deinit(issue->authority);
        if (issue->leaf)
                gnutls_x509_crt_deinit(issue->leaf);
        if (issue->authority_key)
                gnutls_x509_privkey_deinit(issue->authority_key);
        if (issue->leaf_key)
                gnutls_x509_privkey_deinit(issue->leaf_key);
}

static gnutls_datum_t datum(const char *text)
{
        return (gnutls_datum_t){ (unsigned char *)(uintptr_t)text, (unsigned int)strlen(text) };
}

static bool is_pair(const struct issue *issue)
{
        unsigned char a[KEY_ID], b[KEY_ID];
        size_t n = sizeof(a), m = sizeof(b);

        return gnutls_x509_crt_get_key_id(issue->authority, 0, a, &n) == 0 &&
               gnutls_x509_privkey_get_key_id(issue->authority_key, 0, b, &m) == 0 && n == m && !memcmp(a, b, n);
}

static int read_authority(struct issue *issue, const char *cert, const char *key, struct err *err)
{
        const gnutls_datum_t certs = datum(cert), keys = datum(key);

        if (gnutls_x509_crt_init(&issue->authority) < 0 || gnutls_x509_privkey_init(&issue->authority_key) < 0 ||
            gnutls_x509_crt_init(&issue->leaf) < 0 || gnutls_x509_privkey_init(&issue->leaf_key) < 0)
                return err_set(err, -ENOMEM, "making a certificate");
        if (gnutls_x509_crt_import(issue->authority, &certs, GNUTLS_X509_FMT_PEM) < 0 ||
            gnutls_x509_privkey_import(issue->authority_key, &keys, GNUTLS_X509_FMT_PEM) < 0)
                return err_say(err, -EINVAL, "the authority is no certificate with its key, in PEM");
        if (gnutls_x509_crt_get_ca_status(issue->authority, NULL) <= 0)
                return err_say(err, -EINVAL, "the certificate is no authority's (without --host it is served itself)");
        return is_pair(issue) ? 0 : err_say(err, -EINVAL, "the authority's key is another certificate's");
}

/* gnutls's outcome. */
static int set_names(gnutls_x509_crt_t leaf, const char *host)
{
        unsigned char serial[SERIAL];
        int r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));

        serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, and of this length */
        r = r < 0 ? r : gnutls_x509_crt_set_version(leaf, 3);
        r = r < 0 ? r : gnutls_x509_crt_set_serial(leaf, serial, sizeof(serial));
        r = r < 0 ? r :
                    gnutls_x509_crt_set_dn_by_oid(leaf, GNUTLS_OID_X520_COMMON_NAME, 0, "sublet",
                                                  (unsigned int)strlen("sublet"));
        r = r < 0 ? r :
                    gnutls_x509_crt_set_subject_alt_name(leaf, GNUTLS_SAN_DNSNAME, host, (unsigned int)strlen(host),
                                                         GNUTLS_FSAN_SET);
        r = r < 0 ? r : gnutls_x509_crt_set_basic_constraints(leaf, 0, -1);
        r = r < 0 ? r : gnutls_x509_crt_set_key_usage(leaf, GNUTLS_KEY_DIGITAL_SIGNATURE);
        return r < 0 ? r : gnutls_x509_crt_set_key_purpose_oid(leaf, GNUTLS_KP_TLS_WWW_SERVER, 0);
}

/* gnutls's outcome. */
static int sign(struct issue *issue, time_t begins, time_t ends)
{
        unsigned char id[KEY_ID];
        size_t n = sizeof(id);
        int r = gnutls_x509_privkey_generate(issue->leaf_key, GNUTLS_PK_ECDSA,
                                             GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);

        r = r < 0 ? r : gnutls_x509_crt_set_activation_time(issue->leaf, begins);
        r = r < 0 ? r : gnutls_x509_crt_set_expiration_time(issue->leaf, ends);
        r = r < 0 ? r : gnutls_x509_crt_set_key(issue->leaf, issue->leaf_key);
        if (r == 0 && gnutls_x509_crt_get_subject_key_id(issue->authority, id, &n, NULL) == 0)
                r = gnutls_x509_crt_set_authority_key_id(issue->leaf, id, n);
        return r < 0 ? r :
                       gnutls_x509_crt_sign2(issue->leaf, issue->authority, issue->authority_key, GNUTLS_DIG_SHA256, 0);
}

static char *text_of(gnutls_datum_t *pem)
{
        char *text = strndup((const char *)pem->data, pem->size);

        gnutls_free(pem->data);
        return text;
}

static int export_leaf(const struct issue *issue, struct authority_leaf *ret)
{
        gnutls_datum_t cert = { 0 }, key = { 0 };

        if (gnutls_x509_crt_export2(issue->leaf, GNUTLS_X509_FMT_PEM, &cert) == 0)
                ret->cert = text_of(&cert);
        if (gnutls_x509_privkey_export2(issue->leaf_key, GNUTLS_X509_FMT_PEM, &key) == 0)
                ret->key = text_of(&key);
        return ret->cert && ret->key ? 0 : -ENOMEM;
}

int authority_issue(const char *cert, const char *key, const char *host, nsec life, struct authority_leaf *ret,
                    struct err *err)
{
        _cleanup_(issue_done) struct issue issue = { 0 };
        _cleanup_(authority_leaf_done) struct authority_leaf made = { 0 };
        time_t now = (time_t)(clock_realtime() / NSEC_PER_SEC), ends = now + (time_t)(life / NSEC_PER_SEC), last;
        int r = read_authority(&issue, cert, key, err);

        if (r < 0)
                return r;
        last = gnutls_x509_crt_get_expiration_time(issue.authority);
        if (last <= now)
                return err_say(err, -EINVAL, "the authority has expired: make a new one (docs/kubernetes.md)");
        ends = ends < last ? ends : last;
        r = set_names(issue.leaf, host);
        r = r < 0 ? r : sign(&issue, now - SKEW, ends);
        if (r < 0)
                return err_say(err, -EIO, "making a certificate for %.200s: %s", host, gnutls_strerror(r));
        if (export_leaf(&issue, &made) < 0)
                return err_set(err, -ENOMEM, "making a certificate");
        *ret = (struct authority_leaf){ TAKE(made.cert), TAKE(made.key), (nsec)ends * NSEC_PER_SEC };
        return 0;
}

void authority_leaf_done(struct authority_leaf *leaf)
{
        free(leaf->cert);
        free(leaf->key);
        *leaf = (struct authority_leaf){ 0 };
}
