/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swapped - holds GPU memory in pieces, which a kernel fills and compares: for swap.sh and the integration test
 * suspend-copies, which move it meanwhile. Needs no header and no library of CUDA's to build.
 *
 *      gcc -O2 tests/gpu/swapped.c -o swapped -ldl
 *      swapped N MIB [pool|vmm|managed]          SWAPPED_DEVICE=1: on that one, instead of 0
 *
 * Prints "ready" when N pieces of MIB are filled: of cuMemAlloc, of the stream-ordered allocator, or of virtual memory
 * (one reservation, a handle for each piece); managed: of cuMemAlloc, and a managed range beside them. Then for each
 * line of its input: compares all words, prints "look wrong=W ms=T", and fills with other words. Ends with its input;
 * exits with 1 if a call fails. After the line "leave" it ends at once, and leaves a child that has its files and
 * makes one driver call of its own.
 */
#include <dlfcn.h>
#include <fcntl.h>
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
} cuda;

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
}

static void pieces_make(address *pieces, size_t n, size_t size, const char *how)
{
        struct allocation allocation = { .type = 1, .location = 1 };
        struct access access = { 1, 0, 3 };
        address base = 0, handle;

        if (!strcmp(how, "managed"))
                must(cuda.alloc_managed(&base, size, 1), "cuMemAllocManaged");
        base = 0;
        if (!strcmp(how, "vmm"))
                must(cuda.reserve(&base, n * size, 0, 0, 0), "cuMemAddressReserve");
        for (size_t i = 0; i < n; i++) {
                pieces[i] = base + i * size;
                if (!strcmp(how, "pool"))
                        must(cuda.alloc_async(&pieces[i], size, NULL), "cuMemAllocAsync");
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

        must(cuda.launch(function, 1024, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
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

int main(int argc, char **argv)
{
        size_t n = argc > 2 ? strtoul(argv[1], NULL, 10) : 1, size = (argc > 2 ? strtoull(argv[2], NULL, 10) : 2) * MIB;
        address *pieces = calloc(n, sizeof(*pieces)), bad;
        const char *how = argc > 3 ? argv[3] : "", *device = getenv("SWAPPED_DEVICE");
        void *context, *module, *fill, *differ;
        char line[80];

        must(!n || !size || !pieces, "swapped N MIB [pool|vmm|managed]");
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        cuda_load();
        must(cuda.init(0), "cuInit");
        must(cuda.retain(&context, device ? atoi(device) : 0), "cuDevicePrimaryCtxRetain");
        must(cuda.enter(context), "cuCtxSetCurrent");
        must(cuda.load(&module, ptx), "cuModuleLoadData");
        must(cuda.function(&fill, module, "sublet_fill"), "sublet_fill");
        must(cuda.function(&differ, module, "sublet_check"), "sublet_check");
        must(cuda.alloc(&bad, 4096), "cuMemAlloc");
        pieces_make(pieces, n, size, how);
        for (unsigned int round = 0;; round++) {
                uint32_t wrong = UINT32_MAX;
                double began;

                for (size_t i = 0; i < n; i++)
                        launch(fill, pieces[i], size / 4, (unsigned int)i * 2654435761u + round, bad);
                must(cuda.synchronize(), "cuCtxSynchronize");
                if (!round)
                        printf("ready\n");
                if (!fgets(line, sizeof(line), stdin))
                        return 0;
                if (!strcmp(line, "leave\n"))
                        leave();
                began = now_ms();
                must(cuda.set(bad, 0, 1024), "cuMemsetD32");
                for (size_t i = 0; i < n; i++)
                        launch(differ, pieces[i], size / 4, (unsigned int)i * 2654435761u + round, bad);
                must(cuda.synchronize(), "cuCtxSynchronize");
                must(cuda.out(&wrong, bad, sizeof(wrong)), "cuMemcpyDtoH");
                printf("look wrong=%u ms=%.1f\n", wrong, now_ms() - began);
        }
}
