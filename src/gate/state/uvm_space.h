/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What UVM says of a VA space when the gate asks it on its own duplicate of the tenant's descriptor.
 *
 * There is no query for "is anything mapped in [base, base + length)", but there is a call that fails if there is:
 * UVM_CREATE_EXTERNAL answers 0x68 (address in use) while any page of a managed range is left, in whatever process, and
 * a range that it made is freed again at once. UVM_VALIDATE_RANGE first: it answers 0 for exactly one whole range, and
 * disturbs nobody. A managed range of a process that has exited stays, with its memory, until UVM_CLEAN_UP_ZOMBIES or
 * the file's last close. Source: uvm_va_range.c, uvm_mmap.c (uvm_vm_close_managed), 525 to 595. Measured:
 * tests/gpu/uvmfacts.c, H200, 580.159.04.
 *
 * Threads: any; the caller keeps the tenant's own calls on the space away meanwhile, or they may hit the range that is
 * made for a moment.
 */
#pragma once

#include "gate/state/driver.h"
#include "rm/layout.h"

enum {
        UVM_UUID_SIZE = 16,
        UVM_INVALID_ADDRESS = 0x1e, /* NV_ERR_INVALID_ADDRESS: no such range */
};

/* Whether anything is left in the range. True when in doubt. */
bool uvm_space_has(const struct gate_driver *driver, const struct rm_layout *layout, int fd, uint64_t base,
                   uint64_t length);

void uvm_space_ungroup(const struct gate_driver *driver, int fd,
                       uint64_t group); /* a range group ends, if it is there */

/* Takes a device out of the space, with all that the space has there: managed memory goes to the host. True: it is not
 * in the space any more. Source: uvm_va_space_unregister_gpu, 525 to 595. */
bool uvm_space_leave(const struct gate_driver *driver, int fd, const uint8_t uuid[static UVM_UUID_SIZE]);

/*
 * Migrates the managed memory of these addresses, which leave none out, to the host, and waits for it. The status;
 * UINT32_MAX: the call failed. UVM_INVALID_ADDRESS: there is none, or not everywhere, and nothing has moved. After any
 * other failure a part may have.
 */
uint32_t uvm_space_to_host(const struct gate_driver *driver, int fd, uint64_t base, uint64_t length);

/* Whether a space has begun on the file. True when in doubt. Source: __UVM_ROUTE_CMD_STACK (uvm_ioctl.h), 525 to 595:
 * every call but a few answers ILLEGAL_ACTION before. */
bool uvm_space_has_begun(const struct gate_driver *driver, int fd);

/* Ends the managed ranges of processes that have exited. */
void uvm_space_clean(const struct gate_driver *driver, int fd);

/* Frees a range that is not managed, and what it maps. True: it is not there any more. */
bool uvm_space_free(const struct gate_driver *driver, const struct rm_layout *layout, int fd, uint64_t base,
                    uint64_t length);
