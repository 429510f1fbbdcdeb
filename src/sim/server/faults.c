/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/server/faults.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

int fault_parse(const char *text, struct faults *faults, enum fault *ret_fault, uint64_t *ret_value)
{
        const char *value = strchr(text, '=');
        size_t length = value ? (size_t)(value - text) : 0;
        uint64_t number;

        if (!value || number_parse(value + 1, &number) < 0)
                return -EINVAL;
#define FAULT(member, name, meaning)                                                                                   \
        if (length == strlen(name) && strncmp(text, name, length) == 0) {                                              \
                faults->member = number;                                                                               \
                *ret_fault = FAULT_##member;                                                                           \
                *ret_value = number;                                                                                   \
                return 0;                                                                                              \
        }
#include "sim/server/faults.def"
#undef FAULT
        return -EINVAL;
}

const char *fault_help(void)
{
        return ""
#define FAULT(member, name, meaning) "  " name "=N  " meaning "\n"
#include "sim/server/faults.def"
#undef FAULT
                ;
}
