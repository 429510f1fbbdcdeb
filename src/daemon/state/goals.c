/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/goals.h"

#include "base/err.h"
#include "base/when.h"
#include "gate/gate.h"
#include "daemon/state/daemon.h"
#include "daemon/state/events.h"

#include <errno.h>
#include <string.h>

static bool takes_turns(const struct daemon *daemon, const struct message_lease *lease)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (lease->devices[i].is_granted && !daemon->devices[i].sched)
                        return false;
        return turns_policy_in_force(&daemon->settings.turns) == TURNS_POLICY_TURNS;
}

/* Those of several devices, and of a job, come on together: a device alone does not decide when. */
static bool is_in_gang(const struct message_lease *lease)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                n += lease->devices[i].is_granted;
        return n > 1 || lease->job[0];
}

/* Nobody takes it off the device for a goal: a library inside its programs keeps a quota, and no turns. */
static bool is_beyond_turns(const struct message_lease *lease)
{
        return is_in_gang(lease) || lease->enforcement == ENFORCEMENT_PRELOAD;
}

int goals_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err)
{
        if (!lease->goal)
                return 0;
        if (!lease->share)
                return err_say(err, -EINVAL,
                               "--latency is promised within a share of the tenant's own: add --share PERCENT");
        if (lease->class != TURNS_NORMAL || lease->cap < TURNS_WHOLE)
                return err_say(err, -EINVAL, "--latency goes with class normal and without a cap: leave --%s out",
                               lease->class != TURNS_NORMAL ? "class" : "cap");
        if (strcmp(lease->mode, "time") != 0 || lease->enforcement == ENFORCEMENT_PRELOAD)
                return err_say(err, -EINVAL, "--latency is for tenants that take turns: leave --%s out",
                               lease->enforcement == ENFORCEMENT_PRELOAD ? "preload" : "mode");
        if (lease->group[0])
                return err_say(err, -EINVAL, "--latency is for a tenant that takes turns by itself: leave --group out");
        if (is_in_gang(lease))
                return err_say(err, -EINVAL,
                               "--latency is for a tenant of one device and of no job: ask for one device, and leave "
                               "--job out");
        if (!takes_turns(daemon, lease))
                return err_say(err, -EINVAL,
                               "--latency needs a daemon that gives turns, and this one does not: leave it out, or "
                               "start the daemon with --policy turns");
        return 0;
}

const char *goals_whom(const struct tenant *tenant, uid_t user)
{
        return !user || user == tenant->lease.owner ? tenant->lease.tenant : "another user's tenant";
}

void goals_recheck(struct daemon *daemon, pid_t shim)
{
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                struct err err = { 0 };

                if (t->shim == shim && goals_check(daemon, &t->lease, &err) < 0)
                        event_emit(daemon, EVENT_GOAL_NOT_KEPT, t, -1, "%lld us: %s",
                                   (long long)(t->lease.goal / NSEC_PER_USEC), err.text);
        }
}

static int refuse_own(unsigned int device, const struct message_lease *lease, nsec least, size_t n, struct err *err)
{
        char goal[WHEN_TEXT], share[WHEN_TEXT];

        /* rounded up to what can be asked for */
        return err_say(err, TENANTS_E_NO_ROOM,
                       "--latency %lld us cannot be kept on device %u: with a share of %s and %zu tenants there it is "
                       "%s at least; ask for that, or for a larger share, or end a tenant ('sublet ps')",
                       (long long)(lease->goal / NSEC_PER_USEC), device, permille_format(lease->share, share), n,
                       duration_format((least + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC * NSEC_PER_MSEC, goal));
}

static int refuse_other(unsigned int device, const struct message_lease *lease, const struct tenant *other, size_t n,
                        struct err *err)
{
        bool may_know = !lease->owner || lease->owner == other->lease.owner;

        return err_say(err, TENANTS_E_NO_ROOM,
                       "device %u: the goal of %lld us that %s%s was promised there (--latency) cannot be kept with "
                       "%zu tenants%s; ask for another device, or wait until a tenant has ended ('sublet ps')",
                       device, (long long)(other->lease.goal / NSEC_PER_USEC), may_know ? "tenant " : "a tenant",
                       may_know ? other->lease.tenant : "", n,
                       is_beyond_turns(lease) ? " or beside a job or --preload" : "");
}

static int fit_device(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                      const struct tenant *but, struct err *err)
{
        size_t n = tenants_count(tenants, device) + 1 - (but && tenant_has(but, device));
        nsec least = turns_goal_least(lease->share * TURNS_PPM, n);

        if (lease->goal && lease->goal < least)
                return refuse_own(device, lease, least, n, err);
        for (const struct tenant *t = tenants->first; t; t = t->next) {
                if (t == but || !tenant_has(t, device))
                        continue;
                if (lease->goal && is_beyond_turns(&t->lease))
                        return err_say(err, TENANTS_E_NO_ROOM,
                                       "--latency cannot be kept on device %u beside a tenant of several devices, of a "
                                       "job, or of --preload: ask for another device ('sublet ps')",
                                       device);
                if (t->lease.goal &&
                    (is_beyond_turns(lease) || t->lease.goal < turns_goal_least(t->lease.share * TURNS_PPM, n)))
                        return refuse_other(device, lease, t, n, err);
        }
        return 0;
}

int goals_fit(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
              struct err *err)
{
        int r = tenants_fit(tenants, lease, but, err);

        for (unsigned int i = 0; i < tenants->n_devices && r == 0; i++)
                r = lease->devices[i].is_granted ? fit_device(tenants, i, lease, but, err) : 0;
        return r;
}
