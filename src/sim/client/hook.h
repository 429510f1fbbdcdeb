/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libsublet-sim.so share. */
#pragma once

#include <stdbool.h>

#define HOOK __attribute__((visibility("default")))
#define ALIAS(function) __attribute__((visibility("default"), alias(#function))) /* offsets have 64 bits anyway */

/* Whether the program is on a simulated machine. */
bool sim_is_on(void);
