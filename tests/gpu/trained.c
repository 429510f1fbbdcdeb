/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trained - a training run whose losses are the same bit for bit each time, whatever happens to its memory meanwhile:
 * for swap.sh. Needs no header and no library of CUDA's to build.
 *
 *      gcc -O2 tests/gpu/trained.c -o trained -ldl
 *      trained MIB BATCHES STEPS
 *
 * Weights of MIB, and BATCHES of as much data. Each step takes a batch, moves each weight against its error, which
 * depends on another weight, and sums the squares of the errors in a fixed order. So one word that is wrong once is in
 * all losses from there on. Prints "ready", then each 16 steps "step K loss L" (exact), and "steps K" at the end: after
 * STEPS, or, if that is 0, with its input. Exits with 1 if a call fails.
 *
 * TRAINED_MANAGED=prefetch or fault: of managed memory, as a library has it that lets programs take turns with the
 * memory of a device. It works while it has the lock of the file TRAINED_LOCK, for TRAINED_TURN seconds each time, and
 * has its memory moved to the host before it gives that back. It comes in again at once, or as the kernels touch it.
 * Prints "turn in=MS out=MS" after each; never take more than the device has free, of all programs together.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)

enum {
        SUMS = 256,
        TOLD_EACH = 16,
        MOST = 4096, /* pieces of managed memory */
};

typedef unsigned long long address;

/* CUmemLocation: type 1 is a device, 2 the host. */
struct place {
        int type, device;
};

#define INDEX                                                                                                          \
        "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %nctaid.x;\n"                \
        "  cvt.u64.u32 %d6, %r4; mad.wide.u32 %d6, %r2, %r3, %d6; mul.wide.u32 %d7, %r5, %r3;\n"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          /* p[i] between 1/2 and 1, by i and seed */
                          ".visible .entry sublet_seed(.param .u64 p, .param .u64 n, .param .u32 seed)\n"
                          "{\n"
                          "  .reg .pred %q; .reg .b32 %r<9>; .reg .b64 %d<12>;\n"
                          "  ld.param.u64 %d1, [p]; ld.param.u64 %d5, [n]; ld.param.u32 %r1, [seed];\n" INDEX
                          "again: setp.ge.u64 %q, %d6, %d5; @%q bra done;\n"
                          "  cvt.u32.u64 %r6, %d6; add.u32 %r6, %r6, %r1; mul.lo.u32 %r6, %r6, 0x9e3779b1;\n"
                          "  shr.u32 %r7, %r6, 15; xor.b32 %r6, %r6, %r7; mul.lo.u32 %r6, %r6, 0x85ebca77;\n"
                          "  shr.u32 %r6, %r6, 9; or.b32 %r6, %r6, 0x3f000000;\n"
                          "  shl.b64 %d8, %d6, 2; add.u64 %d8, %d1, %d8; st.global.u32 [%d8], %r6;\n"
                          "  add.u64 %d6, %d6, %d7; bra again;\n"
                          "done: ret;\n"
                          "}\n"
                          /* error = from[i] * data[i] - from[j]; to[i] = from[i] - error / 100 */
                          ".visible .entry sublet_train(.param .u64 from, .param .u64 to, .param .u64 data,\n"
                          "                             .param .u64 squares, .param .u64 n, .param .u32 step)\n"
                          "{\n"
                          "  .reg .pred %q; .reg .b32 %r<9>; .reg .b64 %d<16>; .reg .f32 %f<8>;\n"
                          "  ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to]; ld.param.u64 %d3, [data];\n"
                          "  ld.param.u64 %d4, [squares]; ld.param.u64 %d5, [n]; ld.param.u32 %r1, [step];\n" INDEX
                          "  sub.u64 %d8, %d5, 1;\n"
                          "again: setp.ge.u64 %q, %d6, %d5; @%q bra done;\n"
                          "  cvt.u32.u64 %r6, %d6; mad.lo.u32 %r7, %r6, 1664525, %r1; cvt.u64.u32 %d9, %r7;\n"
                          "  and.b64 %d9, %d9, %d8; shl.b64 %d9, %d9, 2; add.u64 %d9, %d1, %d9;\n"
                          "  shl.b64 %d10, %d6, 2; add.u64 %d11, %d1, %d10; add.u64 %d12, %d3, %d10;\n"
                          "  ld.global.f32 %f1, [%d11]; ld.global.f32 %f2, [%d12]; ld.global.f32 %f3, [%d9];\n"
                          "  neg.f32 %f3, %f3; fma.rn.f32 %f4, %f1, %f2, %f3;\n"
                          "  fma.rn.f32 %f5, %f4, 0fBC23D70A, %f1; mul.rn.f32 %f6, %f4, %f4;\n"
                          "  add.u64 %d13, %d2, %d10; st.global.f32 [%d13], %f5;\n"
                          "  add.u64 %d14, %d4, %d10; st.global.f32 [%d14], %f6;\n"
                          "  add.u64 %d6, %d6, %d7; bra again;\n"
                          "done: ret;\n"
                          "}\n"
                          /* one sum for each thread, in order */
                          ".visible .entry sublet_sum(.param .u64 p, .param .u64 n, .param .u64 sums)\n"
                          "{\n"
                          "  .reg .pred %q; .reg .b32 %r<9>; .reg .b64 %d<12>; .reg .f32 %f<4>;\n"
                          "  ld.param.u64 %d1, [p]; ld.param.u64 %d5, [n]; ld.param.u64 %d2, [sums];\n" INDEX
                          "  mov.f32 %f1, 0f00000000; shl.b64 %d9, %d6, 2; add.u64 %d2, %d2, %d9;\n"
                          "again: setp.ge.u64 %q, %d6, %d5; @%q bra done;\n"
                          "  shl.b64 %d8, %d6, 2; add.u64 %d8, %d1, %d8; ld.global.f32 %f2, [%d8];\n"
                          "  add.rn.f32 %f1, %f1, %f2; add.u64 %d6, %d6, %d7; bra again;\n"
                          "done: st.global.f32 [%d2], %f1; ret;\n"
                          "}\n";

static struct {
        int (*init)(unsigned int);
        int (*retain)(void **, int);
        int (*enter)(void *);
        int (*load)(void **, const void *);
        int (*function)(void **, void *, const char *);
        int (*alloc)(address *, size_t);
        int (*alloc_managed)(address *, size_t, unsigned int);
        int (*prefetch)(address, size_t, struct place, unsigned int, void *);
        int (*out)(void *, address, size_t);
        int (*launch)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                      unsigned int, void *, void **, void **);
        int (*synchronize)(void);
} cuda;

static void *seed_kernel, *train_kernel, *sum_kernel;

static void must(int result, const char *what)
{
        if (result == 0)
                return;
        printf("%s: %d\n", what, result);
        exit(1);
}

static void *symbol_find(void *library, const char *name)
{
        void *at = library ? dlsym(library, name) : NULL;

        must(at == NULL, name);
        return at;
}

static void cuda_begin(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;

        *(void **)&cuda.init = symbol_find(library, "cuInit");
        *(void **)&cuda.retain = symbol_find(library, "cuDevicePrimaryCtxRetain");
        *(void **)&cuda.enter = symbol_find(library, "cuCtxSetCurrent");
        *(void **)&cuda.load = symbol_find(library, "cuModuleLoadData");
        *(void **)&cuda.function = symbol_find(library, "cuModuleGetFunction");
        *(void **)&cuda.alloc = symbol_find(library, "cuMemAlloc_v2");
        *(void **)&cuda.alloc_managed = symbol_find(library, "cuMemAllocManaged");
        *(void **)&cuda.prefetch = symbol_find(library, "cuMemPrefetchAsync_v2");
        *(void **)&cuda.out = symbol_find(library, "cuMemcpyDtoH_v2");
        *(void **)&cuda.launch = symbol_find(library, "cuLaunchKernel");
        *(void **)&cuda.synchronize = symbol_find(library, "cuCtxSynchronize");
        must(cuda.init(0), "cuInit");
        must(cuda.retain(&context, 0), "cuDevicePrimaryCtxRetain");
        must(cuda.enter(context), "cuCtxSetCurrent");
        must(cuda.load(&module, ptx), "cuModuleLoadData");
        must(cuda.function(&seed_kernel, module, "sublet_seed"), "sublet_seed");
        must(cuda.function(&train_kernel, module, "sublet_train"), "sublet_train");
        must(cuda.function(&sum_kernel, module, "sublet_sum"), "sublet_sum");
}

static void launch(void *function, unsigned int n_blocks, void **arguments)
{
        must(cuda.launch(function, n_blocks, 1, 1, SUMS, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
}

/* ---- turns of managed memory ---- */

static struct {
        const char *how; /* NULL: memory of the device, and no turns */
        int lock;
        double seconds, ends, in;
        size_t n;
        address at[MOST];
        uint64_t bytes; /* of each */
} managed;

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the seconds that it took. */
static double all_move(struct place to)
{
        double began = now();

        for (size_t i = 0; i < managed.n; i++)
                must(cuda.prefetch(managed.at[i], managed.bytes, to, 0, NULL), "cuMemPrefetchAsync");
        must(cuda.synchronize(), "cuCtxSynchronize");
        return now() - began;
}

static void turn_begin(void)
{
        if (!managed.how)
                return;
        must(flock(managed.lock, LOCK_EX), "flock");
        managed.ends = now() + managed.seconds;
        managed.in = strcmp(managed.how, "prefetch") ? 0 : all_move((struct place){ 1, 0 });
}

static void turn_end(void)
{
        if (!managed.how)
                return;
        must(cuda.synchronize(), "cuCtxSynchronize");
        printf("turn in=%.0f out=%.0f\n", managed.in * 1e3, all_move((struct place){ 2, 0 }) * 1e3);
        must(flock(managed.lock, LOCK_UN), "flock");
        (void)usleep(20000); /* so that who waits for it has it */
}

static void managed_begin(uint64_t bytes)
{
        const char *seconds = getenv("TRAINED_TURN");

        managed.how = getenv("TRAINED_MANAGED");
        if (!managed.how)
                return;
        managed.bytes = bytes;
        managed.seconds = seconds ? strtod(seconds, NULL) : 5;
        managed.lock = open(getenv("TRAINED_LOCK") ? getenv("TRAINED_LOCK") : "", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        must(managed.lock < 0, "TRAINED_LOCK");
}

static address memory_take(uint64_t bytes)
{
        address at;

        if (!managed.how || bytes != managed.bytes) {
                must(cuda.alloc(&at, bytes), "cuMemAlloc");
                return at;
        }
        must(managed.n == MOST, "too many batches");
        must(cuda.alloc_managed(&at, bytes, 1), "cuMemAllocManaged");
        managed.at[managed.n++] = at;
        return at;
}

static address seeded(uint64_t words, unsigned int seed)
{
        address at;
        void *arguments[] = { &at, &words, &seed };

        at = memory_take(words * 4);
        launch(seed_kernel, 1024, arguments);
        return at;
}

/* Of the squares of the latest step. */
static double loss_of(address squares, uint64_t words, address sums)
{
        void *arguments[] = { &squares, &words, &sums };
        float parts[SUMS];
        double loss = 0;

        launch(sum_kernel, 1, arguments);
        must(cuda.out(parts, sums, sizeof(parts)), "cuMemcpyDtoH");
        for (int i = 0; i < SUMS; i++)
                loss += parts[i];
        return loss / (double)words;
}

static int has_ended(void)
{
        struct pollfd input = { STDIN_FILENO, POLLIN, 0 };

        return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
        uint64_t words = argc > 3 ? strtoull(argv[1], NULL, 10) * MIB / 4 : 0;
        size_t n = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
        unsigned int steps = argc > 3 ? (unsigned int)strtoul(argv[3], NULL, 10) : 0, step;
        address weights[2], squares, sums, *batches = calloc(n + 1, sizeof(*batches));

        must(!words || words & (words - 1) || !n || !batches, "trained MIB BATCHES STEPS, MIB a power of two");
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        cuda_begin();
        managed_begin(words * 4);
        turn_begin();
        weights[0] = seeded(words, 1);
        weights[1] = seeded(words, 2);
        squares = seeded(words, 3);
        sums = seeded(SUMS, 4);
        for (size_t i = 0; i < n; i++)
                batches[i] = seeded(words, 1000003u * (unsigned int)(i + 5));
        must(cuda.synchronize(), "cuCtxSynchronize");
        printf("ready\n");
        for (step = 0; steps ? step < steps : step % TOLD_EACH || !has_ended();) {
                void *arguments[] = {
                        &weights[step % 2], &weights[(step + 1) % 2], &batches[step % n], &squares, &words, &step
                };

                launch(train_kernel, 1024, arguments);
                if (++step % TOLD_EACH)
                        continue;
                printf("step %u loss %a\n", step, loss_of(squares, words, sums));
                if (managed.how && now() >= managed.ends) {
                        turn_end();
                        turn_begin();
                }
        }
        printf("steps %u\n", step);
        return 0;
}
