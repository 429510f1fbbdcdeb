/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/change.h"

#include "ask/ask.h"
#include "base/err.h"
#include "base/when.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* ---- what differs -------------------------------------------------------------------------------- */

static void text_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void text_add(char *text, const char *format, ...)
{
        size_t n = strlen(text);
        va_list args;

        if (n)
                n += (size_t)snprintf(text + n, PLAN_TEXT - n, ", ");
        va_start(args, format);
        if (n < PLAN_TEXT)
                (void)vsnprintf(text + n, PLAN_TEXT - n, format, args);
        va_end(args);
}

static const char *share_format(unsigned int share, char buffer[static WHEN_TEXT])
{
        return share ? permille_format(share, buffer) : "none";
}

static void change_compare(struct plan_change *change)
{
        const struct plan_lease *lease = &change->lease;
        const struct plan_tenant *tenant = change->tenant;
        char was[WHEN_TEXT], is[WHEN_TEXT];

        if (tenant->quota != lease->quota)
                text_add(change->what, "memory %s -> %s", bytes_format(tenant->quota, was),
                         bytes_format(lease->quota, is));
        if (lease->has_share && tenant->share != lease->share)
                text_add(change->what, "share %s -> %s", share_format(tenant->share, was),
                         share_format(lease->share, is));
        if (lease->has_share && strcmp(tenant->class, lease->class) != 0)
                text_add(change->what, "class %s -> %s", tenant->class, lease->class);
        change->action = change->what[0] ? PLAN_SET : PLAN_KEEP;
}

static void find_change(const struct plan_live *live, const struct plan_seat *seat, struct plan_change *change)
{
        const struct plan_tenant *tenant = plan_live_find(live, seat->service, seat->replica);
        const bool has_one = !(change->lease.devices & (change->lease.devices - 1));

        change->tenant = tenant;
        if (!tenant) {
                change->action = PLAN_START;
                return;
        }
        if (has_one && tenant->is_on_several)
                text_add(change->what, "it has several GPUs now");
        else if (!has_one && tenant->devices != change->lease.devices)
                text_add(change->what, "it is on other GPUs now");
        else if (has_one && tenant->device != change->lease.device)
                text_add(change->what, "it is on GPU %u now", tenant->device);
        if (tenant->way != change->lease.way)
                text_add(change->what, "it shares by --mode %s now", plan_way_name(tenant->way));
        if (change->lease.swap && !tenant->swap)
                text_add(change->what, "it runs without --swap");
        change->action = PLAN_MOVE;
        if (!change->what[0])
                change_compare(change);
}

void plan_changes_find(const struct plan *plan, const struct plan_live *live, struct plan_changes *ret)
{
        ret->n = 0;
        for (size_t i = 0; i < plan->n_devices; i++)
                for (size_t k = 0; k < plan->devices[i].n_seats; k++) {
                        struct plan_change *change = &ret->rows[ret->n];

                        if (plan->devices[i].seats[k].part) /* its first part has said it */
                                continue;
                        ret->n++;
                        *change = (struct plan_change){ .action = PLAN_KEEP };
                        plan_lease_of(plan, i, &plan->devices[i].seats[k], &change->lease);
                        find_change(live, &plan->devices[i].seats[k], change);
                }
        for (size_t i = 0; i < live->n_tenants; i++) {
                struct plan_change *change = &ret->rows[ret->n];

                if (live->tenants[i].replica < plan->services[live->tenants[i].service].count)
                        continue;
                *change = (struct plan_change){ .action = PLAN_EXTRA, .tenant = &live->tenants[i] };
                (void)snprintf(change->lease.name, sizeof(change->lease.name), "%s", live->tenants[i].name);
                change->lease.device = live->tenants[i].device;
                change->lease.devices = live->tenants[i].devices;
                ret->n++;
        }
}

size_t plan_changes_count(const struct plan_changes *changes)
{
        size_t n = 0;

        for (size_t i = 0; i < changes->n; i++)
                n += changes->rows[i].action != PLAN_KEEP && !changes->rows[i].is_done;
        return n;
}

/* ---- changing it --------------------------------------------------------------------------------- */

enum part {
        PART_SMALLER, /* only what takes less: makes room for others */
        PART_ALL,
};

/* NULL: nothing changes in that part. */
static json_t *body_of(const struct plan_change *change, enum part part)
{
        const struct plan_lease *lease = &change->lease;
        const struct plan_tenant *tenant = change->tenant;
        json_t *body = json_object();

        if (part == PART_ALL ? tenant->quota != lease->quota : tenant->quota > lease->quota)
                (void)json_object_set_new(body, "mem", json_integer((json_int_t)lease->quota));
        if (lease->has_share && (part == PART_ALL ? tenant->share != lease->share : tenant->share > lease->share))
                (void)json_object_set_new(body, "share_permille", json_integer((json_int_t)lease->share));
        if (part == PART_ALL && lease->has_share && strcmp(tenant->class, lease->class) != 0)
                (void)json_object_set_new(body, "class", json_string(lease->class));
        if (json_object_size(body))
                return body;
        json_decref(body);
        return NULL;
}

/* 0; -EBUSY: does not fit yet; other errors. The row keeps the refusal's text. */
static int order(struct ask *ask, struct plan_change *change, enum part part, struct err *err)
{
        json_t *body = body_of(change, part), *answer = NULL;
        char path[ASK_PATH];
        int r = body ? ask_path(path, "/v1/tenants/", change->lease.name) : 0;

        if (body && r == 0)
                r = ask_patch(ask, path, body, &answer, err);
        json_decref(body);
        json_decref(answer);
        change->is_done = r == 0 && part == PART_ALL;
        change->refusal[0] = '\0';
        if (r < 0)
                (void)snprintf(change->refusal, sizeof(change->refusal), "%.*s", PLAN_TEXT - 1, err->text);
        return r;
}

static bool is_pending(const struct plan_change *change)
{
        return change->action == PLAN_SET && !change->is_done;
}

/* Applies what fits, in rounds until one changes nothing: each tenant that shrinks makes room for another. */
static int apply_rounds(struct ask *ask, struct plan_changes *changes, struct err *err)
{
        bool has_moved = true;

        while (has_moved) {
                has_moved = false;
                for (size_t i = 0; i < changes->n; i++) {
                        int r = is_pending(&changes->rows[i]) ? order(ask, &changes->rows[i], PART_ALL, err) : -EBUSY;

                        if (r == -ECONNREFUSED || r == -ETIMEDOUT)
                                return r;
                        has_moved |= r == 0;
                }
        }
        return 0;
}

int plan_changes_apply(struct ask *ask, struct plan_changes *changes, struct err *err)
{
        size_t n_pending = 0;
        int r = apply_rounds(ask, changes, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < changes->n; i++)
                n_pending += is_pending(&changes->rows[i]);
        /* One tenant gives memory and wants time, another the reverse: then in two steps, giving first. */
        for (size_t i = 0; i < changes->n && n_pending > 1; i++)
                if (is_pending(&changes->rows[i]))
                        (void)order(ask, &changes->rows[i], PART_SMALLER, err);
        if (n_pending > 1 && (r = apply_rounds(ask, changes, err)) < 0)
                return r;
        for (size_t i = 0; i < changes->n; i++)
                if (is_pending(&changes->rows[i]))
                        return err_say(err, -EBUSY, "the daemon refused: %s: %s", changes->rows[i].lease.name,
                                       changes->rows[i].refusal);
        return 0;
}
