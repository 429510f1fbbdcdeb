/*
 * The region as an outsider reads it: by read(2), since the tenant may cut the file short at any moment, and who had it
 * mapped would be ended by that.
 */
#include "preload/usage_segment.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Of our own time; a whole look takes less than one. */
#define LOOK_FOR (50 * NSEC_PER_MSEC)

/* Asked for, not taken: a process that looks for a slot at this moment is not sent on. */
static bool is_locked(int fd, size_t slot)
{
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1 };

        return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The kernel asks every lock that the tenant has on the file, and there may be any number of them: -ETIME. */
static int add(int fd, const struct region *region, struct region_books *books)
{
        nsec until = clock_cpu() + LOOK_FOR;

        for (size_t i = 0; i < REGION_SLOTS; i++) {
                const struct region_slot *slot = &region->slots[i];

                if (!slot->process)
                        continue;
                if (clock_cpu() > until)
                        return -ETIME;
                if (!is_locked(fd, i))
                        continue;
                books->n_processes++;
                for (size_t k = 0; k < REGION_KINDS; k++) {
                        bytes held = slot->held[k];

                        books->held[k] = books->held[k] + held < held ? UINT64_MAX : books->held[k] + held;
                }
        }
        for (size_t k = 0; k < REGION_KINDS; k++) {
                books->peak[k] = region->peak[k];
                books->n_refused[k] = region->n_refused[k];
                books->largest_refused[k] = region->largest_refused[k];
        }
        books->sms = region->sms;
        books->sms_of = region->sms_of;
        books->is_attached = region->is_attached;
        books->attach_error = region->attach_error;
        return 0;
}

int region_look(int fd, enum page_place place, uint64_t tenancy, struct region_books *ret)
{
        struct region *region;
        int r = 0;

        if (!region_is_file(fd, place))
                return -EPROTO;
        region = malloc(sizeof(*region));
        if (!region)
                return -ENOMEM;
        if (pread(fd, region, sizeof(*region), 0) != (ssize_t)sizeof(*region) || !region_is_of(region, tenancy))
                r = -EPROTO;
        if (r == 0) {
                struct region_books books = { 0 };

                r = add(fd, region, &books);
                if (r == 0)
                        *ret = books;
        }
        free(region);
        return r;
}

int region_mark(int fd, bool is_attached)
{
        uint32_t mark = is_attached;

        return pwrite(fd, &mark, sizeof(mark), offsetof(struct region, is_attached)) == sizeof(mark) ? 0 : -EIO;
}
