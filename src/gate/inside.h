/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's state, which all its layers share (gate.h names them); internal to the room and to src/preload. */
#pragma once

#include "base/lock.h"
#include "gate/gate.h"
#include "gate/host.h"
#include "gate/move/moving.h"
#include "gate/policy/budget.h"
#include "gate/state/channels.h"
#include "gate/state/files.h"
#include "gate/state/listens.h"
#include "gate/state/loans.h"
#include "gate/state/mappings.h"
#include "gate/state/open_files.h"
#include "gate/state/probe.h"
#include "gate/state/process.h"
#include "gate/state/restart_cache.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* Bounds. Beyond each the tenant is answered an error, unless it says otherwise. */
enum {
        GATE_BLOCK_MAX = 16384,        /* bytes of a block, the driver's own bound: EINVAL */
        GATE_PARAMS_MAX = 256 * 1024,  /* bytes of parameters: EINVAL; the largest seen are 229392, of 0xfe0101 */
        GATE_NESTED_MAX = 1024 * 1024, /* bytes behind embedded pointers, the driver's own bound of one: EINVAL */
        GATE_POINTERS_MAX = 8,         /* embedded pointers of a control: EINVAL */
        GATE_HOLDERS_MAX = 128,        /* processes and lenders that are shown */
        GATE_LISTENERS_MAX = 64, /* processes put into a container that live at once, and the first: gate_join -EBUSY */
        GATE_THREADS_MAX = 512,  /* a call then waits until a thread is done with another */

        GATE_WAITING_MAX = 65536, /* calls that wait while memory is away or moves: out of memory */

        GATE_CLIENT_LOCKS = 64,    /* clients that share one wait for each other */
        GATE_WAKE_SIGNAL = SIGURG, /* ignored by default: interrupts a thread that waits for a notification */

        /* Besides a value or -errno, what serving a notification may answer. */
        GATE_GO_ON = -65536, /* the kernel makes the call in the tenant; no errno, no address */
        GATE_WAITS = -65537, /* nothing yet: waiting.h */
};

/* The thread that waits for the next notification; see listen.c. */
struct reader {
        pthread_mutex_t mutex;
        pthread_cond_t free;
        bool is_taken;               /* mutex */
        pthread_t thread;            /* mutex: the reader, while is_taken */
        unsigned int n_waiting;      /* mutex: threads that want to be the reader */
        _Atomic uint64_t generation; /* of the present reader; changed under the mutex */
        _Atomic nsec serving_since;  /* the reader serves a call itself; 0: it waits */
};

/* Calls without a thread: waiting.h. */
struct waiting_list {
        struct waiting_call *first, **last;
        size_t n;
};

/* A filter whose calls come here: the tenant's first, and those of processes that were put into its container later.
 * gate_join fills a slot, the watcher clears it. */
struct notify_listener {
        struct gate *gate;
        _Atomic int fd; /* -1: the slot is free */
        struct reader reader;
        struct waiting_list waiting, ready; /* the reader's mutex: calls that wait, and that may be made now */
        uint32_t seen;                      /* the watcher's: the state of moving memory when it looked at them last */
        nsec looked_at, roused_at;          /* likewise: when; and when a thread was told that some are ready */
        _Atomic unsigned int n_threads;
        atomic_bool is_empty; /* it has hung up: no task is left that the filter covers */
};

/* Mapped pages with the positions of compute channels, of one thread; demand.c. */
struct demand {
        struct demand_page {
                uint32_t client, handle; /* the channel */
                int device;
                uint32_t memory;     /* our handle of its USERD; 0: could not be had */
                const uint8_t *page; /* NULL: could not be mapped */
                const volatile uint32_t *positions;
                uint32_t put;               /* as last seen */
                uint32_t mark;              /* and as last seen while memory was not on its way (move/move.h) */
                enum rm_engine engine;      /* NONE: graphics and compute */
                uint32_t n_idle, n_skipped; /* reads in which it was idle; and reads it was left out since */
        } * items;
        size_t n, n_room;
        uint64_t changes; /* of the channels, when they were last compared */
        struct {
                uint32_t client, handle, ours; /* USERD memory, and our dup of it */
                unsigned int n_users;
        } memories[16];
};

struct gate {
        struct gate_options options;
        const struct gate_host *host;
        struct lease *lease;
        struct notify_listener listeners[GATE_LISTENERS_MAX];
        pthread_mutex_t listeners_mutex; /* which have come, and whether all have gone; a leaf */
        int over;                        /* eventfd: all have gone */
        int wake;                        /* eventfd: gate_free, or a pool thread has something for the watcher */

        struct restart_cache restart_cache;
        struct processes processes;
        struct files files;        /* VA spaces of UVM */
        struct mappings mappings;  /* on their way */
        struct open_files exports; /* what memory was exported to */
        struct open_files makers;  /* on which the first clients were made: books/kept.c */
        _Atomic nsec makers_at;    /* when those that have gone were looked for */
        struct loans loans;        /* what was lent */
        atomic_bool is_closing;    /* an export was closed so lately that the driver may not have freed its memory */
        struct probe probe;
        struct channels channels;
        struct demand demand; /* of the thread that controls the channels */
        struct moving moving; /* memory that is away */

        struct lock ledger_lock;
        struct ledger *ledger;  /* ledger_lock */
        struct listens listens; /* ledger_lock */

        struct lock client_locks[GATE_CLIENT_LOCKS]; /* by client or space: docs/locking.md */

        struct lock event_lock;
        uint64_t n_events[EVENT_N]; /* event_lock */
        struct refusals refusals;   /* event_lock */

        pthread_t watcher;
        _Atomic unsigned int n_threads;
        _Atomic unsigned int n_waiting; /* calls that wait (waiting.h), */
        _Atomic unsigned int n_polled;  /* and of them those that nobody tells when they may be made */
        _Atomic unsigned int n_patient; /* threads that wait for what has ended, in memory.c */
        atomic_bool is_ticking;         /* the watcher checks the readers every millisecond */
        atomic_bool is_ending, is_empty;
        _Atomic uint64_t n_calls, n_performed, n_continued, n_denied;
        _Atomic unsigned int capabilities_told; /* what was refused for want of them, and said */
        atomic_bool is_recorded;                /* under event_lock; a first look without */
        _Atomic nsec busy, last_call, settled_at;
        _Atomic nsec settle_next;      /* not before, unless a process has ended */
        _Atomic nsec ended_at;         /* when a process last ended */
        _Atomic unsigned int n_sweeps; /* being made, or waited for */
        struct lock sweep_lock;
        _Atomic uint64_t n_settled, n_swept; /* of all, and of managed ranges, that have begun: sweep_lock */
        struct gate_swept {                  /* how far a sweep of managed ranges came: sweep_lock */
                uint32_t owner;
                size_t from;
                atomic_bool is_cut; /* not to the end; any thread may look */
        } swept;
        _Atomic nsec orphans_at; /* when a client was last seen whose process is gone */
        struct budget budget;    /* the watcher's */
        nsec used_before;        /* likewise: processor time of this process when it was counted last */
        nsec used_to_move;       /* likewise: what of it was not for calls */
        atomic_bool is_spent;    /* the budget: threads rest before they take the next call */
        nsec busy_told_at;       /* the watcher's */
        nsec forgotten_at;       /* the watcher's: when threads were last forgotten */
        _Atomic uint64_t n_audits;
        _Atomic bytes audit_under, audit_over, audit_figure; /* written by the watcher */
        unsigned int n_mismatches[LEASE_DEVICES_MAX];        /* the watcher's: in a row */
        nsec audited_at;                                     /* the watcher's */
};

/* Something an operator should see. */
void gate_tell(struct gate *gate, enum event_kind event, pid_t process, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* A descriptor of process_fd's; -1 is fine. */
static inline void gate_fd_put(const struct gate *gate, int fd)
{
        uint32_t minor;

        if (fd >= 0)
                process_fd_put(fd,
                               gate->options.driver.node(gate->options.driver.context, fd, &minor) != RM_NODE_OTHER);
}

/* Counts what has no rule (capability 0), or needs a capability that the tenant lacks: gate_stats. */
void gate_refused(struct gate *gate, enum rm_kind kind, uint32_t number, unsigned int capability);

void gate_usage_changed(struct gate *gate); /* calls options.usage_changed; and options.give_back for what has gone */

/* ---- ledger_access.c: each takes the ledger's lock ---- */

/* Room in the ledger for what the call makes (L4). -ENOMEM. */
int entry_take(struct gate *gate, struct ledger_entry **ret);

/* The same for an object of that class: -ENOSPC and an event, if there are as many as may be (lease/bounds.def). A
 * dup is of none: UINT32_MAX. Nor is a range of UVM, of which there are ledger_has_room_for_range. */
#define ENTRY_OF_RANGE (UINT32_MAX - 1)
int entry_take_of(struct gate *gate, uint32_t class_number, struct ledger_entry **ret);
void entry_drop(struct gate *gate, struct ledger_entry *entry);

/* An object as the ledger has it, and its device. False, -1: it is not there, or none. */
bool object_get(struct gate *gate, uint32_t client, uint32_t handle, struct ledger_object *ret);
int object_device(struct gate *gate, uint32_t client, uint32_t handle);

/* Keep two driver calls that change one tree or one space in the order in which the ledger has them. key2 may equal
 * key1. Not nested. */
struct client_lock_pair {
        struct lock *first, *second;
};
struct client_lock_pair client_locks_take(struct gate *gate, uint64_t key1, uint64_t key2);
void client_locks_drop(struct client_lock_pair *locks);
