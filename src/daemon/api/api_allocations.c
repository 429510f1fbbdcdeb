/* SPDX-License-Identifier: Apache-2.0 */
/* The device plugin's report of what Kubernetes has allocated: daemon/state/allocations.h. */
#include "daemon/api/api.h"

#include "base/err.h"

#include <errno.h>

static struct allocation_devices devices_of(const struct daemon *daemon)
{
        struct allocation_devices devices = { .n = daemon->n_devices };

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                devices.uuids[i] = daemon->devices[i].info.uuid;
        return devices;
}

void api_allocations_set(struct daemon *daemon, const struct api_request *request, const char *name,
                         struct api_response *ret)
{
        const struct allocation_devices devices = devices_of(daemon);
        struct allocations allocations;
        struct err err = { 0 };
        json_t *body;
        int r;

        (void)name;
        if (!request->sees_all) {
                api_error(ret, API_FORBIDDEN,
                          "only the device plugin reports allocations, as root or as the daemon's user");
                return;
        }
        body = json_loadb(request->body ? request->body : "", request->body_size, JSON_REJECT_DUPLICATES, NULL);
        r = allocations_read(body, &devices, &allocations, &err);
        json_decref(body);
        if (r < 0) {
                api_error(ret, r == -EINVAL ? API_BAD_REQUEST : API_FAILED, "%s", err.text);
                return;
        }
        allocations_done(&daemon->allocations);
        daemon->allocations = allocations;
        daemon->allocations.received_at = clock_now();
        allocations_keep(&daemon->allocations, &daemon->tenants, daemon->tenants.kept);
        api_json(ret, API_OK, json_pack("{s:I}", "allocations", (json_int_t)allocations.n));
}

static void set_word(json_t *row, const char *name, const char *word)
{
        if (*word)
                (void)json_object_set_new(row, name, json_string(word));
}

static json_t *row_json(const struct daemon *daemon, const struct allocation *row, unsigned int device,
                        const struct tenant *tenant)
{
        json_t *json =
                json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:I, s:i, s:s?, s:o}", "pod", row->pod, "namespace",
                          row->namespace, "name", row->name, "container", row->container, "device", (int)device, "uuid",
                          daemon->devices[device].info.uuid, "mem_bytes", (json_int_t)row->memory[device],
                          "share_permille", (int)row->share, "tenant", tenant ? tenant->lease.tenant : NULL,
                          "tenant_id", tenant ? json_integer((json_int_t)tenant->lease.id) : json_null());

        set_word(json, "cap", row->terms.cap);
        set_word(json, "class", row->terms.class);
        set_word(json, "latency", row->terms.latency);
        set_word(json, "swap", row->terms.swap);
        set_word(json, "capabilities", row->terms.capabilities);
        set_word(json, "group", row->terms.group);
        return json;
}

void api_allocations(struct daemon *daemon, const struct api_request *request, const char *name,
                     struct api_response *ret)
{
        json_t *array = json_array();

        (void)name;
        for (size_t i = 0; i < daemon->allocations.n; i++) {
                const struct allocation *row = &daemon->allocations.rows[i];
                const struct tenant *tenant = tenants_find_container(&daemon->tenants, row->pod, row->container);

                if (!request->sees_all && (!tenant || !api_sees(request, tenant)))
                        continue;
                for (unsigned int device = 0; device < daemon->n_devices; device++)
                        if (row->memory[device])
                                (void)json_array_append_new(array, row_json(daemon, row, device, tenant));
        }
        api_json(ret, API_OK, array);
}
