/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the load generators: arithmetic in pieces, and a line in a log at the end of each.
 *
 * burn(sink, rounds, log, pieces) does `rounds` rounds of four multiply-adds per thread, in `pieces` equal pieces
 * (rounds must be a multiple). Thread 0 of block 0 writes the device's clock (globaltimer, ns, one for all processes)
 * into log[1], log[2], ... as pieces end, and how many there are into log[0]. The warps of a block wait for each other
 * at the end of a piece, and a block should have a multiprocessor for itself: the scheduler of a multiprocessor
 * prefers old warps, so among several blocks block 0 would run ahead and its log would tell of work that is not done
 * yet. At most BURN_LOG_MAX - 1 are written; launches that share a log must be in one stream. The simulator knows
 * `burn` by name and takes its cost from `rounds`; it writes no log.
 */
#pragma once

enum {
        BURN_LOG_MAX = 1 << 20, /* words; also in the text below */
};

static const char burn_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry burn(.param .u64 sink, .param .u32 rounds, .param .u64 log,\n"
                               "        .param .u32 pieces)\n"
                               "{\n"
                               "        .reg .pred %p<6>; .reg .f32 %f<8>; .reg .b32 %r<12>; .reg .b64 %d<9>;\n"
                               "        ld.param.u64 %d1, [sink]; ld.param.u32 %r1, [rounds];\n"
                               "        ld.param.u64 %d2, [log]; ld.param.u32 %r2, [pieces];\n"
                               "        div.u32 %r3, %r1, %r2;\n"
                               "        mov.u32 %r4, %tid.x; mov.u32 %r5, %ctaid.x; or.b32 %r6, %r4, %r5;\n"
                               "        setp.eq.u32 %p1, %r6, 0; mov.u64 %d3, 0;\n"
                               "        @%p1 ld.volatile.global.u64 %d3, [%d2];\n"
                               "        mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0f3F7FFFFF; mov.f32 %f3, 0f3F800000;\n"
                               "        mov.f32 %f4, 0f3F800000; mov.f32 %f5, 0f3F800000; mov.f32 %f6, 0f3F800000;\n"
                               "        mov.u32 %r7, 0;\n"
                               "PIECE:  mov.u32 %r8, 0;\n"
                               "ROUND:  fma.rn.f32 %f3, %f3, %f1, %f2; fma.rn.f32 %f4, %f4, %f1, %f2;\n"
                               "        fma.rn.f32 %f5, %f5, %f1, %f2; fma.rn.f32 %f6, %f6, %f1, %f2;\n"
                               "        add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, %r3; @%p2 bra ROUND;\n"
                               "        bar.sync 0;\n"
                               "        setp.lt.u64 %p3, %d3, 1048574; and.pred %p4, %p1, %p3;\n"
                               "        @!%p4 bra NEXT;\n"
                               "        add.u64 %d3, %d3, 1; shl.b64 %d4, %d3, 3; add.u64 %d5, %d2, %d4;\n"
                               "        mov.u64 %d6, %globaltimer; st.volatile.global.u64 [%d5], %d6;\n"
                               "        st.volatile.global.u64 [%d2], %d3;\n"
                               "NEXT:   add.u32 %r7, %r7, 1; setp.lt.u32 %p5, %r7, %r2; @%p5 bra PIECE;\n"
                               "        add.f32 %f3, %f3, %f4; add.f32 %f5, %f5, %f6; add.f32 %f3, %f3, %f5;\n"
                               "        setp.eq.f32 %p2, %f3, 0f00000000; @%p2 st.global.f32 [%d1], %f3;\n"
                               "        ret;\n"
                               "}\n";
