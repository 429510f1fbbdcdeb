/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loans: what tenants of one job have of each other's memory (gate.h). Here is the lender's part, which another gate
 * asks for; the borrower's is in dup.c and exports.c.
 *
 * Client numbers are used again, and so are handles and the places of a descriptor. So a loan stands only if, after the
 * borrower's driver call, the source is what it was before it: the same object of the same client by the ledger's
 * stamps, and of a client whose open file has been there all the time (state/loans.h N2). A free of a client and an
 * export change the stamps before the driver is called, all else of that kind needs a new object, which has a new
 * stamp. Between, the driver can have had nothing else behind those numbers but this tenant's own memory, of the size
 * that the loan keeps charged.
 */
#include "gate/act.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "base/cleanup.h"

#include <errno.h>

/* As sweep.c has it for exports. */
#define CLOSING (10 * NSEC_PER_MSEC)

void loans_maker(struct request *request)
{
        struct gate *gate = request->gate;

        {
                LOCKED(&gate->ledger_lock);
                if (!ledger_has_client(gate->ledger, request->call.client))
                        return;
        }
        if (loans_maker_put(&gate->loans, request->call.client, request->fd) < 0)
                gate_tell(gate, EVENT_GATE_FULL, request->process->id, "no descriptor for one more client that lends");
}

/* ---- the lender ------------------------------------------------------------------------------------------------ */

/* 0; -ENOENT: not the tenant's. */
static int find_source(struct gate *gate, const struct gate_loan_ask *ask, struct ledger_source *ret)
{
        uint64_t descriptor;

        *ret = (struct ledger_source){ .client = ask->client, .handle = ask->object };
        if (ask->object)
                return loans_maker_is_open(&gate->loans, ask->client) ? 0 : -ENOENT;
        descriptor = ask->file < 0 ? 0 : open_files_find(&gate->exports, ask->file);
        *ret = (struct ledger_source){ .descriptor = descriptor, .index = ask->index };
        return descriptor ? 0 : -ENOENT;
}

static bool lend_by(struct gate *gate, uint32_t number, const struct ledger_source *source, struct ledger_entry *entry,
                    struct ledger_lent *ret)
{
        LOCKED(&gate->ledger_lock);

        return ledger_lend(gate->ledger, entry, number, source, ret) == LEDGER_OK;
}

int gate_lend(struct gate *gate, uint32_t borrower, const struct gate_loan_ask *ask, struct gate_loan *ret)
{
        struct ledger_lent lent = { 0 };
        struct ledger_source source;
        struct ledger_entry *entry;
        uint32_t number;
        int r = find_source(gate, ask, &source);

        if (r < 0)
                return r;
        if (entry_take(gate, &entry) < 0)
                return -ENOSPC;
        r = loans_put(&gate->loans, borrower, &source, ask->holder, &number);
        if (r < 0) {
                entry_drop(gate, entry);
                return r;
        }
        if (!lend_by(gate, number, &source, entry, &lent)) {
                (void)loans_take(&gate->loans, borrower, number);
                return -ENOENT;
        }
        loans_stamp(&gate->loans, number, lent.stamp);
        *ret = (struct gate_loan){ number, lent.class_number, lent.pages, lent.device, lent.size };
        return 0;
}

bool gate_loan_stands(struct gate *gate, uint32_t borrower, uint32_t number)
{
        struct loan loan;

        if (!loans_get(&gate->loans, borrower, number, &loan) ||
            (loan.source.handle && !loans_maker_is_open(&gate->loans, loan.source.client)))
                return false;
        LOCKED(&gate->ledger_lock);

        return ledger_stands(gate->ledger, &loan.source, loan.stamp);
}

static void loan_gone(struct gate *gate, uint32_t number)
{
        {
                LOCKED(&gate->ledger_lock);
                ledger_loan_gone(gate->ledger, number);
        }
        gate_usage_changed(gate);
}

void gate_loan_return(struct gate *gate, uint32_t borrower, uint32_t number)
{
        if (loans_take(&gate->loans, borrower, number))
                loan_gone(gate, number);
}

void gate_borrower_gone(struct gate *gate, uint32_t borrower)
{
        loans_orphan(&gate->loans, borrower);
        settle_loans(gate);
}

void settle_loans(struct gate *gate)
{
        uint32_t number;

        loans_settle(&gate->loans, clock_now(), CLOSING);
        while (loans_take_ended(&gate->loans, &number))
                loan_gone(gate, number);
}

size_t gate_loans(struct gate *gate)
{
        return loans_count(&gate->loans);
}

bool gate_lender_gone(struct gate *gate, uint32_t lender)
{
        bool has_borrowed;

        {
                LOCKED(&gate->ledger_lock);
                has_borrowed = ledger_has_borrowed(gate->ledger, lender);
        }
        if (!has_borrowed)
                return false;
        gate_tell(gate, EVENT_LENDER_LOST, 0, "the process that kept its books is gone");
        gate_kill(gate);
        return true;
}
