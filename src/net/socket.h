/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets, set up: Unix sockets of any type by a path, TCP sockets by an address and a port.
 *
 * `type` is a type of socket(2), with SOCK_NONBLOCK if wanted; SOCK_CLOEXEC is added. `path` is a format;
 * -ENAMETOOLONG: the path does not fit into a socket's address.
 *
 * Threads: any. libc only.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct err;

enum {
        SOCKET_HOST = 256,
};

/* The longest path of a socket, with its NUL. */
#define SOCKET_PATH 108

#define GROUP_ANY ((gid_t)-1)

/* A listening socket at the path, with the permission bits `mode` whatever the umask is; mode 0: as the umask leaves
 * them. What is left there is removed. Returns the descriptor; -errno. */
int socket_listen(int type, mode_t mode, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* The same for every user, or for root and the members of a group: GROUP_ANY is every user. */
int socket_listen_group(int type, gid_t group, const char *path);

/* The same, where only bytes are wanted: the kernel refuses messages with descriptors, from the first connection on.
 * *ret_refuses: it does; Linux can since 6.16. */
int socket_listen_for_bytes(int type, gid_t group, const char *path, bool *ret_refuses);

/* On a connection of such a socket: from here on descriptors are welcome. */
void socket_take_descriptors(int fd);

/* patience: seconds that connecting, and each send and receive after it, may take; 0: any. Returns the descriptor;
 * -errno. */
int socket_connect(int type, unsigned int patience, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* Says why connecting to `path` was refused with -EACCES, and which group's members may. -EACCES. */
int socket_refusal_say(const char *path, struct err *err);

/* The process at the other end of a Unix socket, as it was when it connected. 0; -errno. */
int socket_peer(int fd, struct ucred *ret);

/* The parts of such an address; host "": none was written. 0; -EINVAL, and err says it as the value of --listen. */
int socket_where_parse(const char *where, char ret_host[static SOCKET_HOST], unsigned int *ret_port, struct err *err);

/* Listens at "127.0.0.1:9180", "[::1]:9180", "name:80" or ":443" (every address); port 0: any. ret_host: what stands
 * before the port, without brackets; ret_port: where it listens. Returns the descriptor, nonblocking; -errno, and err
 * says it as the value of --listen. */
int socket_listen_tcp(const char *where, char ret_host[static SOCKET_HOST], unsigned int *ret_port, struct err *err);
