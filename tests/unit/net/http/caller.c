/* SPDX-License-Identifier: Apache-2.0 */
/* A caller's name is compared with all its bytes, so no authority's other customers pass for the scheduler. */
#include "unit.h"

#include "net/http/caller.h"

#include <string.h>

#define NAME "sublet-scheduler"

/* Whether a certificate of this common name (size 0: of none) is of NAME. */
static bool is_ours(const char *name, size_t size)
{
        gnutls_x509_crt_t cert;
        bool is_it;

        assert_int_equal(gnutls_x509_crt_init(&cert), 0);
        if (size)
                assert_int_equal(
                        gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned int)size),
                        0);
        is_it = caller_has_name(cert, NAME);
        gnutls_x509_crt_deinit(cert);
        return is_it;
}

static void the_name_and_no_other(void **state)
{
        (void)state;
        assert_true(is_ours(NAME, strlen(NAME)));
        assert_false(is_ours(NAME, strlen(NAME) - 1));
        assert_false(is_ours(NAME "2", strlen(NAME) + 1));
        assert_false(is_ours("Sublet-scheduler", strlen(NAME)));
        assert_false(is_ours(NAME "\0.other", sizeof(NAME "\0.other") - 1));
        assert_false(is_ours(NAME "\0", sizeof(NAME "\0") - 1));
        assert_false(is_ours("", 0));
}

static void a_name_too_long_to_hold(void **state)
{
        char name[400];

        (void)state;
        memset(name, 'a', sizeof(name));
        memcpy(name, NAME, strlen(NAME));
        assert_false(is_ours(name, sizeof(name)));
}

static void no_session_is_nobody(void **state)
{
        (void)state;
        assert_false(caller_is_known(NULL, NULL));
        assert_false(caller_is_known(NULL, NAME));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_name_and_no_other),
                cmocka_unit_test(a_name_too_long_to_hold),
                cmocka_unit_test(no_session_is_nobody),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
