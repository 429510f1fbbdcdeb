/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's own total against the sum of all books, once a second: what neither they, nor programs beside Sublet, nor
 * what was there before explain, and which tenant it fits. Pure.
 *
 * B1  The base is what was used without any tenant, and is taken anew whenever there is none. A daemon that begins with
 *     tenants takes it from its first reading.
 * B2  A difference counts after BALANCE_TIMES readings above the limit: books and total are not read at one moment.
 * B3  The limit leaves each process of a tenant what the driver takes for a context without being asked, and each MPS
 *     server what is kept free for it: some of that is of no process, or of one that is not listed.
 * B4  When the difference grows, the tenant is suspected whose books fell by about as much (a charge that ended while
 *     the memory stayed), else the only one that made driver calls. A finding names who is suspected of most of it.
 * B5  What grows by less than is noise is added up, over BALANCE_SLOW readings at most, and compared with the books at
 *     the beginning of those: else nobody would be named who takes little at a time.
 *
 * One-sided: a charge for memory that is not on the device (managed memory elsewhere) hides as much.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        BALANCE_TENANTS = 256,
        BALANCE_TIMES = 3,
        BALANCE_SLOW = 60,
};

struct balance_row {
        uint64_t id; /* of the lease */
        bytes held;
        uint64_t n_calls;
        unsigned int n_processes;
};

struct balance_view {
        bytes used, unmanaged; /* of the device, and of that what programs beside Sublet hold, and MPS servers */
        unsigned int n_servers;
        const struct balance_row *rows;
        size_t n_rows; /* those beyond BALANCE_TENANTS are never suspected */
};

struct balance {
        bool has_base;
        int64_t base, unexplained;
        int64_t from;         /* what was unexplained when the slow sum began, */
        unsigned int n_since; /* so many readings ago */
        unsigned int n_over;
        bool is_reported;
        struct balance_seen {
                struct balance_row row, from; /* at the reading before, and when the slow sum began */
                int64_t suspected;
        } seen[BALANCE_TENANTS];
        size_t n_seen;
};

/* The next reading. True: a finding begins; *ret_tenant is who it fits, 0: nobody alone. It ends, and the next may
 * begin, when the difference is below the limit again. */
bool balance_step(struct balance *balance, const struct balance_view *view, uint64_t *ret_tenant);

/* The device cannot be compared at present: the next reading begins anew. */
void balance_forget(struct balance *balance);
