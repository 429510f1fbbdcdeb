/*
 * The control block: a page (a sealed memfd) that a tenant's shim and the daemon share. The shim writes what
 * its tenant is and holds; the daemon writes what it desired states, and a heartbeat by which it is seen to live.
 *
 * So neither waits for the other: the daemon reads 200 tenants without a message, and a new channel
 * is put under the present desired state by the shim before the tenant hears of it.
 *
 * A desired state and a new channel may cross. Both sides write their own first and then read the other's, with
 * sequential consistency:
 *      shim: control_block_channel_put; then looks at the desired state, and if it is «off», switches the channel off,
 *              and looks again;
 *      daemon: writes the desired state; then reads the channels and makes the call for those it sees.
 * Whoever comes second sees the first.
 *
 * Every field has one writer: K the shim, D the daemon. All are atomics or under `sequence`. Both processes
 * are ours; the tenant never sees the page. Layout: board.c asserts offsets; `version` guards an upgrade:
 * fields are only added, at the end.
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "lease/lease.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        CONTROL_BLOCK_VERSION = 1,
        CONTROL_BLOCK_CHANNELS = 1536, /* = the most that a lease gives */
        CONTROL_BLOCK_GROUPS = 512,
        CONTROL_BLOCK_SECRET = 16,
};

/* A channel of the tenant, on whatever engine. */
struct control_channel {
        uint32_t client, handle; /* the driver's; handle 0: an empty row */
        uint32_t group;          /* handle of its group, in the same client */
        uint32_t cid;            /* what the driver numbers it; a group's first channel's names it in the meter */
        uint16_t device;         /* index into the lease */
        uint16_t is_compute;     /* its group is on the graphics and compute engine */
        uint32_t order;          /* counts channels ever made: the smallest of a group is its first */
};

/* Per device of the machine. */
struct control_device {
        /* K: the books */
        _Atomic bytes quota, held, peak;
        _Atomic uint64_t n_refused;

        /* K: signs of work on the compute channels, kept while `watch` asks for them */
        _Atomic nsec launched_at;   /* when a put moved last, by clock_now; 0: not seen */
        _Atomic uint32_t n_pending; /* channels with launches that the device has not taken */
        _Atomic uint32_t can_watch; /* puts and gets of this tenant can be read */
        _Atomic nsec checked_at;    /* when the signs were looked at last */

        /* K: what was done about the desired state */
        _Atomic nsec slice_set;          /* the timeslice that all compute groups have now; 0: the driver's own */
        _Atomic uint32_t n_slice_failed; /* groups whose slice could not be set, at the last attempt */
        _Atomic uint32_t is_reenabled;   /* 1: the daemon was silent, and the shim has switched all on again */

        /* D: the desired state. When the daemon has died, K takes its desired states back: is_disabled, slice, watch and the heartbeat are 0. */
        _Atomic uint32_t is_disabled;
        _Atomic nsec slice;                 /* 0: the driver's default */
        _Atomic nsec watch;                 /* period at which signs of work are wanted; 0: not at all */
        _Atomic uint32_t share, cap, class; /* permille, permille, enum turns_class: for those who only look */
        _Atomic nsec used;                  /* metered since the tenant began */
};

struct control_block {
        /* K, before the page is handed over; never changed */
        char magic[8]; /* "sublet\0\1" */
        uint32_t version, size;
        pid_t shim;
        char tenant[64];
        uid_t owner;
        unsigned int n_devices;

        /* K */
        _Atomic uint32_t sequence;   /* odd while channels change; see control_block_channels */
        _Atomic uint32_t n_channels; /* rows in use are below this */
        _Atomic uint32_t n_processes;
        _Atomic uint32_t has_ended; /* the tenant's last process is gone */
        _Atomic bytes host_quota, host_held;
        _Atomic uint64_t n_calls, n_denied;

        /* D */
        _Atomic nsec heartbeat; /* clock_now of the daemon's latest turn of its loop; 0: no daemon */
        _Atomic uint32_t
                desired; /* counts desired states; a futex that the shim's reconciler waits on (K wakes it so, too) */

        struct control_device devices[LEASE_DEVICES_MAX];
        struct control_channel channels[CONTROL_BLOCK_CHANNELS]; /* K, under sequence */
};

enum {
        CONTROL_BLOCK_SILENT_MSEC = 600, /* a heartbeat older than this: the daemon is taken for dead */
        CONTROL_BLOCK_HEARTBEAT_MSEC = 100,
};

/* By the shim: a new page, mapped; *ret_fd to hand over. 0; -errno. */
int control_block_new(const char *tenant, uid_t owner, unsigned int n_devices, struct control_block **ret, int *ret_fd);

/* By the daemon: maps what a shim handed over; refuses another size, magic or version. 0; -EPROTO; -errno. */
int control_block_map(int fd, struct control_block **ret);
void control_block_unmap(struct control_block *control); /* NULL is fine */

/* K. One caller at a time. 0; -ENOSPC. */
int control_block_channel_put(struct control_block *control, const struct control_channel *channel);
void control_block_channel_drop(struct control_block *control, uint32_t client, uint32_t handle);

/* D. A consistent copy of the rows in use, at most CONTROL_BLOCK_CHANNELS; *ret_sequence changes when they do (so a
 * caller that has seen it need not read again). The number of rows. An odd sequence, and none: the shim was
 * stopped or has died in the middle of a change, and the caller goes on with what it had. */
size_t control_block_channels(const struct control_block *control, struct control_channel *ret, uint32_t *ret_sequence);

/* D. Tells the reconciler that a desired state has changed. K. Waits for that, at most `timeout`; seen: the count last
 * looked at. True: it has changed. */
void control_block_notify(struct control_block *control);
bool control_block_wait(struct control_block *control, uint32_t seen, nsec timeout);
