/*
 * The threads that answer. All of them do the same: wait for a notification, serve it, answer. A
 * thread that is about to serve makes sure that another one waits (G4), so a call that takes long in
 * the driver delays nobody else, and the usual short call is answered without a handover: with
 * SYNC_WAKE_UP the waiting thread runs on the tenant's own CPU.
 *
 * The threads carry no capability but the one to read the tenant: RM takes privileges from the
 * calling thread (rm-abi 7), and what it does for a tenant must not be done as root.
 */
#include "gate/request.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* Linux 6.6; Debian 12's headers do not have it. Source: include/uapi/linux/seccomp.h. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, __u64)
#endif
#define SYNC_WAKE_UP 1u

static void drop_capabilities(void)
{
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };

        if (syscall(SYS_capget, &header, data) < 0)
                return;
        for (int i = 0; i < 2; i++)
                data[i] = (struct __user_cap_data_struct){ 0 };
        data[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted = CAP_TO_MASK(CAP_SYS_PTRACE);
        data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective = CAP_TO_MASK(CAP_SYS_PTRACE);
        if (syscall(SYS_capset, &header, data) == 0)
                return;
        memset(data, 0, sizeof(data)); /* a user who never had it */
        (void)syscall(SYS_capset, &header, data);
}

static void worker_free(struct worker *worker)
{
        free(worker->in);
        free(worker->out);
        free(worker->block);
        free(worker->params);
        free(worker->nested);
        free(worker);
}

/* The kernel's structs may be larger than our headers'. */
static struct worker *worker_new(struct gate *gate)
{
        struct worker *worker = calloc(1, sizeof(*worker));
        struct seccomp_notif_sizes sizes;

        if (!worker || syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0) {
                free(worker);
                return NULL;
        }
        worker->gate = gate;
        worker->in = calloc(1, sizes.seccomp_notif + sizeof(*worker->in));
        worker->out = calloc(1, sizes.seccomp_notif_resp + sizeof(*worker->out));
        worker->block = calloc(1, GATE_BLOCK_MAX);
        worker->params = calloc(1, GATE_PARAMS_MAX);
        worker->nested = calloc(1, GATE_NESTED_MAX);
        if (worker->in && worker->out && worker->block && worker->params && worker->nested)
                return worker;
        worker_free(worker);
        return NULL;
}

static void *serve(void *context);

static int start_one(struct gate *gate)
{
        pthread_attr_t attr;
        pthread_t thread;
        int r;

        gate->n_threads++;
        gate->n_idle++;
        (void)pthread_attr_init(&attr);
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attr, 512 * 1024);
        r = pthread_create(&thread, &attr, serve, gate);
        (void)pthread_attr_destroy(&attr);
        if (r) {
                gate->n_threads--;
                gate->n_idle--;
        }
        return -r;
}

/* G4. */
static void ensure_one_waits(struct gate *gate)
{
        if (gate->n_idle == 0 && gate->n_threads < GATE_THREADS_MAX)
                (void)start_one(gate);
}

static void send(struct worker *worker, int64_t value)
{
        struct gate *gate = worker->gate;
        struct seccomp_notif_resp *out = worker->out;

        out->id = worker->in->id;
        out->flags = value == GATE_GO_ON ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
        out->error = value < 0 ? (int)value : 0;
        out->val = value < 0 || value == GATE_GO_ON ? 0 : value;
        gate->n_calls++;
        if (value == GATE_GO_ON)
                gate->n_continued++;
        /* ENOENT: it was killed meanwhile; its descriptors are closing and the books follow. */
        (void)ioctl(gate->listener, SECCOMP_IOCTL_NOTIF_SEND, out);
}

static int receive(struct worker *worker)
{
        memset(worker->in, 0, sizeof(*worker->in));
        return ioctl(worker->gate->listener, SECCOMP_IOCTL_NOTIF_RECV, worker->in) < 0 ? -errno : 0;
}

static void accept_wake(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGURG);
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *serve(void *context)
{
        struct gate *gate = context;
        struct worker *worker = worker_new(gate);
        int r;

        drop_capabilities();
        accept_wake();
        while (worker && !gate->is_ending) {
                nsec start;

                r = receive(worker);
                if (r == -EINTR || r == -ENOENT) {
                        if (gate->is_empty)
                                break;
                        continue; /* a signal of gate_free's, or the caller was killed */
                }
                if (r < 0)
                        break;
                start = clock_now();
                gate->n_idle--;
                ensure_one_waits(gate);
                send(worker, serve_notification(worker, worker->in));
                gate->n_idle++;
                gate->busy += clock_now() - start;
        }
        gate->n_idle--;
        if (worker)
                worker_free(worker);
        gate->n_threads--;
        return NULL;
}

int pool_start(struct gate *gate)
{
        __u64 flags = SYNC_WAKE_UP;

        (void)ioctl(gate->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* an older kernel is slower */
        return start_one(gate);
}
