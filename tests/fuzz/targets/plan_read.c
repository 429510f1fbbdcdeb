/* SPDX-License-Identifier: Apache-2.0 */
/* A file of services, whatever it says: refused in a line, or a plan that keeps its promises P1 and P4. */
#include "base/err.h"
#include "conf/file.h"
#include "plan/read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(int holds)
{
        if (!holds)
                abort();
}

static void check_device(const struct plan *plan, const struct plan_device *device)
{
        bytes sum = 0;

        for (size_t i = 0; i < device->n_seats; i++) {
                const struct plan_service *service = &plan->services[device->seats[i].service];

                sum += service->memory;
                require(device->seats[i].replica < service->count);
                require(service->trust != PLAN_UNTRUSTED || device->n_seats == 1 || device->mode == PLAN_MIG);
                require(!service->goal || device->seats[i].p99 <= service->goal);
        }
        require(device->mode == PLAN_SUSPEND || sum <= device->model->memory);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct plan_input input;
        static struct plan plan;
        struct err err = { 0 };
        json_t *file = NULL;
        size_t wanted = 0, placed = 0;

        if (conf_parse("x", (const char *)data, size, &file, NULL, &err) < 0)
                return 0;
        if (plan_read("x", file, NULL, &input, &err) < 0) {
                require(err.text[0] != '\0');
                json_decref(file);
                return 0;
        }
        json_decref(file);
        plan.services = input.services;
        plan.n_services = input.n_services;
        plan.n_devices = input.n_devices;
        plan.facts = plan_facts;
        for (size_t i = 0; i < input.n_devices; i++)
                plan.devices[i].model = input.devices[i];
        plan_make(&plan);
        for (size_t i = 0; i < plan.n_devices; i++) {
                check_device(&plan, &plan.devices[i]);
                placed += plan.devices[i].n_seats;
        }
        for (size_t i = 0; i < plan.n_services; i++)
                wanted += plan.services[i].count;
        require(placed + plan.n_left == wanted || plan.n_left == PLAN_REPLICAS_MAX);
        return 0;
}
