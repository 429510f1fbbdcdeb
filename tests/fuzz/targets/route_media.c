/* SPDX-License-Identifier: Apache-2.0 */
/* A picture's header in base64: however it is cut, the size is the same, within its bounds, and so is what it costs. */
#include "route/request/media.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
        if (!holds)
                abort();
}

static const char *const models[] = { "Qwen2.5-VL-7B", "InternVL3-8B", "llava-1.5-7b", "gemma-3-27b", "other" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t step = size ? 1 + data[0] % 7 : 1;
        struct media whole, cut;

        media_begin(&whole);
        media_feed(&whole, data, size);
        media_begin(&cut);
        for (size_t at = 0; at < size; at += step)
                media_feed(&cut, data + at, step < size - at ? step : size - at);
        require(whole.width == cut.width && whole.height == cut.height && whole.state == cut.state);
        require(!whole.width == !whole.height);
        require(whole.width <= MEDIA_SIDE_MOST && whole.height <= MEDIA_SIDE_MOST);
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
                uint32_t n = media_tokens(media_family(models[i]), MEDIA_IMAGE, whole.width, whole.height);

                require(n > 0 && n <= MEDIA_TOKENS_MOST);
        }
        return 0;
}
