#include "plan/say.h"

#include "base/when.h"

#include <string.h>

static const char *class_of(const struct plan *plan, const struct plan_device *device, const struct plan_seat *seat)
{
        if (device->mode != PLAN_TURNS && device->mode != PLAN_SLICES && device->mode != PLAN_SUSPEND)
                return "normal";
        if (seat->is_latency)
                return "latency";
        return seat->is_batch || !plan->services[seat->service].time ? "batch" : "normal";
}

static bool has_share(const struct plan_device *device)
{
        return device->mode == PLAN_TURNS || device->mode == PLAN_SLICES || device->mode == PLAN_SUSPEND;
}

void plan_command(const struct plan *plan, size_t device, const struct plan_seat *seat, char *ret, size_t size)
{
        const struct plan_device *on = &plan->devices[device];
        const struct plan_service *service = &plan->services[seat->service];
        char share[80] = "";

        if (has_share(on))
                (void)snprintf(share, sizeof(share), " --share %u.%u --class %s", seat->share / 10, seat->share % 10,
                               class_of(plan, on, seat));
        else if (on->mode == PLAN_SPATIAL || on->mode == PLAN_MIG)
                (void)snprintf(share, sizeof(share), " --mode %s", plan_mode_name(on->mode));
        (void)snprintf(ret, size, "sublet run --name %s-%u --gpu %zu --mem %lluM%s -- COMMAND", service->name,
                       seat->replica + 1, device, (unsigned long long)(service->memory / MIB), share);
}

static void say_seat(FILE *to, const struct plan *plan, const struct plan_device *device, const struct plan_seat *seat)
{
        const struct plan_service *service = &plan->services[seat->service];
        char memory[BYTES_TEXT], name[80], what[40] = "", answers[60] = "";

        (void)snprintf(name, sizeof(name), "%s-%u", service->name, seat->replica + 1);
        if (seat->compute)
                (void)snprintf(what, sizeof(what), "MIG %u of 7, memory %u of 8", seat->compute, seat->memory);
        else if (has_share(device))
                (void)snprintf(what, sizeof(what), "share %u.%u%% %s", seat->share / 10, seat->share % 10,
                               class_of(plan, device, seat));
        if (seat->p99)
                (void)snprintf(answers, sizeof(answers), "p99 about %.1f ms%s", (double)seat->p99 / 1e6,
                               service->goal ? "" : " (no goal)");
        (void)fprintf(to, "    %-24s %s", name, bytes_format(service->memory, memory));
        if (*what || *answers)
                (void)fprintf(to, "%*s%s", 11 - (int)strlen(memory), "", what);
        if (*answers)
                (void)fprintf(to, "%*s%s", 28 - (int)strlen(what), "", answers);
        (void)fputc('\n', to);
}

static void say_device(FILE *to, const struct plan *plan, size_t index)
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
                say_seat(to, plan, device, &device->seats[i]);
        (void)fprintf(to, "    because %s\n", device->reason);
}

void plan_say(FILE *to, const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_devices; i++)
                say_device(to, plan, i);
        for (size_t i = 0; i < plan->n_left; i++)
                (void)fprintf(to, "does not fit: %s-%u: %s\n", plan->services[plan->left[i].service].name,
                              plan->left[i].replica + 1, plan->left[i].reason);
}

static json_t *seat_json(const struct plan *plan, size_t device, const struct plan_seat *seat)
{
        const struct plan_service *service = &plan->services[seat->service];
        const struct plan_device *on = &plan->devices[device];
        char command[300], name[80];
        json_t *found;

        (void)snprintf(name, sizeof(name), "%s-%u", service->name, seat->replica + 1);
        plan_command(plan, device, seat, command, sizeof(command));
        found = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "tenant", name, "service", service->name, "mem_bytes",
                          (json_int_t)service->memory, "class", class_of(plan, on, seat), "mode",
                          plan_mode_name(on->mode), "command", command);
        if (found && has_share(on))
                (void)json_object_set_new(found, "share_permille", json_integer(seat->share));
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
        json_t *devices = json_array(), *left = json_array();

        for (size_t i = 0; i < plan->n_devices; i++)
                (void)json_array_append_new(devices, device_json(plan, i));
        for (size_t i = 0; i < plan->n_left; i++)
                (void)json_array_append_new(
                        left, json_pack("{s:s, s:i, s:s}", "service", plan->services[plan->left[i].service].name,
                                        "replica", (int)plan->left[i].replica + 1, "because", plan->left[i].reason));
        return json_pack("{s:o, s:o}", "devices", devices, "does_not_fit", left);
}
