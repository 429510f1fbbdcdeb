/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/lease_descriptor.h"

#include "lease/capabilities.h"

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
        NOBODY = 65534, /* a user outside this user namespace: the default of /proc/sys/fs/overflowuid */
};

static const char magic[8] = "sublet\0P";

/* FNV-1a: against damage. Against an enemy there are the seals, and the read-only mount. */
static uint64_t sum_of(const struct lease_descriptor *descriptor)
{
        const unsigned char *at = (const void *)descriptor;
        uint64_t sum = 0xcbf29ce484222325u;

        for (size_t i = 0; i < offsetof(struct lease_descriptor, sum); i++)
                sum = (sum ^ at[i]) * 0x100000001b3u;
        return sum;
}

int lease_descriptor_seal(struct lease_descriptor *descriptor)
{
        descriptor->tenancy &= INT64_MAX; /* the answer to GATE_PROBE is a positive number (attach.h) */
        while (!descriptor->tenancy) {
                if (getrandom(&descriptor->tenancy, sizeof(descriptor->tenancy), 0) < 0)
                        return -errno;
                descriptor->tenancy &= INT64_MAX;
        }
        memcpy(descriptor->magic, magic, sizeof(magic));
        descriptor->version = LEASE_DESCRIPTOR_VERSION;
        descriptor->size = sizeof(*descriptor);
        descriptor->sum = sum_of(descriptor);
        return 0;
}

int lease_descriptor_new(struct lease_descriptor *descriptor, int *ret_fd)
{
        int r = lease_descriptor_seal(descriptor), fd;

        if (r < 0)
                return r;
        fd = memfd_create("sublet-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        if (write(fd, descriptor, sizeof(*descriptor)) != (ssize_t)sizeof(*descriptor) ||
            fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
                r = errno ? -errno : -EIO;
                (void)close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

/* Its offsets are used: they must be those that this build has for the release. */
static bool is_layout(const struct rm_layout *layout)
{
        struct rm_layout known;

        return rm_layout_for(layout->version, &known) == RM_OK && memcmp(&known, layout, sizeof(known)) == 0;
}

/* A bool that another program wrote may hold any byte. */
static bool is_bool(const bool *at)
{
        return *(const unsigned char *)at <= 1;
}

static bool is_lease(const struct lease *lease)
{
        for (size_t i = 0; i < LEASE_DEVICES_MAX; i++)
                if (!is_bool(&lease->devices[i].is_granted) || !is_bool(&lease->devices[i].mig.is_one))
                        return false;
        return lease->n_devices <= LEASE_DEVICES_MAX && memchr(lease->tenant, 0, sizeof(lease->tenant)) &&
               lease->managed <= LEASE_MANAGED_ALLOW && lease->capabilities <= CAPABILITIES_KNOWN;
}

static bool is_whole(const struct lease_descriptor *descriptor)
{
        return memcmp(descriptor->magic, magic, sizeof(magic)) == 0 &&
               descriptor->version == LEASE_DESCRIPTOR_VERSION && descriptor->size == sizeof(*descriptor) &&
               descriptor->sum == sum_of(descriptor);
}

static bool has_plausible_numbers(const struct lease_descriptor *descriptor)
{
        return descriptor->tenancy && descriptor->tenancy <= INT64_MAX &&
               descriptor->attach <= LEASE_DESCRIPTOR_ATTACH_REQUIRED &&
               descriptor->n_filter <= LEASE_DESCRIPTOR_FILTER_MAX && descriptor->sms.permille <= 1000 &&
               memchr(descriptor->listening_socket, 0, sizeof(descriptor->listening_socket));
}

static bool is_plausible(const struct lease_descriptor *descriptor)
{
        return is_whole(descriptor) && has_plausible_numbers(descriptor) && is_lease(&descriptor->lease) &&
               is_layout(&descriptor->layout);
}

int lease_descriptor_parse(const void *from, size_t size, struct lease_descriptor *ret)
{
        if (size != sizeof(*ret))
                return -EPROTO;
        memmove(ret, from, sizeof(*ret));
        return is_plausible(ret) ? 0 : -EPROTO;
}

bool lease_descriptor_owner_is_good(const struct stat *st)
{
        return st->st_uid == 0 || st->st_uid == NOBODY;
}

/* Neither the tenant nor an accomplice can change the file while it is read, or later. */
static bool is_fixed(int fd, enum lease_descriptor_source source, const struct stat *st)
{
        struct statvfs fs;
        int seals;

        if (source == LEASE_DESCRIPTOR_INHERITED) {
                seals = fcntl(fd, F_GET_SEALS);
                return seals >= 0 && (seals & SEALS) == SEALS;
        }
        return S_ISREG(st->st_mode) && lease_descriptor_owner_is_good(st) && fstatvfs(fd, &fs) == 0 &&
               fs.f_flag & ST_RDONLY;
}

int lease_descriptor_read(int fd, enum lease_descriptor_source source, struct lease_descriptor *ret)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size != sizeof(*ret) || !is_fixed(fd, source, &st) ||
            pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) || !is_plausible(ret))
                return -EPROTO;
        return 0;
}

int lease_descriptor_find(struct lease_descriptor *ret, enum lease_descriptor_source *ret_source)
{
        int fd = open(LEASE_DESCRIPTOR_MOUNT_DIR "/page", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), r;

        if (fd >= 0) {
                *ret_source = LEASE_DESCRIPTOR_MOUNTED;
                r = lease_descriptor_read(fd, LEASE_DESCRIPTOR_MOUNTED, ret);
                (void)close(fd);
                return r;
        }
        if (errno != ENOENT && errno != ENOTDIR)
                return -EPROTO; /* it is there but cannot be read */
        *ret_source = LEASE_DESCRIPTOR_INHERITED;
        r = lease_descriptor_read(LEASE_DESCRIPTOR_FD, LEASE_DESCRIPTOR_INHERITED, ret);
        return r == -EBADF ? -ENOENT : r;
}

int lease_descriptor_open_segment(enum lease_descriptor_source source)
{
        int fd = source == LEASE_DESCRIPTOR_MOUNTED ?
                         open(LEASE_DESCRIPTOR_MOUNT_DIR "/region", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) :
                         fcntl(LEASE_DESCRIPTOR_SEGMENT_FD, F_DUPFD_CLOEXEC, 0);

        return fd < 0 ? -errno : fd;
}
