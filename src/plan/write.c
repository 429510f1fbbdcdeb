/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as commands for a shell and as Deployments for kubectl.
 *
 * Replicas of a service with the same lease become one Deployment. Kubernetes places them itself, so only memory and a
 * share of time are written. Side by side they are in a trust group. A mode that pods cannot ask for is a comment.
 */
#include "plan/lease.h"
#include "plan/print.h"

#include <ctype.h>
#include <string.h>

static void print_left(FILE *to, const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_left; i++)
                (void)fprintf(to, "# does not fit: %s-%u: %s\n", plan->services[plan->left[i].service].name,
                              plan->left[i].replica + 1, plan->left[i].reason);
}

void plan_print_commands(FILE *to, const struct plan *plan)
{
        char command[PLAN_COMMAND];
        struct plan_lease lease;

        for (size_t i = 0; i < plan->n_devices; i++) {
                const struct plan_device *device = &plan->devices[i];

                if (device->n_seats)
                        (void)fprintf(to, "# GPU %zu, %s: %s\n", i, plan_mode_name(device->mode), device->reason);
                if (device->n_seats && device->mode == PLAN_SUSPEND)
                        (void)fprintf(to, "# under sublet daemon --swap %lluM, or more\n",
                                      (unsigned long long)(plan_asleep(plan, device->server, plan->n_devices) / MIB));
                for (size_t k = 0; k < device->n_seats; k++) {
                        if (device->seats[k].part) /* its command is at its first device */
                                continue;
                        plan_lease_of(plan, i, &device->seats[k], &lease);
                        plan_command(&lease, command);
                        (void)fprintf(to, "%s\n", command);
                }
        }
        print_left(to, plan);
}

/* Replicas of one service with one lease. */
struct group {
        struct plan_lease lease;
        unsigned int service, count;
};

static bool is_same(const struct plan_lease *a, const struct plan_lease *b)
{
        return a->quota == b->quota && a->way == b->way && a->has_share == b->has_share && a->share == b->share &&
               a->swap == b->swap && !strcmp(a->class, b->class) && !strcmp(a->group, b->group);
}

static size_t find_groups(const struct plan *plan, struct group groups[static PLAN_REPLICAS_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < plan->n_devices; i++)
                for (size_t k = 0; k < plan->devices[i].n_seats; k++) {
                        const struct plan_seat *seat = &plan->devices[i].seats[k];
                        struct plan_lease lease;
                        size_t at = 0;

                        if (seat->part)
                                continue;
                        plan_lease_of(plan, i, seat, &lease);
                        while (at < n && !(groups[at].service == seat->service && is_same(&groups[at].lease, &lease)))
                                at++;
                        if (at == PLAN_REPLICAS_MAX)
                                continue;
                        if (at == n)
                                groups[n++] = (struct group){ .lease = lease, .service = seat->service };
                        groups[at].count++;
                }
        return n;
}

/* A name as Kubernetes has them: "Chat.v2", its second group, is chat-v2-b. */
static void name_of(const struct plan *plan, const struct group *groups, size_t at, char ret[static PLAN_NAME])
{
        char suffix[8] = "";
        unsigned int nth = 0;

        for (size_t i = 0; i < at; i++)
                nth += groups[i].service == groups[at].service;
        if (nth)
                (void)snprintf(suffix, sizeof(suffix), "-%c%c", 'a' + (char)(nth / 26 % 26), 'a' + (char)(nth % 26));
        (void)snprintf(ret, PLAN_NAME, "%s%s", plan->services[groups[at].service].name, suffix);
        for (char *c = ret; *c; c++)
                *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
}

static void print_deployment(FILE *to, const struct plan *plan, const struct group *groups, size_t at)
{
        const struct plan_lease *lease = &groups[at].lease;
        const unsigned int parts = plan_parts(&plan->services[groups[at].service]);
        char name[PLAN_NAME], share[80] = "", count[48] = "", notes[128] = "";

        name_of(plan, groups, at, name);
        if (lease->has_share) /* whole percent, rounded down: together they are never more than a device */
                (void)snprintf(share, sizeof(share), ", sublet.dev/gpu-share: \"%u\"",
                               lease->share < 10 ? 1 : lease->share / 10);
        if (parts > 1)
                (void)snprintf(count, sizeof(count), "sublet.dev/gpu-count: \"%u\", ", parts);
        if (lease->group[0])
                (void)snprintf(notes, sizeof(notes), ", annotations: {sublet.dev/group: \"%s\"}", lease->group);
        else if (lease->swap)
                (void)snprintf(notes, sizeof(notes), ", annotations: {sublet.dev/swap: \"true\"}");
        (void)fprintf(to, "---\n");
        if (lease->group[0])
                (void)fprintf(to, "# planned side by side with group %s on one GPU; the scheduler chooses which\n",
                              lease->group);
        else if (lease->way != PLAN_TIME)
                (void)fprintf(to, "# planned on a GPU of --mode %s, which a pod cannot ask for\n",
                              plan_way_name(lease->way));
        (void)fprintf(to,
                      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: %u\n"
                      "  selector: {matchLabels: {app: %s}}\n  template:\n    metadata: {labels: {app: %s}%s}\n"
                      "    spec:\n      containers:\n      - name: main\n        image: IMAGE\n"
                      "        resources: {limits: {%ssublet.dev/gpu-mem: \"%llu\"%s}}\n",
                      name, groups[at].count, name, name, notes, count,
                      (unsigned long long)((lease->quota + GIB - 1) / GIB), share);
}

void plan_print_kubernetes(FILE *to, const struct plan *plan)
{
        static struct group groups[PLAN_REPLICAS_MAX]; /* large */
        size_t n = find_groups(plan, groups);

        for (size_t i = 0; i < n; i++)
                print_deployment(to, plan, groups, i);
        print_left(to, plan);
}
