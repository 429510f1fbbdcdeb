/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that move managed memory between device and host. Source: uvm_api_migrate (uvm_migrate.c), 535 to 595. */
#include "sim/objects/uvm.h"

#include "rm/numbers.h"

#include <string.h>

enum {
        STATUS_INVALID_DEVICE = 0x26,
        DESTINATION_AT = 16,
        FLAGS_AT = 32,
        ASYNC = 1,
        SEMAPHORE_AT = 40,
};

/* NV_PROCESSOR_UUID_CPU_DEFAULT (nvCpuUuid.c) */
static const uint8_t host_uuid[16] = { 0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2,
                                       0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73 };

/* The managed ranges of these addresses, which leave none out. */
static bool are_managed(const struct space *space, uint64_t base, uint64_t length)
{
        const struct range *range = base % HOST_PAGE || length % HOST_PAGE || !length ? NULL : range_at(space, base, 1);
        uint64_t end = base + length;

        while (range && range->kind == RANGE_MANAGED && range->base <= base && range->base + range->length < end) {
                base = range->base + range->length;
                range = range->next;
        }
        return range && range->kind == RANGE_MANAGED && range->base <= base && end > base;
}

/* Moves managed memory; to the CPU, which is no device here, means that it leaves the heap at once. (The real one has
 * it as nobody's until somebody wants it.) */
static void ranges_move(struct space *space, uint64_t base, uint64_t length, struct gpu *gpu)
{
        for (struct range *range = space->ranges; range; range = range->next)
                if (range->kind == RANGE_MANAGED && range->base < base + length && base < range->base + range->length)
                        range_move(range, base, length, gpu);
}

uint32_t managed_migrate(struct machine *machine, const struct request *request, struct space *space)
{
        const uint8_t *block = request->block.data, *to = block + DESTINATION_AT;
        uint64_t base = request->call.base, length = request->call.length;
        uint32_t flags = rm_get32(block, request->block.size, FLAGS_AT);
        struct gpu *gpu = gpu_by_uuid(machine, to);
        bool is_refused;

        if (flags & ~(uint32_t)ASYNC || (!flags && rm_get64(block, request->block.size, SEMAPHORE_AT)))
                return RM_STATUS_INVALID_ARGUMENT;
        if (gpu ? !space->gpu : memcmp(to, host_uuid, sizeof(host_uuid)) != 0)
                return STATUS_INVALID_DEVICE;
        if (!are_managed(space, base, length))
                return SIM_STATUS_INVALID_ADDRESS;
        is_refused = !gpu && machine->faults.migrate_refused_at && --machine->faults.migrate_refused_at == 0;
        ranges_move(space, base, is_refused ? length / 2 : length, gpu);
        return is_refused ? RM_STATUS_NO_MEMORY : RM_STATUS_OK;
}

uint32_t managed_prefer(struct machine *machine, const struct request *request, struct space *space)
{
        struct gpu *gpu = gpu_by_uuid(machine, request->block.data + DESTINATION_AT);

        if (gpu && !space->gpu)
                return STATUS_INVALID_DEVICE; /* no device is in the space */
        ranges_move(space, request->call.base, request->call.length, gpu);
        return RM_STATUS_OK;
}
