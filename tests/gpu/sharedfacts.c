/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all programs of a device or of a machine share, and whether one of them can take all of it: asked of the driver
 * itself, without a gate. tests/gpu/sharedfacts.sh.
 *
 *      windows    one memory of 256 MiB is mapped for the processor again and again: how much of the device's window
 *                 (BAR1) goes, and whether another program can still start
 *      offsets    the same, each mapping a page further on, so that no two are the same
 *      listens    the list of events of the operating system: what a call costs as it grows, and what a program's
 *                 start costs beside it
 *      groups     range groups of UVM: what a million of them take of the host's memory
 *      mappings   one page of memory, mapped at ever more addresses of the device: what that takes of the host
 *      start      what the others start: a context, and how long it took
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
        MEMORY = KIT_MEMORY,
        RESERVATION,
        SPACE,
        CLASS_SPACE = 0x90f1,
        VIRTUAL = 0x80400, /* lazy */
        SMALL = 1 << 23,
        NR_ALLOC_EVENT = 0xce,
        CREATE_RANGE_GROUP = 23,
        PIECE_MIB = 256,
        PAGE = 4096,
        WINDOWS_MAX = 2048,
        LISTENS = 30000,
        GROUPS = 1000000,
        MAPPINGS = 200000,
};

static double now(void)
{
        struct timespec at;

        (void)clock_gettime(CLOCK_MONOTONIC, &at);
        return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static long available_mib(void)
{
        char line[128];
        long kib = 0;
        FILE *info = fopen("/proc/meminfo", "re");

        while (info && fgets(line, sizeof(line), info) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
                ;
        if (info)
                (void)fclose(info);
        return kib / 1024;
}

/* Another program, which knows nothing of this one. */
static void start_another(const char *when)
{
        pid_t child;

        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                (void)execl("/proc/self/exe", "sharedfacts", "start", when, (char *)NULL);
                _exit(127);
        }
        int status = -1;

        if (child > 0)
                (void)waitpid(child, &status, 0);
        if (status)
                printf("start %s: status 0x%x\n", when, status);
}

static int context_start(const char *when)
{
        double begin = now();

        kit_start();
        printf("start %s: %.0f ms\n", when, (now() - begin) * 1e3);
        return 0;
}

/* BAR1 as NVML has it. */
static void show_window(const char *when)
{
        printf("%s: ", when);
        (void)fflush(stdout);
        if (system("nvidia-smi -q -d MEMORY | grep -A3 BAR1 | tr -s ' \\n' ' '"))
                printf("no nvidia-smi");
        printf("\n");
}

static int windows(uint64_t step)
{
        uint64_t n = 0;
        struct kit_outcome outcome = { 0 };
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_memory(&rm, MEMORY, PIECE_MIB * MIB)))
                return 2;
        show_window("before");
        start_another("before");
        for (; n < WINDOWS_MAX; n++) {
                int fd = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);

                if (fd < 0)
                        break;
                outcome = kit_rm_map_host(&rm, MEMORY, PIECE_MIB * MIB - n * step, fd);
                if (!kit_ok(outcome))
                        break;
        }
        printf("windows=%llu mib=%llu status=0x%llx errno=%d\n", (unsigned long long)n,
               (unsigned long long)n * PIECE_MIB, (unsigned long long)outcome.status, outcome.error);
        show_window("with them");
        start_another("beside them");
        return 0;
}

static bool listen_to(int ctl, uint32_t client, uint32_t number)
{
        unsigned char block[16] = { 0 };

        kit_put32(block, 0, client);
        kit_put32(block, 8, number);
        return kit_ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ALLOC_EVENT, sizeof(block)), block) == 0 &&
               kit_get32(block, 12) == 0;
}

static int listens(void)
{
        double begin = now();
        struct kit_rm rm;

        kit_rm_open(&rm);
        start_another("before");
        for (uint32_t i = 1; i <= LISTENS; i++) {
                if (!listen_to(rm.ctl, rm.client, i)) {
                        printf("refused at %u\n", i);
                        break;
                }
                if (i % 5000)
                        continue;
                printf("listens=%u us_each=%.2f\n", i, (now() - begin) * 1e6 / 5000);
                begin = now();
        }
        start_another("beside them");
        return 0;
}

static int groups(void)
{
        long before = available_mib();
        double begin;
        int uvm, n = 0;

        kit_start();
        uvm = kit_uvm();
        begin = now();
        for (; n < GROUPS; n++) {
                unsigned char block[16] = { 0 };

                if (ioctl(uvm, CREATE_RANGE_GROUP, block) || kit_get32(block, 8))
                        break;
        }
        printf("groups=%d us_each=%.2f host_mib=%ld\n", n, (now() - begin) * 1e6 / (n ? n : 1),
               before - available_mib());
        return 0;
}

static int mappings(void)
{
        unsigned char params[64] = { 0 };
        long before = available_mib();
        double begin;
        int n = 0;
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_memory(&rm, MEMORY, 64 * 1024)) ||
            !kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, SPACE, CLASS_SPACE, params, 48)) ||
            !kit_ok(kit_rm_reserve(&rm, RESERVATION, SPACE, 64ull << 30, VIRTUAL, SMALL)))
                return 2;
        begin = now();
        for (; n < MAPPINGS; n++) {
                uint64_t at = 0;

                if (!kit_ok(kit_rm_map(&rm, RESERVATION, MEMORY, PAGE, 0, &at)))
                        break;
        }
        printf("mappings=%d us_each=%.2f host_mib=%ld\n", n, (now() - begin) * 1e6 / (n ? n : 1),
               before - available_mib());
        return 0;
}

int main(int argc, char **argv)
{
        struct rlimit files;
        const char *part = argc > 1 ? argv[1] : "";

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        if (!strcmp(part, "start"))
                return context_start(argc > 2 ? argv[2] : "");
        if (!strcmp(part, "windows"))
                return windows(0);
        if (!strcmp(part, "offsets"))
                return windows(PAGE);
        if (!strcmp(part, "listens"))
                return listens();
        if (!strcmp(part, "groups"))
                return groups();
        return !strcmp(part, "mappings") ? mappings() : 2;
}
