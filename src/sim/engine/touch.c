/* SPDX-License-Identifier: Apache-2.0 */
/* See touch.h. */
#include "sim/engine/touch.h"

#include "base/cleanup.h"
#include "sim/client/doorbell.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sim_touch *client_touch(struct client *client)
{
        _cleanup_(closep) int fd = -1;
        void *at;

        if (client->touch)
                return client->touch;
        fd = memfd_create("nvidia", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, sizeof(*client->touch)) < 0)
                return NULL;
        at = mmap(NULL, sizeof(*client->touch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
                return NULL;
        client->touch = at;
        client->touch_fd = TAKE_FD(fd);
        return client->touch;
}

int touch_answer(struct request *request, struct client *client)
{
        if (!client_touch(client))
                return -ENOMEM;
        request->fd = client->touch_fd;
        return 0;
}

void touch_allow(struct machine *machine, uint32_t client)
{
        struct client *owner = handles_client(&machine->handles, client);

        if (owner && owner->touch)
                atomic_store(&owner->touch->is_away, 0);
}

static bool has_channel_off(const struct gpu *gpu, uint32_t client)
{
        for (size_t i = 0; i < ENGINES; i++)
                for (struct run_group *group = gpu->engines[i].groups; group; group = group->next)
                        for (struct run_queue *queue = group->queues; queue; queue = queue->next)
                                if (queue->is_disabled && CONTAINER(queue, struct channel, run)->client == client)
                                        return true;
        return false;
}

bool touch_forbid(struct memory *memory, uint32_t reader)
{
        struct client *owner = memory->gpu && memory->client && memory->client != reader ?
                                       handles_client(&memory->gpu->machine->handles, memory->client) :
                                       NULL;
        struct sim_touch *touch = owner ? client_touch(owner) : NULL;

        if (!touch || (!atomic_load(&touch->is_away) && !has_channel_off(memory->gpu, memory->client)))
                return true;
        atomic_store(&touch->is_away, 1);
        return !atomic_load(&touch->touching);
}
