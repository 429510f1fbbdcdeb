/* SPDX-License-Identifier: Apache-2.0 */
/* One notification on its way through the gate. */
#pragma once

#include "gate/inside.h"
#include "gate/policy/decide.h"
#include "rm/numbers.h"

#include <linux/seccomp.h>
#include <sys/uio.h>

/* What a call waits for: waiting.h. */
struct gate_wait {
        nsec until;         /* then it is answered; 0: it has not waited */
        bool is_for_memory; /* that moves: until its state is not `state`; else until the process is not away */
        bool is_said;       /* gate_options.waits */
        uint32_t state;
        pid_t process;
};

/* What a thread of the pool owns. */
struct worker {
        struct gate *gate;
        struct notify_listener *listener;
        uint64_t generation; /* it is the reader while this is the reader's */
        struct seccomp_notif *in;
        struct seccomp_notif_resp *out;
        uint8_t *block, *params, *nested;
        uint8_t *was;              /* the block, then the parameters, as the tenant wrote them */
        struct gate_wait wait;     /* of the present call; kept when it is looked at anew */
        struct restart_block left; /* by a call that makes or ends something; state/restart_cache.h */
};

struct tenant_fd;

/* What goes into the tenant with the reply, besides block and parameters. */
struct reply_piece {
        struct iovec ours, theirs;
};

struct request {
        struct gate *gate;
        struct worker *worker;
        uint64_t id; /* of the notification */
        pid_t thread;
        struct process *process;
        int fd;         /* our duplicate of the tenant's descriptor */
        int theirs;     /* its number in the tenant */
        uint64_t space; /* of a UVM descriptor: its number in state/files.h; 0: not begun */
        enum rm_node node;
        uint32_t minor;
        uint64_t address; /* of the block, in the tenant */
        uint8_t *block;   /* our copies */
        uint8_t *params;
        uint8_t *was_block, *was_params; /* as the tenant wrote them */
        uint32_t params_size;
        struct rm_call call;
        struct gate_verdict verdict;
        enum gate_outcome outcome;
        uint8_t rights[RM_RIGHTS_SIZE]; /* what the block's pointer to rights points at */
        struct reply_piece besides[GATE_POINTERS_MAX];
        size_t n_besides;
        bool is_inside;                /* move/still.c: counted as under way */
        bool is_refused_wait;          /* tenant_read: as move_enter's refusal before the call */
        struct client_lock_pair locks; /* that its handler has taken: request_lock */
        const struct tenant_fd
                *named; /* what the parameters' descriptor was looked up as, for the driver; NULL: not yet */
};
