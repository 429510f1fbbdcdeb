/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/tenants.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"
#include "daemon/state/mig.h"
#include "daemon/state/mps/mps.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lease_descriptor_source tenant_place(const struct tenant *tenant)
{
        return tenant->lease.directory[0] ? LEASE_DESCRIPTOR_MOUNTED : LEASE_DESCRIPTOR_INHERITED;
}

bool tenant_has(const struct tenant *tenant, unsigned int device)
{
        return tenant->lease.devices[device].is_granted;
}

/* A lease of an older version has none. */
static const char *mode_name(const char *mode)
{
        return *mode ? mode : "time";
}

const char *tenants_mode(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_has(t, device))
                        return mode_name(t->lease.mode);
        return "time";
}

static bool has_client(const struct tenants *tenants, unsigned int device, uint32_t team, const struct tenant *until,
                       const struct tenant *but)
{
        for (const struct tenant *t = tenants->first; t && t != until; t = t->next)
                if (t != but && tenant_has(t, device) && message_lease_is_client(&t->lease) && t->lease.team == team)
                        return true;
        return false;
}

/* Of the MPS servers of the device: one of mode spatial, one of each group. */
static bytes servers_take(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        bytes sum = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_has(t, device) && message_lease_is_client(&t->lease) &&
                    !has_client(tenants, device, t->lease.team, t, but))
                        sum += MPS_RESERVE;
        return sum;
}

bytes tenants_leased(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        bytes sum = servers_take(tenants, device, but);

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_has(t, device) && !tenant_swaps(t))
                        sum += t->is_kept ? tenant_held(t, device) : t->lease.devices[device].quota;
        return sum + swap_set_aside(tenants, device, but);
}

permille tenants_promised(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        permille sum = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_has(t, device) && !t->is_kept)
                        sum += t->lease.share;
        return sum;
}

unsigned int tenants_count(const struct tenants *tenants, unsigned int device)
{
        unsigned int n = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                n += tenant_has(t, device);
        return n;
}

bytes tenants_free(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                   const struct tenant *but)
{
        bytes taken = tenants_leased(tenants, device, but), total = tenants->totals[device];

        if (message_lease_is_client(lease) && !has_client(tenants, device, lease->team, NULL, but))
                taken += MPS_RESERVE; /* for the server, which starts with its first tenant */
        return taken < total ? total - taken : 0;
}

enum {
        HOLDERS_TEXT = 200,
        HOLDERS_MOST = 3,
};

static const char *share_of(const struct tenant *tenant, unsigned int device, char buffer[static WHEN_TEXT])
{
        (void)device;
        return tenant->lease.share ? permille_format(tenant->lease.share, buffer) : NULL;
}

static const char *memory_of(const struct tenant *tenant, unsigned int device, char buffer[static WHEN_TEXT])
{
        bytes quota = tenant->lease.devices[device].quota;

        return quota ? bytes_format(quota, buffer) : NULL;
}

/* ": train has 40%, others have the rest", or "". A user reads the names of its own tenants only, root all. */
static const char *holders(const struct tenants *tenants, unsigned int device, const struct tenant *but, uid_t asks,
                           const char *(*of)(const struct tenant *tenant, unsigned int device, char *buffer),
                           char ret[static HOLDERS_TEXT])
{
        bool are_others = false;
        unsigned int n = 0;
        size_t used = 0;

        *ret = '\0';
        for (const struct tenant *t = tenants->first; t; t = t->next) {
                char buffer[WHEN_TEXT];
                const char *has = t != but && tenant_has(t, device) ? of(t, device, buffer) : NULL;

                if (!has)
                        continue;
                if (n == HOLDERS_MOST || (asks && t->lease.owner != asks) ||
                    used + strlen(t->lease.tenant) + WHEN_TEXT + 32 > HOLDERS_TEXT)
                        are_others = true;
                else
                        used += (size_t)snprintf(ret + used, HOLDERS_TEXT - used, "%s%s has %s", n++ ? ", " : ": ",
                                                 t->lease.tenant, has);
        }
        if (are_others)
                (void)snprintf(ret + used, HOLDERS_TEXT - used, "%s",
                               n ? ", others the rest" : ": others have the rest");
        return ret;
}

static int fit_memory(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                      const struct tenant *but, struct err *err)
{
        bytes quota = lease->devices[device].quota, total = tenants->totals[device];
        bytes free = tenants_free(tenants, device, lease, but);
        char wanted[BYTES_TEXT], left[BYTES_TEXT], who[HOLDERS_TEXT];

        if (message_lease_is_mig(lease) && quota > lease->mig.memory)
                return err_say(err, TENANTS_E_NO_ROOM, "%s is more than the tenant's MIG instance has (%s)",
                               bytes_format(quota, wanted), bytes_format(lease->mig.memory, left));
        if (quota > total)
                return err_say(err, TENANTS_E_NO_ROOM, "%s is more than device %u has (%s)",
                               bytes_format(quota, wanted), device, bytes_format(total, left));
        if (lease->swap)
                return swap_fit_device(tenants, device, lease, but, err);
        if (tenants->overcommits || quota <= free)
                return 0;
        return err_say(err, TENANTS_E_NO_ROOM,
                       "%s of memory on device %u do not fit: at most %s are free there%s; ask for less, or shrink or "
                       "end a tenant ('sublet ps', 'sublet set')",
                       bytes_format(quota, wanted), device, bytes_format(free, left),
                       holders(tenants, device, but, lease->owner, memory_of, who));
}

static int fit_share(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                     const struct tenant *but, struct err *err)
{
        permille promised = tenants_promised(tenants, device, but);
        permille free = promised < TURNS_WHOLE ? TURNS_WHOLE - promised : 0;
        char wanted[WHEN_TEXT], left[WHEN_TEXT], who[HOLDERS_TEXT];

        if (lease->share <= free)
                return 0;
        return err_say(err, TENANTS_E_NO_ROOM,
                       "a share of %s on device %u does not fit: at most %s is promised to nobody%s; ask for less, or "
                       "shrink another tenant's ('sublet ps', 'sublet set')",
                       permille_format(lease->share, wanted), device, permille_format(free, left),
                       holders(tenants, device, but, lease->owner, share_of, who));
}

/* Channel groups of time-sliced tenants are switched; the clients of an MPS server share one group. */
static int fit_mode(const struct tenants *tenants, unsigned int device, const char *mode, const struct tenant *but,
                    struct err *err)
{
        const char *there = tenants_mode(tenants, device, but);

        if (!strcmp(there, mode_name(mode)) || tenants_count(tenants, device) == (but && tenant_has(but, device)))
                return 0;
        return err_say(
                err, TENANTS_E_NO_ROOM,
                "device %u is shared by tenants of --mode %s now, and --mode %s does not go beside that: ask for "
                "another device, or wait until they have ended ('sublet ps')",
                device, there, mode_name(mode));
}

static int fit_device(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                      const struct tenant *but, struct err *err)
{
        int r;

        if (tenants->is_lost[device] && !but)
                return err_say(err, TENANTS_E_DEVICE_LOST, "device %u is lost ('sublet explain DEVICE_LOST')", device);
        if (!but && tenants_count(tenants, device) >= TENANTS_PER_DEVICE)
                return err_say(err, TENANTS_E_NO_ROOM, "device %u has %d tenants, and no more can be served", device,
                               TENANTS_PER_DEVICE);
        if ((r = fit_mode(tenants, device, lease->mode, but, err)))
                return r;
        r = fit_memory(tenants, device, lease, but, err);
        return r ? r : fit_share(tenants, device, lease, but, err);
}

int tenants_fit(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
                struct err *err)
{
        for (unsigned int i = 0; i < tenants->n_devices; i++) {
                int r = lease->devices[i].is_granted ? fit_device(tenants, i, lease, but, err) : 0;

                if (r)
                        return r;
        }
        return swap_fit_host(tenants, lease, but, err);
}

static bool is_name_byte(char c)
{
        return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

bool tenants_name_is_good(const char *name)
{
        size_t n = strlen(name);

        for (size_t i = 0; i < n; i++)
                if (!is_name_byte(name[i]))
                        return false;
        return n >= 1 && n <= 63 && isalnum((unsigned char)name[0]);
}

/* Other characters become '_'; room is left for a number. */
static void name_from(const char *text, char ret[static 64])
{
        (void)snprintf(ret, 64, "%.56s", *text ? text : "tenant");
        for (char *at = ret; *at; at++)
                if (!is_name_byte(*at))
                        *at = '_';
        if (!isalnum((unsigned char)ret[0]))
                ret[0] = 't';
}

int tenants_name(const struct tenants *tenants, const struct message_request *request, char ret[static 64],
                 struct err *err)
{
        char base[64], name[64];

        if (request->is_named && request->tenant[0]) {
                if (!tenants_name_is_good(request->tenant))
                        return err_say(err, TENANTS_E_BAD_NAME,
                                       "a name has 1 to 63 letters, digits, '.', '_' or '-', a letter or digit first");
                if (tenants_find(tenants, request->tenant))
                        return err_say(err, TENANTS_E_NAME_TAKEN,
                                       "there is a tenant '%s' already: choose another --name, or end it "
                                       "('sublet end %s')",
                                       request->tenant, request->tenant);
                (void)snprintf(ret, 64, "%s", request->tenant);
                return 0;
        }
        name_from(request->tenant[0] ? request->tenant : request->command, base);
        (void)snprintf(name, sizeof(name), "%s", base);
        for (size_t i = 2; tenants_find(tenants, name); i++)
                (void)snprintf(name, sizeof(name), "%.56s-%zu", base, i % 100000);
        (void)snprintf(ret, 64, "%s", name);
        return 0;
}

int tenants_put(struct tenants *tenants, const struct message_lease *lease, struct tenant **ret)
{
        struct tenant *tenant = calloc(1, sizeof(*tenant)), **at = &tenants->first;

        if (!tenant)
                return -ENOMEM;
        tenants_spend_team(tenants, lease->team);
        tenant->lease = *lease;
        tenant->source.fd = tenant->segment = -1;
        while (*at) /* in the order of arrival */
                at = &(*at)->next;
        *at = tenant;
        tenants->n++;
        *ret = tenant;
        return 0;
}

void tenants_take(struct tenants *tenants, struct tenant *tenant)
{
        struct tenant **at = &tenants->first;

        while (*at && *at != tenant)
                at = &(*at)->next;
        if (!*at)
                return;
        *at = tenant->next;
        tenant->next = NULL;
        tenants->n--;
}

void tenant_free(struct tenant *tenant)
{
        if (!tenant)
                return;
        control_block_unmap(tenant->control);
        descriptors_drop(tenant->segment, daemon_sender(tenant->lease.owner));
        free(tenant->report);
        free(tenant->minute);
        free(tenant);
}

struct tenant *tenants_find(const struct tenants *tenants, const char *name)
{
        struct tenant *t = tenants->first;

        while (t && strcmp(t->lease.tenant, name))
                t = t->next;
        return t;
}

struct tenant *tenants_find_id(const struct tenants *tenants, uint64_t id)
{
        struct tenant *t = tenants->first;

        while (t && t->lease.id != id)
                t = t->next;
        return t;
}

struct tenant *tenants_find_container(const struct tenants *tenants, const char *pod, const char *container)
{
        struct tenant *t = tenants->first;

        while (t && (strcmp(t->lease.container.pod, pod) || strcmp(t->lease.container.container, container)))
                t = t->next;
        return t;
}

struct tenant *tenants_find_runtime(const struct tenants *tenants, const char *id)
{
        struct tenant *t = tenants->first;

        while (t && strcmp(t->lease.container.id, id))
                t = t->next;
        return t;
}

struct tenant *tenants_find_shim(const struct tenants *tenants, pid_t shim)
{
        struct tenant *t = tenants->first;

        while (t && t->shim != shim)
                t = t->next;
        return t;
}

/* What a tenant without a share gets, by the device where that is least. */
static permille equal_part(const struct tenants *tenants, const struct tenant *tenant)
{
        uint32_t least = TURNS_WHOLE * TURNS_PPM;

        for (unsigned int i = 0; i < tenants->n_devices; i++) {
                uint32_t part;
                size_t n = 0;

                if (!tenant_has(tenant, i))
                        continue;
                for (const struct tenant *t = tenants->first; t; t = t->next)
                        n += tenant_has(t, i) && !t->lease.share && !t->is_kept;
                part = turns_equal_part(tenants_promised(tenants, i, NULL), n);
                if (part < least)
                        least = part;
        }
        return least / TURNS_PPM;
}

bool tenants_divide(struct tenants *tenants)
{
        bool has_changed = false;

        for (struct tenant *t = tenants->first; t; t = t->next) {
                permille share = t->lease.share ? t->lease.share : equal_part(tenants, t);

                has_changed |= share != t->share;
                t->share = share;
        }
        return has_changed;
}

const char *tenant_state_name(const struct tenant *tenant)
{
        static const char *const names[] = { "starting", "starting", "running", "lost" };
        static const char *const suspensions[] = { "running",  "suspending", "suspended",
                                                   "resuming", "resuming",   "ending" };

        if (tenant->is_kept)
                return "kept";
        return tenant->state == TENANT_RUNNING ? suspensions[tenant->suspension.state] : names[tenant->state];
}

bool tenant_swaps(const struct tenant *tenant)
{
        return tenant->lease.swap && !tenant->is_kept;
}

bytes tenant_held(const struct tenant *tenant, unsigned int device)
{
        return tenant->control ? (bytes)tenant->control->devices[device].held : 0;
}
