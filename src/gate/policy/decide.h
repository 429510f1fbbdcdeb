/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be done with a driver call: one row of rules.def, and what the call costs.
 *
 * Pure: the same answer for the same bytes. libsublet.so asks the same function.
 */
#pragma once

#include "base/text.h"
#include "rm/call.h"

enum gate_action {
        GATE_DENY,     /* refused, as the driver would refuse it */
        GATE_QUIET,    /* of a row only: a DENY without an event, because every program asks */
        GATE_PERFORM,  /* made by us, with our copy */
        GATE_ACCEPT,   /* answered OK, not made */
        GATE_CONTINUE, /* made by the tenant itself */
        GATE_UNWRAP,   /* another request inside */
        GATE_VIEW,     /* made by us, and the reply shows the tenant's part only */
        /* Made by us, and kept in the ledger: */
        GATE_CLIENT,   /* a client begins */
        GATE_OBJECT,   /* an object begins */
        GATE_HOLLOW,   /* an object begins, as class 0x70: what the driver gives those who may not have all */
        GATE_CHARGE,   /* video memory begins */
        GATE_HOST,     /* host memory begins */
        GATE_FABRIC,   /* an object begins that keeps video memory */
        GATE_FREE,     /* an object ends, and what hangs on it */
        GATE_ATTACH,   /* devices stay initialised: the leased ones */
        GATE_LISTEN,   /* a client has one more in the driver's list of events */
        GATE_IGNORE,   /* and no more */
        GATE_DUP,      /* a second handle */
        GATE_EXPORT,   /* a descriptor will hold the object */
        GATE_IMPORT,   /* an object from a descriptor */
        GATE_SPACE,    /* a UVM VA space begins */
        GATE_JOIN,     /* and has a device */
        GATE_MOVE,     /* managed memory goes to a device, or is to be copied to some: charged, or not there */
        GATE_HOLD,     /* a UVM VA space holds memory */
        GATE_RELEASE,  /* and lets it go */
        GATE_RANGE,    /* a UVM range for RM memory begins */
        GATE_POOL,     /* a UVM range for semaphores begins: no managed memory */
        GATE_PLAIN,    /* a UVM range begins that is mapped, with nothing behind it */
        GATE_NOTHING,  /* a UVM range is mapped, with nothing behind it */
        GATE_GROUP,    /* a range group of a UVM VA space begins, or ends */
        GATE_RETAIN,   /* a UVM VA space keeps an object of the driver's */
        GATE_LET_GO,   /* and lets it go */
        GATE_MAP,      /* the program maps memory, and keeps it as long as it does */
        GATE_GROW,     /* page tables of a reservation grow */
        GATE_SCHEDULE, /* made by us, and what is to be off stays off */
        GATE_SHARE,    /* made by us if other tenants may dup, else answered OK */
        GATE_DEBUG,    /* made by us where nobody steers the tenant's time */
        GATE_MODE,     /* of a row only: PERFORM for the modes of preemption that programs use, else DENY */
        GATE_LOOKUP,   /* rules.def has rows by class, control or function */
};

struct gate_verdict {
        enum gate_action action;
        uint32_t status;         /* of DENY, ACCEPT: the result to write */
        int error;               /* of DENY: the block has no result; -errno for the system call */
        const char *because;     /* static */
        unsigned int capability; /* the tenant needs one of these (lease/capabilities.h); 0: none */
        bool is_unknown;         /* no row: default deny */
        bool is_quiet;           /* of DENY: no event */
        bytes size;              /* of CHARGE, HOST, FABRIC and OBJECT: what to reserve before the call */
        bytes most;              /* of OBJECT, a reservation: what its page tables may grow to; 0: it is none */
        uint32_t space;          /* of a reservation: the address space; 0: its parent's own */
};

/* Offsets in the parameters of class 0xf8. */
enum {
        GATE_FABRIC_SIZE_AT = 8,
        GATE_FABRIC_MEMORY_AT = 40, /* 0: of the flexible kind, memory is attached later */
        GATE_FABRIC_PARAMS_MIN = 48,
};

/* params: our copy of the parameters, params_size bytes of it (a short one is refused). */
void gate_decide(const struct rm_layout *layout, const struct rm_call *call, const void *block, const void *params,
                 size_t params_size, struct gate_verdict *ret);

/* Whether the call takes memory of a device, as far as the verdict says: new memory, page tables, or memory that comes
 * in from elsewhere. Not: host memory. */
bool gate_takes_memory(const struct gate_verdict *verdict);

/* What rules.def says of a number of that kind, whatever else the call holds: action, status, because and capability.
 * False: it has no row. */
bool gate_rule(enum rm_kind kind, uint32_t number, struct gate_verdict *ret);

/*
 * What a video memory allocation takes: max(request, reply) rounded to its page size, 64 KiB or 2 MiB or larger
 * (docs/rm-abi.md 2.3). Works on the parameters before the call and after it. UINT64_MAX: nonsense that no quota
 * holds.
 */
bytes gate_memory_size(const void *params, size_t params_size);

enum {
        GATE_CLIENT_FIELDS_MAX = 8, /* of one class or control: the call is refused; foreign.def has at most 2 */
};

/* A parameter field that names a client: of an allocation's class or a control (foreign.def). 0 or a client of the
 * tenant's is fine, anything else is somebody else's. Returns how many there are, of which *ret, static, has the first
 * GATE_CLIENT_FIELDS_MAX. */
size_t gate_client_fields(const struct rm_call *call, const uint32_t **ret_offsets);

/* Offset of a descriptor number in the parameters that the driver looks up, or UINT32_MAX. */
uint32_t gate_params_fd(const struct rm_call *call);

/*
 * Whether a MIG subscription (class 0xc637 on a subdevice, 0xc638 on a 0xc637) names the instance of the lease.
 * `parent` is what it is to hang on. RM_STATUS_OK, also for other classes; else what is to be answered.
 */
struct lease;
struct ledger_object;
uint32_t gate_check_instance(const struct lease *lease, uint32_t class_number, const void *params, size_t params_size,
                             const struct ledger_object *parent);
