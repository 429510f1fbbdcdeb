/*
 * Mode «spatial»: tenants that compute side by side, through NVIDIA's MPS; docs/modes.md.
 *
 * A device with such a tenant has one nvidia-cuda-mps-control, started by the daemon for that device alone and ended
 * when the last of them has gone. It is a process of its own session: a daemon's death does not touch it, and the
 * next daemon knows it by DIR/mps/N/control («PID START»), which only the daemon writes:
 *      M1  a device has tenants in space or tenants in time, never both (tenants_fit);
 *      M2  a tenant is granted only when the control daemon listens (mps_is_ready);
 *      M3  of the server's driver objects a tenant may dup what the server lends, and of nobody else's: a shim
 *          asks the driver whose a client is, on the server's own descriptors (mps_lends).
 *
 * All clients of a server share its channel group: the hardware takes them for one program, they fall together
 * (MPS_FAULT), and their time cannot be told apart, so the scheduler leaves them alone.
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon;
struct err;
struct message_lease;

/* Of a device. Thread: the loop. */
struct mps {
        pid_t control;  /* 0: none */
        uint64_t begun; /* when it began, by the kernel's clock: a process number is used again */
        pid_t server;   /* that it has started; 0: none yet */
        pid_t quitter;  /* that tells it to end, and when that began */
        uint64_t quitter_begun;
        nsec ending_since, retry_at, checked_at;
        unsigned int n_failures; /* in a row */
        char failure[160];       /* why it could not be started; "": it could */
};

/* What the server itself takes of the device's memory, which is in no quota and therefore kept free.
 * Measured: H200, 580.159.04: 66 MiB by nvidia-smi, and 10 that are nobody's. */
#define MPS_RESERVE (128ull << 20)

/* A lease in space is for one device, and says nothing of time. 0; -EINVAL. */
int mps_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err);

/* Whether a granted tenant of this device would find its control daemon. */
bool mps_is_ready(const struct daemon *daemon, unsigned int device);

/* Variables that the command of such a tenant must have. */
void mps_environment(const struct daemon *daemon, const struct message_lease *lease, json_t *env);

void mps_adopt(struct daemon *daemon); /* once, at the start: those of the daemon before */
void mps_tick(struct daemon *daemon);  /* starts, looks after, ends */
void mps_leave(struct daemon *daemon); /* the daemon ends: those that nobody needs end with it */
