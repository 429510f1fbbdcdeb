/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon answers, whatever it says: refused in a line, or devices that a plan can be made of. */
#include "base/err.h"
#include "plan/live.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static const struct plan_input input = {
                .services = { { .name = "a", .memory = GIB, .load = 0.3, .count = 3 },
                              { .name = "a-1", .memory = GIB, .load = 0.3, .count = 1 } },
                .n_services = 2,
        };
        static struct plan_live live;
        static struct plan plan;
        struct err err = { 0 };
        json_t *both = json_loadb((const char *)data, size, 0, NULL);
        int r = plan_live_read(json_array_get(both, 0), json_array_get(both, 1), &input, &live, &err);

        require(r == 0 || (r < 0 && err.text[0]));
        if (r == 0) {
                plan = (struct plan){ .services = input.services, .n_services = input.n_services, .facts = plan_facts };
                plan_live_fill(&live, &plan);
                plan_make(&plan);
                for (size_t i = 0; i < plan.n_devices; i++)
                        require(!plan.devices[i].others.is_lost || !plan.devices[i].n_seats);
        }
        json_decref(both);
        return 0;
}
