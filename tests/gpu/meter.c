/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter SECONDS - what the driver of this machine answers to the daemon's own client: devices, records of switches and
 * their clock, lists of channels that do not exist. Run it beside two programs that work (load deep); TAP.
 */
#include "base/clock.h"
#include "base/err.h"
#include "gpu/client.h"
#include "gpu/find.h"
#include "gpu/meter.h"
#include "rm/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
        RECORDS = 65536,
        PROCESSES = 64,
};

static int n_tests;

static void ok(bool is, const char *what)
{
        printf("%sok %d - %s\n", is ? "" : "not ", ++n_tests, what);
}

static void devices(const struct gpu_backend *backend)
{
        struct gpu_device device[GPU_DEVICES_MAX];
        unsigned int n = 0;
        struct err err = { 0 };
        nsec began = clock_now();
        int r = gpu_find(backend, device, &n, &err);

        printf("# gpu_find: %d in %.1f ms %s\n", r, (double)(clock_now() - began) / 1e6, err.text);
        for (unsigned int i = 0; i < n; i++)
                printf("# %u %s %s %s minor %u, %.1f GiB, mig %d, lost %d, %d multiprocessors\n", device[i].index,
                       device[i].name, device[i].uuid, device[i].bus_id, device[i].minor,
                       (double)device[i].total / (double)GIB, device[i].has_mig, device[i].is_lost, device[i].sms);
        ok(!r && n && device[0].name[0] && device[0].uuid[0] && device[0].total, "devices are described");
}

static int64_t try_list(struct gpu_client *client, uint32_t its_client, uint32_t handle, size_t n, nsec *ret_took)
{
        uint8_t params[536] = { 0 };
        nsec began = clock_now();
        int64_t status;

        rm_put32(params, sizeof(params), 4, (uint32_t)n);
        for (size_t i = 0; i < n; i++) {
                rm_put32(params, sizeof(params), 24 + 4 * i, its_client);
                rm_put32(params, sizeof(params), 280 + 4 * i, handle);
        }
        status = client_control(client, client->subdevice, RM_DISABLE_CHANNELS, params, sizeof(params));
        *ret_took = clock_now() - began;
        return status;
}

/* What does not exist is told from what cannot be done: control.c must know these. */
static void lists(struct gpu_client *client)
{
        struct gpu_channel gone[3] = { { client->client, 0x5c7fff01 }, { 0xc1dfff17, 0x5c000030 }, { 0, 0 } };
        uint32_t status = 0;
        nsec took;
        int r;

        printf("# enable: our client, no such channel: 0x%llx",
               (long long)try_list(client, client->client, 0x5c7fff01, 1, &took));
        printf(" (%.0f us); no such client: 0x%llx", (double)took / 1e3,
               (long long)try_list(client, 0xc1dfff17, 0x5c000030, 1, &took));
        printf(" (%.0f us); our subdevice: 0x%llx", (double)took / 1e3,
               (long long)try_list(client, client->client, client->subdevice, 1, &took));
        printf(" (%.0f us); nothing: 0x%llx\n", (double)took / 1e3, (long long)try_list(client, 0, 0, 0, &took));
        r = gpu_channels_set(client, gone, 2, false, &status);
        printf("# gpu_channels_set of two that are gone: %d, status 0x%x\n", r, status);
        ok(r == 0, "channels that are gone are no failure");
}

struct process {
        uint32_t pid, context;
        nsec on_at, used;
        size_t n;
};

static struct process *process_of(struct process *list, const struct meter_record *record)
{
        size_t i = 0;

        while (i < PROCESSES - 1 && list[i].n && list[i].context != record->context)
                i++;
        list[i].pid = record->pid;
        list[i].context = record->context;
        list[i].n++;
        return &list[i];
}

static void records(struct gpu_client *client, double seconds)
{
        static struct meter_record list[RECORDS];
        struct process processes[PROCESSES] = { 0 };
        struct meter *meter;
        nsec until, oldest = INT64_MAX, newest = INT64_MIN, took = 0, last = 0;
        uint64_t lost, n_lost = 0, n_reads = 0, n_records = 0, n_back = 0;
        int r = meter_open(client, &meter), n;

        ok(r == 0, "the meter opens");
        if (r)
                return;
        until = clock_now() + (nsec)(seconds * 1e9);
        while (clock_now() < until) {
                struct timespec pause = { 0, 1000000 };
                nsec before = clock_now();

                n = meter_read(meter, true, list, RECORDS, &lost);
                took += clock_now() - before;
                n_reads++;
                n_lost += lost;
                for (int i = 0; i < n; i++) {
                        struct process *process = process_of(processes, &list[i]);
                        nsec age = clock_now() - list[i].at;

                        oldest = age < oldest ? age : oldest;
                        newest = age > newest ? age : newest;
                        n_back += list[i].at < last;
                        last = list[i].at;
                        n_records++;
                        if (list[i].is_on)
                                process->on_at = list[i].at;
                        else if (process->on_at)
                                process->used += list[i].at - process->on_at;
                }
                (void)nanosleep(&pause, NULL);
        }
        printf("# %llu records in %llu reads of %.1f us, %llu lost, %llu back in time; age of records when read: %.3f "
               "to %.3f ms\n",
               (unsigned long long)n_records, (unsigned long long)n_reads, (double)took / 1e3 / (double)n_reads,
               (unsigned long long)n_lost, (unsigned long long)n_back, (double)oldest / 1e6, (double)newest / 1e6);
        for (size_t i = 0; i < PROCESSES && processes[i].n; i++)
                printf("# pid %u context 0x%x: %zu records, on for %.1f %%\n", processes[i].pid, processes[i].context,
                       processes[i].n, (double)processes[i].used / seconds / 1e7);
        ok(n_records > 0, "switches are recorded");
        ok(oldest > -100000 && newest < 50000000, "their time is ours: none in the future, none old");
        ok(!n_lost && !n_back, "none is lost, none goes back in time");
        (void)meter_close(meter);
}

int main(int argc, char **argv)
{
        struct gpu_backend backend;
        struct gpu_client *client;
        struct gpu_watch *watch;
        struct err err = { 0 };
        int r = gpu_backend_find(&backend, &err);

        if (r < 0) {
                printf("Bail out! %s\n", err.text);
                return 1;
        }
        printf("# driver %s (%s)\n", backend.release, backend.name);
        devices(&backend);
        r = gpu_client_open(&backend, 0, &client);
        ok(r == 0, "a client opens");
        if (r)
                return 1;
        lists(client);
        records(client, argc > 1 ? atof(argv[1]) : 5);
        r = gpu_watch_open(&watch);
        printf("# gpu_watch_open: %d\n", r);
        ok(r == 0, "Xids are watched");
        if (!r) {
                unsigned int device;
                uint64_t xid;

                ok(gpu_watch_next(watch, 100, &device, &xid) == 0, "and there is none");
                (void)gpu_watch_close(watch);
        }
        (void)gpu_client_close(client);
        printf("1..%d\n", n_tests);
        return 0;
}
