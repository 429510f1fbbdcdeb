/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds devices in the driver's files in /proc, and its libraries where the loader would: in the directories of
 * ld.so.conf and the usual ones. Each library is mounted where it was found, by its plain name and by its release's
 * name, which the driver's own libraries use.
 */
#include "oci/cdi.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
        DIRECTORIES_MAX = 64,
};

struct search {
        const char *root, *release;
        char directories[DIRECTORIES_MAX][MACHINE_PATH]; /* below root */
        size_t n_directories;
        struct machine *machine;
};

/* ---- devices --------------------------------------------------------------------------------- */

/* Copies the word after a key: "GPU UUID: \t GPU-...". */
static bool word_of(const char *line, const char *key, char *ret, size_t size)
{
        size_t n = strlen(key), length;

        if (strncmp(line, key, n) != 0)
                return false;
        line += n + strspn(line + n, " \t");
        length = strcspn(line, " \t\n");
        if (length >= size)
                return false;
        memcpy(ret, line, length);
        ret[length] = '\0';
        return true;
}

static void fclosep(FILE **file)
{
        if (*file)
                (void)fclose(*file);
}

static void read_device(const char *path, struct machine_device *ret, bool *ret_is)
{
        _cleanup_(fclosep) FILE *file = fopen(path, "re");
        char line[256], minor[16] = "", excluded[8] = "";

        while (file && fgets(line, sizeof(line), file)) {
                (void)word_of(line, "GPU UUID:", ret->uuid, sizeof(ret->uuid));
                (void)word_of(line, "Device Minor:", minor, sizeof(minor));
                (void)word_of(line, "GPU Excluded:", excluded, sizeof(excluded));
        }
        if (strncmp(ret->uuid, "GPU-", 4) != 0 || strpbrk(ret->uuid, "?\"\\/"))
                ret->uuid[0] = '\0';
        *ret_is = sscanf(minor, "%u", &ret->minor) == 1 && strcmp(excluded, "Yes") != 0;
}

static int by_bus(const void *a, const void *b)
{
        return strcmp(((const struct machine_device *)a)->bus, ((const struct machine_device *)b)->bus);
}

static int find_devices(struct machine *machine, struct err *err)
{
        char path[2 * PATH_MAX];
        struct dirent *entry;
        DIR *dir;

        (void)snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", machine->sim);
        dir = opendir(path);
        while (dir && (entry = readdir(dir)) && machine->n_devices < MACHINE_DEVICES) {
                struct machine_device *device = &machine->devices[machine->n_devices];
                bool is = false;

                if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(device->bus))
                        continue;
                *device = (struct machine_device){ .minor = 0 };
                memcpy(device->bus, entry->d_name, strlen(entry->d_name));
                (void)snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", machine->sim,
                               device->bus);
                read_device(path, device, &is);
                machine->n_devices += is;
        }
        if (dir)
                (void)closedir(dir);
        if (!machine->n_devices)
                return err_say(err, -ENODEV, "the driver shows no device here (/proc/driver/nvidia/gpus)");
        qsort(machine->devices, machine->n_devices, sizeof(machine->devices[0]), by_bus);
        return 0;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static void put_directory(struct search *search, const char *directory)
{
        size_t length = strlen(directory);

        while (length > 1 && directory[length - 1] == '/')
                length--;
        if (directory[0] != '/' || length >= MACHINE_PATH || search->n_directories == DIRECTORIES_MAX)
                return;
        (void)snprintf(search->directories[search->n_directories++], MACHINE_PATH, "%.*s", (int)length, directory);
}

static void read_directories(struct search *search, const char *path, int depth)
{
        _cleanup_(fclosep) FILE *file = fopen(path, "re");
        char line[MACHINE_PATH], word[MACHINE_PATH], pattern[2 * MACHINE_PATH];
        glob_t found;

        while (file && fgets(line, sizeof(line), file)) {
                line[strcspn(line, "#\n")] = '\0';
                if (sscanf(line, " include %511s", word) == 1 && depth < 4) {
                        (void)snprintf(pattern, sizeof(pattern), "%s%s%s", search->root, word[0] == '/' ? "" : "/etc/",
                                       word);
                        if (glob(pattern, 0, NULL, &found) == 0)
                                for (size_t i = 0; i < found.gl_pathc; i++)
                                        read_directories(search, found.gl_pathv[i], depth + 1);
                        globfree(&found);
                } else if (sscanf(line, " %511s", word) == 1) {
                        put_directory(search, word);
                }
        }
}

/* Resolves a link below the root on the host: absolute targets begin at that root. */
static bool follow(const struct search *search, char *path, size_t size)
{
        char target[MACHINE_PATH], next[MACHINE_PATH];
        struct stat st;

        for (int hops = 0; hops < 8; hops++) {
                ssize_t n = readlink(path, target, sizeof(target) - 1);
                const char *slash = strrchr(path, '/');
                int length;

                if (n < 0)
                        return stat(path, &st) == 0 && S_ISREG(st.st_mode);
                target[n] = '\0';
                length = target[0] == '/' ? snprintf(next, sizeof(next), "%s%s", search->root, target) :
                                            snprintf(next, sizeof(next), "%.*s/%s", (int)(slash - path), path, target);
                if (length < 0 || (size_t)length >= size)
                        return false;
                memcpy(path, next, (size_t)length + 1);
        }
        return false;
}

static void put_mount(struct machine *machine, const char *host, const char *directory, const char *name)
{
        struct machine_mount *mount = &machine->mounts[machine->n_mounts];

        if (machine->n_mounts == MACHINE_MOUNTS ||
            (size_t)snprintf(mount->container, MACHINE_PATH, "%s/%s", directory, name) >= MACHINE_PATH)
                return;
        for (size_t i = 0; i < machine->n_mounts; i++)
                if (!strcmp(machine->mounts[i].container, mount->container))
                        return;
        (void)snprintf(mount->host, MACHINE_PATH, "%s", host);
        machine->n_mounts++;
}

/* Returns whether it was found. */
static bool find_file(struct search *search, const char *directory, const char *name)
{
        char host[MACHINE_PATH];

        if ((size_t)snprintf(host, sizeof(host), "%s%s/%s", search->root, directory, name) >= sizeof(host) ||
            !follow(search, host, sizeof(host)))
                return false;
        put_mount(search->machine, host, directory, name);
        return true;
}

/* In the first directory that has it, by both names: "libcuda.so.1", "libcuda.so.580.159.04". */
static bool find_library(struct search *search, const char *name)
{
        char of_release[128];
        const char *so = strstr(name, ".so");
        bool found = false;

        (void)snprintf(of_release, sizeof(of_release), "%.*s.so.%s", (int)(so - name), name, search->release);
        for (size_t i = 0; i < search->n_directories && !found; i++) {
                found = find_file(search, search->directories[i], of_release);
                if (found && so[3])
                        (void)(find_file(search, search->directories[i], name) ||
                               (put_mount(search->machine, search->machine->mounts[search->machine->n_mounts - 1].host,
                                          search->directories[i], name),
                                true));
        }
        return found;
}

int machine_libraries(const char *root, const char *release, struct machine *ret, struct err *err)
{
        static const char *const usual[] = { "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                             "/usr/lib/x86_64-linux-gnu/nvidia/current" };
        _cleanup_(freep) struct search *search = calloc(1, sizeof(*search));
        char path[MACHINE_PATH + 16];

        if (!search)
                return err_set(err, -ENOMEM, "looking for libraries");
        search->root = strcmp(root, "/") != 0 ? root : "";
        search->release = release;
        search->machine = ret;
        for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
                put_directory(search, usual[i]);
        (void)snprintf(path, sizeof(path), "%s/etc/ld.so.conf", search->root);
        read_directories(search, path, 0);
#define LIBRARY(name, needed, meaning)                                                                                 \
        if (!find_library(search, name) && (needed))                                                                   \
                return err_say(err, -ENODEV, "there is no %s of release %s below %s/ (--driver-root names another)",   \
                               name, search->release, search->root);
#define PROGRAM(name, meaning) (void)find_file(search, "/usr/bin", name);
#include "oci/libraries.def"
#undef LIBRARY
#undef PROGRAM
        return 0;
}

/* ---- a simulated machine ---------------------------------------------------------------------- */

#define SIM_DIRECTORY "/usr/lib/sublet"

/* The container gets what `sublet sim` gave this program, at other paths: a build directory does not exist there. */
static int find_sim(struct machine *machine, struct err *err)
{
        const char *preload = getenv("LD_PRELOAD"), *libraries = getenv("LD_LIBRARY_PATH");
        size_t used = 0;

        if (!preload || !libraries || strpbrk(preload, " :"))
                return err_say(err, -ENODEV,
                               "a simulated machine is described from within: "
                               "sublet sim -- sublet cdi generate");
        put_mount(machine, machine->sim, machine->sim, ".");
        machine->mounts[0].container[strlen(machine->sim)] = '\0';
        (void)snprintf(machine->preload, sizeof(machine->preload), SIM_DIRECTORY "/libsublet-sim.so");
        put_mount(machine, preload, SIM_DIRECTORY, "libsublet-sim.so");
        for (unsigned int i = 0; *libraries && i < 8; i++) {
                size_t length = strcspn(libraries, ":");
                char host[MACHINE_PATH], name[16];

                (void)snprintf(host, sizeof(host), "%.*s", (int)length, libraries);
                (void)snprintf(name, sizeof(name), "%u", i);
                put_mount(machine, host, SIM_DIRECTORY, name);
                used += (size_t)snprintf(machine->libraries + used, sizeof(machine->libraries) - used,
                                         "%s" SIM_DIRECTORY "/%s", used ? ":" : "", name);
                libraries += length + (libraries[length] == ':');
        }
        return 0;
}

int machine_find(const char *root, const char *release, struct machine *ret, struct err *err)
{
        const char *sim = getenv("SUBLET_SIM");
        int r;

        *ret = (struct machine){ .n_devices = 0 };
        if (sim && (size_t)snprintf(ret->sim, sizeof(ret->sim), "%s", sim) >= sizeof(ret->sim))
                return err_say(err, -ENODEV, "SUBLET_SIM: too long");
        r = find_devices(ret, err);
        if (r < 0 || sim)
                return r < 0 ? r : find_sim(ret, err);
        return machine_libraries(root, release, ret, err);
}
