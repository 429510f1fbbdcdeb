/* SPDX-License-Identifier: Apache-2.0 */
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

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share the atomics, so they must be lock-free");

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
        VERSION = 3,
        TRIES = 16, /* R2 */
};

static const char magic[8] = "sublet\0R";

int usage_segment_write(int fd, uint64_t tenancy)
{
        struct usage_segment start = { .version = VERSION, .size = sizeof(start), .tenancy = tenancy };

        memcpy(start.magic, magic, sizeof(magic));
        if (ftruncate(fd, sizeof(start)) < 0 ||
            pwrite(fd, &start, offsetof(struct usage_segment, slots), 0) != offsetof(struct usage_segment, slots))
                return errno ? -errno : -EIO;
        return 0;
}

int usage_segment_new(uint64_t tenancy, int *ret_fd)
{
        int fd = memfd_create("sublet-region", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

        if (fd < 0)
                return -errno;
        r = usage_segment_write(fd, tenancy);
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

static bool slot_is_empty(const struct usage_segment_slot *slot)
{
        for (size_t i = 0; i < USAGE_SEGMENT_KINDS; i++)
                if (slot->held[i])
                        return false;
        return true;
}

static void slot_clear(struct usage_segment_slot *slot)
{
        for (size_t i = 0; i < USAGE_SEGMENT_KINDS; i++)
                slot->held[i] = 0;
        slot->process = 0;
}

/* Opens a new file description of the same file: an inherited one is shared with the parent, and so are its locks. */
static int open_again(int fd)
{
        char path[64];
        int own, high;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_RDWR | O_CLOEXEC);
        if (own < 0)
                return -errno;
        high = fcntl(own, F_DUPFD_CLOEXEC, LEASE_DESCRIPTOR_FD_FIRST);
        if (high < 0)
                return own; /* a low limit of descriptors: any number will do */
        (void)close(own);
        return high;
}

static int take_slot(struct usage_segment_handle *handle)
{
        size_t start = (size_t)getpid() % USAGE_SEGMENT_SLOTS;

        for (size_t i = 0; i < USAGE_SEGMENT_SLOTS; i++) {
                size_t slot = (start + i) % USAGE_SEGMENT_SLOTS;
                int r = lock_slot(handle->fd, slot, F_WRLCK);

                if (r == -EAGAIN || r == -EACCES)
                        continue;
                if (r < 0)
                        return r;
                handle->slot = &handle->segment->slots[slot];
                slot_clear(handle->slot);
                handle->slot->process = getpid();
                return USAGE_SEGMENT_OK;
        }
        return USAGE_SEGMENT_E_SLOTS;
}

void usage_segment_reclaim(struct usage_segment_handle *handle)
{
        for (size_t i = 0; i < USAGE_SEGMENT_SLOTS; i++) {
                struct usage_segment_slot *slot = &handle->segment->slots[i];

                if (slot == handle->slot || slot_is_empty(slot) || lock_slot(handle->fd, i, F_WRLCK) < 0)
                        continue;
                slot_clear(slot);
                (void)lock_slot(handle->fd, i, F_UNLCK);
        }
}

/* ---- joining --------------------------------------------------------------------------------------- */

bool usage_segment_is_file(int fd, enum lease_descriptor_source source)
{
        struct stat st;
        int seals = fcntl(fd, F_GET_SEALS);

        if (fstat(fd, &st) < 0 || st.st_size != sizeof(struct usage_segment))
                return false;
        if (source == LEASE_DESCRIPTOR_MOUNTED)
                return S_ISREG(st.st_mode) && lease_descriptor_owner_is_good(&st);
        return seals >= 0 && (seals & SEALS) == SEALS;
}

bool usage_segment_has_tenancy(const struct usage_segment *segment, uint64_t tenancy)
{
        return memcmp(segment->magic, magic, sizeof(magic)) == 0 && segment->version == VERSION &&
               segment->size == sizeof(*segment) && segment->tenancy == tenancy;
}

int usage_segment_join(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_handle *ret)
{
        struct usage_segment_handle handle = { .fd = -1 };
        int r;

        if (!usage_segment_is_file(fd, source))
                return -EPROTO;
        handle.segment = mmap(NULL, sizeof(*handle.segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (handle.segment == MAP_FAILED)
                return -errno;
        if (!usage_segment_has_tenancy(handle.segment, tenancy))
                r = -EPROTO;
        else
                r = handle.fd = open_again(fd);
        if (r >= 0)
                r = take_slot(&handle);
        /* The daemon sets the mark first and counts slots then: one of the two sees the other. */
        if (r == USAGE_SEGMENT_OK && handle.segment->is_attached)
                r = USAGE_SEGMENT_E_ATTACHED;
        if (r != USAGE_SEGMENT_OK) {
                usage_segment_leave(&handle);
                return r;
        }
        *ret = handle;
        return USAGE_SEGMENT_OK;
}

void usage_segment_leave(struct usage_segment_handle *handle)
{
        if (!handle->segment)
                return;
        if (handle->slot)
                slot_clear(handle->slot);
        if (handle->fd >= 0)
                (void)close(handle->fd);
        (void)munmap(handle->segment, sizeof(*handle->segment));
        *handle = (struct usage_segment_handle){ .fd = -1 };
}

/* ---- memory: R1, R2 ---------------------------------------------------------------------------------- */

bytes usage_segment_held(const struct usage_segment *segment, unsigned int kind)
{
        bytes sum = 0;

        for (size_t i = 0; i < USAGE_SEGMENT_SLOTS; i++) {
                bytes held = segment->slots[i].held[kind];

                sum = sum + held < sum ? UINT64_MAX : sum + held; /* damaged: full */
        }
        return sum;
}

static void raise_to(_Atomic bytes *mark, bytes size)
{
        bytes now = *mark;

        while (now < size && !atomic_compare_exchange_weak(mark, &now, size))
                ;
}

int usage_segment_try(struct usage_segment_handle *handle, unsigned int kind, bytes size, bytes quota)
{
        if (size > quota)
                return USAGE_SEGMENT_E_FULL;
        for (int i = 0; i < TRIES; i++) {
                bytes held;

                (void)atomic_fetch_add(&handle->slot->held[kind], size);
                held = usage_segment_held(handle->segment, kind);
                if (held <= quota) {
                        if (held > handle->segment->peak[kind]) { /* what dead processes held is no peak */
                                usage_segment_reclaim(handle);
                                held = usage_segment_held(handle->segment, kind);
                        }
                        raise_to(&handle->segment->peak[kind], held);
                        return USAGE_SEGMENT_OK;
                }
                (void)atomic_fetch_sub(&handle->slot->held[kind], size);
                if (i == 0)
                        usage_segment_reclaim(handle);
                if (usage_segment_held(handle->segment, kind) > quota - size)
                        break;
                (void)sched_yield(); /* not full: another process tried at the same time */
        }
        return USAGE_SEGMENT_E_FULL;
}

int usage_segment_take(struct usage_segment_handle *handle, unsigned int kind, bytes size, bytes quota)
{
        int r = usage_segment_try(handle, kind, size, quota);

        if (r != USAGE_SEGMENT_E_FULL)
                return r;
        (void)atomic_fetch_add(&handle->segment->n_refused[kind], 1);
        raise_to(&handle->segment->largest_refused[kind], size);
        return r;
}

void usage_segment_drop(struct usage_segment_handle *handle, unsigned int kind, bytes size)
{
        bytes held = handle->slot->held[kind];

        while (!atomic_compare_exchange_weak(&handle->slot->held[kind], &held, held > size ? held - size : 0))
                ;
}
