/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the MPS server of a device, and the driver clients that belong to it; docs/modes.md. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gate_driver;

/* The start time of a process, in clock ticks since boot; 0: there is no such process. */
uint64_t mps_begun(pid_t process);

/* The server, a child of the control daemon; 0: none. Reads all of /proc: some milliseconds. */
pid_t mps_server(pid_t control);

/* The control daemon that DIR/mps/DEVICE/control names, if it still is that process; 0: none. */
pid_t mps_control(const char *dir, unsigned int device, uint64_t *ret_begun);

/* Whether the driver's client `client` belongs to the server of this device. Blocks: driver calls, milliseconds. */
bool mps_lends(const char *dir, unsigned int device, const struct gate_driver *driver, uint32_t client);
