/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shim publishes for people to see, each second: its processes, and what is borrowed. And at once: that a driver
 * call waits because the tenant is suspended, by which the daemon wakes it.
 */
#include "shim/inside.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KEPT_EACH (10 * NSEC_PER_SEC)
#define KEPT_UNKNOWN (NSEC_PER_SEC / 2) /* then it is kept by somebody, until the first look has ended */

void publish_terms(struct shim *shim)
{
        for (unsigned int i = 0; i < shim->lease.n_devices; i++) {
                shim->control->devices[i].share = shim->terms.share;
                shim->control->devices[i].cap = shim->terms.cap;
                shim->control->devices[i].class = shim->terms.class;
        }
        if (!shim->terms.swap)
                return;
        /* the daemon lets it onto the device when its first call that takes memory waits */
        shim->control->suspension.state = CONTROL_SUSPENDED;
        shim->control->waiting.is_out = 1;
}

static void command_read(uint32_t id, uint64_t ret[2])
{
        _cleanup_(closep) int fd = -1;
        char path[32], text[2 * sizeof(*ret) + 1] = "";
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%u/comm", id);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (n > 0)
                text[n - 1] = '\0'; /* a newline */
        memcpy(ret, text, 2 * sizeof(*ret));
}

static void publish_processes(struct shim *shim)
{
        struct control_process *to = shim->control->processes;
        struct gate_holding rows[CONTROL_BLOCK_PROCESSES];
        size_t n = gate_processes(shim->gate, rows, CONTROL_BLOCK_PROCESSES);
        uint64_t command[2];

        for (size_t i = 0; i < n; i++) {
                to[i].device = rows[i].device;
                to[i].held = rows[i].size;
                shim->control->began.listed[i] = gate_process_began(shim->gate, rows[i].id);
                command_read(rows[i].id, command);
                to[i].command[0] = command[0];
                to[i].command[1] = command[1];
                to[i].id = (int32_t)rows[i].id;
        }
        if (n < CONTROL_BLOCK_PROCESSES)
                to[n].id = 0;
}

static void publish_kinds(struct shim *shim)
{
        for (unsigned int i = 0; i < shim->control->n_devices; i++) {
                struct ledger_kinds kinds = gate_kinds(shim->gate, i);

                shim->control->kinds[i].managed = kinds.managed;
                shim->control->kinds[i].driver = kinds.driver;
        }
}

static void publish_loans(struct shim *shim)
{
        struct control_loan *to = shim->control->loans;
        struct gate_holding rows[CONTROL_BLOCK_LOANS];
        size_t n = gate_borrowed(shim->gate, rows, CONTROL_BLOCK_LOANS), n_known = 0;

        for (size_t i = 0; i < n; i++) {
                pid_t lender = jobs_lender_shim(&shim->jobs, rows[i].id);

                if (!lender)
                        continue; /* it has hung up: the tenant is about to be ended */
                to[n_known].device = rows[i].device;
                to[n_known].size = rows[i].size;
                to[n_known++].lender = lender;
        }
        if (n_known < CONTROL_BLOCK_LOANS)
                to[n_known].lender = 0;
}

void publish(struct shim *shim, const struct gate_stats *stats)
{
        nsec now = clock_now();

        shim->control->n_processes = (uint32_t)stats->n_processes;
        shim->control->n_calls = stats->n_calls;
        shim->control->n_refused = refusals_count(&stats->refusals);
        if (shim->published_at && now - shim->published_at < NSEC_PER_SEC)
                return;
        shim->published_at = now;
        publish_processes(shim);
        shim->control->listed_at = now;
        publish_kinds(shim);
        publish_loans(shim);
}

static void *kept_look(void *context)
{
        struct shim *shim = context;

        shim->kept.found = gate_kept_by(shim->gate);
        shim->kept.is_over = true;
        (void)eventfd_write(shim->mover.done, 1); /* the main thread looks */
        return NULL;
}

void publish_kept_end(struct shim *shim)
{
        if (shim->kept.has_thread)
                (void)pthread_join(shim->kept.thread, NULL);
        shim->kept.has_thread = false;
}

void publish_kept(struct shim *shim)
{
        struct kept_look *look = &shim->kept;
        nsec now = clock_now();

        if (look->has_thread && look->is_over) {
                publish_kept_end(shim);
                shim->control->move.kept_by = look->found ? look->found : CONTROL_KEPT_BY_SOMEBODY;
        }
        if (look->has_thread && !shim->control->move.kept_by && now - look->at >= KEPT_UNKNOWN)
                shim->control->move.kept_by = CONTROL_KEPT_BY_SOMEBODY;
        if (look->has_thread || (look->at && now - look->at < KEPT_EACH))
                return;
        look->at = now;
        look->is_over = false;
        look->has_thread = pthread_create(&look->thread, NULL, kept_look, shim) == 0;
        if (!look->has_thread && !shim->control->move.kept_by)
                shim->control->move.kept_by = CONTROL_KEPT_BY_SOMEBODY;
}

bool publish_is_away(void *context, pid_t process)
{
        return control_block_is_away(((struct shim *)context)->control, process);
}

void publish_waits(void *context, pid_t process, bool begins)
{
        struct control_waiting *waiting = &((struct shim *)context)->control->waiting;

        if (begins)
                waiting->process = process;
        waiting->n += begins ? 1 : UINT32_MAX;
}
