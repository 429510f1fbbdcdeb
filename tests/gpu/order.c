/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order - whether work happens in the order that a program asked for. Runs on a device, too.
 *
 *      order all | fork | hold
 *
 * all: streams, the NULL stream, events across streams, functions of the host, captured graphs.
 * fork: a child that was forked after cuInit may not use the library. hold: keeps 1 GiB until
 * killed. Prints order=ok, or what was wrong; exit status 3.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* `slow` takes 20 ms on the simulator; on a device the checks that need it are only weaker. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry sublet_fill(.param .u64 p, .param .u64 n, .param .u32 seed)\n"
                          "{\n"
                          "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
                          "  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [n]; ld.param.u32 %r1, [seed];\n"
                          "  cvta.to.global.u64 %d1, %d1;\n"
                          "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, "
                          "%nctaid.x;\n"
                          "  cvt.u64.u32 %d3, %r4; mad.wide.u32 %d3, %r2, %r3, %d3; mul.wide.u32 %d4, %r5, %r3;\n"
                          "again: setp.ge.u64 %q, %d3, %d2; @%q bra done;\n"
                          "  cvt.u32.u64 %r6, %d3; add.u32 %r6, %r6, %r1;\n"
                          "  shl.b64 %d5, %d3, 2; add.u64 %d5, %d1, %d5; st.global.u32 [%d5], %r6;\n"
                          "  add.u64 %d3, %d3, %d4; bra again;\n"
                          "done: ret;\n"
                          "}\n"
                          "// sublet.sim: duration_ns=20000000\n"
                          ".visible .entry slow() { ret; }\n";

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                CUresult must_ = (call);                                                                               \
                if (must_ != CUDA_SUCCESS)                                                                             \
                        fail(#call, must_);                                                                            \
        } while (0)

#define CHECK(what)                                                                                                    \
        do {                                                                                                           \
                if (!(what)) {                                                                                         \
                        printf("wrong=\"%s\" line=%d\n", #what, __LINE__);                                             \
                        exit(3);                                                                                       \
                }                                                                                                      \
        } while (0)

static CUdevice device;
static CUcontext context;
static CUfunction fill, slow;

static _Noreturn void fail(const char *what, CUresult r)
{
        const char *name = NULL;

        (void)cuGetErrorName(r, &name);
        printf("unexpected=%s at=\"%s\"\n", name ? name : "?", what);
        exit(3);
}

static void context_start(void)
{
        CUmodule module;

        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        MUST(cuDevicePrimaryCtxRetain(&context, device));
        MUST(cuCtxSetCurrent(context));
        MUST(cuModuleLoadData(&module, ptx));
        MUST(cuModuleGetFunction(&fill, module, "sublet_fill"));
        MUST(cuModuleGetFunction(&slow, module, "slow"));
}

static void launch_slow(CUstream stream)
{
        MUST(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void launch_fill(CUstream stream, CUdeviceptr at, uint64_t n, uint32_t seed)
{
        void *params[] = { &at, &n, &seed };

        MUST(cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static void events_tell_time(void)
{
        CUstream stream;
        CUevent begin, end;
        float ms = -1;

        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&begin, 0));
        MUST(cuEventCreate(&end, 0));
        MUST(cuEventRecord(begin, stream));
        launch_slow(stream);
        launch_slow(stream);
        MUST(cuEventRecord(end, stream));
        MUST(cuEventSynchronize(end));
        MUST(cuEventElapsedTime(&ms, begin, end));
        CHECK(ms >= 0 && ms < 5000);
        CHECK(cuStreamQuery(stream) == CUDA_SUCCESS);
        if (getenv("SUBLET_SIM"))
                CHECK(ms >= 39 && ms < 400);
        MUST(cuEventDestroy(begin));
        MUST(cuEventDestroy(end));
        MUST(cuStreamDestroy(stream));
}

static void other_streams_wait_for_events(void)
{
        CUstream a, b;
        CUevent done;

        MUST(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
        launch_slow(a);
        MUST(cuEventRecord(done, a));
        MUST(cuStreamWaitEvent(b, done, 0));
        launch_slow(b);
        MUST(cuStreamSynchronize(b));
        CHECK(cuEventQuery(done) == CUDA_SUCCESS);
        CHECK(cuStreamQuery(a) == CUDA_SUCCESS);
        MUST(cuEventDestroy(done));
        MUST(cuStreamDestroy(a));
        MUST(cuStreamDestroy(b));
}

static void the_null_stream_waits_for_blocking_ones(void)
{
        CUstream blocking;

        MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        launch_slow(blocking);
        launch_slow(NULL);
        MUST(cuStreamSynchronize(NULL));
        CHECK(cuStreamQuery(blocking) == CUDA_SUCCESS);
        launch_slow(NULL);
        launch_slow(blocking);
        MUST(cuStreamSynchronize(blocking));
        CHECK(cuStreamQuery(NULL) == CUDA_SUCCESS);
        MUST(cuStreamDestroy(blocking));
}

struct turn {
        atomic_int order, at;
        uint32_t *word;
        atomic_bool may_go;
};

static void CUDAAPI host_turn(void *argument)
{
        struct turn *turn = argument;

        while (!atomic_load(&turn->may_go))
                usleep(1000);
        *turn->word = 4711;
        atomic_store(&turn->at, atomic_fetch_add(&turn->order, 1) + 1);
}

/* What a function of the host makes is what the copy behind it takes, though it waits for us. */
static void host_functions_come_in_turn(void)
{
        struct turn turn = { 0 };
        CUstream stream, other;
        CUevent done;
        CUdeviceptr at;
        uint32_t seen = 0;

        MUST(cuMemHostAlloc((void **)&turn.word, 4096, 0));
        *turn.word = 1;
        MUST(cuMemAlloc(&at, 4096));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
        MUST(cuLaunchHostFunc(stream, host_turn, &turn));
        MUST(cuMemcpyHtoDAsync(at, turn.word, 4, stream));
        MUST(cuEventRecord(done, stream));
        MUST(cuStreamWaitEvent(other, done, 0));
        MUST(cuMemcpyDtoHAsync(&seen, at, 4, other));
        CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
        CHECK(cuEventQuery(done) == CUDA_ERROR_NOT_READY);
        CHECK(atomic_load(&turn.at) == 0);
        atomic_store(&turn.may_go, true);
        MUST(cuStreamSynchronize(other));
        CHECK(atomic_load(&turn.at) == 1);
        CHECK(seen == 4711);
        MUST(cuEventDestroy(done));
        MUST(cuStreamDestroy(stream));
        MUST(cuStreamDestroy(other));
        MUST(cuMemFree(at));
        MUST(cuMemFreeHost(turn.word));
}

static void captured_work_runs_when_launched(void)
{
        CUstreamCaptureStatus status;
        CUstream stream;
        CUgraph graph;
        CUgraphExec exec;
        CUdeviceptr at;
        uint32_t words[2] = { 9, 9 };

        MUST(cuMemAlloc(&at, 4 * MIB));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemsetD32Async(at, 0, MIB, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        MUST(cuStreamIsCapturing(stream, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        launch_fill(stream, at, MIB, 100);
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphInstantiate(&exec, graph, 0));
        MUST(cuMemcpyDtoH(words, at, sizeof(words)));
        CHECK(words[0] == 0 && words[1] == 0);
        MUST(cuGraphLaunch(exec, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemcpyDtoH(words, at, sizeof(words)));
        CHECK(words[0] == 100 && words[1] == 101);
        MUST(cuGraphExecDestroy(exec));
        MUST(cuGraphDestroy(graph));
        MUST(cuStreamDestroy(stream));
        MUST(cuMemFree(at));
}

static void copies_keep_their_shape(void)
{
        uint8_t from[64 * 16], to[64 * 16] = { 0 };
        CUDA_MEMCPY2D copy = { 0 };
        CUdeviceptr at;
        size_t pitch;

        for (size_t i = 0; i < sizeof(from); i++)
                from[i] = (uint8_t)(i * 7);
        MUST(cuMemAllocPitch(&at, &pitch, 64, 16, 4));
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = from;
        copy.srcPitch = 64;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = at;
        copy.dstPitch = pitch;
        copy.WidthInBytes = 64;
        copy.Height = 16;
        MUST(cuMemcpy2D(&copy));
        for (size_t y = 0; y < 16; y++)
                MUST(cuMemcpyDtoH(to + y * 64, at + y * pitch, 64));
        CHECK(memcmp(from, to, sizeof(from)) == 0);
        MUST(cuMemFree(at));
}

static void wrong_calls_are_refused(void)
{
        CUdeviceptr at = 0;
        CUfunction function;
        CUmodule module;
        void *address = NULL;
        CUdriverProcAddressQueryResult how;

        CHECK(cuMemAlloc(&at, 0) == CUDA_ERROR_INVALID_VALUE);
        CHECK(cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE);
        CHECK(cuModuleLoadData(&module, "not a module") != CUDA_SUCCESS);
        MUST(cuModuleLoadData(&module, ptx));
        CHECK(cuModuleGetFunction(&function, module, "nobody") == CUDA_ERROR_NOT_FOUND);
        MUST(cuModuleUnload(module));
        MUST(cuGetProcAddress("cuMemAlloc", &address, 13000, 0, &how));
        CHECK(address == (void *)cuMemAlloc && how == CU_GET_PROC_ADDRESS_SUCCESS);
        (void)cuGetProcAddress("cuNobody", &address, 13000, 0, &how);
        CHECK(!address && how == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void run_all(void)
{
        context_start();
        events_tell_time();
        other_streams_wait_for_events();
        the_null_stream_waits_for_blocking_ones();
        host_functions_come_in_turn();
        captured_work_runs_when_launched();
        copies_keep_their_shape();
        wrong_calls_are_refused();
        MUST(cuDevicePrimaryCtxRelease(device));
}

static void run_fork(void)
{
        int status = 0;
        CUdeviceptr at;
        pid_t child;

        context_start();
        child = fork();
        if (child == 0)
                _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuMemAlloc(&at, MIB) == CUDA_ERROR_NOT_INITIALIZED ?
                              0 :
                              3);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        MUST(cuMemAlloc(&at, MIB));
        MUST(cuMemFree(at));
}

static void run_hold(void)
{
        CUdeviceptr at;

        context_start();
        MUST(cuMemAlloc(&at, 1024 * MIB));
        for (;;)
                pause();
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } runs[] = { { "all", run_all }, { "fork", run_fork }, { "hold", run_hold } };

        for (size_t i = 0; argc == 2 && i < sizeof(runs) / sizeof(*runs); i++) {
                if (strcmp(argv[1], runs[i].name) != 0)
                        continue;
                runs[i].run();
                printf("order=ok\n");
                return 0;
        }
        fprintf(stderr, "usage: order all | fork | hold\n");
        return 2;
}
