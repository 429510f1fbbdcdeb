/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mps_server.h"

#include "base/cleanup.h"
#include "base/process.h"
#include "gate/gate.h"
#include "rm/numbers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void closedirp(DIR **dir)
{
        if (*dir)
                (void)closedir(*dir);
}

/* A small file, as text. False: it cannot be read. */
static bool read_text(const char *path, char *to, size_t room)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);

        if (n < 0)
                return false;
        to[n] = '\0';
        return true;
}

/* From /proc/PROCESS/stat, if the process's name begins with `name`: its parent (field 4) and start (22). They stand
 * behind the name, which may hold any character. */
static bool stat_of(pid_t process, const char *name, pid_t *ret_parent, uint64_t *ret_begun)
{
        char path[64], text[1024];
        unsigned long long begun = 0;
        const char *at;
        int parent = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        if (!read_text(path, text, sizeof(text)) || !(at = strrchr(text, ')')))
                return false;
        if (!strchr(text, '(') || strncmp(strchr(text, '(') + 1, name, strlen(name)) != 0)
                return false;
        if (sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &parent,
                   &begun) != 2 ||
            at[2] == 'Z')
                return false;
        *ret_parent = parent;
        *ret_begun = begun;
        return true;
}

uint64_t mps_begun(pid_t process)
{
        uint64_t begun = 0;
        pid_t parent;

        return process > 0 && stat_of(process, "", &parent, &begun) ? begun : 0;
}

pid_t mps_server(pid_t control)
{
        _cleanup_(closedirp) DIR *dir = opendir("/proc");
        const struct dirent *entry;
        uint64_t begun;
        pid_t parent;

        while (dir && control > 0 && (entry = readdir(dir))) {
                pid_t process = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

                if (process > 0 && stat_of(process, "nvidia-cuda-mps", &parent, &begun) && parent == control)
                        return process;
        }
        return 0;
}

const char *mps_place(unsigned int device, uint32_t team, char ret[static MPS_PLACE])
{
        if (team)
                (void)snprintf(ret, MPS_PLACE, "%u-%u", device, team);
        else
                (void)snprintf(ret, MPS_PLACE, "%u", device);
        return ret;
}

bool mps_place_parse(const char *text, unsigned int *ret_device, uint32_t *ret_team)
{
        char again[MPS_PLACE];

        *ret_team = 0;
        return sscanf(text, "%u-%u", ret_device, ret_team) >= 1 &&
               !strcmp(mps_place(*ret_device, *ret_team, again), text);
}

pid_t mps_control(const char *dir, unsigned int device, uint32_t team, uint64_t *ret_begun)
{
        char path[160], text[64], place[MPS_PLACE];
        unsigned long long begun;
        int process;

        (void)snprintf(path, sizeof(path), "%s/mps/%s/control", dir, mps_place(device, team, place));
        if (!read_text(path, text, sizeof(text)) || sscanf(text, "%d %llu", &process, &begun) != 2)
                return 0;
        if (!begun || mps_begun(process) != begun)
                return 0;
        *ret_begun = begun;
        return process;
}

/* One that its parent has not reaped has ended. Where /proc hides others' processes nothing is there. */
static bool has_ended(pid_t process)
{
        char path[32];

        (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
        if (kill(process, 0) < 0 && errno == ESRCH)
                return true;
        return access(path, F_OK) == 0 && !process_is_alive(process);
}

bool mps_server_has_ended(const char *dir, unsigned int device, uint32_t team)
{
        char path[160], text[64], place[MPS_PLACE];
        int process;

        (void)snprintf(path, sizeof(path), "%s/mps/%s/server", dir, mps_place(device, team, place));
        return read_text(path, text, sizeof(text)) && sscanf(text, "%d", &process) == 1 && process > 0 &&
               has_ended(process);
}

bool mps_is_any(const char *dir)
{
        _cleanup_(closedirp) DIR *places = NULL;
        const struct dirent *entry;
        unsigned int device;
        bool is_any = false;
        uint64_t begun;
        uint32_t team;
        char path[160];

        (void)snprintf(path, sizeof(path), "%s/mps", dir);
        places = opendir(path);
        while (places && !is_any && (entry = readdir(places)))
                is_any = mps_place_parse(entry->d_name, &device, &team) && mps_control(dir, device, team, &begun);
        return is_any;
}

/* The driver accepts a client's handle only on the descriptor through which the client was made; elsewhere it answers
 * INVALID_CLIENT. Source: client_resource.c, 525 to 595; measured, H200, 580.159.04. */
static bool fd_has_client(const struct gate_driver *driver, int fd, uint32_t client)
{
        uint8_t block[32] = { 0 }, ids[128] = { 0 };
        uint32_t minor;

        if (driver->node(driver->context, fd, &minor) != RM_NODE_CTL)
                return false;
        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), 4, client);
        rm_put32(block, sizeof(block), 8, RM_GET_ATTACHED_IDS);
        rm_put64(block, sizeof(block), 16, (uintptr_t)ids);
        rm_put32(block, sizeof(block), 24, sizeof(ids));
        return driver->ioctl(driver->context, fd, 3u << 30 | 32u << 16 | 'F' << 8 | RM_NR_CONTROL, block) >= 0 &&
               rm_get32(block, sizeof(block), 28) == RM_STATUS_OK;
}

bool mps_lends(const char *dir, unsigned int device, uint32_t team, const struct gate_driver *driver, uint32_t client)
{
        uint64_t begun;
        pid_t server = mps_server(mps_control(dir, device, team, &begun));
        _cleanup_(closep) int pidfd = server > 0 ? (int)syscall(SYS_pidfd_open, server, 0) : -1;
        _cleanup_(closedirp) DIR *fds = NULL;
        const struct dirent *entry;
        bool is_its = false;
        char path[64];

        if (pidfd < 0)
                return false;
        (void)snprintf(path, sizeof(path), "/proc/%d/fd", server);
        fds = opendir(path);
        while (fds && !is_its && (entry = readdir(fds))) {
                _cleanup_(closep) int fd = -1;

                if (!isdigit((unsigned char)entry->d_name[0]))
                        continue;
                fd = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
                is_its = fd >= 0 && fd_has_client(driver, fd, client);
        }
        return is_its;
}
