/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of nvidia-uvm: see nv.h. */
#include "sim/cuda/driver/nv.h"

#include "rm/numbers.h"

enum {
        BLOCK_MAX = 16384,
        UVM_ATTRS_AT = 24, /* of MAP_EXTERNAL: per-device attributes, 36 bytes each */
};

uint32_t nv_uvm(const struct nv *nv, uint32_t number, void *block, size_t status_at)
{
        if (nv_ioctl_again(nv->uvm, number, block) < 0)
                return NV_LOST;
        return rm_get32(block, status_at + 4, status_at);
}

uint32_t nv_uvm_open(struct nv *nv)
{
        struct nv second;
        uint8_t block[16] = { 0 };
        uint32_t status;

        nv->uvm = nv_node_open("/dev/nvidia-uvm");
        nv->uvm_mm = nv_node_open("/dev/nvidia-uvm");
        if (nv->uvm < 0 || nv->uvm_mm < 0)
                return NV_LOST;
        status = nv_uvm(nv, UVM_INITIALIZE, block, 8);
        if (status != RM_STATUS_OK || nv->layout.uvm_mm_initialize_size == RM_ABSENT)
                return status;
        second = (struct nv){ .uvm = nv->uvm_mm };
        memset(block, 0, sizeof(block));
        rm_put32(block, sizeof(block), 0, (uint32_t)nv->uvm);
        return nv_uvm(&second, UVM_MM_INITIALIZE, block, 4);
}

uint32_t nv_uvm_range(const struct nv *nv, uint32_t number, uint64_t base, uint64_t size)
{
        uint8_t block[24] = { 0 };

        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, size);
        return nv_uvm(nv, number, block, 16);
}

uint32_t nv_uvm_create(const struct nv *nv, uint64_t base, uint64_t size)
{
        return nv_uvm_range(nv, UVM_CREATE_EXTERNAL, base, size);
}

uint32_t nv_uvm_map(const struct nv *nv, const uint8_t uuid[16], uint64_t base, uint64_t size, uint64_t offset,
                    uint32_t memory)
{
        const struct rm_layout *layout = &nv->layout;
        uint8_t block[BLOCK_MAX] = { 0 };
        uint32_t end = layout->uvm_map_external_client_at, length = layout->uvm_map_external_size;

        rm_put64(block, length, 0, base);
        rm_put64(block, length, 8, size);
        rm_put64(block, length, 16, offset);
        memcpy(block + UVM_ATTRS_AT, uuid, 16);
        rm_put32(block, length, UVM_ATTRS_AT + 16, 1); /* mapping type: read, write, atomics */
        rm_put64(block, length, end - 12, 1);          /* devices; then the descriptor */
        rm_put32(block, length, end - 4, (uint32_t)nv->ctl);
        rm_put32(block, length, end, nv->client);
        rm_put32(block, length, end + 4, memory);
        return nv_uvm(nv, UVM_MAP_EXTERNAL, block, end + 8);
}

uint32_t nv_uvm_range_of(const struct nv *nv, uint32_t number, uint64_t base, uint64_t size, const uint8_t uuid[16])
{
        uint8_t block[40] = { 0 };

        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, size);
        memcpy(block + 16, uuid, 16);
        return nv_uvm(nv, number, block, 32);
}

uint32_t nv_uvm_free(const struct nv *nv, uint64_t base, uint64_t size)
{
        uint8_t block[32] = { 0 };
        uint32_t length = nv->layout.uvm_free_size;

        rm_put64(block, length, 0, base);
        if (length >= 24) /* since 590 there is no length */
                rm_put64(block, length, 8, size);
        return nv_uvm(nv, UVM_FREE, block, length - 8);
}

uint32_t nv_uvm_group(const struct nv *nv, uint64_t *ret_id)
{
        uint8_t block[16] = { 0 };
        uint32_t status = nv_uvm(nv, 23, block, 8);

        *ret_id = rm_get64(block, sizeof(block), 0);
        return status;
}

uint32_t nv_uvm_group_free(const struct nv *nv, uint64_t id)
{
        uint8_t block[16] = { 0 };

        rm_put64(block, sizeof(block), 0, id);
        return nv_uvm(nv, 24, block, 8);
}
