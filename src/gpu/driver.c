/* SPDX-License-Identifier: Apache-2.0 */
/* The real driver: device nodes, distinguished by their numbers. */
#include "gpu/backend.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Major 195 is the driver's permanently, with fixed minors of nvidiactl and nvidia-modeset. The other majors are
 * assigned when a module is loaded, and listed in /proc/devices. */
enum {
        MAJOR_NVIDIA = 195,
        MINOR_CTL = 255,
        MINOR_MODESET = 254,
        OTHERS_MAX = 16,
};

struct majors {
        unsigned int uvm;                   /* 0: the module is not loaded */
        unsigned int forbidden[OTHERS_MAX]; /* nvidia-caps, nvidia-nvswitch, nvidia-nvlink, ... */
        size_t n_forbidden;
};

/* One driver per machine, read once; never written after gpu_driver_open. */
static struct majors majors;

static int read_majors(struct majors *ret)
{
        struct majors found = { 0 };
        unsigned int major;
        size_t n_others = 0;
        char name[128];
        FILE *file = fopen("/proc/devices", "re");
        char line[256];

        if (!file)
                return -errno;
        while (fgets(line, sizeof(line), file)) {
                if (sscanf(line, "%u %127s", &major, name) != 2)
                        continue;
                if (!strcmp(name, "Block"))
                        break;
                if (!strcmp(name, "nvidia-uvm"))
                        found.uvm = major;
                else if (!strncmp(name, "nvidia", 6) && major != MAJOR_NVIDIA && n_others++ < OTHERS_MAX)
                        found.forbidden[found.n_forbidden++] = major;
        }
        (void)fclose(file);
        if (n_others > OTHERS_MAX)
                return -E2BIG; /* one that is not known would count as a file of others */
        *ret = found;
        return 0;
}

static enum rm_node driver_node(void *context, int fd, uint32_t *ret_minor)
{
        const struct majors *known = context;
        struct statx st = { 0 };

        /* What the kernel knows already: a file of FUSE would ask its server, which may be the tenant's. */
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 || !S_ISCHR(st.stx_mode))
                return RM_NODE_OTHER;
        *ret_minor = st.stx_rdev_minor;
        if (st.stx_rdev_major == MAJOR_NVIDIA)
                return *ret_minor == MINOR_CTL     ? RM_NODE_CTL :
                       *ret_minor == MINOR_MODESET ? RM_NODE_FORBIDDEN :
                                                     RM_NODE_DEVICE;
        if (known->uvm && st.stx_rdev_major == known->uvm)
                return *ret_minor == 0 ? RM_NODE_UVM : RM_NODE_UVM_TOOLS;
        for (size_t i = 0; i < known->n_forbidden; i++)
                if (st.stx_rdev_major == known->forbidden[i])
                        return RM_NODE_FORBIDDEN;
        return RM_NODE_OTHER;
}

static int driver_ioctl(void *context, int fd, uint32_t request, void *block)
{
        (void)context;
        return ioctl(fd, request, block) < 0 ? -errno : 0;
}

static int driver_open(void *context, const char *node)
{
        char path[64];
        int fd;

        (void)context;
        (void)snprintf(path, sizeof(path), "/dev/%s", node);
        fd = open(path, O_RDWR | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int driver_map_as(void *context, int fd, size_t size, int protection, void **ret)
{
        void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);

        (void)context;
        if (at == MAP_FAILED)
                return -errno;
        *ret = at;
        return 0;
}

static int driver_map(void *context, int fd, size_t size, const void **ret)
{
        void *at = NULL;
        int r = driver_map_as(context, fd, size, PROT_READ, &at);

        if (r == 0)
                *ret = at;
        return r;
}

int gpu_driver_open(struct gpu_backend *ret, struct err *err)
{
        struct gpu_backend found = { .name = "driver",
                                     .context = &majors,
                                     .node = driver_node,
                                     .ioctl = driver_ioctl,
                                     .open = driver_open,
                                     .map = driver_map,
                                     .map_as = driver_map_as };
        int r;

        if (access("/sys/module/nvidia/version", R_OK) < 0)
                return err_say(err, -ENODEV,
                               "no NVIDIA driver is loaded on this machine; "
                               "'sublet sim -- COMMAND' runs it on a simulated one");
        r = gpu_release_read("/sys/module/nvidia/version", &found, err);
        if (r < 0)
                return r;
        if (access("/dev/nvidiactl", R_OK | W_OK) < 0)
                return err_set(err, -errno, "opening /dev/nvidiactl");
        r = read_majors(&majors);
        if (r < 0)
                return err_set(err, r, "reading /proc/devices");
        *ret = found;
        return 0;
}
