/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/files.h"
#include "gate/state/channels.h"
#include "gate/state/process.h"

#include "base/cleanup.h"
#include "base/descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* Locks of rank LOCK_PROCESSES: taken alone. */
void files_init(struct files *files)
{
        *files = (struct files){ 0 };
        lock_init(&files->lock, LOCK_PROCESSES);
}

void files_done(struct files *files)
{
        for (size_t i = 0; i < files->n; i++) {
                (void)close(files->items[i].fd);
                map_done(&files->items[i].groups);
        }
        free(files->items);
        lock_done(&files->lock);
}

static bool same_file(pid_t process, int theirs, int ours)
{
        enum { FILE_OF_TASK = 0 }; /* KCMP_FILE in linux/kcmp.h */

        return syscall(SYS_kcmp, getpid(), process, FILE_OF_TASK, (unsigned long)ours, (unsigned long)theirs) == 0;
}

static struct file *file_find(const struct files *files, int fd)
{
        for (size_t i = 0; i < files->n; i++)
                if (same_file(getpid(), fd, files->items[i].fd))
                        return &files->items[i];
        return NULL;
}

uint64_t files_find(struct files *files, int fd)
{
        LOCKED(&files->lock);
        const struct file *file = file_find(files, fd);

        return file && !file->is_leaving ? file->number : 0;
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
                if (!files->items[i].is_leaving && same_file(thread, theirs, files->items[i].fd)) {
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
        const struct file *file = file_find(files, fd);
        struct stat st;
        int ours;

        if (file)
                return file->is_leaving ? 0 : file->number;
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

bool files_join(struct files *files, uint64_t number, const uint8_t uuid[static UVM_UUID_SIZE])
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || file->is_barred || file->is_leaving)
                return false;
        for (unsigned int i = 0; i < file->n_devices; i++)
                if (!memcmp(file->devices[i], uuid, UVM_UUID_SIZE))
                        return true;
        if (file->n_devices == FILE_DEVICES)
                return false;
        memcpy(file->devices[file->n_devices++], uuid, UVM_UUID_SIZE);
        return true;
}

void files_bar(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (file)
                file->is_barred = true;
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

static void drop_if_unused(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || file->n_users)
                return;
        (void)close(file->fd);
        files->n_groups -= file->n_groups;
        map_done(&file->groups);
        *file = files->items[--files->n];
}

/* All of them, in use from here on. How many; 0 also without memory. */
static size_t seek_all(struct files *files, struct sought **ret)
{
        LOCKED(&files->lock);
        struct sought *sought = calloc(files->n + 1, sizeof(*sought));

        if (!sought)
                return 0;
        for (size_t i = 0; i < files->n; i++) {
                files->items[i].n_users++;
                sought[i] = (struct sought){ .number = files->items[i].number, .fd = files->items[i].fd };
        }
        *ret = sought;
        return files->n;
}

/* From here on it is leaving, until file_stays. */
static bool is_idle(struct files *files, uint64_t number, struct file *ret)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || file->n_users > 1)
                return false;
        file->is_leaving = true;
        *ret = *file;
        return true;
}

static bool is_leaving(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        const struct file *file = file_at(files, number);

        return file && file->is_leaving;
}

static void file_stays(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (file)
                file->is_leaving = false;
}

void files_drop_unused(struct files *files, bool has_tasks, const struct files_release *release)
{
        _cleanup_(freep) struct sought *sought = NULL;
        size_t n = seek_all(files, &sought);

        release->find_open(sought, n, has_tasks);
        for (size_t i = 0; i < n; i++) {
                struct file file;
                bool is_emptied = is_leaving(files, sought[i].number); /* and was in use, when it was to be dropped */
                bool leaves = is_emptied || (!sought[i].is_open && is_idle(files, sought[i].number, &file));
                bool is_unused =
                        is_emptied || (leaves && !(has_tasks && is_mapped_by_any(files, &file, release->is_mapped)) &&
                                       release->empty(release->context, &file));

                files_unuse(files, sought[i].number);
                if (is_unused)
                        drop_if_unused(files, sought[i].number);
                else if (leaves)
                        file_stays(files, sought[i].number);
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

bool files_group_begin(struct files *files, uint64_t number)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || file->n_groups == FILE_GROUPS || files->n_groups == FILES_GROUPS ||
            map_reserve(&file->groups, file->n_groups - file->groups.n_used + 1) < 0)
                return false;
        file->n_groups++;
        files->n_groups++;
        return true;
}

void files_group_made(struct files *files, uint64_t number, uint64_t group)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (file)
                (void)map_put(&file->groups, group, files); /* there is room */
}

void files_group_end(struct files *files, uint64_t number, uint64_t group)
{
        LOCKED(&files->lock);
        struct file *file = file_at(files, number);

        if (!file || !file->n_groups || (group && !map_take(&file->groups, group)))
                return;
        file->n_groups--;
        files->n_groups--;
}
