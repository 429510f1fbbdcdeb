/* One notification on its way through the gate; internal to the room. */
#pragma once

#include "gate/state/restart_cache.h"
#include "gate/state/channels.h"
#include "gate/policy/decide.h"
#include "gate/state/files.h"
#include "gate/gate.h"
#include "gate/state/process.h"
#include "gate/state/probe.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
        GATE_BLOCK_MAX = 16384,        /* the driver's own bound of a block */
        GATE_PARAMS_MAX = 64 * 1024,   /* the largest parameters we have seen are 14408 bytes */
        GATE_NESTED_MAX = 1024 * 1024, /* the driver's own bound of an embedded pointer */
        GATE_CLIENT_LOCKS = 64,
        GATE_WAKE_SIGNAL = SIGURG, /* ignored by default: a thread that waits for a notification notices */
        GATE_THREADS_MAX = 512,
        GATE_LISTENERS_MAX = 64, /* processes put into a container that live at once, and the first */

        /* Besides a value or -errno, what serving a notification may answer. */
        GATE_GO_ON = -65536, /* the kernel makes the call in the tenant; no errno, no address */
};

/* Who waits for the next notification; see listen.c. */
struct reader {
        pthread_mutex_t mutex;
        pthread_cond_t free;
        bool is_taken;               /* mutex */
        pthread_t thread;            /* mutex: the reader, while the place is taken */
        unsigned int n_waiting;      /* mutex: threads that want to be the reader */
        _Atomic uint64_t generation; /* of the present reader; changed under the mutex */
        _Atomic nsec serving_since;  /* the reader serves a call itself; 0: it waits */
};

/* A filter whose calls come here: the tenant's first, and those of processes that were put into its container later.
 * A place is filled by gate_join and cleared by the watcher. */
struct notify_listener {
        struct gate *gate;
        _Atomic int fd; /* -1: the place is free */
        struct reader reader;
        _Atomic unsigned int n_threads;
        atomic_bool is_empty; /* it has hung up: no task is left that the filter covers */
};

struct gate {
        struct gate_options options;
        struct lease *lease;
        struct notify_listener listeners[GATE_LISTENERS_MAX];
        pthread_mutex_t listeners_mutex; /* who comes, and whether all have gone; a leaf */
        int over;                        /* eventfd: all have gone */
        int wake;                        /* eventfd: gate_free, or a pool thread has something for the watcher */

        struct restart_cache restart_cache;
        struct processes processes;
        struct files files;
        struct probe probe;
        struct channels channels;
        struct demand demand; /* of the thread that steers */

        struct lock ledger_lock;
        struct ledger *ledger; /* ledger_lock */

        struct lock client_locks[GATE_CLIENT_LOCKS]; /* by client or space: docs/locking.md */

        struct lock event_lock;
        uint64_t n_events[EVENT_N]; /* event_lock */

        pthread_t watcher;
        _Atomic unsigned int n_threads;
        atomic_bool is_ticking; /* the watcher looks after the reader every millisecond */
        atomic_bool is_ending, is_empty;
        _Atomic uint64_t n_calls, n_performed, n_continued, n_denied;
        _Atomic nsec busy, last_call, settled_at;
        _Atomic nsec ended_at;         /* when a process last ended */
        _Atomic unsigned int n_sweeps; /* being made */
        nsec forgotten_at;             /* the watcher's: when threads were last forgotten */
        _Atomic uint64_t n_audits;
        _Atomic bytes audit_under, audit_over, audit_figure; /* written by the watcher */
        unsigned int n_mismatches[LEASE_DEVICES_MAX];        /* the watcher's: in a row */
        nsec audited_at;                                     /* the watcher's */
        _Atomic nsec audit_at; /* when the watcher is to look for managed ranges nobody announced */
};

/* What a pool thread owns. */
struct worker {
        struct gate *gate;
        struct notify_listener *listener;
        uint64_t generation; /* it is the reader while this is the reader's */
        struct seccomp_notif *in;
        struct seccomp_notif_resp *out;
        uint8_t *block, *params, *nested;
        uint8_t *was;              /* the block, then the parameters, as the tenant wrote them */
        struct restart_block left; /* by a call that makes or ends something; again.h */
};

struct request {
        struct gate *gate;
        struct worker *worker;
        uint64_t id; /* of the notification */
        pid_t thread;
        struct process *process;
        int fd;         /* our duplicate of the tenant's descriptor */
        int theirs;     /* its number in the tenant */
        uint64_t space; /* of a UVM descriptor: its number in files.h; 0: not begun */
        enum rm_node node;
        uint32_t minor;
        uint64_t address; /* of the block, in the tenant */
        uint8_t *block;   /* our copies */
        uint8_t *params;
        uint8_t *was_block, *was_params; /* as the tenant wrote them */
        uint32_t params_size;
        struct rm_call call;
        struct gate_verdict verdict;
};

/* serve.c */
int64_t serve_notification(struct worker *worker, const struct seccomp_notif *notification);

/* act.c: from a request with its descriptor, node and address to an answer; `number` as the system call had it. */
int serve_request(struct request *request, uint32_t number);

/* perform.c: the call itself. 0 or more, or -errno; then look at request_status. */
int perform(struct request *request);

/* Writes block and parameters back, and yields `value` for the system call. */
int reply(struct request *request, int value);

/* Answers with a result in the block, without a driver call. */
int answer(struct request *request, uint32_t status);

uint32_t request_status(const struct request *request);
bool request_is_alive(const struct request *request); /* the tenant still waits for it */

/* A call of our own on the tenant's descriptor. The status, or UINT32_MAX. */
uint32_t perform_free(struct request *request, uint32_t client, uint32_t handle);

/* objects.c, memory.c, uvm.c, exports.c, views.c: a handler per action */
int serve_client(struct request *request);
int serve_object(struct request *request);
int serve_memory(struct request *request);
int serve_free(struct request *request);
int serve_dup(struct request *request);
int serve_export(struct request *request);
int serve_import(struct request *request);
int serve_space(struct request *request);
int serve_hold(struct request *request);
int serve_release(struct request *request);
int serve_range(struct request *request);
int serve_view(struct request *request);
int serve_schedule(struct request *request);
int64_t serve_mmap(struct worker *worker, const struct seccomp_notif *notification, struct process *process);

/* Keeps two driver calls that change one tree or one space in the order of the books. key2 may
 * equal key1. Not nested. */
struct client_lock_pair {
        struct lock *first, *second;
};
struct client_lock_pair client_locks_take(struct gate *gate, uint64_t key1, uint64_t key2);
void client_locks_drop(struct client_lock_pair *locks);

/* ---- steer.c: groups and channels of the tenant ---- */

/* Before the call: room for one more of this class. RM_STATUS_OK, or the answer. */
uint32_t channel_control_reserve(struct request *request);

/* After it. begun: with the order held, object NULL: the driver refused; placed: without it. */
void channel_control_begun(struct request *request, const struct ledger_object *object);
void channel_control_placed(struct request *request, const struct ledger_object *object);

/* A group may run from now on: if the desired state is «off», it is off when this returns. */
void channel_control_follow(struct gate *gate, int device, uint32_t client, uint32_t group);

/* Objects have gone; class_number of what was freed, or RM_CLASS_CLIENT. */
void channel_control_gone(struct gate *gate, uint32_t class_number, uint32_t client, uint32_t handle);

void gate_usage_changed(struct gate *gate); /* tells options.books */

/* Something an operator should see. */
void gate_tell(struct gate *gate, enum event_kind event, pid_t process, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Takes `size` of the device's quota, settling the books first if it does not fit, and waiting for what has_late says:
 * never with an order held, that is with may_wait false. QUOTA_OK; QUOTA_E_FULL (told). */
int take_memory(struct request *request, int device, bytes size, bool may_wait, struct charge *ret);

/* objects.c: memory of somebody else, now ours as well: charged, or handed back. A status. */
uint32_t charge_foreign(struct request *request, struct ledger_object *object, struct charge *ret);

/* audit.c: compares the books with the driver's figure when it is time. */
void audit_figures(struct gate *gate, nsec now);

/* sweep.c: gate_settle, unless that was done a moment ago. */
bool settle_lately(struct gate *gate);
bool has_managed(struct gate *gate);

/* A process ended a moment ago, and what it held may still be in the books. */
bool has_late(struct gate *gate);
size_t list_processes(struct gate *gate, pid_t *list, size_t n_room);

/* Books and address spaces agree again. True: a range was charged so lately that it may still come. */
bool sweep_all_managed(struct gate *gate, bool is_audit);
void *watch(void *gate);

/* listen.c: the first thread of an inlet. 0; -errno. */
int pool_start(struct notify_listener *listener);

/* The inlet has hung up: threads of it that wait are to see that. True: none is left. */
bool pool_end(struct notify_listener *listener);

/* inlets.c */
void notify_listeners_init(struct gate *gate, int listener);
void notify_listeners_done(struct gate *gate);
bool notify_listeners_are_busy(const struct gate *gate); /* a reader serves a call */

/* The watcher's. What to poll: how many; and what it said: true when the last one has gone. */
size_t notify_listeners_poll(struct gate *gate, struct pollfd fds[static GATE_LISTENERS_MAX]);
bool notify_listeners_check(struct gate *gate, const struct pollfd *fds, size_t n);
bool notify_listeners_clear(
        struct gate *gate); /* threads and places of those that have gone. True: it is to be called again */

/* Lets another thread wait for notifications while this one makes a call that may take long. */
void reader_release(struct worker *worker);

/* Takes the reader's place away from a thread whose call takes long. True while calls come in. */
bool reader_watch(struct notify_listener *listener);
