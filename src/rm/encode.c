/* SPDX-License-Identifier: Apache-2.0 */
#include "rm/encode.h"

#include "rm/numbers.h"

#include <stdlib.h>

uint32_t rm_encode_request(uint32_t nr, uint32_t size)
{
        return 3u << 30 | size << 16 | 'F' << 8 | nr;
}

uint32_t rm_encode_alloc(const struct rm_layout *layout, const struct rm_alloc *alloc,
                         uint8_t block[static RM_BLOCK_MAX])
{
        uint32_t size = layout->alloc_size;

        memset(block, 0, RM_BLOCK_MAX);
        rm_put32(block, size, 0, alloc->client);
        rm_put32(block, size, 4, alloc->parent);
        rm_put32(block, size, RM_OBJECT_AT, alloc->object);
        rm_put32(block, size, 12, alloc->class_number);
        rm_put64(block, size, 16, (uintptr_t)alloc->params);
        if (layout->alloc_params_size_at != RM_ABSENT)
                rm_put32(block, size, layout->alloc_params_size_at, alloc->params_size);
        return size;
}

uint32_t rm_encode_control(const struct rm_control *control, uint8_t block[static RM_BLOCK_MAX])
{
        memset(block, 0, RM_BLOCK_MAX);
        rm_put32(block, RM_CONTROL_SIZE, 0, control->client);
        rm_put32(block, RM_CONTROL_SIZE, 4, control->object);
        rm_put32(block, RM_CONTROL_SIZE, 8, control->cmd);
        rm_put64(block, RM_CONTROL_SIZE, 16, (uintptr_t)control->params);
        rm_put32(block, RM_CONTROL_SIZE, 24, control->params_size);
        return RM_CONTROL_SIZE;
}

/* hClient@0 hDevice@4 hMemory@8 offset@16 length@24 pLinear@32 status@40 flags@44 fd@48 */
uint32_t rm_encode_map(const struct rm_map *map, uint8_t block[static RM_BLOCK_MAX])
{
        memset(block, 0, RM_BLOCK_MAX);
        rm_put32(block, RM_MAP_SIZE, 0, map->client);
        rm_put32(block, RM_MAP_SIZE, 4, map->device);
        rm_put32(block, RM_MAP_SIZE, 8, map->object);
        rm_put64(block, RM_MAP_SIZE, 16, map->offset);
        rm_put64(block, RM_MAP_SIZE, 24, map->size);
        rm_put32(block, RM_MAP_SIZE, 44, map->flags);
        rm_put32(block, RM_MAP_SIZE, 48, (uint32_t)map->fd);
        return RM_MAP_SIZE;
}

/* nv_ioctl_card_info: valid@0, pci {domain@4 bus@8 slot@9 function@10 vendor@12 device@14}, gpu_id@16, interrupt@20,
 * reg address@24 size@32, fb address@40 size@48, minor@56, name@60 (10).
 * Source: nv-ioctl.h, 525.147.05 to 595.45.04. */
static bool device_info_at(const uint8_t *at, struct rm_device *ret)
{
        *ret = (struct rm_device){ .domain = rm_get32(at, RM_DEVICE_INFO_SIZE, 4),
                                   .bus = at[8],
                                   .slot = at[9],
                                   .gpu_id = rm_get32(at, RM_DEVICE_INFO_SIZE, 16),
                                   .minor = rm_get32(at, RM_DEVICE_INFO_SIZE, 56) };
        return at[0];
}

static int compare_pci(const void *a, const void *b)
{
        const struct rm_device *x = a, *y = b;
        uint64_t left = (uint64_t)x->domain << 16 | (uint64_t)x->bus << 8 | x->slot;
        uint64_t right = (uint64_t)y->domain << 16 | (uint64_t)y->bus << 8 | y->slot;

        return left < right ? -1 : left > right;
}

size_t rm_decode_devices(const void *devices, size_t size, struct rm_device *ret)
{
        const uint8_t *at = devices;
        size_t n = 0;

        while (n < size / RM_DEVICE_INFO_SIZE && device_info_at(at + n * RM_DEVICE_INFO_SIZE, &ret[n]))
                n++;
        qsort(ret, n, sizeof(*ret), compare_pci);
        return n;
}
