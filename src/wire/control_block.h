/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared control block: memory (a sealed memfd) that a tenant's shim and the daemon share. The shim publishes what
 * its tenant is and holds. The daemon writes the desired state (channels enabled or disabled, their time slice, the
 * period for signs of work) and a heartbeat that shows that it lives. Neither waits for the other: the daemon reads 200
 * tenants without a message, and the shim applies the desired state to a new channel before the tenant knows of the
 * channel.
 *
 * A change of the desired state and a new channel may cross. Both sides write their own part first and then read the
 * other's, with sequential consistency, so the second one sees what the first wrote:
 *      daemon  writes the desired state, then reads the channels and makes the driver call for those it finds;
 *      shim    puts the channel (control_block_channel_put), then reads the desired state. If it is "disabled", the
 *              shim disables the channel and reads the state again, until it has not changed during the call.
 * Both may make the call for one channel; that does no harm.
 *
 * Every field has one writer, S the shim or D the daemon, and is atomic or under `sequence`. Both processes are ours;
 * the tenant never sees the memory. control_block.c asserts the layout. `version` guards an upgrade: fields are only
 * added, at the end.
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "lease/lease.h"
#include "rm/engines.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        CONTROL_BLOCK_VERSION =
                8, /* 1 ends with channels, 2 engines, 3 loans, 4 kinds, 5 waiting, 6 began, 7 listed_at */
        CONTROL_BLOCK_CHANNELS = 1536, /* the most that a lease gives */
        CONTROL_BLOCK_PROCESSES = 128,
        CONTROL_BLOCK_LOANS = 64,
};

/* A channel of the tenant, on any engine. */
struct control_channel {
        uint32_t client, handle; /* the driver's; handle 0: an empty row */
        uint32_t group;          /* handle of its group, in the same client */
        uint32_t cid;            /* the driver's number; the meter names a group by that of its first channel */
        uint16_t device;         /* index into the lease */
        uint8_t is_compute;      /* its group may use the graphics and compute engine, as far as the gate has seen */
        uint8_t engine;          /* enum rm_engine: of which it is, where that is known; 0 in version 1 */
        uint32_t order;          /* counts all channels made; a group's first has the smallest */
};

/* One per device of the machine. */
struct control_device {
        /* S: the ledger */
        _Atomic bytes quota, held, peak;
        _Atomic uint64_t n_refused;

        /* S: signs of work on the compute channels, while `watch` asks for them */
        _Atomic nsec launched_at;   /* when a put pointer last moved, clock_now; 0: not seen */
        _Atomic uint32_t n_pending; /* channels with launches that the device has not taken */
        _Atomic uint32_t can_watch; /* put and get pointers of this tenant can be read */
        _Atomic nsec checked_at;    /* when the signs were last checked */

        /* S: what was done about the desired state */
        _Atomic nsec slice_set;          /* the time slice of all compute groups; 0: the driver's own */
        _Atomic uint32_t n_slice_failed; /* groups whose slice could not be set in the last attempt */
        _Atomic uint32_t is_reenabled;   /* 1: the daemon was silent, and the shim has enabled all channels */

        /* D: the desired state. When the daemon has died, S takes it back: is_disabled, slice, watch and heartbeat
         * become 0. */
        _Atomic uint32_t is_disabled;
        _Atomic nsec slice;                 /* 0: the driver's default */
        _Atomic nsec watch;                 /* period at which signs of work are wanted; 0: not at all */
        _Atomic uint32_t share, cap, class; /* permille, permille, enum turns_class; for display */
        _Atomic nsec used;                  /* metered since the tenant began */
};

/* One per device of the machine and engine. */
struct control_engine {
        _Atomic nsec launched_at;     /* S: when a put pointer last moved, clock_now; 0: not seen */
        _Atomic uint32_t n_pending;   /* S: channels with launches that the engine has not taken */
        _Atomic uint32_t n_unseen;    /* S: channels whose pointers cannot be read */
        _Atomic nsec used;            /* D: time with work on the engine since the tenant began */
        _Atomic uint32_t is_disabled; /* D: its channels of this engine are */
};

/* One per device of the machine: S's checks of the signs of work that `watch` asks for, where `can_watch`. */
struct control_quiet {
        _Atomic uint32_t sequence;    /* odd while the others change */
        _Atomic uint32_t n;           /* stretches without a sign that a sign has ended, ever */
        _Atomic nsec signed_at;       /* the latest check that saw a sign: a launch, or one that waits; 0: none yet */
        _Atomic nsec began_at, until; /* of the latest such stretch: the check before it, and its last check */
};

/* For display, and each second; rows are read while they change. S: the processes that have the device open, with what
 * each has taken, whoever holds it now. One that holds nothing has one row. */
struct control_process {
        _Atomic int32_t id; /* 0: no row, and none behind it */
        _Atomic uint32_t device;
        _Atomic bytes held;
        _Atomic uint64_t command[2]; /* 16 bytes, as /proc/ID/comm has them; padded with 0 */
};

/* S: memory of another tenant of the job that this one holds, too; it is the lender that is charged. */
struct control_loan {
        _Atomic int32_t lender; /* its shim; 0: no row, and none behind it */
        _Atomic uint32_t device;
        _Atomic bytes size;
};

/* S: of what it holds, what is managed, and what the driver took without being asked. The rest was allocated. */
struct control_kinds {
        _Atomic bytes managed, driver;
};

/* D, for the daemon after it: whether the tenant is suspended. A process that is has no row above: all is closed. */
struct control_suspension {
        _Atomic uint32_t state, n; /* enum suspension_state; processes that were suspended, or are to be */
        _Atomic int32_t processes[CONTROL_BLOCK_PROCESSES];
};

struct control_waiting {
        _Atomic uint32_t n; /* S: driver calls that wait because the tenant is suspended; and 1 for work that does */
        _Atomic int32_t process;  /* S: of the latest call; 0: it was work */
        _Atomic uint32_t is_idle; /* D, for the daemon after it: it was suspended because it was idle */
        _Atomic uint32_t is_out;  /* S at first, then D: it is suspended for others' sake, and is to come in again */
};

/* When processes began (base/process.h), so that a number that was used again names nobody. Row by row: S of
 * control_block.processes, written before its id; D of suspension.processes. 0: not known. */
struct control_began {
        _Atomic uint64_t listed[CONTROL_BLOCK_PROCESSES], suspended[CONTROL_BLOCK_PROCESSES];
};

/* D, for the daemon after it: what the ledger had when the tenant's suspension began, by device, less what has been of
 * processes that ended since. What is on the device no more is in the host's memory. */
struct control_before {
        _Atomic bytes held[LEASE_DEVICES_MAX];
        struct control_before_row {
                _Atomic uint32_t process, device; /* index into suspension.processes */
                _Atomic bytes held;               /* 0: it has ended, or no row */
        } rows[CONTROL_BLOCK_PROCESSES];
};

/* Of a tenant whose memory its shim moves by itself (gate/move/move.h). */
struct control_move {
        _Atomic uint32_t by_shim; /* D, for the daemon after it: that is how it is suspended */
        _Atomic uint32_t is_held; /* D: its channels are off, whatever the turns say, until this is 0 */
        _Atomic uint32_t is_away; /* S: its memory is in host memory, or on its way */
        _Atomic int32_t kept_by;  /* S: the tenant has ended, and this process has memory of it still; 0: it has not
                                     ended, or has left nothing. Before 0.2 always 0 */
};

enum {
        CONTROL_KEPT_BY_SOMEBODY = -1, /* kept_by: /proc does not tell who */
};

struct control_block {
        /* S, before the memory is handed over; constant afterwards */
        char magic[8]; /* "sublet\0\1" */
        uint32_t version, size;
        pid_t shim;
        char tenant[64];
        uid_t owner;
        unsigned int n_devices;

        /* S */
        _Atomic uint32_t sequence;   /* odd while channels change; see control_block_channels */
        _Atomic uint32_t n_channels; /* rows in use are below this */
        _Atomic uint32_t n_processes;
        _Atomic uint32_t has_ended; /* the tenant's last process is gone */
        _Atomic bytes host_quota, host_held;
        _Atomic uint64_t n_calls;
        _Atomic uint64_t n_refused; /* calls without a rule, or for want of a capability; before 0.2 all denied ones */

        /* D */
        _Atomic nsec heartbeat; /* clock_now in the latest pass of the daemon's loop, or of a scheduler; 0: none */
        _Atomic uint32_t
                desired; /* counts changes; a futex that the shim's reconciler waits on, and that S wakes too */

        struct control_device devices[LEASE_DEVICES_MAX];
        struct control_channel channels[CONTROL_BLOCK_CHANNELS]; /* S, under sequence */

        struct control_engine engines[LEASE_DEVICES_MAX][RM_N_ENGINES]; /* since version 2: control_block_engine */
        struct control_quiet quiets[LEASE_DEVICES_MAX];                 /* since version 3: control_block_quiet */
        struct control_process processes[CONTROL_BLOCK_PROCESSES];      /* since version 3 */
        struct control_loan loans[CONTROL_BLOCK_LOANS];                 /* since version 3 */
        struct control_suspension suspension;                           /* since version 4 */
        struct control_kinds kinds[LEASE_DEVICES_MAX];                  /* since version 4: control_block_kinds */
        struct control_waiting waiting;                                 /* since version 5: control_block_waiting */
        struct control_began began;                                     /* since version 6: control_block_began */
        struct control_before before;                                   /* since version 7: control_block_before */
        _Atomic nsec listed_at;   /* S, since version 7: `processes` is not older; clock_now */
        struct control_move move; /* since version 8: control_block_move */
};

enum {
        CONTROL_BLOCK_SILENT_MSEC = 600, /* a daemon with an older heartbeat is taken for dead */
        CONTROL_BLOCK_HEARTBEAT_MSEC = 100,
};

/* S. A new control block, mapped; *ret_fd is to be handed over. 0; -errno. */
int control_block_new(const char *tenant, uid_t owner, unsigned int n_devices, struct control_block **ret, int *ret_fd);

/* D. Maps what a shim handed over. 0; -EPROTO: another size, magic or version; -errno. */
int control_block_map(int fd, struct control_block **ret);
void control_block_unmap(struct control_block *control); /* NULL is fine */

/* What it says of an engine; NULL: it is of version 1, and says nothing. */
struct control_engine *control_block_engine(struct control_block *control, unsigned int device, enum rm_engine engine);

/* NULL: it is of an older version, which has no room for it. */
struct control_suspension *control_block_suspension(struct control_block *control);

/* States of a suspension in which the tenant's memory is away; the others are the daemon's alone. */
enum {
        CONTROL_SUSPENDED = 2,
        CONTROL_RESUMING = 3,
        CONTROL_REVERTING = 4,
};

/* S. Whether a process that wants memory must wait: its tenant is suspended, or what it had comes back first. The
 * processes that were suspended do not wait on the way back: it is the driver that asks, for what they had. */
bool control_block_is_away(const struct control_block *control, pid_t process);

/* D. NULL: likewise. */
struct control_waiting *control_block_waiting(struct control_block *control);

/* NULL: likewise. */
struct control_began *control_block_began(struct control_block *control);

/* NULL: likewise. */
struct control_move *control_block_move(struct control_block *control);

/* D. control_move.kept_by; 0: not known either. */
pid_t control_block_kept_by(const struct control_block *control);

/* D. Its channels are to be off. */
bool control_block_is_held(const struct control_block *control);

/* D. NULL: likewise. */
struct control_before *control_block_before(struct control_block *control);

/* NULL: likewise. */
const struct control_kinds *control_block_kinds(const struct control_block *control, unsigned int device);

/* What the checks of a device have seen. */
struct control_quiet_seen {
        uint32_t n;
        nsec signed_at, began_at, until;
};

/* S, at each check: whether it saw a sign of work. `before` is the time of the check before it; 0: none. */
void control_block_quiet_put(struct control_block *control, unsigned int device, bool has_sign, nsec before, nsec now);
/* D. False: it is of an older version, or S is in the middle of a change. */
bool control_block_quiet(const struct control_block *control, unsigned int device, struct control_quiet_seen *ret);

/* S. One caller at a time. 0; -ENOSPC. */
int control_block_channel_put(struct control_block *control, const struct control_channel *channel);
void control_block_channel_drop(struct control_block *control, uint32_t client, uint32_t handle);

/* D. Copies the rows in use, consistently, at most CONTROL_BLOCK_CHANNELS, and returns their number. *ret_sequence
 * changes when they do: a caller that has seen it need not read again. An odd *ret_sequence and 0 rows: the shim was
 * stopped or has died in the middle of a change, and the caller keeps what it had. */
size_t control_block_channels(const struct control_block *control, struct control_channel *ret, uint32_t *ret_sequence);

/* D, S: wakes the reconciler, because the desired state has changed. */
void control_block_notify(struct control_block *control);

/* S. Waits until `desired` is no longer `seen`, at most `timeout`. True: it has changed. */
bool control_block_wait(struct control_block *control, uint32_t seen, nsec timeout);
