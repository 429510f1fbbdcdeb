/* The one hooked symbol that sees every driver call of every API family. */
#include "preload/heap.h"
#include "preload/inside.h"
#include "preload/next.h"

#include "rm/numbers.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>

static struct worker *worker_take(struct hook *hook)
{
        struct worker *worker;
        uint8_t *bytes_of;

        {
                LOCKED(&hook->lock);
                worker = hook->workers;
                if (worker) {
                        hook->workers = (struct worker *)(void *)worker->in; /* the next one, while it rests */
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

static void worker_drop(struct hook *hook, struct worker *worker)
{
        LOCKED(&hook->lock);

        worker->in = (struct seccomp_notif *)(void *)hook->workers;
        hook->workers = worker;
}

/* Room to note a client, before the driver is asked for one (L4). */
static bool has_room(struct hook *hook, int fd)
{
        LOCKED(&hook->lock);
        size_t more = hook->n_clients_room ? 2 * hook->n_clients_room : 16;
        struct hook_client *clients;

        if (hook->n_clients + GATE_THREADS_MAX < hook->n_clients_room)
                return true;
        more = more < 2 * GATE_THREADS_MAX ? 2 * GATE_THREADS_MAX : more;
        clients = heap_realloc(hook->clients, more * sizeof(*clients));
        if (!clients)
                return false;
        hook->clients = clients;
        hook->n_clients_room = more;
        (void)fd;
        return true;
}

static void note_client(struct hook *hook, const struct request *request, uint64_t number)
{
        LOCKED(&hook->lock);

        if (request->verdict.action == GATE_CLIENT && request_status(request) == RM_STATUS_OK &&
            hook->n_clients < hook->n_clients_room)
                hook->clients[hook->n_clients++] = (struct hook_client){
                        rm_get32(request->block, request->call.block_size, request->call.object_at), number
                };
}

static int serve(struct hook *hook, int fd, uint32_t number, void *argument, enum rm_node node, uint32_t minor)
{
        struct worker *worker = worker_take(hook);
        uint64_t file = 0;
        int r;

        if (!worker)
                return -ENOMEM;
        struct request request = {
                .gate = &hook->gate,
                .worker = worker,
                .process = &hook->process,
                .thread = hook->process.id,
                .fd = fd,
                .theirs = fd,
                .node = node,
                .minor = minor,
                .space = node == RM_NODE_UVM ? files_lookup(hook, fd) : 0,
                .address = (uintptr_t)argument,
                .block = worker->block,
                .params = worker->params,
                .was_block = worker->was,
                .was_params = worker->was + GATE_BLOCK_MAX,
        };

        if (node == RM_NODE_CTL)
                file = files_number(hook, fd);
        if (node == RM_NODE_CTL && (!file || !has_room(hook, fd)))
                r = -ENOMEM;
        else
                r = serve_request(&request, number);
        if (r >= 0 && file)
                note_client(hook, &request, file);
        worker_drop(hook, worker);
        return r;
}

static int decide(int fd, uint32_t number, void *argument, enum rm_node node, uint32_t minor)
{
        struct hook_guard guard = hook_enter();
        struct hook *hook = hook_get();
        int r = -EPERM;

        if (hook && (node == RM_NODE_CTL || node == RM_NODE_DEVICE || node == RM_NODE_UVM))
                r = serve(hook, fd, number, argument, node, minor);
        hook_leave(&guard);
        return r;
}

HOOK int ioctl(int fd, unsigned long request, ...)
{
        uint32_t minor = 0;
        enum rm_node node;
        void *argument;
        va_list list;
        int r;

        va_start(list, request);
        argument = va_arg(list, void *);
        va_end(list);

        node = hook_node(fd, &minor);
        if (node == RM_NODE_OTHER)
                return next_ioctl(fd, request, argument);
        r = decide(fd, (uint32_t)request, argument, node, minor);
        if (r == GATE_GO_ON)
                return next_ioctl(fd, request, argument);
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}
