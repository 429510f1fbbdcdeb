/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the tenant has a descriptor on a file system that answers nobody (FUSE without a server): whoever asks
 * for that file waits for ever. The gate must not; then calls that make it settle stay quick, and the quota holds. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

static int text_write(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY), r = fd < 0 ? -1 : (int)write(fd, text, strlen(text));

        (void)close(fd);
        return r;
}

static int mount_here(void)
{
        char options[64];
        int fuse = open("/dev/fuse", O_RDWR); /* in the namespace in which it is mounted */

        (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
        return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ?
                       -1 :
                       mount("none", "/tmp", "fuse", MS_NOSUID | MS_NODEV, options);
}

/* Where root may mount, whoever asks for the file waits. In a user namespace of one's own others are refused. */
static int mount_silent(void)
{
        unsigned int user = getuid(), group = getgid();
        char map[32];

        if (unshare(CLONE_NEWNS) == 0)
                return mount_here();
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -1;
        (void)snprintf(map, sizeof(map), "0 %u 1", user);
        (void)text_write("/proc/self/setgroups", "deny");
        if (text_write("/proc/self/uid_map", map) < 0)
                return -1;
        (void)snprintf(map, sizeof(map), "0 %u 1", group);
        (void)text_write("/proc/self/gid_map", map);
        return mount_here();
}

static void child_main(int report)
{
        char word = mount_silent() == 0 ? 'y' : 'n';

        for (int i = 0; word == 'y' && i < 64; i++)
                if (open("/tmp", O_PATH) < 0)
                        word = 'n';
        (void)!write(report, &word, 1);
        kit_wait_for_end();
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
        uint64_t quota = kit_quota_mib(), got, slowest = 0;
        char word = 'n';
        int report[2];
        pid_t child;

        kit_start();
        if (pipe(report) < 0 || (child = fork()) < 0)
                kit_cannot("no child");
        if (child == 0)
                child_main(report[1]);
        if (read(report[0], &word, 1) != 1 || word != 'y')
                kit_cannot("no FUSE here");
        got = kit_take_managed(64, 2 * quota);
        for (int i = 0; i < 30; i++) {
                uint64_t since = now_ms(), took;
                int fd = kit_export(64);

                lose_space();
                if (fd >= 0)
                        (void)close(fd);
                got += kit_take_device(64, 64);
                took = now_ms() - since;
                slowest = took > slowest ? took : slowest;
        }
        printf("slowest_ms=%llu\n", (unsigned long long)slowest);
        kit_hold(got);
        return 0;
}
