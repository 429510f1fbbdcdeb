/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/move/waiting.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

enum {
        FEW = 8,     /* are looked at each time, */
        PART = 1024, /* or one in so many */
};

#define LOOK (4 * NSEC_PER_MSEC) /* no more often */

struct waiting_call {
        struct waiting_call *next;
        struct seccomp_notif in;
        struct gate_wait wait;
};

static void list_init(struct waiting_list *list)
{
        *list = (struct waiting_list){ .last = &list->first };
}

static void list_put(struct waiting_list *list, struct waiting_call *call)
{
        call->next = NULL;
        *list->last = call;
        list->last = &call->next;
        list->n++;
}

static struct waiting_call *list_take(struct waiting_list *list)
{
        struct waiting_call *call = list->first;

        if (!call)
                return NULL;
        list->first = call->next;
        if (!list->first)
                list->last = &list->first;
        list->n--;
        return call;
}

static void list_move(struct waiting_list *from, struct waiting_list *to, size_t n)
{
        for (; n && from->first; n--)
                list_put(to, list_take(from));
}

static void count_begin(struct gate *gate, const struct gate_wait *wait)
{
        gate->n_waiting++;
        gate->n_polled += !wait->is_for_memory;
        if (wait->is_said && gate->options.waits)
                gate->options.waits(gate->options.node_context, wait->process, true);
}

/* Its wait is over, whatever becomes of it. */
static void count_end(struct gate *gate, const struct gate_wait *wait)
{
        gate->n_waiting--;
        gate->n_polled -= !wait->is_for_memory;
        if (wait->is_said && gate->options.waits)
                gate->options.waits(gate->options.node_context, wait->process, false);
}

static bool is_ready(struct gate *gate, const struct gate_wait *wait)
{
        const struct gate_options *options = &gate->options;

        if (clock_now() >= wait->until)
                return true;
        if (wait->is_for_memory)
                return gate->moving.state != wait->state;
        return !options->is_away(options->node_context, wait->process);
}

static bool is_awaited(const struct notify_listener *listener, const struct waiting_call *call)
{
        uint64_t id = call->in.id;

        return ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void waiting_init(struct notify_listener *listener)
{
        list_init(&listener->waiting);
        list_init(&listener->ready);
}

bool waiting_put(struct worker *worker)
{
        struct notify_listener *listener = worker->listener;
        struct waiting_call *call = malloc(sizeof(*call));
        struct gate *gate = worker->gate;
        bool is_over;

        if (!call)
                return false;
        call->in = *worker->in;
        call->wait = worker->wait;
        count_begin(gate, &call->wait);
        (void)pthread_mutex_lock(&listener->reader.mutex);
        /* The watcher may have seen the state change, and not this call. */
        is_over = call->wait.is_for_memory && gate->moving.state != call->wait.state;
        list_put(is_over ? &listener->ready : &listener->waiting, call);
        (void)pthread_mutex_unlock(&listener->reader.mutex);
        (void)eventfd_write(gate->wake, 1);
        return true;
}

bool waiting_take(struct worker *worker)
{
        struct waiting_call *call = list_take(&worker->listener->ready);

        if (!call)
                return false;
        count_end(worker->gate, &call->wait);
        *worker->in = call->in;
        worker->wait = call->wait;
        free(call);
        return true;
}

/* Each goes to those that are ready, stays, or is forgotten: how many of these. */
static size_t look_at(struct notify_listener *listener, struct waiting_list *some, struct waiting_list *ret_ready,
                      struct waiting_list *ret_left)
{
        struct gate *gate = listener->gate;
        struct waiting_call *call;
        size_t n_gone = 0;

        while ((call = list_take(some))) {
                if (!is_awaited(listener, call)) {
                        count_end(gate, &call->wait);
                        free(call);
                        n_gone++;
                } else {
                        list_put(is_ready(gate, &call->wait) ? ret_ready : ret_left, call);
                }
        }
        return n_gone;
}

/* Takes them out of the list meanwhile: no lock is held while the kernel and others are asked. True: half of them had
 * no caller, so more of them may have none. */
static bool calls_look(struct notify_listener *listener, bool is_all, struct waiting_list *ready)
{
        struct waiting_list some, left;
        size_t part, n, n_gone;

        list_init(&some);
        list_init(&left);
        (void)pthread_mutex_lock(&listener->reader.mutex);
        part = listener->waiting.n / PART;
        list_move(&listener->waiting, &some, is_all ? SIZE_MAX : part > FEW ? part : FEW);
        (void)pthread_mutex_unlock(&listener->reader.mutex);
        n = some.n;
        n_gone = look_at(listener, &some, ready, &left);
        (void)pthread_mutex_lock(&listener->reader.mutex);
        list_move(&left, &listener->waiting, SIZE_MAX);
        (void)pthread_mutex_unlock(&listener->reader.mutex);
        return n && 2 * n_gone >= n;
}

/* W2. Where one is ready all may be: what they wait for is the same. And those of a process end together. */
bool waiting_look(struct notify_listener *listener)
{
        uint32_t state = listener->gate->moving.state;
        struct waiting_list ready;
        nsec now = clock_now();
        bool is_all = state != listener->seen, has_ready;

        list_init(&ready);
        listener->seen = state;
        if (is_all || now - listener->looked_at >= LOOK) {
                listener->looked_at = now;
                while (calls_look(listener, is_all, &ready) && clock_now() - now < LOOK)
                        ;
                if (!is_all && ready.first)
                        (void)calls_look(listener, true, &ready);
        }
        (void)pthread_mutex_lock(&listener->reader.mutex);
        list_move(&ready, &listener->ready, SIZE_MAX);
        has_ready = listener->ready.first;
        (void)pthread_mutex_unlock(&listener->reader.mutex);
        return has_ready;
}

void waiting_drop(struct notify_listener *listener)
{
        struct waiting_call *call;

        (void)pthread_mutex_lock(&listener->reader.mutex);
        list_move(&listener->ready, &listener->waiting, SIZE_MAX);
        while ((call = list_take(&listener->waiting))) {
                count_end(listener->gate, &call->wait);
                free(call);
        }
        (void)pthread_mutex_unlock(&listener->reader.mutex);
}
