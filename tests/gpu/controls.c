/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program asks of the driver, natively: preloaded, it writes each control and allocation with its size, its
 * answer and the first bytes before and after, so that a row of gate/policy/rules.def rests on what was seen.
 *
 *      gcc -shared -fPIC -O2 tests/gpu/controls.c -o controls.so
 *      CONTROLS=FILE LD_PRELOAD=./controls.so PROGRAM
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SHOWN = 48, LINE = 1024 };

struct control {
        uint32_t client, object, command, flags;
        uint64_t params;
        uint32_t size, status;
};

struct alloc {
        uint32_t client, parent, object, class;
        uint64_t params, rights;
        uint32_t size, flags, status;
};

static int out = -1;

static void __attribute__((constructor)) begin(void)
{
        const char *path = getenv("CONTROLS");

        out = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
}

static size_t bytes_in_hex(char *to, size_t room, const void *from, size_t n)
{
        size_t used = 0;

        for (size_t i = 0; from && i < n && i < SHOWN && used + 3 < room; i++)
                used += (size_t)snprintf(to + used, room - used, "%02x", ((const uint8_t *)from)[i]);
        return used;
}

static size_t before(unsigned int number, const void *block, char *line)
{
        const struct control *control = block;
        const struct alloc *alloc = block;

        if (number == 0x2a)
                return bytes_in_hex(line, LINE / 3, (const void *)(uintptr_t)control->params, control->size);
        if (number == 0x2b)
                return bytes_in_hex(line, LINE / 3, (const void *)(uintptr_t)alloc->params, 16);
        return 0;
}

static void after(unsigned int number, unsigned int size, const void *block, long result, const char *in)
{
        const struct control *control = block;
        const struct alloc *alloc = block;
        char line[LINE], hex[LINE / 3] = "";
        int n;

        if (number == 0x2a) {
                bytes_in_hex(hex, sizeof(hex), (const void *)(uintptr_t)control->params, control->size);
                n = snprintf(line, sizeof(line), "%d control 0x%08x size=%u status=0x%x on=%x/%x in=%s out=%s\n",
                             getpid(), control->command, control->size, control->status, control->client,
                             control->object, in, hex);
        } else if (number == 0x2b) {
                n = snprintf(line, sizeof(line), "%d alloc 0x%x status=0x%x %x/%x/%x in=%s\n", getpid(), alloc->class,
                             size >= 48 ? alloc->status : ((const uint32_t *)block)[7], alloc->client, alloc->parent,
                             alloc->object, in);
        } else {
                n = snprintf(line, sizeof(line), "%d request 0x%x size=%u result=%ld\n", getpid(), number, size,
                             result);
        }
        if (n > 0 && write(out, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
                out = -1;
}

int ioctl(int fd, unsigned long request, ...)
{
        char in[LINE / 3] = "";
        va_list list;
        void *block;
        long result;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (out < 0 || (request >> 8 & 0xff) != 'F' || !block)
                return (int)syscall(SYS_ioctl, fd, request, block);
        (void)before(request & 0xff, block, in);
        result = syscall(SYS_ioctl, fd, request, block);
        after(request & 0xff, request >> 16 & 0x3fff, block, result, in);
        return (int)result;
}
