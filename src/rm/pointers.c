/* SPDX-License-Identifier: Apache-2.0 */
/* The pointers that the driver follows out of a control's parameters: pointers.def, looked up. */
#include "rm/call.h"

enum direction {
        IN = 1,
        OUT = 2,
        BOTH = IN | OUT,
};

static const struct rm_pointer pointers[] = {
#define POINTER(cmd, since, at, count_at, power, element, direction, meaning)                                          \
        { cmd, since, at, count_at, power, element, (IN & (direction)) != 0, (OUT & (direction)) != 0 },
#include "rm/pointers.def"
#undef POINTER
};

enum {
        N_POINTERS = sizeof(pointers) / sizeof(pointers[0]),
};

size_t rm_pointers(const struct rm_layout *layout, uint32_t cmd, const struct rm_pointer **ret)
{
        size_t first = 0, n = 0;

        while (first < N_POINTERS && pointers[first].cmd != cmd)
                first++;
        while (first + n < N_POINTERS && pointers[first + n].cmd == cmd &&
               pointers[first + n].since <= layout->version.branch)
                n++;

        *ret = n ? &pointers[first] : NULL;
        return n;
}

uint64_t rm_pointer_bytes(const struct rm_pointer *pointer, const void *params, size_t size)
{
        uint64_t count = rm_get32(params, size, pointer->count_at);

        if (pointer->element == 0)
                return UINT64_MAX;
        if (rm_get64(params, size, pointer->at) == 0)
                return 0;
        if (pointer->power == 2) {
                /* The driver multiplies in 32 bits and checks the product; a larger count is simply refused. */
                if (count > UINT16_MAX)
                        return UINT64_MAX;
                count *= count;
        }
        return count * pointer->element;
}
