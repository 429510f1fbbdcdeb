/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kit_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        REQUEST = 64 * 1024,
        FILE_NODE = 2, /* the only file; 1 is the directory */
};

static int alive_end, report_end;

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
                (void)!write(report_end, "y", 1);
        else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT)
                answer(fuse, in->unique, -ENOSYS, "", 0);
}

/* Has no other descriptor: that of the memory would be seen here. */
static void server_main(int fuse)
{
        static char request[REQUEST] __attribute__((aligned(8)));
        struct pollfd fds[] = { { fuse, POLLIN, 0 }, { alive_end, 0, 0 } };

        for (int fd = 3; fd < 1024; fd++)
                if (fd != fuse && fd != alive_end && fd != report_end)
                        (void)close(fd);
        (void)alarm(KIT_FUSE_LIFE_SEC);
        while (poll(fds, 2, -1) > 0 && !fds[1].revents)
                if (read(fuse, request, sizeof(request)) > 0)
                        serve(fuse, (const struct fuse_in_header *)request);
        _exit(0);
}

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

int kit_fuse_open(int alive, int report)
{
        int fuse = enter() < 0 ? -1 : open("/dev/fuse", O_RDWR), file = -1;
        char options[96];
        pid_t server;

        alive_end = alive;
        report_end = report;
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
