/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by requests of an io_uring (IORING_OP_URING_CMD), which are no system calls of their own: the driver's
 * nodes take none. What the program gets is what it then asks for in the ordinary way. */
#define _GNU_SOURCE
#include "kit.h"

#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        URING_CMD = 46,
};

static struct io_uring_params ring;
static unsigned char *rings;
static struct io_uring_sqe *entries;
static int uring;

static void ring_start(void)
{
        uring = (int)syscall(SYS_io_uring_setup, 8, &ring);
        if (uring < 0)
                kit_cannot("no io_uring");
        rings = mmap(NULL, ring.cq_off.cqes + ring.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                     MAP_SHARED, uring, IORING_OFF_SQ_RING);
        entries = mmap(NULL, ring.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, uring,
                       IORING_OFF_SQES);
        if (rings == MAP_FAILED || (void *)entries == MAP_FAILED)
                kit_cannot("no rings");
}

static int spelt(int fd, unsigned long request, void *block)
{
        struct io_uring_cqe *answers = (struct io_uring_cqe *)(void *)(rings + ring.cq_off.cqes);
        unsigned int *tail = (unsigned int *)(void *)(rings + ring.sq_off.tail);
        unsigned int *head = (unsigned int *)(void *)(rings + ring.cq_off.head);
        unsigned int at = *tail % ring.sq_entries;

        memset(&entries[at], 0, sizeof(entries[at]));
        entries[at].opcode = URING_CMD;
        entries[at].fd = fd;
        entries[at].off = (uint32_t)request; /* cmd_op */
        entries[at].addr = (uintptr_t)block;
        ((unsigned int *)(void *)(rings + ring.sq_off.array))[at] = at;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, uring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
                return -1;
        at = (*head)++ % ring.cq_entries;
        return answers[at].res < 0 ? -1 : 0;
}

int main(void)
{
        struct kit_rm rm;
        uint64_t got;

        kit_rm_open(&rm);
        ring_start();
        kit_ioctl = spelt;
        got = kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
        printf("by io_uring mib=%llu\n", (unsigned long long)got);
        kit_ioctl = kit_plain;
        kit_hold(got + kit_rm_take(&rm, KIT_MEMORY + 0x10000, 16, 2 * kit_quota_mib()));
        return 0;
}
