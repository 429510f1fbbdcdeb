/*
 * Mode «mig»: a tenant on a MIG instance that the operator has made; docs/modes.md. The layout is never changed here.
 *
 *      G1  a GPU instance has one tenant: its compute instances share its memory;
 *      G2  the lease names the instance (store, shim's hello), so a new daemon knows that it is taken;
 *      G3  the gate lets the tenant subscribe to that one and no other (gate/policy/instance.c).
 *
 * An instance has multiprocessors of its own: such tenants take no turns, and the scheduler leaves them alone.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct daemon;
struct err;
struct lease;
struct message_lease;

/* What NVML says now of the instances of all devices; without NVML nothing changes. Blocks, as gpu_instances does. */
void mig_scan(struct daemon *daemon);

/* For a lease that is not on MIG, after mig_scan: a device in MIG mode is left out if the request named none, else it is
 * refused, -EINVAL; so is a request of which nothing is left. */
int mig_avoid(const struct daemon *daemon, struct lease *lease, bool is_named, struct err *err);

/* Narrows a lease to the smallest free instance among its devices: of at least their quota if the size was asked for,
 * else of any size, and then the quota is its memory. 0; -EINVAL; -ENOSPC, with what is free. */
int mig_choose(const struct daemon *daemon, struct message_lease *lease, bool has_size, struct err *err);

/* Variables that the command of such a tenant must have. */
void mig_environment(const struct message_lease *lease, json_t *env);
