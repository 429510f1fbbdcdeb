/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the tenant that we have had. close(2) of a file that the tenant chose takes as long as the tenant
 * likes (base/descriptors.h), and the one that was asked for is not always the one that came.
 */
#include "gate/inside.h"

#include "base/descriptors.h"

#include <unistd.h>

void gate_fd_put(const struct gate *gate, int fd)
{
        const struct gate_driver *driver = &gate->options.driver;
        uint32_t minor;

        if (fd < 0)
                return;
        if (driver->node(driver->context, fd, &minor) == RM_NODE_OTHER)
                descriptors_drop(fd, DESCRIPTORS_OURS);
        else
                (void)close(fd);
}
