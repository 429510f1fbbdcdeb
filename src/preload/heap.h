/*
 * The library's own memory: one range that a fork empties.
 *
 * The program may be anywhere in its malloc when a signal handler of its makes a driver call, so nothing of ours is
 * taken there. And a child of fork must not go on with books that another thread was changing just then: the range is
 * MADV_WIPEONFORK, so whoever is a new process, by whatever system call, reads zeros and begins anew.
 *
 * Base, lease and gate are compiled a second time for the library with malloc named heap_malloc (meson.build).
 *
 * Threads: any; the caller has signals blocked.
 */
#pragma once

#include <stddef.h>

/* The first `size` bytes of the range, zero in a new process. NULL: there is no memory. */
void *heap_root(size_t size);

void *heap_malloc(size_t size);
void *heap_calloc(size_t n, size_t size);
void *heap_realloc(void *old, size_t size);
void heap_free(void *pointer);
