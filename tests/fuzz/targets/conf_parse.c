/* SPDX-License-Identifier: Apache-2.0 */
/* What people write: whatever the bytes, a value or a complaint with a line. */
#include "base/err.h"
#include "conf/file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        struct err err = { 0 };
        json_t *value = NULL;

        if (conf_parse("x", (const char *)data, size, &value, NULL, &err) < 0) {
                if (value || !strchr(err.text, ':'))
                        abort();
                return 0;
        }
        if (!value)
                abort();
        json_decref(value);
        return 0;
}
