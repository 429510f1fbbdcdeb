/* SPDX-License-Identifier: Apache-2.0 */
/* Health of the devices: NVML is asked on a thread, since a device that hangs may keep the caller. */
#include "daemon/health.h"

#include "daemon/background.h"
#include "daemon/state/daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum {
        STEP_MSEC = 100, /* how soon it notices that it should end */
};

struct health {
        struct daemon *daemon;
        struct gpu_health *nvml;
        struct background background;
};

struct reading {
        unsigned int device;
        struct gpu_figures figures;
};

static void send_all(struct health *health)
{
        const struct daemon *daemon = health->daemon;

        for (unsigned int i = 0; i < daemon->n_devices && !health->background.is_ending; i++) {
                struct reading reading = { .device = i };

                /* A device that does not answer has no figures: none is better than the one before. */
                if (gpu_health_read(health->nvml, daemon->devices[i].info.uuid, &reading.figures) < 0)
                        reading.figures = (struct gpu_figures){ 0 };
                /* A loop that does not read misses figures of which newer ones follow. */
                if (write(health->background.pipe[1], &reading, sizeof(reading)) < 0)
                        return;
        }
}

static void *read_always(void *context)
{
        struct health *health = context;

        while (!health->background.is_ending) {
                send_all(health);
                for (int waited = 0; waited < DEVICE_HEALTH_MSEC && !health->background.is_ending; waited += STEP_MSEC)
                        (void)poll(NULL, 0, STEP_MSEC);
        }
        return NULL;
}

static void on_reading(struct loop_source *source, uint32_t events)
{
        struct health *health = source->context;
        struct reading reading;

        (void)events;
        while (read(source->fd, &reading, sizeof(reading)) == sizeof(reading)) {
                struct device *device = &health->daemon->devices[reading.device];

                device->health = reading.figures;
                device->health_at = clock_now();
        }
}

int health_start(struct daemon *daemon, struct health **ret)
{
        struct health *health = calloc(1, sizeof(*health));
        int r;

        if (!health)
                return -ENOMEM;
        health->daemon = daemon;
        r = gpu_health_open(&health->nvml);
        if (r == 0)
                r = background_start(&health->background, daemon->loop, read_always, on_reading, health);
        if (r < 0) {
                (void)health_stop(health);
                return r;
        }
        *ret = health;
        return 0;
}

struct health *health_stop(struct health *health)
{
        if (!health)
                return NULL;
        background_stop(&health->background);
        (void)gpu_health_close(health->nvml);
        free(health);
        return NULL;
}
