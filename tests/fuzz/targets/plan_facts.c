/* SPDX-License-Identifier: Apache-2.0 */
/* A file of figures, whatever it says: refused in a line, or figures that a plan can be made with. */
#include "base/err.h"
#include "conf/file.h"
#include "plan/read.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static const struct plan_service services[] = {
                { .name = "a",
                  .team = "x",
                  .memory = 20 * GIB,
                  .load = 0.6,
                  .time = 5000000,
                  .goal = 50000000,
                  .count = 2 },
                { .name = "b",
                  .memory = 60 * GIB,
                  .load = 0.1,
                  .time = 5000000,
                  .wake = 1000000000,
                  .burst = PLAN_RARE,
                  .count = 3 },
                { .name = "c", .memory = 10 * GIB, .load = 0.1, .time = 5000000, .trust = PLAN_UNTRUSTED, .count = 2 },
        };
        static struct plan plan;
        struct err err = { 0 };
        json_t *file = NULL;
        int r = conf_parse("x", (const char *)data, size, &file, NULL, &err);

        plan = (struct plan){ .services = services, .n_services = 3, .n_devices = 2, .facts = plan_facts };
        if (r == 0)
                r = plan_read_facts("x", file, &plan.facts, &err);
        json_decref(file);
        if (r < 0 && !err.text[0])
                abort();
        plan.devices[0].model = plan.devices[1].model = plan_model("H200");
        if (r == 0)
                plan_make(&plan);
        return 0;
}
