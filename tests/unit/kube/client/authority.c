/* SPDX-License-Identifier: Apache-2.0 */
/* What an authority issues is verified as the API server verifies it: against a bundle, for a name, at a time. */
#include "unit.h"

#include "base/err.h"
#include "kube/client/authority.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST "webhook.sublet.svc"
#define HOUR (3600 * NSEC_PER_SEC)

struct pair {
        char *cert, *key;
};

static char *export(int (*to)(void *from, gnutls_x509_crt_fmt_t format, gnutls_datum_t *ret), void *from)
{
        gnutls_datum_t pem;
        char *text;

        assert_int_equal(to(from, GNUTLS_X509_FMT_PEM, &pem), 0);
        text = strndup((const char *)pem.data, pem.size);
        gnutls_free(pem.data);
        return text;
}

static int export_cert(void *from, gnutls_x509_crt_fmt_t format, gnutls_datum_t *ret)
{
        return gnutls_x509_crt_export2(from, format, ret);
}

static int export_key(void *from, gnutls_x509_crt_fmt_t format, gnutls_datum_t *ret)
{
        return gnutls_x509_privkey_export2(from, format, ret);
}

/* A certificate that signs itself, and ends `seconds` from now. */
static struct pair authority(unsigned int is_ca, long seconds)
{
        gnutls_x509_crt_t cert;
        gnutls_x509_privkey_t key;
        static unsigned int n;
        struct pair pair;
        char name[16]; /* who verifies with a bundle finds the signer by its name */

        (void)snprintf(name, sizeof(name), "ours-%u", n++);
        assert_int_equal(gnutls_x509_crt_init(&cert), 0);
        assert_int_equal(gnutls_x509_privkey_init(&key), 0);
        assert_int_equal(
                gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                0);
        assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
        assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
        assert_int_equal(
                gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned int)strlen(name)),
                0);
        assert_int_equal(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 7200), 0);
        assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + seconds), 0);
        assert_int_equal(gnutls_x509_crt_set_basic_constraints(cert, is_ca, -1), 0);
        assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
        assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
        pair = (struct pair){ export(export_cert, cert), export(export_key, key) };
        gnutls_x509_crt_deinit(cert);
        gnutls_x509_privkey_deinit(key);
        return pair;
}

static void pair_done(struct pair *pair)
{
        free(pair->cert);
        free(pair->key);
}

/* Whether who trusts `bundle` takes the leaf for `host`. */
static bool is_trusted(const char *bundle, const struct authority_leaf *leaf, const char *host)
{
        gnutls_datum_t trusted = { (unsigned char *)(uintptr_t)bundle, (unsigned int)strlen(bundle) },
                       own = { (unsigned char *)leaf->cert, (unsigned int)strlen(leaf->cert) };
        gnutls_x509_trust_list_t list;
        gnutls_x509_crt_t cert;
        unsigned int verdict = 1;
        bool is_good;

        assert_int_equal(gnutls_x509_trust_list_init(&list, 0), 0);
        assert_true(gnutls_x509_trust_list_add_trust_mem(list, &trusted, NULL, GNUTLS_X509_FMT_PEM, 0, 0) > 0);
        assert_int_equal(gnutls_x509_crt_init(&cert), 0);
        assert_int_equal(gnutls_x509_crt_import(cert, &own, GNUTLS_X509_FMT_PEM), 0);
        assert_int_equal(gnutls_x509_trust_list_verify_crt(list, &cert, 1, 0, &verdict, NULL), 0);
        is_good = verdict == 0 && gnutls_x509_crt_check_hostname(cert, host);
        gnutls_x509_crt_deinit(cert);
        gnutls_x509_trust_list_deinit(list, 1);
        return is_good;
}

static void what_it_makes_is_trusted_for_its_name_and_no_other(void **state)
{
        struct pair ours = authority(1, 86400), other = authority(1, 86400);
        struct authority_leaf leaf;

        (void)state;
        assert_int_equal(authority_issue(ours.cert, ours.key, HOST, HOUR, &leaf, NULL), 0);
        assert_true(is_trusted(ours.cert, &leaf, HOST));
        assert_false(is_trusted(ours.cert, &leaf, "extender.sublet.svc"));
        assert_false(is_trusted(other.cert, &leaf, HOST));
        assert_true(leaf.ends > clock_realtime() && leaf.ends <= clock_realtime() + HOUR);
        authority_leaf_done(&leaf);
        pair_done(&ours);
        pair_done(&other);
}

static void who_trusts_old_and_new_authority_takes_leaves_of_both(void **state)
{
        struct pair old = authority(1, 86400), new = authority(1, 86400);
        struct authority_leaf before, after;
        char *bundle;

        (void)state;
        assert_true(asprintf(&bundle, "%s%s", new.cert, old.cert) > 0);
        assert_int_equal(authority_issue(old.cert, old.key, HOST, HOUR, &before, NULL), 0);
        assert_int_equal(authority_issue(new.cert, new.key, HOST, HOUR, &after, NULL), 0);
        assert_true(is_trusted(bundle, &before, HOST));
        assert_true(is_trusted(bundle, &after, HOST));
        assert_false(is_trusted(old.cert, &after, HOST));
        authority_leaf_done(&before);
        authority_leaf_done(&after);
        free(bundle);
        pair_done(&old);
        pair_done(&new);
}

static void no_leaf_outlives_its_authority(void **state)
{
        struct pair brief = authority(1, 60), over = authority(1, -60);
        struct authority_leaf leaf;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(authority_issue(brief.cert, brief.key, HOST, HOUR, &leaf, NULL), 0);
        assert_true(leaf.ends <= clock_realtime() + 60 * NSEC_PER_SEC);
        authority_leaf_done(&leaf);
        assert_int_equal(authority_issue(over.cert, over.key, HOST, HOUR, &leaf, &err), -EINVAL);
        assert_non_null(strstr(err.text, "expired"));
        pair_done(&brief);
        pair_done(&over);
}

static void what_is_no_authority_or_no_pair_is_refused(void **state)
{
        struct pair ours = authority(1, 86400), other = authority(1, 86400), plain = authority(0, 86400);
        struct authority_leaf leaf;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(authority_issue(ours.cert, other.key, HOST, HOUR, &leaf, &err), -EINVAL);
        assert_non_null(strstr(err.text, "another certificate's"));
        assert_int_equal(authority_issue(plain.cert, plain.key, HOST, HOUR, &leaf, &err), -EINVAL);
        assert_non_null(strstr(err.text, "no authority's"));
        assert_int_equal(authority_issue("", ours.key, HOST, HOUR, &leaf, &err), -EINVAL);
        assert_int_equal(authority_issue(ours.cert, "rubbish", HOST, HOUR, &leaf, &err), -EINVAL);
        pair_done(&ours);
        pair_done(&other);
        pair_done(&plain);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_it_makes_is_trusted_for_its_name_and_no_other),
                cmocka_unit_test(who_trusts_old_and_new_authority_takes_leaves_of_both),
                cmocka_unit_test(no_leaf_outlives_its_authority),
                cmocka_unit_test(what_is_no_authority_or_no_pair_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
