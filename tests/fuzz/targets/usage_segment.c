/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment that is overwritten at random. The first 32 bytes are laid over its head; then each four bytes are a write
 * into a slot, or a call. Nothing crashes, a head that is not its tenancy's is refused, and what is granted is never
 * more than the quota beside what is written there.
 */
#include "preload/usage_segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        HEAD = 32,
        QUOTA = 1000,
        TENANCY = 4711,
};

static void write_number(int fd, size_t slot, unsigned int kind, uint64_t value)
{
        off_t at = (off_t)(offsetof(struct usage_segment, slots) + slot * sizeof(struct usage_segment_slot) +
                           kind * sizeof(bytes));

        if (pwrite(fd, &value, sizeof(value), at) != sizeof(value))
                abort();
}

/* The ends of the numbers, and what is near the quota. */
static uint64_t number(uint8_t byte)
{
        return byte < 128 ? (uint64_t)byte * 9 : UINT64_MAX - (255 - byte);
}

static void step(int fd, struct usage_segment_handle *seat, const uint8_t *data)
{
        unsigned int kind = data[1] % USAGE_SEGMENT_KINDS;
        struct usage_segment_totals books;
        bytes size = number(data[3]);

        switch (data[0] % 5) {
        case 0:
                write_number(fd, data[2] * 4u, kind, number(data[3]));
                break;
        case 1:
                if (usage_segment_take(seat, kind, size, QUOTA) == USAGE_SEGMENT_OK &&
                    usage_segment_held(seat->segment, kind) > QUOTA)
                        abort();
                break;
        case 2:
                usage_segment_drop(seat, kind, size);
                break;
        case 3:
                usage_segment_reclaim(seat);
                break;
        default:
                if (usage_segment_scan(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &books) == 0 &&
                    books.n_processes > USAGE_SEGMENT_SLOTS)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t n = size < HEAD ? size : HEAD;
        struct usage_segment_handle seat;
        uint8_t head[HEAD], was[HEAD];
        bool is_same;
        int fd, r;

        if (usage_segment_new(TENANCY, &fd) < 0 || pread(fd, was, HEAD, 0) != HEAD)
                abort();
        memcpy(head, was, HEAD);
        for (size_t i = 0; i < n; i++)
                head[i] ^= data[i];
        is_same = memcmp(head, was, offsetof(struct usage_segment, is_attached)) == 0;
        if (pwrite(fd, head, HEAD, 0) != HEAD)
                abort();
        r = usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &seat);
        if ((r == USAGE_SEGMENT_OK || r == USAGE_SEGMENT_E_ATTACHED) != is_same)
                abort();
        for (size_t i = HEAD; r == USAGE_SEGMENT_OK && i + 3 < size; i += 4)
                step(fd, &seat, data + i);
        if (r == USAGE_SEGMENT_OK)
                usage_segment_leave(&seat);
        (void)close(fd);
        return 0;
}
