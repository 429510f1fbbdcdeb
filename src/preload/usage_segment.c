#include "preload/usage_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics of several processes have no lock");

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
        VERSION = 3,
        FD_FIRST = 900, /* above what programs use, below the usual soft limit of 1024 */
        TRIES = 16,     /* against others that add at the same time */
};

static const char magic[8] = "sublet\0R";

int region_write(int fd, uint64_t tenancy)
{
        struct region start = { .version = VERSION, .size = sizeof(start), .tenancy = tenancy };

        memcpy(start.magic, magic, sizeof(magic));
        if (ftruncate(fd, sizeof(start)) < 0 ||
            pwrite(fd, &start, offsetof(struct region, slots), 0) != offsetof(struct region, slots))
                return errno ? -errno : -EIO;
        return 0;
}

int region_new(uint64_t tenancy, int *ret_fd)
{
        int fd = memfd_create("sublet-region", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

        if (fd < 0)
                return -errno;
        r = region_write(fd, tenancy);
        if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                r = -errno;
        if (r < 0) {
                (void)close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

/* ---- slots: R3, R4 ------------------------------------------------------------------------------- */

static int lock_slot(int fd, size_t slot, short type)
{
        struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1 };

        return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool is_empty(const struct region_slot *slot)
{
        for (size_t i = 0; i < REGION_KINDS; i++)
                if (slot->held[i])
                        return false;
        return true;
}

static void empty(struct region_slot *slot)
{
        for (size_t i = 0; i < REGION_KINDS; i++)
                slot->held[i] = 0;
        slot->process = 0;
}

/* A description of our own of the same file: what is inherited over fork is one with the parent's. */
static int open_again(int fd)
{
        char path[64];
        int own, high;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_RDWR | O_CLOEXEC);
        if (own < 0)
                return -errno;
        high = fcntl(own, F_DUPFD_CLOEXEC, FD_FIRST);
        if (high < 0)
                return own; /* a low limit of descriptors: any number does */
        (void)close(own);
        return high;
}

static int take_slot(struct region_seat *seat)
{
        size_t start = (size_t)getpid() % REGION_SLOTS;

        for (size_t i = 0; i < REGION_SLOTS; i++) {
                size_t slot = (start + i) % REGION_SLOTS;
                int r = lock_slot(seat->fd, slot, F_WRLCK);

                if (r == -EAGAIN || r == -EACCES)
                        continue;
                if (r < 0)
                        return r;
                seat->slot = &seat->region->slots[slot];
                empty(seat->slot);
                seat->slot->process = getpid();
                return REGION_OK;
        }
        return REGION_E_SLOTS;
}

void region_settle(struct region_seat *seat)
{
        for (size_t i = 0; i < REGION_SLOTS; i++) {
                struct region_slot *slot = &seat->region->slots[i];

                if (slot == seat->slot || is_empty(slot) || lock_slot(seat->fd, i, F_WRLCK) < 0)
                        continue;
                empty(slot);
                (void)lock_slot(seat->fd, i, F_UNLCK);
        }
}

/* ---- joining --------------------------------------------------------------------------------------- */

bool region_is_file(int fd, enum page_place place)
{
        struct stat st;
        int seals = fcntl(fd, F_GET_SEALS);

        if (fstat(fd, &st) < 0 || st.st_size != sizeof(struct region))
                return false;
        if (place == PAGE_MOUNT)
                return S_ISREG(st.st_mode) && page_owner_is_good(&st);
        return seals >= 0 && (seals & SEALS) == SEALS;
}

bool region_is_of(const struct region *region, uint64_t tenancy)
{
        return memcmp(region->magic, magic, sizeof(magic)) == 0 && region->version == VERSION &&
               region->size == sizeof(*region) && region->tenancy == tenancy;
}

int region_join(int fd, enum page_place place, uint64_t tenancy, struct region_seat *ret)
{
        struct region_seat seat = { .fd = -1 };
        int r;

        if (!region_is_file(fd, place))
                return -EPROTO;
        seat.region = mmap(NULL, sizeof(*seat.region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (seat.region == MAP_FAILED)
                return -errno;
        if (!region_is_of(seat.region, tenancy))
                r = -EPROTO;
        else
                r = seat.fd = open_again(fd);
        if (r >= 0)
                r = take_slot(&seat);
        /* Who attaches marks the region first and looks for slots then: one of us two sees the other. */
        if (r == REGION_OK && seat.region->is_attached)
                r = REGION_E_ATTACHED;
        if (r != REGION_OK) {
                region_leave(&seat);
                return r;
        }
        *ret = seat;
        return REGION_OK;
}

int region_join_again(struct region_seat *seat)
{
        int inherited = seat->fd, r;

        seat->slot = NULL;
        r = seat->fd = open_again(inherited);
        (void)close(inherited);
        return r < 0 ? r : take_slot(seat);
}

void region_leave(struct region_seat *seat)
{
        if (!seat->region)
                return;
        if (seat->slot)
                empty(seat->slot);
        if (seat->fd >= 0)
                (void)close(seat->fd);
        (void)munmap(seat->region, sizeof(*seat->region));
        *seat = (struct region_seat){ .fd = -1 };
}

/* ---- memory: R1, R2 ---------------------------------------------------------------------------------- */

bytes region_held(const struct region *region, unsigned int kind)
{
        bytes sum = 0;

        for (size_t i = 0; i < REGION_SLOTS; i++) {
                bytes held = region->slots[i].held[kind];

                sum = sum + held < sum ? UINT64_MAX : sum + held; /* scribbled on: full */
        }
        return sum;
}

static void raise_to(_Atomic bytes *mark, bytes size)
{
        bytes now = *mark;

        while (now < size && !atomic_compare_exchange_weak(mark, &now, size))
                ;
}

int region_try(struct region_seat *seat, unsigned int kind, bytes size, bytes quota)
{
        if (size > quota)
                return REGION_E_FULL;
        for (int i = 0; i < TRIES; i++) {
                bytes held;

                (void)atomic_fetch_add(&seat->slot->held[kind], size);
                held = region_held(seat->region, kind);
                if (held <= quota) {
                        if (held > seat->region->peak[kind]) { /* dead processes are no peak */
                                region_settle(seat);
                                held = region_held(seat->region, kind);
                        }
                        raise_to(&seat->region->peak[kind], held);
                        return REGION_OK;
                }
                (void)atomic_fetch_sub(&seat->slot->held[kind], size);
                if (i == 0)
                        region_settle(seat);
                if (region_held(seat->region, kind) > quota - size)
                        break;       /* really full */
                (void)sched_yield(); /* somebody else tried at the same time */
        }
        return REGION_E_FULL;
}

int region_take(struct region_seat *seat, unsigned int kind, bytes size, bytes quota)
{
        int r = region_try(seat, kind, size, quota);

        if (r != REGION_E_FULL)
                return r;
        (void)atomic_fetch_add(&seat->region->n_refused[kind], 1);
        raise_to(&seat->region->largest_refused[kind], size);
        return r;
}

void region_drop(struct region_seat *seat, unsigned int kind, bytes size)
{
        bytes held = seat->slot->held[kind];

        while (!atomic_compare_exchange_weak(&seat->slot->held[kind], &held, held > size ? held - size : 0))
                ;
}
