/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that compute side by side, through NVIDIA's MPS: those of --mode spatial on a device, and those of a trust
 * group (--group); docs/modes.md.
 *
 * Each such set of tenants has one nvidia-cuda-mps-control, which the daemon starts for that device alone and ends
 * after the last of them. It has a session of its own, so it survives the daemon; the next daemon finds it by
 * DIR/mps/PLACE/control ("PID START"), which only the daemon writes. PLACE is "DEVICE" of mode spatial, "DEVICE-TEAM"
 * of a group, whose number is in the leases of its tenants (mps_place):
 *      M1  a device has tenants of mode spatial or of mode time, never both (tenants_fit). Groups are of mode time;
 *      M2  a tenant is granted its lease only when the control daemon listens (mps_wait);
 *      M3  a tenant may dup driver objects that the MPS server of its place lends, and no other process's, nor another
 *          group's: a shim asks the driver whose a client is, on the server's own descriptors (mps_lends);
 *      M4  who is in a group is decided at admission (tenants_team): one owner, one namespace, one name, and either
 *          processes of the machine or containers, whose server has files of its own in place of the machine's
 *          (shim/mps_program.h).
 *
 * All clients of a server share its channel group: to the hardware they are one program. They fail together
 * (MPS_FAULT), and their time cannot be told apart: it is billed in equal parts (sched/teams.c). To the scheduler they
 * are one (turns/teams.h): those of mode spatial have the device for themselves: nothing is taken from them, and a
 * group takes turns. It is off when the channels of all its tenants are: the server itself computes nothing.
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        MPS_WHY = 200,
};

struct daemon;
struct err;
struct message_lease;
struct tenant;

/* A server, or what is to become one. Thread: the loop. */
struct mps {
        struct mps *next;      /* of the device */
        struct daemon *daemon; /* borrowed */
        unsigned int device;
        uint32_t team;  /* whose; 0: of mode spatial */
        pid_t control;  /* 0: none */
        bool is_open;   /* it was adopted: who may connect is as the daemon before it left it */
        uint64_t begun; /* when it started, by the kernel's clock: process numbers are used again */
        pid_t server;   /* started by it; 0: not yet */
        uint64_t server_begun;
        pid_t quitter; /* the process that asks it to end, and when that started */
        uint64_t quitter_begun;
        nsec ending_since, retry_at, checked_at;
        unsigned int n_failures; /* in a row */
        char failure[160];       /* why it could not be started; "": no failure */
};

/* Device memory of the server itself, in no quota and therefore kept free.
 * Measured: H200, 580.159.04: 66 MiB by nvidia-smi, and 10 that belong to no process. */
#define MPS_RESERVE (128ull << 20)

/* A lease of mode spatial or of a group is for one device; one of mode spatial has no class. 0; -EINVAL. */
int mps_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err);

/* Of a lease of --mode auto: it leaves its group where it is better off by turns (way.h). *ret: which way, and why, for
 * people. */
void mps_choose(const struct daemon *daemon, struct message_lease *lease, char ret[static MPS_WHY]);

/* Whether the tenant finds its control daemon, if it needs one. "": yes; a text: why it will not; NULL: it may yet. */
const char *mps_wait(const struct daemon *daemon, const struct tenant *tenant);

/* Whether the process is a server, or a control daemon, that we started on that device. It looks for servers that it
 * does not know yet. */
bool mps_has(struct daemon *daemon, unsigned int device, pid_t process);

/* Adds the variables that the tenant's command needs. */
void mps_environment(const struct daemon *daemon, const struct message_lease *lease, json_t *env);

/* What the hook of a container of a group needs to mount (oci/side.h): the control daemon's process, when it began, and
 * the directory of its pipe. NULL: the lease is of no group, or no memory. */
json_t *mps_for_container(const struct daemon *daemon, const struct message_lease *lease);

void mps_adopt(struct daemon *daemon); /* at the start: finds those of the daemon before */
void mps_tick(struct daemon *daemon);  /* ten times a second: starts, checks and ends them */
void mps_leave(struct daemon *daemon); /* the daemon ends, and those without tenants with it */

uint64_t mps_team(const struct message_lease *lease); /* as the scheduler knows it (sched_tenant.team); 0: none */

/* ---- for mps_client.c, which says to tenants where their server is ---------------------------------------------- */

struct mps *mps_find(const struct daemon *daemon, unsigned int device, uint32_t team); /* NULL: none */
void mps_file(const struct mps *mps, const char *name, char *ret); /* of its place; MPS_PATH bytes */
