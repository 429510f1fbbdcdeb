/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        CLASSES = 32, /* size classes: powers of two from 32 bytes */
        SMALLEST = 5,
        ROOT = 1 << 20,
};

/* Bytes of address space; a page costs memory only when used. A process with a tight limit gets less. */
static const size_t largest = (size_t)1 << 30, least = (size_t)8 << 20;

struct block {
        union {
                struct block *next; /* free */
                size_t class;
        } is;
        size_t padding; /* blocks are aligned to 16 bytes */
};

struct heap {
        atomic_flag lock;
        size_t size, used;
        struct block *free[CLASSES];
};

static _Atomic(char *) area;
static size_t area_size; /* written before `area` */

static char *reserve(size_t *ret_size)
{
        for (size_t size = largest; size >= least; size /= 2) {
                long at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

                if (at == -1)
                        continue;
                *ret_size = size;
                if (syscall(SYS_madvise, at, size, MADV_WIPEONFORK) < 0) {
                        (void)syscall(SYS_munmap, at, size);
                        return NULL;
                }
                (void)syscall(SYS_madvise, at, size, MADV_DONTDUMP);
                return (char *)at; /* NOLINT */
        }
        return NULL;
}

void *heap_root(size_t size)
{
        char *at = atomic_load(&area), *none = NULL;
        size_t got = 0;

        if (at || size > ROOT - sizeof(struct heap))
                return at ? at + sizeof(struct heap) : NULL;
        at = reserve(&got);
        if (!at)
                return NULL;
        area_size = got; /* two threads that race here may differ only if memory is short */
        if (atomic_compare_exchange_strong(&area, &none, at))
                return at + sizeof(struct heap);
        (void)syscall(SYS_munmap, at, got);
        return none + sizeof(struct heap);
}

static struct heap *heap_take(void)
{
        struct heap *heap = (struct heap *)(void *)atomic_load(&area);

        while (atomic_flag_test_and_set_explicit(&heap->lock, memory_order_acquire))
                (void)sched_yield();
        return heap;
}

static void heap_drop(struct heap *heap)
{
        atomic_flag_clear_explicit(&heap->lock, memory_order_release);
}

static size_t class_of(size_t size)
{
        size_t class = 0;

        while (((size_t)1 << (class + SMALLEST)) < size + sizeof(struct block))
                class ++;
        return class;
}

void *heap_malloc(size_t size)
{
        size_t class, bytes;
        struct block *block = NULL;
        struct heap *heap;

        if (size > largest / 2)
                return NULL;
        class = class_of(size);
        bytes = (size_t)1 << (class + SMALLEST);
        heap = heap_take();
        if (!heap->used)
                heap->used = ROOT;
        if (heap->free[class]) {
                block = heap->free[class];
                heap->free[class] = block->is.next;
        } else if (bytes <= area_size - heap->used) {
                block = (struct block *)(void *)((char *)heap + heap->used);
                heap->used += bytes;
        }
        heap_drop(heap);
        if (!block) {
                errno = ENOMEM;
                return NULL;
        }
        block->is.class = class;
        return block + 1;
}

void *heap_calloc(size_t n, size_t size)
{
        void *pointer = size && n > largest / size ? NULL : heap_malloc(n * size);

        if (pointer)
                memset(pointer, 0, n * size);
        return pointer;
}

void heap_free(void *pointer)
{
        struct block *block = pointer;
        struct heap *heap;
        size_t class;

        if (!pointer)
                return;
        class = (--block)->is.class;
        heap = heap_take();
        block->is.next = heap->free[class];
        heap->free[class] = block;
        heap_drop(heap);
}

void *heap_realloc(void *old, size_t size)
{
        size_t room = old ? ((size_t)1 << (((struct block *)old)[-1].is.class + SMALLEST)) - sizeof(struct block) : 0;
        void *pointer;

        if (old && size <= room)
                return old;
        pointer = heap_malloc(size);
        if (pointer && old) {
                memcpy(pointer, old, room);
                heap_free(old);
        }
        return pointer;
}
