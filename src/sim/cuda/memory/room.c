/* SPDX-License-Identifier: Apache-2.0 */
/* See room.h. A page that is there already costs nothing more: mincore says which are. */
#include "sim/cuda/memory/room.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ull
#define STEP (16ull << 20) /* between two looks */

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

bool room_for(const void *at, uint64_t n)
{
        static atomic_uint_fast64_t touched;
        static atomic_flag is_said = ATOMIC_FLAG_INIT;
        _cleanup_(closep) int fd = -1;
        char text[TEXT_SIZE];
        uintptr_t first = (uintptr_t)at / PAGE * PAGE, end = ((uintptr_t)at + n + PAGE - 1) / PAGE * PAGE;
        ssize_t length;

        if (atomic_fetch_add(&touched, n) + n < STEP)
                return true;
        atomic_store(&touched, 0);
        fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
        length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (length <= 0)
                return true;
        text[length] = 0;
        if (room_is_in(text, n) || room_is_in(text, missing_of(first, end)))
                return true;
        if (!atomic_flag_test_and_set(&is_said))
                (void)dprintf(2, "sublet sim: the host has no memory left for simulated memory (at most half of what "
                                 "is available): a "
                                 "smaller load, or a machine with --memory\n");
        return false;
}
