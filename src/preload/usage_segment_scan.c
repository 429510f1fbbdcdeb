/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usage segment as read from outside the tenant: by read(2), since the tenant may truncate the file at any moment,
 * and a process with a mapping would then be ended by SIGBUS.
 */
#include "preload/usage_segment.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* CPU time of a scan; without foreign locks it takes less than 1 ms. */
#define SCAN_MAX (50 * NSEC_PER_MSEC)

/* The lock is tested, not taken: a process that is searching for a slot must not skip this one. */
static bool is_locked(int fd, size_t slot)
{
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1 };

        return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/*
 * For each test the kernel walks all locks on the file, of which the tenant may have any number: -ETIME. One test ends
 * well within the bound: to set a lock the kernel walks them, too, so n locks take n * n steps. Measured, Linux 6.18:
 * 40,000 locks take 110 s to set and 1 ms to test; 2 million would take 77 hours, and 50 ms.
 */
static int totals_add(int fd, const struct usage_segment *segment, struct usage_segment_totals *totals)
{
        nsec until = clock_cpu() + SCAN_MAX;

        for (size_t i = 0; i < USAGE_SEGMENT_SLOTS; i++) {
                const struct usage_segment_slot *slot = &segment->slots[i];

                if (!slot->process)
                        continue;
                if (clock_cpu() > until)
                        return -ETIME;
                if (!is_locked(fd, i))
                        continue;
                totals->n_processes++;
                for (size_t k = 0; k < USAGE_SEGMENT_KINDS; k++) {
                        bytes held = slot->held[k];

                        totals->held[k] = totals->held[k] + held < held ? UINT64_MAX : totals->held[k] + held;
                }
        }
        for (size_t k = 0; k < USAGE_SEGMENT_KINDS; k++) {
                totals->peak[k] = segment->peak[k];
                totals->n_refused[k] = segment->n_refused[k];
                totals->largest_refused[k] = segment->largest_refused[k];
        }
        totals->sms = segment->sms;
        totals->sms_of = segment->sms_of;
        totals->is_attached = segment->is_attached;
        totals->attach_error = segment->attach_error;
        return 0;
}

int usage_segment_scan(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_totals *ret)
{
        struct usage_segment *segment;
        int r = 0;

        if (!usage_segment_is_file(fd, source))
                return -EPROTO;
        segment = malloc(sizeof(*segment));
        if (!segment)
                return -ENOMEM;
        if (pread(fd, segment, sizeof(*segment), 0) != (ssize_t)sizeof(*segment) ||
            !usage_segment_has_tenancy(segment, tenancy))
                r = -EPROTO;
        if (r == 0) {
                struct usage_segment_totals totals = { 0 };

                r = totals_add(fd, segment, &totals);
                if (r == 0)
                        *ret = totals;
        }
        free(segment);
        return r;
}

int usage_segment_set_attached(int fd, bool is_attached)
{
        uint32_t mark = is_attached;

        return pwrite(fd, &mark, sizeof(mark), offsetof(struct usage_segment, is_attached)) == sizeof(mark) ? 0 : -EIO;
}
