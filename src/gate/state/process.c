/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/process.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/errand.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define PATIENT (20 * NSEC_PER_MSEC) /* for a lock of the kernel that an exec holds */

enum {
        PIDFD_THREAD_ = O_EXCL, /* Linux 6.9; Debian 12's headers do not have it */
        STALE_MAX = 4096,       /* threads that are remembered although they are not believed */
};

int processes_init(struct processes *processes)
{
        *processes = (struct processes){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
        if (processes->epoll < 0)
                return -errno;
        lock_init(&processes->lock, LOCK_PROCESSES);
        return 0;
}

/* The lock is held, or nobody else is left. */
static void unref(struct process *process)
{
        if (--process->n_refs)
                return;
        (void)close(process->pidfd);
        free(process);
}

void processes_done(struct processes *processes)
{
        struct process *process;

        for (size_t i = 0; (process = map_next(&processes->by_thread, &i));)
                unref(process);
        for (size_t i = 0; (process = map_next(&processes->by_id, &i));)
                unref(process);
        map_done(&processes->by_thread);
        map_done(&processes->fresh);
        map_done(&processes->by_id);
        closep(&processes->epoll);
        lock_done(&processes->lock);
}

ssize_t process_text(pid_t id, const char *file, char *text, size_t size)
{
        _cleanup_(closep) int fd = -1;
        char path[96];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", id, file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, size - 1);
        if (n < 0)
                return -errno;
        text[n] = '\0';
        return n;
}

/* Nodes of the driver are files, those of the simulated one sockets. */
bool process_fd_may_be_node(pid_t process, const char *number)
{
        char path[64], link[64] = { 0 };

        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", process, number);
        return readlink(path, link, sizeof(link) - 1) > 0 &&
               (!strncmp(link, "/dev/", 5) || !strncmp(link, "socket:", 7));
}

struct whereabouts {
        pid_t thread;
        long number;
        bool is_elsewhere;
};

/* proc(5), syscall: "running"; or the number, -1 for none, and more. */
static void whereabouts_find(void *context)
{
        struct whereabouts *at = context;
        char text[256], *end;
        ssize_t n = process_text(at->thread, "syscall", text, sizeof(text));
        long is_in;

        if (n <= 0) {
                at->is_elsewhere = n == -ENOENT || n == -ESRCH;
                return;
        }
        is_in = strtol(text, &end, 10);
        at->is_elsewhere = end != text && *end == ' ' && is_in != at->number;
}

/* The kernel takes a lock for it that an exec holds while it closes files: who serves one of them can make it long. */
bool process_is_elsewhere(pid_t thread, long number)
{
        struct whereabouts *at = malloc(sizeof(*at));
        bool is_elsewhere = false;

        if (!at)
                return false;
        *at = (struct whereabouts){ .thread = thread, .number = number };
        if (errand_run(whereabouts_find, at, PATIENT) != ERRAND_DONE)
                return false;
        is_elsewhere = at->is_elsewhere;
        free(at);
        return is_elsewhere;
}

static int process_of(pid_t thread, pid_t *ret)
{
        char text[512];
        const char *at;
        ssize_t n = process_text(thread, "status", text, sizeof(text));

        if (n < 0)
                return n == -ENOENT ? -ESRCH : (int)n;
        at = strstr(text, "\nTgid:");
        if (!at)
                return -ESRCH;
        *ret = (pid_t)strtol(at + 6, NULL, 10);
        return *ret > 0 ? 0 : -ESRCH;
}

static bool has_ended(const struct process *process)
{
        struct pollfd end = { process->pidfd, POLLIN, 0 };

        return poll(&end, 1, 0) != 0;
}

/* Signal 0 goes to nobody, and a thread of another group is not found, whether or not it may be sent one
 * (do_send_specific in signal.c; EACCES is a security module's). In this order: while the process has not ended, its
 * number is its own. */
bool process_has_thread(const struct process *process, pid_t thread)
{
        bool is_its = syscall(SYS_tgkill, process->id, thread, 0) == 0 || errno == EPERM || errno == EACCES;

        return is_its && !has_ended(process);
}

/* From here on the end of the process will be noticed. */
static int process_add(struct processes *processes, pid_t id, const struct process_caller *caller, struct process **ret)
{
        _cleanup_(freep) struct process *process = calloc(1, sizeof(*process));
        _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, id, 0);
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)id };
        uint64_t began = process_began(id); /* its own: it is there afterwards */
        int r;

        if (!process)
                return -ENOMEM;
        if (pidfd < 0)
                return -errno;
        if (descriptors_are_few(pidfd))
                return -EMFILE;
        if (!caller->is_there(caller->context))
                return -ESRCH;
        r = map_put(&processes->by_id, (uint64_t)id, process);
        if (r < 0)
                return r;
        if (epoll_ctl(processes->epoll, EPOLL_CTL_ADD, pidfd, &event) < 0) {
                r = -errno;
                (void)map_take(&processes->by_id, (uint64_t)id);
                return r;
        }
        *process = (struct process){ .id = id, .pidfd = TAKE_FD(pidfd), .began = began, .n_refs = 1 };
        *ret = TAKE(process);
        return 0;
}

static void forget_thread(struct processes *processes, pid_t thread)
{
        struct process *process = map_take(&processes->by_thread, (uint64_t)thread);

        (void)map_take(&processes->fresh, (uint64_t)thread);
        if (process)
                unref(process);
}

/* The lock is held. The one whose thread was met last, if this one is its, too. */
static struct process *process_guess(struct processes *processes, pid_t thread)
{
        struct process *process = map_get(&processes->by_id, (uint64_t)processes->latest);

        return process && process_has_thread(process, thread) ? process : NULL;
}

/* The lock is held. NULL: not met yet, or it was another process's thread that had the number. */
static struct process *process_known(struct processes *processes, pid_t thread)
{
        struct process *process = map_get(&processes->by_thread, (uint64_t)thread);

        if (!process || map_get(&processes->fresh, (uint64_t)thread))
                return process;
        if (process_has_thread(process, thread)) {
                (void)map_put(&processes->fresh, (uint64_t)thread, process); /* else it is asked again */
                return process;
        }
        forget_thread(processes, thread);
        return NULL;
}

/* The lock is held. */
static int process_meet(struct processes *processes, pid_t thread, const struct process_caller *caller,
                        struct process **ret)
{
        struct process *process = process_guess(processes, thread);
        pid_t id;
        int r = process ? 0 : process_of(thread, &id);

        if (r < 0)
                return r;
        if (!process) {
                process = map_get(&processes->by_id, (uint64_t)id);
                if (process && has_ended(process))
                        return -ESRCH; /* its number is another's by now; until the watcher has noticed */
        }
        if (!process)
                r = process_add(processes, id, caller, &process);
        if (r == 0)
                r = map_put(&processes->by_thread, (uint64_t)thread, process);
        if (r < 0)
                return r;
        (void)map_put(&processes->fresh, (uint64_t)thread, process);
        processes->latest = process->id;
        process->n_refs++;
        *ret = process;
        return 0;
}

int process_get(struct processes *processes, pid_t thread, const struct process_caller *caller, struct process **ret)
{
        LOCKED(&processes->lock);
        struct process *process = process_known(processes, thread);
        int r = process ? 0 : process_meet(processes, thread, caller, &process);

        if (r < 0)
                return r;
        process->n_refs++;
        *ret = process;
        return 0;
}

int process_find(struct processes *processes, pid_t id, struct process **ret)
{
        LOCKED(&processes->lock);
        struct process *process = map_get(&processes->by_id, (uint64_t)id);

        if (!process)
                return -ESRCH;
        process->n_refs++;
        *ret = process;
        return 0;
}

void process_put(struct processes *processes, struct process *process)
{
        LOCKED(&processes->lock);

        unref(process);
}

/* The entries by thread of a dead process; rare, so a full pass is fine. */
static void forget_threads(struct processes *processes, const struct process *process)
{
        for (size_t i = 0; i < processes->by_thread.n_slots;) {
                const struct map_slot *slot = &processes->by_thread.slots[i];

                if (slot->value == process)
                        forget_thread(processes, (pid_t)slot->key); /* may move another here */
                else
                        i++;
        }
}

void processes_forget_threads(struct processes *processes)
{
        struct process *process;
        LOCKED(&processes->lock);

        map_done(&processes->fresh);
        if (processes->by_thread.n_used <= STALE_MAX)
                return;
        for (size_t i = 0; (process = map_next(&processes->by_thread, &i));)
                unref(process);
        map_done(&processes->by_thread);
}

pid_t processes_reap(struct processes *processes)
{
        struct epoll_event event;
        struct process *process;

        if (epoll_wait(processes->epoll, &event, 1, 0) != 1)
                return 0;

        LOCKED(&processes->lock);
        process = map_take(&processes->by_id, event.data.u64);
        if (!process)
                return 0;
        process->is_dead = true;
        (void)epoll_ctl(processes->epoll, EPOLL_CTL_DEL, process->pidfd, NULL);
        forget_threads(processes, process);
        unref(process);
        return (pid_t)event.data.u64;
}

bool processes_have_ended(struct processes *processes)
{
        struct pollfd ends = { processes->epoll, POLLIN, 0 };

        return poll(&ends, 1, 0) == 1;
}

static void process_kill(const struct process *process)
{
        (void)syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
}

void processes_kill(struct processes *processes, pid_t id)
{
        LOCKED(&processes->lock);
        const struct process *process = map_get(&processes->by_id, (uint64_t)id);

        if (process)
                process_kill(process);
}

void processes_kill_all(struct processes *processes)
{
        const struct process *process;
        LOCKED(&processes->lock);

        for (size_t i = 0; (process = map_next(&processes->by_id, &i));)
                process_kill(process);
}

bool processes_know(struct processes *processes, pid_t id)
{
        LOCKED(&processes->lock);

        return map_get(&processes->by_id, (uint64_t)id);
}

ssize_t processes_list(struct processes *processes, pid_t **ret)
{
        const struct process *process;
        LOCKED(&processes->lock);
        pid_t *list = calloc(processes->by_id.n_used + 1, sizeof(*list));
        ssize_t n = 0;

        if (!list)
                return -ENOMEM;
        for (size_t i = 0; (process = map_next(&processes->by_id, &i));)
                list[n++] = process->id;
        *ret = list;
        return n;
}

uint64_t processes_began(struct processes *processes, pid_t id)
{
        LOCKED(&processes->lock);
        const struct process *process = map_get(&processes->by_id, (uint64_t)id);

        return process ? process->began : 0;
}

size_t processes_count(struct processes *processes)
{
        LOCKED(&processes->lock);

        return processes->by_id.n_used;
}

/* Their leader's table is the one that a pidfd leads to. False when in doubt, and when the leader has ended. */
static bool has_leaders_files(const struct process *process, pid_t thread)
{
        enum { KCMP_FILES_ = 2 }; /* linux/kcmp.h */

        return thread == process->id || syscall(SYS_kcmp, process->id, thread, KCMP_FILES_, 0, 0) == 0;
}

int process_fd(const struct process *process, pid_t thread, int fd)
{
        bool is_leaders = has_leaders_files(process, thread);
        _cleanup_(closep) int own = is_leaders ? -1 : (int)syscall(SYS_pidfd_open, thread, PIDFD_THREAD_);
        long r;

        if (!is_leaders && own < 0)
                return errno == EINVAL ? -EOPNOTSUPP : -errno;
        if (descriptors_are_late(DESCRIPTORS_OURS))
                return -EMFILE; /* too many of its files do not let themselves be closed */
        r = syscall(SYS_pidfd_getfd, is_leaders ? process->pidfd : own, fd, 0);
        return r < 0 ? -errno : (int)r;
}

void process_fd_put(int fd, bool is_drivers)
{
        if (is_drivers)
                (void)close(fd);
        else
                descriptors_drop(fd, DESCRIPTORS_OURS);
}
