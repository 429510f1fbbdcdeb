/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever lies in config.toml: what is ours goes in once, comes out whole, and nothing else changes. */
#include "base/err.h"
#include "oci/node/containerd.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct spec_paths paths = { .program = "/p", .dir = "/d", .name = "sublet", .file = "/f" };
        struct containerd_change once = { 0 }, twice = { 0 };
        char *text = strndup((const char *)data, size), *plain = NULL, *back = NULL;
        struct err err = { 0 };
        int r = containerd_with(text, &paths, &once, &err);

        require(r == 0 || (r < 0 && err.text[0]));
        if (r == 0) {
                require(containerd_without(text, &plain, &err) == 0);
                require(containerd_without(once.text, &back, &err) == 0 && !strcmp(plain, back));
                require(containerd_with(once.text, &paths, &twice, &err) == 0 && !strcmp(once.text, twice.text));
                require(!once.drop_in == !twice.drop_in);
        }
        free(text);
        free(plain);
        free(back);
        free(once.text);
        free(once.drop_in);
        free(twice.text);
        free(twice.drop_in);
        return 0;
}
