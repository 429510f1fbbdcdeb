/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant needs to become a client of an MPS server: whether its lease can be one's, whether the server's control
 * daemon is there, and where: as variables for a command, and as what is mounted into a container. */
#include "daemon/state/mps/mps.h"

#include "base/err.h"
#include "daemon/state/daemon.h"
#include "daemon/state/mps/way.h"
#include "shim/mps_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READY_TIME (8 * NSEC_PER_SEC) /* run waits 10 for the answer */

/* They meet: a group's server is of one device. */
static bool is_mate(const struct tenant *tenant, const struct message_lease *lease, unsigned int n_devices)
{
        for (unsigned int i = 0; i < n_devices; i++)
                if (lease->devices[i].is_granted && tenant_has(tenant, i))
                        return tenant->lease.team == lease->team;
        return false;
}

static struct way_view way_view_of(const struct daemon *daemon, const struct message_lease *lease)
{
        struct way_view view = { .has_goal = lease->goal,
                                 .has_job = lease->job[0],
                                 .is_suspended_at_times = lease->sleep_after || lease->swap,
                                 .has_program = mps_is_there(daemon->settings.host_root),
                                 .class = lease->class };

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                view.n_devices += lease->devices[i].is_granted;
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                bool is_one = is_mate(t, lease, daemon->n_devices);

                view.has_latency_mate |= is_one && t->lease.class == TURNS_LATENCY;
                view.has_batch_mate |= is_one && t->lease.class == TURNS_BATCH;
        }
        return view;
}

void mps_choose(const struct daemon *daemon, struct message_lease *lease, char ret[static MPS_WHY])
{
        struct way_view view = way_view_of(daemon, lease);
        const char *why = way_choose(&view);

        (void)snprintf(ret, MPS_WHY, "%s%s: %s", why ? "by turns, and not side by side with group " : "in group ",
                       lease->group, why ? why : "side by side it has shorter waits");
        if (!why)
                return;
        lease->group[0] = '\0';
        lease->team = 0;
}

static int check_group(const struct message_lease *lease, struct err *err)
{
        if (strcmp(lease->mode, "time") != 0)
                return err_say(err, -EINVAL, "a group takes turns with others: leave --mode %s out", lease->mode);
        if (lease->job[0])
                return err_say(err, -EINVAL, "a tenant is of a group or of a job: leave --group or --job out");
        return 0;
}

int mps_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err)
{
        const char *what = lease->group[0] ? "--group" : "--mode spatial";
        unsigned int n = 0;

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                n += lease->devices[i].is_granted;
        if (n != 1)
                return err_say(err, -EINVAL, "%s is for one device, and this lease has %u: add --gpu N", what, n);
        if (lease->group[0])
                return check_group(lease, err);
        if (lease->class != TURNS_NORMAL)
                return err_say(err, -EINVAL,
                               "--class is for tenants that take turns; with --mode spatial leave it out");
        return 0;
}

static bool is_ready_for(const struct daemon *daemon, const struct message_lease *lease, const char **ret_why)
{
        bool is_ready = true;

        *ret_why = "";
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct mps *mps = lease->devices[i].is_granted ? mps_find(daemon, i, lease->team) : NULL;
                char path[MPS_PATH];

                if (!lease->devices[i].is_granted)
                        continue;
                if (mps)
                        mps_file(mps, "/pipe/control", path);
                if (mps && mps->control && !mps->ending_since && access(path, F_OK) == 0)
                        continue;
                is_ready = false;
                *ret_why = mps ? mps->failure : "no memory for an MPS server";
        }
        return is_ready;
}

const char *mps_wait(const struct daemon *daemon, const struct tenant *tenant)
{
        const char *why;

        if (!message_lease_is_client(&tenant->lease))
                return "";
        if (is_ready_for(daemon, &tenant->lease, &why) || *why)
                return why;
        return clock_now() - tenant->state_since > READY_TIME ?
                       "nvidia-cuda-mps-control does not get ready; its log is in DIR/mps" :
                       NULL;
}

/* The cap, else the share, limits a client; a tenant without either has no limit. In a group a share is of time. */
static permille thread_limit(const struct message_lease *lease)
{
        if (lease->cap < TURNS_WHOLE)
                return lease->cap;
        return lease->share && !lease->group[0] ? lease->share : TURNS_WHOLE;
}

void mps_environment(const struct daemon *daemon, const struct message_lease *lease, json_t *env)
{
        permille part = thread_limit(lease);
        char text[MPS_PATH];

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct mps *mps = lease->devices[i].is_granted ? mps_find(daemon, i, lease->team) : NULL;

                if (!mps)
                        continue;
                mps_file(mps, "/pipe", text);
                (void)json_object_set_new(env, "CUDA_MPS_PIPE_DIRECTORY", json_string(text));
        }
        (void)snprintf(text, sizeof(text), "%u.%u", part / 10, part % 10);
        (void)json_object_set_new(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", json_string(text));
        if (lease->class == TURNS_BATCH) /* its kernels come after those of the others: MPS's word, below normal */
                (void)json_object_set_new(env, "CUDA_MPS_CLIENT_PRIORITY", json_string("1"));
}

json_t *mps_for_container(const struct daemon *daemon, const struct message_lease *lease)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct mps *mps = lease->devices[i].is_granted ? mps_find(daemon, i, lease->team) : NULL;
                char pipe[MPS_PATH];

                if (!mps)
                        continue;
                mps_file(mps, "/pipe", pipe);
                return json_pack("{s:I, s:I, s:s}", "control", (json_int_t)mps->control, "begun",
                                 (json_int_t)mps->begun, "pipe", pipe);
        }
        return NULL;
}
