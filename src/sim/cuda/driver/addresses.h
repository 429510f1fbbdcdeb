/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the device, which are addresses of the process: reserved with mmap(PROT_NONE), so
 * that nothing else is mapped there, and a program that dereferences a device pointer faults as with
 * the real library. Threads: any.
 */
#pragma once

#include <stdint.h>

#define ADDRESS_GRANULE (2ull << 20)

/* size is rounded up to a page. 0: no room. */
uint64_t addresses_reserve(uint64_t size, uint64_t align);
uint64_t addresses_reserve_at(uint64_t base, uint64_t size); /* there or, if that is taken, anywhere */
void addresses_release(uint64_t base, uint64_t size);

/* A piece of a reserved stretch that something else was mapped over: reserves it again. */
void addresses_reserve_again(uint64_t base, uint64_t size);

/* Puts fresh memory of the process into a piece of a reserved stretch; NULL: there is none. */
void *addresses_back(uint64_t base, uint64_t size);
