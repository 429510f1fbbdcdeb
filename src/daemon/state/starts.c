/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/starts.h"

#include <stdlib.h>

enum {
        USERS_LOOKED_AT = 256, /* from so many on, those that have rested are forgotten whenever their number doubles */
};

struct starts_user {
        nsec rested_at; /* from then on it may begin as many at once as anybody */
};

static uint64_t key_of(uid_t user)
{
        return (uint64_t)user;
}

bool starts_may(const struct starts *starts, uid_t user, nsec now)
{
        const struct starts_user *has = map_get(&starts->users, key_of(user));

        return !has || has->rested_at - now <= (STARTS_AT_ONCE - 1) * STARTS_EVERY;
}

/* A map is not to be changed while one goes through it. */
static void forget_rested(struct starts *starts, nsec now)
{
        struct map left = { 0 };
        struct starts_user *user;

        if (map_reserve(&left, starts->users.n_used) < 0)
                return;
        for (size_t i = 0; i < starts->users.n_slots; i++) {
                user = starts->users.slots[i].value;
                if (user && user->rested_at > now)
                        (void)map_put(&left, starts->users.slots[i].key, user);
                else
                        free(user);
        }
        map_done(&starts->users);
        starts->users = left;
}

static struct starts_user *user_get(struct starts *starts, uid_t user, nsec now)
{
        struct starts_user *has = map_get(&starts->users, key_of(user));
        size_t n = starts->users.n_used;

        if (has)
                return has;
        if (n >= USERS_LOOKED_AT && !(n & (n - 1)))
                forget_rested(starts, now);
        has = calloc(1, sizeof(*has));
        if (has && map_put(&starts->users, key_of(user), has) < 0) {
                free(has);
                return NULL;
        }
        return has;
}

void starts_note(struct starts *starts, uid_t user, nsec now)
{
        struct starts_user *has = user_get(starts, user, now);

        if (has)
                has->rested_at = (has->rested_at > now ? has->rested_at : now) + STARTS_EVERY;
}

void starts_done(struct starts *starts)
{
        struct starts_user *user;

        for (size_t i = 0; (user = map_next(&starts->users, &i));)
                free(user);
        map_done(&starts->users);
}
