/*
 * Carries the write-ahead log over into the file, which is what waits for the disk: on a thread and a
 * connection of its own, so that the loop never does (S2).
 */
#include "daemon/store/inside.h"

#include "base/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

enum {
        PERIOD_MSEC = 30 * 1000,
};

struct store_log {
        sqlite3 *db;
        pthread_t thread;
        int wake;
};

static void *carry(void *context)
{
        struct store_log *log = context;
        struct pollfd wake = { log->wake, POLLIN, 0 };

        while (poll(&wake, 1, PERIOD_MSEC) == 0 || !wake.revents)
                (void)sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        (void)sqlite3_wal_checkpoint_v2(log->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return NULL;
}

/* Signals are the loop's. */
static int start(struct store_log *log)
{
        sigset_t all, old;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(&log->thread, NULL, carry, log);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return -r;
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
                r = start(log);
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
