/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own memory: one range that a fork empties.
 *
 * A signal handler may make a driver call while the program is inside malloc, so the library takes nothing from the
 * program's heap. And a child of fork must not continue with a ledger that another thread was just changing: the range
 * is MADV_WIPEONFORK, so a new process, by whatever system call it was made, reads zeros and begins anew.
 *
 * Base, lease and gate are compiled a second time for the library, with malloc named heap_malloc (meson.build).
 *
 * Threads: any; the caller has blocked signals.
 */
#pragma once

#include <stddef.h>

/* The first `size` bytes of the range, which are zero in a new process. NULL: out of memory. */
void *heap_root(size_t size);

void *heap_malloc(size_t size);
void *heap_calloc(size_t n, size_t size);
void *heap_realloc(void *old, size_t size);
void heap_free(void *pointer);
