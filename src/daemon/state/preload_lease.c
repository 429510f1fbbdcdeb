/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/preload_lease.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"
#include "preload/usage_segment.h"
#include "wire/lease_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PATH_SIZE (sizeof(((struct tenant *)NULL)->lease.directory) + 16)

static const char *file_path(const struct tenant *tenant, const char *name, char buffer[static PATH_SIZE])
{
        (void)snprintf(buffer, PATH_SIZE, "%s/%s", tenant->lease.directory, name);
        return buffer;
}

int preload_lease_link_socket(const struct daemon *daemon, const struct tenant *tenant)
{
        char from[sizeof(daemon->settings.dir) + 16], to[PATH_SIZE];

        (void)snprintf(from, sizeof(from), "%s/attach.sock", daemon->settings.dir);
        if (unlink(file_path(tenant, "attach.sock", to)) < 0 && errno != ENOENT)
                return -errno;
        return link(from, to) < 0 ? -errno : 0;
}

static int fill_filter(struct lease_descriptor *ret)
{
        struct sock_fprog filter = { 0 };
        int r = filter_build(&filter);

        if (r == 0 && filter.len > LEASE_DESCRIPTOR_FILTER_MAX)
                r = -E2BIG;
        if (r == 0) {
                memcpy(ret->filter, filter.filter, filter.len * sizeof(*filter.filter));
                ret->n_filter = filter.len;
        }
        free(filter.filter);
        return r;
}

/* What the library needs to hand its process over to a gate (preload/attach.h). */
static int fill_attach(const struct daemon *daemon, const struct tenant *tenant, const char *attach,
                       struct lease_descriptor *ret, struct err *err)
{
        const char *dir = tenant->lease.directory[0] ? LEASE_DESCRIPTOR_MOUNT_DIR : daemon->settings.dir;
        int r;

        ret->attach = !strcmp(attach, "required") ? LEASE_DESCRIPTOR_ATTACH_REQUIRED :
                      !strcmp(attach, "never")    ? LEASE_DESCRIPTOR_ATTACH_NEVER :
                                                    LEASE_DESCRIPTOR_ATTACH_AUTO;
        if (ret->attach == LEASE_DESCRIPTOR_ATTACH_NEVER)
                return 0;
        if (snprintf(ret->listening_socket, sizeof(ret->listening_socket), "%s/attach.sock", dir) >=
            (int)sizeof(ret->listening_socket))
                return err_say(err, -ENAMETOOLONG, "%s: too long for the directory of a socket", dir);
        r = fill_filter(ret);
        return r < 0 ? err_set(err, r, "writing the filter") : 0;
}

static int fill_lease(const struct daemon *daemon, struct tenant *tenant, struct lease_descriptor *ret)
{
        _cleanup_(freep) struct lease *lease = malloc(sizeof(*lease));
        int r;

        if (!lease)
                return -ENOMEM;
        memcpy(lease, &daemon->machine, sizeof(*lease));
        r = message_lease_apply(&tenant->lease, lease);
        if (r < 0)
                return r;
        lease_directory_describe(&daemon->backend, lease, ret);
        ret->tenancy = tenant->lease.id;
        r = sms_parse(tenant->lease.sms, &ret->sms);
        if (r < 0)
                return r;
        if (getrandom(ret->token, sizeof(ret->token), 0) != sizeof(ret->token))
                return -EIO;
        memcpy(tenant->token, ret->token, sizeof(ret->token));
        return 0;
}

static int make_directory(const struct daemon *daemon, struct tenant *tenant, struct lease_descriptor *descriptor,
                          struct err *err)
{
        char path[PATH_SIZE];
        int r = lease_directory_make(tenant->lease.directory, descriptor, err);

        if (r < 0)
                return r;
        tenant->segment = open(file_path(tenant, "region", path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (tenant->segment < 0)
                return err_set(err, -errno, "opening %s", path);
        r = descriptor->attach == LEASE_DESCRIPTOR_ATTACH_NEVER ? 0 : preload_lease_link_socket(daemon, tenant);
        if (r == 0 || descriptor->attach != LEASE_DESCRIPTOR_ATTACH_REQUIRED)
                return 0;
        (void)lease_directory_remove(tenant->lease.directory, NULL);
        return err_set(err, r, "putting attach.sock into %s (it must be on the file system of %s)",
                       tenant->lease.directory, daemon->settings.dir);
}

int preload_lease_make(const struct daemon *daemon, struct tenant *tenant, const char *attach, int *ret_fd,
                       struct err *err)
{
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor)); /* large */
        int r = descriptor ? fill_lease(daemon, tenant, descriptor) : -ENOMEM;

        if (r < 0)
                return err_set(err, r, "leasing");
        r = fill_attach(daemon, tenant, attach, descriptor, err);
        if (r < 0)
                return r;
        if (tenant->lease.directory[0])
                return make_directory(daemon, tenant, descriptor, err);
        if ((r = lease_descriptor_new(descriptor, ret_fd)) < 0 ||
            (r = usage_segment_new(descriptor->tenancy, &tenant->segment)) < 0)
                return err_set(err, r, "writing the lease for libsublet.so");
        return 0;
}

/* Whoever has a file's owner as its user may make others' opens of it wait (F_SETLEASE), three quarters of a minute by
 * default: root of a container has. */
static int open_now(const struct tenant *tenant, const char *name, int flags)
{
        char path[PATH_SIZE];
        int fd = open(file_path(tenant, name, path), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

int preload_lease_open(const struct tenant *tenant, struct lease_descriptor *ret, int *ret_segment)
{
        _cleanup_(closep) int fd = open_now(tenant, "page", O_RDONLY);

        *ret_segment = fd == -EWOULDBLOCK ? -1 : open_now(tenant, "region", O_RDWR);
        if (fd == -EWOULDBLOCK || *ret_segment == -EWOULDBLOCK)
                return -EAGAIN;
        if (fd < 0 || *ret_segment < 0 || pread(fd, ret, sizeof(*ret), 0) != sizeof(*ret))
                return -ENOENT;
        return lease_descriptor_parse(ret, sizeof(*ret), ret);
}
