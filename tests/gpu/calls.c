/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsublet-calls.so - what a library says to the driver, one short line per call, to be compared
 * with a recording.
 *
 *      SUBLET_CALLS=PREFIX LD_PRELOAD=libsublet-calls.so:... PROGRAM
 *
 * Each process writes PREFIX.PID. It stands before libsublet-sim.so in LD_PRELOAD and passes
 * everything on. Lines:
 *
 *      open /dev/nvidia0            mmap LENGTH prot=P fl=F        mark TEXT
 *      ALLOC CLASS parent=H obj=H [size=S attr=A]                  (what was asked for)
 *      CTL CMD obj=H psz=N          FREE parent=H obj=H            UVM NUMBER [LENGTH]
 *      nr=NR size=N                 any other request
 *
 * Numbers are hexadecimal but for sizes and UVM numbers; a client's handle is C. tests/gpu/calls.py
 * makes the same lines of a recording of tools/record.c.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum {
        FDS = 4096,
};

static FILE *out;
static char node[FDS]; /* 'C' control, 'N' device, 'U' UVM; 0: none of the driver's */

#define HOOK __attribute__((visibility("default")))

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);
void sublet_record_mark(const char *text);

static bool ready(void)
{
        static pid_t owner;
        const char *prefix = getenv("SUBLET_CALLS");
        char path[4096];

        if (!prefix || (out && owner == getpid()))
                return out != NULL;
        (void)snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
        owner = getpid();
        out = fopen(path, "ae"); /* of a child: not its parent's */
        if (out)
                setvbuf(out, NULL, _IOLBF, 0);
        return out != NULL;
}

static uint32_t u32(const void *block, size_t at)
{
        uint32_t value;

        memcpy(&value, (const char *)block + at, sizeof(value));
        return value;
}

static uint64_t u64(const void *block, size_t at)
{
        uint64_t value;

        memcpy(&value, (const char *)block + at, sizeof(value));
        return value;
}

static const char *handle(uint32_t value, char text[static 12])
{
        if (value >> 20 == 0xc1d)
                return strcpy(text, "C");
        (void)snprintf(text, 12, "%x", value);
        return text;
}

HOOK void sublet_record_mark(const char *text)
{
        if (ready())
                fprintf(out, "mark %s\n", text);
}

HOOK int open(const char *path, int flags, ...)
{
        static int (*next)(const char *, int, ...);
        va_list list;
        int mode, fd;

        va_start(list, flags);
        mode = va_arg(list, int);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "open");
        fd = next(path, flags, mode);
        if (strncmp(path, "/dev/nvidia", 11) == 0 && ready()) {
                if (fd >= 0)
                        fprintf(out, "open %s\n", path);
                if (fd >= 0 && fd < FDS)
                        node[fd] = strstr(path, "uvm") ? 'U' : strstr(path, "ctl") ? 'C' : 'N';
        }
        return fd;
}

HOOK int open64(const char *path, int flags, ...)
{
        va_list list;
        int mode;

        va_start(list, flags);
        mode = va_arg(list, int);
        va_end(list);
        return open(path, flags, mode);
}

HOOK int close(int fd)
{
        static int (*next)(int);

        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "close");
        if (fd >= 0 && fd < FDS)
                node[fd] = 0;
        return next(fd);
}

HOOK void *mmap64(void *at, size_t length, int prot, int flags, int fd, off64_t offset)
{
        static void *(*next)(void *, size_t, int, int, int, off64_t);

        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "mmap64");
        if (fd >= 0 && fd < FDS && node[fd] && ready())
                fprintf(out, "mmap %zx prot=%x fl=%x\n", length, (unsigned int)prot, (unsigned int)flags);
        return next(at, length, prot, flags, fd, offset);
}

static void say_uvm(uint32_t request, const void *block)
{
        static const uint32_t with_length[] = { 33, 34, 45, 65, 66, 68, 72, 73 };

        for (size_t i = 0; i < sizeof(with_length) / sizeof(*with_length); i++) {
                if (with_length[i] == request) {
                        fprintf(out, "UVM %u %llx\n", request, (unsigned long long)u64(block, 8));
                        return;
                }
        }
        fprintf(out, "UVM %u \n", request);
}

static void say_alloc(const void *block)
{
        const void *params = (const void *)(uintptr_t)u64(block, 16);
        uint32_t class_number = u32(block, 12);
        char parent[12], object[12];

        fprintf(out, "ALLOC %x parent=%s obj=%s", class_number, handle(u32(block, 4), parent),
                handle(u32(block, 8), object));
        if (params && (class_number == 0x40 || class_number == 0x3e))
                fprintf(out, " size=%llx attr=%x", (unsigned long long)u64(params, 64), u32(params, 24));
        fputc('\n', out);
}

static void say_rm(unsigned long request, const void *block)
{
        uint32_t nr = request & 0xff, size = (request >> 16) & 0x3fff;
        char a[12], b[12];

        switch (nr) {
        case 0x2b:
                say_alloc(block);
                break;
        case 0x2a:
                fprintf(out, "CTL %x obj=%s psz=%u\n", u32(block, 8), handle(u32(block, 4), a), u32(block, 24));
                break;
        case 0x29:
                fprintf(out, "FREE parent=%s obj=%s\n", handle(u32(block, 4), a), handle(u32(block, 8), b));
                break;
        default:
                fprintf(out, "nr=%x size=%u\n", nr, size);
                break;
        }
}

HOOK int ioctl(int fd, unsigned long request, ...)
{
        static int (*next)(int, unsigned long, ...);
        va_list list;
        void *block;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        if (fd >= 0 && fd < FDS && node[fd] && ready()) {
                if (node[fd] == 'U')
                        say_uvm((uint32_t)request, block);
                else
                        say_rm(request, block);
        }
        return next(fd, request, block);
}
