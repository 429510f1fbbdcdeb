/*
 * The table of living tenants, and who is let in.
 *
 * What is promised is kept (A1) or refused at the door:
 *      A1  the quotas of a device's tenants are not more than its memory, unless the operator said overcommit;
 *      A2  the shares that were asked for are not more than the whole of a device;
 *      A3  a name belongs to one living tenant.
 * A tenant that asked for no share gets an equal part of what nobody was promised (tenants_divide), so those
 * have less when another comes, and more when one goes.
 *
 * Pure but for `struct tenant`'s descriptors, which are its owner's (shims.c). Thread: the loop.
 */
#pragma once

#include "preload/lease_descriptor.h"
#include "lease/lease.h"
#include "wire/control_block.h"
#include "base/loop.h"
#include "wire/messages.h"

#include <stdbool.h>

struct err;

enum tenant_state {
        TENANT_ASKED,   /* admitted; its command is being started */
        TENANT_STARTED, /* its shim has been started and has not said hello */
        TENANT_RUNNING, /* its shim serves it, and we are connected */
        TENANT_AWAITED, /* its shim served it under another daemon, or has lost us, and is to come back */
};

enum {
        TENANT_EVENTS = 64, /* kinds that are told apart; see shims.c */
};

/* What is in the store already; see usage.c. */
struct tenant_counted {
        nsec used;
        uint64_t refused;
        bytes held, peak;
};

struct tenant {
        struct tenant *next;
        struct message_lease lease; /* as it is now; share 0: an equal part */
        enum tenant_state state;
        pid_t shim; /* 0: not known yet */
        nsec since; /* clock_realtime */
        nsec state_since;

        struct control_block
                *control; /* NULL: none (yet); of enforcement mode preload: our own, written by preloads.c */
        int segment;      /* of a tenant that has libsublet.so inside; -1: none */
        uint8_t token[LEASE_DESCRIPTOR_TOKEN]; /* by which its processes may attach */
        pid_t run;                             /* the process that asked, of enforcement mode preload; 0: none */
        bool is_attaching;                     /* a process of it was told to hand itself over */
        bool wants_attach_socket;              /* attach.sock of this daemon is to be put into its directory */
        int attach_error;                      /* why the latest attempt was none: an errno, or 0 */
        nsec checked_at;                       /* at the usage segment */
        struct loop_source source;             /* its shim's socket, or until that is there run's; fd -1: none */
        void *owner;                           /* of the source's callback */
        bool is_end_received;                  /* the shim has said «ended» */
        char *report;                          /* with that; JSON */

        permille share;               /* effective, on all its devices */
        uint64_t set_asked, set_done; /* serials of «set» */
        char set_text[200];           /* what the shim said of set_done; "": fine */
        struct tenant_counted counted[LEASE_DEVICES_MAX];
        nsec counted_at; /* clock_realtime; 0: never */

        struct {
                nsec at; /* when an event of this kind was told last */
                uint64_t n_dropped;
        } told[TENANT_EVENTS];
};

struct tenants {
        struct tenant *first;
        size_t n;
        unsigned int n_devices;
        bytes totals[LEASE_DEVICES_MAX];
        bool is_lost[LEASE_DEVICES_MAX];
        bool overcommits;
};

enum {
        TENANTS_E_NO_ROOM = 1, /* memory, shares, or too many tenants */
        TENANTS_E_NAME_TAKEN,
        TENANTS_E_BAD_NAME,
        TENANTS_E_DEVICE_LOST,

        TENANTS_PER_DEVICE = TURNS_TENANTS_MAX,
};

/* What the devices' tenants were promised; `but`: leave this one out (NULL: nobody). */
bytes tenants_leased(const struct tenants *tenants, unsigned int device, const struct tenant *but);

/* What a lease in that mode could still have. */
bytes tenants_free(const struct tenants *tenants, unsigned int device, const char *mode, const struct tenant *but);
permille tenants_promised(const struct tenants *tenants, unsigned int device, const struct tenant *but);
unsigned int tenants_count(const struct tenants *tenants, unsigned int device);

/* How the device is shared by its tenants: "time", "spatial", "mig"; "time" when it has none. */
const char *tenants_mode(const struct tenants *tenants, unsigned int device, const struct tenant *but);

/* Whether a lease fits beside the others; `but` is the tenant whose lease it replaces. err says what does not, and
 * what is free. 0; TENANTS_E_NO_ROOM; TENANTS_E_DEVICE_LOST. */
int tenants_fit(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
                struct err *err);

/* A name of 1 to 63 letters, digits, '.', '_' and '-', the first a letter or digit. */
bool tenants_name_is_good(const char *name);

/* The name that a lease will have: the user's own, or one made from the command's that is free ("python3",
 * "python3-2", ...). 0; TENANTS_E_NAME_TAKEN; TENANTS_E_BAD_NAME. */
int tenants_name(const struct tenants *tenants, const struct message_request *request, char ret[static 64],
                 struct err *err);

/* Takes the lease in; the caller has asked tenants_fit. 0; -ENOMEM. */
int tenants_put(struct tenants *tenants, const struct message_lease *lease, struct tenant **ret);
void tenants_take(struct tenants *tenants, struct tenant *tenant); /* out of the table; still the caller's */
void tenant_free(struct tenant *tenant);                           /* unmaps the control block */

struct tenant *tenants_find(const struct tenants *tenants, const char *name); /* NULL: not there */
struct tenant *tenants_find_id(const struct tenants *tenants, uint64_t id);
struct tenant *tenants_find_container(const struct tenants *tenants, const char *pod, const char *container);
struct tenant *tenants_find_runtime(const struct tenants *tenants, const char *id); /* by its container's id */
struct tenant *tenants_find_shim(const struct tenants *tenants, pid_t shim);

/* Sets the effective share of all. True: one has changed. */
bool tenants_divide(struct tenants *tenants);

const char *tenant_state_name(const struct tenant *tenant); /* "starting", "running", "lost" */
enum lease_descriptor_source
tenant_place(const struct tenant *tenant); /* where its programs find lease descriptor and usage segment */
bool tenant_has(const struct tenant *tenant, unsigned int device);

/* What it holds, by its control block; 0 without one. */
bytes tenant_held(const struct tenant *tenant, unsigned int device);
