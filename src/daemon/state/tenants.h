/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of living tenants, and the rules of admission. A promise is kept or not given:
 *      A1  the quotas of a device's tenants are not more than its memory, unless the operator allowed overcommit;
 *      A2  the shares that were asked for are not more than the whole of a device;
 *      A3  a name belongs to one living tenant.
 * A tenant without a share of its own gets an equal part of the rest (turns_equal_part), which changes as tenants come
 * and go.
 *
 * Pure but for `struct tenant`'s descriptors, which shims.c and preloads.c own. Thread: the loop.
 */
#pragma once

#include "preload/lease_descriptor.h"
#include "lease/lease.h"
#include "wire/control_block.h"
#include "daemon/state/ghost.h"
#include "daemon/state/suspend/sleeper.h"
#include "daemon/state/suspend/suspension.h"
#include "daemon/state/suspend/swapper.h"
#include "base/loop.h"
#include "wire/messages.h"

#include <stdbool.h>

struct daemon;
struct err;

enum tenant_state {
        TENANT_ASKED,   /* admitted; its command is being started */
        TENANT_STARTED, /* its shim has been started and has not said hello */
        TENANT_RUNNING, /* its shim serves it, and we are connected */
        TENANT_AWAITED, /* its shim lost its daemon, this or an earlier one, and is expected to come back */
};

enum {
        TENANT_MINUTE = 60, /* seconds that are remembered */
        TENANT_EVENTS = 64, /* kinds of events; shim_messages.c limits the rate of each */
};

/* What the store has already; see usage.c. */
struct tenant_counted {
        nsec used;
        uint64_t refused;
        bytes held, peak, swapped;
        nsec engines[RM_N_ENGINES];
};

/* What a tenant had of the latest minute, second by second: a ring. */
struct tenant_minute {
        uint16_t granted[LEASE_DEVICES_MAX][TENANT_MINUTE]; /* permille */
        unsigned int n;                                     /* seconds, ever */
};

struct tenant_event_limit {
        nsec at;            /* when an event of this kind was last emitted; clock_now */
        uint64_t n_dropped; /* since then */
};

/* suspend.c's. */
enum {
        BY_SHIM_HOW = 120,
};

struct tenant_suspension {
        enum suspension_state state; /* as the control block has it */
        pid_t helper;                /* 0: none */
        int output;                  /* of the helper */
        bool is_moving;              /* its shim moves its memory (by_shim.h), as it was asked by: */
        uint64_t serial;
        bool is_waiting;       /* for a new list of processes, before the helper starts */
        bool has_no_copies;    /* of a way out: its shim has said that copies cannot */
        bool is_taken;         /* the daemon that began the way has ended: that it failed is no fault of the tenant's */
        nsec no_copies_until;  /* they could not the latest time; clock_now. What it has may be other by then */
        nsec since;            /* clock_now when it began */
        nsec moves_at;         /* when its helper began; 0: it has none */
        nsec looked_at;        /* whether its processes are there still; swapped.c */
        bool has_ended;        /* one of them is not */
        nsec away_at;          /* 0: it is not */
        bytes held;            /* on all devices, then */
        uint64_t n_out, n_in;  /* how often it has been suspended, and resumed */
        char cause[64];        /* who asked, or why nobody had to */
        char how[BY_SHIM_HOW]; /* what its shim says of the way that it has gone; "": nothing */
        char text[240];        /* why the latest attempt failed; "": it did not */
};

/* swap.c's, of a tenant with --swap. Times are clock_now's. */
struct tenant_swap {
        bool is_in;               /* it was at the latest look */
        nsec in_since, worked_at; /* worked_at: its latest sign of work */
        uint64_t n_calls;         /* at the latest look */
        nsec out_since, rest;     /* it is taken to wait `rest` after that */
        nsec asked_at;            /* its user wants it in, since; 0: nobody has asked */
        nsec waits_since;         /* 0: it does not */
        nsec stuck_since;         /* its waiting has no known end; 0: it has */
        bool is_stuck_told;
        nsec kept_until, kept; /* it could not be suspended */
        enum swapper_why why;
        struct tenant_way {
                nsec took; /* the latest; 0: not known yet */
                bytes moved;
                bool by_copies;
        } out, back;
};

struct tenant {
        struct tenant *next;
        struct message_lease lease; /* as it is now; share 0: an equal part */
        nsec goal;                  /* that the scheduler has */
        struct daemon *daemon;
        enum tenant_state state;
        pid_t shim; /* 0: not known yet */
        nsec since; /* clock_realtime */
        nsec state_since;

        struct control_block *control;         /* NULL: none yet. Without a shim it is our own, written by preloads.c */
        int segment;                           /* the usage segment of a tenant with libsublet.so; -1: none */
        uint8_t token[LEASE_DESCRIPTOR_TOKEN]; /* by which its processes may attach */
        pid_t run;                             /* `sublet run` of a tenant without a shim; 0: none */
        bool is_attaching;                     /* a process of it is handing itself over */
        bool wants_attach_socket;              /* this daemon's attach.sock is to be linked into its directory */
        int attach_error;                      /* why the latest attempt failed: an errno, or 0 */
        nsec checked_at;                       /* when the usage segment was scanned last; clock_now */
        nsec rests_until;                      /* it is not scanned before, since that took long (preloads.c E1) */
        struct loop_source source;             /* its shim's socket, before that run's; fd -1: none */
        bool is_kept;         /* it has ended, and somebody outside keeps memory of it: of its lease only that counts */
        bool is_end_received; /* the shim has sent "ended" */
        char *report;         /* that came with it; JSON */

        permille share;               /* effective, on all its devices */
        uint64_t gang;                /* of the scheduler: it comes on with all that have the same; 0: alone */
        uint64_t set_asked, set_done; /* serials of "set" */
        char set_text[200];           /* the shim's answer to set_done; "": done */
        struct tenant_suspension suspension;
        struct tenant_swap swap;
        struct tenant_room {
                bool is_told; /* its shim, by this daemon: how much host memory it may keep ready (room.c) */
                bytes told;
        } room;
        struct ghost ghost; /* of a pod's container */
        struct sleeper sleeper;
        bool is_sleepless_told;           /* idle, and there is no room in host memory */
        nsec waker_until;                 /* somebody has said that it wakes it; clock_now */
        bytes managed[LEASE_DEVICES_MAX]; /* managed memory in its books when it ran last: unmanaged.c */
        struct tenant_counted counted[LEASE_DEVICES_MAX];
        nsec counted_at;              /* clock_realtime; 0: never */
        struct tenant_minute *minute; /* owned; NULL: nothing yet */
        struct tenant_event_limit events[TENANT_EVENTS];
};

struct tenants {
        struct tenant *first;
        size_t n;
        unsigned int n_devices;
        bytes totals[LEASE_DEVICES_MAX];
        bool is_lost[LEASE_DEVICES_MAX];
        bool overcommits;
        uint32_t last_team;            /* the latest number that a group has had */
        bytes swap;                    /* host memory for suspended tenants; 0: no limit, and no lease with --swap */
        bytes kept[LEASE_DEVICES_MAX]; /* for containers that have no tenant yet (allocations_keep) */
        nsec room_at;                  /* the latest look of room.c; clock_now */
};

enum {
        TENANTS_E_NO_ROOM = 1, /* memory, shares, or too many tenants */
        TENANTS_E_NAME_TAKEN,
        TENANTS_E_BAD_NAME,
        TENANTS_E_DEVICE_LOST,

        TENANTS_PER_DEVICE = TURNS_TENANTS_MAX,
};

/* Sums over the tenants of a device; `but`: without this one (NULL: all). tenants_leased counts what an MPS server
 * takes, too, and of those with --swap what the device is to have for them (swap_set_aside). */
bytes tenants_leased(const struct tenants *tenants, unsigned int device, const struct tenant *but);

/* What that lease could still have. */
bytes tenants_free(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                   const struct tenant *but);
permille tenants_promised(const struct tenants *tenants, unsigned int device, const struct tenant *but);
unsigned int tenants_count(const struct tenants *tenants, unsigned int device);

/* How the device is shared by its tenants: "time", "spatial", "mig"; "time" when it has none. */
const char *tenants_mode(const struct tenants *tenants, unsigned int device, const struct tenant *but);

/* ---- suspend/swap_fit.c: leases with --swap
 *
 *      A4  each fits on the device beside all leases without --swap, and what is kept for such;
 *      A5  the host holds, beside what others have there, as much as an exchange of them may need (swapper.h). */

bool swap_is_out(const struct tenant *tenant); /* it counts as off the device */

/* What counts as its: the quota, or what it has where that was set lower. And what of one that is out is on the device
 * all the same: nothing, but for a little that the driver keeps, or memory of no process that could be suspended. */
bytes swap_promised(const struct tenant *tenant, unsigned int device);
bytes swap_left(const struct tenant *tenant, unsigned int device);

/* What a lease with --swap can have at most; what is kept from those without: the largest, or all that are in. */
bytes swap_room(const struct tenants *tenants, unsigned int device, const struct tenant *but);
bytes swap_set_aside(const struct tenants *tenants, unsigned int device, const struct tenant *but);

/* A lease with --swap on a device. 0; TENANTS_E_NO_ROOM. */
int swap_fit_device(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                    const struct tenant *but, struct err *err);

/* A5, of any lease. 0; TENANTS_E_NO_ROOM. */
int swap_fit_host(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
                  struct err *err);

/* Whether its own bound lets a lease with --swap leave. 0; -EINVAL. */
int swap_fit_bound(const struct message_lease *lease, struct err *err);

/* Whether the host may have what it holds, too, by the daemon's bound and by its own. 0; -ENOSPC. */
int swap_fit_suspended(const struct tenants *tenants, const struct tenant *tenant, struct err *err);

bytes swap_host_used(const struct tenants *tenants);

/* Whether a lease fits beside the others; `but` is the tenant whose lease it replaces. err says what does not fit, and
 * what is free. 0; TENANTS_E_NO_ROOM; TENANTS_E_DEVICE_LOST. */
int tenants_fit(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
                struct err *err);

/* A name of 1 to 63 letters, digits, '.', '_' and '-', the first a letter or digit. */
bool tenants_name_is_good(const char *name);

/* The name of a new lease: the user's choice, or a free one made from the command ("python3", "python3-2", ...). 0;
 * TENANTS_E_NAME_TAKEN; TENANTS_E_BAD_NAME. */
int tenants_name(const struct tenants *tenants, const struct message_request *request, char ret[static 64],
                 struct err *err);

/* Adds a lease; the caller has checked tenants_fit. 0; -ENOMEM. */
int tenants_put(struct tenants *tenants, const struct message_lease *lease, struct tenant **ret);
void tenants_take(struct tenants *tenants, struct tenant *tenant); /* removes; *tenant is the caller's then */
void tenant_free(struct tenant *tenant);                           /* unmaps the control block */

struct tenant *tenants_find(const struct tenants *tenants, const char *name); /* NULL: not there */
struct tenant *tenants_find_id(const struct tenants *tenants, uint64_t id);
struct tenant *tenants_find_container(const struct tenants *tenants, const char *pod, const char *container);
struct tenant *tenants_find_runtime(const struct tenants *tenants, const char *id); /* by its container's id */
struct tenant *tenants_find_shim(const struct tenants *tenants, pid_t shim);

/* Of a tenant that is about to be scheduled: the gang of its job, or its own if it has several devices; 0: none. */
uint64_t tenants_gang(const struct tenants *tenants, const struct tenant *tenant);

/* The number of the group of a lease: that of its other tenants on whatever device, or one that nobody has, which is
 * spent when a lease has it (tenants_put); 0: it is of none. A group is of one owner, and of one namespace (M4 of
 * mps.h). */
uint32_t tenants_team(const struct tenants *tenants, const struct message_lease *lease);
void tenants_spend_team(struct tenants *tenants, uint32_t team); /* it is in use: later ones are others */

/* Sets the effective shares. True: one has changed. */
bool tenants_divide(struct tenants *tenants);

const char *tenant_state_name(const struct tenant *tenant); /* "starting", "running", "suspended", "kept" ... */
/* Where its programs find lease descriptor and usage segment. */
enum lease_descriptor_source tenant_place(const struct tenant *tenant);
bool tenant_has(const struct tenant *tenant, unsigned int device);

bool tenant_swaps(const struct tenant *tenant); /* it has --swap, and can leave and come */

/* What it holds, by its control block; 0 without one. */
bytes tenant_held(const struct tenant *tenant, unsigned int device);

/* What it has in host memory instead, as it is suspended; 0 where its shim is too old to know. suspend/swapped.c. */
bytes tenant_swapped(const struct tenant *tenant, unsigned int device);
bytes tenant_swapped_all(const struct tenant *tenant);

/* As whose descriptors are dropped that a user sent (base/descriptors.h): from a program of the machine; from one that
 * may be in a container, whose root is nobody special here. */
static inline uint64_t daemon_sender(uid_t user)
{
        return 1 + (uint64_t)user;
}

static inline uint64_t daemon_sender_inside(uid_t user)
{
        return UINT64_C(1) << 40 | user;
}

static inline bool daemon_sender_is_inside(uint64_t sender)
{
        return sender >> 40;
}

static inline uid_t daemon_sender_user(uint64_t sender)
{
        return (uid_t)(daemon_sender_is_inside(sender) ? sender : sender - 1);
}
