/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/balance.h"

#define LIMIT ((int64_t)(256 * MIB))
#define CONTEXT ((int64_t)(16 * MIB)) /* 9 MiB and more, H200: docs/measured.md */
#define SERVER ((int64_t)(128 * MIB)) /* MPS_RESERVE */
#define GROWN ((int64_t)(16 * MIB))   /* less is noise */

enum {
        PROCESSES_MAX = 32, /* of a tenant that raise the limit: it has as many as it likes */
};

void balance_forget(struct balance *balance)
{
        *balance = (struct balance){ 0 };
}

static int64_t limit_of(const struct balance_view *view)
{
        int64_t limit = LIMIT + SERVER * view->n_servers;

        for (size_t i = 0; i < view->n_rows; i++)
                limit += CONTEXT *
                         (view->rows[i].n_processes < PROCESSES_MAX ? view->rows[i].n_processes : PROCESSES_MAX);
        return limit;
}

static int64_t held_by_all(const struct balance_view *view)
{
        int64_t sum = 0;

        for (size_t i = 0; i < view->n_rows; i++)
                sum += (int64_t)view->rows[i].held;
        return sum;
}

static struct balance_seen *seen_of(struct balance *balance, uint64_t id)
{
        for (size_t i = 0; i < balance->n_seen; i++)
                if (balance->seen[i].row.id == id)
                        return &balance->seen[i];
        return NULL;
}

static int64_t distance(int64_t a, int64_t b)
{
        return a > b ? a - b : b - a;
}

static const struct balance_row *row_then(const struct balance_seen *seen, bool is_slow)
{
        return is_slow ? &seen->from : &seen->row;
}

/* The one whose books fell by half to twice of it, the nearest; NULL. */
static struct balance_seen *whose_books_fell(struct balance *balance, const struct balance_view *view, int64_t grown,
                                             bool is_slow)
{
        struct balance_seen *nearest = NULL;
        int64_t least = INT64_MAX;

        for (size_t i = 0; i < view->n_rows; i++) {
                struct balance_seen *seen = seen_of(balance, view->rows[i].id);
                int64_t fell = seen ? (int64_t)row_then(seen, is_slow)->held - (int64_t)view->rows[i].held : 0;

                if (fell < grown / 2 || fell / 2 > grown || distance(fell, grown) >= least)
                        continue;
                least = distance(fell, grown);
                nearest = seen;
        }
        return nearest;
}

static struct balance_seen *the_only_one_that_called(struct balance *balance, const struct balance_view *view,
                                                     bool is_slow)
{
        struct balance_seen *only = NULL;

        for (size_t i = 0; i < view->n_rows; i++) {
                struct balance_seen *seen = seen_of(balance, view->rows[i].id);

                if (!seen || row_then(seen, is_slow)->n_calls == view->rows[i].n_calls)
                        continue;
                if (only)
                        return NULL;
                only = seen;
        }
        return only;
}

/* B4 */
static void suspect(struct balance *balance, const struct balance_view *view, int64_t grown, bool is_slow)
{
        struct balance_seen *who = whose_books_fell(balance, view, grown, is_slow);

        if (!who)
                who = the_only_one_that_called(balance, view, is_slow);
        if (who)
                who->suspected += grown;
}

/* So that one that begins with what it should not have can be suspected at once. */
static void admit(struct balance *balance, const struct balance_view *view)
{
        for (size_t i = 0; i < view->n_rows && balance->n_seen < BALANCE_TENANTS; i++)
                if (!seen_of(balance, view->rows[i].id))
                        balance->seen[balance->n_seen++] =
                                (struct balance_seen){ .row.id = view->rows[i].id, .from.id = view->rows[i].id };
}

/* Tenants that are gone are forgotten. begins: the slow sum does. */
static void remember(struct balance *balance, const struct balance_view *view, bool begins)
{
        struct balance now = { 0 };

        for (size_t i = 0; i < view->n_rows && i < BALANCE_TENANTS; i++) {
                const struct balance_row *row = &view->rows[i];
                const struct balance_seen *seen = seen_of(balance, row->id);

                now.seen[now.n_seen++] = (struct balance_seen){ .row = *row,
                                                                .from = seen && !begins ? seen->from : *row,
                                                                .suspected = seen ? seen->suspected : 0 };
        }
        for (size_t i = 0; i < now.n_seen; i++)
                balance->seen[i] = now.seen[i];
        balance->n_seen = now.n_seen;
}

/* B5 */
static void look_together(struct balance *balance, const struct balance_view *view, int64_t before)
{
        int64_t grown = balance->unexplained - before, in_all = balance->unexplained - balance->from;
        bool begins = grown >= GROWN || in_all >= GROWN || in_all <= 0 || ++balance->n_since >= BALANCE_SLOW;

        if (grown >= GROWN)
                suspect(balance, view, grown, false);
        else if (in_all >= GROWN)
                suspect(balance, view, in_all, true);
        remember(balance, view, begins);
        if (begins) {
                balance->from = balance->unexplained;
                balance->n_since = 0;
        }
}

static uint64_t most_suspected(const struct balance *balance)
{
        for (size_t i = 0; i < balance->n_seen; i++)
                if (balance->seen[i].suspected > balance->unexplained / 2)
                        return balance->seen[i].row.id;
        return 0;
}

bool balance_step(struct balance *balance, const struct balance_view *view, uint64_t *ret_tenant)
{
        int64_t rest = (int64_t)view->used - (int64_t)view->unmanaged - held_by_all(view), before;

        if (!view->n_rows || !balance->has_base) { /* B1 */
                balance_forget(balance);
                balance->base = rest;
                balance->has_base = true;
        }
        admit(balance, view);
        before = balance->unexplained;
        balance->unexplained = rest - balance->base;
        look_together(balance, view, before);
        if (balance->unexplained <= limit_of(view)) {
                balance->n_over = 0;
                balance->is_reported = false;
                return false;
        }
        if (++balance->n_over < BALANCE_TIMES || balance->is_reported) /* B2 */
                return false;
        balance->is_reported = true;
        *ret_tenant = most_suspected(balance);
        return true;
}
