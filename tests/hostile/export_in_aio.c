/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor an asynchronous poll request holds (io_submit, IOCB_CMD_POLL). */
#define _GNU_SOURCE
#include "kit.h"

#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool hide(int fd)
{
        static aio_context_t context;
        struct iocb *request = calloc(1, sizeof(*request));

        if (!context && syscall(SYS_io_setup, 64, &context) < 0)
                return false;
        if (!request)
                return false;
        request->aio_lio_opcode = IOCB_CMD_POLL;
        request->aio_fildes = (unsigned int)fd;
        return syscall(SYS_io_submit, context, 1, &request) == 1;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
