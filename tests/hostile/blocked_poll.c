/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the tenant waits in epoll_wait for memory that never comes (userfaultfd, and nobody serves it). The
 * kernel holds the lock of that epoll meanwhile, and whoever reads what /proc says of it (fdinfo) waits for the lock,
 * where no signal ends it. The gate must not; then calls that make it settle stay quick, and the quota holds.
 *
 * The memory comes after RELEASE_MSEC, so that what waited can be ended, or when the attack has ended.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0x00)
#endif

enum {
        PAGE = 4096,
        N_EPOLLS = 8,
        RELEASE_MSEC = 40000,
};

static unsigned char *silent;
static int faults = -1;

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

static void *poller(void *unused)
{
        struct epoll_event wanted = { .events = EPOLLIN };
        int epoll = epoll_create1(0), event = eventfd(1, 0);

        (void)unused;
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted);
        (void)epoll_wait(epoll, (struct epoll_event *)(void *)silent, 1, -1);
        return NULL;
}

static _Noreturn void child_main(int report)
{
        char word = silence() ? 'y' : 'n';
        pthread_t thread;

        for (int i = 0; word == 'y' && i < N_EPOLLS; i++)
                if (pthread_create(&thread, NULL, poller, NULL))
                        word = 'n';
        for (int i = 0; word == 'y' && i < N_EPOLLS; i++) { /* each of them has faulted */
                struct pollfd fault = { faults, POLLIN, 0 };
                struct uffd_msg message;

                if (poll(&fault, 1, 10000) != 1 || read(faults, &message, sizeof(message)) < 0)
                        word = 'n';
        }
        (void)!write(report, &word, 1);
        kit_wait_at_most(RELEASE_MSEC);
        (void)close(faults);
        kit_wait_for_end();
}

/* A space that nobody has any more: whoever wants to know looks at every descriptor of every process. */
static void lose_space(void)
{
        int uvm = open("/dev/nvidia-uvm", O_RDWR);
        uint64_t block[2] = { 0 };

        (void)kit_ioctl(uvm, 0x30000001, block); /* UVM_INITIALIZE */
        (void)close(uvm);
}

static uint64_t now_ms(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(void)
{
        uint64_t quota = kit_quota_mib(), got, slowest = 0;
        char word = 'n';
        int report[2];
        pid_t child;

        kit_start();
        if (pipe(report) < 0 || (child = fork()) < 0)
                kit_cannot("no child");
        if (child == 0)
                child_main(report[1]);
        if (read(report[0], &word, 1) != 1 || word != 'y')
                kit_cannot("no userfaultfd here");
        got = kit_take_managed(64, 2 * quota);
        for (int i = 0; i < 20; i++) {
                uint64_t since = now_ms(), took;
                int fd = kit_export(64);

                lose_space();
                if (fd >= 0)
                        (void)close(fd);
                got += kit_take_device(64, 64);
                took = now_ms() - since;
                slowest = took > slowest ? took : slowest;
        }
        printf("slowest_ms=%llu\n", (unsigned long long)slowest);
        kit_hold(got);
        return 0;
}
