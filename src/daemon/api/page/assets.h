/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's files, bundled into the program at build time (tools/bundle.c): nothing is read from disk, and nothing
 * comes from another origin.
 */
#pragma once

#include <stddef.h>

struct page_asset {
        const char *path; /* as a browser asks for it: "/", "/page.js"; NULL: behind the last */
        const char *type; /* Content-Type */
        const char *etag; /* with its quotes; changes when the bytes do */
        const unsigned char *data;
        size_t size;
};

extern const struct page_asset page_assets[];

/* Content-Security-Policy of every asset: files of this origin only; no inline code or style, no frames. */
#define PAGE_POLICY                                                                                                    \
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "                \
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* NULL: there is no such file. Any thread. */
const struct page_asset *page_asset_find(const char *path);
