/* SPDX-License-Identifier: Apache-2.0 */
/* This process's state: made at its first driver call, and again after a fork. */
#include "preload/attach.h"
#include "preload/heap.h"
#include "preload/inside.h"
#include "preload/next.h"
#include "preload/lease_descriptor.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

enum {
        NEW = 0, /* also after a fork */
        BEGINNING,
        READY,
        CLOSED, /* H1 */

        MAJOR_NVIDIA = 195, /* fixed, as in gpu/driver.c */
        MINOR_CTL = 255,
        MINOR_MODESET = 254,
};

/* In libsublet-sim.so, if it is loaded: the simulator's nodes are sockets. */
__attribute__((weak)) int sublet_sim_node(int fd, uint32_t *ret_minor);

struct preload *preload_here;

/* Written by each reader of the lease descriptor, always with the same value. */
static _Atomic unsigned int uvm_major;

struct preload_guard preload_enter(void)
{
        struct preload_guard guard = { .saved = errno };
        sigset_t all;

        (void)sigfillset(&all);
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard.cancel);
        (void)pthread_sigmask(SIG_BLOCK, &all, &guard.signals);
        return guard;
}

void preload_leave(struct preload_guard *guard)
{
        (void)pthread_sigmask(SIG_SETMASK, &guard->signals, NULL);
        (void)pthread_setcancelstate(guard->cancel, NULL);
        errno = guard->saved;
}

static enum rm_node node_classify(int fd, uint32_t *ret_minor)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return RM_NODE_OTHER;
        if (S_ISSOCK(st.st_mode) && sublet_sim_node)
                return (enum rm_node)sublet_sim_node(fd, ret_minor);
        if (!S_ISCHR(st.st_mode))
                return RM_NODE_OTHER;
        *ret_minor = minor(st.st_rdev);
        if (major(st.st_rdev) == MAJOR_NVIDIA)
                return *ret_minor == MINOR_CTL     ? RM_NODE_CTL :
                       *ret_minor == MINOR_MODESET ? RM_NODE_FORBIDDEN :
                                                     RM_NODE_DEVICE;
        if (uvm_major && major(st.st_rdev) == uvm_major)
                return *ret_minor == 0 ? RM_NODE_UVM : RM_NODE_UVM_TOOLS;
        return RM_NODE_OTHER;
}

enum rm_node preload_node(int fd, uint32_t *ret_minor)
{
        int saved = errno;
        enum rm_node node = attach_is_on() ? RM_NODE_OTHER : node_classify(fd, ret_minor);

        errno = saved;
        return node;
}

/* A pipe without a reader must not end the program: its SIGPIPE is taken back. */
void preload_warn(const char *what, const char *why)
{
        char line[256];
        struct timespec now = { 0 };
        sigset_t pipe;
        int n = snprintf(line, sizeof(line), "sublet: %s: %s\n", what, why);

        if (write(STDERR_FILENO, line, (size_t)n) >= 0 || errno != EPIPE)
                return;
        (void)sigemptyset(&pipe);
        (void)sigaddset(&pipe, SIGPIPE);
        (void)sigtimedwait(&pipe, NULL, &now);
}

static int driver_ioctl(void *context, int fd, uint32_t request, void *block)
{
        int r = next_ioctl(fd, request, block);

        (void)context;
        return r < 0 ? -errno : r;
}

static enum rm_node driver_node(void *context, int fd, uint32_t *ret_minor)
{
        (void)context;
        return preload_node(fd, ret_minor);
}

static const char *begin_gate(struct preload *preload, const struct lease_descriptor *descriptor)
{
        struct gate *gate = &preload->gate;

        preload->lease = descriptor->lease;
        gate->lease = &preload->lease;
        gate->host = &preload_host;
        gate->options = (struct gate_options){
                .lease = &preload->lease,
                .layout = descriptor->layout,
                .driver = { .node = driver_node, .ioctl = driver_ioctl },
                .imports = true,
                .ipc_host = true, /* memory of the tenant's other processes; charged to both */
        };
        lock_init(&preload->lock, LOCK_PROCESSES);
        lock_init(&gate->ledger_lock, LOCK_LEDGER);
        for (size_t i = 0; i < GATE_CLIENT_LOCKS; i++)
                lock_init(&gate->client_locks[i], LOCK_CLIENT);
        return ledger_new(&gate->ledger) < 0 ? "out of memory" : NULL;
}

static const char *why_no_segment(int outcome)
{
        switch (outcome) {
        case USAGE_SEGMENT_OK:
                return NULL;
        case USAGE_SEGMENT_E_SLOTS:
                return "its tenant has too many processes";
        case USAGE_SEGMENT_E_ATTACHED:
                return "its tenant is under a gate that this process was not started below";
        default:
                return "its tenant's usage segment is missing or damaged (" LEASE_DESCRIPTOR_MOUNT_DIR
                       "/region or descriptor 1001)";
        }
}

static const char *segment_join(struct preload *preload, const struct lease_descriptor *descriptor,
                                enum lease_descriptor_source source)
{
        int fd = lease_descriptor_open_segment(source), r;

        if (fd < 0)
                return why_no_segment(fd);
        r = usage_segment_join(fd, source, descriptor->tenancy, &preload->usage);
        (void)next_close(fd);
        return why_no_segment(r);
}

/* Returns why it failed, or NULL. */
static const char *preload_begin(struct preload *preload)
{
        struct lease_descriptor *descriptor = heap_malloc(sizeof(*descriptor));
        enum lease_descriptor_source source;
        const char *why;
        int r;

        if (!descriptor)
                return "out of memory";
        r = lease_descriptor_find(descriptor, &source);
        if (r == -ENOENT)
                return "this process has no lease (neither " LEASE_DESCRIPTOR_MOUNT_DIR
                       " nor descriptor 1000 is there)";
        if (r < 0)
                return source == LEASE_DESCRIPTOR_MOUNTED ?
                               "its lease is damaged, or can be written to (" LEASE_DESCRIPTOR_MOUNT_DIR "/page)" :
                               "its lease is damaged (descriptor 1000)";
        preload->process.id = preload->pid = getpid();
        uvm_major = descriptor->uvm_major;
        why = attach_refusal();
        if (!why)
                why = begin_gate(preload, descriptor);
        if (!why)
                why = segment_join(preload, descriptor, source);
        heap_free(descriptor);
        return why;
}

static void begin_or_close(struct preload *preload)
{
        const char *why = preload_begin(preload);

        if (why)
                preload_warn("no driver call is made", why);
        preload_here = preload;
        atomic_store(&preload->phase, why ? CLOSED : READY);
}

struct preload *preload_get(void)
{
        struct preload *preload = heap_root(sizeof(*preload));
        int phase = NEW;

        if (!preload)
                return NULL;
        if (atomic_compare_exchange_strong(&preload->phase, &phase, BEGINNING))
                begin_or_close(preload);
        while (preload->phase == BEGINNING)
                (void)sched_yield(); /* in another thread */
        return preload->phase == READY ? preload : NULL;
}

struct preload *preload_peek(void)
{
        struct preload *preload = preload_here;

        return preload && preload->phase == READY && preload->pid == getpid() ? preload : NULL;
}

/* Before the program's own code: the first driver call may come from a signal handler, which needs uvm_major; and
 * self-attach must come first. */
__attribute__((constructor)) static void preload_construct(void)
{
        static struct lease_descriptor descriptor;
        enum lease_descriptor_source source;
        int saved = errno;
        struct stat st;

        if (lease_descriptor_find(&descriptor, &source) == 0) {
                struct preload_guard guard = preload_enter();

                uvm_major = descriptor.uvm_major;
                attach_begin(&descriptor, source);
                preload_leave(&guard);
        } else if (stat("/dev/nvidia-uvm", &st) == 0 && S_ISCHR(st.st_mode))
                uvm_major = major(st.st_rdev); /* so that H1 applies to it */
        errno = saved;
}
