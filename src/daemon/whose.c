/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/whose.h"

#include "base/clock.h"
#include "base/errand.h"
#include "base/process.h"
#include "daemon/state/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define PATIENCE (20 * NSEC_PER_MSEC) /* with a process that is looked at */

enum {
        DEPTH_MAX = 256,
};

static bool is_one_of(const struct stat *files, size_t n, dev_t device, unsigned long long inode)
{
        for (size_t i = 0; i < n; i++)
                if (files[i].st_ino == inode && files[i].st_dev == device)
                        return true;
        return false;
}

/* One of these files. Lines of maps: "from-to perms offset MAJOR:MINOR INODE path". */
static bool has_mapped(pid_t process, const struct stat *files, size_t n)
{
        char path[64], line[512];
        unsigned long long inode;
        bool is_there = false;
        FILE *list;

        (void)snprintf(path, sizeof(path), "/proc/%d/maps", process);
        list = fopen(path, "re");
        while (list && !is_there && process_line(list, line, sizeof(line))) {
                unsigned int high, low;

                is_there = sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &inode) == 3 &&
                           is_one_of(files, n, makedev(high, low), inode);
        }
        if (list)
                (void)fclose(list);
        return is_there;
}

static bool descends(pid_t process, pid_t from)
{
        for (int i = 0; i < DEPTH_MAX && process > 1; i++, process = process_parent(process))
                if (process == from)
                        return true;
        return false;
}

static bool ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), n_end = strlen(end);

        return n >= n_end && !strcmp(text + n - n_end, end);
}

/* By the kernel's own list, "id parent MAJOR:MINOR ROOT POINT ...". A path in the process's tree could lead through a
 * file system of its own, which could block us for ever. */
static bool has_mounted(pid_t process, const char *directory)
{
        char path[64], line[2048], device[32], root[512], point[512];
        bool is_there = false;
        struct stat ours;
        FILE *list;

        (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", process);
        list = stat(directory, &ours) < 0 ? NULL : fopen(path, "re");
        while (list && !is_there && process_line(list, line, sizeof(line))) {
                unsigned int high, low;

                is_there = sscanf(line, "%*s %*s %31s %511s %511s", device, root, point) == 3 &&
                           !strcmp(point, LEASE_DESCRIPTOR_MOUNT_DIR) && sscanf(device, "%u:%u", &high, &low) == 2 &&
                           makedev(high, low) == ours.st_dev && ends_with(directory, root);
        }
        if (list)
                (void)fclose(list);
        return is_there;
}

/* What a look at a process says. It waits while the process is in the midst of an exec (its maps, stat), and that takes
 * as long as whoever serves a file likes that the exec closes. So it may be left behind, and has all that it needs. */
struct look {
        pid_t process;
        size_t n; /* tenants without a shim */
        struct looked_for {
                uint64_t tenancy;
                pid_t run;
                char directory[sizeof(((struct message_lease *)NULL)->directory)];
        } * tenants;
        struct stat *segments; /* theirs */

        bool counts_itself;
        uint64_t whose; /* 0: nobody's */
};

static bool is_of(const struct looked_for *tenant, pid_t process)
{
        return tenant->directory[0] ? has_mounted(process, tenant->directory) :
                                      tenant->run && descends(process, tenant->run);
}

static void look_at(void *context)
{
        struct look *look = context;

        look->counts_itself = has_mapped(look->process, look->segments, look->n);
        for (size_t i = 0; i < look->n && !look->counts_itself; i++)
                if (is_of(&look->tenants[i], look->process))
                        look->whose = look->tenants[i].tenancy;
}

static void look_for(struct look *look, const struct tenant *tenant)
{
        struct looked_for *row = &look->tenants[look->n];

        if (tenant->lease.enforcement != ENFORCEMENT_PRELOAD || tenant->segment < 0 ||
            fstat(tenant->segment, &look->segments[look->n]) < 0)
                return;
        *row = (struct looked_for){ .tenancy = tenant->lease.id, .run = tenant->run };
        (void)snprintf(row->directory, sizeof(row->directory), "%s", tenant->lease.directory);
        look->n++;
}

/* In one piece, which errand_run frees. */
static struct look *look_new(const struct daemon *daemon, pid_t process)
{
        size_t n = daemon->tenants.n;
        struct look *look = calloc(1, sizeof(*look) + n * (sizeof(*look->segments) + sizeof(*look->tenants)));

        if (!look)
                return NULL;
        look->process = process;
        look->segments = (struct stat *)(look + 1);
        look->tenants = (struct looked_for *)(look->segments + n);
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                look_for(look, t);
        return look;
}

enum whose whose_is(const struct daemon *daemon, pid_t process, const struct tenant **ret_tenant)
{
        struct look *look = look_new(daemon, process);
        enum whose whose;

        *ret_tenant = NULL;
        if (!look || (look->n && errand_run(look_at, look, PATIENCE) != ERRAND_DONE))
                return NOT_LOOKED_AT;
        whose = look->counts_itself ? COUNTS_ITSELF : UNCOUNTED;
        if (look->whose)
                *ret_tenant = tenants_find_id(&daemon->tenants, look->whose);
        free(look);
        return whose;
}
