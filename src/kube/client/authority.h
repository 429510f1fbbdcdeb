/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates from an authority of our own: a leaf is made in memory, serves a while, and is replaced by the next.
 * Whoever trusts the authority's certificate need not be told, so nothing but the authority itself is ever distributed.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include "base/clock.h"

struct err;

struct authority_leaf {
        char *cert, *key; /* PEM; the owner's */
        nsec ends;        /* of the epoch: not later than the authority's own end */
};

/* cert, key: the authority's, PEM. host: the DNS name that the leaf is for. life: from now. 0; -EINVAL with err: they
 * are no authority, or not a pair (a mount may be half written); else -errno with err. */
int authority_issue(const char *cert, const char *key, const char *host, nsec life, struct authority_leaf *ret,
                    struct err *err);
void authority_leaf_done(struct authority_leaf *leaf);
