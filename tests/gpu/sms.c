/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sms - on how many multiprocessors does it run? Contexts, streams and graphs of every kind, for an SM partition.
 *
 *      sms [-g N] WAY...       each WAY a line of name=value words; -g: first a green context of N, made current
 *      sms steady DIR NAME     tells DIR/NAME.ready, waits for DIR/go, and works for 2 s
 *
 *      primary     the primary context, retained, then made current
 *      runtime     as the CUDA runtime does it: by cuGetProcAddress out of dlsym, current first, then retained
 *      created     a context of cuCtxCreate
 *      thread      the primary context in a second thread, nothing done there but to make it current
 *      stream      a stream of the primary context; blocking, other than the NULL stream
 *      graph       captured in one stream and launched in another
 *      reset       the primary context after it was ended and retained again
 *      count       what the device's attribute says
 *
 * rate: launches a second of a kernel that has more blocks than any device can take at once, so it goes with the
 * multiprocessors. On a real device sms is how many different ones the blocks were on; the simulator has none: 0.
 */
#define _GNU_SOURCE
#include "burn.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) check((call), #call)

/* Which multiprocessors: bit n of word n / 64. One block stays 200 us, so that all have some. */
static const char where_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                ".visible .entry where(.param .u64 bits)\n"
                                "{\n"
                                "        .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<9>;\n"
                                "        ld.param.u64 %d1, [bits]; mov.u32 %r1, %smid; mov.u64 %d2, %globaltimer;\n"
                                "        shr.u32 %r2, %r1, 6; and.b32 %r3, %r1, 63; mul.wide.u32 %d3, %r2, 8;\n"
                                "        add.u64 %d4, %d1, %d3; mov.u64 %d5, 1; shl.b64 %d5, %d5, %r3;\n"
                                "        atom.global.or.b64 %d6, [%d4], %d5;\n"
                                "STAY:   mov.u64 %d7, %globaltimer; sub.u64 %d8, %d7, %d2;\n"
                                "        setp.lt.u64 %p1, %d8, 200000; @%p1 bra STAY;\n"
                                "        ret;\n"
                                "}\n";

enum {
        BLOCKS = 132 * 256, /* 32 waves on all of an H200, 132 on 32 of them */
        THREADS = 256,
        ROUNDS = 500,
        BATCH = 8,
        WORDS = 4,
};

static CUdevice device;
static CUfunction burn, where;
static CUdeviceptr memory;

static void check(CUresult r, const char *what)
{
        const char *text = "?";

        if (r == CUDA_SUCCESS)
                return;
        (void)cuGetErrorName(r, &text);
        fprintf(stderr, "sms: %s: %s\n", what, text);
        exit(3);
}

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* For the context that is current. */
static void load(void)
{
        CUmodule module;

        CHECK(cuModuleLoadData(&module, burn_ptx));
        CHECK(cuModuleGetFunction(&burn, module, "burn"));
        CHECK(cuModuleLoadData(&module, where_ptx));
        CHECK(cuModuleGetFunction(&where, module, "where"));
        CHECK(cuMemAlloc(&memory, 4096 + 8 * ((size_t)BURN_LOG_MAX)));
        CHECK(cuMemsetD8(memory, 0, 4096 + 16));
}

static void launch_burn(CUstream stream)
{
        CUdeviceptr log = memory + 4096;
        unsigned int rounds = ROUNDS, pieces = 1;
        void *params[] = { &memory, &rounds, &log, &pieces };

        CHECK(cuLaunchKernel(burn, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

static void launch_where(CUstream stream)
{
        void *params[] = { &memory };

        CHECK(cuLaunchKernel(where, BLOCKS / 32, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

static int count_where(void)
{
        uint64_t bits[WORDS] = { 0 };
        int n = 0;

        CHECK(cuMemcpyDtoH(bits, memory, sizeof(bits)));
        for (int i = 0; i < WORDS; i++)
                n += __builtin_popcountll(bits[i]);
        return n;
}

/* The best of some batches, by the device's own clock: neighbours and a loaded host only ever make it less. */
static double rate(CUstream stream, void (*launch)(CUstream))
{
        CUevent first, last;
        float best = 0;

        CHECK(cuEventCreate(&first, 0));
        CHECK(cuEventCreate(&last, 0));
        launch(stream);
        for (double end = now() + 0.3; best == 0 || now() < end;) {
                float ms = 0;

                CHECK(cuEventRecord(first, stream));
                for (int i = 0; i < BATCH; i++)
                        launch(stream);
                CHECK(cuEventRecord(last, stream));
                CHECK(cuEventSynchronize(last));
                CHECK(cuEventElapsedTime(&ms, first, last));
                if (best == 0 || ms < best)
                        best = ms;
        }
        CHECK(cuEventDestroy(first));
        CHECK(cuEventDestroy(last));
        return BATCH / ((double)best * 1e-3);
}

static void way_print(const char *way, CUstream stream)
{
        double got = rate(stream, launch_burn);

        CHECK(cuMemsetD8(memory, 0, 64));
        CHECK(cuCtxSynchronize());
        launch_where(stream);
        CHECK(cuStreamSynchronize(stream));
        printf("way=%s rate=%.1f sms=%d\n", way, got, count_where());
}

/* ---- ways ---------------------------------------------------------------------------------------- */

static CUcontext primary(void)
{
        CUcontext context, now_current;

        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuCtxGetCurrent(&now_current));
        if (now_current != context) {
                fprintf(stderr, "sms: what was made current is not current\n");
                exit(4);
        }
        if (!burn)
                load();
        return context;
}

static void way_primary(void)
{
        CUcontext context = primary(), of_stream = NULL, popped = NULL;

        way_print("primary", NULL);
        CHECK(cuStreamGetCtx(NULL, &of_stream));
        CHECK(cuCtxPushCurrent(context));
        CHECK(cuCtxPopCurrent(&popped));
        if (of_stream != context || popped != context) {
                fprintf(stderr, "sms: the primary context has two names\n");
                exit(4);
        }
}

static CUgreenCtx green_of(unsigned int n, CUcontext *ret)
{
        CUdevResource all, part;
        CUdevResourceDesc desc;
        unsigned int one = 1;
        CUgreenCtx green;

        CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
        CHECK(cuDevSmResourceSplitByCount(&part, &one, &all, NULL, 0, n));
        CHECK(cuDevResourceGenerateDesc(&desc, &part, 1));
        CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
        CHECK(cuCtxFromGreenCtx(ret, green));
        printf("all=%u asked=%u given=%u\n", all.sm.smCount, n, part.sm.smCount);
        return green;
}

/*
 * The runtime has the primary context's handle from a table of its own and makes it current before it retains it. So do
 * we; a green context keeps that context alive meanwhile.
 */
static void way_runtime(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_LAZY);
        CUresult (*find)(const char *, void **, int, cuuint64_t, void *) = dlsym(library, "cuGetProcAddress_v2");
        CUresult (*set)(CUcontext), (*retain)(CUcontext *, CUdevice);
        CUcontext context = primary(), again, ignored;
        CUgreenCtx shim = green_of(8, &ignored);

        CHECK(cuCtxSetCurrent(NULL));
        CHECK(cuDevicePrimaryCtxRelease(device));
        CHECK(find("cuCtxSetCurrent", (void **)&set, 12040, 0, NULL));
        CHECK(find("cuDevicePrimaryCtxRetain", (void **)&retain, 12040, 0, NULL));
        CHECK(set(context));
        CHECK(retain(&again, device));
        if (again != context) {
                fprintf(stderr, "sms: the primary context has two names\n");
                exit(4);
        }
        way_print("runtime", NULL);
        CHECK(cuGreenCtxDestroy(shim));
}

static void way_created(void)
{
        CUcontext context, now_current;
        size_t before, after, total;

        (void)primary();
        CHECK(cuMemGetInfo(&before, &total));
        CHECK(cuCtxCreate(&context, 0, 0, device));
        CHECK(cuCtxGetCurrent(&now_current));
        load();
        way_print("created", NULL);
        CHECK(cuMemFree(memory));
        CHECK(cuCtxDestroy(context));
        (void)primary();
        load();
        CHECK(cuMemGetInfo(&after, &total));
        if (now_current != context) {
                fprintf(stderr, "sms: a new context is not current\n");
                exit(4);
        }
}

static void *second_thread(void *context)
{
        CHECK(cuCtxSetCurrent(context));
        way_print("thread", NULL);
        return NULL;
}

static void way_thread(void)
{
        CUcontext context = primary();
        pthread_t thread;

        (void)pthread_create(&thread, NULL, second_thread, context);
        (void)pthread_join(thread, NULL);
}

static void way_stream(void)
{
        CUstream stream;

        (void)primary();
        CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        way_print("stream", stream);
        CHECK(cuStreamDestroy(stream));
}

static CUgraphExec graph;

static void launch_graph(CUstream stream)
{
        CHECK(cuGraphLaunch(graph, stream));
}

static void way_graph(void)
{
        CUstream in, out;
        CUgraph captured;

        (void)primary();
        CHECK(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamBeginCapture(in, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch_burn(in);
        CHECK(cuStreamEndCapture(in, &captured));
        CHECK(cuGraphInstantiate(&graph, captured, 0));
        printf("way=graph rate=%.1f sms=0\n", rate(out, launch_graph));
}

static void way_reset(void)
{
        (void)primary();
        CHECK(cuDevicePrimaryCtxReset(device));
        burn = NULL;
        (void)primary();
        way_print("reset", NULL);
}

static void way_count(void)
{
        int n = 0;

        CHECK(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        printf("way=count count=%d\n", n);
}

/* Two batches in flight, so that the device never waits for us. */
static int steady(const char *dir, const char *name)
{
        char path[4096];
        CUevent done[2];
        double begin;
        int n = 0;

        (void)primary();
        launch_burn(NULL);
        for (int i = 0; i < 2; i++) {
                CHECK(cuEventCreate(&done[i], 0));
                CHECK(cuEventRecord(done[i], NULL));
        }
        CHECK(cuCtxSynchronize());
        (void)snprintf(path, sizeof path, "%s/%s.ready", dir, name);
        (void)fclose(fopen(path, "w"));
        (void)snprintf(path, sizeof path, "%s/go", dir);
        while (access(path, F_OK) != 0)
                (void)usleep(1000);

        begin = now();
        for (int i = 0; now() - begin < 2; i = !i, n += BATCH) {
                CHECK(cuEventSynchronize(done[i]));
                for (int k = 0; k < BATCH; k++)
                        launch_burn(NULL);
                CHECK(cuEventRecord(done[i], NULL));
        }
        CHECK(cuCtxSynchronize());
        way_count();
        printf("rate=%.1f\n", n / (now() - begin));
        return 0;
}

static void use_green(unsigned int n)
{
        CUcontext context;
        CUgreenCtx green = green_of(n, &context);

        CHECK(cuCtxSetCurrent(context));
        load();
        way_print("green", NULL);
        CHECK(cuGreenCtxDestroy(green));
        burn = NULL;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } ways[] = {
                { "primary", way_primary }, { "runtime", way_runtime }, { "created", way_created },
                { "thread", way_thread },   { "stream", way_stream },   { "graph", way_graph },
                { "reset", way_reset },     { "count", way_count },
        };

        CHECK(cuInit(0));
        CHECK(cuDeviceGet(&device, 0));
        if (argc == 4 && !strcmp(argv[1], "steady"))
                return steady(argv[2], argv[3]);
        for (int i = 1; i < argc; i++) {
                size_t way = 0;

                if (!strcmp(argv[i], "-g") && i + 1 < argc) {
                        use_green((unsigned int)strtoul(argv[++i], NULL, 10));
                        continue;
                }
                while (way < sizeof ways / sizeof *ways && strcmp(ways[way].name, argv[i]))
                        way++;
                if (way == sizeof ways / sizeof *ways)
                        return 2;
                ways[way].run();
        }
        return 0;
}
