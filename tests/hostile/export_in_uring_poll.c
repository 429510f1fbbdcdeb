/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor a pending poll request of an io_uring holds. */
#define _GNU_SOURCE
#include "kit.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool hide(int fd)
{
        struct io_uring_params params = { 0 };
        int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
        char *sq;
        struct io_uring_sqe *entries;

        if (ring < 0)
                return false;
        sq = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
        entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       ring, (off_t)IORING_OFF_SQES);
        if (sq == MAP_FAILED || (void *)entries == MAP_FAILED)
                return false;
        memset(entries, 0, sizeof(*entries));
        entries->opcode = IORING_OP_POLL_ADD;
        entries->fd = fd;
        *(uint32_t *)(void *)(sq + params.sq_off.array) = 0;
        __atomic_store_n((uint32_t *)(void *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
        return syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
