/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ALLOC_OS_EVENT and FREE_OS_EVENT. The driver has one list for the machine, of client and number, in which nothing is
 * twice; what is in it goes when it is freed, when its client is freed, and with the file that it was made on, but not
 * with a client that its own file takes along. Source: allocate_os_event, free_os_events, osapi.c, 580.142.
 * A file is told of the last one only.
 */
#include "sim/server/machine.h"

#include "rm/numbers.h"

#include <errno.h>

enum {
        NUMBER_AT = 8,
};

static uint32_t number_of(const struct request *request)
{
        return rm_get32(request->block.data, request->block.size, NUMBER_AT);
}

static uint64_t key_of(const struct request *request)
{
        return (uint64_t)request->call.client << 32 | number_of(request);
}

uint32_t listens_begin(struct machine *machine, struct request *request)
{
        struct file *file = request->file;
        int r = map_put(&machine->listens, key_of(request), file);

        if (r < 0)
                return r == -EEXIST ? RM_STATUS_INSUFFICIENT_RESOURCES : RM_STATUS_NO_MEMORY;
        file->event_client = request->call.client;
        file->event_key = number_of(request);
        file->is_listening = true;
        return RM_STATUS_OK;
}

static void forget(struct file *file, uint64_t key)
{
        if (file->event_client == key >> 32 && file->event_key == (uint32_t)key)
                file->is_listening = false;
}

uint32_t listens_end(struct machine *machine, struct request *request)
{
        struct file *file = map_take(&machine->listens, key_of(request));

        if (!file)
                return RM_STATUS_INVALID_ARGUMENT;
        forget(file, key_of(request));
        return RM_STATUS_OK;
}

/* The first of the file's, or of the client's. False: there is none. */
static bool listen_find(const struct machine *machine, const struct file *file, uint32_t client, uint64_t *ret)
{
        for (size_t i = 0; i < machine->listens.n_slots; i++) {
                const struct map_slot *slot = &machine->listens.slots[i];

                if (!slot->value || (file ? slot->value != file : slot->key >> 32 != client))
                        continue;
                *ret = slot->key;
                return true;
        }
        return false;
}

void listens_drop(struct machine *machine, const struct file *file, uint32_t client)
{
        uint64_t key;

        while (listen_find(machine, file, client, &key))
                forget(map_take(&machine->listens, key), key);
}
