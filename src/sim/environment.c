/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/environment.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "sim/client/wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds to the front of a list with colons. */
static int environment_prepend(const char *name, const char *what)
{
        const char *old = getenv(name);
        char text[8192];

        if (!old || !*old)
                return setenv(name, what, 1);
        if (snprintf(text, sizeof(text), "%s:%s", what, old) >= (int)sizeof(text))
                return -1;
        return setenv(name, text, 1);
}

/* The directory of a library or program: beside the program in a build tree, or where it is installed. */
static int library_find(const char *name, char *ret_directory, size_t size)
{
        static const char *const places[] = { "sim", "sim/cuda", "sim/nvml", "../lib/sublet/sim" };
        char self[PATH_MAX], path[2 * PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        self[n < 0 ? 0 : n] = 0;
        *strrchr(n > 0 ? self : strcpy(self, "/"), '/') = 0;
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s/%s", self, places[i], name);
                if (access(path, R_OK) == 0)
                        return snprintf(ret_directory, size, "%s/%s", self, places[i]) < (int)size ? 0 : -ENAMETOOLONG;
        }
        return -ENOENT;
}

/* A sanitized library needs the sanitizer's runtime to be loaded first, also in programs without one. */
static int sanitizer_prepend(void)
{
        void *symbol = dlsym(RTLD_DEFAULT, "__asan_init");
        Dl_info info;

        return symbol && dladdr(symbol, &info) && strstr(info.dli_fname, ".so") ?
                       environment_prepend("LD_PRELOAD", info.dli_fname) :
                       0;
}

int environment_make(const char *machine, struct err *err)
{
        static const char *const libraries[] = { "libnvidia-ml.so.1", "libcuda.so.1" };
        char directory[PATH_MAX], path[PATH_MAX + 32];
        int r;

        r = library_find("libsublet-sim.so", directory, sizeof(directory));
        if (r < 0)
                return err_set(err, r, "looking for libsublet-sim.so");
        (void)snprintf(path, sizeof(path), "%s/libsublet-sim.so", directory);
        if (setenv(SIM_ENV, machine, 1) < 0 || environment_prepend("LD_PRELOAD", path) < 0 || sanitizer_prepend() < 0)
                return err_set(err, -ENOMEM, "setting the environment");
        for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
                if (library_find(libraries[i], directory, sizeof(directory)) == 0 &&
                    environment_prepend("LD_LIBRARY_PATH", directory) < 0)
                        return err_set(err, -ENOMEM, "setting the environment");
        if (library_find("nvidia-smi", directory, sizeof(directory)) == 0 && environment_prepend("PATH", directory) < 0)
                return err_set(err, -ENOMEM, "setting the environment");
        return 0;
}
