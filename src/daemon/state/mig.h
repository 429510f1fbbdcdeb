/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode mig: a tenant on a MIG instance that the operator has made; docs/modes.md. The layout is never changed here.
 *
 *      G1  a GPU instance has one tenant: its compute instances share its memory;
 *      G2  the lease names the instance (store, shim's hello), so a new daemon knows that it is in use;
 *      G3  the gate lets the tenant subscribe to that one and no other (gate/policy/decide.c).
 *
 * An instance has multiprocessors of its own, so its tenant is not scheduled.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct daemon;
struct err;
struct lease;
struct message_lease;

/*
 * Reads the instances of all devices from NVML; without NVML nothing changes. This is a driver call on the loop, made
 * when a lease is asked for and a device supports MIG: it blocks the loop for as long as NVML takes.
 */
void mig_scan(struct daemon *daemon);

/* For a lease of another mode, after mig_scan: leaves out devices in MIG mode. 0; -EINVAL: the request named such a
 * device, or no device is left. */
int mig_avoid(const struct daemon *daemon, struct lease *lease, bool is_named, struct err *err);

/* Narrows a lease to the smallest free instance among its devices. has_size: of at least the quota; else the quota
 * becomes the instance's memory. 0; -EINVAL; -ENOSPC, with what is free. */
int mig_choose(const struct daemon *daemon, struct message_lease *lease, bool has_size, struct err *err);

/* Adds the variables that the tenant's command needs. */
void mig_environment(const struct message_lease *lease, json_t *env);
