/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose parameters lie in memory that never comes (userfaultfd, and nobody serves it): whoever copies them waits.
 * Many clients make one each, so that what the gate may hold while it waits is held. The tenant's other calls must be
 * answered all the same, those about managed memory too, which the gate's watcher settles under the same locks.
 *
 * "slowest_ms=N": the slowest of the other calls. After RELEASE_MSEC the memory comes after all.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0x00)
#endif

enum {
        CALLERS = 300, /* the gate has fewer locks, and more threads */
        PAGE = 4096,
        NR_ALLOC = 0x2b,
        RIGHTS_AT = 24,
        RELEASE_MSEC = 40000,
};

static unsigned char *silent;
static int faults = -1;
static atomic_uint n_waiting;

static bool silence(void)
{
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
        int node = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

        faults = node < 0 ? -1 : ioctl(node, USERFAULTFD_IOC_NEW, O_CLOEXEC);
        if (faults < 0)
                faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        silent = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        range.range.start = (uintptr_t)silent;
        range.range.len = PAGE;
        return faults >= 0 && silent != MAP_FAILED && ioctl(faults, UFFDIO_API, &api) == 0 &&
               ioctl(faults, UFFDIO_REGISTER, &range) == 0;
}

/* An allocation that would be served, but for what its rights point at. */
static void *caller(void *unused)
{
        unsigned char block[48] = { 0 }, params[128];
        struct kit_rm rm;

        (void)unused;
        if (kit_rm_try_open(&rm)) {
                kit_rm_memory_params(&rm, params, PAGE);
                kit_put32(block, 0, rm.client);
                kit_put32(block, 4, KIT_DEVICE);
                kit_put32(block, 8, KIT_MEMORY);
                kit_put32(block, 12, KIT_CLASS_MEMORY);
                kit_put64(block, 16, (uintptr_t)params);
                kit_put64(block, RIGHTS_AT, (uintptr_t)silent);
                kit_put32(block, 32, sizeof(params));
                n_waiting++;
                (void)kit_ioctl(rm.ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ALLOC, sizeof(block)), block);
        }
        return NULL;
}

static void *releaser(void *unused)
{
        (void)unused;
        (void)poll(NULL, 0, RELEASE_MSEC);
        (void)close(faults);
        return NULL;
}

static uint64_t now_ms(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(void)
{
        uint64_t quota = kit_quota_mib(), got = 0, slowest = 0;
        pthread_attr_t small;
        pthread_t thread;

        kit_start();
        if (!silence())
                kit_cannot("no userfaultfd here");
        (void)pthread_attr_init(&small);
        (void)pthread_attr_setstacksize(&small, 128 << 10);
        for (int i = 0; i < CALLERS; i++)
                if (pthread_create(&thread, &small, caller, NULL))
                        kit_cannot("no thread");
        for (int i = 0; i < 200 && n_waiting < CALLERS; i++)
                (void)usleep(50 * 1000);
        (void)usleep(500 * 1000);
        (void)pthread_create(&thread, &small, releaser, NULL);
        while (got < 2 * quota) {
                uint64_t since = now_ms(), more = kit_take_managed(64, 64), took;

                more += kit_take_device(64, 64);
                took = now_ms() - since;
                slowest = took > slowest ? took : slowest;
                got += more;
                if (!more)
                        break;
        }
        printf("waiting=%u slowest_ms=%llu\n", n_waiting, (unsigned long long)slowest);
        kit_hold(got);
        _exit(0);
}
