/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What launches cost, and what a few of them do.
 *
 * burn is the load generator of the measurements (tests/gpu/burn.h): each thread does n rounds of four
 * multiply-adds. An H200 has 132 multiprocessors of 128 lanes; at 1.665 GHz, the clock under this
 * load, 1056 blocks of 256 threads and n = 20000 take 0.77 ms, as measured. A multiprocessor takes
 * 8 such blocks at a time, so what is not a multiple of 1056 blocks rounds up; and one round cannot
 * be shorter than its chain of dependent instructions, 11 ns.
 *
 * In a green context it has fewer multiprocessors; a setting is for all of them.
 *
 * Kernels that only move memory cost their bytes at 3 TB/s. SUBLET_SIM_KERNEL_NS="name=ns,other=ns"
 * sets the cost of entries by name; a bare number is for all that are not named.
 */
#include "sim/cuda/work/module.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum {
        LAUNCH_NS = 1500, /* an empty kernel */
        MULTIPROCESSORS = 132,
        THREADS_RESIDENT = 2048,
        ROUND_CHAIN_NS = 11,
};

#define LANES_PER_NS (128 * 1.665) /* multiply-adds of one multiprocessor */
#define BYTES_PER_NS 3000.0

static uint64_t param(const struct op *op, size_t i)
{
        const CUfunction function = op->kernel.function;
        uint64_t value = 0;

        if (i < function->n_params)
                memcpy(&value, op->kernel.params + function->at[i], function->length[i] < 8 ? function->length[i] : 8);
        return value;
}

/* ---- costs --------------------------------------------------------------------------------- */

static uint64_t cost_nop(const struct op *op, uint64_t multiprocessors)
{
        (void)multiprocessors;
        (void)op;
        return LAUNCH_NS;
}

static uint64_t cost_bytes(uint64_t n_words)
{
        return LAUNCH_NS + (uint64_t)((double)n_words * 4 / BYTES_PER_NS);
}

static uint64_t cost_fill(const struct op *op, uint64_t multiprocessors)
{
        (void)multiprocessors;
        return cost_bytes(param(op, 2));
}

static uint64_t cost_stream(const struct op *op, uint64_t multiprocessors)
{
        (void)multiprocessors;
        return cost_bytes(param(op, 1));
}

static uint64_t cost_burn(const struct op *op, uint64_t multiprocessors)
{
        const uint32_t *grid = op->kernel.grid, *block = op->kernel.block;
        uint64_t threads = (uint64_t)block[0] * block[1] * block[2], rounds = param(op, 1);
        uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
        uint64_t resident = multiprocessors * (uint64_t)(threads < THREADS_RESIDENT ? THREADS_RESIDENT / threads : 1);
        uint64_t waves = (blocks + resident - 1) / resident;
        uint64_t per_unit =
                blocks < resident ? (blocks + multiprocessors - 1) / multiprocessors : resident / multiprocessors;
        double round = (double)(threads * per_unit) * 4 / LANES_PER_NS;

        if (round < ROUND_CHAIN_NS)
                round = ROUND_CHAIN_NS;
        return LAUNCH_NS + (uint64_t)((double)(waves * rounds) * round);
}

/* all_reduce(name, ranks, ns): the time that it takes once all ranks are there. */
static uint64_t cost_meeting(const struct op *op, uint64_t multiprocessors)
{
        (void)multiprocessors;
        return LAUNCH_NS + param(op, 2);
}

struct meets kernel_meets(const struct op *op)
{
        if (op->kernel.function->kernel->cost != cost_meeting)
                return (struct meets){ 0 };
        return (struct meets){ param(op, 0), (uint32_t)param(op, 1) };
}

/* ---- work ---------------------------------------------------------------------------------- */

/* Calls each(words, n, index of the first, argument) for every piece of u32 p[n]. */
static CUresult each_piece(uint64_t at, uint64_t n, void (*each)(uint32_t *, uint64_t, uint64_t, void *),
                           void *argument)
{
        for (uint64_t i = 0; i < n;) {
                uint64_t have = 0, m;
                uint8_t *bytes = bytes_at(at + i * 4, &have);

                m = have / 4 < n - i ? have / 4 : n - i;
                if (!bytes || !m)
                        return CUDA_ERROR_ILLEGAL_ADDRESS;
                each((uint32_t *)(void *)bytes, m, i, argument);
                i += m;
        }
        return CUDA_SUCCESS;
}

static void each_fill(uint32_t *words, uint64_t n, uint64_t first, void *argument)
{
        uint32_t value = *(const uint32_t *)argument;

        (void)first;
        for (uint64_t i = 0; i < n; i++)
                words[i] = value;
}

static CUresult work_fill(const struct op *op)
{
        uint32_t value = (uint32_t)param(op, 1);

        return each_piece(param(op, 0), param(op, 2), each_fill, &value);
}

static void each_count(uint32_t *words, uint64_t n, uint64_t first, void *argument)
{
        uint32_t seed = *(const uint32_t *)argument + (uint32_t)first;

        for (uint64_t i = 0; i < n; i++)
                words[i] = seed + (uint32_t)i;
}

static CUresult work_count(const struct op *op)
{
        uint32_t seed = (uint32_t)param(op, 2);

        return each_piece(param(op, 0), param(op, 1), each_count, &seed);
}

struct check {
        uint32_t seed, wrong;
};

static void each_check(uint32_t *words, uint64_t n, uint64_t first, void *argument)
{
        struct check *check = argument;

        for (uint64_t i = 0; i < n; i++)
                check->wrong += words[i] != check->seed + (uint32_t)(first + i);
}

static CUresult work_check(const struct op *op)
{
        struct check check = { (uint32_t)param(op, 2), 0 };
        uint64_t have = 0;
        uint8_t *bad = bytes_at(param(op, 3), &have);
        CUresult r = each_piece(param(op, 0), param(op, 1), each_check, &check);
        uint32_t count;

        if (r != CUDA_SUCCESS)
                return r;
        if (!bad || have < sizeof(count))
                return CUDA_ERROR_ILLEGAL_ADDRESS;
        memcpy(&count, bad, sizeof(count));
        count += check.wrong;
        memcpy(bad, &count, sizeof(count));
        return CUDA_SUCCESS;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct kernel kernels[] = {
#define KERNEL(name, cost, work) { #name, cost, work },
#include "sim/cuda/work/kernels.def"
#undef KERNEL
};

static const struct kernel unknown = { "", cost_nop, NULL };

const struct kernel *kernel_named(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
                if (strcmp(kernels[i].name, name) == 0)
                        return &kernels[i];
        return &unknown;
}

/* "a=5000,b=70,1000": the cost of a name; 0: none is set. */
static uint64_t cost_by_setting(const char *text, const char *name)
{
        uint64_t others = 0;

        while (text && *text) {
                size_t length = strcspn(text, ",");
                const char *equals = memchr(text, '=', length);

                if (!equals)
                        others = strtoull(text, NULL, 10);
                else if (strlen(name) == (size_t)(equals - text) && memcmp(text, name, strlen(name)) == 0)
                        return strtoull(equals + 1, NULL, 10);
                text += length + (text[length] == ',');
        }
        return others;
}

uint64_t kernel_cost(const struct op *op, uint32_t multiprocessors)
{
        uint32_t have = multiprocessors ? multiprocessors : MULTIPROCESSORS;
        const CUfunction function = op->kernel.function;
        uint64_t set = cost_by_setting(getenv("SUBLET_SIM_KERNEL_NS"), function->name);

        if (!set)
                set = function->duration;
        return set ? set * MULTIPROCESSORS / have : function->kernel->cost(op, have);
}
