/* SPDX-License-Identifier: Apache-2.0 */
/* Xids and lost devices: NVML's events, waited for on a thread. */
#include "daemon/state/daemon.h"

#include "gate/gate.h"
#include "daemon/background.h"
#include "daemon/state/events.h"
#include "daemon/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
        WAIT_MSEC = 500,
        XID_OFF_THE_BUS = 79, /* "GPU has fallen off the bus" */
};

struct watch {
        struct daemon *daemon;
        struct gpu_watch *events;
        struct background background;
};

struct found {
        unsigned int device;
        uint64_t xid; /* 0: the device is lost */
};

static void *wait_for_events(void *context)
{
        struct watch *watch = context;

        while (!watch->background.is_ending) {
                struct found found = { 0 };
                int r = gpu_watch_next(watch->events, WAIT_MSEC, &found.device, &found.xid);

                if (r < 0 || (r > 0 && write(watch->background.pipe[1], &found, sizeof(found)) < 0))
                        return NULL;
        }
        return NULL;
}

static void on_found(struct loop_source *source, uint32_t events)
{
        struct watch *watch = source->context;
        struct found found;

        (void)events;
        while (read(source->fd, &found, sizeof(found)) == sizeof(found)) {
                if (found.device >= watch->daemon->n_devices)
                        continue;
                if (found.xid) {
                        watch->daemon->devices[found.device].xid = found.xid;
                        watch->daemon->devices[found.device].n_xids++;
                        event_emit(watch->daemon, EVENT_XID, NULL, (int)found.device, "Xid %llu",
                                   (unsigned long long)found.xid);
                }
                if (found.xid == XID_OFF_THE_BUS || !found.xid)
                        device_lose(&watch->daemon->devices[found.device]);
        }
}

int watch_start(struct daemon *daemon, struct watch **ret)
{
        struct watch *watch = calloc(1, sizeof(*watch));
        int r;

        if (!watch)
                return -ENOMEM;
        watch->daemon = daemon;
        r = gpu_watch_open(&watch->events);
        if (r == 0)
                r = background_start(&watch->background, daemon->loop, wait_for_events, on_found, watch);
        if (r < 0) {
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
        background_stop(&watch->background);
        (void)gpu_watch_close(watch->events);
        free(watch);
        return NULL;
}
