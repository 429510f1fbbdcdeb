#include "preload/lease_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL,
        NOBODY = 65534, /* whose user is not in this user namespace: overflowuid, which nobody changes */
};

static const char magic[8] = "sublet\0P";

/* FNV-1a: against damage, not against an enemy; that is what the seals and the mount are for. */
static uint64_t sum_of(const struct page *page)
{
        const unsigned char *at = (const void *)page;
        uint64_t sum = 0xcbf29ce484222325u;

        for (size_t i = 0; i < offsetof(struct page, sum); i++)
                sum = (sum ^ at[i]) * 0x100000001b3u;
        return sum;
}

int page_seal(struct page *page)
{
        page->tenancy &= INT64_MAX; /* a gate answers with it (attach.h) */
        while (!page->tenancy) {
                if (getrandom(&page->tenancy, sizeof(page->tenancy), 0) < 0)
                        return -errno;
                page->tenancy &= INT64_MAX;
        }
        memcpy(page->magic, magic, sizeof(magic));
        page->version = PAGE_VERSION;
        page->size = sizeof(*page);
        page->sum = sum_of(page);
        return 0;
}

int page_new(struct page *page, int *ret_fd)
{
        int r = page_seal(page), fd;

        if (r < 0)
                return r;
        fd = memfd_create("sublet-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        if (write(fd, page, sizeof(*page)) != (ssize_t)sizeof(*page) || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
                r = errno ? -errno : -EIO;
                (void)close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

/* Offsets come from it: they must be those that this build has for the release. */
static bool is_layout(const struct rm_layout *layout)
{
        struct rm_layout known;

        return rm_layout_for(layout->version, &known) == RM_OK && memcmp(&known, layout, sizeof(known)) == 0;
}

/* Where it was written by somebody else, a bool may hold anything. */
static bool is_bool(const bool *at)
{
        return *(const unsigned char *)at <= 1;
}

static bool are_bools(const struct lease *lease)
{
        for (size_t i = 0; i < LEASE_DEVICES_MAX; i++)
                if (!is_bool(&lease->devices[i].is_granted) || !is_bool(&lease->devices[i].mig.is_one))
                        return false;
        return true;
}

static bool is_plausible(const struct page *page)
{
        const struct lease *lease = &page->lease;

        return memcmp(page->magic, magic, sizeof(magic)) == 0 && page->version == PAGE_VERSION &&
               page->size == sizeof(*page) && page->sum == sum_of(page) && page->tenancy &&
               page->tenancy <= INT64_MAX && page->attach <= PAGE_ATTACH_REQUIRED &&
               page->n_filter <= PAGE_FILTER_MAX && page->sms.permille <= 1000 &&
               memchr(page->door, 0, sizeof(page->door)) && lease->n_devices <= LEASE_DEVICES_MAX &&
               memchr(lease->tenant, 0, sizeof(lease->tenant)) && lease->managed <= LEASE_MANAGED_ALLOW &&
               are_bools(lease) && is_layout(&page->layout);
}

int page_parse(const void *from, size_t size, struct page *ret)
{
        if (size != sizeof(*ret))
                return -EPROTO;
        memmove(ret, from, sizeof(*ret));
        return is_plausible(ret) ? 0 : -EPROTO;
}

bool page_owner_is_good(const struct stat *st)
{
        return st->st_uid == 0 || st->st_uid == NOBODY;
}

/* Neither the tenant nor one who helps it can change it while it is read, or later. */
static bool is_fixed(int fd, enum page_place place, const struct stat *st)
{
        struct statvfs fs;
        int seals;

        if (place == PAGE_DESCRIPTOR) {
                seals = fcntl(fd, F_GET_SEALS);
                return seals >= 0 && (seals & SEALS) == SEALS;
        }
        return S_ISREG(st->st_mode) && page_owner_is_good(st) && fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_RDONLY;
}

int page_read(int fd, enum page_place place, struct page *ret)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size != sizeof(*ret) || !is_fixed(fd, place, &st) ||
            pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) || !is_plausible(ret))
                return -EPROTO;
        return 0;
}

int page_find(struct page *ret, enum page_place *ret_place)
{
        int fd = open(PAGE_MOUNT_DIR "/page", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), r;

        if (fd >= 0) {
                *ret_place = PAGE_MOUNT;
                r = page_read(fd, PAGE_MOUNT, ret);
                (void)close(fd);
                return r;
        }
        if (errno != ENOENT && errno != ENOTDIR)
                return -EPROTO; /* it is there, and cannot be read */
        *ret_place = PAGE_DESCRIPTOR;
        r = page_read(PAGE_FD, PAGE_DESCRIPTOR, ret);
        return r == -EBADF ? -ENOENT : r;
}

int page_open_region(enum page_place place)
{
        int fd = place == PAGE_MOUNT ? open(PAGE_MOUNT_DIR "/region", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) :
                                       fcntl(PAGE_REGION_FD, F_DUPFD_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}
