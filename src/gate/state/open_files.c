/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/open_files.h"

#include "base/cleanup.h"
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int open_files_init(struct open_files *files)
{
        *files = (struct open_files){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
        if (files->epoll < 0)
                return -errno;
        lock_init(&files->lock, LOCK_PROCESSES);
        return 0;
}

void open_files_done(struct open_files *files)
{
        for (size_t i = 0; i < files->n; i++)
                (void)close(files->items[i].slot);
        free(files->items);
        closep(&files->epoll);
        lock_done(&files->lock);
}

/* The slot is the epoll's own second descriptor while no file is in it. */
static void slot_clear(const struct open_files *files, int slot)
{
        (void)dup3(files->epoll, slot, O_CLOEXEC);
}

/* Adds the file under the slot's number. 0; -EEXIST: it is there; -errno. */
static int slot_add(const struct open_files *files, int fd, int slot, uint64_t number)
{
        struct epoll_event event = { .data.u64 = number };

        if (dup3(fd, slot, O_CLOEXEC) < 0)
                return -errno;
        return epoll_ctl(files->epoll, EPOLL_CTL_ADD, slot, &event) < 0 ? -errno : 0;
}

static bool is_in_slot(const struct open_files *files, int fd, int slot)
{
        int r = slot_add(files, fd, slot, 0);

        if (r == 0)
                (void)epoll_ctl(files->epoll, EPOLL_CTL_DEL, slot, NULL);
        slot_clear(files, slot);
        return r == -EEXIST;
}

static uint64_t file_find(const struct open_files *files, int fd)
{
        for (size_t i = 0; i < files->n; i++)
                if (!files->items[i].is_unnamed && is_in_slot(files, fd, files->items[i].slot))
                        return files->items[i].number;
        return 0;
}

uint64_t open_files_find(struct open_files *files, int fd)
{
        LOCKED(&files->lock);

        return file_find(files, fd);
}

static bool has_room(struct open_files *files)
{
        size_t n_room = files->n_room ? files->n_room * 2 : 8;
        struct open_file *items;

        if (files->n < files->n_room)
                return true;
        items = realloc(files->items, n_room * sizeof(*items));
        if (!items)
                return false;
        files->items = items;
        files->n_room = n_room;
        return true;
}

static uint64_t file_add(struct open_files *files, int fd, bool is_unnamed)
{
        int slot, r;

        if (!has_room(files))
                return 0;
        slot = fcntl(files->epoll, F_DUPFD_CLOEXEC, 0);
        if (slot < 0)
                return 0;
        r = descriptors_are_few(slot) ? -EMFILE : slot_add(files, fd, slot, files->last + 1);
        if (r < 0) {
                (void)close(slot);
                return 0;
        }
        slot_clear(files, slot);
        files->items[files->n++] =
                (struct open_file){ .number = ++files->last, .slot = slot, .is_unnamed = is_unnamed };
        return files->last;
}

uint64_t open_files_add(struct open_files *files, int fd)
{
        LOCKED(&files->lock);

        return file_add(files, fd, true);
}

uint64_t open_files_keep(struct open_files *files, int fd)
{
        LOCKED(&files->lock);
        uint64_t number = file_find(files, fd);

        return number ? number : file_add(files, fd, false);
}

size_t open_files_count(struct open_files *files)
{
        LOCKED(&files->lock);

        return files->n;
}

static int compare_numbers(const void *a, const void *b)
{
        uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

        return one < other ? -1 : one > other;
}

/* The numbers of the entries that the kernel has, sorted, at most n_room. How many; -errno. */
static ssize_t entries_read(const struct open_files *files, uint64_t *ret, size_t n_room)
{
        char path[64], line[256];
        size_t n = 0;
        FILE *info;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", files->epoll);
        info = fopen(path, "re");
        if (!info)
                return -errno;
        while (n < n_room && fgets(line, sizeof(line), info)) {
                const char *data = strncmp(line, "tfd:", 4) == 0 ? strstr(line, "data:") : NULL;

                if (data)
                        ret[n++] = strtoull(data + strlen("data:"), NULL, 16);
        }
        if (ferror(info)) {
                (void)fclose(info);
                return -EIO;
        }
        (void)fclose(info);
        qsort(ret, n, sizeof(*ret), compare_numbers);
        return (ssize_t)n;
}

size_t open_files_reap(struct open_files *files, nsec now, nsec grace, uint64_t *ret, size_t n_room,
                       bool *ret_is_closing)
{
        _cleanup_(freep) uint64_t *open = NULL;
        size_t n_gone = 0;
        ssize_t n_open;
        LOCKED(&files->lock);

        *ret_is_closing = false;
        if (!files->n)
                return 0;
        open = malloc(files->n * sizeof(*open));
        n_open = open ? entries_read(files, open, files->n) : -ENOMEM;
        if (n_open < 0)
                return 0; /* O4 */
        for (size_t i = 0; i < files->n && n_gone < n_room;) {
                struct open_file *file = &files->items[i];
                bool is_open = bsearch(&file->number, open, (size_t)n_open, sizeof(*open), compare_numbers);

                if (!is_open && !file->gone_at)
                        file->gone_at = now;
                if (is_open || now - file->gone_at < grace) {
                        *ret_is_closing |= !is_open;
                        i++;
                        continue;
                }
                ret[n_gone++] = file->number;
                (void)close(file->slot);
                files->items[i] = files->items[--files->n];
        }
        return n_gone;
}

bool open_files_has(struct open_files *files, uint64_t number)
{
        _cleanup_(freep) uint64_t *open = NULL;
        ssize_t n_open;
        LOCKED(&files->lock);

        open = files->n ? malloc(files->n * sizeof(*open)) : NULL;
        n_open = open ? entries_read(files, open, files->n) : 0;
        return n_open > 0 && bsearch(&number, open, (size_t)n_open, sizeof(*open), compare_numbers);
}
