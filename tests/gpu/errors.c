/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors - what programs see when something goes wrong on the device, or takes long: the codes, what is left after
 * them, and how long they took. Natively and as a tenant it must be the same (errors.sh).
 *
 *      errors CASE     prints one line: "CASE WORD=VALUE...", times as WORD_ms=VALUE
 *      errors list     the names
 *
 * Each case is a process of its own, since an error of the device ends its context. For a machine with a device: the
 * simulator runs no code.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
#define SECOND 1000000000ull

static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
        ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
        ".global .align 1 .b8 text[8] = {104, 101, 108, 108, 111, 10, 0, 0};\n"
        ".visible .entry store(.param .u64 at) {\n"
        "  .reg .u64 a; ld.param.u64 a, [at]; st.global.u32 [a], 7; ret; }\n"
        ".visible .entry stop(.param .u64 at) { trap; }\n"
        ".visible .entry pause(.param .u64 at) { brkpt; ret; }\n"
        ".visible .entry shared(.param .u64 at) {\n"
        "  .reg .u32 a; mov.u32 a, 0x3fffff0; st.shared.u32 [a], 7; ret; }\n"
        ".visible .entry spin(.param .u64 at) {\n"
        "  .reg .u64 n, t, s; .reg .pred p; ld.param.u64 n, [at]; mov.u64 s, %globaltimer;\n"
        "L: mov.u64 t, %globaltimer; sub.u64 t, t, s; setp.lt.u64 p, t, n; @p bra L; ret; }\n"
        ".visible .entry say(.param .u64 at) {\n"
        "  .reg .u64 a; .reg .u32 n; mov.u64 a, text; cvta.global.u64 a, a;\n"
        "  { .param .b64 f; st.param.b64 [f], a; .param .b64 g; st.param.b64 [g], 0; .param .b32 r;\n"
        "    call (r), vprintf, (f, g); ld.param.b32 n, [r]; } ret; }\n"
        ".visible .entry heap(.param .u64 at) {\n"
        "  .reg .u64 a, m; ld.param.u64 a, [at]; { .param .b64 n; st.param.b64 [n], 1048576; .param .b64 r;\n"
        "    call (r), malloc, (n); ld.param.b64 m, [r]; } st.global.u64 [a], m; ret; }\n";

static CUcontext context;
static CUmodule module;

static double now_ms(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void context_start(unsigned int flags)
{
        CUresult r = cuInit(0);

        r = r ? r : cuDevicePrimaryCtxSetFlags(0, flags);
        r = r ? r : cuDevicePrimaryCtxRetain(&context, 0);
        r = r ? r : cuCtxSetCurrent(context);
        r = r ? r : cuModuleLoadData(&module, ptx);
        if (!r)
                return;
        printf(" start=%d\n", r);
        exit(1);
}

static CUresult launch(const char *kernel, uint64_t argument, CUstream stream)
{
        void *arguments[] = { &argument };
        CUfunction function;
        CUresult r = cuModuleGetFunction(&function, module, kernel);

        return r ? r : cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* What is left after an error: nothing of the context; and whether a new one works. */
static void aftermath(void)
{
        CUdeviceptr at = 0;

        printf(" alloc=%d", cuMemAlloc(&at, 4096));
        printf(" reset=%d", cuDevicePrimaryCtxReset(0));
        (void)cuCtxSetCurrent(NULL);
        context_start(0);
        printf(" again=%d", cuMemAlloc(&at, 4096));
        printf(",%d", launch("store", at, NULL));
        printf(",%d", cuCtxSynchronize());
}

/* ---- errors of the device ---------------------------------------------------------------------------- */

static void fails(const char *kernel, uint64_t argument)
{
        double began;

        context_start(0);
        began = now_ms();
        printf(" launch=%d", launch(kernel, argument, NULL));
        printf(" sync=%d", cuCtxSynchronize());
        printf(" sync_ms=%.1f", now_ms() - began);
        aftermath();
}

static void address(void)
{
        fails("store", 16);
}

static void misaligned(void)
{
        CUdeviceptr at;

        context_start(0);
        (void)cuMemAlloc(&at, 4096);
        printf(" launch=%d sync=", launch("store", at + 1, NULL));
        printf("%d", cuCtxSynchronize());
        aftermath();
}

static void trapped(void)
{
        fails("stop", 0);
}

static void breakpoint(void)
{
        fails("pause", 0);
}

static void shared_memory(void)
{
        fails("shared", 0);
}

static void dumped(void)
{
        char path[] = "/tmp/sublet-dump-XXXXXX", name[64];
        int fd = mkstemp(path);
        pid_t child;
        int status = 0;
        FILE *file;
        long size = 0;

        (void)close(fd);
        (void)unlink(path);
        (void)snprintf(name, sizeof(name), "%s.core", path);
        (void)setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
        (void)setenv("CUDA_COREDUMP_FILE", name, 1);
        (void)setenv("CUDA_COREDUMP_SHOW_PROGRESS", "1", 1);
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                context_start(0);
                (void)launch("store", 16, NULL);
                status = (int)cuCtxSynchronize();
                _exit(status ? status - 600 : 0);
        }
        (void)waitpid(child, &status, 0);
        file = fopen(name, "r");
        if (file) {
                (void)fseek(file, 0, SEEK_END);
                size = ftell(file);
                (void)fclose(file);
        }
        printf(" status=%#x is_there=%d", status, size > 1000);
        (void)unlink(name);
}

/* One of two processes fails. */
static void neighbour(void)
{
        int go[2], status = 0;
        pid_t child;

        (void)!pipe(go);
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                char word;

                context_start(0);
                (void)!read(go[0], &word, 1);
                (void)launch("store", 16, NULL);
                _exit(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1);
        }
        context_start(0);
        printf(" before=%d", launch("spin", SECOND, NULL));
        (void)!write(go[1], "g", 1);
        (void)waitpid(child, &status, 0);
        printf(" theirs=%#x", status);
        printf(" ours=%d", cuCtxSynchronize());
        aftermath();
}

/* ---- long waits ------------------------------------------------------------------------------------------ */

static void waits(unsigned int flags, uint64_t nsec)
{
        CUevent first, last;
        float ms = 0;
        double began;

        context_start(flags);
        (void)cuEventCreate(&first, CU_EVENT_DEFAULT);
        (void)cuEventCreate(&last, flags == CU_CTX_SCHED_BLOCKING_SYNC ? CU_EVENT_BLOCKING_SYNC : CU_EVENT_DEFAULT);
        began = now_ms();
        (void)cuEventRecord(first, NULL);
        printf(" launch=%d", launch("spin", nsec, NULL));
        (void)cuEventRecord(last, NULL);
        printf(" query=%d", cuStreamQuery(NULL));
        printf(" wait=%d", cuEventSynchronize(last));
        printf(" took=%d", (now_ms() - began) * 1e6 >= (double)nsec);
        printf(" events=%d", cuEventElapsedTime(&ms, first, last));
        printf(",%d query=%d wait_ms=%.0f", ms * 1e6 >= (double)nsec * .999, cuStreamQuery(NULL), now_ms() - began);
}

static void wait_spinning(void)
{
        waits(CU_CTX_SCHED_SPIN, 3 * SECOND);
}

static void wait_yielding(void)
{
        waits(CU_CTX_SCHED_YIELD, 3 * SECOND);
}

static void wait_blocking(void)
{
        waits(CU_CTX_SCHED_BLOCKING_SYNC, 3 * SECOND);
}

static void wait_minute(void)
{
        waits(CU_CTX_SCHED_AUTO, 65 * SECOND);
}

static void CUDA_CB called(void *context)
{
        *(bool *)context = true;
}

static void wait_callback(void)
{
        bool is_called = false;
        CUstream stream;

        context_start(0);
        (void)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        printf(" launch=%d", launch("spin", 2 * SECOND, stream));
        printf(" call=%d", cuLaunchHostFunc(stream, called, &is_called));
        printf(" before=%d", is_called);
        printf(" sync=%d", cuStreamSynchronize(stream));
        printf(" after=%d", is_called);
}

static void wait_copy(void)
{
        static char buffer[1 << 20];
        CUdeviceptr at;
        double began;

        context_start(0);
        (void)cuMemAlloc(&at, sizeof(buffer));
        began = now_ms();
        (void)launch("spin", 2 * SECOND, NULL);
        printf(" copy=%d", cuMemcpyDtoH(buffer, at, sizeof(buffer)));
        printf(" took=%d", now_ms() - began >= 2000);
}

static void free_while_it_runs(void)
{
        CUdeviceptr at;
        double began;

        context_start(0);
        (void)cuMemAlloc(&at, 64 << 20);
        began = now_ms();
        (void)launch("spin", 2 * SECOND, NULL);
        printf(" free=%d", cuMemFree(at));
        printf(" took=%d", now_ms() - began >= 2000);
}

/* ---- ends while it runs -------------------------------------------------------------------------------- */

static void ends(int signal)
{
        size_t before = 0, after = 0, total;
        double began;
        int status = 0;
        pid_t child;

        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                CUdeviceptr at;

                context_start(0);
                (void)cuMemAlloc(&at, 1 << 30);
                (void)launch("spin", 3 * SECOND, NULL);
                (void)usleep(200000);
                if (signal)
                        (void)raise(signal);
                exit(3);
        }
        (void)usleep(800000);
        began = now_ms();
        (void)waitpid(child, &status, 0);
        printf(" status=%#x end_ms=%.0f", status, now_ms() - began);
        context_start(0);
        (void)cuMemGetInfo(&before, &total);
        (void)usleep(3000000);
        (void)cuMemGetInfo(&after, &total);
        printf(" is_back=%d", after <= before + (64u << 20));
}

static void exit_while_it_runs(void)
{
        ends(0);
}

static void killed_while_it_runs(void)
{
        ends(SIGKILL);
}

static void aborted_while_it_runs(void)
{
        ends(SIGABRT);
}

static void reset_while_it_runs(void)
{
        context_start(0);
        (void)launch("spin", 2 * SECOND, NULL);
        printf(" reset=%d", cuDevicePrimaryCtxReset(0));
        (void)cuCtxSetCurrent(NULL);
        context_start(0);
        printf(" launch=%d sync=", launch("spin", 1000, NULL));
        printf("%d", cuCtxSynchronize());
}

/* ---- what is refused, and limits --------------------------------------------------------------------- */

static void too_much(void)
{
        CUfunction function = NULL;
        CUdeviceptr at;
        void *host;
        uint64_t argument = 0;
        void *arguments[] = { &argument };

        context_start(0);
        printf(" device=%d", cuMemAlloc(&at, (size_t)1 << 42));
        printf(" managed=%d", cuMemAllocManaged(&at, (size_t)1 << 50, CU_MEM_ATTACH_GLOBAL));
        printf(" host=%d", cuMemAllocHost(&host, (size_t)1 << 44));
        printf(" addresses=%d", cuMemAddressReserve(&at, (size_t)1 << 52, 0, 0, 0));
        printf(" none=%d", cuMemAlloc(&at, 0));
        printf(" free=%d", cuMemFree(16));
        (void)cuModuleGetFunction(&function, module, "spin");
        printf(" threads=%d", cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, arguments, NULL));
        printf(" shared=%d", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, arguments, NULL));
        printf(" together=%d", cuLaunchCooperativeKernel(function, 1 << 20, 1, 1, 1, 1, 1, 0, NULL, arguments));
        printf(" after=%d", launch("spin", 1000, NULL));
        printf(",%d", cuCtxSynchronize());
}

static void limits(void)
{
        static const struct {
                CUlimit limit;
                size_t size;
        } some[] = { { CU_LIMIT_STACK_SIZE, 8 << 10 },
                     { CU_LIMIT_PRINTF_FIFO_SIZE, 64 << 20 },
                     { CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20 },
                     { CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 4 << 20 } };
        CUdeviceptr at;
        uint64_t got = 0;

        context_start(0);
        for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
                size_t is = 0;

                printf(" limit=%d", cuCtxSetLimit(some[i].limit, some[i].size));
                printf(",%d", cuCtxGetLimit(&is, some[i].limit));
                printf(",%d", is >= some[i].size);
        }
        (void)cuMemAlloc(&at, 4096);
        printf(" launch=%d", launch("heap", at, NULL));
        printf(" copy=%d", cuMemcpyDtoH(&got, at, sizeof(got)));
        printf(" got=%d reset=%d", got != 0, cuCtxResetPersistingL2Cache());
        printf(" say=%d", launch("say", 0, NULL));
        printf(",%d", cuCtxSynchronize());
}

/* A handle of a process that has ended. */
static void handle_of_the_dead(void)
{
        CUipcMemHandle handle = { { 0 } };
        CUdeviceptr at;
        int fds[2];
        pid_t child;

        (void)!pipe(fds);
        (void)fflush(stdout);
        child = fork();
        if (child == 0) {
                context_start(0);
                (void)cuMemAlloc(&at, 4 << 20);
                (void)cuIpcGetMemHandle(&handle, at);
                (void)!write(fds[1], &handle, sizeof(handle));
                _exit(0);
        }
        (void)!read(fds[0], &handle, sizeof(handle));
        (void)waitpid(child, NULL, 0);
        context_start(0);
        printf(" open=%d", cuIpcOpenMemHandle(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        printf(" alloc=%d", cuMemAlloc(&at, 4096));
}

#define CASE(f)                                                                                                        \
        {                                                                                                              \
#f, f                                                                                                  \
        }

static const struct {
        const char *name;
        void (*run)(void);
} cases[] = {
        CASE(address),
        CASE(misaligned),
        CASE(trapped),
        CASE(breakpoint),
        CASE(shared_memory),
        CASE(dumped),
        CASE(neighbour),
        CASE(wait_spinning),
        CASE(wait_yielding),
        CASE(wait_blocking),
        CASE(wait_minute),
        CASE(wait_callback),
        CASE(wait_copy),
        CASE(free_while_it_runs),
        CASE(exit_while_it_runs),
        CASE(killed_while_it_runs),
        CASE(aborted_while_it_runs),
        CASE(reset_while_it_runs),
        CASE(too_much),
        CASE(limits),
        CASE(handle_of_the_dead),
};

int main(int argc, char **argv)
{
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (argc == 2 && !strcmp(argv[1], "list"))
                        puts(cases[i].name);
                if (argc != 2 || strcmp(argv[1], cases[i].name))
                        continue;
                printf("%s", cases[i].name);
                cases[i].run();
                printf("\n");
                return 0;
        }
        return argc == 2 && !strcmp(argv[1], "list") ? 0 : 2;
}
