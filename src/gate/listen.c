/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that answer. One of them is the *reader*: it waits for the next notification, serves it itself, and
 * waits again. So a short call costs no handover, and with SYNC_WAKE_UP the reader runs on the tenant's own CPU. The
 * others wait to become the reader.
 *
 * A call that may take long in the driver must delay nobody else (G4). So before a call that is known to be long the
 * reader hands its part to another thread; and the watcher takes it away from a reader that has been serving for more
 * than PATIENCE, whatever the call.
 *
 * Many threads that all wait in the kernel would all wake at every notification (recv_wait_event in seccomp.c waits
 * non-exclusively, 6.6 to 6.18).
 *
 * The threads have no capability in effect but the one to read the tenant: RM takes privileges from the calling
 * thread (docs/rm-abi.md 7), and what it does for a tenant must not be done as root.
 */
#include "gate/listen.h"
#include "gate/serve.h"
#include "gate/move/waiting.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* Linux 6.6; Debian 12's headers do not have it. Source: include/uapi/linux/seccomp.h. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, __u64)
#endif
#define SYNC_WAKE_UP 1u

/* The longest of the frequent calls, UVM_REGISTER_CHANNEL, takes 1.6 ms (H200, 580.159.04). */
#define PATIENCE (5 * NSEC_PER_MSEC / 2)

/* The permitted set stays: a thread that is permitted at least what its target is may read it without CAP_SYS_PTRACE,
 * too (cap_ptrace_access_check). */
static void drop_capabilities(void)
{
        struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };

        if (syscall(SYS_capget, &header, data) < 0)
                return;
        data[0].inheritable = data[1].inheritable = 0;
        data[0].effective = data[0].permitted & CAP_TO_MASK(CAP_SYS_PTRACE);
        data[1].effective = 0;
        (void)syscall(SYS_capset, &header, data);
}

static void worker_free(struct worker *worker)
{
        free(worker->in);
        free(worker->out);
        free(worker->block);
        free(worker->params);
        free(worker->nested);
        free(worker->was);
        free(worker);
}

/* The kernel's structs may be larger than our headers'. */
static struct worker *worker_new(struct notify_listener *listener)
{
        struct worker *worker = calloc(1, sizeof(*worker));
        struct seccomp_notif_sizes sizes;

        if (!worker || syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0) {
                free(worker);
                return NULL;
        }
        worker->gate = listener->gate;
        worker->listener = listener;
        worker->generation = UINT64_MAX;
        worker->in = calloc(1, sizes.seccomp_notif + sizeof(*worker->in));
        worker->out = calloc(1, sizes.seccomp_notif_resp + sizeof(*worker->out));
        worker->block = calloc(1, GATE_BLOCK_MAX);
        worker->params = calloc(1, GATE_PARAMS_MAX);
        worker->nested = calloc(1, GATE_NESTED_MAX);
        worker->was = calloc(1, GATE_BLOCK_MAX + GATE_PARAMS_MAX);
        if (worker->in && worker->out && worker->block && worker->params && worker->nested && worker->was)
                return worker;
        worker_free(worker);
        return NULL;
}

static void *worker_run(void *context);

static int worker_start(struct notify_listener *listener)
{
        pthread_attr_t attr;
        pthread_t thread;
        int r;

        listener->gate->n_threads++;
        listener->n_threads++;
        (void)pthread_attr_init(&attr);
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attr, 512 * 1024);
        r = pthread_create(&thread, &attr, worker_run, listener);
        (void)pthread_attr_destroy(&attr);
        if (r) {
                listener->n_threads--;
                listener->gate->n_threads--;
        }
        return -r;
}

/* The mutex is held. There is no reader from here on, until a waiting or a new thread becomes it. */
static void vacate(struct notify_listener *listener)
{
        struct reader *reader = &listener->reader;
        struct gate *gate = listener->gate;

        reader->is_taken = false;
        reader->generation++;
        reader->serving_since = 0;
        if (reader->n_waiting)
                (void)pthread_cond_signal(&reader->free);
        else if (gate->n_threads < GATE_THREADS_MAX && !listener->is_empty && !gate->is_ending)
                (void)worker_start(listener);
}

static bool is_reader(const struct worker *worker)
{
        return worker->generation == worker->listener->reader.generation;
}

/* Waits until this thread is the reader, or has a call that has waited: *ret_has_call. False when there is nothing more
 * to wait for. */
static bool reader_take(struct worker *worker, bool *ret_has_call)
{
        struct reader *reader = &worker->listener->reader;
        struct notify_listener *listener = worker->listener;
        struct gate *gate = worker->gate;
        bool is_over;

        *ret_has_call = false;
        (void)pthread_mutex_lock(&reader->mutex);
        reader->n_waiting++;
        while (reader->is_taken && !gate->is_ending && !listener->is_empty && !(*ret_has_call = waiting_take(worker)))
                (void)pthread_cond_wait(&reader->free, &reader->mutex);
        reader->n_waiting--;
        is_over = !*ret_has_call && (gate->is_ending || (listener->is_empty && reader->is_taken));
        if (!is_over && !*ret_has_call) {
                reader->is_taken = true;
                reader->thread = pthread_self();
                worker->generation = reader->generation;
        }
        (void)pthread_mutex_unlock(&reader->mutex);
        return !is_over;
}

void reader_release(struct worker *worker)
{
        struct reader *reader = &worker->listener->reader;

        if (!is_reader(worker))
                return;
        (void)pthread_mutex_lock(&reader->mutex);
        if (is_reader(worker))
                vacate(worker->listener);
        (void)pthread_mutex_unlock(&reader->mutex);
}

bool reader_watch(struct notify_listener *listener)
{
        struct reader *reader = &listener->reader;
        nsec since = reader->serving_since, now = clock_now();
        struct gate *gate = listener->gate;

        if (since && now - since > PATIENCE) {
                (void)pthread_mutex_lock(&reader->mutex);
                if (reader->serving_since == since)
                        vacate(listener);
                (void)pthread_mutex_unlock(&reader->mutex);
        }
        if (now - gate->last_call < 100 * NSEC_PER_MSEC)
                return true;
        gate->is_ticking = false;
        return false;
}

/* One at a time; another one when they are still there after a while (G4). */
void reader_rouse(struct notify_listener *listener)
{
        struct reader *reader = &listener->reader;
        struct gate *gate = listener->gate;
        nsec now = clock_now();

        if (now - listener->roused_at < PATIENCE)
                return;
        listener->roused_at = now;
        (void)pthread_mutex_lock(&reader->mutex);
        if (reader->n_waiting)
                (void)pthread_cond_signal(&reader->free);
        else if (gate->n_threads < GATE_THREADS_MAX && !listener->is_empty && !gate->is_ending)
                (void)worker_start(listener);
        (void)pthread_mutex_unlock(&reader->mutex);
}

/* The first call of a burst wakes the watcher. */
static void start_ticking(struct gate *gate, nsec now)
{
        gate->last_call = now;
        if (!gate->is_ticking && !atomic_exchange(&gate->is_ticking, true))
                (void)eventfd_write(gate->wake, 1);
}

/* 0; -ENOENT: nobody waits for it. */
static int answer_notification(struct worker *worker, int64_t value)
{
        struct gate *gate = worker->gate;
        struct seccomp_notif_resp *out = worker->out;

        *out = (struct seccomp_notif_resp){ .id = worker->in->id };
        gate->n_calls++;
        if (value == GATE_GO_ON) {
                out->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
                gate->n_continued++;
        } else if (value < 0) {
                out->error = (int)value;
        } else {
                out->val = value;
        }
        /* ENOENT: it was killed meanwhile; its descriptors are closing, and the ledger follows. */
        return ioctl(worker->listener->fd, SECCOMP_IOCTL_NOTIF_SEND, out) < 0 ? -errno : 0;
}

static int receive_notification(struct worker *worker)
{
        memset(worker->in, 0, sizeof(*worker->in));
        return ioctl(worker->listener->fd, SECCOMP_IOCTL_NOTIF_RECV, worker->in) < 0 ? -errno : 0;
}

static void accept_wake(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, GATE_WAKE_SIGNAL);
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The last task is gone and the watcher has not noticed yet: it needs the CPU more than we do. */
static void yield_if_over(const struct notify_listener *listener)
{
        struct pollfd fd = { listener->fd, 0, 0 };

        if (poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP)
                (void)poll(NULL, 0, 2);
}

/* waiting.h: nothing more of the call is this thread's. */
static void put_off(struct worker *worker)
{
        if (!waiting_put(worker))
                (void)answer_notification(worker, -ENOMEM);
}

static void serve_once(struct worker *worker)
{
        int64_t value = serve_notification(worker, worker->in);

        if (value == GATE_WAITS)
                put_off(worker);
        else
                (void)answer_notification(worker, value);
}

/* state/restart_cache.h. What was not performed (EINTR) is performed when it comes again. */
static void serve_or_repeat(struct worker *worker)
{
        struct restart_cache *cache = &worker->gate->restart_cache;
        struct restart_call call;
        int64_t value;
        int r;

        worker->left = (struct restart_block){ .size = 0 };
        if (restart_cache_must_wait(cache, worker->in))
                reader_release(worker); /* G4 */
        if (restart_cache_begin(cache, &call, worker->in, worker->listener->fd, &value))
                worker->left = call.left;
        else
                value = serve_notification(worker, worker->in);
        if (value == GATE_WAITS) {
                restart_cache_end(cache, &call);
                put_off(worker);
                return;
        }
        r = answer_notification(worker, value);
        if (r == -ENOENT && value != GATE_GO_ON && value != -EINTR)
                restart_cache_keep(cache, worker->in, value, &worker->left);
        else if (r == 0 && value >= 0)
                restart_cache_keep_delivered(cache, worker->in, value, &worker->left, call.delivered);
        restart_cache_end(cache, &call);
}

static void serve_received(struct worker *worker)
{
        struct gate *gate = worker->gate;
        nsec start = clock_now();

        if (is_reader(worker))
                worker->listener->reader.serving_since = start;
        start_ticking(gate, start);
        if (gate->options.takes_signals)
                serve_or_repeat(worker);
        else
                serve_once(worker);
        if (is_reader(worker))
                worker->listener->reader.serving_since = 0;
        gate->busy += clock_now() - start;
}

/* One notification. -EINTR: none; another negative errno: the listener is no more. */
static int serve_one(struct worker *worker)
{
        int r = receive_notification(worker);

        if (r == -ENOENT) { /* the caller was killed */
                yield_if_over(worker->listener);
                return -EINTR;
        }
        if (r < 0)
                return r;
        worker->wait = (struct gate_wait){ 0 };
        serve_received(worker);
        return 0;
}

/* policy/budget.h: the tenant's calls become slower, nobody else's. */
static void rest_if_spent(const struct gate *gate)
{
        if (gate->is_spent)
                (void)poll(NULL, 0, 1);
}

static void *worker_run(void *context)
{
        struct notify_listener *listener = context;
        struct gate *gate = listener->gate;
        struct worker *worker = worker_new(listener);
        int r = 0;

        drop_capabilities();
        accept_wake();
        while (worker && !gate->is_ending && (r == 0 || r == -EINTR)) {
                bool has_call = false;

                if (!is_reader(worker) && !reader_take(worker, &has_call))
                        break;
                rest_if_spent(gate);
                if (has_call) {
                        serve_received(worker);
                        continue;
                }
                r = serve_one(worker);
                if (r == -EINTR && listener->is_empty)
                        break;
        }
        if (worker) {
                reader_release(worker);
                worker_free(worker);
        }
        listener->n_threads--;
        gate->n_threads--; /* the last that is touched */
        return NULL;
}

int pool_start(struct notify_listener *listener)
{
        __u64 flags = SYNC_WAKE_UP;

        (void)ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* an older kernel is slower */
        return worker_start(listener);
}

/* Kernels before 6.11 let a reader wait for what cannot come any more: it is interrupted. */
bool pool_end(struct notify_listener *listener)
{
        struct reader *reader = &listener->reader;

        bool is_over = !listener->n_threads;

        waiting_drop(listener); /* behind the last thread, too */
        if (is_over)
                return true;
        (void)pthread_mutex_lock(&reader->mutex);
        (void)pthread_cond_broadcast(&reader->free);
        if (reader->is_taken)
                (void)pthread_kill(reader->thread, GATE_WAKE_SIGNAL);
        (void)pthread_mutex_unlock(&reader->mutex);
        return false;
}
