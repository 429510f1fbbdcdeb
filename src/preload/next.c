/* SPDX-License-Identifier: Apache-2.0 */
/* The next library's functions, each found once. */
#include "preload/next.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(type, name, ...)                                                                                          \
        static type (*_Atomic next)(__VA_ARGS__);                                                                      \
        if (!next)                                                                                                     \
                next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

int next_ioctl(int fd, unsigned long request, void *argument)
{
        NEXT(int, "ioctl", int, unsigned long, ...)
        return next ? next(fd, request, argument) : (int)syscall(SYS_ioctl, fd, request, argument);
}

void *next_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
        NEXT(void *, "mmap", void *, size_t, int, int, int, off_t)
        return next ? next(address, length, prot, flags, fd, offset) :
                      (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
}

int next_munmap(void *address, size_t length)
{
        NEXT(int, "munmap", void *, size_t)
        return next ? next(address, length) : (int)syscall(SYS_munmap, address, length);
}

int next_close(int fd)
{
        NEXT(int, "close", int)
        return next ? next(fd) : (int)syscall(SYS_close, fd);
}

/* Found early, before any signal handler can run: dlsym is not safe in one. */
__attribute__((constructor)) static void next_resolve(void)
{
        (void)next_ioctl(-1, 0, NULL);
        (void)next_munmap(NULL, 0);
        (void)next_mmap(NULL, 0, 0, 0, -1, 0);
        (void)next_close(-1);
}
