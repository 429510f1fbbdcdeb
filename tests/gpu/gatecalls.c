/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gatecalls - what single calls of the driver cost, from one thread and from several. One JSON object per run.
 *
 *      gatecalls [LABEL [PART]]       a PART-th as many calls
 *
 *      alloc, free             2 MiB of video memory, by a client that each thread has for itself
 *      control                 a control of the client that changes nothing
 *      range, unrange          an external range of UVM, made and freed
 *      map, unmap              memory that is there already, by cuMemMap and cuMemSetAccess, and away again
 *      first                   2 MiB of video memory, the first call of a thread: one thread after another, first_1
 *
 * All but map and unmap are bare calls, so that no lock of a library stands before the gate. Each call is timed alone,
 * in microseconds. Keys are ROW_THREADS: of 1 thread, and of 8 at once.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
        ROWS = 7,
        THREADS = 8,
        BATCH = 32, /* held at once by a thread: 64 MiB */
        BATCHES = 64,
        SAMPLES = BATCH * BATCHES,

        GET_ID_INFO = 0x205,
        FIRSTS = 128,
        UVM_FREE = 34,
        UVM_CREATE_EXTERNAL = 73,
};

static const char *const rows[ROWS] = { "alloc", "free", "control", "range", "unrange", "map", "unmap" };

struct worker {
        pthread_t thread;
        pthread_barrier_t *start;
        struct kit_rm rm;
        CUmemGenericAllocationHandle piece;
        CUdeviceptr at;
        uint64_t base;
        int uvm;
        size_t n;
        double took[ROWS][SAMPLES];
};

static struct worker workers[THREADS];

static _Noreturn void fail(const char *what)
{
        fprintf(stderr, "gatecalls: %s\n", what);
        exit(3);
}

static double now_usec(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static bool map(struct worker *worker)
{
        const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
                                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

        return cuMemMap(worker->at, 2 * MIB, 0, worker->piece, 0) == CUDA_SUCCESS &&
               cuMemSetAccess(worker->at, 2 * MIB, &access, 1) == CUDA_SUCCESS;
}

static bool row_call(struct worker *worker, size_t row, uint32_t i)
{
        unsigned char info[16] = { 0 };

        switch (row) {
        case 0:
                return kit_ok(kit_rm_memory(&worker->rm, KIT_MEMORY + i, 2 * MIB));
        case 1:
                return kit_ok(kit_rm_free(&worker->rm, KIT_DEVICE, KIT_MEMORY + i));
        case 2: /* what the driver thinks of the id 0 is all the same: it was asked */
                return kit_rm_control(&worker->rm, worker->rm.client, GET_ID_INFO, info, sizeof(info)).rc == 0;
        case 3:
                return kit_ok(kit_uvm_range(worker->uvm, UVM_CREATE_EXTERNAL, worker->base + i * 2 * MIB, 2 * MIB));
        case 4:
                return kit_ok(kit_uvm_range(worker->uvm, UVM_FREE, worker->base + i * 2 * MIB, 2 * MIB));
        case 5:
                return map(worker);
        default:
                return cuMemUnmap(worker->at, 2 * MIB) == CUDA_SUCCESS;
        }
}

static void row_measure(struct worker *worker, size_t row, size_t at)
{
        for (uint32_t i = 0; i < BATCH; i++) {
                double began = now_usec();

                if (!row_call(worker, row, i))
                        fail(rows[row]);
                worker->took[row][at + i] = now_usec() - began;
        }
}

static void pair_measure(struct worker *worker, size_t at)
{
        for (size_t i = 0; i < BATCH; i++) {
                double began = now_usec(), between;

                if (!row_call(worker, 5, 0))
                        fail(rows[5]);
                between = now_usec();
                if (!row_call(worker, 6, 0))
                        fail(rows[6]);
                worker->took[5][at + i] = between - began;
                worker->took[6][at + i] = now_usec() - between;
        }
}

static void *worker_main(void *context)
{
        struct worker *worker = context;

        kit_join();
        (void)pthread_barrier_wait(worker->start);
        for (size_t at = 0; at < worker->n; at += BATCH) {
                for (size_t row = 0; row < 5; row++)
                        row_measure(worker, row, at);
                pair_measure(worker, at);
        }
        return NULL;
}

static void worker_open(struct worker *worker, uint64_t number, int uvm, size_t n)
{
        const CUmemAllocationProp property = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

        worker->uvm = uvm;
        worker->n = n;
        worker->base = 0x610000000000ull + number * 0x1000000000ull;
        kit_rm_open(&worker->rm);
        if (cuMemCreate(&worker->piece, 2 * MIB, &property, 0) != CUDA_SUCCESS ||
            cuMemAddressReserve(&worker->at, 2 * MIB, 0, 0, 0) != CUDA_SUCCESS)
                fail("nothing to map");
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void report(size_t row, size_t n_threads, size_t n)
{
        static double all[THREADS * SAMPLES];

        for (size_t i = 0; i < n_threads; i++)
                memcpy(all + i * n, workers[i].took[row], n * sizeof(*all));
        n *= n_threads;
        qsort(all, n, sizeof(*all), by_value);
        printf(",\"%s_%zu\":{\"n\":%zu,\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f}", rows[row], n_threads, n, all[n / 2],
               all[n * 99 / 100], all[n - 1]);
}

static void measure(size_t n_threads, size_t n)
{
        pthread_barrier_t start;

        if (pthread_barrier_init(&start, NULL, (unsigned int)n_threads))
                fail("no barrier");
        for (size_t i = 0; i < n_threads; i++) {
                workers[i].start = &start;
                if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
                        fail("no thread");
        }
        for (size_t i = 0; i < n_threads; i++)
                (void)pthread_join(workers[i].thread, NULL);
        for (size_t row = 0; row < ROWS; row++)
                report(row, n_threads, n);
        (void)pthread_barrier_destroy(&start);
}

static void *first_call(void *context)
{
        double *took = context, began = now_usec();

        if (!kit_ok(kit_rm_memory(&workers[0].rm, KIT_MEMORY, 2 * MIB)))
                fail("first");
        *took = now_usec() - began;
        return NULL;
}

static void first_measure(void)
{
        static double took[FIRSTS];
        pthread_t thread;

        for (size_t i = 0; i < FIRSTS; i++) {
                if (pthread_create(&thread, NULL, first_call, &took[i]))
                        fail("no thread");
                (void)pthread_join(thread, NULL);
                (void)kit_rm_free(&workers[0].rm, KIT_DEVICE, KIT_MEMORY);
        }
        qsort(took, FIRSTS, sizeof(*took), by_value);
        printf(",\"first_1\":{\"n\":%d,\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f}", FIRSTS, took[FIRSTS / 2],
               took[FIRSTS * 99 / 100], took[FIRSTS - 1]);
}

int main(int argc, char **argv)
{
        size_t part = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, n;
        int uvm;

        if (part < 1 || part > BATCHES)
                part = 1;
        n = BATCHES / part * BATCH;
        kit_start();
        uvm = kit_uvm();
        for (size_t i = 0; i < THREADS; i++)
                worker_open(&workers[i], i, uvm, n);
        printf("{\"label\":\"%s\"", argc > 1 ? argv[1] : "");
        measure(1, n);
        measure(THREADS, n);
        first_measure();
        printf("}\n");
        return 0;
}
