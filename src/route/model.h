/* SPDX-License-Identifier: Apache-2.0 */
/* A model's name goes into JSON, logs and labels as it is: it has nothing that one of them would escape. */
#pragma once

#include <stdbool.h>

enum {
        MODEL_NAME = 256, /* with its NUL: engines are given paths of caches as names */
};

static inline bool model_is_fine(const char *name)
{
        int n = 0;

        while (n < MODEL_NAME && (unsigned char)name[n] >= ' ' && name[n] != '"' && name[n] != '\\')
                n++;
        return n > 0 && n < MODEL_NAME && !name[n];
}
