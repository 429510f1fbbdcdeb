/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant holds: object -> charge.
 *
 * The model. A *client* is the driver's: a root of a tree of objects, named by a system-wide handle. An *object* is
 * named by (client, handle) and has a parent object or its client. A *memory* is one physical allocation; it carries
 * the charge. Holders of a memory are
 *      - objects: the one that allocated it, and every dup and import of it;
 *      - mappings: a (space, base) that a UVM VA space holds, which outlives the object;
 *      - exports: a descriptor that keeps the memory while it is open.
 * The charge returns when the last holder is gone. Invariants:
 *      L1  the sum of charges of live memories is what the ledger reports as held, per device;
 *      L2  an object's subtree goes with it;
 *      L3  a memory with no holder does not exist;
 *      L4  putting never fails: the node is allocated before the driver is called (ledger_entry_new);
 *      L5  a failed driver call changes nothing.
 *
 * Pure: no system calls, no clock, no locks. The caller serialises (gate: LOCK_LEDGER). A free costs what it frees,
 * whatever the tree's shape; nothing recurses. A ledger belongs to one tenant. Handles are the tenant's and may be
 * anything; a handle that is put again although it is there replaces what was there (the driver's word is what
 * counts: it would have refused a handle in use).
 */
#pragma once

#include "lease/quota.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger;
struct ledger_entry; /* room for one object, mapping, export, ..., allocated ahead (L4) */

enum {
        LEDGER_OK,
        LEDGER_E_NO_OBJECT, /* no such client, object or export */
};

int ledger_new(struct ledger **ret); /* -ENOMEM */

/* Returns all charges. NULL is fine. Returns NULL. */
struct ledger *ledger_unref(struct ledger *ledger);

/* Room in the ledger for one more put, dup, map, export or client: after this they cannot fail.
 * Any number may be outstanding. -ENOMEM. A function that is given an entry has used it up,
 * whatever it answers; an unused one goes back with ledger_entry_free (NULL is fine; returns NULL).
 */
int ledger_entry_new(struct ledger *ledger, struct ledger_entry **ret);
struct ledger_entry *ledger_entry_free(struct ledger *ledger, struct ledger_entry *entry);

/* A new client, opened by process `owner` (the tenant's number for it). A client of that handle that is there already
 * is gone, with all it held: the driver reuses handles. */
void ledger_client_put(struct ledger *ledger, struct ledger_entry *entry, uint32_t client, uint32_t owner);
bool ledger_has_client(const struct ledger *ledger, uint32_t client);

/* Frees everything below the client. Unknown client: nothing. */
void ledger_client_gone(struct ledger *ledger, uint32_t client);

/* For each client of `owner`, or of all with owner 0. i starts at 0; false at the end. The ledger must not change
 * during the visit. */
bool ledger_client_next(const struct ledger *ledger, uint32_t owner, size_t *i, uint32_t *ret_client,
                        uint32_t *ret_owner);

/*
 * The driver has made an object. parent is an object of the client or the client itself; objects of unknown parents
 * hang on the client. device: index into the lease, or -1 (inherited from the parent). charge: taken; empty for what
 * holds no memory. A client that nobody put becomes one of owner 0, so that no charge is lost.
 */
struct ledger_object {
        uint32_t client, parent, handle, class_number;
        int device;
};
void ledger_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                struct charge charge);

/*
 * The driver has made an object over the source's memory, which it keeps as long as it or a holder of it lives:
 * fabric memory. charge: taken; of what it takes besides. LEDGER_OK; LEDGER_E_NO_OBJECT: the source is not there, and
 * the charge has returned.
 */
int ledger_put_over(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                    struct charge charge, uint32_t source_client, uint32_t source_handle);

/* What is known of an object, not of a client. parent is what it hangs on, device is resolved (-1: none on the way up
 * had one). LEDGER_OK; LEDGER_E_NO_OBJECT. */
int ledger_get(const struct ledger *ledger, uint32_t client, uint32_t handle, struct ledger_object *ret);

/* The quota that this object's memory is charged to; NULL for none. */
const struct quota *ledger_quota_of(const struct ledger *ledger, uint32_t client, uint32_t handle);

/* What this object's memory is charged, 0 for none. */
bytes ledger_charge_of(const struct ledger *ledger, uint32_t client, uint32_t handle);

/* A second handle for the source's memory, if it has one. The source may be any object of this ledger. to->device -1
 * is inherited from the new parent. LEDGER_OK; LEDGER_E_NO_OBJECT: the source is not this tenant's (the caller
 * refuses the call). */
int ledger_dup(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *to,
               uint32_t source_client, uint32_t source_handle);

/* The driver has freed the handle; handle == client frees the client. Unknown: nothing. */
void ledger_free(struct ledger *ledger, uint32_t client, uint32_t handle);

/*
 * A VA space (the caller's number for the UVM descriptor) holds the object's memory, if it has one, at [base, base +
 * length), in the page tables of device `where` (0: of several). Mappings of the same device that the new one covers
 * are gone; one that it covers in part still holds its memory. LEDGER_OK; LEDGER_E_NO_OBJECT.
 */
int ledger_map(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base, uint64_t length,
               uint64_t where, uint32_t client, uint32_t handle);

/* Mappings of device `where` (0: of any) that lie wholly inside [base, base + length) are gone. */
void ledger_unmap(struct ledger *ledger, uint64_t space, uint64_t base, uint64_t length, uint64_t where);

/* A range of a space in which mappings are made; or a pool, which takes no video memory. charge: taken; of host memory
 * that the range has itself. */
void ledger_range_put(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base, uint64_t length,
                      bool is_pool, struct charge charge);

/* The range that starts at base is gone, with every mapping in it. Unknown: nothing. */
void ledger_range_gone(struct ledger *ledger, uint64_t space, uint64_t base);

/* A pool is exactly there; space 0: in any space. */
bool ledger_has_pool(const struct ledger *ledger, uint64_t space, uint64_t base, uint64_t length);

void ledger_space_gone(struct ledger *ledger, uint64_t space); /* all that is of the space */

/*
 * Memory with an address range and no object: a managed range of a space, charged by the caller; a
 * range charged on several devices is put once for each. What was put stays until it is gone, also when
 * the owner puts another range at the same base: whether the first one has ended only the driver knows.
 *
 * ledger_managed_next visits an owner's ranges by rising base, each base once with the longest length
 * there; i starts at 0. ledger_managed_owner_next finds the next owner that has any, from 0 on, which is none.
 * The ledger may change during both visits.
 */
void ledger_managed_put(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint32_t owner,
                        uint64_t base, uint64_t length, int64_t now, struct charge charge);
bool ledger_managed_owner_next(const struct ledger *ledger, uint32_t *owner);
bool ledger_managed_next(const struct ledger *ledger, uint32_t owner, size_t *i, uint64_t *ret_space,
                         uint64_t *ret_base, uint64_t *ret_length);

/* As ledger_managed_next, but only ranges that have an address of [base, base + length); it looks at no others. */
bool ledger_managed_over(const struct ledger *ledger, uint32_t owner, size_t *i, uint64_t base, uint64_t length,
                         uint64_t *ret_base, uint64_t *ret_length);
void ledger_managed_gone(struct ledger *ledger, uint32_t owner, uint64_t base);

/* As ledger_managed_gone, but only what was put before `before` and is not longer than `length`, which was asked about.
 * True if something is left there. *ret_gone: how many went. */
bool ledger_managed_gone_before(struct ledger *ledger, uint32_t owner, uint64_t base, uint64_t length, int64_t before,
                                size_t *ret_gone);

/* The next addresses of a space in [*base, end) for which the ledger has no range, managed or not. False: none. Length
 * 0: there are more than LEDGER_GAP_WALK ranges before it, and the next call goes on from *base. */
enum { LEDGER_GAP_WALK = 1024 };
bool ledger_gap_next(const struct ledger *ledger, uint64_t space, uint64_t *base, uint64_t end, uint64_t *ret_length);
bool ledger_space_has_managed(const struct ledger *ledger, uint64_t space);

/* The range of a space that starts at or after *base, mapped or not: for who frees them all. False: none. */
bool ledger_range_next(const struct ledger *ledger, uint64_t space, uint64_t *base, uint64_t *ret_length);

/* A descriptor (the caller's number for it) keeps the object's memory, if it has one, as its
 * index-th, while it is open. What was exported at that index is let go, as the driver does; handle 0
 * exports nothing there (os.c, ExportObjectsToFd, 595.45.04). LEDGER_OK; LEDGER_E_NO_OBJECT: nothing
 * has changed. */
int ledger_export(struct ledger *ledger, struct ledger_entry *entry, uint64_t descriptor, uint32_t index,
                  uint32_t client, uint32_t handle);
void ledger_export_gone(struct ledger *ledger, uint64_t descriptor);

/* An object made from the index-th export of a descriptor, the latest of that index. LEDGER_OK; LEDGER_E_NO_OBJECT:
 * the export is not ours (the caller refuses the call). */
int ledger_import(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *to,
                  uint64_t descriptor, uint32_t index);

/*
 * ---- loans (loans.c): memory that tenants of one job have of each other -----------------------------------------
 *
 * The lender's ledger has a hold by the loan's number, so the memory stays charged to it; the borrower's has the
 * objects and mappings, and no charge. Numbers are the callers' and never 0; a lender's are of its own counting.
 */
struct ledger_source {
        uint32_t client, handle; /* an object; handle 0: an export */
        uint64_t descriptor;     /* of an export */
        uint32_t index;
};
struct ledger_lent {
        uint64_t stamp;
        uint32_t class_number, pages;
        int device;
        bytes size;
};

/* Only memory of its own is lent. LEDGER_OK; LEDGER_E_NO_OBJECT. */
int ledger_lend(struct ledger *ledger, struct ledger_entry *entry, uint64_t loan, const struct ledger_source *source,
                struct ledger_lent *ret);

/* Whether the source is still what it was when it was lent. */
bool ledger_stands(const struct ledger *ledger, const struct ledger_source *source, uint64_t stamp);

/* The loan has been returned. */
void ledger_loan_gone(struct ledger *ledger, uint64_t loan);

/* The client is about to be freed, or the descriptor to be exported to, by a call that the driver may have made long
 * before the ledger hears of it: what was lent of them does not stand any more. */
void ledger_stamp_client(struct ledger *ledger, uint32_t client);
void ledger_stamp_exports(struct ledger *ledger, uint64_t descriptor);

/* As ledger_put, of memory of a lender's. */
void ledger_borrow(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object, uint64_t loan,
                   bytes size);

/* A loan that has no holder any more, once. False: there is none. */
bool ledger_returned(struct ledger *ledger, uint64_t *ret);

/* Memory that is borrowed: of a device; of the lender in the upper half of the loans' numbers. */
bytes ledger_borrowed(const struct ledger *ledger, int device);
bool ledger_has_borrowed(const struct ledger *ledger, uint32_t lender);
/* The same by lender and device, at most n rows. How many. */
struct ledger_borrowed_row {
        uint32_t lender;
        int device;
        bytes size;
};
size_t ledger_borrowed_list(const struct ledger *ledger, struct ledger_borrowed_row *ret, size_t n);

/* Whether the descriptor keeps an object of ours as its index-th. */
bool ledger_has_export(const struct ledger *ledger, uint64_t descriptor, uint32_t index);

/*
 * ---- what the driver takes without being asked (own.c): it is charged, and in no figure of the driver's ----
 *
 * Of an object, its context buffers, say: a memory like another, held by the object and its dups. What is made for a
 * channel stays with its group when a space has retained that (ledger_own_gather).
 */
void ledger_put_own(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                    struct charge charge);
bytes ledger_own(const struct ledger *ledger, unsigned int device); /* of the charges of a device, those of this kind */

/* From now on the memories of the object's children, and of those to come, are part of its own. */
void ledger_own_gather(struct ledger *ledger, uint32_t client, uint32_t handle);

/*
 * Page tables of a reservation of addresses. They are of its address space (or device, which has one of its own): the
 * driver keeps the most that there has been as long as that lives. A lazy reservation begins without and grows.
 *      ledger_pool_need     how much more is to be charged before there may be `size` more in the space
 *      ledger_pool_put      a reservation has been made with so much, and may grow to `most`
 *      ledger_pool_room     how much of `more` a reservation may grow; *ret_need is what is to be charged for that
 *      ledger_pool_grow     it has grown
 * charge: what was needed; it stays with the space.
 */
struct ledger_reservation {
        uint32_t space; /* handle, of the same client */
        bytes size, most;
};
bytes ledger_pool_need(const struct ledger *ledger, uint32_t client, uint32_t space, bytes size);
void ledger_pool_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                     const struct ledger_reservation *reservation, struct charge charge);
bytes ledger_pool_room(const struct ledger *ledger, uint32_t client, uint32_t handle, bytes more, bytes *ret_need);
void ledger_pool_grow(struct ledger *ledger, uint32_t client, uint32_t handle, bytes more, struct charge charge);

/*
 * Page tables of UVM: they are wanted and paid before the call, and belong to the mapping or managed range at (space,
 * base) after it. `devices` has a bit for each index into the lease.
 *      ledger_tables_want    how much more is to be charged on the device before there may be `size` more
 *      ledger_tables_pay     what was wanted, charged
 *      ledger_tables_return  none are made; unpaid: what was wanted and not paid
 *      ledger_tables_put     the latest mapping, range or managed range at base has them
 */
bytes ledger_tables_want(struct ledger *ledger, unsigned int device, bytes size);
void ledger_tables_pay(struct ledger *ledger, unsigned int device, struct charge charge);
void ledger_tables_return(struct ledger *ledger, unsigned int device, bytes size, bytes unpaid);
void ledger_tables_put(struct ledger *ledger, uint64_t space, uint64_t base, bytes size, uint32_t devices);

/* The pages of the object's memory, as RM_ATTR_PAGE_SIZE; 0: not known. */
void ledger_pages_set(struct ledger *ledger, uint32_t client, uint32_t handle, uint32_t pages);
uint32_t ledger_pages(const struct ledger *ledger, uint32_t client, uint32_t handle);

/* A mapping that holds no memory, only page tables. It goes as any mapping does. */
void ledger_map_nothing(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base,
                        uint64_t length);

/* A space keeps the object's memory until it lets go of the key or of all that it keeps there (both the caller's
 * choice), or ends. An object that is not known keeps nothing. */
void ledger_retain(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t key, uint64_t where,
                   uint32_t client, uint32_t handle);
void ledger_let_go(struct ledger *ledger, uint64_t space, uint64_t key);
void ledger_let_go_where(struct ledger *ledger, uint64_t space, uint64_t where);

/* What there are so many of that one more of the class is not to be made, and how many (bounds.def); NULL: it may be.
 * 0x41: a client. And whether there is no room for one more mapping, range, export or the like. Entries that are not
 * used yet count in both. */
const char *ledger_bound(const struct ledger *ledger, uint32_t class_number, uint32_t *ret_most);
bool ledger_is_full(const struct ledger *ledger);

/* Whether there is room for one more range, for whoever has so much video memory; *ret_most: how many there may be. */
bool ledger_has_room_for_range(const struct ledger *ledger, bytes memory, uint32_t *ret_most);

/* Totals, for audit and for people. A managed range counts once for each put. */
struct ledger_totals {
        size_t n_clients, n_objects, n_memories, n_mappings, n_exports, n_managed;
};
struct ledger_totals ledger_totals(const struct ledger *ledger);

/* Of what is charged on a device: managed ranges, and what the driver takes without being asked (ledger_own). The rest
 * was allocated by request. Walks all managed ranges. */
struct ledger_kinds {
        bytes managed, driver;
};
struct ledger_kinds ledger_kinds(const struct ledger *ledger, const struct quota *quota, unsigned int device);

/* What one process holds of a quota: its managed ranges, and memories whose first object was of a client of it,
 * whoever holds them now. Walks all memories. */
bytes ledger_held_by(const struct ledger *ledger, const struct quota *quota, uint32_t owner);
/* The same of n processes in one walk. */
void ledger_held_by_each(const struct ledger *ledger, const struct quota *quota, const uint32_t *owners, size_t n,
                         bytes *ret);
