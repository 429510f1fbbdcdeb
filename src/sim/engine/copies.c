/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy engines that are given their work as the real ones are: entries in a ring in memory, which name words, which
 * are methods. That is for programs that make a channel by plain driver calls (tests/gpu/ce.c); libcuda's stand-in says
 * what it wants by messages (client/doorbell.h).
 *
 * A write to a doorbell's page is seen by nobody here, so the positions of these channels are looked at every LOOK. A
 * channel is one of these if its ring lies in an address space that the driver manages (objects/spaces.c). Known are
 * copies of lines between addresses, and the release of one word after it: at most one copy in an entry. A copy takes
 * its time on the device first, then the bytes are copied, so a channel that is off copies nothing. An address where
 * nothing is stops the channel, as a fault of the memory unit does.
 * Source: class 0xc8b5, clc8b5.h; entries: clc86f.h, 580.95.05.
 */
#include "sim/engine/touch.h"
#include "sim/server/machine.h"

#include "base/cleanup.h"

#include <errno.h>
#include <unistd.h>

#define LOOK (200 * NSEC_PER_USEC)
#define NSEC_PER_MIB 19000 /* 55 GB/s: measured, H100, PCIe 5 x16, pinned */

enum {
        USERD_PUT = 0x8c,
        ENTRY = 8,
        WORDS_MAX = 1024,
        BOUNCE = 256 * 1024,
        XID_FAULT = 31,

        SET_SEMAPHORE_A = 0x240,
        SET_SEMAPHORE_B = 0x244,
        SET_SEMAPHORE_PAYLOAD = 0x248,
        LAUNCH = 0x300,
        OFFSET_IN_UPPER = 0x400,
        OFFSET_IN_LOWER = 0x404,
        OFFSET_OUT_UPPER = 0x408,
        OFFSET_OUT_LOWER = 0x40c,
        LINE_LENGTH_IN = 0x418,

        LAUNCH_TRANSFER = 3,     /* 0: none */
        LAUNCH_RELEASE = 3 << 3, /* 0: none */
        LAUNCH_LINES = 1 << 7 | 1 << 8,
};

static void channel_fault(struct channel *channel, const char *what)
{
        struct gpu *gpu = channel->group->gpu;

        channel->error = -EIO;
        machine_log(gpu->machine, "NVRM: Xid (PCI:0000:%02x:00): %d, pid=%d, Ch %08x, %s\n", gpu->id >> 8, XID_FAULT,
                    (int)channel->group->pid, channel->cid, what);
}

void semaphore_write(const struct work *work, nsec at)
{
        uint64_t pair[2] = { work->value, (uint64_t)at };
        int fd;

        if (!work->semaphore)
                return;
        fd = mem_fd(work->semaphore);
        if (fd >= 0)
                (void)!pwrite(fd, pair, sizeof(pair), (off_t)work->semaphore_offset);
}

/* ---- the copy itself ------------------------------------------------------------------------------------- */

void copy_done(struct channel *channel, const struct copy *copy)
{
        static unsigned char bounce[BOUNCE]; /* one thread */
        struct machine *machine = channel->group->gpu->machine;
        uint32_t payload = copy->payload;

        if (channel->error || (!copy->is_copy && !copy->is_release))
                return;
        if (copy->is_copy && machine->faults.copy_fault_at && --machine->faults.copy_fault_at == 0) {
                channel_fault(channel, "a copy was to fault");
                return;
        }
        for (uint64_t done = 0; copy->is_copy && done < copy->bytes; done += BOUNCE) {
                size_t part = copy->bytes - done < BOUNCE ? (size_t)(copy->bytes - done) : BOUNCE;

                if (!space_move(machine, channel, false, copy->from + done, bounce, part) ||
                    !space_move(machine, channel, true, copy->to + done, bounce, part)) {
                        channel_fault(channel, "no memory at that address");
                        return;
                }
        }
        if (copy->is_release && !space_move(machine, channel, true, copy->semaphore, &payload, sizeof(payload)))
                channel_fault(channel, "no semaphore at that address");
}

/* ---- methods ------------------------------------------------------------------------------------------------ */

static void upper_set(uint64_t *to, uint32_t value)
{
        *to = (*to & UINT32_MAX) | (uint64_t)value << 32;
}

static void lower_set(uint64_t *to, uint32_t value)
{
        *to = (*to & ~(uint64_t)UINT32_MAX) | value;
}

/* False: not a copy that is known here. */
static bool method_take(struct copy *copy, uint32_t address, uint32_t value)
{
        switch (address) {
        case SET_SEMAPHORE_A:
                upper_set(&copy->semaphore, value);
                return true;
        case SET_SEMAPHORE_B:
                lower_set(&copy->semaphore, value);
                return true;
        case SET_SEMAPHORE_PAYLOAD:
                copy->payload = value;
                return true;
        case OFFSET_IN_UPPER:
                upper_set(&copy->from, value);
                return true;
        case OFFSET_IN_LOWER:
                lower_set(&copy->from, value);
                return true;
        case OFFSET_OUT_UPPER:
                upper_set(&copy->to, value);
                return true;
        case OFFSET_OUT_LOWER:
                lower_set(&copy->to, value);
                return true;
        case LINE_LENGTH_IN:
                copy->bytes = value;
                return true;
        case LAUNCH:
                if (copy->is_copy || copy->is_release)
                        return false;
                copy->is_copy = value & LAUNCH_TRANSFER;
                copy->is_release = value & LAUNCH_RELEASE;
                return !copy->is_copy || (value & LAUNCH_LINES) == LAUNCH_LINES;
        default:
                return address == 0; /* which class follows */
        }
}

/* Words are headers (count 28:16, address / 4 11:0, kind 31:29 of which 1 goes on to the next address) and values. */
static bool words_take(struct copy *copy, const uint32_t *words, size_t n)
{
        for (size_t i = 0; i < n;) {
                uint32_t header = words[i++], count = header >> 16 & 0x1fff, address = (header & 0xfff) << 2;

                if (header >> 29 != 1 || count > n - i)
                        return false;
                for (uint32_t k = 0; k < count; k++, i++)
                        if (!method_take(copy, address + 4 * k, words[i]))
                                return false;
        }
        return true;
}

/* ---- rings ---------------------------------------------------------------------------------------------------- */

enum taken {
        TAKEN,
        TAKEN_LATER, /* as it was: take it again */
        TAKEN_NOT,   /* it is no copy */
};

static enum taken entry_take(struct machine *machine, struct channel *channel, uint64_t entry)
{
        uint32_t words[WORDS_MAX];
        uint64_t n = entry >> 42 & 0x1fffff;
        struct memory *from;
        struct work *work;

        channel->copy.is_copy = channel->copy.is_release = false;
        if (n > WORDS_MAX ||
            !space_move(machine, channel, false, entry & 0xfffffffffcull, words, (size_t)n * sizeof(words[0])) ||
            !words_take(&channel->copy, words, (size_t)n))
                return TAKEN_NOT;
        from = channel->copy.is_copy ? space_memory(machine, channel, channel->copy.from) : NULL;
        if (from && !touch_forbid(from, channel->client))
                return TAKEN_LATER;
        work = calloc(1, sizeof(*work));
        if (!work)
                return TAKEN_NOT;
        work->copy = channel->copy;
        runlist_submit(&channel->run, &work->run,
                       work->copy.is_copy ? (nsec)(work->copy.bytes * NSEC_PER_MIB / MIB) : 0, machine->now);
        return TAKEN;
}

/* What the program has put there since. */
static void ring_look(struct machine *machine, struct channel *channel)
{
        uint32_t put;
        int fd = mem_fd(channel->userd);

        if (fd < 0 || pread(fd, &put, sizeof(put), (off_t)(channel->userd_at + USERD_PUT)) != sizeof(put))
                return;
        while (channel->put != put && !channel->error) {
                enum taken taken = TAKEN_NOT;
                uint64_t entry;

                if (put < channel->n_entries &&
                    space_move(machine, channel, false, channel->ring + (uint64_t)channel->put * ENTRY, &entry,
                               sizeof(entry)))
                        taken = entry_take(machine, channel, entry);
                if (taken == TAKEN_LATER)
                        return;
                if (taken == TAKEN_NOT) {
                        channel_fault(channel, "an entry that is no copy");
                        return;
                }
                channel->put = (channel->put + 1) % channel->n_entries;
        }
}

/* Whether the channel's ring is where engines look; the others' positions are nobody's business. */
static bool has_ring(struct machine *machine, const struct channel *channel)
{
        uint64_t entry;

        return channel->userd && channel->space && !channel->error &&
               space_move(machine, channel, false, channel->ring, &entry, sizeof(entry));
}

nsec copies_advance(struct gpu *gpu)
{
        struct machine *machine = gpu->machine;
        nsec next = RUN_NEVER;

        if (!machine->dma_maps)
                return next;
        for (size_t i = 0; i < ENGINES; i++)
                for (struct run_group *group = gpu->engines[i].groups; group; group = group->next)
                        for (struct run_queue *queue = group->queues; queue; queue = queue->next) {
                                struct channel *channel = CONTAINER(queue, struct channel, run);

                                if (!has_ring(machine, channel))
                                        continue;
                                ring_look(machine, channel);
                                next = machine->now + LOOK;
                        }
        return next;
}
