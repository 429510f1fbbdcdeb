/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry of an epoll names a file without holding it, and kcmp compares a descriptor of any process with it
 * (kcmp_epoll_target, Linux 4.13). It waits for a process in the midst of an exec, so the look is an errand.
 */
#include "gate/state/holder.h"

#include "base/clock.h"
#include "base/errand.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE (500 * NSEC_PER_MSEC)

enum {
        KCMP_EPOLL_TFD_ = 7, /* linux/kcmp.h */
        SLOTS_MAX = 64,      /* of the files that are asked about */
};

struct entry_of_epoll {
        uint32_t epoll, slot, offset;
};

struct holder_look {
        int epoll;
        int slots[SLOTS_MAX];
        size_t n;
        pid_t found;
};

static bool has_file(const struct holder_look *look, pid_t process, int theirs)
{
        for (size_t i = 0; i < look->n; i++) {
                struct entry_of_epoll entry = { (uint32_t)look->epoll, (uint32_t)look->slots[i], 0 };

                if (syscall(SYS_kcmp, process, getpid(), KCMP_EPOLL_TFD_, theirs, &entry) == 0)
                        return true;
        }
        return false;
}

/* A node of the driver, or what the simulator has in its place. */
static bool may_be_drivers(int dir, const char *descriptor)
{
        char text[32] = "";

        return readlinkat(dir, descriptor, text, sizeof(text) - 1) > 0 &&
               (strncmp(text, "/dev/", 5) == 0 || strncmp(text, "socket:", 7) == 0);
}

static bool look_at_process(const struct holder_look *look, pid_t process)
{
        const struct dirent *entry;
        bool is_found = false;
        char path[32];
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", process);
        dir = opendir(path);
        while (dir && !is_found && (entry = readdir(dir)))
                is_found = isdigit((unsigned char)*entry->d_name) && may_be_drivers(dirfd(dir), entry->d_name) &&
                           has_file(look, process, atoi(entry->d_name));
        if (dir)
                (void)closedir(dir);
        return is_found;
}

static void look_everywhere(void *context)
{
        struct holder_look *look = context;
        const struct dirent *entry;
        DIR *dir = opendir("/proc");

        while (dir && !look->found && (entry = readdir(dir))) {
                pid_t process = (pid_t)atoi(entry->d_name);

                if (process > 0 && process != getpid() && look_at_process(look, process))
                        look->found = process;
        }
        if (dir)
                (void)closedir(dir);
}

pid_t open_files_holder(struct open_files *files)
{
        struct holder_look *look = calloc(1, sizeof(*look));
        pid_t found = 0;

        if (!look)
                return 0;
        look->epoll = files->epoll;
        {
                LOCKED(&files->lock);
                for (; look->n < files->n && look->n < SLOTS_MAX; look->n++)
                        look->slots[look->n] = files->items[look->n].slot;
        }
        if (!look->n || errand_run(look_everywhere, look, PATIENCE) == ERRAND_DONE) {
                found = look->found;
                free(look);
        }
        return found;
}
