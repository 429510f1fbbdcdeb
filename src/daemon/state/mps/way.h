/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `--group NAME --mode auto`: whether a tenant runs side by side with its group, or takes turns by itself. It is
 * decided when the tenant starts, for a program is a client of an MPS server from its first call on or never.
 *
 *      A1  Side by side, unless something speaks against it: that does more work with shorter waits (docs/modes.md).
 *      A2  By turns where it asks for what a group has not: a goal, a job, several devices, to be suspended.
 *      A3  By turns where somebody of class latency would compute beside somebody of class batch: MPS's priorities take
 *          no kernel off the device (2.86 ms in place of 0.85 at the 99th percentile, by turns 1.05: H100, 580.159.04,
 *          latency-eights.txt). Whoever comes second goes by turns.
 *      A4  By turns where there is no MPS.
 *
 * Pure.
 */
#pragma once

#include "turns/turns.h"

struct way_view {
        bool has_goal, has_job, is_suspended_at_times, has_program; /* of MPS */
        unsigned int n_devices;
        enum turns_class class;
        bool has_latency_mate, has_batch_mate; /* side by side in the group now */
};

/* NULL: side by side; else why not, for people. */
const char *way_choose(const struct way_view *view);
