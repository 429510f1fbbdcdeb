/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kernels that prove memory, for programs of the driver API. A simulator may know them by name.
 *      sublet_fill (u32 *p, u64 n, u32 seed)            p[i] = seed + i
 *      sublet_check(u32 *p, u64 n, u32 seed, u32 *bad)  bad += number of p[i] != seed + i
 */
#pragma once

static const char words_ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry sublet_fill(.param .u64 p, .param .u64 n, .param .u32 seed)\n"
        "{\n"
        "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
        "  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [n]; ld.param.u32 %r1, [seed];\n"
        "  cvta.to.global.u64 %d1, %d1;\n"
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
        "  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [n]; ld.param.u32 %r1, [seed]; ld.param.u64 %d6, [bad];\n"
        "  cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d6, %d6;\n"
        "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %nctaid.x;\n"
        "  cvt.u64.u32 %d3, %r4; mad.wide.u32 %d3, %r2, %r3, %d3; mul.wide.u32 %d4, %r5, %r3;\n"
        "again: setp.ge.u64 %q, %d3, %d2; @%q bra done;\n"
        "  cvt.u32.u64 %r6, %d3; add.u32 %r6, %r6, %r1;\n"
        "  shl.b64 %d5, %d3, 2; add.u64 %d5, %d1, %d5; ld.global.u32 %r7, [%d5];\n"
        "  add.u64 %d3, %d3, %d4; setp.eq.u32 %q, %r7, %r6; @%q bra again;\n"
        "  red.global.add.u32 [%d6], 1; bra again;\n"
        "done: ret;\n"
        "}\n";
