/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the write-ahead log into the file, which waits for the disk: on a thread and a connection of its own, so that
 * the loop never does (S2). */
#include "daemon/store/inside.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

enum {
        PERIOD_MSEC = 30 * 1000,
};

struct store_log {
        sqlite3 *db;
        pthread_t thread;
        int wake;
};

static void *copy_log(void *context)
{
        struct store_log *log = context;
        struct pollfd wake = { log->wake, POLLIN, 0 };

        while (poll(&wake, 1, PERIOD_MSEC) == 0 || !wake.revents)
                (void)sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        (void)sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return NULL;
}

int store_log_start(const char *path, struct store_log **ret)
{
        struct store_log *log = calloc(1, sizeof(*log));
        int r = -EIO;

        if (!log)
                return -ENOMEM;
        log->wake = eventfd(0, EFD_CLOEXEC);
        if (log->wake >= 0 &&
            sqlite3_open_v2(path, &log->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
                r = thread_start(&log->thread, copy_log, log);
        if (r < 0) {
                (void)sqlite3_close(log->db);
                closep(&log->wake);
                free(log);
                return r;
        }
        *ret = log;
        return 0;
}

struct store_log *store_log_stop(struct store_log *log)
{
        if (!log)
                return NULL;
        (void)eventfd_write(log->wake, 1);
        (void)pthread_join(log->thread, NULL);
        (void)sqlite3_close(log->db);
        closep(&log->wake);
        free(log);
        return NULL;
}
