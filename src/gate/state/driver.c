/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/driver.h"

#include "rm/numbers.h"

uint32_t gate_driver_control(const struct gate_driver *driver, int fd, const struct rm_control *control)
{
        uint8_t block[RM_BLOCK_MAX];
        uint32_t size = rm_encode_control(control, block);

        if (driver->ioctl(driver->context, fd, rm_encode_request(RM_NR_CONTROL, size), block) < 0)
                return UINT32_MAX;
        return rm_get32(block, size, RM_CONTROL_STATUS_AT);
}

uint32_t gate_driver_free(const struct gate_driver *driver, int fd, uint32_t client, uint32_t handle)
{
        uint8_t block[RM_FREE_SIZE] = { 0 };

        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), RM_OBJECT_AT, handle);
        if (driver->ioctl(driver->context, fd, rm_encode_request(RM_NR_FREE, sizeof(block)), block) < 0)
                return UINT32_MAX;
        return rm_get32(block, sizeof(block), RM_FREE_STATUS_AT);
}
