/* SPDX-License-Identifier: Apache-2.0 */
/* Health of the devices, read by NVML on a thread every few seconds, for metrics and API. */
#pragma once

struct daemon;
struct health;

/* 0; -ENOTSUP: no NVML (then no device has figures); -errno. *ret: the caller's, for health_stop. */
int health_start(struct daemon *daemon, struct health **ret);
struct health *health_stop(struct health *health); /* waits for its thread */
