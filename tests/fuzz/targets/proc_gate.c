/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate reads of a tenant's processes in /proc (maps, status, fdinfo), on hostile text: each file that is opened
 * has the input. A range of UVM that stands in a whole line is never missed: its charge would be let go.
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
#include "gate/state/process.c"
#include "gate/state/elsewhere.c"
#include "gate/state/files.c"
#include "gate/books/spaces.c"
#undef fopen
#undef open

#include <stdint.h>
#include <stdlib.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

/* How many lines are a mapping of /dev/nvidia-uvm, by another reading than the source's. */
static size_t count_ranges(void)
{
        static const char node[] = " /dev/nvidia-uvm";
        const unsigned char *at = input, *end = input + input_size, *next;
        size_t n = 0;

        for (; at < end; at = next + 1) {
                unsigned long long base, last;
                char head[64];
                size_t size;

                next = memchr(at, '\n', (size_t)(end - at));
                next = next ? next : end;
                size = (size_t)(next - at);
                (void)snprintf(head, sizeof(head), "%.*s", (int)(size < 63 ? size : 63), (const char *)at);
                n += size < 4096 && !memchr(at, 0, size) && size > sizeof(node) &&
                     memcmp(next - (sizeof(node) - 1), node, sizeof(node) - 1) == 0 &&
                     sscanf(head, "%llx-%llx", &base, &last) == 2;
        }
        return n;
}

/* A line that begins so, by another reading than the source's. */
static bool has_line(const char *begin)
{
        const unsigned char *at = input, *end = input + input_size;
        size_t n = strlen(begin);

        while (at && (size_t)(end - at) >= n) {
                if (!memcmp(at, begin, n))
                        return true;
                at = memchr(at, '\n', (size_t)(end - at));
                at = at ? at + 1 : NULL;
        }
        return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct files files;
        struct range ranges[8];
        char line[512];
        size_t n;
        ssize_t r;
        pid_t id;

        if (!files.lock.rank)
                files_init(&files);
        input = data;
        input_size = size < 16384 ? size : 16384;
        n = count_ranges();
        r = read_ranges(&files, 1, ranges, ARRAY_SIZE(ranges));
        if (r >= 0 && !memchr(input, 0, input_size))
                require((size_t)r >= (n < ARRAY_SIZE(ranges) ? n : ARRAY_SIZE(ranges)));
        require(process_of(1, &id) < 0 || id > 0);
        require(!process_is_elsewhere(1, 9) || input_size < 2 || memcmp(input, "9 ", 2) != 0);
        (void)status_of(1, "\nUid:");
        (void)holds_unseen(1, "3", IS_SOCKET);
        require(!input_size || holds_unseen(1, "3", IS_RING) || has_line("UserFiles:")); /* its lock is held */
        (void)snprintf(line, sizeof(line), "%.*s", (int)(input_size < 511 ? input_size : 511), (const char *)input);
        require(!files_have_range(&files, line)); /* it has no space */
        return 0;
}
