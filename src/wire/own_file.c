/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/own_file.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/own_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void own_file_path(const char *named, char ret[static PATH_MAX])
{
        const char *sim = getenv("SUBLET_SIM");

        if (named)
                (void)snprintf(ret, PATH_MAX, "%s", named);
        else
                (void)snprintf(ret, PATH_MAX, "%s" OWN_FILE, sim ? sim : "");
}

static int check_file(int fd, struct err *err)
{
        struct stat is;

        if (fstat(fd, &is) < 0)
                return err_set(err, -errno, "looking at it");
        if (!S_ISREG(is.st_mode))
                return err_say(err, -EINVAL, "not a file");
        if (is.st_uid != 0 && !(getenv("SUBLET_SIM") && is.st_uid == geteuid()))
                return err_say(err, -EPERM, "it is not root's: chown root, or measure again");
        if (is.st_mode & (S_IWGRP | S_IWOTH))
                return err_say(err, -EPERM, "others may write to it: chmod go-w, or measure again");
        if (is.st_size > OWN_TABLE_MAX)
                return err_say(err, -EINVAL, "larger than such a file is");
        return 0;
}

static int read_table(const char *path, struct own_table *table, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        _cleanup_(freep) char *text = malloc(OWN_TABLE_MAX + 1);
        size_t size = 0;
        ssize_t n = 1;
        int r;

        if (!text)
                return err_set(err, -ENOMEM, "reading it");
        if (fd < 0)
                return err_say(err, -errno, "%s", strerror(errno));
        if ((r = check_file(fd, err)) < 0)
                return r;
        while (n > 0 && size <= OWN_TABLE_MAX) {
                n = read(fd, text + size, OWN_TABLE_MAX + 1 - size);
                size += n > 0 ? (size_t)n : 0;
        }
        return n < 0 ? err_set(err, -errno, "reading it") : own_table_parse(text, size, table, err);
}

static int apply(const struct own_table *table, const char *release, struct lease *lease, struct err *err)
{
        if (strcmp(table->release, release) != 0)
                return err_say(err, -EINVAL, "it is of release %s, the driver is %s: measure again", table->release,
                               release);
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (!own_table_model(table, lease->devices[i].name, lease->devices[i].architecture))
                        return err_say(err, -EINVAL, "it has no table for device %u, %s: measure again", i,
                                       lease->devices[i].name[0] ? lease->devices[i].name : "which has no name");
        for (unsigned int i = 0; i < lease->n_devices; i++)
                lease->devices[i].own =
                        own_table_model(table, lease->devices[i].name, lease->devices[i].architecture)->own;
        return 0;
}

int own_file_apply(const char *named, const char *release, struct lease *lease, struct err *err)
{
        struct own_table table;
        char path[PATH_MAX];
        int r;

        own_file_path(named, path);
        r = read_table(path, &table, err);
        if (r == -ENOENT && !named)
                return OWN_FILE_E_NONE;
        if (r == 0)
                r = apply(&table, release, lease, err);
        if (r == 0)
                return OWN_FILE_OK;
        for (unsigned int i = 0; i < lease->n_devices; i++)
                lease->devices[i].own = (struct lease_own){ 0 };
        return err_while(err, "%s", path);
}
