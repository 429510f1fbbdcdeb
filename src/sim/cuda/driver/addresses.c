/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/driver/addresses.h"

#include <stddef.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
        RESERVED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        PAGE = 4096,
};

static uint64_t round_up(uint64_t size, uint64_t to)
{
        return (size + to - 1) / to * to;
}

static void *address(uint64_t base)
{
        return (void *)(uintptr_t)base;
}

uint64_t addresses_reserve(uint64_t size, uint64_t align)
{
        uint64_t length = round_up(size, PAGE), extra = align > PAGE ? align : 0, begin, base;
        void *at;

        if (!size || length < size || length + extra < length)
                return 0;
        at = mmap(NULL, length + extra, PROT_NONE, RESERVED, -1, 0);
        if (at == MAP_FAILED)
                return 0;

        begin = (uintptr_t)at;
        base = extra ? (begin + extra) / align * align : begin; /* the kernel allocates downward: keep the upper part */
        if (base > begin)
                (void)munmap(at, base - begin);
        if (begin + length + extra > base + length)
                (void)munmap(address(base + length), begin + extra - base);
        return base;
}

uint64_t addresses_reserve_at(uint64_t base, uint64_t size)
{
        void *at = mmap(address(base), size, PROT_NONE, RESERVED | MAP_FIXED_NOREPLACE, -1, 0);

        if (at == address(base))
                return base;
        if (at != MAP_FAILED) /* a kernel older than the flag */
                (void)munmap(at, size);
        return addresses_reserve(size, ADDRESS_GRANULE);
}

void addresses_release(uint64_t base, uint64_t size)
{
        if (base)
                (void)munmap(address(base), round_up(size, PAGE));
}

void addresses_reserve_again(uint64_t base, uint64_t size)
{
        (void)mmap(address(base), round_up(size, PAGE), PROT_NONE, RESERVED | MAP_FIXED, -1, 0);
}

void *addresses_back(uint64_t base, uint64_t size)
{
        void *at = mmap(address(base), round_up(size, PAGE), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

        return at == MAP_FAILED ? NULL : at;
}
