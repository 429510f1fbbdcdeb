/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's /metrics: whatever the bytes, figures within their bounds. */
#include "route/agent/scrape.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        struct scrape scrape;

        if (scrape_parse((const char *)data, size, &scrape) == SCRAPE_E_NOTHING && scrape.waiting.n)
                abort();
        if (scrape_kv_permille(&scrape) > 1000 || scrape_kv_tokens(&scrape) > 2000000000u ||
            scrape_is_restart(&scrape, &scrape))
                abort();
        return 0;
}
