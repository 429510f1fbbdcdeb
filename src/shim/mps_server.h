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

enum {
        MPS_PLACE = 24,
};

/* "0", of the tenants of --mode spatial on device 0; "0-7", of the group with the number 7. Returns `ret`. */
const char *mps_place(unsigned int device, uint32_t team, char ret[static MPS_PLACE]);
bool mps_place_parse(const char *text, unsigned int *ret_device, uint32_t *ret_team); /* only what mps_place writes */

/* The control daemon that DIR/mps/PLACE/control names, if it still is that process; 0: none. */
pid_t mps_control(const char *dir, unsigned int device, uint32_t team, uint64_t *ret_begun);

/* Whether the server that DIR/mps/PLACE/server names has ended. The daemon writes it there when the server begins, and
 * takes it away when it ends the server, or has told the tenants that it is gone. */
bool mps_server_has_ended(const char *dir, unsigned int device, uint32_t team);

/* Whether there is one at any place. */
bool mps_is_any(const char *dir);

/* Whether the driver's client `client` belongs to the server of this place. Blocks: driver calls, milliseconds. */
bool mps_lends(const char *dir, unsigned int device, uint32_t team, const struct gate_driver *driver, uint32_t client);
