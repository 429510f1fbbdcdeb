/* SPDX-License-Identifier: Apache-2.0 */
/* What a program needs to be on a simulated machine: three variables (sim/verb.c). */
#pragma once

struct err;

/* Sets them in this process's environment, for the machine of that directory. 0; -errno: a library is not found, or
 * there is no memory. */
int environment_make(const char *machine, struct err *err);
