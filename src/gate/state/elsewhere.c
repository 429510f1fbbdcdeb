/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/elsewhere.h"
#include "gate/state/process.h"

#include "base/cleanup.h"
#include "base/errand.h"
#include "base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* A look at all processes of a large machine takes some tenths of a second, and goes on. */
#define PATIENCE (500 * NSEC_PER_MSEC)

enum {
        KCMP_FILE_ = 0, /* linux/kcmp.h */
        KCMP_FILES_ = 2,
        SECCOMP_FILTERED = 2, /* in /proc/PID/status */
};

/* A number of /proc/PROCESS/status, or -1. field: "\nUid:". */
static long status_of(pid_t process, const char *field)
{
        char text[2048];
        const char *at;

        if (process_text(process, "status", text, sizeof(text)) < 0)
                return -1;
        at = strstr(text, field);
        return at ? strtol(at + strlen(field), NULL, 10) : -1;
}

/*
 * A process of our user that hides its descriptors (an undumpable one) may have the file, if it is under a filter, as
 * whatever a tenant starts is. The shims and `sublet run` hide theirs, too, and are under none. What runs beside the
 * gate needs no file of a tenant's: it can open the device itself, which is reported.
 */
static bool hides(pid_t process)
{
        long mode = status_of(process, "\nSeccomp:");

        return (mode < 0 || mode == SECCOMP_FILTERED) && status_of(process, "\nUid:") == (long)geteuid();
}

/*
 * Descriptors can wait where no table shows them: sent into a socket and not received, or registered with an
 * io_uring. What waits is not told, only that something does: then the file may be it. Looked for with processes
 * under a filter, as tenants are; other people's sockets are busy, too.
 *
 * Read to the end: whoever has the descriptor chooses how much comes before the count (a line for each lock of a
 * socket, for each request of a ring). A ring whose lock somebody holds says nothing of its files. Of other
 * descriptors nothing is read: that of an epoll waits for a lock, which a program may hold for as long as it likes.
 * Source: unix_show_fdinfo (scm_fds, Linux 5.10), io_uring_show_fdinfo (UserFiles, by trylock), ep_show_fdinfo,
 * show_fd_locks, 5.10 to 6.18.
 */
enum unseen {
        SHOWS_ALL, /* holds no descriptors */
        IS_SOCKET,
        IS_RING,
};

static bool holds_unseen(pid_t task, const char *descriptor, enum unseen kind)
{
        static const char *const counts[] = { [IS_SOCKET] = "scm_fds:", [IS_RING] = "UserFiles:" };
        size_t n = strlen(counts[kind]);
        bool holds = false, has_line = false;
        char path[64], line[128];
        FILE *list;

        (void)snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", task, descriptor);
        list = fopen(path, "re");
        if (!list)
                return errno != ENOENT && errno != ESRCH && errno != EACCES; /* cannot tell: it may */
        while (!has_line && process_line(list, line, sizeof(line)))
                if ((has_line = !strncmp(line, counts[kind], n)))
                        holds = strtoul(line + n, NULL, 10);
        holds = holds || (!has_line && (kind == IS_RING || ferror(list)));
        (void)fclose(list);
        return holds;
}

/* A task, and whether it is under a filter once somebody has asked. */
struct task {
        pid_t id;
        enum { NOT_ASKED, IS_FILTERED, IS_FREE } filter;
};

static bool is_filtered(struct task *task)
{
        long mode = task->filter == NOT_ASKED ? status_of(task->id, "\nSeccomp:") : 0;

        if (task->filter == NOT_ASKED) /* -1: cannot tell, it may be behind a long line of groups */
                task->filter = mode == SECCOMP_FILTERED || mode < 0 ? IS_FILTERED : IS_FREE;
        return task->filter == IS_FILTERED;
}

/* The files to be found, in the kernel's order, and whether one may be where no table shows it. */
struct search {
        struct sought *sought;
        size_t n, n_left; /* that were not found yet */
        bool may_wait;
};

/* Where it cannot be told, any may be. */
static void found_all(struct search *search)
{
        for (size_t i = 0; i < search->n; i++)
                search->sought[i].is_open = true;
        search->n_left = 0;
}

/* -1, 0, 1 as the kernel orders files, which it does for as long as it runs; 2: there is no such descriptor. */
static int compare_files(int ours, pid_t task, int theirs)
{
        switch (syscall(SYS_kcmp, getpid(), task, KCMP_FILE_, (unsigned long)ours, (unsigned long)theirs)) {
        case 0:
                return 0;
        case 1:
                return -1;
        case 2:
                return 1;
        default:
                return 2;
        }
}

static int compare_sought(const void *a, const void *b)
{
        const struct sought *x = a, *y = b;

        return compare_files(x->fd, getpid(), y->fd);
}

/* True: it is one of them. */
static bool find_in(struct search *search, pid_t task, int theirs)
{
        size_t from = 0, end = search->n;

        while (from < end) {
                size_t i = from + (end - from) / 2;
                int order = compare_files(search->sought[i].fd, task, theirs);

                if (order == 0) {
                        search->n_left -= !search->sought[i].is_open;
                        search->sought[i].is_open = true;
                        return true;
                }
                if (order < 0)
                        from = i + 1;
                else if (order == 1)
                        end = i;
                else
                        return false;
        }
        return false;
}

/* Asked of the link and not of the file behind it: that one may be on a file system that does not answer. */
static enum unseen kind_of(int dir, const char *descriptor)
{
        char text[32] = "";

        if (readlinkat(dir, descriptor, text, sizeof(text) - 1) < 0)
                return SHOWS_ALL;
        if (strncmp(text, "socket:", 7) == 0)
                return IS_SOCKET;
        return strcmp(text, "anon_inode:[io_uring]") == 0 ? IS_RING : SHOWS_ALL;
}

static void look_at_entry(struct search *search, int dir, const char *descriptor, struct task *task)
{
        enum unseen kind;

        if (!isdigit((unsigned char)*descriptor) || find_in(search, task->id, atoi(descriptor)))
                return;
        kind = search->may_wait ? kind_of(dir, descriptor) : SHOWS_ALL;
        if (kind != SHOWS_ALL && is_filtered(task) && holds_unseen(task->id, descriptor, kind))
                found_all(search);
}

static void look_at_table(struct search *search, const char *path, pid_t id)
{
        struct task task = { .id = id };
        struct dirent *entry;
        DIR *dir = opendir(path);

        if (!dir && (errno == EACCES ? hides(id) : errno != ENOENT && errno != ESRCH))
                found_all(search);
        while (dir && search->n_left && (entry = readdir(dir)))
                look_at_entry(search, dirfd(dir), entry->d_name, &task);
        if (dir)
                (void)closedir(dir);
}

/* A thread may have a table of descriptors of its own. One that we may not compare we may not read either. */
static bool has_own_table(pid_t process, pid_t thread)
{
        long r = thread == process ? 0 : syscall(SYS_kcmp, process, thread, KCMP_FILES_, 0, 0);

        return r > 0 || (r < 0 && errno != EPERM && errno != ESRCH);
}

/* More than one: a link for each, beside the usual two. */
static bool has_threads(const char *tasks)
{
        struct stat st;

        return stat(tasks, &st) == 0 && st.st_nlink > 3;
}

static void look_at_process(struct search *search, pid_t process)
{
        char path[96];
        struct dirent *entry;
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", process);
        look_at_table(search, path, process);
        (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
        dir = !search->n_left || !has_threads(path) ? NULL : opendir(path);
        if (!dir && search->n_left && (errno == EMFILE || errno == ENFILE || errno == ENOMEM) && has_threads(path))
                found_all(search);
        while (dir && search->n_left && (entry = readdir(dir))) {
                pid_t thread = (pid_t)atoi(entry->d_name);

                if (thread <= 0 || !has_own_table(process, thread))
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", process, thread);
                look_at_table(search, path, thread);
        }
        if (dir)
                (void)closedir(dir);
}

struct look {
        struct search search; /* of the list below */
        struct sought sought[];
};

static void look_everywhere(void *context)
{
        struct search *search = &((struct look *)context)->search;
        struct dirent *entry;
        DIR *dir = opendir("/proc");

        if (!dir) {
                found_all(search);
                return;
        }
        qsort(search->sought, search->n, sizeof(*search->sought), compare_sought);
        while (search->n_left && (entry = readdir(dir))) {
                pid_t process = (pid_t)atoi(entry->d_name);

                if (process > 0 && process != getpid())
                        look_at_process(search, process);
        }
        (void)closedir(dir);
}

/*
 * A process that executes another program keeps a lock for as long as that takes, and closing what is marked
 * close-on-exec is a part of it: a file of FUSE makes that as long as its server likes. Whoever compares files with
 * such a process waits, so it is an errand: one that is left behind has found nothing out, and any file may be open.
 * Source: begin_new_exec and do_close_on_exec, exec_update_lock in kcmp(2), 5.10 to 6.18.
 *
 * A space whose tenant has no task left waits nowhere that matters: its ranges ended with the address spaces that they
 * were in. What waits is another tenant's then, and so is who is in the midst of an exec: any program of the machine
 * may be, for as long as it likes, and whoever has ended does not wait for it. If that one has a file all the same, it
 * has a space with nothing in it (books/spaces.c X3).
 */
void files_open_elsewhere(struct sought *sought, size_t n, bool has_tasks)
{
        struct look *look = n ? malloc(sizeof(*look) + n * sizeof(*sought)) : NULL;

        if (!n)
                return;
        if (look) {
                memcpy(look->sought, sought, n * sizeof(*sought));
                look->search = (struct search){ .sought = look->sought, .n = n, .n_left = n, .may_wait = has_tasks };
        }
        if (!look || errand_run(look_everywhere, look, PATIENCE) != ERRAND_DONE) {
                if (has_tasks || !look)
                        found_all(&(struct search){ .sought = sought, .n = n });
                return;
        }
        memcpy(sought, look->sought, n * sizeof(*sought));
        free(look);
}
