/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/cleanup.h"
#include "base/errand.h"
#include "base/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE (20 * NSEC_PER_MSEC) /* with a process that is asked for */

/* What stands behind the name in a `stat` of /proc, which may hold anything. False: it cannot be read. */
static bool stat_read(const char *path, char *text, size_t size, const char **ret)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

        if (n <= 0)
                return false;
        text[n] = '\0';
        *ret = strrchr(text, ')');
        return *ret && strlen(*ret) > 4;
}

pid_t process_parent(pid_t process)
{
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        return stat_read(path, text, sizeof(text), &at) ? (pid_t)strtol(at + 4, NULL, 10) : -1;
}

/* A number of proc(5); 0: it has gone. */
static uint64_t stat_field(pid_t process, int field)
{
        enum { STATE = 3 }; /* what stands behind the name */
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        if (!stat_read(path, text, sizeof(text), &at))
                return 0;
        at += 2;
        for (int i = STATE; i < field && at; i++)
                at = (at = strchr(at, ' ')) ? at + 1 : NULL;
        return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t process_began(pid_t process)
{
        enum { STARTTIME = 22 };

        return stat_field(process, STARTTIME);
}

bool process_is_ending(pid_t process)
{
        enum { FLAGS = 9, EXITING = 4 }; /* PF_EXITING of the kernel's sched.h, the same since 2.6 */

        return !process_began(process) || stat_field(process, FLAGS) & EXITING;
}

/* One number behind it: a process below another PID namespace has one of each. */
static bool has_one_number(const char *status)
{
        const char *at = strstr(status, "\nNSpid:\t");

        if (!at)
                return true; /* a kernel without namespaces */
        at += strlen("\nNSpid:\t");
        return at[strspn(at, "0123456789")] == '\n';
}

bool process_is_near(pid_t process, uid_t user)
{
        _cleanup_(closep) int fd = -1;
        char path[64], text[4096];
        unsigned int ids[4];
        const char *at;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (n == sizeof(text) - 1)
                return false; /* so many groups that the rest was not read */
        text[n < 0 ? 0 : n] = '\0';
        at = strstr(text, "\nUid:\t"); /* a newline in its name is written as \n */
        if (!at || sscanf(at, "\nUid:\t%u\t%u\t%u\t%u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
                return false;
        for (int i = 0; i < 4; i++)
                if (ids[i] != user)
                        return false;
        return has_one_number(text);
}

static bool thread_is_alive(pid_t process, const char *thread)
{
        char path[64], text[512];
        const char *at;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", process, thread);
        return stat_read(path, text, sizeof(text), &at) && !strchr("ZXx", at[2]);
}

bool process_is_alive(pid_t process)
{
        struct dirent *entry;
        bool is_alive = false;
        char path[64];
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
        dir = opendir(path);
        while (dir && !is_alive && (entry = readdir(dir)))
                is_alive = entry->d_name[0] != '.' && thread_is_alive(process, entry->d_name);
        if (dir)
                (void)closedir(dir);
        return is_alive;
}

struct question {
        pid_t process;
        uint64_t began;
        bool is_there;
};

static void question_answer(void *context)
{
        struct question *question = context;

        question->is_there = process_is_alive(question->process) &&
                             (!question->began || process_began(question->process) == question->began);
}

enum process_answer process_ask(pid_t process, uint64_t began)
{
        struct question *question = malloc(sizeof(*question));
        enum process_answer answer;

        if (!question)
                return PROCESS_UNKNOWN;
        *question = (struct question){ .process = process, .began = began };
        if (errand_run(question_answer, question, PATIENCE) != ERRAND_DONE)
                return PROCESS_UNKNOWN;
        answer = question->is_there ? PROCESS_THERE : PROCESS_GONE;
        free(question);
        return answer;
}

bool process_beside(const char *relative, char *ret, size_t size)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *slash;

        self[n < 0 ? 0 : n] = '\0';
        slash = strrchr(self, '/');
        if (!slash)
                return false;
        *slash = '\0';
        n = snprintf(ret, size, "%s/%s", self, relative);
        return n > 0 && (size_t)n < size && access(ret, R_OK) == 0;
}

bool process_line(FILE *list, char *line, size_t size)
{
        size_t n = 0;
        int c = getc_unlocked(list);

        if (c == EOF)
                return false;
        for (; c != EOF && c != '\n'; c = getc_unlocked(list))
                if (n < size - 1)
                        line[n++] = (char)c;
        line[n] = '\0';
        return true;
}

/* ---- children --------------------------------------------------------------------------------------------------- */

enum {
        MOVED = 64, /* above all numbers that a child is given */
};

union fds_message {
        struct cmsghdr header;
        char bytes[CMSG_SPACE((PROCESS_FDS + 1) * sizeof(int))]; /* /dev/null, too */
};

static struct {
        struct lock lock;
        int low; /* /dev/null, but while a child is made: its end of a pair of sockets. -1: not there yet */
} children = { .lock = LOCK_INIT(LOCK_CHILDREN), .low = -1 };

static int low_open(void)
{
        if (children.low < 0)
                children.low = open("/dev/null", O_RDWR | O_CLOEXEC);
        return children.low < 0 ? -errno : 0;
}

int process_children_prepare(void)
{
        LOCKED(&children.lock);

        return low_open();
}

/* The child is a copy of one thread, in which no lock may be taken: it makes system calls and nothing else. */
static bool fds_take(int from, int *fds, size_t n)
{
        union fds_message control = { 0 };
        struct iovec part = { (char[1]){ 0 }, 1 };
        struct msghdr message = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };

        if (syscall(SYS_recvmsg, from, &message, MSG_CMSG_CLOEXEC) != 1)
                return false;
        for (size_t i = 0; i < n; i++) {
                int fd = ((const int *)(const void *)CMSG_DATA(&control.header))[i];

                fds[i] = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, MOVED);
                if (fds[i] < 0)
                        return false;
        }
        return true;
}

/* Each fd of `plan` to its number: those given are in `fds`, one after the other, and /dev/null is the first of all. */
static bool fds_place(const struct process_child *child, const int *fds)
{
        size_t next = 1;

        for (size_t i = 0; i < child->n_fds; i++) {
                int fd = child->fds[i] == PROCESS_NULL ? fds[0] : child->fds[i] >= 0 ? fds[next++] : -1;

                if (fd >= 0 && syscall(SYS_dup3, fd, (int)i, 0) < 0)
                        return false;
                if (fd < 0)
                        (void)syscall(SYS_close, (int)i);
        }
        return syscall(SYS_close_range, (unsigned int)child->n_fds, (unsigned int)MOVED - 1, 0) == 0;
}

/* The kernel's own struct: exec resets what is handled, and leaves what is ignored. */
static void signals_reset(void)
{
        const struct {
                uintptr_t handler;
                unsigned long flags;
                uintptr_t restorer;
                uint64_t mask;
        } standard = { 0 };
        const uint64_t none = 0;

        for (int i = 1; i <= (int)(8 * sizeof(none)); i++)
                (void)syscall(SYS_rt_sigaction, i, &standard, NULL, sizeof(none));
        (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

/* Anybody may be let in by a mount of it, and fill it: COVER_SIZE is the most. */
#define COVER_SIZE "size=1g,mode=1777"

static bool directory_cover(const char *path)
{
        const unsigned long how = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW;

        return syscall(SYS_mount, "tmpfs", path, "tmpfs", how, COVER_SIZE) == 0;
}

/* The namespace's root, and not only the process's: who joins the namespace sees the same. What was mounted before is
 * gone from it. */
static bool root_change(const char *path)
{
        return syscall(SYS_mount, path, path, NULL, MS_BIND | MS_REC, NULL) == 0 && syscall(SYS_chdir, path) == 0 &&
               syscall(SYS_pivot_root, ".", ".") == 0 && syscall(SYS_umount2, ".", MNT_DETACH) == 0 &&
               syscall(SYS_chdir, "/") == 0;
}

static bool mounts_change(const struct process_child *child)
{
        if (!child->root && !child->covers)
                return true;
        return syscall(SYS_unshare, CLONE_NEWNS) == 0 &&
               syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
               (!child->root || root_change(child->root)) && (!child->covers || directory_cover(child->covers));
}

static _Noreturn void child_run(const struct process_child *child, size_t n_sent)
{
        const char *program = child->program ? child->program : "/proc/self/exe";
        int fds[PROCESS_FDS + 1] = { 0 }, parent = -1, error;

        if (syscall(SYS_close_range, (unsigned int)children.low + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0 &&
            fds_take(children.low, fds, n_sent)) {
                parent = (int)syscall(SYS_fcntl, children.low, F_DUPFD_CLOEXEC, MOVED);
                if (parent >= 0 && fds_place(child, fds) && (!child->is_leader || syscall(SYS_setsid) >= 0) &&
                    mounts_change(child)) {
                        signals_reset();
                        (void)syscall(SYS_execve, program, child->argv,
                                      child->environment ? child->environment : environ);
                }
        }
        error = errno;
        (void)syscall(SYS_sendto, parent < 0 ? children.low : parent, &error, sizeof(error), MSG_NOSIGNAL, NULL, 0);
        for (;;)
                (void)syscall(SYS_exit_group, 127);
}

/* What a child is to have, into a socket of which it will have the other end. The number sent; -errno. */
static int fds_send(const struct process_child *child, int socket, int null)
{
        union fds_message control = { 0 };
        int *fds = (int *)(void *)CMSG_DATA(&control.header);
        struct iovec part = { (char[1]){ 0 }, 1 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control };
        size_t n = 0;

        fds[n++] = null;
        for (size_t i = 0; i < child->n_fds; i++)
                if (child->fds[i] >= 0)
                        fds[n++] = child->fds[i];
        control.header = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : (int)n;
}

/* Both wait until the program runs: the child has nothing that could hold it up. 0; -errno. */
static int child_make(const struct process_child *child, size_t n_sent, int socket, int null, pid_t *ret)
{
        sigset_t all, before;
        int error = 0, r;
        pid_t process;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* a handler of ours must not run in the child */
        process = (pid_t)syscall(SYS_clone, CLONE_FILES | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
        if (process == 0)
                child_run(child, n_sent);
        r = -errno;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)dup3(null, children.low, O_CLOEXEC);
        if (process < 0)
                return r;
        if (recv(socket, &error, sizeof(error), 0) == 0) {
                *ret = process;
                return 0;
        }
        (void)waitpid(process, NULL, 0);
        return error ? -error : -EIO;
}

int process_begin(const struct process_child *child, pid_t *ret)
{
        _cleanup_(closep) int ours = -1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int pair[2], r;

        LOCKED(&children.lock);
        r = null < 0 ? -errno : low_open();
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        r = dup3(pair[1], children.low, O_CLOEXEC) < 0 ? -errno : fds_send(child, ours, null);
        closep(&pair[1]);
        return r < 0 ? r : child_make(child, (size_t)r, ours, null, ret);
}

int process_spawn_self(char *const *argv, int output, int errors, pid_t *ret)
{
        return process_begin(
                &(struct process_child){ .argv = argv, .fds = { PROCESS_NULL, output, errors }, .n_fds = 3 }, ret);
}
