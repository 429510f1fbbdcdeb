/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a machine: what the kernel's side of a driver shows as files. */
#include "sim/server/machine.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

void gpu_uuid_format(unsigned int index, char text[static UUID_TEXT])
{
        unsigned char u[16];

        gpu_uuid(index, u);
        (void)snprintf(text, UUID_TEXT, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                       u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
                       u[15]);
}

static int make_directory(const char *directory, const char *name)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
        return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

__attribute__((format(printf, 3, 4))) static int make_file(const char *directory, const char *name, const char *format,
                                                           ...)
{
        _cleanup_(closep) int fd = -1;
        char path[256];
        va_list list;
        int n;

        (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        va_start(list, format);
        n = vdprintf(fd, format, list);
        va_end(list);
        return n < 0 ? -EIO : 0;
}

/* By it a daemon knows who is on its machine; a directory that is used again is another machine. */
static int make_id(const char *directory)
{
        uint64_t id;

        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return -errno;
        return make_file(directory, "id", "%016" PRIx64 "\n", id);
}

/* For the simulated NVML and libcuda, a line each: ids of GPU and compute instance, bytes, UUID. No real driver has
 * it. */
static int make_instances(const struct machine_options *options)
{
        char text[INSTANCES_MAX * 96] = "", uuid[UUID_TEXT];
        size_t n = 0;

        gpu_uuid_format(0, uuid);
        for (unsigned int i = 0; i < options->n_instances; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%u 0 %llu MIG-%.24s%012u\n", i + 1,
                                      (unsigned long long)options->instances[i], uuid + 4, i + 1);
        return make_file(options->directory, "proc/driver/nvidia/gpus/0000:01:00.0/instances", "%s", text);
}

/* For the simulated NVML (sim/nvml/health.c): an idle H200 at rest. The figures stay as they are until somebody writes
 * others; what no line says, this device does not tell. */
static int make_health(const char *directory, unsigned int index)
{
        char name[80];

        (void)snprintf(name, sizeof(name), "proc/driver/nvidia/gpus/0000:%02x:00.0/health", index + 1);
        return make_file(directory, name,
                         "temperature 31\nmemory_temperature 34\npower 76000\npower_limit 700000\n"
                         "sm_clock 345\nmemory_clock 3201\necc_corrected 0\necc_uncorrected 0\n"
                         "rows_corrected 0\nrows_uncorrected 0\nremap_pending 0\nremap_failed 0\n"
                         "pcie_replays 0\nclock_reasons 1\n");
}

static int make_gpu(const char *directory, unsigned int index)
{
        char name[80], uuid[UUID_TEXT];
        int r;

        gpu_uuid_format(index, uuid);
        (void)snprintf(name, sizeof(name), "proc/driver/nvidia/gpus/0000:%02x:00.0", index + 1);
        r = make_directory(directory, name);
        if (r < 0)
                return r;
        (void)snprintf(name, sizeof(name), "proc/driver/nvidia/gpus/0000:%02x:00.0/information", index + 1);
        return make_file(directory, name,
                         "Model: \t\t NVIDIA H200\n"
                         "IRQ:   \t\t 0\n"
                         "GPU UUID: \t %s\n"
                         "Video BIOS: \t 96.00.00.00.00\n"
                         "Bus Type: \t PCIe\n"
                         "DMA Size: \t 52 bits\n"
                         "DMA Mask: \t 0xfffffffffffff\n"
                         "Bus Location: \t 0000:%02x:00.0\n"
                         "Device Minor: \t %u\n"
                         "GPU Excluded:\t No\n",
                         uuid, index + 1, index);
}

int machine_lock(const char *directory)
{
        char path[256];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/lock", directory);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                int r = errno == EWOULDBLOCK ? -EBUSY : -errno;

                (void)close(fd);
                return r;
        }
        return fd;
}

static void remove_file(const char *directory, const char *name)
{
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
        (void)remove(path);
}

/* Of the machine that was here before and may have had more of them. */
static void remove_old(const struct machine_options *options)
{
        char name[80];

        remove_file(options->directory, "proc/driver/nvidia/gpus/0000:01:00.0/instances");
        for (unsigned int i = options->n_gpus; i < GPUS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "dev/nvidia%u", i);
                remove_file(options->directory, name);
                (void)snprintf(name, sizeof(name), "proc/driver/nvidia/gpus/0000:%02x:00.0/health", i + 1);
                remove_file(options->directory, name);
                (void)snprintf(name, sizeof(name), "proc/driver/nvidia/gpus/0000:%02x:00.0/information", i + 1);
                remove_file(options->directory, name);
                *strrchr(name, '/') = '\0';
                remove_file(options->directory, name);
        }
}

int machine_files_make(const struct machine_options *options)
{
        static const char *const directories[] = {
                "dev", "proc",       "proc/driver",       "proc/driver/nvidia",    "proc/driver/nvidia/gpus",
                "sys", "sys/module", "sys/module/nvidia", "sys/module/nvidia_uvm",
        };
        const char *directory = options->directory;
        int r = 0;

        remove_old(options);
        for (size_t i = 0; i < ARRAY_SIZE(directories) && !r; i++)
                r = make_directory(directory, directories[i]);
        if (!r)
                r = make_file(directory, "pid", "%d\n", (int)getpid());
        if (!r)
                r = make_id(directory);
        if (!r)
                r = make_file(directory, "sys/module/nvidia/version", "%s\n", options->release);
        if (!r)
                r = make_file(directory, "sys/module/nvidia_uvm/version", "%s\n", options->release);
        if (!r)
                r = make_file(directory, "proc/driver/nvidia/version",
                              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  "
                              "Release Build  "
                              "(sublet sim)\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
                              options->release);
        if (!r)
                r = make_file(directory, "proc/driver/nvidia/params",
                              "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n"
                              "DeviceFileGID: 0\nDeviceFileMode: 438\nRmProfilingAdminOnly: 1\n");
        for (unsigned int i = 0; i < options->n_gpus && !r; i++) {
                r = make_gpu(directory, i);
                if (!r)
                        r = make_health(directory, i);
        }
        if (!r && options->n_instances)
                r = make_instances(options);
        return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
        (void)st, (void)type, (void)where;
        (void)remove(path);
        return 0;
}

void machine_files_remove(const char *directory)
{
        enum {
                DESCRIPTORS = 8,
        };

        (void)nftw(directory, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
