/*
 * The board: a page (a sealed memfd) that a tenant's keeper and the daemon share. The keeper writes what
 * its tenant is and holds; the daemon writes what it wishes, and a beat by which it is seen to live.
 *
 * So neither waits for the other: the daemon reads 200 tenants without a message, and a new channel
 * is put under the present wish by the keeper before the tenant hears of it.
 *
 * A wish and a new channel may cross. Both sides write their own first and then read the other's, with
 * sequential consistency:
 *      keeper: board_channel_put; then looks at the wish, and if it is «off», switches the channel off,
 *              and looks again;
 *      daemon: writes the wish; then reads the channels and makes the call for those it sees.
 * Whoever comes second sees the first.
 *
 * Every field has one writer: K the keeper, D the daemon. All are atomics or under `sequence`. Both processes
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
        BOARD_VERSION = 1,
        BOARD_CHANNELS = 1536, /* = the most that a lease gives */
        BOARD_GROUPS = 512,
        BOARD_SECRET = 16,
};

/* A channel of the tenant, on whatever engine. */
struct board_channel {
        uint32_t client, handle; /* the driver's; handle 0: an empty row */
        uint32_t group;          /* handle of its group, in the same client */
        uint32_t cid;            /* what the driver numbers it; a group's first channel's names it in the meter */
        uint16_t device;         /* index into the lease */
        uint16_t is_compute;     /* its group is on the graphics and compute engine */
        uint32_t order;          /* counts channels ever made: the smallest of a group is its first */
};

/* Per device of the machine. */
struct board_device {
        /* K: the books */
        _Atomic bytes quota, held, peak;
        _Atomic uint64_t n_refused;

        /* K: signs of work on the compute channels, kept while `watch` asks for them */
        _Atomic nsec launched_at;   /* when a put moved last, by clock_now; 0: not seen */
        _Atomic uint32_t n_pending; /* channels with launches that the device has not taken */
        _Atomic uint32_t can_watch; /* puts and gets of this tenant can be read */
        _Atomic nsec looked_at;     /* when the signs were looked at last */

        /* K: what was done about the wish */
        _Atomic nsec slice_set;          /* the timeslice that all compute groups have now; 0: the driver's own */
        _Atomic uint32_t n_slice_failed; /* groups whose slice could not be set, at the last attempt */
        _Atomic uint32_t is_let_on;      /* 1: the daemon was silent, and the keeper has switched all on again */

        /* D: the wish. When the daemon has died, K takes its wishes back: is_off, slice, watch and the beat are 0. */
        _Atomic uint32_t is_off;
        _Atomic nsec slice;                 /* 0: the driver's default */
        _Atomic nsec watch;                 /* period at which signs of work are wanted; 0: not at all */
        _Atomic uint32_t share, cap, class; /* permille, permille, enum turns_class: for those who only look */
        _Atomic nsec used;                  /* metered since the tenant began */
};

struct board {
        /* K, before the page is handed over; never changed */
        char magic[8]; /* "sublet\0\1" */
        uint32_t version, size;
        pid_t keeper;
        char tenant[64];
        uid_t owner;
        unsigned int n_devices;

        /* K */
        _Atomic uint32_t sequence;   /* odd while channels change; see board_channels */
        _Atomic uint32_t n_channels; /* rows in use are below this */
        _Atomic uint32_t n_processes;
        _Atomic uint32_t has_ended; /* the tenant's last process is gone */
        _Atomic bytes host_quota, host_held;
        _Atomic uint64_t n_calls, n_denied;

        /* D */
        _Atomic nsec beat;     /* clock_now of the daemon's latest turn of its loop; 0: no daemon */
        _Atomic uint32_t wish; /* counts wishes; a futex that the keeper's steward waits on (K wakes it so, too) */

        struct board_device devices[LEASE_DEVICES_MAX];
        struct board_channel channels[BOARD_CHANNELS]; /* K, under sequence */
};

enum {
        BOARD_SILENT_MSEC = 600, /* a beat older than this: the daemon is taken for dead */
        BOARD_BEAT_MSEC = 100,
};

/* By the keeper: a new page, mapped; *ret_fd to hand over. 0; -errno. */
int board_new(const char *tenant, uid_t owner, unsigned int n_devices, struct board **ret, int *ret_fd);

/* By the daemon: maps what a keeper handed over; refuses another size, magic or version. 0; -EPROTO; -errno. */
int board_map(int fd, struct board **ret);
void board_unmap(struct board *board); /* NULL is fine */

/* K. One caller at a time. 0; -ENOSPC. */
int board_channel_put(struct board *board, const struct board_channel *channel);
void board_channel_drop(struct board *board, uint32_t client, uint32_t handle);

/* D. A consistent copy of the rows in use, at most BOARD_CHANNELS; *ret_sequence changes when they do (so a
 * caller that has seen it need not read again). The number of rows. An odd sequence, and none: the keeper was
 * stopped or has died in the middle of a change, and the caller goes on with what it had. */
size_t board_channels(const struct board *board, struct board_channel *ret, uint32_t *ret_sequence);

/* D. Tells the steward that a wish has changed. K. Waits for that, at most `timeout`; seen: the count last
 * looked at. True: it has changed. */
void board_wish_tell(struct board *board);
bool board_wish_wait(struct board *board, uint32_t seen, nsec timeout);
