/* SPDX-License-Identifier: Apache-2.0 */
/* Faults by request: faults.def lists them; server/machine.c and the code that they concern carry them out. */
#pragma once

#include <stdint.h>

struct faults {
#define FAULT(member, name, meaning) uint64_t member;
#include "sim/server/faults.def"
#undef FAULT
};

enum fault {
#define FAULT(member, name, meaning) FAULT_##member,
#include "sim/server/faults.def"
#undef FAULT
};

/* "slow-control=500": sets the member. 0; -EINVAL. */
int fault_parse(const char *text, struct faults *faults, enum fault *ret_fault, uint64_t *ret_value);

/* One line per row, for --help. */
const char *fault_help(void);
