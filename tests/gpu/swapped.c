/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swapped - holds GPU memory in pieces, which a kernel fills and compares: for swap.sh and the integration test
 * suspend-copies, which move it meanwhile. Needs no header and no library of CUDA's to build.
 *
 *      gcc -O2 tests/gpu/swapped.c -o swapped -ldl
 *      swapped N MIB [pool|vmm|managed|array|graph]          SWAPPED_DEVICE=1: on that one, instead of 0
 *
 * Prints "ready" when N pieces of MIB are filled: of cuMemAlloc, of the stream-ordered allocator, or of virtual memory
 * (one reservation, a handle for each piece); managed: of cuMemAlloc and, each second, of cuMemAllocManaged; array: of
 * cuArrayCreate, by way of a piece of cuMemAlloc; graph: of cuMemAlloc, compared by a graph of kernels that was
 * made after each filling. Then for each line of its input: compares all words, prints "look wrong=W ms=T", and fills
 * with other words. Ends with its input; exits with 1 if a call fails. After the line "prefetch" it first has the
 * managed ones brought to the device, and after "duplicate" says that they are read mostly; after "leave" it ends at
 * once, and leaves a child that has its files and makes one driver call of its own.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)

typedef unsigned long long address;

static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry sublet_fill(.param .u64 p, .param .u64 n, .param .u32 seed)\n"
        "{\n"
        "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
        "  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [n]; ld.param.u32 %r1, [seed];\n"
        "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %nctaid.x;\n"
        "  cvt.u64.u32 %d3, %r4; mad.wide.u32 %d3, %r2, %r3, %d3; mul.wide.u32 %d4, %r5, %r3;\n"
        "again: setp.ge.u64 %q, %d3, %d2; @%q bra done;\n"
        "  cvt.u32.u64 %r6, %d3; add.u32 %r6, %r6, %r1;\n"
        "  shl.b64 %d5, %d3, 2; add.u64 %d5, %d1, %d5; st.global.u32 [%d5], %r6;\n"
        "  add.u64 %d3, %d3, %d4; bra again;\n"
        "done: ret;\n"
        "}\n"
        ".visible .entry sublet_check(.param .u64 p, .param .u64 n, .param .u32 seed, .param .u64 bad)\n"
        "{\n"
        "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
        "  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [n]; ld.param.u32 %r1, [seed];\n"
        "  ld.param.u64 %d6, [bad];\n"
        "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %nctaid.x;\n"
        "  cvt.u64.u32 %d3, %r4; mad.wide.u32 %d3, %r2, %r3, %d3; mul.wide.u32 %d4, %r5, %r3;\n"
        "again: setp.ge.u64 %q, %d3, %d2; @%q bra done;\n"
        "  cvt.u32.u64 %r6, %d3; add.u32 %r6, %r6, %r1;\n"
        "  shl.b64 %d5, %d3, 2; add.u64 %d5, %d1, %d5; ld.global.u32 %r7, [%d5];\n"
        "  setp.ne.u32 %q, %r7, %r6; @%q red.global.add.u32 [%d6], 1;\n"
        "  add.u64 %d3, %d3, %d4; bra again;\n"
        "done: ret;\n"
        "}\n";

/* CUmemAllocationProp and CUmemAccessDesc: type 1 is pinned, location 1 a device, flags 3 reading and writing. */
struct allocation {
        int type, handles, location, device;
        void *metadata;
        unsigned char flags[8];
};
struct access {
        int location, device, flags;
};

/* CUmemLocation: kind 1 is a device. */
struct place {
        int kind, device;
};

/* CUDA_ARRAY_DESCRIPTOR and CUDA_MEMCPY2D: format 3 is a word, kind 2 a device's memory and 3 an array. */
struct shape {
        size_t width, height;
        int format;
        unsigned int channels;
};
struct copy_end {
        size_t x, y;
        int kind;
        void *host;
        address device;
        void *array;
        size_t pitch;
};
struct copy {
        struct copy_end from, to;
        size_t width, height;
};

static struct {
        int (*init)(unsigned int);
        int (*retain)(void **, int);
        int (*enter)(void *);
        int (*load)(void **, const void *);
        int (*function)(void **, void *, const char *);
        int (*alloc)(address *, size_t);
        int (*alloc_async)(address *, size_t, void *);
        int (*alloc_managed)(address *, size_t, unsigned int);
        int (*reserve)(address *, size_t, size_t, address, address);
        int (*create)(address *, size_t, const struct allocation *, address);
        int (*map)(address, size_t, size_t, address, address);
        int (*allow)(address, size_t, const struct access *, size_t);
        int (*set)(address, unsigned int, size_t);
        int (*out)(void *, address, size_t);
        int (*launch)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                      unsigned int, void *, void **, void **);
        int (*synchronize)(void);
        int (*array)(void **, const struct shape *);
        int (*copy)(const struct copy *);
        int (*stream)(void **, unsigned int);
        int (*capture)(void *, int);
        int (*captured)(void *, void **);
        int (*instantiate)(void **, void *, unsigned long long);
        int (*run)(void *, void *);
        int (*forget)(void *);
        int (*forget_exec)(void *);
        int (*prefetch)(address, size_t, struct place, unsigned int, void *);
        int (*advise)(address, size_t, int, struct place);
} cuda;

/* Kernels go there: a stream that is captured, or the default one. */
static void *stream;

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

static void cuda_load(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        *(void **)&cuda.init = symbol_find(library, "cuInit");
        *(void **)&cuda.retain = symbol_find(library, "cuDevicePrimaryCtxRetain");
        *(void **)&cuda.enter = symbol_find(library, "cuCtxSetCurrent");
        *(void **)&cuda.load = symbol_find(library, "cuModuleLoadData");
        *(void **)&cuda.function = symbol_find(library, "cuModuleGetFunction");
        *(void **)&cuda.alloc = symbol_find(library, "cuMemAlloc_v2");
        *(void **)&cuda.alloc_async = symbol_find(library, "cuMemAllocAsync");
        *(void **)&cuda.alloc_managed = symbol_find(library, "cuMemAllocManaged");
        *(void **)&cuda.reserve = symbol_find(library, "cuMemAddressReserve");
        *(void **)&cuda.create = symbol_find(library, "cuMemCreate");
        *(void **)&cuda.map = symbol_find(library, "cuMemMap");
        *(void **)&cuda.allow = symbol_find(library, "cuMemSetAccess");
        *(void **)&cuda.set = symbol_find(library, "cuMemsetD32_v2");
        *(void **)&cuda.out = symbol_find(library, "cuMemcpyDtoH_v2");
        *(void **)&cuda.launch = symbol_find(library, "cuLaunchKernel");
        *(void **)&cuda.synchronize = symbol_find(library, "cuCtxSynchronize");
        *(void **)&cuda.array = symbol_find(library, "cuArrayCreate_v2");
        *(void **)&cuda.copy = symbol_find(library, "cuMemcpy2D_v2");
        *(void **)&cuda.stream = symbol_find(library, "cuStreamCreate");
        *(void **)&cuda.capture = symbol_find(library, "cuStreamBeginCapture_v2");
        *(void **)&cuda.captured = symbol_find(library, "cuStreamEndCapture");
        *(void **)&cuda.instantiate = symbol_find(library, "cuGraphInstantiateWithFlags");
        *(void **)&cuda.run = symbol_find(library, "cuGraphLaunch");
        *(void **)&cuda.forget = symbol_find(library, "cuGraphDestroy");
        *(void **)&cuda.forget_exec = symbol_find(library, "cuGraphExecDestroy");
        *(void **)&cuda.advise = symbol_find(library, "cuMemAdvise_v2");
        *(void **)&cuda.prefetch = symbol_find(library, "cuMemPrefetchAsync_v2");
}

static void pieces_make(address *pieces, size_t n, size_t size, const char *how)
{
        struct allocation allocation = { .type = 1, .location = 1 };
        struct access access = { 1, 0, 3 };
        address base = 0, handle;

        if (!strcmp(how, "vmm"))
                must(cuda.reserve(&base, n * size, 0, 0, 0), "cuMemAddressReserve");
        for (size_t i = 0; i < n; i++) {
                pieces[i] = base + i * size;
                if (!strcmp(how, "pool"))
                        must(cuda.alloc_async(&pieces[i], size, NULL), "cuMemAllocAsync");
                else if (!strcmp(how, "managed") && i % 2)
                        must(cuda.alloc_managed(&pieces[i], size, 1), "cuMemAllocManaged");
                else if (strcmp(how, "vmm"))
                        must(cuda.alloc(&pieces[i], size), "cuMemAlloc");
                else if (cuda.create(&handle, size, &allocation, 0) || cuda.map(pieces[i], size, 0, handle, 0))
                        must(1, "cuMemMap");
        }
        if (base)
                must(cuda.allow(base, n * size, &access, 1), "cuMemSetAccess");
}

static void launch(void *function, address at, uint64_t words, unsigned int seed, address bad)
{
        void *arguments[] = { &at, &words, &seed, &bad };

        must(cuda.launch(function, 1024, 1, 1, 256, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
}

/* ---- what is filled, and how it is compared ---- */

static struct {
        size_t n, size;
        address *pieces, bad, through; /* through: of arrays */
        void **arrays;
        bool has_graph;
        void *graph, *exec;
        void *fill, *differ;
} all;

#define ROW 16384ull /* bytes of an array's row */

static void arrays_make(void)
{
        const struct shape shape = { ROW / 4, all.size / ROW, 3, 1 };

        all.arrays = calloc(all.n, sizeof(*all.arrays));
        must(!all.arrays, "calloc");
        must(cuda.alloc(&all.through, all.size), "cuMemAlloc");
        for (size_t i = 0; i < all.n; i++)
                must(cuda.array(&all.arrays[i], &shape), "cuArrayCreate");
}

static void array_copy(void *array, bool is_back)
{
        const struct copy_end linear = { .kind = 2, .device = all.through, .pitch = ROW },
                              it = { .kind = 3, .array = array };
        const struct copy copy = { is_back ? it : linear, is_back ? linear : it, ROW, all.size / ROW };

        must(cuda.copy(&copy), "cuMemcpy2D");
}

static unsigned int seed_of(size_t i, unsigned int round)
{
        return (unsigned int)i * 2654435761u + round;
}

static void pieces_fill(unsigned int round)
{
        for (size_t i = 0; i < all.n; i++) {
                launch(all.fill, all.arrays ? all.through : all.pieces[i], all.size / 4, seed_of(i, round), all.bad);
                if (all.arrays)
                        array_copy(all.arrays[i], false);
        }
        must(cuda.synchronize(), "cuCtxSynchronize");
}

static void pieces_compare(unsigned int round)
{
        for (size_t i = 0; i < all.n; i++) {
                if (all.arrays)
                        array_copy(all.arrays[i], true);
                launch(all.differ, all.arrays ? all.through : all.pieces[i], all.size / 4, seed_of(i, round), all.bad);
        }
}

/* Of what pieces_compare launches. */
static void graph_make(unsigned int round)
{
        if (all.exec) {
                must(cuda.forget_exec(all.exec), "cuGraphExecDestroy");
                must(cuda.forget(all.graph), "cuGraphDestroy");
        }
        must(cuda.capture(stream, 0), "cuStreamBeginCapture");
        pieces_compare(round);
        must(cuda.captured(stream, &all.graph), "cuStreamEndCapture");
        must(cuda.instantiate(&all.exec, all.graph, 0), "cuGraphInstantiate");
}

static void managed_tell(const char *line)
{
        const struct place here = { 1, 0 };
        enum { READ_MOSTLY = 1 };

        for (size_t i = 1; i < all.n; i += 2)
                if (!strcmp(line, "prefetch\n"))
                        must(cuda.prefetch(all.pieces[i], all.size, here, 0, NULL), "cuMemPrefetchAsync");
                else if (!strcmp(line, "duplicate\n"))
                        must(cuda.advise(all.pieces[i], all.size, READ_MOSTLY, here), "cuMemAdvise");
}

static double now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* What it has is its child's from here on, which does nothing with it. */
static void leave(void)
{
        char version[72] = "";
        int fd;

        if (fork())
                _exit(0);
        fd = open("/dev/nvidiactl", O_RDWR);
        (void)ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', 0xd2, sizeof(version)), version);
        printf("left\n");
        while (fgetc(stdin) != EOF)
                ;
        _exit(0);
}

static void begin(const char *how, const char *device)
{
        void *context, *module;

        cuda_load();
        must(cuda.init(0), "cuInit");
        must(cuda.retain(&context, device ? atoi(device) : 0), "cuDevicePrimaryCtxRetain");
        must(cuda.enter(context), "cuCtxSetCurrent");
        must(cuda.load(&module, ptx), "cuModuleLoadData");
        must(cuda.function(&all.fill, module, "sublet_fill"), "sublet_fill");
        must(cuda.function(&all.differ, module, "sublet_check"), "sublet_check");
        must(cuda.alloc(&all.bad, 4096), "cuMemAlloc");
        if (!strcmp(how, "array"))
                arrays_make();
        else
                pieces_make(all.pieces, all.n, all.size, how);
        all.has_graph = !strcmp(how, "graph");
        if (all.has_graph)
                must(cuda.stream(&stream, 0), "cuStreamCreate");
}

int main(int argc, char **argv)
{
        char line[80];

        all.n = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
        all.size = argc > 2 ? strtoull(argv[2], NULL, 10) * MIB : 0;
        all.pieces = calloc(all.n + 1, sizeof(*all.pieces));
        must(!all.n || !all.size || !all.pieces, "swapped N MIB [pool|vmm|managed|array|graph]");
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        begin(argc > 3 ? argv[3] : "", getenv("SWAPPED_DEVICE"));
        for (unsigned int round = 0;; round++) {
                uint32_t wrong = UINT32_MAX;
                double began;

                pieces_fill(round);
                if (all.has_graph)
                        graph_make(round);
                if (!round)
                        printf("ready\n");
                if (!fgets(line, sizeof(line), stdin))
                        return 0;
                if (!strcmp(line, "leave\n"))
                        leave();
                managed_tell(line);
                began = now_ms();
                must(cuda.set(all.bad, 0, 1024), "cuMemsetD32");
                if (all.has_graph)
                        must(cuda.run(all.exec, stream), "cuGraphLaunch");
                else
                        pieces_compare(round);
                must(cuda.synchronize(), "cuCtxSynchronize");
                must(cuda.out(&wrong, all.bad, sizeof(wrong)), "cuMemcpyDtoH");
                printf("look wrong=%u ms=%.1f\n", wrong, now_ms() - began);
        }
}
