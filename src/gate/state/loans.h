/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate has lent, to whom, and by which open files it is known when that ends.
 *
 *      N1  A loan ends when its borrower returns it. If the borrower's gate is gone, it ends when the kernel has no
 *          reference any more to the file through which the borrower's client was made: then the driver has ended the
 *          client and its handles.
 *      N2  A client is lent of only while the open file that it was made through is watched and there: client numbers
 *          are used again, and while that file is open and the tenant has not freed the client, the number is its own.
 *
 * Threads: any; one lock, of rank LOCK_LOANS.
 */
#pragma once

#include "gate/state/open_files.h"
#include "lease/ledger.h"

struct loan {
        uint32_t number, borrower;
        uint64_t holder; /* in `holders`; 0: gone */
        bool is_orphan;  /* its borrower's gate is gone */
        uint64_t stamp;
        struct ledger_source source;
};

struct loans {
        struct lock lock;
        struct open_files holders, makers;
        struct loan *items; /* lock; so is the rest */
        size_t n, n_room, n_orphans;
        uint32_t last; /* number given */
        struct loans_maker {
                uint32_t client;
                uint64_t file; /* in `makers` */
        } * clients;
        size_t n_clients, n_clients_room;
};

int loans_init(struct loans *loans); /* 0; -errno */
void loans_done(struct loans *loans);

/* The client was made through the descriptor's open file. 0; -ENOSPC, -ENOMEM. */
int loans_maker_put(struct loans *loans, uint32_t client, int fd);

/* Whether a client's file is known and open. */
bool loans_maker_is_open(struct loans *loans, uint32_t client);

/* Room for one more and its number. The caller gives the loan its stamp, or takes it back. 0; -ENOSPC, -ENOMEM. */
int loans_put(struct loans *loans, uint32_t borrower, const struct ledger_source *source, int holder,
              uint32_t *ret_number);
void loans_stamp(struct loans *loans, uint32_t number, uint64_t stamp);
bool loans_get(struct loans *loans, uint32_t borrower, uint32_t number, struct loan *ret);

/* False: there is no such loan of the borrower's. */
bool loans_take(struct loans *loans, uint32_t borrower, uint32_t number);

void loans_orphan(struct loans *loans, uint32_t borrower);
bool loans_have_orphans(struct loans *loans);
size_t loans_count(struct loans *loans);

/* Takes an orphan that has ended (N1). False: there is none. */
bool loans_take_ended(struct loans *loans, uint32_t *ret_number);

/* Notes which files have gone: before loans_take_ended. grace: as of open_files_reap. */
void loans_settle(struct loans *loans, nsec now, nsec grace);
