/*
 * From a notification to an answer: find the process and its descriptor; act.c does the rest. Every step that
 * fails answers an error: nothing is let through because it was not understood.
 */
#include "gate/request.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

bool request_is_alive(const struct request *request)
{
        uint64_t id = request->id;

        return ioctl(request->worker->listener->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static bool is_uvm_number(uint32_t number)
{
        return number < 128 || (number & ~3u) == (UVM_INITIALIZE & ~3u);
}

/* The number matches, the descriptor is not the driver's. Continuing would let another thread put
 * a driver descriptor in its place after this look, so the call fails. */
static int serve_stranger(struct request *request, uint32_t number)
{
        gate_tell(request->gate, EVENT_NOT_THE_DRIVER, request->process->id, "request 0x%x", number);
        return -ENOTTY;
}

static int serve_ioctl(struct worker *worker, const struct seccomp_notif *notification, struct process *process)
{
        struct gate *gate = worker->gate;
        int r;
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
        uint32_t number = (uint32_t)notification->data.args[1];
        _cleanup_(closep) int fd = -1;

        if (is_uvm_number(number) &&
            files_use(&gate->files, process->id, (int)notification->data.args[0], &request.fd, &request.space)) {
                request.node = RM_NODE_UVM;
                r = serve_request(&request, number);
                files_unuse(&gate->files, request.space);
                return r;
        }
        fd = process_fd(process, (int)notification->data.args[0]);
        if (fd < 0) {
                if (fd == -EBADF)
                        return -EBADF;
                gate_tell(gate, EVENT_TENANT_UNREADABLE, process->id, "descriptor %d: %s",
                          (int)notification->data.args[0], strerror(-fd));
                return -EPERM;
        }
        request.fd = fd;
        request.node = gate->options.driver.node(gate->options.driver.context, fd, &request.minor);
        switch (request.node) {
        case RM_NODE_OTHER:
                return serve_stranger(&request, number);
        case RM_NODE_UVM_TOOLS:
        case RM_NODE_FORBIDDEN:
                gate_tell(gate, EVENT_DENIED, process->id, "request 0x%x on a node that is no tenant's", number);
                return -EPERM;
        case RM_NODE_UVM:
                request.space = files_find(&gate->files, fd); /* kcmp between processes may have failed */
                break;
        case RM_NODE_DEVICE:
        case RM_NODE_CTL:
                break;
        }
        return serve_request(&request, number);
}

int64_t serve_notification(struct worker *worker, const struct seccomp_notif *notification)
{
        struct gate *gate = worker->gate;
        struct process *process;
        int64_t r;

        if (notification->data.nr == SYS_ioctl && (int)notification->data.args[0] == -1 &&
            (uint32_t)notification->data.args[1] == GATE_PROBE)
                return (int64_t)(gate->options.tenancy & INT64_MAX);
        r = process_get(&gate->processes, (pid_t)notification->pid, &process);
        if (r < 0) {
                gate_tell(gate, EVENT_TENANT_UNREADABLE, (pid_t)notification->pid, "process: %s", strerror((int)-r));
                return -EPERM;
        }
        if (notification->data.nr == SYS_ioctl)
                r = serve_ioctl(worker, notification, process);
        else if (notification->data.nr == SYS_mmap)
                r = serve_mmap(worker, notification, process);
        else
                r = -ENOSYS;
        process_put(&gate->processes, process);
        gate_usage_changed(gate);
        return r;
}
