/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls of a move, for one memory: unmap 66 and free 0x29, allocate 0x2b and map 33, each with the lock of
 * its client or space, as the tenant's own would be made (docs/locking.md). Blocks: docs/rm-abi.md.
 */
#include "gate/books.h"
#include "gate/move/inside.h"

#include "base/cleanup.h"
#include "rm/encode.h"
#include "rm/numbers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        UNMAP_SIZE = 40, /* base, length, uuid@16, status@32 */
        UNMAP_UUID_AT = 16,
        UNMAP_STATUS_AT = 32,
        UUID_SIZE = 16,
        MAP_SIZE_MAX = 9600,
        MAP_OFFSET_AT = 16,
        ATTRIBUTES_AT = 24,
        ATTACHED_IDS_SIZE = 128,
};

#define STATUS_GONE UINT32_MAX /* ours: the space has ended */

/* ---- the tenant's files ---------------------------------------------------------------------------------- */

/* The driver answers for another file that there is no such client (measured, docs/time.md). */
static bool is_file_of(struct gate *gate, int fd, uint32_t client)
{
        uint8_t ids[ATTACHED_IDS_SIZE] = { 0 };
        struct rm_control control = { client, client, RM_GET_ATTACHED_IDS, ids, sizeof(ids) };
        uint32_t minor;

        return gate->options.driver.node(gate->options.driver.context, fd, &minor) == RM_NODE_CTL &&
               gate_driver_control(&gate->options.driver, fd, &control) == RM_STATUS_OK;
}

/* One of the process's; -1. */
static int file_at(struct gate *gate, const struct process *process, int theirs, uint32_t client)
{
        int fd = process_fd(process, process->id, theirs);

        if (fd >= 0 && is_file_of(gate, fd, client))
                return fd;
        gate_fd_put(gate, fd);
        return -1;
}

static int file_search(struct gate *gate, const struct process *process, uint32_t client)
{
        const struct dirent *entry;
        char path[64];
        DIR *dir;
        int fd = -1;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", process->id);
        dir = opendir(path);
        while (dir && fd < 0 && (entry = readdir(dir)))
                if (isdigit((unsigned char)entry->d_name[0]) && process_fd_may_be_node(process->id, entry->d_name))
                        fd = file_at(gate, process, atoi(entry->d_name), client);
        if (dir)
                (void)closedir(dir);
        return fd;
}

/* Where it was, or anywhere in that process. theirs -1: not known. */
static int file_of_process(struct gate *gate, pid_t id, int theirs, uint32_t client)
{
        struct process *process;
        int fd;

        if (process_find(&gate->processes, id, &process) < 0)
                return -1;
        fd = theirs < 0 ? -1 : file_at(gate, process, theirs, client);
        if (fd < 0)
                fd = file_search(gate, process, client);
        process_put(&gate->processes, process);
        return fd;
}

/* Of the process that made the memory; else of whoever has the file: its child, say, after it has ended. */
static int file_find(struct gate *gate, const struct ledger_move_object *object)
{
        const struct move_recipe *recipe = (const struct move_recipe *)(const void *)object->recipe.data;
        int fd = file_of_process(gate, recipe->process, recipe->theirs, object->object.client);
        _cleanup_(freep) pid_t *list = NULL;
        ssize_t n = fd < 0 ? processes_list(&gate->processes, &list) : 0;

        for (ssize_t i = 0; i < n && fd < 0; i++)
                if (list[i] != recipe->process)
                        fd = file_of_process(gate, list[i], -1, object->object.client);
        return fd;
}

static int file_of(const struct move_files *files, uint32_t client)
{
        for (size_t i = 0; i < files->n; i++)
                if (files->items[i].client == client)
                        return files->items[i].fd;
        return -1;
}

static bool has_client(struct gate *gate, uint32_t client)
{
        LOCKED(&gate->ledger_lock);

        return ledger_has_client(gate->ledger, client);
}

int move_files_open(struct gate *gate, struct move_files *ret)
{
        const struct ledger_plan *plan = &gate->moving.plan;
        _cleanup_(move_files_done) struct move_files files = { 0 };

        files.items = calloc(gate->moving.n_clients + 1, sizeof(*files.items));
        if (!files.items)
                return -ENOMEM;
        for (size_t i = 0; i < plan->n; i++) {
                uint32_t client = plan->moves[i].object.object.client;
                size_t k = 0;

                while (k < files.n && files.items[k].client != client)
                        k++;
                if (k < files.n || !has_client(gate, client))
                        continue;
                files.items[k].fd = file_find(gate, &plan->moves[i].object);
                if (files.items[k].fd < 0 && has_client(gate, client) && probe_client(&gate->probe, client))
                        return -ESRCH;
                files.items[files.n++].client = client;
        }
        for (size_t i = 0; i < plan->n; i++)
                gate->moving.parts[i].is_gone |= file_of(&files, plan->moves[i].object.object.client) < 0;
        *ret = TAKE(files);
        return 0;
}

void move_files_done(struct move_files *files)
{
        for (size_t i = 0; i < files->n; i++)
                closep(&files->items[i].fd);
        free(files->items);
        *files = (struct move_files){ 0 };
}

/* ---- one call each: a status ----------------------------------------------------------------------------- */

static uint32_t object_free(struct gate *gate, int fd, const struct ledger_object *object)
{
        struct client_lock_pair locks = client_locks_take(gate, object->client, object->client);
        uint32_t status = gate_driver_free(&gate->options.driver, fd, object->client, object->handle);

        client_locks_drop(&locks);
        return status;
}

static uint32_t object_make(struct gate *gate, int fd, const struct ledger_move_object *object)
{
        struct move_recipe recipe = *(const struct move_recipe *)(const void *)object->recipe.data;
        const struct gate_driver *driver = &gate->options.driver;
        struct rm_alloc alloc = { object->object.client,       object->object.parent, object->object.handle,
                                  object->object.class_number, recipe.params,         recipe.params_size };
        uint8_t block[RM_BLOCK_MAX];
        uint32_t size = rm_encode_alloc(&gate->options.layout, &alloc, block);
        struct client_lock_pair locks = client_locks_take(gate, object->object.client, object->object.client);
        int r = driver->ioctl(driver->context, fd, rm_encode_request(RM_NR_ALLOC, size), block);

        client_locks_drop(&locks);
        return r < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES : rm_get32(block, size, gate->options.layout.alloc_status_at);
}

/* Which is in use until files_unuse. */
static bool space_use(struct gate *gate, uint64_t number, struct file *ret)
{
        if (!files_next(&gate->files, number - 1, ret))
                return false;
        if (ret->number == number)
                return true;
        files_unuse(&gate->files, ret->number);
        return false;
}

static uint32_t map_call(struct gate *gate, const struct file *space, uint32_t client, uint32_t request, uint8_t *block,
                         uint32_t size, uint32_t status_at)
{
        const struct gate_driver *driver = &gate->options.driver;
        struct client_lock_pair locks = client_locks_take(gate, client, space->number);
        int r = driver->ioctl(driver->context, space->fd, request, block);

        client_locks_drop(&locks);
        return r < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES : rm_get32(block, size, status_at);
}

static uint32_t map_end(struct gate *gate, uint32_t client, const struct ledger_move_map *map)
{
        const struct move_map_recipe *recipe = (const struct move_map_recipe *)(const void *)map->recipe.data;
        uint8_t block[UNMAP_SIZE] = { 0 };
        struct file space;
        uint32_t status;

        if (!space_use(gate, map->space, &space))
                return STATUS_GONE;
        rm_put64(block, UNMAP_SIZE, 0, map->base);
        rm_put64(block, UNMAP_SIZE, 8, map->length);
        memcpy(block + UNMAP_UUID_AT, recipe->attributes, UUID_SIZE);
        status = map_call(gate, &space, client, UVM_UNMAP_EXTERNAL, block, UNMAP_SIZE, UNMAP_STATUS_AT);
        files_unuse(&gate->files, space.number);
        return status;
}

static uint32_t map_make(struct gate *gate, int fd, const struct ledger_object *object,
                         const struct ledger_move_map *map)
{
        const struct move_map_recipe *recipe = (const struct move_map_recipe *)(const void *)map->recipe.data;
        uint32_t client_at = gate->options.layout.uvm_map_external_client_at, size = client_at + 12, status;
        uint8_t block[MAP_SIZE_MAX] = { 0 };
        struct file space;

        if (size > sizeof(block) || !space_use(gate, map->space, &space))
                return STATUS_GONE;
        rm_put64(block, size, 0, map->base);
        rm_put64(block, size, 8, map->length);
        rm_put64(block, size, MAP_OFFSET_AT, recipe->offset);
        memcpy(block + ATTRIBUTES_AT, recipe->attributes, sizeof(recipe->attributes));
        rm_put64(block, size, client_at - 12, 1); /* attributes, of one device */
        rm_put32(block, size, client_at - 4, (uint32_t)fd);
        rm_put32(block, size, client_at, object->client);
        rm_put32(block, size, client_at + 4, object->handle);
        status = map_call(gate, &space, object->client, UVM_MAP_EXTERNAL, block, size, client_at + 8);
        files_unuse(&gate->files, space.number);
        return status;
}

/* ---- a part ---------------------------------------------------------------------------------------------- */

static bool is_there(struct gate *gate, const struct ledger_move_object *object)
{
        LOCKED(&gate->ledger_lock);

        return ledger_move_is_there(gate->ledger, object);
}

static bool is_mapped(struct gate *gate, const struct ledger_move_map *map, const struct ledger_move_object *object)
{
        LOCKED(&gate->ledger_lock);

        return ledger_map_is_there(gate->ledger, map, object);
}

static void charge_leaves(struct gate *gate, const struct ledger_object *object, bool leaves)
{
        {
                LOCKED(&gate->ledger_lock);
                if (leaves)
                        ledger_away(gate->ledger, object->client, object->handle);
                else
                        ledger_back(gate->ledger, object->client, object->handle);
        }
        gate_usage_changed(gate);
}

static uint32_t part_take(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                          struct move_part *part)
{
        const struct ledger_plan *plan = &gate->moving.plan;
        const struct ledger_object *object = &move->object.object;
        int fd = file_of(files, object->client);
        uint32_t status;

        for (; part->n_unmapped < move->n_maps; part->n_unmapped++) {
                status = map_end(gate, object->client, &plan->maps[move->first_map + part->n_unmapped]);
                if (status != RM_STATUS_OK && status != STATUS_GONE)
                        return status;
        }
        for (; part->n_overs_freed < move->n_overs; part->n_overs_freed++) {
                status = object_free(gate, fd, &plan->overs[move->first_over + part->n_overs_freed].object);
                if (status != RM_STATUS_OK)
                        return status;
        }
        if (part->is_freed)
                return RM_STATUS_OK;
        status = object_free(gate, fd, object);
        if (status != RM_STATUS_OK)
                return status;
        part->is_freed = true;
        charge_leaves(gate, object, true);
        return RM_STATUS_OK;
}

/* A process that ends meanwhile takes its clients with it, and nobody misses what was theirs. */
uint32_t move_take(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                   struct move_part *part)
{
        uint32_t status = part->is_gone ? RM_STATUS_OK : part_take(gate, files, move, part);

        if (status != RM_STATUS_OK && !probe_client(&gate->probe, move->object.object.client))
                part->is_gone = true;
        return part->is_gone ? RM_STATUS_OK : status;
}

/* The object itself: it is charged before it is there. */
static uint32_t memory_make(struct gate *gate, int fd, const struct ledger_move *move, struct move_part *part)
{
        uint32_t status;

        charge_leaves(gate, &move->object.object, false);
        status = object_make(gate, fd, &move->object);
        if (status == RM_STATUS_OK)
                part->is_freed = false;
        else
                charge_leaves(gate, &move->object.object, true);
        return status;
}

static uint32_t part_give(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                          struct move_part *part)
{
        const struct ledger_plan *plan = &gate->moving.plan;
        const struct ledger_object *object = &move->object.object;
        int fd = file_of(files, object->client);
        uint32_t status = RM_STATUS_OK;

        part->is_gone |= fd < 0 || !is_there(gate, &move->object);
        if (part->is_gone)
                return RM_STATUS_OK;
        if (part->is_freed)
                status = memory_make(gate, fd, move, part);
        for (; status == RM_STATUS_OK && part->n_overs_freed; part->n_overs_freed--) {
                const struct ledger_move_object *over = &plan->overs[move->first_over + part->n_overs_freed - 1];

                status = is_there(gate, over) ? object_make(gate, fd, over) : RM_STATUS_OK;
                if (status != RM_STATUS_OK)
                        break;
        }
        for (; status == RM_STATUS_OK && part->n_unmapped; part->n_unmapped--) {
                const struct ledger_move_map *map = &plan->maps[move->first_map + part->n_unmapped - 1];

                status = is_mapped(gate, map, &move->object) ? map_make(gate, fd, object, map) : RM_STATUS_OK;
                if (status == STATUS_GONE)
                        status = RM_STATUS_OK;
                if (status != RM_STATUS_OK)
                        break;
        }
        return status;
}

uint32_t move_give(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                   struct move_part *part)
{
        uint32_t status = part_give(gate, files, move, part);

        if (status != RM_STATUS_OK && !probe_client(&gate->probe, move->object.object.client))
                part->is_gone = true;
        return part->is_gone ? RM_STATUS_OK : status;
}
