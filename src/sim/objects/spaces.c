/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces that the driver manages itself (class 0x90f1 without the flag "externally owned"), through ranges of
 * class 0x70: what is mapped there, and where. Engines that are given addresses (engine/copies.c) look them up here.
 * A mapping goes with the handle of its memory, of its range or of its space, as in the driver, which unmaps what it
 * frees. Reservations of class 0x50a0 are objects/tables.c, and no engine looks there.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
        RANGE_AT = 8, /* of MAP_DMA and UNMAP_DMA: hDma, hMemory */
        MEMORY_AT = 12,
        MAP_OFFSET_AT = 16,
        HOLE_LEAST = 64 * 1024,
        MAP_LENGTH_AT = 24,
        MAP_FLAGS_AT = 32,
        UNMAP_BASE_AT = 24,
        FLAG_FIXED = 1 << 15,
};

#define FIRST_ADDRESS (512 * MIB)
#define ADDRESSES_END (1ull << 40) /* an entry of a ring has 40 bits */

struct dma_map {
        struct dma_map *next;
        uint32_t client, range, space, handle;
        uint64_t base, length, offset;
        struct memory *memory; /* the handle's: it goes first */
};

static bool is_in(const struct dma_map *map, uint32_t client, uint32_t space)
{
        return map->client == client && map->space == space;
}

/* Behind all that is there. */
static uint64_t address_new(const struct machine *machine, uint32_t client, uint32_t space)
{
        uint64_t at = FIRST_ADDRESS;

        for (const struct dma_map *map = machine->dma_maps; map; map = map->next)
                if (is_in(map, client, space) && map->base + map->length > at)
                        at = map->base + map->length;
        return (at + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static bool is_free(const struct machine *machine, const struct dma_map *wanted)
{
        for (const struct dma_map *map = machine->dma_maps; map; map = map->next)
                if (is_in(map, wanted->client, wanted->space) && map->base < wanted->base + wanted->length &&
                    wanted->base < map->base + map->length)
                        return false;
        return true;
}

/* A range of class 0x70: hVASpace@16. It ends with the space. */
void range_note(struct object *object, const struct part *params)
{
        handles_depend(object, rm_get32(params->data, params->size, 16));
}

uint32_t space_map(struct request *request, const struct object *range)
{
        struct machine *machine = request->file->machine;
        const struct part *block = &request->block;
        struct object *object = handles_get(request->client, rm_get32(block->data, block->size, MEMORY_AT));
        size_t base_at = request->call.status_at - 8;
        _cleanup_(freep) struct dma_map *map = NULL;

        if (!object || !object->memory)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (machine->faults.map_refused_at && --machine->faults.map_refused_at == 0)
                return RM_STATUS_NO_MEMORY;
        map = calloc(1, sizeof(*map));
        if (!map)
                return RM_STATUS_NO_MEMORY;
        *map = (struct dma_map){ .client = request->client->top.handle,
                                 .range = range->handle,
                                 .space = range->depends[0],
                                 .handle = object->handle,
                                 .length = rm_get64(block->data, block->size, MAP_LENGTH_AT),
                                 .offset = rm_get64(block->data, block->size, MAP_OFFSET_AT),
                                 .memory = object->memory };
        if (map->length > object->memory->size || map->offset > object->memory->size - map->length)
                return RM_STATUS_INVALID_ARGUMENT;
        map->base = rm_get32(block->data, block->size, MAP_FLAGS_AT) & FLAG_FIXED ?
                            rm_get64(block->data, block->size, base_at) :
                            address_new(machine, map->client, map->space);
        if (!map->length || map->base > ADDRESSES_END - map->length || !is_free(machine, map))
                return RM_STATUS_INVALID_ARGUMENT;
        rm_put64(block->data, block->size, base_at, map->base);
        map->next = machine->dma_maps;
        machine->dma_maps = TAKE(map);
        return RM_STATUS_OK;
}

void space_unmap(struct request *request)
{
        struct machine *machine = request->file->machine;
        const struct part *block = &request->block;

        for (struct dma_map **at = &machine->dma_maps; *at;) {
                struct dma_map *map = *at;

                if (map->client != request->client->top.handle ||
                    map->range != rm_get32(block->data, block->size, RANGE_AT) ||
                    map->handle != rm_get32(block->data, block->size, MEMORY_AT) ||
                    map->base != rm_get64(block->data, block->size, UNMAP_BASE_AT)) {
                        at = &map->next;
                        continue;
                }
                *at = map->next;
                free(map);
        }
}

void space_forget(struct machine *machine, const struct object *object)
{
        uint32_t client = object->client->top.handle, handle = object->handle;

        for (struct dma_map **at = &machine->dma_maps; *at;) {
                struct dma_map *map = *at;

                if (map->client != client || (map->range != handle && map->handle != handle && map->space != handle)) {
                        at = &map->next;
                        continue;
                }
                *at = map->next;
                free(map);
        }
}

/* ---- by address ------------------------------------------------------------------------------------------- */

static bool is_zero(const char *buffer, size_t size)
{
        return !*buffer && !memcmp(buffer, buffer + 1, size - 1);
}

/* Zeros are as good as a hole, which costs the host no page: what comes back to a device is mostly that. */
static ssize_t file_write(int fd, const void *buffer, size_t size, uint64_t offset)
{
        if (size >= HOLE_LEAST && is_zero(buffer, size) &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) == 0)
                return (ssize_t)size;
        return pwrite(fd, buffer, size, (off_t)offset);
}

/* The process's own pages, or those of the memory. */
static ssize_t memory_move(struct memory *memory, bool is_write, void *buffer, size_t size, uint64_t offset)
{
        struct iovec ours = { buffer, size }, theirs = { (void *)(uintptr_t)(memory->pages_at + offset), size };
        int fd;

        if (memory->pages_of)
                return is_write ? process_vm_writev(memory->pages_of, &ours, 1, &theirs, 1, 0) :
                                  process_vm_readv(memory->pages_of, &ours, 1, &theirs, 1, 0);
        fd = mem_fd(memory);
        if (fd < 0)
                return fd;
        return is_write ? file_write(fd, buffer, size, offset) : pread(fd, buffer, size, (off_t)offset);
}

static struct dma_map *map_at(const struct machine *machine, const struct channel *channel, uint64_t at)
{
        struct dma_map *map = machine->dma_maps;

        while (map && (!is_in(map, channel->client, channel->space) || at < map->base || at >= map->base + map->length))
                map = map->next;
        return map;
}

struct memory *space_memory(const struct machine *machine, const struct channel *channel, uint64_t at)
{
        const struct dma_map *map = map_at(machine, channel, at);

        return map ? map->memory : NULL;
}

bool space_move(struct machine *machine, const struct channel *channel, bool is_write, uint64_t at, void *buffer,
                size_t size)
{
        char *next = buffer;

        while (size) {
                struct dma_map *map = map_at(machine, channel, at);
                size_t part;

                if (!map)
                        return false;
                part = map->base + map->length - at < size ? (size_t)(map->base + map->length - at) : size;
                if (memory_move(map->memory, is_write, next, part, map->offset + at - map->base) != (ssize_t)part)
                        return false;
                at += part;
                next += part;
                size -= part;
        }
        return true;
}
