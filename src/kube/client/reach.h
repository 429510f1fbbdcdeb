/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of its node a pod reaches beside its containers. One that rents may have neither the node's process numbers, by
 * which it reaches shims and what other tenants have open, nor folders in which the sockets of Sublet, of the runtime
 * or of kubelet are: by these it would be a runtime itself. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a pod with this spec reaches any of that; `why` is then what in it, as the end of "it may not have". */
bool reach_is_wide(const json_t *spec, char *why, size_t size);
