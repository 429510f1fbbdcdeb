/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "wire/grant.h"
#include "gate/gate.h"
#include "daemon/state/goals.h"
#include "daemon/state/mig.h"
#include "daemon/state/admit.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        AUDIT_MOST_MS = 1000, /* the gate's own period */
};

static int errno_of(int outcome)
{
        switch (outcome) {
        case TENANTS_E_NAME_TAKEN:
                return -EEXIST;
        case TENANTS_E_BAD_NAME:
                return -EINVAL;
        case TENANTS_E_DEVICE_LOST:
                return -ENODEV;
        default:
                return -ENOSPC;
        }
}

static const char *or_null(const char *text)
{
        return *text ? text : NULL;
}

/* A request without a size gets what nobody has leased: without other tenants, the whole device. */
static int give_rest(const struct daemon *daemon, const struct message_lease *asked, struct lease *lease,
                     struct err *err)
{
        for (unsigned int i = 0; i < lease->n_devices; i++) {
                bytes free = asked->swap ? swap_room(&daemon->tenants, i, NULL) :
                                           tenants_free(&daemon->tenants, i, asked, NULL);

                if (!lease->devices[i].is_granted || daemon->tenants.overcommits)
                        continue;
                if (!free)
                        return err_say(err, -ENOSPC,
                                       "all memory of device %u is leased; end or shrink a tenant ('sublet ps', "
                                       "'sublet set')",
                                       i);
                lease->devices[i].quota.size = free;
        }
        return 0;
}

static int fill_lease(struct daemon *daemon, const struct message_request *request, struct message_lease *ret,
                      struct err *err)
{
        struct grant grant = { or_null(request->mem), or_null(request->gpus), or_null(request->host),
                               or_null(request->managed), or_null(request->capabilities) };
        _cleanup_(freep) struct lease *lease = malloc(sizeof(*lease));
        int r;

        if (!lease)
                return err_set(err, -ENOMEM, "leasing");
        memcpy(lease, &daemon->machine, sizeof(*lease));
        r = grant_apply(&grant, lease, err);
        if (r < 0)
                return -EINVAL; /* also of more than there is: nobody who waits would get it */
        mig_scan(daemon);
        if (!message_lease_is_mig(ret) &&
            (r = mig_avoid(daemon, lease, request->gpus[0] || strchr(request->mem, '='), err)) < 0)
                return r;
        if (!request->mem[0] && !message_lease_is_mig(ret) && (r = give_rest(daemon, ret, lease, err)) < 0)
                return r;
        message_lease_fill(lease, ret);
        return 0;
}

static int check_mode(const struct message_request *request, struct err *err)
{
        const char *mode = request->mode;

        if (!strcmp(mode, "auto"))
                return request->group[0] ?
                               0 :
                               err_say(err, -EINVAL,
                                       "--mode auto is between a group and turns: add --group NAME, or leave it out");
        if (!*mode || !strcmp(mode, "time") || !strcmp(mode, "spatial") || !strcmp(mode, "mig"))
                return 0;
        return err_say(err, -EINVAL,
                       "mode '%s' is not offered by this daemon: ask for time, spatial, mig or auto (docs/modes.md)",
                       mode);
}

static int check_job(const struct message_request *request, struct err *err)
{
        if (!request->job[0] || tenants_name_is_good(request->job))
                return 0;
        return err_say(err, -EINVAL, "job '%s': 1 to 63 letters, digits, '.', '_' and '-', the first a letter or digit",
                       request->job);
}

static int check_group(const struct message_request *request, struct err *err)
{
        if (!request->group[0])
                return 0;
        if (!tenants_name_is_good(request->group))
                return err_say(err, -EINVAL,
                               "group '%s': 1 to 63 letters, digits, '.', '_' and '-', the first a letter or digit",
                               request->group);
        return request->enforcement == ENFORCEMENT_PRELOAD ?
                       err_say(err, -EINVAL, "--group needs a gate: leave --preload out") :
                       0;
}

static int check_sms(const struct daemon *daemon, const struct message_request *request, struct err *err)
{
        unsigned int branch = daemon->backend.layout.version.branch;
        struct sms sms;

        if (!request->sms[0])
                return 0;
        if (sms_parse(request->sms, &sms) < 0)
                return err_say(err, -EINVAL, "--sms %s: a part of the multiprocessors, such as 25%% or 32",
                               request->sms);
        if (request->enforcement != ENFORCEMENT_PRELOAD)
                return err_say(err, -EINVAL, "--sms is kept inside the program: add --preload");
        if (branch < SMS_FIRST_DRIVER)
                return err_say(err, -EINVAL, "--sms needs a driver with green contexts, %d or newer; this is %u",
                               SMS_FIRST_DRIVER, branch);
        return 0;
}

/* A library inside programs can keep a quota; everything else needs a gate. */
static int check_enforcement(const struct daemon *daemon, const struct message_request *request, uid_t owner,
                             struct err *err)
{
        if (request->enforcement != ENFORCEMENT_PRELOAD)
                return 0;
        if (request->mode[0] && strcmp(request->mode, "time") != 0)
                return err_say(err, -EINVAL, "--mode %s needs a gate: leave --preload out", request->mode);
        if ((request->share || request->cap < TURNS_WHOLE) && strcmp(request->attach, "required") != 0)
                return err_say(err, -EINVAL,
                               "--share and --cap need a gate: leave --preload out, or say --attach=required");
        if (request->directory[0] && !daemon_is_master(daemon, owner))
                return err_say(err, -EPERM, "a lease that lasts as long as a directory: root only");
        return 0;
}

/* What lets a tenant exceed its lease, or audits it less often, only the operator may allow. */
static int check_powers(const struct daemon *daemon, const struct message_request *request, uid_t owner,
                        struct err *err)
{
        if (daemon_is_master(daemon, owner))
                return 0;
        if (request->ipc_host)
                return err_say(err, -EPERM, "--ipc=host opens a tenant to others: root only");
        if (!strcmp(request->managed, "allow"))
                return err_say(err, -EPERM, "--managed=allow is memory that no quota counts: root only");
        if (strstr(request->capabilities, "profile"))
                return err_say(err, -EPERM, "--capabilities profile: counters show the neighbours' work: root only");
        if (request->audit_ms > AUDIT_MOST_MS)
                return err_say(err, -EPERM, "--audit %llu: at most %d", (unsigned long long)request->audit_ms,
                               AUDIT_MOST_MS);
        return 0;
}

void admit_undo(struct daemon *daemon, struct tenant *tenant)
{
        tenants_take(&daemon->tenants, tenant);
        tenant_free(tenant);
        daemon_divide(daemon);
}

/* What is in the request as it is in the lease. */
static struct message_lease lease_begin(const struct message_request *request, uid_t owner,
                                        const struct message_container *container)
{
        struct message_lease lease = { .owner = owner,
                                       .since = clock_realtime() / NSEC_PER_SEC,
                                       .share = request->share,
                                       .cap = request->cap,
                                       .class = request->class,
                                       .goal = request->goal,
                                       .sleep_after = request->sleep_after,
                                       .swap = request->swap,
                                       .host_swap = request->host_swap,
                                       .ipc_host = request->ipc_host,
                                       .audit_ms = request->audit_ms,
                                       .mode = "time",
                                       .enforcement = request->enforcement };

        (void)snprintf(lease.command, sizeof(lease.command), "%s", request->command);
        (void)snprintf(lease.directory, sizeof(lease.directory), "%s", request->directory);
        (void)snprintf(lease.sms, sizeof(lease.sms), "%s", request->sms);
        (void)snprintf(lease.job, sizeof(lease.job), "%s", request->job);
        (void)snprintf(lease.group, sizeof(lease.group), "%s", request->group);
        (void)snprintf(lease.labels, sizeof(lease.labels), "%s", request->labels);
        if (request->mode[0] && strcmp(request->mode, "auto") != 0)
                (void)snprintf(lease.mode, sizeof(lease.mode), "%s", request->mode);
        if (container)
                lease.container = *container;
        return lease;
}

static int check_starts(const struct daemon *daemon, uid_t owner, struct err *err)
{
        if (daemon_is_master(daemon, owner) || starts_may(&daemon->starts, owner, clock_now()))
                return 0;
        return err_say(
                err, -ENOSPC,
                "user %u has begun %d tenancies in a short time, each of which is kept in the accounts: one more "
                "may begin each second",
                owner, STARTS_AT_ONCE);
}

static int check_request(const struct daemon *daemon, const struct message_request *request, uid_t owner,
                         struct err *err)
{
        int r;

        if ((r = check_mode(request, err)) < 0 || (r = check_enforcement(daemon, request, owner, err)) < 0 ||
            (r = check_sms(daemon, request, err)) < 0 || (r = check_job(request, err)) < 0 ||
            (r = check_group(request, err)) < 0)
                return r;
        return check_powers(daemon, request, owner, err);
}

/* Its devices are known. A lease of mode mig gets its instance. */
static int check_lease(struct daemon *daemon, const struct message_request *request, struct message_lease *lease,
                       struct err *err)
{
        int r;

        if (message_lease_is_client(lease) && (r = mps_check(daemon, lease, err)) < 0)
                return r;
        if (message_lease_is_mig(lease) && (r = mig_choose(daemon, lease, request->mem[0], err)) < 0)
                return r;
        if ((r = goals_check(daemon, lease, err)) < 0 || (r = sleep_check(lease, err)) < 0 ||
            (r = swap_check(daemon, lease, err)) < 0)
                return r;
        r = goals_fit(&daemon->tenants, lease, NULL, err);
        return r != 0 ? errno_of(r) : 0;
}

int admit(struct daemon *daemon, const struct message_request *request, uid_t owner,
          const struct message_container *container, struct tenant **ret, struct err *err)
{
        struct message_lease lease = lease_begin(request, owner, container);
        bool is_auto = !strcmp(request->mode, "auto");
        struct tenant *tenant;
        char chosen[MPS_WHY];
        int r;

        shims_settle(daemon);
        if ((r = check_starts(daemon, owner, err)) < 0 || (r = check_request(daemon, request, owner, err)) < 0)
                return r;
        allocations_keep(&daemon->allocations, &daemon->tenants, daemon->tenants.kept);
        if ((r = tenants_name(&daemon->tenants, request, lease.tenant, err)) != 0)
                return errno_of(r);
        lease.team = tenants_team(&daemon->tenants, &lease);
        if ((r = fill_lease(daemon, request, &lease, err)) < 0)
                return r;
        if (is_auto)
                mps_choose(daemon, &lease, chosen);
        if ((r = check_lease(daemon, request, &lease, err)) < 0)
                return r;
        r = tenants_put(&daemon->tenants, &lease, &tenant);
        if (r < 0)
                return err_set(err, r, "leasing");
        tenant->since = clock_realtime();
        tenant->state_since = clock_now();
        tenant->daemon = daemon;
        if (is_auto)
                event_emit(daemon, EVENT_MODE_CHOSEN, tenant, -1, "%s", chosen);
        *ret = tenant;
        return 0;
}
