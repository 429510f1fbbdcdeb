/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/files.h"
#include "gate/state/channels.h"
#include "gate/state/process.h"

#include "base/cleanup.h"
#include "base/descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

enum {
        KCMP_FILE_ = 0, /* linux/kcmp.h */
        KCMP_FILES_ = 2,
        SECCOMP_FILTERED = 2, /* in /proc/PID/status */
};

/* Locks of rank LOCK_PROCESSES: taken alone. */
void files_init(struct files *files)
{
        *files = (struct files){ 0 };
        lock_init(&files->lock, LOCK_PROCESSES);
}

void files_done(struct files *files)
{
        for (size_t i = 0; i < files->n; i++)
                (void)close(files->items[i].fd);
        free(files->items);
        lock_done(&files->lock);
}

static bool same_file(pid_t process, int theirs, int ours)
{
        return syscall(SYS_kcmp, getpid(), process, KCMP_FILE_, (unsigned long)ours, (unsigned long)theirs) == 0;
}

static uint64_t file_find(const struct files *files, int fd)
{
        for (size_t i = 0; i < files->n; i++)
                if (same_file(getpid(), fd, files->items[i].fd))
                        return files->items[i].number;
        return 0;
}

uint64_t files_find(struct files *files, int fd)
{
        LOCKED(&files->lock);

        return file_find(files, fd);
}

static struct file *file_at(struct files *files, uint64_t number)
{
        for (size_t i = 0; i < files->n; i++)
                if (files->items[i].number == number)
                        return &files->items[i];
        return NULL;
}

bool files_use(struct files *files, pid_t thread, int theirs, int *ret_fd, uint64_t *ret_number)
{
        LOCKED(&files->lock);

        for (size_t i = 0; i < files->n; i++)
                if (same_file(thread, theirs, files->items[i].fd)) {
                        files->items[i].n_users++;
                        *ret_fd = files->items[i].fd;
                        *ret_number = files->items[i].number;
                        return true;
                }
        return false;
}

bool files_next(struct files *files, uint64_t after, struct file *ret)
{
        LOCKED(&files->lock);
        struct file *next = NULL;

        for (size_t i = 0; i < files->n; i++)
                if (files->items[i].number > after && (!next || files->items[i].number < next->number))
                        next = &files->items[i];
        if (!next)
                return false;
        next->n_users++;
        *ret = *next;
        return true;
}

void files_unuse(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (file)
                file->n_users--;
}

uint64_t files_keep(struct files *files, int fd)
{
        LOCKED(&files->lock);
        uint64_t number = file_find(files, fd);
        struct stat st;
        int ours;

        if (number)
                return number;
        if (array_grow((void **)&files->items, &files->n_room, files->n + 1, sizeof(*files->items)) < 0)
                return 0;
        ours = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (ours < 0)
                return 0;
        if (descriptors_are_few(ours)) {
                (void)close(ours);
                return 0;
        }
        files->items[files->n++] =
                (struct file){ .number = ++files->last, .fd = ours, .inode = fstat(ours, &st) < 0 ? 0 : st.st_ino };
        return files->last;
}

bool files_have_range(struct files *files, const char *line)
{
        unsigned long long base, offset, inode;

        if (sscanf(line, "%llx-%*x %*s %llx %*s %llu", &base, &offset, &inode) != 3 || base != offset || !inode)
                return false;

        LOCKED(&files->lock);
        for (size_t i = 0; i < files->n; i++)
                if (files->items[i].inode == inode)
                        return true;
        return false;
}

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
 * Source: unix_show_fdinfo (scm_fds, Linux 5.10), io_uring_show_fdinfo (UserFiles).
 */
static bool holds_unseen(pid_t task, const char *descriptor)
{
        static const char *const counts[] = { "\nscm_fds:", "\nUserFiles:" };
        char file[32], text[4096];

        (void)snprintf(file, sizeof(file), "fdinfo/%.16s", descriptor);
        if (process_text(task, file, text, sizeof(text)) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
                const char *at = strstr(text, counts[i]);

                if (at && strtoul(at + strlen(counts[i]), NULL, 10))
                        return true;
        }
        return false;
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

/* A file to be found, and whether it may be where no table shows it. */
struct sought {
        int fd;
        bool may_wait;
};

/* Sockets and what io_uring makes may hold descriptors. Asked of the link and not of the file behind it: that one may
 * be on a file system that does not answer. */
static bool may_hold(int dir, const char *descriptor)
{
        char text[16] = "";

        if (readlinkat(dir, descriptor, text, sizeof(text) - 1) < 0)
                return false;
        return strncmp(text, "socket:", 7) == 0 || strncmp(text, "anon_inode:", 11) == 0;
}

static bool entry_has(int dir, const char *descriptor, struct task *task, const struct sought *sought)
{
        if (!isdigit((unsigned char)*descriptor))
                return false;
        if (same_file(task->id, atoi(descriptor), sought->fd))
                return true;
        return sought->may_wait && may_hold(dir, descriptor) && is_filtered(task) && holds_unseen(task->id, descriptor);
}

static bool table_has(const char *path, pid_t id, const struct sought *sought)
{
        struct task task = { .id = id };
        struct dirent *entry;
        bool has = false;
        DIR *dir = opendir(path);

        if (!dir && errno != EACCES)
                return errno != ENOENT && errno != ESRCH; /* cannot tell: it may */
        if (!dir)
                return hides(id);
        while (!has && (entry = readdir(dir)))
                has = entry_has(dirfd(dir), entry->d_name, &task, sought);
        (void)closedir(dir);
        return has;
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

static bool process_has(pid_t process, const struct sought *sought)
{
        char path[96];
        struct dirent *entry;
        bool has;
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", process);
        has = table_has(path, process, sought);
        (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
        dir = has || !has_threads(path) ? NULL : opendir(path);
        has = has || (!dir && (errno == EMFILE || errno == ENFILE || errno == ENOMEM) && has_threads(path));
        while (dir && !has && (entry = readdir(dir))) {
                pid_t thread = (pid_t)atoi(entry->d_name);

                if (thread <= 0 || !has_own_table(process, thread))
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", process, thread);
                has = table_has(path, thread, sought);
        }
        if (dir)
                (void)closedir(dir);
        return has;
}

static bool is_mapped_by_any(struct files *files, const struct file *file,
                             bool (*is_mapped)(struct files *files, pid_t process))
{
        if (file->n_mappers > FILE_MAPPERS)
                return true; /* cannot tell: keep it */
        for (unsigned int i = 0; i < file->n_mappers; i++)
                if (is_mapped(files, file->mappers[i]))
                        return true;
        return false;
}

/* A space whose tenant has no task left waits nowhere that matters: its ranges ended with the address spaces that they
 * were in. What waits is another tenant's then. */
bool files_open_elsewhere(const struct file *file, bool has_tasks)
{
        const struct sought sought = { .fd = file->fd, .may_wait = has_tasks };
        struct dirent *entry;
        bool has = false;
        DIR *dir = opendir("/proc");

        if (!dir)
                return true; /* cannot tell: keep it */
        while (!has && (entry = readdir(dir))) {
                pid_t process = (pid_t)atoi(entry->d_name);

                has = process > 0 && process != getpid() && process_has(process, &sought);
        }
        (void)closedir(dir);
        return has;
}

static void drop_if_unused(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || file->n_users)
                return;
        (void)close(file->fd);
        *file = files->items[--files->n];
}

void files_drop_unused(struct files *files, bool has_tasks, const struct files_release *release)
{
        struct file file = { 0 };

        while (files_next(files, file.number, &file)) {
                bool is_unused = file.n_users == 1 && !release->is_open(&file, has_tasks) &&
                                 !is_mapped_by_any(files, &file, release->is_mapped) &&
                                 release->empty(release->context, &file);

                files_unuse(files, file.number);
                if (is_unused)
                        drop_if_unused(files, file.number);
        }
}

void files_mapped(struct files *files, uint64_t number, pid_t process, nsec now)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);
        unsigned int known = 0;

        if (!file)
                return;
        file->mapping_at = now;
        while (known < file->n_mappers && known < FILE_MAPPERS && file->mappers[known] != process)
                known++;
        if (known < FILE_MAPPERS)
                file->mappers[known] = process;
        if (known == file->n_mappers)
                file->n_mappers++;
}

nsec files_mapped_at(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        const struct file *file = file_at(files, number);

        return file ? file->mapping_at : 0;
}

size_t files_count(struct files *files)
{
        LOCKED(&files->lock);

        return files->n;
}
