/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers to GET /v1/devices and /v1/tenants as the planner needs them.
 *
 * A caller that is not root sees only its own tenants. So what others have on a device is the sum that is leased there
 * less what the plan's own tenants have.
 */
#include "plan/live.h"

#include "ask/ask.h"
#include "ask/field.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum plan_way way_of(const char *word)
{
        for (unsigned int way = PLAN_TIME; way < PLAN_N_WAYS; way++)
                if (!strcmp(word, plan_way_name((enum plan_way)way)))
                        return (enum plan_way)way;
        return PLAN_TIME;
}

/* The model of our table, with the device's real memory. */
static void read_model(struct plan_live *live, size_t at, const char *name, bytes memory)
{
        const struct plan_model *known = plan_model_of(name, memory);
        struct plan_model *model = &live->models[at];

        (void)field_clean(*name ? name : "device", live->names[at], sizeof(live->names[at]));
        *model = known ? *known : (struct plan_model){ .name = live->names[at] };
        if (model->memory && memory != model->memory) /* an instance has its part of the real memory */
                model->mig_slice = (bytes)((double)model->mig_slice * (double)memory / (double)model->memory);
        model->memory = memory;
}

static uint64_t links_of(const json_t *device)
{
        const json_t *one;
        uint64_t links = 0;
        size_t i;

        json_array_foreach (field_array(device, "nvlink"), i, one)
                if (json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) < PLAN_DEVICES_MAX)
                        links |= UINT64_C(1) << json_integer_value(one);
        return links;
}

static int read_devices(const json_t *devices, struct plan_live *ret, struct err *err)
{
        const json_t *device;
        size_t i;

        if (!json_is_array(devices) || !json_array_size(devices) || json_array_size(devices) > PLAN_DEVICES_MAX)
                return err_say(err, -EPROTO, "the daemon names no devices, or more than %d", PLAN_DEVICES_MAX);
        ret->n_devices = json_array_size(devices);
        json_array_foreach (devices, i, device) {
                struct plan_others *others = &ret->others[i];

                read_model(ret, i, field_text(device, "name"), field_number(device, "memory_bytes"));
                ret->nvlink[i] = links_of(device);
                ret->host = field_number(device, "swap_bytes");
                others->memory = field_number(device, "leased_bytes");
                others->share = (unsigned int)field_permille(device, "share_permille");
                others->way = field_number(device, "tenants") ? way_of(field_text(device, "mode")) : PLAN_NO_WAY;
                others->is_lost = !strcmp(field_text(device, "state"), "lost");
                (void)field_clean(field_text(device, "policy"), ret->policy, sizeof(ret->policy));
        }
        return 0;
}

/* "chat-2" is the second replica of the service chat. */
static bool find_service(const struct plan_input *input, const char *name, struct plan_tenant *ret)
{
        const char *dash = strrchr(name, '-');
        uint64_t number;

        if (!dash || dash[1] < '1' || dash[1] > '9' || number_parse(dash + 1, &number) < 0 || number > 100000)
                return false;
        for (unsigned int i = 0; i < input->n_services; i++)
                if (strlen(input->services[i].name) == (size_t)(dash - name) &&
                    !memcmp(input->services[i].name, name, (size_t)(dash - name))) {
                        ret->service = i;
                        ret->replica = (unsigned int)number - 1;
                        return true;
                }
        return false;
}

static bytes less(bytes a, bytes b)
{
        return a > b ? a - b : 0;
}

/* Subtracts what the tenant has on the device from what others have there. */
static int take_out(struct plan_live *live, const json_t *has, unsigned int share, size_t *n_left, struct err *err)
{
        uint64_t index = field_number(has, "index");
        struct plan_others *others = &live->others[index < live->n_devices ? index : 0];

        if (index >= live->n_devices)
                return err_say(err, -EPROTO, "the daemon names a tenant on a device that it does not have");
        others->memory = less(others->memory, field_number(has, "quota_bytes"));
        others->share = (unsigned int)less(others->share, share);
        if (n_left[index] && --n_left[index] == 0)
                others->way = PLAN_NO_WAY;
        return 0;
}

static int read_tenant(const json_t *tenant, const struct plan_input *input, struct plan_live *ret, size_t *n_left,
                       struct err *err)
{
        const json_t *devices = field_array(tenant, "devices"), *first = json_array_get(devices, 0), *device;
        struct plan_tenant *row = &ret->tenants[ret->n_tenants];
        const char *name = field_text(tenant, "tenant");
        size_t i;
        int r;

        *row = (struct plan_tenant){ 0 };
        if (!first || strlen(name) >= sizeof(row->name) || !find_service(input, name, row) ||
            !strcmp(field_text(tenant, "state"), "ended"))
                return 0;
        if (ret->n_tenants + 1 == PLAN_REPLICAS_MAX)
                return err_say(err, -EPROTO, "more than %d replicas run", PLAN_REPLICAS_MAX - 1);
        (void)snprintf(row->name, sizeof(row->name), "%s", name);
        row->device = (unsigned int)field_number(first, "index");
        row->is_on_several = json_array_size(devices) > 1;
        row->way = way_of(field_text(tenant, "mode"));
        row->swap = field_is(tenant, "swap");
        row->quota = field_number(first, "quota_bytes");
        row->share = (unsigned int)field_permille(tenant, "share_asked_permille");
        row->cap = (unsigned int)field_permille(first, "cap_permille");
        (void)field_clean(field_text(tenant, "class"), row->class, sizeof(row->class));
        json_array_foreach (devices, i, device) {
                r = take_out(ret, device, row->share, n_left, err);
                if (r < 0)
                        return r;
                row->devices |= UINT64_C(1) << field_number(device, "index");
        }
        ret->n_tenants++;
        return 0;
}

int plan_live_read(const json_t *devices, const json_t *tenants, const struct plan_input *input, struct plan_live *ret,
                   struct err *err)
{
        size_t n_left[PLAN_DEVICES_MAX] = { 0 }, i;
        const json_t *tenant;
        int r;

        memset(ret, 0, sizeof(*ret));
        r = read_devices(devices, ret, err);
        for (i = 0; i < ret->n_devices && r == 0; i++)
                n_left[i] = field_number(json_array_get(devices, i), "tenants");
        json_array_foreach (tenants, i, tenant) {
                if (r == 0)
                        r = read_tenant(tenant, input, ret, n_left, err);
        }
        return r;
}

int plan_live_ask(struct ask *ask, const struct plan_input *input, struct plan_live *ret, struct err *err)
{
        json_t *devices = NULL, *tenants = NULL;
        int r = ask_get(ask, "/v1/devices", &devices, err);

        if (r == 0)
                r = ask_get(ask, "/v1/tenants", &tenants, err);
        if (r == 0)
                r = plan_live_read(devices, tenants, input, ret, err);
        json_decref(devices);
        json_decref(tenants);
        return r;
}

void plan_live_fill(const struct plan_live *live, struct plan *plan)
{
        plan->n_devices = live->n_devices;
        for (size_t i = 0; i < live->n_devices; i++)
                plan->devices[i] = (struct plan_device){ .model = &live->models[i],
                                                         .others = live->others[i],
                                                         .nvlink = live->nvlink[i] };
        if (!plan->host)
                plan->host = live->host;
        plan->n_pins = 0;
        for (size_t i = 0; i < live->n_tenants; i++)
                if (live->tenants[i].replica < plan->services[live->tenants[i].service].count)
                        plan->pins[plan->n_pins++] =
                                (struct plan_pin){ live->tenants[i].service, live->tenants[i].replica,
                                                   live->tenants[i].devices };
}

const struct plan_tenant *plan_live_find(const struct plan_live *live, unsigned int service, unsigned int replica)
{
        for (size_t i = 0; i < live->n_tenants; i++)
                if (live->tenants[i].service == service && live->tenants[i].replica == replica)
                        return &live->tenants[i];
        return NULL;
}
