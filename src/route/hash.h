/* SPDX-License-Identifier: Apache-2.0 */
/* xxHash, inlined. Its header does not pass this project's warnings. */
#pragma once

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <xxhash.h>
#pragma GCC diagnostic pop
