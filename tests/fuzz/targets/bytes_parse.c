/* SPDX-License-Identifier: Apache-2.0 */
/* What bytes_parse accepts is a size, and what bytes_format writes of it can be read again. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
        TEXT_MAX = 255,
};

static void require(int holds)
{
        if (!holds)
                abort();
}

static void parse_size(const char *text, bytes whole)
{
        bytes size = 0, back = 0;
        char buffer[BYTES_TEXT];

        if (bytes_parse(text, whole, &size) < 0) {
                require(size == 0);
                return;
        }
        require(size > 0 && size <= INT64_MAX);
        require(strlen(bytes_format(size, buffer)) < BYTES_TEXT);
        require(bytes_parse(buffer, 0, &back) == 0);
        require(back <= size && size - back <= size / 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char text[TEXT_MAX + 1] = { 0 };
        uint64_t number = 0;

        memcpy(text, data, size < TEXT_MAX ? size : TEXT_MAX);
        parse_size(text, 0);
        parse_size(text, 143 * GIB);
        parse_size(text, UINT64_MAX);
        if (number_parse(text, &number) < 0)
                require(number == 0);
        return 0;
}
