/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/loans.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

enum {
        LOANS_MAX = 65536,  /* of a tenant, to all */
        MAKERS_MAX = 16384, /* its clients: lease/bounds.def */
        REAPED_AT_ONCE = 64,
};

int loans_init(struct loans *loans)
{
        int r;

        *loans = (struct loans){ .makers.epoll = -1 };
        lock_init(&loans->lock, LOCK_LOANS);
        r = open_files_init(&loans->holders);
        return r < 0 ? r : open_files_init(&loans->makers);
}

void loans_done(struct loans *loans)
{
        if (loans->holders.epoll >= 0)
                open_files_done(&loans->holders);
        if (loans->makers.epoll >= 0)
                open_files_done(&loans->makers);
        free(loans->items);
        free(loans->clients);
        *loans = (struct loans){ .holders.epoll = -1, .makers.epoll = -1 };
}

static int room_for_one(void **items, size_t n, size_t *n_room, size_t size, size_t most)
{
        size_t more = *n_room ? *n_room * 2 : 16;
        void *grown;

        if (n < *n_room)
                return 0;
        if (n >= most)
                return -ENOSPC;
        grown = realloc(*items, more * size);
        if (!grown)
                return -ENOMEM;
        *items = grown;
        *n_room = more;
        return 0;
}

/* ---- makers ------------------------------------------------------------------------------------------------- */

static struct loans_maker *maker_of(const struct loans *loans, uint32_t client)
{
        for (size_t i = 0; i < loans->n_clients; i++)
                if (loans->clients[i].client == client)
                        return &loans->clients[i];
        return NULL;
}

int loans_maker_put(struct loans *loans, uint32_t client, int fd)
{
        LOCKED(&loans->lock);
        struct loans_maker *maker = maker_of(loans, client);
        uint64_t file = open_files_keep(&loans->makers, fd);
        int r;

        if (!file)
                return -ENOSPC;
        if (!maker) {
                r = room_for_one((void **)&loans->clients, loans->n_clients, &loans->n_clients_room,
                                 sizeof(*loans->clients), MAKERS_MAX);
                if (r < 0)
                        return r;
                maker = &loans->clients[loans->n_clients++];
        }
        *maker = (struct loans_maker){ client, file };
        return 0;
}

bool loans_maker_is_open(struct loans *loans, uint32_t client)
{
        LOCKED(&loans->lock);
        const struct loans_maker *maker = maker_of(loans, client);

        return maker && open_files_has(&loans->makers, maker->file);
}

static void forget_makers(struct loans *loans, nsec now, nsec grace)
{
        uint64_t gone[REAPED_AT_ONCE];
        bool is_closing;
        size_t n = open_files_reap(&loans->makers, now, grace, gone, REAPED_AT_ONCE, &is_closing);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < loans->n_clients;)
                        if (loans->clients[k].file == gone[i])
                                loans->clients[k] = loans->clients[--loans->n_clients];
                        else
                                k++;
}

/* ---- loans -------------------------------------------------------------------------------------------------- */

static struct loan *loan_at(const struct loans *loans, uint32_t number)
{
        for (size_t i = 0; i < loans->n; i++)
                if (loans->items[i].number == number)
                        return &loans->items[i];
        return NULL;
}

static void loan_drop(struct loans *loans, struct loan *loan)
{
        loans->n_orphans -= loan->is_orphan;
        *loan = loans->items[--loans->n];
}

int loans_put(struct loans *loans, uint32_t borrower, const struct ledger_source *source, int holder,
              uint32_t *ret_number)
{
        LOCKED(&loans->lock);
        uint64_t file;
        int r = room_for_one((void **)&loans->items, loans->n, &loans->n_room, sizeof(*loans->items), LOANS_MAX);

        if (r < 0)
                return r;
        file = open_files_keep(&loans->holders, holder);
        if (!file || loans->last == UINT32_MAX)
                return -ENOSPC;
        loans->items[loans->n++] =
                (struct loan){ .number = ++loans->last, .borrower = borrower, .holder = file, .source = *source };
        *ret_number = loans->last;
        return 0;
}

void loans_stamp(struct loans *loans, uint32_t number, uint64_t stamp)
{
        LOCKED(&loans->lock);
        struct loan *loan = loan_at(loans, number);

        if (loan)
                loan->stamp = stamp;
}

bool loans_get(struct loans *loans, uint32_t borrower, uint32_t number, struct loan *ret)
{
        LOCKED(&loans->lock);
        const struct loan *loan = loan_at(loans, number);

        if (!loan || loan->borrower != borrower)
                return false;
        *ret = *loan;
        return true;
}

bool loans_take(struct loans *loans, uint32_t borrower, uint32_t number)
{
        LOCKED(&loans->lock);
        struct loan *loan = loan_at(loans, number);

        if (!loan || loan->borrower != borrower)
                return false;
        loan_drop(loans, loan);
        return true;
}

void loans_orphan(struct loans *loans, uint32_t borrower)
{
        LOCKED(&loans->lock);

        for (size_t i = 0; i < loans->n; i++)
                if (loans->items[i].borrower == borrower && !loans->items[i].is_orphan) {
                        loans->items[i].is_orphan = true;
                        loans->n_orphans++;
                }
}

bool loans_have_orphans(struct loans *loans)
{
        LOCKED(&loans->lock);

        return loans->n_orphans;
}

size_t loans_count(struct loans *loans)
{
        LOCKED(&loans->lock);

        return loans->n;
}

bool loans_take_ended(struct loans *loans, uint32_t *ret_number)
{
        LOCKED(&loans->lock);

        for (size_t i = 0; i < loans->n; i++)
                if (loans->items[i].is_orphan && !loans->items[i].holder) {
                        *ret_number = loans->items[i].number;
                        loan_drop(loans, &loans->items[i]);
                        return true;
                }
        return false;
}

void loans_settle(struct loans *loans, nsec now, nsec grace)
{
        LOCKED(&loans->lock);
        uint64_t gone[REAPED_AT_ONCE];
        bool is_closing;
        size_t n = open_files_reap(&loans->holders, now, grace, gone, REAPED_AT_ONCE, &is_closing);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < loans->n; k++)
                        if (loans->items[k].holder == gone[i])
                                loans->items[k].holder = 0;
        forget_makers(loans, now, grace);
}
