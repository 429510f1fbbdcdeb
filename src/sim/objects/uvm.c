/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UVM: a VA space per open of the node, and ranges of addresses in it.
 *
 *      external   made by CREATE_EXTERNAL; MAP_EXTERNAL maps RM memory there, and holds it: freeing the
 *                 RM object does not return the memory until UNMAP_EXTERNAL, FREE or the space's end
 *      pool       made by SEMAPHORE_POOL, in host memory; the program maps it
 *      plain      made by MAP_DYNAMIC_PARALLELISM: addresses only
 *      managed    made by mmap of the node, offset == address; takes evictable memory of a device's
 *                 heap, 2 MiB at a time, all at once (the real one does so when it is touched)
 *
 * Ranges of a space do not overlap. Source: docs/rm-abi.md 2.5, 8.3; kernel-open/nvidia-uvm/uvm.c, 580.142.
 */
#include "sim/objects/uvm.h"

#include "base/cleanup.h"
#include "base/process.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        STATUS_ILLEGAL_ACTION = 0x16,
        STATUS_GPU_UUID_NOT_FOUND = 0x12,
        STATUS_INVALID_DEVICE = 0x26,
        ATTRIBUTES_AT = 24, /* of MAP_EXTERNAL: the first one's uuid */
        UNMAP_UUID_AT = 16, /* of UNMAP_EXTERNAL */
        MULTI_PROCESS = 2,  /* flag of INITIALIZE: any process may map */
};

/* ---- calls: each returns a status ---------------------------------------------------------- */

static uint32_t space_initialize(struct request *request)
{
        uint64_t flags = rm_get64(request->block.data, request->block.size, 0);

        if (request->file->space)
                return RM_STATUS_OK;
        request->file->space = calloc(1, sizeof(*request->file->space));
        if (!request->file->space)
                return RM_STATUS_NO_MEMORY;
        request->file->space->pid = flags & MULTI_PROCESS ? 0 : request->sender.pid;
        return RM_STATUS_OK;
}

static uint32_t register_gpu(struct machine *machine, struct request *request, struct space *space)
{
        struct gpu *gpu = gpu_by_uuid(machine, request->block.data);

        if (!gpu)
                return STATUS_GPU_UUID_NOT_FOUND;
        if (gpu->is_lost)
                return SIM_STATUS_GPU_IS_LOST;
        if (!space->gpu && gpu_register(gpu) != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        if (!space->gpu)
                space->gpu = gpu;
        request->block.data[16] = 0;                                        /* numaEnabled */
        rm_put32(request->block.data, request->block.size, 20, UINT32_MAX); /* numaNodeId */
        return RM_STATUS_OK;
}

/* With all that the space has there. Which of several devices a space has is not kept: the first goes. */
static uint32_t unregister_gpu(struct machine *machine, const struct request *request, struct space *space)
{
        struct gpu *gpu = gpu_by_uuid(machine, request->block.data);

        if (!gpu)
                return STATUS_GPU_UUID_NOT_FOUND;
        if (space->gpu != gpu)
                return STATUS_INVALID_DEVICE;
        for (struct range *range = space->ranges; range; range = range->next) {
                range_unmap(range, range->base, range->length, gpu);
                if (range->kind == RANGE_MANAGED && range->gpu == gpu)
                        range_move(range, range->base, range->length, NULL);
        }
        while (space->retained)
                retained_drop(&space->retained);
        gpu_unregister(gpu);
        space->gpu = NULL;
        return RM_STATUS_OK;
}

/* UVM ignores the descriptor that the call names. It dups the memory for itself, which the default policy allows only
 * for the process that made the client (rs_server.c, client_resource.c, 525 to 595). */
static uint32_t memory_named(struct machine *machine, const struct request *request, struct memory **ret)
{
        struct client *client = handles_client(&machine->handles, request->call.source_client);
        const struct object *object;

        if (!client)
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        object = handles_get(client, request->call.source_object);
        if (!object || !object->memory)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (!alloc_may_dup(object, request->sender.pid, request->sender.uid))
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        *ret = object->memory;
        return RM_STATUS_OK;
}

/* The device in whose page tables it is to be: the one that is named, else the space's first. */
static struct gpu *mapped_on(struct machine *machine, const struct space *space, const struct request *request)
{
        struct gpu *gpu = gpu_by_uuid(machine, request->block.data + ATTRIBUTES_AT);

        return gpu ? gpu : space->gpu;
}

/* Of the mapping that was put into the range, the first of it; without room it goes again. */
static uint32_t mapping_tables(struct gpu *gpu, struct range *range, struct mapping *mapping, uint32_t pages)
{
        if (!gpu)
                return RM_STATUS_OK;
        if (mmu_take(gpu, mapping->base, mapping->length, pages, &mapping->tables) == HEAP_OK) {
                mapping->gpu = gpu;
                return RM_STATUS_OK;
        }
        range->mappings = mapping->next;
        mem_unref(mapping->memory);
        free(mapping);
        return RM_STATUS_NO_MEMORY;
}

static uint32_t map_external(struct machine *machine, struct request *request, struct space *space)
{
        struct range *range = range_at(space, request->call.base, request->call.length);
        uint64_t offset = rm_get64(request->block.data, request->block.size, 16);
        struct gpu *gpu = mapped_on(machine, space, request);
        struct memory *memory;
        struct mapping *mapping;
        uint32_t status;

        if (!range || range->kind != RANGE_EXTERNAL || !request->call.length)
                return SIM_STATUS_INVALID_ADDRESS;
        status = memory_named(machine, request, &memory);
        if (status != RM_STATUS_OK)
                return status;
        if (!is_inside(offset, request->call.length, 0, memory->size))
                return RM_STATUS_INVALID_ARGUMENT;
        if (machine->faults.map_refused_at && --machine->faults.map_refused_at == 0)
                return RM_STATUS_NO_MEMORY;
        mapping = malloc(sizeof(*mapping));
        if (!mapping)
                return RM_STATUS_NO_MEMORY;
        memory = mem_ref(memory); /* it may be mapped there already */
        range_unmap(range, request->call.base, request->call.length, gpu);
        *mapping = (struct mapping){ range->mappings, request->call.base, request->call.length, memory, NULL, 0 };
        range->mappings = mapping;
        range_adopt(range, mapping);
        return mapping_tables(gpu, range, mapping, RM_ATTR_PAGE_SIZE(memory->attr));
}

/* Pages that lead nowhere: those of 64 KiB, as far as the page tables go. */
static uint32_t map_sparse(const struct request *request, struct space *space)
{
        struct range *range = range_at(space, request->call.base, request->call.length);
        struct mapping *mapping;

        if (!range || range->kind != RANGE_EXTERNAL || range->base != request->call.base ||
            range->length != request->call.length || range->mappings)
                return SIM_STATUS_INVALID_ADDRESS;
        mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
                return RM_STATUS_NO_MEMORY;
        *mapping = (struct mapping){ .base = range->base, .length = range->length };
        range->mappings = mapping;
        return mapping_tables(space->gpu, range, mapping, 2);
}

static uint32_t unmap_external(struct machine *machine, const struct request *request, struct space *space)
{
        struct range *range = range_at(space, request->call.base, request->call.length);
        bool is_refused = machine->faults.unmap_refused_at && --machine->faults.unmap_refused_at == 0;

        if (!range || range->kind != RANGE_EXTERNAL || is_refused)
                return SIM_STATUS_INVALID_ADDRESS;
        range_unmap(range, request->call.base, request->call.length,
                    gpu_by_uuid(machine, request->block.data + UNMAP_UUID_AT));
        return RM_STATUS_OK;
}

static uint32_t free_range(const struct request *request, struct space *space)
{
        struct range *range = range_at(space, request->call.base, 1);

        if (!range || range->base != request->call.base || range->kind == RANGE_MANAGED)
                return SIM_STATUS_INVALID_ADDRESS;
        range_free(space, range);
        return RM_STATUS_OK;
}

static uint32_t range_validate(const struct request *request, const struct space *space)
{
        const struct range *range = range_at(space, request->call.base, request->call.length);

        return range && range->base == request->call.base && range->length == request->call.length ?
                       RM_STATUS_OK :
                       SIM_STATUS_INVALID_ADDRESS;
}

/* A managed range outlives a process that exits without unmapping it, until somebody asks for this
 * (uvm_vm_close_managed). */
static uint32_t zombies_free(struct space *space)
{
        struct range *next;

        for (struct range *range = space->ranges; range; range = next) {
                next = range->next;
                if (range->kind == RANGE_MANAGED && !process_is_alive(range->mapper))
                        range_free(space, range);
        }
        return RM_STATUS_OK;
}

/* uuid, descriptor, client@20, channel@24 */
static uint32_t register_channel(struct machine *machine, const struct request *request, struct space *space)
{
        uint32_t name = rm_get32(request->block.data, request->block.size, 20);
        struct client *client = handles_client(&machine->handles, name);
        const struct object *object;
        struct retained *retained;

        object = client ? handles_get(client, rm_get32(request->block.data, request->block.size, 24)) : NULL;
        if (!object || !object->channel)
                return RM_STATUS_OK; /* what else is registered is not simulated */
        retained = calloc(1, sizeof(*retained));
        if (!retained)
                return RM_STATUS_NO_MEMORY;
        *retained = (struct retained){ space->retained, name, object->handle, object->channel->group };
        retained->group->refs++;
        retained->group->is_retained = true;
        space->retained = retained;
        return RM_STATUS_OK;
}

static uint32_t unregister_channel(const struct request *request, struct space *space)
{
        uint32_t client = rm_get32(request->block.data, request->block.size, 0);
        uint32_t channel = rm_get32(request->block.data, request->block.size, 4);

        for (struct retained **at = &space->retained; *at; at = &(*at)->next)
                if ((*at)->client == client && (*at)->channel == channel) {
                        retained_drop(at);
                        break;
                }
        return RM_STATUS_OK;
}

/* Its channels on the device go with it. Source: remove_gpu_va_space (uvm_va_space.c), 535 to 595. */
static uint32_t unregister_gpu_va_space(struct machine *machine, const struct request *request, struct space *space)
{
        const struct gpu *gpu = gpu_by_uuid(machine, request->block.data);
        struct retained **at = &space->retained;

        while (*at)
                if ((*at)->group->gpu == gpu)
                        retained_drop(at);
                else
                        at = &(*at)->next;
        return RM_STATUS_OK;
}

static uint32_t space_call(struct machine *machine, struct request *request, struct space *space)
{
        switch (request->call.kind) {
        case RM_UVM_REGISTER_GPU:
                return register_gpu(machine, request, space);
        case RM_UVM_UNREGISTER_GPU:
                return unregister_gpu(machine, request, space);
        case RM_UVM_CREATE_EXTERNAL:
                return range_new(space, RANGE_EXTERNAL, request->call.base, request->call.length, NULL);
        case RM_UVM_SEMAPHORE_POOL:
                return range_new(space, RANGE_POOL, request->call.base, request->call.length, NULL);
        case RM_UVM_MAP_DYNAMIC_PARALLELISM:
                return range_new(space, RANGE_PLAIN, request->call.base, request->call.length, NULL);
        case RM_UVM_MAP_EXTERNAL:
                return map_external(machine, request, space);
        case RM_UVM_MAP_EXTERNAL_SPARSE:
                return map_sparse(request, space);
        case RM_UVM_REGISTER_CHANNEL:
                return register_channel(machine, request, space);
        case RM_UVM_UNREGISTER_CHANNEL:
                return unregister_channel(request, space);
        case RM_UVM_UNREGISTER_GPU_VASPACE:
                return unregister_gpu_va_space(machine, request, space);
        case RM_UVM_UNMAP_EXTERNAL:
                return unmap_external(machine, request, space);
        case RM_UVM_FREE:
                return free_range(request, space);
        case RM_UVM_SET_PREFERRED_LOCATION:
                return managed_prefer(machine, request, space);
        case RM_UVM_MIGRATE:
                return managed_migrate(machine, request, space);
        case RM_UVM_CLEAN_UP_ZOMBIES:
                return zombies_free(space);
        case RM_UVM_VALIDATE_RANGE:
                return range_validate(request, space);
        case RM_UVM_CREATE_RANGE_GROUP:
                if (map_put(&space->groups, ++machine->n_range_groups, space) < 0)
                        return RM_STATUS_NO_MEMORY;
                rm_put64(request->block.data, request->block.size, 0, machine->n_range_groups);
                return RM_STATUS_OK;
        case RM_UVM_DESTROY_RANGE_GROUP:
                return map_take(&space->groups, rm_get64(request->block.data, request->block.size, 0)) ?
                               RM_STATUS_OK :
                               RM_STATUS_OBJECT_NOT_FOUND;
        case RM_UVM_PAGEABLE_ACCESS:
                request->block.data[0] = 0;
                return RM_STATUS_OK;
        case RM_UVM_PAGEABLE_ACCESS_ON_GPU:
                request->block.data[16] = 0;
                return RM_STATUS_OK;
        default:
                return RM_STATUS_OK;
        }
}

int uvm_ioctl(struct machine *machine, struct request *request)
{
        struct space *space = request->file->space;
        uint32_t status;

        if (request->call.kind == RM_UVM_DEINITIALIZE)
                return 0; /* as in the driver: a space ends with its file */
        if (request->call.kind == RM_UVM_INITIALIZE)
                status = space_initialize(request);
        else if (request->call.kind == RM_UVM_MM_INITIALIZE)
                status = request->named && request->named->space ? RM_STATUS_OK : RM_STATUS_INVALID_ARGUMENT;
        else
                status = space ? space_call(machine, request, space) : STATUS_ILLEGAL_ACTION;
        rm_put32(request->block.data, request->block.size, request->call.status_at, status);
        return 0;
}

/* ---- mmap, munmap -------------------------------------------------------------------------- */

static int range_fd(struct range *range)
{
        _cleanup_(closep) int fd = -1;

        if (range->fd >= 0)
                return range->fd;
        fd = memfd_create("nvidia-uvm", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)range->length) < 0)
                return -errno;
        range->fd = TAKE_FD(fd);
        return range->fd;
}

/* A range ends with an address space, which children may share (CLONE_VM): that of the eldest that has it. */
static pid_t address_space_of(pid_t process)
{
        enum { KCMP_VM_ = 1 }; /* linux/kcmp.h */
        pid_t parent = process_parent(process);

        while (parent > 1 && syscall(SYS_kcmp, process, parent, KCMP_VM_, 0, 0) == 0) {
                process = parent;
                parent = process_parent(process);
        }
        return process;
}

int uvm_mmap(struct machine *machine, struct request *request)
{
        const uint64_t *argument = request->header.argument;
        uint64_t base = argument[0], length = (argument[1] + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
        struct space *space = request->file->space;
        struct range *range;
        int fd;

        (void)machine;
        if (!space)
                return -EBADFD;
        if (space->pid && space->pid != request->sender.pid)
                return -EOPNOTSUPP;
        if (argument[4] != base || !(argument[3] & MAP_SHARED) ||
            (argument[2] & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE))
                return -EINVAL;
        range = range_at(space, base, length);
        if (range && (range->kind != RANGE_POOL || range->base != base || range->length != length))
                return -EINVAL;
        if (!range) {
                if (range_new(space, RANGE_MANAGED, base, length, &range) != RM_STATUS_OK)
                        return -EINVAL;
                range->mapper = address_space_of(request->sender.pid);
                range_move(range, base, length, space->gpu);
        }
        fd = range_fd(range);
        if (fd < 0)
                return fd;
        request->fd = fd;
        request->argument[0] = 0;
        request->argument[1] = SIM_MAP_UVM;
        return 0;
}

/* What is left of a managed range after [base, base + length) is unmapped; a hole inside is ignored. */
static void range_shrink(struct space *space, struct range *range, uint64_t base, uint64_t length)
{
        uint64_t end = range->base + range->length;

        if (is_inside(range->base, range->length, base, length)) {
                range_free(space, range);
                return;
        }
        if (base <= range->base && base + length > range->base) {
                range->length = end - (base + length);
                range->base = base + length;
        } else if (base > range->base && base < end && base + length >= end) {
                range->length = base - range->base;
        } else {
                return;
        }
        range_fit(range);
}

int uvm_munmap(struct machine *machine, struct request *request)
{
        uint64_t base = request->header.argument[0], length = request->header.argument[1];
        struct range *next;

        (void)machine;
        if (!request->file->space)
                return 0;
        for (struct range *range = request->file->space->ranges; range; range = next) {
                next = range->next;
                if (range->kind == RANGE_MANAGED && base + length > base)
                        range_shrink(request->file->space, range, base, length);
        }
        return 0;
}
