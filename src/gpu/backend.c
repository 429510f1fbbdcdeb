/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/backend.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

int gpu_release_read(const char *path, struct gpu_backend *ret, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct rm_version version;
        ssize_t n;

        if (fd < 0)
                return err_set(err, -errno, "opening %s", path);
        n = read(fd, ret->release, sizeof(ret->release) - 1);
        if (n < 0)
                return err_set(err, -errno, "reading %s", path);
        ret->release[n] = '\0';
        ret->release[strcspn(ret->release, " \n")] = '\0';
        if (rm_version_parse(ret->release, &version) < 0)
                return err_say(err, -ENOTSUP, "%s does not hold a driver release: '%s'", path, ret->release);
        if (rm_layout_for(version, &ret->layout) != RM_OK)
                return err_say(err, -ENOTSUP,
                               "driver %s: the ABI of this release is not known here, so nothing is let "
                               "through ('sublet doctor' lists the known releases)",
                               ret->release);
        return 0;
}

void gpu_machine(char ret[static GPU_MACHINE])
{
        const char *directory = getenv("SUBLET_SIM");
        _cleanup_(closep) int fd = -1;
        char path[512];
        ssize_t n;

        ret[0] = '\0';
        if (!directory)
                return;
        (void)snprintf(path, sizeof(path), "%s/id", directory);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, ret, GPU_MACHINE - 1);
        ret[n > 0 ? n : 0] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
        if (!ret[0])
                (void)strcpy(ret, "?");
}

int gpu_serve_lock(struct err *err)
{
        const char *directory = getenv("SUBLET_SIM");
        _cleanup_(closep) int fd = -1;
        char path[512];

        (void)snprintf(path, sizeof(path), "%s%s", directory ? directory : "/dev/nvidiactl", directory ? "/id" : "");
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return err_set(err, -errno, "opening %s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                return TAKE_FD(fd);
        if (errno != EWOULDBLOCK)
                return err_set(err, -errno, "locking %s", path);
        return err_say(err, -EBUSY,
                       "another daemon serves the devices of this machine already, from another directory: stop it "
                       "first ('fuser %s')",
                       path);
}

int gpu_backend_find(struct gpu_backend *ret, struct err *err)
{
        if (getenv("SUBLET_SIM"))
                return gpu_sim_open(ret, err);
        return gpu_driver_open(ret, err);
}
