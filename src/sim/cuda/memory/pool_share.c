/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exporting and importing pools, and the memory of cuMemCreate, through a descriptor.
 *
 * Recorded for pools: the descriptor is an nvidiactl of its own, tied to the device by ioctl 0xd4;
 * EXPORT_OBJECTS_TO_FD (3d0b) names it, first with how many objects it may hold and 64 bytes about
 * the pool, then with the memory of each slot that gets some, at the slot's index. The importer
 * sends GET_EXPORT_OBJECT_INFO (3d08), reserves a stretch like the owner's, and takes the objects of
 * an allocation by their index (3d0c). What it imported is freed with the client as parent.
 *
 * Memory of cuMemCreate is exported in the same way, recorded too: as the one object of a
 * descriptor that the program gets; the importer sends 3d08 twice, imports with the device as parent,
 * and queries the surface (410110). The simulator's 64 bytes hold the size of the memory.
 */
#include "sim/cuda/memory/pool_share.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/memory/virtual.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
        EXPORT_TO_FD = 0x3d0b,
        EXPORT_SIZE = 2128,
        IMPORT_FROM_FD = 0x3d0c,
        IMPORT_SIZE = 652,
        EXPORT_INFO = 0x3d08,
        METADATA_SIZE = 64,
        OBJECTS_MAX = 128, /* of one import; an export takes 512 */
        ATTACH_GPUS = 0xd4,
        MAGIC = 0x53424c54,
};

/* The contents of the 64 bytes about a pool or a memory. */
struct note {
        uint32_t magic, reserved;
        uint64_t size;
};

static uint32_t export_objects(int fd, const struct device *device, uint32_t max, const struct note *note,
                               const uint32_t *objects, uint32_t n, uint32_t index)
{
        uint8_t params[EXPORT_SIZE] = { 0 };

        library.has_shared = true;
        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        rm_put32(params, sizeof(params), 4, start_handle(&device->start, NULL, OBJECT_DEVICE));
        rm_put32(params, sizeof(params), 8, max & 0xffff);
        if (note)
                memcpy(params + 10, note, sizeof(*note));
        for (uint32_t i = 0; i < n; i++)
                rm_put32(params, sizeof(params), 76 + 4 * i, objects[i]);
        rm_put32(params, sizeof(params), 2124, n | index << 16);
        return nv_control(&library.nv, library.nv.client, EXPORT_TO_FD, params, sizeof(params));
}

static uint32_t import_objects(int fd, const struct device *device, const uint32_t *objects, uint32_t n, uint32_t index)
{
        uint8_t params[IMPORT_SIZE] = { 0 };

        library.has_shared = true;
        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        rm_put32(params, sizeof(params), 4, start_handle(&device->start, NULL, OBJECT_DEVICE));
        for (uint32_t i = 0; i < n; i++)
                rm_put32(params, sizeof(params), 8 + 4 * i, objects[i]);
        rm_put32(params, sizeof(params), 648, n | index << 16);
        return nv_control(&library.nv, library.nv.client, IMPORT_FROM_FD, params, sizeof(params));
}

/* A descriptor that can hold objects of the device. */
static int export_open(const struct device *device)
{
        _cleanup_(closep) int fd = -1;
        const struct nv *nv = &library.nv;
        uint8_t block[128] = { 0 }, id[40] = { 0 }, ids[128] = { 0 };

        rm_put32(id, sizeof(id), 0, device->start.gpu_id);
        (void)nv_control(nv, nv->client, RM_GET_ID_INFO, id, sizeof(id));
        (void)nv_control(nv, nv->client, RM_GET_ATTACHED_IDS, ids, sizeof(ids));
        memset(id, 0, sizeof(id));
        rm_put32(id, sizeof(id), 0, device->start.gpu_id);
        (void)nv_control(nv, nv->client, RM_GET_ID_INFO, id, sizeof(id));
        fd = nv_node_open("/dev/nvidiactl");
        if (fd < 0)
                return -1;
        rm_put32(block, sizeof(block), 0, device->start.gpu_id);
        if (nv_ioctl(fd, ATTACH_GPUS, block, sizeof(block), UINT32_MAX) != RM_STATUS_OK)
                return -1;
        return TAKE_FD(fd);
}

static CUresult read_note(int fd, struct note *ret)
{
        uint8_t params[128] = { 0 };
        uint32_t size = library.nv.layout.export_info_size;

        if (size > sizeof(params))
                return CUDA_ERROR_NOT_SUPPORTED;
        rm_put32(params, size, 0, (uint32_t)fd);
        if (nv_control(&library.nv, library.nv.client, EXPORT_INFO, params, size) != RM_STATUS_OK)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(ret, params + size - METADATA_SIZE - 2, sizeof(*ret)); /* ends two bytes before the end */
        return ret->magic == MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- pools --------------------------------------------------------------------------------- */

CUresult share_export(CUmemoryPool pool, size_t first, size_t n, struct memory *const *memory)
{
        uint32_t objects[OBJECTS_MAX];

        for (size_t i = 0; i < n;) {
                uint32_t m = 0;
                size_t begin;

                while (i < n && !memory[i])
                        i++;
                begin = i;
                while (i < n && memory[i] && m < OBJECTS_MAX)
                        objects[m++] = memory[i++]->handle;
                if (m && export_objects(pool->fd, pool->device, 0, NULL, objects, m, (uint32_t)(first + begin)) !=
                                 RM_STATUS_OK)
                        return CUDA_ERROR_OUT_OF_MEMORY;
        }
        return CUDA_SUCCESS;
}

CUresult share_import(CUmemoryPool pool, size_t first, size_t n, struct memory **ret)
{
        uint32_t objects[OBJECTS_MAX];
        CUresult r = CUDA_SUCCESS;

        for (size_t i = 0; i < n && r == CUDA_SUCCESS;) {
                uint32_t m = 0, status;
                size_t begin;

                while (i < n && pool->slot[first + i])
                        i++;
                begin = i;
                while (i < n && !pool->slot[first + i] && m < OBJECTS_MAX) {
                        objects[m++] = nv_handle_take(&library.nv);
                        i++;
                }
                if (!m)
                        continue;
                status = import_objects(pool->fd, pool->device, objects, m, (uint32_t)(first + begin));
                for (uint32_t k = 0; k < m; k++) {
                        if (status != RM_STATUS_OK)
                                nv_handle_give(&library.nv, objects[k]);
                        else if (r == CUDA_SUCCESS)
                                r = memory_adopt(pool->device, objects[k], library.nv.client, POOL_SLOT,
                                                 &ret[begin + k]);
                }
                if (status != RM_STATUS_OK)
                        r = result_of(status);
        }
        return r;
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                  unsigned long long flags)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        struct note note;
        uint32_t none = 0;
        int fd;

        if (r != CUDA_SUCCESS)
                return r;
        if (!shareable || !pool || pool->is_imported || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
            !(pool->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
                return CUDA_ERROR_INVALID_VALUE;
        note = (struct note){ .magic = MAGIC, .size = pool->size };
        if (pool->fd < 0) {
                pool->fd = export_open(pool->device);
                if (pool->fd < 0)
                        return CUDA_ERROR_OPERATING_SYSTEM;
                if (export_objects(pool->fd, pool->device, (uint32_t)pool->n_slots, &note, &none, 1, 0) !=
                    RM_STATUS_OK) {
                        closep(&pool->fd);
                        return CUDA_ERROR_NOT_SUPPORTED;
                }
                for (size_t i = 0; i < pool->n_slots && r == CUDA_SUCCESS; i++)
                        if (pool->slot[i])
                                r = share_export(pool, i, 1, &pool->slot[i]->memory);
        }
        fd = fcntl(pool->fd, F_DUPFD_CLOEXEC, 0);
        if (r != CUDA_SUCCESS || fd < 0)
                return r != CUDA_SUCCESS ? r : CUDA_ERROR_OPERATING_SYSTEM;
        memcpy(shareable, &fd, sizeof(fd));
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                                    unsigned long long flags)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);
        struct note note;
        int fd;

        if (r != CUDA_SUCCESS)
                return r;
        if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_INVALID_VALUE;
        fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return CUDA_ERROR_INVALID_VALUE;
        r = read_note(fd, &note);
        if (r == CUDA_SUCCESS)
                r = pool_new(context->device, NULL, pool);
        if (r != CUDA_SUCCESS) {
                closep(&fd);
                return r;
        }
        (*pool)->is_imported = true;
        (*pool)->fd = fd;
        return CUDA_SUCCESS;
}

struct pointer_note {
        uint32_t magic, reserved;
        uint64_t offset, size;
};

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr at)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation;
        struct pointer_note note;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_named(at);
        if (!data || !allocation || allocation->kind != ALLOCATION_POOL || allocation->pool->fd < 0)
                return CUDA_ERROR_INVALID_VALUE;
        note = (struct pointer_note){ MAGIC, 0, at - allocation->pool->base, allocation->span.size };
        memset(data, 0, sizeof(*data));
        memcpy(data, &note, sizeof(note));
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *at, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        struct pointer_note note;
        struct block *block;
        CUcontext context;
        CUresult r = context_enter(&context);
        uint64_t base;

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !pool || !pool->is_imported || !data)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(&note, data, sizeof(note));
        if (note.magic != MAGIC || !note.size || note.offset > pool->size || note.size > pool->size - note.offset)
                return CUDA_ERROR_INVALID_VALUE;

        base = pool->base + note.offset;
        pool_trim(pool, UINT64_MAX); /* only forgets what was freed */
        block = pool_block(pool, base);
        if (block && block->state == BLOCK_LIVE) {
                block->n_imported++;
                *at = base;
                return CUDA_SUCCESS;
        }
        r = pool_back(pool, note.offset / POOL_SLOT, (note.offset + note.size - 1) / POOL_SLOT);
        if (r == CUDA_SUCCESS)
                r = pool_block_put(pool, base, note.size, BLOCK_LIVE, &block);
        if (r == CUDA_SUCCESS)
                r = allocation_new(context, ALLOCATION_POOL, base, note.size, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        block->n_imported = 1;
        allocation->pool = pool;
        pool->used += note.size;
        *at = base;
        return CUDA_SUCCESS;
}

/* ---- memory of cuMemCreate ----------------------------------------------------------------- */

CUresult share_memory(struct memory *memory, int *ret)
{
        _cleanup_(closep) int fd = export_open(memory->device);
        struct note note = { .magic = MAGIC, .size = memory->size };

        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        if (export_objects(fd, memory->device, 1, &note, &memory->handle, 1, 0) != RM_STATUS_OK)
                return CUDA_ERROR_NOT_SUPPORTED;
        *ret = TAKE_FD(fd);
        return CUDA_SUCCESS;
}

static void ask_surface(uint32_t memory)
{
        uint8_t params[16] = { 0 }, list[24] = { 0 };

        rm_put32(list, sizeof(list), 0, 2); /* bytes, low and high; the kind of its address space */
        rm_put32(list, sizeof(list), 8, 3);
        rm_put32(list, sizeof(list), 16, 9);
        rm_put32(params, sizeof(params), 0, 3);
        rm_put64(params, sizeof(params), 8, (uintptr_t)list);
        (void)nv_control(&library.nv, memory, 0x410110, params, sizeof(params));
}

CUresult share_memory_import(struct device *device, int fd, struct memory **ret)
{
        struct note note;
        uint32_t handle, status;
        CUresult r = read_note(fd, &note);

        if (r == CUDA_SUCCESS)
                r = read_note(fd, &note);
        if (r != CUDA_SUCCESS)
                return r;
        handle = nv_handle_take(&library.nv);
        status = import_objects(fd, device, &handle, 1, 0);
        if (status != RM_STATUS_OK) {
                nv_handle_give(&library.nv, handle);
                return result_of(status);
        }
        ask_surface(handle);
        return memory_adopt(device, handle, start_handle(&device->start, NULL, OBJECT_DEVICE), note.size, ret);
}
