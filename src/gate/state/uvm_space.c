/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/uvm_space.h"

#include "rm/encode.h"
#include "rm/numbers.h"

#include <string.h>

enum {
        /* Numbers of requests: src/rm/requests.def. */
        UVM_DESTROY_RANGE_GROUP = 24,
        UVM_UNREGISTER_GPU = 38,
        UVM_MIGRATE = 51,
        UVM_CLEAN_UP_ZOMBIES = 69,
        UVM_VALIDATE_RANGE = 72,

        BLOCK = 24,                   /* base, length, status */
        STATUS_UUID_NOT_FOUND = 0x12, /* NV_ERR_GPU_UUID_NOT_FOUND: nobody uses such a device */
        STATUS_ILLEGAL_ACTION = 0x16, /* NV_ERR_ILLEGAL_ACTION: no space */
        STATUS_INVALID_DEVICE = 0x26, /* NV_ERR_INVALID_DEVICE: it is not in the space */
};

/* The status, or UINT32_MAX: the call failed. */
static uint32_t range_call(const struct gate_driver *driver, int fd, uint32_t number, uint32_t size, uint64_t base,
                           uint64_t length)
{
        uint8_t block[BLOCK] = { 0 };
        uint32_t status_at = size - 8;

        if (size > sizeof(block))
                return UINT32_MAX;
        rm_put64(block, size, 0, base);
        if (status_at > 8)
                rm_put64(block, size, 8, length);
        rm_put32(block, size, status_at, UINT32_MAX);
        if (driver->ioctl(driver->context, fd, number, block) < 0)
                return UINT32_MAX;
        return rm_get32(block, size, status_at);
}

bool uvm_space_free(const struct gate_driver *driver, const struct rm_layout *layout, int fd, uint64_t base,
                    uint64_t length)
{
        uint32_t status = range_call(driver, fd, UVM_FREE, layout->uvm_free_size, base, length);

        return status == RM_STATUS_OK || status == UVM_INVALID_ADDRESS;
}

bool uvm_space_has(const struct gate_driver *driver, const struct rm_layout *layout, int fd, uint64_t base,
                   uint64_t length)
{
        if (range_call(driver, fd, UVM_VALIDATE_RANGE, BLOCK, base, length) == RM_STATUS_OK)
                return true;
        if (range_call(driver, fd, UVM_CREATE_EXTERNAL, BLOCK, base, length) != RM_STATUS_OK)
                return true;
        (void)uvm_space_free(driver, layout, fd, base, length);
        return false;
}

void uvm_space_clean(const struct gate_driver *driver, int fd)
{
        uint8_t block[4] = { 0 };

        (void)driver->ioctl(driver->context, fd, UVM_CLEAN_UP_ZOMBIES, block);
}

bool uvm_space_leave(const struct gate_driver *driver, int fd, const uint8_t uuid[static UVM_UUID_SIZE])
{
        enum { SIZE = UVM_UUID_SIZE + 4 };
        uint8_t block[SIZE];
        uint32_t status;

        memcpy(block, uuid, UVM_UUID_SIZE);
        rm_put32(block, SIZE, UVM_UUID_SIZE, UINT32_MAX);
        if (driver->ioctl(driver->context, fd, UVM_UNREGISTER_GPU, block) < 0)
                return false;
        status = rm_get32(block, SIZE, UVM_UUID_SIZE);
        return status == RM_STATUS_OK || status == STATUS_INVALID_DEVICE || status == STATUS_UUID_NOT_FOUND;
}

void uvm_space_ungroup(const struct gate_driver *driver, int fd, uint64_t group)
{
        (void)range_call(driver, fd, UVM_DESTROY_RANGE_GROUP, 16, group, 0);
}

bool uvm_space_has_begun(const struct gate_driver *driver, int fd)
{
        return range_call(driver, fd, UVM_VALIDATE_RANGE, BLOCK, 0, 0) != STATUS_ILLEGAL_ACTION;
}

/* UVM_MIGRATE_PARAMS (uvm_ioctl.h) is the same from 525 to 595: base, length, destination@16, flags@32 (0: wait),
 * semaphore@40 (none) and its payload@48, the host's NUMA node@52 (-1: any; until 535 it is not looked at). */
uint32_t uvm_space_to_host(const struct gate_driver *driver, int fd, uint64_t base, uint64_t length)
{
        enum { SIZE = 80, DESTINATION_AT = 16, NODE_AT = 52, STATUS_AT = 72 };
        static const uint8_t host[UVM_UUID_SIZE] = { 0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2,
                                                     0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73 };
        uint8_t block[SIZE] = { 0 };

        rm_put64(block, SIZE, 0, base);
        rm_put64(block, SIZE, 8, length);
        memcpy(block + DESTINATION_AT, host, sizeof(host));
        rm_put32(block, SIZE, NODE_AT, UINT32_MAX);
        rm_put32(block, SIZE, STATUS_AT, UINT32_MAX);
        if (driver->ioctl(driver->context, fd, UVM_MIGRATE, block) < 0)
                return UINT32_MAX;
        return rm_get32(block, SIZE, STATUS_AT);
}
