/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/overview.h"

#include "base/cleanup.h"
#include "ask/field.h"
#include "cli/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void copy(char *to, size_t size, const json_t *object, const char *name)
{
        (void)snprintf(to, size, "%s", field_text(object, name));
}

static void put_health(struct overview_device *device, const json_t *health)
{
        device->temperature = field_real(health, "temperature_celsius");
        device->watts = field_real(health, "power_watts");
        device->watts_limit = field_real(health, "power_limit_watts");
        device->clock = field_real(health, "sm_clock_hertz");
}

static int put_devices(struct overview *overview, const json_t *answer)
{
        size_t n = json_array_size(answer), i;
        struct overview_device *devices = calloc(n + 1, sizeof(*devices));
        const json_t *from;

        if (!devices)
                return -ENOMEM;
        json_array_foreach (answer, i, from) {
                struct overview_device *to = &devices[i];

                to->index = (unsigned int)field_number(from, "index");
                copy(to->name, sizeof(to->name), from, "name");
                copy(to->policy, sizeof(to->policy), from, "policy");
                copy(to->mode, sizeof(to->mode), from, "mode");
                copy(to->state, sizeof(to->state), from, "state");
                to->memory = field_number(from, "memory_bytes");
                to->leased = field_number(from, "leased_bytes");
                to->held = field_number(from, "held_bytes");
                to->busy = field_permille(from, "busy_permille");
                put_health(to, json_object_get(from, "health"));
                to->n_others = (unsigned int)field_number(json_object_get(from, "others"), "tenants");
                to->others = field_number(json_object_get(from, "others"), "held_bytes");
                to->swap = field_number(from, "swap_bytes");
                to->swap_used = field_number(from, "swap_used_bytes");
        }
        free(overview->devices);
        overview->devices = devices;
        overview->n_devices = n;
        return 0;
}

/* A missed second repeats the newest sample: top was slow, the tenant was there. */
static void remember(struct overview_row *row, nsec now)
{
        int64_t second = now / NSEC_PER_SEC, passed = second - row->second;
        double *newest = &row->minute[OVERVIEW_MINUTE - 1];

        if (row->second && passed <= 0) {
                *newest = (*newest * row->n_sums + row->granted) / (row->n_sums + 1);
                row->n_sums++;
                return;
        }
        if (!row->second || passed > OVERVIEW_MINUTE) {
                for (int i = 0; i < OVERVIEW_MINUTE; i++)
                        row->minute[i] = -1;
        } else {
                memmove(row->minute, row->minute + passed, (size_t)(OVERVIEW_MINUTE - passed) * sizeof(*newest));
                for (int64_t i = OVERVIEW_MINUTE - passed; i < OVERVIEW_MINUTE; i++)
                        row->minute[i] = row->granted;
        }
        *newest = row->granted;
        row->second = second;
        row->n_sums = 1;
}

static void read_processes(struct overview_row *row, const json_t *processes)
{
        const json_t *process;
        size_t i;

        json_array_foreach (processes, i, process) {
                struct overview_process *to = &row->processes[row->n_shown];

                if (row->n_shown == OVERVIEW_PROCESSES)
                        return;
                to->id = (unsigned int)field_number(process, "pid");
                to->held = field_number(process, "held_bytes");
                copy(to->command, sizeof(to->command), process, "command");
                row->n_shown++;
        }
}

/* The daemon's own memory of the latest minute. */
static void read_minute(struct overview_row *row, const json_t *minute, nsec now)
{
        size_t n = json_array_size(minute), skip = n > OVERVIEW_MINUTE ? n - OVERVIEW_MINUTE : 0;

        if (!n)
                return;
        for (int i = 0; i < OVERVIEW_MINUTE; i++)
                row->minute[i] = -1;
        for (size_t i = skip; i < n; i++) {
                double granted = json_number_value(json_array_get(minute, i));

                row->minute[OVERVIEW_MINUTE - (n - skip) + (i - skip)] = granted < 0    ? 0 :
                                                                         granted > 1000 ? 1000 :
                                                                                          granted;
        }
        row->second = now / NSEC_PER_SEC;
        row->n_sums = 1;
}

static void read_sleep(struct overview_row *row, const json_t *tenant, const json_t *device)
{
        const char *state = field_text(tenant, "state");
        bool is_out = !strcmp(state, "suspended");

        copy(row->waits_for, sizeof(row->waits_for), tenant, "waits_for");
        if (is_out && field_is(tenant, "swap"))
                (void)snprintf(row->asleep, sizeof(row->asleep), "out%s", *row->waits_for ? ", waits" : "");
        else if (is_out || !strcmp(state, "suspending") || !strcmp(state, "resuming"))
                (void)snprintf(row->asleep, sizeof(row->asleep), "%s", state);
        row->swapped = field_number(device, "swapped_bytes");
}

static void read_row(struct overview_row *row, const json_t *tenant, const json_t *device)
{
        double cap = field_permille(device, "cap_permille");

        copy(row->tenant, sizeof(row->tenant), tenant, "tenant");
        copy(row->class, sizeof(row->class), tenant, "class");
        copy(row->sms, sizeof(row->sms), tenant, "sms");
        copy(row->job, sizeof(row->job), tenant, "job");
        copy(row->group, sizeof(row->group), tenant, "group");
        copy(row->command, sizeof(row->command), tenant, "command");
        row->uid = (unsigned int)field_number(tenant, "uid");
        row->n_processes = (unsigned int)field_number(tenant, "processes");
        row->since = field_moment(tenant, "since");
        row->device = (unsigned int)field_number(device, "index");
        row->granted = field_permille(device, "granted_permille");
        row->promised = field_permille(device, "promised_permille");
        row->share = field_permille(device, "share_permille");
        row->cap = cap > 0 ? cap : 1000;
        row->held = field_number(device, "held_bytes");
        row->quota = field_number(device, "quota_bytes");
        row->peak = field_number(device, "peak_bytes");
        row->n_refused = field_number(device, "refused");
        row->used = (nsec)field_number(device, "used_ns");
        row->is_waiting = field_is(device, "waiting");
        read_sleep(row, tenant, device);
        row->borrowed = loans_sum(field_array(device, "borrowed"));
        row->lent = loans_sum(field_array(device, "lent"));
        engines_format(json_object_get(device, "engines"), row->engines, sizeof(row->engines));
        read_processes(row, field_array(device, "holders"));
}

/* The row that is known of this tenant on this device. */
static const struct overview_row *row_find(const struct overview *overview, const struct overview_row *like)
{
        for (size_t i = 0; i < overview->n_rows + overview->n_hidden; i++)
                if (overview->rows[i].device == like->device && !strcmp(overview->rows[i].tenant, like->tenant))
                        return &overview->rows[i];
        return NULL;
}

static void put_row(const struct overview *overview, struct overview_row *row, const json_t *tenant,
                    const json_t *device, nsec now)
{
        const struct overview_row *known;

        read_row(row, tenant, device);
        known = row_find(overview, row);
        if (known) {
                memcpy(row->minute, known->minute, sizeof(row->minute));
                row->second = known->second;
                row->n_sums = known->n_sums;
        } else
                read_minute(row, field_array(device, "minute_permille"), now);
        remember(row, now);
}

int overview_update(struct overview *overview, const json_t *devices, const json_t *tenants, nsec now)
{
        const json_t *tenant, *device;
        struct overview_row *rows;
        size_t n = 0, i, k;

        json_array_foreach (tenants, i, tenant)
                n += json_array_size(field_array(tenant, "devices"));
        rows = calloc(n + 1, sizeof(*rows));
        if (!rows || put_devices(overview, devices) < 0) {
                free(rows);
                return -ENOMEM;
        }
        n = 0;
        json_array_foreach (tenants, i, tenant)
                json_array_foreach (field_array(tenant, "devices"), k, device)
                        put_row(overview, &rows[n++], tenant, device, now);
        free(overview->rows);
        overview->rows = rows;
        overview->n_rows = n;
        overview->n_hidden = 0;
        overview->n_tenants = json_array_size(tenants);
        return 0;
}

static bool matches(const struct overview_row *row, const char *word)
{
        return strcasestr(row->tenant, word) || strcasestr(row->command, word) || strcasestr(row->job, word) ||
               strcasestr(row->group, word);
}

void overview_filter(struct overview *overview)
{
        size_t n = overview->n_rows + overview->n_hidden, n_shown = 0;

        for (size_t i = 0; i < n; i++) {
                struct overview_row row = overview->rows[i];

                if (!matches(&row, overview->filter))
                        continue;
                overview->rows[i] = overview->rows[n_shown];
                overview->rows[n_shown++] = row;
        }
        overview->n_rows = n_shown;
        overview->n_hidden = n - n_shown;
}

static int by_name(const struct overview_row *a, const struct overview_row *b)
{
        int r = strcmp(a->tenant, b->tenant);

        return r ? r : a->device < b->device ? -1 : a->device > b->device;
}

static int by_gpu(const struct overview_row *a, const struct overview_row *b)
{
        return a->granted > b->granted ? -1 : a->granted < b->granted;
}

static int by_memory(const struct overview_row *a, const struct overview_row *b)
{
        return a->held > b->held ? -1 : a->held < b->held;
}

static int by_refused(const struct overview_row *a, const struct overview_row *b)
{
        return a->n_refused > b->n_refused ? -1 : a->n_refused < b->n_refused;
}

static const struct {
        const char *name;
        int (*compare)(const struct overview_row *a, const struct overview_row *b);
} orders[OVERVIEW_N_ORDERS] = {
        [OVERVIEW_BY_GPU] = { "gpu", by_gpu },
        [OVERVIEW_BY_NAME] = { "name", by_name },
        [OVERVIEW_BY_MEMORY] = { "memory", by_memory },
        [OVERVIEW_BY_REFUSED] = { "refused", by_refused },
};

struct sorting {
        enum overview_order order;
        int sign;
};

static int row_compare(const void *a, const void *b, void *context)
{
        const struct sorting *sorting = context;
        int r = orders[sorting->order].compare(a, b);

        return sorting->sign * (r ? r : by_name(a, b));
}

void overview_sort(struct overview *overview, enum overview_order order, bool is_reversed)
{
        struct sorting sorting = { order, is_reversed ? -1 : 1 };

        if (overview->n_rows)
                qsort_r(overview->rows, overview->n_rows, sizeof(*overview->rows), row_compare, &sorting);
}

const char *overview_order_name(enum overview_order order)
{
        return orders[order].name;
}

void overview_done(struct overview *overview)
{
        free(overview->devices);
        free(overview->rows);
        *overview = (struct overview){ 0 };
}
