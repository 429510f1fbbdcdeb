/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of --record. A recording may be of hours: so that it can be written is tried before the command begins, and
 * that it was written is read from the file itself, whoever wrote it: the gate of this process, or a shim.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "record/record.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        TRIED = 4096, /* bytes: a disk that is full has none of them */
};

/* 0; -errno. Leaves the file empty. */
static int try_writing(int fd)
{
        static const char zeros[TRIED];
        ssize_t n = pwrite(fd, zeros, sizeof(zeros), 0);

        if (n < 0)
                return -errno;
        if (ftruncate(fd, 0) < 0)
                return -errno;
        return n == TRIED ? 0 : -ENOSPC;
}

int run_record_open(struct run *run, struct err *err)
{
        _cleanup_(closep) int fd = -1;
        struct stat about;
        int r;

        if (!run->record_path)
                return 0;
        /* not blocking: a pipe that nobody reads */
        fd = open(run->record_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
        if (fd < 0 || fstat(fd, &about) < 0)
                return err_say(err, -EROFS, "--record %s: %s", run->record_path, strerror(errno));
        if (!S_ISREG(about.st_mode))
                return err_say(err, -EROFS, "--record %s: not a plain file; name one", run->record_path);
        if ((r = try_writing(fd)) < 0)
                return err_say(err, -EROFS, "--record %s: %s", run->record_path, strerror(-r));
        run->record = TAKE_FD(fd);
        return 0;
}

int run_record_start(struct run *run, struct err *err)
{
        int fd, r;

        if (!run->record_path)
                return 0;
        fd = fcntl(run->record, F_DUPFD_CLOEXEC, 0);
        r = fd < 0 ? -errno : record_writer_new(fd, run->backend.layout.version, run->lease.capabilities, &run->writer);
        return r < 0 ? err_set(err, r, "beginning the record") : 0;
}

bool run_record_is_whole(const struct run *run)
{
        static const char last[] = { 'e', 'n', 'd', '\n' };
        char found[sizeof(last)];
        struct stat about;

        if (!run->record_path)
                return true;
        if (fstat(run->record, &about) == 0 && about.st_size >= (off_t)sizeof(last) &&
            pread(run->record, found, sizeof(found), about.st_size - (off_t)sizeof(last)) == sizeof(found) &&
            memcmp(found, last, sizeof(last)) == 0)
                return true;
        (void)fprintf(stderr, "sublet: --record %s: the record is not whole; is the disk full?\n", run->record_path);
        return false;
}
