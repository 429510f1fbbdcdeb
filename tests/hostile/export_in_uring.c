/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor is registered with an io_uring. */
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

        return ring >= 0 && syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) >= 0;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
