/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/containers/ghosts.h"

#include "base/cleanup.h"
#include "base/errand.h"
#include "gate/gate.h"
#include "daemon/state/ghost.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FILE_MOST = 4096,
};

/* A process that does not come to the end of an exec keeps who reads its links waiting (proc_pid_get_link, 6.18). */
#define PATIENCE (30 * NSEC_PER_MSEC)

struct found {
        char id[sizeof(((struct message_container *)0)->id)];
        unsigned int n_unstarted, n_other;
        bool is_whole; /* all of /proc was read */
};

/* How many bytes, and a NUL behind them; -1: the process has gone. */
static ssize_t read_text(int dir, const char *name, char ret[static FILE_MOST])
{
        _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, FILE_MOST - 1);

        ret[n < 0 ? 0 : n] = '\0';
        return n;
}

static void look_at(int proc, const char *number, struct found *found)
{
        _cleanup_(closep) int dir = openat(proc, number, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char cgroup[FILE_MOST], comm[FILE_MOST], program[FILE_MOST];
        struct ghost_process process = { .cgroup = cgroup, .program = program, .comm = comm };
        ssize_t n;

        if (dir < 0 || read_text(dir, "cgroup", cgroup) < 0 || !ghost_is_of(&process, found->id))
                return;
        n = readlinkat(dir, "exe", program, sizeof(program) - 1);
        program[n < 0 ? 0 : n] = '\0';
        (void)read_text(dir, "comm", comm);
        if (ghost_is_unstarted(&process))
                found->n_unstarted++;
        else
                found->n_other++;
}

static void look_at_all(void *context)
{
        struct found *found = context;
        DIR *proc = opendir("/proc");
        const struct dirent *entry;

        while (proc && (entry = readdir(proc)))
                if (isdigit((unsigned char)entry->d_name[0]))
                        look_at(dirfd(proc), entry->d_name, found);
        found->is_whole = proc;
        if (proc)
                (void)closedir(proc);
}

/* True: all of its processes have been seen, there are some, and all of them wait to be started. */
static bool is_unstarted(struct tenant *tenant)
{
        struct found *found = calloc(1, sizeof(*found));
        bool is;

        if (!found)
                return false;
        (void)snprintf(found->id, sizeof(found->id), "%s", tenant->lease.container.id);
        if (errand_run(look_at_all, found, PATIENCE) != ERRAND_DONE)
                return false;
        tenant->ghost.is_none = found->n_other;
        is = found->is_whole && !found->n_other && found->n_unstarted;
        free(found);
        return is;
}

static void judge(struct daemon *daemon, struct tenant *tenant)
{
        const struct message_container *container = &tenant->lease.container;
        struct ghost *ghost = &tenant->ghost;

        ghost->looked_at = clock_now();
        if (!is_unstarted(tenant) || shims_end(tenant) < 0 || ghost->is_told)
                return;
        event_emit(daemon, EVENT_GHOST_ENDED, tenant, -1,
                   "container %.12s of pod %s: nothing is allocated to it for %lld s, and it was never started",
                   container->id, container->pod, (long long)((clock_now() - ghost->gone_since) / NSEC_PER_SEC));
        ghost->is_told = true;
}

bool ghosts_is_due(const struct daemon *daemon, struct tenant *tenant)
{
        const struct message_container *container = &tenant->lease.container;
        const struct ghost_view view = { .now = clock_now(),
                                         .reported_at = daemon->allocations.received_at,
                                         .has_allocation = allocations_find(&daemon->allocations, container->pod,
                                                                            container->container) };

        return container->pod[0] && container->id[0] && ghost_is_due(&tenant->ghost, &view);
}

void ghosts_tick(struct daemon *daemon)
{
        struct tenant *next = NULL;
        nsec now = clock_now();

        if (now - daemon->ghosts_at < NSEC_PER_SEC)
                return;
        daemon->ghosts_at = now;
        for (struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (t->state == TENANT_RUNNING && ghosts_is_due(daemon, t) &&
                    (!next || t->ghost.looked_at < next->ghost.looked_at))
                        next = t;
        if (next)
                judge(daemon, next);
}
