/*
 * The program that the kernel would run for a profile: made by libseccomp as the runtimes make it, and run here.
 *
 * Threads: any.
 */
#pragma once

#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

struct err;

/* What runc and crun do with a profile. The caller frees ->filter. 0; -EINVAL: a rule that libseccomp does not take. */
int program_make(const json_t *profile, struct sock_fprog *ret, struct err *err);

/* What the program says of a call: SECCOMP_RET_*. SECCOMP_RET_KILL_PROCESS for a program that is none. */
uint32_t program_run(const struct sock_fprog *program, const struct seccomp_data *call);
