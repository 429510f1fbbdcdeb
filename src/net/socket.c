/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        PORT_MAX = 65535,
};

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* asm-generic/socket.h of Linux 6.16; connections have it from the socket that listens */
#endif

static_assert(SOCKET_PATH == sizeof(((struct sockaddr_un *)NULL)->sun_path), "as large as the kernel's");

static int address_format(struct sockaddr_un *ret, const char *path, va_list arguments)
{
        int n;

        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        n = vsnprintf(ret->sun_path, sizeof(ret->sun_path), path, arguments);
        return n < 0 || (size_t)n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

/* refuses: NULL where descriptors are welcome. */
static int listen_at(int type, mode_t mode, const struct sockaddr_un *address, bool *refuses)
{
        _cleanup_(closep) int fd = -1;
        const int no = 0;

        if (unlink(address->sun_path) < 0 && errno != ENOENT)
                return -errno;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        if (refuses)
                *refuses = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
        /* The mode is set before the path exists, so that it is never wider; and after, for what the umask took. */
        if (fd < 0 || (mode && fchmod(fd, mode) < 0) ||
            bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
            (mode && chmod(address->sun_path, mode) < 0) || listen(fd, SOMAXCONN) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int socket_listen(int type, mode_t mode, const char *path, ...)
{
        struct sockaddr_un address;
        va_list arguments;
        int r;

        va_start(arguments, path);
        r = address_format(&address, path, arguments);
        va_end(arguments);
        return r < 0 ? r : listen_at(type, mode, &address, NULL);
}

static int listen_group(int type, gid_t group, const char *path, bool *refuses)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(closep) int fd = -1;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        fd = listen_at(type, group == GROUP_ANY ? 0666 : 0660, &address, refuses);
        if (fd >= 0 && group != GROUP_ANY && chown(path, (uid_t)-1, group) < 0) /* until here it is root's alone */
                return -errno;
        return TAKE_FD(fd);
}

int socket_listen_group(int type, gid_t group, const char *path)
{
        return listen_group(type, group, path, NULL);
}

int socket_listen_for_bytes(int type, gid_t group, const char *path, bool *ret_refuses)
{
        return listen_group(type, group, path, ret_refuses);
}

void socket_take_descriptors(int fd)
{
        const int yes = 1;

        (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes)); /* older kernels always do */
}

int socket_connect(int type, unsigned int patience, const char *path, ...)
{
        const struct timeval span = { .tv_sec = patience };
        _cleanup_(closep) int fd = -1;
        struct sockaddr_un address;
        va_list arguments;
        int r;

        va_start(arguments, path);
        r = address_format(&address, path, arguments);
        va_end(arguments);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        if (fd < 0 || (patience && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof(span)) < 0 ||
                                    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &span, sizeof(span)) < 0)))
                return -errno;
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int socket_refusal_say(const char *path, struct err *err)
{
        struct stat status;
        const struct group *group =
                stat(path, &status) == 0 && (status.st_mode & 0666) == 0660 ? getgrgid(status.st_gid) : NULL;

        if (group)
                return err_say(err, -EACCES,
                               "%s: for root and members of group '%s' only: 'usermod -aG %s USER', then log in again",
                               path, group->gr_name, group->gr_name);
        return err_say(err, -EACCES, "%s: not yours to ask: its directory or the socket keeps you out", path);
}

int socket_peer(int fd, struct ucred *ret)
{
        socklen_t size = sizeof(*ret);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0 ? -errno : 0;
}

static int tcp_open(const struct addrinfo *at, unsigned int *ret_port)
{
        union {
                struct sockaddr any;
                struct sockaddr_storage room;
        } own = { 0 };
        _cleanup_(closep) int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t size = sizeof(own);
        char port[8] = "0";
        int one = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
            bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0 ||
            getsockname(fd, &own.any, &size) < 0)
                return -errno;
        (void)getnameinfo(&own.any, size, NULL, 0, port, sizeof(port), NI_NUMERICSERV);
        *ret_port = (unsigned int)strtoul(port, NULL, 10);
        return TAKE_FD(fd);
}

int socket_where_parse(const char *where, char ret_host[static SOCKET_HOST], unsigned int *ret_port, struct err *err)
{
        const char *colon = strrchr(where, ':'), *host = where + (where[0] == '[');
        uint64_t port;

        if (!colon || !colon[1] || (where[0] == '[' && (colon == where || colon[-1] != ']')))
                return err_say(err, -EINVAL, "--listen %s: an address and a port, such as 127.0.0.1:9180", where);
        if (colon[1 + strspn(colon + 1, "0123456789")] || number_parse(colon + 1, &port) < 0 || port > PORT_MAX)
                return err_say(err, -EINVAL, "--listen %s: a port is a number from 0 (any) to %d", where, PORT_MAX);
        (void)snprintf(ret_host, SOCKET_HOST, "%.*s", (int)(colon - host) - (where[0] == '['), host);
        *ret_port = (unsigned int)port;
        return 0;
}

int socket_listen_tcp(const char *where, char ret_host[static SOCKET_HOST], unsigned int *ret_port, struct err *err)
{
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
        struct addrinfo *found = NULL;
        unsigned int port;
        char service[16];
        int r = socket_where_parse(where, ret_host, &port, err);

        if (r < 0)
                return r;
        (void)snprintf(service, sizeof(service), "%u", port);
        r = getaddrinfo(ret_host[0] ? ret_host : NULL, service, &hints, &found);
        if (r)
                return err_say(err, -EINVAL, "--listen %s: %s", where, gai_strerror(r));
        r = tcp_open(found, ret_port);
        freeaddrinfo(found);
        return r < 0 ? err_set(err, r, "--listen %s", where) : r;
}
