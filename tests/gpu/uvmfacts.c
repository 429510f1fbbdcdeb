/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uvmfacts - what the driver and the kernel tell a supervisor about memory that it does not see go.
 *
 *      gcc -O2 -std=gnu17 tests/gpu/uvmfacts.c -o uvmfacts && ./uvmfacts
 *
 * The gate makes a tenant's UVM calls in its own process, on a space begun with "multi process". Here a child plays
 * the gate and the parent the tenant. Questions, a line each:
 *      poll            may a descriptor of each node be added to an epoll? Then the kernel drops the entry when the
 *                      last reference to the open file is gone, wherever that is (a table, a socket, an io_uring), and
 *                      /proc/self/fdinfo tells.
 *      overlap         does UVM_CREATE_EXTERNAL (73) over a managed range fail for as long as any page of it is mapped,
 *                      in whatever process, and succeed afterwards? Then a charge ends when UVM says so.
 *      validate        the same question to UVM_VALIDATE_RANGE (72).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static uint32_t uvm(int fd, uint32_t number, void *block, size_t status_at)
{
        uint32_t status = 0xdead;

        memcpy((char *)block + status_at, &status, 4);
        if (ioctl(fd, number, block) < 0)
                return 0x10000u + (uint32_t)errno;
        memcpy(&status, (char *)block + status_at, 4);
        return status;
}

static uint32_t range_call(int fd, uint32_t number, uint64_t base, uint64_t length, size_t size_status_at)
{
        unsigned char block[32] = { 0 };

        memcpy(block, &base, 8);
        memcpy(block + 8, &length, 8);
        return uvm(fd, number, block, size_status_at);
}

/* Whether anything is in [base, base + length): 1 yes, 0 no, as far as UVM's answer to an external range there
 * tells. */
static void ask(const char *when, int fd, uint64_t base, uint64_t length)
{
        uint32_t made = range_call(fd, 73, base, length, 16), freed = 0xffff;
        uint32_t first = range_call(fd, 72, base, 4096, 16), all = range_call(fd, 72, base, length, 16);

        if (made == 0)
                freed = range_call(fd, 34, base, length, 16);
        printf("%-34s create=0x%x free=0x%x validate_first=0x%x validate_all=0x%x\n", when, made, freed, first, all);
}

static int entries(int epoll)
{
        char path[64], line[256];
        int n = 0;
        FILE *info;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
        info = fopen(path, "re");
        while (info && fgets(line, sizeof(line), info))
                n += strncmp(line, "tfd:", 4) == 0;
        if (info)
                (void)fclose(info);
        return n;
}

static void poll_facts(const char *node)
{
        struct epoll_event event = { .events = 0 };
        int fd = open(node, O_RDWR | O_CLOEXEC), copy, epoll = epoll_create1(EPOLL_CLOEXEC), pair[2];
        char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec iov = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        int r, with, closed, received;

        copy = dup(fd);
        r = epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) < 0 ? errno : 0;
        (void)close(copy);
        with = entries(epoll);
        (void)socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
        (void)sendmsg(pair[0], &message, 0);
        (void)close(fd);
        closed = entries(epoll); /* in flight */
        (void)close(pair[0]);
        (void)close(pair[1]);
        usleep(100000);
        received = entries(epoll);
        printf("poll %-18s add=%d entries: open=%d in_flight=%d gone=%d\n", node, r, with, closed, received);
}

/* The gate's side: makes calls on the tenant's descriptor when told to. */
static void gate(int fd, int from, int to)
{
        struct {
                char when[40];
                uint64_t base, length;
        } question;
        unsigned char block[16] = { 0 };
        uint64_t flags = 3;
        uint32_t status;

        memcpy(block, &flags, 8);
        status = uvm(fd, 0x30000001, block, 8);
        printf("initialize by the gate: 0x%x\n", status);
        (void)fflush(stdout);
        (void)!write(to, "r", 1);
        while (read(from, &question, sizeof(question)) == sizeof(question)) {
                if (strcmp(question.when, "clean") == 0) {
                        unsigned char zombies[4] = { 0 };

                        printf("clean up zombies: 0x%x\n", uvm(fd, 69, zombies, 0));
                } else {
                        ask(question.when, fd, question.base, question.length);
                }
                (void)fflush(stdout);
                (void)!write(to, "r", 1);
        }
        exit(0);
}

static int to_gate, from_gate;

static void at(const char *when, uint64_t base, uint64_t length)
{
        struct {
                char when[40];
                uint64_t base, length;
        } question = { .base = base, .length = length };
        char byte;

        (void)snprintf(question.when, sizeof(question.when), "%s", when);
        (void)!write(to_gate, &question, sizeof(question));
        (void)!read(from_gate, &byte, 1);
}

static void *map(int fd, uint64_t base, uint64_t length)
{
        return mmap((void *)base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, (off_t)base);
}

int main(void)
{
        const uint64_t length = 64 * MIB;
        uint64_t base = 0x7e0000000000ull;
        int there[2], back[2], fd;
        char byte;
        pid_t child;
        void *p;

        poll_facts("/dev/nvidiactl");
        poll_facts("/dev/nvidia0");
        poll_facts("/dev/nvidia-uvm");

        fd = open("/dev/nvidia-uvm", O_RDWR);
        (void)!pipe(there);
        (void)!pipe(back);
        child = fork();
        if (child == 0) {
                (void)close(there[1]);
                gate(fd, there[0], back[1]);
        }
        (void)close(there[0]);
        (void)close(back[1]);
        to_gate = there[1];
        from_gate = back[0];
        (void)!read(from_gate, &byte, 1);

        at("before", base, length);
        p = map(fd, base, length);
        printf("mmap=%s errno=%d\n", p == MAP_FAILED ? "failed" : "ok", p == MAP_FAILED ? errno : 0);
        (void)fflush(stdout);
        at("mapped", base, length);
        (void)munmap((char *)p + length / 2, length / 2);
        at("second half unmapped: all", base, length);
        at("second half unmapped: 1st half", base, length / 2);
        at("second half unmapped: 2nd half", base + length / 2, length / 2);
        (void)munmap(p, length / 2);
        at("all unmapped", base, length);

        p = map(fd, base, length);
        (void)munmap((char *)p + 16 * MIB, 16 * MIB);
        at("a hole of 16 MiB: all", base, length);
        at("a hole of 16 MiB: the hole", base + 16 * MIB, 16 * MIB);
        (void)munmap(p, length);
        at("and unmapped", base, length);

        base += 1ull << 32;
        if ((child = fork()) == 0) {
                p = map(fd, base, length);
                at("mapped by another process", base, length);
                _exit(p == MAP_FAILED);
        }
        (void)waitpid(child, NULL, 0);
        at("that process has ended", base, length);
        at("clean", base, length);
        at("and zombies were cleaned up", base, length);

        base += 1ull << 32;
        p = map(fd, base, length);
        if ((child = fork()) == 0) {
                pause();
                _exit(0);
        }
        usleep(100000);
        (void)munmap(p, length);
        at("a fork lives, unmapped here", base, length);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        at("and the fork is gone", base, length);

        base += 1ull << 32;
        p = map(fd, base, length);
        printf("mremap=%p\n",
               mremap(p, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(base + 0x100000000ull)));
        (void)fflush(stdout);
        at("moved by mremap: old place", base, length);
        at("moved by mremap: new place", base + 0x100000000ull, length);
        (void)close(to_gate);
        (void)wait(NULL);
        return 0;
}
