/* SPDX-License-Identifier: Apache-2.0 */
/* Who touches bytes, and when nobody may: client/doorbell.h, Touches. */
#pragma once

#include "sim/server/machine.h"

int touch_answer(struct request *request, struct client *client); /* with the client's page. 0; -ENOMEM */
void touch_allow(struct machine *machine, uint32_t client);       /* channels of it are enabled */

/* False: somebody touches it just now. Otherwise nobody will, if channels of its client are off. */
bool touch_forbid(struct memory *memory, uint32_t reader);
