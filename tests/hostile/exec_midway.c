/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process in the midst of an exec: managed ranges that it mapped for its parent, with whom it shared the
 * address space, and exports of which it has the last descriptor. The exec closes a file of FUSE whose server does not
 * answer, and until it does whoever looks into that process (kcmp, its maps, where its thread is) waits: the gate must
 * not, and must not take the memory for gone. Just before, it maps an ordinary file where managed memory could lie, so
 * that the gate does want to know where the thread is. "slowest_ms" is what a call took meanwhile.
 *
 * The server lets go after LIFE_SEC, and when this program has ended: nothing waits for ever.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
        LIFE_SEC = 15,
        PIECE = 128,
        MANAGED = 64,
        STACK = 1 << 20,
        REQUEST = 64 * 1024,
        FILE_NODE = 2, /* the only file; 1 is the directory */
};

#define ELSEWHERE 0x2e0000000000u

static int alive[2], report[2]; /* hangs up when the attack ends; what became of a child */

/* ---- a server that answers everything but what a close asks ----------------------------------------------------- */

static void answer(int fuse, uint64_t unique, int error, const void *body, size_t size)
{
        struct {
                struct fuse_out_header header;
                char body[256];
        } out = { .header = { .unique = unique, .error = error } };

        memcpy(out.body, body, size);
        out.header.len = (uint32_t)(sizeof(out.header) + size);
        (void)!write(fuse, &out, out.header.len);
}

static struct fuse_attr about(uint64_t node)
{
        return (struct fuse_attr){ .ino = node,
                                   .mode = node == FILE_NODE ? S_IFREG | 0644 : S_IFDIR | 0755,
                                   .nlink = 1 };
}

static void serve(int fuse, const struct fuse_in_header *in)
{
        const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
        const struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr_valid = 60, .attr = about(FILE_NODE) };
        const struct fuse_attr_out attributes = { .attr_valid = 60, .attr = about(in->nodeid) };
        const struct fuse_open_out open_file = { .fh = 1 };

        if (in->opcode == FUSE_INIT)
                answer(fuse, in->unique, 0, &init, sizeof(init));
        else if (in->opcode == FUSE_LOOKUP)
                answer(fuse, in->unique, 0, &entry, sizeof(entry));
        else if (in->opcode == FUSE_GETATTR)
                answer(fuse, in->unique, 0, &attributes, sizeof(attributes));
        else if (in->opcode == FUSE_OPEN)
                answer(fuse, in->unique, 0, &open_file, sizeof(open_file));
        else if (in->opcode == FUSE_FLUSH)
                (void)!write(report[1], "y", 1);
        else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT)
                answer(fuse, in->unique, -ENOSYS, "", 0);
}

/* Has no other descriptor: that of the memory would be seen here. */
static void server_main(int fuse)
{
        static char request[REQUEST] __attribute__((aligned(8)));
        struct pollfd fds[] = { { fuse, POLLIN, 0 }, { alive[0], 0, 0 } };

        for (int fd = 3; fd < 1024; fd++)
                if (fd != fuse && fd != alive[0] && fd != report[1])
                        (void)close(fd);
        (void)alarm(LIFE_SEC);
        while (poll(fds, 2, -1) > 0 && !fds[1].revents)
                if (read(fuse, request, sizeof(request)) > 0)
                        serve(fuse, (const struct fuse_in_header *)request);
        _exit(0);
}

/* ---- who has the memory -------------------------------------------------------------------------------------- */

static int text_write(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY), r = fd < 0 ? -1 : (int)write(fd, text, strlen(text));

        (void)close(fd);
        return r;
}

/* Root as it is; others in a user namespace of their own. */
static int enter(void)
{
        unsigned int user = getuid(), group = getgid();
        char map[32];

        if (unshare(CLONE_NEWNS) == 0)
                return 0;
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -1;
        (void)snprintf(map, sizeof(map), "0 %u 1", user);
        (void)text_write("/proc/self/setgroups", "deny");
        if (text_write("/proc/self/uid_map", map) < 0)
                return -1;
        (void)snprintf(map, sizeof(map), "0 %u 1", group);
        (void)text_write("/proc/self/gid_map", map);
        return 0;
}

/* A file that is closed by an exec, which then waits; -1. */
static int file_open(void)
{
        int fuse = enter() < 0 ? -1 : open("/dev/fuse", O_RDWR), file = -1;
        char options[96];
        pid_t server;

        (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
        if (fuse < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", "/mnt", "fuse", MS_NOSUID | MS_NODEV, options) < 0 || (server = fork()) < 0)
                return -1;
        if (server == 0)
                server_main(fuse);
        (void)close(fuse); /* the server's is the last: with it everything here ends */
        file = open("/mnt/file", O_RDONLY | O_CLOEXEC);
        return file;
}

/* fd: -1, or what it is to keep. */
static int child_main(int fd)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(alive[1]);
        if ((fd < 0 || fcntl(fd, F_SETFD, 0) == 0) && file_open() >= 0) {
                (void)mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("file", 0), ELSEWHERE);
                (void)execlp("sleep", "sleep", "60", (char *)NULL);
        }
        (void)!write(report[1], "n", 1);
        _exit(1);
}

static void await_exec(void)
{
        char word = 'n';

        if (read(report[0], &word, 1) != 1 || word != 'y')
                kit_cannot("no FUSE here");
}

static void hide(int fd)
{
        pid_t child = fork();

        if (child == 0)
                (void)child_main(fd);
        if (child < 0)
                kit_cannot("no child");
        await_exec();
        (void)close(fd);
}

static uint64_t mapped;

static int mapper_main(void *unused)
{
        (void)unused;
        kit_join();
        mapped += kit_take_managed(MANAGED, MANAGED);
        return child_main(-1);
}

/* Whoever made it stands still until it executes. */
static void map_and_exec(void)
{
        char *stack = malloc(STACK);

        if (!stack || clone(mapper_main, stack + STACK, CLONE_VM | SIGCHLD, NULL) < 0)
                kit_cannot("no clone");
        await_exec();
}

/* A space that nobody has any more: whoever wants to know looks at every descriptor of every process. */
static void lose_space(void)
{
        int uvm = open("/dev/nvidia-uvm", O_RDWR);
        uint64_t block[2] = { 0 };

        (void)kit_ioctl(uvm, 0x30000001, block); /* UVM_INITIALIZE */
        (void)close(uvm);
}

static uint64_t now_ms(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(void)
{
        uint64_t most = 4 * kit_quota_mib(), got = 0, slowest = 0;

        kit_start();
        if (pipe2(alive, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
                kit_cannot("no pipe");
        for (int i = 0; i < 3; i++) {
                map_and_exec();
                kit_let_it_settle();
        }
        for (int refused = 0; got < most && refused < 3;) {
                uint64_t since = now_ms(), took;
                int fd;

                lose_space();
                fd = kit_export(PIECE);
                took = now_ms() - since;
                slowest = took > slowest ? took : slowest;
                if (fd >= 0)
                        hide(fd);
                got += fd >= 0 ? PIECE : 0;
                refused += fd < 0;
                kit_let_it_settle();
        }
        printf("slowest_ms=%llu\n", (unsigned long long)slowest);
        kit_hold(got + mapped);
        return 0;
}
