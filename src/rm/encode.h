/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's blocks, encoded: for driver clients of Sublet's own. The counterpart of rm_decode. Pure. */
#pragma once

#include "rm/layout.h"

enum {
        RM_BLOCK_MAX = 64,    /* bytes of the blocks here */
        RM_CONTROL_SIZE = 32, /* NVOS54 */
        RM_CONTROL_STATUS_AT = 28,
        RM_FREE_SIZE = 16, /* NVOS00 */
        RM_FREE_STATUS_AT = 12,
        RM_MAP_SIZE = 56, /* NVOS33 and the descriptor */
        RM_MAP_STATUS_AT = 40,
        RM_OBJECT_AT = 8, /* of an allocation: the handle, written back */
};

/* An allocation; object 0: the driver picks a handle. Returns the block's size, as the next two do. */
struct rm_alloc {
        uint32_t client, parent, object, class_number;
        void *params;
        uint32_t params_size;
};
uint32_t rm_encode_alloc(const struct rm_layout *layout, const struct rm_alloc *alloc,
                         uint8_t block[static RM_BLOCK_MAX]);

struct rm_control {
        uint32_t client, object, cmd;
        void *params;
        uint32_t params_size;
};
uint32_t rm_encode_control(const struct rm_control *control, uint8_t block[static RM_BLOCK_MAX]);

/* MAP_MEMORY of a part of an object: prepares a following mmap of `fd` at offset 0. */
struct rm_map {
        uint32_t client, device, object, flags;
        uint64_t offset, size;
        int fd;
};
uint32_t rm_encode_map(const struct rm_map *map, uint8_t block[static RM_BLOCK_MAX]);

/* A request as libcuda sends it; the driver checks neither direction nor type. */
uint32_t rm_encode_request(uint32_t nr, uint32_t size);

/* A device in the reply to CARD_INFO. */
enum {
        RM_DEVICE_INFO_SIZE = 72,
        RM_DEVICES_MAX = 32,
};
struct rm_device {
        uint32_t domain, gpu_id, minor;
        uint8_t bus, slot;
};

/* Decodes a reply's devices, in PCI order as nvidia-smi numbers them. Returns their number; `ret` has room for
 * size / RM_DEVICE_INFO_SIZE. */
size_t rm_decode_devices(const void *devices, size_t size, struct rm_device *ret);
