/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the daemon's sockets; see directory.h. */
#include "wire/directory.h"

#include "base/err.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int directory_check(const char *dir, struct err *err)
{
        struct stat is;

        if (stat(dir, &is) < 0)
                return err_set(err, -errno, "looking for %s", dir);
        if (!S_ISDIR(is.st_mode))
                return err_say(err, -ENOTDIR, "%s is no directory: choose another --dir", dir);
        if (is.st_uid != 0 && is.st_uid != geteuid())
                return err_say(err, -EPERM, "%s belongs to user %u: choose a --dir of your own", dir, is.st_uid);
        if (is.st_mode & S_IWOTH || (is.st_mode & S_IWGRP && is.st_gid != getegid()))
                return err_say(err, -EPERM, "others may write to %s: 'chmod go-w %s', or choose another --dir", dir,
                               dir);
        return 0;
}
