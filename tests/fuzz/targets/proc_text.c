/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of /proc on text that a hostile process has some say in: its name, the paths it maps and mounts. Each
 * file that is opened has the input; a zero byte in it ends nothing.
 *
 * What was there is said only of a line that is whole: nothing that is a part of a longer one is believed.
 */
#include <fcntl.h>

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char *input;
static size_t input_size;

static FILE *input_fopen(const char *path, const char *mode)
{
        (void)path;
        (void)mode;
        return input_size ? fmemopen((void *)(unsigned long)input, input_size, "r") : NULL;
}

static int input_open(const char *path, int flags)
{
        int fd = memfd_create("input", MFD_CLOEXEC);

        (void)path;
        (void)flags;
        if (fd < 0 || write(fd, input, input_size) != (ssize_t)input_size || lseek(fd, 0, SEEK_SET) < 0)
                (void)close(fd), fd = -1;
        return fd;
}

#define fopen input_fopen
#define open input_open
#include "base/process.c"
#include "daemon/whose.c"
#include "daemon/unmanaged.c"
#include "shim/mps_server.c"
#undef fopen
#undef open

#include <stdint.h>
#include <stdlib.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

/* Whether a line of at most `most` bytes has the device and inode, by another reading than the source's. */
static bool has_line(dev_t device, ino_t inode, size_t most)
{
        const unsigned char *at = input, *end = input + input_size, *next;

        for (; at < end; at = next + 1) {
                unsigned int high, low;
                unsigned long long number;
                char line[4096];

                next = memchr(at, '\n', (size_t)(end - at));
                next = next ? next : end;
                (void)snprintf(line, sizeof(line), "%.*s",
                               (int)(next - at < (ptrdiff_t)most ? next - at : (ptrdiff_t)most), (const char *)at);
                if (sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &number) == 3 && makedev(high, low) == device &&
                    number == inode)
                        return true;
        }
        return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct stat segment = { .st_dev = makedev(0, 1), .st_ino = 77 };
        char name[64];
        uint64_t begun;
        pid_t parent;

        input = data;
        input_size = size < 16384 ? size : 16384;
        require(!has_mapped(1, &segment, 1) || has_line(segment.st_dev, segment.st_ino, 511));
        (void)has_mounted(1, "/");
        (void)process_parent(1);
        (void)thread_is_alive(1, "1");
        name_of(1, name);
        require(strlen(name) < sizeof(name) && !strchr(name, '\n'));
        require(!stat_of(1, "nvidia-cuda-mps", &parent, &begun) || memmem(input, input_size, "nvidia-cuda-mps", 15));
        (void)descends(5, 6);
        return 0;
}
