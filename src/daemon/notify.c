/* SPDX-License-Identifier: Apache-2.0 */
/* The service manager's protocol (sd_notify): a datagram, not worth a library. */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "daemon/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void notify(const char *state)
{
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(closep) int fd = -1;
        size_t n = path ? strlen(path) : 0;

        if (!n || n >= sizeof(address.sun_path))
                return;
        memcpy(address.sun_path, path, n);
        if (address.sun_path[0] == '@') /* abstract */
                address.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0)
                (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}
