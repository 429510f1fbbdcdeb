/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's inside, shared by its two files: ledger.c has the tree of clients and objects, holds.c memories and
 * what holds them beside objects. tests/unit/lease/sound.h checks the invariants.
 */
#pragma once

#include "base/map.h"
#include "lease/lease.h"
#include "lease/ledger.h"
#include "lease/list.h"
#include "lease/tree.h"

/* One physical allocation. It lives as long as it has a holder (L3). */
struct memory {
        struct list all; /* in ledger.memories */
        struct charge charge;
        bytes live;     /* of the driver's own: what is in use of the charge, at least 1; 0: by request */
        int device;     /* whose, if it is the driver's own, or borrowed */
        uint32_t pages; /* RM_ATTR_PAGE_SIZE of its pages: 2 64 KiB, 3 2 MiB or more; 0: may be small */
        uint32_t owner; /* the process that allocated it */
        size_t n_holders;
        struct memory *below; /* that it is made over: held as long as this one lives; NULL: none */
        uint64_t loan;        /* another tenant's, which this one has by that loan and is not charged; 0: its own */
        bytes borrowed;       /* of a loan: its size */
        bool is_pinned;       /* it never leaves its device (moves.c) */
        bool is_covered;      /* a mapping of it lies over or below another one; as n_found */
        bytes away;           /* what it was charged while it was on its device; 0: it is there */
        struct quota *away_of;
        size_t n_found; /* of its holders, by who looks for all of them */
};

/* How an object or a mapping was made (moves.c). */
struct recipe {
        size_t size;
        uint8_t data[];
};

/* An object; or a client, the root of a tree: its parent is NULL and its handle is the client. */
struct node {
        struct ledger_object name; /* parent and device as resolved when it was put */
        uint32_t owner;            /* of a client */
        uint64_t stamp;            /* when it was put: no other node has it */
        struct node *parent;
        struct list children, siblings;
        struct memory *memory; /* NULL: an object that holds none */
        struct memory *pool;   /* what its page tables are of: its address space's memory; NULL: it has none */
        bytes tables, tables_most;
        struct recipe *recipe; /* NULL: not known */
};

/* A mapping, a range or a managed range at (space, base), an export at (descriptor, index), or what a space retains at
 * (space, key). */
struct hold {
        struct tree_node node;
        struct tree_node owned; /* a managed range: (owner, base) */
        uint64_t length;
        uint64_t where;        /* the device of a mapping or of what a space retains; 0: several, or none */
        int64_t put_at;        /* a managed range */
        bool is_pool;          /* a range */
        uint64_t stamp;        /* an export: as of a node */
        uint32_t class_number; /* an export: of the object, */
        int device;            /* and its device */
        bytes tables;          /* of a mapping or a managed range: what its page tables take at most */
        uint32_t tables_on;    /* of which devices, a bit each */
        struct memory *memory; /* NULL: it holds none */
        struct recipe *recipe; /* of a mapping; NULL: not known */
};

union room {
        struct node node;
        struct hold hold;
};

/* Whatever a put could need. It takes what it needs; the rest is freed with the entry. */
struct ledger_entry {
        union room *first;
        struct node *client; /* for an object of a client that nobody put */
        struct memory *memory;
};

/*
 * The page tables of UVM on a device. It takes memory for them in large pieces and returns a piece when all tables in
 * it have gone, so the charge follows the most that there has been, as long as what is left may keep all of it.
 */
struct tables {
        bytes live;   /* what there is, or is about to be made */
        bytes wanted; /* to be charged: charge.size, but while somebody is about to pay */
        struct charge charge;
};

enum {
        LEDGER_KINDS = 10,
};

struct ledger {
        struct map clients;        /* handle -> node */
        struct map objects;        /* (client, handle) -> node */
        struct list memories;      /* all */
        struct list returned;      /* loans that have no holder any more, until they are taken */
        struct tree mappings;      /* by (space, base) */
        struct tree ranges;        /* by (space, base) */
        struct tree exports;       /* by (descriptor, index) */
        struct tree managed;       /* by (space, base) */
        struct tree managed_owned; /* the same by (owner, base) */
        struct tree retained;      /* by (space, key) */
        struct tables tables[LEASE_DEVICES_MAX];
        uint32_t n_of[LEDGER_KINDS];  /* objects, by the rows of bounds.def */
        bytes own[LEASE_DEVICES_MAX]; /* of memories that are the driver's own */
        size_t n_memories;
        uint64_t stamps;  /* given */
        size_t n_entries; /* given out and not used yet: each has a slot in every map (L4) */
};

struct node *ledger_node(const struct ledger *ledger, uint32_t client, uint32_t handle);

/* Makes the memory of a charge, with no holder yet; NULL for an empty charge. */
struct memory *memory_new(struct ledger *ledger, struct ledger_entry *entry, uint32_t owner, struct charge charge);

/* As memory_new, over another one, which it holds. below NULL: over none. Never NULL. */
struct memory *memory_new_over(struct ledger *ledger, struct ledger_entry *entry, uint32_t owner, struct charge charge,
                               struct memory *below);

/* One holder more, one less; the last one's leaving returns the charge. NULL is fine. */
struct memory *memory_hold(struct memory *memory);
void memory_drop(struct ledger *ledger, struct memory *memory);

/* ledger.c: the client's node, made if it is not there; an object that takes its place. */
struct node *ledger_client_of(struct ledger *ledger, struct ledger_entry *entry, uint32_t client);
void ledger_object_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                       struct memory *memory);

/* own.c: page tables of a reservation; NULL is fine. */
void pool_ref(struct ledger *ledger, struct memory *pool, bytes tables);
void pool_drop(struct ledger *ledger, struct node *node);

void holds_done(struct ledger *ledger); /* all mappings, exports and managed ranges go */

/* bounds.c: an object has come or gone. */
void bounds_count(struct ledger *ledger, uint32_t class_number, bool is_new);

/* own.c: tables of a hold go. */
void tables_gone(struct ledger *ledger, bytes size, uint32_t devices);

/*
 * holds.c: holds are found by (high, low), which is a space and a base, or a key.
 *      hold_from   the first of `high` at `low` or behind it; hold_at: exactly there. NULL: none
 *      hold_put    takes room of the entry, and holds the memory (NULL: none); never NULL
 *      hold_gone   out of the tree, with what it held
 */
struct hold *hold_from(const struct tree *tree, uint64_t high, uint64_t low);
struct hold *hold_at(const struct tree *tree, uint64_t space, uint64_t base);
struct hold *hold_put(struct tree *tree, struct ledger_entry *entry, uint64_t high, uint64_t low, uint64_t length,
                      struct memory *memory);
void hold_gone(struct ledger *ledger, struct tree *tree, struct hold *hold);
