/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode spatial: tenants that compute side by side, through NVIDIA's MPS; docs/modes.md.
 *
 * A device with such tenants has one nvidia-cuda-mps-control, which the daemon starts for that device alone and ends
 * after the last of them. It has a session of its own, so it survives the daemon; the next daemon finds it by
 * DIR/mps/N/control ("PID START"), which only the daemon writes:
 *      M1  a device has tenants of mode spatial or of mode time, never both (tenants_fit);
 *      M2  a tenant is granted its lease only when the control daemon listens (mps_is_ready);
 *      M3  a tenant may dup driver objects that the MPS server lends, and no other process's: a shim asks the driver
 *          whose a client is, on the server's own descriptors (mps_lends).
 *
 * All clients of a server share its channel group: to the hardware they are one program. They fail together
 * (MPS_FAULT), and their time cannot be told apart, so they are not scheduled.
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
        uint64_t begun; /* when it started, by the kernel's clock: process numbers are used again */
        pid_t server;   /* started by it; 0: not yet */
        pid_t quitter;  /* the process that asks it to end, and when that started */
        uint64_t quitter_begun;
        nsec ending_since, retry_at, checked_at;
        unsigned int n_failures; /* in a row */
        char failure[160];       /* why it could not be started; "": no failure */
};

/* Device memory of the server itself, in no quota and therefore kept free.
 * Measured: H200, 580.159.04: 66 MiB by nvidia-smi, and 10 that belong to no process. */
#define MPS_RESERVE (128ull << 20)

/* A lease of mode spatial is for one device and has no class. 0; -EINVAL. */
int mps_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err);

/* Whether a granted tenant of this device would find its control daemon. */
bool mps_is_ready(const struct daemon *daemon, unsigned int device);

/* Adds the variables that the tenant's command needs. */
void mps_environment(const struct daemon *daemon, const struct message_lease *lease, json_t *env);

void mps_adopt(struct daemon *daemon); /* at the start: finds those of the daemon before */
void mps_tick(struct daemon *daemon);  /* ten times a second: starts, checks and ends them */
void mps_leave(struct daemon *daemon); /* the daemon ends, and those without tenants with it */
