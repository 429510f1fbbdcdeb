/* SPDX-License-Identifier: Apache-2.0 */
/* The one interposed symbol through which every driver call of every API passes. */
#include "preload/heap.h"
#include "preload/inside.h"
#include "preload/next.h"

#include "rm/numbers.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>

static struct worker *worker_take(struct preload *preload)
{
        struct worker *worker;
        uint8_t *bytes_of;

        {
                LOCKED(&preload->lock);
                worker = preload->workers;
                if (worker) {
                        preload->workers =
                                (struct worker *)(void *)worker->in; /* while it is free: the next free one */
                        return worker;
                }
        }
        worker = heap_calloc(1, sizeof(*worker));
        bytes_of = worker ? heap_malloc(2 * (GATE_BLOCK_MAX + GATE_PARAMS_MAX) + GATE_NESTED_MAX) : NULL;
        if (!bytes_of) {
                heap_free(worker);
                return NULL;
        }
        worker->block = bytes_of;
        worker->params = worker->block + GATE_BLOCK_MAX;
        worker->was = worker->params + GATE_PARAMS_MAX;
        worker->nested = worker->was + GATE_BLOCK_MAX + GATE_PARAMS_MAX;
        return worker;
}

static void worker_drop(struct preload *preload, struct worker *worker)
{
        LOCKED(&preload->lock);

        worker->in = (struct seccomp_notif *)(void *)preload->workers;
        preload->workers = worker;
}

/* Reserves room to note a client before the driver is asked for one (L4). */
static bool clients_reserve(struct preload *preload)
{
        LOCKED(&preload->lock);
        size_t more = preload->n_clients_room ? 2 * preload->n_clients_room : 16;
        struct preload_client *clients;

        if (preload->n_clients + GATE_THREADS_MAX < preload->n_clients_room)
                return true;
        more = more < 2 * GATE_THREADS_MAX ? 2 * GATE_THREADS_MAX : more;
        clients = heap_realloc(preload->clients, more * sizeof(*clients));
        if (!clients)
                return false;
        preload->clients = clients;
        preload->n_clients_room = more;
        return true;
}

static void client_note(struct preload *preload, const struct request *request, uint64_t number)
{
        LOCKED(&preload->lock);

        if (request->verdict.action == GATE_CLIENT && request_status(request) == RM_STATUS_OK &&
            preload->n_clients < preload->n_clients_room)
                preload->clients[preload->n_clients++] = (struct preload_client){
                        rm_get32(request->block, request->call.block_size, request->call.object_at), number
                };
}

static int ioctl_serve(struct preload *preload, int fd, uint32_t number, void *argument, enum rm_node node,
                       uint32_t minor)
{
        struct worker *worker = worker_take(preload);
        uint64_t file = 0;
        int r;

        if (!worker)
                return -ENOMEM;
        struct request request = {
                .gate = &preload->gate,
                .worker = worker,
                .process = &preload->process,
                .thread = preload->process.id,
                .fd = fd,
                .theirs = fd,
                .node = node,
                .minor = minor,
                .space = node == RM_NODE_UVM ? files_lookup(preload, fd) : 0,
                .address = (uintptr_t)argument,
                .block = worker->block,
                .params = worker->params,
                .was_block = worker->was,
                .was_params = worker->was + GATE_BLOCK_MAX,
        };

        if (node == RM_NODE_CTL)
                file = files_number(preload, fd);
        if (node == RM_NODE_CTL && (!file || !clients_reserve(preload)))
                r = -ENOMEM;
        else
                r = serve_request(&request, number);
        if (r >= 0 && file)
                client_note(preload, &request, file);
        worker_drop(preload, worker);
        return r;
}

static int ioctl_decide(int fd, uint32_t number, void *argument, enum rm_node node, uint32_t minor)
{
        struct preload_guard guard = preload_enter();
        struct preload *preload = preload_get();
        int r = -EPERM;

        if (preload && (node == RM_NODE_CTL || node == RM_NODE_DEVICE || node == RM_NODE_UVM))
                r = ioctl_serve(preload, fd, number, argument, node, minor);
        preload_leave(&guard);
        return r;
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
        uint32_t minor = 0;
        enum rm_node node;
        void *argument;
        va_list list;
        int r;

        va_start(list, request);
        argument = va_arg(list, void *);
        va_end(list);

        node = preload_node(fd, &minor);
        if (node == RM_NODE_OTHER)
                return next_ioctl(fd, request, argument);
        r = ioctl_decide(fd, (uint32_t)request, argument, node, minor);
        if (r == GATE_GO_ON)
                return next_ioctl(fd, request, argument);
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}
