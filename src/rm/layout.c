/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A release's layout is the oldest branch's, overridden by every row of layouts.def whose first release is not newer.
 * Resolving costs a few comparisons and happens once per process; the result is a value, copied freely.
 *
 * A field access that is not wholly inside the buffer reads 0 and writes nothing: a decoder with a wrong offset may
 * misread a call, but it cannot reach other memory.
 */
#include "rm/layout.h"

static bool fits(size_t size, size_t offset, size_t width)
{
        return offset <= size && width <= size - offset;
}

uint32_t rm_get32(const void *buffer, size_t size, size_t offset)
{
        uint32_t value = 0;

        if (fits(size, offset, sizeof(value)))
                memcpy(&value, (const uint8_t *)buffer + offset, sizeof(value));
        return value;
}

uint64_t rm_get64(const void *buffer, size_t size, size_t offset)
{
        uint64_t value = 0;

        if (fits(size, offset, sizeof(value)))
                memcpy(&value, (const uint8_t *)buffer + offset, sizeof(value));
        return value;
}

void rm_put32(void *buffer, size_t size, size_t offset, uint32_t value)
{
        if (fits(size, offset, sizeof(value)))
                memcpy((uint8_t *)buffer + offset, &value, sizeof(value));
}

void rm_put64(void *buffer, size_t size, size_t offset, uint64_t value)
{
        if (fits(size, offset, sizeof(value)))
                memcpy((uint8_t *)buffer + offset, &value, sizeof(value));
}

int rm_layout_for(struct rm_version version, struct rm_layout *ret)
{
        struct rm_layout layout = { .version = version };

        if (!rm_version_is_known(version))
                return RM_E_VERSION; /* never "the nearest one" */

#define SINCE(branch_, minor_, patch_, field, value)                                                                   \
        if (rm_version_cmp(version, (struct rm_version){ branch_, minor_, patch_ }) >= 0)                              \
                layout.field = value;
#include "rm/layouts.def"
#undef SINCE

        *ret = layout;
        return RM_OK;
}
