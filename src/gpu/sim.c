/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver: the same interface, answered by the server of src/sim. */
#include "gpu/backend.h"

#include "base/err.h"
#include "sim/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* One simulated machine per process; never written after gpu_sim_open. */
static struct {
        const char *directory;
        struct rm_layout layout;
} machine;

static enum rm_node sim_backend_node(void *context, int fd, uint32_t *ret_minor)
{
        (void)context;
        return sim_node(machine.directory, fd, ret_minor);
}

static int sim_backend_ioctl(void *context, int fd, uint32_t request, void *block)
{
        (void)context;
        return sim_ioctl(fd, &machine.layout, request, block);
}

static int sim_backend_open(void *context, const char *name)
{
        (void)context;
        return sim_open(machine.directory, name, O_CLOEXEC);
}

static int sim_backend_map_as(void *context, int fd, size_t size, int protection, void **ret)
{
        bool is_uvm;
        intptr_t at = sim_mmap(fd, NULL, size, protection, MAP_SHARED, 0, &is_uvm);

        (void)context;
        if (at < 0 && at > -4096)
                return (int)at;
        *ret = (void *)at;
        return 0;
}

static int sim_backend_map(void *context, int fd, size_t size, const void **ret)
{
        void *at = NULL;
        int r = sim_backend_map_as(context, fd, size, PROT_READ, &at);

        if (r == 0)
                *ret = at;
        return r;
}

int gpu_sim_open(struct gpu_backend *ret, struct err *err)
{
        struct gpu_backend found = { .name = "sim",
                                     .node = sim_backend_node,
                                     .ioctl = sim_backend_ioctl,
                                     .open = sim_backend_open,
                                     .map = sim_backend_map,
                                     .map_as = sim_backend_map_as };
        const char *directory = sim_directory();
        char path[512];
        int r;

        if (!directory)
                return err_say(err, -ENODEV, "SUBLET_SIM does not name a simulated machine");
        (void)snprintf(path, sizeof(path), "%s/sys/module/nvidia/version", directory);
        r = gpu_release_read(path, &found, err);
        if (r < 0)
                return err_while(err, "simulated machine");
        machine.directory = directory;
        machine.layout = found.layout;
        *ret = found;
        return 0;
}
