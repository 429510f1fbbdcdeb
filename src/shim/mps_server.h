/* Who is the MPS server of a device, and which driver clients are its own; docs/modes.md. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gate_driver;

/* When a process began, in clock ticks since the machine did; 0: there is none. */
uint64_t mps_begun(pid_t process);

/* A child of the control daemon; 0: none. Reads all of /proc: some milliseconds. */
pid_t mps_server(pid_t control);

/* What DIR/mps/DEVICE/control says, if that process still is the one. 0: none. */
pid_t mps_control(const char *dir, unsigned int device, uint64_t *ret_begun);

/* Whether the driver's client `client` belongs to the server of this device. Blocks: driver calls, milliseconds. */
bool mps_lends(const char *dir, unsigned int device, const struct gate_driver *driver, uint32_t client);
