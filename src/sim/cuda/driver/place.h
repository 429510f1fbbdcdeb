/*
 * Addresses of the device, which are addresses of the process: reserved with mmap(PROT_NONE), so
 * that nobody else gets them and a program that follows a device pointer faults as on the real
 * library. Threads: any.
 */
#pragma once

#include <stdint.h>

#define PLACE_GRANULE (2ull << 20)

/* size is rounded up to a page. 0: no room. */
uint64_t place_take(uint64_t size, uint64_t align);
uint64_t place_take_at(uint64_t base, uint64_t size); /* there or, if that is taken, anywhere */
void place_give(uint64_t base, uint64_t size);

/* A piece of a reserved stretch that something else was mapped over: reserves it again. */
void place_restore(uint64_t base, uint64_t size);

/* Memory of our own in a piece of a reserved stretch; NULL: none. */
void *place_fill(uint64_t base, uint64_t size);
