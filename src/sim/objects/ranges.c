/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a UVM space, what is mapped and resident in them, and the space's end. */
#include "sim/objects/uvm.h"

#include "rm/numbers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        STATUS_ADDRESS_IN_USE = 0x68,
};

#define CHUNK (2 * MIB)

bool is_inside(uint64_t base, uint64_t length, uint64_t outer, uint64_t outer_length)
{
        return base >= outer && base - outer <= outer_length && length <= outer_length - (base - outer);
}

/* The range that begins at an address, or the next one below it. */
static struct range *range_below(const struct space *space, uint64_t base)
{
        struct range *below = NULL;

        for (struct range *range = space->ranges; range && range->base <= base; range = range->next)
                below = range;
        return below;
}

struct range *range_at(const struct space *space, uint64_t base, uint64_t length)
{
        struct range *range = range_below(space, base);

        return range && is_inside(base, length, range->base, range->length) ? range : NULL;
}

static bool is_taken(const struct space *space, uint64_t base, uint64_t length)
{
        const struct range *range = range_below(space, base + length - 1);

        return range && base < range->base + range->length;
}

uint32_t range_new(struct space *space, enum range_kind kind, uint64_t base, uint64_t length, struct range **ret)
{
        struct range *range, **at = &space->ranges;

        if (!length || base % HOST_PAGE || length % HOST_PAGE || base > INT64_MAX || length > INT64_MAX - base)
                return SIM_STATUS_INVALID_ADDRESS;
        if (is_taken(space, base, length))
                return STATUS_ADDRESS_IN_USE;
        range = calloc(1, sizeof(*range));
        if (!range)
                return RM_STATUS_NO_MEMORY;
        while (*at && (*at)->base < base)
                at = &(*at)->next;
        *range = (struct range){ .next = *at, .kind = kind, .base = base, .length = length, .fd = -1 };
        *at = range;
        if (ret)
                *ret = range;
        return RM_STATUS_OK;
}

static void range_evict(struct range *range)
{
        if (range->gpu)
                heap_give_evictable(&range->gpu->heap, &range->evictable);
        range->gpu = NULL;
}

/* Of the chunks that reach into [base, end) the first, and the one behind the last. */
static size_t chunk_first(const struct range *range, uint64_t base)
{
        return (base - range->made_at) / CHUNK;
}

static size_t chunk_end(const struct range *range, uint64_t end)
{
        return (end - range->made_at + CHUNK - 1) / CHUNK;
}

/* What other memory has made leave the device does not come back by that. */
static void range_take(struct range *range, struct gpu *gpu, bytes most)
{
        bytes wanted = 0;

        for (size_t i = chunk_first(range, range->base); i < chunk_end(range, range->base + range->length); i++)
                wanted += range->is_on[i] ? CHUNK : 0;
        range_evict(range);
        if (!gpu || !wanted)
                return;
        heap_take_evictable(&gpu->heap, &range->evictable, wanted < most ? wanted : most);
        range->gpu = gpu;
}

void range_move(struct range *range, uint64_t base, uint64_t length, struct gpu *gpu)
{
        uint64_t end = range->base + range->length;

        if (!range->is_on) {
                range->made_at = range->base;
                range->is_on = calloc(chunk_end(range, end), 1);
        }
        if (!range->is_on)
                return;
        if (gpu && range->gpu && range->gpu != gpu)
                memset(range->is_on, 0, chunk_end(range, end));
        end = base + length < end ? base + length : end;
        base = base > range->base ? base : range->base;
        for (size_t i = chunk_first(range, base); i < chunk_end(range, end); i++)
                range->is_on[i] = gpu != NULL;
        range_take(range, gpu ? gpu : range->gpu, gpu ? UINT64_MAX : range->evictable.held);
}

void range_fit(struct range *range)
{
        if (range->is_on)
                range_take(range, range->gpu, range->evictable.held);
}

static struct kept_file **kept_at(struct range *range, uint64_t base, uint64_t length)
{
        struct kept_file **at = &range->kept;

        while (*at && ((*at)->base != base || (*at)->length != length))
                at = &(*at)->next;
        return at;
}

static void kept_drop(struct kept_file **at)
{
        struct kept_file *kept = *at;

        *at = kept->next;
        if (kept->fd >= 0)
                close(kept->fd);
        free(kept);
}

static void file_keep(struct range *range, const struct mapping *mapping)
{
        struct kept_file **at, *kept;

        if (range->kind != RANGE_EXTERNAL || !mapping->memory || mapping->memory->fd < 0 ||
            mapping->memory->size != mapping->length)
                return;
        at = kept_at(range, mapping->base, mapping->length);
        if (*at)
                kept_drop(at);
        kept = malloc(sizeof(*kept));
        if (!kept)
                return;
        *kept = (struct kept_file){ range->kept, mapping->base, mapping->length,
                                    fcntl(mapping->memory->fd, F_DUPFD_CLOEXEC, 0) };
        range->kept = kept;
}

void range_adopt(struct range *range, const struct mapping *mapping)
{
        struct kept_file **at = kept_at(range, mapping->base, mapping->length);

        if (!*at || mapping->length != mapping->memory->size)
                return;
        if (mem_adopt(mapping->memory, (*at)->fd))
                (*at)->fd = -1;
        kept_drop(at);
}

void range_unmap(struct range *range, uint64_t base, uint64_t length, const struct gpu *gpu)
{
        for (struct mapping **at = &range->mappings; *at;) {
                struct mapping *mapping = *at;

                if (!is_inside(mapping->base, mapping->length, base, length) || (gpu && mapping->gpu != gpu)) {
                        at = &mapping->next;
                        continue;
                }
                *at = mapping->next;
                file_keep(range, mapping);
                if (mapping->gpu)
                        mmu_give(mapping->gpu, mapping->tables);
                mem_unref(mapping->memory);
                free(mapping);
        }
}

void range_free(struct space *space, struct range *range)
{
        LIST_REMOVE(&space->ranges, range);
        range_unmap(range, range->base, range->length, NULL);
        range_evict(range);
        while (range->kept)
                kept_drop(&range->kept);
        if (range->fd >= 0)
                close(range->fd);
        free(range->is_on);
        free(range);
}

void retained_drop(struct retained **at)
{
        struct retained *retained = *at;

        *at = retained->next;
        group_unref(retained->group);
        free(retained);
}

struct space *space_free(struct space *space)
{
        if (!space)
                return NULL;
        while (space->ranges)
                range_free(space, space->ranges);
        while (space->retained)
                retained_drop(&space->retained);
        if (space->gpu)
                gpu_unregister(space->gpu);
        map_done(&space->groups);
        free(space);
        return NULL;
}
