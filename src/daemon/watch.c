/* Xids and lost devices: NVML's events on a thread of its own, handed to the loop through a pipe. */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "gate/gate.h"
#include "daemon/state/events.h"
#include "daemon/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
        WAIT_MSEC = 500,
        XID_OFF_THE_BUS = 79, /* "GPU has fallen off the bus" */
};

struct watch {
        struct daemon *daemon;
        struct gpu_watch *events;
        struct loop_source source;
        pthread_t thread;
        int pipe[2];
        atomic_bool is_ending;
};

struct found {
        unsigned int device;
        uint64_t xid;
};

static void *look(void *context)
{
        struct watch *watch = context;

        while (!watch->is_ending) {
                struct found found = { 0 };
                int r = gpu_watch_next(watch->events, WAIT_MSEC, &found.device, &found.xid);

                if (r < 0)
                        return NULL;
                if (r > 0 && write(watch->pipe[1], &found, sizeof(found)) < 0)
                        return NULL;
        }
        return NULL;
}

static void tell(struct daemon *daemon, const struct found *found)
{
        struct device *device;

        if (found->device >= daemon->n_devices)
                return;
        device = &daemon->devices[found->device];
        if (found->xid)
                event_emit(daemon, EVENT_XID, NULL, (int)found->device, "Xid %llu", (unsigned long long)found->xid);
        if (found->xid == XID_OFF_THE_BUS || !found->xid)
                device_lose(device);
}

static void on_found(struct loop_source *source, uint32_t events)
{
        struct watch *watch = source->context;
        struct found found;

        (void)events;
        while (read(source->fd, &found, sizeof(found)) == sizeof(found))
                tell(watch->daemon, &found);
}

static int start_thread(struct watch *watch)
{
        sigset_t all, old;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(&watch->thread, NULL, look, watch);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (r)
                watch->thread = 0;
        return -r;
}

int watch_start(struct daemon *daemon, struct watch **ret)
{
        struct watch *watch = calloc(1, sizeof(*watch));
        int r;

        if (!watch)
                return -ENOMEM;
        watch->daemon = daemon;
        watch->pipe[0] = watch->pipe[1] = -1;
        r = gpu_watch_open(&watch->events);
        if (r == 0 && pipe2(watch->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
                r = -errno;
        watch->source = (struct loop_source){ .fd = watch->pipe[0], .ready = on_found, .context = watch };
        if (r < 0 || (r = loop_add(daemon->loop, &watch->source, EPOLLIN)) < 0 || (r = start_thread(watch)) < 0) {
                (void)watch_stop(watch);
                return r;
        }
        *ret = watch;
        return 0;
}

struct watch *watch_stop(struct watch *watch)
{
        if (!watch)
                return NULL;
        watch->is_ending = true;
        if (watch->thread)
                (void)pthread_join(watch->thread, NULL);
        loop_drop(watch->daemon->loop, &watch->source);
        (void)gpu_watch_close(watch->events);
        closep(&watch->pipe[0]);
        closep(&watch->pipe[1]);
        free(watch);
        return NULL;
}
