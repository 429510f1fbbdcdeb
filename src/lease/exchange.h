/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much host memory leases with --swap need, so that an exchange of their tenants is always possible. The daemon
 * admits by it, and Kubernetes' extender places by it.
 *
 * An exchange needs room for both: who comes is in host memory until who leaves is there, too. As no more leave than
 * needed, those left in have more than the room without who comes and one that leaves. So on a device that cannot have
 * all, host memory for the sum, less the room, plus the two largest is enough; and for the sum it always is. Where one
 * has several devices, an exchange on one moves what it has on the others: then it is all sums.
 *
 * Pure. Sums that overflow are saturated.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>

/* Leases with --swap on one device. */
struct exchange {
        bytes sum, largest, second;
};

void exchange_add(struct exchange *exchange, bytes size);

/* Of all devices of a host, added one by one. room: what a device has beside leases without --swap. */
struct exchange_host {
        bytes sum, needed;
};

void exchange_host_add(struct exchange_host *host, const struct exchange *exchange, bytes room);

/* is_spread: a lease has several devices. */
bytes exchange_host_needs(const struct exchange_host *host, bool is_spread);
