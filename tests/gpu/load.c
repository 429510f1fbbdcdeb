/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - a tenant that computes, and writes down when each piece of its work was done.
 *
 *      load [OPTION...] deep|sync|graph|endless|periodic|poisson|idle
 *      load calibrate                  prints rounds_per_us=..., for -r
 *
 *      -k US      length of a kernel, of one that has the device for itself (770)
 *      -r ROUNDS  rounds of arithmetic per microsecond (51.9: an H200 at 1.665 GHz)
 *      -q DEPTH   deep: launches in flight (16)
 *      -p US      periodic: from launch to launch; poisson: from one to the next, the mean (5000)
 *      -t SECONDS for so long after the start (3)
 *      -b DIR     tell DIR/NAME.ready, then wait for DIR/go
 *      -o FILE    the log: when each piece was done, u64 ns, little endian
 *      -n NAME    of this tenant (load)
 *
 * A piece is at most 100 us of work, so that shares over 100 ms can be told from the log even when one
 * kernel takes 100 ms. One thread of the kernel's first block writes the device's clock at the end of
 * each piece: the clocks of all tenants are one, and a piece counts when it is done, whatever the host
 * is doing. A device that does not run our PTX (the simulator) leaves the log empty; then the host's
 * clock at each completion takes its place, a kernel being one piece.
 *
 * Prints one line of name=value words:
 *      pieces, piece_us, clock (device|host), seconds, kernels, event_ms (CUDA events around all of it),
 *      p50_us, p99_us, max_us (periodic and sync: launch to done; poisson: due to done),
 *      blocks (of a kernel: one per multiprocessor that it may use)
 */
#define _GNU_SOURCE
#include "burn.h"

#include <cuda.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
        THREADS = 1024, /* one block per multiprocessor keeps it busy: four independent chains each */
        DEPTH_MAX = 256,
        GRAPH_KERNELS = 20,
        PIECE_US = 100,
        LOG_MAX = BURN_LOG_MAX,
        LATENCIES_MAX = 1 << 20,
};

struct load {
        /* options */
        unsigned int kernel_us, depth, period_us;
        double rounds_per_us, seconds;
        const char *barrier, *log_path, *name;

        CUfunction burn;
        CUdeviceptr sink, log;
        CUstream stream, side; /* side: what must not wait for the work */
        unsigned int rounds, pieces;
        int blocks;
        CUevent first, last;

        double begin, end;
        size_t n_kernels;
        uint64_t *host_log; /* completions by the host's clock */
        size_t n_host_log;
        float *latencies;
        size_t n_latencies;
};

#define CHECK(call) check((call), #call)

static void check(CUresult r, const char *what)
{
        const char *text = "?";

        if (r == CUDA_SUCCESS)
                return;
        (void)cuGetErrorString(r, &text);
        fprintf(stderr, "load: %s: %s\n", what, text);
        exit(3);
}

static uint64_t clock_ns(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double now(void)
{
        return (double)clock_ns() * 1e-9;
}

static void sleep_until(double when)
{
        double left = when - now();
        struct timespec t = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };

        if (left > 0)
                (void)nanosleep(&t, NULL);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void launch(struct load *load)
{
        void *arguments[] = { &load->sink, &load->rounds, &load->log, &load->pieces };

        CHECK(cuLaunchKernel(load->burn, (unsigned int)load->blocks, 1, 1, THREADS, 1, 1, 0, load->stream, arguments,
                             NULL));
}

static void set_length(struct load *load, unsigned int us)
{
        load->pieces = us <= PIECE_US ? 1 : us / PIECE_US;
        load->rounds = (unsigned int)((double)us * load->rounds_per_us);
        load->rounds -= load->rounds % load->pieces;
        if (!load->rounds)
                load->rounds = load->pieces;
}

static void set_up(struct load *load)
{
        CUdevice device;
        CUcontext context;
        CUmodule module;

        CHECK(cuInit(0));
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuDeviceGetAttribute(&load->blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuModuleLoadData(&module, burn_ptx));
        CHECK(cuModuleGetFunction(&load->burn, module, "burn"));
        CHECK(cuMemAlloc(&load->sink, 4096));
        CHECK(cuMemAlloc(&load->log, LOG_MAX * sizeof(uint64_t)));
        CHECK(cuStreamCreate(&load->stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamCreate(&load->side, CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&load->first, CU_EVENT_DEFAULT));
        CHECK(cuEventCreate(&load->last, CU_EVENT_DEFAULT));

        /* Everything is loaded and mapped before the start; the log begins empty. */
        set_length(load, 1);
        launch(load);
        CHECK(cuStreamSynchronize(load->stream));
        CHECK(cuMemsetD32(load->log, 0, LOG_MAX * sizeof(uint64_t) / sizeof(uint32_t)));
        CHECK(cuCtxSynchronize());
        set_length(load, load->kernel_us);
}

/* ---- the loads ------------------------------------------------------------------------------- */

static bool goes_on(const struct load *load)
{
        return now() < load->end;
}

static void completed(struct load *load, size_t n_kernels)
{
        load->n_kernels += n_kernels;
        if (load->n_host_log < LOG_MAX)
                load->host_log[load->n_host_log++] = clock_ns();
}

static void took(struct load *load, double since)
{
        if (load->n_latencies < LATENCIES_MAX)
                load->latencies[load->n_latencies++] = (float)((now() - since) * 1e6);
}

static void run_deep(struct load *load)
{
        CUevent events[DEPTH_MAX];
        size_t n = 0, done = 0;

        for (unsigned int i = 0; i < load->depth; i++)
                CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        for (; goes_on(load); n++) {
                if (n - done == load->depth) {
                        CHECK(cuEventSynchronize(events[done++ % load->depth]));
                        completed(load, 1);
                }
                launch(load);
                CHECK(cuEventRecord(events[n % load->depth], load->stream));
        }
        while (done < n) {
                CHECK(cuEventSynchronize(events[done++ % load->depth]));
                completed(load, 1);
        }
}

static void run_sync(struct load *load)
{
        while (goes_on(load)) {
                double since = now();

                launch(load);
                CHECK(cuStreamSynchronize(load->stream));
                took(load, since);
                completed(load, 1);
        }
}

static void run_graph(struct load *load)
{
        CUgraph graph;
        CUgraphExec exec;

        CHECK(cuStreamBeginCapture(load->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        for (int i = 0; i < GRAPH_KERNELS; i++)
                launch(load);
        CHECK(cuStreamEndCapture(load->stream, &graph));
        CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        while (goes_on(load)) {
                CHECK(cuGraphLaunch(exec, load->stream));
                CHECK(cuStreamSynchronize(load->stream));
                completed(load, GRAPH_KERNELS);
        }
}

/* One kernel that outlives its time; nobody waits for it. */
static void run_endless(struct load *load)
{
        launch(load);
        sleep_until(load->end);
}

static void run_periodic(struct load *load)
{
        double next = now();

        while (goes_on(load)) {
                double since = now();

                launch(load);
                CHECK(cuStreamSynchronize(load->stream));
                took(load, since);
                completed(load, 1);
                next += load->period_us * 1e-6;
                sleep_until(next);
        }
}

/* Arrivals that know nothing of each other; what has arrived waits until the one before is done. */
static void run_poisson(struct load *load)
{
        double due = now();
        unsigned short seed[3] = { (unsigned short)getpid(), (unsigned short)((unsigned int)getpid() >> 16), 1 };

        while (goes_on(load)) {
                due += load->period_us * 0.05e-6;
                while (erand48(seed) < 0.9) /* exponential, in steps of a tenth of the mean */
                        due += load->period_us * 0.1e-6;
                sleep_until(due);
                launch(load);
                CHECK(cuStreamSynchronize(load->stream));
                took(load, due);
                completed(load, 1);
        }
}

static void run_idle(struct load *load)
{
        sleep_until(load->end);
}

static const struct {
        const char *name;
        void (*run)(struct load *load);
        bool is_endless;
} loads[] = {
        { "deep", run_deep, false },      { "sync", run_sync, false },         { "graph", run_graph, false },
        { "endless", run_endless, true }, { "periodic", run_periodic, false }, { "poisson", run_poisson, false },
        { "idle", run_idle, false },
};

/* ---- start and report ------------------------------------------------------------------------ */

static void wait_for_go(const struct load *load)
{
        char path[4096];
        FILE *file;

        if (!load->barrier)
                return;
        (void)snprintf(path, sizeof path, "%s/%s.ready", load->barrier, load->name);
        file = fopen(path, "w");
        if (file)
                (void)fclose(file);
        (void)snprintf(path, sizeof path, "%s/go", load->barrier);
        while (access(path, F_OK) < 0)
                (void)usleep(500);
}

static int compare(const void *a, const void *b)
{
        const float *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static double latency(struct load *load, double part)
{
        size_t at = (size_t)((double)load->n_latencies * part);

        if (!load->n_latencies)
                return 0;
        return (double)load->latencies[at < load->n_latencies ? at : load->n_latencies - 1];
}

/* The device's log if it wrote one, else the host's. */
static uint64_t *read_log(const struct load *load, size_t *ret_n, bool *ret_device)
{
        uint64_t *log = calloc(LOG_MAX, sizeof *log);
        size_t n = 0;

        if (!log)
                exit(1);
        CHECK(cuMemcpyDtoHAsync(log, load->log, LOG_MAX * sizeof *log, load->side));
        CHECK(cuStreamSynchronize(load->side));
        while (n + 1 < LOG_MAX && log[n + 1])
                n++;
        *ret_device = n > 0;
        *ret_n = n > 0 ? n : load->n_host_log;
        if (n > 0) {
                memmove(log, log + 1, n * sizeof *log);
                return log;
        }
        free(log);
        return load->host_log;
}

static void report(struct load *load, const char *mode, float event_ms)
{
        bool is_device;
        size_t n;
        uint64_t *log = read_log(load, &n, &is_device);
        double host_piece = load->kernel_us * (strcmp(mode, "graph") == 0 ? GRAPH_KERNELS : 1.0);
        double piece = is_device ? (double)load->rounds / load->pieces / load->rounds_per_us : host_piece;
        FILE *file = load->log_path ? fopen(load->log_path, "w") : NULL;

        if (file) {
                (void)fwrite(log, sizeof *log, n, file);
                (void)fclose(file);
        }
        qsort(load->latencies, load->n_latencies, sizeof *load->latencies, compare);
        printf("name=%s mode=%s pieces=%zu piece_us=%.3f clock=%s seconds=%.4f kernels=%zu event_ms=%.3f "
               "n=%zu p50_us=%.1f p99_us=%.1f max_us=%.1f blocks=%d\n",
               load->name, mode, n, piece, is_device ? "device" : "host", now() - load->begin, load->n_kernels,
               (double)event_ms, load->n_latencies, latency(load, 0.5), latency(load, 0.99), latency(load, 1),
               load->blocks);
        (void)fflush(stdout);
}

static void measure(struct load *load, size_t kind)
{
        float event_ms = 0;

        wait_for_go(load);
        load->begin = now();
        load->end = load->begin + load->seconds;
        CHECK(cuEventRecord(load->first, load->stream));
        loads[kind].run(load);
        if (!loads[kind].is_endless) {
                CHECK(cuEventRecord(load->last, load->stream));
                CHECK(cuEventSynchronize(load->last));
                CHECK(cuEventElapsedTime(&event_ms, load->first, load->last));
        }
        report(load, loads[kind].name, event_ms);
        if (loads[kind].is_endless)
                _exit(0); /* the context goes with the process, and the kernel with it */
}

/* Rounds that this device does in a microsecond, from kernels of about 10 ms. */
static int calibrate(struct load *load)
{
        float ms = 0, best = 0;

        set_length(load, 10000);
        for (int i = 0; i < 20; i++) {
                CHECK(cuEventRecord(load->first, load->stream));
                launch(load);
                CHECK(cuEventRecord(load->last, load->stream));
                CHECK(cuEventSynchronize(load->last));
                CHECK(cuEventElapsedTime(&ms, load->first, load->last));
                if (i >= 10 && (best == 0 || ms < best))
                        best = ms;
        }
        printf("rounds_per_us=%.4f\n", (double)load->rounds / ((double)best * 1e3));
        return 0;
}

static int usage(void)
{
        fprintf(stderr, "usage: load [-k US] [-r ROUNDS] [-q DEPTH] [-p US] [-t SECONDS] [-b DIR] [-o FILE] [-n NAME] "
                        "deep|sync|graph|endless|periodic|poisson|idle|calibrate\n");
        return 2;
}

static bool options(struct load *load, int argc, char **argv)
{
        const struct {
                char letter;
                unsigned int *number;
                double *real;
                const char **text;
        } known[] = {
                { 'k', &load->kernel_us, NULL, NULL }, { 'q', &load->depth, NULL, NULL },
                { 'p', &load->period_us, NULL, NULL }, { 'r', NULL, &load->rounds_per_us, NULL },
                { 't', NULL, &load->seconds, NULL },   { 'b', NULL, NULL, &load->barrier },
                { 'o', NULL, NULL, &load->log_path },  { 'n', NULL, NULL, &load->name },
        };

        for (int option; (option = getopt(argc, argv, "k:r:q:p:t:b:o:n:")) >= 0;) {
                size_t i = 0;

                while (i < sizeof known / sizeof *known && known[i].letter != option)
                        i++;
                if (i == sizeof known / sizeof *known)
                        return false;
                if (known[i].number)
                        *known[i].number = (unsigned int)strtoul(optarg, NULL, 10);
                else if (known[i].real)
                        *known[i].real = strtod(optarg, NULL);
                else
                        *known[i].text = optarg;
        }
        return load->depth >= 1 && load->depth <= DEPTH_MAX && load->rounds_per_us > 0 && optind == argc - 1;
}

int main(int argc, char **argv)
{
        struct load load = {
                .kernel_us = 770, .depth = 16, .period_us = 5000, .rounds_per_us = 51.9, .seconds = 3, .name = "load"
        };

        if (!options(&load, argc, argv))
                return usage();
        load.host_log = calloc(LOG_MAX, sizeof *load.host_log);
        load.latencies = calloc(LATENCIES_MAX, sizeof *load.latencies);
        if (!load.host_log || !load.latencies)
                return 1;
        if (strcmp(argv[optind], "calibrate") == 0) {
                set_up(&load);
                return calibrate(&load);
        }
        for (size_t kind = 0; kind < sizeof loads / sizeof *loads; kind++) {
                if (strcmp(argv[optind], loads[kind].name) == 0) {
                        set_up(&load);
                        measure(&load, kind);
                        return 0;
                }
        }
        return usage();
}
