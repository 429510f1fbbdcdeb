/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership that a reader can see: a variable marked _cleanup_(f) is destroyed when its scope ends,
 * TAKE(x) hands its value on and leaves zero behind.
 *
 *      _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
 *      ...
 *      *ret = TAKE_FD(fd);
 */
#pragma once

#include <stdlib.h>
#include <unistd.h>

/* unused: a lock that is only held is used by its end alone, which clang does not count. */
#define _cleanup_(f) __attribute__((cleanup(f), unused))

#define TAKE(x)                                                                                                        \
        __extension__({                                                                                                \
                __typeof__(x) *take_from_ = &(x);                                                                      \
                __typeof__(x) take_value_ = *take_from_;                                                               \
                *take_from_ = (__typeof__(x)){ 0 };                                                                    \
                take_value_;                                                                                           \
        })

#define TAKE_FD(fd)                                                                                                    \
        __extension__({                                                                                                \
                int take_fd_ = (fd);                                                                                   \
                (fd) = -1;                                                                                             \
                take_fd_;                                                                                              \
        })

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Cleanup functions; errno survives them. */
void closep(int *fd);
void freep(void *pointer);
