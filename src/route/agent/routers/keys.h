/* SPDX-License-Identifier: Apache-2.0 */
/* What routers tell each other of API keys with a limit: rows of gossip.h, and `keys` of PUT /v1/routers. */
#pragma once

#include "route/agent/gossip.h"
#include "route/settings/settings.h"

/* What the module says of keys, as rows; at most SETTINGS_KEYS. Returns how many. */
size_t routers_read_keys(const json_t *list, struct gossip_row *ret);

/* What the module is told: how much the others used since the last call, and what they have now. The caller's. */
json_t *routers_keys(const struct settings *settings, struct gossip *gossip, nsec now);
