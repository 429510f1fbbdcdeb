/*
 * A region that somebody scribbles on. The first 32 bytes are laid over its head; then each four bytes are a write into a
 * slot, or a call. Nothing crashes, a head that is not its tenancy's is refused, and what is granted is never more than the
 * quota beside what is written there.
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
        off_t at = (off_t)(offsetof(struct region, slots) + slot * sizeof(struct region_slot) + kind * sizeof(bytes));

        if (pwrite(fd, &value, sizeof(value), at) != sizeof(value))
                abort();
}

/* The ends of the numbers, and what is near the quota. */
static uint64_t number(uint8_t byte)
{
        return byte < 128 ? (uint64_t)byte * 9 : UINT64_MAX - (255 - byte);
}

static void step(int fd, struct region_seat *seat, const uint8_t *data)
{
        unsigned int kind = data[1] % REGION_KINDS;
        struct region_books books;
        bytes size = number(data[3]);

        switch (data[0] % 5) {
        case 0:
                write_number(fd, data[2] * 4u, kind, number(data[3]));
                break;
        case 1:
                if (region_take(seat, kind, size, QUOTA) == REGION_OK && region_held(seat->region, kind) > QUOTA)
                        abort();
                break;
        case 2:
                region_drop(seat, kind, size);
                break;
        case 3:
                region_settle(seat);
                break;
        default:
                if (region_look(fd, PAGE_DESCRIPTOR, TENANCY, &books) == 0 && books.n_processes > REGION_SLOTS)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t n = size < HEAD ? size : HEAD;
        struct region_seat seat;
        uint8_t head[HEAD], was[HEAD];
        bool is_same;
        int fd, r;

        if (region_new(TENANCY, &fd) < 0 || pread(fd, was, HEAD, 0) != HEAD)
                abort();
        memcpy(head, was, HEAD);
        for (size_t i = 0; i < n; i++)
                head[i] ^= data[i];
        is_same = memcmp(head, was, offsetof(struct region, is_attached)) == 0;
        if (pwrite(fd, head, HEAD, 0) != HEAD)
                abort();
        r = region_join(fd, PAGE_DESCRIPTOR, TENANCY, &seat);
        if ((r == REGION_OK || r == REGION_E_ATTACHED) != is_same)
                abort();
        for (size_t i = HEAD; r == REGION_OK && i + 3 < size; i += 4)
                step(fd, &seat, data + i);
        if (r == REGION_OK)
                region_leave(&seat);
        (void)close(fd);
        return 0;
}
