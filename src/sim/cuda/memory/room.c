/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See room.h. A page that is there already costs nothing more: mincore says which are. Where other programs have the
 * memory, one that asks for what would fit without them waits a while: there are machines on which tests run beside
 * each other.
 */
#include "sim/cuda/memory/room.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ull
#define STEP (16ull << 20) /* between two looks */
#define PATIENCE (20 * NSEC_PER_SEC)
#define AGAIN (100 * NSEC_PER_MSEC)

enum {
        WINDOW_PAGES = 4096,
        TEXT_SIZE = 4096,
};

static uint64_t field_of(const char *meminfo, const char *name)
{
        const char *at = strstr(meminfo, name);

        return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

bool room_is_in(const char *meminfo, uint64_t n)
{
        uint64_t available = field_of(meminfo, "MemAvailable:"), shared = field_of(meminfo, "Shmem:");

        return !available || shared + n <= (available + shared) / 2;
}

/* Those of n bytes that no page of the host holds yet. */
static uint64_t missing_of(uintptr_t first, uintptr_t end)
{
        unsigned char there[WINDOW_PAGES];
        uint64_t missing = 0;

        for (uintptr_t at = first; at < end; at += WINDOW_PAGES * PAGE) {
                uint64_t length = end - at < WINDOW_PAGES * PAGE ? end - at : WINDOW_PAGES * PAGE;

                if (mincore((void *)at, length, there) < 0)
                        return missing + (end - at);
                for (uint64_t i = 0; i * PAGE < length; i++)
                        missing += there[i] & 1 ? 0 : PAGE;
        }
        return missing;
}

/* False: nothing can be read. */
static bool host_read(char text[static TEXT_SIZE])
{
        _cleanup_(closep) int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, text, TEXT_SIZE - 1);

        if (length <= 0)
                return false;
        text[length] = 0;
        return true;
}

static bool could_be_in(const char *meminfo, uint64_t n)
{
        return n <= (field_of(meminfo, "MemAvailable:") + field_of(meminfo, "Shmem:")) / 2;
}

static void refusal_say(void)
{
        static atomic_flag is_said = ATOMIC_FLAG_INIT;

        if (!atomic_flag_test_and_set(&is_said))
                (void)dprintf(2, "sublet sim: the host has no memory left for simulated memory (at most half of what "
                                 "is available): a "
                                 "smaller load, or a machine with --memory\n");
}

bool room_for(const void *at, uint64_t n)
{
        static atomic_uint_fast64_t touched;
        char text[TEXT_SIZE];
        uintptr_t first = (uintptr_t)at / PAGE * PAGE, end = ((uintptr_t)at + n + PAGE - 1) / PAGE * PAGE;
        uint64_t missing;
        nsec until;

        if (atomic_fetch_add(&touched, n) + n < STEP)
                return true;
        atomic_store(&touched, 0);
        if (!host_read(text) || room_is_in(text, n))
                return true;
        missing = missing_of(first, end);
        until = clock_now() + PATIENCE;
        while (!room_is_in(text, missing)) {
                if (!could_be_in(text, missing) || clock_now() >= until) {
                        refusal_say();
                        return false;
                }
                (void)usleep(AGAIN / NSEC_PER_USEC);
                if (!host_read(text))
                        return true;
        }
        return true;
}
