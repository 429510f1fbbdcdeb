/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"

#include <errno.h>

void closep(int *fd)
{
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        *fd = -1;
        errno = saved;
}

void freep(void *pointer)
{
        void **p = pointer;
        int saved = errno;

        free(*p);
        *p = NULL;
        errno = saved;
}
