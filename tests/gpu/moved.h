/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA program whose memory movefacts.c moves: pieces that a kernel fills and compares. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
        SAMPLE = 4096, /* of a piece, at three places, through a copy */
};

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
        ".visible .entry sublet_differ(.param .u64 p, .param .u64 n, .param .u32 seed, .param .u64 bad)\n"
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

struct program {
        CUcontext context;
        CUfunction fill, differ;
        CUdeviceptr bad, *pieces;
        size_t n;
        uint64_t bytes;
        bool *is_piece; /* true while its pieces are allocated */
};

static bool fine(const char *what, CUresult r)
{
        const char *name = NULL;

        if (r == CUDA_SUCCESS)
                return true;
        (void)cuGetErrorName(r, &name);
        printf("  cuda %s: %s\n", what, name ? name : "?");
        return false;
}

static bool launch_at(struct program *program, CUfunction function, CUdeviceptr at, uint64_t words, unsigned int seed)
{
        void *arguments[] = { &at, &words, &seed, &program->bad };

        return cuLaunchKernel(function, 1024, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL) == CUDA_SUCCESS;
}

static bool launch(struct program *program, CUfunction function, size_t i)
{
        return launch_at(program, function, program->pieces[i], program->bytes / 4, (unsigned int)i * 2654435761u);
}

static bool program_begin(struct program *program, size_t n, uint64_t bytes, bool *is_piece)
{
        CUmodule module;
        CUdevice device;
        bool ok = true;

        *program = (struct program){
                .n = n, .bytes = bytes, .pieces = calloc(n, sizeof(CUdeviceptr)), .is_piece = is_piece
        };
        if (!program->pieces || !fine("init", cuInit(0)) || !fine("device", cuDeviceGet(&device, 0)) ||
            !fine("context", cuDevicePrimaryCtxRetain(&program->context, device)) ||
            !fine("current", cuCtxSetCurrent(program->context)) || !fine("module", cuModuleLoadData(&module, ptx)) ||
            !fine("fill", cuModuleGetFunction(&program->fill, module, "sublet_fill")) ||
            !fine("differ", cuModuleGetFunction(&program->differ, module, "sublet_differ")) ||
            !fine("alloc", cuMemAlloc(&program->bad, 4096)) || !fine("zero", cuMemsetD32(program->bad, 0, 1024)))
                return false;
        (void)launch_at(program, program->fill, program->bad, 1024, 0); /* what a first launch makes is the context's */
        (void)cuCtxSynchronize();
        *program->is_piece = true;
        for (size_t i = 0; i < n && ok; i++)
                ok = fine("piece", cuMemAlloc(&program->pieces[i], bytes));
        *program->is_piece = false;
        for (size_t i = 0; i < n && ok; i++)
                ok = launch(program, program->fill, i);
        return ok && fine("filled", cuCtxSynchronize());
}

/* Looks at all of it with a kernel, and at three places of each piece through a copy. */
static void program_look(struct program *program, uint32_t *ret_bad, uint32_t *ret_samples_bad)
{
        static uint32_t sample[SAMPLE / 4];
        uint64_t places[] = { 0, program->bytes / 2, program->bytes - SAMPLE };
        uint32_t bad = UINT32_MAX;

        (void)fine("zero", cuMemsetD32(program->bad, 0, 1024));
        for (size_t i = 0; i < program->n; i++)
                (void)launch(program, program->differ, i);
        if (fine("looked", cuCtxSynchronize()) && fine("count", cuMemcpyDtoH(&bad, program->bad, 4)))
                *ret_bad = bad;
        else
                *ret_bad = UINT32_MAX;
        *ret_samples_bad = 0;
        for (size_t i = 0; i < program->n; i++)
                for (size_t k = 0; k < 3; k++) {
                        bool ok = cuMemcpyDtoH(sample, program->pieces[i] + places[k], SAMPLE) == CUDA_SUCCESS;

                        for (uint32_t j = 0; j < SAMPLE / 4 && ok; j++)
                                ok = sample[j] == (uint32_t)(places[k] / 4) + j + (uint32_t)i * 2654435761u;
                        *ret_samples_bad += !ok;
                }
}
