/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's memory, of which simulated video memory is a part once it is touched: a simulated device may be larger
 * than the machine that it is on.
 *
 * Invariant: touched video memory, with all other shared memory of the host, never takes more than half of what would
 * be available without it. What would waits for at most 20 s for others to end, then is refused, which is said once per
 * program; nobody is ended by the kernel for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether the n bytes at `at`, which are video memory, may be touched. Reads /proc/meminfo for each 16 MiB. Threads:
 * any. */
bool room_for(const void *at, uint64_t n);

/* Whether so many more bytes are fine, with what the host says of itself: the text of /proc/meminfo. What does not say
 * it is fine. */
bool room_is_in(const char *meminfo, uint64_t n);
