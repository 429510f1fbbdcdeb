/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownmem - what the driver takes of a device's memory beside what it is asked for.
 *
 *      gcc -O2 -std=gnu17 -rdynamic -Itests/hostile -I$CUDA/include tests/gpu/ownmem/[a-z]*.c tests/hostile/kit.c \
 *              -L$CUDA/lib64/stubs -lcuda -ldl -lpthread -o ownmem          (tests/gpu/ownmem.sh does it, and runs all)
 *      ownmem calls    each driver call of libcuda for two contexts: what the device's figure was before and after
 *      ownmem groups   groups, channels and engine objects made again as libcuda made them; registered with UVM
 *      ownmem objects  clients, devices, VA spaces, reservations of addresses, mappings in them
 *      ownmem ranges  ranges, mappings and managed memory that touch page tables far apart
 *
 * The figure is NVML's `used`, in bytes, so the device must be otherwise idle. A step counts what was there before it,
 * what was there after it, and what it asked for; the difference is the driver's own. Blocks: docs/rm-abi.md, release
 * 580.
 */
#pragma once

#include "kit.h"

#define KIB 1024ll
#define GIB (1ull << 30)

enum {
        CLASS_MEMORY = 0x40,
        CLASS_GROUP = 0xa06c,
        CLASS_SHARE = 0x9067,
        SAVED_MAX = 32,
        PARAMS_MAX = 512,
};

/* ---- price.c: ioctl, as libcuda calls it ---- */

/* An allocation of libcuda's: a group, a context share, a channel or its engine object. */
struct saved {
        uint32_t client, parent, handle, class_number, size;
        unsigned char params[PARAMS_MAX];
};
extern struct saved saved[SAVED_MAX]; /* in order */
extern size_t n_saved;
extern unsigned char registered[56]; /* the block of its first UVM_REGISTER_CHANNEL; it begins with the uuid */
extern int price_ctl, price_uvm;     /* descriptors of libcuda's */

long long used(void);                                   /* bytes */
void price_calls(void (*make)(void), const char *part); /* prices each call of it, and prints a line per kind of call */
void price_save(void (*make)(void));                    /* keeps what is in `saved` */

/* A line: what n steps have taken beside `asked` since the figure was `before`, and how the last one ended. */
void say(const char *what, unsigned int n, long long before, long long asked, struct kit_outcome outcome);
void say_left(const char *what, long long before);

struct kit_outcome driver_call(int fd, unsigned long request, void *block, size_t status_at);

/* Video memory of pages of that size: 1 4 KiB, 2 64 KiB, 3 2 MiB. */
struct kit_outcome memory_alloc(const struct kit_rm *rm, uint32_t handle, uint64_t size, uint32_t page);

bool is_channel(uint32_t class_number);

/* ---- the parts ---- */
void contexts(void);
void groups(void);
void objects(void);
void ranges(void);
