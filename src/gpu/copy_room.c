/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room in host memory: anonymous memory in huge pages, by pieces. Each is touched for the first time, since the
 * kernel clears it then; registered with the driver, which pins it; and mapped for the engine. For 40 GiB that is 1.4,
 * 0.6 and 0.8 s on an H200's host, twice as long each as the copy (docs/gpu.md §10): so one thread touches, with
 * helpers, another registers what has been touched, and copies begin with the first piece that is ready.
 */
#include "gpu/copy.h"
#include "gpu/copy_inside.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        TOUCHERS = 8,
        PAGE = 4096,
        CLASS_AT = 12,
        RESERVE_PART = 16, /* one part in so many of the host's memory is left to others */
        NODES = 1024,      /* no kernel has more */
        WORD_BITS = 8 * sizeof(unsigned long),
};

#define PIECE_SIZE (1ull * GIB)
#define HUGE_PAGE (2ull * MIB)
#define PIECE_WAIT (30 * NSEC_PER_SEC) /* for the next piece */
#define FIRST_PIECE 0x5ac00000u        /* handles of the pieces: the threads' own */

/* What the host could give without swapping; UINT64_MAX: it does not say. */
static bytes host_available(bytes *ret_total)
{
        FILE *file = fopen("/proc/meminfo", "re");
        unsigned long long total = 0, available = 0, kib;
        char line[128];

        while (file && fgets(line, sizeof(line), file)) {
                if (sscanf(line, "MemTotal: %llu", &kib) == 1)
                        total = kib;
                if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
                        available = kib;
        }
        if (file)
                (void)fclose(file);
        *ret_total = total * KIB;
        return total ? available * KIB : UINT64_MAX;
}

/* ---- a piece --------------------------------------------------------------------------------------------- */

struct toucher {
        volatile char *at;
        bytes size;
};

static void *touch(void *context)
{
        const struct toucher *toucher = context;

        for (bytes i = 0; i < toucher->size; i += PAGE)
                toucher->at[i] = 0;
        return NULL;
}

static void touch_all(char *memory, bytes size)
{
        struct toucher touchers[TOUCHERS];
        pthread_t threads[TOUCHERS];
        bytes part = (size / TOUCHERS + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        size_t n = 0;

        for (bytes at = 0; at < size; at += part) {
                touchers[n] = (struct toucher){ memory + at, size - at < part ? size - at : part };
                if (size - at <= part || pthread_create(&threads[n], NULL, touch, &touchers[n]))
                        (void)touch(&touchers[n]); /* the last part is this thread's */
                else
                        n++;
        }
        while (n-- > 0)
                (void)pthread_join(threads[n], NULL);
}

/* What is touched there for the first time comes from that node, as long as it has memory; else from another one. The
 * kernel may not know nodes, or not let us: then all is as without. */
static void memory_prefer(int node, void *memory, size_t size)
{
        unsigned long mask[NODES / WORD_BITS] = { 0 };

        if (node < 0 || node >= NODES)
                return;
        mask[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
        (void)syscall(SYS_mbind, memory, size, MPOL_PREFERRED, mask, (unsigned long)NODES + 1, 0u);
}

/* Aligned to huge pages, and near the device: across the processors' own link a copy may be slower than the device's.
 * NULL: there is none. */
static char *memory_new(bytes size, int node)
{
        char *memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1, 0);
        bytes before;

        if (memory == MAP_FAILED)
                return NULL;
        before = (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
        if (before)
                (void)munmap(memory, before);
        if (before < HUGE_PAGE)
                (void)munmap(memory + before + size, HUGE_PAGE - before);
        memory += before;
        (void)madvise(memory, size, MADV_HUGEPAGE);
        (void)madvise(memory, size, MADV_DONTFORK);
        (void)madvise(memory, size, MADV_DONTDUMP);
        memory_prefer(node, memory, size);
        return memory;
}

/* Request 0x27, class 0x71: the driver pins the pages. */
static int memory_register(struct gpu_copy *copy, const struct room_piece *piece, uint32_t handle)
{
        enum { SIZE = 56, STATUS_AT = 40 };
        uint8_t block[SIZE] = { 0 };

        rm_put32(block, SIZE, 0, copy->client.client);
        rm_put32(block, SIZE, 4, copy->client.device);
        rm_put32(block, SIZE, 8, handle);
        rm_put32(block, SIZE, CLASS_AT, RM_CLASS_OS_DESCRIPTOR);
        rm_put32(block, SIZE, 16, 0x40001010); /* not contiguous, cached, no mapping for the processor */
        rm_put64(block, SIZE, 24, (uintptr_t)piece->memory);
        rm_put64(block, SIZE, 32, piece->size - 1);
        rm_put32(block, SIZE, 48, UINT32_MAX);
        return copy_call(copy, copy->client.node, RM_NR_ALLOC_MEMORY, block, SIZE, STATUS_AT);
}

/* ---- the two threads ------------------------------------------------------------------------------------- */

/* Says that one more is so far, or that there will be no more. */
static void step_on(struct room *room, size_t *at, int error)
{
        (void)pthread_mutex_lock(&room->mutex);
        if (error)
                room->error = error;
        else
                ++*at;
        (void)pthread_cond_broadcast(&room->changed);
        (void)pthread_mutex_unlock(&room->mutex);
}

/* Until more than i are so far. 0; -errno of the thread that has failed. */
static int step_wait(struct room *room, const size_t *at, size_t i)
{
        nsec late = clock_realtime() + PIECE_WAIT;
        struct timespec until = { late / NSEC_PER_SEC, late % NSEC_PER_SEC };
        int r = 0, error;

        (void)pthread_mutex_lock(&room->mutex);
        while (*at <= i && !room->error && r == 0)
                r = pthread_cond_timedwait(&room->changed, &room->mutex, &until);
        error = *at > i ? 0 : room->error ? room->error : -ETIMEDOUT;
        (void)pthread_mutex_unlock(&room->mutex);
        return error;
}

/* Before each piece: others take host memory, too, and those that move at the same time have been told the same. */
static bool host_has(bytes (*ask)(bytes *ret_total), bytes size)
{
        bytes total, available = ask(&total), others = total / RESERVE_PART;

        return available >= others && available - others >= size;
}

int gpu_copy_spare(bytes size)
{
        return host_has(host_available, size) ? 0 : -ENOMEM;
}

static void *touch_run(void *context)
{
        struct gpu_copy *copy = context;
        struct room *room = &copy->room;

        for (size_t i = room->n_touched; i < room->n; i++) {
                if (host_has(room->host_available, room->pieces[i].size))
                        room->pieces[i].memory = memory_new(room->pieces[i].size, room->node);
                if (!room->pieces[i].memory) {
                        step_on(room, NULL, -ENOMEM);
                        break;
                }
                touch_all(room->pieces[i].memory, room->pieces[i].size);
                step_on(room, &room->n_touched, 0);
        }
        return NULL;
}

static void *register_run(void *context)
{
        struct gpu_copy *copy = context;
        struct room *room = &copy->room;

        for (size_t i = room->n_ready; i < room->n; i++) {
                struct room_piece *piece = &room->pieces[i];
                uint32_t handle = FIRST_PIECE + (uint32_t)i;
                int r = step_wait(room, &room->n_touched, i);

                if (r == 0)
                        r = memory_register(copy, piece, handle);
                if (r == 0 && (r = copy_map(copy, handle, piece->size, true, &piece->at)) < 0)
                        (void)copy_free(copy, handle);
                if (r < 0) {
                        step_on(room, NULL, r == -EIO ? -ENOMEM : r);
                        break;
                }
                step_on(room, &room->n_ready, 0);
        }
        return NULL;
}

static void room_join(struct room *room)
{
        for (size_t i = 0; i < room->n_threads; i++)
                (void)pthread_join(room->threads[i], NULL);
        room->n_threads = 0;
}

/* ---- the room -------------------------------------------------------------------------------------------- */

void room_init(struct room *room)
{
        *room = (struct room){ .host_available = host_available, .node_of = client_numa, .node = -1 };
        (void)pthread_mutex_init(&room->mutex, NULL);
        (void)pthread_cond_init(&room->changed, NULL);
}

static int room_start(struct gpu_copy *copy)
{
        void *(*const runs[])(void *) = { touch_run, register_run };
        struct room *room = &copy->room;

        for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
                int r = pthread_create(&room->threads[i], NULL, runs[i], copy);

                if (r) {
                        step_on(room, NULL, -r);
                        return -r;
                }
                room->n_threads = i + 1;
        }
        return 0;
}

/* No thread runs: what is not ready will not be. */
static void room_trim(struct room *room)
{
        for (; room->n > room->n_ready; room->n--)
                if (room->pieces[room->n - 1].memory)
                        (void)munmap(room->pieces[room->n - 1].memory, room->pieces[room->n - 1].size);
        room->n_touched = room->n_ready;
        room->error = 0;
}

int room_grow(struct gpu_copy *copy, bytes size)
{
        struct room *room = &copy->room;
        bytes has = 0;

        room_join(room);
        room_trim(room);
        for (size_t i = 0; i < room->n; i++)
                has += room->pieces[i].size;
        if (has >= size)
                return 0;
        if (!host_has(room->host_available, size - has))
                return -ENOMEM;
        while (has < size) {
                bytes part = (size - has + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

                if (room->n == ROOM_PIECES)
                        return -ENOMEM;
                part = part < PIECE_SIZE ? part : PIECE_SIZE;
                room->pieces[room->n++] = (struct room_piece){ .size = part };
                has += part;
        }
        return room_start(copy);
}

bytes room_size(const struct room *room)
{
        bytes size = 0;

        for (size_t i = 0; i < room->n_ready; i++)
                size += room->pieces[i].size;
        return size;
}

void room_shrink(struct gpu_copy *copy, bytes size)
{
        struct room *room = &copy->room;

        room_join(room);
        while (room->n_ready && room_size(room) > size) {
                const struct room_piece *piece = &room->pieces[--room->n_ready];
                uint32_t handle = FIRST_PIECE + (uint32_t)room->n_ready;

                copy_unmap(copy, handle, piece->at, piece->size);
                (void)copy_free(copy, handle); /* first: it holds the pages */
        }
        room_trim(room);
}

int room_at(struct gpu_copy *copy, bytes offset, uint64_t *ret, bytes *ret_length)
{
        struct room *room = &copy->room;

        for (size_t i = 0; i < room->n; i++) {
                const struct room_piece *piece = &room->pieces[i];
                int r;

                if (offset >= piece->size) {
                        offset -= piece->size;
                        continue;
                }
                r = step_wait(room, &room->n_ready, i);
                if (r < 0)
                        return r;
                *ret_length = piece->size - offset;
                *ret = piece->at + offset;
                return 0;
        }
        return -ENOMEM;
}

void room_wait(struct gpu_copy *copy)
{
        room_join(&copy->room);
}

void room_clear(struct gpu_copy *copy)
{
        struct room *room = &copy->room;

        room_join(room);
        room->n_ready = 0;
        room_trim(room);
}
