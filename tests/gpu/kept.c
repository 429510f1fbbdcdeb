/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept - holds GPU memory and says all the time whether it is still what was written. For suspend.sh and the
 * integration test suspend: what a tenant holds is moved meanwhile. Needs no header and no library of CUDA's to build.
 *
 *      gcc -O2 tests/gpu/kept.c -o kept -ldl
 *      kept MIB [SHARED|FED]
 *
 * Fills MIB in pieces of 64 MiB and one of 4 KiB, prints "ready"; then, until it is killed, reads all of it, writes
 * a sum of the small piece, allocates and frees a little, and prints "round N". Exits with 1 if a byte differs or a
 * call fails. SHARED: exports a piece to other processes first. FED: a round for each line of its input.
 *
 * KEPT_FILLED=MIB in its environment: only so much of each piece is filled and read. The simulator has each page that
 * was written in the host's memory, and moves no others.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        PIECE = 64 << 20,
        SMALL = 4096,
};

typedef unsigned long long address;

struct cuda {
        int (*init)(unsigned int);
        int (*retain)(void **, int);
        int (*enter)(void *);
        int (*alloc)(address *, size_t);
        int (*release)(address);
        int (*out)(address, const void *, size_t);
        int (*back)(void *, address, size_t);
        int (*share)(void *, address);
};

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

static void load(struct cuda *cuda)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        *(void **)&cuda->init = symbol_find(library, "cuInit");
        *(void **)&cuda->retain = symbol_find(library, "cuDevicePrimaryCtxRetain");
        *(void **)&cuda->enter = symbol_find(library, "cuCtxSetCurrent");
        *(void **)&cuda->alloc = symbol_find(library, "cuMemAlloc_v2");
        *(void **)&cuda->release = symbol_find(library, "cuMemFree_v2");
        *(void **)&cuda->out = symbol_find(library, "cuMemcpyHtoD_v2");
        *(void **)&cuda->back = symbol_find(library, "cuMemcpyDtoH_v2");
        *(void **)&cuda->share = symbol_find(library, "cuIpcGetMemHandle");
}

/* Each piece has bytes of its own. */
static void pattern(uint64_t *words, size_t n, uint64_t seed)
{
        for (size_t i = 0; i < n; i++)
                words[i] = (seed + i) * 0x9e3779b97f4a7c15u;
}

static size_t size_filled(void)
{
        const char *text = getenv("KEPT_FILLED");
        size_t size = text ? strtoul(text, NULL, 10) << 20 : PIECE;

        must(!size || size > PIECE, "KEPT_FILLED, 1 to 64");
        return size;
}

static void fill(const struct cuda *cuda, address *pieces, size_t n, uint64_t *words)
{
        size_t size = size_filled();

        for (size_t i = 0; i < n; i++) {
                must(cuda->alloc(&pieces[i], PIECE), "cuMemAlloc");
                pattern(words, size / 8, i << 32);
                must(cuda->out(pieces[i], words, size), "cuMemcpyHtoD");
        }
}

static void compare(const struct cuda *cuda, const address *pieces, size_t n, uint64_t *words, uint64_t *wanted)
{
        size_t size = size_filled();

        for (size_t i = 0; i < n; i++) {
                must(cuda->back(words, pieces[i], size), "cuMemcpyDtoH");
                pattern(wanted, size / 8, i << 32);
                must(memcmp(words, wanted, size), "a piece differs");
        }
}

int main(int argc, char **argv)
{
        size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) / 64 : 1;
        address *pieces = calloc(n + 1, sizeof(*pieces)), small, more;
        uint64_t *words = malloc(PIECE), *wanted = malloc(PIECE), sum = 1, read_sum;
        unsigned char handle[64];
        char line[80];
        struct cuda cuda;
        void *context;

        must(!n || !pieces || !words || !wanted, "kept MIB, at least 64");
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        load(&cuda);
        must(cuda.init(0), "cuInit");
        must(cuda.retain(&context, 0), "cuDevicePrimaryCtxRetain");
        must(cuda.enter(context), "cuCtxSetCurrent");
        fill(&cuda, pieces, n, words);
        must(cuda.alloc(&small, SMALL), "cuMemAlloc");
        must(cuda.out(small, &sum, sizeof(sum)), "cuMemcpyHtoD");
        if (argc > 2 && !strcmp(argv[2], "SHARED"))
                must(cuda.share(handle, pieces[0]), "cuIpcGetMemHandle");
        printf("ready\n");
        for (unsigned long round = 1;; round++) {
                if (argc > 2 && !strcmp(argv[2], "FED") && !fgets(line, sizeof(line), stdin))
                        return 0;
                compare(&cuda, pieces, n, words, wanted);
                must(cuda.back(&read_sum, small, sizeof(read_sum)), "cuMemcpyDtoH");
                must(read_sum != sum, "the small piece differs");
                sum = sum * 3 + round;
                must(cuda.out(small, &sum, sizeof(sum)), "cuMemcpyHtoD");
                must(cuda.alloc(&more, PIECE), "cuMemAlloc");
                must(cuda.release(more), "cuMemFree");
                printf("round %lu\n", round);
                (void)usleep(20000);
        }
}
