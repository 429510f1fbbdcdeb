/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/print.h"

#include "plan/lease.h"

#include <string.h>

static void print_seat(FILE *to, const struct plan *plan, size_t device, const struct plan_seat *seat)
{
        const struct plan_service *service = &plan->services[seat->service];
        char memory[BYTES_TEXT], what[40] = "", answers[60] = "", gpus[PLAN_GPUS];
        struct plan_lease lease;

        plan_lease_of(plan, device, seat, &lease);
        if (seat->compute)
                (void)snprintf(what, sizeof(what), "MIG %u of 7, memory %u of 8", seat->compute, seat->memory);
        else if (lease.has_share)
                (void)snprintf(what, sizeof(what), "share %u.%u%% %s", lease.share / 10, lease.share % 10, lease.class);
        if (seat->p99)
                (void)snprintf(answers, sizeof(answers), "p99 about %.1f ms%s", (double)seat->p99 / 1e6,
                               service->goal ? "" : " (no goal)");
        (void)fprintf(to, "    %-24s %s", lease.name, bytes_format(service->memory, memory));
        if (*what || *answers)
                (void)fprintf(to, "%*s%s", 11 - (int)strlen(memory), "", what);
        if (*answers)
                (void)fprintf(to, "%*s%s", 28 - (int)strlen(what), "", answers);
        if (plan_parts(service) > 1) {
                plan_gpus_format(lease.devices, gpus);
                (void)fprintf(to, "  (one of GPUs %s)", gpus);
        }
        (void)fputc('\n', to);
}

static void print_device(FILE *to, const struct plan *plan, size_t index)
{
        const struct plan_device *device = &plan->devices[index];
        char left[BYTES_TEXT];

        if (!device->n_seats) {
                (void)fprintf(to, "GPU %zu  %-10s not needed\n", index, device->model->name);
                return;
        }
        (void)fprintf(to, "GPU %zu  %-10s %-8s  %s and %.0f%% of the time free\n", index, device->model->name,
                      plan_mode_name(device->mode), bytes_format(device->memory_free, left), 100 * device->time_free);
        for (size_t i = 0; i < device->n_seats; i++)
                print_seat(to, plan, index, &device->seats[i]);
        (void)fprintf(to, "    because %s\n", device->reason);
}

/* "sleepers of 4 GiB: 20 fit in 80 GiB of host memory; 2 of them are awake at once, on 1 device" */
static void print_sleepers(FILE *to, const struct plan_sleepers *sleepers)
{
        char memory[BYTES_TEXT], host[BYTES_TEXT];

        if (!sleepers->memory)
                return;
        (void)fprintf(to, "sleepers of %s: ", bytes_format(sleepers->memory, memory));
        if (!sleepers->n_devices)
                (void)fprintf(to, "none fits: no device has room for one that wakes\n");
        else if (!sleepers->n)
                (void)fprintf(to, "none fits: the host memory for it is taken\n");
        else
                (void)fprintf(to, "%u fit in %s of host memory%s; at once %u can be awake, on %u device%s\n",
                              sleepers->n, bytes_format(sleepers->host, host),
                              sleepers->is_host_full ? "" : ", and more tenants no device takes", sleepers->n_awake,
                              sleepers->n_devices, sleepers->n_devices == 1 ? "" : "s");
}

static json_t *sleepers_json(const struct plan_sleepers *sleepers)
{
        return json_pack("{s:I, s:I, s:i, s:i, s:i, s:b}", "memory_bytes", (json_int_t)sleepers->memory,
                         "host_memory_bytes", (json_int_t)sleepers->host, "fit", (int)sleepers->n, "awake_at_once",
                         (int)sleepers->n_awake, "devices", (int)sleepers->n_devices, "is_host_memory_full",
                         (int)sleepers->is_host_full);
}

void plan_print(FILE *to, const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_devices; i++)
                print_device(to, plan, i);
        for (size_t i = 0; i < plan->n_left; i++)
                (void)fprintf(to, "does not fit: %s-%u: %s\n", plan->services[plan->left[i].service].name,
                              plan->left[i].replica + 1, plan->left[i].reason);
        print_sleepers(to, &plan->sleepers);
}

static json_t *seat_json(const struct plan *plan, size_t device, const struct plan_seat *seat)
{
        const struct plan_service *service = &plan->services[seat->service];
        char command[PLAN_COMMAND];
        struct plan_lease lease;
        json_t *found, *gpus;

        plan_lease_of(plan, device, seat, &lease);
        plan_command(&lease, command);
        found = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "tenant", lease.name, "service", service->name, "mem_bytes",
                          (json_int_t)lease.quota, "class", lease.class, "mode",
                          plan_mode_name(plan->devices[device].mode), "command", command);
        if (found && plan_parts(service) > 1) { /* one lease, listed at each of its devices */
                gpus = json_array();
                for (uint64_t left = lease.devices; left; left &= left - 1)
                        (void)json_array_append_new(gpus, json_integer(__builtin_ctzll(left)));
                (void)json_object_set_new(found, "gpus", gpus);
                (void)json_object_set_new(found, "part", json_integer((json_int_t)seat->part));
        }
        if (found && lease.has_share)
                (void)json_object_set_new(found, "share_permille", json_integer(lease.share));
        if (found && seat->compute)
                (void)json_object_set_new(found, "instance",
                                          json_pack("{s:i, s:i}", "compute_slices", (int)seat->compute, "memory_slices",
                                                    (int)seat->memory));
        if (found && seat->p99)
                (void)json_object_set_new(found, "p99_ms", json_real((double)seat->p99 / 1e6));
        if (found && service->goal)
                (void)json_object_set_new(found, "goal_ms", json_real((double)service->goal / 1e6));
        return found;
}

static json_t *device_json(const struct plan *plan, size_t index)
{
        const struct plan_device *device = &plan->devices[index];
        json_t *leases = json_array();

        if (!device->n_seats) {
                json_decref(leases);
                return json_pack("{s:I, s:s, s:n, s:[]}", "gpu", (json_int_t)index, "model", device->model->name,
                                 "mode", "leases");
        }
        for (size_t i = 0; i < device->n_seats; i++)
                (void)json_array_append_new(leases, seat_json(plan, index, &device->seats[i]));
        return json_pack("{s:I, s:s, s:s, s:I, s:f, s:s, s:o}", "gpu", (json_int_t)index, "model", device->model->name,
                         "mode", plan_mode_name(device->mode), "memory_free_bytes", (json_int_t)device->memory_free,
                         "time_free", device->time_free, "because", device->reason, "leases", leases);
}

json_t *plan_json(const struct plan *plan)
{
        json_t *devices = json_array(), *left = json_array(), *found;

        for (size_t i = 0; i < plan->n_devices; i++)
                (void)json_array_append_new(devices, device_json(plan, i));
        for (size_t i = 0; i < plan->n_left; i++)
                (void)json_array_append_new(
                        left, json_pack("{s:s, s:i, s:s}", "service", plan->services[plan->left[i].service].name,
                                        "replica", (int)plan->left[i].replica + 1, "because", plan->left[i].reason));
        found = json_pack("{s:o, s:o}", "devices", devices, "does_not_fit", left);
        if (found && plan->sleepers.memory)
                (void)json_object_set_new(found, "sleepers", sleepers_json(&plan->sleepers));
        return found;
}
