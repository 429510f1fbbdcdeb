#include "hook/page.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL,
};

static const char magic[8] = "sublet\0P";

/* FNV-1a: against damage, not against an enemy; that is what the seals are for. */
static uint64_t sum_of(const struct page *page)
{
        const unsigned char *at = (const void *)page;
        uint64_t sum = 0xcbf29ce484222325u;

        for (size_t i = 0; i < offsetof(struct page, sum); i++)
                sum = (sum ^ at[i]) * 0x100000001b3u;
        return sum;
}

int page_new(struct page *page, int *ret_fd)
{
        int fd = memfd_create("sublet-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return -errno;
        memcpy(page->magic, magic, sizeof(magic));
        page->version = PAGE_VERSION;
        page->size = sizeof(*page);
        page->sum = sum_of(page);
        if (write(fd, page, sizeof(*page)) != (ssize_t)sizeof(*page) || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
                int r = errno ? -errno : -EIO;

                (void)close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

static bool is_plausible(const struct page *page)
{
        const struct lease *lease = &page->lease;

        return memcmp(page->magic, magic, sizeof(magic)) == 0 && page->version == PAGE_VERSION &&
               page->size == sizeof(*page) && page->sum == sum_of(page) && lease->n_devices <= LEASE_DEVICES_MAX &&
               memchr(lease->tenant, 0, sizeof(lease->tenant)) && lease->managed <= LEASE_MANAGED_ALLOW;
}

int page_read(int fd, struct page *ret)
{
        struct stat st;
        int seals;

        if (fstat(fd, &st) < 0)
                return -errno;
        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & SEALS) != SEALS || st.st_size != sizeof(*ret))
                return -EPROTO;
        if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) || !is_plausible(ret))
                return -EPROTO;
        return 0;
}
