/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call whose parameters lie in memory that never comes, and that a process outside of the tenant keeps back: it has
 * the descriptor of userfaultfd, sent through the socket named in HOLDER. So the gate's thread that copies them waits
 * on when every process of the tenant has ended. The tenant must be over all the same.
 *
 * "waiting=1", and it ends.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0x00)
#endif

enum {
        PAGE = 4096,
        NR_ALLOC = 0x2b,
        RIGHTS_AT = 24,
};

static unsigned char *silent;

/* A descriptor that holds its faults back; -1: not here. */
static int silence(void)
{
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
        int node = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        int faults = node < 0 ? -1 : ioctl(node, USERFAULTFD_IOC_NEW, O_CLOEXEC);

        if (faults < 0)
                faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        silent = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        range.range.start = (uintptr_t)silent;
        range.range.len = PAGE;
        if (faults < 0 || silent == MAP_FAILED || ioctl(faults, UFFDIO_API, &api) < 0 ||
            ioctl(faults, UFFDIO_REGISTER, &range) < 0)
                return -1;
        return faults;
}

static bool hand_out(int fd)
{
        const char *where = getenv("HOLDER");
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
        struct iovec data = { (char[]){ 'x' }, 1 };
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int to = socket(AF_UNIX, SOCK_STREAM, 0);

        (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", where ? where : "");
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        return connect(to, (const struct sockaddr *)&at, sizeof(at)) == 0 && sendmsg(to, &message, 0) == 1;
}

static void *caller(void *context)
{
        const struct kit_rm *rm = context;
        unsigned char block[48] = { 0 }, params[128];

        kit_rm_memory_params(rm, params, PAGE);
        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, KIT_MEMORY);
        kit_put32(block, 12, KIT_CLASS_MEMORY);
        kit_put64(block, 16, (uintptr_t)params);
        kit_put64(block, RIGHTS_AT, (uintptr_t)silent);
        kit_put32(block, 32, sizeof(params));
        (void)kit_ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ALLOC, sizeof(block)), block);
        return NULL;
}

int main(void)
{
        static struct kit_rm rm;
        pthread_t thread;
        int faults;

        kit_start();
        kit_rm_open(&rm);
        faults = silence();
        if (faults < 0)
                kit_cannot("no userfaultfd here");
        if (!hand_out(faults))
                kit_cannot("nobody keeps it");
        if (pthread_create(&thread, NULL, caller, &rm))
                kit_cannot("no thread");
        (void)sleep(1);
        printf("waiting=1\n");
        (void)fflush(stdout);
        _exit(0);
}
