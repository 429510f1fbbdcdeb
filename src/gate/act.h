/* SPDX-License-Identifier: Apache-2.0 */
/* A decoded request and the handlers of its action (act.c has the table). */
#pragma once

#include "gate/request.h"

/* From a request with its descriptor, node and address to an answer; `number` as the system call had it. */
int serve_request(struct request *request, uint32_t number);

/* suspended.c: a call that takes memory of a suspended tenant waits. 0: it may be made; GATE_WAITS: not now, and the
 * notification is to be looked at anew; -ETIMEDOUT, -EBUSY: it is to be refused, and the event is sent. */
int wait_if_suspended(struct request *request);

/* Whatever a call has to wait for: GATE_WAITS, or the others. Nothing was made of the call yet, or it is undone. */
int wait_ask(struct request *request, const struct gate_wait *what);

/* A handler prepares (locks, room in the ledger), performs, and commits the reply to the ledger or undoes all of it. */
int serve_client(struct request *request);   /* objects.c */
int serve_object(struct request *request);   /* objects.c */
int serve_hollow(struct request *request);   /* objects.c */
int serve_free(struct request *request);     /* objects.c */
int serve_attach(struct request *request);   /* objects.c */
int serve_listen(struct request *request);   /* objects.c */
int serve_ignore(struct request *request);   /* objects.c */
int serve_dup(struct request *request);      /* dup.c */
int serve_memory(struct request *request);   /* memory.c */
int serve_fabric(struct request *request);   /* memory.c */
int serve_export(struct request *request);   /* exports.c */
int serve_import(struct request *request);   /* exports.c */
int serve_space(struct request *request);    /* uvm.c */
int serve_join(struct request *request);     /* uvm.c */
int serve_move(struct request *request);     /* uvm.c */
int serve_hold(struct request *request);     /* uvm.c */
int serve_release(struct request *request);  /* uvm.c */
int serve_range(struct request *request);    /* uvm.c */
int serve_group(struct request *request);    /* uvm.c */
int serve_view(struct request *request);     /* rewrite.c */
int serve_schedule(struct request *request); /* schedule.c */
int serve_map_dma(struct request *request);  /* own/tables.c */
int serve_nothing(struct request *request);  /* uvm.c: mapped, with nothing behind it */
int serve_retain(struct request *request);   /* uvm.c */
int serve_let_go(struct request *request);   /* uvm.c */
int serve_map(struct request *request);      /* own/mapped.c */

/* job/loans.c. The tenant lets others dup objects of a client, through the file that the client was made by: it may be
 * lent of from now on. */
void loans_maker(struct request *request);

/* dup.c. After the driver call by which borrowed memory came in: whether it is what was lent. */
bool loan_is_good(struct request *request, const struct gate_loan *loan, const struct ledger_object *object);

/* dup.c. It is in the ledger from now on; uses up the entry. */
void loan_put(struct ledger *ledger, struct ledger_entry *entry, struct ledger_object *object, struct gate_loan loan);

/* memory.c. Takes `size` of the device's quota. If it does not fit, the ledger is settled first; may_wait: what
 * has_late says is waited for, which a thread that holds a client lock must not do. QUOTA_OK; QUOTA_E_FULL, and the
 * event is sent. */
int take_memory(struct request *request, int device, bytes size, bool may_wait, struct charge *ret);

/* memory.c. Of the host: QUOTA_OK; QUOTA_E_FULL, and the event is sent. */
int take_host(struct request *request, bytes size, struct charge *ret);

/* own/tables.c. Page tables that a call on a space will make: paid, on every device of the lease. QUOTA_OK;
 * QUOTA_E_FULL, and the event is sent. What is taken is put into the ledger with what it belongs to
 * (ledger_tables_put), or dropped. */
struct tables_taken {
        bytes size;
        uint32_t devices;   /* 0: nothing is taken */
        struct charge host; /* of a pool: its memory */
};
int tables_take(struct request *request, bytes size, struct tables_taken *ret);
void tables_drop(struct gate *gate, struct tables_taken *tables);

/* dup.c. Memory of somebody else, now ours as well: charged, or handed back. A status. */
uint32_t charge_foreign(struct request *request, struct ledger_object *object, struct charge *ret);
