/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user has leases without a gate (--preload), and in the usage segment of each sets thousands of locks and says of
 * every slot that a process has it: to find out which are held, whoever looks walks all locks for each. The daemon
 * looks twice a second, on the loop that answers everybody.
 *
 *      attack-segments-full DIR MACHINE N       N leases of 16 MiB at DIR's tenant.sock, of the machine of that name;
 *                                               "look ms=T": what one look at one of them takes here; "leases=N", then
 *                                               until the end of stdin
 *
 * No driver: any user's program. Exit status: 0; 2 its set-up failed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
        LOCKS = 5000,
        SLOTS = 1024,
        SLOT_SIZE = 33 * 8 + 8, /* preload/usage_segment.h */
        PROCESS_AT = 33 * 8,
};

static _Noreturn void cannot(const char *what)
{
        perror(what);
        exit(2);
}

/* The usage segment of a new lease; socket and descriptors stay open. */
static int lease(const char *dir, const char *machine, int number)
{
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(2 * sizeof(int))];
        } rights;
        char text[1024];
        struct iovec in = { text, sizeof(text) };
        struct msghdr message = {
                .msg_iov = &in, .msg_iovlen = 1, .msg_control = rights.room, .msg_controllen = sizeof(rights)
        };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), fds[2];

        (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/tenant.sock", dir);
        if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
                cannot("connect");
        (void)snprintf(text, sizeof(text),
                       "{\"v\":1,\"type\":\"lease\",\"tenant\":\"full-%d\",\"mem\":\"16M\",\""
                       "plane"
                       "\":\"preload\","
                       "\"attach\":\"never\",\"machine\":\"%s\"}",
                       number, machine);
        if (send(fd, text, strlen(text), 0) < 0 || recvmsg(fd, &message, 0) <= 0)
                cannot("lease");
        if (!CMSG_FIRSTHDR(&message)) {
                (void)fprintf(stderr, "no lease: %.1000s\n", text);
                exit(2);
        }
        memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
        return fds[1];
}

static int lock(int fd, int how, short type, off_t at)
{
        struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

        return fcntl(fd, how, &lock);
}

static int fill(int segment)
{
        char path[64];
        struct stat st;
        int process = 1, own;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", segment);
        own = open(path, O_RDWR);
        if (own < 0 || fstat(own, &st) < 0)
                cannot(path);
        for (off_t slot = 0; slot < SLOTS; slot++)
                (void)!pwrite(own, &process, sizeof(process), st.st_size - (SLOTS - slot) * SLOT_SIZE + PROCESS_AT);
        for (off_t i = 0; i < LOCKS; i++)
                if (lock(own, F_OFD_SETLK, F_WRLCK, (1 << 20) + 2 * i) < 0)
                        cannot("lock");
        return own;
}

static void segment_look(int segment)
{
        struct timespec from, to;

        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (off_t slot = 0; slot < SLOTS; slot++)
                (void)lock(segment, F_OFD_GETLK, F_WRLCK, slot);
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        printf("look ms=%ld\n", (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
}

int main(int argc, char **argv)
{
        int n = argc == 4 ? atoi(argv[3]) : 0;
        char byte;

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (int i = 0; i < n; i++) {
                int segment = lease(argv[1], argv[2], i);

                (void)fill(segment);
                if (i == 0)
                        segment_look(segment);
        }
        printf("leases=%d\n", n);
        (void)!read(STDIN_FILENO, &byte, 1);
        return n ? 0 : 2;
}
