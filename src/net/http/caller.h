/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls over TLS: whether the other end showed a certificate that an authority of ours signed for callers.
 *
 * Threads: the session's own.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>

/* Whether the common name of `certificate` is `name`, with all its bytes. */
bool caller_has_name(gnutls_x509_crt_t certificate, const char *name);

/* Whether the session's other end showed a certificate that is good now, for callers (not a server's), signed by an
 * authority that the session trusts; and, unless name is NULL, with that common name. What cannot be told is false. */
bool caller_is_known(gnutls_session_t session, const char *name);
