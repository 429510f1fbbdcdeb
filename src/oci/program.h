/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that the kernel would run for a profile: made by libseccomp, as in the runtimes, and interpreted here.
 *
 * Threads: any.
 */
#pragma once

#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

struct err;

/* Compiles a profile as runc and crun do. The caller frees ->filter. 0; -EINVAL: libseccomp refuses a rule. */
int program_make(const json_t *profile, struct sock_fprog *ret, struct err *err);

/* The program's decision on a call: SECCOMP_RET_*; SECCOMP_RET_KILL_PROCESS if the program is invalid. */
uint32_t program_run(const struct sock_fprog *program, const struct seccomp_data *call);
