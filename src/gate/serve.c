/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a notification to an answer: the process and its descriptor are found here; act.c does the rest. Every step
 * that fails answers an error: nothing passes because it was not understood.
 */
#include "gate/act.h"
#include "gate/perform.h"
#include "gate/books.h"
#include "gate/policy/caught.h"
#include "gate/serve.h"
#include "gate/state/uvm_space.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread whose notification is valid is in its system call, and so its number is its own. */
static bool is_calling(const void *context)
{
        const struct worker *worker = context;
        uint64_t id = worker->in->id;

        return ioctl(worker->listener->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool request_is_awaited(const struct request *request)
{
        uint64_t id = request->id;

        return ioctl(request->worker->listener->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* A signal may have taken the call back (state/restart_cache.h): then the thread is there, and its answer counts. */
bool request_is_there(const struct request *request)
{
        return request_is_awaited(request) || process_has_thread(request->process, request->thread);
}

static bool is_uvm_number(uint32_t number)
{
        return number < 128 || (number & ~3u) == (UVM_INITIALIZE & ~3u);
}

/* The driver would take the request, and the descriptor is not the driver's. If the call were continued, another
 * thread could meanwhile put a driver descriptor in its place; so it fails. */
static int refuse_other_file(struct request *request, uint32_t number)
{
        gate_tell(request->gate, EVENT_NOT_THE_DRIVER, request->process->id, "request 0x%x", number);
        return -ENOTTY;
}

/* Our own want of descriptors or memory, or something of the tenant's that cannot be read. */
static int refuse_unreadable(struct gate *gate, pid_t process, const char *what, int error)
{
        bool is_ours = error == -EMFILE || error == -ENFILE || error == -ENOMEM;

        gate_tell(gate, is_ours ? EVENT_GATE_FULL : EVENT_TENANT_UNREADABLE, process, "%s: %s", what, strerror(-error));
        return is_ours ? -ENOMEM : -EPERM;
}

/* The descriptor is ours already: the space behind it, which stays while the call is made. 1: it has none. */
static int space_use(struct request *request)
{
        struct gate *gate = request->gate;
        int fd;

        if (files_use(&gate->files, getpid(), request->fd, &fd, &request->space))
                return 0;
        if (!uvm_space_has_begun(&gate->options.driver, request->fd))
                return 1;
        if (files_use(&gate->files, getpid(), request->fd, &fd, &request->space))
                return 0; /* it began meanwhile */
        gate_tell(gate, EVENT_DENIED, request->process->id, "a VA space that nobody seemed to have any more");
        return -EPERM; /* books/spaces.c X3 */
}

static int serve_on_space(struct request *request, uint32_t number)
{
        int is_none = space_use(request), r;

        if (is_none < 0)
                return is_none;
        r = serve_request(request, number);
        if (!is_none)
                files_unuse(&request->gate->files, request->space);
        return r;
}

static int serve_on_node(struct request *request, uint32_t number)
{
        switch (request->node) {
        case RM_NODE_OTHER:
                if (!caught_is_drivers(&request->gate->options.layout, number))
                        return GATE_GO_ON;
                return refuse_other_file(request, number);
        case RM_NODE_UVM_TOOLS:
        case RM_NODE_FORBIDDEN:
                gate_tell(request->gate, EVENT_DENIED, request->process->id,
                          "request 0x%x on a node that is no tenant's", number);
                return -EPERM;
        case RM_NODE_UVM:
                return serve_on_space(request, number); /* kcmp across processes may have failed */
        case RM_NODE_DEVICE:
        case RM_NODE_CTL:
                break;
        }
        return serve_request(request, number);
}

static int serve_ioctl(struct worker *worker, const struct seccomp_notif *notification, struct process *process)
{
        struct gate *gate = worker->gate;
        uint32_t number = (uint32_t)notification->data.args[1];
        struct request request = {
                .gate = gate,
                .worker = worker,
                .id = notification->id,
                .process = process,
                .thread = (pid_t)notification->pid,
                .theirs = (int)notification->data.args[0],
                .address = notification->data.args[2],
                .block = worker->block,
                .params = worker->params,
                .was_block = worker->was,
                .was_params = worker->was + GATE_BLOCK_MAX,
        };
        _cleanup_(tenant_fd_put) struct tenant_fd ours = { gate, -1 };
        int r;

        if (is_uvm_number(number) &&
            files_use(&gate->files, request.thread, request.theirs, &request.fd, &request.space)) {
                request.node = RM_NODE_UVM;
                r = serve_request(&request, number);
                files_unuse(&gate->files, request.space);
                return r;
        }
        ours.fd = process_fd(process, request.thread, request.theirs);
        if (ours.fd < 0)
                return ours.fd == -EBADF ? ours.fd : refuse_unreadable(gate, process->id, "descriptor", ours.fd);
        request.fd = ours.fd;
        request.node = gate->options.driver.node(gate->options.driver.context, ours.fd, &request.minor);
        return serve_on_node(&request, number);
}

/* F3: a mapping of UVM that mremap has moved would become a managed range at its new place. Since Linux 4.0 the call is
 * only imitated, by mmap: programs lose nothing. */
static int refuse_remap(struct gate *gate, const struct process *process)
{
        gate->n_denied++;
        gate_tell(gate, EVENT_DENIED, process->id, "remap_file_pages");
        return -EPERM;
}

int64_t serve_notification(struct worker *worker, const struct seccomp_notif *notification)
{
        struct gate *gate = worker->gate;
        const struct process_caller caller = { is_calling, worker };
        struct mapping_call made;
        struct process *process;
        int64_t r;

        if (notification->data.nr == SYS_ioctl && (int)notification->data.args[0] == -1 &&
            (uint32_t)notification->data.args[1] == GATE_PROBE)
                return (int64_t)(gate->options.tenancy & INT64_MAX);
        if (mappings_of(&gate->mappings, (pid_t)notification->pid, &made)) {
                mapping_check(gate, &made);
                mappings_end(&gate->mappings, &made);
        }
        r = process_get(&gate->processes, (pid_t)notification->pid, &caller, &process);
        if (r < 0 && !is_calling(worker))
                return -EINTR;
        if (r < 0)
                return refuse_unreadable(gate, (pid_t)notification->pid, "process", (int)r);
        if (notification->data.nr == SYS_ioctl)
                r = serve_ioctl(worker, notification, process);
        else if (notification->data.nr == SYS_mmap)
                r = serve_mmap(worker, notification, process);
        else
                r = refuse_remap(gate, process);
        process_put(&gate->processes, process);
        gate_usage_changed(gate);
        return r;
}
