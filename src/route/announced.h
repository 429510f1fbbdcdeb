/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of a chat that only announce it. Some engines say the role of who will speak before the prompt is computed;
 * that is no beginning of an answer. Pure. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The data of one event: it has deltas, and none of them has more than a role, and nothing has ended. */
bool announced_only(const char *data, size_t size);
