/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/process.h"

#include <errno.h>

static size_t size_of(const struct iovec *pieces, size_t n)
{
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                size += pieces[i].iov_len;
        return size;
}

int process_read(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        ssize_t r = process_vm_readv(thread, ours, n, theirs, n, 0);

        return r < 0 ? -errno : (size_t)r == size_of(ours, n) ? 0 : -EFAULT;
}

int process_write(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n)
{
        ssize_t r = process_vm_writev(thread, ours, n, theirs, n, 0);

        return r < 0 ? -errno : (size_t)r == size_of(ours, n) ? 0 : -EFAULT;
}
