/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mates SHIM off SECONDS | pulse SECONDS - takes one tenant of a trust group off the device, alone: its channels and no
 * others, of those in the group that all clients of an MPS server share. `pulse`: off and on again each 5 ms. Beside a
 * daemon, as root; mates.sh runs it and says what that shows.
 *
 * Prints how many channels it switched, what the driver said, and what a call took.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "gpu/client.h"
#include "gpu/control.h"
#include "wire/control_block.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
        PULSE_MS = 5,
};

/* The shim's own end of its control block. */
static struct control_block *block_of(const char *shim)
{
        struct control_block *control = NULL;
        char path[64], at[128], link[64];
        struct dirent *entry;
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%.20s/fd", shim);
        dir = opendir(path);
        while (dir && !control && (entry = readdir(dir))) {
                int fd;

                (void)snprintf(at, sizeof(at), "%s/%.20s", path, entry->d_name);
                memset(link, 0, sizeof(link));
                if (readlink(at, link, sizeof(link) - 1) < 0 || !strstr(link, "memfd:sublet-board"))
                        continue;
                fd = open(at, O_RDWR | O_CLOEXEC);
                if (fd >= 0 && control_block_map(fd, &control) < 0)
                        control = NULL;
                if (fd >= 0)
                        (void)close(fd);
        }
        if (dir)
                (void)closedir(dir);
        return control;
}

/* Those on which it computes, on the first device. */
static size_t channels_of(const struct control_block *control, struct gpu_channel ret[static CONTROL_BLOCK_CHANNELS])
{
        static struct control_channel rows[CONTROL_BLOCK_CHANNELS];
        uint32_t sequence;
        size_t n = control_block_channels(control, rows, &sequence), to = 0;

        for (size_t i = 0; i < n; i++)
                if (rows[i].device == 0 && rows[i].is_compute)
                        ret[to++] = (struct gpu_channel){ rows[i].client, rows[i].handle };
        return to;
}

static void wait_ms(long ms)
{
        (void)nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static nsec switch_all(struct gpu_client *client, const struct gpu_channel *channels, size_t n, bool is_disabled)
{
        uint32_t status = 0;
        nsec began = clock_now();
        int r = gpu_channels_set(client, channels, n, is_disabled, &status);

        if (r < 0) {
                (void)printf("%s: %s, status 0x%x\n", is_disabled ? "off" : "on", strerror(-r), status);
                exit(EXIT_FAILURE);
        }
        return clock_now() - began;
}

int main(int argc, char **argv)
{
        static struct gpu_channel channels[CONTROL_BLOCK_CHANNELS];
        struct gpu_backend backend;
        struct gpu_client *client = NULL;
        struct control_block *control = argc == 4 ? block_of(argv[1]) : NULL;
        bool is_pulse = argc == 4 && !strcmp(argv[2], "pulse");
        long ms = argc == 4 ? (long)(atof(argv[3]) * 1000) : 0, off_ms = is_pulse ? PULSE_MS : ms;
        nsec off = 0, on = 0, until = clock_now() + ms * (is_pulse ? 1 : 0) * NSEC_PER_MSEC;
        struct err err = { 0 };
        unsigned int rounds = 0;
        size_t n;

        if (!control || gpu_backend_find(&backend, &err) < 0 || gpu_client_open(&backend, 0, &client) < 0) {
                (void)fprintf(stderr, "mates SHIM off|pulse SECONDS: no control block or no device %s\n", err.text);
                return EXIT_FAILURE;
        }
        n = channels_of(control, channels);
        do {
                off += switch_all(client, channels, n, true);
                wait_ms(off_ms);
                on += switch_all(client, channels, n, false);
                if (is_pulse)
                        wait_ms(PULSE_MS);
                rounds++;
        } while (clock_now() < until);
        (void)printf("channels=%zu rounds=%u off_us=%.0f on_us=%.0f\n", n, rounds, (double)off / rounds / 1e3,
                     (double)on / rounds / 1e3);
        (void)gpu_client_close(client);
        control_block_unmap(control);
        return 0;
}
