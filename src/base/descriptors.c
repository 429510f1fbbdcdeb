/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/process.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum {
        KEPT_BACK = 512,
        KEPT_PART = 4, /* at most one in so many */

        THREADS_EACH = 384, /* LATE, and what one message brings, and as much again for what else is under way */
        THREADS_ALL = 1024,
        LATE = 64,
        MANY = THREADS_ALL - 2 * 253, /* room for what one more brings, and for our own */
};

void descriptors_raise(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* The kernel gives out the lowest number that is free. */
bool descriptors_are_few(int fd)
{
        struct rlimit limit;
        rlim_t kept;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return true;
        kept = limit.rlim_cur / KEPT_PART < KEPT_BACK ? limit.rlim_cur / KEPT_PART : KEPT_BACK;
        return (rlim_t)fd >= limit.rlim_cur - kept;
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

#define OUT_BY (100 * NSEC_PER_MSEC)
#define SETTLED_BY (20 * NSEC_PER_MSEC)

struct parcel {
        struct parcel *next;
        int fd;
};

/* There as long as something of it is. */
struct sender {
        struct sender *next;
        uint64_t id;
        struct parcel *first, **last; /* no thread has taken these yet */
        unsigned int n;               /* these, and those that threads close */
        unsigned int n_threads;
        nsec since[THREADS_EACH]; /* when each thread began with what it closes; 0: no thread */
        int fds[THREADS_EACH];    /* what that is; close(2) takes it out of the table before it waits */
};

/* One table of descriptors a process, and so one of these. */
static struct {
        struct lock lock;
        struct sender *senders;
        unsigned int n_threads;
        unsigned int n_starting; /* of these, those that have not looked yet: they will take what there is */
} closing = { .lock = LOCK_INIT(LOCK_CLOSING) };

static struct sender *sender_find(uint64_t id)
{
        for (struct sender *s = closing.senders; s; s = s->next)
                if (s->id == id)
                        return s;
        return NULL;
}

static struct sender *sender_add(uint64_t id)
{
        struct sender *sender = calloc(1, sizeof(*sender));

        if (!sender)
                return NULL;
        sender->id = id;
        sender->last = &sender->first;
        sender->next = closing.senders;
        closing.senders = sender;
        return sender;
}

static void sender_free(struct sender *sender)
{
        struct sender **at = &closing.senders;

        while (*at != sender)
                at = &(*at)->next;
        *at = sender->next;
        free(sender);
}

static size_t slot_find(const struct sender *sender)
{
        size_t i = 0;

        while (sender->since[i])
                i++;
        return i;
}

/* The sender of whom a thread may take one more. NULL: there is none. */
static struct sender *sender_next(void)
{
        struct sender *sender = closing.senders;

        while (sender && (!sender->first || sender->n_threads == THREADS_EACH))
                sender = sender->next;
        return sender;
}

static int parcel_take(struct sender *sender, size_t *ret_slot)
{
        struct parcel *parcel = sender->first;
        int fd = parcel->fd;

        sender->first = parcel->next;
        if (!sender->first)
                sender->last = &sender->first;
        free(parcel);
        *ret_slot = slot_find(sender);
        sender->since[*ret_slot] = clock_now();
        sender->fds[*ret_slot] = fd;
        sender->n_threads++;
        return fd;
}

static void parcel_done(struct sender *sender, size_t slot)
{
        sender->since[slot] = 0;
        sender->n_threads--;
        if (!--sender->n)
                sender_free(sender);
}

/* Whether a thread is to be started; it counts already. Nobody who waits for a file is relied on: as long as there is
 * something to take, a thread is on its way. */
static bool is_thread_wanted(void)
{
        if (!sender_next() || closing.n_starting || closing.n_threads == THREADS_ALL)
                return false;
        closing.n_threads++;
        closing.n_starting++;
        return true;
}

static void *close_all(void *unused);

/* If there is none to be had, the next one who drops or closes something tries again. */
static void thread_add(void)
{
        if (thread_start_alone(close_all, NULL) == 0)
                return;
        lock_take(&closing.lock);
        closing.n_threads--;
        closing.n_starting--;
        lock_drop(&closing.lock);
}

/* Closes one after the other until nothing is left that it may take. */
static void *close_all(void *unused)
{
        struct sender *sender;

        (void)unused;
        lock_take(&closing.lock);
        closing.n_starting--;
        while ((sender = sender_next())) {
                size_t slot;
                int fd = parcel_take(sender, &slot);
                bool is_wanted = is_thread_wanted();

                lock_drop(&closing.lock);
                if (is_wanted)
                        thread_add();
                closep(&fd);
                lock_take(&closing.lock);
                parcel_done(sender, slot);
        }
        closing.n_threads--;
        lock_drop(&closing.lock);
        return NULL;
}

static bool parcel_add(struct parcel *parcel, uint64_t id)
{
        struct sender *sender = sender_find(id);

        if (!sender)
                sender = sender_add(id);
        if (!sender)
                return false;
        *sender->last = parcel;
        sender->last = &parcel->next;
        sender->n++;
        return true;
}

void descriptors_drop(int fd, uint64_t sender)
{
        int error = errno;
        struct parcel *parcel = fd < 0 ? NULL : calloc(1, sizeof(*parcel));
        bool is_wanted;

        if (!parcel)
                return; /* without memory it stays open: better than to wait */
        parcel->fd = fd;
        {
                LOCKED(&closing.lock);
                if (!parcel_add(parcel, sender)) {
                        free(parcel);
                        return;
                }
                is_wanted = is_thread_wanted();
        }
        if (is_wanted)
                thread_add();
        errno = error;
}

/* Not after a while, when its number is rather another one's. */
static bool is_in_table(const struct sender *sender, nsec now)
{
        for (size_t i = 0; i < THREADS_EACH; i++)
                if (sender->since[i] && now - sender->since[i] < OUT_BY && fcntl(sender->fds[i], F_GETFD) >= 0)
                        return true;
        return sender->first;
}

static bool are_in_table(nsec now)
{
        LOCKED(&closing.lock);

        for (const struct sender *s = closing.senders; s; s = s->next)
                if (is_in_table(s, now))
                        return true;
        return false;
}

void descriptors_settle(void)
{
        const struct timespec moment = { .tv_nsec = 100 * 1000 };
        nsec until = clock_now() + SETTLED_BY;

        while (are_in_table(clock_now()) && clock_now() < until)
                (void)nanosleep(&moment, NULL);
}

bool descriptors_are_late(uint64_t id)
{
        LOCKED(&closing.lock);
        unsigned int n = 0;

        for (const struct sender *s = closing.senders; s; s = s->next) {
                if (s->id == id && s->n >= LATE)
                        return true;
                n += s->n;
        }
        return n >= MANY;
}

static bool is_stuck(const struct sender *sender, nsec now)
{
        for (size_t i = 0; i < THREADS_EACH; i++)
                if (sender->since[i] && now - sender->since[i] > NSEC_PER_SEC)
                        return true;
        return false;
}

unsigned int descriptors_stuck(uint64_t id, uint64_t *ret_sender)
{
        nsec now = clock_now();
        unsigned int n = 0, most = 0;

        LOCKED(&closing.lock);
        for (const struct sender *s = closing.senders; s; s = s->next) {
                if ((id != DESCRIPTORS_ALL && s->id != id) || !is_stuck(s, now))
                        continue;
                n += s->n;
                if (s->n > most && ret_sender)
                        *ret_sender = s->id;
                most = s->n > most ? s->n : most;
        }
        return n;
}

/* ---- plain files ------------------------------------------------------------------------------------------------ */

enum {
        LINE = 1024,
};

static void file_closep(FILE **file)
{
        if (*file)
                (void)fclose(*file);
}

/* What the kernel knows already. */
static bool is_regular(int fd)
{
        struct statx about = { 0 };

        return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about) == 0 && S_ISREG(about.stx_mode);
}

/* The kernel's number of the mount that a file was opened on; -1: not known. Only of a plain file: others say more in
 * there, for which they take locks that a program may hold (an epoll). */
static int mount_of(int fd)
{
        _cleanup_(file_closep) FILE *info = NULL;
        char path[40], line[LINE];
        int mount = -1;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        info = fopen(path, "re");
        while (info && process_line(info, line, sizeof(line)))
                if (sscanf(line, "mnt_id: %d", &mount) == 1)
                        return mount;
        return -1;
}

/* proc(5), mountinfo: "36 35 98:0 /root /at rw,noatime master:1 - ext3 /dev/root rw", with blanks in names written as
 * \040. */
static bool is_served_by_the_kernel(const char *line)
{
        const char *type = strstr(line, " - ");

        return type && strncmp(type + 3, "fuse", 4) != 0;
}

bool descriptors_is_plain(int fd)
{
        _cleanup_(file_closep) FILE *mounts = NULL;
        int wanted = is_regular(fd) ? mount_of(fd) : -1, mount;
        char line[LINE];

        if (wanted < 0)
                return false;
        mounts = fopen("/proc/self/mountinfo", "re");
        while (mounts && process_line(mounts, line, sizeof(line)))
                if (sscanf(line, "%d ", &mount) == 1 && mount == wanted)
                        return is_served_by_the_kernel(line);
        return false;
}
