/* SPDX-License-Identifier: Apache-2.0 */
/* What rm_version_parse accepts is three numbers, in the text and in the order of the text; what is
 * known has a layout, and nothing else has. */
#include "rm/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
        TEXT_MAX = 63,
};

static void require(bool holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct rm_version version = { 1, 2, 3 }, back;
        struct rm_layout layout = { .alloc_size = 1 };
        char text[TEXT_MAX + 1] = { 0 };
        int r;

        memcpy(text, data, size < TEXT_MAX ? size : TEXT_MAX);
        r = rm_version_parse(text, &version);
        if (r < 0) {
                require(r == -EINVAL && version.branch == 1 && version.minor == 2 && version.patch == 3);
                return 0;
        }
        require(version.branch <= 9999 && version.minor <= 9999 && version.patch <= 9999);

        (void)snprintf(text, sizeof(text), "%u.%u.%u", version.branch, version.minor, version.patch);
        require(rm_version_parse(text, &back) == 0 && rm_version_cmp(version, back) == 0);

        r = rm_layout_for(version, &layout);
        require(r == (rm_version_is_known(version) ? RM_OK : RM_E_VERSION));
        require(r == RM_OK ? layout.alloc_size >= 40 : layout.alloc_size == 1);
        return 0;
}
