/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces runc in tests that choose the order of steps and their errors: puts a command under the filter, sends
 * SOCKET what a runtime sends (the state, with the notify descriptor), and waits for the command.
 *
 *      runtime [OPTION...] SOCKET STATE [COMMAND [ARGUMENT...]]
 *
 * STATE: JSON; @PID@ in it is the command's process. Without a COMMAND there is no process and no listener.
 *      --fds N         number of descriptors (default: 1)
 *      --not-listener  they are of /dev/null
 *      --slow MS       sends pieces of 40 bytes with that pause between them
 *      --stay MS       keeps the connection open that long
 *      --cut           stops in the middle of the state
 *      --signals       the filter lets signals interrupt a call that is being decided, as runc 1.1 installs it
 *      --first         the descriptor alone first, the state behind it
 * Exit code: the command's; 1: the socket could not be reached, and the command was not started.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"
#include "gpu/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct {
        int n_fds, slow_ms, stay_ms;
        int is_other, is_cut, is_first, takes_signals;
} options = { .n_fds = 1 };

static int send_piece(int socket, const char *text, size_t size, int fd, int n_fds)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * 8)];
        } control = { 0 };
        struct iovec data = { (char *)(uintptr_t)text, size };
        struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1 };

        if (n_fds > 0) {
                packet.msg_control = &control;
                packet.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
                control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                   .cmsg_type = SCM_RIGHTS,
                                                   .cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds) };
                for (int i = 0; i < n_fds; i++)
                        memcpy(CMSG_DATA(&control.header) + (size_t)i * sizeof(int), &fd, sizeof(fd));
        }
        return sendmsg(socket, &packet, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

static int receive_fd(int socket)
{
        char byte, control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
        struct iovec data = { &byte, 1 };
        struct msghdr packet = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        int fd;

        if (recvmsg(socket, &packet, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&packet))
                return -1;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&packet)), sizeof(fd));
        return fd;
}

static int install(const struct sock_fprog *filter)
{
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -1;
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, filter);
}

/* In the child; waits for the parent's word before it becomes the command. */
static void become(char **argv, const struct sock_fprog *filter, const int sockets[2])
{
        int socket = sockets[1];
        int listener = options.takes_signals ? install(filter) : filter_install(filter);
        char go;

        (void)close(sockets[0]); /* a parent that is gone is noticed */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (listener < 0 || send_piece(socket, "l", 1, listener, 1) < 0 || read(socket, &go, 1) != 1)
                _exit(126);
        (void)close(listener);
        (void)close(socket);
        (void)execvp(argv[0], argv);
        _exit(127);
}

static int command_start(char **argv, pid_t *ret_child, int *ret_socket)
{
        struct gpu_backend backend = { 0 };
        struct sock_fprog filter;
        struct err err = { 0 };
        int sockets[2];

        if (gpu_backend_find(&backend, &err) < 0 || filter_build(&filter) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
                (void)fprintf(stderr, "runtime: %s\n", err.text);
                return -1;
        }
        *ret_child = fork();
        if (*ret_child == 0)
                become(argv, &filter, sockets);
        (void)close(sockets[1]);
        free(filter.filter);
        *ret_socket = sockets[0];
        return receive_fd(sockets[0]);
}

/* The state with the process's number in its place; the caller's. */
static char *fill_in(const char *state, pid_t child)
{
        char *text = malloc(strlen(state) + 64), *to = text;

        while (text && *state)
                if (!strncmp(state, "@PID@", 5)) {
                        to += sprintf(to, "%d", child);
                        state += 5;
                } else
                        *to++ = *state++;
        if (text)
                *to = '\0';
        return text;
}

static int descriptor_send(const char *path, const char *text, int fd)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;
        size_t size = strlen(text), piece;

        if (options.is_cut)
                size /= 2;
        piece = options.slow_ms ? 40 : size;
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        if (socket_fd < 0 || connect(socket_fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
                (void)fprintf(stderr, "runtime: connecting to %s: %s\n", path, strerror(errno));
                return -1;
        }
        if (options.is_first)
                r = send_piece(socket_fd, " ", 1, fd, fd < 0 ? 0 : options.n_fds);
        for (size_t at = 0; at < size && r == 0; at += piece) {
                r = send_piece(socket_fd, text + at, size - at < piece ? size - at : piece, fd,
                               at || options.is_first || fd < 0 ? 0 : options.n_fds);
                (void)poll(NULL, 0, options.slow_ms);
        }
        (void)poll(NULL, 0, options.stay_ms);
        (void)close(socket_fd);
        return 0;
}

static int parse(int argc, char **argv)
{
        static const struct option known[] = {
                { "fds", required_argument, NULL, 'f' },
                { "slow", required_argument, NULL, 's' },
                { "stay", required_argument, NULL, 't' },
                { "not-listener", no_argument, &options.is_other, 1 },
                { "cut", no_argument, &options.is_cut, 1 },
                { "first", no_argument, &options.is_first, 1 },
                { "signals", no_argument, &options.takes_signals, 1 },
                { 0 },
        };
        int option;

        while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1) {
                if (option == 'f')
                        options.n_fds = atoi(optarg);
                else if (option == 's')
                        options.slow_ms = atoi(optarg);
                else if (option == 't')
                        options.stay_ms = atoi(optarg);
                else if (option)
                        return -1;
        }
        return argc - optind < 2 || options.n_fds < 0 || options.n_fds > 8 ? -1 : 0;
}

int main(int argc, char **argv)
{
        int listener = -1, socket = -1, status = 0, r;
        pid_t child = 0;
        char *text;

        if (parse(argc, argv) < 0) {
                (void)fprintf(stderr, "usage: runtime [OPTION...] SOCKET STATE [COMMAND...]\n");
                return 2;
        }
        if (argc - optind > 2 && (listener = command_start(argv + optind + 2, &child, &socket)) < 0)
                return 125;
        if (options.is_other) {
                closep(&listener);
                listener = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        text = fill_in(argv[optind + 1], child);
        r = descriptor_send(argv[optind], text, listener);
        free(text);
        closep(&listener);
        if (!child)
                return r < 0;
        if (r < 0)
                (void)kill(child, SIGKILL);
        else
                (void)!write(socket, "g", 1);
        (void)waitpid(child, &status, 0);
        return r < 0 ? 1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
