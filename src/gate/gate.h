/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: where the driver calls of one tenant are decided and performed.
 *
 * A seccomp filter (policy/filter.h) makes the kernel hand every driver call of the tenant to us. We copy the call's
 * block once, decide on the copy (policy/decide.h, pure) and *perform* the call ourselves, with our copy, on a
 * duplicate of the tenant's descriptor; the reply is written back. The tenant's own system call never reaches the
 * driver, so there is no time between check and use:
 *      G1  what was checked is what the driver is given, byte for byte;
 *      G2  memory is reserved before the call and given back if the driver refuses (lease/quota.h);
 *      G3  what is not in rules.def is refused;
 *      G4  no driver call is made by a thread that the next notification waits for (listen.c);
 *      G5  if the gate dies, the kernel answers ENOSYS to the tenant's driver calls: errors, not a free GPU.
 * Continued in the tenant are only: pinning the caller's own pages (class 0x71 through request 0x27, which can make
 * no video memory) and mmap of the driver's nodes.
 *
 * One gate, one tenant, one process: RM lets a client's objects be mapped only by the process that created the client
 * (rm_create_mmap_context compares ProcID), and UVM lets only that process map its memory. So the process that runs a
 * gate must outlive the tenant, and two tenants' gates must not share a process: then RM itself keeps their objects
 * apart.
 * Source: open-gpu-kernel-modules osapi.c, sharing.c, client_resource.c, 525.147.05 to 595.45.04.
 *
 * Layers; a call goes down, and a file includes the headers of its own layer and of those below:
 *      listen.h    threads wait for notifications, the watcher for everything else
 *      serve.h     a notification: the process, its descriptor, the node behind it
 *      act.h       a request: copied, decoded, decided, and given to the handler of its action
 *      perform.h   the driver call and the reply
 *      books.h     the ledger against the driver and the address spaces; the tenant's channels
 *      inside.h    struct gate, events, locked access to the ledger; request.h and host.h are data
 *      state/      tables that know nothing of a gate        policy/     pure functions and rules
 * What a lower layer needs of a higher one is a function of struct gate_host, which also tells supervisor and program
 * apart.
 */
#pragma once

#include "base/clock.h"
#include "gate/state/driver.h"
#include "gate/state/refusals.h"
#include "lease/lease.h"
#include "lease/ledger.h"
#include "sublet/events.h"

#include <stdbool.h>
#include <sys/types.h>

struct gate;
struct gate_copier;

/* A request that no driver has, on descriptor -1: only a gate answers it, with the number of its tenancy, so that a
 * program learns that it is below one (preload/attach.h). Type 'F', so that the filter sees it. */
#define GATE_PROBE 0xc00446ffu

#define GATE_WAIT_MOST (600 * NSEC_PER_SEC)

/* The desired state of the tenant's compute channels on a device. */
struct gate_desired {
        bool is_disabled;
        nsec slice; /* 0: the driver's own */
};

/* What became of a call of the tenant's. */
enum gate_outcome {
        GATE_MADE,     /* the driver was asked, by us or by the tenant itself */
        GATE_ANSWERED, /* answered in the driver's stead */
        GATE_REFUSED,  /* by a rule, or because it names what is not the tenant's */
        GATE_LACKS,    /* the tenant lacks the capability */
        GATE_UNRULED,  /* it has no rule */
};

/* A call after its answer: numbers only, nothing of what the tenant wrote or points at. */
struct gate_call {
        enum rm_kind kind; /* RM_N_KINDS: no request of the driver's */
        uint32_t number;   /* of the control, the class or the function; else the request */
        uint32_t size;     /* bytes of its parameters, else of its block */
        uint32_t status;   /* that the tenant was answered; 0 also where the block has none */
        int error;         /* of the system call, an errno; 0: none */
        enum gate_outcome outcome;
        unsigned int needs; /* of GATE_LACKS: the capabilities of which one would do */
};

/*
 * Loans: memory that tenants of one job have of each other (job/loans.c). A gate whose tenant names memory that is
 * not its own asks the gates of its job (`borrow`), makes the driver call, and asks whether the loan still stands:
 * then what was named was the lender's all the time. The lender's tenant is charged, as long as the borrower's holds
 * it.
 */
struct gate_loan_ask {
        uint32_t client, object; /* of a dup; 0, 0: of an import */
        int file;                /* of an import: the descriptor, borrowed; -1: of a dup */
        uint32_t index;          /* of an import: which object of the descriptor */
        int holder;              /* the borrower's open file, borrowed: its objects end with it at the latest */
};
struct gate_loan {
        uint64_t number; /* the borrower's name for it, with the lender's number in the upper half; 0: none */
        uint32_t class_number, pages;
        int device;
        bytes size;
};

struct gate_options {
        struct lease *lease; /* the caller's; outlives the gate */
        uint64_t tenancy;    /* its number, the answer to GATE_PROBE; 0: none */
        nsec audit_period;   /* between two comparisons with the driver's figure; 0: a second */
        struct rm_layout layout;
        struct gate_driver driver;
        bool ipc_host; /* objects of other tenants may be duped, and are charged here too */
        bool imports;  /* memory of a descriptor that this gate exported nothing to may come in, and is charged here */
        bool takes_signals; /* not our filter: a signal may interrupt a call that is decided (state/restart_cache.h) */
        bool keep_totals;   /* do not virtualise: for measuring the gate itself */

        /* Whether a client that is not the tenant's is the MPS server's, which lends its group and its mailboxes to
         * its clients (dup.c). Any thread, with no lock held; may ask the driver. NULL: nobody lends. */
        bool (*lends)(void *context, uint32_t client);

        /*
         * The other gates of the tenant's job; NULL: it has none. Any thread; with a client's lock held.
         *      borrow     0; -ENOENT: no gate lends it; -errno: they could not be asked
         *      stands     false also if the lender cannot be asked
         *      give_back  nothing of the loan is held any more; does not wait
         */
        int (*borrow)(void *context, const struct gate_loan_ask *ask, struct gate_loan *ret);
        bool (*stands)(void *context, uint64_t loan);
        void (*give_back)(void *context, uint64_t loan);

        /* Called from any thread, not at once with itself; detail is valid during the call. */
        void (*event)(void *context, enum event_kind event, pid_t process, const char *detail);
        void *event_context;

        /* Each call of the tenant; one at a time, from any thread, which meanwhile answers nobody. NULL: not told. */
        void (*record)(void *context, const struct gate_call *call);
        void *record_context;

        /*
         * A tenant that is suspended (suspended.c). Any thread; neither may block. NULL: it never is.
         *      is_away   whether a call of that process that takes memory of a device must wait now
         *      waits     such a call begins to wait, or no longer does
         */
        bool (*is_away)(void *context, pid_t process);
        void (*waits)(void *context, pid_t process, bool begins);
        const struct gate_copier *copier; /* by which memory may leave its devices (move/move.h); NULL: it does not */
        nsec wait_most;                   /* until it is answered that there is no memory; 0: GATE_WAIT_MOST */

        /*
         * A node daemon's view of the gate; each may be NULL. From any thread; none may block or call the gate.
         *      channel  one has come or gone, before the tenant has its answer; one at a time, in the driver's order
         *      desired  asked after `channel`, and again after a call that follows it (wire/control_block.h)
         *      usage_changed  quotas or processes may have changed; at once with itself
         * (`lends`, `borrow`, `stands`, `give_back`, `is_away` and `waits` have the same context.)
         */
        void (*channel)(void *context, const struct gate_channel *channel, bool is_new);
        struct gate_desired (*desired)(void *context, unsigned int device);
        void (*usage_changed)(void *context);
        void *node_context;
};

/* Figures of a gate; a snapshot. */
struct gate_stats {
        uint64_t n_calls;     /* notifications answered */
        uint64_t n_performed; /* driver calls made for the tenant */
        uint64_t n_continued;
        uint64_t n_denied;
        uint64_t n_events[EVENT_N];
        struct refusals refusals;
        nsec busy; /* time spent between receiving and answering */
        unsigned int n_threads;
        size_t n_processes;
        struct ledger_totals holds;

        /* Comparisons of the ledger with the driver's own figure, made while neither moved. */
        uint64_t n_audits;
        bytes audit_under;  /* the most that the driver counted and the ledger did not: a hole */
        bytes audit_over;   /* the most that the ledger counted and the driver did not: see audit.c */
        bytes audit_figure; /* the driver's latest figure */
};

/* Takes the listener over. 0; -errno. */
int gate_new(const struct gate_options *options, int listener, struct gate **ret);

/* Starts the threads. From then on the tenant is served. 0; -errno. */
int gate_start(struct gate *gate);

/* Waits until no process is left that the filter covers, at most `timeout` (negative: for ever). True when none is
 * left. Thread: the one that started the gate. */
bool gate_wait(struct gate *gate, nsec timeout);

/* Settles the ledger of what has ended: the driver says which clients are still there. How many are left. */
size_t gate_settle(struct gate *gate);

/* The same, and whether a client, a VA space or an export is left. */
bool gate_remains(struct gate *gate);

void gate_stats(struct gate *gate, struct gate_stats *ret);
bytes gate_held(struct gate *gate, unsigned int device);

/* For display: what each process holds of each granted device, where it holds any, else one row; and what is borrowed,
 * `id` being the lender in the upper half of the loans' numbers. At most n rows; how many. */
struct gate_holding {
        uint32_t id, device;
        bytes size;
};
size_t gate_processes(struct gate *gate, struct gate_holding *ret, size_t n);
/* process_began (base/process.h) of such a process, whoever has its number by now. 0: not known. */
uint64_t gate_process_began(struct gate *gate, uint32_t id);
size_t gate_borrowed(struct gate *gate, struct gate_holding *ret, size_t n);

/* Of what it holds on a device. */
struct ledger_kinds gate_kinds(struct gate *gate, unsigned int device);

/* Who outside of an ended tenant keeps memory of it, as far as /proc tells; 0: not known. May take half a second. */
pid_t gate_kept_by(struct gate *gate);

/* Sends BOOKS_NOT_EMPTY: the ledger of an ended tenant is not empty. holder: gate_kept_by. */
void gate_report_leftover(struct gate *gate, unsigned int device, pid_t holder);

/* ---- channels (channel_control.c, demand.c): for one thread at a time, never one that answers the tenant ---- */

/* Disables or enables all compute channels on the device: a driver call of about 0.6 ms for up to 64. Channels that
 * are gone do not matter. 0; -errno, -EIO: the driver refused some. */
int gate_channels_set(struct gate *gate, unsigned int device, bool is_disabled);

/* Sets the timeslice of all compute groups; 0: the driver's own. 0.2 to 0.5 ms per group that has another. How many
 * groups it could not be set for. */
unsigned int gate_timeslice_set(struct gate *gate, unsigned int device, nsec slice);

/* Signs of work on the channels of a device: what the program has put and the device has got. */
struct gate_signs {
        bool can_watch;     /* at least one compute channel's positions can be read */
        bool has_moved;     /* something was launched since the last read */
        uint32_t n_pending; /* channels with launches that the device has not taken */
        struct gate_engine_signs {
                bool has_moved;
                uint32_t n_pending;
                uint32_t n_unseen; /* channels whose positions cannot be read */
        } engines[RM_N_ENGINES];   /* of the channels of fixed engines, which are not in the figures above */
};
void gate_signs_read(struct gate *gate, unsigned int device, struct gate_signs *ret);

/* True: channels have come or gone, and gate_signs_read has something to give back or to map. */
bool gate_signs_are_stale(const struct gate *gate);

/* The quota from now on. Below what is held (event QUOTA_SHRANK) nothing is taken away and nothing new given. Any
 * thread. */
void gate_quota_set(struct gate *gate, unsigned int device, bytes size);
void gate_host_set(struct gate *gate, bytes size);

/* Ends every process that has made a driver call. Any thread. */
void gate_kill(struct gate *gate);

/* Adds the filter of a process that was put into the tenant's container. Takes the listener over on success. Any
 * thread. 0; -ESHUTDOWN: the last process of the tenant has gone; -EBUSY: too many at once. */
int gate_join(struct gate *gate, int listener);

/* Readable (poll, POLLIN) when no process is left that a filter of the tenant's covers. Borrowed. */
int gate_over(const struct gate *gate);

/* From here on `record` is not called. Any thread. */
void gate_record_end(struct gate *gate);

/* ---- loans (job/loans.c): for the gates of the job to ask; any thread, none waits for another gate ------------ */

/* Lends to `borrower`, a number of the caller's that is never 0 nor used again. *ret has the loan's number, below 2^32.
 * 0; -ENOENT: the tenant has no such memory, or it may not be lent; -errno. */
int gate_lend(struct gate *gate, uint32_t borrower, const struct gate_loan_ask *ask, struct gate_loan *ret);
bool gate_loan_stands(struct gate *gate, uint32_t borrower, uint32_t number);
void gate_loan_return(struct gate *gate, uint32_t borrower, uint32_t number);

/* The borrower's gate is gone, and cannot say what it returns: each of its loans ends when its holder's open file
 * does. */
void gate_borrower_gone(struct gate *gate, uint32_t borrower);

/* A lender's gate is gone, and with it the charge of what it lent. If some of that is held here, the tenant is ended:
 * it would hold memory that nobody is charged for. True: it is. */
bool gate_lender_gone(struct gate *gate, uint32_t lender);

size_t gate_loans(struct gate *gate); /* how many are out */

/* Ends the threads; the tenant's driver calls fail with ENOSYS from here on. NULL is fine. Waits for them 5 s at most:
 * not NULL says that some still wait for memory of the tenant's. Then the caller ends its process soon, which ends
 * them, and keeps until then what it gave the gate; a record is ended by gate_record_end. */
struct gate *gate_free(struct gate *gate);

/* Columns of sublet/events.def. */
const char *gate_event_name(enum event_kind event);
const char *gate_event_level(enum event_kind event);
const char *gate_event_line(enum event_kind event);
