/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/page/assets.h"

#include <string.h>

const struct page_asset *page_asset_find(const char *path)
{
        for (const struct page_asset *asset = page_assets; asset->path; asset++)
                if (!strcmp(asset->path, path))
                        return asset;
        return NULL;
}
