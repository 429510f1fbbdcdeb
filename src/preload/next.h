/* SPDX-License-Identifier: Apache-2.0 */
/* libc's functions, or those of a library between this one and libc.
 * Threads: any; signal handlers too, once the loader is done. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

int next_ioctl(int fd, unsigned long request, void *argument);
void *next_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset);
int next_munmap(void *address, size_t length);
int next_close(int fd);
