/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tenancies a user begins: each is a row that the store keeps for good, with its account, and who begins and
 * ends them without a pause would fill the disk. STARTS_AT_ONCE may begin at once, then one each STARTS_EVERY. Root and
 * the daemon's user are not asked.
 *
 * A user is a number: whoever has many (newuidmap) is many users.
 */
#pragma once

#include "base/clock.h"
#include "base/map.h"

#include <stdbool.h>
#include <sys/types.h>

#define STARTS_EVERY NSEC_PER_SEC

enum {
        STARTS_AT_ONCE = 1000,
};

struct starts {
        struct map users; /* of struct starts_user; only those that could not begin STARTS_AT_ONCE now */
};

bool starts_may(const struct starts *starts, uid_t user, nsec now);
void starts_note(struct starts *starts, uid_t user, nsec now); /* without memory it is not counted */
void starts_done(struct starts *starts);
